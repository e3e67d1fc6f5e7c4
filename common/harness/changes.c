/* Changes of parameters while a stage runs: the launcher writes the instance file anew, with the number of the change,
 * and the stage takes over what is live between two items. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

static const double look_pause = 0.5;

struct change_watch {
    char path[PATH_SIZE];
    struct stat seen; /* of the instance file that was read last */
    double look_at;
    /* A change that waits until no item is in hand; params NULL: none does. */
    void *params;
    struct stage_common common;
    struct rules rules;
    int number;
};

enum status change_watch_create(const char *instance_file, struct change_watch **ret_watch, struct err *err) {
    struct change_watch *watch = NULL;
    FAIL_IF(strlen(instance_file) >= sizeof watch->path, err, STATUS_BAD_ARGUMENT, "%s: too long a path",
            instance_file);
    TRY(mem_new(1, sizeof *watch, "the watch of the instance file", (void **)&watch, err));
    memcpy(watch->path, instance_file, strlen(instance_file) + 1);
    /* Stays zero when the file is away: whatever comes is then another file. */
    (void)!stat(instance_file, &watch->seen);
    *ret_watch = watch;
    return STATUS_OK;
}

void change_watch_destroy(const struct stage *stage, struct change_watch **watch) {
    if (*watch != NULL && (*watch)->params != NULL) stage_params_free(stage, &(*watch)->params, &(*watch)->common);
    mem_free(watch);
}

enum status change_note(const struct stage *stage, struct item *item, struct err *err) {
    char member[sizeof stage->name + 8];
    int number = atomic_load(&stage->change);
    if (number == 0) return STATUS_OK;
    snprintf(member, sizeof member, "change.%s", stage->name);
    return item_set_number(item, member, number, err);
}

static size_t size_of(enum param_type type) {
    switch (type) {
    case PARAM_BOOL:
        return sizeof(bool);
    case PARAM_INT:
    case PARAM_CHOICE:
        return sizeof(int);
    case PARAM_FLOAT:
        return sizeof(double);
    case PARAM_STRING:
    case PARAM_PATH:
    case PARAM_GLOB:
        return sizeof(char *);
    case PARAM_FLOATS:
        return sizeof(struct param_floats);
    }
    return 0;
}

static bool numbers_equal(double a, double b) {
    return (isnan(a) && isnan(b)) || a == b;
}

static bool values_equal(const struct param *param, const void *a, const void *b) {
    const char *one = (const char *)a + param->offset, *other = (const char *)b + param->offset;
    if (param->type == PARAM_FLOAT) return numbers_equal(*(const double *)one, *(const double *)other);
    if (param->type == PARAM_FLOATS) {
        const struct param_floats *x = (const void *)one, *y = (const void *)other;
        bool equal = x->count == y->count;
        for (int i = 0; equal && i < x->count; i++)
            equal = numbers_equal(x->values[i], y->values[i]);
        return equal;
    }
    if (param->type == PARAM_STRING || param->type == PARAM_PATH || param->type == PARAM_GLOB) {
        const char *x = *(char *const *)one, *y = *(char *const *)other;
        return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
    }
    return memcmp(one, other, size_of(param->type)) == 0;
}

/* Returns whether a running stage can take over all that differs. */
static bool is_live(const struct param *table, size_t count, const void *now, const void *then) {
    for (size_t i = 0; i < count; i++)
        if (table[i].changes != PARAM_LIVE && !values_equal(&table[i], now, then)) return false;
    return true;
}

/* Exchanges the live values, so that `then` owns the old texts. */
static void exchange(const struct param *table, size_t count, void *now, void *then) {
    for (size_t i = 0; i < count; i++) {
        char old[sizeof(struct param_floats)], *place = (char *)now + table[i].offset;
        char *other = (char *)then + table[i].offset;
        if (table[i].changes != PARAM_LIVE) continue;
        size_t size = size_of(table[i].type);
        memcpy(old, place, size);
        memcpy(place, other, size);
        memcpy(other, old, size);
    }
}

static void set_changing(struct stage *stage, bool changing) {
    stage_lock(stage);
    stage->changing = changing;
    if (!changing) stage->taking = false;
    stage_wake_all(stage);
    stage_unlock(stage);
}

