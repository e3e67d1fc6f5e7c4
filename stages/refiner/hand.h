/* The hand of the maps. Projections do not tell the hand of a particle: V'(x) = V(−x) has the same images as V, each turned
 * by 180° in its plane. With A the matrix of a pose (kernels/sampling/sampling.h: rows are the axes of the image), the
 * projection of V' is ∫ V(−A'ᵀ(x, y, z)) dz; it is that of V in A if A' = diag(−1, −1, 1) A, which is ψ + 180°. Origins stay.
 * The inversion commutes with rotations, so that a point group stays as it is too.
 *
 * The refinement begins in the hand of the reference, of the user's mask and of the poses that tables give, which are inverted
 * when they are read once the refinement has the other hand (particle_set.inverted). To invert twice restores every bit. */
#ifndef ICESTREAM_STAGES_REFINER_HAND_H
#define ICESTREAM_STAGES_REFINER_HAND_H

/* Inverts a map of box³ in place, box even: about the voxel box/2 in each axis. The first plane of each axis, which has no
 * opposite, stays that plane. */
void hand_invert_map(int box, int threads, float *map);
/* Turns the matrix of a pose by 180° in the plane of the image. */
void hand_turn_pose(double pose[9]);

#endif
