/* Alignment of simulated movies against their known motion. Not under test: sums, and devices other than the CPU. */
#include "tests/kernels/motion_movie.h"

#include "common/memory.h"

static struct motion_task task_of(const struct movie_case *of, int patches) {
    return (struct motion_task){.nx = of->nx,
                                .ny = of->ny,
                                .frames = of->frames,
                                .pixels = MOTION_U8,
                                .align = {.bfactor = 150,
                                          .patches_x = patches,
                                          .patches_y = patches,
                                          .group = 1,
                                          .search = 50,
                                          .iterations = 10,
                                          .tolerance = 0.5},
                                .threads = 2};
}

static void align(const struct motion_task *task, const struct motion_frames *frames, struct motion_model *model,
                  struct motion_report *report) {
    struct err err = {0};
    struct motion *motion = NULL;
    if (motion_create(task, &motion, &err) != STATUS_OK) fail_msg("%s", err.message);
    if (motion_take(motion, frames, &err) != STATUS_OK) fail_msg("%s", err.message);
    if (motion_align(motion, model, report, &err) != STATUS_OK) fail_msg("%s", err.message);
    if (report != NULL) report->patch = NULL; /* its arrays end with the motion */
    motion_destroy(&motion);
}

static void whole_frames_are_found(void **state) {
    (void)state;
    struct movie_case of = {
        .nx = 512, .ny = 400, .frames = 24, .counts = 1, .contrast = 0.1, .drift = 10, .gain = true, .seed = 11};
    struct movie movie = movie_new(&of);
    struct motion_task task = task_of(&of, 1);
    struct motion_model model = {0};
    struct motion_report report;
    align(&task, &movie.frames, &model, &report);
    double error = movie_error(&of, &model, 1);
    printf("    off by %.3f px RMS, %d iterations\n", error, report.iterations);
    assert_true(report.converged && !model.local);
    assert_true(error < 0.15); /* 0.16 if each frame is taken alone */
    movie_free(&movie);
    motion_model_clear(&model);
}

static void patches_follow_a_dome(void **state) {
    (void)state;
    struct movie_case of = {
        .nx = 768, .ny = 768, .frames = 24, .counts = 10, .contrast = 0.1, .drift = 8, .doming = 4, .seed = 12};
    struct movie movie = movie_new(&of);
    struct motion_task whole = task_of(&of, 1), task = task_of(&of, 5);
    struct motion_model model = {0};
    struct motion_report report;
    align(&whole, &movie.frames, &model, NULL);
    double before = movie_error(&of, &model, 5);
    align(&task, &movie.frames, &model, &report);
    double error = movie_error(&of, &model, 5);
    printf("    off by %.3f px RMS over the image without a local model, %.3f px with it (whole %.3f)\n", before, error,
           movie_error(&of, &model, 1));
    printf("    rmsd %.3f\n", report.rmsd);
    assert_true(model.local && report.patches == 25 && report.groups == of.frames);
    assert_true(error < 0.2 && error < 0.5 * before);
    movie_free(&movie);
    motion_model_clear(&model);
}

/* A specimen that rests must come out at rest. */
static void no_motion_is_found_where_there_is_none(void **state) {
    (void)state;
    struct movie_case of = {.nx = 512, .ny = 512, .frames = 16, .counts = 8, .contrast = 0.1, .gain = true, .seed = 13};
    struct movie movie = movie_new(&of);
    struct motion_task task = task_of(&of, 3);
    struct motion_model model = {0};
    align(&task, &movie.frames, &model, NULL);
    double whole = movie_error(&of, &model, 1), all = movie_error(&of, &model, 5);
    printf("    off by %.3f px RMS as a whole, %.3f px over the image\n", whole, all);
    assert_true(whole < 0.05 && all < 0.06); /* 0.07 over the image if coefficients are free to follow noise */
    movie_free(&movie);
    motion_model_clear(&model);
}

static void expect_equal(const struct motion_model *a, const struct motion_model *b, double bound) {
    for (int j = 0; j < a->frames; j++)
        for (int p = 0; p < 4; p++) {
            double u[2], v[2], x = (p % 2) * a->nx, y = (p / 2) * (double)a->ny;
            motion_model_at(a, x, y, j, u);
            motion_model_at(b, x, y, j, v);
            assert_true(fabs(u[0] - v[0]) <= bound && fabs(u[1] - v[1]) <= bound); /* false for NaN */
        }
}

