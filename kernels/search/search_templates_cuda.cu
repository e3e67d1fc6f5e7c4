/* Keeps the templates on the device: their rotated transforms, if they fit, and the terms A1 and A2 with a micrograph's
 * CTF (kernels/correlate, merit_window: sums over the circle on a grid of twice the work size). */
#include <math.h>
#include <stdlib.h>

#include "kernels/search/search_plan.cuh"

enum { THREADS = 256, TERM_BLOCKS = 128 };

/* out: [count·turn] half planes, [row][kx], or [kx][row] where transposed. */
static __global__ void rotate(search_templates t, int turn, bool transposed, float2 *out) {
    int columns = t.work / 2 + 1, item = blockIdx.y;
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= t.work * columns) return;
    int kx = transposed ? i / t.work : i % columns, row = transposed ? i % t.work : i / columns;
    out[(size_t)item * t.work * columns + i] = search_rotated(t, item / turn, t.turns[item % turn], kx, row);
}

/* Computes the transform of template `first` + blockIdx.z at psi = 0 times the CTF, zero-filled up to the grid. */
static __global__ void term_planes(search_templates t, int first, int count, const float *ctf, int grid, float factor,
                                   float2 *out) {
    int kx = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y, item = first + blockIdx.z;
    if (kx > grid / 2) return;
    int half = t.work / 2, ky = row <= grid / 2 ? row : row - grid;
    float2 value = make_float2(0, 0);
    /* Row work/2 stands once: as a positive frequency. */
    if (item < count && kx <= half && ky <= half && ky > -half) {
        int source = ky < 0 ? ky + t.work : ky;
        float scale = factor * (ctf ? ctf[(size_t)source * (half + 1) + kx] : 1);
        value = search_rotated(t, item, t.turns[0], kx, source);
        value.x *= scale;
        value.y *= scale;
    }
    out[((size_t)blockIdx.z * grid + row) * (grid / 2 + 1) + kx] = value;
}

/* terms[2 t], [2 t + 1] += Σ A circle, Σ A² circle. */
static __global__ void term_sums(const float *planes, const float *circle, size_t count, double factor, double *terms) {
    __shared__ double shared[2][THREADS / 32];
    const float *plane = planes + blockIdx.y * count;
    double s = 0, q = 0;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS) {
        double value = plane[i], weighted = value * circle[i];
        s += weighted;
        q += weighted * value;
    }
    s = search_warp_sum(s);
    q = search_warp_sum(q);
    if (threadIdx.x % 32 == 0) {
        shared[0][threadIdx.x / 32] = s;
        shared[1][threadIdx.x / 32] = q;
    }
    __syncthreads();
    if (threadIdx.x >= 2) return;
    double sum = 0;
    for (int i = 0; i < THREADS / 32; i++)
        sum += shared[threadIdx.x][i];
    atomicAdd(&terms[2 * blockIdx.y + threadIdx.x], factor * sum);
}

static enum status upload(const void *from, size_t bytes, void *to, err *err) {
    CUDA_TRY(cuda_copy(to, from, bytes), err, "taking templates there");
    return STATUS_OK;
}

/* Tabulates cos and sin of every rotation, and the edge of the low-pass in every row, as kernels/template_spectra
 * does. */
static enum status make_tables(search_cuda *s, double2 *turns, int *last, err *err) {
    const struct search_options *o = &s->o;
    double step = (double)s->setup.templates.padded / o->size;
    int half = o->work / 2;
    for (int r = 0; r < o->rotations; r++) {
        double angle = r * 360.0 / o->rotations * M_PI / 180;
        turns[r] = make_double2(step * cos(angle), step * sin(angle));
    }
    for (int row = 0; row < o->work; row++) {
        int ky = row <= half ? row : row - o->work;
        int square = s->setup.templates.band * s->setup.templates.band - ky * ky,
            end = square < 0 ? -1 : (int)floor(sqrt((double)square));
        last[row] = end < half ? end : half;
    }
    TRY(upload(turns, o->rotations * sizeof *turns, s->turns, err));
    return upload(last, o->work * sizeof *last, s->last, err);
}

