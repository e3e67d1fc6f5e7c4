/* Reads the instance file, with which the launcher tells one process of a stage what to do. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/edges/ledger_address.h"
#include "common/edges/ledger_lease.h"
#include "common/harness/lease.h"
#include "common/harness/params_private.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

/* s for which a file is waited for on a shared file system: a client of NFS may remember for as long that it was not
 * there. */
static const double FILE_WAIT = 60;

enum { INSTANCE_VERSION = 1, WINDOW_MAX = 4096, REPLICAS_MAX = 4096 };

/* Reads a whole number within limits; `absent` is its value when the key is missing. */
static enum status read_count(const json_t *root, const char *key, int least, int most, int absent, int *ret_count,
                              struct err *err) {
    const json_t *value = json_object_get(root, key);
    json_int_t count = json_is_integer(value) ? json_integer_value(value) : absent;
    FAIL_IF((value != NULL && !json_is_integer(value)) || count < least || count > most, err, STATUS_BAD_FORMAT,
            "'%s' must be a whole number from %d to %d", key, least, most);
    *ret_count = (int)count;
    return STATUS_OK;
}

static enum status need_text(const json_t *root, const char *key, const char **ret_text, struct err *err) {
    const char *text = json_string_value(json_object_get(root, key));
    FAIL_IF(text == NULL || *text == '\0', err, STATUS_BAD_FORMAT, "'%s' is missing or not a text", key);
    *ret_text = text;
    return STATUS_OK;
}

static enum status copy_text(const json_t *root, const char *key, char **out, struct err *err) {
    const char *text = NULL;
    TRY(need_text(root, key, &text, err));
    *out = strdup(text);
    FAIL_IF(*out == NULL, err, STATUS_NO_MEMORY, "no memory for '%s'", key);
    return STATUS_OK;
}

static enum status read_edges(const json_t *root, const char *key, struct stage_edge *edges, int *count,
                              struct err *err) {
    const json_t *list = json_object_get(root, key);
    FAIL_IF(list != NULL && !json_is_array(list), err, STATUS_BAD_FORMAT, "'%s' must be a list", key);
    FAIL_IF(json_array_size(list) > EDGES_MAX, err, STATUS_BAD_ARGUMENT, "'%s' holds %zu edges: %d are the most", key,
            json_array_size(list), EDGES_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        struct stage_edge *edge = &edges[(*count)++];
        const char *name = NULL;
        TRY(need_text(entry, "edge", &name, err));
        FAIL_IF(strlen(name) >= sizeof edge->edge, err, STATUS_BAD_ARGUMENT, "the edge '%.80s…' has too long a name",
                name);
        memcpy(edge->edge, name, strlen(name) + 1);
        TRY(copy_text(entry, "data", &edge->data, err));
        TRY(copy_text(entry, "ack", &edge->ack, err));
        TRY(read_count(entry, "data_descriptor", 0, INT_MAX, 0, &edge->data_descriptor, err));
        TRY(read_count(entry, "ack_descriptor", 0, INT_MAX, 0, &edge->ack_descriptor, err));
        TRY(read_count(entry, "window", 1, WINDOW_MAX, 8, &edge->window, err));
        edge->revisions = !json_is_false(json_object_get(entry, "revisions"));
        const json_t *resend = json_object_get(entry, "resend");
        edge->resend = json_is_number(resend) ? json_number_value(resend) : 0;
        FAIL_IF(resend != NULL && !(edge->resend >= 0.01 && edge->resend <= 3600), err, STATUS_BAD_ARGUMENT,
                "the pause 'resend' of %s must be 0.01 to 3600 s", name);
    }
    return STATUS_OK;
}

static enum status set_params(struct stage *stage, const json_t *object, const char *where, struct err *err) {
    FAIL_IF(object != NULL && !json_is_object(object), err, STATUS_BAD_FORMAT, "%s must be a JSON object", where);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        char text[4096];
        if (json_is_null(value)) continue;
        TRY(params_json_text(key, value, text, sizeof text, where, err));
        TRY(stage_set(stage, key, text, where, err));
    }
    return STATUS_OK;
}

/* Session values fill the session, even if a stage has parameters of the same names. */
static enum status set_session(struct stage *stage, const json_t *object, struct err *err) {
    if (object == NULL) return STATUS_OK;
    size_t count;
    const struct param *table = stage_session_params(&count);
    return params_set_json(table, count, &stage->session, object, "session", err);
}

/* Lets the token begin with the life of this incarnation; the rest of it stays random. */
static void begin_token(struct stage *stage, int64_t life) {
    char text[LEDGER_LIFE_SIZE];
    ledger_life_print(life, text);
    memcpy(stage->token, text, strlen(text));
}

