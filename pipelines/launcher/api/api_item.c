/* /api/item/N, /api/ctf/N, /api/motion/N, /api/picks/N: one exposure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"

enum { LOG_TAIL = 1 << 20, LINES_MAX = 60, DATA_MAX = 4 << 20, STAR_MAX = 64 << 20 };

/* Returns whether a line names the item: the name stands there whole, and is not the beginning of a longer one. */
static bool names_it(const char *line, size_t length, const char *id) {
    size_t size = strlen(id);
    for (const char *at = line; (at = memmem(at, length - (size_t)(at - line), id, size)) != NULL; at++) {
        const char after = at + size < line + length ? at[size] : ' ';
        if (strchr(" :,.;)'\"\t", after) != NULL) return true;
    }
    return false;
}

/* Adds the lines of the end of an instance's log that name the item. */
static void add_lines(struct serve *serve, const char *instance, const char *id, json_t *lines) {
    char name[PATH_SIZE];
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    _cleanup_(mem_free) char *bytes = malloc(LOG_TAIL);
    snprintf(name, sizeof name, "log/%s.log", instance);
    if (bytes == NULL || api_open(serve, name, &file, NULL) != STATUS_OK) return;
    int64_t from = file.size > LOG_TAIL ? file.size - LOG_TAIL : 0;
    ssize_t got = pread(file.descriptor, bytes, LOG_TAIL, from);
    for (char *line = bytes, *end = bytes + (got > 0 ? got : 0), *stop; line < end; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL) stop = end;
        if (json_array_size(lines) >= LINES_MAX || !names_it(line, (size_t)(stop - line), id)) continue;
        _cleanup_(mem_free) char *clean = api_text_clean(line, (size_t)(stop - line));
        if (clean != NULL) json_array_append_new(lines, json_string(clean));
    }
}

static json_t *lines_of(struct serve *serve, const char *id) {
    json_t *lines = json_array();
    size_t i, k;
    const json_t *stage, *instance;
    if (id[0] == '\0') return lines;
    json_array_foreach(json_object_get(view_plan(serve->view), "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "instances"), k, instance) {
            const char *name = json_string_value(instance);
            if (name != NULL) add_lines(serve, name, id, lines);
        }
    }
    return lines;
}

enum status api_item(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                     struct err *err) {
    size_t row = 0;
    json_t *known = NULL;
    TRY(api_find_item(serve, request, 0, &row, &known, err));
    const struct view_row *about = view_row(serve->view, row);
    const struct choices *choices = serve->api != NULL ? serve->api->choices : NULL;
    const struct ledger_key key = {about->source, about->id};
    json_t *marked = choices != NULL ? (json_t *)(uintptr_t)choices_mark(choices, key) : NULL;
    json_t *json =
        json_pack("{s:i, s:I, s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:s, s:s, s:O?, s:O?, s:O?, s:O?, s:o}", "v", 1,
                  "n", (json_int_t)about->number, "id", json_value_text(about->id), "source",
                  json_value_text(about->source), "name", json_value_text(about->name), "state", about->state, "stage",
                  about->stage, "reason", json_value_text(about->reason), "found", json_value_number(about->time_found),
                  "changed", json_value_number(about->time_changed), "square",
                  about->square >= 0 ? view_square(serve->view, (size_t)about->square) : "", "hole", about->hole,
                  "mark", json_object_get(marked, "mark"), "marked", marked, "item", json_object_get(known, "item"),
                  "stages", json_object_get(known, "stages"), "log", lines_of(serve, about->id));
    json_decref(known);
    return http_answer_json(answer, json, err);
}

