/* A snapshot is written by another thread while the classification goes on: its files are the same bytes as if all had
 * waited for it. One is written at a time, and its error comes back. */
#include <semaphore.h>

#include "stages/classifier/snapshot_writer.h"
#include "tests/stages/shapes.h"

bool __wrap_stage_wait_out(struct stage *stage, enum status status, const struct err *err,
                           struct stage_patience *patience);
bool __wrap_stage_wait_out(struct stage *stage, enum status status, const struct err *err,
                           struct stage_patience *patience) {
    (void)stage, (void)status, (void)err, (void)patience;
    return false;
}

static sem_t may_write; /* the classification has gone on meanwhile */

enum status __real_snapshot_write_judged(struct classifier *classifier, struct snapshot *snapshot, struct err *err);
enum status __wrap_snapshot_write_judged(struct classifier *classifier, struct snapshot *snapshot, struct err *err);
enum status __wrap_snapshot_write_judged(struct classifier *classifier, struct snapshot *snapshot, struct err *err) {
    while (sem_wait(&may_write) != 0)
        ;
    return __real_snapshot_write_judged(classifier, snapshot, err);
}

struct run {
    struct dataset *dataset;
    struct classifier classifier;
    struct classifier_options options;
    struct snapshot_writer *writer;
};

static void go_on(struct run *r, int updates) {
    struct classifier_progress progress = {.more = true};
    for (updates += r->classifier.updates; progress.more && r->classifier.updates < updates;)
        OK(classifier_step(&r->classifier, false, &progress, &err));
}

static void begin(struct run *r) {
    *r = (struct run){.options = options_of(6)};
    OK(dataset_create(1 << 24, &r->dataset, &err));
    classifier_init(&r->classifier, &r->options, r->dataset);
    submit(r->dataset, 0);
    go_on(r, 4);
    OK(snapshot_writer_create(NULL, &r->writer, &err));
}

static void end(struct run *r) {
    snapshot_writer_destroy(&r->writer);
    classifier_clear(&r->classifier);
    dataset_destroy(&r->dataset);
}

static void name_folder(const char *name, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%.200s/%s", folder, name);
    OK(file_make_folders(path, 0755, &err));
}

static void check_same(const char *name) {
    char path[PATH_MAX], *text[2];
    size_t length[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%.200s/%s/%s", folder, i == 0 ? "waiting" : "beside", name);
        OK(file_read_whole(path, 1 << 24, &text[i], &length[i], &err));
    }
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(text[0], text[1], length[0]);
    free(text[0]);
    free(text[1]);
}

static void files_are_those_of_the_moment(void **state) {
    (void)state;
    static const char *const FILES[] = {"classes.mrcs", "classes.png",   "data.star",
                                        "model.star",   "sampling.star", "optimiser.star"};
    struct run r;
    char waiting[PATH_MAX], beside[PATH_MAX], name[64];
    struct classifier *copy = NULL;
    begin(&r);
    name_folder("waiting", waiting);
    name_folder("beside", beside);
    for (int i = 1; i < 4; i++) {
        const struct snapshot *written = NULL;
        struct snapshot first = {.folder = waiting, .relative = ".", .iteration = i},
                        snapshot = {.folder = beside, .relative = ".", .iteration = i};
        OK(snapshot_write(&r.classifier, &first, &err));
        const size_t count = dataset_count(r.dataset);
        assert_false(snapshot_writer_busy(r.writer));
        OK(snapshot_writer_begin(r.writer, &r.classifier, &snapshot, &err));
        assert_true(snapshot_writer_busy(r.writer));
        assert_int_equal(snapshot_writer_begin(r.writer, &r.classifier, &snapshot, NULL), STATUS_BAD_STATE);
        if (i < PARTS) submit(r.dataset, i);
        go_on(&r, 2); /* the particles move, others come, maps and classes change */
        OK(quality_judge(r.classifier.model, r.dataset, &r.options.rule, &err));
        assert_false(snapshot_writer_done(r.writer, 0));
        assert_int_equal(sem_post(&may_write), 0);
        while (!snapshot_writer_done(r.writer, 1))
            ;
        OK(snapshot_writer_end(r.writer, &written, &copy, &err));
        assert_int_equal(dataset_count(copy->dataset), count);
        assert_int_equal(written->kept, first.kept);
        for (size_t f = 0; f < sizeof FILES / sizeof *FILES; f++) {
            snprintf(name, sizeof name, "run_it%03d_%s", i, FILES[f]);
            check_same(name);
        }
        snprintf(name, sizeof name, "selected_it%03d.star", i);
        check_same(name);
    }
    end(&r);
}

static void check_latest_error(struct run *r, const struct snapshot *snapshot, enum status expected) {
    const struct snapshot *written = NULL;
    struct classifier *copy = NULL;
    OK(snapshot_writer_begin(r->writer, &r->classifier, snapshot, &err));
    assert_int_equal(sem_post(&may_write), 0);
    enum status status = snapshot_writer_end(r->writer, &written, &copy, NULL);
    if (status != expected) fail_msg("%s, not %s", status_name(status), status_name(expected));
    assert_false(snapshot_writer_busy(r->writer));
    assert_int_equal(snapshot_writer_end(r->writer, &written, &copy, NULL), STATUS_BAD_STATE);
}

static void errors_come_back(void **state) {
    (void)state;
    struct run r;
    char path[PATH_MAX];
    begin(&r);
    snprintf(path, sizeof path, "%.200s/nowhere/at/all", folder);
    struct snapshot snapshot = {.folder = path, .relative = ".", .iteration = 1};
    check_latest_error(&r, &snapshot, STATUS_UNAVAILABLE);
    name_folder("again", path);
    check_latest_error(&r, &snapshot, STATUS_OK);
    snapshot.iteration = 2;
    OK(snapshot_writer_begin(r.writer, &r.classifier, &snapshot, &err));
    assert_int_equal(sem_post(&may_write), 0);
    end(&r); /* waits for the files */
    snprintf(path, sizeof path, "%.200s/again/run_it002_model.star", folder);
    assert_true(file_exists(path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_those_of_the_moment),
        cmocka_unit_test(errors_come_back),
    };
    assert_int_equal(sem_init(&may_write, 0, 0), 0);
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
