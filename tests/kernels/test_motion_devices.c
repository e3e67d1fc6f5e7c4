/* The CUDA motion correction equals the CPU's: sums, spectrum and alignment. */
#include "tests/kernels/devices.h"

#include "kernels/motion/motion.h"
#include "kernels/motion/motion_weights.h"
#include "tests/kernels/motion_movie.h"

struct sum_case {
    int nx, ny, frames;
    enum motion_pixels pixels;
    bool gain, local, dose;
    double bin;
    int box, group;
};

static const struct sum_case sum_cases[] = {
    {.nx = 256, .ny = 240, .frames = 7, .gain = true, .dose = true, .bin = 1, .box = 64, .group = 3},
    {.nx = 372, .ny = 248, .frames = 40, .pixels = MOTION_U16, .dose = true, .bin = 2, .box = 128, .group = 4},
    {.nx = 300, .ny = 221, .frames = 12, .pixels = MOTION_F32, .gain = true, .bin = 1.5, .box = 200, .group = 12},
    {.nx = 128, .ny = 320, .frames = 1, .dose = true, .bin = 1, .box = 64, .group = 4},
    {.nx = 330, .ny = 280, .frames = 9, .gain = true, .local = true, .dose = true, .bin = 1, .box = 64, .group = 2},
};

/* A movie of noise, a model, and what the sums of both devices are. */
struct sums {
    struct sum_case of;
    int nx, ny; /* of the outputs */
    float *gain;
    void **frame;
    double *dose;
    struct motion_model model;
    float *image[2][4], *power[2]; /* of the CPU, of the device */
};

static void put_pixel(enum motion_pixels type, void *frame, size_t at, double value) {
    if (type == MOTION_U8)
        ((uint8_t *)frame)[at] = (uint8_t)value;
    else if (type == MOTION_U16)
        ((uint16_t *)frame)[at] = (uint16_t)(100 * value);
    else
        ((float *)frame)[at] = (float)(value - 3 + uniform());
}

static struct sums sums_new(const struct sum_case *of) {
    struct sums s = {.of = *of};
    struct err err = {0};
    size_t pixels = (size_t)of->nx * (size_t)of->ny, half = (size_t)of->box * (size_t)(of->box / 2 + 1);
    motion_sum_size(of->nx, of->ny, of->bin, &s.nx, &s.ny);
    s.frame = host_new((size_t)of->frames, sizeof *s.frame);
    s.dose = host_new((size_t)of->frames, sizeof *s.dose);
    must(motion_model_resize(&s.model, of->nx, of->ny, of->frames, &err), &err);
    for (int j = 0; j < of->frames; j++) {
        s.frame[j] = host_new(pixels, motion_pixel_size(of->pixels));
        for (size_t i = 0; i < pixels; i++)
            put_pixel(of->pixels, s.frame[j], i, floor(8 * uniform() * uniform()));
        s.dose[j] = 2 + 1.3 * (j + 1);
        s.model.x[j] = j == 0 ? 0 : (float)(20 * uniform() - 10);
        s.model.y[j] = j == 0 ? 0 : (float)(20 * uniform() - 10);
    }
    s.model.local = of->local;
    for (int i = 0; of->local && i < 2 * MOTION_COEFFICIENTS; i++)
        s.model.coefficients[i / MOTION_COEFFICIENTS][i % MOTION_COEFFICIENTS] =
            (2 * uniform() - 1) * pow(of->frames, -1 - i % 3);
    if (of->gain) {
        s.gain = host_new(pixels, sizeof *s.gain);
        for (size_t i = 0; i < pixels; i++)
            s.gain[i] = (float)(0.8 + 0.4 * uniform());
    }
    for (int device = 0; device < 2; device++) {
        for (int i = 0; i < 4; i++) {
            s.image[device][i] = host_new((size_t)s.nx * (size_t)s.ny, sizeof(float));
            memset(s.image[device][i], 0xff, (size_t)s.nx * (size_t)s.ny * sizeof(float));
        }
        s.power[device] = host_new(half, sizeof(float));
        memset(s.power[device], 0xff, half * sizeof(float));
    }
    return s;
}

static void sums_free(struct sums *s) {
    for (int j = 0; j < s->of.frames; j++)
        free(s->frame[j]);
    for (int device = 0; device < 2; device++) {
        for (int i = 0; i < 4; i++)
            free(s->image[device][i]);
        free(s->power[device]);
    }
    free((void *)s->frame);
    free(s->dose);
    free(s->gain);
    motion_model_clear(&s->model);
}