enum status search_templates_create(search_cuda *s, bool transposed, err *err) {
    const struct search_options *o = &s->o;
    size_t grid =
        (size_t)o->count * (2 * s->setup.templates.reach + 1) * (s->setup.templates.reach + 2) * sizeof(float2);
    CUDA_TRY(cudaMalloc(&s->padded_ft, grid), err, "making room for templates");
    CUDA_TRY(cudaMalloc(&s->turns, o->rotations * sizeof *s->turns), err, "making room for templates");
    CUDA_TRY(cudaMalloc(&s->last, o->work * sizeof *s->last), err, "making room for templates");
    TRY(upload(s->setup.templates.values, grid, s->padded_ft, err));
    double2 *turns = (double2 *)malloc(o->rotations * sizeof *turns);
    int *last = (int *)malloc(o->work * sizeof *last);
    enum status status = turns && last ? make_tables(s, turns, last, err) : STATUS_NO_MEMORY;
    free(turns);
    free(last);
    TRY(status);
    s->templates = {s->padded_ft, s->turns, s->last, s->setup.templates.reach, o->work};

    size_t bytes = (size_t)o->count * s->turn * s->half * sizeof(float2);
    if (bytes > o->memory_limit || o->count * s->turn > 65535) return STATUS_OK;
    CUDA_TRY(cudaMalloc(&s->rotated, bytes), err, "making room for rotated templates (choose a greater angle_step)");
    dim3 blocks(blocks_for(s->half, THREADS), o->count * s->turn);
    rotate<<<blocks, THREADS, 0, s->stream>>>(s->templates, s->turn, transposed, s->rotated);
    LAUNCH_TRY(err, "rotating templates");
    return STATUS_OK;
}

enum status search_terms_create(search_cuda *s, err *err) {
    const struct search_options *o = &s->o;
    int grid = s->term_grid;
    /* The plan transforms term_batch planes; only the first matters here. */
    size_t floats = (size_t)s->term_batch * grid * (grid + 2);
    float2 *planes = NULL;
    CUDA_TRY(cudaMalloc(&planes, 2 * floats * sizeof(float)), err, "making room for the particle's circle");
    float *real = (float *)planes + floats;
    cudaError_t result = cudaMemsetAsync(planes, 0, floats * sizeof(float), s->stream);
    enum status status = search_mask(s, true, grid, 1.0f / ((float)o->size * (float)o->size), planes, err);
    cufftResult transformed = cufftExecC2R(s->term_inverse, planes, real);
    if (result == cudaSuccess)
        result =
            cudaMemcpyAsync(s->circle, real, (size_t)grid * grid * sizeof(float), cudaMemcpyDeviceToDevice, s->stream);
    if (result == cudaSuccess) result = cudaStreamSynchronize(s->stream);
    (void)cudaFree(planes);
    TRY(status);
    CUFFT_TRY(transformed, err, "the particle's circle");
    CUDA_TRY(result, err, "the particle's circle");
    return search_terms_run(s, NULL, s->plain_terms, err);
}

enum status search_terms_run(search_cuda *s, const float *ctf, double *terms, err *err) {
    const struct search_options *o = &s->o;
    int grid = s->term_grid;
    float2 *planes = (float2 *)s->scratch;
    float *real = (float *)planes + (size_t)s->term_batch * grid * (grid + 2);
    float factor = 1.0f / ((float)o->size * (float)o->size);
    double area = (double)o->size / grid;
    CUDA_TRY(cudaMemsetAsync(terms, 0, 2 * o->count * sizeof *terms, s->stream), err, "the templates' power");
    for (int first = 0; first < o->count; first += s->term_batch) {
        int count = o->count - first < s->term_batch ? o->count - first : s->term_batch;
        dim3 blocks(blocks_for(grid / 2 + 1, THREADS), grid, s->term_batch);
        term_planes<<<blocks, THREADS, 0, s->stream>>>(s->templates, first, o->count, ctf, grid, factor, planes);
        LAUNCH_TRY(err, "the templates' power");
        CUFFT_TRY(cufftExecC2R(s->term_inverse, planes, real), err, "the templates' power");
        term_sums<<<dim3(TERM_BLOCKS, count), THREADS, 0, s->stream>>>(
            real, s->circle, (size_t)grid * grid, area * area / (s->setup.circle + 1), terms + 2 * first);
        LAUNCH_TRY(err, "the templates' power");
    }
    return STATUS_OK;
}
