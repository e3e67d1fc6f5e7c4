/* An invented batch of particles with contributing poses, for test_alignment_sums_devices.c only. */
#ifndef ICESTREAM_TESTS_KERNELS_ALIGNMENT_SUMS_WORLD_H
#define ICESTREAM_TESTS_KERNELS_ALIGNMENT_SUMS_WORLD_H

#include <stdbool.h>

#include "kernels/alignment/cuda/alignment.h"
#include "kernels/fourier/pixels.h"
#include "tests/kernels/devices.h"

enum { PAD = 2 };

/* A batch, on the host and on the device. */
struct world {
    int dimensions, box, size, particles, references, directions, psis, shifts, most, sharing;
    bool children, rounded, oriented;
    struct fourier_pixels pixels;
    int shells, rotations, frame_count, psi_count, shift_count, voxels;
    float *frames, *psi, *shift, *sigma2;
    float *grids[2], *masked, *unmasked, *ctf, *weight, *power, *factor;
    size_t stride;
    uint32_t *begin, count;
    struct contribution_cuda *list;
    struct best_cuda *best;
    int *known;
    /* In device memory: */
    struct references_cuda d_references;
    struct sampling_cuda d_sampling;
    struct particles_cuda d_particles;
    struct sums_cuda d_sums;
    void *d_list, *d_begin, *d_best, *d_known, *d_factor;
};

static double rounded(double value) {
    return round(value * 256) / 256;
}

/* Makes a frame slightly smaller than a rotation, so that rounding leaves no pixel outside the grid. */
static void random_frame(const struct world *w, float m[9]) {
    double q[4], norm = 0;
    for (int i = 0; i < 4; i++) {
        q[i] = w->dimensions == 3 || i == 0 ? normal() : 0;
        norm += q[i] * q[i];
    }
    for (int i = 0; i < 4; i++)
        q[i] /= sqrt(norm);
    double a = q[0], x = q[1], y = q[2], z = q[3];
    const double r[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - a * z),     2 * (x * z + a * y),
                         2 * (x * y + a * z),     1 - 2 * (x * x + z * z), 2 * (y * z - a * x),
                         2 * (x * z - a * y),     2 * (y * z + a * x),     1 - 2 * (x * x + y * y)};
    for (int i = 0; i < 9; i++)
        m[i] = (float)(w->rounded ? rounded(0.97 * r[i]) : r[i]);
}

static void make_sampling(struct world *w) {
    w->frame_count = w->directions * (w->children && w->dimensions == 3 ? 4 : 1);
    w->psi_count = w->psis * (w->children ? 2 : 1);
    w->shift_count = w->shifts * (w->children ? 4 : 1);
    w->rotations = w->frame_count / w->directions * (w->psi_count / w->psis);
    w->frames = host_new((size_t)w->frame_count * 9, sizeof(float));
    w->psi = host_new((size_t)w->psi_count * 2, sizeof(float));
    w->shift = host_new((size_t)w->shift_count * 2, sizeof(float));
    for (int i = 0; i < w->frame_count; i++)
        random_frame(w, w->frames + 9 * (size_t)i);
    for (int i = 0; i < w->psi_count; i++) {
        double angle = 2 * M_PI * uniform();
        w->psi[2 * i] = (float)(w->rounded ? rounded(cos(angle)) : cos(angle));
        w->psi[2 * i + 1] = (float)(w->rounded ? rounded(sin(angle)) : sin(angle));
    }
    for (int i = 0; i < 2 * w->shift_count; i++)
        w->shift[i] = (float)(12 * uniform() - 6);
}

static void make_grids(struct world *w) {
    int reach = PAD * (w->size / 2) + 1, nx = reach + 1, ny = 2 * reach + 1, nz = w->dimensions == 3 ? ny : 1;
    w->voxels = nx * ny * nz;
    for (int k = 0; k < w->references; k++) {
        w->grids[k] = host_new((size_t)w->voxels * 2, sizeof(float));
        for (int i = 0; i < 2 * w->voxels; i++)
            w->grids[k][i] = (float)(uniform() - 0.5);
        w->d_references.grids[k] = (struct grid_cuda){.values = on_device(w->grids[k], (size_t)w->voxels * 2, 4),
                                                      .nx = nx,
                                                      .ny = ny,
                                                      .reach = reach,
                                                      .r_max = w->size / 2,
                                                      .dimensions = w->dimensions};
        w->d_sums.voxels[k] = on_device(NULL, (size_t)w->voxels * 4, sizeof(int64_t));
    }
    w->d_sums.nx = nx, w->d_sums.ny = ny, w->d_sums.nz = nz, w->d_sums.reach = reach;
    w->d_sums.r_max = w->size / 2, w->d_sums.dimensions = w->dimensions;
    w->d_sums.overflow = on_device(NULL, 1, sizeof *w->d_sums.overflow);
}