static struct motion_frames frames_of(const struct sums *s) {
    return (struct motion_frames){s->of.nx, s->of.ny, s->of.frames, s->of.pixels, s->frame, s->gain};
}

static struct motion_task task_of(const struct sums *s, struct device device) {
    return (struct motion_task){.nx = s->of.nx,
                                .ny = s->of.ny,
                                .frames = s->of.frames,
                                .pixels = s->of.pixels,
                                .align = {.bfactor = 150,
                                          .patches_x = 1,
                                          .patches_y = 1,
                                          .group = 1,
                                          .search = 20,
                                          .iterations = 5,
                                          .tolerance = 0.5},
                                .threads = 4,
                                .device = device};
}

/* Makes all sums on one device; outputs that are not in `wanted` stay as they are. */
static void run_sums(struct sums *s, struct device device, unsigned wanted) {
    struct err err = {0};
    struct motion *motion = NULL;
    struct motion_task task = task_of(s, device);
    struct motion_frames frames = frames_of(s);
    struct motion_sum_options options = {.bin = s->of.bin,
                                         .pixel_size = 1.1,
                                         .voltage = 300,
                                         .dose = s->of.dose ? s->dose : NULL,
                                         .spectrum_box = s->of.box,
                                         .spectrum_group = s->of.group};
    float **image = s->image[device.kind == DEVICE_CUDA];
    struct motion_sums sums = {.weighted = wanted & 1 ? image[0] : NULL,
                               .unweighted = wanted & 2 ? image[1] : NULL,
                               .even = wanted & 4 ? image[2] : NULL,
                               .odd = wanted & 8 ? image[3] : NULL,
                               .power = wanted & 16 ? s->power[device.kind == DEVICE_CUDA] : NULL};
    must(motion_create(&task, &motion, &err), &err);
    for (int round = 0; round < 2; round++) { /* the second time all buffers are there */
        must(motion_take(motion, &frames, &err), &err);
        must(motion_sum(motion, &s->model, &options, &sums, &err), &err);
    }
    motion_destroy(&motion);
}

/* Checks that values differ by at most `bound` of the expected values' standard deviation, root mean square; NaN
 * fails. */
static void check_close(const char *what, const float *found, const float *expected, size_t count, double bound) {
    double mean = 0, squares = 0, errors = 0;
    for (size_t i = 0; i < count; i++)
        mean += (double)expected[i] / (double)count;
    for (size_t i = 0; i < count; i++) {
        squares += pow((double)expected[i] - mean, 2);
        errors += pow((double)found[i] - (double)expected[i], 2);
    }
    double off = errors == 0 ? 0 : sqrt(errors / squares);
    printf("    %s: off by %.2g of the deviation (%.2g allowed)\n", what, off, bound);
    if (!(off <= bound)) fail_msg("%s: off by %g, %g allowed", what, off, bound);
}

/* Shifts are single on the device and double on the CPU: seldom, a place falls on the next of 256 phases. */
static const double SAME = 2e-3;
/* With local motion the CPU takes the shift as constant in tiles in which it is off by at most 0.05 px: for noise up to
 * the Nyquist frequency that is up to 8 % in a corner. */
static const double TILED = 0.06;

static void sums_agree(void **state) {
    (void)state;
    static const char *const names[] = {"weighted", "unweighted", "even", "odd"};
    for (size_t i = 0; i < sizeof sum_cases / sizeof *sum_cases; i++) {
        const struct sum_case *of = &sum_cases[i];
        struct sums s = sums_new(of);
        printf("%d frames of %d × %d px, bin %g%s%s%s\n", of->frames, of->nx, of->ny, of->bin, of->gain ? ", gain" : "",
               of->dose ? ", doses" : "", of->local ? ", local motion" : "");
        run_sums(&s, (struct device){DEVICE_CPU, 0}, 31);
        run_sums(&s, DEVICE, 31);
        for (int k = 0; k < 4; k++)
            check_close(names[k], s.image[1][k], s.image[0][k], (size_t)s.nx * (size_t)s.ny, of->local ? TILED : SAME);
        check_close("power", s.power[1], s.power[0], (size_t)of->box * (size_t)(of->box / 2 + 1), SAME);
        sums_free(&s);
    }
}

