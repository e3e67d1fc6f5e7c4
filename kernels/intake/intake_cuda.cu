/* Takes micrographs in on a CUDA device: one pass converts and finds the range, another compares all neighbouring lines,
 * and the host decides from these differences. */
#include <stdlib.h>

#include "common/device_cuda.h"
#include "common/half.h"
#include "kernels/contamination/lines.h"
#include "kernels/intake/intake_private.h"

enum { THREADS = 256, BLOCKS = 1056, LINE_THREADS = 64, QUAD = 4 };

/* The range of the whole micrograph, with a count that holds that many pixels. */
struct found {
    int least, most;
    unsigned long long beyond;
};

struct intake_cuda {
    int index;
    cudaStream_t stream;
    float *pixels; /* on the device; micrographs of float32 need none */
    size_t capacity;
    struct found *found;      /* on the device; behind it the differences of lines */
    struct found *host_found; /* the same, page-locked on the host */
    size_t bytes;             /* of each */
};

static double *lines_after(struct found *found) {
    return (double *)(found + 1);
}

static __global__ void begin(struct found *found) {
    *found = {INT32_MAX, INT32_MIN, 0};
}

/* Loads and stores of neighbouring pixels at a time. */
template <class T> struct alignas(QUAD * sizeof(T)) quad { T value[QUAD]; };

/* Turn each kind of pixel into a float. */
struct from_half {
    static __device__ float value(uint16_t stored) {
        return half_to_float(stored);
    }
};
struct from_number {
    template <class T> static __device__ float value(T stored) {
        return (float)stored;
    }
};

/* out: NULL if the pixels are float32. */
template <class T, class From>
static __global__ void take(const T *in, size_t count, uint32_t limit, float *out, struct found *found) {
    __shared__ int least, most;
    __shared__ unsigned long long beyond;
    struct intake_range range = INTAKE_NOTHING;
    if (threadIdx.x == 0) {
        least = INT32_MAX;
        most = INT32_MIN;
        beyond = 0;
    }
    __syncthreads();
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, step = (size_t)gridDim.x * THREADS;
    for (size_t i = first; i < count / QUAD; i += step) {
        quad<T> stored = ((const quad<T> *)in)[i];
        quad<float> made;
        for (int k = 0; k < QUAD; k++) {
            made.value[k] = From::value(stored.value[k]);
            intake_see(made.value[k], limit, &range);
        }
        if (out) ((quad<float> *)out)[i] = made;
    }
    for (size_t i = count / QUAD * QUAD + first; i < count; i += step) {
        float made = From::value(in[i]);
        intake_see(made, limit, &range);
        if (out) out[i] = made;
    }
    atomicMin(&least, range.least);
    atomicMax(&most, range.most);
    if (range.beyond > 0) atomicAdd(&beyond, (unsigned long long)range.beyond);
    __syncthreads();
    if (threadIdx.x != 0) return;
    atomicMin(&found->least, least);
    atomicMax(&found->most, most);
    if (beyond > 0) atomicAdd(&found->beyond, beyond);
}

/* out: the differences between rows, then those between columns. */
static __global__ void compare_lines(const float *in, int nx, int ny, double *out) {
    int i = blockIdx.x * LINE_THREADS + threadIdx.x, x = i - (ny - 1);
    if (x >= nx - 1) return;
    out[i] =
        x < 0 ? contamination_difference(in + (size_t)i * nx, nx, 1, nx) : contamination_difference(in + x, 1, nx, ny);
}

static enum status build(struct intake_cuda *s, struct err *err) {
    CUDA_TRY(cudaSetDevice(s->index), err, "choosing it");
    CUDA_TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), err, "making a stream");
    return STATUS_OK;
}

static void destroy(void *state) {
    struct intake_cuda *s = (struct intake_cuda *)state;
    /* A lost device has freed everything already. */
    if (cudaSetDevice(s->index) == cudaSuccess) {
        (void)cudaFree(s->pixels);
        (void)cudaFree(s->found);
        (void)cudaFreeHost(s->host_found);
        if (s->stream) (void)cudaStreamDestroy(s->stream);
    }
    free(s);
}

