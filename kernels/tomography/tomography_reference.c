#include "kernels/tomography/tomography_reference.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/tomography/blob.h"
#include "kernels/tomography/tomography_private.h"

/* Weights of one voxel column and tilt: of ray `first` + k in the voxel's row, and in the rows beside it. */
struct footprint {
    int first;
    double q0[4], q1[4];
};

static double footprint_of(enum tomography_basis basis, double distance) {
    switch (basis) {
    case TOMOGRAPHY_BLOB:
        return blob_footprint(distance);
    case TOMOGRAPHY_LINEAR:
        return fmax(0, 2 - distance);
    default:
        return fmax(0, 1 - distance);
    }
}

static void make_footprint(const struct tomography_geometry *g, enum tomography_basis basis, int t, int z, int x,
                           struct footprint *ret) {
    double angle = g->angles[t] * (M_PI / 180), shift = g->shifts ? g->shifts[t] : 0, sum = 0;
    double u = (x - 0.5 * (g->nx - 1)) * cos(angle) + (z - 0.5 * (g->nz - 1)) * sin(angle) + shift + 0.5 * (g->nx - 1);
    ret->first = (int)floor(u) - 1;
    for (int k = 0; k < 4; k++) {
        double s = fabs(u - (ret->first + k));
        ret->q0[k] = footprint_of(basis, s);
        ret->q1[k] = basis == TOMOGRAPHY_BLOB ? blob_footprint(sqrt(s * s + 1)) : 0;
        sum += ret->q0[k] + 2 * ret->q1[k];
    }
    for (int k = 0; k < 4; k++)
        ret->q0[k] /= sum, ret->q1[k] /= sum;
}

/* Visits the rays of row y + dy, dy -1 to 1, to which a voxel of row y contributes; makes no call for rays outside the
 * image. */
static void exchange(const struct tomography_geometry *g, const struct footprint *f, int t, int y, double *voxel,
                     double *rays, bool back) {
    for (int dy = -1; dy <= 1; dy++) {
        if (y + dy < 0 || y + dy >= g->ny) continue;
        for (int k = 0; k < 4; k++) {
            int ray = f->first + k;
            if (ray < 0 || ray >= g->nx) continue;
            double weight = dy == 0 ? f->q0[k] : f->q1[k];
            double *at = rays + ((size_t)t * (size_t)g->ny + (size_t)(y + dy)) * (size_t)g->nx + (size_t)ray;
            if (back)
                *voxel += weight * *at;
            else
                *at += weight * *voxel;
        }
    }
}

static void pass(const struct tomography_geometry *g, enum tomography_basis basis, double *voxels, double *rays,
                 bool back) {
    struct footprint f;
    for (int t = 0; t < g->tilts; t++)
        for (int z = 0; z < g->nz; z++)
            for (int x = 0; x < g->nx; x++) {
                make_footprint(g, basis, t, z, x, &f);
                for (int y = 0; y < g->ny; y++)
                    exchange(g, &f, t, y, voxels + ((size_t)z * (size_t)g->ny + (size_t)y) * (size_t)g->nx + (size_t)x,
                             rays, back);
            }
}

static size_t count_voxels(const struct tomography_geometry *g) {
    return (size_t)g->nz * (size_t)g->ny * (size_t)g->nx;
}
static size_t count_rays(const struct tomography_geometry *g) {
    return (size_t)g->tilts * (size_t)g->ny * (size_t)g->nx;
}

void tomography_reference_project(const struct tomography_geometry *g, enum tomography_basis basis,
                                  const double *coefficients, double *ret_projections) {
    memset(ret_projections, 0, count_rays(g) * sizeof *ret_projections);
    pass(g, basis, (double *)coefficients, ret_projections, false);
}

void tomography_reference_back_project(const struct tomography_geometry *g, enum tomography_basis basis,
                                       const double *projections, double *ret_coefficients) {
    memset(ret_coefficients, 0, count_voxels(g) * sizeof *ret_coefficients);
    pass(g, basis, ret_coefficients, (double *)projections, true);
}

struct sirt {
    const struct tomography_options *o;
    const struct tomography_geometry *g;
    size_t rays, voxels;
    double *ray_factor, *voxel_factor; /* R, C */
    double *residual, *change, *c;
};

static void invert(double *sums, size_t count) {
    for (size_t i = 0; i < count; i++)
        sums[i] = sums[i] < TOMOGRAPHY_LEAST_WEIGHT ? 0 : 1 / fmax(sums[i], TOMOGRAPHY_SMALL_WEIGHT);
}