/* Noise falls to a hundredth towards high frequencies; images hold as much signal as noise. */
static void make_particles(struct world *w) {
    size_t n = (size_t)w->pixels.count, stride = n + 5, all = (size_t)w->particles * stride;
    w->stride = stride;
    w->sigma2 = host_new((size_t)w->shells, sizeof(float));
    for (int s = 0; s < w->shells; s++)
        w->sigma2[s] = 1e-4f * (0.01f + 1 / (1 + (float)s));
    w->masked = host_new(2 * all, sizeof(float)), w->unmasked = host_new(2 * all, sizeof(float));
    w->ctf = host_new(all, sizeof(float)), w->weight = host_new(all, sizeof(float));
    w->power = host_new((size_t)w->particles * (size_t)w->shells, sizeof(float));
    w->factor = host_new((size_t)w->particles, sizeof(float));
    w->known = host_new((size_t)w->particles, sizeof(int));
    for (size_t i = 0; i < 2 * all; i++)
        w->masked[i] = w->unmasked[i] = NAN; /* stays so beyond the pixels */
    for (int p = 0; p < w->particles; p++) {
        for (size_t i = 0; i < n; i++) {
            size_t at = (size_t)p * stride + i;
            double sigma = sqrt(w->sigma2[w->pixels.shell[i]]);
            for (size_t j = 0; j < 2; j++) {
                w->masked[2 * at + j] = (float)(1.4 * sigma * normal());
                w->unmasked[2 * at + j] = (float)(1.4 * sigma * normal());
            }
            w->ctf[at] = (float)(2 * uniform() - 1);
            w->weight[at] = 1 / w->sigma2[w->pixels.shell[i]];
        }
        w->factor[p] = (float)uniform();
        w->known[p] = (int)(uniform() * (w->size / 2 + 1));
    }
    for (int i = 0; i < w->particles * w->shells; i++)
        w->power[i] = (float)uniform();
}

static uint32_t slice_of(const struct world *w, struct pose_cuda pose) {
    return pose.row * (uint32_t)w->rotations + pose.rotation;
}

static struct pose_cuda pose_of(const struct world *w, uint32_t slice, int shift) {
    uint32_t rotations = (uint32_t)w->rotations;
    return (struct pose_cuda){slice / rotations, (uint16_t)(slice % rotations), (uint16_t)shift};
}

static int by_place(const void *a, const void *b) {
    const struct pose_cuda x = ((const struct contribution_cuda *)a)->pose;
    const struct pose_cuda y = ((const struct contribution_cuda *)b)->pose;
    if (x.row != y.row) return x.row < y.row ? -1 : 1;
    if (x.rotation != y.rotation) return x.rotation < y.rotation ? -1 : 1;
    return (x.shift > y.shift) - (x.shift < y.shift);
}

/* Lists up to `most` poses of each particle; the second particle, if there is one, has none. sharing > 0: poses use
 * only so many slices. */
