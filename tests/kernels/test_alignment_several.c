/* Several workers on the CPU: sums and results are, bit for bit, those of a single worker that gets a chunk at a time.
 * The order of turns; what is refused; a worker that fails. Random particles from a printed seed:
 * test_alignment_several [SEED]. */
#include <pthread.h>

#include "kernels/alignment/turns.h"
#include "tests/kernels/alignment_plain.h"
#include "tests/kernels/seed.h"

enum { CHUNK = 3 };

static void create(struct data *d, int workers, struct alignment **ret_alignment) {
    d->options.device_count = workers;
    OK(alignment_create(&d->options, ret_alignment, &failure));
    assert_int_equal(alignment_workers(*ret_alignment), workers);
}

/* Adds the particles in chunks: a call for each chunk (one worker), or all in calls of so many chunks. */
static void iterate(struct data *d, struct alignment *a, int chunks) {
    clear_sums(d);
    poison(d);
    OK(alignment_begin(a, &d->iteration, &failure));
    for (int done = 0, count; done < PARTICLES; done += count) {
        count = PARTICLES - done < chunks * CHUNK ? PARTICLES - done : chunks * CHUNK;
        for (int i = done; i < done + count; i++)
            d->particles[i].chunk = (i - done) / CHUNK;
        OK(alignment_add(a, d->particles + done, count, d->results + done, &failure));
    }
    OK(alignment_finish(a, &failure));
}

static void align_chunks(struct data *d, int workers, int chunks) {
    struct alignment *a = NULL;
    create(d, workers, &a);
    iterate(d, a, chunks);
    alignment_destroy(&a);
}

static void same(const struct data *a, const struct data *b) {
    for (int i = 0; i < PARTICLES; i++)
        assert_memory_equal(&a->results[i], &b->results[i], offsetof(struct alignment_result, power));
    assert_memory_equal(a->power, b->power, sizeof a->power);
    assert_memory_equal(a->weights, b->weights, sizeof a->weights);
    for (int k = 0; k < a->setting.references; k++) {
        size_t voxels = (size_t)a->sums[k]->nx * (size_t)a->sums[k]->ny * (size_t)a->sums[k]->nz;
        assert_memory_equal(a->sums[k]->voxels, b->sums[k]->voxels, voxels * sizeof *a->sums[k]->voxels);
    }
}

static void check_workers(struct setting s) {
    struct data *one = make_data(s);
    align_chunks(one, 1, 1);
    static const struct { int workers, chunks; } CASES[] = {{2, 2}, {3, 2}, {4, 4}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct data *several = make_data(s);
        align_chunks(several, CASES[i].workers, CASES[i].chunks);
        same(one, several);
        destroy_data(several);
    }
    destroy_data(one);
}

static void workers_change_no_bit(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.threads = 4;
    check_workers(s);
    s.references = 2, s.priors = true, s.reliability = ALIGNMENT_NORM_L2;
    check_workers(s);
    s.local = true;
    check_workers(s);
    s.local = false, s.doubtful = true, s.threads = 1;
    check_workers(s);
    s.doubtful = false, s.given = s.local = true, s.oversampled = false;
    check_workers(s);
}

/* The parts into which memory divides a chunk are those of a single worker. */
static void little_memory_changes_no_bit(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.memory = 1.5e6;
    check_workers(s);
}

static void the_grey_scale_is_that_of_one_worker(void **state) {
    (void)state;
    double found[3][3] = {{0}};
    for (int workers = 1; workers < 4; workers++) {
        struct data *d = make_data(plain_setting());
        struct alignment *a = NULL;
        double *f = found[workers - 1];
        d->options.device_count = workers;
        OK(alignment_create(&d->options, &a, &failure));
        OK(alignment_begin(a, &d->iteration, &failure));
        OK(alignment_scale(a, d->particles, PARTICLES, &f[0], &f[1], &f[2], &failure));
        assert_true(f[1] > 0 && f[2] > 0);
        assert_memory_equal(found[0], f, sizeof found[0]);
        alignment_destroy(&a);
        destroy_data(d);
    }
}

/* Particles whose poses a local search refuses. */
static const struct data *refusing;
static bool refused[PARTICLES];

enum status __real_sampling_near(const struct sampling *s, const double pose[9], double sigma, double range,
                                 struct sampling_subset *subset, struct err *err);
enum status __wrap_sampling_near(const struct sampling *s, const double pose[9], double sigma, double range,
                                 struct sampling_subset *subset, struct err *err);
enum status __wrap_sampling_near(const struct sampling *s, const double pose[9], double sigma, double range,
                                 struct sampling_subset *subset, struct err *err) {
    for (int i = 0; refusing != NULL && i < PARTICLES; i++)
        FAIL_IF(refused[i] && memcmp(pose, refusing->particles[i].pose, 9 * sizeof *pose) == 0, err, STATUS_UNSUPPORTED,
                "particle %d is refused", i);
    return __real_sampling_near(s, pose, sigma, range, subset, err);
}

