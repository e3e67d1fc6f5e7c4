/* The tables of STAR files that a refinement writes, with RELION's names. */
#include "stages/refiner/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/particle_table.h"
#include "common/formats/relion.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"

static enum status put_text(struct star_table *t, size_t row, const char *column, const char *text, struct err *err) {
    const struct star_cell cell = {.column = column, .text = text};
    return star_cells_put(t, row, &cell, 1, err);
}

/* A table must have a column before it can have rows. */
static enum status new_row(struct star_table *t, const char *first_column, size_t *ret_row, struct err *err) {
    TRY(star_column_add(t, first_column, "0", NULL, err));
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

static enum status export_optics(const struct particle_set *set, struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, "optics", true, &t, err));
    for (int i = 0; i < set->optics_count; i++) {
        const struct particle_optics *o = &set->optics[i];
        size_t row;
        TRY(new_row(t, "rlnOpticsGroup", &row, err));
        if (o->source >= 0 && set->sources[o->source].file != NULL)
            TRY(copy_row(star_table_find(set->sources[o->source].file, "optics"), o->row, t, row, err));
        const struct star_cell cells[] = {
            {.column = "rlnOpticsGroup", .value = i + 1, .integer = true},
            {.column = "rlnVoltage", .value = o->voltage},
            {.column = "rlnSphericalAberration", .value = o->spherical_aberration},
            {.column = "rlnAmplitudeContrast", .value = o->amplitude_contrast},
            {.column = "rlnImagePixelSize", .value = o->pixel_size},
            {.column = "rlnImageSize", .value = set->box, .integer = true},
            {.column = "rlnImageDimensionality", .value = 2, .integer = true},
        };
        TRY(put_text(t, row, "rlnOpticsGroupName", o->name, err));
        TRY(star_cells_put(t, row, cells, sizeof cells / sizeof *cells, err));
        TRY(fill_row(t, row, err));
    }
    return STATUS_OK;
}

static bool exported(const struct particle *p) {
    return p->source >= 0 && p->aligned;
}

static enum status export_particle(const struct particle_set *set, const struct particle *p, struct star_table *t,
                                   struct err *err) {
    size_t row;
    double rot, tilt, psi;
    TRY(new_row(t, "rlnImageName", &row, err));
    TRY(copy_row(particle_table_find(set->sources[p->source].file), p->row, t, row, err));
    matrix_to_euler(p->pose, &rot, &tilt, &psi);
    const struct star_cell cells[] = {
        {.column = "rlnOpticsGroup", .value = p->optics + 1, .integer = true},
        {.column = "rlnAngleRot", .value = rot},
        {.column = "rlnAngleTilt", .value = tilt},
        {.column = "rlnAnglePsi", .value = psi},
        {.column = "rlnOriginXAngst", .value = p->origin[0] * set->pixel_size},
        {.column = "rlnOriginYAngst", .value = p->origin[1] * set->pixel_size},
        {.column = "rlnClassNumber", .value = p->class_index + 1, .integer = true},
        {.column = "rlnNormCorrection", .value = p->norm},
        {.column = "rlnLogLikeliContribution", .value = p->log_likelihood},
        {.column = "rlnMaxValueProbDistribution", .value = p->max_probability},
        {.column = "rlnNrOfSignificantSamples", .value = p->significant, .integer = true},
        {.column = "rlnRandomSubset", .value = p->half + 1, .integer = true},
        {.column = "rlnParticleReliability", .value = p->reliability},
    };
    char group[32];
    snprintf(group, sizeof group, "group_%d", p->optics + 1);
    TRY(put_text(t, row, "rlnGroupName", group, err));
    TRY(put_text(t, row, "rlnImageName", p->name, err));
    /* The last column only where it says anything. */
    size_t count = sizeof cells / sizeof *cells;
    TRY(star_cells_put(t, row, cells,
                       p->reliability != 1 || star_column_find(t, "rlnParticleReliability") >= 0 ? count : count - 1,
                       err));
    return fill_row(t, row, err);
}

