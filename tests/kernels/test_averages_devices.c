/* Compares class averages on a CUDA device with the CPU's, by the same calls. New random input from a printed seed:
 * gpu_averages [SEED]. */
#include <stdio.h>

#include "kernels/alignment/cuda/alignment.h"
#include "kernels/averages/averages.h"
#include "tests/kernels/devices.h"

static struct workspace *workspace;

struct pair {
    struct averages_options options;
    struct averages *here, *there;
    size_t shells, pixels;
};

static struct pair pair_of(int box, int max_size, int capacity) {
    struct err err = {0};
    struct pair p = {.options = {.box = box,
                                 .max_size = max_size,
                                 .capacity = capacity,
                                 .mask_radius = 0.35 * box,
                                 .tau_fudge = 2,
                                 .minres_shell = 3,
                                 .threads = 2}};
    p.shells = (size_t)box / 2 + 1, p.pixels = (size_t)box * (size_t)box;
    must(averages_create(&p.options, &p.here, &err), &err);
    p.options.workspace = workspace;
    must(averages_create(&p.options, &p.there, &err), &err);
    print_message("  box %d, size %d, %d classes\n", box, max_size, capacity);
    return p;
}

static void discard(struct pair *p) {
    averages_destroy(&p->here);
    averages_destroy(&p->there);
    averages_destroy(&p->there);
    workspace_reset(workspace);
}

/* Compares references made from maps: grids and their power. */
static void check_reference(const struct pair *p, int k) {
    struct err err = {0};
    struct projector_grid here = projector_grid(averages_reference(p->here, k));
    struct projector_grid there = projector_grid(averages_reference(p->there, k));
    size_t count = 2 * (size_t)here.nx * (size_t)here.ny;
    assert_ptr_equal(there.workspace, workspace);
    assert_true(here.nx == there.nx && here.ny == there.ny && here.r_max == there.r_max);
    float *found = host_new(count, sizeof *found);
    must(device_get(&DEVICE, found, there.values, count * sizeof *found, &err), &err);
    check_values("reference", found, here.values, count, 1e-5);
    free(found);
}

/* Makes the input and output of classes: NaN at first, except for the prior. */
static struct average *list_of(const struct pair *p, const float *tau2, const int *which, int count) {
    struct average *list = host_new((size_t)count, sizeof *list);
    for (int i = 0; i < count; i++) {
        float *all = host_new(p->pixels + 4 * p->shells, sizeof *all);
        memset(all, 0xff, (p->pixels + 4 * p->shells) * sizeof *all);
        float *spectra = all + p->pixels;
        list[i] = (struct average){
            which[i], all, spectra, spectra + p->shells, spectra + 2 * p->shells, spectra + 3 * p->shells};
        memcpy(list[i].tau2, tau2 + (size_t)which[i] * p->shells, p->shells * sizeof *tau2);
    }
    return list;
}

static void free_list(struct average *list, int count) {
    for (int i = 0; i < count; i++)
        free(list[i].map);
    free(list);
}

static void set_all(const struct pair *p) {
    struct err err = {0};
    int count = p->options.capacity, *which = host_new((size_t)count, sizeof *which);
    float *none = host_new((size_t)count * p->shells, sizeof *none);
    memset(none, 0xff, (size_t)count * p->shells * sizeof *none);
    for (int k = 0; k < count; k++)
        which[k] = count - 1 - k;
    struct average *here = list_of(p, none, which, count), *there = list_of(p, none, which, count);
    for (int i = 0; i < count; i++) {
        for (size_t j = 0; j < p->pixels; j++)
            there[i].map[j] = here[i].map[j] = (float)(0.1 + normal());
    }
    must(averages_set(p->here, here, count, &err), &err);
    must(averages_set(p->there, there, count, &err), &err);
    for (int i = 0; i < count; i++) {
        check_values("power", there[i].tau2, here[i].tau2, p->shells, 1e-5);
        assert_memory_equal(there[i].map, here[i].map, p->pixels * sizeof(float));
        check_reference(p, here[i].index);
    }
    free_list(here, count);
    free_list(there, count);
    free(none);
    free(which);
}