static enum status create(const struct device *device, void **ret_state, struct err *err) {
    struct intake_cuda *made = (struct intake_cuda *)calloc(1, sizeof *made);
    FAIL_IF(made == NULL, err, STATUS_NO_MEMORY, "no memory for a micrograph");
    made->index = device->index;
    enum status status = build(made, err);
    if (status != STATUS_OK) {
        destroy(made);
        return status;
    }
    *ret_state = made;
    return STATUS_OK;
}

static enum status make_room(struct intake_cuda *s, const struct intake_input *in, struct err *err) {
    size_t count = (size_t)in->nx * in->ny, bytes = sizeof *s->found + ((size_t)in->nx + in->ny) * sizeof(double);
    if (in->kind != INTAKE_FLOAT32 && count > s->capacity) {
        CUDA_TRY(cudaFree(s->pixels), err, "freeing memory");
        s->pixels = NULL;
        s->capacity = 0;
        CUDA_TRY(cudaMalloc(&s->pixels, count * sizeof *s->pixels), err, "making room for a micrograph");
        s->capacity = count;
    }
    if (bytes <= s->bytes) return STATUS_OK;
    CUDA_TRY(cudaFree(s->found), err, "freeing memory");
    CUDA_TRY(cudaFreeHost(s->host_found), err, "freeing memory");
    s->found = s->host_found = NULL;
    s->bytes = 0;
    CUDA_TRY(cudaMalloc(&s->found, bytes), err, "making room for a micrograph");
    CUDA_TRY(cudaHostAlloc(&s->host_found, bytes, cudaHostAllocPortable), err, "making page-locked memory");
    s->bytes = bytes;
    return STATUS_OK;
}

static void queue_take(struct intake_cuda *s, const struct intake_input *in, float *out) {
    size_t count = (size_t)in->nx * in->ny;
    uint32_t limit = intake_bits(in->limit);
#define TAKE(type, from)                                                                                               \
    take<type, from><<<BLOCKS, THREADS, 0, s->stream>>>((const type *)in->stored, count, limit, out, s->found)
    switch (in->kind) {
    case INTAKE_FLOAT16:
        TAKE(uint16_t, from_half);
        break;
    case INTAKE_INT8:
        TAKE(int8_t, from_number);
        break;
    case INTAKE_UINT8:
        TAKE(uint8_t, from_number);
        break;
    case INTAKE_INT16:
        TAKE(int16_t, from_number);
        break;
    case INTAKE_UINT16:
        TAKE(uint16_t, from_number);
        break;
    default:
        TAKE(float, from_number);
    }
#undef TAKE
}

static enum status run(void *state, const struct intake_input *in, struct intake_result *ret_result, struct err *err) {
    struct intake_cuda *s = (struct intake_cuda *)state;
    int lines = in->nx + in->ny - 2;
    CUDA_TRY(cudaSetDevice(s->index), err, "choosing it");
    TRY(make_room(s, in, err));
    float *out = in->kind == INTAKE_FLOAT32 ? NULL : s->pixels;
    const float *pixels = out ? out : (const float *)in->stored;
    begin<<<1, 1, 0, s->stream>>>(s->found);
    queue_take(s, in, out);
    CUDA_TRY(cudaGetLastError(), err, "taking a micrograph in");
    if (lines > 0)
        compare_lines<<<(lines + LINE_THREADS - 1) / LINE_THREADS, LINE_THREADS, 0, s->stream>>>(pixels, in->nx, in->ny,
                                                                                                 lines_after(s->found));
    CUDA_TRY(cudaGetLastError(), err, "comparing lines");
    CUDA_TRY(cudaMemcpyAsync(s->host_found, s->found, sizeof *s->found + lines * sizeof(double), cudaMemcpyDeviceToHost,
                             s->stream),
             err, "a download");
    CUDA_TRY(cudaStreamSynchronize(s->stream), err, "taking a micrograph in");
    const struct found *f = s->host_found;
    const double *rows = lines_after(s->host_found), *columns = rows + in->ny - 1;
    bool finite = f->least <= f->most;
    ret_result->pixels = pixels;
    ret_result->beyond = f->beyond;
    ret_result->finite = finite;
    ret_result->least = finite ? intake_value(f->least) : 0;
    ret_result->most = finite ? intake_value(f->most) : 0;
    ret_result->data = contamination_area_of_lines(rows, columns, in->nx, in->ny);
    return STATUS_OK;
}

const struct intake_work intake_cuda_work = {create, destroy, run};