enum status particle_set_export(const struct particle_set *set, struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(export_optics(set, file, err));
    TRY(star_table_add(file, "particles", true, &t, err));
    for (size_t i = 0; i < set->count; i++)
        if (exported(&set->particles[i])) TRY(export_particle(set, &set->particles[i], t, err));
    return STATUS_OK;
}

/* RELION 3.1 has noise spectra for groups of particles, and numbers these as they come up in the data file; here they
 * are the optics groups. groups: room for optics_count. */
static int list_groups(const struct particle_set *set, int *groups) {
    int count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        bool known = !exported(p);
        for (int g = 0; g < count && !known; g++)
            known = groups[g] == p->optics;
        if (!known) groups[count++] = p->optics;
    }
    return count;
}

/* Where the next iteration stands. */
static bool local_next(const struct refiner *r) {
    int order = r->schedule.order;
    return order > r->options.healpix_order && order >= r->options.local_order - (r->schedule.sharp ? 1 : 0);
}

static enum status general_table(const struct refiner *r, const struct half *h, int groups, struct star_file *file,
                                 struct err *err) {
    const bool local = local_next(r);
    const double sigma = local ? sampling_angle_step(r->schedule.order) : 0;
    const struct star_cell cells[] = {
        {.column = "rlnReferenceDimensionality", .value = 3, .integer = true},
        {.column = "rlnDataDimensionality", .value = 2, .integer = true},
        {.column = "rlnOriginalImageSize", .value = r->box, .integer = true},
        {.column = "rlnCurrentResolution", .value = r->resolution},
        {.column = "rlnCurrentImageSize", .value = r->pixels.size, .integer = true},
        {.column = "rlnPaddingFactor", .value = 2},
        {.column = "rlnFourierSpaceInterpolator", .value = 1, .integer = true},
        {.column = "rlnMinRadiusNnInterpolation", .value = 10, .integer = true},
        {.column = "rlnPixelSize", .value = r->pixel_size},
        {.column = "rlnNrClasses", .value = r->reference_count, .integer = true},
        {.column = "rlnNrBodies", .value = 1, .integer = true},
        {.column = "rlnNrGroups", .value = groups, .integer = true},
        {.column = "rlnNrOpticsGroups", .value = r->sigma2_optics, .integer = true},
        {.column = "rlnTau2FudgeFactor", .value = r->options.tau_fudge},
        {.column = "rlnNormCorrectionAverage", .value = h->average_norm},
        {.column = "rlnSigmaOffsetsAngst", .value = h->sigma_offset * r->pixel_size},
        {.column = "rlnOrientationalPriorMode", .value = local, .integer = true},
        {.column = "rlnSigmaPriorRotAngle", .value = sigma},
        {.column = "rlnSigmaPriorTiltAngle", .value = sigma},
        {.column = "rlnSigmaPriorPsiAngle", .value = sigma},
        {.column = "rlnLogLikelihood", .value = h->likelihood_sum},
        {.column = "rlnAveragePmax", .value = r->schedule.average_pmax},
    };
    struct star_table *t;
    TRY(star_table_add(file, "model_general", false, &t, err));
    return star_cells_put(t, 0, cells, sizeof cells / sizeof *cells, err);
}

