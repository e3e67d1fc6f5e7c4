/* Tests the mask that the refiner makes from the map of both halves (auto_mask), which both halves then share: none is
 * made of noise, and on poor particles, whose truth is known, it lends the halves no agreement: FSC 0.143 of the unmasked
 * halves is at no finer resolution than FSC 0.5 with the truth, divided by 1.1.
 * test_refiner_auto_mask [FIRST LAST]: seeds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/files.h"
#include "kernels/fsc/fsc.h"
#include "kernels/postprocess/postprocess.h"
#include "tests/common/scratch.h"
#include "tests/stages/blobs.h"
#include "tests/stages/refiner_runs.h"

enum { BLOBS = 14, VOXELS = BOX * BOX * BOX };
static int first_seed = 3, last_seed = 4;
static struct object object;
static float truth[VOXELS];

static int masks; /* that the refiner made; post-processing makes its own with another function */
enum status __real_postprocess_make_mask(int box, double pixel_size, const float *map, float *ret_mask,
                                         struct err *err);
enum status __wrap_postprocess_make_mask(int box, double pixel_size, const float *map, float *ret_mask,
                                         struct err *err);
enum status __wrap_postprocess_make_mask(int box, double pixel_size, const float *map, float *ret_mask,
                                         struct err *err) {
    masks++;
    return __real_postprocess_make_mask(box, pixel_size, map, ret_mask, err);
}

struct found {
    float halves[2][VOXELS]; /* unfiltered */
    int masks;
    double agree, right; /* Å: FSC 0.143 of the halves, and FSC 0.5 of both with the truth; neither is masked */
};

/* Returns the resolution where the FSC falls below a limit. between: between two shells, which are far apart in so
 * small a box; else at the last shell above the limit. */
static double resolution(const float *a, const float *b, double limit, bool between) {
    float fsc[BOX / 2 + 1];
    assert_int_equal(fsc_maps(NULL, BOX, a, b, fsc, NULL), STATUS_OK);
    int shell = 0;
    while (shell < BOX / 2 && (double)fsc[shell + 1] >= limit)
        shell++;
    double at = shell;
    if (between && shell > 0 && shell < BOX / 2)
        at += ((double)fsc[shell] - limit) / (double)(fsc[shell] - fsc[shell + 1]);
    return at > 0 ? BOX * PIXEL / at : 999;
}

struct set {
    const char *kind;
    int seed, particles;
    double noise;
};

/* Writes the particles into the run's own folder: the halves follow from their names, which are relative to it. */
static void make_set(const struct set *set, const char *root, char *reference) {
    srand((unsigned)set->seed);
    make_object(&object, BLOBS);
    make_map(&object, truth, SIGMA);
    write_map(root, "reference.mrc", truth, reference);
    write_particles(root, "a", &object, 1, set->particles, set->noise);
}

static void refine(const struct set *set, const char *auto_mask, struct found *f) {
    char name[64], root[PATH_SIZE], folder[PATH_SIZE + 16], reference[PATH_SIZE];
    static float map[VOXELS];
    snprintf(name, sizeof name, "%s%d_%s", set->kind, set->seed, auto_mask);
    scratch_path(name, root);
    snprintf(folder, sizeof folder, "%s/refiner", root);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    make_set(set, root, reference);
    /* With so many min_particles, iterations begin when all particles are there. */
    const char *parameters[] = {
        "reference",        reference, "diameter",       "140", "initial_lowpass", "50",   "live_order", "1",
        "auto_mask",        auto_mask, "healpix_order",  "1",   "offset_range",    "3",    "threads",    "2",
        "local_resolution", "false",   "max_iterations", "4",   "min_particles",   "9999", NULL};
    struct item *items[] = {particles_item("a", "particles", root)};
    masks = 0;
    run_refiner(root, parameters, items, 1);
    f->masks = masks;
    read_map(folder, "run_half1_class001_unfil.mrc", f->halves[0]);
    read_map(folder, "run_half2_class001_unfil.mrc", f->halves[1]);
    for (int i = 0; i < VOXELS; i++)
        map[i] = f->halves[0][i] + f->halves[1][i];
    f->agree = resolution(f->halves[0], f->halves[1], 0.143, false);
    f->right = resolution(map, truth, 0.5, true);
    print_message("%s, auto_mask %s: %d masks, halves agree to %.1f Å, with the truth to %.1f Å\n", name, auto_mask,
                  f->masks, f->agree, f->right);
}

/* Refines the same particles without and with the mask. */
static void refine_both(const struct set *set, struct found found[2]) {
    refine(set, "false", &found[0]);
    refine(set, "true", &found[1]);
}

/* Both halves are those of a run that may make no mask, bit for bit. */
static void noise_gets_no_mask(void **state) {
    (void)state;
    static struct found found[2];
    for (int seed = first_seed; seed <= (first_seed + last_seed) / 2; seed++) {
        refine_both(&(struct set){"noise", seed, 120, 100.0}, found);
        assert_int_equal(found[1].masks, 0);
        assert_memory_equal(found[1].halves, found[0].halves, sizeof found[0].halves);
    }
}

static void poor_particles_agree_no_further_than_they_are_right(void **state) {
    (void)state;
    static struct found found[2];
    for (int seed = first_seed; seed <= last_seed; seed++) {
        refine_both(&(struct set){"poor", seed, 400, 1.2}, found);
        assert_true(found[0].masks == 0 && found[1].masks > 0);
        assert_true(found[1].agree >= found[1].right / 1.1);
    }
}

int main(int argc, char **argv) {
    if (argc == 3) first_seed = atoi(argv[1]), last_seed = atoi(argv[2]);
    print_message("seeds %d to %d\n", first_seed, last_seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_gets_no_mask),
        cmocka_unit_test(poor_particles_agree_no_further_than_they_are_right),
    };
    return scratch_run("refiner-auto-mask", tests, sizeof tests / sizeof *tests);
}