static enum status read_identity(struct stage *stage, const json_t *root, struct err *err) {
    const char *name = NULL, *session = NULL;
    TRY(need_text(root, "name", &name, err));
    TRY(need_text(root, "session", &session, err));
    FAIL_IF(strlen(name) >= sizeof stage->name || strchr(name, '/') != NULL || name[0] == '.', err, STATUS_BAD_ARGUMENT,
            "'%.80s' cannot be the name of a stage: its products go into a folder of that name", name);
    FAIL_IF(session[0] != '/', err, STATUS_BAD_ARGUMENT, "the session's folder '%s' must be an absolute path", session);
    memcpy(stage->name, name, strlen(name) + 1);
    TRY(read_count(root, "instance", 0, INT_MAX, 0, &stage->instance, err));
    TRY(read_count(root, "run", 0, INT_MAX, 0, &stage->run, err));
    TRY(read_count(root, "one_by_one", 0, INT_MAX, 0, &stage->one_by_one, err));
    TRY(read_count(root, "deaths", 0, INT_MAX, 0, &stage->deaths, err));
    int change = 0;
    TRY(read_count(root, "change", 0, INT_MAX, 0, &change, err));
    atomic_store(&stage->change, change);
    const json_t *life = json_object_get(root, "life");
    FAIL_IF(life != NULL && (!json_is_integer(life) || json_integer_value(life) < 1), err, STATUS_BAD_FORMAT,
            "'life' must be a whole number from 1 on");
    if (life != NULL) begin_token(stage, json_integer_value(life));
    TRY(read_count(root, "replicas", 1, REPLICAS_MAX, 1, &stage->replicas, err));
    FAIL_IF(stage->descriptor->cumulative && stage->replicas > 1, err, STATUS_BAD_ARGUMENT,
            "%s keeps what it has learnt from all items, so it cannot have %d replicas", name, stage->replicas);
    TRY(path_join(session, "", stage->root, sizeof stage->root, err));
    for (size_t length = strlen(stage->root); length > 1 && stage->root[length - 1] == '/'; length--)
        stage->root[length - 1] = '\0';
    return path_join(stage->root, name, stage->folder, sizeof stage->folder, err);
}

static enum status read_common(struct stage *stage, const json_t *root, struct err *err) {
    const json_t *threads = json_object_get(root, "threads"), *idle = json_object_get(root, "until_idle");
    const json_t *flush_threads = json_object_get(root, "flush_threads");
    const char *device = json_string_value(json_object_get(root, "device"));
    char text[32];
    if (json_is_integer(threads)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(threads));
        TRY(stage_set(stage, "threads", text, "threads", err));
    }
    if (json_is_integer(flush_threads)) {
        json_int_t count = json_integer_value(flush_threads);
        FAIL_IF(count < 1 || count > 4096, err, STATUS_BAD_FORMAT, "flush_threads is %lld: it must be 1 to 4096",
                (long long)count);
        stage->flush_threads = (int)count;
    }
    if (device != NULL) TRY(stage_set(stage, "device", device, "device", err));
    stage->separate = json_is_true(json_object_get(root, "separate"));
    stage->shared = json_is_true(json_object_get(root, "shared"));
    const json_t *wait = json_object_get(root, "file_wait");
    stage->file_wait = json_is_number(wait) ? json_number_value(wait) : FILE_WAIT;
    stage->until_idle = json_is_number(idle) ? json_number_value(idle) : INFINITY;
    return STATUS_OK;
}

enum status instance_parse(struct stage *stage, const json_t *root, struct instance *instance, struct err *err) {
    const json_t *version = json_object_get(root, "v"), *curve = json_object_get(root, "curve");
    FAIL_IF(!json_is_integer(version) || json_integer_value(version) != INSTANCE_VERSION, err, STATUS_UNSUPPORTED,
            "the version 'v' must be %d", INSTANCE_VERSION);
    TRY(read_identity(stage, root, err));
    TRY(set_session(stage, json_object_get(root, "session_params"), err));
    TRY(read_common(stage, root, err));
    TRY(set_params(stage, json_object_get(root, "params"), stage->name, err));
    TRY(read_edges(root, "inputs", instance->inputs, &instance->input_count, err));
    TRY(read_edges(root, "outputs", instance->outputs, &instance->output_count, err));
    TRY(copy_text(root, "ledger", &instance->ledger, err));
    TRY(copy_text(root, "log", &instance->log, err));
    TRY(copy_text(root, "heartbeat", &instance->heartbeat, err));
    TRY(copy_text(root, "current", &instance->current, err));
    if (json_is_string(json_object_get(root, "endpoints")))
        TRY(copy_text(root, "endpoints", &instance->endpoints, err));
    TRY(read_count(root, "endpoints_number", 0, INT_MAX, 0, &instance->endpoints_number, err));
    const char *session_id = json_string_value(json_object_get(root, "session_id"));
    snprintf(instance->session_id, sizeof instance->session_id, "%s", session_id != NULL ? session_id : "");
    instance->log_size = json_integer_value(json_object_get(root, "log_size"));
    if (!json_is_object(curve)) return STATUS_OK;
    TRY(copy_text(curve, "public", &instance->public_key, err));
    return copy_text(curve, "secret", &instance->secret_key, err);
}

