/* Tests that a gain reference comes out of movies of different specimens: nearer to the truth than their plain mean,
 * and never worse than none. */
#include "kernels/gain_estimate/gain_estimate.h"

#include "tests/kernels/chance.h"

enum { NX = 240, NY = 200, FRAMES = 2 };
static const char *given_seed;
static float response[NX * NY];

/* Half the detector is 4 % less sensitive, and pixels differ by 5 %. */
static void make_response(double detail) {
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++)
            response[y * NX + x] = (float)((x < NX / 2 ? 0.98 : 1.02) * (1 + detail * normal()));
    response[5000] = 0;
    response[7777] = 60;
    response[NX * NY - 1] = 0.05f;
    response[12345] = 1.5f;
}

/* Exposes a movie of `dose` counts a pixel behind a specimen of its own. */
static void expose(double dose, uint16_t *counts[FRAMES]) {
    double phase = 6.28 * uniform(), slope = 0.4 * (uniform() - 0.5);
    for (int f = 0; f < FRAMES; f++)
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < NX; x++) {
                double specimen = 1 + slope * (2.0 * x / NX - 1) + 0.1 * sin(0.03 * x + 0.05 * y + phase);
                double mean = dose / FRAMES * specimen * (double)response[y * NX + x];
                double count = mean + sqrt(mean) * normal();
                counts[f][y * NX + x] = (uint16_t)lround(count > 0 ? count : 0);
            }
}

/* Returns the deviation of gain × response over pixels that are not bad, in parts of the mean. gain NULL: none. */
static double unevenness(const float *gain) {
    double sum = 0, squares = 0, count = 0;
    for (size_t i = 0; i < NX * NY; i++) {
        if (i == 5000 || i == 7777 || i == NX * NY - 1) continue;
        double even = (gain != NULL ? (double)gain[i] : 1) * (double)response[i];
        sum += even;
        squares += even * even;
        count++;
    }
    return sqrt(squares / count - sum / count * (sum / count)) / (sum / count);
}

static void check(int movies, double dose, double detail, double *ret_none, double *ret_mean, double *ret_estimate,
                  struct gain_estimate_report *report, float *gain) {
    struct err err = {0};
    struct gain_estimate *estimate = NULL;
    uint16_t *counts[FRAMES];
    float *mean = host_new(NX * NY, sizeof *mean), *sum = host_new(NX * NY, sizeof *sum);
    for (int f = 0; f < FRAMES; f++)
        counts[f] = host_new(NX * NY, sizeof *counts[f]);
    const struct motion_frames frames = {
        .nx = NX, .ny = NY, .count = FRAMES, .pixels = MOTION_U16, .frame = (void *const *)counts};
    make_response(detail);
    must(gain_estimate_create(NX, NY, &estimate, &err), &err);
    for (int m = 0; m < movies; m++) {
        expose(dose, counts);
        must(gain_estimate_add(estimate, &frames, 1 + m % 3, &err), &err);
        for (int f = 0; f < FRAMES; f++)
            for (int i = 0; i < NX * NY; i++)
                sum[i] += counts[f][i];
    }
    must(gain_estimate_finish(estimate, gain, report, &err), &err);
    for (int i = 0; i < NX * NY; i++)
        mean[i] = sum[i] > 0 ? (float)(movies * dose) / sum[i] : 1;
    *ret_none = unevenness(NULL);
    *ret_mean = unevenness(mean);
    *ret_estimate = unevenness(gain);
    printf("%d movies of %g counts: unevenness %.4f without gain, %.4f with the plain mean, %.4f with the estimate; "
           "variation %.4f, noise %.4f\n",
           movies, dose, *ret_none, *ret_mean, *ret_estimate, report->variation, report->noise);
    gain_estimate_destroy(&estimate);
    for (int f = 0; f < FRAMES; f++)
        free(counts[f]);
    free(mean);
    free(sum);
}

static void a_gain_is_estimated(void **state) {
    (void)state;
    choose_seed(given_seed);
    float *gain = host_new(NX * NY, sizeof *gain);
    const int movies[] = {3, 12, 60};
    const double most[] = {0.95, 0.85, 0.5}; /* of the unevenness without a gain */
    for (int i = 0; i < 3; i++) {
        struct gain_estimate_report report = {0};
        double none = 0, mean = 0, estimate = 0;
        check(movies[i], 50, 0.05, &none, &mean, &estimate, &report, gain);
        assert_true(estimate < (i < 2 ? 0.95 : 1.3) * mean && estimate < most[i] * none);
        assert_true(report.movies == movies[i] && fabs(report.counts / (50.0 * movies[i]) - 1) < 0.02);
        assert_true(fabs(report.variation / 0.05 - 1) < (i == 0 ? 0.4 : 0.2));
        assert_true(fabs(report.noise * sqrt(50.0 * movies[i]) - 1) < 0.15);
        assert_int_equal(report.bad, 3);
        assert_true(gain[5000] == 0 && gain[7777] == 0 && gain[NX * NY - 1] == 0 && gain[5001] > 0);
        assert_float_equal(gain[12345] * 1.5f, 1, i == 0 ? 0.4 : 0.2);
    }
    free(gain);
}

/* Two movies of few counts cannot show a variation of 0.5 %, and must not put their noise into its place. */
static void noise_is_no_gain(void **state) {
    (void)state;
    choose_seed(given_seed);
    float *gain = host_new(NX * NY, sizeof *gain);
    struct gain_estimate_report report = {0};
    double none = 0, mean = 0, estimate = 0;
    check(2, 20, 0.005, &none, &mean, &estimate, &report, gain);
    assert_true(mean > 4 * none && estimate < 1.5 * none);
    free(gain);
}

static void wrong_movies_are_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct gain_estimate *estimate = NULL;
    float *gain = host_new(NX * NY, sizeof *gain);
    uint8_t *frame = host_new(NX * NY, 1);
    void *const frames[] = {frame, frame};
    struct motion_frames movie = {.nx = NX, .ny = NY, .count = 2, .pixels = MOTION_U8, .frame = frames};
    must(gain_estimate_create(NX, NY, &estimate, &err), &err);
    assert_int_equal(gain_estimate_add(estimate, &movie, 1, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "hold no counts"));
    memset(frame, 1, NX * NY);
    must(gain_estimate_add(estimate, &movie, 1, &err), &err);
    assert_int_equal(gain_estimate_finish(estimate, gain, NULL, &err), STATUS_BAD_STATE);
    assert_non_null(strstr(err.message, "1 movie: a gain reference is made of 2"));
    movie.nx--;
    assert_int_equal(gain_estimate_add(estimate, &movie, 1, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "its frames have 239 × 200 px, those of the movies before 240 × 200"));
    movie.nx++;
    must(gain_estimate_add(estimate, &movie, 1, &err), &err);
    must(gain_estimate_finish(estimate, gain, NULL, &err), &err);
    for (int i = 0; i < NX * NY; i++)
        assert_true(gain[i] == 1);
    gain_estimate_destroy(&estimate);
    free(gain);
    free(frame);
}

int main(int argc, char **argv) {
    given_seed = argc > 1 ? argv[1] : "20";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gain_is_estimated),
        cmocka_unit_test(noise_is_no_gain),
        cmocka_unit_test(wrong_movies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
