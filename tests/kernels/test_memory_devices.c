/* The E-step on a CUDA device with little memory: identical results to the last bit, within the limit, without
 * allocations inside an iteration, and with a trace of the memory's top that repeats with each batch (paper, Figure 9).
 * A limit that is too low is an error before any particle is read. Particles are new from a printed seed:
 * test_memory_devices [SEED]. `360` runs it for particles of 360 px; `trace` prints a trace as CSV. */
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "tests/kernels/alignment_trials.h"

static const double GIB = 0x1p30;
enum { STEPS = 1 << 17 };

/* The linker redirects calls to these functions (CMakeLists.txt). */
static int allocations;
int __real_cudaMalloc(void **pointer, size_t bytes);
int __wrap_cudaMalloc(void **pointer, size_t bytes);
int __real_cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
int __wrap_cudaHostAlloc(void **pointer, size_t bytes, unsigned flags);
int __real_cudaHostRegister(void *pointer, size_t bytes, unsigned flags);
int __wrap_cudaHostRegister(void *pointer, size_t bytes, unsigned flags);

int __wrap_cudaMalloc(void **pointer, size_t bytes) {
    allocations++;
    return __real_cudaMalloc(pointer, bytes);
}

int __wrap_cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    allocations++;
    return __real_cudaHostAlloc(pointer, bytes, flags);
}

int __wrap_cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
    allocations++;
    return __real_cudaHostRegister(pointer, bytes, flags);
}

/* Statistics of an iteration, beside its results. */
struct account {
    int batch;       /* particles at a time */
    size_t used;     /* bytes of the device: the most that the program used */
    int allocations; /* after alignment_begin, over all iterations */
    struct arena_step *steps;
    size_t step_count;
    enum status status;
    struct err err;
};

static size_t used(void) {
    struct err err = {0};
    const struct device device = {DEVICE_CUDA, 0};
    size_t bytes = 0;
    must(device_memory_used(&device, &bytes, &err), &err);
    return bytes;
}

static enum status iterate(const struct data *d, struct alignment *alignment, struct outcome *o,
                           struct account *account, struct err *err) {
    const struct alignment_iteration iteration = iteration_of(d, o, NULL);
    account->batch = 0;
    TRY(alignment_begin(alignment, &iteration, err));
    account->batch = alignment_batch(alignment);
    int before = allocations;
    TRY(add_all(d, alignment, o, err));
    account->allocations += allocations - before;
    account->used = used();
    return alignment_finish(alignment, err);
}

/* Runs twice; the first run makes libraries take the memory that they keep, the second one counts. */
static void run(const struct data *d, double memory, struct outcome *o, struct account *account) {
    const struct alignment_options options = options_of(d, DEVICE_CUDA, memory);
    struct err *err = &account->err;
    struct alignment *alignment = NULL;
    size_t before = used();
    make_outcome(d, o);
    account->status = alignment_create(&options, &alignment, err);
    if (account->status == STATUS_OK) account->status = iterate(d, alignment, o, account, err);
    if (account->status == STATUS_OK) {
        for (int k = 0; k < d->trial.references; k++)
            must(accumulator_clear(o->sums[k], d->trial.size, err), err);
        (void)alignment_trace(alignment, account->steps, account->steps ? STEPS : 0);
        double began = clock_monotonic();
        account->status = iterate(d, alignment, o, account, err);
        o->seconds = clock_monotonic() - began;
        account->step_count = alignment_trace(alignment, NULL, 0);
    }
    account->used = account->used > before ? account->used - before : 0;
    alignment_destroy(&alignment);
}

static size_t particles_that_differ(const struct data *d, const struct outcome *a, const struct outcome *b) {
    size_t n = (size_t)d->trial.particles, shells = (size_t)d->trial.box / 2 + 1, count = 0;
    for (size_t i = 0; i < n; i++)
        count += memcmp(a->results[i].pose, b->results[i].pose, offsetof(struct alignment_result, power)) != 0 ||
                 memcmp(a->power + i * shells, b->power + i * shells, shells * sizeof(float)) != 0;
    return count;
}

