/* The table of a view: entries of all ledgers, rows for the exposures among them, columns of numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "pipelines/launcher/view/view_path.h"
#include "pipelines/launcher/view/view_private.h"
#include "pipelines/launcher/view/view_scan.h"

enum { FIRST_ROOM = 256, COLUMNS_MAX = 256, COLUMN_NAME_MAX = 64 };
/* Numbers of rows whose source has lost its ledger begin here, so that no other row has the same. */
static const int64_t NUMBER_WITHOUT_LEDGER = (int64_t)1 << 40;

static bool same_source(const char *a, const char *b) {
    return a[0] == '\0' || b[0] == '\0' || strcmp(a, b) == 0;
}

int64_t view_entry_find(const struct view *view, const char *source, const char *id) {
    if (view->slot_count == 0) return -1;
    for (size_t i = view_hash(id) & (view->slot_count - 1); view->slots[i] != 0; i = (i + 1) & (view->slot_count - 1)) {
        const struct entry *entry = &view->entries[view->slots[i] - 1];
        if (strcmp(entry->id, id) == 0 && same_source(entry->source, source)) return view->slots[i] - 1;
    }
    return -1;
}

static void put_slot(struct view *view, size_t entry) {
    size_t i = view_hash(view->entries[entry].id) & (view->slot_count - 1);
    while (view->slots[i] != 0)
        i = (i + 1) & (view->slot_count - 1);
    view->slots[i] = (uint32_t)entry + 1;
}

static enum status grow_entries(struct view *view, struct err *err) {
    size_t room = view->entry_room ? 2 * view->entry_room : FIRST_ROOM;
    FAIL_IF(room >= UINT32_MAX / 2, err, STATUS_UNSUPPORTED, "%s: too many items to show", view->session.path);
    struct entry *entries = realloc(view->entries, room * sizeof *entries);
    if (entries != NULL) view->entries = entries;
    uint32_t *slots = calloc(2 * room, sizeof *slots);
    bool well = entries != NULL && slots != NULL;
    for (size_t i = 0; well && i < view->stage_count; i++) {
        struct visit *visits = realloc(view->stages[i].visits, room * sizeof *visits);
        well = visits != NULL;
        if (!well) break;
        memset(visits + view->entry_room, 0, (room - view->entry_room) * sizeof *visits);
        view->stages[i].visits = visits;
    }
    if (!well) {
        free(slots);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the items of %s", view->session.path);
    }
    free(view->slots);
    view->slots = slots;
    view->slot_count = 2 * room;
    view->entry_room = room;
    for (size_t i = 0; i < view->entry_count; i++)
        put_slot(view, i);
    return STATUS_OK;
}

