/* The part of kernels/search that runs on a CUDA device, between search_cuda.c and the .cu files. Plain pointers and
 * numbers; the meaning of them is that of kernels/search/search.h. */
#ifndef ICESTREAM_KERNELS_SEARCH_SEARCH_CUDA_H
#define ICESTREAM_KERNELS_SEARCH_SEARCH_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/whiten/whiten.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SEARCH_DEVICE_RINGS = 64 };

struct search_setup {
    int index; /* of the CUDA device */
    int nx, ny, size, work, box, count, rotations;
    double radius, clip, pixel_size;
    bool per_template;
    size_t memory_limit;
    int circle, background; /* pixels of the box inside and outside the circle */
    int rings, ring_end;    /* of the noise spectrum */
    /* Padded template transforms (kernels/template_spectra); not needed after search_device_create. */
    int padded, reach, band;
    const float *padded_ft;
    /* Whitening (kernels/whiten); tile 0: none. The coefficients of a tile's half plane ring by ring, and where each ring's
     * begin; not needed after search_device_create. */
    struct whiten_options whiten;
    int tile;
    const int *ring_members, *ring_starts;
    bool cufft; /* correlate through cuFFT even where the fused transforms have the size */
    int pairs;  /* of rotations at a time; 0: chosen here */
};

/* Where the results go, in host memory. */
struct search_results {
    float deviation;
    float *image, *mu, *sigma, *score;
    uint16_t *best_template, *best_rotation;
    float *scores;
    uint16_t *rotations;
    double *terms;                     /* [count][2]: A1, A2 */
    float *weights;                    /* [work/2+1], where the search is whitened */
    double power[SEARCH_DEVICE_RINGS]; /* Σ |F|² of each ring */
};

struct search_device;

enum status search_device_create(const struct search_setup *setup, struct search_device **ret_device, struct err *err);
void search_device_destroy(struct search_device **device);
/* host or device: the micrograph, in one of both memories; ctf: NULL where it is not known. */
enum status search_device_run(struct search_device *device, const float *host, const void *on_device,
                              const struct ctf_terms *ctf, uint64_t seed, struct search_results *results,
                              struct err *err);

/* Milliseconds of the parts of a search, each the mean of `repeats` runs of that part alone, on what the last
 * search_device_run left behind. */
struct search_times {
    float prepare;    /* normalisation to local statistics */
    float terms;      /* the templates' mean and power with CTF */
    float score;      /* scores from the best of each template */
    float correlate;  /* multiply, transform and keep the best, all templates */
    float transforms; /* as many bare batched cuFFT transforms of that size */
    int batch;        /* transforms at a time in the latter */
};
enum status search_device_times(struct search_device *device, int repeats, struct search_times *ret_times,
                                struct err *err);

#ifdef __cplusplus
}
#endif
#endif
