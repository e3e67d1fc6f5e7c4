/* Sums of frames along a motion that is known: beside a plain sum pixel by pixel in double with the exact dose weights,
 * beside exact Fourier shifts, and beside waves that are known everywhere. Alignment is not under test. */
#include <complex.h>

#include "kernels/motion/motion.h"

#include "common/fft.h"
#include "kernels/motion/motion_private.h"
#include "kernels/motion/motion_weights.h"
#include "tests/kernels/chance.h"

enum { FRAMES = 5 };
static const double PIXEL_SIZE = 1.1;
static const double DOSE[FRAMES] = {3, 7, 11, 16, 24};

struct movie {
    int nx, ny, frames;
    enum motion_pixels pixels;
    void *frame[FRAMES];
    float *gain;
    struct motion_model model;
};

static double value_of(const struct movie *m, int frame, int x, int y) {
    size_t at = (size_t)y * (size_t)m->nx + (size_t)x;
    double value = m->pixels == MOTION_U8    ? ((const uint8_t *)m->frame[frame])[at]
                   : m->pixels == MOTION_U16 ? ((const uint16_t *)m->frame[frame])[at]
                                             : (double)((const float *)m->frame[frame])[at];
    return m->gain != NULL ? value * (double)m->gain[at] : value;
}

/* Fills frames with noise about 100, and a gain with noise about 1. */
static void make_movie(struct movie *m, int nx, int ny, int frames, enum motion_pixels pixels, bool gain) {
    struct err err = {0};
    *m = (struct movie){.nx = nx, .ny = ny, .frames = frames, .pixels = pixels};
    size_t count = (size_t)nx * (size_t)ny;
    for (int j = 0; j < frames; j++) {
        m->frame[j] = host_new(count, motion_pixel_size(pixels));
        for (size_t i = 0; i < count; i++) {
            double value = 100 + 20 * normal();
            if (pixels == MOTION_U8) ((uint8_t *)m->frame[j])[i] = (uint8_t)value;
            if (pixels == MOTION_U16) ((uint16_t *)m->frame[j])[i] = (uint16_t)(50 * value);
            if (pixels == MOTION_F32) ((float *)m->frame[j])[i] = (float)value;
        }
    }
    if (gain) m->gain = host_new(count, sizeof *m->gain);
    for (size_t i = 0; gain && i < count; i++)
        m->gain[i] = (float)(1 + 0.1 * normal());
    must(motion_model_resize(&m->model, nx, ny, frames, &err), &err);
}

static void free_movie(struct movie *m) {
    for (int j = 0; j < m->frames; j++)
        free(m->frame[j]);
    free(m->gain);
    motion_model_clear(&m->model);
}

static struct motion *open_movie(const struct movie *m, int threads) {
    struct err err = {0};
    struct motion *motion = NULL;
    struct motion_task task = {.nx = m->nx, .ny = m->ny, .frames = m->frames, .pixels = m->pixels, .threads = threads};
    struct motion_frames frames = {m->nx, m->ny, m->frames, m->pixels, m->frame, m->gain};
    task.align = (struct motion_align_options){150, 1, 1, 1, 50, 5, 0.5};
    must(motion_create(&task, &motion, &err), &err);
    must(motion_take(motion, &frames, &err), &err);
    return motion;
}

static void sum_movie(const struct movie *m, int threads, const struct motion_sum_options *options,
                      const struct motion_sums *sums) {
    struct err err = {0};
    struct motion *motion = open_movie(m, threads);
    must(motion_sum(motion, &m->model, options, sums, &err), &err);
    motion_destroy(&motion);
}

static int mirrored(int i, int size) {
    return i < 0 ? -1 - i : i >= size ? 2 * size - 1 - i : i;
}

/* Returns the pixel X − d of a frame, from eight by eight pixels about it. */
static double plain_pixel(const struct movie *m, float (*taps)[MOTION_TAPS], int frame, int x, int y) {
    double shift[2], sum = 0;
    motion_model_at(&m->model, x, y, frame, shift);
    double at_x = x - shift[0], at_y = y - shift[1];
    const float *tx = taps[lround((at_x - floor(at_x)) * MOTION_PHASES)];
    const float *ty = taps[lround((at_y - floor(at_y)) * MOTION_PHASES)];
    for (int v = 0; v < MOTION_TAPS; v++)
        for (int u = 0; u < MOTION_TAPS; u++)
            sum += (double)ty[v] * (double)tx[u] *
                   value_of(m, frame, mirrored((int)floor(at_x) + u - 3, m->nx),
                            mirrored((int)floor(at_y) + v - 3, m->ny));
    return sum;
}

