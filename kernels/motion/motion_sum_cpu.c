/* Sums of frames on the CPU: what motion_sum_private.h says, in parallel over bands of rows and over columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/memory.h"
#include "kernels/motion/motion_sum_private.h"

/* Buffers of one thread. */
struct worker {
    struct motion_warp_buffers *warp;
    float *band;   /* [sums][MOTION_BAND][row_stride] in real space */
    float *lines;  /* [MOTION_BAND][line_stride] in Fourier space along x */
    float *column; /* motion_columns_floats */
};

struct motion_sum_cpu {
    struct motion_task task;
    float (*taps)[MOTION_TAPS];
    struct motion_surface *surfaces;
    struct fft_plan *row, *column; /* forward; made at the first sum */
    /* The last call asked for these: plans and buffers are kept while that stays the same. */
    int to_nx, to_ny, sums, outputs;
    struct fft_plan *row_back, *column_back;
    struct worker *workers;
    float *columns; /* [sums][to_nx/2 + 1][column_stride] */
    struct motion_spectrum_cpu *spectrum;
};

/* Floats between rows and columns: whole cache lines, and no power of 2, which would fill few sets of a cache. */
static size_t row_stride(int nx) {
    return ((size_t)nx + MOTION_TILE + 15) / 16 * 16;
}

static size_t line_stride(int nx) {
    return ((size_t)(nx / 2 + 1) * 2 + 15) / 16 * 16;
}

static size_t column_stride(int ny) {
    return ((size_t)ny * 2 + 15) / 16 * 16 + 16;
}

