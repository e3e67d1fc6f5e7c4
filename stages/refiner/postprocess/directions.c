#include "stages/refiner/postprocess/directions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "kernels/fsc/directional.h"

enum { AXES = 100 };
static const double HALF_ANGLE = 20; /* ° */
/* A direction is coarse from this factor of the resolution on, and these shells before it: noise in the few voxels of a
 * cone makes a fifth or so. */
static const double UNEVEN = 1.5, LEAST_SHELLS = 2.9;

/* The index of an axis with its resolution, for sorting. */
struct place {
    double resolution;
    int axis;
};

static int by_resolution(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->resolution != y->resolution) return x->resolution < y->resolution ? -1 : 1;
    return x->axis - y->axis;
}

static void choose_cones(struct map_directions *d) {
    static const double PARTS[MAP_CONES] = {0.05, 0.5, 0.95};
    struct place places[AXES];
    for (int i = 0; i < d->count; i++)
        places[i] = (struct place){d->resolutions[i], i};
    qsort(places, (size_t)d->count, sizeof *places, by_resolution);
    for (int c = 0; c < MAP_CONES; c++)
        d->cones[c] = places[(int)(PARTS[c] * d->count)].axis;
}

static enum status find(const struct postprocess_options *o, const struct postprocess_result *r, const float *half1,
                        const float *half2, struct map_directions *d, struct err *err) {
    const size_t shells = (size_t)o->box / 2 + 1;
    TRY(mem_new(AXES, sizeof *d->axes, "directions", &d->axes, err));
    TRY(mem_new(AXES, sizeof *d->resolutions, "directions", &d->resolutions, err));
    TRY(mem_new(AXES * shells, sizeof *d->curves, "directions", &d->curves, err));
    fsc_even_axes(AXES, d->axes);
    const struct fsc_cones cones = {
        .box = o->box, .half_angle = HALF_ANGLE, .axes = (const double(*)[3])d->axes, .count = AXES};
    TRY(fsc_directional(&cones, half1, half2, r->doubts == 0 ? r->mask : NULL, d->curves, err));
    for (int i = 0; i < AXES; i++)
        d->resolutions[i] = fsc_cone_resolution(d->curves + (size_t)i * shells, o->box, o->pixel_size);
    choose_cones(d);
    return STATUS_OK;
}

enum status directions_find(const struct postprocess_options *o, const struct postprocess_result *r, const float *half1,
                            const float *half2, struct map_directions *ret_directions, struct err *err) {
    *ret_directions = (struct map_directions){.box = o->box, .pixel_size = o->pixel_size, .count = AXES};
    /* Halves that agree no further than they share tell nothing of directions. */
    ret_directions->told = o->last_shell > 0 ? 999 : r->resolution;
    enum status status = find(o, r, half1, half2, ret_directions, err);
    if (status != STATUS_OK) directions_destroy(ret_directions);
    return status;
}

void directions_destroy(struct map_directions *d) {
    mem_free(&d->axes);
    mem_free(&d->resolutions);
    mem_free(&d->curves);
    d->count = 0;
}

double directions_resolution(const struct map_directions *d, enum map_cone cone) {
    return d->resolutions[d->cones[cone]];
}

/* Returns the axis about which the coarse directions lie. A direction without any resolution counts as four times that
 * of the map. */
static const double *coarse_axis(const struct map_directions *d) {
    double most = -1;
    int best = 0;
    for (int i = 0; i < d->count; i++) {
        double sum = 0;
        for (int j = 0; j < d->count; j++) {
            const double *a = d->axes[i], *b = d->axes[j], along = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
            sum += fmin(d->resolutions[j], 4 * d->told) * along * along;
        }
        if (sum > most) most = sum, best = i;
    }
    return d->axes[best];
}

bool directions_tell(const struct map_directions *d, char *text, size_t size) {
    const double fine = directions_resolution(d, CONE_FINEST), median = directions_resolution(d, CONE_MEDIAN),
                 coarse = directions_resolution(d, CONE_COARSEST), extent = d->box * d->pixel_size;
    const double *axis = coarse_axis(d);
    const bool uneven = coarse >= UNEVEN * d->told && extent / d->told - extent / coarse >= LEAST_SHELLS;
    int used = snprintf(text, size,
                        "%.1f, %.1f and %.1f Å in the finest, the median and the coarsest direction (5, 50, 95 %% of "
                        "cones of %.0f°)",
                        fine, median, coarse, HALF_ANGLE);
    if (uneven && used > 0 && (size_t)used < size)
        snprintf(
            text + used, size - (size_t)used,
            ": the map is blurred along x %.2f, y %.2f, z %.2f, since too few particles are seen across this axis; add "
            "views from there, such as of a tilted stage",
            axis[0], axis[1], axis[2]);
    return uneven;
}

static enum status write_curves(const struct map_directions *d, struct star_file *file, struct err *err) {
    struct star_table *t = NULL;
    const size_t shells = (size_t)d->box / 2 + 1;
    const double length = d->box * d->pixel_size;
    TRY(star_table_add(file, "directional_fsc", true, &t, err));
    for (size_t s = 0; s < shells; s++) {
        double value[MAP_CONES];
        for (int c = 0; c < MAP_CONES; c++)
            value[c] = (double)d->curves[(size_t)d->cones[c] * shells + s];
        const struct star_cell cells[] = {
            {.column = "rlnSpectralIndex", .value = (double)s, .integer = true},
            {.column = "rlnResolution", .value = (double)s / length},
            {.column = "rlnAngstromResolution", .value = s == 0 ? 999 : length / (double)s},
            {.column = "icestreamFscFinestCone", .value = value[CONE_FINEST]},
            {.column = "icestreamFscMedianCone", .value = value[CONE_MEDIAN]},
            {.column = "icestreamFscCoarsestCone", .value = value[CONE_COARSEST]},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

enum status directions_write(const struct map_directions *d, struct star_file *file, struct err *err) {
    struct star_table *t = NULL;
    TRY(write_curves(d, file, err));
    TRY(star_table_add(file, "directions", true, &t, err));
    for (int i = 0; i < d->count; i++) {
        const struct star_cell cells[] = {
            {.column = "icestreamDirectionX", .value = d->axes[i][0]},
            {.column = "icestreamDirectionY", .value = d->axes[i][1]},
            {.column = "icestreamDirectionZ", .value = d->axes[i][2]},
            {.column = "icestreamDirectionResolution", .value = d->resolutions[i]},
        };
        TRY(star_cells_row(t, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}