static void make_list(struct world *w) {
    uint32_t slices = (uint32_t)(w->references * w->directions * w->psis * w->rotations);
    w->begin = host_new((size_t)w->particles + 1, sizeof *w->begin);
    w->list = host_new((size_t)w->particles * (size_t)w->most + 1, sizeof *w->list);
    w->best = host_new((size_t)w->particles, sizeof *w->best);
    w->count = 0;
    for (int p = 0; p < w->particles; p++) {
        struct contribution_cuda *list = w->list + w->count;
        int n = p == 1 ? 0 : 1 + (int)(uniform() * w->most), kept = 0;
        double sum = 0;
        w->begin[p] = w->count;
        for (int i = 0; i < n; i++) {
            uint32_t limit = w->sharing > 0 ? (uint32_t)w->sharing : slices;
            list[i] = (struct contribution_cuda){
                .particle = p, .pose = pose_of(w, (uint32_t)(uniform() * limit), (int)(uniform() * w->shift_count))};
        }
        qsort(list, (size_t)n, sizeof *list, by_place);
        for (int i = 0; i < n; i++)
            if (i == 0 || by_place(&list[i], &list[i - 1]) != 0) list[kept++] = list[i];
        for (int i = 0; i < kept; i++) {
            list[i].weight = (float)exp(-5 * uniform());
            sum += list[i].weight / 0.999;
        }
        memset(&w->best[p], 0, sizeof w->best[p]);
        for (int i = 0; i < kept; i++) {
            list[i].weight = (float)(list[i].weight / sum);
            w->best[p].weight_sum += list[i].weight;
        }
        if (kept > 0) w->best[p].pose = list[kept / 2].pose;
        w->count += (uint32_t)kept;
    }
    w->begin[w->particles] = w->count;
}

static void bring(struct world *w) {
    size_t n = (size_t)w->pixels.count, all = (size_t)w->particles * w->stride;
    w->d_references.pixels = (struct pixels_cuda){.kx = on_device(w->pixels.kx, n, sizeof(short)),
                                                  .ky = on_device(w->pixels.ky, n, sizeof(short)),
                                                  .box = w->box,
                                                  .count = w->pixels.count};
    w->d_references.shell = on_device(w->pixels.shell, n, sizeof(short));
    w->d_references.coarse_pixels = w->d_references.fine_pixels = w->pixels.count;
    /* Nothing here uses the arrays of the coarse grid. */
    w->d_sampling = (struct sampling_cuda){.references = w->references,
                                           .directions = w->directions,
                                           .psi_count = w->psis,
                                           .shift_count = w->shifts,
                                           .direction_children = w->frame_count / w->directions,
                                           .psi_children = w->psi_count / w->psis,
                                           .shift_children = w->shift_count / w->shifts,
                                           .frames = on_device(NULL, (size_t)w->directions * 9, 4),
                                           .psi = on_device(NULL, (size_t)w->psis * 2, 4),
                                           .shifts = on_device(NULL, (size_t)w->shifts * 2, 4),
                                           .child_frames = on_device(w->frames, (size_t)w->frame_count * 9, 4),
                                           .child_psi = on_device(w->psi, (size_t)w->psi_count * 2, 4),
                                           .child_shifts = on_device(w->shift, (size_t)w->shift_count * 2, 4)};
    w->d_particles = (struct particles_cuda){.count = w->particles,
                                             .stride = w->stride,
                                             .masked = on_device(w->masked, 2 * all, 4),
                                             .unmasked = on_device(w->unmasked, 2 * all, 4),
                                             .ctf = on_device(w->ctf, all, 4),
                                             .weight = on_device(w->weight, all, 4),
                                             .power = on_device(w->power, (size_t)w->particles * w->shells, 4)};
    w->d_factor = on_device(w->factor, (size_t)w->particles, sizeof(float));
    w->d_known = on_device(w->known, (size_t)w->particles, sizeof(int));
    w->d_begin = on_device(w->begin, (size_t)w->particles + 1, sizeof *w->begin);
    w->d_best = on_device(w->best, (size_t)w->particles, sizeof *w->best);
    w->d_list = on_device(w->list, (size_t)w->count + 1, sizeof *w->list);
}

static void make_world(struct world *w) {
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    must(fourier_pixels_create(w->box, w->size, &w->pixels, &err), &err);
    w->shells = w->box / 2 + 1;
    make_sampling(w);
    make_grids(w);
    make_particles(w);
    make_list(w);
    bring(w);
    alignment_cuda_sums_scale(w->sigma2, 1, w->shells, 1e6, &w->d_sums);
}

static void free_world(struct world *w) {
    fourier_pixels_destroy(&w->pixels);
    void *all[] = {w->frames, w->psi,    w->shift, w->sigma2, w->grids[0], w->grids[1], w->masked, w->unmasked,
                   w->ctf,    w->weight, w->power, w->factor, w->begin,    w->list,     w->best,   w->known};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    arena_close(arena, ARENA_ITERATION);
}

#endif
