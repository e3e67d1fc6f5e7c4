/* Accuracies of poses on the CPU. At a known noise, the returned step changes the slice by more than −ln 0.01, and the
 * step before it does not, by the sum written out here in double. Blobs in random places, new from a printed seed:
 * test_accuracy [SEED]. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/accuracy/accuracy_private.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/kernels/seed.h"

enum { BOX = 32, SIZE = 28, SHELLS = BOX / 2 + 1, BLOBS = 9, PARTICLES = 24, OPTICS = 2 };
static unsigned seed;
static struct err failure;

#define OK(call)                                                                                                       \
    do                                                                                                                 \
        if ((call) != STATUS_OK) fail_msg("%s", failure.message);                                                      \
    while (0)

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

struct world {
    struct fourier_pixels pixels;
    struct projector *projector;
    float sigma2[OPTICS * SHELLS];
    struct ctf ctf;
    struct accuracy_particle particles[PARTICLES];
    double angles[PARTICLES], offsets[PARTICLES];
};

static void make_projector(struct world *w) {
    float *map = calloc((size_t)BOX * BOX * BOX, sizeof *map);
    assert_non_null(map);
    for (int b = 0; b < BLOBS; b++) {
        double at[3] = {16 * uniform() - 8, 16 * uniform() - 8, 16 * uniform() - 8};
        for (int z = 0; z < BOX; z++)
            for (int y = 0; y < BOX; y++)
                for (int x = 0; x < BOX; x++) {
                    double dx = x - BOX / 2 - at[0], dy = y - BOX / 2 - at[1], dz = z - BOX / 2 - at[2];
                    map[(z * BOX + y) * BOX + x] += (float)exp(-(dx * dx + dy * dy + dz * dz) / 3);
                }
    }
    OK(projector_create(3, BOX, 1, &w->projector, &failure));
    OK(projector_set_map(w->projector, map, SIZE, &failure));
    free(map);
}

/* The noise differs between shells; that of the second group is four times as strong. */
static struct world *make_world(double noise) {
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    srand(seed);
    OK(fourier_pixels_create(BOX, SIZE, &w->pixels, &failure));
    make_projector(w);
    for (int i = 0; i < OPTICS * SHELLS; i++)
        w->sigma2[i] = (float)(noise * (i < SHELLS ? 1 : 4) * (1 + i % SHELLS / 8.0));
    w->ctf = (struct ctf){.defocus_u = 9000,
                          .defocus_v = 8000,
                          .defocus_angle = 20,
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.3,
                          .scale = 1};
    for (int i = 0; i < PARTICLES; i++)
        w->particles[i] = (struct accuracy_particle){.angles = {360 * uniform(), 30 + 120 * uniform(), 360 * uniform()},
                                                     .ctf = i % 4 == 0 ? NULL : &w->ctf,
                                                     .optics = i / 3 % OPTICS,
                                                     .turned = i % 3,
                                                     .along_x = i % 2 == 0};
    return w;
}

static void destroy_world(struct world *w) {
    projector_destroy(&w->projector);
    fourier_pixels_destroy(&w->pixels);
    free(w);
}

static void slice_at(const struct world *w, const double angles[3], float *out) {
    double m[9];
    float matrix[9];
    euler_to_matrix(angles[0], angles[1], angles[2], m);
    for (int i = 0; i < 9; i++)
        matrix[i] = (float)m[i];
    projector_slices(w->projector, &w->pixels, w->pixels.count, 1, matrix, 1, out);
}

