/* Reconstructs tomograms from aligned tilt series: SIRT with blobs, with the paper's linear weights or with voxels;
 * weighted back-projection (WBP).
 *
 * Projections are float [tilt][y][x] (ny rows of nx px, pixel p of tilt t at ((t · ny) + y) · nx + x), the volume float
 * [z][y][x] (nz slices of ny rows of nx voxels). Both are in host memory. This is MRC's order, and y is the tilt axis:
 * what IMOD calls a tomogram rotated about x (`trimvol -rx`). A slab of rows y is one strided piece of either. All
 * lengths are in px of the images.
 *
 * Geometry. At tilt θ, row y of the image meets voxel (x, y, z) at
 *
 *   u(x, z) = (x − (nx − 1)/2) cos θ + (z − (nz − 1)/2) sin θ + shift + (nx − 1)/2
 *
 * (the column of the image, from 0), so x, z and u are counted from the centres (N − 1)/2.
 *
 * Handedness. At a positive tilt, material at large z moves to large x in the image. IMOD has the same sign for angles
 * as they stand in .tlt and .rawtlt, with z as `trimvol -rx` leaves it. `trimvol -rx` is a rotation, so the hand is
 * kept, and z runs against the thickness axis of the slices that IMOD's `tilt` writes. After `trimvol -yz` the same
 * tomogram is mirrored. No file says if z points to the source or to the detector. Where a microscope's angles have the
 * other sign, the tomogram is mirrored in z, and its hand with it: negate the angles.
 *
 * Pixels beyond the images are not measured: they take no part in the reconstruction.
 *
 * Weights. With f = u − floor(u), voxel j gives rays floor(u) − 1 .. floor(u) + 2 of its row the weights q0(f). The
 * same rays of rows y − 1 and y + 1 get the weights q1(f). The weights of one voxel and tilt sum to 1, so that
 * projections are sums along the ray in density × px:
 *
 *   blob    B(s) and B(√(s² + 1)) of rays at distance s, B the footprint of the Kaiser-Bessel window, radius 2 px,
 *           m = 2, α = 3.6 (Lewitt 1990; Matej & Lewitt 1996; paper 002, eq. 2; kernels/tomography/blob.h)
 *   linear  max(0, 2 − s) / 4, q1 = 0: the paper's four numbers 1 − f, 2 − f, 1 + f, f (its eq. 6 in another order)
 *   voxel   max(0, 1 − s), q1 = 0: linear interpolation between the two nearest rays
 *
 * SIRT solves for coefficients c. The volume is Σ c_j b(r − r_j). For blobs this is a sum over 27 neighbours, divided
 * by the value that equal coefficients of 1 would give. For the other bases the volume is c itself.
 *
 * SIRT (Gilbert 1972; Gregor & Benson 2008; paper 002, eq. 5), R = 1 / max(1, Σ_h w_ih) per ray and
 * C = 1 / max(1, Σ_i w_ij) per voxel:
 *   c ← c + λ C Wᵀ R (p − W c)
 * The residual √(Σ R (p − W c)²) falls monotonically for 0 < λ < 2. Sums below 1 count as 1 (our reading; the paper
 * divides by any sum). Otherwise a ray that cuts a corner of the slice would weight its noise by a huge number and
 * dominate the residual. Rays and voxels whose sum is below 1e-6 are left out.
 *
 * A plan is used by one thread at a time; the same calls give the same bits. CPU results do not depend on threads. */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_TOMOGRAPHY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tomography_method { TOMOGRAPHY_SIRT, TOMOGRAPHY_WBP };
enum tomography_basis { TOMOGRAPHY_BLOB, TOMOGRAPHY_LINEAR, TOMOGRAPHY_VOXEL };
/* The source of SIRT's weights. All give the same volume except for rounding.
 *   On the fly: computed from u as they are needed.
 *   ELLR: weights and rays of every voxel and tilt of a slice are stored.
 *   Blob-ELLR: floor(u) and f of half the voxels and of one tilt of every pair ±θ are stored. The rest follows by the
 *     symmetries of paper 002; shifts are added after reading, so they break no symmetry.
 *   Auto: the fastest on that device. */
enum tomography_matrix { TOMOGRAPHY_AUTO, TOMOGRAPHY_ON_THE_FLY, TOMOGRAPHY_ELLR, TOMOGRAPHY_BLOB_ELLR };
/* c before the first iteration. Back-projection: C Wᵀ R p. Plain: C Wᵀ p, literally as in the paper; it is
 * too large by the length of the rays and needs iterations to come down. */
enum tomography_start { TOMOGRAPHY_START_BACK_PROJECTION, TOMOGRAPHY_START_PLAIN, TOMOGRAPHY_START_ZERO };
/* The factor of WBP's ramp |k| between 0 and `cutoff`. */
enum tomography_roll_off { TOMOGRAPHY_RAMP, TOMOGRAPHY_COSINE, TOMOGRAPHY_HAMMING };

