/* Expected residuals and sums: plain sums in double, for test_alignment_sums_devices.c only. */
#ifndef ICESTREAM_TESTS_KERNELS_ALIGNMENT_SUMS_PLAIN_H
#define ICESTREAM_TESTS_KERNELS_ALIGNMENT_SUMS_PLAIN_H

#include "kernels/reconstruct/reconstruct.h"
#include "tests/kernels/alignment_sums_world.h"

/* Computes rows 0 and 1 of a slice's matrix; returns its reference. */
static int slice_rows(const struct world *w, struct pose_cuda pose, double m[6]) {
    uint32_t row = pose.row, rotation = pose.rotation;
    uint32_t direction = row / (uint32_t)w->psis, reference = direction / (uint32_t)w->directions;
    uint32_t psi_children = (uint32_t)(w->psi_count / w->psis), children = (uint32_t)(w->frame_count / w->directions);
    uint32_t frame = direction % (uint32_t)w->directions * children + rotation / psi_children;
    uint32_t psi = row % (uint32_t)w->psis * psi_children + rotation % psi_children;
    const float *f = w->frames + 9 * (size_t)frame;
    double c = w->psi[2 * psi], s = w->psi[2 * psi + 1];
    for (int i = 0; i < 3; i++) {
        m[i] = c * f[i] + s * f[3 + i];
        m[3 + i] = c * f[3 + i] - s * f[i];
    }
    return (int)reference;
}

/* Interpolates trilinearly in double, corner by corner. */
static void sample(const struct world *w, int reference, const double m[6], int kx, int ky, double ret[2]) {
    const struct grid_cuda *g = &w->d_references.grids[reference];
    double at[3], turn = 1;
    ret[0] = ret[1] = 0;
    if (kx * kx + ky * ky > g->r_max * g->r_max) return;
    for (int i = 0; i < 3; i++)
        at[i] = i < w->dimensions ? PAD * (m[i] * kx + m[3 + i] * ky) : 0;
    if (at[0] < 0) turn = -1;
    for (int corner = 0; corner < (w->dimensions == 3 ? 8 : 4); corner++) {
        double share = 1;
        size_t index = 0;
        const int n[3] = {1, g->nx, g->nx * g->ny};
        for (int i = 0; i < w->dimensions; i++) {
            double low = floor(turn * at[i]), fraction = turn * at[i] - low;
            share *= corner >> i & 1 ? fraction : 1 - fraction;
            index += (size_t)((int)low + (corner >> i & 1) + (i > 0 ? g->reach : 0)) * (size_t)n[i];
        }
        ret[0] += share * w->grids[reference][2 * index];
        ret[1] += turn * share * w->grids[reference][2 * index + 1];
    }
}

static void shifted(const struct world *w, const float *image, size_t i, const float shift[2], double ret[2]) {
    double turns = -(w->pixels.kx[i] * (double)shift[0] + w->pixels.ky[i] * (double)shift[1]) / w->box;
    double c = cos(2 * M_PI * turns), s = sin(2 * M_PI * turns), re = image[2 * i], im = image[2 * i + 1];
    ret[0] = re * c - im * s;
    ret[1] = re * s + im * c;
}

/* Computes Σ w |c P − X_t|² per shell term by term, and the size of its terms. */
static void plain_residuals(const struct world *w, int p, double *shells, double *sizes) {
    const float *image = w->masked + 2 * (size_t)p * w->stride, *ctf = w->ctf + (size_t)p * w->stride;
    for (uint32_t k = w->begin[p]; k < w->begin[p + 1]; k++) {
        const struct contribution_cuda *c = &w->list[k];
        double m[6];
        int reference = slice_rows(w, c->pose, m);
        for (int i = 0; i < w->pixels.count; i++) {
            double s[2], x[2];
            sample(w, reference, m, w->pixels.kx[i], w->pixels.ky[i], s);
            shifted(w, image, (size_t)i, w->shift + 2 * c->pose.shift, x);
            double re = ctf[i] * s[0] - x[0], im = ctf[i] * s[1] - x[1];
            shells[w->pixels.shell[i]] += c->weight * (re * re + im * im);
            sizes[w->pixels.shell[i]] +=
                c->weight * (x[0] * x[0] + x[1] * x[1] + ctf[i] * ctf[i] * (s[0] * s[0] + s[1] * s[1]));
        }
    }
}

static void plain_best(const struct world *w, int p, double ret[2]) {
    const float *image = w->masked + 2 * (size_t)p * w->stride, *ctf = w->ctf + (size_t)p * w->stride;
    double m[6];
    int reference = slice_rows(w, w->best[p].pose, m);
    ret[0] = ret[1] = 0;
    for (int i = 0; i < w->pixels.count; i++) {
        double s[2], x[2];
        sample(w, reference, m, w->pixels.kx[i], w->pixels.ky[i], s);
        shifted(w, image, (size_t)i, w->shift + 2 * w->best[p].pose.shift, x);
        double re = ctf[i] * s[0] - x[0], im = ctf[i] * s[1] - x[1];
        ret[1] += re * re + im * im;
        if (w->pixels.shell[i] <= w->known[p]) ret[0] += re * re + im * im;
    }
}

/* Sums the contributions of all particles to each slice, then scatters them with the CPU's function. sums:
 * [references]. */
static void plain_sums(const struct world *w, struct accumulator **sums) {
    struct err err = {0};
    int n = w->pixels.count;
    double *data = host_new(3 * (size_t)n, sizeof *data);
    float *slice = host_new(3 * (size_t)n, sizeof *slice);
    struct contribution_cuda *list = host_new((size_t)w->count + 1, sizeof *list);
    memcpy(list, w->list, (size_t)w->count * sizeof *list);
    qsort(list, w->count, sizeof *list, by_place);
    for (uint32_t at = 0, end; at < w->count; at = end) {
        memset(data, 0, 3 * (size_t)n * sizeof *data);
        for (end = at; end < w->count && slice_of(w, list[end].pose) == slice_of(w, list[at].pose); end++) {
            const struct contribution_cuda *c = &list[end];
            size_t row = (size_t)c->particle * w->stride;
            for (int i = 0; i < n; i++) {
                double x[2], ctf = w->ctf[row + (size_t)i], noise = w->weight[row + (size_t)i];
                shifted(w, w->unmasked + 2 * row, (size_t)i, w->shift + 2 * c->pose.shift, x);
                data[2 * i] += c->weight * w->factor[c->particle] * ctf * noise * x[0];
                data[2 * i + 1] += c->weight * w->factor[c->particle] * ctf * noise * x[1];
                data[2 * n + i] += c->weight * ctf * ctf * noise;
            }
        }
        for (int i = 0; i < 3 * n; i++)
            slice[i] = (float)data[i];
        double m[6];
        float matrix[9] = {0};
        int reference = slice_rows(w, list[at].pose, m);
        for (int i = 0; i < 6; i++)
            matrix[i] = (float)m[i];
        must(accumulator_add(sums[reference], &w->pixels, n, 1, matrix, slice, slice + 2 * n, 1, &err), &err);
    }
    free(data);
    free(slice);
    free(list);
}

#endif