/* Returns whether all results are identical; prints those that are not. */
static bool is_same(const struct data *d, const struct outcome *a, const struct outcome *b) {
    size_t differ = particles_that_differ(d, a, b);
    bool same = differ == 0;
    for (int k = 0; k < d->trial.references; k++) {
        size_t bytes = voxels_of(a->sums[k]) * sizeof(accumulator_voxel);
        if (memcmp(a->sums[k]->voxels, b->sums[k]->voxels, bytes) == 0) continue;
        print_message("sums of reference %d differ by %.3g\n", k, sums_differ(a->sums[k], b->sums[k]));
        same = false;
    }
    for (size_t i = 0; differ > 0 && i < (size_t)d->trial.particles; i++) {
        const struct alignment_result *x = &a->results[i], *y = &b->results[i];
        if (memcmp(x->pose, y->pose, offsetof(struct alignment_result, power)) == 0) continue;
        print_message(
            "%zu particles differ; the first, %zu: pmax %.17g %.17g, log-likelihood %.17g %.17g, samples %d %d, "
            "norm %.9g %.9g, residual %.9g %.9g\n",
            differ, i, x->pmax, y->pmax, x->log_likelihood, y->log_likelihood, x->significant, y->significant,
            x->norm_sum, y->norm_sum, x->residual, y->residual);
        break;
    }
    return same;
}

/* Checks that the top rises by what is taken, falls to where its scope was opened, and stays within the limit. */
static void check_steps(const struct account *a, double memory) {
    size_t mark[ARENA_SCOPES] = {0}, top = a->steps[0].top;
    assert_true(a->step_count > 0 && a->step_count <= STEPS);
    for (size_t i = 0; i < a->step_count; i++) {
        const struct arena_step *s = &a->steps[i];
        assert_true((double)s->top <= memory);
        if (s->operation == ARENA_TAKE) assert_true(s->top >= top);
        if (s->operation == ARENA_OPEN) assert_int_equal(s->top, top);
        if (s->operation == ARENA_OPEN) mark[s->scope] = top;
        if (s->operation == ARENA_CLOSE) assert_int_equal(s->top, mark[s->scope]);
        top = s->top;
    }
    assert_int_equal(a->steps[a->step_count - 1].operation, ARENA_CLOSE);
    assert_int_equal(a->steps[a->step_count - 1].scope, ARENA_ITERATION);
}

/* Counts the steps of a batch with sizes known in advance: to the end of the coarse pass or, in local searches, of the
 * preparation. */
static size_t planned_steps(const struct account *a, size_t first, bool local) {
    size_t i = first, closed = 0;
    for (; i < a->step_count && closed < (local ? 1 : 2); i++)
        closed += a->steps[i].operation == ARENA_CLOSE;
    return i - first;
}

/* Checks that each batch begins at the same height and takes the same memory; the last may be smaller. */
static void check_batches(const struct account *a, bool local) {
    size_t first = 0, previous = 0, batches = 0;
    for (size_t i = 0; i < a->step_count; i++) {
        if (a->steps[i].operation != ARENA_OPEN || a->steps[i].scope != ARENA_PARTICLES) continue;
        if (batches == 0) first = i;
        assert_int_equal(a->steps[i].top, a->steps[first].top);
        if (batches > 1)
            assert_memory_equal(&a->steps[first], &a->steps[previous],
                                planned_steps(a, first, local) * sizeof *a->steps);
        previous = i;
        batches++;
    }
    print_message("%zu operations, %zu batches\n", a->step_count, batches);
    assert_true(batches > 0);
}

/* Checks the kept samples of some particles as the fine pass stores them (the paper's block-compressed array): 32
 * values and one index per sample. Each part takes both in multiples of ARENA_ALIGNMENT. Where max_significant cuts,
 * samples with the weight of the last one stay too (alignment.h): one particle in a thousand has such a sample, and
 * one in a hundred is allowed. */
