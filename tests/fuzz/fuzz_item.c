#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/edges/item.h"

/* Fuzzes items that a stage may receive. An item that can be parsed must be the same after it is printed and parsed
 * again. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct item *item = NULL, *again = NULL;
    struct err err = {0};
    if (item_parse((const char *)bytes, length, &item, &err) != STATUS_OK) {
        FUZZ_CHECK(item == NULL && err.message[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(item_id(item)[0] != '\0' && strlen(item_id(item)) <= ITEM_ID_MAX && item_kind(item) != NULL);
    char *text = item_print(item);
    FUZZ_CHECK(text != NULL);
    FUZZ_CHECK(item_parse(text, strlen(text), &again, &err) == STATUS_OK);
    /* Printing rounds numbers to 15 digits, but a second time must change nothing. */
    char *same = item_print(again);
    FUZZ_CHECK(same != NULL && strcmp(text, same) == 0);
    free(same);
    (void)item_string(item, "micrograph.path");
    (void)item_number(item, "columns.rlnDefocusU", 0);
    FUZZ_CHECK(item_set_string(item, "picks.star", "a.star", &err) != STATUS_OK ||
               strcmp(item_string(item, "picks.star"), "a.star") == 0);
    free(text);
    item_destroy(&item);
    item_destroy(&again);
    return 0;
}
