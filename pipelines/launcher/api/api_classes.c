/* /api/classes and /pic/classes/NNN.png: the class averages of a snapshot. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/formats/picture_encode.h"
#include "common/memory.h"
#include "pipelines/launcher/api/api_maps.h"
#include "pipelines/launcher/api/shrink.h"

enum { CELL_MAX = 128, MODEL_MAX = 16 << 20, CLASSES_MAX = 2000 };

/* Cells of a sprite: `across` in each row, each `cell` px wide. */
struct sheet {
    int box, classes, cell, across;
};

static struct sheet sheet_of(const struct mrc_header *header) {
    int classes = header->nz, across = (int)ceil(sqrt((double)classes));
    int cell = header->nx > CELL_MAX && header->nx % 2 == 0 ? CELL_MAX : header->nx;
    return (struct sheet){header->nx, classes, cell, across > 0 ? across : 1};
}

static enum status check(const struct mrc_header *header, const char *path, struct err *err) {
    FAIL_IF(header->nx != header->ny || header->nx > 4096 || header->nz > CLASSES_MAX, err, STATUS_UNSUPPORTED,
            "%s: %d × %d × %d px are no class averages", path, header->nx, header->ny, header->nz);
    return STATUS_OK;
}

static enum status draw_cell(const struct sheet *sheet, struct shrink_lines *lines, float *image, float *rows,
                             uint8_t *grey) {
    const size_t box = (size_t)sheet->box, cell = (size_t)sheet->cell;
    if (lines != NULL) {
        for (size_t y = 0; y < box; y++)
            shrink_line(lines, image + y * box, 1, rows + y * cell, 1);
        for (size_t x = 0; x < cell; x++)
            shrink_line(lines, rows + x, cell, image + x, cell);
    }
    shrink_grey_span(image, cell * cell, 0.002, grey);
    return STATUS_OK;
}

/* Draws all cells. Each is scaled by itself: averages of few particles are faint. */
static enum status draw_sheet(struct mrc_reader *reader, const struct sheet *sheet, uint8_t *pixels, struct err *err) {
    const size_t box = (size_t)sheet->box, cell = (size_t)sheet->cell, width = cell * (size_t)sheet->across;
    _cleanup_(mem_free) float *image = NULL;
    _cleanup_(mem_free) float *rows = NULL;
    _cleanup_(mem_free) uint8_t *grey = NULL;
    _cleanup_(shrink_lines_destroy) struct shrink_lines *lines = NULL;
    TRY(mem_new(box * box, sizeof *image, "a class average", &image, err));
    TRY(mem_new(box * cell, sizeof *rows, "a class average", &rows, err));
    TRY(mem_new(cell * cell, sizeof *grey, "a class average", &grey, err));
    if (cell < box) TRY(shrink_lines_create(sheet->box, sheet->cell, &lines, err));
    for (int k = 0; k < sheet->classes; k++) {
        TRY(mrc_read_slices(reader, k, 1, image, err));
        TRY(draw_cell(sheet, lines, image, rows, grey));
        uint8_t *corner = pixels + (size_t)(k / sheet->across) * cell * width + (size_t)(k % sheet->across) * cell;
        for (size_t y = 0; y < cell; y++)
            memcpy(corner + y * width, grey + y * cell, cell);
    }
    return STATUS_OK;
}

static enum status make_sprite(const char *path, const struct api_file *file, const char *key, struct api_kept *kept,
                               struct err *err) {
    struct mrc_reader *reader = NULL;
    _cleanup_(mem_free) uint8_t *pixels = NULL;
    unsigned char *bytes = NULL;
    size_t length = 0;
    TRY(mrc_open(file->path, &reader, err));
    enum status status = check(mrc_reader_header(reader), path, err);
    const struct sheet sheet = sheet_of(mrc_reader_header(reader));
    const int width = sheet.cell * sheet.across;
    const int height = sheet.cell * ((sheet.classes + sheet.across - 1) / sheet.across);
    if (status == STATUS_OK) status = mem_new((size_t)width * (size_t)height, 1, "a sheet of classes", &pixels, err);
    if (status == STATUS_OK) status = draw_sheet(reader, &sheet, pixels, err);
    mrc_close(&reader);
    if (status == STATUS_OK) status = picture_encode_png(width, height, pixels, &bytes, &length, err);
    if (status == STATUS_OK) api_kept_put(kept, key, bytes, length);
    return status;
}

