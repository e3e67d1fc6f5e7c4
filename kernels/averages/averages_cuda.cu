/* Makes class averages of many slots at once. A slot holds a class of the call, or is empty. */
#include "kernels/averages/averages_cuda.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/fourier/cufft.cuh"
#include "kernels/reconstruct/wiener.cuh"

/* Plans of transforms of n = 2 box: rows of n/2 + 1 complex values, in place of n + 2 reals. */
struct averages_cuda {
    struct averages_options options;
    int at_once, n;
    cufftHandle to_real, from_real; /* 0: none */
    size_t work;
    float *correction; /* [2 (box/2)² + 1], by squared distance from the centre: 1/sinc² of interpolation */
};

namespace {

enum { PAD = ACCUMULATOR_PAD, THREADS = 256, MAP_THREADS = 1024, SHELL_THREADS = 64 };
const double RIM = 3;                           /* px: edge of the mask at the rim of the box */
const size_t SCRATCH_BYTES = (size_t)256 << 20; /* approximate limit for the classes that are made at once */

struct shape {
    accumulator_cuda sums; /* of one half of one class */
    grid_cuda grid;
    size_t voxels, points; /* numbers of these */
    int box, n;
};

shape shape_of(const averages_options *o) {
    shape s = {};
    s.sums = accumulator_cuda_shape(2, o->box, o->max_size);
    s.grid = projector_cuda_grid(2, o->max_size);
    s.voxels = (size_t)s.sums.ny * s.sums.nx, s.points = (size_t)s.grid.ny * s.grid.nx;
    s.box = o->box, s.n = PAD * o->box;
    return s;
}

size_t padded_floats(const shape &s) {
    return (size_t)s.n * (s.n + 2);
}

/* Returns the bytes of one class: finished sums of both halves and of their sum, a padded map, and a map before
 * centring. */
size_t class_bytes(const shape &s) {
    return 3 * s.voxels * 2 * sizeof(double2) + (padded_floats(s) + (size_t)s.box * s.box) * sizeof(float);
}

/* Returns a finished sum (Friedel pairs joined), as kernels/reconstruct/finish_cpu.c. */
__device__ inline void finished_at(const double2 *sums, const shape &s, int y, int x, double2 *ret_data,
                                   double *ret_weight) {
    const int reach = s.sums.reach;
    const double2 *p = sums + 2 * ((size_t)(y + reach) * s.sums.nx + x);
    const double2 *q = sums + 2 * ((size_t)(reach - y) * s.sums.nx);
    double2 data = p[0];
    double weight = p[1].x;
    if (x == 0) {
        data = make_double2(data.x + q[0].x, data.y - q[0].y);
        weight += q[1].x;
    }
    *ret_data = data;
    *ret_weight = weight;
}

/* Fills finished[3][slots][ny][nx]: both halves, then their sum; zeros for an empty slot. */
__global__ void finish_sums(shape s, const double2 *sums, const int *classes, double2 *finished) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    int which = classes[blockIdx.y], x = (int)(at % s.sums.nx), y = (int)(at / s.sums.nx) - s.sums.reach;
    if (at >= s.voxels) return;
    double2 all = make_double2(0, 0);
    double all_weight = 0;
    for (int i = 0; i < 3; i++) {
        double2 data = make_double2(0, 0);
        double weight = 0;
        if (which >= 0 && i < 2) finished_at(sums + 2 * (2 * (size_t)which + i) * s.voxels, s, y, x, &data, &weight);
        all.x += data.x, all.y += data.y, all_weight += weight;
        double2 *out = finished + 2 * (((size_t)i * gridDim.y + blockIdx.y) * s.voxels + at);
        out[0] = i < 2 ? data : all;
        out[1] = make_double2(i < 2 ? weight : all_weight, 0);
    }
}

__global__ void scale_sums(double2 *sums, size_t count, double factor) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at < count) sums[at] = make_double2(factor * sums[at].x, factor * sums[at].y);
}

/* Splits the sums of a class. from, to: [2][count]. */
__global__ void split_sums(double2 *from, double2 *to, size_t count) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) return;
    double2 first = from[at], second = from[count + at];
    first = make_double2(0.5 * first.x, 0.5 * first.y), second = make_double2(0.5 * second.x, 0.5 * second.y);
    from[at] = from[count + at] = first;
    to[at] = to[count + at] = second;
}