/* Adds a transformed image times a weight at each frequency that `to` has. dose < 0: the weight is 1. norm: of the
 * weights' squares. */
static void add_weighted(const struct movie *m, const float *spectrum, double dose, const double *doses, int count,
                         int to_nx, int to_ny, float *to) {
    for (int row = 0; row < to_ny; row++)
        for (int kx = 0; kx <= to_nx / 2; kx++) {
            int ky = row <= to_ny / 2 ? row : row - to_ny;
            size_t from = (size_t)(ky < 0 ? ky + m->ny : ky) * (size_t)(m->nx / 2 + 1) + (size_t)kx;
            size_t at = (size_t)row * (size_t)(to_nx / 2 + 1) + (size_t)kx;
            double k = hypot((double)kx / m->nx, (double)ky / m->ny) / PIXEL_SIZE, norm = 0, weight = 1;
            for (int j = 0; j < count; j++)
                norm += exp(-doses[j] / motion_critical_exposure(k));
            if (dose >= 0) weight = exp(-dose / (2 * motion_critical_exposure(k))) / sqrt(norm);
            to[2 * at] += (float)(weight * (double)spectrum[2 * from] / m->nx / m->ny);
            to[2 * at + 1] += (float)(weight * (double)spectrum[2 * from + 1] / m->nx / m->ny);
        }
}

/* Sums frames first, first + step, … the slow way. weighted: with the exact dose weights. */
static void plain_sum(const struct movie *m, int first, int step, bool weighted, int to_nx, int to_ny, float *ret) {
    struct err err = {0};
    struct fft_plan *forward = NULL, *back = NULL;
    struct fft_options there = {.rank = 2, .shape = {m->ny, m->nx}, .direction = FFT_FORWARD};
    struct fft_options home = {.rank = 2, .shape = {to_ny, to_nx}, .direction = FFT_INVERSE};
    must(fft_create(&there, &forward, &err), &err);
    must(fft_create(&home, &back, &err), &err);
    float(*taps)[MOTION_TAPS] = host_new(MOTION_PHASES + 1, sizeof *taps);
    float *image = host_new(fft_real_count(forward), sizeof *image);
    float *spectrum = host_new(fft_complex_floats(forward), sizeof *spectrum);
    float *sum = host_new(fft_complex_floats(back), sizeof *sum);
    double doses[FRAMES];
    int count = 0;
    motion_taps(taps);
    for (int j = first; j < m->frames; j += step)
        doses[count++] = DOSE[j];
    for (int j = first; j < m->frames; j += step) {
        for (int y = 0; y < m->ny; y++)
            for (int x = 0; x < m->nx; x++)
                image[(size_t)y * (size_t)m->nx + (size_t)x] = (float)plain_pixel(m, taps, j, x, y);
        fft_run(forward, image, spectrum);
        add_weighted(m, spectrum, weighted ? DOSE[j] : -1, doses, count, to_nx, to_ny, sum);
    }
    fft_run(back, sum, ret);
    fft_destroy(&forward);
    fft_destroy(&back);
    free(taps);
    free(image);
    free(spectrum);
    free(sum);
}

/* Returns the RMS of the difference, relative to the deviation of the first. */
static double difference(const float *a, const float *b, size_t count) {
    double mean = 0, power = 0, square = 0;
    for (size_t i = 0; i < count; i++)
        mean += (double)a[i] / (double)count;
    for (size_t i = 0; i < count; i++) {
        power += pow((double)a[i] - mean, 2);
        square += pow((double)a[i] - (double)b[i], 2);
    }
    return sqrt(square / power);
}

/* Compares all sums with plain ones. */
static void compare(const struct movie *m, double bin, bool doses, double tolerance) {
    int nx, ny;
    struct motion_sum_options options = {
        .bin = bin, .pixel_size = PIXEL_SIZE, .voltage = 300, .dose = doses ? DOSE : NULL};
    motion_sum_size(m->nx, m->ny, bin, &nx, &ny);
    size_t count = (size_t)nx * (size_t)ny;
    float *image[4], *plain = host_new(count, sizeof *plain);
    for (int i = 0; i < 4; i++)
        image[i] = host_new(count, sizeof *plain);
    struct motion_sums sums = {image[0], image[1], image[2], image[3], NULL};
    sum_movie(m, 2, &options, &sums);
    const struct {
        int first, step;
        bool weighted;
    } of[4] = {{0, 1, doses}, {0, 1, false}, {1, 2, doses}, {0, 2, doses}}; /* even: frames 2, 4, … */
    for (int i = 0; i < 4; i++) {
        plain_sum(m, of[i].first, of[i].step, of[i].weighted, nx, ny, plain);
        double off = difference(plain, image[i], count);
        if (!(off < tolerance)) fail_msg("sum %d of %d × %d px, bin %g: off by %g", i, m->nx, m->ny, bin, off);
        free(image[i]);
    }
    free(plain);
}