/* The error is that of the first chunk that fails, whichever worker fails first. The next iteration is as any other. */
static void a_worker_that_fails_ends_the_call(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.local = true;
    struct data *one = make_data(s);
    align_chunks(one, 1, 1);
    for (int first = 0; first < 3; first++)
        for (int last = first; last < 4; last++) {
            struct data *d = make_data(s);
            struct alignment *a = NULL;
            char message[64];
            create(d, 3, &a);
            clear_sums(d);
            poison(d);
            for (int i = 0; i < PARTICLES; i++) {
                d->particles[i].chunk = i / CHUNK;
                refused[i] = i == first * CHUNK + 1 || i == last * CHUNK + 1;
            }
            OK(alignment_begin(a, &d->iteration, &failure));
            refusing = d;
            assert_int_equal(alignment_add(a, d->particles, PARTICLES, d->results, &failure), STATUS_UNSUPPORTED);
            refusing = NULL;
            snprintf(message, sizeof message, "particle %d is refused", first * CHUNK + 1);
            assert_non_null(strstr(failure.message, message));
            iterate(d, a, 3);
            same(one, d);
            alignment_destroy(&a);
            destroy_data(d);
        }
    destroy_data(one);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    struct setting s = plain_setting();
    s.memory = 2e5;
    s.local = true;
    struct data *d = make_data(s);
    struct alignment *a = NULL;
    d->options.device_count = ALIGNMENT_DEVICES_MOST + 1;
    assert_int_equal(alignment_create(&d->options, &a, &failure), STATUS_BAD_ARGUMENT);
    d->options.device_count = 2;
    d->options.devices[1] = (struct device){DEVICE_CUDA, 4711};
    assert_int_not_equal(alignment_create(&d->options, &a, &failure), STATUS_OK);
    assert_null(a);
    d->options.devices[1] = device;
    OK(alignment_create(&d->options, &a, &failure));
    assert_int_equal(alignment_add(a, d->particles, 1, d->results, &failure), STATUS_BAD_STATE);
    OK(alignment_begin(a, &d->iteration, &failure));
    poison(d);
    d->particles[0].chunk = -1;
    assert_int_equal(alignment_add(a, d->particles, 1, d->results, &failure), STATUS_BAD_ARGUMENT);
    d->particles[0].chunk = 0;
    const int most = alignment_batch(a);
    assert_true(most < PARTICLES / 2);
    assert_int_equal(alignment_add(a, d->particles, 2 * most + 1, d->results, &failure), STATUS_BAD_ARGUMENT);
    assert_int_equal(alignment_add(a, d->particles, most + 1, d->results, &failure), STATUS_BAD_ARGUMENT);
    OK(alignment_add(a, d->particles, 0, d->results, &failure));
    OK(alignment_finish(a, &failure));
    alignment_destroy(&a);
    destroy_data(d);
}

struct walker {
    struct alignment_turns *turns;
    int first, fails;       /* every third turn, from `first` on; the turn that fails, or −1 */
    bool early;             /* it fails before it has come */
    int *next, outcomes[3]; /* came, abandoned, came too early or late */
};

enum { TURNS = 30 };

/* `next` has no lock of its own: turns order those who write it. */
static void *walk(void *context) {
    struct walker *w = context;
    for (int turn = w->first; turn < TURNS; turn += 3) {
        bool waits = turn != w->fails || !w->early;
        enum status status = waits ? alignment_turns_await(w->turns, turn, NULL) : STATUS_BAD_STATE;
        w->outcomes[status == STATUS_OK ? 0 : 1]++;
        if (status == STATUS_OK && turn != w->fails && (*w->next)++ != turn) w->outcomes[2]++;
        alignment_turns_end(w->turns, turn, status != STATUS_OK || turn == w->fails);
        if (status != STATUS_OK || turn == w->fails) break;
    }
    return NULL;
}

/* Returns how many turns came before the one that fails, or all. */
static int walk_all(struct alignment_turns *turns, int fails, bool early) {
    int next = 0;
    pthread_t threads[3];
    struct walker walkers[3];
    alignment_turns_begin(turns);
    for (int i = 0; i < 3; i++) {
        walkers[i] = (struct walker){.turns = turns, .first = 2 - i, .fails = fails, .early = early, .next = &next};
        assert_int_equal(pthread_create(&threads[i], NULL, walk, &walkers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(walkers[i].outcomes[2], 0);
    }
    return next;
}

static void turns_come_in_order(void **state) {
    (void)state;
    struct alignment_turns *turns = NULL;
    OK(alignment_turns_create(&turns, &failure));
    assert_int_equal(walk_all(turns, -1, false), TURNS);
    for (int fails = 0; fails < TURNS; fails += 7)
        for (int early = 0; early < 2; early++)
            assert_int_equal(walk_all(turns, fails, early), fails);
    assert_int_equal(walk_all(turns, -1, false), TURNS);
    alignment_turns_begin(turns);
    /* Turn 1 fails before it has come: the turn before goes on, the one behind does not. */
    alignment_turns_end(turns, 1, true);
    OK(alignment_turns_await(turns, 0, &failure));
    assert_int_equal(alignment_turns_await(turns, 2, &failure), STATUS_BAD_STATE);
    alignment_turns_destroy(&turns);
    assert_null(turns);
}

int main(int argc, char **argv) {
    seed = (unsigned)chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_change_no_bit),
        cmocka_unit_test(little_memory_changes_no_bit),
        cmocka_unit_test(the_grey_scale_is_that_of_one_worker),
        cmocka_unit_test(a_worker_that_fails_ends_the_call),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(turns_come_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
