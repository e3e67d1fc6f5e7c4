/* A simulated movie with known motion: a smooth random specimen, sampled where it was during each frame, in counts.
 *
 * The specimen is drawn on a grid twice as fine, and sampled with a cubic spline through four points: its power ends far
 * below the frequencies at which that errs. Motion: a drift that is fast at first, and a doming of low
 * order over the image; both slow down as e^-t, which the model's polynomial in time only approaches. */
#ifndef ICESTREAM_TESTS_KERNELS_MOTION_MOVIE_H
#define ICESTREAM_TESTS_KERNELS_MOTION_MOVIE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/motion/motion.h"

struct movie_case {
    int nx, ny, frames;
    double counts;   /* mean per px and frame */
    double contrast; /* standard deviation of the specimen over its mean */
    double drift;    /* px in all */
    double doming;   /* px: about this much between one side and the other */
    bool gain;       /* a gain of ±20 % from px to px */
    uint64_t seed;
};

struct movie {
    struct movie_case of;
    struct motion_frames frames;
    float *gain, *specimen; /* specimen: [2 ny + 2 margin][2 nx + 2 margin] */
    int margin;
};

static inline uint64_t movie_bits(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline double movie_uniform(uint64_t *state) {
    return (double)(movie_bits(state) >> 11) * 0x1p-53;
}

/* Returns the specimen's motion since the first frame at a pixel of frame j. */
static inline void movie_motion(const struct movie_case *of, double x, double y, int j, double ret_motion[2]) {
    double u = 2 * x / of->nx - 1, v = 2 * y / of->ny - 1, t = of->frames > 1 ? (double)j / (of->frames - 1) : 0;
    double drift = of->drift * (1 - exp(-3 * t)) / (1 - exp(-3.0)),
           dome = of->doming * (1 - exp(-2 * t)) / (1 - exp(-2.0));
    ret_motion[0] = 0.8 * drift + dome * (0.5 * u + 0.2 * u * v);
    ret_motion[1] = 0.6 * drift * (1 - 0.3 * sin(6 * t)) + dome * (0.5 * v - 0.2 * (u * u - 1. / 3));
}

static inline void movie_blur(float *image, int nx, int ny, int radius, float *line) {
    for (int axis = 0; axis < 2; axis++) {
        int lines = axis ? nx : ny, n = axis ? ny : nx;
        size_t step = axis ? (size_t)nx : 1, next = axis ? 1 : (size_t)nx;
        for (int i = 0; i < lines; i++) {
            float *p = image + (size_t)i * next;
            double sum = 0;
            for (int k = 0; k < n; k++)
                line[k] = p[(size_t)k * step];
            for (int k = -radius; k <= radius; k++)
                sum += (double)line[(k + n) % n];
            for (int k = 0; k < n; k++) {
                p[(size_t)k * step] = (float)(sum / (2 * radius + 1));
                sum += (double)line[(k + radius + 1) % n] - (double)line[(k - radius + n) % n];
            }
        }
    }
}

/* Adds noise, blurred thrice over 2 radius + 1 px, of standard deviation `share`. */
static inline void movie_texture(float *image, int nx, int ny, int radius, double share, uint64_t *state) {
    size_t count = (size_t)nx * (size_t)ny;
    float *part = malloc(count * sizeof *part), *line = malloc((size_t)(nx > ny ? nx : ny) * sizeof *line);
    assert_non_null(part);
    assert_non_null(line);
    for (size_t i = 0; i < count; i++)
        part[i] = (float)(movie_uniform(state) - 0.5);
    for (int i = 0; i < 3; i++)
        movie_blur(part, nx, ny, radius, line);
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)part[i] * (double)part[i];
    double scale = share / sqrt(squares / (double)count);
    for (size_t i = 0; i < count; i++)
        image[i] += (float)((double)part[i] * scale);
    free(part);
    free(line);
}

/* Returns the specimen at a place between the points of its grid (Catmull-Rom). */
static inline double movie_sample(const struct movie *movie, double x, double y) {
    int wide = 2 * movie->of.nx + 2 * movie->margin, ix = (int)floor(x), iy = (int)floor(y);
    double u = x - ix, v = y - iy, sum = 0;
    const double wx[4] = {u * (-0.5 + u * (1 - 0.5 * u)), 1 + u * u * (-2.5 + 1.5 * u), u * (0.5 + u * (2 - 1.5 * u)),
                          u * u * (-0.5 + 0.5 * u)};
    const double wy[4] = {v * (-0.5 + v * (1 - 0.5 * v)), 1 + v * v * (-2.5 + 1.5 * v), v * (0.5 + v * (2 - 1.5 * v)),
                          v * v * (-0.5 + 0.5 * v)};
    for (int j = 0; j < 4; j++) {
        const float *row = movie->specimen + (size_t)(iy + j - 1) * (size_t)wide + (size_t)(ix - 1);
        sum +=
            wy[j] * (wx[0] * (double)row[0] + wx[1] * (double)row[1] + wx[2] * (double)row[2] + wx[3] * (double)row[3]);
    }
    return sum;
}

