#include "common/edges/item.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"

enum { PATH_PART_MAX = 128, KIND_MAX = 64, COLUMN_NAME_MAX = 100, COLUMNS_MAX = 500 };

struct item {
    json_t *root;
};

/* Returns the present time in whole milliseconds, which people can read and which printing preserves. */
static double now(void) {
    return floor(1000 * clock_realtime()) / 1000;
}

/* Products are named after the id, so the id must not lead out of the stage's folder. */
static enum status check_id(const char *id, struct err *err) {
    FAIL_IF(id == NULL || *id == '\0', err, STATUS_BAD_FORMAT, "the item has no id");
    FAIL_IF(strlen(id) > ITEM_ID_MAX, err, STATUS_BAD_FORMAT, "the item's id is longer than %d bytes", ITEM_ID_MAX);
    FAIL_IF(*id == '/', err, STATUS_BAD_FORMAT, "the item's id '%.80s' is an absolute path", id);
    for (const unsigned char *p = (const unsigned char *)id; *p; p++)
        FAIL_IF(*p < 0x20 || *p == 0x7f, err, STATUS_BAD_FORMAT, "the item's id holds a control character (0x%02x)",
                *p);
    for (const char *part = id; part != NULL;) {
        const char *slash = strchr(part, '/');
        size_t length = slash != NULL ? (size_t)(slash - part) : strlen(part);
        FAIL_IF(length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'),
                err, STATUS_BAD_FORMAT, "the item's id '%.80s' has an empty part, '.' or '..' in its path", id);
        part = slash != NULL ? slash + 1 : NULL;
    }
    return STATUS_OK;
}

bool item_is_source(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t length = strspn(text, letters);
    return length > 0 && length < ITEM_SOURCE_SIZE && *text != '-' && text[length] == '\0';
}

static enum status check_source(const json_t *root, struct err *err) {
    const json_t *node = json_object_get(root, "source"), *revision = json_object_get(root, "revision");
    const char *source = json_string_value(node), *id = json_string_value(json_object_get(root, "id"));
    FAIL_IF(node != NULL && (source == NULL || (*source != '\0' && !item_is_source(source))), err, STATUS_BAD_FORMAT,
            "the source '%.80s' of the item %.80s cannot name a stage: letters, digits, - and _ can",
            source != NULL ? source : "", id);
    FAIL_IF(revision != NULL && (!json_is_integer(revision) || json_integer_value(revision) < 0), err,
            STATUS_BAD_FORMAT, "the revision of the item %.80s is not a whole number from 0 on", id);
    return STATUS_OK;
}

static enum status check(const json_t *root, struct err *err) {
    FAIL_IF(!json_is_object(root), err, STATUS_BAD_FORMAT, "an item must be a JSON object");
    const json_t *version = json_object_get(root, "v");
    FAIL_IF(!json_is_integer(version) || json_integer_value(version) < 1, err, STATUS_BAD_FORMAT,
            "the item has no version 'v'");
    FAIL_IF(json_integer_value(version) > ITEM_VERSION, err, STATUS_UNSUPPORTED,
            "the item's version is %lld; this program reads up to %d", (long long)json_integer_value(version),
            ITEM_VERSION);
    TRY(check_id(json_string_value(json_object_get(root, "id")), err));
    TRY(check_source(root, err));
    const char *kind = json_string_value(json_object_get(root, "kind"));
    FAIL_IF(kind == NULL || *kind == '\0' || strlen(kind) > KIND_MAX, err, STATUS_BAD_FORMAT,
            "the item %.80s has no kind", json_string_value(json_object_get(root, "id")));
    return STATUS_OK;
}

/* Takes over root, even on failure. */
static enum status wrap(json_t *root, struct item **ret_item, struct err *err) {
    enum status status = check(root, err);
    struct item *item = status == STATUS_OK ? calloc(1, sizeof *item) : NULL;
    if (item == NULL) {
        json_decref(root);
        return status != STATUS_OK ? status
                                   : err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for an item");
    }
    item->root = root;
    *ret_item = item;
    return STATUS_OK;
}

