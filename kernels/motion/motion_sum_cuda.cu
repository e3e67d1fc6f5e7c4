/* Sums of frames on a CUDA device. As on the CPU, the frames are summed in real space with the coefficients of a few
 * terms; these sums are transformed, weighted and cropped in Fourier space, and transformed back. */
#include <math.h>
#include <stdlib.h>

#include "kernels/motion/motion_spectrum_cuda.cuh"
#include "kernels/motion/motion_warp_cuda.cuh"

enum { THREADS = 256 };
enum { WEIGHTED, UNWEIGHTED, HALF, OUTPUTS };

/* The tables of struct motion_weights, in the device's memory. */
struct weight_tables {
    float *of_frame;     /* [frames][MOTION_TERMS] */
    float *of_frequency; /* [MOTION_STEPS + 1][MOTION_TERMS] */
    float *of_half;      /* [2][MOTION_STEPS + 1] */
};

struct motion_sum_cuda {
    int room;         /* sums that fit into `sums` */
    int to_nx, to_ny; /* px of the outputs; 0: none yet */
    cufftHandle forward, inverse;
    float *sums;              /* [room][ny][2 · (nx/2 + 1)], then their transforms in place */
    float2 *spectra[OUTPUTS]; /* [to_ny][to_nx/2 + 1] */
    float *image;             /* [to_ny][to_nx] */
    float *taps;
    struct weight_tables tables;
    struct warp_shift *shifts, *host_shifts; /* the surfaces in single precision */
    struct motion_surface *surfaces;
    struct motion_spectrum_cuda *spectrum; /* NULL until one is wanted */
};

