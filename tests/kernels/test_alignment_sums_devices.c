/* Compares residuals and back-projection on each CUDA device with plain sums in double and with the CPU's accumulator.
 * New random input from a printed seed, or from a given one: test_alignment_sums_devices [SEED | time]. Outputs are
 * poisoned before.
 *
 * Frames, cosines and sines are multiples of 1/256, so that products of them and of pixels are exact in single
 * precision, and both sides place pixels alike. One trial uses true rotations. */
#include <stdio.h>
#include <time.h>

#include "kernels/sampling/sampling.h"
#include "tests/kernels/alignment_sums_plain.h"

struct residuals {
    float *power;
    double *sums;
};

/* Source of slices for the residuals. */
enum source { VALUES, QUADS, STORED, SOURCES };

static void use_source(struct world *w, enum source source) {
    struct err err = {0};
    int rows = w->references * w->directions * w->psis;
    for (int k = 0; k < w->references && source == QUADS; k++) {
        struct grid_cuda *grid = &w->d_references.grids[k];
        float *quads = on_device(NULL, grid_quads_floats(grid), sizeof *quads);
        must(grid_quads_cuda(grid, quads, NULL, &err), &err);
        grid->quads = quads;
    }
    if (source != STORED) return;
    size_t count = 2 * alignment_cuda_fine_slice_row(&w->d_references) * (size_t)w->rotations * (size_t)rows;
    float *slices = NULL;
    if (count < 1 << 28)
        slices = on_device(NULL, count, sizeof *slices);
    else
        must(arena_take(arena, count, sizeof *slices, "slices", &slices, &err), &err);
    must(alignment_cuda_fine_slices(&w->d_references, &w->d_sampling, 0, rows, slices, NULL, &err), &err);
    w->d_references.slices = slices;
}

static void run_residuals(const struct world *w, struct residuals *r) {
    struct err err = {0};
    size_t powers = (size_t)w->particles * (size_t)w->shells, sums = 2 * (size_t)w->particles;
    must(arena_open(arena, ARENA_PARTICLES, &err), &err);
    float *power = on_device(NULL, powers, sizeof *power);
    double *residuals = on_device(NULL, sums, sizeof *residuals);
    void *scratch = on_device(NULL, 1, alignment_cuda_residuals_scratch(&w->d_particles));
    must(alignment_cuda_residuals(&w->d_references, &w->d_sampling, &w->d_particles, w->d_list, w->d_begin, w->d_best,
                                  w->shells, w->d_known, scratch, power, residuals, NULL, &err),
         &err);
    from_device(r->power, power, powers * sizeof *power);
    from_device(r->sums, residuals, sums * sizeof *residuals);
    arena_close(arena, ARENA_PARTICLES);
}

/* bound: relative error that single precision adds to each term. */
static double check_residuals(const struct world *w, const struct residuals *r, double bound) {
    double worst = 0;
    double *shells = host_new((size_t)w->shells, sizeof *shells), *sizes = host_new((size_t)w->shells, sizeof *sizes);
    for (int p = 0; p < w->particles; p++) {
        memset(shells, 0, (size_t)w->shells * sizeof *shells);
        memset(sizes, 0, (size_t)w->shells * sizeof *sizes);
        plain_residuals(w, p, shells, sizes);
        for (int s = 0; s < w->shells; s++) {
            double found = r->power[p * w->shells + s];
            if (s < 1 || s > w->size / 2 || w->begin[p] == w->begin[p + 1]) {
                if (found != w->power[p * w->shells + s]) fail_msg("particle %d, shell %d was changed", p, s);
                continue;
            }
            double each = w->best[p].weight_sum * 2 * (w->pixels.shell_begin[s + 1] - w->pixels.shell_begin[s]);
            double error = fabs(found - shells[s] / each) / (sizes[s] / each);
            if (!(error <= bound)) fail_msg("particle %d, shell %d: %g is off by %g", p, s, found, error);
            if (error > worst) worst = error;
        }
        double best[2];
        plain_best(w, p, best);
        for (int i = 0; i < 2; i++) {
            double error = fabs(r->sums[2 * p + i] - best[i]) / (best[1] + 1e-30);
            if (!(error <= bound)) fail_msg("particle %d: %g, expected %g", p, r->sums[2 * p + i], best[i]);
            if (error > worst) worst = error;
        }
    }
    free(shells);
    free(sizes);
    return worst;
}

