/* The parts of the sums on the CPU.
 *
 * Rows of the sums are made band by band: all frames of a band are interpolated and added to one sum for each term of
 * the dose weights (motion_warp_cpu.c), the band's rows are transformed and stored as columns (motion_sum_cpu.c).
 * Columns are then transformed, weighted, cropped and transformed back one by one (motion_columns_cpu.c). So neither a
 * frame nor a sum is ever written to memory in real space. */
#ifndef ICESTREAM_KERNELS_MOTION_MOTION_SUM_PRIVATE_H
#define ICESTREAM_KERNELS_MOTION_MOTION_SUM_PRIVATE_H

#include "common/fft.h"
#include "kernels/motion/motion_private.h"
#include "kernels/motion/motion_weights.h"

/* Rows of a band; widest tile of a band; frames that are added at once. */
enum { MOTION_BAND = 32, MOTION_TILE = 128, MOTION_GROUP = 4 };
/* Rows and columns of pixels that a tile needs, the latter for whole vectors. */
enum { MOTION_RAW_ROWS = MOTION_BAND + MOTION_TAPS, MOTION_RAW_STRIDE = MOTION_TILE + 16 };

/* Shared by all threads of the warp. */
struct motion_warp {
    const struct motion_frames *frames;
    const struct motion_weights *weights;
    const struct motion_surface *surfaces; /* [frames] */
    const float (*taps)[MOTION_TAPS];
    int tile_x, tile_y; /* px in which the shift is taken as constant */
    int sets;           /* 2: frames 1, 3, … and frames 2, 4, … are summed apart */
    size_t stride;      /* floats between rows of a band */
};

/* Buffers of one thread, from mem_aligned. */
struct motion_warp_buffers {
    float raw[MOTION_RAW_ROWS * MOTION_RAW_STRIDE];
    float tiles[MOTION_GROUP][MOTION_BAND * MOTION_TILE];
};

/* Chooses tiles so small that the shift is off by at most 0.05 px in them, but not smaller than 16 × 8 px. */
void motion_warp_choose_tiles(struct motion_warp *warp);
/* Sums the frames in rows first_row … first_row + rows − 1. band: [sets · terms][MOTION_BAND][stride]. */
void motion_warp_band(const struct motion_warp *warp, struct motion_warp_buffers *buffers, int first_row, int rows,
                      float *band);

/* One column of all sums in Fourier space, and what becomes of it. */
struct motion_columns {
    const struct motion_weights *weights;
    const struct fft_plan *forward, *back; /* FFT_COMPLEX, of ny and of to_ny values */
    int nx, ny, to_ny;
    int sets;
    size_t stride, each; /* floats: between columns, and between sums */
    float *sums;         /* [sums][columns][stride], rows in order; outputs o take the place of sums o */
    int outputs;         /* at most MOTION_OUTPUTS */
    struct motion_output {
        enum motion_output_kind { MOTION_WEIGHTED, MOTION_UNWEIGHTED, MOTION_ODD, MOTION_EVEN } kind;
        float *image; /* [to_ny][to_nx] */
    } output[4];
    float scale; /* of all outputs */
};

/* Returns the floats that a thread needs for motion_columns_run, in a buffer from mem_aligned. */
size_t motion_columns_floats(const struct motion_columns *columns);
void motion_columns_run(const struct motion_columns *columns, int kx, float *buffer);

/* Averages the power of tiles of the sums of groups. */
struct motion_spectrum_cpu;
enum status motion_spectrum_cpu_create(const struct motion_task *task, int box,
                                       struct motion_spectrum_cpu **ret_spectrum, struct err *err);
void motion_spectrum_cpu_destroy(struct motion_spectrum_cpu **spectrum);
int motion_spectrum_cpu_box(const struct motion_spectrum_cpu *spectrum);
enum status motion_spectrum_cpu_run(struct motion_spectrum_cpu *spectrum, const struct motion_frames *frames,
                                    const struct motion_model *model, int group, float *power, struct err *err);
size_t motion_spectrum_cpu_bytes(const struct motion_task *task, int box);

#endif