static void check_blocks(const struct data *d, const struct account *a, const struct outcome *o) {
    const size_t each = 32, block = each * sizeof(float), particles = (size_t)d->trial.particles;
    size_t kept = 0, cut = 0, samples = 0, parts = 0, lists[2] = {0, 0};
    for (size_t i = 0; i < particles; i++) {
        kept += (size_t)fmin(o->results[i].significant, d->trial.max_significant);
        cut += o->results[i].significant > d->trial.max_significant;
    }
    for (size_t i = 1; i < a->step_count; i++) {
        const struct arena_step *s = &a->steps[i];
        size_t bytes = s->top - s[-1].top;
        if (s->operation != ARENA_TAKE || s->scope != ARENA_ORIENTATIONS) continue;
        if (strcmp(s->what, "lists of samples") == 0) lists[0] = lists[1], lists[1] = bytes;
        if (strcmp(s->what, "poses of the fine pass") != 0 || strcmp(s[-1].what, "lists of samples") != 0) continue;
        size_t n = bytes / block;
        assert_true(arena_need(n, block) == bytes);
        assert_true(lists[1] == arena_need(n + 1, sizeof(uint32_t)) || lists[1] == arena_need(n, sizeof(uint32_t)));
        samples += n;
        parts++;
    }
    double whole = (double)particles * d->sampling.direction_count * d->sampling.psi_count * d->sampling.shift_count *
                   d->trial.references * (double)block;
    print_message(
        "fine pass: %zu samples kept of %zu particles, %.1f MB in blocks of %zu + %zu bytes; all would be %.0f MB "
        "(1/%.0f)\n",
        kept, particles, (double)(kept * (block + 4)) * 1e-6, block, sizeof(uint32_t), whole * 1e-6,
        whole / (double)(kept * (block + 4)));
    if (samples < kept || samples > kept + parts + (cut + 99) / 100)
        fail_msg("%zu blocks were taken for %zu samples, %zu particles with more than %d", samples, kept, cut,
                 d->trial.max_significant);
}

enum { LIMITS_MOST = 5 }; /* and a closing 0 */
struct limited {
    const char *name;
    struct trial trial;
    double limits[LIMITS_MOST]; /* GiB, the first is compared with */
};

static const struct limited SMALL[] = {
    {"order 3",
     {.box = 128,
      .size = 60,
      .coarse_size = 40,
      .order = 3,
      .references = 1,
      .particles = 700,
      .offset_range = 5,
      .offset_step = 2,
      .oversampled = true,
      .max_significant = 300},
     {16, 4, 2, 1}},
    {"order 3, whole size",
     {.box = 128,
      .size = 128,
      .coarse_size = 56,
      .order = 3,
      .references = 1,
      .particles = 300,
      .offset_range = 5,
      .offset_step = 2,
      .oversampled = true,
      .max_significant = 300},
     {16, 4, 2, 1}},
    {"order 2, two references",
     {.box = 128,
      .size = 48,
      .coarse_size = 30,
      .order = 2,
      .references = 2,
      .particles = 1200,
      .offset_range = 5,
      .offset_step = 2,
      .oversampled = true,
      .max_significant = 2000},
     {16, 4, 2, 1}},
    {"order 5, local",
     {.box = 128,
      .size = 128,
      .coarse_size = 100,
      .order = 5,
      .references = 1,
      .particles = 700,
      .offset_range = 2.5,
      .offset_step = 1,
      .oversampled = true,
      .local = true,
      .max_significant = 300},
     {16, 4, 2, 1}},
};
static const struct limited LARGE[] = {
    {"order 3 at 360 px",
     {.box = 360,
      .size = 140,
      .coarse_size = 60,
      .order = 3,
      .references = 1,
      .particles = 100,
      .offset_range = 5,
      .offset_step = 2,
      .oversampled = true,
      .max_significant = 300},
     {32, 8}},
    {"order 6, local, whole size at 360 px",
     {.box = 360,
      .size = 360,
      .coarse_size = 200,
      .order = 6,
      .references = 1,
      .particles = 100,
      .offset_range = 2.5,
      .offset_step = 1,
      .oversampled = true,
      .local = true,
      .max_significant = 300},
     {32, 8}},
};

static size_t highest(const struct account *a) {
    size_t top = 0;
    for (size_t i = 0; i < a->step_count && i < STEPS; i++)
        if (a->steps[i].top > top) top = a->steps[i].top;
    return top;
}

static void check_account(const struct limited *l, const struct data *d, double limit, const struct account *a,
                          const struct outcome *o) {
    check_steps(a, limit);
    check_batches(a, l->trial.local);
    if (!l->trial.local) check_blocks(d, a, o);
    assert_int_equal(a->allocations, 0);
}