static double residuals_trial(const struct world *w, double bound) {
    size_t powers = (size_t)w->particles * (size_t)w->shells, sums = 2 * (size_t)w->particles;
    struct residuals first = {host_new(powers, sizeof(float)), host_new(sums, sizeof(double))};
    struct residuals again = {host_new(powers, sizeof(float)), host_new(sums, sizeof(double))};
    run_residuals(w, &first);
    run_residuals(w, &again);
    assert_memory_equal(first.power, again.power, powers * sizeof(float));
    assert_memory_equal(first.sums, again.sums, sums * sizeof(double));
    double worst = check_residuals(w, &first, bound);
    free(first.power);
    free(first.sums);
    free(again.power);
    free(again.sums);
    return worst;
}

static void clear_sums(const struct world *w) {
    struct err err = {0};
    size_t bytes = (size_t)w->voxels * 4 * sizeof(int64_t);
    void *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    for (int k = 0; k < w->references; k++)
        must(device_put(&DEVICE, w->d_sums.voxels[k], zeros, bytes, &err), &err);
    must(device_put(&DEVICE, w->d_sums.overflow, zeros, sizeof *w->d_sums.overflow, &err), &err);
    free(zeros);
}

static void add_sums(const struct world *w, uint32_t count, int near) {
    struct err err = {0};
    size_t bytes = 0;
    must(arena_open(arena, ARENA_PARTICLES, &err), &err);
    must(alignment_cuda_back_project_scratch(count, &bytes, &err), &err);
    void *scratch = on_device(NULL, 1, bytes);
    must(alignment_cuda_back_project(&w->d_references, &w->d_sampling, &w->d_particles, w->d_factor, w->d_list,
                                     w->d_begin, count, near, scratch, &w->d_sums, NULL, &err),
         &err);
    arena_close(arena, ARENA_PARTICLES);
}

static struct sums_fill get_fill(const struct world *w) {
    struct sums_fill fill;
    from_device(&fill, w->d_sums.overflow, sizeof fill);
    return fill;
}

/* Returns, over all shells of voxels, the largest ‖difference‖ / ‖expected‖ of data and of weights. The denominator is
 * at least a thousandth of the shell within, for shells that hold only a corner or two of little weight. */
static double worst_voxels(const struct accumulator_grid *g, const double *found) {
    double worst = 0;
    double *sum = host_new((size_t)g->reach * 8, sizeof *sum), *off = host_new((size_t)g->reach * 8, sizeof *off);
    for (int z = 0; z < g->nz; z++)
        for (int y = 0; y < g->ny; y++)
            for (int x = 0; x < g->nx; x++) {
                int dz = g->nz > 1 ? z - g->reach : 0, dy = y - g->reach;
                size_t at = 4 * (((size_t)z * (size_t)g->ny + (size_t)y) * (size_t)g->nx + (size_t)x);
                size_t shell = 2 * (size_t)sqrt(x * x + dy * dy + dz * dz);
                for (size_t i = 0; i < 4; i++) {
                    double d = found[at + i] - g->values[at + i];
                    sum[shell + (i > 1)] += g->values[at + i] * g->values[at + i];
                    off[shell + (i > 1)] += d * d;
                }
                if (found[at + 3] != 0) fail_msg("the fourth word of a voxel is %g", found[at + 3]);
            }
    for (int i = 0; i < 8 * g->reach; i++) {
        if (sum[i] == 0 && off[i] == 0) continue;
        double within = i > 1 ? 1e-6 * sum[i - 2] : 0;
        double error = sqrt(off[i] / (sum[i] > within ? sum[i] : within));
        if (!(error <= worst)) worst = error;
    }
    free(sum);
    free(off);
    return worst;
}

