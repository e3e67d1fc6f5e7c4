/* Tests that the fixed pattern in the frames of a movie is measured under the noise of counts. */
#include "kernels/gain_residual/gain_residual.h"

#include "common/status.h"
#include "tests/kernels/chance.h"

enum { FRAMES = 20 };

static const char *given_seed;

struct movie {
    struct motion_frames frames;
    void *frame[FRAMES];
    float *response; /* of the pixels */
};

static void movie_free(struct movie *movie) {
    for (int i = 0; i < FRAMES; i++)
        free(movie->frame[i]);
    free(movie->response);
}

/* Makes frames of `dose` electrons a pixel over a specimen that varies within some 20 px, behind pixels whose response
 * deviates by `pattern`. */
static void movie_make(struct movie *movie, int nx, int ny, enum motion_pixels type, double dose, double pattern) {
    size_t pixels = (size_t)nx * (size_t)ny;
    *movie = (struct movie){.response = host_new(pixels, sizeof(float))};
    for (size_t i = 0; i < pixels; i++)
        movie->response[i] = (float)(1 + pattern * normal());
    for (int f = 0; f < FRAMES; f++) {
        movie->frame[f] = host_new(pixels, motion_pixel_size(type));
        for (size_t i = 0; i < pixels; i++) {
            double x = (double)(i % (size_t)nx), y = (double)(i / (size_t)nx);
            double mean = dose * (1 + 0.2 * sin(0.3 * x) * cos(0.25 * y)) * (double)movie->response[i];
            double counts = mean + sqrt(mean) * normal();
            if (type == MOTION_F32) ((float *)movie->frame[f])[i] = (float)counts;
            if (type == MOTION_U16) ((uint16_t *)movie->frame[f])[i] = (uint16_t)lround(fmax(counts, 0));
            if (type == MOTION_U8) ((uint8_t *)movie->frame[f])[i] = (uint8_t)lround(fmin(fmax(counts, 0), 255));
        }
    }
    movie->frames = (struct motion_frames){.nx = nx, .ny = ny, .count = FRAMES, .pixels = type, .frame = movie->frame};
}

static void the_pattern_is_found(void **state) {
    (void)state;
    choose_seed(given_seed);
    const enum motion_pixels types[] = {MOTION_U8, MOTION_U16, MOTION_F32};
    const double patterns[] = {0, 0.03, 0.08};
    for (int t = 0; t < 3; t++)
        for (int p = 0; p < 3; p++) {
            struct movie movie;
            movie_make(&movie, 400, 300, types[t], 20, patterns[p]);
            double found = gain_residual(&movie.frames);
            /* 400 counts a pixel, 98,000 pixels: the square is known to 2.4e-5, and the pattern itself to 1 %. */
            assert_true(fabs(found * found - patterns[p] * patterns[p]) < 1.2e-4 + 0.06 * patterns[p] * patterns[p]);
            movie_free(&movie);
        }
}

static void the_right_gain_takes_it_away(void **state) {
    (void)state;
    choose_seed(given_seed);
    struct movie movie;
    movie_make(&movie, 512, 256, MOTION_U16, 20, 0.1);
    assert_true(gain_residual(&movie.frames) > 0.08);
    for (size_t i = 0; i < (size_t)512 * 256; i++)
        movie.response[i] = 1 / movie.response[i];
    movie.frames.gain = movie.response;
    assert_true(gain_residual(&movie.frames) < 0.015);
    movie_free(&movie);
}

/* One tile without noise: the formula, pixel by pixel. */
static void the_formula_holds(void **state) {
    (void)state;
    choose_seed(given_seed);
    enum { SIDE = 20 };
    struct movie movie;
    movie_make(&movie, SIDE, SIDE, MOTION_F32, 50, 0.1);
    double half[2][SIDE][SIDE] = {{{0}}}, mean[2] = {0}, product = 0;
    for (int f = 0; f < FRAMES; f++)
        for (int i = 0; i < SIDE * SIDE; i++)
            half[f % 2][i / SIDE][i % SIDE] += (double)((float *)movie.frame[f])[i];
    for (int i = 0; i < 2 * SIDE * SIDE; i++)
        mean[i / (SIDE * SIDE)] += half[i / (SIDE * SIDE)][i % (SIDE * SIDE) / SIDE][i % SIDE] / (SIDE * SIDE);
    const double weight[3] = {-1, 2, -1};
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = 1; x < SIDE - 1; x++) {
            double value[2] = {0};
            for (int h = 0; h < 2; h++)
                for (int i = 0; i < 9; i++)
                    value[h] += weight[i / 3] * weight[i % 3] * half[h][y + i / 3 - 1][x + i % 3 - 1];
            product += value[0] * value[1] / ((SIDE - 2) * (SIDE - 2));
        }
    double expected = sqrt(product / (36 * mean[0] * mean[1]));
    assert_float_equal(gain_residual(&movie.frames), expected, 1e-4 * expected);
    movie_free(&movie);
}

static void what_cannot_be_measured_is_nan(void **state) {
    (void)state;
    choose_seed(given_seed);
    struct movie movie;
    movie_make(&movie, 32, 32, MOTION_F32, 10, 0);
    movie.frames.count = 1;
    assert_true(isnan(gain_residual(&movie.frames)));
    movie.frames.count = FRAMES;
    movie.frames.nx = 15;
    assert_true(isnan(gain_residual(&movie.frames)));
    movie.frames.nx = 32;
    for (int f = 0; f < FRAMES; f++)
        memset(movie.frame[f], 0, 32 * 32 * sizeof(float));
    assert_true(isnan(gain_residual(&movie.frames)));
    movie_free(&movie);
}

int main(int argc, char **argv) {
    given_seed = argc > 1 ? argv[1] : "20";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pattern_is_found),
        cmocka_unit_test(the_right_gain_takes_it_away),
        cmocka_unit_test(the_formula_holds),
        cmocka_unit_test(what_cannot_be_measured_is_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
