/* Particles of different boxes, pixel sizes and optics in one refinement: images of one particle, drawn on different
 * grids and through different optics, are the same when the loader gives them out. Wrong signs must fail. */
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stages/refiner/detectors.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/loader.h"
#include "tests/stages/optics_images.h"

static void merge(struct particle_set *set, const char *folder, const char *optics, const char *const *stacks,
                  int stack_count) {
    char path[PATH_SIZE + 64];
    struct star_file *file = NULL;
    struct err err = {0};
    write_table(folder, optics, stacks, stack_count, EACH, true, path);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (particle_set_merge(set, &file, path, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
}

/* Returns the difference of an image that the loader gives out from the view drawn on the set's grid. */
static double difference(struct particle_set *set, int index, int number) {
    const float *const *images;
    struct loader *loader = NULL;
    struct err err = {0};
    assert_int_equal(loader_create(set, 2, NULL, &loader, NULL), STATUS_OK);
    if (loader_take(loader, NULL, &index, 1, &images, &err) != STATUS_OK) fail_msg("%s", err.message);
    double most = difference_from(images[0], number, set->box, set->pixel_size);
    loader_destroy(&loader);
    return most;
}

static void images_of_two_grids_join(void **state) {
    (void)state;
    static const char OPTICS[] = "_rlnOpticsGroup\n_rlnImagePixelSize\n1 1.5\n2 2";
    static const char *const STACKS[] = {"fine", "coarse"};
    const struct aberration none = aberration_none();
    char folder[PATH_SIZE];
    open_folder("grids", folder);
    write_stack(folder, "fine", FINE, FINE_PIXEL, ONE, &none);
    write_stack(folder, "coarse", COARSE, COARSE_PIXEL, ONE, &none);
    for (int preferred = 0; preferred < 2; preferred++) {
        struct particle_set set;
        particle_set_init(&set, 1, 1 << 20, NAN);
        if (preferred) set.preferred_box = COARSE, set.preferred_pixel_size = COARSE_PIXEL;
        merge(&set, folder, OPTICS, STACKS, 2);
        assert_int_equal(set.box, preferred ? COARSE : FINE);
        assert_true(set.pixel_size == (preferred ? COARSE_PIXEL : FINE_PIXEL));
        for (int i = 0; i < 2 * EACH; i++) {
            assert_true(difference(&set, i, i % EACH) < 2e-3);
            assert_int_equal(grids_resample(&set, &set.particles[i]), (i < EACH) == preferred);
        }
        /* The coarse image has nothing beyond its last shell. */
        assert_true(preferred || fabs(set.particles[EACH].ctf.limit - 0.25) < 1e-9);
        assert_true(set.particles[0].ctf.limit == 0);
        particle_set_destroy(&set);
    }
}

/* The tables that are written describe the images as they lie in their files. */
static void tables_keep_the_grids_of_images(void **state) {
    (void)state;
    static const char OPTICS[] = "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnMagMat00\n_rlnMagMat01\n"
                                 "1 1.5 1 0\n2 2 1.02 0.01";
    static const char *const STACKS[] = {"fine", "coarse"};
    const struct aberration none = aberration_none();
    struct star_file *file = NULL;
    struct particle_set set;
    char folder[PATH_SIZE];
    double value, shift[2];
    open_folder("tables", folder);
    write_stack(folder, "fine", FINE, FINE_PIXEL, ONE, &none);
    write_stack(folder, "coarse", COARSE, COARSE_PIXEL, ONE, &none);
    particle_set_init(&set, 1, 0, NAN);
    merge(&set, folder, OPTICS, STACKS, 2);
    for (int i = 0; i < 2 * EACH; i++) {
        struct particle *p = &set.particles[i];
        p->aligned = true;
        p->origin[0] = 2, p->origin[1] = -1;
        grids_shift_to_table(&set, p, shift);
        p->origin[0] = p->origin[1] = 0;
        grids_shift_from_table(&set, p, shift);
        assert_true(fabs(p->origin[0] - 2) < 1e-9 && fabs(p->origin[1] + 1) < 1e-9);
    }
    assert_int_equal(star_create(&file, NULL), STATUS_OK);
    assert_int_equal(particle_set_export(&set, file, NULL), STATUS_OK);
    const struct star_table *optics = star_table_find(file, "optics"), *rows = star_table_find(file, "particles");
    for (size_t g = 0; g < 2; g++) {
        assert_int_equal(star_need_number(optics, g, "rlnImagePixelSize", 0, 10, &value, NULL), STATUS_OK);
        assert_true(value == (g == 0 ? FINE_PIXEL : COARSE_PIXEL));
        assert_int_equal(star_need_number(optics, g, "rlnImageSize", 0, 100, &value, NULL), STATUS_OK);
        assert_true(value == (g == 0 ? FINE : COARSE));
    }
    /* Shifts are those of the image: M transposed times (3, −1.5) Å. */
    assert_int_equal(star_need_number(rows, 0, "rlnOriginXAngst", -9, 9, &value, NULL), STATUS_OK);
    assert_true(fabs(value - 3) < 1e-4);
    assert_int_equal(star_need_number(rows, EACH, "rlnOriginXAngst", -9, 9, &value, NULL), STATUS_OK);
    assert_true(fabs(value - 3.06) < 1e-4);
    assert_int_equal(star_need_number(rows, EACH, "rlnOriginYAngst", -9, 9, &value, NULL), STATUS_OK);
    assert_true(fabs(value + 1.5 - 0.03) < 1e-4);
    star_destroy(&file);
    particle_set_destroy(&set);
}

/* Tables that differ in nothing but their aberrations join as groups of their own, and are written as such: each image
 * comes out as it should, also of what is read back. */
static void groups_of_other_aberrations_are_not_merged(void **state) {
    (void)state;
    static const char *const NAMES[] = {"right", "wrong", "none"};
    static const double SIGN[] = {1, -1, 0};
    char folder[PATH_SIZE], path[PATH_SIZE + 64], optics[256];
    struct particle_set set, again;
    struct star_file *file = NULL;
    struct err err = {0};
    open_folder("groups", folder);
    particle_set_init(&set, 1, 0, NAN);
    particle_set_init(&again, 1, 0, NAN);
    for (int t = 0; t < 3; t++) {
        struct aberration odd = aberration_none();
        aberration_add_tilt(&odd, 2.7, 300, 60 * SIGN[t], -40 * SIGN[t]);
        write_stack(folder, NAMES[t], COARSE, COARSE_PIXEL, ONE, &odd);
        snprintf(optics, sizeof optics, "_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnImagePixelSize\n");
        if (t < 2)
            snprintf(optics + strlen(optics), 128, "_rlnBeamTiltX\n_rlnBeamTiltY\n1 og 2 %g %g", 60 * SIGN[t],
                     -40 * SIGN[t]);
        else
            strcat(optics, "1 og 2");
        merge(&set, folder, optics, &NAMES[t], 1);
    }
    assert_int_equal(set.optics_count, 3);
    for (size_t i = 0; i < set.count; i++)
        set.particles[i].aligned = true;
    assert_int_equal(star_create(&file, NULL), STATUS_OK);
    assert_ok(particle_set_export(&set, file, &err));
    snprintf(path, sizeof path, "%s/written.star", folder);
    assert_ok(star_write(file, path, &err));
    star_destroy(&file);
    assert_ok(star_read(path, &file, &err));
    assert_ok(particle_set_merge(&again, &file, path, false, NULL, &err));
    assert_int_equal(again.optics_count, 3);
    assert_int_equal(again.count, 3 * EACH);
    for (int i = 0; i < 3 * EACH; i++) {
        assert_true(difference(&set, i, i % EACH) < 2e-3);
        assert_true(difference(&again, i, i % EACH) < 2e-3);
    }
    particle_set_destroy(&set);
    particle_set_destroy(&again);
}

/* Each column takes its aberration off the image; the other sign, or none, leaves or doubles it. */
static void aberrations_of_the_image_are_taken_off(void **state) {
    (void)state;
    static const char *const STACK = "coarse";
    char folder[PATH_SIZE], optics[512];
    open_folder("aberrations", folder);
    for (int c = 0; c < STATED_COUNT; c++) {
        const struct aberration odd = odd_of(&STATED[c]);
        write_stack(folder, STACK, COARSE, COARSE_PIXEL, STATED[c].magnified ? MATRIX : ONE, &odd);
        for (int how = 0; how < 3; how++) { /* right, wrong, ignored */
            struct particle_set set;
            particle_set_init(&set, 1, 0, NAN);
            set.ignore_optics = how == 2;
            snprintf(optics, sizeof optics, "_rlnOpticsGroup\n_rlnImagePixelSize\n%s1 2 %s", STATED[c].columns,
                     how == 1 ? STATED[c].wrong : STATED[c].right);
            merge(&set, folder, optics, &STACK, 1);
            double off = difference(&set, 1, 1);
            if (how == 0) assert_true(off < 2e-3);
            if (how > 0) assert_true(off > 2e-2);
            assert_int_equal(grids_correct(&set, &set.particles[1]), how < 2);
            particle_set_destroy(&set);
        }
    }
}

static void even_aberrations_go_into_the_ctf(void **state) {
    (void)state;
    static const char OPTICS[] =
        "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnEvenZernike\n1 2 [0.5,0,-20,0,0,0,900]\n2 2 []";
    static const char *const STACKS[] = {"one", "two"};
    const struct aberration none = aberration_none();
    struct particle_set set;
    char folder[PATH_SIZE];
    open_folder("even", folder);
    for (int s = 0; s < 2; s++)
        write_stack(folder, STACKS[s], COARSE, COARSE_PIXEL, ONE, &none);
    particle_set_init(&set, 1, 0, NAN);
    merge(&set, folder, OPTICS, STACKS, 2);
    const struct ctf *with = particle_ctf(&set.particles[0]), *without = particle_ctf(&set.particles[EACH]);
    assert_non_null(with->even);
    assert_null(without->even);
    struct ctf_terms a = ctf_prepare(with), b = ctf_prepare(without);
    double x = 0.05, y = 0.08, r2 = x * x + y * y;
    double offset = 0.5 - 20 * (2 * r2 - 1) + 900 * (6 * r2 * r2 - 6 * r2 + 1);
    double gamma = -(b.xx * x * x + 2 * b.xy * x * y + b.yy * y * y - b.quartic * r2 * r2 + b.offset);
    assert_true(fabs((double)ctf_value(&a, x, y) + sin(gamma + offset)) < 1e-5);
    assert_true(fabs((double)ctf_value(&a, x, y) + sin(gamma - offset)) > 0.1);
    particle_set_destroy(&set);
}

/* Images of the second detector are brought to the MTF of the first: MTF 1 / MTF 2, at physical frequencies. A group
 * whose file is missing stays as it is, and is told. */
static void images_of_two_detectors_become_alike(void **state) {
    (void)state;
    static const char OPTICS[] =
        "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnMicrographOriginalPixelSize\n_rlnMtfFileName\n"
        "1 2 1 first.star\n2 2 0.7 second.star\n3 2 1 third.star";
    static const char *const STACKS[] = {"one", "two", "three"};
    const struct aberration none = aberration_none();
    struct particle_set set;
    struct loader *loader = NULL;
    char folder[PATH_SIZE];
    const float *const *images;
    const int indices[] = {0, EACH, 2 * EACH};
    open_folder("detectors", folder);
    for (int s = 0; s < 3; s++)
        write_stack(folder, STACKS[s], COARSE, COARSE_PIXEL, ONE, &none);
    write_mtf(folder, "first.star", 0.4);
    write_mtf(folder, "second.star", 0.2);
    particle_set_init(&set, 1, 0, NAN);
    merge(&set, folder, OPTICS, STACKS, 3);
    assert_string_equal(detectors_missing(&set), "third.star");
    assert_ptr_equal(detectors_first(&set), set.optics[0].detector);
    assert_int_equal(loader_create(&set, 1, NULL, &loader, NULL), STATUS_OK);
    assert_int_equal(loader_take(loader, NULL, indices, 3, &images, NULL), STATUS_OK);
    for (int k = 1; k < 10; k += 2) {
        double f = k / (COARSE * COARSE_PIXEL);
        double expected = attenuation(0.4, 1, f) / attenuation(0.2, 0.7, f);
        assert_true(cabs(ratio_of(images[0], images[1], COARSE, k) - expected) < 1e-3 && fabs(expected - 1) > 1e-5);
        assert_true(cabs(ratio_of(images[0], images[2], COARSE, k) - 1) < 1e-3);
    }
    loader_destroy(&loader);
    particle_set_destroy(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_two_grids_join),
        cmocka_unit_test(tables_keep_the_grids_of_images),
        cmocka_unit_test(groups_of_other_aberrations_are_not_merged),
        cmocka_unit_test(aberrations_of_the_image_are_taken_off),
        cmocka_unit_test(even_aberrations_go_into_the_ctf),
        cmocka_unit_test(images_of_two_detectors_become_alike),
    };
    return scratch_run("refiner_optics", tests, sizeof tests / sizeof *tests);
}
