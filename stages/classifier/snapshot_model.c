/* Writes model, sampling and optimiser files, with RELION's names. */
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "common/formats/relion.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "stages/classifier/snapshot_private.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

void snapshot_name(const struct snapshot *s, const char *ending, char *path, const char *folder) {
    snprintf(path, PATH_MAX, "%s/run_it%03d%s", folder, s->iteration, ending);
}

static double log_likelihood(struct classifier *c) {
    double sum = 0;
    for (size_t i = 0; i < dataset_count(c->dataset); i++)
        sum += dataset_at(c->dataset, i)->log_likelihood;
    return sum;
}

static int all_classes(const struct model *m) {
    return m->class_count + m->options.with_empty;
}

static enum status add_general(struct star_file *file, struct classifier *c, const struct snapshot *s,
                               struct err *err) {
    const struct model *m = c->model;
    struct star_table *t;
    double length = m->options.box * m->options.pixel_size;
    const struct star_cell cells[] = {
        {.column = "rlnReferenceDimensionality", .value = 2, .integer = true},
        {.column = "rlnDataDimensionality", .value = 2, .integer = true},
        {.column = "rlnOriginalImageSize", .value = model_whole_box(&m->options), .integer = true},
        {.column = "rlnCurrentResolution", .value = length / (m->current_shell > 0 ? m->current_shell : 1)},
        {.column = "rlnCurrentImageSize", .value = m->size, .integer = true},
        {.column = "rlnPaddingFactor", .value = 2},
        {.column = "rlnFourierSpaceInterpolator", .value = 1, .integer = true},
        {.column = "rlnMinRadiusNnInterpolation", .value = 10, .integer = true},
        {.column = "rlnPixelSize", .value = length / model_whole_box(&m->options)},
        {.column = "rlnNrClasses", .value = all_classes(m), .integer = true},
        {.column = "rlnNrBodies", .value = 1, .integer = true},
        {.column = "rlnNrGroups", .value = 1, .integer = true},
        {.column = "rlnNrOpticsGroups", .value = 1, .integer = true},
        {.column = "rlnTau2FudgeFactor", .value = m->options.tau_fudge},
        {.column = "rlnNormCorrectionAverage", .value = m->average_norm},
        {.column = "rlnSigmaOffsetsAngst", .value = m->sigma_offset * m->options.pixel_size},
        {.column = "rlnOrientationalPriorMode", .integer = true},
        {.column = "rlnSigmaPriorRotAngle"},
        {.column = "rlnSigmaPriorTiltAngle"},
        {.column = "rlnSigmaPriorPsiAngle"},
        {.column = "rlnLogLikelihood", .value = log_likelihood(c)},
        {.column = "rlnAveragePmax", .value = c->probability},
        {.column = "icestreamClassChanges", .value = c->last_changed},
        {.column = "icestreamParticles", .value = (double)dataset_count(c->dataset), .integer = true},
        {.column = "icestreamKeptParticles", .value = (double)s->kept, .integer = true},
        {.column = "icestreamFinal", .value = s->final, .integer = true},
        {.column = "icestreamChange", .value = s->change, .integer = true},
        {.column = "icestreamNormalised", .value = dataset_normalises(c->dataset), .integer = true},
    };
    TRY(star_table_add(file, "model_general", false, &t, err));
    return star_cells_put(t, 0, cells, COUNT(cells), err);
}

