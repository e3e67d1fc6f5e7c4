/* Tests the writer: it writes iterations in their order, up to two at a time in progress, and writes again what
 * there was no memory for. The functions that it calls to write, and those of the stage, are replaced (--wrap); a
 * gate holds the writing back. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stages/refiner/files/history.h"
#include "stages/refiner/files/snapshot.h"
#include "stages/refiner/files/writer.h"

struct snapshot {
    int iteration; /* 0: nothing was taken */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* guarded by the lock */
static bool open;
static int begun, told[16], told_count, out;
static enum status next_status; /* of the next file, once */

static int iteration; /* the state of the refinement */

enum status __wrap_snapshot_create(struct snapshot **ret_snapshot, struct err *err);
void __wrap_snapshot_destroy(struct snapshot **snapshot);
void __wrap_snapshot_reserve(struct snapshot *snapshot, const struct snapshot *like);
enum status __wrap_snapshot_take(struct snapshot *snapshot, struct refiner *refiner, struct err *err);
void __wrap_snapshot_return(struct snapshot *snapshot, struct refiner *refiner);
enum status __wrap_snapshot_measure(struct snapshot *snapshot, struct orientations *ret_views, struct err *err);
const struct refiner *__wrap_snapshot_refiner(const struct snapshot *snapshot);
struct refiner_state __wrap_refiner_state(const struct refiner *refiner);
enum status __wrap_refiner_write(const struct refiner *refiner, const char *folder, const char *prefix, int keep,
                                 struct err *err);
enum status __wrap_history_write(const char *folder, const char *prefix, const struct refiner_state *state,
                                 struct err *err);
const char *__wrap_stage_folder(const struct stage *stage);
const char *__wrap_stage_promised(const struct stage *stage);
bool __wrap_stage_wait_out(struct stage *stage, enum status status, const struct err *err,
                           struct stage_patience *patience);
void __wrap_stage_log(struct stage *stage, enum log_level level, const char *id, const char *format, ...);
void __wrap_stage_note(struct stage *stage, const char *format, ...);

