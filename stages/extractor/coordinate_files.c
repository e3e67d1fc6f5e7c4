#include "stages/extractor/coordinate_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"

enum { TEXT_MOST = 1 << 30, WORDS = 16 };

/* A line of text, split into words; the words point into the text. */
struct line {
    const char *path;
    size_t number;
    char *words[WORDS];
    int count;
};

static void split(char *text, struct line *line) {
    line->count = 0;
    for (char *rest = NULL, *word = strtok_r(text, " \t\r,", &rest); word != NULL && line->count < WORDS;
         word = strtok_r(NULL, " \t\r,", &rest))
        line->words[line->count++] = word;
}

static enum status number_at(const struct line *line, int index, const char *what, double *ret_value, struct err *err) {
    const char *word = index < line->count ? line->words[index] : "";
    char *end;
    double value = strtod(word, &end);
    FAIL_IF(end == word || *end != '\0' || !isfinite(value), err, STATUS_BAD_FORMAT,
            "%s: line %zu: \"%s\" is not a number: %s is expected in column %d", line->path, line->number, word, what,
            index + 1);
    *ret_value = value;
    return STATUS_OK;
}

/* The columns of a text. box: x and y are the corner, and width and height follow. */
struct layout {
    int x, y, name, score; /* −1: none */
    bool box;
};

static enum status add_row(const struct line *line, const struct layout *layout, struct star_table *table,
                           struct err *err) {
    double x = 0, y = 0, width = 0, height = 0, score = 0;
    TRY(number_at(line, layout->x, "x", &x, err));
    TRY(number_at(line, layout->y, "y", &y, err));
    if (layout->box) TRY(number_at(line, layout->x + 2, "the width of the box", &width, err));
    if (layout->box) TRY(number_at(line, layout->x + 3, "the height of the box", &height, err));
    bool scored = layout->score >= 0, named = layout->name >= 0;
    if (scored) TRY(number_at(line, layout->score, "the score", &score, err));
    FAIL_IF(named && layout->name >= line->count, err, STATUS_BAD_FORMAT,
            "%s: line %zu: the name of the image is missing", line->path, line->number);
    const struct star_cell cells[] = {
        {.column = "rlnCoordinateX", .value = x + width / 2},
        {.column = "rlnCoordinateY", .value = y + height / 2},
        {.column = "rlnAutopickFigureOfMerit", .value = score, .unless = !scored},
        {.column = "rlnMicrographName", .text = named ? line->words[layout->name] : "", .unless = !named},
    };
    return star_cells_row(table, cells, sizeof cells / sizeof *cells, err);
}

/* Finds the columns that a header of Topaz names. */
static enum status read_header(const struct line *line, struct layout *layout, struct err *err) {
    *layout = (struct layout){-1, -1, -1, -1, false};
    for (int i = 0; i < line->count; i++) {
        const char *word = line->words[i];
        if (strcmp(word, "x_coord") == 0) layout->x = i;
        if (strcmp(word, "y_coord") == 0) layout->y = i;
        if (strcmp(word, "image_name") == 0) layout->name = i;
        if (strcmp(word, "score") == 0) layout->score = i;
    }
    FAIL_IF(layout->x < 0 || layout->y < 0, err, STATUS_BAD_FORMAT,
            "%s: line %zu: a header with x_coord and y_coord is expected, as Topaz writes it", line->path,
            line->number);
    return STATUS_OK;
}

static enum status read_lines(const char *path, char *text, struct layout layout, struct star_table *table,
                              struct err *err) {
    struct line line = {.path = path};
    bool header = layout.x < 0;
    for (char *rest = text, *at; (at = strsep(&rest, "\n")) != NULL;) {
        line.number++;
        split(at, &line);
        if (line.count == 0 || line.words[0][0] == '#') continue;
        if (header)
            TRY(read_header(&line, &layout, err));
        else
            TRY(add_row(&line, &layout, table, err));
        header = false;
    }
    return STATUS_OK;
}

static enum status read_text(const char *path, struct layout layout, struct star_file **ret_file,
                             struct star_table **ret_table, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    TRY(file_read_whole(path, TEXT_MOST, &text, NULL, err));
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "", true, &table, err));
    TRY(read_lines(path, text, layout, table, err));
    *ret_table = star_row_count(table) > 0 ? table : NULL;
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

