/* Makes a stage from its descriptor, up to the call of init, and destroys it. */
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

#include "common/harness/lease.h"
#include "common/harness/params_private.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"
#include "common/text.h"

#define COMMON(member) offsetof(struct stage_common, member)
static const struct param common_table[] = {
    {.name = "threads",
     .type = PARAM_INT,
     .offset = COMMON(threads),
     .minimum = 1,
     .maximum = 1024,
     .help = "Threads for computing; by default all cores, in a pipeline a share of them."},
    {.name = "device",
     .type = PARAM_STRING,
     .offset = COMMON(device),
     .default_text = "auto",
     .help = "Where the kernels run: auto, cpu or cuda:N."},
    {.name = "gpu",
     .type = PARAM_STRING,
     .offset = COMMON(gpu),
     .help = "In a graph, the GPU of each instance: auto, a number or a list."},
    {.name = "lanes",
     .type = PARAM_INT,
     .offset = COMMON(lanes),
     .minimum = 1,
     .maximum = LANES_MAX,
     .help = "How many items are on their way inside the stage at once."},
    {.name = "memory_limit",
     .type = PARAM_FLOAT,
     .changes = PARAM_RESTART,
     .offset = COMMON(memory_limit),
     .unit = "GB",
     .minimum = 0.001,
     .maximum = 1e9,
     .help = "Memory that the items of the stage may use, all replicas together; by default what the machine has, less "
             "min_free_memory. Items wait for each other; one that needs more fails."},
    {.name = "reject_if",
     .type = PARAM_STRING,
     .changes = PARAM_LIVE,
     .offset = COMMON(reject_if),
     .help = "Rule, or list of rules, by which items are left out: COLUMN < NUMBER."},
    {.name = "from",
     .type = PARAM_STRING,
     .offset = COMMON(from),
     .help = "In a graph, the stage or stages before this one."},
    {.name = "replicas",
     .type = PARAM_INT,
     .offset = COMMON(replicas),
     .default_text = "1",
     .minimum = 1,
     .maximum = 256,
     .help = "In a graph, how many processes share the work."},
    {.name = "on",
     .type = PARAM_STRING,
     .offset = COMMON(on),
     .help = "In a graph, where it runs if the session has several hosts: the name of one, cpu or gpu."},
    {.name = "program",
     .type = PARAM_STRING,
     .offset = COMMON(program),
     .help = "In a graph, the program to run instead of icestream-NAME."},
};
#undef COMMON

#define SESSION(member) offsetof(struct stage_session, member)
static const struct param session_table[STAGE_SESSION_PARAMS] = {
    {.name = "pixel_size",
     .type = PARAM_FLOAT,
     .offset = SESSION(pixel_size),
     .unit = "Å/px",
     .minimum = 0.01,
     .maximum = 1000,
     .help = "Pixel size of the micrographs."},
    {.name = "voltage",
     .type = PARAM_FLOAT,
     .offset = SESSION(voltage),
     .unit = "kV",
     .minimum = 1,
     .maximum = 5000,
     .help = "Acceleration voltage."},
    {.name = "spherical_aberration",
     .type = PARAM_FLOAT,
     .offset = SESSION(spherical_aberration),
     .unit = "mm",
     .maximum = 100,
     .help = "Spherical aberration."},
    {.name = "amplitude_contrast",
     .type = PARAM_FLOAT,
     .offset = SESSION(amplitude_contrast),
     .maximum = 1,
     .help = "Fraction of amplitude contrast."},
    {.name = "min_free_memory",
     .type = PARAM_FLOAT,
     .offset = SESSION(min_free_memory),
     .unit = "GB",
     .default_text = "0.5",
     .maximum = 1e9,
     .help = "Free memory of the machine below which an item waits until those before it are done; 0: none."},
    {.name = "mtf",
     .type = PARAM_PATH,
     .offset = SESSION(mtf),
     .help = "STAR file with the detector's MTF (rlnResolutionInversePixel, rlnMtfValue), for the final map."},
};
#undef SESSION

const struct param *stage_common_params(size_t *ret_count) {
    *ret_count = sizeof common_table / sizeof *common_table;
    return common_table;
}

const struct param *stage_session_params(size_t *ret_count) {
    *ret_count = STAGE_SESSION_PARAMS;
    return session_table;
}

size_t stage_session_params_beside(const struct stage_descriptor *descriptor,
                                   struct param ret_params[STAGE_SESSION_PARAMS]) {
    size_t count = 0;
    for (size_t i = 0; i < STAGE_SESSION_PARAMS; i++)
        if (params_find(descriptor->params, descriptor->param_count, session_table[i].name) == NULL)
            ret_params[count++] = session_table[i];
    return count;
}

struct table {
    const struct param *params;
    size_t count;
    void *target;
};

/* Lists the tables in which a key is looked up, in this order. */
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

static enum status set_all(const struct table *tables, const json_t *object, const char *where, struct err *err) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char text[4096];
        if (json_is_null(value)) continue;
        TRY(params_json_text(key, value, text, sizeof text, where, err));
        for (int i = 0; i < 2; i++) {
            if (params_find(tables[i].params, tables[i].count, key) == NULL) continue;
            TRY(params_set(tables[i].params, tables[i].count, tables[i].target, key, text, where, err));
            break;
        }
    }
    return STATUS_OK;
}

