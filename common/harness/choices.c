#include "common/harness/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/star.h"
#include "common/memory.h"

enum { CHANGE_TEXT_MAX = 1 << 26, CLASSES_MAX = 1001 };

/* One change that chose classes. */
struct sheet {
    json_t *entries;           /* those of the stage */
    struct star_file *members; /* NULL: it only takes back */
};

struct member {
    const char *image, *x, *y; /* borrowed from the sheet's table */
    size_t order;
    enum choice choice;
};

struct choices {
    char session[PATH_SIZE];
    char *stage; /* NULL: none */
    int next, number;
    json_t *marks; /* {ID: [ENTRY, …]}, one entry for each source */
    struct sheet *sheets;
    size_t sheet_count;
    struct member *members; /* by name, and in the order of choice */
    size_t member_count;
};

const char *choice_name(enum choice choice) {
    return choice == CHOICE_KEEP ? "keep" : choice == CHOICE_REJECT ? "reject" : NULL;
}

enum choice choice_named(const char *name) {
    if (name == NULL) return CHOICE_NONE;
    return strcmp(name, "keep") == 0 ? CHOICE_KEEP : strcmp(name, "reject") == 0 ? CHOICE_REJECT : CHOICE_NONE;
}

enum status choices_create(const char *session, const char *stage, struct choices **ret_choices, struct err *err) {
    struct choices *c = NULL;
    FAIL_IF(strlen(session) >= sizeof c->session, err, STATUS_BAD_ARGUMENT, "%s: too long a path", session);
    TRY(mem_new(1, sizeof *c, "choices by hand", &c, err));
    snprintf(c->session, sizeof c->session, "%s", session);
    c->next = 1;
    c->marks = json_object();
    c->stage = stage != NULL ? strdup(stage) : NULL;
    if (c->marks == NULL || (stage != NULL && c->stage == NULL)) {
        choices_destroy(&c);
        FAIL(err, STATUS_NO_MEMORY, "no memory for choices by hand");
    }
    *ret_choices = c;
    return STATUS_OK;
}

/* Begins anew: nothing that was read counts. */
static void forget(struct choices *c) {
    for (size_t i = 0; i < c->sheet_count; i++) {
        json_decref(c->sheets[i].entries);
        star_destroy(&c->sheets[i].members);
    }
    mem_free(&c->sheets);
    mem_free(&c->members);
    c->sheet_count = c->member_count = 0;
    json_object_clear(c->marks);
}

void choices_destroy(struct choices **choices) {
    if (choices == NULL || *choices == NULL) return;
    forget(*choices);
    json_decref((*choices)->marks);
    free((*choices)->stage);
    mem_free(choices);
}

static struct ledger_key key_of(const json_t *entry) {
    const char *source = json_string_value(json_object_get(entry, "source"));
    const char *id = json_string_value(json_object_get(entry, "id"));
    return (struct ledger_key){source != NULL ? source : "", id != NULL ? id : ""};
}

static void take_mark(struct choices *c, const json_t *change, json_t *entry) {
    const struct ledger_key key = key_of(entry);
    json_t *known = json_object_get(c->marks, key.id);
    if (known == NULL) {
        known = json_array();
        json_object_set_new(c->marks, key.id, known);
    }
    for (size_t i = json_array_size(known); i > 0; i--)
        if (item_keys_match(key_of(json_array_get(known, i - 1)), key)) json_array_remove(known, i - 1);
    if (json_is_null(json_object_get(entry, "mark"))) return;
    json_t *own = json_copy(entry);
    static const char *const from[] = {"number", "time", "user"};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        json_object_set(own, from[i], json_object_get(change, from[i]));
    json_array_append_new(known, own);
}

static bool is_verdict(const json_t *value) {
    return json_is_null(value) || choice_named(json_string_value(value)) != CHOICE_NONE;
}

static bool is_sound(const json_t *change, int number) {
    size_t i;
    json_t *entry;
    if (!json_is_object(change) || json_integer_value(json_object_get(change, "number")) != number) return false;
    json_array_foreach(json_object_get(change, "marks"), i, entry) {
        if (*key_of(entry).id == '\0' || !is_verdict(json_object_get(entry, "mark"))) return false;
    }
    json_array_foreach(json_object_get(change, "choices"), i, entry) {
        if (!json_is_array(json_object_get(entry, "classes")) || !is_verdict(json_object_get(entry, "choice")))
            return false;
    }
    return true;
}

static json_t *entries_of_stage(const json_t *change, const char *stage) {
    json_t *own = json_array(), *entry;
    size_t i;
    json_array_foreach(json_object_get(change, "choices"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "stage"));
        if (stage != NULL && name != NULL && strcmp(name, stage) == 0) json_array_append(own, entry);
    }
    return own;
}

