/* /api/items: the table of exposures, column by column, whole or what has changed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/api/api_private.h"

enum { DIGITS = 7, SLOTS_LEAST = 64 };

/* The distinct texts of one answer, in the order in which they came. */
struct words {
    const char **texts;
    int *slots; /* index + 1 into texts, by hash; 0: free */
    size_t count, capacity, slot_count;
    bool failed;
};

static bool grow(struct words *words) {
    size_t slot_count = words->slot_count > 0 ? 2 * words->slot_count : SLOTS_LEAST;
    const char **texts = realloc(words->texts, slot_count / 2 * sizeof *texts);
    int *slots = calloc(slot_count, sizeof *slots);
    if (texts != NULL) words->texts = texts;
    if (texts == NULL || slots == NULL) {
        free(slots);
        words->failed = true;
        return false;
    }
    for (size_t i = 0; i < words->count; i++) {
        size_t at = text_hash(texts[i]) % slot_count;
        while (slots[at] != 0)
            at = (at + 1) % slot_count;
        slots[at] = (int)i + 1;
    }
    free(words->slots);
    words->slots = slots;
    words->slot_count = slot_count;
    words->capacity = slot_count / 2;
    return true;
}

/* Returns the index of a text; −1: it is empty. */
static int index_of(struct words *words, const char *text) {
    if (text == NULL || text[0] == '\0' || words->failed) return -1;
    if (words->count == words->capacity && !grow(words)) return -1;
    size_t at = text_hash(text) % words->slot_count;
    for (; words->slots[at] != 0; at = (at + 1) % words->slot_count)
        if (strcmp(words->texts[words->slots[at] - 1], text) == 0) return words->slots[at] - 1;
    words->texts[words->count++] = text;
    words->slots[at] = (int)words->count;
    return (int)words->count - 1;
}

static void words_clear(struct words *words) {
    free(words->texts);
    free(words->slots);
}

/* The rows of one answer. */
struct rows {
    struct view *view;
    const struct choices *marks; /* NULL: unknown */
    size_t *list;                /* those that changed; NULL: all rows */
    size_t count;
};

static size_t row_at(const struct rows *rows, size_t i) {
    return rows->list != NULL ? rows->list[i] : i;
}
#define FOR_ROWS(row, rows) for (size_t at = 0, row; at < (rows)->count && (row = row_at(rows, at), true); at++)

/* Lists the rows that changed after a revision, so that a long table is looked through once and not for each column. */
static bool list_changed(struct rows *rows, uint64_t since) {
    size_t room = 64;
    rows->list = malloc(room * sizeof *rows->list);
    for (int64_t row = 0; rows->list != NULL && (row = view_rows_since(rows->view, since, (size_t)row)) >= 0; row++) {
        if (rows->count == room) {
            size_t *grown = realloc(rows->list, 2 * room * sizeof *grown);
            if (grown == NULL) return false;
            rows->list = grown;
            room *= 2;
        }
        rows->list[rows->count++] = (size_t)row;
    }
    return rows->list != NULL;
}

static void begin(struct api_text *text, const char *name) {
    api_text_comma(text);
    api_text_string(text, name);
    api_text_add(text, ":[");
}

static void put_list(struct api_text *text, const char *name, const struct words *words) {
    begin(text, name);
    for (size_t i = 0; i < words->count; i++) {
        api_text_comma(text);
        api_text_string(text, words->texts[i]);
    }
    api_text_add(text, "]");
}

typedef int64_t whole_of(const struct view_row *row);
static int64_t number_of(const struct view_row *row) {
    return row->number;
}
static int64_t state_of(const struct view_row *row) {
    return row->state;
}
static int64_t stage_of(const struct view_row *row) {
    return row->stage;
}
static int64_t attempts_of(const struct view_row *row) {
    return row->attempts;
}

static int64_t shows_of(const struct view_row *row) {
    return row->shows;
}
static int64_t revision_of(const struct view_row *row) {
    return row->item_revision;
}

static void put_wholes(const struct rows *rows, struct api_text *text, const char *name, whole_of *of) {
    begin(text, name);
    FOR_ROWS(i, rows) {
        api_text_comma(text);
        api_text_integer(text, of(view_row(rows->view, i)));
    }
    api_text_add(text, "]");
}

