/* Compares the samples that a CUDA device selects, from invented differences of every kind, with sorting in double. New
 * random input from a printed seed, or from a given one: gpu_posterior [SEED]. Outputs are poisoned before; everything
 * runs twice and is compared bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kernels/expectation/expectation_cuda.h"
#include "tests/kernels/devices.h"

static const double FRACTION = 0.999;

enum kind { NEARLY_ALIKE, NARROW, BROAD, BROADER, APART, ALIKE, TWO_VALUES, ONE_HOT, LATTICE, CLUSTERS, KINDS };
static const char *const NAMES[KINDS] = {"nearly alike", "narrow",     "broad",   "broader", "apart",
                                         "alike",        "two values", "one hot", "lattice", "clusters"};

static float value_of(enum kind kind) {
    switch (kind) {
    case NEARLY_ALIKE:
        return (float)(0.05 * normal());
    case NARROW:
        return (float)normal();
    case BROAD:
        return (float)(3 * normal());
    case BROADER:
        return (float)(10 * normal());
    case APART:
        return (float)(300 * normal());
    case ALIKE:
        return 7.25f;
    case TWO_VALUES:
        return uniform() < 0.01 ? 3 : 12;
    case ONE_HOT:
        return uniform() < 1e-5 ? 0 : 20 + (float)uniform();
    case LATTICE:
        return (float)(0.5 * floor(8 * normal()));
    default:
        return (float)(5 * floor(3 * uniform()) + 1e-4 * normal());
    }
}

struct trial {
    int particles, shifts, slices;
    bool priors;
    float *dots, *norms, *slice_prior, *shift_prior;
    float *x; /* of one particle: in the device's order, and sorted */
    struct posterior_input input;
};

static void make_trial(struct trial *t, const enum kind *kinds, const double *about) {
    size_t n = (size_t)t->particles, samples = (size_t)t->shifts * (size_t)t->slices;
    t->dots = host_new(n * samples, sizeof(float));
    t->norms = host_new(n * (size_t)t->slices, sizeof(float));
    t->slice_prior = host_new((size_t)t->slices, sizeof(float));
    t->shift_prior = host_new(n * (size_t)t->shifts, sizeof(float));
    t->x = host_new(samples, sizeof(float));
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < samples; i++)
            t->dots[p * samples + i] = value_of(kinds[p]);
    /* A constant per particle keeps ties. */
    for (size_t i = 0; i < n * (size_t)t->slices; i++)
        t->norms[i] = (float)about[i / (size_t)t->slices];
    for (int i = 0; i < t->slices; i++)
        t->slice_prior[i] = (float)(-uniform());
    for (size_t i = 0; i < n * (size_t)t->shifts; i++)
        t->shift_prior[i] = (float)(-2 * uniform());
    t->input = (struct posterior_input){
        .dots = on_device(t->dots, n * samples, sizeof(float)),
        .norms = on_device(t->norms, n * (size_t)t->slices, sizeof(float)),
        .slice_log_prior = t->priors ? on_device(t->slice_prior, (size_t)t->slices, sizeof(float)) : NULL,
        .shift_log_prior = t->priors ? on_device(t->shift_prior, n * (size_t)t->shifts, sizeof(float)) : NULL,
        .n_particles = t->particles,
        .n_shifts = t->shifts,
        .n_slices = t->slices,
        .fraction = FRACTION};
}

