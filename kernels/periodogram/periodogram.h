/* Averaged periodogram of a micrograph: the mean power of the transforms of overlapping square tiles.
 *
 * Tiles of `box` px cover the micrograph, each at least half over the one before. The mean of a tile is subtracted, and
 * a Hann window (sin² along each side) keeps its borders out of the spectrum. Tiles without variance, such as those of
 * a filled border, are left out. Power is divided by the window's, so that white noise of variance 1 gives 1. The
 * result does not depend on the number of threads. Source: Welch 1967; Fernández et al., Ultramicroscopy 68:267
 * (1997). */
#ifndef ICESTREAM_KERNELS_PERIODOGRAM_PERIODOGRAM_H
#define ICESTREAM_KERNELS_PERIODOGRAM_PERIODOGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct periodogram;

struct periodogram_task {
    int nx, ny, box; /* px; box is even and at most nx and ny */
    int threads;
    struct device device;
    bool tiles; /* also keep each tile's power, averaged over cells */
};

/* Half of the plane in cells: sectors of 5°, cut into rings of a pixel. Sector s holds angles from −90° + 5° s of the
 * frequency (kx, ky), ring r the radii from r to r + 1 px. */
enum { PERIODOGRAM_SECTORS = 36 };

/* Makes plans and buffers. */
enum status periodogram_create(const struct periodogram_task *task, struct periodogram **ret_periodogram,
                               struct err *err);
void periodogram_destroy(struct periodogram **periodogram);
/* Fills power[box][box/2 + 1], on the host, rows ky = 0 .. box/2, −box/2+1 .. −1. micrograph: [ny][nx], finite.
 * on_device: the same pixels in the device's memory (device_copy_data); NULL on the CPU, or to copy them from the host.
 * STATUS_BAD_FORMAT: all tiles are without variance. */
enum status periodogram_run(struct periodogram *periodogram, const float *micrograph, const void *on_device,
                            float *power, struct err *err);

/* Returns the cells of the last micrograph's tiles, [tiles along y][tiles along x][PERIODOGRAM_SECTORS][box/2]: the mean
 * power of each cell, 0 in cells without pixels and in tiles without variance. NULL: the task has no `tiles`. */
const float *periodogram_cells(const struct periodogram *periodogram);
/* Returns the cell of a frequency, sector · box/2 + ring, 0 <= kx <= box/2, −box/2 < ky <= box/2; −1: it has none, because
 * it lies within 1 px of an axis, which holds what borders leave, or beyond box/2. */
int periodogram_cell(int box, int kx, int ky);

/* Fills window[box], sin² along a side, and returns the sum of its squares over a tile. */
double periodogram_window(int box, float *ret_window);
/* Returns the number of tiles along a side, and the first pixel of tile `index`. */
int periodogram_tiles(int side, int box);
int periodogram_tile_start(int side, int box, int index);

#ifdef __cplusplus
}
#endif
#endif