static enum status add_class(struct star_table *t, const struct model *m, int k, const char *image, struct err *err) {
    static const struct model_class nothing = {.resolution = 999};
    const struct model_class *c = k < m->class_count ? &m->classes[k] : &nothing;
    double complete = 0, shells = 0;
    for (int s = 1; c->completeness != NULL && s <= m->current_shell; s++)
        complete += c->completeness[s], shells++;
    const struct star_cell cells[] = {
        {.column = "rlnReferenceImage", .text = image},
        {.column = "rlnClassDistribution", .value = model_fraction(m, k)},
        /* RELION writes 999 before it has estimated them. */
        {.column = "rlnAccuracyRotations", .value = 999},
        {.column = "rlnAccuracyTranslationsAngst", .value = 999},
        {.column = "rlnEstimatedResolution", .value = c->resolution},
        {.column = "rlnOverallFourierCompleteness", .value = shells > 0 ? complete / shells : 0},
        {.column = "rlnClassPriorOffsetX"},
        {.column = "rlnClassPriorOffsetY"},
        {.column = "icestreamQuality", .value = c->quality},
        {.column = "icestreamEvidence", .value = c->evidence},
        {.column = "icestreamMembers", .value = c->members, .integer = true},
        {.column = "icestreamKept", .value = c->kept, .integer = true},
    };
    return star_cells_row(t, cells, COUNT(cells), err);
}

static enum status add_classes(struct star_file *file, const struct model *m, const char *stack, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, "model_classes", true, &t, err));
    for (int k = 0; k < all_classes(m); k++) {
        char image[PATH_MAX + 16];
        snprintf(image, sizeof image, "%06d@%s", k + 1, stack);
        TRY(add_class(t, m, k, image, err));
    }
    return STATUS_OK;
}

/* Writes the spectra of a class; those of the empty class are 0. */
static enum status add_spectra(struct star_file *file, const struct model *m, int k, struct err *err) {
    const struct model_class *c = k < m->class_count ? &m->classes[k] : NULL;
    struct star_table *t;
    char name[32];
    snprintf(name, sizeof name, "model_class_%d", k + 1);
    TRY(star_table_add(file, name, true, &t, err));
    const double length = m->options.box * m->options.pixel_size, power = model_whole_power(&m->options);
    for (int s = 0; s <= model_whole_box(&m->options) / 2; s++) {
        const bool held = c != NULL && s <= m->options.box / 2;
        double ssnr = held ? c->ssnr[s] : 0, tau2 = held ? power * c->tau2[s] : 0;
        const struct star_cell cells[] = {
            {.column = "rlnSpectralIndex", .value = s, .integer = true},
            {.column = "rlnResolution", .value = s / length},
            {.column = "rlnAngstromResolution", .value = s > 0 ? length / s : 999},
            {.column = "rlnSsnrMap", .value = ssnr},
            {.column = "rlnGoldStandardFsc", .value = held ? c->fsc[s] : 0},
            {.column = "rlnFourierCompleteness", .value = held ? c->completeness[s] : 0},
            {.column = "rlnReferenceSigma2", .value = ssnr > 0 ? tau2 / ssnr : 0},
            {.column = "rlnReferenceTau2", .value = tau2},
        };
        TRY(star_cells_row(t, cells, COUNT(cells), err));
    }
    return STATUS_OK;
}

/* Images that are cut tell nothing of the last shells, which get the noise of the last one before. */
static enum status add_noise(struct star_file *file, const struct model *m, const char *name, struct err *err) {
    struct star_table *t;
    const double length = m->options.box * m->options.pixel_size, power = model_whole_power(&m->options);
    TRY(star_table_add(file, name, true, &t, err));
    for (int s = 0; s <= model_whole_box(&m->options) / 2; s++) {
        const int held = s < m->options.box / 2 ? s : m->options.box / 2;
        const struct star_cell cells[] = {
            {.column = "rlnSpectralIndex", .value = s, .integer = true},
            {.column = "rlnResolution", .value = s / length},
            {.column = "rlnSigma2Noise", .value = power * m->sigma2[held]},
        };
        TRY(star_cells_row(t, cells, COUNT(cells), err));
    }
    return STATUS_OK;
}