static void name_host(char host[256]) {
    memset(host, 0, 256);
    if (gethostname(host, 255) != 0 || host[0] == '\0') snprintf(host, 256, "host");
}

static void share_files(const struct stage *stage) {
    char host[256];
    name_host(host);
    file_share(host, stage->token);
}

/* An earlier process of this host may have left partial files, which have names of their own. */
static void sweep_files(const struct stage *stage) {
    char host[256];
    name_host(host);
    file_sweep(stage->folder, host);
}

enum status instance_read(struct stage *stage, const char *path, struct instance *instance, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(file_read_whole(path, INSTANCE_SIZE_MAX, &text, &length, err));
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(root == NULL, err, STATUS_BAD_FORMAT, "%s: line %d: %s", path, error.line, error.text);
    enum status status = instance_parse(stage, root, instance, err);
    if (status == STATUS_OK && stage->shared) share_files(stage); /* first: a lease has a thread, and makes links */
    if (status == STATUS_OK) status = lease_begin(stage, instance, err);
    if (status == STATUS_OK) status = file_make_folders(stage->folder, 0777, err);
    if (status == STATUS_OK && stage->shared) sweep_files(stage);
    if (status == STATUS_OK) status = file_sync_folders(stage->folder, err);
    if (status == STATUS_OK) status = stage_confine(stage, json_object_get(root, "folders"), err);
    json_decref(root);
    return status == STATUS_OK ? STATUS_OK : err_context(err, status, "%s", path);
}

static enum status map_current(struct stage *stage, const char *path, struct err *err) {
    TRY(file_make_parents(path, 0777, err));
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: %s", path, status_reason(errno));
    void *memory = MAP_FAILED;
    /* On a full disk, a page without a block would end the process when it is written to. */
    static const char nothing[CURRENT_SIZE];
    ssize_t written = pwrite(descriptor, nothing, sizeof nothing, 0);
    /* After a write that ended early, the next one has the reason. */
    if (written > 0 && written < (ssize_t)sizeof nothing)
        written += pwrite(descriptor, nothing, sizeof nothing - (size_t)written, written);
    if (written == (ssize_t)sizeof nothing)
        memory = mmap(NULL, CURRENT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    int reason = errno;
    close(descriptor);
    FAIL_IF(memory == MAP_FAILED, err, status_of_writing(reason), "%s cannot be mapped: %s", path,
            status_reason(reason));
    stage->current = memory;
    return STATUS_OK;
}

enum status instance_open(struct stage *stage, const struct instance *instance, struct err *err) {
    char who[96];
    snprintf(who, sizeof who, "%s.%d", stage->name, stage->instance);
    TRY(file_make_parents(instance->log, 0777, err));
    if (!ledger_is_address(instance->ledger)) TRY(file_make_parents(instance->ledger, 0777, err));
    TRY(file_make_parents(instance->heartbeat, 0777, err));
    TRY(log_open(instance->log, who, LOG_ERROR + 1, &stage->log, err));
    if (instance->log_size > 0) log_set_size(stage->log, instance->log_size);
    TRY(map_current(stage, instance->current, err));
    TRY(ledger_open(instance->ledger, stage->name, false, &stage->ledger, err));
    if (stage->lease != NULL) ledger_fence(stage->ledger, stage->lease);
    TRY(ledger_own(stage->ledger, stage->name, instance->session_id, err));
    return ledger_release_instance(stage->ledger, stage->instance, err);
}

static void clear_edges(struct stage_edge *edges, int count) {
    for (int i = 0; i < count; i++) {
        free(edges[i].data);
        free(edges[i].ack);
    }
}

void instance_clear(struct instance *instance) {
    clear_edges(instance->inputs, instance->input_count);
    clear_edges(instance->outputs, instance->output_count);
    free(instance->ledger);
    free(instance->log);
    free(instance->heartbeat);
    free(instance->current);
    free(instance->endpoints);
    free(instance->public_key);
    free(instance->secret_key);
    *instance = (struct instance){0};
}