static void drift(struct movie *m) {
    for (int j = 1; j < m->frames; j++) {
        m->model.x[j] = (float)(7.3 * (1 - exp(-j / 2.0)));
        m->model.y[j] = (float)(-2.9 * j / m->frames);
    }
}

/* All bins, types and sides, also odd ones and such as no band or tile divides. */
static void sums_equal_plain_ones(void **state) {
    (void)state;
    const struct {
        int nx, ny;
        enum motion_pixels pixels;
        bool gain, doses;
        double bin;
    } cases[] = {{150, 131, MOTION_U8, true, true, 1},    {150, 131, MOTION_U8, true, false, 1},
                 {144, 96, MOTION_U16, false, true, 1.5}, {131, 150, MOTION_F32, true, true, 2},
                 {300, 70, MOTION_U8, false, true, 1},    {97, 64, MOTION_F32, false, true, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct movie movie;
        make_movie(&movie, cases[i].nx, cases[i].ny, FRAMES, cases[i].pixels, cases[i].gain);
        drift(&movie);
        compare(&movie, cases[i].bin, cases[i].doses, 1e-4);
        free_movie(&movie);
    }
}

/* Motion that differs by 3 px over 256 px, and white noise, which shows the error of a tile's one shift most. */
static void local_motion_is_followed(void **state) {
    (void)state;
    struct movie movie;
    make_movie(&movie, 256, 200, FRAMES, MOTION_U8, true);
    drift(&movie);
    movie.model.local = true;
    for (int axis = 0; axis < 2; axis++) {
        movie.model.coefficients[axis][3] = 0.5 - axis; /* z x */
        movie.model.coefficients[axis][13] = 0.1;       /* z² y² */
        movie.model.coefficients[axis][15] = -0.3;      /* z xy */
    }
    compare(&movie, 1, true, 0.08);
    free_movie(&movie);
}

/* Waves that are known everywhere, seen where the motion put them: the direction of shifts and their size. */
static void waves_come_back(void **state) {
    (void)state;
    enum { N = 192, WAVES = 6, EDGE = 8 };
    double kx[WAVES], ky[WAVES], phase[WAVES];
    struct movie m;
    make_movie(&m, N, N, FRAMES, MOTION_F32, false);
    drift(&m);
    m.model.local = true;
    m.model.coefficients[0][3] = 0.4;
    m.model.coefficients[1][9] = -0.3;
    for (int i = 0; i < WAVES; i++) {
        double angle = 2 * M_PI * uniform(), k = 0.3 * (i + 1) / WAVES;
        kx[i] = k * cos(angle), ky[i] = k * sin(angle), phase[i] = 2 * M_PI * uniform();
    }
    float *truth = host_new(N * N, sizeof *truth), *sum = host_new(N * N, sizeof *sum);
    for (int j = -1; j < FRAMES; j++) /* −1: the truth */
        for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++) {
                double at[2] = {x, y}, shift[2] = {0, 0}, value = 0;
                for (int i = 0; j >= 0 && i < 8; i++) { /* the corrected pixel X with X − d(X) = (x, y) */
                    motion_model_at(&m.model, at[0], at[1], j, shift);
                    at[0] = x + shift[0], at[1] = y + shift[1];
                }
                for (int i = 0; i < WAVES; i++)
                    value += cos(2 * M_PI * (kx[i] * at[0] + ky[i] * at[1]) + phase[i]);
                (j < 0 ? truth : (float *)m.frame[j])[y * N + x] = (float)value;
            }
    struct motion_sum_options options = {.bin = 1};
    struct motion_sums sums = {.unweighted = sum};
    sum_movie(&m, 2, &options, &sums);
    double square = 0, power = 0;
    for (int y = EDGE; y < N - EDGE; y++)
        for (int x = EDGE; x < N - EDGE; x++) {
            square += pow((double)sum[y * N + x] / FRAMES - (double)truth[y * N + x], 2);
            power += pow((double)truth[y * N + x], 2);
        }
    if (!(sqrt(square / power) < 0.04)) fail_msg("waves are off by %g", sqrt(square / power));
    free(truth);
    free(sum);
    free_movie(&m);
}

