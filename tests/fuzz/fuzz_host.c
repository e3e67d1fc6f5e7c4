/* Fuzzes messages of the control channel with any bytes. One that can be decoded has all that its kind asks for, and is
 * the same after it is written and read again. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "pipelines/launcher/host/host_message.h"

static void check_state(const json_t *root) {
    size_t i;
    json_t *process;
    json_array_foreach(json_object_get(root, "processes"), i, process) {
        FUZZ_CHECK(host_number(process, "start") >= 0 && host_number(process, "wait_status") <= 0xffff);
        FUZZ_CHECK(strlen(host_text(process, "error")) < 512);
        FUZZ_CHECK(json_is_boolean(json_object_get(process, "ended")));
    }
}

static void check_order(const json_t *root) {
    size_t i;
    json_t *entry;
    if (strcmp(host_text(root, "what"), "start") != 0) return;
    FUZZ_CHECK(json_is_object(json_object_get(root, "orders")));
    json_array_foreach(json_object_get(root, "env"), i, entry) {
        FUZZ_CHECK(json_is_string(entry));
    }
    json_array_foreach(json_object_get(root, "gpus"), i, entry) {
        FUZZ_CHECK(json_is_integer(entry) && json_integer_value(entry) >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct host_message message = {0}, again = {0};
    struct err err = {0};
    if (host_message_decode(bytes, length, &message, &err) != STATUS_OK) {
        FUZZ_CHECK(message.root == NULL && err.message[0] != '\0');
        return 0;
    }
    char *text = NULL;
    size_t size = 0;
    if (message.kind == HOST_STATE) check_state(message.root);
    if (message.kind == HOST_ORDER) check_order(message.root);
    json_t *content = json_deep_copy(message.root);
    FUZZ_CHECK(host_message_encode(message.kind, content, &text, &size, &err) == STATUS_OK);
    FUZZ_CHECK(host_message_decode(text, size, &again, &err) == STATUS_OK && again.kind == message.kind);
    free(text);
    host_message_clear(&message);
    host_message_clear(&again);
    return 0;
}