enum status api_sprite(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                       struct err *err) {
    const char *stage;
    char number[16], path[PATH_SIZE], key[160];
    int64_t iteration;
    struct api_product product;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    size_t length = strlen(request->words[0]);
    FAIL_IF(length < 5 || length > 15 || strcmp(request->words[0] + length - 4, ".png") != 0, err, STATUS_NOT_FOUND,
            "there is no sheet of classes '%.40s': NNN.png, with the number of the iteration", request->words[0]);
    snprintf(number, sizeof number, "%.*s", (int)length - 4, request->words[0]);
    TRY(http_number(number, 0, 1000000, &iteration, err));
    TRY(api_stage_of_kind(serve, request, "classifier", &stage, err));
    TRY(api_product_find(serve, stage, iteration, "_classes.mrcs", &product, err));
    api_product_path(&product, "_classes.mrcs", path);
    TRY(api_open(serve, path, &file, err));
    api_kept_key(&file, path, 0, key);
    struct api_kept *kept = api_kept_find(serve->api->sprites, API_SPRITES, key, serve->requests);
    if (strcmp(kept->key, key) != 0) {
        enum status status = make_sprite(path, &file, key, kept, err);
        if (status != STATUS_OK) return err_context(err, status, "%s", path);
    }
    answer->cache = http_query(request, "h") != NULL ? HTTP_IMMUTABLE : HTTP_NO_STORE;
    return api_kept_answer(kept, "image/png", answer, err);
}

/* ---- What is said of each class ---- */

static json_t *number_json(const struct star_table *table, size_t row, const char *name) {
    double value;
    int column = star_column_find(table, name);
    bool good = column >= 0 && star_get_number(table, row, column, &value, NULL) == STATUS_OK && isfinite(value);
    return good ? json_real(value) : json_null();
}

static json_t *integer_json(const struct star_table *table, size_t row, const char *name) {
    long value;
    int column = star_column_find(table, name);
    bool good = column >= 0 && star_get_integer(table, row, column, &value, NULL) == STATUS_OK;
    return good ? json_integer(value) : json_null();
}

/* Returns what a person chose for each class of a snapshot, class by class: "keep", "reject" or null. The last choice
 * counts. */
static json_t *hands_json(struct serve *serve, const char *stage, int64_t iteration, size_t count) {
    json_t *hands = json_array(), *changes = NULL;
    const json_t *change, *entry, *class;
    size_t i, k, m;
    for (i = 0; i < count; i++)
        json_array_append_new(hands, json_null());
    if (view_changes(serve->view, &changes, NULL) != STATUS_OK) return hands;
    json_array_foreach(changes, i, change) {
        for (k = 0; json_is_true(json_object_get(change, "whole")) && k < count; k++)
            json_array_set_new(hands, k, json_null());
        json_array_foreach(json_object_get(change, "choices"), k, entry) {
            const char *of = json_string_value(json_object_get(entry, "stage"));
            const json_t *classes = json_object_get(entry, "classes");
            json_t *chosen = json_object_get(entry, "choice");
            if (of == NULL || strcmp(of, stage) != 0) continue;
            if (json_integer_value(json_object_get(entry, "iteration")) != iteration) continue;
            for (m = 0; json_array_size(classes) == 0 && json_is_null(chosen) && m < count; m++)
                json_array_set(hands, m, chosen);
            json_array_foreach(classes, m, class) {
                json_int_t number = json_integer_value(class);
                if (number >= 1 && number <= (json_int_t)count) json_array_set(hands, (size_t)number - 1, chosen);
            }
        }
    }
    json_decref(changes);
    return hands;
}

