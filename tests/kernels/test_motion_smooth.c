/* The path of frames: measured shifts lose errors where a smooth path explains them, and nothing else. */
#include "kernels/motion/motion_align_private.h"
#include "tests/kernels/chance.h"

enum { FRAMES = 40 };
static const double ERROR = 0.1; /* px, along an axis */

/* Measures a path with errors, smooths it, and returns the RMS distance of both axes from the path over ERROR. */
static double remaining(const float *path_x, const float *path_y) {
    float x[FRAMES], y[FRAMES];
    double *scratch = host_new(motion_smooth_scratch(FRAMES), sizeof *scratch), squares = 0;
    for (int i = 0; i < FRAMES; i++) {
        x[i] = path_x[i] + (float)(ERROR * normal());
        y[i] = path_y[i] + (float)(ERROR * normal());
    }
    motion_smooth(x, y, FRAMES, ERROR * ERROR, scratch);
    for (int i = 0; i < FRAMES; i++)
        squares += pow((double)(x[i] - path_x[i]), 2) + pow((double)(y[i] - path_y[i]), 2);
    free(scratch);
    return sqrt(squares / (2 * FRAMES)) / ERROR;
}

static double mean_remaining(double drift, double jump, double jitter) {
    enum { TRIALS = 30 };
    double sum = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        float x[FRAMES], y[FRAMES];
        for (int i = 0; i < FRAMES; i++) {
            double way = drift * (1 - exp(-0.15 * i)) + (i > 25 ? jump : 0);
            x[i] = (float)(0.8 * way + jitter * normal());
            y[i] = (float)(0.6 * way + jitter * normal());
        }
        sum += remaining(x, y) / TRIALS;
    }
    printf("    drift %g px, jump %g px, jitter %g px: %.2f of the errors remain\n", drift, jump, jitter, sum);
    return sum;
}

static void errors_on_a_smooth_path_go(void **state) {
    (void)state;
    assert_true(mean_remaining(0, 0, 0) < 0.4);
    assert_true(mean_remaining(10, 0, 0) < 0.6);
}

/* Jitter that is larger than the errors, and a jump of the stage, are no errors. */
static void true_motion_stays(void **state) {
    (void)state;
    assert_true(mean_remaining(10, 0, 0.5) < 1.05);
    assert_true(mean_remaining(10, 20, 0) < 1.05);
}

static void a_short_movie_stays_as_it_is(void **state) {
    (void)state;
    float x[7] = {0, 1, 0, 2, 0, 3, 0}, y[7] = {0, 5, 1, 5, 1, 5, 1}, before[7];
    double scratch[64];
    assert_true(motion_smooth_scratch(7) <= 64);
    memcpy(before, x, sizeof x);
    motion_smooth(x, y, 7, 1, scratch);
    assert_memory_equal(before, x, sizeof x);
    assert_true(y[6] == 1);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : "5");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_on_a_smooth_path_go),
        cmocka_unit_test(true_motion_stays),
        cmocka_unit_test(a_short_movie_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