static void make_factors(struct sirt *s) {
    for (size_t j = 0; j < s->voxels; j++)
        s->c[j] = 1;
    for (size_t i = 0; i < s->rays; i++)
        s->residual[i] = 1;
    tomography_reference_project(s->g, s->o->basis, s->c, s->ray_factor);
    tomography_reference_back_project(s->g, s->o->basis, s->residual, s->voxel_factor);
    invert(s->ray_factor, s->rays);
    invert(s->voxel_factor, s->voxels);
    memset(s->c, 0, s->voxels * sizeof *s->c);
}

/* residual = R (p − W c); returns Σ R (p − W c)². */
static double correct(struct sirt *s, const float *p) {
    double squares = 0;
    tomography_reference_project(s->g, s->o->basis, s->c, s->residual);
    for (size_t i = 0; i < s->rays; i++) {
        double difference = (double)p[i] - s->residual[i];
        s->residual[i] = s->ray_factor[i] * difference;
        squares += s->residual[i] * difference;
    }
    return squares;
}

static void update(struct sirt *s, double relaxation) {
    tomography_reference_back_project(s->g, s->o->basis, s->residual, s->change);
    for (size_t j = 0; j < s->voxels; j++) {
        s->c[j] += relaxation * s->voxel_factor[j] * s->change[j];
        if (s->o->non_negative && s->c[j] < 0) s->c[j] = 0;
        if (s->o->mask && !s->o->mask[j]) s->c[j] = 0;
    }
}

static void evaluate(const struct sirt *s, double *ret_volume) {
    const struct tomography_geometry *g = s->g;
    if (s->o->basis != TOMOGRAPHY_BLOB) {
        memcpy(ret_volume, s->c, s->voxels * sizeof *ret_volume);
        return;
    }
    double total = blob_value(0) + 6 * blob_value(1) + 12 * blob_value(sqrt(2)) + 8 * blob_value(sqrt(3));
    for (int z = 0; z < g->nz; z++)
        for (int y = 0; y < g->ny; y++)
            for (int x = 0; x < g->nx; x++) {
                double sum = 0;
                for (int k = 0; k < 27; k++) {
                    int dx = k % 3 - 1, dy = k / 3 % 3 - 1, dz = k / 9 - 1;
                    if (x + dx < 0 || x + dx >= g->nx || y + dy < 0 || y + dy >= g->ny || z + dz < 0 || z + dz >= g->nz)
                        continue;
                    sum +=
                        blob_value(sqrt(dx * dx + dy * dy + dz * dz)) *
                        s->c[((size_t)(z + dz) * (size_t)g->ny + (size_t)(y + dy)) * (size_t)g->nx + (size_t)(x + dx)];
                }
                *ret_volume++ = sum / total;
            }
}

static void iterate(struct sirt *s, const float *p, double *ret_residuals) {
    make_factors(s);
    double norm = correct(s, p);
    for (size_t i = 0; s->o->start == TOMOGRAPHY_START_PLAIN && i < s->rays; i++)
        s->residual[i] = (double)p[i];
    if (s->o->start != TOMOGRAPHY_START_ZERO) update(s, 1);
    for (int k = 0; k < s->o->iterations; k++) {
        ret_residuals[k] = sqrt(correct(s, p) / norm);
        update(s, s->o->relaxation);
    }
}

enum status tomography_reference_run(const struct tomography_options *options, const float *projections,
                                     double *ret_volume, double *ret_residuals, struct err *err) {
    _cleanup_(mem_free) double *ray_factor = NULL, *voxel_factor = NULL, *residual = NULL, *change = NULL, *c = NULL;
    size_t rays = count_rays(&options->geometry), voxels = count_voxels(&options->geometry);
    TRY(tomography_check_geometry(&options->geometry, err));
    TRY(mem_new(rays, sizeof(double), "projections", &ray_factor, err));
    TRY(mem_new(rays, sizeof(double), "projections", &residual, err));
    TRY(mem_new(voxels, sizeof(double), "coefficients", &voxel_factor, err));
    TRY(mem_new(voxels, sizeof(double), "coefficients", &change, err));
    TRY(mem_new(voxels, sizeof(double), "coefficients", &c, err));
    struct sirt s = {options, &options->geometry, rays, voxels, ray_factor, voxel_factor, residual, change, c};
    iterate(&s, projections, ret_residuals);
    evaluate(&s, ret_volume);
    return STATUS_OK;
}
