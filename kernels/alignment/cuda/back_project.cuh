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

} // namespace back_project

/* Queues the listing of `count` contributions (at least one) in `scratch`. */
enum status alignment_cuda_back_project_list(const struct sampling_cuda *sampling, int box,
                                             const struct contribution_cuda *contributions, uint32_t count,
                                             void *scratch, struct back_project::list *ret_list, void *stream,
                                             struct err *err);

/* Sums each particle on its own, for slices of a particle that lie close together. Call this only if
 * alignment_cuda_back_project_can_be_near. */
enum status alignment_cuda_back_project_near(const struct references_cuda *references,
                                             const struct sampling_cuda *sampling,
                                             const struct particles_cuda *particles, const float *factor,
                                             const struct contribution_cuda *contributions, const uint32_t *begin,
                                             const struct sums_cuda *sums, void *stream, struct err *err);

#endif
