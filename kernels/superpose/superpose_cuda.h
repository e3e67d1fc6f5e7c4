/* Keeps an ensemble in the memory of a CUDA device. superpose_cuda.c calls these functions, and the .cu files implement
 * them.
 *
 * The device holds structures as floats rows[structures][3][stride]: centred, times √w, a row for each of x, y and z.
 * stride is the number of atoms rounded up to SUPERPOSE_CHUNK. Padding is zero: atoms up to stride, and structures up
 * to a multiple of SUPERPOSE_TILE. norms[structures] are G. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_CUDA_H
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/superpose/superpose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* TILE: structures along a side of a tile. CHUNK: atoms that are summed at a time. */
enum { SUPERPOSE_TILE = 32, SUPERPOSE_CHUNK = 16 };

struct superpose_ensemble_options {
    int index, atoms; /* number of the CUDA device; atoms of a structure */
    enum superpose_method method;
    bool single;  /* compute the product in single precision */
    double total; /* Σ w */
};

struct superpose_ensemble;

/* Creates an empty ensemble. roots[atoms]: √w, host memory. */
enum status superpose_ensemble_create(const struct superpose_ensemble_options *options, const float *roots,
                                      struct superpose_ensemble **ret_ensemble, struct err *err);
void superpose_ensemble_destroy(struct superpose_ensemble **ensemble);
/* Returns whether the product is as fast in double as in single: the device has double at half the rate of single, and
 * tensor cores. */
enum status superpose_cuda_doubles(int index, bool *ret_doubles, struct err *err);
/* Returns the bytes that are free on the device. */
enum status superpose_cuda_unused(int index, size_t *ret_bytes, struct err *err);

/* Returns the bytes that `structures` structures and a reference take. */
size_t superpose_ensemble_bytes(const struct superpose_ensemble_options *options, int structures);
/* Makes room for `structures` structures and a reference, and keeps the structures that are there. */
enum status superpose_ensemble_reserve(struct superpose_ensemble *ensemble, int structures, struct err *err);

/* Uploads xyz[count][atoms][3] to places first … first + count − 1. first SUPERPOSE_REFERENCE: uploads one structure as
 * the reference. *ret_bad: the lowest structure · atoms + atom whose coordinate is not finite or beyond
 * SUPERPOSE_FARTHEST, and then no structure counts as uploaded; −1: all coordinates are good. */
enum { SUPERPOSE_REFERENCE = -1 };
enum status superpose_ensemble_put(struct superpose_ensemble *ensemble, const float *xyz, int first, int count,
                                   int64_t *ret_bad, struct err *err);

/* Computes ret_rmsd[count] (Å, host memory): the structure at place `one`, or SUPERPOSE_REFERENCE, against the
 * structures at places 0 … count − 1. In double. */
enum status superpose_ensemble_row(struct superpose_ensemble *ensemble, int one, int count, float *ret_rmsd,
                                   struct err *err);

/* A range of rows begin ≤ i < end of the upper triangle of n structures. begin is a multiple of SUPERPOSE_TILE. */
struct superpose_range {
    int n, begin, end;
};
/* Makes room for two slots, which take turns: the device computes in one slot while the host fetches from the other.
 * Each slot has room for `floats` RMSDs and, if entries > 0, for the counts of `rows` rows. Both share room for picking
 * `entries` entries at a time. */
enum { SUPERPOSE_SLOTS = 2 };
enum status superpose_ensemble_slots(struct superpose_ensemble *ensemble, size_t floats, int rows, size_t entries,
                                     struct err *err);
/* Queues the RMSDs of a range into a slot. packed: in the order of the triangle (superpose_at). Otherwise the RMSD of
 * i < j goes to [i − begin][j − begin] of a matrix with n − begin columns. */
enum status superpose_ensemble_run(struct superpose_ensemble *ensemble, int slot, const struct superpose_range *range,
                                   bool packed, struct err *err);
/* Waits for a packed range, and copies its `floats` RMSDs to the host. */
enum status superpose_ensemble_fetch(struct superpose_ensemble *ensemble, int slot, size_t floats, float *ret_rmsd,
                                     struct err *err);
/* superpose_ensemble_count queues counting the entries below the cut-off (Å) in each row of a range that is not packed.
 * superpose_ensemble_counts waits for ret_counts[rows]. */
enum status superpose_ensemble_count(struct superpose_ensemble *ensemble, int slot, const struct superpose_range *range,
                                     float cutoff, struct err *err);
enum status superpose_ensemble_counts(struct superpose_ensemble *ensemble, int slot, int rows, int32_t *ret_counts,
                                      struct err *err);
/* A part of a range: rows begin + from ≤ i < begin + to. entries: the sum of the counts of these rows. */
struct superpose_part {
    int from, to;
    size_t entries;
};
/* Copies the entries below the cut-off of a part to the host, row by row: ret_index[entries] (j) and ret_rmsd[entries]
 * (Å). Call superpose_ensemble_counts before. */
enum status superpose_ensemble_pick(struct superpose_ensemble *ensemble, int slot, const struct superpose_range *range,
                                    float cutoff, const struct superpose_part *part, int32_t *ret_index,
                                    float *ret_rmsd, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