/* Fills ret with Re(F conj(T)) / |T|² over shells of 0.05 cycles per px, T the truth. */
static void compare_shells(const float *truth, const float *sum, int n, double ret[10]) {
    struct err err = {0};
    struct fft_plan *plan = NULL;
    struct fft_options options = {.rank = 2, .shape = {n, n}, .direction = FFT_FORWARD};
    must(fft_create(&options, &plan, &err), &err);
    float *image = host_new(fft_real_count(plan), sizeof *image);
    float *spectra[2];
    for (int which = 0; which < 2; which++) {
        spectra[which] = host_new(fft_complex_floats(plan), sizeof(float));
        for (int i = 0; i < n * n; i++) /* a window keeps the border out */
            image[i] = (which ? sum : truth)[i] *
                       (float)pow(sin(M_PI * (i % n + 0.5) / n) * sin(M_PI * ((double)(i / n) + 0.5) / n), 2);
        fft_run(plan, image, spectra[which]);
    }
    double both[10] = {0}, power[10] = {0};
    for (int row = 0; row < n; row++)
        for (int kx = 0; kx <= n / 2; kx++) {
            int shell = (int)(hypot(kx, row <= n / 2 ? row : row - n) / n / 0.05);
            size_t at = 2 * ((size_t)row * (size_t)(n / 2 + 1) + (size_t)kx);
            if (shell > 9) continue;
            for (size_t part = at; part < at + 2; part++) {
                both[shell] += (double)spectra[1][part] * (double)spectra[0][part];
                power[shell] += (double)spectra[0][part] * (double)spectra[0][part];
            }
        }
    for (int shell = 0; shell < 10; shell++)
        ret[shell] = both[shell] / power[shell];
    fft_destroy(&plan);
    free(image);
    free(spectra[0]);
    free(spectra[1]);
}

/* Moves an image exactly, in Fourier space. */
static void move_exactly(float *image, int n, double x, double y, float *ret) {
    struct err err = {0};
    struct fft_plan *there = NULL, *back = NULL;
    struct fft_options options = {.rank = 2, .shape = {n, n}, .direction = FFT_FORWARD};
    must(fft_create(&options, &there, &err), &err);
    options.direction = FFT_INVERSE;
    must(fft_create(&options, &back, &err), &err);
    float *spectrum = host_new(fft_complex_floats(there), sizeof *spectrum);
    fft_run(there, image, spectrum);
    for (int row = 0; row < n; row++)
        for (int kx = 0; kx <= n / 2; kx++) {
            size_t at = 2 * ((size_t)row * (size_t)(n / 2 + 1) + (size_t)kx);
            double complex value = ((double)spectrum[at] + I * (double)spectrum[at + 1]) / n / n;
            value *= cexp(-2 * M_PI * I * (kx * x + (row <= n / 2 ? row : row - n) * y) / n);
            spectrum[at] = (float)creal(value);
            spectrum[at + 1] = (float)cimag(value);
        }
    fft_run(back, spectrum, ret);
    fft_destroy(&there);
    fft_destroy(&back);
    free(spectrum);
}

/* White noise, moved exactly, keeps its detail. Bilinear interpolation keeps 0.65 of it at a third of the pixels. */
static void detail_is_kept(void **state) {
    (void)state;
    enum { N = 256 };
    struct movie m;
    make_movie(&m, N, N, FRAMES, MOTION_F32, false);
    float *truth = host_new(N * N, sizeof *truth), *sum = host_new(N * N, sizeof *sum);
    for (int i = 0; i < N * N; i++)
        truth[i] = (float)(normal() * FRAMES);
    for (int j = 0; j < FRAMES; j++) {
        m.model.x[j] = (float)(j * 1.37);
        m.model.y[j] = (float)(j * -0.77);
        move_exactly(truth, N, (double)-m.model.x[j], (double)-m.model.y[j], m.frame[j]);
    }
    for (int i = 0; i < N * N; i++)
        truth[i] /= FRAMES;
    struct motion_sum_options options = {.bin = 1};
    struct motion_sums sums = {.weighted = sum};
    double kept[10];
    sum_movie(&m, 1, &options, &sums);
    for (int i = 0; i < N * N; i++)
        sum[i] /= FRAMES * FRAMES;
    compare_shells(truth, sum, N, kept);
    printf("detail kept, by 0.05 cycles per px:");
    for (int shell = 0; shell < 10; shell++)
        printf(" %.3f", kept[shell]);
    printf("\n");
    for (int shell = 0; shell < 8; shell++) /* up to 0.4 */
        assert_true(fabs(kept[shell] - 1) < 0.03);
    assert_true(kept[8] > 0.9);
    free(truth);
    free(sum);
    free_movie(&m);
}

