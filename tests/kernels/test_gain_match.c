/* Tests that the turn of a gain reference is found in the counts of one movie. */
#include "kernels/gain_match/gain_match.h"

#include "common/status.h"
#include "tests/kernels/chance.h"

static const char *given_seed;

/* Counts of `dose` electrons a pixel behind a gain with a deviation of 4 %, over a specimen and a bad pixel or two. */
static float *counts_of(const float *gain, int nx, int ny, double dose, uint8_t *bad) {
    float *sum = host_new((size_t)nx * (size_t)ny, sizeof *sum);
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            size_t at = (size_t)y * (size_t)nx + (size_t)x;
            double mean = dose * (1 + 0.3 * sin(0.05 * x) * cos(0.03 * y)) / (gain[at] > 0 ? (double)gain[at] : 1);
            sum[at] = (float)(mean + sqrt(mean) * normal());
            bad[at] = at % 5003 == 7;
            if (bad[at]) sum[at] = 1e6f;
        }
    return sum;
}

static void the_turn_is_found(void **state) {
    (void)state;
    choose_seed(given_seed);
    const int shapes[][2] = {{300, 300}, {400, 250}};
    for (int s = 0; s < 2; s++) {
        int nx = shapes[s][0], ny = shapes[s][1];
        size_t pixels = (size_t)nx * (size_t)ny;
        float *gain = host_new(pixels, sizeof *gain), *turned = host_new(pixels, sizeof *turned);
        uint8_t *bad = host_new(pixels, 1);
        for (size_t i = 0; i < pixels; i++)
            gain[i] = i % 4001 == 0 ? 0 : (float)(1 + 0.04 * normal());
        float *sum = counts_of(gain, nx, ny, 10, bad);
        for (int i = 0; i < TURN_COUNT; i++) {
            if (turn_at(i).rotate % 2 == 1 && nx != ny) continue;
            struct turn back = {0};
            struct gain_match match = {0}, same = {0};
            turn_image(turn_at(i), gain, nx, ny, turned);
            gain_match(sum, bad, turned, nx, ny, 3, &match);
            gain_match(sum, bad, turned, nx, ny, 1, &same);
            assert_memory_equal(&match, &same, sizeof match);
            assert_int_equal(gain_match_judge(&match, &back), i == 0 ? GAIN_RIGHT : GAIN_TURNED);
            assert_true(turn_same(turn_both(turn_at(i), back), turn_at(0)));
            /* A reference by which one should divide, turned as well. */
            for (size_t p = 0; p < pixels; p++)
                if (turned[p] > 0) turned[p] = 1 / turned[p];
            gain_match(sum, bad, turned, nx, ny, 2, &match);
            assert_int_equal(gain_match_judge(&match, &back), GAIN_INVERSE);
            assert_true(turn_same(turn_both(turn_at(i), back), turn_at(0)));
        }
        free(gain);
        free(turned);
        free(sum);
        free(bad);
    }
}

static void nothing_is_said_without_a_reason(void **state) {
    (void)state;
    choose_seed(given_seed);
    enum { N = 300 };
    float *gain = host_new(N * N, sizeof *gain), *other = host_new(N * N, sizeof *other);
    uint8_t *bad = host_new(N * N, 1);
    struct turn turn = {.rotate = 3};
    struct gain_match match = {0};
    for (int i = 0; i < N * N; i++) {
        gain[i] = (float)(1 + 0.04 * normal());
        other[i] = 1;
    }
    float *sum = counts_of(other, N, N, 40, bad); /* corrected already */
    gain_match(sum, bad, gain, N, N, 2, &match);
    assert_int_equal(gain_match_judge(&match, &turn), GAIN_UNCERTAIN);
    assert_true(turn_same(turn, turn_at(0)));
    gain_match(sum, NULL, other, N, N, 2, &match); /* a reference of ones */
    assert_int_equal(gain_match_judge(&match, &turn), GAIN_UNCERTAIN);
    memset(sum, 0, N * N * sizeof *sum);
    gain_match(sum, bad, gain, N, N, 2, &match);
    assert_int_equal(gain_match_judge(&match, &turn), GAIN_UNCERTAIN);
    gain_match(sum, NULL, gain, 2, 2, 1, &match);
    assert_int_equal(gain_match_judge(&match, &turn), GAIN_UNCERTAIN);
    free(sum);
    /* A symmetric reference lies right in several turns. */
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++)
            other[y * N + x] = gain[y * N + (x < N / 2 ? x : N - 1 - x)];
    sum = counts_of(other, N, N, 40, bad);
    gain_match(sum, bad, other, N, N, 2, &match);
    assert_int_equal(gain_match_judge(&match, &turn), GAIN_RIGHT);
    assert_true(turn_same(turn, turn_at(0)));
    free(sum);
    free(gain);
    free(other);
    free(bad);
}

int main(int argc, char **argv) {
    given_seed = argc > 1 ? argv[1] : "20";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_turn_is_found),
        cmocka_unit_test(nothing_is_said_without_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