namespace {

struct sizes {
    int nx, ny, to_nx, to_ny;
};

/* Adds up the terms of a set of frames, at each frequency of the output. */
struct combination {
    sizes size;
    int terms;
    const float2 *sums;                   /* [terms][ny][nx/2 + 1] */
    const float *of_frequency, *of_half;  /* of_half: of this set; NULL: of all frames */
    float2 *weighted, *unweighted, *half; /* NULL: not wanted */
    bool add;                             /* to what weighted and unweighted hold */
};

__device__ void put(float2 *to, bool add, float2 value) {
    if (add) value.x += to->x, value.y += to->y;
    *to = value;
}

__global__ void combine(combination c) {
    const int kx = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y, columns = c.size.to_nx / 2 + 1;
    if (kx >= columns) return;
    const int ky = row <= c.size.to_ny / 2 ? row : row - c.size.to_ny, from_row = ky < 0 ? ky + c.size.ny : ky;
    const size_t each = (size_t)c.size.ny * (c.size.nx / 2 + 1), to = (size_t)row * columns + kx;
    const float2 *from = c.sums + (size_t)from_row * (c.size.nx / 2 + 1) + kx;
    const float x = (float)kx / c.size.nx, y = (float)ky / c.size.ny, scale = 1 / ((float)c.size.nx * c.size.ny);
    const float at = sqrtf(x * x + y * y) * (float)(MOTION_STEPS * M_SQRT2);
    const int step = min((int)at, MOTION_STEPS - 1);
    const float part = at - step;
    const float *low = c.of_frequency + (size_t)step * MOTION_TERMS, *high = low + MOTION_TERMS;
    float2 sum = {0, 0}, plain = from[0];
    for (int t = 0; t < c.terms; t++) {
        const float2 value = from[t * each];
        const float factor = low[t] + part * (high[t] - low[t]);
        sum.x += factor * value.x, sum.y += factor * value.y;
    }
    sum.x *= scale, sum.y *= scale, plain.x *= scale, plain.y *= scale;
    if (c.weighted) put(c.weighted + to, c.add, sum);
    if (c.unweighted) put(c.unweighted + to, c.add, plain);
    if (c.half) {
        const float factor = c.of_half[step] + part * (c.of_half[step + 1] - c.of_half[step]);
        c.half[to] = make_float2(factor * sum.x, factor * sum.y);
    }
}

size_t half_count(int nx, int ny) {
    return (size_t)ny * (nx / 2 + 1);
}

/* Makes what depends on the movie's shape alone. */
enum status build(motion_cuda *m, motion_sum_cuda *s, err *err) {
    const motion_task *task = &m->task;
    int shape[2] = {task->ny, task->nx}, real[2] = {task->ny, 2 * (task->nx / 2 + 1)};
    int half[2] = {task->ny, task->nx / 2 + 1};
    size_t frames = (size_t)task->frames;
    float taps[MOTION_PHASES + 1][MOTION_TAPS];
    CUFFT_TRY(
        cufftPlanMany(&s->forward, 2, shape, real, 1, real[0] * real[1], half, 1, half[0] * half[1], CUFFT_R2C, 1), err,
        "planning the transforms of frames");
    CUFFT_TRY(cufftSetStream(s->forward, m->stream), err, "planning the transforms of frames");
    CUDA_TRY(cudaMalloc(&s->taps, sizeof taps), err, "making room for the taps of interpolation");
    CUDA_TRY(cudaMalloc(&s->tables.of_frame, frames * MOTION_TERMS * sizeof(float)), err, "making room for weights");
    CUDA_TRY(cudaMalloc(&s->tables.of_frequency, (MOTION_STEPS + 1) * MOTION_TERMS * sizeof(float)), err,
             "making room for weights");
    CUDA_TRY(cudaMalloc(&s->tables.of_half, 2 * (MOTION_STEPS + 1) * sizeof(float)), err, "making room for weights");
    CUDA_TRY(cudaMalloc(&s->shifts, frames * sizeof *s->shifts), err, "making room for shifts");
    TRY(motion_host_new(frames, sizeof *s->host_shifts, "shifts of a movie", &s->host_shifts, err));
    TRY(motion_host_new(frames, sizeof *s->surfaces, "shifts of a movie", &s->surfaces, err));
    motion_taps(taps);
    CUDA_TRY(cuda_copy(s->taps, taps, sizeof taps), err, "taking the taps of interpolation there");
    return STATUS_OK;
}

/* Makes what depends on the size of the outputs; keeps it while that is the same. */
enum status resize(motion_cuda *m, motion_sum_cuda *s, int nx, int ny, err *err) {
    if (s->to_nx == nx && s->to_ny == ny) return STATUS_OK;
    s->to_nx = s->to_ny = 0;
    if (s->inverse) (void)cufftDestroy(s->inverse);
    s->inverse = 0;
    void **buffers[] = {(void **)&s->image, (void **)&s->spectra[WEIGHTED], (void **)&s->spectra[UNWEIGHTED],
                        (void **)&s->spectra[HALF]};
    for (int i = 0; i < 1 + OUTPUTS; i++) {
        (void)cudaFree(*buffers[i]);
        *buffers[i] = NULL;
    }
    CUFFT_TRY(cufftPlan2d(&s->inverse, ny, nx, CUFFT_C2R), err, "planning the transforms of sums");
    CUFFT_TRY(cufftSetStream(s->inverse, m->stream), err, "planning the transforms of sums");
    CUDA_TRY(cudaMalloc(&s->image, (size_t)nx * ny * sizeof(float)), err, "making room for a sum");
    for (int i = 0; i < OUTPUTS; i++)
        CUDA_TRY(cudaMalloc(&s->spectra[i], half_count(nx, ny) * sizeof(float2)), err, "making room for a sum");
    s->to_nx = nx, s->to_ny = ny;
    return STATUS_OK;
}

/* Takes the weights and the shifts of all frames there. */
enum status take_tables(motion_cuda *m, motion_sum_cuda *s, const motion_model *model, const motion_weights *w,
                        err *err) {
    size_t sum = half_count(m->task.nx, m->task.ny) * sizeof(float2), column = (MOTION_STEPS + 1) * sizeof(float);
    if (s->room < w->terms) {
        (void)cudaFree(s->sums);
        s->sums = NULL, s->room = 0;
        CUDA_TRY(cudaMalloc(&s->sums, (size_t)w->terms * sum), err, "making room for sums of frames");
        s->room = w->terms;
    }
    for (int frame = 0; frame < model->frames; frame++)
        for (int i = 0; i < 2 * MOTION_SURFACE; i++)
            s->host_shifts[frame].c[i / MOTION_SURFACE][i % MOTION_SURFACE] =
                (float)s->surfaces[frame].c[i / MOTION_SURFACE][i % MOTION_SURFACE];
    CUDA_TRY(cuda_copy(s->tables.of_frame, w->of_frame, (size_t)w->frames * sizeof *w->of_frame), err,
             "taking weights there");
    CUDA_TRY(cuda_copy(s->tables.of_frequency, w->of_frequency, MOTION_TERMS * column), err, "taking weights there");
    for (int half = 0; half < 2; half++)
        CUDA_TRY(cuda_copy(s->tables.of_half + half * (MOTION_STEPS + 1), w->of_half[half], column), err,
                 "taking weights there");
    CUDA_TRY(cuda_copy(s->shifts, s->host_shifts, (size_t)model->frames * sizeof *s->shifts), err,
             "taking shifts there");
    return STATUS_OK;
}

/* Sums the frames first, first + step, …, and adds the terms at each frequency. */
enum status add_set(motion_cuda *m, motion_sum_cuda *s, int terms, int first, int step, combination *c, err *err) {
    size_t each = half_count(m->task.nx, m->task.ny);
    warp_job job = {m->frames, s->shifts, s->taps, s->tables.of_frame, terms, first, step, s->sums};
    TRY(motion_warp_cuda(&job, m->stream, err));
    for (int t = 0; t < terms; t++) {
        float *sum = s->sums + (size_t)t * 2 * each;
        CUFFT_TRY(cufftExecR2C(s->forward, sum, (cufftComplex *)sum), err, "transforming sums of frames");
    }
    dim3 blocks(blocks_for(s->to_nx / 2 + 1, THREADS), s->to_ny);
    combine<<<blocks, THREADS, 0, m->stream>>>(*c);
    CUDA_TRY(cudaGetLastError(), err, "weighting sums of frames");
    return STATUS_OK;
}

/* Transforms a spectrum back and queues its copy to the host. */
enum status fetch(motion_cuda *m, motion_sum_cuda *s, int which, float *image, err *err) {
    CUFFT_TRY(cufftExecC2R(s->inverse, s->spectra[which], s->image), err, "transforming a sum");
    CUDA_TRY(
        cudaMemcpyAsync(image, s->image, (size_t)s->to_nx * s->to_ny * sizeof(float), cudaMemcpyDefault, m->stream),
        err, "fetching a sum");
    return STATUS_OK;
}

enum status add_all(motion_cuda *m, motion_sum_cuda *s, const motion_weights *w, const motion_sums *sums, err *err) {
    /* Frames 1, 3, … (odd) begin at 0. Without halves, all frames are one set. */
    float *halves[2] = {sums->odd, sums->even};
    int sets = sums->odd != NULL || sums->even != NULL ? 2 : 1;
    combination c = {};
    c.size = {m->task.nx, m->task.ny, s->to_nx, s->to_ny};
    c.terms = w->terms;
    c.sums = (const float2 *)s->sums;
    c.of_frequency = s->tables.of_frequency;
    c.weighted = sums->weighted ? s->spectra[WEIGHTED] : NULL;
    c.unweighted = sums->unweighted ? s->spectra[UNWEIGHTED] : NULL;
    for (int set = 0; set < sets; set++) {
        c.of_half = s->tables.of_half + set * (MOTION_STEPS + 1);
        c.half = halves[set] ? s->spectra[HALF] : NULL;
        c.add = set > 0;
        TRY(add_set(m, s, w->terms, set, sets, &c, err));
        if (c.half) TRY(fetch(m, s, HALF, halves[set], err));
    }
    if (sums->weighted) TRY(fetch(m, s, WEIGHTED, sums->weighted, err));
    if (sums->unweighted) TRY(fetch(m, s, UNWEIGHTED, sums->unweighted, err));
    return STATUS_OK;
}

} // namespace