enum status stage_params_read(const struct stage *stage, const json_t *object, void **ret_params,
                              struct stage_common *ret_common, struct err *err) {
    struct stage_common common = {0};
    void *params = NULL;
    struct table tables[3];
    list_tables(stage, tables);
    TRY(mem_new(1, stage->descriptor->params_size, "the parameters", &params, err));
    tables[0].target = params;
    tables[1].target = &common;
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = params_defaults(tables[i].params, tables[i].count, tables[i].target, err);
    if (status == STATUS_OK) status = set_all(tables, object, stage->name, err);
    if (status == STATUS_OK) status = params_check(tables[0].params, tables[0].count, params, stage->name, err);
    if (status != STATUS_OK) {
        stage_params_free(stage, &params, &common);
        return status;
    }
    *ret_params = params;
    *ret_common = common;
    return STATUS_OK;
}

void stage_params_free(const struct stage *stage, void **params, struct stage_common *common) {
    if (*params != NULL) params_clear(stage->descriptor->params, stage->descriptor->param_count, *params);
    params_clear(common_table, sizeof common_table / sizeof *common_table, common);
    mem_free(params);
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
        failed = pthread_cond_init(&stage->changed, &attributes) != 0 ||
                 pthread_cond_init(&stage->admission.changed, &attributes) != 0;
        for (int i = 0; i < PART_COUNT; i++)
            failed = pthread_cond_init(&stage->wakes[i], &attributes) != 0 || failed;
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
    files_begin(stage);
    stage->until_idle = INFINITY;
    stage->replicas = 1;
    snprintf(stage->name, sizeof stage->name, "%s", descriptor->name);
    enum status status = warnings_create(stage->name, &stage->warnings, err);
    if (status == STATUS_OK) status = fill_stage(stage, err);
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

/* On files, "gpu: 0" or "gpu: cuda:0" beside the default device means that GPU. */
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
    return checks_run(stage, err);
}

enum status stage_place(struct stage *stage, const char *folder, struct err *err) {
    TRY(file_make_folders(folder, 0777, err));
    FAIL_IF(realpath(folder, stage->folder) == NULL, err, STATUS_IO, "%s: the folder cannot be reached", folder);
    return path_folder(stage->folder, stage->root, sizeof stage->root, err);
}

/* A file that can no longer be read must not stop the stage from resuming with the rest. */
static enum status visit_resumed(const struct item *item, void *context, struct err *err) {
    struct stage *stage = context;
    struct err own = {0};
    enum status status = stage->descriptor->resume(stage, stage->state, item, &own);
    if (!status_is_of_file(status)) {
        if (status != STATUS_OK && err != NULL) *err = own;
        return status;
    }
    char reason[sizeof own.message + 128];
    snprintf(reason, sizeof reason,
             "it was done, but cannot be read again: %s; repair the file, or remove it and make it "
             "anew (retry --lost), then `icestream retry`",
             own.message);
    log_write(stage->log, LOG_WARN, "failed", "%s: %s", item_id(item), reason);
    return ledger_fail_done(stage->ledger, item_key(item), reason, err);
}

static enum status visit_failed(const struct ledger_row *row, void *context, struct err *err) {
    struct stage *stage = context;
    struct item *item = NULL;
    struct err own = {0};
    if (row->instance != LEDGER_TOGETHER) return STATUS_OK;
    TRY(stage_item_of_row(row, &item, err));
    enum status status = stage->descriptor->resume_failed(stage, stage->state, item, &own);
    item_destroy(&item);
    if (status_is_of_file(status)) return STATUS_OK;
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    return STATUS_OK;
}

/* A stage without CUDA kernels still runs in a graph that gives it a GPU, but says so. */
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
    checks_warn(stage);
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
    /* fini also cleans up after an init that failed half way. */
    if (stage->state != NULL && stage->descriptor->fini != NULL) stage->descriptor->fini(stage, stage->state);
    files_end(stage);
    struct table tables[3];
    list_tables(stage, tables);
    for (int i = 0; i < 3; i++)
        if (tables[i].target != NULL) params_clear(tables[i].params, tables[i].count, tables[i].target);
    checks_clear(&stage->checks);
    stage_places_clear(stage);
    ledger_close(&stage->ledger);
    lease_end(stage);
    stage_result_clear(stage);
    log_close(&stage->log);
    warnings_destroy(&stage->warnings);
    if (stage->current != NULL) munmap(stage->current, CURRENT_SIZE);
    if (stage->wake >= 0) close(stage->wake);
    mem_free(&stage->params);
    mem_free(&stage->state);
    pthread_cond_destroy(&stage->changed);
    pthread_cond_destroy(&stage->admission.changed);
    for (int i = 0; i < PART_COUNT; i++)
        pthread_cond_destroy(&stage->wakes[i]);
    pthread_mutex_destroy(&stage->lock);
    mem_free(stage_pointer);
}
