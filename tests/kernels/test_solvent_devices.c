/* Compares the FSC of maps, the independent numbers of their shells, masks and flattening of solvent, and bands of maps,
 * on a CUDA device with the CPU's, twice bit for bit.
 * New random maps from a printed seed: test_solvent_devices [SEED]. */
#include <stdio.h>
#include <time.h>

#include "kernels/fourier/workspace.h"
#include "kernels/fsc/fsc.h"
#include "kernels/fsc/independent.h"
#include "kernels/postprocess/postprocess.h"
#include "kernels/postprocess/solvent.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/filter.h"

struct lowpass {
    double shell, edge; /* px */
};

static double lowpass_gain(double r, const void *context) {
    const struct lowpass *f = context;
    if (r >= f->shell) return 0;
    return r >= f->shell - f->edge ? 0.5 - 0.5 * cos(M_PI * (f->shell - r) / f->edge) : 1;
}

/* As in stages/refiner/resample.c. */
static void lowpass(int box, float *map, double shell, double edge) {
    const struct lowpass f = {.shell = shell, .edge = edge};
    filter_map(box, map, lowpass_gain, &f);
}

/* Makes a particle of a few blobs, in noise. */
static float *random_map(int box) {
    float *map = host_new(voxels_of(box), sizeof *map);
    double at[6][3];
    for (int b = 0; b < 6; b++)
        for (int i = 0; i < 3; i++)
            at[b][i] = box * (0.35 + 0.3 * uniform());
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                double value = 0.1 * normal();
                for (int b = 0; b < 6; b++) {
                    double dz = z - at[b][0], dy = y - at[b][1], dx = x - at[b][2];
                    value += exp(-60 * (dz * dz + dy * dy + dx * dx) / (box * box));
                }
                map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x] = (float)value;
            }
    return map;
}

static float *copy_of(const float *map, int box) {
    float *copy = host_new(voxels_of(box), sizeof *copy);
    memcpy(copy, map, voxels_of(box) * sizeof *copy);
    return copy;
}

static void fsc_trial(struct workspace *w, int box, const float *a) {
    struct err err = {0};
    size_t shells = (size_t)box / 2 + 1;
    float *b = copy_of(a, box), *curve[3];
    for (size_t i = 0; i < voxels_of(box); i++)
        b[i] += (float)(0.1 * normal());
    for (int i = 0; i < 3; i++)
        curve[i] = host_new(shells, sizeof(float));
    must(fsc_maps(NULL, box, a, b, curve[0], &err), &err);
    for (int i = 1; i < 3; i++)
        must(fsc_maps(w, box, a, b, curve[i], &err), &err);
    check_values("FSC", curve[1], curve[0], shells, 1e-5);
    assert_memory_equal(curve[1], curve[2], shells * sizeof(float));
    for (int i = 0; i < 3; i++)
        mem_free(&curve[i]);
    mem_free(&b);
}

/* The voxels that are looked at are the same; their values differ by rounding. */
static void independent_trial(struct workspace *w, int box, const float *a) {
    struct err err = {0};
    const struct independent_shells shells = {.box = box, .first = 1, .last = box / 2 - 1};
    float *b = copy_of(a, box);
    double numbers[3][65] = {{0}};
    for (size_t i = 0; i < voxels_of(box); i++)
        b[i] += (float)(0.1 * normal());
    /* The device comes first: memory that the CPU has filled would hide what the device leaves out. */
    for (int i = 2; i >= 0; i--)
        must(fsc_independent(i == 0 ? NULL : w, &shells, a, b, numbers[i], &err), &err);
    for (int s = 1; s <= shells.last; s++)
        if (!(fabs(numbers[1][s] / numbers[0][s] - 1) < 1e-4))
            fail_msg("shell %d: %.9g independent numbers, %.9g on the CPU", s, numbers[1][s], numbers[0][s]);
    assert_memory_equal(numbers[1], numbers[2], sizeof numbers[1]);
    mem_free(&b);
}