static void wanted_sums_alone_are_the_same(void **state) {
    (void)state;
    struct sums s = sums_new(&sum_cases[0]);
    size_t pixels = (size_t)s.nx * (size_t)s.ny;
    run_sums(&s, DEVICE, 3);
    for (int k = 0; k < 2; k++) {
        memcpy(s.image[0][k], s.image[1][k], pixels * sizeof(float));
        memset(s.image[1][k], 0xff, pixels * sizeof(float));
        run_sums(&s, DEVICE, 1u << k);
        check_close(k == 0 ? "weighted alone" : "unweighted alone", s.image[1][k], s.image[0][k], pixels, 1e-5);
    }
    assert_true(isnan(s.image[1][2][0])); /* not wanted: untouched */
    sums_free(&s);
}

/* The shift at each pixel, the nearest phase, and 8 × 8 taps, in double. */
static double interpolated(const struct sums *s, int frame, int x, int y, const float (*taps)[MOTION_TAPS]) {
    double shift[2], value = 0;
    int first[2], phase[2], at[2] = {x, y}, sides[2] = {s->of.nx, s->of.ny};
    motion_model_at(&s->model, x, y, frame, shift);
    for (int axis = 0; axis < 2; axis++) {
        double place = at[axis] - shift[axis], whole = floor(place);
        phase[axis] = (int)lround((place - whole) * MOTION_PHASES);
        first[axis] = (int)whole - (MOTION_TAPS / 2 - 1);
    }
    for (int v = 0; v < MOTION_TAPS; v++)
        for (int u = 0; u < MOTION_TAPS; u++) {
            int from[2] = {first[0] + u, first[1] + v};
            for (int axis = 0; axis < 2; axis++) {
                if (from[axis] < 0) from[axis] = -1 - from[axis];
                if (from[axis] >= sides[axis]) from[axis] = 2 * sides[axis] - 1 - from[axis];
            }
            size_t pixel = (size_t)from[1] * (size_t)s->of.nx + (size_t)from[0];
            double gain = s->gain != NULL ? (double)s->gain[pixel] : 1;
            value += (double)taps[phase[0]][u] * (double)taps[phase[1]][v] * gain *
                     (double)((const uint8_t *)s->frame[frame])[pixel];
        }
    return value;
}

static void local_motion_is_followed_at_each_pixel(void **state) {
    (void)state;
    static const struct sum_case of = {
        .nx = 330, .ny = 280, .frames = 5, .gain = true, .local = true, .bin = 1, .box = 64, .group = 2};
    float(*taps)[MOTION_TAPS] = host_new(MOTION_PHASES + 1, sizeof *taps);
    struct sums s = sums_new(&of);
    motion_taps(taps);
    for (int i = 0; i < 2 * MOTION_COEFFICIENTS; i++) /* so strong that tiles are left */
        s.model.coefficients[i / MOTION_COEFFICIENTS][i % MOTION_COEFFICIENTS] *= 15;
    run_sums(&s, DEVICE, 2);
    for (int y = 0; y < of.ny; y++)
        for (int x = 0; x < of.nx; x++) {
            double sum = 0;
            for (int j = 0; j < of.frames; j++)
                sum += interpolated(&s, j, x, y, (const float(*)[MOTION_TAPS])taps);
            s.image[0][1][(size_t)y * (size_t)of.nx + (size_t)x] = (float)sum;
        }
    check_close("unweighted", s.image[1][1], s.image[0][1], (size_t)of.nx * (size_t)of.ny, SAME);
    sums_free(&s);
    free(taps);
}

static void shifts_beyond_the_frame_are_refused(void **state) {
    (void)state;
    struct sums s = sums_new(&sum_cases[0]);
    struct err err = {0};
    struct motion *motion = NULL;
    struct motion_task task = task_of(&s, DEVICE);
    struct motion_frames frames = frames_of(&s);
    struct motion_sum_options options = {.bin = 1, .spectrum_box = 64, .spectrum_group = 2};
    struct motion_sums sums = {.power = s.power[1]};
    must(motion_create(&task, &motion, &err), &err);
    assert_int_equal(motion_sum(motion, &s.model, &options, &sums, &err), STATUS_BAD_STATE); /* no frames yet */
    must(motion_take(motion, &frames, &err), &err);
    s.model.y[3] = (float)s.of.ny;
    assert_int_equal(motion_sum(motion, &s.model, &options, &sums, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "frame 4 along y"));
    s.model.y[3] = 1;
    must(motion_sum(motion, &s.model, &options, &sums, &err), &err);
    motion_destroy(&motion);
    sums_free(&s);
}

