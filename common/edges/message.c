#include "common/edges/message.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const char *const kinds[] = {"item", "end", "hello", "got", "ack"};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

/* These texts end up in logs and in the ledger, so they may hold printable characters only. */
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
    if (message->kind == MESSAGE_ITEM) TRY(item_adopt(json_object_get(root, "item"), &message->item, err));
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

/* Writes a text as JSON and returns the end. `out` needs room for six bytes for each byte of the text. */
static char *put_text(char *out, const char *text) {
    *out++ = '"';
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            *out++ = '\\';
            *out++ = (char)*p;
        } else if (*p < 0x20)
            out += sprintf(out, "\\u%04x", *p);
        else
            *out++ = (char)*p;
    }
    *out++ = '"';
    *out = '\0';
    return out;
}

/* Builds the JSON by hand: the item's text is JSON already, and the rest is a few names and numbers. */
static size_t put_message(char *out, const struct message *message, const char *item_text) {
    bool downstream = message->kind == MESSAGE_ITEM || message->kind == MESSAGE_END;
    char *end = out + sprintf(out, "{\"v\":%d,\"kind\":\"%s\",\"edge\":", (int)MESSAGE_VERSION, kinds[message->kind]);
    end = put_text(end, message->edge);
    end += sprintf(end, ",\"seq\":%" PRId64, message->seq);
    if (downstream)
        end += sprintf(end, ",\"attempt\":%d", message->attempt);
    else {
        end += sprintf(end, ",\"instance\":%d,\"token\":", message->instance);
        end = put_text(end, message->token);
        end = put_text(stpcpy(end, ",\"verdict\":"), message->verdict);
    }
    if (message->kind == MESSAGE_ITEM) end = stpcpy(stpcpy(end, ",\"item\":"), item_text);
    end = stpcpy(end, "}");
    return (size_t)(end - out);
}

enum status message_encode(const struct message *message, const char *item_text, char **ret_text, size_t *ret_length,
                           struct err *err) {
    enum { HEAD_MAX = 256 + 6 * (MESSAGE_EDGE_SIZE + MESSAGE_TOKEN_SIZE + sizeof message->verdict) };
    _cleanup_(mem_free) char *printed = NULL;
    if (message->kind == MESSAGE_ITEM && item_text == NULL) item_text = printed = item_print(message->item);
    size_t item_length = message->kind == MESSAGE_ITEM && item_text != NULL ? strlen(item_text) : 0;
    _cleanup_(mem_free) char *text = malloc(HEAD_MAX + item_length);
    FAIL_IF(text == NULL || (message->kind == MESSAGE_ITEM && item_text == NULL), err, STATUS_NO_MEMORY,
            "no memory for a message on %s", message->edge);
    size_t length = put_message(text, message, item_text);
    FAIL_IF(length > MESSAGE_SIZE_MAX, err, STATUS_BAD_FORMAT,
            "a message on %s would have %zu bytes: more than %d are not allowed", message->edge, length,
            MESSAGE_SIZE_MAX);
    *ret_text = text;
    text = NULL;
    *ret_length = length;
    return STATUS_OK;
}

void message_clear(struct message *message) {
    item_destroy(&message->item);
}