static double sums_trial(const struct world *w, int near, double bound) {
    struct err err = {0};
    size_t bytes = (size_t)w->voxels * 4 * sizeof(int64_t);
    double worst = 0, *found = host_new(bytes, 1), *again = host_new(bytes, 1);
    struct accumulator *sums[2] = {NULL};
    for (int k = 0; k < w->references; k++)
        must(accumulator_create(w->dimensions, w->box, w->size, &sums[k], &err), &err);
    plain_sums(w, sums);
    for (int k = 0; k < w->references; k++) {
        struct accumulator_grid grid = accumulator_grid(sums[k]);
        assert_int_equal(grid.bytes, bytes);
        clear_sums(w);
        add_sums(w, w->count, near);
        from_device(found, w->d_sums.voxels[k], bytes);
        clear_sums(w);
        add_sums(w, w->count, near);
        from_device(again, w->d_sums.voxels[k], bytes);
        assert_memory_equal(found, again, bytes);
        must(alignment_cuda_sums_to_double(&w->d_sums, k, NULL, &err), &err);
        from_device(found, w->d_sums.voxels[k], bytes);
        double error = worst_voxels(&grid, found);
        if (!(error <= bound)) fail_msg("sums of reference %d are off by %g (%g allowed)", k, error, bound);
        if (error > worst) worst = error;
        accumulator_destroy(&sums[k]);
    }
    assert_int_equal(get_fill(w).overflow, 0);
    free(found);
    free(again);
    return worst;
}

/* Closes an iteration that a failed test left open. */
static int close_iteration(void **state) {
    (void)state;
    arena_close(arena, ARENA_ITERATION);
    return 0;
}

static void trial(struct world w, double bound) {
    make_world(&w);
    double residuals = 0, sums = sums_trial(&w, false, bound);
    for (int source = VALUES; source < SOURCES; source++) {
        if (source == QUADS && w.dimensions == 2) continue;
        use_source(&w, (enum source)source);
        residuals = fmax(residuals, residuals_trial(&w, 2 * bound));
    }
    double near = sums_trial(&w, true, 2 * bound); /* 2^-31 of a pixel is rounded too */
    printf(
        "%d-D, box %d, size %d, %d particles, %u poses: residuals are off by %.2g, sums by %.2g, near by %.2g at most "
        "(%.2g allowed)\n",
        w.dimensions, w.box, w.size, w.particles, w.count, residuals, sums, near, bound);
    free_world(&w);
}

/* Single precision rounds each factor of a term by 6e-8, and phases have an error of 1.5e-7: a few times 1e-7 together;
 * the largest of many thousand sums reaches 1.1e-6 now and then. */
static const double BOUND = 2e-6;

static void volumes(void **state) {
    (void)state;
    trial((struct world){.dimensions = 3,
                         .box = 32,
                         .size = 20,
                         .particles = 7,
                         .references = 2,
                         .directions = 5,
                         .psis = 6,
                         .shifts = 5,
                         .most = 200,
                         .children = true,
                         .rounded = true},
          BOUND);
    trial((struct world){.dimensions = 3,
                         .box = 30,
                         .size = 30,
                         .particles = 3,
                         .references = 1,
                         .directions = 11,
                         .psis = 7,
                         .shifts = 3,
                         .most = 90,
                         .rounded = true},
          BOUND);
    trial((struct world){.dimensions = 3,
                         .box = 128,
                         .size = 82,
                         .particles = 5,
                         .references = 1,
                         .directions = 9,
                         .psis = 10,
                         .shifts = 21,
                         .most = 60,
                         .children = true,
                         .rounded = true},
          BOUND);
}

