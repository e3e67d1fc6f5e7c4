/* From a descriptor to a stage whose init has been called, and back. */
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/harness/stage_private.h"
#include "common/memory.h"
#include "common/text.h"

#define COMMON(member) offsetof(struct stage_common, member)
static const struct param common_table[] = {
    {"threads", PARAM_INT, COMMON(threads), "", NULL, 1, 1024, NULL, 0, false,
     "threads for computing; by default all cores, in a pipeline a share of them"},
    {"device", PARAM_STRING, COMMON(device), "", "auto", 0, 0, NULL, 0, false,
     "where the kernels run: auto, cpu or cuda:N"},
    {"gpu", PARAM_STRING, COMMON(gpu), "", NULL, 0, 0, NULL, 0, false,
     "in a graph, the GPU of each instance: auto, a number or a list"},
    {"lanes", PARAM_INT, COMMON(lanes), "", NULL, 1, LANES_MAX, NULL, 0, false,
     "items that are on their way inside at once"},
    {"reject_if", PARAM_STRING, COMMON(reject_if), "", NULL, 0, 0, NULL, 0, false,
     "rule, or list of them, by which items are left out: COLUMN < NUMBER"},
    {"from", PARAM_STRING, COMMON(from), "", NULL, 0, 0, NULL, 0, false, "in a graph, the stage or stages before"},
    {"replicas", PARAM_INT, COMMON(replicas), "", "1", 1, 64, NULL, 0, false,
     "in a graph, how many processes share the work"},
    {"program", PARAM_STRING, COMMON(program), "", NULL, 0, 0, NULL, 0, false,
     "in a graph, the program to run instead of icestream-NAME"},
};

#define SESSION(member) offsetof(struct stage_session, member)
static const struct param session_table[] = {
    {"pixel_size", PARAM_FLOAT, SESSION(pixel_size), "Å/px", NULL, 0.01, 1000, NULL, 0, false,
     "pixel size of the micrographs"},
    {"voltage", PARAM_FLOAT, SESSION(voltage), "kV", NULL, 1, 5000, NULL, 0, false, "acceleration voltage"},
    {"spherical_aberration", PARAM_FLOAT, SESSION(spherical_aberration), "mm", NULL, 0, 100, NULL, 0, false,
     "spherical aberration"},
    {"amplitude_contrast", PARAM_FLOAT, SESSION(amplitude_contrast), "", NULL, 0, 1, NULL, 0, false,
     "fraction of amplitude contrast"},
};

const struct param *stage_common_params(size_t *ret_count) {
    *ret_count = sizeof common_table / sizeof *common_table;
    return common_table;
}

const struct param *stage_session_params(size_t *ret_count) {
    *ret_count = sizeof session_table / sizeof *session_table;
    return session_table;
}

struct table {
    const struct param *params;
    size_t count;
    void *target;
};

/* The tables in which a key is looked up, in this order. */
static void list_tables(const struct stage *stage, struct table tables[3]) {
    struct stage *mutable = (struct stage *)stage;
    tables[0] = (struct table){stage->descriptor->params, stage->descriptor->param_count, stage->params};
    tables[1] = (struct table){common_table, sizeof common_table / sizeof *common_table, &mutable->common};
    tables[2] = (struct table){session_table, sizeof session_table / sizeof *session_table, &mutable->session};
}

const struct param *stage_param(const struct stage *stage, const char *key) {
    struct table tables[3];
    list_tables(stage, tables);
    for (int i = 0; i < 3; i++) {
        const struct param *param = params_find(tables[i].params, tables[i].count, key);
        if (param != NULL) return param;
    }
    return NULL;
}

static enum status unknown_key(const struct stage *stage, const char *key, const char *where, struct err *err) {
    struct table tables[3];
    list_tables(stage, tables);
    const char *names[256];
    size_t known = 0;
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < tables[i].count && known < 256; j++)
            names[known++] = tables[i].params[j].name;
    const char *near = text_nearest(key, names, known);
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: %s has no parameter '%s'%s%s%s", where, stage->descriptor->name, key,
         near != NULL ? ": did you mean '" : " (--help lists them)", near != NULL ? near : "",
         near != NULL ? "'?" : "");
}

