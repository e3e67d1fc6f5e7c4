/* Central slices of a reference map: 3D (volume), or 2D (class average, rotated in its plane).
 *
 * The map is divided by sinc²(π r / (N pad)) in real space, padded by 2 and transformed. Slices interpolate (bi-,
 * trilinearly) at pad · Aᵀ k. Values are on the scale of a box × box transform, with 1/box² norm, of the map's
 * projection; phase origin at index box/2.
 *
 * 2D references use only rows 1 and 2, columns 1 and 2 of the matrices: A = [[c,s],[−s,c]] for psi. */
#ifndef ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_H
#define ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_H

#include "common/status.h"
#include "kernels/fourier/pixels.h"
#include "kernels/fourier/workspace.h"

struct projector;

/* Creates a projector. dimensions: 2 or 3. From its first map on it keeps its FFT plan and memory; set_map is called
 * once per iteration and reference. */
enum status projector_create(int dimensions, int box, int threads, struct projector **ret_projector, struct err *err);
void projector_destroy(struct projector **projector);

/* Prepares a map (box² or box³ floats) in host memory; frequencies beyond `size`/2 become zero. */
enum status projector_set_map(struct projector *projector, const float *map, int size, struct err *err);
/* Prepares a map on the workspace's device and leaves the transform there, until the workspace is reset; NULL: like
 * projector_set_map. Both agree except for rounding. */
enum status projector_set_map_on(struct projector *projector, struct workspace *workspace, const float *map, int size,
                                 struct err *err);
/* Uses a transform in the caller's memory of the workspace (projector_bytes), for frequencies up to size/2. The caller
 * fills it, before or later. */
enum status projector_place(struct projector *projector, struct workspace *workspace, float *values, int size,
                            struct err *err);
/* Replaces the grid points up to the radius of a shell by those of another map, on the device that projector_set_map_on
 * used. Nothing of the other map is used beyond. (A slice's pixel is interpolated from points up to 0.87 px away, next
 * to the radius from points of both maps.) */
enum status projector_set_shells(struct projector *projector, const float *map, int last_shell, struct err *err);
/* Returns the bytes of a workspace that a transform for frequencies up to size/2 takes. */
size_t projector_bytes(int dimensions, int size);
/* Copies a transform from the device to the host, so that projector_slices may be called. Does nothing if the transform
 * is in host memory. */
enum status projector_to_host(struct projector *projector, struct err *err);

/* Computes the mean |F|²/2 per shell 0 .. box/2 over the prepared transform (tau² of classification). */
enum status projector_power(const struct projector *projector, float *ret_power, struct err *err);

/* Computes slices at the first `count` pixels for n orientations: matrices[n][9], out[n][2·count]. Runs in parallel
 * over n if threads > 1; inside a parallel region call it with threads = 1. The transform must be in host memory, see
 * projector_to_host. */
void projector_slices(const struct projector *projector, const struct fourier_pixels *pixels, int count, int n,
                      const float *matrices, int threads, float *out);

/* The prepared transform, for devices that slice it: half grid [nz][ny][nx] of re, im about the origin; x from 0, y and
 * z from −reach (only z = 0 in 2D). Valid until the next projector_set_map. */
struct projector_grid {
    const float *values;
    int nx, ny, nz, reach, r_max, dimensions;
    const struct workspace *workspace; /* holds values; NULL: host memory */
};
struct projector_grid projector_grid(const struct projector *projector);

#endif
