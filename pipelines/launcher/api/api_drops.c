/* /api/drops: photographs of drops with their outcomes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/csv.h"
#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"

enum { SCORES_MAX = 256 << 20 };

/* Finds the row of an image: its id is the path below the source's folder, without the ending. */
static int64_t find_row(struct serve *serve, const char *image) {
    const json_t *stage;
    const char *name, *rest;
    char id[PATH_SIZE];
    json_t *stages = json_object_get(view_graph(serve->view), "stages");
    json_object_foreach(stages, name, stage) {
        const char *folder = json_string_value(json_object_get(stage, "directory"));
        if (folder == NULL || !path_is_below(image, folder, &rest) || strlen(rest) >= sizeof id) continue;
        int64_t row =
            path_without_ending(rest, id, sizeof id, NULL) == STATUS_OK ? view_find_item(serve->view, name, id) : -1;
        if (row >= 0) return row;
    }
    return -1;
}

static void read_outcomes(struct serve *serve, const struct csv *csv, int *outcomes) {
    for (size_t i = 1; i < csv->count; i++) {
        const struct csv_row *line = &csv->rows[i];
        int64_t row = line->count >= 2 ? find_row(serve, line->cells[0]) : -1;
        /* The heading names all outcomes, from the third column on. */
        for (int k = 2; row >= 0 && k < csv->rows[0].count; k++)
            if (strcmp(csv->rows[0].cells[k], line->cells[1]) == 0) outcomes[row] = k - 2;
    }
}

static void put(struct serve *serve, const char *stage, const struct csv *csv, const int *outcomes,
                struct api_text *text) {
    const size_t rows = view_row_count(serve->view);
    const int column = view_column_find(serve->view, "score.crystal");
    api_text_add(text, "{\"v\":1,\"stage\":");
    api_text_string(text, stage);
    api_text_add(text, ",\"outcomes\":[");
    for (int k = 2; csv->count > 0 && k < csv->rows[0].count; k++) {
        api_text_comma(text);
        api_text_string(text, csv->rows[0].cells[k]);
    }
    api_text_add(text, "],\"n\":[");
    for (size_t i = 0; i < rows; i++) {
        api_text_comma(text);
        api_text_integer(text, view_row(serve->view, i)->number);
    }
    api_text_add(text, "],\"name\":[");
    for (size_t i = 0; i < rows; i++) {
        api_text_comma(text);
        api_text_string(text, view_row(serve->view, i)->name);
    }
    api_text_add(text, "],\"outcome\":[");
    for (size_t i = 0; i < rows; i++) {
        api_text_comma(text);
        api_text_integer(text, outcomes[i]);
    }
    api_text_add(text, "],\"score\":[");
    for (size_t i = 0; i < rows; i++) {
        api_text_comma(text);
        api_text_number(text, column >= 0 ? view_value(serve->view, i, (size_t)column) : NAN, 5);
    }
    api_text_add(text, "]}");
}

enum status api_drops(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                      struct err *err) {
    const char *stage;
    char path[PATH_SIZE];
    struct csv csv = {0};
    struct api_text text = {0};
    _cleanup_(mem_free) int *outcomes = NULL;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(api_stage_of_kind(serve, request, "crystal-scorer", &stage, err));
    const size_t rows = view_row_count(serve->view);
    TRY(mem_new(rows + 1, sizeof *outcomes, "the outcomes of drops", &outcomes, err));
    for (size_t i = 0; i < rows; i++)
        outcomes[i] = -1;
    snprintf(path, sizeof path, "%s/scores.csv", stage);
    if (api_open(serve, path, &file, NULL) == STATUS_OK && file.size <= SCORES_MAX) TRY(csv_read(file.path, &csv, err));
    read_outcomes(serve, &csv, outcomes);
    put(serve, stage, &csv, outcomes, &text);
    csv_clear(&csv);
    if (text.failed) free(text.bytes);
    FAIL_IF(text.failed, err, STATUS_NO_MEMORY, "no memory for the list of drops");
    http_answer_bytes(answer, "application/json", text.bytes, text.length);
    return STATUS_OK;
}