/* Fills the padded transform of each slot completely. */
__global__ void fill_transform(wiener all, const double *totals, int n, float2 *out) {
    const wiener w = wiener_of(all, (int)blockIdx.z);
    int x = (int)(blockIdx.x * THREADS + threadIdx.x), row = (int)blockIdx.y, y = row <= n / 2 ? row : row - n;
    if (x > n / 2) return;
    int r2 = x * x + y * y;
    float2 value = make_float2(0, 0);
    if (r2 < w.map_limit * w.map_limit)
        value = wiener_value(w, wiener_totals_of(all, totals, (int)blockIdx.z), accumulator_at(w.sums, 0, y) + 2 * x,
                             root_below(r2), (x + y) & 1);
    out[((size_t)blockIdx.z * n + row) * (n / 2 + 1) + x] = value;
}

/* Returns how much of a pixel lies outside of a mask (mask_sphere, kernels/fsc/fsc.h). */
__device__ inline double outside(int r2, double radius, double edge) {
    double r = sqrt((double)r2);
    return r < radius ? 0 : r >= radius + edge ? 1 : 0.5 + 0.5 * cospi((radius + edge - r) / edge);
}

__device__ inline float masked(float value, int r2, double radius) {
    double w = outside(r2, radius, AVERAGES_MASK_EDGE);
    return w > 0 ? (float)((1 - w) * (double)value) : value;
}

struct maps {
    const float *padded, *correction;
    int box, n;
    double radius;
    float *apart; /* [slots][box²]: before centring */
    float *map;   /* [slots][box²] */
};

__device__ inline int squared_distance(int box, int at) {
    int x = at % box - box / 2, y = at / box - box / 2;
    return x * x + y * y;
}

/* Return the mean outside of the circle that fills the box, and the shift that centres the map. All threads of the
 * block call these. */
__device__ double mean_outside(const maps &m, const float *in, float scale) {
    __shared__ double mean;
    double sum = 0, weight = 0;
    for (int at = (int)threadIdx.x; at < m.box * m.box; at += MAP_THREADS) {
        double w = outside(squared_distance(m.box, at), m.box / 2, RIM);
        sum += w * (double)(scale * in[(size_t)(at / m.box) * (m.n + 2) + at % m.box]), weight += w;
    }
    sum = block_sum(sum), weight = block_sum(weight);
    if (threadIdx.x == 0) mean = weight > 0 ? sum / weight : 0;
    __syncthreads();
    return mean;
}

__device__ int2 off_centre(const maps &m, const float *map) {
    __shared__ int2 by;
    double sum = 0, sx = 0, sy = 0;
    for (int at = (int)threadIdx.x; at < m.box * m.box; at += MAP_THREADS) {
        double v = map[at];
        if (v > 0) sum += v, sx += v * (at % m.box - m.box / 2), sy += v * (at / m.box - m.box / 2);
    }
    sum = block_sum(sum), sx = block_sum(sx), sy = block_sum(sy);
    if (threadIdx.x == 0) by = sum > 0 ? make_int2((int)lround(-sx / sum), (int)lround(-sy / sum)) : make_int2(0, 0);
    __syncthreads();
    return by;
}

/* Makes the map of one slot per block: cuts the centre of the padded map, masks it, corrects it, masks and centres it,
 * and applies the mask of references. */
__global__ void __launch_bounds__(MAP_THREADS) cut_maps(maps m) {
    const int first = (m.n - m.box) / 2;
    const size_t pixels = (size_t)m.box * m.box;
    const float *in = m.padded + (size_t)blockIdx.x * m.n * (m.n + 2) + (size_t)first * (m.n + 2) + first;
    const float scale = 1 / (float)(PAD * PAD);
    float *apart = m.apart + blockIdx.x * pixels, *map = m.map + blockIdx.x * pixels;
    double mean = mean_outside(m, in, scale);
    for (int at = (int)threadIdx.x; at < m.box * m.box; at += MAP_THREADS) {
        int r2 = squared_distance(m.box, at);
        double w = outside(r2, m.box / 2, RIM);
        float value = scale * in[(size_t)(at / m.box) * (m.n + 2) + at % m.box];
        if (w > 0) value = (float)((1 - w) * (double)value + w * mean);
        apart[at] = masked(value * m.correction[r2], r2, m.radius);
    }
    __syncthreads();
    int2 by = off_centre(m, apart);
    for (int at = (int)threadIdx.x; at < m.box * m.box; at += MAP_THREADS) {
        int x = at % m.box - by.x, y = at / m.box - by.y;
        bool inside = x >= 0 && x < m.box && y >= 0 && y < m.box;
        map[at] = inside ? masked(apart[y * m.box + x], squared_distance(m.box, at), m.radius) : 0;
    }
}