/* Returns Σ c² |P − P'|² / (2σ²), with P' turned by `angle` (°) and moved by `offset` (px). */
static double difference(const struct world *w, const struct accuracy_particle *p, double angle, double offset) {
    const struct fourier_pixels *px = &w->pixels;
    float *slices = calloc((size_t)px->count, 4 * sizeof *slices), *ctf = calloc((size_t)px->count, sizeof *ctf);
    float *moved = slices + 2 * px->count;
    double angles[3] = {p->angles[0], p->angles[1], p->angles[2]}, sum = 0;
    assert_non_null(ctf);
    slice_at(w, angles, slices);
    angles[p->turned] += angle;
    slice_at(w, angles, moved);
    if (p->ctf != NULL) ctf_at(p->ctf, BOX, 3, px->count, px->kx, px->ky, ctf);
    for (int i = 0; i < px->count; i++) {
        double phase = -2 * M_PI * (p->along_x ? px->kx[i] : px->ky[i]) * offset / BOX;
        double x = moved[2 * i], y = moved[2 * i + 1], c = p->ctf != NULL ? ctf[i] : 1;
        double re = slices[2 * i] - (x * cos(phase) - y * sin(phase)),
               im = slices[2 * i + 1] - (x * sin(phase) + y * cos(phase));
        sum += c * c * (re * re + im * im) / (2 * w->sigma2[p->optics * SHELLS + px->shell[i]]);
    }
    free(slices);
    free(ctf);
    return sum;
}

static double step_before(double e, double (*next)(double)) {
    double before = 0;
    while (next(before) < e)
        before = next(before);
    return before;
}

/* Within the rounding of single precision, either side of the threshold is accepted. */
static void steps_tell_what_the_noise_allows(void **state) {
    (void)state;
    const double told = log(100), slack = 1e-3;
    struct world *w = make_world(2e-4);
    const struct accuracy_input input = {.pixels = &w->pixels,
                                         .pixel_size = 3,
                                         .projector = w->projector,
                                         .sigma2 = w->sigma2,
                                         .optics_count = OPTICS,
                                         .particles = w->particles,
                                         .count = PARTICLES,
                                         .threads = 2};
    int inside = 0;
    OK(accuracy_estimate(&input, NULL, w->angles, w->offsets, &failure));
    for (int i = 0; i < PARTICLES; i++) {
        const struct accuracy_particle *p = &w->particles[i];
        double angle = w->angles[i], offset = w->offsets[i];
        assert_true(angle > 0 && angle <= 30 && offset > 0 && offset <= 10);
        double angle_before = step_before(angle, accuracy_next_angle);
        double offset_before = step_before(offset, accuracy_next_offset);
        if (angle < 30 && !(difference(w, p, angle, 0) > told * (1 - slack)))
            fail_msg("particle %d turned by %g°: %g (seed %u)", i, angle, difference(w, p, angle, 0), seed);
        if (!(difference(w, p, angle_before, 0) <= told * (1 + slack)))
            fail_msg("particle %d turned by %g° only: %g (seed %u)", i, angle_before, difference(w, p, angle_before, 0),
                     seed);
        if (offset < 10 && !(difference(w, p, 0, offset) > told * (1 - slack)))
            fail_msg("particle %d moved by %g px: %g (seed %u)", i, offset, difference(w, p, 0, offset), seed);
        if (!(difference(w, p, 0, offset_before) <= told * (1 + slack)))
            fail_msg("particle %d moved by %g px only: %g (seed %u)", i, offset_before,
                     difference(w, p, 0, offset_before), seed);
        inside += angle_before >= 1 && angle < 30 && offset_before >= 0.1 && offset < 10;
    }
    print_message("%d of %d particles between the ends of the steps; the first: %g°, %g px\n", inside, PARTICLES,
                  w->angles[0], w->offsets[0]);
    assert_true(inside >= PARTICLES / 3);
    destroy_world(w);
}

/* In infinite noise nothing can be told: the result is the largest step. */
static void noise_without_end_tells_nothing(void **state) {
    (void)state;
    struct world *w = make_world(1e6);
    const struct accuracy_input input = {.pixels = &w->pixels,
                                         .pixel_size = 3,
                                         .projector = w->projector,
                                         .sigma2 = w->sigma2,
                                         .optics_count = OPTICS,
                                         .particles = w->particles,
                                         .count = PARTICLES,
                                         .threads = 1};
    OK(accuracy_estimate(&input, NULL, w->angles, w->offsets, &failure));
    for (int i = 0; i < PARTICLES; i++)
        assert_true(w->angles[i] == 30 && w->offsets[i] == 10);
    destroy_world(w);
}

int main(int argc, char **argv) {
    seed = (unsigned)chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_tell_what_the_noise_allows),
        cmocka_unit_test(noise_without_end_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
