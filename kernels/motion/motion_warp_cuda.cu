/* Weighted sums of the frames along the motion: a block makes a tile of all sums, and reads each frame once. */
#include "kernels/motion/motion_warp_cuda.cuh"

#include <stdint.h>

namespace {

enum {
    TILE_X = 64,
    TILE_Y = 16,
    THREADS = 256,
    ROWS = THREADS / TILE_X, /* of threads */
    EACH = TILE_Y / ROWS,    /* pixels of a thread */
    SLACK = 2,               /* px by which shifts may differ in a tile before pixels are read one by one */
    WIDTH = TILE_X + MOTION_TAPS - 1 + 2 * SLACK,
    HEIGHT = TILE_Y + MOTION_TAPS - 1 + 2 * SLACK
};

/* Returns the pixel that stands for pixel i: beyond its border a frame is mirrored, once. */
__device__ int mirrored(int i, int size) {
    i = i < 0 ? -1 - i : i;
    i = i >= size ? 2 * size - 1 - i : i;
    return max(i, 0);
}

template <typename PIXEL>
__device__ float pixel_at(const PIXEL *frame, const float *gain, int nx, int ny, int x, int y) {
    size_t at = (size_t)mirrored(y, ny) * nx + mirrored(x, nx);
    float value = (float)frame[at];
    return gain ? value * gain[at] : value;
}

/* Finds the place in the frame of pixel (x, y) of the sum: whole pixels to add, and the rest, from 0 to 1. */
__device__ void place_of(const warp_shift &s, float x, float y, int ret_whole[2], float ret_part[2]) {
    for (int axis = 0; axis < 2; axis++) {
        const float *c = s.c[axis];
        float shift = c[0] + x * (c[1] + x * c[2] + y * c[5]) + y * (c[3] + y * c[4]);
        float whole = floorf(-shift);
        ret_whole[axis] = (int)whole;
        ret_part[axis] = -shift - whole;
    }
}

template <typename PIXEL>
__device__ void load_tile(const PIXEL *frame, const float *gain, int nx, int ny, int left, int top,
                          float tile[HEIGHT][WIDTH]) {
    for (int y = (int)threadIdx.x / TILE_X; y < HEIGHT; y += ROWS)
        for (int x = (int)threadIdx.x % TILE_X; x < WIDTH; x += TILE_X)
            tile[y][x] = pixel_at(frame, gain, nx, ny, left + x, top + y);
}

template <typename PIXEL, int TERMS> __global__ void __launch_bounds__(THREADS) add_frames(warp_job job) {
    __shared__ float tile[HEIGHT][WIDTH];
    __shared__ __align__(16) float taps[MOTION_PHASES + 1][MOTION_TAPS];
    const int nx = job.frames.nx, ny = job.frames.ny, left = blockIdx.x * TILE_X, top = blockIdx.y * TILE_Y;
    const int x = left + threadIdx.x % TILE_X, first_y = top + threadIdx.x / TILE_X;
    const float at_x = (float)x / nx - 0.5f;
    float sums[EACH][TERMS] = {};
    for (int i = threadIdx.x; i < (MOTION_PHASES + 1) * MOTION_TAPS; i += THREADS)
        taps[i / MOTION_TAPS][i % MOTION_TAPS] = job.taps[i];
    for (int frame = job.first; frame < job.frames.count; frame += job.step) {
        const PIXEL *pixels = (const PIXEL *)job.frames.pixels + (size_t)frame * nx * ny;
        const warp_shift &shift = job.shifts[frame];
        int middle[2], whole[2];
        float part[2];
        place_of(shift, (float)(left + TILE_X / 2) / nx - 0.5f, (float)(top + TILE_Y / 2) / ny - 0.5f, middle, part);
        const int from_x = left + middle[0] - SLACK - (MOTION_TAPS / 2 - 1);
        const int from_y = top + middle[1] - SLACK - (MOTION_TAPS / 2 - 1);
        __syncthreads();
        load_tile(pixels, job.frames.gain, nx, ny, from_x, from_y, tile);
        __syncthreads();
        float values[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int y = first_y + i * ROWS;
            place_of(shift, at_x, (float)y / ny - 0.5f, whole, part);
            const int first_x = x + whole[0] - (MOTION_TAPS / 2 - 1) - from_x;
            const int first_row = y + whole[1] - (MOTION_TAPS / 2 - 1) - from_y;
            const float *along_x = taps[(int)(part[0] * MOTION_PHASES + 0.5f)];
            const float *along_y = taps[(int)(part[1] * MOTION_PHASES + 0.5f)];
            const bool inside =
                first_x >= 0 && first_x + MOTION_TAPS <= WIDTH && first_row >= 0 && first_row + MOTION_TAPS <= HEIGHT;
            float value = 0;
            for (int v = 0; v < MOTION_TAPS; v++) {
                float row = 0;
                if (inside) {
#pragma unroll
                    for (int u = 0; u < MOTION_TAPS; u++)
                        row += along_x[u] * tile[first_row + v][first_x + u];
                } else {
                    for (int u = 0; u < MOTION_TAPS; u++)
                        row += along_x[u] *
                               pixel_at(pixels, job.frames.gain, nx, ny, from_x + first_x + u, from_y + first_row + v);
                }
                value += along_y[v] * row;
            }
            values[i] = value;
        }
#pragma unroll
        for (int t = 0; t < TERMS; t++) {
            const float factor = job.coefficients[frame * MOTION_TERMS + t];
#pragma unroll
            for (int i = 0; i < EACH; i++)
                sums[i][t] += factor * values[i];
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int y = first_y + i * ROWS;
        if (x >= nx || y >= ny) continue;
#pragma unroll
        for (int t = 0; t < TERMS; t++)
            if (t < job.terms) job.sums[((size_t)t * ny + y) * (2 * (nx / 2 + 1)) + x] = sums[i][t];
    }
}

template <typename PIXEL> void launch(const warp_job &job, cudaStream_t stream) {
    dim3 blocks(blocks_for(job.frames.nx, TILE_X), blocks_for(job.frames.ny, TILE_Y));
    if (job.terms <= 1)
        add_frames<PIXEL, 1><<<blocks, THREADS, 0, stream>>>(job);
    else if (job.terms <= 8)
        add_frames<PIXEL, 8><<<blocks, THREADS, 0, stream>>>(job);
    else if (job.terms <= 12)
        add_frames<PIXEL, 12><<<blocks, THREADS, 0, stream>>>(job);
    else
        add_frames<PIXEL, MOTION_TERMS><<<blocks, THREADS, 0, stream>>>(job);
}

} // namespace

enum status motion_warp_cuda(const struct warp_job *job, cudaStream_t stream, struct err *err) {
    MOTION_TYPED(job->frames.type, launch, *job, stream);
    CUDA_TRY(cudaGetLastError(), err, "summing frames along the motion");
    return STATUS_OK;
}
