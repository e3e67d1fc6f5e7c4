/* Independent numbers in shells of noise: white noise, noise that is alike all around, and noise of a known angular
 * spectrum. How far the FSC of such noise scatters. */
#include "kernels/fsc/independent.h"

#include <limits.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/fft.h"
#include "kernels/fsc/fsc.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/kernels/chance.h"
#include "tests/kernels/phantom.h"

enum { BOX = 32, MAP = BOX * BOX * BOX, COLUMNS = BOX / 2 + 1, SHELLS = BOX / 2 + 1, SEEDS = 6, POINTS = 150 };
enum { WHOLE = 8 }; /* the last shell of which all voxels are looked at */
/* A small shell, and one of which a part is looked at. */
static const int SOME[] = {6, 12};
enum { SOME_COUNT = sizeof SOME / sizeof *SOME };

#ifndef _OPENMP /* with the thread sanitizer */
static int omp_get_max_threads(void) {
    return 1;
}
static void omp_set_num_threads(int threads) {
    (void)threads;
}
#endif

static float maps[2][MAP];
static float spectrum[2 * BOX * BOX * COLUMNS];

static int shell_of(int x, int y, int z) {
    return (int)(sqrt(x * x + y * y + z * z) + 0.5);
}

static int voxels_of(int shell) {
    int count = 0;
    for (int z = -shell; z <= shell; z++)
        for (int y = -shell; y <= shell; y++)
            for (int x = -shell; x <= shell; x++)
                count += shell_of(x, y, z) == shell;
    return count;
}

static void white(float *map) {
    for (int i = 0; i < MAP; i++)
        map[i] = (float)normal();
}

struct points {
    double at[POINTS][3], weight[POINTS];
};

static void scatter(struct points *p) {
    for (int i = 0; i < POINTS; i++) {
        double v[3] = {normal(), normal(), normal()}, length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        for (int j = 0; j < 3; j++)
            p->at[i][j] = v[j] / length;
        p->weight[i] = normal();
    }
}

/* Computes the even and the odd part of Σ weight · Σ_(l ≤ last) (2l + 1) P_l(cos): noise on the sphere with the same
 * power in all harmonics up to `last`, (last + 1)² in number. */
static void harmonics(const struct points *p, int last, const double u[3], double ret_parts[2]) {
    ret_parts[0] = ret_parts[1] = 0;
    for (int i = 0; i < POINTS; i++) {
        double c = u[0] * p->at[i][0] + u[1] * p->at[i][1] + u[2] * p->at[i][2], before = 0, legendre = 1;
        for (int l = 0; l <= last; l++) {
            ret_parts[l % 2] += p->weight[i] * (2 * l + 1) * legendre;
            double next = ((2 * l + 1) * c * legendre - l * before) / (l + 1);
            before = legendre, legendre = next;
        }
    }
}

/* Makes noise with (last + 1)² independent numbers in each shell of SOME, about the map's centre. */
static void angular(float *map, int last) {
    struct fft_plan *plan = NULL;
    struct points points[SOME_COUNT];
    struct err err = {0};
    for (int i = 0; i < SOME_COUNT; i++)
        scatter(&points[i]);
    memset(spectrum, 0, sizeof spectrum);
    for (int kz = -BOX / 2 + 1; kz < BOX / 2; kz++)
        for (int ky = -BOX / 2 + 1; ky < BOX / 2; ky++)
            for (int kx = 0; kx < BOX / 2; kx++)
                for (int i = 0; i < SOME_COUNT; i++) {
                    if (shell_of(kx, ky, kz) != SOME[i]) continue;
                    double length = sqrt(kx * kx + ky * ky + kz * kz), parts[2];
                    const double u[3] = {kx / length, ky / length, kz / length};
                    float *at = spectrum + 2 * (((kz + BOX) % BOX * BOX + (ky + BOX) % BOX) * COLUMNS + kx);
                    harmonics(&points[i], last, u, parts);
                    for (int j = 0; j < 2; j++)
                        at[j] = (float)(((kx + ky + kz) % 2 == 0 ? 1 : -1) * parts[j]);
                }
    const struct fft_options options = {.rank = 3, .shape = {BOX, BOX, BOX}, .direction = FFT_INVERSE, .threads = 1};
    must(fft_create(&options, &plan, &err), &err);
    float *real = host_new(MAP, sizeof *real), *in = host_new(sizeof spectrum / sizeof *spectrum, sizeof *in);
    memcpy(in, spectrum, sizeof spectrum);
    fft_run(plan, in, real);
    memcpy(map, real, sizeof(float) * MAP);
    mem_free(&real), mem_free(&in);
    fft_destroy(&plan);
}

