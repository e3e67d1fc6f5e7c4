/* An ensemble in the memory of a CUDA device, called by superpose_cuda.c and implemented in the .cu files.
 *
 * Structures lie on the device as rows [structures][3][stride] of floats: centred, times √w, one row for x, y and z
 * each. stride is atoms rounded up to SUPERPOSE_CHUNK; values beyond atoms, and beyond the last structure up to a
 * multiple of SUPERPOSE_TILE, are zero. norms [structures] are G. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_CUDA_H
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/superpose/superpose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Structures of a tile's side; atoms that are summed at a time. */
enum { SUPERPOSE_TILE = 32, SUPERPOSE_CHUNK = 16 };

struct superpose_device_options {
    int index, atoms;
    enum superpose_method method;
    bool single;  /* the product in single precision */
    double total; /* Σ w */
};

struct superpose_device;

enum status superpose_device_create(const struct superpose_device_options *options, const float *roots,
                                    struct superpose_device **ret_device, struct err *err);
void superpose_device_destroy(struct superpose_device **device);
/* Returns whether the product is as fast in double as in single: the device has double at half the rate of single, and
 * tensor cores. */
enum status superpose_device_doubles(int index, bool *ret_doubles, struct err *err);
/* Bytes that are free on the device. */
enum status superpose_device_free(int index, size_t *ret_bytes, struct err *err);

/* Makes room for so many structures and a reference; keeps the structures there. superpose_device_bytes: the memory
 * that this takes. */
size_t superpose_device_bytes(const struct superpose_device_options *options, int structures);
enum status superpose_device_reserve(struct superpose_device *device, int structures, struct err *err);

/* Uploads structures to places `first` … first + count − 1, or, at SUPERPOSE_REFERENCE, a single reference. ret_bad:
 * the lowest structure · atoms + atom with a bad coordinate, in which case they are not kept; −1: none. */
enum { SUPERPOSE_REFERENCE = -1 };
enum status superpose_device_put(struct superpose_device *device, const float *xyz, int first, int count,
                                 int64_t *ret_bad, struct err *err);

/* Compares the structure at place `one`, or the reference, with those at 0 … count − 1, in double; results go to the
 * host. */
enum status superpose_device_row(struct superpose_device *device, int one, int count, float *ret_rmsd, struct err *err);

/* Rows begin ≤ i < end of the upper triangle of n structures, begin a multiple of SUPERPOSE_TILE. */
struct superpose_range {
    int n, begin, end;
};
/* Two slots take turns, so that the device computes in one while the host fetches from the other: `floats` of results
 * each, and, where entries > 0, counts of `rows` rows each and room for picking so many entries at a time. */
enum { SUPERPOSE_SLOTS = 2 };
enum status superpose_device_slots(struct superpose_device *device, size_t floats, int rows, size_t entries,
                                   struct err *err);
/* Queues the RMSDs of a range. packed: as they stand in the triangle; else [i − begin][j − begin] for j > i, with n −
 * begin columns. */
enum status superpose_device_run(struct superpose_device *device, int slot, const struct superpose_range *range,
                                 bool packed, struct err *err);
/* Waits for a packed range and takes its `floats` to the host. */
enum status superpose_device_fetch(struct superpose_device *device, int slot, size_t floats, float *ret_rmsd,
                                   struct err *err);
/* Queues the numbers of entries below the cut-off in each row of a range that is not packed; waits for them. */
enum status superpose_device_count(struct superpose_device *device, int slot, const struct superpose_range *range,
                                   float cutoff, struct err *err);
enum status superpose_device_counts(struct superpose_device *device, int slot, int rows, int32_t *ret_counts,
                                    struct err *err);
/* Copies the entries below the cut-off of rows begin + from ≤ i < begin + to to the host. Their counts, as above, sum
 * to `entries`. */
struct superpose_part {
    int from, to;
    size_t entries;
};
enum status superpose_device_pick(struct superpose_device *device, int slot, const struct superpose_range *range,
                                  float cutoff, const struct superpose_part *part, int32_t *ret_index, float *ret_rmsd,
                                  struct err *err);

#ifdef __cplusplus
}
#endif
#endif
