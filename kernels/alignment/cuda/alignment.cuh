/* Places of the slices of a grid of poses, for .cu files. Numbers of rows and slices as in
 * kernels/alignment/cuda/alignment.h. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_CUH
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_CUH

#include "kernels/alignment/cuda/alignment.h"
#include "kernels/expectation/grid.cuh"

/* Returns the number of slices per row in the fine pass. */
__host__ __device__ static inline int sampling_rotations(const struct sampling_cuda &s) {
    return s.direction_children * s.psi_children;
}

/* Place of a slice. frame and psi are entries of the coarse or of the child arrays, as each function says. */
struct slice_place {
    int reference, frame, psi;
};

/* Returns the place of a row itself: entries of frames, psi. */
__device__ static inline struct slice_place row_place(const struct sampling_cuda &s, uint32_t row) {
    uint32_t frame = row / (uint32_t)s.psi_count, reference = frame / (uint32_t)s.directions;
    return {(int)reference, (int)(frame - reference * (uint32_t)s.directions),
            (int)(row - frame * (uint32_t)s.psi_count)};
}

/* Returns the place of a row's child: entries of child_frames, child_psi. */
__device__ static inline struct slice_place child_place(const struct sampling_cuda &s, uint32_t row, int rotation) {
    struct slice_place p = row_place(s, row);
    int direction = rotation / s.psi_children;
    p.frame = p.frame * s.direction_children + direction;
    p.psi = p.psi * s.psi_children + rotation - direction * s.psi_children;
    return p;
}

__device__ static inline struct slice_place fine_place(const struct sampling_cuda &s, const struct pose_cuda &pose) {
    return child_place(s, pose.row, pose.rotation);
}

__device__ static inline bool same_slice(const struct pose_cuda &a, const struct pose_cuda &b) {
    return a.row == b.row && a.rotation == b.rotation;
}

/* Computes rows 0 and 1 of a slice's matrix times `factor` (GRID_PAD for grid_sample). */
__device__ static inline void slice_plane(const float *frames, const float *psi, struct slice_place place, float factor,
                                          float ret_m[6]) {
    const float *f = frames + 9 * (size_t)place.frame;
    float c = factor * psi[2 * place.psi], s = factor * psi[2 * place.psi + 1];
    for (int i = 0; i < 3; i++) {
        ret_m[i] = fmaf(c, f[i], s * f[3 + i]);
        ret_m[3 + i] = fmaf(c, f[3 + i], -(s * f[i]));
    }
}
__device__ static inline void row_plane(const struct sampling_cuda &s, struct slice_place place, float factor,
                                        float ret_m[6]) {
    slice_plane(s.frames, s.psi, place, factor, ret_m);
}
__device__ static inline void child_plane(const struct sampling_cuda &s, struct slice_place place, float factor,
                                          float ret_m[6]) {
    slice_plane(s.child_frames, s.child_psi, place, factor, ret_m);
}

#endif