/* Pads the map of each slot, divided by the effect of interpolation. */
__global__ void pad_maps(maps m, float *out) {
    int column = (int)(blockIdx.x * THREADS + threadIdx.x), first = (m.n - m.box) / 2;
    int x = column - first, y = (int)blockIdx.y - first;
    if (column >= m.n + 2) return;
    float value = 0;
    if (x >= 0 && x < m.box && y >= 0 && y < m.box) {
        int at = y * m.box + x;
        value = m.map[(size_t)blockIdx.z * m.box * m.box + at] * m.correction[squared_distance(m.box, at)];
    }
    out[((size_t)blockIdx.z * m.n + blockIdx.y) * (m.n + 2) + column] = value;
}

/* Copies the padded transforms of the slots to the grids of their classes, as kernels/projector/projector_cpu.c. */
__global__ void copy_grids(shape s, const float2 *transforms, const int *classes, float2 *references) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    int which = classes[blockIdx.y], x = (int)(at % s.grid.nx), y = (int)(at / s.grid.nx) - s.grid.reach, n = s.n;
    if (at >= s.points || which < 0) return;
    /* At full size the last points lie beyond Nyquist: the transform is periodic and Hermitian. */
    bool mirrored = x > n / 2;
    int fx = mirrored ? n - x : x, fy = ((mirrored ? -y : y) + 2 * n) % n;
    float2 value = transforms[((size_t)blockIdx.y * n + fy) * (n / 2 + 1) + fx];
    float scale = 1 / ((float)s.box * (float)s.box), sign = ((x + y) & 1) ? -scale : scale;
    references[(size_t)which * s.points + at] =
        make_float2(sign * value.x, mirrored ? -sign * value.y : sign * value.y);
}

/* Computes the power of one shell of one slot per block, as projector_power. */
__global__ void find_power(shape s, const float2 *references, const int *classes, float *ret_power) {
    int which = classes[blockIdx.y], shell = (int)blockIdx.x, limit = PAD * s.grid.r_max;
    if (which < 0) return;
    int far = (PAD * shell + 1) * (PAD * shell + 1) - 1, near = shell == 0 ? 0 : (PAD * shell - 1) * (PAD * shell - 1);
    double sum = 0, count = 0;
    if (far > limit * limit) far = limit * limit;
    for (int y = (int)threadIdx.x - limit; y <= limit; y += SHELL_THREADS) {
        int first = root_above(near - y * y), last = far < y * y ? -1 : root_below(far - y * y);
        const float2 *row = references + (size_t)which * s.points + (size_t)(y + s.grid.reach) * s.grid.nx;
        for (int x = first; x <= last; x++) {
            sum += (double)(row[x].x * row[x].x + row[x].y * row[x].y);
            count += 1;
        }
    }
    sum = block_sum(sum), count = block_sum(count);
    if (threadIdx.x == 0) ret_power[(size_t)blockIdx.y * gridDim.x + shell] = count > 0 ? (float)(sum / count / 2) : 0;
}

/* Arrays that share the scratch memory of a call. */
struct pieces {
    double *finished[3];
    void *shells, *work;
    float *padded, *apart;
};

size_t cut(const shape &s, size_t at_once, size_t work, char *base, pieces *ret) {
    accumulator_cuda stack = s.sums;
    size_t bytes = 0;
    stack.count = (int)at_once;
    for (int i = 0; i < 3; i++) {
        ret->finished[i] = (double *)(base + bytes);
        bytes += accumulator_cuda_bytes(&stack); /* one array */
    }
    bytes = aligned(bytes);
    size_t shells = reconstruct_cuda_shells_scratch(&stack), fsc = accumulator_cuda_fsc_scratch(&stack, &stack);
    ret->shells = base + bytes, bytes += aligned(shells > fsc ? shells : fsc);
    /* cuFFT fails if its work area begins where the data begins, even if it needs none. Therefore it gets memory of its
     * own. */
    ret->work = base + bytes, bytes += aligned(work + 1);
    ret->padded = (float *)(base + bytes), bytes += aligned(at_once * padded_floats(s) * sizeof(float));
    ret->apart = (float *)(base + bytes), bytes += aligned(at_once * s.box * s.box * sizeof(float));
    return bytes;
}

