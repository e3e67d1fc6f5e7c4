/* Draws images of known particles on grids of different boxes and pixel sizes, seen through aberrations, and writes them
 * with the tables that belong to them. */
#ifndef ICESTREAM_TESTS_STAGES_OPTICS_IMAGES_H
#define ICESTREAM_TESTS_STAGES_OPTICS_IMAGES_H

#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "kernels/ctf/aberration.h"
#include "tests/common/scratch.h"

enum { FINE = 64, COARSE = 48, MOST = FINE * FINE, KINDS = 2 };
static const double FINE_PIXEL = 1.5, COARSE_PIXEL = 2, ONE[4] = {1, 0, 0, 1};

/* How an image shows a particle. */
struct view {
    int kind;
    double angle, x, y; /* rad, from +x towards +y; Å, after the turn */
};

/* The transform of a view at a frequency in 1/Å: Gaussians, which no grid here cuts. */
static inline double complex transform(const struct view *v, double x, double y) {
    static const double BLOBS[KINDS][3][4] = {{{0, 0, 7, 1}, {11, -6, 6, 1.5}, {-9, 10, 6.5, -0.7}},
                                              {{0, 0, 9, 1.3}, {-15, -4, 5.5, 1.5}, {14, 8, 6, 1.1}}};
    double complex sum = 0;
    double u = cos(v->angle) * x + sin(v->angle) * y, w = cos(v->angle) * y - sin(v->angle) * x;
    for (int i = 0; i < 3; i++) {
        const double *b = BLOBS[v->kind][i];
        sum += b[3] * 2 * M_PI * b[2] * b[2] * exp(-2 * M_PI * M_PI * b[2] * b[2] * (x * x + y * y)) *
               cexp(-2 * M_PI * I * (u * b[0] + w * b[1]));
    }
    return sum * cexp(-2 * M_PI * I * (x * v->x + y * v->y));
}

/* Draws a view through optics: X(k) = exp(iφ(Mk)) P(Mk), divided by the pixel size, so that white noise of a detector
 * would have the deviation 1 on any grid. */
static inline void draw(const struct view *v, int box, double pixel, const double m[4], const struct aberration *odd,
                        float *image) {
    enum { REACH = 14 };
    for (int p = 0; p < box * box; p++)
        image[p] = 0;
    double step = 1 / (box * pixel);
    double complex waves[2 * REACH + 1][FINE]; /* of each frequency: at each pixel of a row */
    for (int k = -REACH; k <= REACH; k++)
        for (int i = 0; i < box; i++)
            waves[k + REACH][i] = cexp(2 * M_PI * I * k * (i - box / 2) / box);
    for (int ky = -REACH; ky <= REACH; ky++)
        for (int kx = -REACH; kx <= REACH; kx++) {
            double x = m[0] * kx * step + m[1] * ky * step, y = m[2] * kx * step + m[3] * ky * step;
            double complex value = transform(v, x, y) * cexp(I * aberration_phase(odd, x, y)) * step * step * pixel;
            for (int iy = 0; iy < box; iy++) {
                const double complex row = value * waves[ky + REACH][iy];
                for (int ix = 0; ix < box; ix++)
                    image[iy * box + ix] +=
                        (float)(creal(row) * creal(waves[kx + REACH][ix]) - cimag(row) * cimag(waves[kx + REACH][ix]));
            }
        }
}

/* Returns the view of image `number` of a stack of few images. */
static inline struct view view_of(int number) {
    return (struct view){.x = 3 * number};
}

