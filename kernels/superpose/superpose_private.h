/* Connects superpose.c, which is the same for all devices, with the work of each kind of device. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_PRIVATE_H
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_PRIVATE_H

#include "kernels/superpose/superpose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest magnitude of a coordinate, Å: sums of squares stay far below the limit of single precision. */
#define SUPERPOSE_FARTHEST 1e7f

/* Returns the largest weight. All weights are divided by it, since RMSDs do not depend on their scale.
 * STATUS_BAD_ARGUMENT as superpose_pair. */
enum status superpose_most_weight(const float *weights, int atoms, float *ret_most, struct err *err);
/* Returns STATUS_BAD_ARGUMENT with a message that names the structure (from 1) and the atom `at` (from 0). */
enum status superpose_bad_coordinate(const float *xyz, int64_t structure, int at, struct err *err);

/* The precision of products on a CUDA device. SUPERPOSE_BEST: the one that suits the device; the others are for tests
 * and benchmarks. */
enum superpose_product { SUPERPOSE_BEST, SUPERPOSE_DOUBLE, SUPERPOSE_SINGLE };

/* The work of one kind of device on its own state; arguments as in superpose.h. */
struct superpose_work {
    /* roots: √w of every atom, which the caller keeps; total: the sum of their squares. */
    enum status (*create)(const struct superpose_options *options, enum superpose_product product, const float *roots,
                          double total, void **ret_state, struct err *err);
    /* Takes a state, never NULL. */
    void (*destroy)(void *state);
    enum status (*add)(void *state, const float *xyz, int count, struct err *err);
    enum status (*matrix)(void *state, float *ret_rmsd, struct err *err);
    enum status (*row)(void *state, int index, float *ret_rmsd, struct err *err);
    enum status (*to_reference)(void *state, const float *reference, float *ret_rmsd, struct err *err);
    enum status (*neighbours)(void *state, float cutoff, size_t limit, struct superpose_neighbours *neighbours,
                              struct err *err);
};
extern const struct superpose_work superpose_cpu_work;
extern const struct superpose_work superpose_cuda_work; /* only in builds with CUDA */

/* For tests and benchmarks: superpose_create with a chosen product, and the state behind an ensemble. */
enum status superpose_create_as(const struct superpose_options *options, enum superpose_product product,
                                struct superpose **ret_superpose, struct err *err);
void *superpose_state(struct superpose *superpose);
/* Returns the ensemble in device memory. state: of superpose_cuda_work. */
struct superpose_ensemble;
struct superpose_ensemble *superpose_cuda_ensemble(void *state);

/* superpose_neighbours_begin starts empty lists for `count` structures. superpose_neighbours_room enlarges the lists to
 * `entries` entries in all; STATUS_NO_MEMORY if the lists would exceed `limit` bytes (0: no limit). cutoff: for the
 * message. */
enum status superpose_neighbours_begin(struct superpose_neighbours *neighbours, int count, struct err *err);
enum status superpose_neighbours_room(struct superpose_neighbours *neighbours, size_t entries, float cutoff,
                                      size_t limit, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
