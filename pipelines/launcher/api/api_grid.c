/* /api/grid: the squares of the grid by the names that EPU and SerialEM give, with what was found in each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"
#include "pipelines/launcher/numbers.h"

/* Rows in the order of squares and holes. */
struct place {
    int square;
    const char *hole;
    size_t row;
};

static int by_square(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->square != y->square) return x->square < y->square ? -1 : 1;
    int order = strcmp(x->hole, y->hole);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

/* The columns whose medians a square has. */
static const char *const shown[] = {"res", "picks", "ice", "motion", "defocus", "astig"};

static void put_medians(struct serve *serve, const struct place *places, size_t count, double *buffer,
                        struct api_text *text) {
    api_text_add(text, ",\"medians\":{");
    for (size_t column = 0; column < api_column_count(serve->view); column++) {
        const char *key = api_column_key(serve->view, column);
        bool wanted = false;
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
            wanted = wanted || strcmp(key, shown[i]) == 0;
        if (!wanted) continue;
        size_t known = 0;
        for (size_t i = 0; i < count; i++) {
            double value = api_column_value(serve->view, places[i].row, column);
            if (isfinite(value)) buffer[known++] = value;
        }
        api_text_comma(text);
        api_text_string(text, key);
        api_text_add(text, ":");
        numbers_sort(buffer, known);
        api_text_number(text, numbers_quantile(buffer, known, 0.5), 6);
    }
    api_text_add(text, "}");
}

/* Puts the mean place of exposures (µm); null: it is not known. */
static void put_place(struct serve *serve, const struct place *places, size_t count, struct api_text *text) {
    static const char *const names[] = {"movie.stage_x", "movie.stage_y"};
    for (int axis = 0; axis < 2; axis++) {
        int column = view_column_find(serve->view, names[axis]);
        size_t known = 0;
        double sum = 0;
        for (size_t i = 0; column >= 0 && i < count; i++) {
            double value = view_value(serve->view, places[i].row, (size_t)column);
            if (!isfinite(value)) continue;
            sum += value;
            known++;
        }
        api_text_add(text, axis == 0 ? ",\"x\":" : ",\"y\":");
        api_text_number(text, known > 0 ? sum / (double)known : NAN, 7);
    }
}

static void put_holes(struct serve *serve, const struct place *places, size_t count, struct api_text *text) {
    api_text_add(text, ",\"holes\":[");
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && strcmp(places[end].hole, places[i].hole) == 0;)
            end++;
        api_text_comma(text);
        api_text_add(text, "{\"name\":");
        api_text_string(text, places[i].hole);
        put_place(serve, places + i, end - i, text);
        api_text_add(text, ",\"n\":[");
        for (size_t k = i; k < end; k++) {
            api_text_comma(text);
            api_text_integer(text, view_row(serve->view, places[k].row)->number);
        }
        api_text_add(text, "]}");
    }
    api_text_add(text, "]");
}

static void put_square(struct serve *serve, const struct place *places, size_t count, double *buffer,
                       struct api_text *text) {
    int64_t states[4] = {0};
    for (size_t i = 0; i < count; i++) {
        int state = view_row(serve->view, places[i].row)->state;
        if (state >= 0 && state < 4) states[state]++;
    }
    api_text_comma(text);
    api_text_add(text, "{\"name\":");
    api_text_string(text, view_square(serve->view, (size_t)places->square));
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {{",\"count\":", (int64_t)count},
                  {",\"done\":", states[LEDGER_DONE]},
                  {",\"rejected\":", states[LEDGER_REJECTED]},
                  {",\"failed\":", states[LEDGER_FAILED]},
                  {",\"in_flight\":", states[LEDGER_IN_FLIGHT]}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        api_text_add(text, counts[i].key);
        api_text_integer(text, counts[i].value);
    }
    put_medians(serve, places, count, buffer, text);
    put_place(serve, places, count, text);
    put_holes(serve, places, count, text);
    api_text_add(text, "}");
}

enum status api_grid(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                     struct err *err) {
    (void)request;
    const size_t rows = view_row_count(serve->view);
    _cleanup_(mem_free) struct place *places = NULL;
    _cleanup_(mem_free) double *buffer = NULL;
    TRY(mem_new(rows + 1, sizeof *places, "the squares of the grid", &places, err));
    TRY(mem_new(rows + 1, sizeof *buffer, "the squares of the grid", &buffer, err));
    size_t count = 0;
    for (size_t i = 0; i < rows; i++) {
        const struct view_row *row = view_row(serve->view, i);
        if (row->square >= 0) places[count++] = (struct place){row->square, row->hole, i};
    }
    qsort(places, count, sizeof *places, by_square);
    struct api_text text = {0};
    api_text_add(&text, "{\"v\":1,\"squares\":[");
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && places[end].square == places[i].square;)
            end++;
        put_square(serve, places + i, end - i, buffer, &text);
    }
    api_text_add(&text, "]}");
    if (text.failed) free(text.bytes);
    FAIL_IF(text.failed, err, STATUS_NO_MEMORY, "no memory for the squares of the grid");
    http_answer_bytes(answer, "application/json", text.bytes, text.length);
    return STATUS_OK;
}