static void classes(void **state) {
    (void)state;
    trial((struct world){.dimensions = 2,
                         .box = 64,
                         .size = 50,
                         .particles = 40,
                         .references = 2,
                         .directions = 1,
                         .psis = 30,
                         .shifts = 9,
                         .most = 70,
                         .children = true,
                         .rounded = true},
          BOUND);
    trial((struct world){.dimensions = 2,
                         .box = 16,
                         .size = 4,
                         .particles = 4,
                         .references = 1,
                         .directions = 1,
                         .psis = 3,
                         .shifts = 1,
                         .most = 4,
                         .rounded = true},
          BOUND);
}

/* All particles contribute to one slice, or to few: many pieces. */
static void slices_that_are_shared(void **state) {
    (void)state;
    trial((struct world){.dimensions = 3,
                         .box = 32,
                         .size = 32,
                         .particles = 300,
                         .references = 1,
                         .directions = 3,
                         .psis = 4,
                         .shifts = 5,
                         .most = 12,
                         .sharing = 1,
                         .children = true,
                         .rounded = true},
          BOUND);
    trial((struct world){.dimensions = 2,
                         .box = 32,
                         .size = 32,
                         .particles = 700,
                         .references = 1,
                         .directions = 1,
                         .psis = 8,
                         .shifts = 5,
                         .most = 9,
                         .sharing = 3,
                         .children = true,
                         .rounded = true},
          BOUND);
}

/* One particle, with one pose and with many; no particle. */
static void few(void **state) {
    (void)state;
    struct world w = {.dimensions = 3,
                      .box = 32,
                      .size = 24,
                      .particles = 1,
                      .references = 1,
                      .directions = 2,
                      .psis = 2,
                      .shifts = 1,
                      .most = 1,
                      .rounded = true};
    trial(w, BOUND);
    w.most = 1000, w.shifts = 60, w.children = true;
    trial(w, BOUND);
    make_world(&w);
    clear_sums(&w);
    add_sums(&w, 0, false);
    assert_int_equal(get_fill(&w).data, 0);
    free_world(&w);
}

/* True rotations: the two sides round a pixel's place differently, by about 2^-17 of a voxel, which is a larger part of
 * what the pixel gives to the corner far from it. */
static void rotations(void **state) {
    (void)state;
    trial((struct world){.dimensions = 3,
                         .box = 64,
                         .size = 64,
                         .particles = 6,
                         .references = 1,
                         .directions = 20,
                         .psis = 12,
                         .shifts = 9,
                         .most = 100,
                         .children = true},
          1e-4);
}

/* Makes a batch of particles that all give one slice as much as there is room for. */
static void make_full(struct world *w) {
    make_world(w);
    double deviation = sqrt(w->sigma2[w->size / 2]);
    for (size_t i = 0; i < (size_t)w->particles * w->stride; i++) {
        w->unmasked[2 * i] = (float)((48 + 12 * uniform()) * deviation), w->unmasked[2 * i + 1] = 0;
        w->ctf[i] = 1;
        w->weight[i] = 1 / w->sigma2[w->size / 2];
    }
    w->list[0].weight = 1;
    w->shift[0] = w->shift[1] = 0;
    for (int i = 0; i < w->particles; i++) {
        w->factor[i] = 1;
        w->list[i] = w->list[0];
        w->list[i].particle = i;
    }
    w->count = (uint32_t)w->particles;
    bring(w);
    alignment_cuda_sums_scale(w->sigma2, 1, w->shells, 1e5, &w->d_sums);
    clear_sums(w);
}

