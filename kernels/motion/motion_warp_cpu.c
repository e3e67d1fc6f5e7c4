/* Interpolates frames along the motion, tile by tile, and adds them to the sums of a band. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/motion/motion_sum_private.h"

static const double SHIFT_ERROR = 0.05; /* px */

/* Returns how much the shift changes from the middle to the corner of a tile, at most. The derivatives of the surface
 * are linear, so they are largest in a corner of the frame. */
static double change_in_tile(const struct motion_surface *surface, const struct motion_frames *frames, int tile_x,
                             int tile_y) {
    double most = 0;
    for (int axis = 0; axis < 2; axis++)
        for (int corner = 0; corner < 4; corner++) {
            const double *c = surface->c[axis], x = corner & 1 ? 0.5 : -0.5, y = corner & 2 ? 0.5 : -0.5;
            double along_x = (c[1] + 2 * c[2] * x + c[5] * y) / frames->nx;
            double along_y = (c[3] + 2 * c[4] * y + c[5] * x) / frames->ny;
            most = fmax(most, fabs(along_x) * tile_x / 2 + fabs(along_y) * tile_y / 2);
        }
    return most;
}

void motion_warp_choose_tiles(struct motion_warp *warp) {
    warp->tile_x = MOTION_TILE;
    warp->tile_y = MOTION_BAND;
    while (warp->tile_x > 16) {
        double most = 0;
        for (int j = 0; j < warp->frames->count; j++)
            most = fmax(most, change_in_tile(&warp->surfaces[j], warp->frames, warp->tile_x, warp->tile_y));
        if (most <= SHIFT_ERROR) return;
        warp->tile_x /= 2;
        if (warp->tile_y > warp->tile_x / 2) warp->tile_y /= 2;
    }
}

MULTIVERSION static void copy_u8(const uint8_t *restrict from, const float *restrict gain, int count,
                                 float *restrict to) {
    if (gain == NULL)
        for (int i = 0; i < count; i++)
            to[i] = (float)from[i];
    else
        for (int i = 0; i < count; i++)
            to[i] = (float)from[i] * gain[i];
}

MULTIVERSION static void copy_u16(const uint16_t *restrict from, const float *restrict gain, int count,
                                  float *restrict to) {
    if (gain == NULL)
        for (int i = 0; i < count; i++)
            to[i] = (float)from[i];
    else
        for (int i = 0; i < count; i++)
            to[i] = (float)from[i] * gain[i];
}

MULTIVERSION static void copy_f32(const float *restrict from, const float *restrict gain, int count,
                                  float *restrict to) {
    if (gain == NULL)
        for (int i = 0; i < count; i++)
            to[i] = from[i];
    else
        for (int i = 0; i < count; i++)
            to[i] = from[i] * gain[i];
}

/* Copies pixels x … x + count − 1 of row y, all of them inside the frame. */
static void copy_row(const struct motion_frames *f, int frame, int x, int y, int count, float *to) {
    size_t at = (size_t)y * (size_t)f->nx + (size_t)x;
    const float *gain = f->gain != NULL ? f->gain + at : NULL;
    if (f->pixels == MOTION_U8)
        copy_u8((const uint8_t *)f->frame[frame] + at, gain, count, to);
    else if (f->pixels == MOTION_U16)
        copy_u16((const uint16_t *)f->frame[frame] + at, gain, count, to);
    else
        copy_f32((const float *)f->frame[frame] + at, gain, count, to);
}

/* Fetches a row that the next frame of a sum needs, roughly: rows are far apart, and nothing else foresees them. */
static void prefetch_row(const struct motion_frames *f, int frame, int x, int y, int count) {
    size_t size = motion_pixel_size(f->pixels), at = ((size_t)y * (size_t)f->nx + (size_t)x) * size;
    const char *first = (const char *)f->frame[frame] + at;
    for (size_t byte = 0; byte < (size_t)count * size; byte += 64)
        __builtin_prefetch(first + byte);
}

/* Returns the pixel that stands for pixel i: beyond its border a frame is mirrored. */
static int mirrored(int i, int size) {
    if (i < 0) i = -1 - i;
    if (i >= size) i = 2 * size - 1 - i;
    return i < 0 ? 0 : i;
}

/* Copies pixels x … x + count − 1 of row y, mirrored where they lie outside of the frame. */
static void copy_row_anywhere(const struct motion_frames *f, int frame, int x, int y, int count, float *to) {
    int row = mirrored(y, f->ny), first = x < 0 ? 0 : x, last = x + count > f->nx ? f->nx : x + count;
    if (first < last) copy_row(f, frame, first, row, last - first, to + (first - x));
    for (int i = 0; i < count; i++)
        if (x + i < 0 || x + i >= f->nx) copy_row(f, frame, mirrored(x + i, f->nx), row, 1, to + i);
}

/* Interpolates along y, then along x. raw: [height + taps − 1][MOTION_RAW_STRIDE]; to: [height][MOTION_TILE]. width: a
 * multiple of 16. */
