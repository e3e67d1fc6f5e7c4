/* The tables of STAR files that a refinement writes, with RELION's names. */
#include "stages/refiner/tables.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct cell {
    const char *column;
    double value;
    bool integer;
};

static enum status put_text(struct star_table *t, size_t row, const char *column, const char *text, struct err *err) {
    int index;
    TRY(star_column_add(t, column, "0", &index, err));
    return star_set(t, row, index, text, err);
}

static enum status put_cells(struct star_table *t, size_t row, const struct cell *cells, size_t count,
                             struct err *err) {
    for (size_t i = 0; i < count; i++) {
        int index;
        TRY(star_column_add(t, cells[i].column, "0", &index, err));
        TRY(cells[i].integer ? star_set_integer(t, row, index, lround(cells[i].value), err)
                             : star_set_number(t, row, index, cells[i].value, err));
    }
    return STATUS_OK;
}

/* A table must have a column before it can have rows. */
static enum status new_row(struct star_table *t, const char *first_column, size_t *ret_row, struct err *err) {
    int index;
    TRY(star_column_add(t, first_column, "0", &index, err));
    return star_row_add(t, ret_row, err);
}

static enum status copy_row(const struct star_table *from, size_t from_row, struct star_table *to, size_t to_row,
                            struct err *err) {
    for (size_t c = 0; c < star_column_count(from); c++)
        TRY(put_text(to, to_row, star_column_name(from, c), star_get(from, from_row, (int)c), err));
    return STATUS_OK;
}

/* Columns that only other sources have: RELION wants a value in each. */
static enum status fill_row(struct star_table *t, size_t row, struct err *err) {
    for (size_t c = 0; c < star_column_count(t); c++)
        if (*star_get(t, row, (int)c) == '\0') TRY(star_set(t, row, (int)c, "0", err));
    return STATUS_OK;
}

static struct star_table *particle_table(struct star_file *file) {
    struct star_table *t = star_table_find(file, "particles");
    if (t == NULL) t = star_table_find(file, "images");
    return t != NULL ? t : star_table_find(file, "");
}

static enum status export_optics(const struct particle_set *set, struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, "optics", true, &t, err));
    for (int i = 0; i < set->optics_count; i++) {
        const struct particle_optics *o = &set->optics[i];
        size_t row;
        TRY(new_row(t, "rlnOpticsGroup", &row, err));
        if (o->source >= 0 && set->sources[o->source].file != NULL)
            TRY(copy_row(star_table_find(set->sources[o->source].file, "optics"), o->row, t, row, err));
        const struct cell cells[] = {
            {"rlnOpticsGroup", i + 1, true},
            {"rlnVoltage", o->voltage, false},
            {"rlnSphericalAberration", o->spherical_aberration, false},
            {"rlnAmplitudeContrast", o->amplitude_contrast, false},
            {"rlnImagePixelSize", o->pixel_size, false},
            {"rlnImageSize", set->box, true},
            {"rlnImageDimensionality", 2, true},
        };
        TRY(put_text(t, row, "rlnOpticsGroupName", o->name, err));
        TRY(put_cells(t, row, cells, sizeof cells / sizeof *cells, err));
        TRY(fill_row(t, row, err));
    }
    return STATUS_OK;
}

static enum status export_particle(const struct particle_set *set, const struct particle *p, struct star_table *t,
                                   struct err *err) {
    size_t row;
    double rot, tilt, psi;
    TRY(new_row(t, "rlnImageName", &row, err));
    TRY(copy_row(particle_table(set->sources[p->source].file), p->row, t, row, err));
    matrix_to_euler(p->pose, &rot, &tilt, &psi);
    const struct cell cells[] = {
        {"rlnOpticsGroup", p->optics + 1, true},
        {"rlnAngleRot", rot, false},
        {"rlnAngleTilt", tilt, false},
        {"rlnAnglePsi", psi, false},
        {"rlnOriginXAngst", p->origin[0] * set->pixel_size, false},
        {"rlnOriginYAngst", p->origin[1] * set->pixel_size, false},
        {"rlnClassNumber", 1, true},
        {"rlnNormCorrection", p->norm, false},
        {"rlnLogLikeliContribution", p->log_likelihood, false},
        {"rlnMaxValueProbDistribution", p->max_probability, false},
        {"rlnNrOfSignificantSamples", p->significant, true},
        {"rlnRandomSubset", p->half + 1, true},
        {"rlnParticleReliability", p->reliability, false},
    };
    TRY(put_text(t, row, "rlnImageName", p->name, err));
    /* The last column only where it says anything. */
    size_t count = sizeof cells / sizeof *cells;
    TRY(put_cells(t, row, cells,
                  p->reliability != 1 || star_column_find(t, "rlnParticleReliability") >= 0 ? count : count - 1, err));
    return fill_row(t, row, err);
}

enum status particle_set_export(const struct particle_set *set, struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(export_optics(set, file, err));
    TRY(star_table_add(file, "particles", true, &t, err));
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].source >= 0 && set->particles[i].aligned)
            TRY(export_particle(set, &set->particles[i], t, err));
    return STATUS_OK;
}

