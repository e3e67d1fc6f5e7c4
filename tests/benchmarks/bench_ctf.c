/* bench_ctf [CASES [SIZE [THREADS [cpu|cuda:N]]]]: estimates the CTF of simulated micrographs and prints the errors, how
 * many lie within 100 Å or 0.5 % in mean defocus and 5° in angle, and the time of spectrum and fit. Cases are drawn from
 * fixed seeds: 0.3 to 4 µm, astigmatism to 1,000 Å, 1.0 Å/px, B factor 100 Å², the specimen a third of the noise. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/device.h"
#include "kernels/ctf_fit/ctf_fit.h"
#include "kernels/periodogram/periodogram.h"
#include "tests/kernels/spectrum_cases.h"

static const double PIXEL = 1.0, SIGNAL = 0.3;

struct tally {
    int cases, defocus, astigmatic, angle;
    double spectrum, fit; /* s, all together */
};

static void check(enum status status, const struct err *err) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static struct ctf draw(int number) {
    seed = (uint64_t)number * 7919 + 1;
    uniform();
    double mean = 3000 + 37000 * uniform(), half = 500 * uniform(), angle = 180 * uniform() - 90;
    return (struct ctf){.defocus_u = mean + half,
                        .defocus_v = mean - half,
                        .defocus_angle = angle,
                        .voltage = 300,
                        .spherical_aberration = 2.7,
                        .amplitude_contrast = 0.1,
                        .b_factor = 100,
                        .scale = 1};
}

static void count(struct tally *tally, const struct ctf *truth, const struct ctf_fit_result *r) {
    double mean = (truth->defocus_u + truth->defocus_v) / 2, found = (r->defocus_u + r->defocus_v) / 2;
    double turn = fmod(fabs(r->angle - truth->defocus_angle), 180);
    turn = turn > 90 ? 180 - turn : turn;
    bool astigmatic = truth->defocus_u - truth->defocus_v > 300;
    tally->cases++;
    tally->defocus += fabs(found - mean) <= fmax(100, 0.005 * mean);
    tally->astigmatic += astigmatic;
    tally->angle += astigmatic && turn <= 5;
    printf("%7.0f Å, astigmatism %4.0f at %6.1f°: off by %5.0f, %4.0f, %5.1f°; score %.3f, to %.2f Å\n", mean,
           truth->defocus_u - truth->defocus_v, truth->defocus_angle, found - mean,
           r->defocus_u - r->defocus_v - truth->defocus_u + truth->defocus_v, turn, r->score, r->resolution);
}

int main(int argc, char **argv) {
    int cases = argc > 1 ? atoi(argv[1]) : 24, size = argc > 2 ? atoi(argv[2]) : 4096;
    int threads = argc > 3 ? atoi(argv[3]) : 1, box = ctf_fit_box(size, size, PIXEL);
    struct err err = {0};
    struct periodogram_task task = {.nx = size, .ny = size, .box = box, .threads = threads};
    struct device_copy *copy = NULL;
    struct periodogram *periodogram = NULL;
    struct ctf_fit *fit = NULL;
    struct tally tally = {0};
    check(device_parse(argc > 4 ? argv[4] : "cpu", &task.device, &err), &err);
    check(periodogram_create(&task, &periodogram, &err), &err);
    check(ctf_fit_create(box, threads, &fit, &err), &err);
    float *image = mem_aligned((size_t)size * (size_t)size, sizeof *image);
    float *power = mem_aligned((size_t)box * (size_t)(box / 2 + 1), sizeof *power);
    if (image == NULL || power == NULL) return 1;
    for (int i = 1; i <= cases; i++) {
        struct ctf truth = draw(i);
        struct ctf_fit_options options = {.pixel_size = PIXEL,
                                          .voltage = 300,
                                          .spherical_aberration = 2.7,
                                          .amplitude_contrast = 0.1,
                                          .low = 30,
                                          .high = 5,
                                          .defocus_min = 2000,
                                          .defocus_max = 50000,
                                          .astigmatism_max = 2000};
        struct ctf_fit_result result = {0};
        spectrum_micrograph(size, PIXEL, &truth, SIGNAL, (uint64_t)i, image);
        check(device_upload(&task.device, image, (size_t)size * (size_t)size, &copy, &err), &err);
        double start = clock_monotonic();
        check(periodogram_run(periodogram, image, device_copy_data(copy), power, &err), &err);
        double middle = clock_monotonic();
        check(ctf_fit_run(fit, power, &options, &result, &err), &err);
        tally.fit += clock_monotonic() - middle;
        tally.spectrum += middle - start;
        count(&tally, &truth, &result);
    }
    printf("%d of %d within 100 Å or 0.5 %% in mean defocus; %d of %d within 5° where the astigmatism exceeds 300 Å\n",
           tally.defocus, tally.cases, tally.angle, tally.astigmatic);
    printf("%d², tiles of %d px, %d threads: spectrum %.1f ms, fit %.1f ms\n", size, box, threads,
           1e3 * tally.spectrum / cases, 1e3 * tally.fit / cases);
    device_copy_destroy(&copy);
    periodogram_destroy(&periodogram);
    ctf_fit_destroy(&fit);
    free(image);
    free(power);
    return 0;
}
