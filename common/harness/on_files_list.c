/* Makes items from images that a table with commas names, one in each line: labels, or the scores of another run. */
#include <string.h>
#include <strings.h>

#include "common/formats/csv.h"
#include "common/formats/image_formats.h"
#include "common/harness/stage_private.h"

static bool is_heading(const char *cell) {
    return strcasecmp(cell, "path") == 0 || strcasecmp(cell, "image") == 0;
}

static bool is_picture(const char *path) {
    return image_path_fits(path, IMAGE_AS_PHOTOGRAPH);
}

enum status stage_files_namesake(const struct stage *stage, const struct item_list *list, const char *id,
                                 const char *path, bool *ret_preview, struct err *err) {
    const struct item *before = item_list_find(list, id);
    const char *other = before != NULL ? item_string(before, stage_files_member(stage)) : NULL;
    *ret_preview = false;
    if (other == NULL || strcmp(other, path) == 0) return STATUS_OK;
    /* As in the watcher: an image with a pixel size in Å is no picture. */
    if (!stage->descriptor->unscaled && is_picture(path) != is_picture(other)) {
        *ret_preview = is_picture(path);
        return STATUS_OK;
    }
    FAIL(err, STATUS_BAD_ARGUMENT,
         "%s and %s would give files of the same name (%s…): rename one, or give them to runs with an --o each", other,
         path, id);
}

static enum status check_file(const char *path, const struct csv_row *row, const char *image, struct err *err) {
    const char *name = row->cells[0];
    FAIL_IF(name[0] == '\0', err, STATUS_BAD_FORMAT, "%s: line %d: the path of an image is expected", path, row->line);
    FAIL_IF(file_is_folder(image), err, STATUS_BAD_FORMAT, "%s: line %d: %s is a folder, an image is expected", path,
            row->line, image);
    if (file_exists(image)) return STATUS_OK;
    const char *separator = strchr(name, ';') != NULL ? "semicolon" : strchr(name, '\t') != NULL ? "tab" : NULL;
    FAIL_IF(separator != NULL && row->count == 1, err, STATUS_BAD_FORMAT,
            "%s: line %d: cells end with a comma, not a %s: save the table with commas", path, row->line, separator);
    FAIL(err, STATUS_NOT_FOUND, "%s: line %d: there is no file %s (paths count from the table's folder%s)", path,
         row->line, image, row->line == 1 ? ", and headings begin with path or image" : "");
}

static enum status add_rows(const struct stage *stage, const char *path, const struct csv *csv, struct item_list *list,
                            struct err *err) {
    char folder[PATH_SIZE], image[PATH_SIZE];
    size_t first = csv->count > 0 && is_heading(csv->rows[0].cells[0]);
    FAIL_IF(csv->count == first, err, STATUS_NOT_FOUND, "%s: names no image: lines of path,… are expected", path);
    TRY(path_folder(path, folder, sizeof folder, err));
    for (size_t i = first; i < csv->count; i++) {
        const char *name = csv->rows[i].cells[0];
        TRY(path_join(folder, name, image, sizeof image, err));
        TRY(check_file(path, &csv->rows[i], image, err));
        enum status status = stage_files_image(stage, image, name, list, err);
        if (status != STATUS_OK) return err_context(err, status, "%s: line %d", path, csv->rows[i].line);
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