static void put_texts(const struct rows *rows, struct api_text *text, const char *name, bool holes) {
    begin(text, name);
    FOR_ROWS(i, rows) {
        const struct view_row *row = view_row(rows->view, i);
        api_text_comma(text);
        api_text_string(text, holes ? row->hole : row->name);
    }
    api_text_add(text, "]");
}

static void put_words(const struct rows *rows, struct api_text *text, bool squares) {
    struct words words = {0};
    begin(text, squares ? "square" : "reason");
    FOR_ROWS(i, rows) {
        const struct view_row *row = view_row(rows->view, i);
        const char *square = row->square >= 0 ? view_square(rows->view, (size_t)row->square) : "";
        api_text_comma(text);
        api_text_integer(text, index_of(&words, squares ? square : row->reason));
    }
    api_text_add(text, "]");
    put_list(text, squares ? "squares" : "reasons", &words);
    text->failed = text->failed || words.failed;
    words_clear(&words);
}

static void put_marks(const struct rows *rows, struct api_text *text) {
    begin(text, "mark");
    FOR_ROWS(i, rows) {
        const struct view_row *row = view_row(rows->view, i);
        const struct ledger_key key = {row->source, row->id};
        const char *name = rows->marks != NULL ? choice_name(choices_of_item(rows->marks, key)) : NULL;
        api_text_comma(text);
        if (name != NULL)
            api_text_string(text, name);
        else
            api_text_add(text, "null");
    }
    api_text_add(text, "]");
}

static void put_columns(const struct rows *rows, struct api_text *text) {
    api_text_add(text, ",\"columns\":{");
    for (size_t column = 0; column < api_column_count(rows->view); column++) {
        if (!api_column_shown(rows->view, column)) continue;
        begin(text, api_column_key(rows->view, column));
        FOR_ROWS(i, rows) {
            api_text_comma(text);
            api_text_number(text, api_column_value(rows->view, i, column), DIGITS);
        }
        api_text_add(text, "]");
    }
    api_text_add(text, "}");
}

void api_items_text(struct serve *serve, bool full, uint64_t since, struct api_text *text) {
    struct rows rows = {.view = serve->view, .marks = serve->api != NULL ? serve->api->choices : NULL};
    if (full)
        rows.count = view_row_count(serve->view);
    else
        text->failed = !list_changed(&rows, since) || text->failed;
    api_text_add(text, "{\"v\":1,\"epoch\":");
    api_text_integer(text, (int64_t)api_epoch(serve));
    api_text_add(text, ",\"rev\":");
    api_text_integer(text, (int64_t)view_revision(serve->view));
    api_text_add(text, full ? ",\"full\":true,\"gone\":[]" : ",\"full\":false,\"gone\":[]");
    put_wholes(&rows, text, "n", number_of);
    put_wholes(&rows, text, "state", state_of);
    put_wholes(&rows, text, "stage", stage_of);
    put_wholes(&rows, text, "attempts", attempts_of);
    put_wholes(&rows, text, "shows", shows_of);
    put_wholes(&rows, text, "revision", revision_of);
    begin(text, "t");
    FOR_ROWS(i, &rows) {
        api_text_comma(text);
        api_text_number(text, view_row(serve->view, i)->time_found, 13);
    }
    api_text_add(text, "]");
    put_words(&rows, text, false);
    put_texts(&rows, text, "name", false);
    put_words(&rows, text, true);
    put_texts(&rows, text, "hole", true);
    put_marks(&rows, text);
    put_columns(&rows, text);
    api_text_add(text, "}");
    free(rows.list);
}

enum status api_items(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                      struct err *err) {
    int64_t since, epoch;
    const int64_t now = (int64_t)api_epoch(serve);
    TRY(http_query_number(request, "since", 0, INT64_MAX, -1, &since, err));
    TRY(http_query_number(request, "epoch", 0, INT64_MAX, now, &epoch, err));
    bool full = since < 0 || epoch != now || since > (int64_t)view_revision(serve->view);
    struct api_text text = {0};
    api_items_text(serve, full, full ? 0 : (uint64_t)since, &text);
    if (text.failed) free(text.bytes);
    FAIL_IF(text.failed, err, STATUS_NO_MEMORY, "no memory for the table of exposures");
    http_answer_bytes(answer, "application/json", text.bytes, text.length);
    return STATUS_OK;
}
