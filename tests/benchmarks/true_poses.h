/* Makes maps of the even and of the odd particles at their true poses. No refinement can do better with these
 * particles. */
#ifndef ICESTREAM_TESTS_BENCHMARKS_TRUE_POSES_H
#define ICESTREAM_TESTS_BENCHMARKS_TRUE_POSES_H

#include <stdio.h>
#include <stdlib.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/ctf/ctf.h"
#include "kernels/fsc/fsc.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/symmetry/symmetry.h"

struct true_poses {
    struct accumulator *halves[2];
    struct fft_plan *forward;
    const struct fourier_pixels *pixels;
    float *half, *spectrum, *data, *weight; /* of one image */
    double pixel;
};

static enum status true_poses_create(const struct fourier_pixels *pixels, double pixel, struct true_poses *t,
                                     struct err *err) {
    int box = pixels->box;
    size_t n = (size_t)pixels->count;
    const struct fft_options options = {.rank = 2, .shape = {box, box}, .direction = FFT_FORWARD};
    t->pixels = pixels, t->pixel = pixel;
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_create(3, box, box, &t->halves[h], err));
        TRY(accumulator_clear(t->halves[h], box, err));
    }
    TRY(fft_create(&options, &t->forward, err));
    TRY(mem_new((size_t)box * (size_t)(box / 2 + 1), 2 * sizeof(float), "a transform", &t->half, err));
    TRY(mem_new(2 * n, sizeof(float), "a transform", &t->spectrum, err));
    TRY(mem_new(2 * n, sizeof(float), "a transform", &t->data, err));
    return mem_new(n, sizeof(float), "a transform", &t->weight, err);
}

static void true_poses_destroy(struct true_poses *t) {
    for (int h = 0; h < 2; h++)
        accumulator_destroy(&t->halves[h]);
    fft_destroy(&t->forward);
    free(t->half), free(t->spectrum), free(t->data), free(t->weight);
}

/* image: box² values, which fft_run may overwrite. shift: px, the shift that centres the image. */
static enum status true_poses_add(struct true_poses *t, int index, float *image, const double angles[3],
                                  const double shift[2], const struct ctf *ctf, struct err *err) {
    const struct fourier_pixels *p = t->pixels;
    double m[9];
    float matrix[9];
    euler_to_matrix(angles[0], angles[1], angles[2], m);
    for (int i = 0; i < 9; i++)
        matrix[i] = (float)m[i];
    fft_run(t->forward, image, t->half);
    fourier_pixels_gather(p, t->half, t->spectrum);
    fourier_pixels_shift(p, p->count, t->spectrum, shift[0], shift[1], t->data);
    ctf_at(ctf, p->box, t->pixel, p->count, p->kx, p->ky, t->weight);
    for (int i = 0; i < p->count; i++) {
        t->data[2 * i] *= t->weight[i], t->data[2 * i + 1] *= t->weight[i];
        t->weight[i] *= t->weight[i];
    }
    return accumulator_add(t->halves[index % 2], p, p->count, 1, matrix, t->data, t->weight, 1, err);
}

static enum status true_poses_tell(struct true_poses *t, const float *truth, struct err *err) {
    int box = t->pixels->box;
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    const struct reconstruct_options options = {.tau_fudge = 1, .threads = 1};
    float *maps[2] = {NULL, NULL}, *fsc = NULL;
    TRY(mem_new((size_t)box, sizeof *fsc, "a curve", &fsc, err));
    for (int h = 0; h < 2; h++) {
        TRY(mem_new(voxels, sizeof(float), "a map", &maps[h], err));
        TRY(accumulator_finish(t->halves[h], NULL, 1, err));
        TRY(reconstruct_map(t->halves[h], &options, maps[h], NULL, NULL, err));
    }
    TRY(fsc_maps(NULL, box, maps[0], maps[1], fsc, err));
    printf("at the true poses: halves agree to %.2f A (0.5), %.2f A (0.143)", fsc_resolution(fsc, box, t->pixel, 0.5),
           fsc_resolution(fsc, box, t->pixel, 0.143));
    for (size_t i = 0; i < voxels; i++)
        maps[0][i] += maps[1][i];
    TRY(fsc_maps(NULL, box, maps[0], truth, fsc, err));
    printf("; all with the truth to %.2f A (0.5), %.2f A (0.143)\n", fsc_resolution(fsc, box, t->pixel, 0.5),
           fsc_resolution(fsc, box, t->pixel, 0.143));
    free(maps[0]), free(maps[1]), free(fsc);
    return STATUS_OK;
}

#endif