static enum status count(int first, int last, const struct symmetry *symmetry, double *ret_numbers, struct err *err) {
    const struct independent_shells shells = {.box = BOX, .first = first, .last = last, .symmetry = symmetry};
    return fsc_independent(NULL, &shells, maps[0], maps[1], ret_numbers, err);
}

static void between(const char *what, int shell, double value, double least, double most) {
    if (!(value >= least && value <= most))
        fail_msg("%s, shell %d: %.4g, %.4g to %.4g was expected", what, shell, value, least, most);
}

/* Numbers scatter by about 2/√N of them, and by a fifth where a part of the voxels is looked at. There are no more than
 * voxels. A signal that both maps hold changes nothing. */
static void white_noise_has_as_many_numbers_as_voxels(void **state) {
    (void)state;
    static float signal[MAP];
    double numbers[SHELLS], mean[SHELLS] = {0};
    struct err err = {0};
    phantom_map(BOX, signal);
    for (int repeat = 0; repeat < SEEDS; repeat++) {
        white(maps[0]), white(maps[1]);
        for (int i = 0; i < MAP; i++)
            maps[0][i] += 100 * signal[i], maps[1][i] += 100 * signal[i];
        must(count(1, SHELLS - 2, NULL, numbers, &err), &err);
        for (int s = 4; s < SHELLS - 1; s++) {
            double known = voxels_of(s);
            between("white noise", s, numbers[s] / known, (s <= WHOLE ? 0.85 : 0.7) - 2 / sqrt(known), 1.02);
            mean[s] += numbers[s] / known / SEEDS;
        }
    }
    for (int s = 4; s < SHELLS - 1; s++) {
        between("white noise, mean", s, mean[s], 0.9, 1.01);
    }
}

static void angular_noise_has_as_many_as_harmonics(void **state) {
    (void)state;
    static const int LAST[] = {0, 1, 3, 7, 11};
    struct err err = {0};
    for (size_t c = 0; c < sizeof LAST / sizeof *LAST; c++) {
        double known = (LAST[c] + 1) * (LAST[c] + 1), mean[SOME_COUNT] = {0};
        for (int repeat = 0; repeat < SEEDS; repeat++)
            for (int i = 0; i < SOME_COUNT; i++) {
                double numbers[SHELLS];
                if (i == 0) angular(maps[0], LAST[c]), angular(maps[1], LAST[c]);
                must(count(SOME[i], SOME[i], NULL, numbers, &err), &err);
                mean[i] += numbers[SOME[i]] / SEEDS;
            }
        for (int i = 0; i < SOME_COUNT; i++) {
            print_message("%g numbers, shell %d: %.4g are found\n", known, SOME[i], mean[i]);
            double too_few = known / (1 + 2 / sqrt(known));
            between("angular noise", SOME[i], mean[i], LAST[c] == 0 ? 0.99 : 0.7 * too_few, 1.05 * known);
        }
    }
}

/* The deviation of the FSC over many pairs is 1/√N. */
static void chance_is_one_over_the_root(void **state) {
    (void)state;
    enum { PAIRS = 150, LAST = 3 };
    double squares[SOME_COUNT] = {0};
    struct err err = {0};
    for (int pair = 0; pair < PAIRS; pair++) {
        float fsc[SHELLS];
        angular(maps[0], LAST), angular(maps[1], LAST);
        must(fsc_maps(NULL, BOX, maps[0], maps[1], fsc, &err), &err);
        for (int i = 0; i < SOME_COUNT; i++)
            squares[i] += (double)fsc[SOME[i]] * (double)fsc[SOME[i]] / PAIRS;
    }
    /* 150 values tell the deviation to 6 %. */
    for (int i = 0; i < SOME_COUNT; i++)
        between("the deviation of FSC", SOME[i], sqrt(squares[i]) * (LAST + 1), 0.75, 1.25);
}

