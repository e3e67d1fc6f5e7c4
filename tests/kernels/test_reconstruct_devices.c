/* Compares the M-step on a CUDA device, and references prepared there, with kernels/reconstruct and kernels/projector.
 * New random input from a printed seed: test_reconstruct_devices [SEED], or `time` for the time of each step and its
 * lower bound. */
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "kernels/projector/projector.h"
#include "kernels/projector/projector_cuda.h"
#include "kernels/reconstruct/accumulator_private.h"
#include "kernels/reconstruct/reconstruct_cuda.h"
#include "tests/kernels/devices.h"

/* Bytes per second that an H200 copies, reading and writing together. */
static const double COPIED = 4.0e12;
static bool timed;

static size_t voxel_count(const struct accumulator *a) {
    return (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
}

/* Makes sums as particles leave them: some places see many slices, some none; data is about weight times a value. */
static struct accumulator *random_sums(int dimensions, int box, int size) {
    struct err err = {0};
    struct accumulator *a = NULL;
    must(accumulator_create(dimensions, box, size, &a, &err), &err);
    for (size_t i = 0; i < voxel_count(a); i++) {
        double weight = uniform() < 0.1 ? 0 : 100 * exp(2 * normal());
        for (int j = 0; j < 2; j++)
            a->voxels[i][j] = weight * (1 + normal()) + sqrt(weight) * normal();
        a->voxels[i][2] = weight;
    }
    return a;
}

/* Makes a second half that resembles the first. */
static struct accumulator *like_it(const struct accumulator *a) {
    struct accumulator *b = random_sums(a->dimensions, a->box, 2 * a->r_max);
    for (size_t i = 0; i < voxel_count(a); i++)
        b->voxels[i] += 0.7 * a->voxels[i];
    return b;
}

static struct accumulator_cuda put_sums(const struct accumulator *a) {
    struct err err = {0};
    struct accumulator_cuda d = accumulator_cuda_shape(a->dimensions, a->box, 2 * a->r_max);
    assert_int_equal(accumulator_cuda_bytes(&d), voxel_count(a) * sizeof *a->voxels);
    d.voxels = on_device(NULL, 1, accumulator_cuda_bytes(&d));
    must(accumulator_cuda_put(&d, a, NULL, &err), &err);
    return d;
}

static float *get_floats(const float *values, size_t count) {
    float *host = host_new(count, sizeof *host);
    from_device(host, values, count * sizeof *host);
    return host;
}

static void check_sums(const char *what, const struct accumulator_cuda *d, const struct accumulator *expected,
                       double bound) {
    struct err err = {0};
    struct accumulator *found = NULL;
    double largest[3] = {0};
    must(accumulator_create(expected->dimensions, expected->box, 2 * expected->r_max, &found, &err), &err);
    must(accumulator_cuda_get(d, found, NULL, &err), &err);
    for (size_t i = 0; i < voxel_count(found); i++)
        for (int j = 0; j < 3; j++)
            largest[j] = fmax(largest[j], fabs(expected->voxels[i][j]));
    for (size_t i = 0; i < voxel_count(found); i++)
        for (int j = 0; j < 4; j++)
            if (!(fabs(found->voxels[i][j] - expected->voxels[i][j]) <= (j < 3 ? bound * largest[j] : 0)))
                fail_msg("%s: value %d of voxel %zu is %.12g, expected %.12g (largest %.3g)", what, j, i,
                         found->voxels[i][j], expected->voxels[i][j], j < 3 ? largest[j] : 0);
    accumulator_destroy(&found);
}

/* Makes one map from sums twice: compares it with the CPU's, and bit for bit with itself. */
static void map_trial(struct padded_cuda *padded, const struct accumulator *a, const struct accumulator_cuda *d,
                      const float *tau2) {
    struct err err = {0};
    size_t shells = (size_t)a->box / 2 + 1, voxels = (size_t)a->box * (size_t)a->box;
    if (a->dimensions == 3) voxels *= (size_t)a->box;
    const struct reconstruct_options options = {.tau2 = tau2, .tau_fudge = 1.3, .minres_shell = 2, .threads = 2};
    float *map = host_new(voxels, sizeof *map), *ssnr = host_new(shells, sizeof *ssnr);
    float *complete = host_new(shells, sizeof *complete), *first = NULL;
    must(reconstruct_map(a, &options, map, ssnr, complete, &err), &err);
    for (int run = 0; run < 2; run++) {
        must(arena_open(arena, ARENA_PARTICLES, &err), &err);
        const struct reconstruct_cuda_options o = {tau2 ? on_device(tau2, shells, sizeof *tau2) : NULL, 1.3, 2};
        void *scratch = on_device(NULL, 1, reconstruct_cuda_scratch(padded, d));
        float *device_map = on_device(NULL, voxels, sizeof *map), *device_ssnr = on_device(NULL, shells, sizeof *ssnr);
        float *device_complete = on_device(NULL, shells, sizeof *complete);
        must(reconstruct_cuda_map(padded, d, &o, scratch, device_map, device_ssnr, device_complete, NULL, &err), &err);
        float *found = get_floats(device_map, voxels), *found_ssnr = get_floats(device_ssnr, shells);
        float *found_complete = get_floats(device_complete, shells);
        if (run == 0) {
            check_values(tau2 ? "map with a prior" : "map", found, map, voxels, 1e-5);
            check_values("data over prior", found_ssnr, ssnr, shells, 1e-5);
            check_values("completeness", found_complete, complete, shells, 1e-3);
            first = found;
        } else {
            assert_memory_equal(found, first, voxels * sizeof *found);
            free(found);
        }
        free(found_ssnr);
        free(found_complete);
        arena_close(arena, ARENA_PARTICLES);
    }
    free(first);
    free(map);
    free(ssnr);
    free(complete);
}

static void check_sigma2(const struct accumulator *a, const struct accumulator_cuda *d) {
    struct err err = {0};
    size_t shells = (size_t)a->box / 2 + 1;
    float *expected = host_new(shells, sizeof *expected);
    must(accumulator_sigma2(a, expected, &err), &err);
    float *sigma2 = on_device(NULL, shells, sizeof *sigma2);
    must(accumulator_cuda_sigma2(d, on_device(NULL, 1, reconstruct_cuda_shells_scratch(d)), sigma2, NULL, &err), &err);
    float *found = get_floats(sigma2, shells);
    for (size_t s = 0; s < shells; s++)
        if (!(fabsf(found[s] - expected[s]) <= 1e-5f * expected[s]))
            fail_msg("sigma2 of shell %zu is %g, expected %g", s, (double)found[s], (double)expected[s]);
    free(found);
    free(expected);
}

static void check_fsc(const struct accumulator *a, const struct accumulator *b, const struct accumulator_cuda *da,
                      const struct accumulator_cuda *db) {
    struct err err = {0};
    size_t shells = (size_t)a->box / 2 + 1;
    float *expected = host_new(shells, sizeof *expected);
    must(accumulator_fsc(a, b, expected, &err), &err);
    float *fsc = on_device(NULL, shells, sizeof *fsc);
    must(accumulator_cuda_fsc(da, db, on_device(NULL, 1, accumulator_cuda_fsc_scratch(da, db)), fsc, NULL, &err), &err);
    float *found = get_floats(fsc, shells);
    for (size_t s = 0; s < shells; s++)
        if (!(fabsf(found[s] - expected[s]) <= 1e-6f))
            fail_msg("FSC of shell %zu is %.8g, expected %.8g", s, (double)found[s], (double)expected[s]);
    free(found);
    free(expected);
}

static void finish(const struct accumulator_cuda *d, const struct symmetry *symmetry) {
    struct err err = {0};
    size_t bytes = accumulator_cuda_finish_scratch(d, symmetry);
    void *scratch = bytes > 0 ? on_device(NULL, 1, bytes) : NULL;
    must(accumulator_cuda_finish(d, symmetry, scratch, NULL, &err), &err);
}

static void mstep_trial(int dimensions, int box, int size, const char *group) {
    struct err err = {0};
    struct symmetry symmetry;
    struct padded_cuda *padded = NULL;
    printf("  %d dimensions, box %d, size %d, %s\n", dimensions, box, size, group);
    must(symmetry_create(group, &symmetry, &err), &err);
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    must(padded_cuda_create(dimensions, box, &padded, &err), &err);
    struct accumulator *a = random_sums(dimensions, box, size), *b = like_it(a);
    struct accumulator_cuda da = put_sums(a), db = put_sums(b);
    /* Places are in single precision, on grids that change from voxel to voxel. */
    double bound = symmetry.count > 1 ? 2e-5 : 1e-14;
    must(accumulator_finish(a, &symmetry, 2, &err), &err);
    must(accumulator_finish(b, symmetry.count > 1 ? &symmetry : NULL, 2, &err), &err);
    finish(&da, &symmetry);
    finish(&db, symmetry.count > 1 ? &symmetry : NULL);
    check_sums("finished sums", &da, a, bound);
    check_sums("finished sums", &db, b, bound);
    float *tau2 = host_new((size_t)box / 2 + 1, sizeof *tau2);
    for (int s = 0; s <= box / 2; s++)
        tau2[s] = s % 5 == 3 ? 0 : (float)(0.01 * exp(normal()));
    map_trial(padded, a, &da, NULL);
    map_trial(padded, b, &db, tau2);
    check_sigma2(a, &da);
    check_fsc(a, b, &da, &db);
    must(accumulator_join_shells(a, b, size / 5, &err), &err);
    must(accumulator_cuda_join_shells(&da, &db, size / 5, NULL, &err), &err);
    check_sums("joined sums", &da, a, bound);
    check_sums("joined sums", &db, b, bound);
    check_fsc(a, b, &da, &db);
    must(accumulator_merge(a, b, &err), &err);
    must(accumulator_cuda_merge(&da, &db, NULL, &err), &err);
    check_sums("merged sums", &da, a, bound);
    free(tau2);
    accumulator_destroy(&a);
    accumulator_destroy(&b);
    padded_cuda_destroy(&padded);
    assert_null(padded);
    symmetry_destroy(&symmetry);
    arena_close(arena, ARENA_ITERATION);
}

static void sums_become_maps_as_on_the_cpu(void **state) {
    (void)state;
    mstep_trial(3, 4, 4, "C1");
    mstep_trial(3, 24, 24, "C1");
    mstep_trial(3, 22, 13, "C3");
    mstep_trial(3, 30, 20, "D2");
    mstep_trial(3, 64, 64, "O");
    mstep_trial(3, 96, 50, "C1");
    mstep_trial(2, 4, 2, "C1");
    mstep_trial(2, 36, 36, "C1");
    mstep_trial(2, 130, 60, "C1");
}

/* Halves of different sizes: joins the shells that both have. */
static void halves_of_other_sizes_are_joined(void **state) {
    (void)state;
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    struct accumulator *a = random_sums(3, 32, 20), *b = random_sums(3, 32, 28), *c = random_sums(2, 32, 28);
    struct accumulator_cuda da = put_sums(a), db = put_sums(b), dc = put_sums(c);
    check_fsc(a, b, &da, &db);
    must(accumulator_join_shells(a, b, 30, &err), &err);
    must(accumulator_cuda_join_shells(&da, &db, 30, NULL, &err), &err);
    check_sums("joined sums", &da, a, 1e-14);
    check_sums("joined sums", &db, b, 1e-14);
    must(accumulator_merge(b, a, &err), &err);
    must(accumulator_cuda_merge(&db, &da, NULL, &err), &err);
    check_sums("merged sums", &db, b, 1e-14);
    assert_int_equal(accumulator_cuda_merge(&db, &dc, NULL, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(accumulator_cuda_fsc(&db, &dc, NULL, NULL, NULL, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(accumulator_cuda_put(&da, b, NULL, &err), STATUS_BAD_ARGUMENT);
    accumulator_destroy(&a);
    accumulator_destroy(&b);
    accumulator_destroy(&c);
    arena_close(arena, ARENA_ITERATION);
}

static void reference_trial(int dimensions, int box, int size) {
    struct err err = {0};
    struct projector *projector = NULL;
    struct padded_cuda *padded = NULL;
    size_t voxels = (size_t)box * (size_t)box * (size_t)(dimensions == 3 ? box : 1);
    float *map = host_new(voxels, sizeof *map), *first = NULL;
    for (size_t i = 0; i < voxels; i++)
        map[i] = (float)(0.1 + normal());
    must(projector_create(dimensions, box, 2, &projector, &err), &err);
    must(projector_set_map(projector, map, size, &err), &err);
    must(padded_cuda_create(dimensions, box, &padded, &err), &err);
    struct projector_grid expected = projector_grid(projector);
    struct grid_cuda grid = projector_cuda_grid(dimensions, size);
    size_t count = projector_cuda_bytes(&grid) / sizeof(float);
    assert_int_equal(count, 2 * (size_t)expected.nx * (size_t)expected.ny * (size_t)expected.nz);
    assert_int_equal(grid.reach, expected.reach);
    assert_int_equal(grid.r_max, expected.r_max);
    for (int run = 0; run < 2; run++) {
        must(arena_open(arena, ARENA_ITERATION, &err), &err);
        float *values = on_device(NULL, count, sizeof *values);
        must(projector_cuda_set_map(padded, on_device(map, voxels, sizeof *map), size, &grid, values,
                                    on_device(NULL, 1, padded_cuda_scratch(padded, size)), NULL, &err),
             &err);
        float *found = get_floats(values, count);
        if (run == 0) {
            printf("  %d dimensions, box %d, size %d\n", dimensions, box, size);
            check_values("reference", found, expected.values, count, 1e-5);
            first = found;
        } else {
            assert_memory_equal(found, first, count * sizeof *found);
            free(found);
        }
        arena_close(arena, ARENA_ITERATION);
    }
    free(first);
    free(map);
    projector_destroy(&projector);
    padded_cuda_destroy(&padded);
}

static void references_are_prepared_as_on_the_cpu(void **state) {
    (void)state;
    reference_trial(3, 4, 4);
    reference_trial(3, 4, 3);
    reference_trial(3, 22, 22);
    reference_trial(3, 30, 16);
    reference_trial(3, 64, 64);
    reference_trial(3, 100, 37);
    reference_trial(2, 4, 4);
    reference_trial(2, 36, 36);
    reference_trial(2, 130, 50);
}

/* Makes a half of random sums on the host, and the same in a workspace. */
static void put_on(struct accumulator *a, struct workspace *w, struct accumulator **ret_there) {
    struct err err = {0};
    must(accumulator_create(a->dimensions, a->box, 2, ret_there, &err), &err);
    must(accumulator_clear_on(*ret_there, w, 2 * a->r_max, &err), &err);
    struct accumulator_grid here = accumulator_grid(a), there = accumulator_grid(*ret_there);
    assert_ptr_equal(there.workspace, w);
    assert_int_equal(there.bytes, here.bytes);
    must(device_put(&DEVICE, there.values, here.values, here.bytes, &err), &err);
}

/* Compares what reconstruct.h makes from sums, on host and device by the same calls. */
static void check_map(const struct accumulator *here, const struct accumulator *there, const float *tau2,
                      int last_shell) {
    struct err err = {0};
    size_t shells = (size_t)here->box / 2 + 1, voxels = (size_t)here->box * (size_t)here->box;
    if (here->dimensions == 3) voxels *= (size_t)here->box;
    const struct reconstruct_options options = {
        .tau2 = tau2, .tau_fudge = 1.3, .minres_shell = 2, .last_shell = last_shell, .threads = 2};
    const struct accumulator *const both[2] = {here, there};
    float *map[2], *ssnr[2], *complete[2], *sigma2[2];
    for (int i = 0; i < 2; i++) {
        map[i] = host_new(voxels, sizeof(float)), ssnr[i] = host_new(shells, sizeof(float));
        complete[i] = host_new(shells, sizeof(float)), sigma2[i] = host_new(shells, sizeof(float));
        must(reconstruct_map(both[i], &options, map[i], ssnr[i], tau2 ? complete[i] : NULL, &err), &err);
        must(accumulator_sigma2(both[i], sigma2[i], &err), &err);
    }
    check_values("map", map[1], map[0], voxels, 1e-5);
    check_values("data over prior", ssnr[1], ssnr[0], shells, 1e-5);
    check_values("completeness", complete[1], complete[0], shells, 1e-3);
    check_values("sigma2", sigma2[1], sigma2[0], shells, 1e-5);
    must(reconstruct_map(there, &options, map[0], NULL, NULL, &err), &err);
    assert_memory_equal(map[0], map[1], voxels * sizeof(float));
    for (int i = 0; i < 2; i++)
        free(map[i]), free(ssnr[i]), free(complete[i]), free(sigma2[i]);
}

static void check_halves(struct accumulator *a[2], struct accumulator *b[2]) {
    struct err err = {0};
    size_t shells = (size_t)a[0]->box / 2 + 1;
    float *fsc[2] = {host_new(shells, sizeof(float)), host_new(shells, sizeof(float))};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++)
            must(accumulator_fsc(a[i], b[i], fsc[i], &err), &err);
        check_values("FSC", fsc[1], fsc[0], shells, 1e-6);
        for (int i = 0; i < 2 && round == 0; i++)
            must(accumulator_join_shells(a[i], b[i], 5, &err), &err);
    }
    for (int i = 0; i < 2; i++) {
        must(accumulator_merge(a[i], b[i], &err), &err);
        free(fsc[i]);
    }
}

static void interface_trial(int dimensions, int box, int size, const char *group) {
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    struct symmetry symmetry;
    struct accumulator *a[2], *b[2];
    size_t scratch = 0;
    printf("  %d dimensions, box %d, size %d, %s\n", dimensions, box, size, group);
    must(symmetry_create(group, &symmetry, &err), &err);
    must(arena_create(&DEVICE, (size_t)256 << 20, &memory, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    must(reconstruct_scratch(w, dimensions, box, size, &symmetry, &scratch, &err), &err);
    a[0] = random_sums(dimensions, box, size), b[0] = like_it(a[0]);
    put_on(a[0], w, &a[1]);
    put_on(b[0], w, &b[1]);
    struct accumulator *beside = NULL;
    must(accumulator_create(dimensions, box, 2, &beside, &err), &err);
    must(accumulator_clear_beside(beside, w, size, &symmetry, &err), &err);
    assert_null(accumulator_grid(beside).workspace);
    assert_ptr_equal(beside->beside, w);
    memcpy(beside->voxels, a[0]->voxels, voxel_count(a[0]) * sizeof *beside->voxels);
    assert_int_equal(arena_top(memory), 2 * accumulator_bytes(dimensions, size));
    float *tau2 = host_new((size_t)box / 2 + 1, sizeof *tau2);
    for (int s = 0; s <= box / 2; s++)
        tau2[s] = (float)(0.01 * exp(normal()));
    for (int i = 0; i < 2; i++) {
        must(accumulator_finish(a[i], &symmetry, 2, &err), &err);
        must(accumulator_finish(b[i], &symmetry, 2, &err), &err);
    }
    must(accumulator_finish(beside, &symmetry, 2, &err), &err);
    check_map(a[0], a[1], NULL, 0);
    check_map(a[0], beside, NULL, 0);
    check_map(a[0], beside, NULL, 3);
    check_halves(a, b);
    check_map(a[0], a[1], tau2, 0);
    check_map(a[0], a[1], tau2, 3);
    /* The arena must hold only the sums again, and never more than was announced. */
    assert_int_equal(arena_top(memory), 2 * accumulator_bytes(dimensions, size));
    assert_true(arena_peak(memory, ARENA_ITERATION) <= arena_top(memory) * 3 / 2 + scratch);
    /* Calls that are impossible on a device return an error. */
    assert_int_equal(accumulator_merge(a[0], b[1], &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(accumulator_fsc(a[1], b[0], NULL, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(accumulator_scale(a[1], 2, &err), STATUS_UNSUPPORTED);
    while (accumulator_clear_on(b[1], w, size, &err) == STATUS_OK)
        ;
    assert_non_null(strstr(err.message, "memory"));
    workspace_reset(w);
    assert_int_equal(arena_top(memory), 0);
    /* Back on the host. */
    must(accumulator_clear(a[1], size, &err), &err);
    assert_null(accumulator_grid(a[1]).workspace);
    must(accumulator_merge(a[1], a[0], &err), &err);
    free(tau2);
    accumulator_destroy(&beside);
    for (int i = 0; i < 2; i++) {
        accumulator_destroy(&a[i]);
        accumulator_destroy(&b[i]);
    }
    workspace_destroy(&w);
    arena_destroy(&memory);
    symmetry_destroy(&symmetry);
}

static void sums_of_a_workspace_are_used_alike(void **state) {
    (void)state;
    interface_trial(3, 24, 24, "C1");
    interface_trial(3, 30, 21, "D2");
    interface_trial(3, 64, 40, "C1");
    interface_trial(2, 36, 30, "C1");
}

static void projector_trial(int dimensions, int box, int size) {
    struct err err = {0};
    struct arena *memory = NULL;
    struct workspace *w = NULL;
    struct projector *here = NULL, *there = NULL;
    struct fourier_pixels pixels = {0};
    size_t voxels = (size_t)box * (size_t)box * (size_t)(dimensions == 3 ? box : 1), shells = (size_t)box / 2 + 1;
    float *map = host_new(voxels, sizeof *map), *power[2], *slice[2];
    const float matrix[9] = {0.36f, 0.48f, -0.8f, -0.8f, 0.6f, 0, 0.48f, 0.64f, 0.6f};
    const float in_plane[9] = {0.6f, 0.8f, 0, -0.8f, 0.6f, 0, 0, 0, 1};
    for (size_t i = 0; i < voxels; i++)
        map[i] = (float)(0.1 + normal());
    printf("  %d dimensions, box %d, size %d\n", dimensions, box, size);
    must(arena_create(&DEVICE, (size_t)256 << 20, &memory, &err), &err);
    must(workspace_create(&DEVICE, memory, NULL, NULL, &w, &err), &err);
    must(fourier_pixels_create(box, size, &pixels, &err), &err);
    must(projector_create(dimensions, box, 2, &here, &err), &err);
    must(projector_create(dimensions, box, 2, &there, &err), &err);
    must(projector_set_map(here, map, size, &err), &err);
    must(projector_set_map_on(there, w, map, size, &err), &err);
    assert_int_equal(arena_top(memory), projector_bytes(dimensions, size));
    assert_ptr_equal(projector_grid(there).workspace, w);
    assert_null(projector_grid(here).workspace);
    struct projector *const both[2] = {here, there};
    for (int i = 0; i < 2; i++) {
        power[i] = host_new(shells, sizeof(float)), slice[i] = host_new((size_t)pixels.count, 2 * sizeof(float));
        must(projector_power(both[i], power[i], &err), &err);
        must(projector_to_host(both[i], &err), &err);
        projector_slices(both[i], &pixels, pixels.count, 1, dimensions == 3 ? matrix : in_plane, 1, slice[i]);
    }
    for (size_t s = 0; s < shells; s++)
        if (!(fabsf(power[1][s] - power[0][s]) <= 1e-5f * power[0][s]))
            fail_msg("power of shell %zu is %g, expected %g", s, (double)power[1][s], (double)power[0][s]);
    check_values("slice", slice[1], slice[0], 2 * (size_t)pixels.count, 1e-5);
    /* Shells up to the fourth, and more than exist, of another map. */
    for (int shell = 4; shell < box; shell += box / 2) {
        for (size_t i = 0; i < voxels; i++)
            map[i] = (float)(0.1 + normal());
        for (int i = 0; i < 2; i++) {
            must(projector_set_shells(both[i], map, shell, &err), &err);
            must(projector_to_host(both[i], &err), &err);
            projector_slices(both[i], &pixels, pixels.count, 1, dimensions == 3 ? matrix : in_plane, 1, slice[i]);
        }
        check_values("slice of two maps", slice[1], slice[0], 2 * (size_t)pixels.count, 1e-5);
        assert_int_equal(arena_top(memory), projector_bytes(dimensions, size));
    }
    must(projector_set_map(here, map, size, &err), &err);
    assert_int_equal(projector_set_map_on(there, w, map, box + 2, &err), STATUS_BAD_ARGUMENT);
    while (projector_set_map_on(there, w, map, size, &err) == STATUS_OK)
        ;
    assert_non_null(strstr(err.message, "memory"));
    must(projector_set_map(there, map, size, &err), &err);
    struct projector_grid again = projector_grid(there), first = projector_grid(here);
    assert_null(again.workspace);
    assert_memory_equal(again.values, first.values,
                        2 * sizeof(float) * (size_t)first.nx * (size_t)first.ny * (size_t)first.nz);
    for (int i = 0; i < 2; i++)
        free(power[i]), free(slice[i]);
    projector_destroy(&here);
    projector_destroy(&there);
    fourier_pixels_destroy(&pixels);
    workspace_destroy(&w);
    arena_destroy(&memory);
    free(map);
}

static void references_of_a_workspace_are_used_alike(void **state) {
    (void)state;
    projector_trial(3, 24, 24);
    projector_trial(3, 64, 38);
    projector_trial(2, 36, 30);
}

struct timing {
    struct padded_cuda *padded;
    struct accumulator_cuda a, b;
    struct symmetry symmetry;
    struct grid_cuda grid;
    float *map, *values, *shells;
    void *scratch;
    int size;
};

enum step { FINISH, SYMMETRY, FSC, MAP, SET_MAP, STEPS };

static void run_step(struct timing *t, enum step step) {
    struct err err = {0};
    const struct reconstruct_cuda_options options = {NULL, 1, 5};
    switch (step) {
    case FINISH:
        must(accumulator_cuda_finish(&t->a, NULL, NULL, NULL, &err), &err);
        break;
    case SYMMETRY:
        must(accumulator_cuda_finish(&t->a, &t->symmetry, t->scratch, NULL, &err), &err);
        break;
    case FSC:
        must(accumulator_cuda_fsc(&t->a, &t->b, t->scratch, t->shells, NULL, &err), &err);
        break;
    case MAP:
        must(reconstruct_cuda_map(t->padded, &t->a, &options, t->scratch, t->map, t->shells, NULL, NULL, &err), &err);
        break;
    default:
        must(projector_cuda_set_map(t->padded, t->map, t->size, &t->grid, t->values, t->scratch, NULL, &err), &err);
    }
}

static double seconds_of(struct timing *t, enum step step) {
    enum { REPEATS = 10 };
    float byte;
    run_step(t, step);
    from_device(&byte, t->shells, sizeof byte);
    double start = clock_monotonic();
    for (int i = 0; i < REPEATS; i++)
        run_step(t, step);
    from_device(&byte, t->shells, sizeof byte);
    return (clock_monotonic() - start) / REPEATS;
}

/* Returns the time to read and write all data of a step once. */
static double floor_of(const struct timing *t, enum step step) {
    double box3 = pow(t->padded ? t->a.box : 0, 3), bytes = (double)accumulator_cuda_bytes(&t->a);
    double inside = 2 * M_PI / 3 * pow(2.0 * t->a.r_max, 3) * 32;
    const double all[STEPS] = {[FINISH] = 2.0 * t->a.ny * t->a.nz * 32,
                               [SYMMETRY] = bytes + inside,
                               [FSC] = 2 * inside,
                               [MAP] = inside + 4 * box3,
                               [SET_MAP] = 4 * box3 + (double)projector_cuda_bytes(&t->grid)};
    return all[step] / COPIED;
}

static void time_size(int box, int size, bool halves) {
    static const char *const names[STEPS] = {"conjugate pairs", "symmetry O", "FSC", "map", "reference"};
    struct err err = {0};
    struct timing t = {.size = size};
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    must(padded_cuda_create(3, box, &t.padded, &err), &err);
    must(symmetry_create("O", &t.symmetry, &err), &err);
    struct accumulator *a = NULL;
    must(accumulator_create(3, box, size, &a, &err), &err);
    for (size_t i = 0; i < voxel_count(a); i++)
        a->voxels[i] = (accumulator_voxel){(double)(i % 7), 1, 1 + (double)(i % 5), 0};
    t.a = t.b = accumulator_cuda_shape(3, box, size);
    must(arena_take(arena, 1, accumulator_cuda_bytes(&t.a), "sums", &t.a.voxels, &err), &err);
    if (halves) must(arena_take(arena, 1, accumulator_cuda_bytes(&t.b), "sums", &t.b.voxels, &err), &err);
    must(arena_take(arena, 1024, sizeof(float), "shells", &t.shells, &err), &err);
    t.grid = projector_cuda_grid(3, size);
    for (int step = 0; step < STEPS; step++) {
        if (step == FSC && !halves) continue;
        must(accumulator_cuda_put(&t.a, a, NULL, &err), &err);
        if (halves) must(accumulator_cuda_put(&t.b, a, NULL, &err), &err);
        must(arena_open(arena, ARENA_PARTICLES, &err), &err);
        size_t need = step == SYMMETRY  ? accumulator_cuda_finish_scratch(&t.a, &t.symmetry)
                      : step == FSC     ? accumulator_cuda_fsc_scratch(&t.a, &t.b)
                      : step == MAP     ? reconstruct_cuda_scratch(t.padded, &t.a)
                      : step == SET_MAP ? padded_cuda_scratch(t.padded, size)
                                        : 0;
        if (step >= MAP) t.map = on_device(NULL, voxels, sizeof(float));
        /* The sums are no longer needed when a reference is made from their map. */
        if (step == SET_MAP) t.values = (float *)t.a.voxels;
        if (need > 0) must(arena_take(arena, 1, need, "scratch", &t.scratch, &err), &err);
        double seconds = seconds_of(&t, (enum step)step), floor = floor_of(&t, (enum step)step);
        printf("%5d %5d %16s %9.3f %9.3f %6.1f %8.2f\n", box, size, names[step], 1e3 * seconds, 1e3 * floor,
               seconds / floor, (double)arena_top(arena) / (1 << 30));
        arena_close(arena, ARENA_PARTICLES);
    }
    accumulator_destroy(&a);
    padded_cuda_destroy(&t.padded);
    symmetry_destroy(&t.symmetry);
    arena_close(arena, ARENA_ITERATION);
}

static void time_of_real_sizes(void **state) {
    (void)state;
    if (!timed) skip();
    struct err err = {0};
    arena_destroy(&arena);
    must(arena_create(&DEVICE, (size_t)8 << 30, &arena, &err), &err);
    printf("%5s %5s %16s %9s %9s %6s %8s\n", "box", "size", "step", "ms", "floor", "ratio", "GiB");
    time_size(128, 60, true);
    time_size(128, 128, true);
    time_size(360, 200, true);
    time_size(360, 360, false);
}

int main(int argc, char **argv) {
    timed = argc > 1 && strcmp(argv[argc - 1], "time") == 0;
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 && argv[1][0] != 't' ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_become_maps_as_on_the_cpu),
        cmocka_unit_test(halves_of_other_sizes_are_joined),
        cmocka_unit_test(sums_of_a_workspace_are_used_alike),
        cmocka_unit_test(references_of_a_workspace_are_used_alike),
        cmocka_unit_test(references_are_prepared_as_on_the_cpu),
        cmocka_unit_test(time_of_real_sizes),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