/* Fills halves that resemble each other; one class is empty, another has only a first half. */
static void fill(const struct pair *p) {
    struct err err = {0};
    must(averages_fade(p->there, p->options.capacity, 0, &err), &err);
    for (int k = 0; k < p->options.capacity; k++)
        for (int half = 0; half < (k == 1 ? 0 : k == 2 ? 1 : 2); half++) {
            struct accumulator_grid here = accumulator_grid(averages_sums(p->here, k, half));
            struct accumulator_grid there = accumulator_grid(averages_sums(p->there, k, half));
            const double *first = accumulator_grid(averages_sums(p->here, k, 0)).values;
            assert_int_equal(here.bytes, there.bytes);
            for (size_t i = 0; i < here.bytes / sizeof(double); i += 4) {
                double weight = uniform() < 0.1 ? 0 : 100 * exp(2 * normal()), alike = half == 1 ? 0.7 : 0;
                for (size_t j = 0; j < 2; j++)
                    here.values[i + j] = alike * first[i + j] + weight * (0.2 + normal()) + sqrt(weight) * normal();
                here.values[i + 2] = alike * first[i + 2] + weight;
            }
            must(device_put(&DEVICE, there.values, here.values, here.bytes, &err), &err);
        }
}

static void check_sums(const struct pair *p) {
    struct err err = {0};
    for (int k = 0; k < p->options.capacity; k++)
        for (int half = 0; half < 2; half++) {
            struct accumulator_grid here = accumulator_grid(averages_sums(p->here, k, half));
            struct accumulator_grid there = accumulator_grid(averages_sums(p->there, k, half));
            double *found = host_new(here.bytes, 1);
            must(device_get(&DEVICE, found, there.values, here.bytes, &err), &err);
            for (size_t i = 0; i < here.bytes / sizeof(double); i++)
                if (!(found[i] == here.values[i]))
                    fail_msg("value %zu of half %d of class %d is %.17g, expected %.17g", i, half, k, found[i],
                             here.values[i]);
            free(found);
        }
}

static void check_made(const struct pair *p, const struct average *here, const struct average *there, int count) {
    for (int i = 0; i < count; i++) {
        check_values("map", there[i].map, here[i].map, p->pixels, 2e-5);
        check_values("power", there[i].tau2, here[i].tau2, p->shells, 2e-5);
        check_values("data over prior", there[i].data_vs_prior, here[i].data_vs_prior, p->shells, 1e-5);
        check_values("completeness", there[i].completeness, here[i].completeness, p->shells, 1e-3);
        check_values("FSC", there[i].fsc, here[i].fsc, p->shells, 1e-6);
        check_reference(p, here[i].index);
    }
}

static void same(const struct pair *p, const struct average *a, const struct average *b) {
    assert_int_equal(a->index, b->index);
    assert_memory_equal(a->map, b->map, (p->pixels + 4 * p->shells) * sizeof(float));
}

/* Makes all averages, then some of them in another order: identical bit for bit. */
static void make_trial(int box, int max_size, int capacity) {
    struct err err = {0};
    struct pair p = pair_of(box, max_size, capacity);
    float *tau2 = host_new((size_t)capacity * p.shells, sizeof *tau2);
    int *which = host_new((size_t)capacity, sizeof *which), some = (capacity + 1) / 2;
    set_all(&p);
    fill(&p);
    for (size_t i = 0; i < (size_t)capacity * p.shells; i++)
        tau2[i] = i % p.shells % 5 == 3 ? 0 : (float)(0.01 * exp(normal()));
    for (int k = 0; k < capacity; k++)
        which[k] = k;
    struct average *here = list_of(&p, tau2, which, capacity), *there = list_of(&p, tau2, which, capacity);
    must(averages_make(p.here, here, capacity, &err), &err);
    must(averages_make(p.there, there, capacity, &err), &err);
    check_made(&p, here, there, capacity);
    check_sums(&p);
    for (int i = 0; i < some; i++)
        which[i] = capacity - 1 - 2 * i;
    struct average *again = list_of(&p, tau2, which, some);
    must(averages_make(p.there, again, some, &err), &err);
    for (int i = 0; i < some; i++)
        same(&p, &again[i], &there[which[i]]);
    free_list(here, capacity);
    free_list(there, capacity);
    free_list(again, some);
    free(tau2);
    free(which);
    discard(&p);
}