/* The launcher sets what belongs to the process beside the params of the graph. */
static bool commons_live(const struct stage *stage, struct stage_common *then) {
    size_t count;
    const struct param *table = stage_common_params(&count);
    static const char *const checked[] = {"memory_limit", "lanes"};
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++) {
        const struct param *param = params_find(table, count, checked[i]);
        if (!values_equal(param, &stage->common, then)) return false;
    }
    return true;
}

void stage_rest(struct stage *stage) {
    stage_lock(stage);
    stage->resting = true;
    if (stage->changing) stage_changed(stage);
    while (stage->changing && (stage->taking || (!stage->threads_end && !stage_stopping(stage))))
        stage_sleep(stage, PART_PROCESS, INFINITY);
    stage->resting = false;
    stage_unlock(stage);
}

static enum status read_change(struct stage *stage, struct change_watch *watch, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(file_read_whole(watch->path, INSTANCE_SIZE_MAX, &text, &length, err));
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    json_int_t number = json_integer_value(json_object_get(root, "change"));
    enum status status = STATUS_OK;
    if (number > atomic_load(&stage->change) && number < INT32_MAX)
        status = stage_params_read(stage, json_object_get(root, "params"), &watch->params, &watch->common, err);
    json_decref(root);
    TRY(status);
    if (watch->params == NULL) return STATUS_OK;
    watch->number = (int)number;
    status = rules_parse(watch->common.reject_if, &watch->rules, err);
    const struct stage_descriptor *descriptor = stage->descriptor;
    if (status != STATUS_OK || !is_live(descriptor->params, descriptor->param_count, stage->params, watch->params) ||
        !commons_live(stage, &watch->common)) {
        stage_params_free(stage, &watch->params, &watch->common);
        return status;
    }
    /* The old value of the rules' text goes with `common`. */
    return STATUS_OK;
}

/* A source reads its rules under the lock, and goes on. */
static bool is_quiet(struct stage *stage) {
    stage_lock(stage);
    bool works = stage->idling || stage->summarising || (stage->flush_wanted && !stage->resting);
    bool quiet = stage->descriptor->produce != NULL || (lanes_empty(stage) && !works);
    stage->taking = quiet; /* from now on nobody may leave stage_rest before that is over */
    stage_unlock(stage);
    return quiet;
}

static enum status take_over(struct stage *stage, struct change_watch *watch, struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    size_t count;
    const struct param *table = stage_common_params(&count);
    stage_lock(stage);
    exchange(descriptor->params, descriptor->param_count, stage->params, watch->params);
    exchange(table, count, &stage->common, &watch->common);
    stage->rules = watch->rules;
    atomic_store(&stage->rules_warned, 0);
    stage->reshape = true;
    atomic_store(&stage->change, watch->number);
    stage_unlock(stage);
    stage_params_free(stage, &watch->params, &watch->common);
    if (descriptor->change != NULL) TRY(descriptor->change(stage, stage->state, err));
    log_write(stage->log, LOG_INFO, "change", "works with change %d of its parameters", watch->number);
    return STATUS_OK;
}

static bool is_same_file(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A file that cannot be read now is read at the next look, or when the stage starts again. */
static void look(struct stage *stage, struct change_watch *watch) {
    struct stat now;
    struct err err = {0};
    if (clock_monotonic() < watch->look_at) return;
    watch->look_at = clock_monotonic() + look_pause;
    if (stat(watch->path, &now) != 0 || is_same_file(&now, &watch->seen)) return;
    watch->seen = now;
    if (read_change(stage, watch, &err) != STATUS_OK)
        stage_log(stage, LOG_WARN, "change", "%s: a change of parameters does not count: %s", watch->path, err.message);
}

enum status change_look(struct stage *stage, struct change_watch *watch, bool running, struct err *err) {
    if (stage->descriptor->produce == NULL && !running) {
        /* The last items are done: the next run takes the change. */
        if (watch->params == NULL) return STATUS_OK;
        stage_params_free(stage, &watch->params, &watch->common);
        set_changing(stage, false);
        return STATUS_OK;
    }
    if (watch->params == NULL) {
        look(stage, watch);
        if (watch->params == NULL) return STATUS_OK;
        if (stage->descriptor->produce == NULL) set_changing(stage, true);
    }
    if (!is_quiet(stage)) return STATUS_OK;
    enum status status = take_over(stage, watch, err);
    set_changing(stage, false);
    return status;
}