static json_t *classes_json(const struct star_table *table, const json_t *hands) {
    json_t *classes = json_array();
    for (size_t i = 0; i < star_row_count(table); i++) {
        long kept = 0;
        int column = star_column_find(table, "icestreamKept");
        bool told = column >= 0 && star_get_integer(table, i, column, &kept, NULL) == STATUS_OK;
        json_array_append_new(classes,
                              json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:O?}", "number", (json_int_t)i + 1, "members",
                                        integer_json(table, i, "icestreamMembers"), "share",
                                        number_json(table, i, "rlnClassDistribution"), "resolution",
                                        number_json(table, i, "rlnEstimatedResolution"), "quality",
                                        number_json(table, i, "icestreamQuality"), "kept",
                                        told ? json_boolean(kept) : json_null(), "hand", json_array_get(hands, i)));
    }
    return classes;
}

/* Returns the iterations whose files are still there, oldest first. */
static json_t *iterations_json(struct serve *serve, const char *stage) {
    json_t *list = json_array();
    const json_t *history = view_history(serve->view, stage);
    for (size_t i = 0; i < json_array_size(history); i++) {
        struct api_product product;
        struct api_file file;
        char path[PATH_SIZE];
        int64_t iteration = json_integer_value(json_object_get(json_array_get(history, i), "iteration"));
        if (api_product_find(serve, stage, iteration, "_classes.mrcs", &product, NULL) != STATUS_OK) continue;
        api_product_path(&product, "_classes.mrcs", path);
        if (api_open(serve, path, &file, NULL) != STATUS_OK) continue;
        api_close(&file);
        json_array_append_new(list, json_integer(iteration));
    }
    return list;
}

static const json_t *line_of(struct serve *serve, const char *stage, int64_t iteration) {
    const json_t *history = view_history(serve->view, stage);
    for (size_t i = json_array_size(history); i > 0; i--)
        if (json_integer_value(json_object_get(json_array_get(history, i - 1), "iteration")) == iteration)
            return json_array_get(history, i - 1);
    return NULL;
}

enum status api_classes(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                        struct err *err) {
    const char *stage;
    char path[PATH_SIZE];
    int64_t iteration;
    struct api_product product;
    struct mrc_header header;
    struct star_file *star = NULL;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(http_query_number(request, "it", 0, 1000000, -1, &iteration, err));
    TRY(api_stage_of_kind(serve, request, "classifier", &stage, err));
    TRY(api_product_find(serve, stage, iteration, "_classes.mrcs", &product, err));
    api_product_path(&product, "_classes.mrcs", path);
    TRY(api_open(serve, path, &file, err));
    TRY(mrc_read_header(file.path, &header, err));
    TRY(check(&header, path, err));
    api_product_path(&product, "_model.star", path);
    TRY(api_read_star(serve, path, MODEL_MAX, &star, err));
    const struct star_table *table = star_table_find(star, "model_classes");
    const struct sheet sheet = sheet_of(&header);
    const json_t *line = line_of(serve, stage, product.iteration);
    json_t *hands = hands_json(serve, stage, product.iteration, table != NULL ? star_row_count(table) : 0);
    json_t *json =
        json_pack("{s:i, s:s, s:I, s:o, s:b, s:i, s:i, s:i, s:f, s:O?, s:O?, s:O?, s:o}", "v", 1, "stage", stage,
                  "iteration", (json_int_t)product.iteration, "iterations", iterations_json(serve, stage), "final",
                  product.final, "cell", sheet.cell, "across", sheet.across, "count", sheet.classes, "pixel",
                  (double)header.pixel_size * sheet.box / sheet.cell, "time", json_object_get(line, "time"),
                  "particles", json_object_get(line, "particles"), "kept", json_object_get(line, "kept"), "classes",
                  table != NULL ? classes_json(table, hands) : json_array());
    json_decref(hands);
    star_destroy(&star);
    return http_answer_json(answer, json, err);
}