static void averages_are_those_of_the_cpu(void **state) {
    (void)state;
    make_trial(4, 2, 3);
    make_trial(24, 24, 5);
    make_trial(34, 20, 70);
    make_trial(128, 94, 6);
    make_trial(130, 130, 4);
}

/* Exact: powers of two, and a factor that both multiply by. */
static void sums_fade_and_split_as_on_the_cpu(void **state) {
    (void)state;
    struct err err = {0};
    struct pair p = pair_of(20, 16, 6);
    set_all(&p);
    fill(&p);
    for (int i = 0; i < 2; i++) {
        struct averages *a = i == 0 ? p.here : p.there;
        must(averages_fade(a, 4, 0.37, &err), &err);
        must(averages_split(a, 3, 5, &err), &err);
        must(averages_split(a, 0, 1, &err), &err);
        must(averages_fade(a, 1, 0, &err), &err);
    }
    check_sums(&p);
    discard(&p);
}

/* Adds integers of a smaller grid to existing doubles. */
static void an_e_step_adds_to_them(void **state) {
    enum { CLASSES = 3, SMALL = 10 };
    (void)state;
    struct err err = {0};
    struct pair p = pair_of(24, 20, CLASSES);
    const int reach = SMALL + 1, nx = reach + 1, ny = 2 * reach + 1;
    struct sums_cuda sums = {.nx = nx,
                             .ny = ny,
                             .nz = 1,
                             .reach = reach,
                             .r_max = SMALL / 2,
                             .dimensions = 2,
                             .data_scale = 1024,
                             .weight_scale = 65536};
    struct sums_to_cuda to = {0};
    size_t voxels = (size_t)nx * (size_t)ny;
    int64_t *values = host_new(4 * voxels, sizeof *values);
    set_all(&p);
    fill(&p);
    for (int k = 0; k < CLASSES; k++) {
        struct accumulator_grid here = accumulator_grid(averages_sums(p.here, k, 1));
        struct accumulator_grid there = accumulator_grid(averages_added(p.there, k, 1));
        for (size_t i = 0; i < 4 * voxels; i++) {
            values[i] = i % 4 == 3 ? 0 : (int64_t)(1e9 * normal());
            size_t x = i / 4 % (size_t)nx, y = i / 4 / (size_t)nx + (size_t)(here.reach - reach);
            here.values[4 * (y * (size_t)here.nx + x) + i % 4] +=
                (double)values[i] / (i % 4 < 2 ? sums.data_scale : sums.weight_scale);
        }
        sums.voxels[k] = on_device(values, 4 * voxels, sizeof *values);
        to.voxels[k] = there.values, to.reach = there.reach;
    }
    must(alignment_cuda_sums_add_to(&sums, CLASSES, &to, NULL, &err), &err);
    check_sums(&p);
    free(values);
    discard(&p);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct averages *a = NULL;
    const struct averages_options large = {
        .box = 512, .max_size = 512, .capacity = 100, .mask_radius = 100, .tau_fudge = 1, .workspace = workspace};
    assert_int_equal(averages_create(&large, &a, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "100 class averages of 512 px"));
    const struct averages_options odd = {.box = 33, .max_size = 20, .capacity = 2};
    assert_int_equal(averages_create(&odd, &a, &err), STATUS_BAD_ARGUMENT);
    assert_null(a);
    workspace_reset(workspace);
}

static int open_workspace(void **state) {
    struct err err = {0};
    if (open_arena(state) != 0) return -1;
    return workspace_create(&DEVICE, arena, NULL, NULL, &workspace, &err) == STATUS_OK ? 0 : -1;
}

static int close_workspace(void **state) {
    workspace_destroy(&workspace);
    return close_arena(state);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_are_those_of_the_cpu),
        cmocka_unit_test(sums_fade_and_split_as_on_the_cpu),
        cmocka_unit_test(an_e_step_adds_to_them),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, open_workspace, close_workspace);
}
