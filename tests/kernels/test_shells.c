/* Shells of maps that are multiplied by gains, and their power, compared with the definition; the same bits for any
 * number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/differences/shells.h"
#include "tests/kernels/phantom.h"

enum { BOX = 12, MAP = BOX * BOX * BOX, SHELLS = BOX / 2 + 1 };

static uint64_t seed = 20263;

static void noise(float *map) {
    for (int i = 0; i < MAP; i++)
        map[i] = (float)phantom_normal(&seed);
}

/* Computes the definition: a plain transform and its inverse, every point of it, without symmetry. */
static void brute_force(const float *map, const float *gains, double *filtered, double *power) {
    double c[BOX], s[BOX];
    memset(filtered, 0, MAP * sizeof *filtered);
    memset(power, 0, SHELLS * sizeof *power);
    for (int i = 0; i < BOX; i++)
        c[i] = cos(2 * M_PI * i / BOX), s[i] = -sin(2 * M_PI * i / BOX);
    for (int k = 0; k < MAP; k++) {
        int at[3] = {k % BOX - BOX / 2, k / BOX % BOX - BOX / 2, k / BOX / BOX - BOX / 2}, turn[MAP];
        int shell = (int)(sqrt(at[0] * at[0] + at[1] * at[1] + at[2] * at[2]) + 0.5);
        double re = 0, im = 0;
        if (shell >= SHELLS) continue;
        for (int i = 0; i < MAP; i++) {
            turn[i] = (at[0] * (i % BOX) + at[1] * (i / BOX % BOX) + at[2] * (i / BOX / BOX)) % BOX;
            turn[i] = (turn[i] + BOX) % BOX;
            re += (double)map[i] * c[turn[i]], im += (double)map[i] * s[turn[i]];
        }
        power[shell] += re * re + im * im;
        for (int i = 0; i < MAP; i++)
            filtered[i] += (double)gains[shell] * (re * c[turn[i]] + im * s[turn[i]]) / MAP;
    }
}

static void agrees_with_the_definition(void **state) {
    (void)state;
    struct shells *shells = NULL;
    float map[MAP], gains[SHELLS];
    double filtered[MAP], truth[SHELLS], power[SHELLS];
    noise(map);
    for (int i = 0; i < SHELLS; i++)
        gains[i] = (float)phantom_normal(&seed);
    brute_force(map, gains, filtered, truth);
    assert_int_equal(shells_create(BOX, 2, &shells, NULL), STATUS_OK);
    shells_power(shells, map, power);
    shells_filter(shells, gains, map);
    for (int i = 0; i < SHELLS; i++)
        assert_true(fabs(power[i] - truth[i]) < 1e-5 * truth[i]);
    for (int i = 0; i < MAP; i++)
        assert_true(fabs((double)map[i] - filtered[i]) < 1e-5);
    shells_destroy(&shells);
    assert_null(shells);
}

static void threads_change_nothing(void **state) {
    (void)state;
    float maps[2][MAP], gains[SHELLS];
    double power[2][SHELLS];
    noise(maps[0]);
    memcpy(maps[1], maps[0], sizeof maps[0]);
    for (int i = 0; i < SHELLS; i++)
        gains[i] = 1 / (float)(1 + i);
    for (int i = 0; i < 2; i++) {
        struct shells *shells = NULL;
        assert_int_equal(shells_create(BOX, 1 + 2 * i, &shells, NULL), STATUS_OK);
        shells_power(shells, maps[i], power[i]);
        shells_filter(shells, gains, maps[i]);
        shells_destroy(&shells);
    }
    assert_memory_equal(maps[0], maps[1], sizeof maps[0]);
    assert_memory_equal(power[0], power[1], sizeof power[0]);
}

static void odd_boxes_have_none(void **state) {
    (void)state;
    struct shells *shells = NULL;
    assert_int_equal(shells_create(13, 1, &shells, NULL), STATUS_BAD_ARGUMENT);
    assert_null(shells);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(odd_boxes_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
