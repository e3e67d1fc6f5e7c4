/* Compares the local resolution, and the map filtered by it, on a CUDA device with the CPU's, twice bit for bit. New
 * random maps from a printed seed: test_local_resolution_devices [SEED [BOX]]; with a box of that size alone, with times. */
#include "common/clock.h"
#include "kernels/local_resolution/local_resolution.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/local_world.h"

static int only_box;

struct result {
    float *resolution, *filtered;
};

static struct result compute(struct workspace *w, const struct world *world, int last_shell, const char *where) {
    struct err err = {0};
    const struct local_resolution_options options = {
        .box = world->box, .pixel_size = 1.5, .bfactor = -40, .last_shell = last_shell};
    const size_t count = voxels_of(world->box);
    struct result r = {host_new(count, sizeof(float)), host_new(count, sizeof(float))};
    memset(r.resolution, 0xff, count * sizeof(float));
    memset(r.filtered, 0xff, count * sizeof(float));
    double began = clock_monotonic();
    must(local_resolution_run(w, &options, world->halves[0], world->halves[1], r.resolution, r.filtered, &err), &err);
    printf("    box %d on the %s: %.3f s\n", world->box, where, clock_monotonic() - began);
    return r;
}

static void result_free(struct result *r) {
    mem_free(&r->resolution);
    mem_free(&r->filtered);
}

static void trial(int box, int last_shell) {
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    bool fits = false;
    struct world world = world_make(box, 0.3 * box, 0.12 * box, box / 10.0, 0.1);
    must(arena_create(&DEVICE, ((size_t)64 << 20) + 60 * voxels_of(box), &memory, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    must(local_resolution_fits(w, box, &fits, &err), &err);
    assert_true(fits);
    struct result one = compute(w, &world, last_shell, "device"), two = compute(w, &world, last_shell, "device again");
    struct result cpu = compute(NULL, &world, last_shell, "CPU");
    const size_t count = voxels_of(box);
    assert_memory_equal(one.resolution, two.resolution, count * sizeof(float));
    assert_memory_equal(one.filtered, two.filtered, count * sizeof(float));
    /* A correlation that touches the threshold may fall to either side of it: then a voxel's first crossing jumps. */
    size_t jumps = 0;
    for (size_t i = 0; i < count; i++) {
        float away = fabsf(one.resolution[i] / cpu.resolution[i] - 1);
        assert_true(away < 10);
        jumps += away > 1e-3f;
        if (away > 1e-3f) one.filtered[i] = cpu.filtered[i];
    }
    printf("    %zu of %zu voxels jump\n", jumps, count);
    assert_true((double)jumps <= 1e-4 * (double)count);
    check_values("filtered", one.filtered, cpu.filtered, count, 1e-3);
    assert_int_equal(arena_top(memory), 0);
    result_free(&one);
    result_free(&two);
    result_free(&cpu);
    world_free(&world);
    workspace_destroy(&w);
    arena_destroy(&memory);
}

static void both_devices_agree(void **state) {
    (void)state;
    static const int boxes[] = {16, 48, 70, 128};
    if (only_box > 0) {
        trial(only_box, 0);
        return;
    }
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
        trial(boxes[i], 0);
    trial(70, 9);
}

/* Work without room for it fails before it starts. */
static void no_room(void **state) {
    (void)state;
    enum { BOX = 48 };
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    bool fits = true;
    const struct local_resolution_options options = {.box = BOX, .pixel_size = 1};
    float *map = noise_map(BOX, 1), *out = noise_map(BOX, 1);
    must(arena_create(&DEVICE, (size_t)1 << 20, &memory, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    must(local_resolution_fits(w, BOX, &fits, &err), &err);
    assert_false(fits);
    assert_int_equal(local_resolution_run(w, &options, map, map, out, out, &err), STATUS_NO_MEMORY);
    assert_int_equal(arena_top(memory), 0);
    mem_free(&map);
    mem_free(&out);
    workspace_destroy(&w);
    arena_destroy(&memory);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 ? argv[1] : NULL);
    only_box = argc > 2 ? atoi(argv[2]) : 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_devices_agree), cmocka_unit_test(no_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