static enum status read_members(const struct choices *c, const json_t *change, struct star_file **ret_file,
                                struct err *err) {
    const char *name = json_string_value(json_object_get(change, "members"));
    _cleanup_(star_destroy) struct star_file *file = NULL;
    char path[PATH_SIZE];
    int column;
    if (name == NULL) return STATUS_OK;
    TRY(path_join(c->session, name, path, sizeof path, err));
    TRY(star_read(path, &file, err));
    const struct star_table *table = star_table_find(file, "particles");
    FAIL_IF(table == NULL, err, STATUS_BAD_FORMAT, "%s: a table of particles was expected", path);
    TRY(star_column_need(table, "rlnImageName", &column, err));
    TRY(star_column_need(table, "rlnClassNumber", &column, err));
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

static enum status take_sheet(struct choices *c, const json_t *change, json_t *entries, struct err *err) {
    struct star_file *members = NULL;
    TRY(read_members(c, change, &members, err));
    struct sheet *sheets = realloc(c->sheets, (c->sheet_count + 1) * sizeof *sheets);
    if (sheets == NULL) star_destroy(&members);
    FAIL_IF(sheets == NULL, err, STATUS_NO_MEMORY, "no memory for choices of classes");
    c->sheets = sheets;
    sheets[c->sheet_count++] = (struct sheet){.entries = json_incref(entries), .members = members};
    return STATUS_OK;
}

static bool names_class(const json_t *classes, int k) {
    size_t i;
    json_t *number;
    json_array_foreach(classes, i, number) {
        if (json_integer_value(number) == k) return true;
    }
    return false;
}

/* Returns whether an entry is taken back by a later change. */
static bool is_undone(const struct choices *c, size_t sheet, json_int_t iteration, int k) {
    for (size_t later = sheet + 1; later < c->sheet_count; later++) {
        size_t i;
        json_t *entry;
        json_array_foreach(c->sheets[later].entries, i, entry) {
            const json_t *classes = json_object_get(entry, "classes");
            if (json_is_null(json_object_get(entry, "choice")) &&
                json_integer_value(json_object_get(entry, "iteration")) == iteration &&
                (json_array_size(classes) == 0 || names_class(classes, k)))
                return true;
        }
    }
    return false;
}

/* Finds what a sheet still says of each class; verdicts[k]: of class number k. */
static void judge_classes(const struct choices *c, size_t sheet, enum choice verdicts[CLASSES_MAX + 1]) {
    size_t i, n;
    json_t *entry, *number;
    memset(verdicts, 0, (CLASSES_MAX + 1) * sizeof *verdicts);
    json_array_foreach(c->sheets[sheet].entries, i, entry) {
        enum choice choice = choice_named(json_string_value(json_object_get(entry, "choice")));
        json_int_t iteration = json_integer_value(json_object_get(entry, "iteration"));
        json_array_foreach(json_object_get(entry, "classes"), n, number) {
            json_int_t k = json_integer_value(number);
            if (choice != CHOICE_NONE && k >= 1 && k <= CLASSES_MAX && !is_undone(c, sheet, iteration, (int)k))
                verdicts[k] = choice;
        }
    }
}

static void list_sheet(const struct choices *c, size_t sheet, struct member *members, size_t *count) {
    enum choice verdicts[CLASSES_MAX + 1];
    struct star_table *t = star_table_find(c->sheets[sheet].members, "particles");
    int image = star_column_find(t, "rlnImageName"), class = star_column_find(t, "rlnClassNumber");
    int x = star_column_find(t, "rlnCoordinateX"), y = star_column_find(t, "rlnCoordinateY");
    judge_classes(c, sheet, verdicts);
    for (size_t row = 0; row < star_row_count(t); row++) {
        long k = 0;
        if (star_get_integer(t, row, class, &k, NULL) != STATUS_OK || k < 1 || k > CLASSES_MAX ||
            verdicts[k] == CHOICE_NONE)
            continue;
        members[*count] = (struct member){.image = star_get(t, row, image),
                                          .x = star_get(t, row, x),
                                          .y = star_get(t, row, y),
                                          .order = *count,
                                          .choice = verdicts[k]};
        ++*count;
    }
}

static int by_name(const void *a, const void *b) {
    const struct member *one = a, *other = b;
    int order = strcmp(one->image, other->image);
    return order != 0 ? order : (one->order > other->order) - (one->order < other->order);
}

/* Lists the particles that are bound now. */
static enum status bind(struct choices *c, struct err *err) {
    struct member *members = NULL;
    size_t rows = 0, count = 0;
    for (size_t i = 0; i < c->sheet_count; i++)
        if (c->sheets[i].members != NULL) rows += star_row_count(star_table_find(c->sheets[i].members, "particles"));
    TRY(mem_new(rows + 1, sizeof *members, "particles of chosen classes", &members, err));
    for (size_t i = 0; i < c->sheet_count; i++)
        if (c->sheets[i].members != NULL) list_sheet(c, i, members, &count);
    qsort(members, count, sizeof *members, by_name);
    mem_free(&c->members);
    c->members = members;
    c->member_count = count;
    return STATUS_OK;
}

static enum status take(struct choices *c, const json_t *change, json_t *entries, struct err *err) {
    size_t i;
    json_t *entry;
    const json_t *marks = json_object_get(change, "marks");
    if (json_is_true(json_object_get(change, "whole"))) forget(c);
    if (json_array_size(entries) > 0) {
        TRY(take_sheet(c, change, entries, err));
        enum status status = bind(c, err);
        if (status != STATUS_OK) {
            c->sheet_count--;
            json_decref(entries);
            star_destroy(&c->sheets[c->sheet_count].members);
            return status;
        }
    }
    json_array_foreach(marks, i, entry) {
        take_mark(c, change, entry);
    }
    if (json_array_size(entries) > 0 || json_array_size(marks) > 0 || json_is_true(json_object_get(change, "whole")))
        c->number = c->next;
    return STATUS_OK;
}

static enum status read_change(const char *path, int number, json_t **ret_change, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(file_read_whole(path, CHANGE_TEXT_MAX, &text, &length, err));
    json_t *change = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    if (!is_sound(change, number)) {
        json_decref(change);
        FAIL(err, STATUS_BAD_FORMAT, "%s: not a change of a session; a copy of the session may have a whole one", path);
    }
    *ret_change = change;
    return STATUS_OK;
}

enum status choices_poll(struct choices *c, bool *ret_changed, struct err *err) {
    int before = c->number;
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        char path[PATH_SIZE];
        json_t *change = NULL;
        int length = snprintf(path, sizeof path, "%s/changes/%04d.json", c->session, c->next);
        FAIL_IF(length < 0 || length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: too long a path", c->session);
        if (!file_exists(path)) break;
        status = read_change(path, c->next, &change, err);
        json_t *entries = status == STATUS_OK ? entries_of_stage(change, c->stage) : NULL;
        if (status == STATUS_OK) status = take(c, change, entries, err);
        json_decref(entries);
        json_decref(change);
        if (status == STATUS_OK) c->next++;
    }
    if (ret_changed != NULL) *ret_changed = c->number != before;
    return status;
}

int choices_number(const struct choices *c) {
    return c->number;
}

const json_t *choices_mark(const struct choices *c, struct ledger_key key) {
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(c->marks, key.id), i, entry) {
        if (item_keys_match(key_of(entry), key)) return entry;
    }
    return NULL;
}

