/* The spectrum of a movie: the periodogram of the sum where nothing moves, and the groups' frames in step where
 * something does. */
#include "kernels/motion/motion.h"
#include "kernels/periodogram/periodogram.h"
#include "tests/kernels/chance.h"

enum { NX = 230, NY = 170, FRAMES = 6, BOX = 64, HALF = BOX * (BOX / 2 + 1), ROOM = 20 };

/* Counts of a scene of white noise, of which each frame shows another part. */
struct movie {
    uint16_t *frame[FRAMES];
    float *gain;
    struct motion_model model;
};

/* Each frame shows the scene moved by −(x, y)[frame], and noise of its own. */
static void make_movie(struct movie *m, const int x[FRAMES], const int y[FRAMES], double scene, double noise) {
    struct err err = {0};
    int *counts = host_new((NX + 2 * ROOM) * (NY + 2 * ROOM), sizeof *counts);
    for (int i = 0; i < (NX + 2 * ROOM) * (NY + 2 * ROOM); i++)
        counts[i] = (int)lround(scene * normal());
    must(motion_model_resize(&m->model, NX, NY, FRAMES, &err), &err);
    for (int j = 0; j < FRAMES; j++) {
        m->frame[j] = host_new(NX * NY, sizeof *m->frame[j]);
        m->model.x[j] = (float)x[j] + 0.3F; /* a whole pixel is the nearest */
        m->model.y[j] = (float)y[j] - 0.3F;
        for (int i = 0; i < NX * NY; i++)
            m->frame[j][i] = (uint16_t)(1000 + counts[(i / NX + ROOM + y[j]) * (NX + 2 * ROOM) + i % NX + ROOM + x[j]] +
                                        (int)lround(noise * normal()));
    }
    free(counts);
}

static void free_movie(struct movie *m) {
    for (int j = 0; j < FRAMES; j++)
        free(m->frame[j]);
    free(m->gain);
    motion_model_clear(&m->model);
}

static enum status average(const struct movie *m, int threads, int group, float *power, struct err *err) {
    struct motion *motion = NULL;
    struct motion_task task = {.nx = NX, .ny = NY, .frames = FRAMES, .pixels = MOTION_U16, .threads = threads};
    struct motion_frames frames = {NX, NY, FRAMES, MOTION_U16, (void *const *)m->frame, m->gain};
    struct motion_sum_options options = {.bin = 1, .spectrum_box = BOX, .spectrum_group = group};
    struct motion_sums sums = {.power = power};
    task.align = (struct motion_align_options){150, 1, 1, 1, 50, 5, 0.5};
    must(motion_create(&task, &motion, err), err);
    must(motion_take(motion, &frames, err), err);
    enum status status = motion_sum(motion, &m->model, &options, &sums, err);
    if (status == STATUS_OK) /* again, with what is kept */
        status = motion_sum(motion, &m->model, &options, &sums, err);
    motion_destroy(&motion);
    return status;
}

static double mean(const float *power) {
    double sum = 0;
    for (int i = 1; i < HALF; i++)
        sum += (double)power[i] / (HALF - 1);
    return sum;
}

/* Without motion and with one group, it is the periodogram of the plain sum, with a gain too. */
static void it_is_the_periodogram_of_the_sum(void **state) {
    (void)state;
    struct err err = {0};
    struct movie m = {0};
    const int none[FRAMES] = {0};
    make_movie(&m, none, none, 30, 20);
    m.gain = host_new(NX * NY, sizeof *m.gain);
    float *sum = host_new(NX * NY, sizeof *sum), power[HALF], expected[HALF];
    for (int i = 0; i < NX * NY; i++) {
        m.gain[i] = (float)(1 + 0.05 * normal());
        for (int j = 0; j < FRAMES; j++)
            sum[i] += (float)m.frame[j][i] * m.gain[i];
    }
    struct periodogram *periodogram = NULL;
    struct periodogram_task task = {.nx = NX, .ny = NY, .box = BOX, .threads = 1};
    must(periodogram_create(&task, &periodogram, &err), &err);
    must(periodogram_run(periodogram, sum, NULL, expected, &err), &err);
    must(average(&m, 1, FRAMES, power, &err), &err);
    for (int i = 0; i < HALF; i++)
        assert_true(fabsf(power[i] / expected[i] - 1) < 1e-3F || power[i] < 1e-4F * (float)mean(expected));
    periodogram_destroy(&periodogram);
    free(sum);
    free_movie(&m);
}

