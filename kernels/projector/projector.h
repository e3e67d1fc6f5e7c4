/* Central slices of a reference map, 3-D (volume) or 2-D (class average: rotated in its plane).
 * Preparation: division by sinc²(π r / (N pad)) in real space, padding by 2, FFT; trilinear (bilinear) interpolation at
 * pad · Aᵀ k. Values are on the scale of a box × box transform with 1/box² norm of the map's projection, phase origin
 * at index box/2. For 2-D references only rows 1 and 2, columns 1 and 2 of the matrices are used: A = [[c,s],[−s,c]]
 * for psi. */
#ifndef ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_H
#define ICESTREAM_KERNELS_PROJECTOR_PROJECTOR_H

#include "common/status.h"
#include "kernels/fourier/pixels.h"
#include "kernels/fourier/workspace.h"

struct projector;

/* dimensions 2 or 3. Keeps FFT plan and memory from the first map on; set_map is called once per iteration and
 * reference. */
enum status projector_create(int dimensions, int box, int threads, struct projector **ret_projector, struct err *err);
void projector_destroy(struct projector **projector);

/* map: box² or box³ floats; frequencies beyond `size`/2 are zero. */
enum status projector_set_map(struct projector *projector, const float *map, int size, struct err *err);
/* The same on the workspace's device, where the transform then lies, until the workspace is reset; NULL: as above. Both
 * agree but for rounding. */
enum status projector_set_map_on(struct projector *projector, struct workspace *workspace, const float *map, int size,
                                 struct err *err);
/* Takes a transform for frequencies up to size/2 that is, or will be, in memory of the workspace that is the caller's:
 * projector_bytes of it. */
enum status projector_place(struct projector *projector, struct workspace *workspace, float *values, int size,
                            struct err *err);
/* After projector_set_map_on, where that put it: grid points up to the radius of a shell become those of another map,
 * and nothing of that one comes in beyond. (A slice's pixel lies between points up to 0.87 px away, and next to the
 * radius between points of both.) */
enum status projector_set_shells(struct projector *projector, const float *map, int last_shell, struct err *err);
/* Bytes of a workspace that a transform for frequencies up to size/2 takes. */
size_t projector_bytes(int dimensions, int size);
/* Of a transform that lies on a device, the host gets a copy, and projector_slices may be called; else nothing is
 * done. */
enum status projector_to_host(struct projector *projector, struct err *err);

/* mean |F|²/2 per shell 0 .. box/2 over the prepared transform (tau² of classification). */
enum status projector_power(const struct projector *projector, float *ret_power, struct err *err);

/* Slices at the first `count` pixels for n orientations; matrices[n][9]; out[n][2·count]. Parallel over n when n is
 * large; safe to call from inside a parallel region with threads = 1. The transform is the host's, see
 * projector_to_host. */
void projector_slices(const struct projector *projector, const struct fourier_pixels *pixels, int count, int n,
                      const float *matrices, int threads, float *out);

/* The prepared transform, for devices that take slices of it: half grid [nz][ny][nx] of re, im about the origin, x from
 * 0, y and z from −reach (z = 0 alone in 2-D); valid until the next projector_set_map. */
struct projector_grid {
    const float *values;
    int nx, ny, nz, reach, r_max, dimensions;
    const struct workspace *workspace; /* whose memory values are in; NULL: the host's */
};
struct projector_grid projector_grid(const struct projector *projector);

#endif
