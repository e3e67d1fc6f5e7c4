/* Tests a thread that works for its owner: one job at a time, in order, and each result is returned once. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/worker.h"

struct job {
    sem_t *gate; /* opened once for each job */
    atomic_int *done;
    int order; /* position of this job among the finished jobs */
    enum status status;
};

static enum status run(void *context, struct err *err) {
    struct job *job = context;
    while (sem_wait(job->gate) != 0) {
    }
    job->order = atomic_fetch_add(job->done, 1);
    FAIL_IF(job->status != STATUS_OK, err, job->status, "job %d failed", job->order);
    return STATUS_OK;
}

static void one_thing_at_a_time_in_order(void **state) {
    (void)state;
    struct worker *worker = NULL;
    sem_t gate;
    atomic_int done = 0;
    struct job job = {.gate = &gate, .done = &done}, jobs[3] = {job, job, job};
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    assert_int_equal(worker_create(&worker, NULL), STATUS_OK);
    assert_int_equal(worker_wait(worker, NULL), STATUS_OK);
    assert_false(worker_busy(worker));
    for (int i = 0; i < 3; i++) {
        worker_start(worker, run, &jobs[i]);
        assert_int_equal(atomic_load(&done), i);
        assert_true(worker_busy(worker));
        sem_post(&gate);
    }
    assert_int_equal(worker_wait(worker, NULL), STATUS_OK);
    assert_false(worker_busy(worker));
    for (int i = 0; i < 3; i++)
        assert_int_equal(jobs[i].order, i);
    worker_destroy(&worker);
    assert_null(worker);
    sem_destroy(&gate);
}

static void an_outcome_is_told_once(void **state) {
    (void)state;
    struct worker *worker = NULL;
    sem_t gate;
    atomic_int done = 0;
    struct job bad = {.gate = &gate, .done = &done, .status = STATUS_UNAVAILABLE},
               good = {.gate = &gate, .done = &done};
    assert_int_equal(sem_init(&gate, 0, 2), 0);
    struct err err = {0};
    assert_int_equal(worker_create(&worker, NULL), STATUS_OK);
    worker_start(worker, run, &bad);
    assert_int_equal(worker_wait(worker, &err), STATUS_UNAVAILABLE);
    assert_int_equal(err.status, STATUS_UNAVAILABLE);
    assert_string_equal(err.message, "job 0 failed");
    assert_int_equal(worker_wait(worker, &err), STATUS_OK);
    worker_start(worker, run, &good);
    assert_int_equal(worker_wait(worker, &err), STATUS_OK);
    worker_destroy(&worker);
    sem_destroy(&gate);
}

static void its_end_waits_for_what_is_being_done(void **state) {
    (void)state;
    struct worker *worker = NULL;
    sem_t gate;
    atomic_int done = 0;
    struct job job = {.gate = &gate, .done = &done};
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    assert_int_equal(worker_create(&worker, NULL), STATUS_OK);
    worker_start(worker, run, &job);
    sem_post(&gate);
    worker_destroy(&worker);
    assert_int_equal(atomic_load(&done), 1);
    worker_destroy(&worker);
    sem_destroy(&gate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thing_at_a_time_in_order),
        cmocka_unit_test(an_outcome_is_told_once),
        cmocka_unit_test(its_end_waits_for_what_is_being_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
