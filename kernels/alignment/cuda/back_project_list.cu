/* Sorts contributions by slice and cuts them into pieces. The sort is stable: particles keep their order within a
 * slice. */
#include <cub/cub.cuh>
#include <thrust/iterator/counting_iterator.h>

#include "common/device_cuda.h"
#include "kernels/alignment/cuda/alignment.cuh"
#include "kernels/alignment/cuda/back_project.cuh"
#include "kernels/alignment/cuda/shift.cuh"

namespace {

using back_project::entry;
using back_project::list;
using back_project::piece;
using back_project::PIECE_MOST;

enum { THREADS = 256 };

typedef cub::DoubleBuffer<uint32_t> buffers;

/* Returns whether a piece begins here: at a new slice, and at fixed places within a long one. */
struct begins {
    const uint32_t *slices;

    __device__ bool operator()(uint32_t i) const {
        return i % PIECE_MOST == 0 || slices[i] != slices[i - 1];
    }
};

/* Parts of the scratch; base NULL: only counts their size. */
struct layout {
    list of;
    uint32_t *slices[2], *order[2];
    void *library;
    size_t library_bytes, bytes;
};

void *carve(char *base, size_t *bytes, size_t more) {
    void *part = base ? base + *bytes : nullptr;
    *bytes += (more + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    return part;
}

enum status lay_out(uint32_t count, void *scratch, layout *ret_layout, err *err) {
    layout l = {};
    size_t n = count, sort = 0, select = 0;
    char *base = (char *)scratch;
    buffers none(nullptr, nullptr);
    CUDA_TRY(cub::DeviceRadixSort::SortPairs(nullptr, sort, none, none, count), err, "planning to sort poses");
    CUDA_TRY(cub::DeviceSelect::If(nullptr, select, thrust::counting_iterator<uint32_t>(0), (uint32_t *)nullptr,
                                   (uint32_t *)nullptr, count, begins{nullptr}),
             err, "planning to sort poses");
    l.library_bytes = sort > select ? sort : select;
    l.of.entries = (entry *)carve(base, &l.bytes, n * sizeof(entry));
    l.of.pieces = (piece *)carve(base, &l.bytes, n * sizeof(piece));
    l.of.piece_count = (uint32_t *)carve(base, &l.bytes, sizeof(uint32_t));
    for (int i = 0; i < 2; i++) {
        l.slices[i] = (uint32_t *)carve(base, &l.bytes, n * sizeof(uint32_t));
        l.order[i] = (uint32_t *)carve(base, &l.bytes, n * sizeof(uint32_t));
    }
    l.library = carve(base, &l.bytes, l.library_bytes);
    *ret_layout = l;
    return STATUS_OK;
}

__global__ void list_slices(const contribution_cuda *contributions, uint32_t count, uint32_t rotations,
                            uint32_t *slices, uint32_t *order) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    slices[i] = contributions[i].pose.row * rotations + contributions[i].pose.rotation;
    order[i] = (uint32_t)i;
}

__global__ void fill_entries(const contribution_cuda *contributions, const uint32_t *order, uint32_t count,
                             const float *shifts, int box, entry *entries) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    contribution_cuda c = contributions[order[i]];
    const float *shift = shifts + 2 * (size_t)c.pose.shift;
    entries[i] = entry{c.particle, c.weight, shift_turns(shift[0], box), shift_turns(shift[1], box)};
}

/* Fills the pieces. starts[*piece_count]: first entry of each piece. */
__global__ void fill_pieces(sampling_cuda sampling, const uint32_t *slices, const uint32_t *starts, uint32_t count,
                            const uint32_t *piece_count, piece *pieces) {
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, n = *piece_count;
    if (i >= n) return;
    uint32_t first = starts[i], end = i + 1 < n ? starts[i + 1] : count;
    const uint32_t rotations = (uint32_t)sampling_rotations(sampling), slice = slices[first];
    slice_place place = child_place(sampling, slice / rotations, (int)(slice % rotations));
    piece p;
    child_plane(sampling, place, GRID_PAD, p.plane);
    p.first = first;
    p.length = (uint16_t)(end - first);
    p.reference = (uint16_t)place.reference;
    pieces[i] = p;
}

unsigned long long slice_count(const sampling_cuda &s) {
    return (unsigned long long)s.references * (unsigned)s.directions * (unsigned)s.psi_count *
           (unsigned)sampling_rotations(s);
}

/* Returns the number of bits that distinguish the slices of a grid. */
int slice_bits(const sampling_cuda &s) {
    int bits = 1;
    while (bits < 32 && slice_count(s) >> bits != 0)
        bits++;
    return bits;
}

} // namespace

extern "C" int alignment_cuda_back_project_can_sort(const struct sampling_cuda *sampling) {
    return slice_count(*sampling) <= UINT32_MAX;
}

enum status alignment_cuda_back_project_list(const struct sampling_cuda *sampling, int box,
                                             const struct contribution_cuda *contributions, uint32_t count,
                                             void *scratch, struct list *ret_list, void *stream, struct err *err) {
    cudaStream_t queue = (cudaStream_t)stream;
    unsigned blocks = (count - 1) / THREADS + 1;
    layout l;
    TRY(lay_out(count, scratch, &l, err));
    list_slices<<<blocks, THREADS, 0, queue>>>(contributions, count, (uint32_t)sampling_rotations(*sampling),
                                               l.slices[0], l.order[0]);
    CUDA_TRY(cudaGetLastError(), err, "listing poses");
    buffers slices(l.slices[0], l.slices[1]), order(l.order[0], l.order[1]);
    size_t bytes = l.library_bytes;
    CUDA_TRY(cub::DeviceRadixSort::SortPairs(l.library, bytes, slices, order, count, 0, slice_bits(*sampling), queue),
             err, "sorting poses");
    fill_entries<<<blocks, THREADS, 0, queue>>>(contributions, order.Current(), count, sampling->child_shifts, box,
                                                l.of.entries);
    CUDA_TRY(cudaGetLastError(), err, "listing poses");
    bytes = l.library_bytes;
    uint32_t *starts = slices.Alternate();
    CUDA_TRY(cub::DeviceSelect::If(l.library, bytes, thrust::counting_iterator<uint32_t>(0), starts, l.of.piece_count,
                                   count, begins{slices.Current()}, queue),
             err, "dividing poses");
    fill_pieces<<<blocks, THREADS, 0, queue>>>(*sampling, slices.Current(), starts, count, l.of.piece_count,
                                               l.of.pieces);
    CUDA_TRY(cudaGetLastError(), err, "dividing poses");
    *ret_list = l.of;
    return STATUS_OK;
}

extern "C" enum status alignment_cuda_back_project_scratch(uint32_t contributions, size_t *ret_bytes, struct err *err) {
    layout l = {};
    if (contributions > 0) TRY(lay_out(contributions, nullptr, &l, err));
    *ret_bytes = l.bytes;
    return STATUS_OK;
}