/* Counts as bytes, words and floats are the same movie; threads change nothing. The sides are odd multiples that no
 * transform likes, and pixels are binned. Also compares groups of three frames with single frames. */
static void types_threads_and_groups_agree(void **state) {
    (void)state;
    struct movie_case of = {
        .nx = 1038, .ny = 1046, .frames = 13, .counts = 6, .contrast = 0.1, .drift = 5, .doming = 2, .seed = 14};
    struct movie movie = movie_new(&of);
    struct motion_task task = task_of(&of, 4);
    struct motion_model bytes = {0}, other = {0};
    struct motion_report report;
    align(&task, &movie.frames, &bytes, NULL);
    printf("    off by %.3f px RMS over the image\n", movie_error(&of, &bytes, 5));
    assert_true(movie_error(&of, &bytes, 5) < 0.3);
    task.threads = 3;
    align(&task, &movie.frames, &other, NULL);
    expect_equal(&bytes, &other, 0);

    task.align.group = 3;
    align(&task, &movie.frames, &other, &report);
    printf("    off by %.3f px RMS with groups of three\n", movie_error(&of, &other, 5));
    assert_true(other.local && report.groups == 4 && movie_error(&of, &other, 5) < 0.4);
    task.align.group = 1;

    size_t pixels = (size_t)of.nx * (size_t)of.ny;
    uint16_t *words = malloc(pixels * (size_t)of.frames * sizeof *words);
    float *floats = malloc(pixels * (size_t)of.frames * sizeof *floats);
    void *as_words[13], *as_floats[13];
    assert_non_null(words);
    assert_non_null(floats);
    for (int j = 0; j < of.frames; j++) {
        as_words[j] = words + (size_t)j * pixels;
        as_floats[j] = floats + (size_t)j * pixels;
        for (size_t i = 0; i < pixels; i++)
            words[(size_t)j * pixels + i] = ((unsigned char *)movie.frames.frame[j])[i];
        for (size_t i = 0; i < pixels; i++)
            floats[(size_t)j * pixels + i] = (float)words[(size_t)j * pixels + i];
    }
    struct motion_frames frames = movie.frames;
    frames.pixels = task.pixels = MOTION_U16;
    frames.frame = as_words;
    align(&task, &frames, &other, NULL);
    expect_equal(&bytes, &other, 1e-3);
    frames.pixels = task.pixels = MOTION_F32;
    frames.frame = as_floats;
    align(&task, &frames, &other, NULL);
    expect_equal(&bytes, &other, 1e-3);
    free(words);
    free(floats);
    movie_free(&movie);
    motion_model_clear(&bytes);
    motion_model_clear(&other);
}

/* A movie without electrons, one of pure noise, and one of a single frame end with finite shifts. */
static void empty_movies_end_well(void **state) {
    (void)state;
    struct movie_case of = {.nx = 320, .ny = 256, .frames = 6, .counts = 0, .contrast = 0.1, .seed = 15};
    const double counts[] = {0, 1};
    for (int i = 0; i < 3; i++) {
        of.counts = counts[i > 0];
        of.contrast = 0;
        of.frames = i == 2 ? 1 : 6;
        struct movie movie = movie_new(&of);
        struct motion_task task = task_of(&of, 3);
        struct motion_model model = {0};
        align(&task, &movie.frames, &model, NULL);
        double worst = 0;
        for (int j = 0; j < of.frames; j++)
            worst = fmax(worst, fmax(fabs((double)model.x[j]), fabs((double)model.y[j])));
        assert_true(isfinite(movie_error(&of, &model, 5)));
        assert_true(i == 1 || worst == 0);
        movie_free(&movie);
        motion_model_clear(&model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_frames_are_found),
        cmocka_unit_test(patches_follow_a_dome),
        cmocka_unit_test(no_motion_is_found_where_there_is_none),
        cmocka_unit_test(types_threads_and_groups_agree),
        cmocka_unit_test(empty_movies_end_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