static void threads_and_kept_buffers_change_nothing(void **state) {
    (void)state;
    struct err err = {0};
    struct movie m;
    make_movie(&m, 200, 150, FRAMES, MOTION_U8, true);
    drift(&m);
    size_t count = 200 * 150;
    float *image[3][2];
    for (int i = 0; i < 6; i++)
        image[i / 2][i % 2] = host_new(count, sizeof(float));
    struct motion_sum_options options = {.bin = 1, .pixel_size = PIXEL_SIZE, .voltage = 300, .dose = DOSE};
    struct motion_sum_options others = {.bin = 2};
    struct motion_sums sums[3];
    for (int i = 0; i < 3; i++)
        sums[i] = (struct motion_sums){.weighted = image[i][0], .even = image[i][1]};
    sum_movie(&m, 1, &options, &sums[0]);
    sum_movie(&m, 3, &options, &sums[1]);
    struct motion *motion = open_movie(&m, 2);
    must(motion_sum(motion, &m.model, &others, &sums[2], &err), &err);
    must(motion_sum(motion, &m.model, &options, &sums[2], &err), &err);
    motion_destroy(&motion);
    for (int i = 0; i < 6; i++) {
        assert_memory_equal(image[i / 2][i % 2], image[0][i % 2], count * sizeof(float));
        if (i >= 2) free(image[i / 2][i % 2]);
    }
    free(image[0][0]);
    free(image[0][1]);
    free_movie(&m);
}

/* One frame without motion is its own sum; its other half is empty. */
static void one_frame_comes_back(void **state) {
    (void)state;
    struct movie m;
    make_movie(&m, 130, 70, 1, MOTION_U8, false);
    float *image[3];
    for (int i = 0; i < 3; i++)
        image[i] = host_new(130 * 70, sizeof(float));
    struct motion_sum_options options = {.bin = 1, .pixel_size = PIXEL_SIZE, .voltage = 200, .dose = DOSE};
    struct motion_sums sums = {.weighted = image[0], .odd = image[1], .even = image[2]};
    sum_movie(&m, 2, &options, &sums);
    for (int i = 0; i < 130 * 70; i++) {
        assert_true(fabs((double)image[0][i] - value_of(&m, 0, i % 130, i / 130)) < 1e-3);
        assert_true(fabsf(image[0][i] - image[1][i]) < 1e-3F && image[2][i] == 0);
    }
    for (int i = 0; i < 3; i++)
        free(image[i]);
    free_movie(&m);
}

static void absurd_shifts_are_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct movie m;
    make_movie(&m, 100, 80, FRAMES, MOTION_U8, false);
    float *image = host_new(100 * 80, sizeof *image);
    struct motion *motion = open_movie(&m, 1);
    struct motion_sum_options options = {.bin = 1};
    struct motion_sums sums = {.unweighted = image};
    const float absurd[] = {100, -1000, 1e30F, INFINITY, NAN};
    for (int i = 0; i < 5; i++) {
        m.model.x[3] = absurd[i];
        assert_int_equal(motion_sum(motion, &m.model, &options, &sums, &err), STATUS_BAD_ARGUMENT);
    }
    m.model.x[3] = -99; /* nearly all of the frame is the mirrored border */
    must(motion_sum(motion, &m.model, &options, &sums, &err), &err);
    motion_destroy(&motion);
    free(image);
    free_movie(&m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_equal_plain_ones),
        cmocka_unit_test(local_motion_is_followed),
        cmocka_unit_test(waves_come_back),
        cmocka_unit_test(detail_is_kept),
        cmocka_unit_test(threads_and_kept_buffers_change_nothing),
        cmocka_unit_test(one_frame_comes_back),
        cmocka_unit_test(absurd_shifts_are_refused),
    };
    choose_seed(argc > 1 ? argv[1] : "1");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
