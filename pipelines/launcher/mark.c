#include "pipelines/launcher/mark.h"

#include <string.h>
#include <unistd.h>

#include "pipelines/launcher/changes.h"

static json_t *text_or_null(const char *text) {
    return text != NULL ? json_string(text) : json_null();
}

static bool equal(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Adds an entry for an exposure whose mark changes. */
static enum status add_entry(const struct choices *known, struct ledger_key key, enum choice choice, const char *why,
                             json_t *entries, struct err *err) {
    const json_t *before = choices_mark(known, key);
    const char *old = json_string_value(json_object_get(before, "mark"));
    if (equal(old, choice_name(choice)) &&
        (why == NULL || choice == CHOICE_NONE || equal(why, json_string_value(json_object_get(before, "why")))))
        return STATUS_OK;
    json_t *entry = json_pack("{s:s, s:s, s:o, s:o}", "source", key.source, "id", key.id, "old", text_or_null(old),
                              "mark", text_or_null(choice_name(choice)));
    if (entry != NULL && why != NULL) json_object_set_new(entry, "why", json_string(why));
    FAIL_IF(entry == NULL || json_array_append_new(entries, entry) != 0, err, STATUS_NO_MEMORY,
            "no memory for marks of exposures");
    return STATUS_OK;
}

static enum status write_marks(const struct session *session, json_t *entries, const struct mark_author *author,
                               int *ret_number, struct err *err) {
    json_t *change = json_pack("{s:s, s:O}", "by", "mark", "marks", entries);
    if (change != NULL && author->peer != NULL) json_object_set_new(change, "peer", json_string(author->peer));
    FAIL_IF(change == NULL, err, STATUS_NO_MEMORY, "no memory for marks of exposures");
    enum status status = changes_write(session, change, ret_number, err);
    json_decref(change);
    return status;
}

/* Needs the lock. */
static enum status mark_held(const struct session *session, const struct ledger_key *keys, size_t count,
                             enum choice choice, const struct mark_author *author, struct mark_result *ret_result,
                             struct err *err) {
    struct mark_result result = {0};
    struct choices *known = NULL;
    json_t *entries = json_array();
    enum status status = STATUS_OK;
    if (entries == NULL) status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for marks");
    if (status == STATUS_OK) status = choices_create(session->path, NULL, &known, err);
    if (status == STATUS_OK) status = choices_poll(known, NULL, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = add_entry(known, keys[i], choice, author->why, entries, err);
    result.changed = json_array_size(entries);
    if (status == STATUS_OK && result.changed > 0) status = write_marks(session, entries, author, &result.number, err);
    choices_destroy(&known);
    json_decref(entries);
    if (status == STATUS_OK) *ret_result = result;
    return status;
}

enum status mark_items(const struct session *session, const struct ledger_key *keys, size_t count, enum choice choice,
                       const struct mark_author *author, struct mark_result *ret_result, struct err *err) {
    int lock;
    FAIL_IF(author->why != NULL && !item_text_fits(author->why), err, STATUS_BAD_ARGUMENT,
            "the reason is not valid UTF-8; write it in UTF-8");
    TRY(changes_hold(session, &lock, err));
    enum status status = mark_held(session, keys, count, choice, author, ret_result, err);
    close(lock);
    return status;
}

void mark_write_lost(const struct mark_result *result, FILE *out) {
    if (result->lost == 0) return;
    fprintf(out,
            "; a stage has rejected %zu of them, and a mark brings nothing back: set another rule, and redo the "
            "exposure%s",
            result->lost, result->lost == 1 ? "" : "s");
}