MULTIVERSION static void interpolate(const float *restrict raw, const float taps_x[MOTION_TAPS],
                                     const float taps_y[MOTION_TAPS], int width, int height, float *restrict to) {
    const float x0 = taps_x[0], x1 = taps_x[1], x2 = taps_x[2], x3 = taps_x[3];
    const float x4 = taps_x[4], x5 = taps_x[5], x6 = taps_x[6], x7 = taps_x[7];
    const float y0 = taps_y[0], y1 = taps_y[1], y2 = taps_y[2], y3 = taps_y[3];
    const float y4 = taps_y[4], y5 = taps_y[5], y6 = taps_y[6], y7 = taps_y[7];
    enum { S = MOTION_RAW_STRIDE };
    float line[S];
    for (int y = 0; y < height; y++) {
        const float *r = raw + (size_t)y * S;
        float *out = to + (size_t)y * MOTION_TILE;
        for (int x = 0; x < width + 16; x++)
            line[x] = y0 * r[x] + y1 * r[x + S] + y2 * r[x + 2 * S] + y3 * r[x + 3 * S] + y4 * r[x + 4 * S] +
                      y5 * r[x + 5 * S] + y6 * r[x + 6 * S] + y7 * r[x + 7 * S];
        for (int x = 0; x < width; x++)
            out[x] = x0 * line[x] + x1 * line[x + 1] + x2 * line[x + 2] + x3 * line[x + 3] + x4 * line[x + 4] +
                     x5 * line[x + 5] + x6 * line[x + 6] + x7 * line[x + 7];
    }
}

/* A tile of the sums. */
struct tile {
    int x, y, width, height;
};

/* Splits a place in the frame into the first pixel that its taps need, and their phase. */
static int split(double place, int *ret_phase) {
    double whole = floor(place);
    *ret_phase = (int)lround((place - whole) * MOTION_PHASES);
    return (int)whole - (MOTION_TAPS / 2 - 1);
}

/* Fills a tile with a frame's pixels X − d, with the shift d of the tile's middle. */
static void warp_tile(const struct motion_warp *warp, struct motion_warp_buffers *buffers, int frame,
                      const struct tile *tile, float *to) {
    const struct motion_frames *f = warp->frames;
    double terms[MOTION_SURFACE], shift[2] = {0, 0};
    int phase_x, phase_y, columns = tile->width + MOTION_TAPS - 1, rows = tile->height + MOTION_TAPS - 1;
    motion_surface_terms((tile->x + (tile->width - 1) / 2.0) / f->nx - 0.5,
                         (tile->y + (tile->height - 1) / 2.0) / f->ny - 0.5, terms);
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < MOTION_SURFACE; i++)
            shift[axis] += warp->surfaces[frame].c[axis][i] * terms[i];
    int x = split(tile->x - shift[0], &phase_x), y = split(tile->y - shift[1], &phase_y);
    bool inside = x >= 0 && y >= 0 && x + columns <= f->nx && y + rows <= f->ny;
    for (int row = 0; row < rows; row++) {
        float *raw = buffers->raw + (size_t)row * MOTION_RAW_STRIDE;
        if (inside) {
            if (frame + warp->sets < f->count) prefetch_row(f, frame + warp->sets, x, y + row, columns);
            copy_row(f, frame, x, y + row, columns, raw);
        } else {
            copy_row_anywhere(f, frame, x, y + row, columns, raw);
        }
    }
    interpolate(buffers->raw, warp->taps[phase_x], warp->taps[phase_y], (tile->width + 15) / 16 * 16, tile->height, to);
}

/* Adds rows of up to MOTION_GROUP frames to each sum. of_frame: the terms of each of them. */
MULTIVERSION static void add_rows(const struct motion_warp_buffers *restrict buffers,
                                  float (*restrict of_frame)[MOTION_TERMS], int terms, int width, int height,
                                  size_t stride, float *restrict to) {
    for (int y = 0; y < height; y++) {
        const float *a = buffers->tiles[0] + (size_t)y * MOTION_TILE, *b = buffers->tiles[1] + (size_t)y * MOTION_TILE;
        const float *c = buffers->tiles[2] + (size_t)y * MOTION_TILE, *d = buffers->tiles[3] + (size_t)y * MOTION_TILE;
        for (int t = 0; t < terms; t++) {
            float *sum = to + ((size_t)t * MOTION_BAND + (size_t)y) * stride;
            const float wa = of_frame[0][t], wb = of_frame[1][t], wc = of_frame[2][t], wd = of_frame[3][t];
            for (int x = 0; x < width; x++)
                sum[x] += wa * a[x] + wb * b[x] + wc * c[x] + wd * d[x];
        }
    }
}

static void sum_tile(const struct motion_warp *warp, struct motion_warp_buffers *buffers, const struct tile *tile,
                     float *to) {
    int terms = warp->weights->terms;
    for (int set = 0; set < warp->sets; set++) {
        float *sums = to + (size_t)set * (size_t)terms * MOTION_BAND * warp->stride;
        for (int first = set; first < warp->frames->count; first += warp->sets * MOTION_GROUP) {
            float of_frame[MOTION_GROUP][MOTION_TERMS] = {{0}};
            for (int i = 0; i < MOTION_GROUP; i++) {
                int frame = first + i * warp->sets;
                if (frame < warp->frames->count) {
                    memcpy(of_frame[i], warp->weights->of_frame[frame], sizeof of_frame[i]);
                    warp_tile(warp, buffers, frame, tile, buffers->tiles[i]);
                } else {
                    memset(buffers->tiles[i], 0, sizeof buffers->tiles[i]);
                }
            }
            add_rows(buffers, of_frame, terms, tile->width, tile->height, warp->stride, sums);
        }
    }
}

void motion_warp_band(const struct motion_warp *warp, struct motion_warp_buffers *buffers, int first_row, int rows,
                      float *band) {
    int nx = warp->frames->nx;
    memset(band, 0, (size_t)warp->sets * (size_t)warp->weights->terms * MOTION_BAND * warp->stride * sizeof *band);
    for (int x = 0; x < nx; x += warp->tile_x)
        for (int y = 0; y < rows; y += warp->tile_y) {
            struct tile tile = {x, first_row + y, warp->tile_x, warp->tile_y};
            if (tile.width > nx - x) tile.width = nx - x;
            if (tile.height > rows - y) tile.height = rows - y;
            sum_tile(warp, buffers, &tile, band + (size_t)y * warp->stride + (size_t)x);
        }
}
