#include "stages/refiner/postprocess_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/memory.h"

enum { MAX_PATH = 4096 };

struct cell {
    const char *name;
    double value;
};

static enum status put_number(struct star_table *table, size_t row, const char *name, double value, struct err *err) {
    int column = 0;
    TRY(star_column_add(table, name, "0", &column, err));
    return star_set_number(table, row, column, value, err);
}

static enum status put_text(struct star_table *table, const char *name, const char *value, struct err *err) {
    int column = 0;
    TRY(star_column_add(table, name, "None", &column, err));
    return star_set(table, 0, column, value, err);
}

/* One row; the first makes the columns. */
static enum status put_row(struct star_table *table, const struct cell *cells, size_t count, struct err *err) {
    int column = 0;
    size_t row = 0;
    for (size_t c = 0; star_row_count(table) == 0 && c < count; c++)
        TRY(star_column_add(table, cells[c].name, "0", &column, err));
    TRY(star_row_add(table, &row, err));
    for (size_t c = 0; c < count; c++)
        TRY(put_number(table, row, cells[c].name, cells[c].value, err));
    return STATUS_OK;
}

/* name: one of the maps, as the STAR file names it: beside half 1. */
static enum status put_map(struct star_table *table, const char *column, const char *half1_name, const char *file,
                           struct err *err) {
    char name[MAX_PATH];
    const char *slash = strrchr(half1_name, '/');
    int length = slash == NULL ? 0 : (int)(slash - half1_name) + 1;
    snprintf(name, sizeof name, "%.*s%s", length, half1_name, file);
    return put_text(table, column, name, err);
}

/* How much more of the box than the particle, if that fills this share of its mask. */
static double box_per_particle(const struct postprocess_result *r) {
    return 0.476 / r->mask_fraction;
}

/* What the unmasked curve says of the particle alone. */
static double particle_fsc(const struct postprocess_result *r, int shell) {
    double f = box_per_particle(r), unmasked = (double)r->fsc_unmasked[shell];
    return f * unmasked / (1 + (f - 1) * unmasked);
}

static enum status add_general(struct star_file *file, const struct postprocess_result *r, const char *half1_name,
                               const char *half2_name, struct err *err) {
    struct star_table *t = NULL;
    TRY(star_table_add(file, "general", false, &t, err));
    TRY(put_number(t, 0, "rlnFinalResolution", r->resolution, err));
    TRY(put_number(t, 0, "rlnBfactorUsedForSharpening", r->bfactor, err));
    TRY(put_text(t, "rlnUnfilteredMapHalf1", half1_name, err));
    TRY(put_text(t, "rlnUnfilteredMapHalf2", half2_name, err));
    TRY(put_map(t, "rlnPostprocessedMap", half1_name, "postprocess.mrc", err));
    if (r->mask != NULL) {
        TRY(put_map(t, "rlnMaskName", half1_name, "postprocess_mask.mrc", err));
        TRY(put_number(t, 0, "rlnRandomiseFrom", r->randomise_from, err));
        TRY(put_number(t, 0, "rlnParticleBoxFractionSolventMask", box_per_particle(r), err));
        TRY(put_map(t, "rlnPostprocessedMapMasked", half1_name, "postprocess_masked.mrc", err));
    }
    if (!isnan(r->guinier_slope)) {
        TRY(put_number(t, 0, "rlnFittedSlopeGuinierPlot", r->guinier_slope, err));
        TRY(put_number(t, 0, "rlnFittedInterceptGuinierPlot", r->guinier_intercept, err));
        TRY(put_number(t, 0, "rlnCorrelationFitGuinierPlot", r->guinier_correlation, err));
    }
    return STATUS_OK;
}

static enum status add_fsc(struct star_file *file, const struct postprocess_result *r,
                           const struct postprocess_options *o, struct err *err) {
    struct star_table *t = NULL;
    TRY(star_table_add(file, "fsc", true, &t, err));
    for (int i = 0; i <= o->box / 2; i++) {
        double length = o->box * o->pixel_size;
        const struct cell cells[] = {
            {"rlnSpectralIndex", i},
            {"rlnResolution", i / length},
            {"rlnAngstromResolution", i == 0 ? 999 : length / i},
            {"rlnFourierShellCorrelationCorrected", (double)r->fsc[i]},
            {"rlnFourierShellCorrelationUnmaskedMaps", (double)r->fsc_unmasked[i]},
            {"rlnFourierShellCorrelationMaskedMaps", (double)r->fsc_masked[i]},
            {"rlnCorrectedFourierShellCorrelationPhaseRandomizedMaskedMaps", (double)r->fsc_randomised[i]},
            {"rlnFourierShellCorrelationParticleMaskFraction", particle_fsc(r, i)},
        };
        /* The last three are of the mask. */
        TRY(put_row(t, cells, r->mask != NULL ? 8 : 5, err));
    }
    return STATUS_OK;
}

static enum status add_guinier(struct star_file *file, const struct postprocess_result *r,
                               const struct postprocess_options *o, struct err *err) {
    struct star_table *t = NULL;
    TRY(star_table_add(file, "guinier", true, &t, err));
    double intercept = isnan(r->guinier_slope) ? (double)POSTPROCESS_NO_AMPLITUDE : r->guinier_intercept;
    for (int i = 0; i <= o->box / 2; i++) {
        double s = i / (o->box * o->pixel_size);
        const struct cell cells[] = {
            {"rlnResolutionSquared", s * s},
            {"rlnLogAmplitudesOriginal", (double)r->guinier_original[i]},
            {"rlnLogAmplitudesWeighted", (double)r->guinier_weighted[i]},
            {"rlnLogAmplitudesSharpened", (double)r->guinier_sharpened[i]},
            {"rlnLogAmplitudesIntercept", intercept},
        };
        TRY(put_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status write_map(const struct postprocess_options *o, const float *map, const char *folder,
                             const char *name, struct err *err) {
    char path[MAX_PATH];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FAIL_IF(length < 0 || length >= (int)sizeof path, err, STATUS_BAD_ARGUMENT, "the path %s/%s is too long", folder,
            name);
    size_t voxels = (size_t)o->box * (size_t)o->box * (size_t)o->box;
    struct image image = {0};
    enum status status = image_resize(&image, o->box, o->box, o->box, err);
    if (status == STATUS_OK) {
        memcpy(image.data, map, voxels * sizeof *map);
        image.pixel_size = (float)o->pixel_size;
        status = mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, err);
    }
    image_destroy(&image);
    return status;
}

enum status postprocess_write(const struct postprocess_result *r, const struct postprocess_options *o,
                              const char *folder, const char *half1_name, const char *half2_name, struct err *err) {
    TRY(write_map(o, r->map, folder, "postprocess.mrc", err));
    if (r->mask != NULL) {
        TRY(write_map(o, r->map_masked, folder, "postprocess_masked.mrc", err));
        TRY(write_map(o, r->mask, folder, "postprocess_mask.mrc", err));
    }
    char path[MAX_PATH];
    int length = snprintf(path, sizeof path, "%s/postprocess.star", folder);
    FAIL_IF(length < 0 || length >= (int)sizeof path, err, STATUS_BAD_ARGUMENT, "the path of %s is too long", folder);
    struct star_file *file = NULL;
    enum status status = star_create(&file, err);
    if (status == STATUS_OK) status = add_general(file, r, half1_name, half2_name, err);
    if (status == STATUS_OK) status = add_fsc(file, r, o, err);
    if (status == STATUS_OK) status = add_guinier(file, r, o, err);
    if (status == STATUS_OK) status = star_write(file, path, err);
    star_destroy(&file);
    return status;
}
