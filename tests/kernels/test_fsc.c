/* Fourier shell correlation of equal maps, opposite maps, noise, and a mixture, compared with the definition. Spherical
 * masks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "tests/kernels/phantom.h"

enum { BOX = 16, MAP = BOX * BOX * BOX, SHELLS = BOX / 2 + 1 };

static uint64_t seed = 60119;

static void noise(float *map) {
    for (int i = 0; i < MAP; i++)
        map[i] = (float)phantom_normal(&seed);
}

/* Computes the definition: a plain transform, every point of it, without symmetry. */
static void brute_force(const float *a, const float *b, double *fsc) {
    double sums[SHELLS][3] = {0}, c[BOX], s[BOX];
    for (int i = 0; i < BOX; i++)
        c[i] = cos(2 * M_PI * i / BOX), s[i] = -sin(2 * M_PI * i / BOX);
    for (int kz = -BOX / 2; kz < BOX / 2; kz++)
        for (int ky = -BOX / 2; ky < BOX / 2; ky++)
            for (int kx = -BOX / 2; kx < BOX / 2; kx++) {
                int shell = (int)(sqrt(kx * kx + ky * ky + kz * kz) + 0.5);
                if (shell >= SHELLS) continue;
                double f[2][2] = {0};
                for (int i = 0; i < MAP; i++) {
                    int x = i % BOX, y = i / BOX % BOX, z = i / BOX / BOX;
                    int turn = ((kx * x + ky * y + kz * z) % BOX + BOX) % BOX;
                    f[0][0] += (double)a[i] * c[turn], f[0][1] += (double)a[i] * s[turn];
                    f[1][0] += (double)b[i] * c[turn], f[1][1] += (double)b[i] * s[turn];
                }
                sums[shell][0] += f[0][0] * f[1][0] + f[0][1] * f[1][1];
                sums[shell][1] += f[0][0] * f[0][0] + f[0][1] * f[0][1];
                sums[shell][2] += f[1][0] * f[1][0] + f[1][1] * f[1][1];
            }
    for (int i = 0; i < SHELLS; i++)
        fsc[i] = sums[i][0] / sqrt(sums[i][1] * sums[i][2]);
}

static void agrees_with_the_definition(void **state) {
    (void)state;
    float a[MAP], b[MAP], fsc[SHELLS];
    double truth[SHELLS];
    phantom_map(BOX, a);
    noise(b);
    for (int i = 0; i < MAP; i++)
        b[i] = a[i] + 0.2f * b[i];
    assert_int_equal(fsc_maps(NULL, BOX, a, b, fsc, NULL), STATUS_OK);
    brute_force(a, b, truth);
    for (int i = 0; i < SHELLS; i++)
        assert_true(fabs((double)fsc[i] - truth[i]) < 1e-4);
}

static void equal_opposite_and_empty(void **state) {
    (void)state;
    float a[MAP], b[MAP], fsc[SHELLS];
    noise(a);
    assert_int_equal(fsc_maps(NULL, BOX, a, a, fsc, NULL), STATUS_OK);
    for (int i = 0; i < SHELLS; i++)
        assert_true(fabsf(fsc[i] - 1) < 1e-5f);
    assert_true(fabs(fsc_resolution(fsc, BOX, 1.5, 0.143) - 3) < 1e-9); /* Nyquist */
    for (int i = 0; i < MAP; i++)
        b[i] = -a[i];
    assert_int_equal(fsc_maps(NULL, BOX, a, b, fsc, NULL), STATUS_OK);
    for (int i = 0; i < SHELLS; i++)
        assert_true(fabsf(fsc[i] + 1) < 1e-5f);
    memset(b, 0, sizeof b);
    assert_int_equal(fsc_maps(NULL, BOX, a, b, fsc, NULL), STATUS_OK);
    for (int i = 0; i < SHELLS; i++)
        assert_true(fsc[i] == 0);
    assert_int_equal(fsc_maps(NULL, 15, a, b, fsc, NULL), STATUS_BAD_ARGUMENT);
}

static void resolution_is_the_last_shell_before_the_fall(void **state) {
    (void)state;
    const float fsc[9] = {1, 0.9f, 0.8f, 0.5f, 0.1f, 0.6f, 0.2f, 0, 0};
    assert_true(fabs(fsc_resolution(fsc, 16, 2, 0.143) - 16 * 2 / 3.0) < 1e-9); /* a later rise does not count */
    assert_true(fabs(fsc_resolution(fsc, 16, 2, 0.85) - 32) < 1e-9);
    assert_true(fsc_resolution(fsc, 16, 2, 0.95) == 999);
}

static void spheres_are_soft(void **state) {
    (void)state;
    float map[MAP];
    for (int i = 0; i < MAP; i++)
        map[i] = 2;
    mask_sphere(3, BOX, map, 3, 2, 0);
    const float *row = map + (BOX / 2 * BOX + BOX / 2) * BOX + BOX / 2;
    assert_true(row[0] == 2 && row[2] == 2 && fabsf(row[3] - 2) < 1e-6f && fabsf(row[4] - 1) < 1e-6f && row[5] == 0);
    assert_true(row[-4] == row[4] && map[0] == 0);
    for (int i = 0; i < MAP; i++)
        map[i] = i / BOX / BOX == BOX / 2 ? 7 : 3;
    mask_sphere(3, BOX, map, 2, 0, 1);
    assert_true(map[(BOX / 2 * BOX + BOX / 2) * BOX + BOX / 2] == 7);
    assert_true(map[0] > 3 && map[0] < 3.5f && map[0] == map[MAP - 1]);
    mask_sphere(2, BOX, map, 2, 0, 0);
    assert_true(map[0] == 0 && map[BOX * BOX] != 0); /* one image; nothing is written beyond it */
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(equal_opposite_and_empty),
        cmocka_unit_test(resolution_is_the_last_shell_before_the_fall),
        cmocka_unit_test(spheres_are_soft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
