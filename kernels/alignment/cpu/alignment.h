/* Definitions shared by the files of the E-step on the CPU.
 *
 * A row is an orientation of the grid in a reference: reference · orientations + orientation. Memory is divided into
 * quarters: images and shifted images of a batch, coarse slices, coarse weights, and fine slices. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CPU_ALIGNMENT_H
#define ICESTREAM_KERNELS_ALIGNMENT_CPU_ALIGNMENT_H

#include "kernels/alignment/alignment_private.h"
#include "kernels/alignment/turns.h"
#include "kernels/expectation/expectation.h"
#include "kernels/prepare/prepare.h"

enum { ALIGNMENT_BATCH_MOST = 192 };
static const double ALIGNMENT_FRACTION = 0.999;

struct int_list {
    int *data;
    int count, capacity;
};

struct grown {
    float *data;
    size_t capacity;
};

/* A fine pose that contributes. */
struct contribution {
    int slice, shift; /* slice: within the part of the batch; shift: fine shift of the grid */
    float weight;
};

/* One particle of a batch. */
struct batch_particle {
    const struct alignment_particle *particle;
    struct alignment_result *result;
    float *masked, *unmasked, *ctf, *weight, *coarse; /* result->power holds mean |X|²/2 until residuals are known */
    struct sampling_subset near;
    struct int_list significant; /* coarse samples: row of the coarse pass · shifts + shift */
    struct int_list rows;        /* rows of the grid with significant samples, ascending */
    struct contribution *contributions;
    int contribution_count, contribution_capacity;
    float *shift_log_prior; /* [shifts] */
    int *shift_slot;        /* [fine shifts]: row of shifted images, −1: unused */
    int used_shifts;
    size_t first_shifted; /* row in the batch's store of shifted images */
    int best_slice, best_shift;
};

struct thread_space {
    struct prepare *prepare;
    struct expectation *expectation;
    struct int_list pose_slice, pose_shift;
    struct grown poses;        /* weights of fine poses */
    struct grown local_slices; /* and the matrices of their slices */
    struct grown local_prior;  /* priors of rows, if there are several references */
    struct grown sums;         /* 4·n: Σ_t w X_t, 2·n; cross and power, n each */
    struct grown shifted;      /* [fine shifts][2·n] */
};

struct alignment_cpu {
    struct alignment_options options;
    int shells;           /* box/2 + 1 */
    double *shell_pixels; /* [shells]: half-plane pixels */

    /* State of the iteration. */
    struct alignment_iteration iteration;
    struct fourier_pixels pixels; /* iteration.pixels, borrowed */
    int fine_pixels;              /* to compare in the fine pass: references are empty beyond */
    int orientations, rows, shifts, fine_shifts;
    int rotations, translations; /* fine poses per orientation and per shift of the grid */
    int batch, slice_rows;       /* particles, and rows with slices in memory, at a time */
    bool sliced;                 /* coarse_slices holds all rows of this iteration */
    bool all_slices;             /* slots and fine_slices hold all rows for the rest of the iteration */
    double (*coarse_shift)[2], (*fine_shift)[2];
    struct grown row_prior; /* [rows], if references have priors */

    struct batch_particle particles[ALIGNMENT_BATCH_MOST];
    struct grown coarse_slices; /* [slice_rows][2·coarse pixels] */
    struct grown spectra, coarse, priors, fine_slices, shifted, scatter;
    struct int_list slots, scatter_order; /* rows of the part */
    struct thread_space *threads;
    struct expectation *expectation;
    struct alignment_turns *turns; /* of several workers; NULL: there is one */
    int turn;
};

/* Enlarges a buffer to at least `count` values, or a list to at least `capacity` entries. Growing
 * loses the contents. what: for the message. */
enum status alignment_cpu_reserve(struct grown *buffer, size_t count, const char *what, struct err *err);
enum status alignment_cpu_reserve_list(struct int_list *list, int capacity, struct err *err);

/* coarse.c: computes the weights of coarse samples of a prepared batch, and lists the samples that matter. */
enum status alignment_cpu_coarse(struct alignment_cpu *alignment, int count, struct err *err);
/* Compares all rows at shifts[n_shifts]: ret_diff2[count][rows][n_shifts]. empty: compares an empty image instead of
 * the masked images. */
enum status alignment_cpu_compare_all(struct alignment_cpu *alignment, int count, bool empty, const double (*shifts)[2],
                                      int n_shifts, float *ret_diff2, struct err *err);
/* fine.c: runs the fine pass and fills the results. */
enum status alignment_cpu_fine(struct alignment_cpu *alignment, int count, struct err *err);
/* Returns the reference of a slice of the current part. */
int alignment_cpu_slice_reference(const struct alignment_cpu *alignment, int slice);
/* sums.c: adds the contributions of particles first .. first+count−1 to the sums. */
enum status alignment_cpu_back_project(struct alignment_cpu *alignment, int first, int count, struct err *err);
/* Computes sum[count] += factor · values[count]. */
void alignment_cpu_add_scaled(float *sum, const float *values, float factor, int count);

#endif
