/* The CPU's side of the alignment. Spectra are planar: a row holds `pad` real parts, then `pad` imaginary parts. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_ALIGN_CPU_PRIVATE_H
#define ICESTREAM_KERNELS_MOTION_MOTION_ALIGN_CPU_PRIVATE_H

#include "common/fft.h"
#include "kernels/motion/motion_align_private.h"

enum { MOTION_LANES = 16 }; /* floats that vector code takes at a time */

/* A set of spectra: `members` stacks of `count` spectra each. */
struct motion_spectra {
    int members, count, side_x, side_y;
    size_t half, pad;                  /* columns: side_x/2 + 1; rounded up to MOTION_LANES */
    float *values;                     /* [members][count][side_y][2][pad] */
    float *power;                      /* [members][side_y][pad] Σ |G|² over the stack */
    float *columns;                    /* [members][count][2][pad] phase factors of a shift along x */
    float *rows;                       /* [members][count][side_y][2] and along y */
    int *ring;                         /* [side_y][pad]; MOTION_RINGS and more: outside */
    double *frequency_x, *frequency_y; /* [half], [side_y]: cycles per px of the movie */
};
enum status motion_spectra_create(const struct motion_align_plan *plan, enum motion_set set,
                                  struct motion_spectra *spectra, struct err *err);
void motion_spectra_clear(struct motion_spectra *spectra);
size_t motion_spectra_bytes(const struct motion_align_plan *plan, enum motion_set set);
float *motion_spectra_at(const struct motion_spectra *spectra, int member, int index);
/* Stores an interleaved transform [side_y][side_x/2 + 1]. */
void motion_spectra_store(const struct motion_spectra *spectra, int member, int index, const float *transform);
/* Fills the phase factors of the shifts of a member, and the power of its stack. */
void motion_spectra_shift(const struct motion_spectra *spectra, int member, const float *x, const float *y);
void motion_spectra_add_power(const struct motion_spectra *spectra, int member, int row);
/* Fills t[count][2][pad] with a shifted row of each spectrum of a member, and sum[2][pad]. */
void motion_spectra_row(const struct motion_spectra *spectra, int member, int row, float *t, float *sum);

/* Buffers of one thread. */
struct motion_worker {
    float *binned;    /* [ROWS][binned_x], then a real image of the window or of a patch */
    float *transform; /* its transform, interleaved */
    float *turned;    /* [kept columns][binned_y] complex */
    float *image;     /* a real image of the window */
    float *row;       /* one row of the movie; rows of shifted spectra */
};

struct motion_align_cpu {
    struct motion_align_plan plan;
    const struct motion_frames *frames;
    struct motion_course *course;
    struct motion_spectra whole, patches;
    struct fft_plan *rows, *columns, *search, *window, *patch;
    struct motion_worker *workers; /* [threads] */
    float *taper_x, *taper_y;      /* [binned_x], [binned_y] */
    float *patch_taper_x, *patch_taper_y;
    float *sum;      /* [search_y][2][pad of the whole] */
    double *partial; /* sums of each row of the window, so that their order never changes */
};

enum { MOTION_ROWS = 16 }; /* rows of a frame that are transformed together */

enum status motion_cpu_spectra(void *state, struct err *err);
enum status motion_cpu_powers(void *state, const float *x, const float *y, double *shared, double *total, double *count,
                              struct err *err);
enum status motion_cpu_search(void *state, const float *x, const float *y, const float *weight, float *ret_x,
                              float *ret_y, struct err *err);
enum status motion_cpu_cut(void *state, const float *x, const float *y, struct err *err);
enum status motion_cpu_slopes(void *state, enum motion_set set, const float *x, const float *y, const float *weight,
                              double *slope, double *curvature, struct err *err);
/* Returns the doubles of `partial`. */
size_t motion_cpu_partial_count(const struct motion_align_plan *plan);
/* Returns the buffers of the calling thread. */
struct motion_worker *motion_cpu_worker(const struct motion_align_cpu *align);

#endif