/* A voxel at the threshold except for rounding moves the mask around it: one in 1,000 may. */
static void check_mask(const float *found, const float *expected, size_t count) {
    size_t moved = 0, partly = 0, inside = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(found[i] >= 0 && found[i] <= 1);
        moved += !(fabsf(found[i] - expected[i]) <= 1e-6f);
        inside += expected[i] == 1, partly += expected[i] > 0 && expected[i] < 1;
    }
    printf("    mask: %zu of %zu voxels inside, %zu on the edge, %zu differ\n", inside, count, partly, moved);
    assert_true(inside > count / 100 && inside < count / 2 && partly > 0);
    assert_true(moved <= count / 1000);
}

static float *mask_trial(struct workspace *w, const struct solvent_sphere *sphere, double pixel_size,
                         const float *map) {
    struct err err = {0};
    int box = sphere->box;
    size_t count = voxels_of(box);
    double shell = box / 4.0 + 0.3, inside[3] = {0};
    float *mask[3];
    for (int i = 0; i < 3; i++)
        mask[i] = host_new(count, sizeof(float));
    float *low = copy_of(map, box);
    mask_sphere(3, box, low, sphere->radius, sphere->edge, 0);
    lowpass(box, low, shell, 2);
    must(postprocess_make_mask(box, pixel_size, low, mask[0], &err), &err);
    for (size_t i = 0; i < count; i++)
        mask[0][i] = fmaxf(0, 2 * mask[0][i] - 1);
    for (int i = 1; i < 3; i++)
        must(solvent_find_on(w, sphere, pixel_size, shell, map, mask[i], &inside[i], &err), &err);
    for (size_t i = 0; i < count; i++)
        inside[0] += (double)mask[1][i];
    assert_true(inside[1] == inside[0]);
    assert_true(inside[2] == inside[1]);
    check_mask(mask[1], mask[0], count);
    assert_memory_equal(mask[1], mask[2], count * sizeof(float));
    mem_free(&mask[1]);
    mem_free(&mask[2]);
    mem_free(&low);
    return mask[0];
}

static void flatten_trial(struct workspace *w, const struct solvent_sphere *sphere, const float *mask, double shared,
                          const float *map) {
    struct err err = {0};
    int box = sphere->box;
    size_t count = voxels_of(box);
    float *expected = copy_of(map, box), *spread = copy_of(map, box), *found[2];
    lowpass(box, spread, shared, 0);
    float *const both[2] = {expected, spread};
    for (int m = 0; m < 2; m++) {
        if (sphere->radius > 0) mask_sphere(3, box, both[m], sphere->radius, sphere->edge, 0);
        for (size_t i = 0; mask != NULL && i < count; i++)
            both[m][i] *= mask[i];
    }
    float *low = copy_of(spread, box);
    lowpass(box, low, shared, 0);
    for (size_t i = 0; shared > 0 && i < count; i++)
        expected[i] -= spread[i] - low[i];
    for (int i = 0; i < 2; i++) {
        found[i] = copy_of(map, box);
        must(solvent_flatten_on(w, sphere, mask, shared, found[i], &err), &err);
    }
    check_values("flattened", found[0], expected, count, 1e-5);
    assert_memory_equal(found[0], found[1], count * sizeof(float));
    for (int i = 0; i < 2; i++)
        mem_free(&found[i]);
    mem_free(&expected);
    mem_free(&spread);
    mem_free(&low);
}