/* Averaged over copies, white noise has as many numbers as one copy of the voxels; the FSC scatters accordingly. Voxels
 * on axes have fewer copies. */
static void copies_by_symmetry_count_once(void **state) {
    (void)state;
    enum { PAIRS = 60 };
    struct symmetry symmetry = {0};
    double squares[SOME_COUNT] = {0}, numbers[SHELLS], mean[SOME_COUNT] = {0};
    struct err err = {0};
    must(symmetry_create("O", &symmetry, &err), &err);
    for (int pair = 0; pair < PAIRS; pair++) {
        float fsc[SHELLS];
        for (int i = 0; i < 2; i++) {
            white(maps[i]);
            must(symmetry_average_map(&symmetry, BOX, maps[i], &err), &err);
        }
        must(fsc_maps(NULL, BOX, maps[0], maps[1], fsc, &err), &err);
        must(count(SOME[0], SOME[SOME_COUNT - 1], &symmetry, numbers, &err), &err);
        for (int i = 0; i < SOME_COUNT; i++) {
            squares[i] += (double)fsc[SOME[i]] * (double)fsc[SOME[i]] / PAIRS;
            mean[i] += 1 / numbers[SOME[i]] / PAIRS;
        }
    }
    for (int i = 0; i < SOME_COUNT; i++) {
        print_message("shell %d: %.4g numbers of %d voxels, the FSC scatters as of %.4g\n", SOME[i], 1 / mean[i],
                      voxels_of(SOME[i]), 1 / squares[i]);
        between("numbers of one copy", SOME[i], 1 / mean[i] / (voxels_of(SOME[i]) / (double)symmetry.count), 0.4, 1.3);
        between("deviation", SOME[i], sqrt(squares[i] / mean[i]), 0.45, 1.3);
    }
    symmetry_destroy(&symmetry);
}

/* Counts again and again, with more threads than shells too: the same to the last bit. */
static void numbers_are_the_same_with_any_threads(void **state) {
    (void)state;
    enum { REPEATS = 12 };
    double numbers[SHELLS] = {0}, again[SHELLS] = {0};
    struct err err = {0};
    const int threads = omp_get_max_threads();
    angular(maps[0], 3), white(maps[1]);
    omp_set_num_threads(1);
    must(count(1, SHELLS - 2, NULL, numbers, &err), &err);
    for (int i = 0; i < REPEATS; i++) {
        omp_set_num_threads(1 + i % 20);
        must(count(1, SHELLS - 2, NULL, again, &err), &err);
        for (int s = 1; s < SHELLS - 1; s++)
            if (again[s] != numbers[s]) fail_msg("shell %d: %.17g, %.17g with one thread", s, again[s], numbers[s]);
    }
    omp_set_num_threads(threads);
}

static void bounds_are_checked(void **state) {
    (void)state;
    double numbers[SHELLS] = {0};
    white(maps[0]);
    memcpy(maps[1], maps[0], sizeof maps[1]);
    assert_int_equal(count(1, SHELLS - 2, NULL, numbers, NULL), STATUS_OK);
    for (int s = 1; s < SHELLS - 1; s++) /* without noise nothing is alike */
        assert_true(numbers[s] == voxels_of(s));
    assert_int_equal(count(0, 3, NULL, numbers, NULL), STATUS_BAD_ARGUMENT);
    assert_int_equal(count(1, SHELLS - 1, NULL, numbers, NULL), STATUS_BAD_ARGUMENT);
    const struct independent_shells odd = {.box = 15, .first = 1, .last = 3};
    assert_int_equal(fsc_independent(NULL, &odd, maps[0], maps[1], numbers, NULL), STATUS_BAD_ARGUMENT);
    numbers[3] = -1;
    assert_int_equal(count(3, 2, NULL, numbers, NULL), STATUS_OK);
    assert_true(numbers[3] == -1);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_noise_has_as_many_numbers_as_voxels),
        cmocka_unit_test(angular_noise_has_as_many_as_harmonics),
        cmocka_unit_test(chance_is_one_over_the_root),
        cmocka_unit_test(copies_by_symmetry_count_once),
        cmocka_unit_test(numbers_are_the_same_with_any_threads),
        cmocka_unit_test(bounds_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
