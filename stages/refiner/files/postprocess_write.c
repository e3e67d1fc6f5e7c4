#include "stages/refiner/files/postprocess_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "common/together.h"
#include "stages/refiner/unresolved.h"

static const double NO_RESOLUTION = 999; /* Å */

/* Makes the name of a new map, as the STAR file gives it. */
static const char *named(const struct postprocess_names *names, const char *file, char name[PATH_SIZE]) {
    snprintf(name, PATH_SIZE, "%s%s%s", names->folder, *names->folder != 0 ? "/" : "", file);
    return name;
}

/* Returns how much larger the box is than the particle, when the particle fills 0.476 of its mask. */
static double box_per_particle(const struct postprocess_result *r) {
    return 0.476 / r->mask_fraction;
}

/* Returns the FSC of the particle alone, from the FSC of the unmasked maps. */
static double particle_fsc(const struct postprocess_result *r, int shell) {
    double f = box_per_particle(r), unmasked = (double)r->fsc_unmasked[shell];
    return f * unmasked / (1 + (f - 1) * unmasked);
}

static enum status add_general(struct star_file *file, const struct postprocess_result *r,
                               const struct postprocess_options *o, const struct postprocess_names *names,
                               struct err *err) {
    struct star_table *t = NULL;
    char map[PATH_SIZE], mask[PATH_SIZE], masked[PATH_SIZE];
    const char *unresolved = unresolved_word(names->unresolved);
    const bool no_mask = r->mask == NULL, no_fit = isnan(r->guinier_slope), no_bound = o->last_shell == 0;
    const double bound = no_bound ? 0 : o->box * o->pixel_size / o->last_shell;
    const struct star_cell cells[] = {
        {.column = "rlnFinalResolution", .value = unresolved != NULL ? NO_RESOLUTION : r->resolution},
        {.column = "icestreamNoise", .value = 1, .integer = true, .unless = names->unresolved != UNRESOLVED_NOISE},
        {.column = "icestreamUnresolved", .text = unresolved, .unless = unresolved == NULL},
        {.column = "rlnBfactorUsedForSharpening", .value = r->bfactor},
        {.column = "rlnUnfilteredMapHalf1", .text = names->half1},
        {.column = "rlnUnfilteredMapHalf2", .text = names->half2},
        {.column = "rlnPostprocessedMap", .text = named(names, "postprocess.mrc", map)},
        {.column = "rlnMaskName", .text = named(names, "postprocess_mask.mrc", mask), .unless = no_mask},
        {.column = "rlnRandomiseFrom", .value = r->randomise_from, .unless = no_mask},
        {.column = "rlnParticleBoxFractionSolventMask", .value = box_per_particle(r), .unless = no_mask},
        {.column = "rlnPostprocessedMapMasked",
         .text = named(names, "postprocess_masked.mrc", masked),
         .unless = no_mask},
        {.column = "icestreamMaskDoubted", .value = r->doubts, .integer = true, .unless = r->doubts == 0},
        {.column = "icestreamResolutionInMask", .value = r->claimed, .unless = r->doubts == 0},
        {.column = "icestreamResolutionBound", .value = bound, .unless = no_bound},
        {.column = "rlnFittedSlopeGuinierPlot", .value = r->guinier_slope, .unless = no_fit},
        {.column = "rlnFittedInterceptGuinierPlot", .value = r->guinier_intercept, .unless = no_fit},
        {.column = "rlnCorrelationFitGuinierPlot", .value = r->guinier_correlation, .unless = no_fit},
    };
    TRY(star_table_add(file, "general", false, &t, err));
    return star_cells_put(t, 0, cells, sizeof cells / sizeof *cells, err);
}

static enum status add_fsc(struct star_file *file, const struct postprocess_result *r,
                           const struct postprocess_options *o, struct err *err) {
    struct star_table *t = NULL;
    const bool no_mask = r->mask == NULL;
    TRY(star_table_add(file, "fsc", true, &t, err));
    for (int i = 0; i <= o->box / 2; i++) {
        double length = o->box * o->pixel_size;
        const struct star_cell cells[] = {
            {.column = "rlnSpectralIndex", .value = i},
            {.column = "rlnResolution", .value = i / length},
            {.column = "rlnAngstromResolution", .value = i == 0 ? 999 : length / i},
            {.column = "rlnFourierShellCorrelationCorrected", .value = (double)r->fsc[i]},
            {.column = "rlnFourierShellCorrelationUnmaskedMaps", .value = (double)r->fsc_unmasked[i]},
            {.column = "rlnFourierShellCorrelationMaskedMaps", .value = (double)r->fsc_masked[i], .unless = no_mask},
            {.column = "rlnCorrectedFourierShellCorrelationPhaseRandomizedMaskedMaps",
             .value = (double)r->fsc_randomised[i],
             .unless = no_mask},
            {.column = "rlnFourierShellCorrelationParticleMaskFraction",
             .value = particle_fsc(r, i),
             .unless = no_mask},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
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
        const struct star_cell cells[] = {
            {.column = "rlnResolutionSquared", .value = s * s},
            {.column = "rlnLogAmplitudesOriginal", .value = (double)r->guinier_original[i]},
            {.column = "rlnLogAmplitudesMTFCorrected", .value = (double)r->guinier_mtf[i], .unless = o->mtf == NULL},
            {.column = "rlnLogAmplitudesWeighted", .value = (double)r->guinier_weighted[i]},
            {.column = "rlnLogAmplitudesSharpened", .value = (double)r->guinier_sharpened[i]},
            {.column = "rlnLogAmplitudesIntercept", .value = intercept},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status write_map(const struct postprocess_options *o, const float *map, const char *folder,
                             const char *name, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
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

/* The maps of a result and their names. */
struct map_list {
    const struct postprocess_options *options;
    const char *folder;
    const float *maps[3];
};

static enum status write_listed(void *context, size_t index, struct err *err) {
    static const char *const NAMES[] = {"postprocess.mrc", "postprocess_masked.mrc", "postprocess_mask.mrc"};
    const struct map_list *list = context;
    return write_map(list->options, list->maps[index], list->folder, NAMES[index], err);
}

static enum status write_maps(const struct postprocess_result *r, const struct postprocess_options *o,
                              const char *folder, struct err *err) {
    struct map_list list = {o, folder, {r->map, r->map_masked, r->mask}};
    const int count = r->mask != NULL ? 3 : 1;
    return work_together((size_t)count, count, write_listed, &list, err);
}

enum status postprocess_write(const struct postprocess_result *r, const struct postprocess_options *o,
                              const char *folder, const struct postprocess_names *names,
                              const struct map_directions *directions_or_null, struct err *err) {
    TRY(write_maps(r, o, folder, err));
    char path[PATH_SIZE];
    TRY(path_join(folder, "postprocess.star", path, sizeof path, err));
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_create(&file, err));
    TRY(add_general(file, r, o, names, err));
    TRY(add_fsc(file, r, o, err));
    TRY(add_guinier(file, r, o, err));
    if (directions_or_null != NULL) TRY(directions_write(directions_or_null, file, err));
    return star_write(file, path, err);
}
