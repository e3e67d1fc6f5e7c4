/* Fills the tables of STAR files that a refinement writes, with RELION's names. */
#include "stages/refiner/files/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/particle_table.h"
#include "common/formats/relion.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "stages/refiner/accuracy.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/told.h"
#include "stages/refiner/unresolved.h"

/* Lists the groups that have noise spectra in RELION 3.1, which numbers them as they come up in the data file. Here
 * they are the optics groups. groups: room for optics_count. Returns how many. */
static int list_groups(const struct particle_set *set, int *groups) {
    int count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        bool known = !particle_is_exported(p);
        for (int g = 0; g < count && !known; g++)
            known = groups[g] == p->optics;
        if (!known) groups[count++] = p->optics;
    }
    return count;
}

/* Returns the resolution (Å) that is told; 999: none is. */
static double told_or_none(const struct refiner *r) {
    return told_why(r) != REFINER_RESOLVED ? 999 : r->told;
}

static enum status general_table(const struct refiner *r, const struct side *side, int groups, struct star_file *file,
                                 struct err *err) {
    const bool local = schedule_local_next(&r->schedule);
    const double sigma = local ? schedule_near_sigma(&r->schedule) : 0;
    const struct star_cell cells[] = {
        {.column = "rlnReferenceDimensionality", .value = 3, .integer = true},
        {.column = "rlnDataDimensionality", .value = 2, .integer = true},
        {.column = "rlnOriginalImageSize", .value = r->box, .integer = true},
        {.column = "rlnCurrentResolution", .value = classifies(r) ? r->told : told_or_none(r)},
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
        {.column = "rlnNormCorrectionAverage", .value = side->average_norm},
        {.column = "rlnSigmaOffsetsAngst", .value = side->sigma_offset * r->pixel_size},
        {.column = "rlnOrientationalPriorMode", .value = local, .integer = true},
        {.column = "rlnSigmaPriorRotAngle", .value = sigma},
        {.column = "rlnSigmaPriorTiltAngle", .value = sigma},
        {.column = "rlnSigmaPriorPsiAngle", .value = sigma},
        {.column = "rlnLogLikelihood", .value = side->likelihood_sum},
        {.column = "rlnAveragePmax", .value = r->schedule.average_pmax},
    };
    struct star_table *t;
    TRY(star_table_add(file, "model_general", false, &t, err));
    return star_cells_put(t, 0, cells, sizeof cells / sizeof *cells, err);
}

/* Returns the mean completeness of all voxels up to the shell to which the map holds signal. */
static double overall_completeness(const struct refiner *r, const struct reference *c) {
    double sum = 0, count = 0;
    for (int s = 0; s < r->shells && (s == 0 || c->ssnr[s] >= 1); s++) {
        const double voxels = s == 0 ? 1 : 4 * M_PI * s * s;
        sum += voxels * (double)c->completeness[s];
        count += voxels;
    }
    return sum / count;
}

/* Returns an accuracy for the table: 999 where it is not known, whatever its unit. */
static double known(double value) {
    return value > 0 && value < ACCURACY_UNKNOWN ? value : ACCURACY_UNKNOWN;
}