enum status item_create(const char *id, const char *kind, struct item **ret_item, struct err *err) {
    TRY(check_id(id, err));
    json_t *root = json_pack("{s:i, s:s, s:s, s:f}", "v", (int)ITEM_VERSION, "id", id, "kind", kind != NULL ? kind : "",
                             "time", now());
    FAIL_IF(root == NULL, err, STATUS_BAD_ARGUMENT, "the id '%.80s' is not valid UTF-8", id);
    return wrap(root, ret_item, err);
}

enum status item_parse(const char *text, size_t length, struct item **ret_item, struct err *err) {
    FAIL_IF(length > ITEM_TEXT_MAX, err, STATUS_BAD_FORMAT, "an item of %zu bytes: more than %d are not allowed",
            length, ITEM_TEXT_MAX);
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(root == NULL, err, STATUS_BAD_FORMAT, "the item is not JSON: %s (byte %d)", error.text, error.position);
    return wrap(root, ret_item, err);
}

enum status item_from_json(const json_t *object, struct item **ret_item, struct err *err) {
    TRY(check(object, err));
    json_t *copy = json_deep_copy(object);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for an item");
    return wrap(copy, ret_item, err);
}

enum status item_adopt(json_t *object, struct item **ret_item, struct err *err) {
    return wrap(json_incref(object), ret_item, err);
}

enum status item_clone(const struct item *item, struct item **ret_item, struct err *err) {
    return item_from_json(item->root, ret_item, err);
}

void item_destroy(struct item **item) {
    if (*item == NULL) return;
    json_decref((*item)->root);
    mem_free(item);
}

const json_t *item_json(const struct item *item) {
    return item->root;
}

/* 15 digits reproduce every number as a person or a STAR file wrote it. */
static const size_t format = JSON_COMPACT | JSON_REAL_PRECISION(15);

size_t item_size(const struct item *item) {
    return json_dumpb(item->root, NULL, 0, format);
}

char *item_print(const struct item *item) {
    return json_dumps(item->root, format);
}

const char *item_id(const struct item *item) {
    return json_string_value(json_object_get(item->root, "id"));
}

const char *item_source(const struct item *item) {
    const char *source = json_string_value(json_object_get(item->root, "source"));
    return source != NULL ? source : "";
}

struct ledger_key item_key(const struct item *item) {
    return (struct ledger_key){item_source(item), item_id(item)};
}

bool item_keys_match(struct ledger_key a, struct ledger_key b) {
    bool sources = *a.source == '\0' || *b.source == '\0' || strcmp(a.source, b.source) == 0;
    return sources && strcmp(a.id, b.id) == 0;
}

void item_mark(struct ledger_key key, char mark[ITEM_MARK_SIZE]) {
    snprintf(mark, ITEM_MARK_SIZE, "%s%s%s", key.source, *key.source != '\0' ? "\t" : "", key.id);
}

struct ledger_key item_key_of_mark(char *mark) {
    char *tab = strchr(mark, '\t');
    if (tab == NULL) return (struct ledger_key){"", mark};
    *tab = '\0';
    return (struct ledger_key){mark, tab + 1};
}

int64_t item_revision(const struct item *item) {
    return json_integer_value(json_object_get(item->root, "revision"));
}

const char *item_kind(const struct item *item) {
    return json_string_value(json_object_get(item->root, "kind"));
}

/* Cuts the first part off a path; returns false when the part is empty or too long. */
static bool next_part(const char **path, char part[PATH_PART_MAX]) {
    size_t length = strcspn(*path, ".");
    if (length == 0 || length >= PATH_PART_MAX) return false;
    memcpy(part, *path, length);
    part[length] = '\0';
    *path += length;
    if (**path == '.') (*path)++;
    return true;
}

static json_t *find(const struct item *item, const char *path) {
    json_t *node = item->root;
    char part[PATH_PART_MAX];
    while (node != NULL && *path != '\0') {
        if (!next_part(&path, part)) return NULL;
        node = json_object_get(node, part);
    }
    return node;
}

bool item_has(const struct item *item, const char *path) {
    return find(item, path) != NULL;
}

