/* One exposure in full: its item, and what each stage did with it. */
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/json_values.h"
#include "pipelines/launcher/view/view_private.h"

struct reading {
    json_t *item;
};

static enum status take_item(int64_t number, const struct ledger_row *row, void *context, struct err *err) {
    struct reading *reading = context;
    (void)number;
    (void)err;
    json_decref(reading->item);
    reading->item = json_loads(row->item_text, 0, NULL);
    return STATUS_OK;
}

/* Returns the files below SESSION/STAGE/ that the item names. */
static json_t *products_of(const json_t *item, const char *stage) {
    json_t *products = json_array();
    const char *path;
    json_t *note;
    size_t length = strlen(stage);
    json_object_foreach(json_object_get(item, "files"), path, note) {
        if (strncmp(path, stage, length) == 0 && path[length] == '/')
            json_array_append_new(products, json_value_text(path));
    }
    return products;
}

static json_t *stage_json(const struct stage_view *s, const struct visit *visit, const json_t *item) {
    return json_pack("{s:s, s:s, s:o, s:i, s:f, s:f, s:f, s:o}", "stage", s->name, "state",
                     ledger_state_name((enum ledger_state)visit->state), "reason", json_value_text(visit->reason),
                     "attempts", (int)visit->attempts, "seen", visit->time_seen, "changed", visit->time_changed,
                     "seconds", visit->time_changed - visit->time_seen, "products", products_of(item, s->name));
}

enum status view_item(struct view *view, size_t row, json_t **ret_json, struct err *err) {
    size_t entry = view->row_entry[row];
    struct reading reading = {0};
    json_t *stages = json_array();
    for (size_t i = 0; i < view->stage_count; i++) {
        struct stage_view *s = &view->stages[i];
        if (s->watch == NULL || s->visits[entry].number == 0) continue;
        enum status status =
            ledger_watch_rows(s->watch, LEDGER_LOOK_ONE, s->visits[entry].number, take_item, &reading, err);
        if (status != STATUS_OK) {
            json_decref(stages);
            json_decref(reading.item);
            return status;
        }
        json_array_append_new(stages, stage_json(s, &s->visits[entry], reading.item));
    }
    json_t *item = reading.item != NULL ? reading.item : json_object();
    json_t *json = json_pack("{s:o, s:o}", "item", item, "stages", stages);
    FAIL_IF(json == NULL, err, STATUS_NO_MEMORY, "no memory for an item");
    *ret_json = json;
    return STATUS_OK;
}
