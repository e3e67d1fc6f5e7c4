/* Images that a table with commas names, a line each: labels, or the scores of another run. */
#include <string.h>
#include <strings.h>

#include "common/csv.h"
#include "common/stage_private.h"

static bool is_heading(const char *cell) {
    return strcasecmp(cell, "path") == 0 || strcasecmp(cell, "image") == 0;
}

/* Products are named after images without their endings. */
static enum status check_name(const struct stage *stage, const char *path, const struct csv_row *row, const char *image,
                              const struct item_list *list, struct err *err) {
    char id[PATH_SIZE], text[PATH_SIZE];
    TRY(stage_files_id(row->cells[0], id, err));
    const struct item *before = item_list_find(list, id);
    if (before == NULL) return STATUS_OK;
    TRY(stage_files_path(stage, image, "", text, err));
    const char *other = item_string(before, "micrograph.path");
    FAIL_IF(other == NULL || strcmp(other, text) != 0, err, STATUS_BAD_FORMAT,
            "%s: line %d: %s and %s differ in their endings alone, and would give files of the same name: rename one",
            path, row->line, row->cells[0], other != NULL ? other : "another");
    return STATUS_OK;
}

static enum status add_rows(const struct stage *stage, const char *path, const struct csv *csv, struct item_list *list,
                            struct err *err) {
    char folder[PATH_SIZE], image[PATH_SIZE];
    size_t first = csv->count > 0 && is_heading(csv->rows[0].cells[0]);
    FAIL_IF(csv->count == first, err, STATUS_NOT_FOUND, "%s: names no image: lines of path,… are expected", path);
    TRY(path_folder(path, folder, sizeof folder, err));
    for (size_t i = first; i < csv->count; i++) {
        const char *name = csv->rows[i].cells[0];
        FAIL_IF(name[0] == '\0', err, STATUS_BAD_FORMAT, "%s: line %d: the path of an image is expected", path,
                csv->rows[i].line);
        TRY(path_join(folder, name, image, sizeof image, err));
        FAIL_IF(!file_exists(image) && strchr(name, ';') != NULL, err, STATUS_BAD_FORMAT,
                "%s: line %d: cells end with a comma, not a semicolon: save the table with commas", path,
                csv->rows[i].line);
        FAIL_IF(!file_exists(image), err, STATUS_NOT_FOUND,
                "%s: line %d: there is no file %s (paths count from the table's folder)", path, csv->rows[i].line, image);
        TRY(check_name(stage, path, &csv->rows[i], image, list, err));
        TRY(stage_files_image(stage, image, name, list, err));
    }
    return STATUS_OK;
}

enum status stage_files_list(const struct stage *stage, const char *path, struct item_list *list, struct err *err) {
    struct csv csv = {0};
    TRY(csv_read(path, &csv, err));
    enum status status = add_rows(stage, path, &csv, list, err);
    csv_clear(&csv);
    return status;
}
