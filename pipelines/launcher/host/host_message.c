#include "pipelines/launcher/host/host_message.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"join", "state", "welcome", "refused", "void", "beat", "order"};
enum { KINDS = sizeof kinds / sizeof *kinds };
enum { PROCESSES_MAX = 4096, LISTENERS_MAX = 4096, SIGNAL_MAX = 64 };

/* The type of a member, and its limit. most: bytes of a text, a number (from 0), or elements of a list. */
enum member_type { TEXT, NUMBER, FLAG, LIST, OBJECT };
struct member {
    const char *key;
    enum member_type type;
    long long most;
    bool optional;
};

static const struct member of_join[] = {{"name", TEXT, HOST_NAME_SIZE - 1},
                                        {"revision", TEXT, HOST_REVISION_SIZE - 1},
                                        {"address", TEXT, 64},
                                        {"cores", NUMBER, 1 << 20},
                                        {"gpus", NUMBER, 4096},
                                        {NULL}};
static const struct member of_state[] = {
    {"member", TEXT, HOST_MEMBER_SIZE - 1}, {"heard", NUMBER, LLONG_MAX},       {"leaving", FLAG, 0},
    {"processes", LIST, PROCESSES_MAX},     {"listeners", LIST, LISTENERS_MAX}, {NULL}};
static const struct member of_process[] = {
    {"start", NUMBER, INT_MAX},      {"pid", NUMBER, INT_MAX},   {"ended", FLAG, 0},
    {"wait_status", NUMBER, 0xffff}, {"error", TEXT, 511},       {"beats", NUMBER, LLONG_MAX},
    {"beat", TEXT, 1 << 16, true},   {"item", TEXT, 4095, true}, {"item_of_signal", TEXT, 4095, true},
    {"own_work", FLAG, 0, true},     {"writes", FLAG, 0},        {NULL}};
static const struct member of_listener[] = {
    {"start", NUMBER, INT_MAX}, {"edge", TEXT, 191}, {"data", TEXT, 127}, {"ack", TEXT, 127}, {NULL}};
static const struct member of_member[] = {{"member", TEXT, HOST_MEMBER_SIZE - 1}, {NULL}};
static const struct member of_refused[] = {{"reason", TEXT, 1023}, {NULL}};
static const struct member of_order[] = {{"member", TEXT, HOST_MEMBER_SIZE - 1},
                                         {"number", NUMBER, LLONG_MAX},
                                         {"what", TEXT, 15},
                                         {"start", NUMBER, INT_MAX, true},
                                         {NULL}};
static const struct member of_start[] = {{"start", NUMBER, INT_MAX},
                                         {"name", TEXT, 127},
                                         {"program", TEXT, 4095},
                                         {"log", TEXT, 4095},
                                         {"env", LIST, 64},
                                         {"orders", OBJECT, 0},
                                         {"gpus", LIST, 4096},
                                         {"takes_descriptors", FLAG, 0},
                                         {NULL}};
static const struct member of_orders[] = {{"start", NUMBER, INT_MAX}, {"orders", OBJECT, 0}, {NULL}};
static const struct member of_signal[] = {
    {"start", NUMBER, INT_MAX}, {"signal", NUMBER, SIGNAL_MAX}, {"group", FLAG, 0}, {NULL}};
static const struct member of_forget[] = {{"start", NUMBER, INT_MAX}, {NULL}};
static const struct member of_endpoints[] = {{"record", TEXT, 4 << 20}, {NULL}};
static const struct member of_nothing[] = {{NULL}};

static const struct member *const of_kind[] = {of_join,   of_state,  of_member, of_refused,
                                               of_member, of_member, of_order};
static const struct {
    const char *what;
    const struct member *members;
} orders[] = {{"start", of_start},   {"orders", of_orders},       {"signal", of_signal},
              {"forget", of_forget}, {"endpoints", of_endpoints}, {"end", of_nothing}};
enum { ORDERS = sizeof orders / sizeof *orders };

const char *host_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

long long host_number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