static inline int movie_poisson(double mean, uint64_t *state) {
    double limit = exp(-mean), product = movie_uniform(state);
    int count = 0;
    for (; product > limit; count++)
        product *= movie_uniform(state);
    return count;
}

static inline void movie_expose(const struct movie *movie, int j) {
    const struct movie_case *of = &movie->of;
    uint64_t state = of->seed * 1000003u + (uint64_t)j;
    unsigned char *frame = movie->frames.frame[j];
    for (int y = 0; y < of->ny; y++)
        for (int x = 0; x < of->nx; x++) {
            size_t at = (size_t)y * (size_t)of->nx + (size_t)x;
            double motion[2], gain = movie->gain ? (double)movie->gain[at] : 1;
            movie_motion(of, x, y, j, motion);
            double value =
                movie_sample(movie, 2 * (x - motion[0]) + movie->margin, 2 * (y - motion[1]) + movie->margin);
            double mean = of->counts * fmax(0, 1 + of->contrast * value) / gain;
            int count = movie_poisson(mean, &state);
            frame[at] = (unsigned char)(count < 255 ? count : 255);
        }
}

static inline struct movie movie_new(const struct movie_case *of) {
    struct movie movie = {.of = *of, .margin = 8 + 2 * (int)ceil(fabs(of->drift) + fabs(of->doming))};
    uint64_t state = of->seed;
    size_t pixels = (size_t)of->nx * (size_t)of->ny;
    int wide = 2 * of->nx + 2 * movie.margin, high = 2 * of->ny + 2 * movie.margin;
    printf("    seed %llu\n", (unsigned long long)of->seed);
    movie.specimen = calloc((size_t)wide * (size_t)high, sizeof *movie.specimen);
    void **frames = calloc((size_t)of->frames, sizeof *frames);
    assert_non_null(movie.specimen);
    assert_non_null(frames);
    movie_texture(movie.specimen, wide, high, 2, 0.7, &state);
    movie_texture(movie.specimen, wide, high, 10, 0.7, &state);
    if (of->gain) {
        movie.gain = malloc(pixels * sizeof *movie.gain);
        assert_non_null(movie.gain);
        for (size_t i = 0; i < pixels; i++)
            movie.gain[i] = (float)(0.8 + 0.4 * movie_uniform(&state));
    }
    movie.frames = (struct motion_frames){
        .nx = of->nx, .ny = of->ny, .count = of->frames, .pixels = MOTION_U8, .frame = frames, .gain = movie.gain};
    for (int j = 0; j < of->frames; j++) {
        frames[j] = malloc(pixels);
        assert_non_null(frames[j]);
    }
#pragma omp parallel for schedule(dynamic)
    for (int j = 0; j < of->frames; j++)
        movie_expose(&movie, j);
    return movie;
}

static inline void movie_free(struct movie *movie) {
    for (int j = 0; j < movie->of.frames; j++)
        free(movie->frames.frame[j]);
    free((void *)movie->frames.frame);
    free(movie->gain);
    free(movie->specimen);
}

/* Returns the RMS distance, in px, of a model from the motion's negative, over frames and a grid of grid² places. With
 * grid 1 the motion's mean over the image is compared with the shifts of whole frames. Both begin at 0. */
static inline double movie_error(const struct movie_case *of, const struct motion_model *model, int grid) {
    double squares = 0;
    for (int j = 0; j < of->frames; j++) {
        if (grid == 1) {
            double mean[2] = {0, 0};
            enum { MEAN = 16 };
            for (int p = 0; p < MEAN * MEAN; p++) {
                double motion[2];
                movie_motion(of, (p % MEAN + 0.5) * of->nx / MEAN, (p / MEAN + 0.5) * of->ny / MEAN, j, motion);
                mean[0] += motion[0] / (MEAN * MEAN);
                mean[1] += motion[1] / (MEAN * MEAN);
            }
            squares += pow((double)model->x[j] + mean[0], 2) + pow((double)model->y[j] + mean[1], 2);
        }
        for (int p = 0; grid > 1 && p < grid * grid; p++) {
            double x = (p % grid + 0.5) * of->nx / grid, y = (p / grid + 0.5) * of->ny / grid, motion[2], shift[2];
            movie_motion(of, x, y, j, motion);
            motion_model_at(model, x, y, j, shift);
            squares += (pow(shift[0] + motion[0], 2) + pow(shift[1] + motion[1], 2)) / (grid * grid);
        }
    }
    return sqrt(squares / of->frames);
}

#endif
