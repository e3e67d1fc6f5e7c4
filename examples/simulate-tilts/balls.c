#include "examples/simulate-tilts/balls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "examples/simulate/random.h"

enum { FINE = 4, MARKS = 3 };

void balls_destroy(struct balls *balls) {
    mem_free(&balls->list);
    *balls = (struct balls){0};
}

enum status balls_create(uint64_t seed, int count, int nx, int ny, int nz, struct balls *ret_balls, struct err *err) {
    struct random random = random_stream(seed, 0, 0);
    struct balls balls = {.count = MARKS + count};
    double side = fmin(nx, ny), depth = nz;
    TRY(mem_new((size_t)balls.count, sizeof *balls.list, "balls", &balls.list, err));
    /* In thin slabs the marks are as large as fits. */
    double most = 0.4 * depth;
    balls.list[0] = (struct ball){0.27 * nx, 0.08 * ny, 0.20 * depth, fmin(0.10 * side, 0.25 * depth), 1};
    balls.list[1] = (struct ball){-0.12 * nx, 0.30 * ny, -0.15 * depth, fmin(0.08 * side, 0.2 * depth), 1};
    balls.list[2] = (struct ball){-0.05 * nx, -0.25 * ny, 0.05 * depth, fmin(0.06 * side, most), 1};
    for (int i = MARKS; i < balls.count; i++) {
        double radius = fmin(random_uniform(&random, 0.012, 0.035) * side, most);
        double room_x = 0.36 * nx - radius, room_y = 0.45 * ny - radius, room_z = 0.45 * depth - radius;
        balls.list[i] =
            (struct ball){random_uniform(&random, -room_x, room_x), random_uniform(&random, -room_y, room_y),
                          random_uniform(&random, -room_z, room_z), radius, random_uniform(&random, 0.5, 1.5)};
    }
    *ret_balls = balls;
    return STATUS_OK;
}

static double chord(double squared_distance, double radius) {
    double rest = radius * radius - squared_distance;
    return rest > 0 ? 2 * sqrt(rest) : 0;
}

static double pixel(const struct ball *ball, double u, double v) {
    double sum = 0;
    for (int b = 0; b < FINE; b++)
        for (int a = 0; a < FINE; a++) {
            double x = u + (a + 0.5) / FINE - 0.5, y = v + (b + 0.5) / FINE - 0.5;
            sum += chord(x * x + y * y, ball->radius);
        }
    return ball->density * sum / (FINE * FINE);
}

static int first_of(double value) {
    return value > 0 ? (int)value : 0;
}

static int last_of(double value, int n) {
    return value < n - 1 ? (int)ceil(value) : n - 1;
}

void balls_project(const struct balls *balls, double angle, double dx, double dy, struct image *image) {
    double cosine = cos(angle * M_PI / 180), sine = sin(angle * M_PI / 180);
    for (int i = 0; i < balls->count; i++) {
        const struct ball *ball = &balls->list[i];
        double u = ball->x * cosine + ball->z * sine + dx + 0.5 * (image->nx - 1);
        double v = ball->y + dy + 0.5 * (image->ny - 1), reach = ball->radius + 1;
        for (int y = first_of(v - reach); y <= last_of(v + reach, image->ny); y++)
            for (int x = first_of(u - reach); x <= last_of(u + reach, image->nx); x++)
                image->data[(size_t)y * (size_t)image->nx + (size_t)x] += (float)pixel(ball, x - u, y - v);
    }
}

static double voxel(const struct ball *ball, double x, double y, double z) {
    double distance = sqrt(x * x + y * y + z * z);
    if (distance < ball->radius - 1) return ball->density;
    if (distance > ball->radius + 1) return 0;
    int inside = 0;
    for (int c = 0; c < FINE; c++)
        for (int b = 0; b < FINE; b++)
            for (int a = 0; a < FINE; a++) {
                double u = x + (a + 0.5) / FINE - 0.5, v = y + (b + 0.5) / FINE - 0.5, w = z + (c + 0.5) / FINE - 0.5;
                inside += u * u + v * v + w * w < ball->radius * ball->radius;
            }
    return ball->density * inside / (FINE * FINE * FINE);
}

void balls_volume(const struct balls *balls, struct image *volume) {
    memset(volume->data, 0, image_count(volume) * sizeof *volume->data);
    for (int i = 0; i < balls->count; i++) {
        const struct ball *ball = &balls->list[i];
        double cx = ball->x + 0.5 * (volume->nx - 1), cy = ball->y + 0.5 * (volume->ny - 1);
        double cz = ball->z + 0.5 * (volume->nz - 1), reach = ball->radius + 1;
        for (int z = first_of(cz - reach); z <= last_of(cz + reach, volume->nz); z++)
            for (int y = first_of(cy - reach); y <= last_of(cy + reach, volume->ny); y++)
                for (int x = first_of(cx - reach); x <= last_of(cx + reach, volume->nx); x++)
                    volume->data[((size_t)z * (size_t)volume->ny + (size_t)y) * (size_t)volume->nx + (size_t)x] +=
                        (float)voxel(ball, x - cx, y - cy, z - cz);
    }
}