const char *item_string(const struct item *item, const char *path) {
    return json_string_value(find(item, path));
}

double item_number(const struct item *item, const char *path, double fallback) {
    const json_t *node = find(item, path);
    return json_is_number(node) ? json_number_value(node) : fallback;
}

enum status item_need_string(const struct item *item, const char *path, const char **ret_value, struct err *err) {
    const char *value = item_string(item, path);
    FAIL_IF(value == NULL, err, STATUS_NOT_FOUND,
            "the item %.200s has no text '%s'; an earlier stage should have added it", item_id(item), path);
    *ret_value = value;
    return STATUS_OK;
}

enum status item_need_number(const struct item *item, const char *path, double *ret_value, struct err *err) {
    const json_t *node = find(item, path);
    FAIL_IF(!json_is_number(node), err, STATUS_NOT_FOUND,
            "the item %.200s has no number '%s'; an earlier stage should have added it", item_id(item), path);
    *ret_value = json_number_value(node);
    return STATUS_OK;
}

/* Takes over value, even on failure. */
static enum status set(struct item *item, const char *path, json_t *value, struct err *err) {
    json_t *node = item->root;
    const char *rest = path;
    char part[PATH_PART_MAX];
    while (next_part(&rest, part)) {
        if (*rest == '\0') {
            int failed = json_object_set_new(node, part, value);
            FAIL_IF(failed, err, STATUS_NO_MEMORY, "cannot set '%s' of the item %.200s", path, item_id(item));
            return STATUS_OK;
        }
        json_t *next = json_object_get(node, part);
        if (!json_is_object(next)) {
            next = json_object();
            if (json_object_set_new(node, part, next) != 0) break;
        }
        node = next;
    }
    json_decref(value);
    FAIL(err, STATUS_BAD_ARGUMENT, "'%s' is not the path of an item's member", path);
}

enum status item_set_string(struct item *item, const char *path, const char *value, struct err *err) {
    json_t *node = json_string(value);
    FAIL_IF(node == NULL, err, STATUS_BAD_ARGUMENT, "%s of the item %.200s: '%.80s' is not valid UTF-8", path,
            item_id(item), value != NULL ? value : "");
    return set(item, path, node, err);
}

enum status item_set_source(struct item *item, const char *source, struct err *err) {
    FAIL_IF(*source != '\0' && !item_is_source(source), err, STATUS_BAD_ARGUMENT,
            "'%.80s' cannot be the source of the item %.200s: letters, digits, - and _ can name a stage", source,
            item_id(item));
    return item_set_string(item, "source", source, err);
}

enum status item_set_revision(struct item *item, int64_t revision, struct err *err) {
    FAIL_IF(revision < 0, err, STATUS_BAD_ARGUMENT, "the revision of the item %.200s would be negative", item_id(item));
    return set(item, "revision", json_integer(revision), err);
}

enum status item_set_number(struct item *item, const char *path, double value, struct err *err) {
    FAIL_IF(!isfinite(value), err, STATUS_BAD_ARGUMENT, "%s of the item %.200s would be %f: not a number", path,
            item_id(item), value);
    bool whole = value == floor(value) && fabs(value) < 9e15;
    json_t *node = whole ? json_integer((json_int_t)value) : json_real(value);
    FAIL_IF(node == NULL, err, STATUS_NO_MEMORY, "no memory for %s of the item %.200s", path, item_id(item));
    return set(item, path, node, err);
}

bool item_text_fits(const char *text) {
    json_t *string = json_string(text);
    json_decref(string);
    return string != NULL;
}

enum status item_set_column(struct item *item, const char *name, double value, struct err *err) {
    bool fits = *name != '\0' && strlen(name) <= COLUMN_NAME_MAX && strchr(name, '.') == NULL;
    if (!fits || !item_text_fits(name) || json_object_size(json_object_get(item->root, "columns")) >= COLUMNS_MAX)
        return STATUS_OK;
    char path[COLUMN_NAME_MAX + 16];
    snprintf(path, sizeof path, "columns.%s", name);
    return item_set_number(item, path, value, err);
}
