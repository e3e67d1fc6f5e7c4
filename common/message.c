#include "common/message.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const char *const kinds[] = {"item", "end", "hello", "got", "ack"};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

/* Texts end up in logs and in the ledger, so they hold only what is printed. */
static enum status copy_text(const json_t *root, const char *key, bool needed, char *out, size_t size,
                             struct err *err) {
    const json_t *node = json_object_get(root, key);
    FAIL_IF(node == NULL && needed, err, STATUS_BAD_FORMAT, "a message without '%s'", key);
    if (node == NULL) return STATUS_OK;
    const char *text = json_string_value(node);
    FAIL_IF(text == NULL || strlen(text) >= size, err, STATUS_BAD_FORMAT,
            "a message whose '%s' is not a text of at most %zu bytes", key, size - 1);
    for (const char *p = text; *p; p++)
        FAIL_IF((unsigned char)*p < 0x20, err, STATUS_BAD_FORMAT, "a message whose '%s' holds control characters", key);
    memcpy(out, text, strlen(text) + 1);
    return STATUS_OK;
}

static enum status copy_integer(const json_t *root, const char *key, bool needed, int64_t limit, int64_t *out,
                                struct err *err) {
    const json_t *node = json_object_get(root, key);
    FAIL_IF(node == NULL && needed, err, STATUS_BAD_FORMAT, "a message without '%s'", key);
    if (node == NULL) return STATUS_OK;
    FAIL_IF(!json_is_integer(node) || json_integer_value(node) < 0 || json_integer_value(node) > limit, err,
            STATUS_BAD_FORMAT, "a message whose '%s' is not a whole number from 0 on", key);
    *out = json_integer_value(node);
    return STATUS_OK;
}

static enum status decode(const json_t *root, struct message *message, struct err *err) {
    FAIL_IF(!json_is_object(root), err, STATUS_BAD_FORMAT, "a message that is not a JSON object");
    const json_t *version = json_object_get(root, "v");
    FAIL_IF(!json_is_integer(version) || json_integer_value(version) < 1, err, STATUS_BAD_FORMAT,
            "a message without a version 'v'");
    FAIL_IF(json_integer_value(version) > MESSAGE_VERSION, err, STATUS_UNSUPPORTED,
            "a message of version %lld; this program understands up to %d", (long long)json_integer_value(version),
            MESSAGE_VERSION);
    char kind[16] = "";
    TRY(copy_text(root, "kind", true, kind, sizeof kind, err));
    int index = 0;
    while (index < KIND_COUNT && strcmp(kinds[index], kind) != 0)
        index++;
    FAIL_IF(index == KIND_COUNT, err, STATUS_BAD_FORMAT, "a message of unknown kind '%s'", kind);
    message->kind = (enum message_kind)index;
    bool downstream = message->kind == MESSAGE_ITEM || message->kind == MESSAGE_END;
    int64_t attempt = 0, instance = 0;
    TRY(copy_text(root, "edge", true, message->edge, sizeof message->edge, err));
    TRY(copy_integer(root, "seq", message->kind != MESSAGE_HELLO, INT64_MAX, &message->seq, err));
    TRY(copy_integer(root, "attempt", false, INT_MAX, &attempt, err));
    TRY(copy_integer(root, "instance", !downstream, INT_MAX, &instance, err));
    TRY(copy_text(root, "token", !downstream, message->token, sizeof message->token, err));
    TRY(copy_text(root, "verdict", false, message->verdict, sizeof message->verdict, err));
    message->attempt = (int)attempt;
    message->instance = (int)instance;
    if (message->kind == MESSAGE_ITEM) TRY(item_from_json(json_object_get(root, "item"), &message->item, err));
    return STATUS_OK;
}

enum status message_decode(const void *bytes, size_t length, struct message *ret_message, struct err *err) {
    FAIL_IF(length > MESSAGE_SIZE_MAX, err, STATUS_BAD_FORMAT, "a message of %zu bytes: more than %d are not allowed",
            length, MESSAGE_SIZE_MAX);
    json_error_t error;
    json_t *root = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(root == NULL, err, STATUS_BAD_FORMAT, "a message that is not JSON: %s (byte %d)", error.text,
            error.position);
    struct message message = {0};
    enum status status = decode(root, &message, err);
    json_decref(root);
    if (status != STATUS_OK) {
        message_clear(&message);
        return status;
    }
    *ret_message = message;
    return STATUS_OK;
}

static json_t *downstream_json(const struct message *message, const char *item_text) {
    json_t *root = json_pack("{s:i, s:s, s:s, s:I, s:i}", "v", (int)MESSAGE_VERSION, "kind", kinds[message->kind],
                             "edge", message->edge, "seq", (json_int_t)message->seq, "attempt", message->attempt);
    if (message->kind != MESSAGE_ITEM || root == NULL) return root;
    json_t *item = item_text != NULL ? json_loads(item_text, 0, NULL) : json_deep_copy(item_json(message->item));
    if (item == NULL || json_object_set_new(root, "item", item) != 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

enum status message_encode(const struct message *message, const char *item_text, char **ret_text, size_t *ret_length,
                           struct err *err) {
    bool downstream = message->kind == MESSAGE_ITEM || message->kind == MESSAGE_END;
    json_t *root = downstream
                       ? downstream_json(message, item_text)
                       : json_pack("{s:i, s:s, s:s, s:I, s:i, s:s, s:s}", "v", (int)MESSAGE_VERSION, "kind",
                                   kinds[message->kind], "edge", message->edge, "seq", (json_int_t)message->seq,
                                   "instance", message->instance, "token", message->token, "verdict", message->verdict);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    FAIL_IF(text == NULL, err, STATUS_BAD_FORMAT, "a message on %s cannot be put together", message->edge);
    size_t length = strlen(text);
    if (length > MESSAGE_SIZE_MAX) {
        free(text);
        FAIL(err, STATUS_BAD_FORMAT, "a message on %s would have %zu bytes: more than %d are not allowed",
             message->edge, length, MESSAGE_SIZE_MAX);
    }
    *ret_text = text;
    *ret_length = length;
    return STATUS_OK;
}

void message_clear(struct message *message) {
    item_destroy(&message->item);
}
