/* Defines a phantom of solid balls, whose projections are known exactly: 2 √(R² − d²). For tests only. */
#ifndef ICESTREAM_TESTS_KERNELS_TOMOGRAPHY_BALLS_H
#define ICESTREAM_TESTS_KERNELS_TOMOGRAPHY_BALLS_H

#include "tests/kernels/tomography_cases.h"

/* Position from the centre and radius in px. */
struct ball {
    double x, y, z, radius, density;
};

enum { FINE = 4 };

/* Computes the density of every voxel as the mean of FINE³ points inside it. */
static inline void balls_volume(const struct series *s, const struct ball *balls, int count, double *ret_volume) {
    for (int i = 0; i < s->nz * s->ny * s->nx; i++) {
        double x0 = i % s->nx - 0.5 * (s->nx - 1), y0 = i / s->nx % s->ny - 0.5 * (s->ny - 1);
        double z0 = i / s->nx / s->ny - 0.5 * (s->nz - 1), sum = 0;
        for (int b = 0; b < count; b++) {
            double far = balls[b].radius + 1;
            if (fabs(x0 - balls[b].x) > far || fabs(y0 - balls[b].y) > far || fabs(z0 - balls[b].z) > far) continue;
            for (int k = 0; k < FINE * FINE * FINE; k++) {
                double x = x0 + (k % FINE + 0.5) / FINE - 0.5 - balls[b].x;
                double y = y0 + (k / FINE % FINE + 0.5) / FINE - 0.5 - balls[b].y;
                double z = z0 + (k / FINE / FINE + 0.5) / FINE - 0.5 - balls[b].z;
                if (x * x + y * y + z * z < balls[b].radius * balls[b].radius) sum += balls[b].density;
            }
        }
        ret_volume[i] = sum / (FINE * FINE * FINE);
    }
}

/* Projects the balls: each pixel is the mean of FINE² rays. Computes again, from tomography.h, where a ball's centre
 * appears at tilt θ. */
static inline void balls_project(const struct series *s, const struct ball *balls, int count, float *ret_projections) {
    for (int i = 0; i < s->tilts * s->ny * s->nx; i++) {
        int t = i / s->nx / s->ny;
        double angle = s->angles[t] * M_PI / 180, sum = 0;
        double u0 = i % s->nx - 0.5 * (s->nx - 1) - (s->shifted ? s->shifts[t] : 0);
        double v0 = i / s->nx % s->ny - 0.5 * (s->ny - 1);
        for (int b = 0; b < count; b++) {
            double u = u0 - (balls[b].x * cos(angle) + balls[b].z * sin(angle)), v = v0 - balls[b].y;
            if (fabs(u) > balls[b].radius + 1 || fabs(v) > balls[b].radius + 1) continue;
            for (int k = 0; k < FINE * FINE; k++) {
                double du = u + (k % FINE + 0.5) / FINE - 0.5, dv = v + (k / FINE + 0.5) / FINE - 0.5;
                double square = balls[b].radius * balls[b].radius - du * du - dv * dv;
                if (square > 0) sum += 2 * balls[b].density * sqrt(square);
            }
        }
        ret_projections[i] = (float)(sum / (FINE * FINE));
    }
}

#endif