enum status make_plan(int n, int batch, cufftType type, cufftHandle *ret_plan, size_t *work, struct err *err) {
    int shape[2] = {n, n}, real[2] = {n, n + 2}, half[2] = {n, n / 2 + 1};
    bool forward = type == CUFFT_R2C;
    size_t needed = 0;
    CUFFT_TRY(cufftCreate(ret_plan), err, "making a Fourier plan");
    CUFFT_TRY(cufftSetAutoAllocation(*ret_plan, 0), err, "making a Fourier plan");
    CUFFT_TRY(cufftMakePlanMany(*ret_plan, 2, shape, forward ? real : half, 1, n * (forward ? n + 2 : n / 2 + 1),
                                forward ? half : real, 1, n * (forward ? n / 2 + 1 : n + 2), type, batch, &needed),
              err, "making a Fourier plan");
    if (needed > *work) *work = needed;
    return STATUS_OK;
}

enum status make_correction(averages_cuda *a, struct err *err) {
    int c = a->options.box / 2, count = 2 * c * c + 1;
    float *table = (float *)malloc((size_t)count * sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "no memory for a gridding correction");
    for (int r2 = 0; r2 < count; r2++) {
        double x = M_PI * sqrt((double)r2) / a->n, sinc = r2 == 0 ? 1 : sin(x) / x;
        table[r2] = (float)(1 / (sinc * sinc));
    }
    cudaError_t made = cudaMalloc(&a->correction, (size_t)count * sizeof *table);
    if (made == cudaSuccess)
        made = cudaMemcpy(a->correction, table, (size_t)count * sizeof *table, cudaMemcpyHostToDevice);
    free(table);
    CUDA_TRY(made, err, "making a gridding correction");
    return STATUS_OK;
}

maps maps_of(const averages_cuda *a, const pieces &p, float *map) {
    maps m = {};
    m.padded = p.padded, m.correction = a->correction;
    m.box = a->options.box, m.n = a->n, m.radius = a->options.mask_radius;
    m.apart = p.apart, m.map = map;
    return m;
}

enum status begin(averages_cuda *a, char *scratch, cudaStream_t stream, pieces *ret, struct err *err) {
    cufftHandle plans[] = {a->to_real, a->from_real};
    cut(shape_of(&a->options), (size_t)a->at_once, a->work, scratch, ret);
    for (int i = 0; i < 2; i++) {
        CUFFT_TRY(cufftSetStream(plans[i], stream), err, "choosing a stream");
        CUFFT_TRY(cufftSetWorkArea(plans[i], ret->work), err, "giving memory to a Fourier plan");
    }
    return STATUS_OK;
}

enum status set_references(averages_cuda *a, const average_slots *slots, const pieces &p, float *references,
                           cudaStream_t stream, struct err *err) {
    const shape s = shape_of(&a->options);
    unsigned count = (unsigned)a->at_once, n = (unsigned)a->n;
    pad_maps<<<dim3(blocks_for(n + 2, THREADS), n, count), THREADS, 0, stream>>>(maps_of(a, p, slots->map), p.padded);
    CUDA_TRY(cudaGetLastError(), err, "padding references");
    CUFFT_TRY(cufftExecR2C(a->from_real, p.padded, (cufftComplex *)p.padded), err, "transforming references");
    copy_grids<<<dim3(blocks_for(s.points, THREADS), count), THREADS, 0, stream>>>(
        s, (const float2 *)p.padded, slots->classes, (float2 *)references);
    find_power<<<dim3((unsigned)s.box / 2 + 1, count), SHELL_THREADS, 0, stream>>>(s, (const float2 *)references,
                                                                                   slots->classes, slots->tau2);
    CUDA_TRY(cudaGetLastError(), err, "preparing references");
    return STATUS_OK;
}

} // namespace

extern "C" int averages_cuda_at_once(const struct averages_options *o) {
    size_t fit = SCRATCH_BYTES / class_bytes(shape_of(o));
    int most = o->capacity < AVERAGES_CUDA_AT_ONCE ? o->capacity : AVERAGES_CUDA_AT_ONCE;
    return fit < 1 ? 1 : fit < (size_t)most ? (int)fit : most;
}

extern "C" size_t averages_cuda_scratch(const struct averages_cuda *a) {
    pieces p;
    return cut(shape_of(&a->options), (size_t)a->at_once, a->work, NULL, &p);
}