static int worker_index(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static void free_buffers(struct motion_sum_cpu *s) {
    for (int i = 0; s->workers != NULL && i < s->task.threads; i++) {
        free(s->workers[i].warp);
        free(s->workers[i].band);
        free(s->workers[i].lines);
        free(s->workers[i].column);
    }
    mem_free(&s->workers);
    mem_free(&s->columns);
    fft_destroy(&s->row_back);
    fft_destroy(&s->column_back);
    s->sums = 0;
}

void motion_sum_cpu_destroy(struct motion_sum_cpu **sum) {
    if (sum == NULL || *sum == NULL) return;
    struct motion_sum_cpu *s = *sum;
    free_buffers(s);
    fft_destroy(&s->row);
    fft_destroy(&s->column);
    motion_spectrum_cpu_destroy(&s->spectrum);
    free(s->taps);
    free(s->surfaces);
    mem_free(sum);
}

enum status motion_sum_cpu_create(const struct motion_task *task, struct motion_sum_cpu **ret_sum, struct err *err) {
    _cleanup_(motion_sum_cpu_destroy) struct motion_sum_cpu *s = NULL;
    TRY(mem_new(1, sizeof *s, "a sum of frames", &s, err));
    s->task = *task;
    TRY(mem_new(MOTION_PHASES + 1, sizeof *s->taps, "taps", &s->taps, err));
    TRY(mem_new((size_t)task->frames, sizeof *s->surfaces, "shifts of frames", &s->surfaces, err));
    motion_taps(s->taps);
    *ret_sum = s;
    s = NULL;
    return STATUS_OK;
}

static enum status plan(int size, enum fft_direction direction, struct fft_plan **plan_or_null, struct err *err) {
    struct fft_options options = {.rank = 1, .shape = {size}, .direction = direction, .measure = true};
    return *plan_or_null != NULL ? STATUS_OK : fft_create(&options, plan_or_null, err);
}

/* Makes the plans and buffers for outputs of this size from so many sums. */
static enum status make_buffers(struct motion_sum_cpu *s, int to_nx, int to_ny, int sums, int outputs,
                                struct err *err) {
    const struct motion_task *task = &s->task;
    TRY(plan(task->nx, FFT_FORWARD, &s->row, err));
    TRY(plan(task->ny, FFT_COMPLEX, &s->column, err));
    TRY(plan(to_nx, FFT_INVERSE, &s->row_back, err));
    TRY(plan(to_ny, FFT_COMPLEX, &s->column_back, err));
    size_t kept = (size_t)(sums > outputs ? sums : outputs);
    TRY(mem_new_unset(kept * (size_t)(to_nx / 2 + 1), column_stride(task->ny) * sizeof(float), "sums of frames",
                      &s->columns, err));
    TRY(mem_new((size_t)task->threads, sizeof *s->workers, "sums of frames", &s->workers, err));
    for (int i = 0; i < task->threads; i++) {
        struct worker *w = &s->workers[i];
        TRY(mem_new(1, sizeof *w->warp, "tiles of frames", &w->warp, err));
        TRY(mem_new((size_t)sums * MOTION_BAND, row_stride(task->nx) * sizeof(float), "rows of sums", &w->band, err));
        TRY(mem_new(MOTION_BAND, line_stride(task->nx) * sizeof(float), "rows of sums", &w->lines, err));
        TRY(mem_new((size_t)outputs * column_stride(task->ny), sizeof(float), "columns of sums", &w->column, err));
    }
    s->to_nx = to_nx;
    s->to_ny = to_ny;
    s->sums = sums;
    s->outputs = outputs;
    return STATUS_OK;
}

/* Copies a block of lines into columns or back, so that both are read and written in cache lines. */
static void turn(float *lines, size_t line, float *columns, size_t column, int rows, int count, bool back) {
    enum { BLOCK = 8 };
    for (int from = 0; from < count; from += BLOCK) {
        int last = from + BLOCK < count ? from + BLOCK : count;
        for (int kx = from; kx < last; kx++)
            for (int y = 0; y < rows; y++) {
                float *in_line = lines + (size_t)y * line + 2 * (size_t)kx;
                float *in_column = columns + (size_t)kx * column + 2 * (size_t)y;
                memcpy(back ? in_line : in_column, back ? in_column : in_line, 2 * sizeof *in_line);
            }
    }
}

/* Sums the frames in a band of rows, and stores the transforms of the rows as parts of columns. */
static void sum_band(struct motion_sum_cpu *s, const struct motion_warp *warp, struct worker *w, int first_row) {
    int rows = s->task.ny - first_row < MOTION_BAND ? s->task.ny - first_row : MOTION_BAND;
    size_t line = line_stride(s->task.nx), column = column_stride(s->task.ny), columns = (size_t)(s->to_nx / 2 + 1);
    motion_warp_band(warp, w->warp, first_row, rows, w->band);
    for (int sum = 0; sum < s->sums; sum++) {
        for (int y = 0; y < rows; y++)
            fft_run(s->row, w->band + (size_t)(sum * MOTION_BAND + y) * warp->stride, w->lines + (size_t)y * line);
        turn(w->lines, line, s->columns + (size_t)sum * columns * column + 2 * (size_t)first_row, column, rows,
             (int)columns, false);
    }
}

/* Transforms a band of rows of an output back, and writes it to the image. */
static void write_band(struct motion_sum_cpu *s, struct worker *w, int output, int first_row, float *image) {
    int rows = s->to_ny - first_row < MOTION_BAND ? s->to_ny - first_row : MOTION_BAND;
    size_t line = line_stride(s->to_nx), column = column_stride(s->task.ny), columns = (size_t)(s->to_nx / 2 + 1);
    turn(w->lines, line, s->columns + (size_t)output * columns * column + 2 * (size_t)first_row, column, rows,
         (int)columns, true);
    for (int y = 0; y < rows; y++) {
        fft_run(s->row_back, w->lines + (size_t)y * line, w->band);
        memcpy(image + (size_t)(first_row + y) * (size_t)s->to_nx, w->band, (size_t)s->to_nx * sizeof *image);
    }
}

static void run_bands(struct motion_sum_cpu *s, const struct motion_warp *warp) {
    int bands = (s->task.ny + MOTION_BAND - 1) / MOTION_BAND;
#pragma omp parallel for schedule(dynamic) num_threads(s->task.threads)
    for (int band = 0; band < bands; band++)
        sum_band(s, warp, &s->workers[worker_index()], band * MOTION_BAND);
}

static void run_columns(struct motion_sum_cpu *s, const struct motion_columns *columns) {
#pragma omp parallel for schedule(dynamic, 8) num_threads(s->task.threads)
    for (int kx = 0; kx <= s->to_nx / 2; kx++)
        motion_columns_run(columns, kx, s->workers[worker_index()].column);
}

static void write_outputs(struct motion_sum_cpu *s, const struct motion_columns *columns) {
    int bands = (s->to_ny + MOTION_BAND - 1) / MOTION_BAND;
#pragma omp parallel for schedule(dynamic) num_threads(s->task.threads)
    for (int i = 0; i < columns->outputs * bands; i++) {
        int output = i / bands;
        write_band(s, &s->workers[worker_index()], output, i % bands * MOTION_BAND, columns->output[output].image);
    }
}

/* Lists the images that are wanted. Returns their number. */
static int list_outputs(const struct motion_sums *sums, struct motion_output *ret_output) {
    const struct motion_output all[] = {{MOTION_WEIGHTED, sums->weighted},
                                        {MOTION_UNWEIGHTED, sums->unweighted},
                                        {MOTION_ODD, sums->odd},
                                        {MOTION_EVEN, sums->even}};
    int count = 0;
    for (int i = 0; i < 4; i++)
        if (all[i].image != NULL) ret_output[count++] = all[i];
    return count;
}

/* Makes the images. Without doses, or if only the plain sum is wanted, there is one term. */
static enum status sum_images(struct motion_sum_cpu *s, const struct motion_frames *frames,
                              const struct motion_sum_options *options, struct motion_columns *columns,
                              struct err *err) {
    const struct motion_task *task = &s->task;
    const struct motion_output *output = columns->output;
    int to_nx, outputs = columns->outputs;
    bool plain = outputs == 1 && output[0].kind == MOTION_UNWEIGHTED;
    enum motion_output_kind last = output[outputs - 1].kind;
    _cleanup_(motion_weights_destroy) struct motion_weights *weights = NULL;
    TRY(motion_weights_create(task->frames, plain ? NULL : options->dose, options->pixel_size, options->voltage,
                              &weights, err));
    columns->sets = last == MOTION_ODD || last == MOTION_EVEN ? 2 : 1;
    motion_sum_size(task->nx, task->ny, options->bin, &to_nx, &columns->to_ny);
    int sums = columns->sets * weights->terms;
    if (s->sums != sums || s->outputs != outputs || s->to_nx != to_nx || s->to_ny != columns->to_ny) {
        free_buffers(s);
        enum status status = make_buffers(s, to_nx, columns->to_ny, sums, outputs, err);
        if (status != STATUS_OK) free_buffers(s);
        TRY(status);
    }
    struct motion_warp warp = {.frames = frames,
                               .weights = weights,
                               .surfaces = s->surfaces,
                               .taps = (const float(*)[MOTION_TAPS])s->taps,
                               .sets = columns->sets,
                               .stride = row_stride(task->nx)};
    columns->weights = weights;
    columns->forward = s->column;
    columns->back = s->column_back;
    columns->stride = column_stride(task->ny);
    columns->each = columns->stride * (size_t)(to_nx / 2 + 1);
    columns->sums = s->columns;
    motion_warp_choose_tiles(&warp);
    run_bands(s, &warp);
    run_columns(s, columns);
    write_outputs(s, columns);
    return STATUS_OK;
}

enum status motion_sum_cpu_run(struct motion_sum_cpu *s, const struct motion_frames *frames,
                               const struct motion_model *model, const struct motion_sum_options *options,
                               const struct motion_sums *sums, struct err *err) {
    const struct motion_task *task = &s->task;
    TRY(motion_model_surfaces(model, s->surfaces, err));
    struct motion_columns columns = {
        .nx = task->nx, .ny = task->ny, .scale = (float)(1 / ((double)task->nx * task->ny))};
    columns.outputs = list_outputs(sums, columns.output);
    if (columns.outputs > 0) TRY(sum_images(s, frames, options, &columns, err));
    if (sums->power == NULL) return STATUS_OK;
    if (s->spectrum != NULL && motion_spectrum_cpu_box(s->spectrum) != options->spectrum_box)
        motion_spectrum_cpu_destroy(&s->spectrum);
    if (s->spectrum == NULL) TRY(motion_spectrum_cpu_create(task, options->spectrum_box, &s->spectrum, err));
    return motion_spectrum_cpu_run(s->spectrum, frames, model, options->spectrum_group, sums->power, err);
}

/* Terms of up to 100 e⁻/Å² at 1 Å per px (test_motion_weights). */
enum { USUAL_TERMS = 10 };

size_t motion_sum_cpu_bytes(const struct motion_task *task, const struct motion_sum_options *options) {
    int to_nx, to_ny, terms = options->dose != NULL ? USUAL_TERMS : 1;
    if (terms > task->frames) terms = task->frames;
    motion_sum_size(task->nx, task->ny, options->bin, &to_nx, &to_ny);
    size_t sums = (size_t)(options->halves ? 2 * terms : terms), least = options->halves ? 4 : 2,
           kept = sums > least ? sums : least;
    size_t columns = mem_bytes(kept * (size_t)(to_nx / 2 + 1), column_stride(task->ny));
    size_t worker =
        mem_sum(mem_bytes((sums + 1) * MOTION_BAND, row_stride(task->nx)), mem_bytes(4, column_stride(task->ny)));
    size_t floats = mem_sum(columns, mem_bytes((size_t)task->threads, worker));
    return mem_sum(mem_bytes(floats, sizeof(float)), motion_spectrum_cpu_bytes(task, options->spectrum_box));
}