enum choice choices_of_item(const struct choices *c, struct ledger_key key) {
    return choice_named(json_string_value(json_object_get(choices_mark(c, key), "mark")));
}

static int by_id(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

json_t *choices_marks(const struct choices *c) {
    json_t *all = json_array(), *entries, *entry;
    const char **ids = calloc(json_object_size(c->marks) + 1, sizeof *ids), *id;
    size_t count = 0, i;
    json_object_foreach(c->marks, id, entries) {
        if (ids != NULL) ids[count++] = id;
    }
    if (ids == NULL || all == NULL) {
        free(ids);
        json_decref(all);
        return NULL;
    }
    qsort(ids, count, sizeof *ids, by_id);
    for (size_t n = 0; n < count; n++) {
        json_array_foreach(json_object_get(c->marks, ids[n]), i, entry) {
            json_array_append(all, entry);
        }
    }
    free(ids);
    return all;
}

size_t choices_count(const struct choices *c, enum choice choice) {
    size_t count = 0, i;
    const char *id;
    json_t *entries, *entry;
    json_object_foreach(c->marks, id, entries) {
        json_array_foreach(entries, i, entry) {
            count += choice_named(json_string_value(json_object_get(entry, "mark"))) == choice;
        }
    }
    return count;
}

/* Returns the index of the first member whose name is not less. */
static size_t first_of(const struct choices *c, const char *image) {
    size_t low = 0, high = c->member_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(c->members[middle].image, image) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool same_place(const struct member *m, const char *x, const char *y) {
    if (*m->x == '\0' || *m->y == '\0' || *x == '\0' || *y == '\0') return true;
    return strcmp(m->x, x) == 0 && strcmp(m->y, y) == 0;
}

enum choice choices_of_particle(const struct choices *c, const char *image, const char *x, const char *y) {
    enum choice choice = CHOICE_NONE;
    for (size_t i = first_of(c, image); i < c->member_count && strcmp(c->members[i].image, image) == 0; i++)
        if (same_place(&c->members[i], x, y)) choice = c->members[i].choice;
    return choice;
}