/* Returns how many limits gave results other than the first limit that fits the device's memory. */
static int try_limits(const struct limited *l) {
    struct data d;
    struct outcome first = {0}, o;
    int differ = 0, tried = 0;
    make(&l->trial, &d);
    print_message(
        "%s: box %d, size %d, %d particles\nlimit GiB  batch  seconds  used GiB  top GiB  allocations  same\n", l->name,
        l->trial.box, l->trial.size, l->trial.particles);
    for (int i = 0; l->limits[i] > 0; i++) {
        struct account a = {.steps = new (STEPS, sizeof *a.steps)};
        run(&d, l->limits[i] * GIB, &o, &a);
        bool lacks = a.status == STATUS_NO_MEMORY && a.batch == 0 && l->limits[i + 1] > 0;
        if (lacks) print_message("%9g  the device has less\n", l->limits[i]);
        if (a.status != STATUS_OK && !lacks) fail_msg("%g GiB: %s", l->limits[i], a.err.message);
        if (!lacks) {
            bool same = tried == 0 || is_same(&d, &first, &o);
            differ += !same;
            print_message("%9g  %5d  %7.3f  %8.3f  %7.3f  %11d  %s\n", l->limits[i], a.batch, o.seconds,
                          (double)a.used / GIB, (double)highest(&a) / GIB, a.allocations,
                          tried == 0 ? "-"
                          : same     ? "yes"
                                     : "NO");
            check_account(l, &d, l->limits[i] * GIB, &a, &o);
        }
        free(a.steps);
        if (!lacks && tried++ == 0)
            first = o;
        else
            discard_outcome(&o);
    }
    discard_outcome(&first);
    discard(&d);
    return differ;
}

static void same_results_within_each_limit(void **state) {
    (void)state;
    int differ = 0;
    for (size_t i = 0; i < sizeof SMALL / sizeof *SMALL; i++)
        differ += try_limits(&SMALL[i]);
    assert_int_equal(differ, 0);
}

static void same_results_at_360_px(void **state) {
    (void)state;
    int differ = 0;
    for (size_t i = 0; i < sizeof LARGE / sizeof *LARGE; i++)
        differ += try_limits(&LARGE[i]);
    assert_int_equal(differ, 0);
}

static void too_little_is_refused(void **state) {
    (void)state;
    struct trial t = SMALL[1].trial;
    struct data d;
    struct outcome o;
    struct account a = {0};
    t.particles = 2;
    make(&t, &d);
    run(&d, 0.25 * GIB, &o, &a);
    assert_int_equal(a.status, STATUS_NO_MEMORY);
    assert_int_equal(a.batch, 0);
    print_message("%s\n", a.err.message);
    if (!strstr(a.err.message, "memory")) fail_msg("%s", a.err.message);
    discard_outcome(&o);
    discard(&d);
}

static void print_trace(void) {
    static const char *const operations[] = {"open", "take", "close"};
    struct trial t = SMALL[0].trial;
    struct data d;
    struct outcome o;
    struct account a = {.steps = new (STEPS, sizeof *a.steps)};
    t.particles = 200;
    make(&t, &d);
    run(&d, GIB, &o, &a);
    puts("operation,scope,what,top");
    for (size_t i = 0; i < a.step_count && i < STEPS; i++)
        printf("%s,%s,%s,%zu\n", operations[a.steps[i].operation], arena_scope_name(a.steps[i].scope),
               a.steps[i].what ? a.steps[i].what : "", a.steps[i].top);
    discard_outcome(&o);
    discard(&d);
    free(a.steps);
}

int main(int argc, char **argv) {
    int missing = no_device();
    if (missing != 0) return missing;
    bool traced = argc > 1 && strcmp(argv[1], "trace") == 0, large = argc > 1 && strcmp(argv[1], "360") == 0;
    choose_seed(argc > 1 && !traced && !large ? argv[1] : NULL);
    if (traced) {
        print_trace();
        return 0;
    }
    if (large) threads = 16;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_results_within_each_limit),
        cmocka_unit_test(too_little_is_refused),
    };
    const struct CMUnitTest large_tests[] = {cmocka_unit_test(same_results_at_360_px)};
    return large ? cmocka_run_group_tests(large_tests, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
