/* Makes objects of Gaussians, and images of them as sums of Gaussians, without code under test. For tests of stages
 * only. */
#ifndef ICESTREAM_TESTS_STAGES_BLOBS_H
#define ICESTREAM_TESTS_STAGES_BLOBS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"

enum { BOX = 32, BLOBS_MOST = 64 };
static const double PIXEL = 6, SIGMA = 1.3; /* Å; px, of one blob */

struct object {
    int count;
    double blobs[BLOBS_MOST][4]; /* x, y, z (px), weight */
    double narrow;               /* views lie within so many degrees of z; 0: everywhere */
};

static inline double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static inline double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

static inline void make_object(struct object *o, int count) {
    o->count = count;
    for (int i = 0; i < count; i++) {
        double *b = o->blobs[i];
        do
            for (int j = 0; j < 3; j++)
                b[j] = 18 * uniform() - 9;
        while (b[0] * b[0] + b[1] * b[1] + b[2] * b[2] > 81);
        b[3] = 0.5 + uniform();
    }
}

static inline void make_map(const struct object *o, float *map, double sigma) {
    for (int z = 0; z < BOX; z++)
        for (int y = 0; y < BOX; y++)
            for (int x = 0; x < BOX; x++) {
                double sum = 0;
                for (int i = 0; i < o->count; i++) {
                    const double *b = o->blobs[i];
                    double dx = x - BOX / 2 - b[0], dy = y - BOX / 2 - b[1], dz = z - BOX / 2 - b[2];
                    sum += b[3] * exp(-(dx * dx + dy * dy + dz * dz) / (2 * sigma * sigma)) / pow(sigma, 3);
                }
                map[(z * BOX + y) * BOX + x] = (float)sum;
            }
}

/* Computes the image's x and y axes from ZYZ Euler angles: rows 1 and 2 of the matrix. */
static inline void axes(double rot, double tilt, double psi, double x[3], double y[3]) {
    double ca = cos(rot), sa = sin(rot), cb = cos(tilt), sb = sin(tilt), cg = cos(psi), sg = sin(psi);
    x[0] = cg * cb * ca - sg * sa, x[1] = cg * cb * sa + sg * ca, x[2] = -cg * sb;
    y[0] = -sg * cb * ca - cg * sa, y[1] = -sg * cb * sa + cg * ca, y[2] = sg * sb;
}

/* Makes an image with noise of deviation `noise`. Moving its content by (ox, oy) px centres it. */
static inline void make_image(const struct object *o, float *image, double noise, double ox, double oy) {
    double x[3], y[3];
    double away = o->narrow > 0 ? 1 - cos(o->narrow * M_PI / 180) : 2;
    axes(2 * M_PI * uniform(), acos(away * uniform() + 1 - away), 2 * M_PI * uniform(), x, y);
    for (int i = 0; i < BOX * BOX; i++)
        image[i] = (float)(noise * normal());
    for (int b = 0; b < o->count; b++) {
        double bx = 0, by = 0;
        for (int j = 0; j < 3; j++)
            bx += x[j] * o->blobs[b][j], by += y[j] * o->blobs[b][j];
        for (int py = 0; py < BOX; py++)
            for (int px = 0; px < BOX; px++) {
                double dx = px - BOX / 2 - bx + ox, dy = py - BOX / 2 - by + oy;
                image[py * BOX + px] += (float)(o->blobs[b][3] * exp(-(dx * dx + dy * dy) / (2 * SIGMA * SIGMA)));
            }
    }
}

static inline void write_map(const char *folder, const char *name, float *map, char *path) {
    const struct image image = {.nx = BOX, .ny = BOX, .nz = BOX, .pixel_size = (float)PIXEL, .data = map};
    assert_int_equal(path_join(folder, name, path, PATH_SIZE, NULL), STATUS_OK);
    assert_int_equal(mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, NULL), STATUS_OK);
}

/* Writes a stack of particles, of each object in turn, and its STAR file, named for the micrograph. */
static inline void write_particles(const char *folder, const char *name, const struct object *objects, int kinds,
                                   int count, double noise) {
    char path[PATH_SIZE + 64];
    float *stack = calloc((size_t)count * BOX * BOX, sizeof *stack);
    for (int i = 0; i < count; i++)
        make_image(&objects[i % kinds], stack + (size_t)i * BOX * BOX, noise, 4 * uniform() - 2, 4 * uniform() - 2);
    const struct image image = {.nx = BOX, .ny = BOX, .nz = count, .pixel_size = (float)PIXEL, .data = stack};
    snprintf(path, sizeof path, "%s/%s.mrcs", folder, name);
    assert_int_equal(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
    free(stack);
    snprintf(path, sizeof path, "%s/%s.star", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(
        f,
        "# version 30001\n\ndata_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnOpticsGroupName #2\n_rlnImagePixelSize #3\n"
        "_rlnVoltage #4\n_rlnSphericalAberration #5\n_rlnAmplitudeContrast #6\n1 og %g 300 2.7 0.1\n\n"
        "data_particles\n\nloop_\n_rlnImageName #1\n_rlnOpticsGroup #2\n_ownColumn #3\n",
        PIXEL);
    for (int i = 0; i < count; i++)
        fprintf(f, "%06d@%s.mrcs 1 %d\n", i + 1, name, 7 * i);
    assert_int_equal(fclose(f), 0);
}

#endif