static enum status add_group(struct star_file *file, struct classifier *c, struct err *err) {
    struct star_table *t;
    const struct star_cell cells[] = {
        {.column = "rlnGroupNumber", .value = 1, .integer = true},
        {.column = "rlnGroupName", .text = SNAPSHOT_GROUP},
        {.column = "rlnGroupNrParticles", .value = (double)dataset_count(c->dataset), .integer = true},
        {.column = "rlnGroupScaleCorrection", .value = 1},
    };
    TRY(star_table_add(file, "model_groups", true, &t, err));
    return star_cells_row(t, cells, COUNT(cells), err);
}

enum status snapshot_write_model(struct classifier *c, const struct snapshot *s, struct err *err) {
    const struct model *m = c->model;
    _cleanup_(star_destroy) struct star_file *file = NULL;
    char path[PATH_MAX], stack[PATH_MAX];
    snapshot_name(s, "_classes.mrcs", stack, s->relative);
    TRY(star_create(&file, err));
    TRY(add_general(file, c, s, err));
    TRY(add_classes(file, m, stack, err));
    for (int k = 0; k < all_classes(m); k++)
        TRY(add_spectra(file, m, k, err));
    TRY(add_group(file, c, err));
    /* RELION 3.1 looks for the first name, later versions for the second. */
    TRY(add_noise(file, m, "model_group_1", err));
    TRY(add_noise(file, m, "model_optics_group_1", err));
    snapshot_name(s, "_model.star", path, s->folder);
    return star_write(file, path, err);
}

enum status snapshot_write_sampling(struct classifier *c, const struct snapshot *s, struct err *err) {
    const struct model_options *o = &c->model->options;
    const double px = o->box * o->pixel_size / model_whole_box(o);
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *t;
    char path[PATH_MAX];
    const struct relion_sampling sampling = {.psi_step = c->options.psi_step,
                                             .offset_range = c->options.offset_range * px,
                                             .offset_step = c->options.offset_step * px};
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "sampling_general", false, &t, err));
    TRY(relion_sampling_put(t, &sampling, err));
    snapshot_name(s, "_sampling.star", path, s->folder);
    return star_write(file, path, err);
}

static bool has_ctf(struct classifier *c) {
    for (size_t i = 0; i < dataset_count(c->dataset); i++)
        if (dataset_at(c->dataset, i)->has_ctf) return true;
    return false;
}

enum status snapshot_write_optimiser(struct classifier *c, const struct snapshot *s, struct err *err) {
    enum { MORE = 25, MASK_EDGE = 5 }; /* MORE: iterations that RELION adds by default */
    const struct model *m = c->model;
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *t;
    char root[PATH_MAX], model[PATH_MAX], data[PATH_MAX], sampling[PATH_MAX], path[PATH_MAX];
    snprintf(root, sizeof root, "%s/run", s->relative);
    snapshot_name(s, "_model.star", model, s->relative);
    snapshot_name(s, "_data.star", data, s->relative);
    snapshot_name(s, "_sampling.star", sampling, s->relative);
    const struct relion_optimiser optimiser = {
        .root = root,
        .model = model,
        .data = data,
        .sampling = sampling,
        .iteration = s->iteration,
        .iterations = s->iteration + MORE,
        .correct_ctf = has_ctf(c),
        .seed = (unsigned)c->options.seed,
        .diameter = 2 * m->options.mask_radius * m->options.pixel_size,
        .join_resolution = -1,
        .finest = c->options.resolution,
        .mask_edge = MASK_EDGE,
        .local_order = 4,
        .increment = 10,
        .best_resolution = m->current_shell / (m->options.box * m->options.pixel_size),
        .accuracy_angle = 999,
        .accuracy_offset = 999,
        .change_angle = 999,
        .change_offset = 999,
        .change_classes = c->last_changed,
        .smallest_angle = 999,
        .smallest_offset = 999,
    };
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "optimiser_general", false, &t, err));
    TRY(relion_optimiser_put(t, &optimiser, err));
    snapshot_name(s, "_optimiser.star", path, s->folder);
    return star_write(file, path, err);
}