static inline void write_images(const char *folder, const char *name, int box, double pixel, int count, float *data) {
    char path[PATH_SIZE + 64];
    const struct image images = {.nx = box, .ny = box, .nz = count, .pixel_size = (float)pixel, .data = data};
    snprintf(path, sizeof path, "%s/%s.mrcs", folder, name);
    assert_int_equal(mrc_write(path, &images, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
}

enum { EACH = 3 };
static inline void write_stack(const char *folder, const char *name, int box, double pixel, const double m[4],
                               const struct aberration *odd) {
    static float data[EACH * MOST];
    for (int i = 0; i < EACH; i++) {
        const struct view view = view_of(i);
        draw(&view, box, pixel, m, odd, data + (size_t)i * (size_t)box * (size_t)box);
    }
    write_images(folder, name, box, pixel, EACH, data);
}

static inline void open_folder(const char *name, char folder[PATH_SIZE]) {
    scratch_path(name, folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
}

/* Writes particles.star. optics: columns and rows of the optics table. Rows of stacks: groups follow each other from 1
 * on. with_ctf: all have the same. */
static inline void write_table(const char *folder, const char *optics, const char *const *stacks, int stack_count,
                               int each, bool with_ctf, char path[PATH_SIZE + 64]) {
    snprintf(path, PATH_SIZE + 64, "%s/particles.star", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_optics\n\nloop_\n%s\n\ndata_particles\n\nloop_\n_rlnImageName\n_rlnOpticsGroup\n%s", optics,
            with_ctf ? "_rlnDefocusU\n" : "");
    for (int s = 0; s < stack_count; s++)
        for (int i = 0; i < each; i++)
            fprintf(f, "%d@%s.mrcs %d %s\n", i + 1, stacks[s], s + 1, with_ctf ? "12000" : "");
    assert_int_equal(fclose(f), 0);
}

/* Returns the largest difference of an image from the view drawn on its grid, over the greatest value. */
static inline double difference_from(const float *image, int number, int box, double pixel) {
    float expected[MOST];
    const struct aberration none = aberration_none();
    const struct view view = view_of(number);
    double most = 0, greatest = 0;
    draw(&view, box, pixel, ONE, &none, expected);
    for (int p = 0; p < box * box; p++) {
        most = fmax(most, fabs((double)(image[p] - expected[p])));
        greatest = fmax(greatest, fabs((double)expected[p]));
    }
    return most / greatest;
}

/* Aberrations of an image, with the columns and cells that state them, and cells that state others. */
struct stated {
    const char *columns, *right, *wrong;
    double tilt[2];
    bool odd, magnified;
};
static const double ODD[] = {-1600, 1200, 300, -800, 600, 250}, MATRIX[4] = {1.03, 0.015, 0.01, 0.98};
static const struct stated STATED[] = {
    {"_rlnBeamTiltX\n_rlnBeamTiltY\n", "60 -40", "-60 40", {60, -40}, false, false},
    {"_rlnOddZernike\n", "[-1600,1200,300,-800,600,250]", "[1600,-1200,-300,800,-600,-250]", {0, 0}, true, false},
    {"_rlnMagMat00\n_rlnMagMat01\n_rlnMagMat10\n_rlnMagMat11\n",
     "1.03 0.015 0.01 0.98",
     "0.971 -0.0149 -0.0099 1.0206",
     {0, 0},
     false,
     true},
    {"_rlnOddZernike\n_rlnMagMat00\n_rlnMagMat01\n_rlnMagMat10\n_rlnMagMat11\n",
     "[-1600,1200,300,-800,600,250] 1.03 0.015 0.01 0.98",
     "[1600,-1200,-300,800,-600,-250] 1.03 0.015 0.01 0.98",
     {0, 0},
     true,
     true},
};
enum { STATED_COUNT = sizeof STATED / sizeof *STATED };

static inline struct aberration odd_of(const struct stated *s) {
    struct aberration odd = aberration_none();
    if (s->odd) aberration_add_odd(&odd, ODD, 6);
    aberration_add_tilt(&odd, 2.7, 300, s->tilt[0], s->tilt[1]);
    return odd;
}

/* Writes an MTF that falls linearly to `last` at Nyquist. */
static inline void write_mtf(const char *folder, const char *name, double last) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_\n\nloop_\n_rlnResolutionInversePixel\n_rlnMtfValue\n0 1\n0.5 %g\n", last);
    assert_int_equal(fclose(f), 0);
}

/* Returns that MTF at a frequency in 1/Å. */
static inline double attenuation(double last, double detector, double frequency) {
    return 1 + (last - 1) * fmin(frequency * detector / 0.5, 1);
}

/* Returns by how much image b has less than image a at a frequency along x, in 1/box. */
static inline double complex ratio_of(const float *a, const float *b, int box, int k) {
    double complex sums[2] = {0};
    for (int p = 0; p < box * box; p++) {
        double complex wave = cexp(-2 * M_PI * I * k * (p % box) / box);
        sums[0] += (double)a[p] * wave;
        sums[1] += (double)b[p] * wave;
    }
    return sums[1] / sums[0];
}

#endif
