/* Compares differences of maps on a CUDA device with the CPU's, twice bit for bit, and checks that its work is timed. New
 * random maps from a printed seed: gpu_differences [SEED]. */
#include <stdio.h>
#include <time.h>

#include "common/device_busy_cuda.h"
#include "kernels/differences/differences.h"
#include "kernels/fourier/workspace.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/filter.h"

/* Makes a map of a blob in noise. */
static float *random_map(int box) {
    float *map = host_new(voxels_of(box), sizeof *map);
    double at[3];
    for (int i = 0; i < 3; i++)
        at[i] = box * (0.35 + 0.3 * uniform());
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                double dz = z - at[0], dy = y - at[1], dx = x - at[2];
                double value = exp(-60 * (dz * dz + dy * dy + dx * dx) / (box * box)) + 0.1 * normal();
                map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x] = (float)value;
            }
    return map;
}

static float *copy_of(const float *map, int box) {
    float *copy = host_new(voxels_of(box), sizeof *copy);
    memcpy(copy, map, voxels_of(box) * sizeof *copy);
    return copy;
}

enum { MAPS = 3 };

/* Takes all steps with differences of maps, or all but those by place. ret: the maps, the squares, powers of each map. */
static void take_differences(struct workspace *w, int box, bool places, float *maps[MAPS], float *square,
                             double *powers) {
    struct err err = {0};
    const size_t shells = (size_t)box / 2 + 1;
    struct differences_maps of = {.box = box, .count = MAPS, .threads = 2};
    struct differences *d = NULL;
    float gains[65], about[65];
    bool fit = false;
    must(differences_fit(w, box, MAPS, &fit, &err), &err);
    assert_int_equal(fit, w != NULL);
    for (int k = 0; k < MAPS; k++)
        of.maps[k] = maps[k], of.shares[k] = (float)(k + 1) / 6;
    for (size_t s = 0; s < shells; s++)
        gains[s] = s <= shells / 2 ? 1 : 0, about[s] = (float)exp(-(double)(s * s) / 20);
    must(differences_create(w, &of, &d, &err), &err);
    if (places) {
        must(differences_filter(d, gains, about, square, &err), &err);
        must(differences_weigh(d, 0.002, &err), &err);
    }
    for (int k = 0; k < MAPS; k++)
        must(differences_power(d, k, powers + shells * (size_t)k, &err), &err);
    must(differences_move(d, 0.3, &err), &err);
    differences_destroy(&d);
}

static void differences_trial(struct workspace *w, int box, bool places) {
    const size_t count = voxels_of(box), shells = (size_t)box / 2 + 1;
    float *maps[3][MAPS], *square[3];
    double *powers[3], all = 0;
    for (int i = 0; i < 3; i++) {
        square[i] = host_new(count, sizeof(float));
        powers[i] = host_new(MAPS * shells, sizeof(double));
        for (int k = 0; k < MAPS; k++)
            maps[i][k] = i == 0 ? random_map(box) : copy_of(maps[0][k], box);
    }
    for (int i = 0; i < 3; i++)
        take_differences(i < 2 ? w : NULL, box, places, maps[i], square[i], powers[i]);
    /* Shells with next to nothing hold the rounding of all others. */
    for (size_t s = 0; s < MAPS * shells; s++)
        all += powers[2][s];
    for (size_t s = 0; s < MAPS * shells; s++)
        if (!(fabs(powers[0][s] - powers[2][s]) <= 1e-4 * powers[2][s] + 1e-9 * all))
            fail_msg("shell %zu of %zu: power %g and %g", s % shells, shells, powers[0][s], powers[2][s]);
    if (places) check_values("mean squares of differences", square[0], square[2], count, 1e-5);
    assert_memory_equal(powers[0], powers[1], MAPS * shells * sizeof(double));
    for (int k = 0; k < MAPS; k++) {
        check_values("moved maps", maps[0][k], maps[2][k], count, 1e-5);
        assert_memory_equal(maps[0][k], maps[1][k], count * sizeof(float));
    }
    for (int i = 0; i < 3; i++) {
        mem_free(&square[i]);
        mem_free(&powers[i]);
        for (int k = 0; k < MAPS; k++)
            mem_free(&maps[i][k]);
    }
}

static void trial(int box) {
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    printf("  box %d\n", box);
    must(arena_create(&DEVICE, (size_t)256 << 20, &memory, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    differences_trial(w, box, false);
    differences_trial(w, box, true);
    assert_int_equal(arena_top(memory), 0);
    workspace_destroy(&w);
    arena_destroy(&memory);
}

static void differences_are_those_of_the_cpu(void **state) {
    (void)state;
    trial(48);
    trial(70);
    trial(128);
}

static struct device_busy *clock_of_device;
static double counted; /* s, that the device had worked when this was asked last */

/* Returns whether the device has worked since this was asked last. */
static bool has_worked(void) {
    struct err err = {0};
    const double before = counted;
    must(device_busy_seconds(clock_of_device, &counted, &err), &err);
    return counted > before;
}

/* The time of each step counts, also of those after the first wait for the device. */
static void all_steps_are_timed(void **state) {
    (void)state;
    enum { BOX = 48 };
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    struct differences *d = NULL;
    float gains[BOX / 2 + 1], *square = host_new(voxels_of(BOX), sizeof *square);
    double power[BOX / 2 + 1];
    struct differences_maps of = {.box = BOX, .count = MAPS, .threads = 2};
    for (int s = 0; s <= BOX / 2; s++)
        gains[s] = 1;
    for (int k = 0; k < MAPS; k++)
        of.maps[k] = random_map(BOX), of.shares[k] = 1.0f / MAPS;
    counted = 0;
    must(arena_create(&DEVICE, (size_t)64 << 20, &memory, &err), &err);
    must(device_busy_create(&clock_of_device, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, clock_of_device, &w, &err), &err);
    must(differences_create(w, &of, &d, &err), &err);
    assert_true(has_worked());
    must(differences_filter(d, gains, gains, square, &err), &err);
    assert_true(has_worked());
    must(differences_weigh(d, 0.002, &err), &err);
    must(differences_power(d, 0, power, &err), &err);
    assert_true(has_worked());
    must(differences_move(d, 0.3, &err), &err);
    assert_true(has_worked());
    assert_false(has_worked());
    differences_destroy(&d);
    workspace_destroy(&w);
    device_busy_destroy(&clock_of_device);
    arena_destroy(&memory);
    mem_free(&square);
    for (int k = 0; k < MAPS; k++)
        mem_free(&of.maps[k]);
}

/* Without room for all maps the caller is told so before. */
static void no_room(void **state) {
    (void)state;
    enum { BOX = 48 };
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    bool fit = true;
    must(arena_create(&DEVICE, (size_t)1 << 20, &memory, &err), &err); /* less than three maps */
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    must(differences_fit(w, BOX, MAPS, &fit, &err), &err);
    assert_false(fit);
    workspace_destroy(&w);
    arena_destroy(&memory);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_those_of_the_cpu),
        cmocka_unit_test(all_steps_are_timed),
        cmocka_unit_test(no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
