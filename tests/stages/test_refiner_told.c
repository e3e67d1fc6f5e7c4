/* The resolution that is told: shared shells that nothing beyond confirms, and shells that hold a part of the signal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "stages/refiner/told.h"

enum { SHELLS = 17, SHARED = 5 };

static void told_shells(void **state) {
    (void)state;
    static const struct {
        float shared[SHARED], beyond[3]; /* FSC of shells 1 to 5, of 6 to 8 */
        double held;
        int reached, told;
    } CASES[] = {
        /* Nothing beyond the shared shells: these count to 0.4. */
        {{0.9f, 0.7f, 0.6f, 0.45f, 0.4f}, {0.1f}, 1, 5, 5},
        {{0.9f, 0.7f, 0.6f, 0.39f, 0.5f}, {0.1f}, 1, 5, 3},
        {{0.3f, 0.7f, 0.6f, 0.49f, 0.5f}, {0.1f}, 1, 5, 0},
        {{0.9f, 0.7f, 0.6f, 0.1f, 0.5f}, {0.1f}, 1, 3, 3},
        /* A shell beyond by itself is not believed (mstep_believed_shell). */
        {{0.9f, 0.7f, 0.6f, 0.3f, 0.3f}, {0.2f, 0.1f}, 1, 5, 3},
        /* They agree beyond: all count to 0.143. */
        {{0.9f, 0.7f, 0.4f, 0.2f, 0.3f}, {0.2f, 0.15f, 0.1f}, 1, 7, 7},
        {{0.9f, 0.7f, 0.4f, 0.2f, 0.3f}, {0.2f, 0.143f, 0.1f}, 1, 7, 7},
        /* Shells that hold 0.6 of what evenly seen ones do: 0.5 is reached at sqrt(2F/(1 + F)) = 0.83, F = 0.53. */
        {{0.99f, 0.9f, 0.8f, 0.7f, 0.6f}, {0.54f, 0.52f, 0.2f}, 0.6, 8, 6},
        {{0.99f, 0.9f, 0.8f, 0.7f, 0.6f}, {0.54f, 0.52f, 0.2f}, 0.4, 8, 0}, /* and never */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        float fsc[SHELLS] = {1};
        double held[SHELLS];
        memcpy(fsc + 1, CASES[i].shared, sizeof CASES[i].shared);
        memcpy(fsc + 1 + SHARED, CASES[i].beyond, sizeof CASES[i].beyond);
        for (int s = 0; s < SHELLS; s++)
            held[s] = CASES[i].held;
        int told = told_shell(fsc, held, SHARED, CASES[i].reached);
        if (told != CASES[i].told) fail_msg("case %zu: shell %d is told, %d was expected", i, told, CASES[i].told);
    }
}

/* Many particles, from all sides, or all within 20 degrees of one. An FSC of 0.15 in shells 7 to 12 is good enough
 * for the first, whose map agrees with the truth to 0.51; that of the second to 0.47. */
static void one_side_is_told(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static struct particle particles[COUNT];
    static int members[2][COUNT / 2];
    struct err err = {0};
    float fsc[SHELLS] = {1, 1, 0.99f, 0.95f, 0.9f, 0.8f, 0.7f, 0.15f, 0.15f, 0.15f, 0.15f, 0.15f, 0.15f, 0.1f};
    struct refiner r = {.box = 32, .shells = SHELLS, .pixel_size = 4, .resolution = 128.0 / 12, .fsc = fsc};
    r.set.particles = particles;
    assert_int_equal(symmetry_create("C1", &r.symmetry, &err), STATUS_OK);
    for (int narrow = 0; narrow < 2; narrow++) {
        for (int i = 0; i < COUNT; i++) {
            double u = (i + 0.5) / COUNT, turn = i * M_PI * (3 - sqrt(5));
            double z = 1 - (narrow ? 1 - cos(20 * M_PI / 180) : 2) * u, flat = sqrt(1 - z * z);
            const double view[3] = {flat * cos(turn), flat * sin(turn), z};
            memcpy(particles[i].pose + 6, view, sizeof view);
            members[i % 2][i / 2] = i;
        }
        for (int h = 0; h < 2; h++)
            r.sides[h].members = members[h], r.sides[h].member_count = COUNT / 2;
        assert_int_equal(told_find(&r, 0, &err), STATUS_OK);
        double shell = 128 / r.told;
        if (!narrow && fabs(shell - 12) > 1e-6) fail_msg("views from all sides: shell %g is told, not 12", shell);
        if (!narrow) { /* only the shells before the tenth are above 0.143 by more than chance */
            r.sure_shell = 9;
            assert_int_equal(told_find(&r, 0, &err), STATUS_OK);
            if (fabs(128 / r.told - 9) > 1e-6) fail_msg("shell %g is told, not 9", 128 / r.told);
            r.sure_shell = 0;
        }
        if (narrow && !(shell > 6 - 1e-6 && shell < 10 + 1e-6))
            fail_msg("one side: shell %g is told, not 6 to 10", shell);
    }
    symmetry_destroy(&r.symmetry);
    mem_free(&r.held);
}

/* Halves that agree no further than they share have a resolution only by another start, which has to hold more than what it
 * began with, too. */
static void what_is_shared_is_no_resolution(void **state) {
    (void)state;
    enum { LEAST = 6 };
    assert_int_equal(told_unresolved(9, true, 0, LEAST), REFINER_RESOLVED);
    assert_int_equal(told_unresolved(9, true, -1, LEAST), REFINER_RESOLVED); /* starts could not be compared */
    assert_int_equal(told_unresolved(5, false, 0, LEAST), UNRESOLVED_SHARED);
    assert_int_equal(told_unresolved(5, false, -1, LEAST), UNRESOLVED_SHARED);
    assert_int_equal(told_unresolved(6, false, 6, LEAST), REFINER_RESOLVED);
    assert_int_equal(told_unresolved(5, false, 5, LEAST), UNRESOLVED_START);
    assert_int_equal(told_unresolved(5, true, 5, LEAST), UNRESOLVED_START);
    assert_int_equal(told_unresolved(0, true, 9, LEAST), UNRESOLVED_NOWHERE);
}

/* Even views are believed, of few particles too; uneven ones only where the halves agree far beyond what they share. */
static void uneven_views_are_doubted(void **state) {
    (void)state;
    static const struct {
        double efficiency;
        size_t particles;
        double agree; /* times what is shared */
        double doubt;
    } CASES[] = {
        {0.97, 300, 2, 0}, {0.75, 20, 2, 0},      {0.6, 20, 2, 1},    {0.75, 300, 2, 1}, {0.75, 300, 3.7, 1},
        {0.75, 300, 5, 0}, {0.75, 300, 4.5, 0.5}, {0.75, 300, 20, 0}, {NAN, 300, 2, 0},  {0.5, 0, 2, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        double doubt = told_views_doubt(CASES[i].efficiency, CASES[i].particles, 1.0 / 40, CASES[i].agree / 40);
        if (!(fabs(doubt - CASES[i].doubt) < 1e-9)) fail_msg("case %zu: %g, not %g", i, doubt, CASES[i].doubt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_shells),
        cmocka_unit_test(one_side_is_told),
        cmocka_unit_test(what_is_shared_is_no_resolution),
        cmocka_unit_test(uneven_views_are_doubted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