static void free_trial(struct trial *t) {
    free(t->dots);
    free(t->norms);
    free(t->slice_prior);
    free(t->shift_prior);
    free(t->x);
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Fills t->x with the x of the particle. */
static void make_x(const struct trial *t, size_t p) {
    size_t slices = (size_t)t->slices, shifts = (size_t)t->shifts;
    for (size_t s = 0; s < shifts; s++)
        for (size_t i = 0; i < slices; i++) {
            float base = -t->norms[p * slices + i];
            if (t->priors) base += t->slice_prior[i];
            if (t->priors) base += t->shift_prior[p * shifts + s];
            t->x[s * slices + i] = base - t->dots[(p * shifts + s) * slices + i];
        }
}

/* Finds the smallest kept x and the number of kept samples; no sample that is left out may be better. */
static size_t check_bits(const struct trial *t, const uint32_t *kept, const char *name, float *ret_least) {
    size_t slices = (size_t)t->slices, words = kept_words(t->slices), count = 0;
    float least = INFINITY, best = -INFINITY;
    for (size_t i = 0; i < slices * (size_t)t->shifts; i++) {
        bool in = kept[i / slices * words + i % slices / 32] >> (i % slices % 32) & 1;
        count += in;
        if (in && t->x[i] < least) least = t->x[i];
        if (!in && t->x[i] > best) best = t->x[i];
    }
    for (size_t s = 0; s < (size_t)t->shifts; s++) /* nothing is written beyond the end of a row */
        for (size_t i = slices; i < words * 32; i++)
            assert_false(kept[s * words + i / 32] >> (i % 32) & 1);
    /* The device's exponential need not distinguish floats that are this close, or keep their order. */
    if (best > least + 2e-6f || (best == least && count > 0))
        fail_msg("%s: %.9g is left out and %.9g is kept", name, best, least);
    *ret_least = least;
    return count;
}

/* Checks the sums of the kept samples, from sorted x. */
static void check_choice(const struct trial *t, size_t samples, size_t kept, float least, uint32_t most,
                         const struct top_sum *found, const char *name) {
    const float *x = t->x;
    double total = 0, in = 0, group = 0;
    size_t better = 0;
    if (found->count == 0 || found->count > samples) fail_msg("%s: %u are kept", name, found->count);
    for (size_t i = samples; i-- > 0;)
        total += exp((double)x[i] - x[0]);
    for (size_t i = 0; i < found->count; i++)
        in += exp((double)x[i] - x[0]);
    float last = x[found->count - 1];
    for (size_t i = 0; i < found->count; i++)
        if (x[i] - last <= 2e-6f) group += exp((double)x[i] - x[0]);
    if (found->least != -x[0]) fail_msg("%s: least %.9g, expected %.9g", name, found->least, -x[0]);
    if (!(fabs(found->total - total) <= 2e-5 * total)) fail_msg("%s: total %g, expected %g", name, found->total, total);
    /* The sum of what is left out is below 1 - fraction, and would not be with the last kept sample. */
    double left = total - in, wanted = (1 - FRACTION) * total;
    if (found->count < samples && (x[found->count] == last || !(left <= wanted * (1 + 1e-3))))
        fail_msg("%s: %u are kept, %g is left out, %g may be", name, found->count, left, wanted);
    if (!(left + group >= wanted * (1 - 1e-3)))
        fail_msg("%s: %u are kept, fewer would do: %g left out, %g of the last, %g may be", name, found->count, left,
                 group, wanted);
    assert_int_equal(kept, found->kept);
    if (!(fabs(found->threshold - exp((double)least - x[0])) <= 2e-5 * found->threshold))
        fail_msg("%s: threshold %g, the least that is kept %g", name, found->threshold, exp((double)least - x[0]));
    if (most == 0 || found->count <= most) {
        assert_int_equal(found->kept, found->count);
        return;
    }
    while (better < samples && x[better] - least > 2e-6f)
        better++;
    if (kept < most || better >= most)
        fail_msg("%s: %zu are kept, %zu of them better, limit %u", name, kept, better, most);
}

static void posterior_trial(int particles, int shifts, int slices, const enum kind *kinds, const double *about,
                            bool priors, uint32_t most) {
    struct err err = {0};
    struct trial t = {.particles = particles, .shifts = shifts, .slices = slices, .priors = priors};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    make_trial(&t, kinds, about);
    size_t n = (size_t)particles, each = kept_words(slices) * (size_t)shifts, samples = (size_t)shifts * (size_t)slices;
    struct top_sum *sums[2];
    uint32_t *kept[2];
    t.input.most = most;
    for (int run = 0; run < 2; run++) {
        struct top_sum *s = on_device(NULL, n, sizeof *s);
        uint32_t *k = on_device(NULL, n * each, sizeof *k);
        must(posterior_cuda(&t.input, on_device(NULL, 1, top_sum_scratch(particles)), s, k, NULL, &err), &err);
        sums[run] = host_new(n, sizeof *s);
        kept[run] = host_new(n * each, sizeof *k);
        from_device(sums[run], s, n * sizeof *s);
        from_device(kept[run], k, n * each * sizeof *k);
    }
    assert_memory_equal(sums[0], sums[1], n * sizeof **sums);
    assert_memory_equal(kept[0], kept[1], n * each * sizeof **kept);
    for (size_t p = 0; p < n; p++) {
        float least;
        char name[100];
        (void)snprintf(name, sizeof name, "%s about %g, %d x %d, limit %u", NAMES[kinds[p]], about[p], shifts, slices,
                       most);
        make_x(&t, p);
        size_t count = check_bits(&t, kept[0] + p * each, name, &least);
        qsort(t.x, samples, sizeof *t.x, descending);
        check_choice(&t, samples, count, least, most, &sums[0][p], name);
    }
    for (int run = 0; run < 2; run++) {
        free(sums[run]);
        free(kept[run]);
    }
    free_trial(&t);
    arena_close(arena, ARENA_ITERATION);
}

/* All kinds of differences, twice as many particles, around small and large differences. */
static void all_kinds(int shifts, int slices, bool priors, uint32_t most) {
    enum kind kinds[2 * KINDS];
    double about[2 * KINDS];
    for (int i = 0; i < 2 * KINDS; i++) {
        kinds[i] = (enum kind)(i % KINDS);
        about[i] = i < KINDS ? 10 * normal() : 20000 * normal();
    }
    posterior_trial(2 * KINDS, shifts, slices, kinds, about, priors, most);
}

static void every_kind_is_chosen_from(void **state) {
    (void)state;
    const uint32_t most[] = {0, 1, 3, 100, 5000};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        all_kinds(1, 1, false, most[i]);
        all_kinds(1, 33, true, most[i]);
        all_kinds(21, 1000, i % 2, most[i]);
        all_kinds(9, 4099, i % 2, most[i]);
    }
}

static void many_particles(void **state) {
    (void)state;
    enum { MANY = 300 };
    enum kind kinds[MANY];
    double about[MANY];
    for (int i = 0; i < MANY; i++) {
        kinds[i] = (enum kind)(i % KINDS);
        about[i] = 1000 * normal();
    }
    posterior_trial(MANY, 13, 700, kinds, about, true, 0);
    posterior_trial(MANY, 13, 700, kinds, about, false, 200);
}

/* One particle with many blocks, and lists that are too short. */
static void large_ones(void **state) {
    (void)state;
    const double about = 300;
    for (int kind = 0; kind < KINDS; kind++) {
        enum kind kinds[1] = {(enum kind)kind};
        posterior_trial(1, 21, 20011, kinds, &about, kind % 2, kind % 3 ? 0 : 20000);
    }
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_chosen_from),
        cmocka_unit_test(many_particles),
        cmocka_unit_test(large_ones),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
