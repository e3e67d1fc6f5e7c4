/* The final map against its halves and against the phantom. A session that made its first map itself has it in any
 * orientation and hand. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/fft.h"
#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "examples/score/score.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"

/* A map within these of the phantom lies as it should, and is compared as it is: what is left is its error. */
#define NEAR_ANGLE 3.0
#define NEAR_SHIFT 2.0

/* Brings the phantom to the map's grid: crops it in Fourier space to the pixel size, then cuts it or pads it with
 * zeros to the box. */
static enum status fit_phantom(const struct image *phantom, const struct image *map, float *ret_fitted,
                               struct err *err) {
    int n = phantom->nx, box = map->nx;
    int m = 2 * (int)lround(n * phantom->pixel_size / map->pixel_size / 2);
    FAIL_IF(m > n || m < 2, err, STATUS_BAD_ARGUMENT, "the phantom's pixels (%g Å) are coarser than the map's (%g Å)",
            (double)phantom->pixel_size, (double)map->pixel_size);
    struct fft_plan *forward = NULL, *inverse = NULL;
    _cleanup_(mem_free) float *full = NULL;
    _cleanup_(mem_free) float *cropped = NULL;
    _cleanup_(mem_free) float *small = NULL;
    size_t nc = (size_t)n / 2 + 1, mc = (size_t)m / 2 + 1;
    TRY(mem_new((size_t)n * (size_t)n * nc, 2 * sizeof(float), "phantom", &full, err));
    TRY(mem_new((size_t)m * (size_t)m * mc, 2 * sizeof(float), "phantom", &cropped, err));
    TRY(mem_new((size_t)m * (size_t)m, (size_t)m * sizeof(float), "phantom", &small, err));
    enum status status =
        fft_create(&(struct fft_options){.rank = 3, .shape = {n, n, n}, .direction = FFT_FORWARD}, &forward, err);
    if (status == STATUS_OK)
        status =
            fft_create(&(struct fft_options){.rank = 3, .shape = {m, m, m}, .direction = FFT_INVERSE}, &inverse, err);
    if (status == STATUS_OK) {
        fft_run(forward, phantom->data, full);
        for (int z = 0; z < m; z++)
            for (int y = 0; y < m; y++) {
                size_t fz = (size_t)(z <= m / 2 ? z : z - m + n), fy = (size_t)(y <= m / 2 ? y : y - m + n);
                memcpy(cropped + 2 * ((size_t)z * (size_t)m + (size_t)y) * mc, full + 2 * (fz * (size_t)n + fy) * nc,
                       2 * mc * sizeof(float));
            }
        fft_run(inverse, cropped, small);
        int shift = box / 2 - m / 2;
        for (int z = 0; z < box; z++)
            for (int y = 0; y < box; y++)
                for (int x = 0; x < box; x++) {
                    int sz = z - shift, sy = y - shift, sx = x - shift;
                    bool inside = sz >= 0 && sz < m && sy >= 0 && sy < m && sx >= 0 && sx < m;
                    ret_fitted[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x] =
                        inside ? small[((size_t)sz * (size_t)m + (size_t)sy) * (size_t)m + (size_t)sx] : 0;
                }
    }
    fft_destroy(&forward);
    fft_destroy(&inverse);
    return status;
}

/* Returns the diameter (Å) of the sphere that holds what is seen of a map, with a margin. */
static double diameter_of(const float *map, int box, double pixel_size) {
    const size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    const int c = box / 2, margin = 4;
    float most = 0;
    double radius2 = 0;
    for (size_t i = 0; i < voxels; i++)
        most = fmaxf(most, fabsf(map[i]));
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                const double r2 = (x - c) * (x - c) + (y - c) * (y - c) + (z - c) * (z - c);
                const float value = map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x];
                if (fabsf(value) > 0.05f * most) radius2 = fmax(radius2, r2);
            }
    return fmin(box, 2 * (sqrt(radius2) + margin)) * pixel_size;
}

/* Returns the resolution of a map against the phantom as it lies. */
static enum status against(const struct image *map, const float *phantom, double *ret_resolution, struct err *err) {
    _cleanup_(mem_free) float *curve = NULL;
    TRY(mem_new((size_t)map->nx / 2 + 1, sizeof *curve, "FSC", &curve, err));
    TRY(fsc_maps(NULL, map->nx, map->data, phantom, curve, err));
    *ret_resolution = fsc_resolution(curve, map->nx, (double)map->pixel_size, 0.5);
    return STATUS_OK;
}