static enum status read_star(const char *path, struct star_file **ret_file, struct star_table **ret_table,
                             struct err *err) {
    struct star_file *file = NULL;
    TRY(star_read(path, &file, err));
    *ret_file = file;
    *ret_table = NULL;
    bool empty = true;
    for (size_t i = 0; i < star_table_count(file) && *ret_table == NULL; i++) {
        struct star_table *table = star_table_at(file, i);
        empty = empty && (star_row_count(table) == 0 || star_column_count(table) == 0);
        if (star_column_find(table, "rlnCoordinateX") >= 0 || star_column_find(table, "rlnMicrographCoordinates") >= 0)
            *ret_table = table;
    }
    if (*ret_table != NULL || empty) return STATUS_OK; /* a picker that found nothing may write no columns */
    star_destroy(ret_file);
    FAIL(err, STATUS_BAD_FORMAT,
         "%s: no table has rlnCoordinateX and rlnCoordinateY, or rlnMicrographCoordinates with the names of files of "
         "coordinates",
         path);
}

/* Reads crYOLO's boxes from its STAR file. */
static enum status read_cbox(const char *path, struct star_file **ret_file, struct star_table **ret_table,
                             struct err *err) {
    _cleanup_(star_destroy) struct star_file *from = NULL, *file = NULL;
    struct star_table *table, *boxes = NULL;
    TRY(star_read(path, &from, err));
    for (size_t i = 0; i < star_table_count(from) && boxes == NULL; i++)
        if (star_column_find(star_table_at(from, i), "CoordinateX") >= 0) boxes = star_table_at(from, i);
    FAIL_IF(boxes == NULL, err, STATUS_BAD_FORMAT, "%s: no table has CoordinateX, CoordinateY, Width and Height", path);
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "", true, &table, err));
    bool scored = star_column_find(boxes, "Confidence") >= 0;
    for (size_t row = 0; row < star_row_count(boxes); row++) {
        double x, y, width, height, score = 0;
        TRY(star_need_number(boxes, row, "CoordinateX", -1e9, 1e9, &x, err));
        TRY(star_need_number(boxes, row, "CoordinateY", -1e9, 1e9, &y, err));
        TRY(star_need_number(boxes, row, "Width", 0, 1e9, &width, err));
        TRY(star_need_number(boxes, row, "Height", 0, 1e9, &height, err));
        if (scored) TRY(star_need_number(boxes, row, "Confidence", -1e9, 1e9, &score, err));
        const struct star_cell cells[] = {
            {.column = "rlnCoordinateX", .value = x + width / 2},
            {.column = "rlnCoordinateY", .value = y + height / 2},
            {.column = "rlnAutopickFigureOfMerit", .value = score, .unless = !scored},
        };
        TRY(star_cells_row(table, cells, sizeof cells / sizeof *cells, err));
    }
    *ret_table = star_row_count(table) > 0 ? table : NULL;
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

/* Returns whether a file begins as a STAR file does: crYOLO's first boxes were lines of numbers. */
static bool is_star(const char *path) {
    char head[2048] = "";
    FILE *in = fopen(path, "re");
    size_t length = in != NULL ? fread(head, 1, sizeof head - 1, in) : 0;
    if (in != NULL) (void)fclose(in);
    head[length] = '\0';
    return strstr(head, "data_") != NULL;
}

enum status coordinate_file_read(const char *path, struct star_file **ret_file, struct star_table **ret_table,
                                 struct err *err) {
    static const struct layout BOX = {0, 1, -1, -1, true}, CBOX = {0, 1, -1, 4, true}, TOPAZ = {-1, -1, -1, -1, false};
    const char *dot = strrchr(path_name(path), '.');
    if (dot != NULL && strcasecmp(dot, ".star") == 0) return read_star(path, ret_file, ret_table, err);
    if (dot != NULL && strcasecmp(dot, ".box") == 0) return read_text(path, BOX, ret_file, ret_table, err);
    if (dot != NULL && strcasecmp(dot, ".txt") == 0) return read_text(path, TOPAZ, ret_file, ret_table, err);
    if (dot != NULL && strcasecmp(dot, ".cbox") == 0)
        return is_star(path) ? read_cbox(path, ret_file, ret_table, err)
                             : read_text(path, CBOX, ret_file, ret_table, err);
    FAIL(err, STATUS_BAD_FORMAT,
         "%s: coordinates are expected in a file that ends in .star (RELION), .box (EMAN), .cbox (crYOLO) or .txt "
         "(Topaz)",
         path);
}
