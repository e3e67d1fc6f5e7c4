/* What superpose.c, which both devices share, asks of each. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_PRIVATE_H
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_PRIVATE_H

#include "kernels/superpose/superpose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Å from the origin that a coordinate may have: sums of squares stay far inside single precision. */
#define SUPERPOSE_FARTHEST 1e7f

/* The largest weight, by which all are divided: RMSDs do not depend on their scale. STATUS_BAD_ARGUMENT as
 * superpose_pair. */
enum status superpose_most_weight(const float *weights, int atoms, float *ret_most, struct err *err);
/* STATUS_BAD_ARGUMENT, with a message that names the structure (from 1) and the atom `at` (from 0). */
enum status superpose_bad_coordinate(const float *xyz, int64_t structure, int at, struct err *err);

struct superpose_cpu;
/* roots: √w of every atom, which the caller keeps; total: the sum of their squares. */
enum status superpose_cpu_create(const struct superpose_options *options, const float *roots, double total,
                                 struct superpose_cpu **ret_cpu, struct err *err);
void superpose_cpu_destroy(struct superpose_cpu **cpu);
enum status superpose_cpu_add(struct superpose_cpu *cpu, const float *xyz, int count, struct err *err);
enum status superpose_cpu_matrix(struct superpose_cpu *cpu, float *ret_rmsd, struct err *err);
enum status superpose_cpu_row(struct superpose_cpu *cpu, int index, float *ret_rmsd, struct err *err);
enum status superpose_cpu_to_reference(struct superpose_cpu *cpu, const float *reference, float *ret_rmsd,
                                       struct err *err);
enum status superpose_cpu_neighbours(struct superpose_cpu *cpu, float cutoff, size_t limit,
                                     struct superpose_neighbours *neighbours, struct err *err);

/* Built where CUDA is. */
struct superpose_cuda;
void superpose_cuda_destroy(struct superpose_cuda **cuda);
enum status superpose_cuda_add(struct superpose_cuda *cuda, const float *xyz, int count, struct err *err);
enum status superpose_cuda_matrix(struct superpose_cuda *cuda, float *ret_rmsd, struct err *err);
enum status superpose_cuda_row(struct superpose_cuda *cuda, int index, float *ret_rmsd, struct err *err);
enum status superpose_cuda_to_reference(struct superpose_cuda *cuda, const float *reference, float *ret_rmsd,
                                        struct err *err);
enum status superpose_cuda_neighbours(struct superpose_cuda *cuda, float cutoff, size_t limit,
                                      struct superpose_neighbours *neighbours, struct err *err);
/* For tests and benchmarks: which product, whatever the device does best; and times (superpose_cuda.h). */
enum superpose_product { SUPERPOSE_BEST, SUPERPOSE_DOUBLE, SUPERPOSE_SINGLE };
enum status superpose_create_as(const struct superpose_options *options, enum superpose_product product,
                                struct superpose **ret_superpose, struct err *err);
enum status superpose_cuda_create_as(const struct superpose_options *options, enum superpose_product product,
                                     const float *roots, double total, struct superpose_cuda **ret_cuda,
                                     struct err *err);
enum status superpose_times(struct superpose *superpose, int repeats, float ret_ms[2], struct err *err);
enum status superpose_cuda_times(struct superpose_cuda *cuda, int repeats, float ret_ms[2], struct err *err);

/* Lists that grow: room for `more` entries behind starts[rows done]; STATUS_NO_MEMORY beyond limit bytes. */
enum status superpose_neighbours_begin(struct superpose_neighbours *neighbours, int count, struct err *err);
enum status superpose_neighbours_room(struct superpose_neighbours *neighbours, size_t entries, float cutoff,
                                      size_t limit, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