enum status view_entry(struct view *view, const char *source, const char *id, size_t *ret_entry, struct err *err) {
    const char *kept = view_text(&view->texts, source);
    FAIL_IF(kept == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", view->session.path);
    int64_t found = view_entry_find(view, source, id);
    if (found >= 0) {
        if (view->entries[found].source[0] == '\0') view->entries[found].source = kept;
        *ret_entry = (size_t)found;
        return STATUS_OK;
    }
    if (view->entry_count == view->entry_room) TRY(grow_entries(view, err));
    char *copy = strdup(id);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", view->session.path);
    view->entries[view->entry_count] = (struct entry){.source = kept, .id = copy, .row = -1};
    put_slot(view, view->entry_count);
    *ret_entry = view->entry_count++;
    return STATUS_OK;
}

static enum status grow_rows(struct view *view, struct err *err) {
    size_t room = view->row_room ? 2 * view->row_room : FIRST_ROOM;
    struct view_row *rows = realloc(view->rows, room * sizeof *rows);
    if (rows != NULL) view->rows = rows;
    int *item_stage = realloc(view->item_stage, room * sizeof *item_stage);
    if (item_stage != NULL) view->item_stage = item_stage;
    size_t *row_entry = realloc(view->row_entry, room * sizeof *row_entry);
    if (row_entry != NULL) view->row_entry = row_entry;
    uint64_t *row_changed = realloc(view->row_changed, room * sizeof *row_changed);
    if (row_changed != NULL) view->row_changed = row_changed;
    bool well = rows != NULL && item_stage != NULL && row_entry != NULL && row_changed != NULL;
    for (size_t i = 0; well && i < view->column_count; i++) {
        double *values = realloc(view->columns[i].values, room * sizeof *values);
        well = values != NULL;
        if (well) view->columns[i].values = values;
    }
    FAIL_IF(!well, err, STATUS_NO_MEMORY, "no memory for the exposures of %s", view->session.path);
    view->row_room = room;
    return STATUS_OK;
}

/* Finds the source stage of an entry; −1: it did not begin in one. */
static int source_of(const struct view *view, const struct entry *entry) {
    int found = -1, count = 0;
    for (size_t i = 0; i < view->stage_count; i++) {
        if (!view->stages[i].source) continue;
        if (strcmp(view->stages[i].name, entry->source) == 0) return (int)i;
        found = (int)i;
        count++;
    }
    return entry->source[0] == '\0' && count == 1 ? found : -1;
}

/* Numbers of several sources take turns, so that each keeps its own for ever. */
static int64_t number_of(const struct view *view, size_t source, size_t stage, int64_t number) {
    int64_t count = 0, order = 0;
    for (size_t i = 0; i < view->stage_count; i++) {
        if (i == source) order = count;
        count += view->stages[i].source;
    }
    number = (number - 1) * count + order + 1;
    return stage == source || !view->stages[source].keeps ? number : NUMBER_WITHOUT_LEDGER + number;
}

static enum status place_row(struct view *view, struct view_row *row, const char *item_text, struct err *err) {
    char path[PATH_SIZE];
    struct view_place place = view_place(row->id);
    if (place.square[0] == '\0' && (view_scan_text(item_text, "movie", "path", path, sizeof path) ||
                                    view_scan_text(item_text, "micrograph", "path", path, sizeof path)))
        place = view_place(path);
    row->square = -1;
    row->hole = view_text(&view->texts, place.hole);
    FAIL_IF(row->hole == NULL, err, STATUS_NO_MEMORY, "no memory for the exposures of %s", view->session.path);
    if (place.square[0] == '\0') return STATUS_OK;
    for (size_t i = 0; i < view->square_count; i++)
        if (strcmp(view->squares[i], place.square) == 0) row->square = (int)i;
    if (row->square >= 0) return STATUS_OK;
    const char *kept = view_text(&view->texts, place.square);
    const char **squares = realloc(view->squares, (view->square_count + 1) * sizeof *squares);
    if (squares != NULL) view->squares = squares;
    FAIL_IF(kept == NULL || squares == NULL, err, STATUS_NO_MEMORY, "no memory for the exposures of %s",
            view->session.path);
    row->square = (int)view->square_count;
    squares[view->square_count++] = kept;
    return STATUS_OK;
}

static enum status name_row(struct view *view, const struct entry *entry, struct view_row *row, struct err *err) {
    row->source = entry->source;
    row->id = row->name = entry->id;
    row->reason = "";
    if (!view->several || entry->source[0] == '\0') return STATUS_OK;
    char *full = malloc(strlen(entry->source) + strlen(entry->id) + 2);
    FAIL_IF(full == NULL, err, STATUS_NO_MEMORY, "no memory for the exposures of %s", view->session.path);
    strcpy(full, entry->source);
    strcat(full, "/");
    strcat(full, entry->id);
    row->name = view_text(&view->texts, full);
    free(full);
    FAIL_IF(row->name == NULL, err, STATUS_NO_MEMORY, "no memory for the exposures of %s", view->session.path);
    return STATUS_OK;
}

/* Makes the row of an exposure, if this stage may: its source, or any if the source keeps no ledger. */
static enum status make_row(struct view *view, size_t entry, size_t stage, int64_t number, const char *item_text,
                            struct err *err) {
    int source = source_of(view, &view->entries[entry]);
    if (source < 0 || ((size_t)source != stage && view->stages[source].watch != NULL)) return STATUS_OK;
    if (view->row_count == view->row_room) TRY(grow_rows(view, err));
    struct view_row row = {.number = number_of(view, (size_t)source, stage, number), .stage = -1, .reached = -1};
    TRY(name_row(view, &view->entries[entry], &row, err));
    TRY(place_row(view, &row, item_text, err));
    for (size_t i = 0; i < view->column_count; i++)
        view->columns[i].values[view->row_count] = NAN;
    view->item_stage[view->row_count] = -1;
    view->row_entry[view->row_count] = entry;
    view->row_changed[view->row_count] = 0;
    view->rows[view->row_count] = row;
    view->entries[entry].row = (int64_t)view->row_count++;
    /* A later stage may have been read before the source: its items are read again. */
    for (size_t i = 0; i < view->stage_count; i++)
        if (i != stage && view->stages[i].visits[entry].number > 0) {
            view->stages[i].forced = true;
            TRY(view_open_add(view, i, entry, err));
        }
    return STATUS_OK;
}

enum status view_open_add(struct view *view, size_t stage, size_t entry, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    if (s->open_count == s->open_room) {
        size_t room = s->open_room ? 2 * s->open_room : FIRST_ROOM;
        size_t *open = realloc(s->open, room * sizeof *open);
        FAIL_IF(open == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", s->name);
        s->open = open;
        s->open_room = room;
    }
    s->open[s->open_count++] = entry;
    return STATUS_OK;
}

struct taking {
    struct view *view;
    size_t row;
};

static enum status add_column(struct view *view, const char *name, size_t length, struct err *err) {
    struct column *columns = realloc(view->columns, (view->column_count + 1) * sizeof *columns);
    if (columns != NULL) view->columns = columns;
    struct column column = {.name = strndup(name, length), .values = malloc(view->row_room * sizeof(double))};
    if (columns == NULL || column.name == NULL || column.values == NULL) {
        free(column.name);
        free(column.values);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the columns of %s", view->session.path);
    }
    for (size_t i = 0; i < view->row_count; i++)
        column.values[i] = NAN;
    view->columns[view->column_count++] = column;
    return STATUS_OK;
}

static enum status take_number(const char *name, size_t length, double value, void *context, struct err *err) {
    struct taking *taking = context;
    struct view *view = taking->view;
    size_t i = 0;
    if (length == 0 || length > COLUMN_NAME_MAX) return STATUS_OK;
    while (i < view->column_count &&
           (strncmp(view->columns[i].name, name, length) != 0 || view->columns[i].name[length] != '\0'))
        i++;
    if (i == COLUMNS_MAX) return STATUS_OK;
    if (i == view->column_count) TRY(add_column(view, name, length, err));
    view->columns[i].values[taking->row] = value;
    return STATUS_OK;
}

/* Takes the numbers of an item, if no later stage has given better ones, and none of a later revision. */
static enum status take_columns(struct view *view, size_t stage, const struct ledger_row *row, size_t at, bool changed,
                                struct err *err) {
    struct taking taking = {view, at};
    bool later = row->revision > view->rows[at].item_revision;
    if (row->revision < view->rows[at].item_revision) return STATUS_OK;
    if (!later && (view->item_stage[at] > (int)stage || (view->item_stage[at] == (int)stage && !changed)))
        return STATUS_OK;
    for (size_t i = 0; later && i < view->column_count; i++)
        view->columns[i].values[at] = NAN;
    view->rows[at].item_revision = row->revision;
    view->item_stage[at] = (int)stage;
    view->rows[at].shows = view_scan_shows(row->item_text);
    return view_scan(row->item_text, take_number, &taking, err);
}

enum status view_take(struct view *view, size_t stage, int64_t number, const struct ledger_row *row, struct err *err) {
    struct stage_view *s = &view->stages[stage];
    size_t entry = 0;
    TRY(view_entry(view, row->source, row->id, &entry, err));
    const char *reason = view_text(&view->texts, row->reason != NULL ? row->reason : "");
    FAIL_IF(reason == NULL, err, STATUS_NO_MEMORY, "no memory for the items of %s", s->name);
    struct visit *visit = &s->visits[entry];
    const struct visit old = *visit;
    *visit = (struct visit){.number = number,
                            .revision = row->revision,
                            .reason = reason,
                            .time_seen = row->time_seen,
                            .time_changed = row->time_changed,
                            .attempts = row->attempts,
                            .mark = view->poll,
                            .state = (int8_t)row->state};
    bool changed = old.number != number || old.revision != visit->revision || old.reason != reason ||
                   old.time_changed != visit->time_changed || old.attempts != visit->attempts ||
                   old.state != visit->state;
    if (old.number > 0) s->counts[old.state]--;
    s->counts[visit->state]++;
    if (changed) view->counts_changed = true;
    if (row->state == LEDGER_IN_FLIGHT && old.mark != view->poll) TRY(view_open_add(view, stage, entry, err));
    if (!(view->last_time >= row->time_changed)) view->last_time = row->time_changed;
    if (view->entries[entry].row < 0) TRY(make_row(view, entry, stage, number, row->item_text, err));
    if (view->entries[entry].row < 0) return STATUS_OK;
    TRY(take_columns(view, stage, row, (size_t)view->entries[entry].row, changed, err));
    return changed || view->rows[view->entries[entry].row].stage < 0 ? view_settle(view, entry, err) : STATUS_OK;
}

void view_table_clear(struct view *view) {
    for (size_t i = 0; i < view->entry_count; i++)
        free(view->entries[i].id);
    for (size_t i = 0; i < view->column_count; i++) {
        free(view->columns[i].name);
        free(view->columns[i].values);
    }
    free(view->entries);
    free(view->slots);
    free(view->rows);
    free(view->item_stage);
    free(view->row_entry);
    free(view->row_changed);
    free(view->columns);
    free(view->squares);
    view->entries = NULL;
    view->slots = NULL;
    view->rows = NULL;
    view->item_stage = NULL;
    view->row_entry = NULL;
    view->row_changed = NULL;
    view->columns = NULL;
    view->squares = NULL;
    view->entry_count = view->entry_room = view->slot_count = 0;
    view->row_count = view->row_room = view->column_count = view->square_count = 0;
    view_texts_clear(&view->texts);
}