static void describe(const struct map_alignment *found, struct score_map *score) {
    const double *r = found->rotation, *s = found->shift;
    score->angle = acos(fmax(-1, fmin(1, (r[0] + r[4] + r[8] - 1) / 2))) * 180 / M_PI;
    score->shift = sqrt(s[0] * s[0] + s[1] * s[1] + s[2] * s[2]);
    score->inverted = found->inverted;
}

/* Moves the phantom, which has no noise, onto the map. Counts if the phantom was far from it and agrees better now. */
static enum status align(struct map_aligner *aligner, const struct image *map, const float *phantom, float *aligned,
                         struct score_map *score, struct err *err) {
    struct map_alignment found;
    struct score_map moved = *score;
    TRY(map_align_find(aligner, map->data, phantom, &found, err));
    TRY(map_align_apply(aligner, &found, phantom, aligned, err));
    TRY(against(map, aligned, &moved.against_phantom, err));
    describe(&found, &moved);
    const bool near = !moved.inverted && moved.angle < NEAR_ANGLE && moved.shift < NEAR_SHIFT;
    moved.aligned = !near && moved.against_phantom < score->against_phantom;
    if (moved.aligned) *score = moved;
    return STATUS_OK;
}

static enum status score_aligned(const struct image *map, const float *phantom, struct score_map *score,
                                 struct err *err) {
    const double pixel_size = (double)map->pixel_size, side = map->nx * pixel_size;
    const struct map_align_options options = {
        .box = map->nx,
        .pixel_size = pixel_size,
        .diameter = diameter_of(phantom, map->nx, pixel_size),
        .coarsest = side,
        .finest = fmax(2 * pixel_size, fmin(score->gold_standard, side / 8)),
        .hands = true,
    };
    struct map_aligner *aligner = NULL;
    _cleanup_(mem_free) float *aligned = NULL;
    TRY(mem_new(image_count(map), sizeof *aligned, "phantom", &aligned, err));
    TRY(against(map, phantom, &score->against_phantom, err));
    TRY(map_align_create(&options, &aligner, err));
    const enum status status = align(aligner, map, phantom, aligned, score, err);
    map_align_destroy(&aligner);
    return status;
}

enum status score_map(const char *session, const char *truth, struct score_map *ret_score, struct err *err) {
    static const char *const NAMES[] = {"refiner/run_half1_class001_unfil.mrc", "refiner/run_half2_class001_unfil.mrc",
                                        "refiner/run_class001.mrc"};
    _cleanup_(image_destroy) struct image half1 = {0};
    _cleanup_(image_destroy) struct image half2 = {0};
    _cleanup_(image_destroy) struct image final = {0};
    _cleanup_(image_destroy) struct image phantom = {0};
    struct image *targets[] = {&half1, &half2, &final};
    char path[PATH_MAX];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", session, NAMES[i]);
        TRY(image_read(path, targets[i], err));
        FAIL_IF(targets[i]->nx != half1.nx, err, STATUS_BAD_FORMAT, "%s is %d px wide, the first half map %d", path,
                targets[i]->nx, half1.nx);
    }
    snprintf(path, sizeof path, "%s/phantom.mrc", truth);
    TRY(image_read(path, &phantom, err));

    const int box = half1.nx;
    _cleanup_(mem_free) float *curve = NULL;
    _cleanup_(mem_free) float *fitted = NULL;
    TRY(mem_new((size_t)box / 2 + 1, sizeof *curve, "FSC", &curve, err));
    TRY(mem_new(image_count(&half1), sizeof *fitted, "phantom", &fitted, err));
    struct score_map score = {0};
    TRY(fsc_maps(NULL, box, half1.data, half2.data, curve, err));
    score.gold_standard = fsc_resolution(curve, box, (double)half1.pixel_size, 0.143);
    TRY(fit_phantom(&phantom, &final, fitted, err));
    TRY(score_aligned(&final, fitted, &score, err));
    *ret_score = score;
    return STATUS_OK;
}