enum status stage_set(struct stage *stage, const char *key, const char *text, const char *where, struct err *err) {
    struct table tables[3];
    list_tables(stage, tables);
    for (int i = 0; i < 3; i++)
        if (params_find(tables[i].params, tables[i].count, key) != NULL)
            return params_set(tables[i].params, tables[i].count, tables[i].target, key, text, where, err);
    return unknown_key(stage, key, where, err);
}

static enum status make_token(char token[TOKEN_SIZE], struct err *err) {
    unsigned char bytes[(TOKEN_SIZE - 1) / 2];
    FAIL_IF(getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes, err, STATUS_IO, "no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

static enum status make_lock(struct stage *stage, struct err *err) {
    pthread_condattr_t attributes;
    bool failed = pthread_mutex_init(&stage->lock, NULL) != 0 || pthread_condattr_init(&attributes) != 0;
    if (!failed) {
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        failed = pthread_cond_init(&stage->changed, &attributes) != 0;
        for (int i = 0; i < PART_COUNT; i++)
            failed = pthread_cond_init(&stage->calls[i], &attributes) != 0 || failed;
        pthread_condattr_destroy(&attributes);
    }
    FAIL_IF(failed, err, STATUS_NO_MEMORY, "no memory for a lock");
    return STATUS_OK;
}

static enum status fill_stage(struct stage *stage, struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    TRY(make_lock(stage, err));
    TRY(make_token(stage->token, err));
    TRY(mem_new(1, descriptor->params_size, "the parameters", &stage->params, err));
    TRY(mem_new(1, descriptor->state_size, "the stage's state", &stage->state, err));
    TRY(params_defaults(descriptor->params, descriptor->param_count, stage->params, err));
    TRY(params_defaults(common_table, sizeof common_table / sizeof *common_table, &stage->common, err));
    return params_defaults(session_table, sizeof session_table / sizeof *session_table, &stage->session, err);
}

enum status stage_create(const struct stage_descriptor *descriptor, struct stage **ret_stage, struct err *err) {
    struct stage *stage = calloc(1, sizeof *stage);
    FAIL_IF(stage == NULL, err, STATUS_NO_MEMORY, "no memory for a stage");
    stage->descriptor = descriptor;
    stage->wake = -1;
    stage->until_idle = INFINITY;
    stage->replicas = 1;
    snprintf(stage->name, sizeof stage->name, "%s", descriptor->name);
    enum status status = fill_stage(stage, err);
    if (status != STATUS_OK) {
        stage_destroy(&stage);
        return status;
    }
    *ret_stage = stage;
    return STATUS_OK;
}

static int core_count(void) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return cores > 0 ? cores : 1;
}

/* "0" or "cuda:0" beside the default device means that GPU. */
static enum status choose_device(struct stage *stage, struct err *err) {
    const char *device = stage->common.device, *gpu = stage->common.gpu;
    char text[32];
    if (stage->mode == STAGE_ON_FILES && gpu != NULL && strcmp(device, "auto") == 0 && strcmp(gpu, "auto") != 0) {
        snprintf(text, sizeof text, "cuda:%.16s", gpu);
        device = text;
    }
    return device_parse(device, &stage->device, err);
}

enum status stage_configure(struct stage *stage, const char *where, struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    TRY(params_check(descriptor->params, descriptor->param_count, stage->params, where, err));
    TRY(rules_parse(stage->common.reject_if, &stage->rules, err));
    TRY(choose_device(stage, err));
    stage->threads = stage->common.threads != INT_MIN ? stage->common.threads : core_count();
    return STATUS_OK;
}

enum status stage_place(struct stage *stage, const char *folder, struct err *err) {
    TRY(file_make_folders(folder, 0777, err));
    FAIL_IF(realpath(folder, stage->folder) == NULL, err, STATUS_IO, "%s: the folder cannot be reached", folder);
    return path_folder(stage->folder, stage->root, sizeof stage->root, err);
}

/* One file that has become unreadable since does not keep the stage from what it has of all the others. */
static enum status visit_resumed(const struct item *item, void *context, struct err *err) {
    struct stage *stage = context;
    struct err mine = {0};
    enum status status = stage->descriptor->resume(stage, stage->state, item, &mine);
    if (!status_is_of_file(status)) {
        if (status != STATUS_OK && err != NULL) *err = mine;
        return status;
    }
    char reason[sizeof mine.message + 128];
    snprintf(reason, sizeof reason,
             "it was done, but cannot be read again: %s; mend the file, or remove it and make it "
             "anew (retry --lost), then `icestream retry`",
             mine.message);
    log_write(stage->log, LOG_WARN, "failed", "%s: %s", item_id(item), reason);
    return ledger_fail_done(stage->ledger, item_id(item), reason, err);
}

static enum status visit_failed(const struct ledger_row *row, void *context, struct err *err) {
    struct stage *stage = context;
    struct item *item = NULL;
    struct err problem = {0};
    if (row->instance != LEDGER_TOGETHER) return STATUS_OK;
    TRY(item_parse(row->item_text, strlen(row->item_text), &item, err));
    enum status status = stage->descriptor->resume_failed(stage, stage->state, item, &problem);
    item_destroy(&item);
    if (status_is_of_file(status)) return STATUS_OK;
    FAIL_IF(status != STATUS_OK, err, status, "%s", problem.message);
    return STATUS_OK;
}

/* A stage without CUDA kernels serves a graph that gives it a GPU all the same, but not in silence. */
static void settle_device(struct stage *stage) {
    if (stage->device.kind != DEVICE_CUDA || stage->descriptor->cuda) return;
    if (strcmp(stage->common.device, "auto") != 0 || stage->common.gpu != NULL)
        stage_log(stage, LOG_WARN, "device", "%s has no CUDA kernels in this version: it computes on the CPU",
                  stage->descriptor->name);
    stage->device = (struct device){.kind = DEVICE_CPU};
}

enum status stage_begin(struct stage *stage, struct err *err) {
    const struct stage_descriptor *descriptor = stage->descriptor;
    settle_device(stage);
#ifdef _OPENMP
    omp_set_num_threads(stage->threads);
#endif
    if (descriptor->init != NULL) TRY(descriptor->init(stage, stage->state, err));
    stage->ready = true;
    if (descriptor->resume != NULL) TRY(stage_each_done(stage, visit_resumed, stage, err));
    if (descriptor->resume_failed != NULL) TRY(ledger_each(stage->ledger, LEDGER_FAILED, visit_failed, stage, err));
    return lanes_start(stage, err);
}

static void destroy_lanes(struct stage *stage) {
    for (int i = 0; i < stage->slot_count; i++)
        item_destroy(&stage->slots[i].item);
    for (int i = 0; i < stage->emission_count; i++)
        item_destroy(&stage->emissions[i]);
    for (int i = 0; i < stage->lane_count; i++) {
        struct stage_lane *lane = &stage->lanes[i];
        if (stage->ready && stage->descriptor->lane_fini != NULL && lane->state != NULL)
            stage->descriptor->lane_fini(stage, stage->state, lane);
        mem_free(&lane->state);
    }
    settling_destroy(&stage->settling);
}

void stage_destroy(struct stage **stage_pointer) {
    struct stage *stage = *stage_pointer;
    if (stage == NULL) return;
    if (stage->threads_started > 0) lanes_stop(stage);
    destroy_lanes(stage);
    /* fini also clears up after an init that failed half way. */
    if (stage->state != NULL && stage->descriptor->fini != NULL) stage->descriptor->fini(stage, stage->state);
    struct table tables[3];
    list_tables(stage, tables);
    for (int i = 0; i < 3; i++)
        if (tables[i].target != NULL) params_clear(tables[i].params, tables[i].count, tables[i].target);
    stage_places_clear(stage);
    ledger_close(&stage->ledger);
    log_close(&stage->log);
    if (stage->current != NULL) munmap(stage->current, CURRENT_SIZE);
    if (stage->wake >= 0) close(stage->wake);
    mem_free(&stage->params);
    mem_free(&stage->state);
    pthread_cond_destroy(&stage->changed);
    for (int i = 0; i < PART_COUNT; i++)
        pthread_cond_destroy(&stage->calls[i]);
    pthread_mutex_destroy(&stage->lock);
    mem_free(stage_pointer);
}
