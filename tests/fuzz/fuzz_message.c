/* Fuzzes messages and the items in them with any bytes. A message that can be decoded must be the same after it is
 * written and read again. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/edges/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct message message = {0}, again = {0};
    struct err err = {0};
    if (message_decode(bytes, length, &message, &err) != STATUS_OK) {
        FUZZ_CHECK(message.item == NULL && err.message[0] != '\0');
        return 0;
    }
    char *text = NULL;
    size_t size = 0;
    /* Printed numbers may be longer than in the input, so a message near the size limit can exceed it. */
    if (message_encode(&message, NULL, &text, &size, &err) == STATUS_OK) {
        FUZZ_CHECK(message_decode(text, size, &again, &err) == STATUS_OK);
        FUZZ_CHECK(again.kind == message.kind && again.seq == message.seq && strcmp(again.edge, message.edge) == 0);
        FUZZ_CHECK((again.item == NULL) == (message.item == NULL));
    } else
        FUZZ_CHECK(length > MESSAGE_SIZE_MAX / 8);
    if (again.item != NULL) {
        FUZZ_CHECK(strcmp(item_id(again.item), item_id(message.item)) == 0);
        FUZZ_CHECK(item_set_number(again.item, "columns.fuzz", 1, &err) == STATUS_OK);
        FUZZ_CHECK(item_number(again.item, "columns.fuzz", 0) == 1);
    }
    free(text);
    message_clear(&message);
    message_clear(&again);
    return 0;
}