/* n frames in step have n² times the power of one; out of step they would have n times. Groups of 3 frames have 9. */
static void frames_of_a_group_are_in_step(void **state) {
    (void)state;
    struct err err = {0};
    struct movie m = {0};
    const int x[FRAMES] = {0, 5, 9, 12, 15, 17}, y[FRAMES] = {0, -3, -7, -8, -8, -13};
    make_movie(&m, x, y, 40, 0);
    float power[HALF];
    for (int group = 1; group <= FRAMES; group++) {
        int groups = FRAMES / group;
        double expected = 0;
        for (int g = 0; g < groups; g++)
            expected += pow((g + 1) * FRAMES / groups - g * FRAMES / groups, 2) * 1600 / groups;
        must(average(&m, 2, group, power, &err), &err);
        if (!(fabs(mean(power) / expected - 1) < 0.05)) fail_msg("%d: %g, not %g", group, mean(power), expected);
    }
    free_movie(&m);
}

static void threads_change_nothing(void **state) {
    (void)state;
    struct err err = {0};
    struct movie m = {0};
    const int x[FRAMES] = {0, 5, 9, 12, 15, 17};
    make_movie(&m, x, x, 40, 10);
    float one[HALF], three[HALF];
    must(average(&m, 1, 2, one, &err), &err);
    must(average(&m, 3, 2, three, &err), &err);
    assert_memory_equal(one, three, sizeof one);
    free_movie(&m);
}

/* Shifts that leave no tile inside all frames do no harm, and an empty movie is refused. */
static void edges_and_empty_movies(void **state) {
    (void)state;
    struct err err = {0};
    struct movie m = {0};
    const int none[FRAMES] = {0};
    float power[HALF];
    make_movie(&m, none, none, 40, 10);
    for (int j = 0; j < FRAMES; j++) {
        m.model.x[j] = (float)(j % 2 ? -1 : 1) * (NX - 2);
        m.model.y[j] = (float)(j % 2 ? -1 : 1) * (NY - 2);
    }
    must(average(&m, 2, FRAMES, power, &err), &err);
    assert_true(isfinite(mean(power)) && mean(power) > 0);
    for (int j = 0; j < FRAMES; j++)
        memset(m.frame[j], 0, NX * NY * sizeof *m.frame[j]);
    assert_int_equal(average(&m, 2, 2, power, &err), STATUS_BAD_FORMAT);
    free_movie(&m);
}

/* The estimate of memory reads one dose at most: a stage asks before it knows the movie. */
static void memory_is_told_before_the_doses(void **state) {
    (void)state;
    double *dose = host_new(1, sizeof *dose);
    struct motion_task task = {.nx = 4096, .ny = 4096, .frames = 40, .pixels = MOTION_U8, .threads = 2};
    struct motion_sum_options options = {.bin = 1, .pixel_size = 1, .voltage = 300, .spectrum_box = 1000};
    task.align = (struct motion_align_options){150, 5, 5, 1, 50, 5, 0.5};
    size_t plain = motion_bytes(&task, &options);
    options.dose = dose;
    size_t weighted = motion_bytes(&task, &options);
    options.halves = true;
    size_t halves = motion_bytes(&task, &options);
    assert_true(plain > 2u * 4096 * 4096 * sizeof(float) && weighted > plain + 5u * 4096 * 4096 * sizeof(float));
    assert_true(halves > weighted + 5u * 4096 * 4096 * sizeof(float) && weighted < (size_t)3 << 30);
    free(dose);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_periodogram_of_the_sum), cmocka_unit_test(frames_of_a_group_are_in_step),
        cmocka_unit_test(threads_change_nothing),           cmocka_unit_test(edges_and_empty_movies),
        cmocka_unit_test(memory_is_told_before_the_doses),
    };
    choose_seed(argc > 1 ? argv[1] : "1");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