extern "C" enum status averages_cuda_create(const struct averages_options *o, struct averages_cuda **ret_averages,
                                            struct err *err) {
    averages_cuda *a = (averages_cuda *)calloc(1, sizeof *a);
    FAIL_IF(a == NULL, err, STATUS_NO_MEMORY, "no memory for class averages");
    a->options = *o, a->at_once = averages_cuda_at_once(o), a->n = PAD * o->box;
    enum status status = make_plan(a->n, a->at_once, CUFFT_C2R, &a->to_real, &a->work, err);
    if (status == STATUS_OK) status = make_plan(a->n, a->at_once, CUFFT_R2C, &a->from_real, &a->work, err);
    if (status == STATUS_OK) status = make_correction(a, err);
    if (status != STATUS_OK) {
        averages_cuda_destroy(&a);
        return status;
    }
    *ret_averages = a;
    return STATUS_OK;
}

extern "C" void averages_cuda_destroy(struct averages_cuda **averages) {
    averages_cuda *a = *averages;
    if (a == NULL) return;
    cufftHandle plans[] = {a->to_real, a->from_real};
    for (int i = 0; i < 2; i++)
        if (plans[i]) (void)cufftDestroy(plans[i]);
    (void)cudaFree(a->correction);
    free(a);
    *averages = NULL;
}

extern "C" enum status averages_cuda_scale(const struct averages_options *o, double *sums, int count, double factor,
                                           void *stream, struct err *err) {
    size_t values = (size_t)count * 2 * shape_of(o).voxels * 2;
    scale_sums<<<blocks_for(values, THREADS), THREADS, 0, (cudaStream_t)stream>>>((double2 *)sums, values, factor);
    CUDA_TRY(cudaGetLastError(), err, "scaling sums");
    return STATUS_OK;
}

extern "C" enum status averages_cuda_split(const struct averages_options *o, double *sums, int from, int to,
                                           void *stream, struct err *err) {
    size_t half = shape_of(o).voxels * 2;
    double2 *all = (double2 *)sums;
    split_sums<<<blocks_for(half, THREADS), THREADS, 0, (cudaStream_t)stream>>>(all + (size_t)from * 2 * half,
                                                                                all + (size_t)to * 2 * half, half);
    CUDA_TRY(cudaGetLastError(), err, "splitting sums");
    return STATUS_OK;
}

extern "C" enum status averages_cuda_make(struct averages_cuda *a, const double *sums,
                                          const struct average_slots *slots, void *scratch, float *references,
                                          void *cuda_stream, struct err *err) {
    const averages_options *o = &a->options;
    const shape s = shape_of(o);
    cudaStream_t stream = (cudaStream_t)cuda_stream;
    unsigned count = (unsigned)a->at_once, n = (unsigned)a->n;
    accumulator_cuda stack[3] = {s.sums, s.sums, s.sums};
    const double *totals = NULL;
    pieces p;
    TRY(begin(a, (char *)scratch, stream, &p, err));
    for (int i = 0; i < 3; i++)
        stack[i].count = a->at_once, stack[i].voxels = p.finished[i];
    finish_sums<<<dim3(blocks_for(s.voxels, THREADS), count), THREADS, 0, stream>>>(
        s, (const double2 *)sums, slots->classes, (double2 *)p.finished[0]);
    CUDA_TRY(cudaGetLastError(), err, "finishing sums");
    TRY(accumulator_cuda_fsc(&stack[0], &stack[1], p.shells, slots->fsc, stream, err));
    const wiener w = wiener_filter(&stack[2], slots->tau2, o->tau_fudge, o->minres_shell, 0);
    TRY(wiener_totals(w, p.shells, stream, &totals, err));
    TRY(wiener_describe(w, totals, NULL, slots->data_vs_prior, slots->completeness, stream, err));
    fill_transform<<<dim3(blocks_for(n / 2 + 1, THREADS), n, count), THREADS, 0, stream>>>(w, totals, a->n,
                                                                                           (float2 *)p.padded);
    CUDA_TRY(cudaGetLastError(), err, "filtering maps");
    CUFFT_TRY(cufftExecC2R(a->to_real, (cufftComplex *)p.padded, p.padded), err, "transforming maps");
    cut_maps<<<count, MAP_THREADS, 0, stream>>>(maps_of(a, p, slots->map));
    CUDA_TRY(cudaGetLastError(), err, "cutting maps");
    return set_references(a, slots, p, references, stream, err);
}

extern "C" enum status averages_cuda_set(struct averages_cuda *a, const struct average_slots *slots, void *scratch,
                                         float *references, void *stream, struct err *err) {
    pieces p;
    TRY(begin(a, (char *)scratch, (cudaStream_t)stream, &p, err));
    return set_references(a, slots, p, references, (cudaStream_t)stream, err);
}
