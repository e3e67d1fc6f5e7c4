#include "common/harness/again.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/text.h"

enum { RECORD_MOST = 1 << 12, NUMBER_MOST = 1000000 };

bool again_spares(int spared, const char *id) {
    return spared > 0 && text_hash(id) % (uint64_t)spared == 0;
}

enum status again_write(const char *folder, const struct again *again, struct err *err) {
    char path[PATH_SIZE];
    json_t *record = json_pack("{s:i, s:i, s:s, s:i}", "v", 1, "number", again->number, "column", again->column,
                               "spared", again->spared);
    _cleanup_(mem_free) char *text = record != NULL ? json_dumps(record, 0) : NULL;
    json_decref(record);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory to ask for items again");
    TRY(path_join(folder, AGAIN_RECORD, path, sizeof path, err));
    return file_write_whole(path, text, strlen(text), err);
}

/* A column is part of a path of SQLite's JSON. */
static bool is_column(const char *name) {
    static const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t length = strlen(name);
    return length > 0 && length < AGAIN_COLUMN && strspn(name, letters) == length;
}

static bool take(json_t *record, struct again *ret_again) {
    const char *column = NULL;
    int number = 0, spared = 0; /* records of earlier versions spare none */
    if (json_unpack(record, "{s:i, s:s, s?i}", "number", &number, "column", &column, "spared", &spared) != 0)
        return false;
    if (number < 1 || number > NUMBER_MOST || !is_column(column) || spared < 0) return false;
    ret_again->spared = spared;
    ret_again->number = number;
    snprintf(ret_again->column, sizeof ret_again->column, "%s", column);
    return true;
}

enum status again_read(const char *folder, struct again *ret_again, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    TRY(path_join(folder, AGAIN_RECORD, path, sizeof path, err));
    TRY(file_read_whole(path, RECORD_MOST, &text, NULL, err));
    json_t *record = json_loads(text, 0, NULL);
    bool good = take(record, ret_again);
    json_decref(record);
    FAIL_IF(!good, err, STATUS_BAD_FORMAT, "%s: a number from 1 on and the name of a column were expected", path);
    return STATUS_OK;
}