bool host_flag(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

static bool fits(const json_t *value, const struct member *member) {
    switch (member->type) {
    case TEXT:
        return json_is_string(value) && json_string_length(value) <= (size_t)member->most;
    case NUMBER:
        return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= member->most;
    case FLAG:
        return json_is_boolean(value);
    case LIST:
        return json_is_array(value) && json_array_size(value) <= (size_t)member->most;
    case OBJECT:
        return json_is_object(value);
    }
    return false;
}

static enum status check(const json_t *object, const struct member *members, const char *what, struct err *err) {
    FAIL_IF(!json_is_object(object), err, STATUS_BAD_FORMAT, "a message with %s that is no object", what);
    for (const struct member *member = members; member->key != NULL; member++) {
        const json_t *value = json_object_get(object, member->key);
        FAIL_IF(value == NULL ? !member->optional : !fits(value, member), err, STATUS_BAD_FORMAT,
                "a message with %s whose '%s' is not what it should be", what, member->key);
    }
    return STATUS_OK;
}

static enum status check_all(const json_t *list, const struct member *members, const char *what, struct err *err) {
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry) {
        TRY(check(entry, members, what, err));
    }
    return STATUS_OK;
}

/* Checks that all elements of a list are of a type. */
static enum status check_list(const json_t *list, enum member_type type, long long most, struct err *err) {
    const struct member member = {"", type, most};
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry) {
        FAIL_IF(!fits(entry, &member), err, STATUS_BAD_FORMAT, "a message with a list whose elements cannot be");
    }
    return STATUS_OK;
}

static enum status check_order(const json_t *root, struct err *err) {
    const char *what = host_text(root, "what");
    int which = 0;
    while (which < ORDERS && strcmp(orders[which].what, what) != 0)
        which++;
    FAIL_IF(which == ORDERS, err, STATUS_BAD_FORMAT, "an order that nobody knows");
    TRY(check(root, orders[which].members, what, err));
    if (orders[which].members != of_start) return STATUS_OK;
    TRY(check_list(json_object_get(root, "env"), TEXT, 8191, err));
    return check_list(json_object_get(root, "gpus"), NUMBER, 4095, err);
}

static enum status check_kind(const json_t *root, enum host_kind *ret_kind, struct err *err) {
    const json_t *version = json_object_get(root, "v");
    FAIL_IF(!json_is_integer(version) || json_integer_value(version) < 1, err, STATUS_BAD_FORMAT,
            "a message without a version 'v'");
    FAIL_IF(json_integer_value(version) > HOST_MESSAGE_VERSION, err, STATUS_UNSUPPORTED,
            "a message of version %lld; this program understands up to %d", (long long)json_integer_value(version),
            HOST_MESSAGE_VERSION);
    int kind = 0;
    while (kind < KINDS && strcmp(kinds[kind], host_text(root, "kind")) != 0)
        kind++;
    FAIL_IF(kind == KINDS, err, STATUS_BAD_FORMAT, "a message of a kind that nobody knows");
    TRY(check(root, of_kind[kind], kinds[kind], err));
    if (kind == HOST_STATE) TRY(check_all(json_object_get(root, "processes"), of_process, "a process", err));
    if (kind == HOST_STATE) TRY(check_all(json_object_get(root, "listeners"), of_listener, "a listener", err));
    if (kind == HOST_ORDER) TRY(check_order(root, err));
    *ret_kind = (enum host_kind)kind;
    return STATUS_OK;
}

enum status host_message_decode(const void *bytes, size_t length, struct host_message *ret_message, struct err *err) {
    json_error_t error;
    json_t *root = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(root == NULL, err, STATUS_BAD_FORMAT, "a message that is not JSON: %s (byte %d)", error.text,
            error.position);
    struct host_message message = {.root = root};
    enum status status = check_kind(root, &message.kind, err);
    if (status != STATUS_OK) {
        host_message_clear(&message);
        return status;
    }
    *ret_message = message;
    return STATUS_OK;
}

void host_message_clear(struct host_message *message) {
    json_decref(message->root);
    message->root = NULL;
}

enum status host_message_encode(enum host_kind kind, json_t *content, char **ret_text, size_t *ret_length,
                                struct err *err) {
    json_t *root = json_pack("{s:i, s:s}", "v", HOST_MESSAGE_VERSION, "kind", kinds[kind]);
    bool good = root != NULL && (content == NULL || json_object_update(root, content) == 0);
    char *text = good ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    json_decref(content);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for a message of the control channel");
    *ret_text = text;
    *ret_length = strlen(text);
    return STATUS_OK;
}
