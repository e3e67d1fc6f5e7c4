/* Computes RMSDs after optimal superposition: of one pair, of all pairs of an ensemble, of an ensemble to a reference;
 * and neighbours under a cut-off. Clusters from these: kernels/superpose/clusters.h.
 *
 * Structures are float [atoms][3] in Å, one after another, not centred; weights float [atoms], ≥ 0, or NULL (all 1).
 * With p and q moved to their weighted centroids, w the weights and W their sum:
 *
 *   R_ab = Σ_k w_k p_ka q_kb          G = Σ_k w_k |p_k|² of each
 *   RMSD = √(max(0, (G_p + G_q − 2 λ) / W))
 *
 * λ is the largest eigenvalue of a symmetric 4 × 4 matrix made of R. From R's singular values, λ = s1 + s2 + s3, or
 * s1 + s2 − s3 where det R < 0: a rotation never becomes a reflection (Coutsias, Seok & Dill 2004; Theobald 2005;
 * Kabsch 1976).
 *
 * All pairs are one matrix product. Tiles of the product are solved while they are in cache (on a CUDA device: on the
 * chip), and only RMSDs leave. Centred coordinates times √w are kept in single precision, which moves an atom by 3e-8
 * of its distance from the centre. G, λ and G − 2λ are in double.
 *
 * The product is in double on CUDA devices whose tensor cores make that cheap. Otherwise the product is in single, and
 * the sums of every 128 atoms are added apart. Rounding would show in pairs below an RMSD of 4e-4 Rg² (in Å: 0.16 at
 * Rg 20, 4 at Rg 100): those pairs are computed again in double.
 *
 * Both devices and the reference methods agree within 0.005 Å; the same calls give the same bits. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_H
#define ICESTREAM_KERNELS_SUPERPOSE_SUPERPOSE_H

#include <stddef.h>
#include <stdint.h>

#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The method that finds λ. QCP: Newton's iteration from above on the characteristic polynomial, and Jacobi if the two
 * largest eigenvalues are too close for the polynomial. Jacobi: cyclic, at most 6 sweeps. Kabsch: the singular values
 * of R, by one-sided Jacobi. */
enum superpose_method { SUPERPOSE_QCP, SUPERPOSE_JACOBI, SUPERPOSE_KABSCH };

/* One pair, in double throughout. */
struct superpose_fit {
    double rmsd;           /* Å */
    double rotation[3][3]; /* x on the reference = rotation · x + translation */
    double translation[3]; /* Å */
};

/* Fits `moving` onto `reference`. If several rotations are equally good (atoms on a line), gives one of them.
 * STATUS_BAD_ARGUMENT: no atoms, a coordinate that is not finite, a weight that is negative or NaN, no weight above
 * 0. */
enum status superpose_pair(enum superpose_method method, const float *reference, const float *moving, int atoms,
                           const float *weights, struct superpose_fit *ret_fit, struct err *err);
/* Moves atoms by the fit into ret_xyz[atoms][3], which may be xyz. They need not be the fitted atoms. */
void superpose_apply(const struct superpose_fit *fit, const float *xyz, int atoms, float *ret_xyz);

struct superpose_options {
    int atoms;                    /* of every structure */
    const float *weights;         /* [atoms] or NULL; copied */
    enum superpose_method method; /* QCP is fastest */
    struct device device;
    int threads;   /* CPU; at least 1 */
    size_t memory; /* bytes for structures and workspace, in the memory of the device; 0: no limit. While structures
                      move to larger memory, the memory that they leave is not counted */
};

/* An ensemble: structures that are kept, centred, on the device. Used by one thread at a time. */
struct superpose;

/* Creates an empty ensemble. STATUS_BAD_ARGUMENT as superpose_pair. */
enum status superpose_create(const struct superpose_options *options, struct superpose **ret_superpose,
                             struct err *err);
void superpose_destroy(struct superpose **superpose);
/* Returns the number of structures in the ensemble. */
int superpose_count(const struct superpose *superpose);

/* Adds copies of `count` structures [count][atoms][3] behind the others. Memory doubles when it runs out.
 * STATUS_BAD_ARGUMENT: a coordinate is not finite (the message counts structures of the ensemble and atoms from 1; none
 * of `count` is kept); STATUS_NO_MEMORY: more than options.memory. */
enum status superpose_add(struct superpose *superpose, const float *xyz, int count, struct err *err);

/* Returns the number of pairs of n structures. */
static inline size_t superpose_pairs(int n) {
    return (size_t)n * (size_t)(n > 0 ? n - 1 : 0) / 2;
}
/* Returns the index of pair i < j of n in the upper triangle, row by row. */
static inline size_t superpose_at(int n, int i, int j) {
    return (size_t)i * (size_t)(2 * (int64_t)n - i - 1) / 2 + (size_t)(j - i - 1);
}

/* Computes all pairs: ret_rmsd[superpose_pairs(count)] in Å, host memory, the upper triangle row by row. Memory from
 * device_host_new (common/device.h) is filled fastest. */
enum status superpose_matrix(struct superpose *superpose, float *ret_rmsd, struct err *err);

/* Computes one row: ret_rmsd[index], structure `index` (from 0) against all before it. In double. */
enum status superpose_row(struct superpose *superpose, int index, float *ret_rmsd, struct err *err);

/* Computes ret_rmsd[count]: all structures to a reference [atoms][3], which need not belong to the ensemble. In
 * double. */
enum status superpose_to_reference(struct superpose *superpose, const float *reference, float *ret_rmsd,
                                   struct err *err);

/* Pairs i < j with an RMSD below the cut-off. Starts as {0}. */
struct superpose_neighbours {
    int count;       /* structures */
    size_t *starts;  /* [count + 1] */
    int32_t *index;  /* [starts[count]] of structure i: j, rising, from starts[i] on */
    float *rmsd;     /* [starts[count]] Å */
    size_t capacity; /* of both */
};
/* Replaces the contents of `neighbours`. limit: bytes that the lists may take; 0: no limit. STATUS_NO_MEMORY: the lists
 * are larger, and `neighbours` is empty. */
enum status superpose_neighbours(struct superpose *superpose, float cutoff, size_t limit,
                                 struct superpose_neighbours *neighbours, struct err *err);
/* Frees the lists, which become {0}. */
void superpose_neighbours_clear(struct superpose_neighbours *neighbours);

#ifdef __cplusplus
}
#endif
#endif