static enum status general_table(const struct refiner *r, const struct half *h, double resolution,
                                 struct star_file *file, struct err *err) {
    const struct cell cells[] = {
        {"rlnReferenceDimensionality", 3, true},
        {"rlnDataDimensionality", 2, true},
        {"rlnOriginalImageSize", r->box, true},
        {"rlnCurrentResolution", resolution, false},
        {"rlnCurrentImageSize", r->pixels.size, true},
        {"rlnPaddingFactor", 2, false},
        {"rlnFourierSpaceInterpolator", 1, true},
        {"rlnPixelSize", r->pixel_size, false},
        {"rlnNrClasses", 1, true},
        {"rlnNrBodies", 1, true},
        {"rlnNrGroups", 1, true},
        {"rlnNrOpticsGroups", r->sigma2_optics, true},
        {"rlnTau2FudgeFactor", r->options.tau_fudge, false},
        {"rlnNormCorrectionAverage", h->average_norm, false},
        {"rlnSigmaOffsetsAngst", h->sigma_offset * r->pixel_size, false},
        {"rlnLogLikelihood", h->likelihood_sum, false},
        {"rlnAveragePmax", r->schedule.average_pmax, false},
    };
    struct star_table *t;
    TRY(star_table_add(file, "model_general", false, &t, err));
    return put_cells(t, 0, cells, sizeof cells / sizeof *cells, err);
}

static enum status class_table(const struct refiner *r, const char *reference, double resolution,
                               struct star_file *file, struct err *err) {
    struct star_table *t;
    size_t row;
    const struct cell cells[] = {
        {"rlnClassDistribution", 1, false},
        {"rlnAccuracyRotations", r->schedule.accuracy_angle, false},
        {"rlnAccuracyTranslationsAngst", r->schedule.accuracy_offset * r->pixel_size, false},
        {"rlnEstimatedResolution", resolution, false},
    };
    TRY(star_table_add(file, "model_classes", true, &t, err));
    TRY(new_row(t, "rlnReferenceImage", &row, err));
    TRY(put_text(t, row, "rlnReferenceImage", reference, err));
    return put_cells(t, row, cells, sizeof cells / sizeof *cells, err);
}

static enum status spectra_table(const struct refiner *r, const struct half *h, struct star_file *file,
                                 struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, "model_class_1", true, &t, err));
    for (int s = 0; s < r->shells; s++) {
        size_t row;
        double extent = r->box * r->pixel_size;
        const struct cell cells[] = {
            {"rlnSpectralIndex", s, true},
            {"rlnResolution", s / extent, false},
            {"rlnAngstromResolution", s > 0 ? extent / s : 999, false},
            {"rlnSsnrMap", h->ssnr[s], false},
            {"rlnGoldStandardFsc", r->fsc[s], false},
            {"rlnFourierCompleteness", h->completeness[s], false},
            {"rlnReferenceSigma2", h->sigma2_reconstruction[s], false},
            {"rlnReferenceTau2", h->tau2[s], false},
        };
        TRY(new_row(t, cells[0].column, &row, err));
        TRY(put_cells(t, row, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status noise_tables(const struct refiner *r, const struct half *h, struct star_file *file,
                                struct err *err) {
    for (int o = 0; o < r->sigma2_optics; o++) {
        struct star_table *t;
        char name[64];
        snprintf(name, sizeof name, "model_optics_group_%d", o + 1);
        TRY(star_table_add(file, name, true, &t, err));
        for (int s = 0; s < r->shells; s++) {
            size_t row;
            const struct cell cells[] = {
                {"rlnSpectralIndex", s, true},
                {"rlnResolution", s / (r->box * r->pixel_size), false},
                {"rlnSigma2Noise", h->sigma2[(size_t)o * (size_t)r->shells + (size_t)s], false},
            };
            TRY(new_row(t, cells[0].column, &row, err));
            TRY(put_cells(t, row, cells, sizeof cells / sizeof *cells, err));
        }
    }
    return STATUS_OK;
}

enum status tables_model(const struct refiner *r, const struct half *h, const char *reference, struct star_file *file,
                         struct err *err) {
    TRY(general_table(r, h, r->resolution, file, err));
    TRY(class_table(r, reference, r->resolution, file, err));
    TRY(spectra_table(r, h, file, err));
    return noise_tables(r, h, file, err);
}

enum status tables_optimiser(const struct refiner *r, struct star_file *file, struct err *err) {
    const struct schedule *s = &r->schedule;
    const struct cell cells[] = {
        {"rlnCurrentIteration", s->iteration, true},
        {"rlnHasConverged", s->converged, true},
        {"rlnDoAutoRefine", 1, true},
        {"rlnRandomSeed", r->options.seed, true},
        {"rlnParticleDiameter", r->options.diameter, false},
        {"rlnHealpixOrder", s->order, true},
        {"rlnOffsetRange", s->offset_range * r->pixel_size, false},
        {"rlnOffsetStep", s->offset_step * r->pixel_size, false},
        {"rlnSamplingPerturbInstance", s->perturbation, false},
        {"rlnCurrentImageSize", r->pixels.size, true},
        {"rlnIncrementImageSize", s->increment, true},
        {"rlnHasHighFscAtResolLimit", s->large_increment, true},
        {"rlnHasLargeSizeIncreaseIterationsAgo", 0, true},
        {"rlnNumberOfIterWithoutResolutionGain", s->since_resolution, true},
        {"rlnNumberOfIterWithoutChangingAssignments", s->since_changes, true},
        {"rlnBestResolutionThusFar", s->best_resolution, false},
        {"rlnSmallestChangesOrientations", fmin(s->smallest_angle, 999), false},
        {"rlnSmallestChangesOffsets", fmin(s->smallest_offset, 999), false},
        {"rlnAveragePmax", s->average_pmax, false},
        {"rlnCurrentResolution", r->resolution, false},
        {"icestreamResolutionShell", s->resolution_shell, true},
        {"icestreamParticles", (double)r->set.present, true},
    };
    struct star_table *t;
    TRY(star_table_add(file, "optimiser_general", false, &t, err));
    TRY(put_text(t, 0, "rlnSymmetryGroup", r->symmetry.name, err));
    return put_cells(t, 0, cells, sizeof cells / sizeof *cells, err);
}