void motion_sum_cuda_destroy(struct motion_sum_cuda *s) {
    if (s == NULL) return;
    motion_spectrum_cuda_destroy(s->spectrum);
    if (s->forward) (void)cufftDestroy(s->forward);
    if (s->inverse) (void)cufftDestroy(s->inverse);
    void *buffers[] = {s->sums, s->spectra[0],      s->spectra[1],          s->spectra[2],     s->image,
                       s->taps, s->tables.of_frame, s->tables.of_frequency, s->tables.of_half, s->shifts};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        (void)cudaFree(buffers[i]);
    free(s->host_shifts);
    free(s->surfaces);
    free(s);
}

enum status motion_sum_cuda_create(struct motion_cuda *m, struct motion_sum_cuda **ret_sum, struct err *err) {
    struct motion_sum_cuda *s = (struct motion_sum_cuda *)calloc(1, sizeof *s);
    FAIL_IF(s == NULL, err, STATUS_NO_MEMORY, "no memory for sums of frames");
    *ret_sum = s; /* destroyed with the motion, also half made */
    return build(m, s, err);
}

enum status motion_sum_cuda_run(struct motion_cuda *m, const struct motion_model *model,
                                const struct motion_sum_options *options, const struct motion_sums *sums,
                                struct err *err) {
    struct motion_sum_cuda *s = m->sum;
    TRY(motion_model_surfaces(model, s->surfaces, err));
    bool doses = sums->weighted != NULL || sums->even != NULL || sums->odd != NULL;
    int nx, ny;
    motion_sum_size(m->task.nx, m->task.ny, options->bin, &nx, &ny);
    enum status status = STATUS_OK;
    if (doses || sums->unweighted != NULL) {
        struct motion_weights *weights = NULL;
        TRY(motion_weights_create(model->frames, doses ? options->dose : NULL, options->pixel_size, options->voltage,
                                  &weights, err));
        status = resize(m, s, nx, ny, err);
        if (status == STATUS_OK) status = take_tables(m, s, model, weights, err);
        if (status == STATUS_OK) status = add_all(m, s, weights, sums, err);
        motion_weights_destroy(&weights);
    }
    if (status == STATUS_OK && sums->power != NULL)
        status = motion_spectrum_cuda_run(m, &s->spectrum, model, options, sums->power, err);
    if (status != STATUS_OK) {
        (void)cudaStreamSynchronize(m->stream); /* nothing writes to the caller's memory after this */
        return status;
    }
    CUDA_TRY(cudaStreamSynchronize(m->stream), err, "summing frames");
    return STATUS_OK;
}
