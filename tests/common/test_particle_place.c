/* Particles cut from one place of a micrograph are found, each the twin of the first that stays, as by comparing all
 * with all. What is no place is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "common/formats/particle_place.h"
#include "tests/common/scratch.h"

enum { MOST = 4000 };

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static void compare_all(const struct particle_place *places, size_t count, double distance, int *twins) {
    for (size_t i = 0; i < count; i++) {
        twins[i] = -1;
        for (size_t j = 0; j < i && twins[i] < 0 && places[i].micrograph != 0; j++) {
            double dx = places[i].x - places[j].x, dy = places[i].y - places[j].y;
            if (twins[j] < 0 && places[j].micrograph == places[i].micrograph &&
                dx * dx + dy * dy <= distance * distance)
                twins[i] = (int)j;
        }
    }
}

static void twins_are_those_of_comparing_all(void **state) {
    (void)state;
    static struct particle_place places[MOST];
    static int wanted[MOST], found[MOST];
    unsigned seed = (unsigned)time(NULL);
    struct err err = {0};
    print_message("seed %u\n", seed);
    srand(seed);
    size_t all = 0;
    for (int run = 0; run < 20; run++) {
        size_t count = 1 + (size_t)(uniform() * (MOST - 1));
        double distance = 0.5 + 40 * uniform(), side = 200 + 3000 * uniform();
        int micrographs = 1 + (int)(9 * uniform());
        for (size_t i = 0; i < count; i++) {
            places[i] =
                (struct particle_place){.micrograph = (uint64_t)(uniform() * (micrographs + 1)) * 0x123456789abu,
                                        .x = side * (uniform() - 0.5),
                                        .y = side * (uniform() - 0.5)};
            /* Chains, grids of whole numbers and exact copies, where distances are on the border. */
            size_t other = (size_t)(uniform() * (double)i);
            if (i > 0 && uniform() < 0.3) places[i] = places[other], places[i].x += distance * (uniform() < 0.5);
        }
        compare_all(places, count, distance, wanted);
        assert_ok(particle_places_twins(places, count, distance, found, &err));
        for (size_t i = 0; i < count; i++) {
            /* Several may be near: any earlier one that stays would do, and the first is wanted. */
            if (wanted[i] != found[i]) fail_msg("run %d, %zu: twin of %d, not %d", run, i, found[i], wanted[i]);
            all += wanted[i] >= 0;
        }
    }
    assert_true(all > 100);
    assert_ok(particle_places_twins(places, MOST, 0, found, &err));
    for (int i = 0; i < MOST; i++)
        assert_int_equal(found[i], -1);
    assert_ok(particle_places_twins(NULL, 0, 10, NULL, &err));
}

static struct star_file *read_table(const char *text) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    struct err err = {0};
    scratch_path("places.star", path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_ok(star_read(path, &file, &err));
    return file;
}

static struct particle_place place_in(const char *text, size_t row) {
    struct star_file *file = read_table(text);
    struct particle_places places;
    particle_places_open(star_table_find(file, "particles"), star_table_find(file, "optics"), &places);
    struct particle_place place = particle_places_row(&places, row, 0, 5);
    star_destroy(&file);
    return place;
}

#define OPTICS(columns, values) "data_optics\n\nloop_\n_rlnOpticsGroup #1\n" columns "1 " values "\n\n"
#define ROWS "data_particles\n\nloop_\n_rlnImageName\n_rlnMicrographName\n_rlnCoordinateX\n_rlnCoordinateY\n"

static void places_are_in_the_pixels_of_the_micrograph(void **state) {
    (void)state;
    static const char rows[] = "1@a m/a.mrc 100 20.5\n2@a ./m/a.mrc 0 0\n3@a m/b.mrc nan 3\n4@a m/b.mrc x 3\n"
                               "5@a None 4 3\n6@a m/b.mrc 1e12 4\n7@a ./m/a.mrc -2 0\n8@a \"\" 4 3\n";
    char text[4096];
    snprintf(text, sizeof text, "%s%s%s", OPTICS("", ""), ROWS, rows);
    struct particle_place a = place_in(text, 0), again = place_in(text, 6);
    assert_true(a.x == 500 && a.y == 102.5 && a.micrograph != 0); /* of the image */
    assert_true(again.micrograph == a.micrograph && again.x == -10 && again.y == 0);
    for (size_t row = 1; row < 8; row++)
        assert_true((place_in(text, row).micrograph != 0) == (row == 6));
    snprintf(text, sizeof text, "%s%s%s", OPTICS("_rlnMicrographOriginalPixelSize #2\n", "1.5"), ROWS, rows);
    assert_true(place_in(text, 0).x == 150);
    snprintf(text, sizeof text, "%s%s%s",
             OPTICS("_rlnMicrographOriginalPixelSize #2\n_rlnMicrographPixelSize #3\n", "0.5 2"), ROWS, rows);
    assert_true(place_in(text, 0).x == 200);
    snprintf(text, sizeof text, "%s%s_rlnMicrographPixelSize\n%s", OPTICS("", ""), ROWS, "1@a m/a.mrc 100 20 3\n");
    assert_true(place_in(text, 0).x == 300);
}

static void volumes_have_no_place(void **state) {
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, "%s_rlnCoordinateZ\n1@a m/a.mrc 100 20 7\n", ROWS);
    assert_true(place_in(text, 0).micrograph == 0);
    snprintf(text, sizeof text, "%s_rlnTomoName\n1@a m/a.mrc 100 20 t1\n", ROWS);
    assert_true(place_in(text, 0).micrograph == 0);
    assert_true(place_in("data_particles\n\nloop_\n_rlnImageName\n1@a\n", 0).micrograph == 0);
    assert_true(place_in("data_particles\n\nloop_\n_rlnImageName\n_rlnMicrographName\n1@a m\n", 0).micrograph == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twins_are_those_of_comparing_all),
        cmocka_unit_test(places_are_in_the_pixels_of_the_micrograph),
        cmocka_unit_test(volumes_have_no_place),
    };
    return scratch_run("particle_place", tests, sizeof tests / sizeof *tests);
}
