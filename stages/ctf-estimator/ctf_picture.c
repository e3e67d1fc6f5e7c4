#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "stages/ctf-estimator/ctf_files.h"

/* The greys reach over so many standard deviations of the spectrum on both sides of its mean. */
static const double CONTRAST = 2.5;

/* Returns the spectrum at a frequency (px), averaged over 3 × 3 px. */
static double value_near(const struct ctf_record *s, double x, double y) {
    int columns = s->box / 2 + 1;
    double sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int kx = (int)lround(x) + dx, ky = (int)lround(y) + dy;
            if (kx < 0) {
                kx = -kx;
                ky = -ky;
            }
            kx = kx >= columns ? columns - 1 : kx;
            sum += (double)s->spectrum[(size_t)((ky % s->box + s->box) % s->box) * (size_t)columns + (size_t)kx];
        }
    return sum / 9;
}

static uint8_t grey(double value) {
    return (uint8_t)lround(255 * fmin(fmax(value, 0), 1));
}

/* Returns the standard deviation of what the picture shows as measured. */
static double deviation(const struct ctf_record *s, int side, double radius) {
    double sum = 0, squares = 0, count = 0;
    for (int y = 0; y < side; y += 2)
        for (int x = side / 2; x < side; x += 2) {
            double value = value_near(s, (x - side / 2) * 2 * radius / side, (y - side / 2) * 2 * radius / side);
            sum += value;
            squares += value * value;
            count++;
        }
    double variance = squares / count - sum / count * (sum / count);
    return variance > 0 ? sqrt(variance) : 1;
}

enum status ctf_record_draw(struct ctf_record *record, const struct ctf *fit, double pixel_size, double finest,
                            int most, struct err *err) {
    double radius = fmin(record->box * pixel_size / finest, record->box / 2.0);
    int side = 2 * (int)radius < most ? 2 * (int)radius : most;
    size_t pixels = (size_t)side * (size_t)side;
    if (pixels > record->pixel_room) {
        mem_free(&record->pixels);
        record->pixel_room = 0;
        TRY(mem_new(pixels, 1, "the picture of a spectrum", &record->pixels, err));
        record->pixel_room = pixels;
    }
    record->side = side;
    struct ctf_terms terms = ctf_prepare(fit);
    double sigma = deviation(record, side, radius), step = 1 / (record->box * pixel_size);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            double kx = (x - side / 2) * 2 * radius / side, ky = (y - side / 2) * 2 * radius / side;
            double ctf = (double)ctf_value(&terms, kx * step, ky * step);
            record->pixels[(size_t)y * (size_t)side + (size_t)x] =
                x < side / 2 ? grey(ctf * ctf) : grey(0.5 + value_near(record, kx, ky) / (2 * CONTRAST * sigma));
        }
    return STATUS_OK;
}
