/* Definitions shared by the files of the back-projection, back_project*.cu. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_BACK_PROJECT_CUH
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_BACK_PROJECT_CUH

#include "kernels/alignment/cuda/alignment.h"

namespace back_project {

/* A slice with contributions of thousands of particles is cut into pieces, each summed and scattered separately, to
 * give work to many warps. */
enum { PIECE_MOST = 256 };

/* A contribution; its shift is in turns (kernels/alignment/cuda/shift.cuh). */
struct entry {
    int particle;
    float weight;
    uint32_t x, y;
};

/* Entries first .. first + length − 1, all of one slice. plane: rows 0 and 1 of its matrix, times the padding. */
struct piece {
    float plane[6];
    uint32_t first;
    uint16_t length, reference;
};

/* In device memory. */
struct list {
    entry *entries;
    piece *pieces;
    uint32_t *piece_count;
};

/* Queues the listing of `count` contributions (at least one) in `scratch`. */
enum status make_list(const struct sampling_cuda *sampling, int box, const struct contribution_cuda *contributions,
                      uint32_t count, void *scratch, struct list *ret_list, void *stream, struct err *err);

/* For slices of a particle that lie close together: returns whether each particle can be summed separately, which
 * limits the number of shifts; and does it. */
bool can_be_near(const struct sums_cuda *sums, int shifts);
enum status near(const struct references_cuda *references, const struct sampling_cuda *sampling,
                 const struct particles_cuda *particles, const float *factor,
                 const struct contribution_cuda *contributions, const uint32_t *begin, const struct sums_cuda *sums,
                 void *stream, struct err *err);

} // namespace back_project

#endif