/* Parts a map, and joins the bands of two. */
static void bands_trial(struct workspace *w, int box, int low, int reached, const float *map) {
    struct err err = {0};
    size_t count = voxels_of(box);
    float *inner = random_map(box), *below = copy_of(map, box), *rest = copy_of(map, box), *found[4];
    lowpass(box, below, low + 0.5, 0);
    for (int i = 0; i < 4; i++)
        found[i] = host_new(count, sizeof(float));
    must(solvent_part_on(w, box, low, map, found[0], found[1], &err), &err);
    check_values("lower band", found[0], below, count, 1e-5);
    for (size_t i = 0; i < count; i++)
        below[i] = map[i] - below[i];
    check_values("upper band", found[1], below, count, 1e-5);
    memcpy(found[2], map, count * sizeof(float));
    must(solvent_part_on(w, box, low, found[2], found[3], found[2], &err), &err);
    assert_memory_equal(found[2], found[1], count * sizeof(float));
    assert_memory_equal(found[3], found[0], count * sizeof(float));
    for (int i = 0; i < 2; i++) {
        memcpy(found[i], map, count * sizeof(float));
        must(solvent_join_on(w, box, low, reached, inner, found[i], &err), &err);
    }
    for (size_t i = 0; i < count; i++)
        rest[i] -= inner[i];
    memcpy(below, rest, count * sizeof(float));
    lowpass(box, below, reached + 0.5, 0);
    lowpass(box, inner, low + 0.5, 0);
    for (size_t i = 0; i < count; i++)
        rest[i] += inner[i] - below[i];
    check_values("joined bands", found[0], rest, count, 1e-5);
    assert_memory_equal(found[0], found[1], count * sizeof(float));
    for (int i = 0; i < 4; i++)
        mem_free(&found[i]);
    mem_free(&inner);
    mem_free(&below);
    mem_free(&rest);
}

static void trial(int box, double pixel_size) {
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    bool fits = false;
    printf("  box %d, %.1f Å\n", box, pixel_size);
    must(arena_create(&DEVICE, (size_t)256 << 20, &memory, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    must(workspace_fits_volumes(w, box, &fits, &err), &err);
    assert_true(fits);
    struct solvent_sphere sphere = {box, 0.36 * box, 5}, none = {.box = box};
    float *map = random_map(box);
    fsc_trial(w, box, map);
    independent_trial(w, box, map);
    float *mask = mask_trial(w, &sphere, pixel_size, map);
    flatten_trial(w, &sphere, mask, 0, map);
    flatten_trial(w, &sphere, mask, box / 8 + 0.5, map);
    flatten_trial(w, &sphere, NULL, box / 8 + 0.5, map);
    flatten_trial(w, &none, mask, 0, map);
    bands_trial(w, box, box / 8, box / 8, map);
    bands_trial(w, box, box / 10, box / 6, map);
    assert_int_equal(arena_top(memory), 0);
    mem_free(&mask);
    mem_free(&map);
    workspace_destroy(&w);
    arena_destroy(&memory);
}

static void solvent_is_found_as_on_the_cpu(void **state) {
    (void)state;
    trial(48, 4);
    trial(70, 3);
    trial(128, 2.2);
}

/* An empty map has no density. Work without room for it fails before it starts. */
static void nothing_and_no_room(void **state) {
    (void)state;
    enum { BOX = 48 };
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    bool fits = true;
    double inside = -1;
    struct solvent_sphere sphere = {BOX, 17, 5};
    float *map = host_new(voxels_of(BOX), sizeof *map), *mask = host_new(voxels_of(BOX), sizeof *mask);
    memset(map, 0, voxels_of(BOX) * sizeof *map);
    must(arena_create(&DEVICE, (size_t)4 << 20, &memory, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    must(solvent_find_on(w, &sphere, 3, 12, map, mask, &inside, &err), &err);
    assert_true(inside == 0);
    must(workspace_fits_volumes(w, 2 * BOX, &fits, &err), &err);
    assert_false(fits);
    must(workspace_fits_volumes(NULL, BOX, &fits, &err), &err);
    assert_false(fits);
    assert_int_equal(fsc_maps(w, 4 * BOX, map, map, mask, &err), STATUS_NO_MEMORY);
    assert_int_equal(arena_top(memory), 0);
    mem_free(&map);
    mem_free(&mask);
    workspace_destroy(&w);
    arena_destroy(&memory);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solvent_is_found_as_on_the_cpu),
        cmocka_unit_test(nothing_and_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
