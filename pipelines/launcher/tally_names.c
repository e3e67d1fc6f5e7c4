/* Finds the items that a user names. */
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/tally.h"

struct ledger_key tally_key(const struct tally_item *item) {
    return (struct ledger_key){item->source, item->id};
}

/* Visits all items in the order of stages; *at counts on from one call to the next. NULL: there are no more. */
static const struct tally_item *next(const struct tally *tally, size_t *stage, size_t *at) {
    for (; *stage < tally->count; ++*stage, *at = 0)
        if (*at < tally->stages[*stage].item_count) return &tally->stages[*stage].items[(*at)++];
    return NULL;
}

static enum status refuse(const char *name, const struct tally_item *one, const struct tally_item *other,
                          struct err *err) {
    FAIL(err, STATUS_BAD_ARGUMENT, "%s is the name of several items: %s and %s; give one of these names", name,
         one->full, other->full);
}

static enum status find(const struct tally *tally, const char *name, const struct tally_item **ret_item,
                        struct err *err) {
    const struct tally_item *found = NULL, *item;
    for (size_t stage = 0, at = 0; (item = next(tally, &stage, &at)) != NULL;)
        if (item->source[0] != '\0' && strcmp(item->full, name) == 0) {
            *ret_item = item;
            return STATUS_OK;
        }
    for (size_t stage = 0, at = 0; (item = next(tally, &stage, &at)) != NULL;) {
        if (strcmp(item->id, name) != 0) continue;
        if (found != NULL && !item_keys_match(tally_key(found), tally_key(item))) return refuse(name, found, item, err);
        /* One with a source tells more than one without. */
        if (found == NULL || found->source[0] == '\0') found = item;
    }
    *ret_item = found;
    return STATUS_OK;
}

enum status tally_choose(const struct tally *tally, const char *const *names, size_t count,
                         struct tally_choice *ret_choice, struct err *err) {
    struct tally_choice choice = {.items = calloc(count + 1, sizeof *choice.items), .count = count};
    FAIL_IF(choice.items == NULL, err, STATUS_NO_MEMORY, "no memory for the names of items");
    for (size_t i = 0; i < count; i++) {
        enum status status = find(tally, names[i], &choice.items[i], err);
        if (status == STATUS_OK) continue;
        tally_choice_clear(&choice);
        return status;
    }
    *ret_choice = choice;
    return STATUS_OK;
}

void tally_choice_clear(struct tally_choice *choice) {
    free(choice->items);
    *choice = (struct tally_choice){0};
}

bool tally_is_chosen(const struct tally_choice *choice, struct ledger_key key) {
    for (size_t i = 0; i < choice->count; i++)
        if (choice->items[i] != NULL && item_keys_match(tally_key(choice->items[i]), key)) return true;
    return choice->count == 0;
}
