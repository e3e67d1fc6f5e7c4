/* Copies from other devices, and sums of what came from them. */
#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.h"

namespace {

enum { THREADS = 256 };
const size_t BLOCKS_MOST = 4096;

__global__ void __launch_bounds__(THREADS) add(longlong2 *to, const longlong2 *from, size_t pairs) {
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < pairs; i += (size_t)gridDim.x * THREADS) {
        longlong2 a = to[i], b = from[i];
        to[i] = make_longlong2(a.x + b.x, a.y + b.y);
    }
}

/* Copies work without peer access too. It may be refused: there are only so many peers. */
enum status see(int from, int to, struct err *err) {
    int can = 0;
    CUDA_TRY(cudaDeviceCanAccessPeer(&can, from, to), err, "asking for peers");
    if (!can) return STATUS_OK;
    CUDA_TRY(cudaSetDevice(from), err, "choosing a device");
    if (cudaDeviceEnablePeerAccess(to, 0) != cudaSuccess) (void)cudaGetLastError();
    return STATUS_OK;
}

} // namespace

extern "C" enum status alignment_cuda_see(int device, int other, struct err *err) {
    if (device == other) return STATUS_OK;
    TRY(see(other, device, err));
    TRY(see(device, other, err));
    CUDA_TRY(cudaSetDevice(device), err, "choosing a device");
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_copy_from(void *to, int device, const void *from, int other, size_t bytes,
                                                void *stream, struct err *err) {
    CUDA_TRY(cudaMemcpyPeerAsync(to, device, from, other, bytes, (cudaStream_t)stream), err,
             "copying from another device");
    return STATUS_OK;
}

/* Grids have four integers for each voxel, so that counts are even. */
extern "C" enum status alignment_cuda_add_integers(int64_t *to, const int64_t *from, size_t count, void *stream,
                                                   struct err *err) {
    FAIL_IF(count % 2 != 0, err, STATUS_BAD_ARGUMENT, "%zu integers are not whole pairs", count);
    size_t pairs = count / 2, blocks = (pairs + THREADS - 1) / THREADS;
    if (blocks == 0) return STATUS_OK;
    add<<<(unsigned)(blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST), THREADS, 0, (cudaStream_t)stream>>>(
        (longlong2 *)to, (const longlong2 *)from, pairs);
    CUDA_TRY(cudaGetLastError(), err, "adding sums of another device");
    return STATUS_OK;
}