struct tomography_geometry {
    int tilts;
    const double *angles; /* [tilts] degrees, any order; copied */
    const double *shifts; /* [tilts] px along x, added to u; NULL: none; copied */
    int nx, ny;           /* of images and volume */
    int nz;               /* thickness */
};

/* A limit of 1 ends every run with its second iteration. */
#define TOMOGRAPHY_MOST_ITERATIONS 10000
#define TOMOGRAPHY_MOST_LIMIT 1

struct tomography_options {
    struct tomography_geometry geometry;
    enum tomography_method method;

    /* SIRT */
    enum tomography_basis basis;
    enum tomography_matrix matrix;
    enum tomography_start start;
    int iterations;            /* at most, up to TOMOGRAPHY_MOST_ITERATIONS; 0: the start itself */
    double relaxation;         /* λ, 0 < λ < 2 */
    double limit;              /* stop when the residual falls by less than this part of itself, up to
                                  TOMOGRAPHY_MOST_LIMIT; 0: never */
    bool non_negative;         /* c is cut off at 0 in every iteration */
    const unsigned char *mask; /* [z][y][x]; c stays 0 where it is 0; NULL: none. Kept by the caller. R and C are those
                                  of the whole volume */
    /* Called after each iteration, from 1, with the relative residual before that iteration. Returning false ends the
     * run with STATUS_CANCELLED. NULL: no calls.
     *
     * If a CUDA device's memory does not hold all rows, they are made in passes, and the residual is known only after
     * the last pass. Then the function is called with NaN, after each iteration of each pass, and between passes of WBP
     * (iteration 0). */
    bool (*go_on)(void *context, int iteration, double residual);
    void *context;

    /* WBP */
    enum tomography_roll_off roll_off;
    double cutoff; /* of the Nyquist frequency, 0 < cutoff ≤ 1; nothing is kept beyond */

    /* Devices */
    const struct device *devices; /* [device_count], all of one kind; copied. They share out slabs of rows y */
    int device_count;
    int slabs;       /* CUDA; 0: as few as there are devices and as fit the memory. The CPU works on all rows at once */
    bool no_overlap; /* exchange halo rows and compute by turns (paper 002's synchronous scheme), for comparison */
    int threads;     /* CPU; at least 1 */
    size_t memory;   /* bytes of each device's memory (0: what is free), or of the host's beside the caller's arrays (0:
                        what the machine has, for all of them) */
};

/* Returns SIRT on the CPU, blobs, auto, 25 iterations, λ 1, cosine roll-off to Nyquist. The caller sets geometry and
 * devices. */
struct tomography_options tomography_defaults(void);

/* A plan: tables, sums, matrix, buffers. Made once, run many times. */
struct tomography;

/* Creates a plan. STATUS_BAD_ARGUMENT, with a message that names the value: sizes below 1, no tilt, an angle that is
 * NaN or beyond ±90°, equal angles only, a shift that is NaN or beyond nx, or options out of range. STATUS_UNSUPPORTED:
 * a CUDA device in a build without. STATUS_NO_MEMORY: the memory does not hold one row and its neighbours. */
enum status tomography_create(const struct tomography_options *options, struct tomography **ret_plan, struct err *err);
void tomography_destroy(struct tomography **plan);

/* The report of a run. */
struct tomography_report {
    int iterations;          /* number of iterations made */
    const double *residuals; /* [iterations], owned by the plan until its next run: √(Σ R (p − W c)² / Σ R p²) of the
                                c before each iteration */
    int slabs;
    enum tomography_matrix matrix; /* the matrix used, never auto; on the fly for WBP */
};

/* Reconstructs ret_volume [z][y][x] from projections [tilt][y][x]. Memory from device_host_new (common/device.h) is
 * copied fastest. STATUS_BAD_ARGUMENT: a pixel is NaN or infinite (the message counts tilt, row and column from 1);
 * STATUS_CANCELLED: go_on returned false; ret_volume may be partly written. ret_report may be NULL. */
enum status tomography_run(struct tomography *plan, const float *projections, float *ret_volume,
                           struct tomography_report *ret_report, struct err *err);

/* Checks a geometry as tomography_create does. */
enum status tomography_check_geometry(const struct tomography_geometry *geometry, struct err *err);

/* Returns the bytes of a matrix by formula, with B tilts, N = nx nz and B' different |θ|:
 *   on the fly 0;  ELLR A[4B][N] and I[4B][N], 32 B N, and for blobs A once more (q1), 48 B N;  blob-ELLR A and I of
 *   B' ⌈N/2⌉ entries, 8 B' ⌈N/2⌉: 2 B N where tilts come in pairs, 1/16 of 32 B N.
 * auto: on the fly. */
size_t tomography_matrix_bytes(const struct tomography_geometry *geometry, enum tomography_basis basis,
                               enum tomography_matrix matrix);

#ifdef __cplusplus
}
#endif
#endif
