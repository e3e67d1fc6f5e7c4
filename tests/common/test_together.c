/* Tests pieces of work that several threads do: each is done once, and the error is that of the first one that fails. */
#include "common/together.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/common/scratch.h"

enum { COUNT = 1000, NOBODY = COUNT };

/* The pieces of one test. Piece `slow` waits until piece `fast` has failed. */
struct pieces {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done[COUNT], calls;
    size_t slow, fast;
    bool fast_failed;
    const struct file_observer *observer;
    int observed;
};

static enum status failed(size_t index, struct err *err) {
    FAIL(err, STATUS_BAD_FORMAT, "piece %zu", index);
}

static enum status piece(void *context, size_t index, struct err *err) {
    struct pieces *p = context;
    pthread_mutex_lock(&p->lock);
    p->done[index]++;
    p->calls++;
    p->observed += file_observed_by() == p->observer;
    while (index == p->slow && p->fast < COUNT && !p->fast_failed)
        pthread_cond_wait(&p->changed, &p->lock);
    p->fast_failed = p->fast_failed || index == p->fast;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return index == p->slow || index == p->fast ? failed(index, err) : STATUS_OK;
}

static struct pieces pieces_of(size_t slow, size_t fast) {
    return (struct pieces){
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .slow = slow, .fast = fast};
}

static void each_piece_is_done_once(void **state) {
    (void)state;
    static const int THREADS[] = {0, 1, 2, 7, 1000};
    for (size_t t = 0; t < sizeof THREADS / sizeof *THREADS; t++) {
        struct pieces p = pieces_of(NOBODY, NOBODY);
        struct err err = {0};
        assert_ok(work_together(COUNT, THREADS[t], piece, &p, &err));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(p.done[i], 1);
        assert_ok(work_together(0, THREADS[t], piece, &p, &err));
        assert_int_equal(p.calls, COUNT);
    }
}

static void the_error_is_that_of_the_first_piece(void **state) {
    (void)state;
    struct pieces p = pieces_of(3, 7);
    struct err err = {0};
    assert_int_equal(work_together(COUNT, 8, piece, &p, &err), STATUS_BAD_FORMAT);
    assert_string_equal(err.message, "piece 3");
    assert_int_equal(work_together(COUNT, 8, piece, &p, NULL), STATUS_BAD_FORMAT);
}

static void no_piece_begins_after_a_failure(void **state) {
    (void)state;
    struct pieces p = pieces_of(5, NOBODY);
    struct err err = {0};
    assert_int_equal(work_together(COUNT, 1, piece, &p, &err), STATUS_BAD_FORMAT);
    assert_string_equal(err.message, "piece 5");
    assert_int_equal(p.calls, 6);
}

static void all_threads_are_observed_as_the_caller_is(void **state) {
    (void)state;
    struct pieces p = pieces_of(NOBODY, NOBODY);
    struct err err = {0};
    const struct file_observer observer = {.context = NULL};
    p.observer = &observer;
    (void)file_observe(&observer);
    assert_ok(work_together(COUNT, 8, piece, &p, &err));
    assert_ptr_equal(file_observe(NULL), &observer);
    assert_int_equal(p.observed, COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_piece_is_done_once),
        cmocka_unit_test(the_error_is_that_of_the_first_piece),
        cmocka_unit_test(no_piece_begins_after_a_failure),
        cmocka_unit_test(all_threads_are_observed_as_the_caller_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