static enum status class_table(const struct refiner *r, const struct half *h, const char *map, struct star_file *file,
                               struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, "model_classes", true, &t, err));
    for (int k = 0; k < r->reference_count; k++) {
        const struct reference *c = &h->references[k];
        char name[PATH_SIZE + 160];
        snprintf(name, sizeof name, classifies(r) ? "%s_class%03d.mrc" : "%s", map, k + 1);
        const struct star_cell cells[] = {
            {.column = "rlnReferenceImage", .text = name},
            {.column = "rlnClassDistribution", .value = classifies(r) ? c->share : 1},
            {.column = "rlnAccuracyRotations", .value = r->schedule.accuracy_angle},
            {.column = "rlnAccuracyTranslationsAngst", .value = r->schedule.accuracy_offset * r->pixel_size},
            {.column = "rlnEstimatedResolution", .value = classifies(r) ? c->resolution : r->resolution},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status spectra_table(const struct refiner *r, const struct half *h, int k, struct star_file *file,
                                 struct err *err) {
    const struct reference *c = &h->references[k];
    struct star_table *t;
    char name[64];
    snprintf(name, sizeof name, "model_class_%d", k + 1);
    TRY(star_table_add(file, name, true, &t, err));
    for (int s = 0; s < r->shells; s++) {
        double extent = r->box * r->pixel_size;
        const struct star_cell cells[] = {
            {.column = "rlnSpectralIndex", .value = s, .integer = true},
            {.column = "rlnResolution", .value = s / extent},
            {.column = "rlnAngstromResolution", .value = s > 0 ? extent / s : 999},
            {.column = "rlnSsnrMap", .value = c->ssnr[s]},
            {.column = "rlnGoldStandardFsc", .value = r->fsc[s]},
            {.column = "rlnFourierCompleteness", .value = c->completeness[s]},
            {.column = "rlnReferenceSigma2", .value = c->sigma2_reconstruction[s]},
            {.column = "rlnReferenceTau2", .value = c->tau2[s]},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

/* A prior over directions that knows nothing, as long as RELION's own list of them; over all classes its sum is 1. */
static enum status directions_table(const struct refiner *r, const struct half *h, int k, struct star_file *file,
                                    struct err *err) {
    struct star_table *t;
    char name[64];
    long count = relion_direction_count(r->symmetry.name, r->schedule.order);
    double share = classifies(r) ? h->references[k].share : 1;
    snprintf(name, sizeof name, "model_pdf_orient_class_%d", k + 1);
    TRY(star_table_add(file, name, true, &t, err));
    TRY(star_column_add(t, "rlnOrientationDistribution", "0", NULL, err));
    const struct star_cell cell = {.column = "rlnOrientationDistribution", .value = share / fmax((double)count, 1)};
    for (long i = 0; i < count; i++)
        TRY(star_cells_row(t, &cell, 1, err));
    return STATUS_OK;
}

static enum status noise_table(const struct refiner *r, const struct half *h, const char *name, int optics,
                               struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, name, true, &t, err));
    for (int s = 0; s < r->shells; s++) {
        const struct star_cell cells[] = {
            {.column = "rlnSpectralIndex", .value = s, .integer = true},
            {.column = "rlnResolution", .value = s / (r->box * r->pixel_size)},
            {.column = "rlnSigma2Noise", .value = h->sigma2[(size_t)optics * (size_t)r->shells + (size_t)s]},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

/* By group, as RELION 3.1 reads them, and by optics group, as later ones do. */
static enum status noise_tables(const struct refiner *r, const struct half *h, const int *groups, int count,
                                struct star_file *file, struct err *err) {
    struct star_table *t;
    char name[64];
    TRY(star_table_add(file, "model_groups", true, &t, err));
    for (int g = 0; g < count; g++) {
        int members = 0;
        for (int i = 0; i < h->member_count; i++)
            members += r->set.particles[h->members[i]].optics == groups[g];
        snprintf(name, sizeof name, "group_%d", groups[g] + 1);
        const struct star_cell cells[] = {
            {.column = "rlnGroupNumber", .value = g + 1, .integer = true},
            {.column = "rlnGroupName", .text = name},
            {.column = "rlnGroupNrParticles", .value = members, .integer = true},
            {.column = "rlnGroupScaleCorrection", .value = 1},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    for (int g = 0; g < count; g++) {
        snprintf(name, sizeof name, "model_group_%d", g + 1);
        TRY(noise_table(r, h, name, groups[g], file, err));
    }
    for (int o = 0; o < r->sigma2_optics; o++) {
        snprintf(name, sizeof name, "model_optics_group_%d", o + 1);
        TRY(noise_table(r, h, name, o, file, err));
    }
    return STATUS_OK;
}

enum status tables_model(const struct refiner *r, const struct half *h, const char *map, struct star_file *file,
                         struct err *err) {
    _cleanup_(mem_free) int *groups = NULL;
    TRY(mem_new((size_t)r->set.optics_count, sizeof *groups, "groups of particles", &groups, err));
    int count = list_groups(&r->set, groups);
    TRY(general_table(r, h, count, file, err));
    TRY(class_table(r, h, map, file, err));
    for (int k = 0; k < r->reference_count; k++) {
        TRY(spectra_table(r, h, k, file, err));
        TRY(directions_table(r, h, k, file, err));
    }
    return noise_tables(r, h, groups, count, file, err);
}

/* "refiner/run_it003" + ending. */
static const char *join(const char *stem, const char *ending, char *out) {
    snprintf(out, PATH_SIZE + 64, "%s%s", stem, ending);
    return out;
}

static bool has_ctf(const struct particle_set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (exported(&set->particles[i]) && set->particles[i].has_ctf) return true;
    return false;
}

enum status tables_optimiser(const struct refiner *r, const char *root, const char *stem, struct star_file *file,
                             struct err *err) {
    const struct schedule *s = &r->schedule;
    const double px = r->pixel_size, changed = fmax(r->half[0].changed + r->half[1].changed, 1);
    char model[PATH_SIZE + 64], model2[PATH_SIZE + 64], data[PATH_SIZE + 64], sampling[PATH_SIZE + 64];
    const struct relion_optimiser optimiser = {
        .root = root,
        .model = join(stem, classifies(r) ? "_model.star" : "_half1_model.star", model),
        .model2 = classifies(r) ? NULL : join(stem, "_half2_model.star", model2),
        .data = join(stem, "_data.star", data),
        .sampling = join(stem, "_sampling.star", sampling),
        .mask = r->mask_path,
        .iteration = s->iteration,
        .iterations = classifies(r) ? s->iteration + r->options.iterations - r->whole_iterations : 999,
        .auto_refine = !classifies(r),
        .correct_ctf = has_ctf(&r->set),
        .converged = s->converged,
        .large_increment = s->large_increment,
        .seed = r->options.seed,
        .diameter = r->options.diameter,
        .join_resolution = classifies(r) ? -1 : r->options.join_resolution,
        .finest = -1,
        .mask_edge = MASK_EDGE,
        .local_order = r->options.local_order,
        .increment = s->increment,
        .since_resolution = s->since_resolution,
        .since_changes = s->since_changes,
        .best_resolution = s->best_resolution,
        .accuracy_angle = s->accuracy_angle,
        .accuracy_offset = s->accuracy_offset * px,
        .change_angle = (r->half[0].angle_change + r->half[1].angle_change) / changed,
        .change_classes = classifies(r) ? r->half[0].class_change / changed : 0,
        .change_offset = sqrt((r->half[0].offset_change + r->half[1].offset_change) / (2 * changed)) * px,
        .smallest_angle = fmin(s->smallest_angle, 999),
        .smallest_offset = fmin(s->smallest_offset * px, 999),
    };
    const struct star_cell own[] = {
        {.column = "rlnAveragePmax", .value = s->average_pmax},
        {.column = "rlnCurrentResolution", .value = r->resolution},
        {.column = "icestreamResolutionShell", .value = s->resolution_shell, .integer = true},
        {.column = "icestreamBestPmax", .value = s->best_pmax},
        {.column = "icestreamPosesAreSharp", .value = s->sharp, .integer = true},
        {.column = "icestreamParticles", .value = (double)r->set.present, .integer = true},
        {.column = "icestreamWholeIterations", .value = r->whole_iterations, .integer = true},
        {.column = "icestreamWholeParticles", .value = (double)r->whole_particles, .integer = true},
    };
    struct star_table *t;
    TRY(star_table_add(file, "optimiser_general", false, &t, err));
    TRY(relion_optimiser_put(t, &optimiser, err));
    /* The last two are a classification's. */
    return star_cells_put(t, 0, own, sizeof own / sizeof *own - (classifies(r) ? 0 : 2), err);
}

enum status tables_sampling(const struct refiner *r, struct star_file *file, struct err *err) {
    const struct schedule *s = &r->schedule;
    const struct relion_sampling sampling = {
        .directions = true,
        .order = s->order,
        .symmetry = r->symmetry.name,
        .psi_step = sampling_angle_step(s->order),
        .offset_range = s->offset_range * r->pixel_size,
        .offset_step = s->offset_step * r->pixel_size,
        .perturbation = s->perturbation,
    };
    struct star_table *t;
    TRY(star_table_add(file, "sampling_general", false, &t, err));
    return relion_sampling_put(t, &sampling, err);
}