/* Answers with a small JSON file that the item's `display` names. */
static enum status answer_display(struct serve *serve, const struct http_request *request, const char *kind,
                                  struct http_answer *answer, struct err *err) {
    size_t row;
    json_t *known = NULL;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(api_find_item(serve, request, 0, &row, &known, err));
    const char *path = api_text_at(json_object_get(known, "item"), "display", kind);
    size_t length = path != NULL ? strlen(path) : 0;
    bool fits = length > 5 && strcmp(path + length - 5, ".json") == 0;
    enum status status = fits ? api_open(serve, path, &file, err) : STATUS_NOT_FOUND;
    json_decref(known);
    FAIL_IF(!fits, err, STATUS_NOT_FOUND, "exposure %s has no such data (yet)", request->words[0]);
    TRY(status);
    FAIL_IF(file.size > DATA_MAX, err, STATUS_UNSUPPORTED, "the data have %lld bytes, at most %d are sent",
            (long long)file.size, DATA_MAX);
    _cleanup_(mem_free) char *text = malloc((size_t)file.size + 1);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the data of an exposure");
    TRY(file_read_at(file.descriptor, kind, 0, text, (size_t)file.size, err));
    /* Parsed and written again, so that nothing but JSON leaves the server. */
    json_t *json = json_loadb(text, (size_t)file.size, 0, NULL);
    FAIL_IF(!json_is_object(json), err, STATUS_BAD_FORMAT, "the data of exposure %s are no JSON object",
            request->words[0]);
    json_object_set_new(json, "v", json_integer(1));
    return http_answer_json(answer, json, err);
}

enum status api_ctf(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                    struct err *err) {
    return api_or_nothing(answer_display(serve, request, "ctf", answer, err), request, answer, err);
}

enum status api_motion(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                       struct err *err) {
    return api_or_nothing(answer_display(serve, request, "motion", answer, err), request, answer, err);
}

static double number_at(const json_t *object, const char *member, const char *name) {
    const json_t *value = json_object_get(json_object_get(object, member), name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void put_column(const struct star_table *table, const char *column, const char *key, struct api_text *text) {
    int at = star_column_find(table, column);
    api_text_add(text, ",");
    api_text_string(text, key);
    api_text_add(text, ":[");
    for (size_t i = 0; at >= 0 && i < star_row_count(table); i++) {
        double value = NAN;
        api_text_comma(text);
        if (star_get_number(table, i, at, &value, NULL) != STATUS_OK) value = NAN;
        api_text_number(text, value, 6);
    }
    api_text_add(text, "]");
}

static enum status picks_of(struct serve *serve, const json_t *item, struct api_text *text, struct err *err) {
    const char *path = api_text_at(item, "picks", "star");
    struct star_file *star = NULL;
    FAIL_IF(path == NULL, err, STATUS_NOT_FOUND, "nothing was picked in this exposure (yet)");
    TRY(api_read_star(serve, path, STAR_MAX, &star, err));
    const struct star_table *table = NULL;
    for (size_t i = 0; i < star_table_count(star) && table == NULL; i++)
        if (star_column_find(star_table_at(star, i), "rlnCoordinateX") >= 0) table = star_table_at(star, i);
    double angstroms = number_at(item, "picks", "diameter"), pixel = number_at(item, "optics", "pixel_size");
    api_text_add(text, "{\"v\":1,\"nx\":");
    api_text_number(text, number_at(item, "micrograph", "nx"), 9);
    api_text_add(text, ",\"ny\":");
    api_text_number(text, number_at(item, "micrograph", "ny"), 9);
    api_text_add(text, ",\"diameter\":");
    api_text_number(text, angstroms / pixel, 6);
    api_text_add(text, ",\"angstroms\":");
    api_text_number(text, angstroms, 6);
    if (table != NULL) {
        put_column(table, "rlnCoordinateX", "x", text);
        put_column(table, "rlnCoordinateY", "y", text);
        put_column(table, "rlnAutopickFigureOfMerit", "score", text);
    } else {
        api_text_add(text, ",\"x\":[],\"y\":[],\"score\":[]");
    }
    api_text_add(text, "}");
    star_destroy(&star);
    return STATUS_OK;
}

enum status api_picks(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                      struct err *err) {
    size_t row;
    json_t *known = NULL;
    struct api_text text = {0};
    TRY(api_find_item(serve, request, 0, &row, &known, err));
    enum status status = picks_of(serve, json_object_get(known, "item"), &text, err);
    json_decref(known);
    if (status == STATUS_OK && text.failed)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the picks");
    if (status == STATUS_OK)
        http_answer_bytes(answer, "application/json", text.bytes, text.length);
    else
        free(text.bytes);
    return api_or_nothing(status, request, answer, err);
}