static const struct align_case {
    struct movie_case movie;
    int patches_x, patches_y, group;
} align_cases[] = {
    {{.nx = 512, .ny = 480, .frames = 16, .counts = 1, .contrast = 0.4, .drift = 8, .doming = 2, .seed = 3}, 4, 5, 1},
    {{.nx = 1100, .ny = 1030, .frames = 7, .counts = 2, .contrast = 0.3, .drift = 5, .gain = true, .seed = 4}, 1, 1, 1},
    {{.nx = 640,
      .ny = 600,
      .frames = 9,
      .counts = 2,
      .contrast = 0.4,
      .drift = 4,
      .doming = 2,
      .gain = true,
      .seed = 5},
     3,
     3,
     2},
};

static void align_on(const struct align_case *of, const struct motion_frames *frames, struct device device,
                     struct motion_model *model, struct motion_model *again, struct motion_report *report) {
    struct err err = {0};
    struct motion *motion = NULL;
    struct motion_task task = {.nx = frames->nx,
                               .ny = frames->ny,
                               .frames = frames->count,
                               .pixels = frames->pixels,
                               .align = {.bfactor = 150,
                                         .patches_x = of->patches_x,
                                         .patches_y = of->patches_y,
                                         .group = of->group,
                                         .search = 50,
                                         .iterations = 5,
                                         .tolerance = 0.5},
                               .threads = 4,
                               .device = device};
    must(motion_create(&task, &motion, &err), &err);
    must(motion_take(motion, frames, &err), &err);
    must(motion_align(motion, again, report, &err), &err);
    must(motion_take(motion, frames, &err), &err);
    must(motion_align(motion, model, report, &err), &err);
    report->patch = NULL;
    motion_destroy(&motion);
}

static void alignments_agree(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof align_cases / sizeof *align_cases; i++) {
        const struct align_case *of = &align_cases[i];
        struct movie movie = movie_new(&of->movie);
        struct motion_model cpu = {0}, cuda = {0}, again = {0};
        struct motion_report of_cpu, of_cuda;
        double worst = 0;
        align_on(of, &movie.frames, (struct device){DEVICE_CPU, 0}, &cpu, &again, &of_cpu);
        align_on(of, &movie.frames, DEVICE, &cuda, &again, &of_cuda);
        for (int j = 0; j < of->movie.frames; j++) {
            assert_true(cuda.x[j] == again.x[j] && cuda.y[j] == again.y[j]); /* the same sums, in the same order */
            for (int p = 0; p < 25; p++) {
                double a[2], b[2], x = (p % 5 + 0.5) / 5 * of->movie.nx, y = (p / 5 + 0.5) / 5 * of->movie.ny;
                motion_model_at(&cpu, x, y, j, a);
                motion_model_at(&cuda, x, y, j, b);
                double off = hypot(a[0] - b[0], a[1] - b[1]);
                if (!(off <= worst)) worst = off;
            }
        }
        assert_memory_equal(cuda.coefficients, again.coefficients, sizeof cuda.coefficients);
        printf("    %d × %d patches: the devices differ by %.2g px; errors %.3f px (CPU), %.3f px (CUDA)\n",
               of->patches_x, of->patches_y, worst, movie_error(&of->movie, &cpu, of->patches_x > 2 ? 5 : 1),
               movie_error(&of->movie, &cuda, of->patches_x > 2 ? 5 : 1));
        /* Steps end below 0.02 px, so the devices may stop a step apart, or choose another smoothness of the path. */
        assert_true(worst < 0.05);
        assert_true(cpu.local == cuda.local && cpu.local == (of->patches_x > 2));
        assert_int_equal(of_cpu.patches, of_cuda.patches);
        assert_int_equal(of_cpu.groups, of_cuda.groups);
        assert_true(fabs(of_cpu.rmsd - of_cuda.rmsd) < 0.01);
        motion_model_clear(&cpu);
        motion_model_clear(&cuda);
        motion_model_clear(&again);
        movie_free(&movie);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree),
        cmocka_unit_test(wanted_sums_alone_are_the_same),
        cmocka_unit_test(local_motion_is_followed_at_each_pixel),
        cmocka_unit_test(shifts_beyond_the_frame_are_refused),
        cmocka_unit_test(alignments_agree),
    };
    int code = no_device();
    if (code != 0) return code;
    choose_seed(argc > 1 ? argv[1] : "20");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