enum status __wrap_snapshot_create(struct snapshot **ret_snapshot, struct err *err) {
    (void)err;
    *ret_snapshot = calloc(1, sizeof **ret_snapshot);
    return *ret_snapshot != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void __wrap_snapshot_destroy(struct snapshot **snapshot) {
    free(*snapshot);
    *snapshot = NULL;
}

enum status __wrap_snapshot_take(struct snapshot *snapshot, struct refiner *refiner, struct err *err) {
    (void)refiner, (void)err;
    assert_int_equal(snapshot->iteration, 0);
    snapshot->iteration = iteration;
    out++;
    return STATUS_OK;
}

void __wrap_snapshot_return(struct snapshot *snapshot, struct refiner *refiner) {
    (void)refiner;
    out -= snapshot->iteration > 0;
    snapshot->iteration = 0;
}

void __wrap_snapshot_reserve(struct snapshot *snapshot, const struct snapshot *like) {
    assert_int_equal(snapshot->iteration, 0);
    assert_int_not_equal(like->iteration, 0);
}

enum status __wrap_snapshot_measure(struct snapshot *snapshot, struct orientations *ret_views, struct err *err) {
    (void)err;
    assert_int_not_equal(snapshot->iteration, 0);
    *ret_views = (struct orientations){.efficiency = 0.5};
    return STATUS_OK;
}

const struct refiner *__wrap_snapshot_refiner(const struct snapshot *snapshot) {
    return (const struct refiner *)(const void *)snapshot;
}

struct refiner_state __wrap_refiner_state(const struct refiner *refiner) {
    (void)refiner;
    return (struct refiner_state){.iteration = iteration, .classes = 1};
}

enum status __wrap_refiner_write(const struct refiner *refiner, const char *folder, const char *prefix, int keep,
                                 struct err *err) {
    (void)refiner, (void)folder, (void)prefix, (void)keep;
    pthread_mutex_lock(&lock);
    begun++;
    pthread_cond_broadcast(&changed);
    while (!open)
        pthread_cond_wait(&changed, &lock);
    enum status status = next_status;
    next_status = STATUS_OK;
    pthread_mutex_unlock(&lock);
    return status == STATUS_OK ? STATUS_OK : err_set(err, status, __FILE__, __LINE__, "as the test wants it");
}

enum status __wrap_history_write(const char *folder, const char *prefix, const struct refiner_state *state,
                                 struct err *err) {
    (void)folder, (void)prefix, (void)err;
    pthread_mutex_lock(&lock);
    told[told_count++] = state->iteration;
    pthread_mutex_unlock(&lock);
    return STATUS_OK;
}

const char *__wrap_stage_folder(const struct stage *stage) {
    (void)stage;
    return "/session/refiner";
}

const char *__wrap_stage_promised(const struct stage *stage) {
    (void)stage;
    return "refiner";
}

bool __wrap_stage_wait_out(struct stage *stage, enum status status, const struct err *err,
                           struct stage_patience *patience) {
    (void)stage, (void)status, (void)err, (void)patience;
    return false;
}

void __wrap_stage_log(struct stage *stage, enum log_level level, const char *id, const char *format, ...) {
    (void)stage, (void)level, (void)id, (void)format;
}

void __wrap_stage_note(struct stage *stage, const char *format, ...) {
    (void)stage, (void)format;
}

static void gate(bool opens, enum status status) {
    pthread_mutex_lock(&lock);
    open = opens;
    next_status = status;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void until_begun(int count) {
    pthread_mutex_lock(&lock);
    while (begun < count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static struct writer *new_writer(void) {
    struct writer *w = NULL;
    begun = told_count = out = iteration = 0;
    assert_int_equal(writer_create(NULL, NULL, 3, &w, NULL), STATUS_OK);
    return w;
}

static enum status write_next(struct writer *w) {
    iteration++;
    return writer_write(w, "", NULL);
}

static void expect_told(int count) {
    assert_int_equal(told_count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(told[i], i + 1);
    assert_int_equal(out, 0);
}

static void two_are_on_their_way(void **state) {
    (void)state;
    struct writer *w = new_writer();
    gate(false, STATUS_OK);
    assert_int_equal(write_next(w), STATUS_OK);
    until_begun(1);
    assert_int_equal(write_next(w), STATUS_OK); /* does not wait */
    assert_int_equal(writer_look(w, NULL), STATUS_OK);
    assert_int_equal(out, 2);
    gate(true, STATUS_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(write_next(w), STATUS_OK);
    assert_int_equal(writer_wait(w, NULL), STATUS_OK);
    expect_told(7);
    writer_destroy(&w);
}

/* The next call returns the error, and the same files are written again, before those that follow. */
static void what_there_was_no_memory_for_is_written_anew(void **state) {
    (void)state;
    struct writer *w = new_writer();
    gate(false, STATUS_OK);
    assert_int_equal(write_next(w), STATUS_OK);
    until_begun(1);
    assert_int_equal(write_next(w), STATUS_OK);
    gate(true, STATUS_NO_MEMORY);
    assert_int_equal(writer_wait(w, NULL), STATUS_NO_MEMORY);
    assert_int_equal(told_count, 0);
    assert_int_equal(out, 2);
    assert_int_equal(writer_wait(w, NULL), STATUS_OK);
    assert_int_equal(begun, 3);
    expect_told(2);
    /* The same when nobody waits. */
    gate(true, STATUS_NO_MEMORY);
    assert_int_equal(write_next(w), STATUS_OK);
    until_begun(4);
    enum status status = STATUS_OK;
    while (status == STATUS_OK)
        status = writer_look(w, NULL);
    assert_int_equal(status, STATUS_NO_MEMORY);
    assert_int_equal(writer_look(w, NULL), STATUS_OK);
    until_begun(5);
    assert_int_equal(writer_wait(w, NULL), STATUS_OK);
    expect_told(3);
    writer_destroy(&w);
}

/* The next iteration is not taken then: the caller must offer it again. */
static void another_failure_is_told_once(void **state) {
    (void)state;
    struct writer *w = new_writer();
    gate(true, STATUS_IO);
    assert_int_equal(write_next(w), STATUS_OK);
    assert_int_equal(writer_wait(w, NULL), STATUS_IO);
    assert_int_equal(writer_wait(w, NULL), STATUS_OK);
    assert_int_equal(told_count, 0);
    assert_int_equal(out, 0);
    gate(false, STATUS_IO);
    assert_int_equal(write_next(w), STATUS_OK);
    assert_int_equal(write_next(w), STATUS_OK);
    gate(true, STATUS_IO);
    iteration++;
    enum status status = writer_write(w, "", NULL);
    assert_int_equal(status, STATUS_IO);
    assert_int_equal(writer_write(w, "", NULL), STATUS_OK);
    assert_int_equal(writer_wait(w, NULL), STATUS_OK);
    assert_int_equal(told_count, 2);
    assert_int_equal(told[0], 3);
    assert_int_equal(told[1], 4);
    assert_int_equal(out, 0);
    writer_destroy(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_are_on_their_way),
        cmocka_unit_test(what_there_was_no_memory_for_is_written_anew),
        cmocka_unit_test(another_failure_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