static enum status class_table(const struct refiner *r, const struct side *side, const char *map,
                               struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, "model_classes", true, &t, err));
    for (int k = 0; k < r->reference_count; k++) {
        const struct reference *c = &side->references[k];
        const double angle = classifies(r) ? c->accuracy_angle : r->schedule.accuracy_angle;
        const double offset = classifies(r)                       ? c->accuracy_offset
                              : r->schedule.accuracy_offset < 999 ? r->schedule.accuracy_offset * r->pixel_size
                                                                  : ACCURACY_UNKNOWN;
        char name[PATH_SIZE + 160];
        snprintf(name, sizeof name, classifies(r) ? "%s_class%03d.mrc" : "%s", map, k + 1);
        const struct star_cell cells[] = {
            {.column = "rlnReferenceImage", .text = name},
            {.column = "rlnClassDistribution", .value = classifies(r) ? c->share : 1},
            {.column = "rlnAccuracyRotations", .value = known(angle)},
            {.column = "rlnAccuracyTranslationsAngst", .value = known(offset)},
            {.column = "rlnEstimatedResolution", .value = classifies(r) ? c->resolution : told_or_none(r)},
            {.column = "rlnOverallFourierCompleteness", .value = overall_completeness(r, c)},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status spectra_table(const struct refiner *r, const struct side *side, int k, struct star_file *file,
                                 struct err *err) {
    const struct reference *c = &side->references[k];
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

/* Fills a flat prior over directions, as long as RELION's own list of directions. Over all classes its sum is 1. */
static enum status directions_table(const struct refiner *r, const struct side *side, int k, struct star_file *file,
                                    struct err *err) {
    struct star_table *t;
    char name[64];
    long count = relion_direction_count(r->symmetry.name, r->schedule.order);
    double share = classifies(r) ? side->references[k].share : 1;
    snprintf(name, sizeof name, "model_pdf_orient_class_%d", k + 1);
    TRY(star_table_add(file, name, true, &t, err));
    TRY(star_column_add(t, "rlnOrientationDistribution", "0", NULL, err));
    const struct star_cell cell = {.column = "rlnOrientationDistribution", .value = share / fmax((double)count, 1)};
    for (long i = 0; i < count; i++)
        TRY(star_cells_row(t, &cell, 1, err));
    return STATUS_OK;
}

static enum status noise_table(const struct refiner *r, const struct side *side, const char *name, int optics,
                               struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, name, true, &t, err));
    for (int s = 0; s < r->shells; s++) {
        const struct star_cell cells[] = {
            {.column = "rlnSpectralIndex", .value = s, .integer = true},
            {.column = "rlnResolution", .value = s / (r->box * r->pixel_size)},
            {.column = "rlnSigma2Noise", .value = side->sigma2[(size_t)optics * (size_t)r->shells + (size_t)s]},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

/* Fills the noise spectra by group, as RELION 3.1 reads them, and by optics group, as later versions do. */
static enum status noise_tables(const struct refiner *r, const struct side *side, const int *groups, int count,
                                struct star_file *file, struct err *err) {
    struct star_table *t;
    char name[64];
    TRY(star_table_add(file, "model_groups", true, &t, err));
    for (int g = 0; g < count; g++) {
        int members = 0;
        for (int i = 0; i < side->member_count; i++)
            members += r->set.particles[side->members[i]].optics == groups[g];
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
        TRY(noise_table(r, side, name, groups[g], file, err));
    }
    for (int o = 0; o < r->sigma2_optics; o++) {
        snprintf(name, sizeof name, "model_optics_group_%d", o + 1);
        TRY(noise_table(r, side, name, o, file, err));
    }
    return STATUS_OK;
}

enum status tables_model(const struct refiner *r, const struct side *side, const char *map, struct star_file *file,
                         struct err *err) {
    _cleanup_(mem_free) int *groups = NULL;
    TRY(mem_new((size_t)r->set.optics_count, sizeof *groups, "groups of particles", &groups, err));
    int count = list_groups(&r->set, groups);
    TRY(general_table(r, side, count, file, err));
    TRY(class_table(r, side, map, file, err));
    for (int k = 0; k < r->reference_count; k++) {
        TRY(spectra_table(r, side, k, file, err));
        TRY(directions_table(r, side, k, file, err));
    }
    return noise_tables(r, side, groups, count, file, err);
}

/* Joins "refiner/run_it003" and an ending. */
static const char *join(const char *stem, const char *ending, char *out) {
    snprintf(out, PATH_SIZE + 64, "%s%s", stem, ending);
    return out;
}

static bool has_ctf(const struct particle_set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (particle_is_exported(&set->particles[i]) && set->particles[i].has_ctf) return true;
    return false;
}

enum status tables_optimiser(const struct refiner *r, const char *root, const char *stem, struct star_file *file,
                             struct err *err) {
    const struct schedule *s = &r->schedule;
    const double px = r->pixel_size, changed = fmax(r->sides[0].changed + r->sides[1].changed, 1);
    char model[PATH_SIZE + 64], model2[PATH_SIZE + 64], data[PATH_SIZE + 64], sampling[PATH_SIZE + 64];
    const struct relion_optimiser optimiser = {
        .root = root,
        .model = join(stem, classifies(r) ? "_model.star" : "_half1_model.star", model),
        .model2 = classifies(r) ? NULL : join(stem, "_half2_model.star", model2),
        .data = join(stem, "_data.star", data),
        .sampling = join(stem, "_sampling.star", sampling),
        .mask = r->set.inverted ? NULL : r->mask_path, /* the file is in the other hand */
        .iteration = s->iteration,
        .iterations = classifies(r) ? s->iteration + r->options.iterations - s->whole_iterations : 999,
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
        .accuracy_offset = fmin(s->accuracy_offset * px, ACCURACY_UNKNOWN),
        .change_angle = (r->sides[0].angle_change + r->sides[1].angle_change) / changed,
        .change_classes = classifies(r) ? r->sides[0].class_change / changed : 0,
        .change_offset = sqrt((r->sides[0].offset_change + r->sides[1].offset_change) / (2 * changed)) * px,
        .smallest_angle = fmin(s->smallest_angle, 999),
        .smallest_offset = fmin(s->smallest_offset * px, 999),
    };
    const struct star_cell own[] = {
        {.column = "rlnAveragePmax", .value = s->average_pmax},
        /* A restart goes on with this one, whether it is told or not: icestreamUnresolved says so. */
        {.column = "rlnCurrentResolution", .value = r->told},
        {.column = "icestreamHalvesResolution", .value = r->resolution},
        {.column = "icestreamUnresolved",
         .text = unresolved_word(r->unresolved),
         .unless = r->unresolved == REFINER_RESOLVED},
        {.column = "icestreamResolutionShell", .value = s->resolution_shell, .integer = true},
        {.column = "icestreamBestPmax", .value = s->best_pmax},
        {.column = "icestreamPosesAreSharp", .value = s->sharp, .integer = true},
        {.column = "icestreamComparesAll", .value = s->whole, .integer = true},
        {.column = "icestreamTurns", .value = s->turns, .integer = true},
        {.column = "icestreamNormalised", .value = r->normalised, .integer = true},
        {.column = "icestreamInverted", .value = r->set.inverted, .integer = true},
        {.column = "icestreamOrientationEfficiency", .value = r->efficiency, .unless = isnan(r->efficiency)},
        {.column = "icestreamSignal", .value = r->signal.deviations, .unless = r->signal.particles == 0},
        {.column = "icestreamSignalImages",
         .value = (double)r->signal.images,
         .integer = true,
         .unless = r->signal.particles == 0},
        {.column = "icestreamSignalParticles",
         .value = (double)r->signal.particles,
         .integer = true,
         .unless = r->signal.particles == 0},
        {.column = "icestreamParticles", .value = (double)particle_set_counted(&r->set), .integer = true},
        {.column = "icestreamWholeIterations", .value = s->whole_iterations, .integer = true, .unless = !classifies(r)},
        {.column = "icestreamWholeParticles",
         .value = (double)s->whole_particles,
         .integer = true,
         .unless = !classifies(r)},
    };
    struct star_table *t;
    TRY(star_table_add(file, "optimiser_general", false, &t, err));
    TRY(relion_optimiser_put(t, &optimiser, err));
    return star_cells_put(t, 0, own, sizeof own / sizeof *own, err);
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