/* Adds 10^5 particles, which fit, and then more. */
static void sums_that_are_full(void **state) {
    (void)state;
    enum { BATCH = 512, BATCHES = 196 };
    struct err err = {0};
    struct world w = {.dimensions = 3,
                      .box = 16,
                      .size = 16,
                      .particles = BATCH,
                      .references = 1,
                      .directions = 1,
                      .psis = 1,
                      .shifts = 1,
                      .most = 1,
                      .sharing = 1,
                      .rounded = true};
    make_full(&w);
    size_t bytes = (size_t)w.voxels * 4 * sizeof(int64_t);
    double *once = host_new(bytes, 1), *found = host_new(bytes, 1);
    struct accumulator *sums = NULL;
    must(accumulator_create(3, w.box, w.size, &sums, &err), &err);
    plain_sums(&w, &sums);
    must(accumulator_scale(sums, BATCHES, &err), &err);
    for (int i = 0; i < BATCHES; i++)
        add_sums(&w, w.count, false);
    struct sums_fill fill = get_fill(&w);
    assert_int_equal(fill.overflow, 0);
    from_device(once, w.d_sums.voxels[0], bytes);
    for (size_t i = 0; i < bytes / sizeof(int64_t); i++) {
        int64_t value = ((int64_t *)once)[i];
        if ((uint64_t)llabs(value) > (i % 4 < 2 ? fill.data : fill.weight) * 1.03)
            fail_msg("a voxel holds %lld units", (long long)value);
    }
    must(alignment_cuda_sums_to_double(&w.d_sums, 0, NULL, &err), &err);
    from_device(found, w.d_sums.voxels[0], bytes);
    struct accumulator_grid grid = accumulator_grid(sums);
    double error = worst_voxels(&grid, found);
    printf("%d particles: 2^%.1f of 2^62 units of data and 2^%.1f of weight may be there; sums are off by %.2g\n",
           BATCH * BATCHES, log2((double)fill.data), log2((double)fill.weight), error);
    assert_true(error <= BOUND);
    for (int i = 0; i < 2 * BATCHES; i++)
        add_sums(&w, w.count, false);
    assert_int_equal(get_fill(&w).overflow, 1);
    accumulator_destroy(&sums);
    free(once);
    free(found);
    free_world(&w);
}

/* NaN and values that are far too large are noticed. */
static void images_that_do_not_fit(void **state) {
    (void)state;
    struct err err = {0};
    const float values[] = {NAN, INFINITY, 1e30f};
    struct world w = {.dimensions = 2,
                      .box = 16,
                      .size = 12,
                      .particles = 3,
                      .references = 1,
                      .directions = 1,
                      .psis = 4,
                      .shifts = 2,
                      .most = 5,
                      .rounded = true};
    make_world(&w);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        clear_sums(&w);
        add_sums(&w, w.count, false);
        assert_int_equal(get_fill(&w).overflow, 0);
        float *at = w.d_particles.unmasked + 2 * w.stride * 2 + 7;
        must(device_put(&DEVICE, at, &values[i], sizeof *values, &err), &err);
        add_sums(&w, w.count, false);
        assert_int_equal(get_fill(&w).overflow, 1);
        must(device_put(&DEVICE, at, w.unmasked + 2 * w.stride * 2 + 7, sizeof *values, &err), &err);
    }
    free_world(&w);
}

#include "tests/kernels/alignment_sums_times.h"

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    bool timed = argc > 1 && strcmp(argv[1], "time") == 0;
    choose_seed(argc > 1 && !timed ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(volumes, close_iteration),
        cmocka_unit_test_teardown(classes, close_iteration),
        cmocka_unit_test_teardown(slices_that_are_shared, close_iteration),
        cmocka_unit_test_teardown(few, close_iteration),
        cmocka_unit_test_teardown(rotations, close_iteration),
        cmocka_unit_test_teardown(sums_that_are_full, close_iteration),
        cmocka_unit_test_teardown(images_that_do_not_fit, close_iteration),
    };
    int failed = cmocka_run_group_tests(tests, open_arena, close_arena);
    return failed || !timed ? failed : cmocka_run_group_tests(times, open_large, close_arena);
}
