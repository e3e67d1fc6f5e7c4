/* score_map MAP TRUTH DIAMETER: turns a map onto the true one, in the hand that fits better, and prints where the FSC of
 * what lies within the diameter (Å) falls below 0.5 (Å), the hand, and how well the maps agree (map_align.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/formats/mrc.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/resample.h"

enum { EDGE = 5 };

struct score {
    double resolution, agreement;
    bool inverted;
};

static enum status turn(const struct image *map, double diameter, const float *truth, float *ret_turned,
                        struct score *ret_score, struct err *err) {
    const double pixel = (double)map->pixel_size, most = (map->nx - 2 * EDGE) * pixel;
    const struct map_align_options options = {.box = map->nx,
                                              .pixel_size = pixel,
                                              .diameter = fmin(diameter, most),
                                              .coarsest = diameter / 2,
                                              .finest = fmax(diameter / 10, 3 * pixel),
                                              .hands = true,
                                              .threads = 1};
    struct map_aligner *aligner = NULL;
    struct map_alignment found;
    TRY(map_align_create(&options, &aligner, err));
    enum status status = map_align_find(aligner, truth, map->data, &found, err);
    if (status == STATUS_OK) status = map_align_apply(aligner, &found, map->data, ret_turned, err);
    map_align_destroy(&aligner);
    ret_score->inverted = found.inverted;
    ret_score->agreement = found.score;
    return status;
}

static enum status compare(const struct image *map, const struct image *given, double diameter, struct score *ret_score,
                           struct err *err) {
    const size_t box = (size_t)map->nx, voxels = box * box * box;
    const double pixel = (double)map->pixel_size, radius = fmin(diameter / 2 / pixel, map->nx / 2 - EDGE);
    _cleanup_(mem_free) float *truth = NULL;
    _cleanup_(mem_free) float *turned = NULL;
    _cleanup_(mem_free) float *fsc = NULL;
    TRY(mem_new(voxels, sizeof *truth, "a map", &truth, err));
    TRY(mem_new(voxels, sizeof *turned, "a map", &turned, err));
    TRY(mem_new(box / 2 + 1, sizeof *fsc, "a curve", &fsc, err));
    TRY(resample_map(given->data, given->nx, (double)given->pixel_size, map->nx, pixel, truth, err));
    TRY(turn(map, diameter, truth, turned, ret_score, err));
    mask_sphere(3, map->nx, truth, radius, EDGE, 0);
    mask_sphere(3, map->nx, turned, radius, EDGE, 0);
    TRY(fsc_maps(NULL, map->nx, truth, turned, fsc, err));
    ret_score->resolution = fsc_resolution(fsc, map->nx, pixel, 0.5);
    return STATUS_OK;
}

static enum status score(char **argv, struct err *err) {
    struct image map = {0}, truth = {0};
    struct score found = {0};
    const double diameter = strtod(argv[3], NULL);
    FAIL_IF(!(diameter > 0), err, STATUS_BAD_ARGUMENT, "%s is no diameter", argv[3]);
    enum status status = mrc_read(argv[1], &map, err);
    if (status == STATUS_OK) status = mrc_read(argv[2], &truth, err);
    if (status == STATUS_OK) status = compare(&map, &truth, diameter, &found, err);
    image_destroy(&map);
    image_destroy(&truth);
    TRY(status);
    printf("%.2f %s %.3f\n", found.resolution, found.inverted ? "inverted" : "same", found.agreement);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: score_map MAP TRUTH DIAMETER\n");
        return 2;
    }
    if (score(argv, &err) == STATUS_OK) return 0;
    fprintf(stderr, "score_map: %s\n", err.message);
    return 1;
}
