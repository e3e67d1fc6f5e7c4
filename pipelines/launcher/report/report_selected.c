/* Counts the selected particles of each exposure. */
#include <stdlib.h>
#include <string.h>

#include "common/formats/star.h"
#include "pipelines/launcher/report/report_private.h"

enum { SELECTION_MAX = 256 << 20 }; /* a larger table is not counted: it would be held in memory */

/* Finds the row of a name below a stage's folder: "ID.mrc", or "SOURCE/ID.mrc" where there are several sources. */
static int64_t row_below(const struct view *view, char *name) {
    int64_t row = view_find_item(view, "", name);
    char *ending = strrchr(name, '.');
    if (row >= 0) return row;
    if (ending != NULL && strchr(ending, '/') == NULL) *ending = '\0';
    row = view_find_item(view, "", name);
    char *id = strchr(name, '/');
    if (row >= 0 || id == NULL) return row;
    *id = '\0';
    return view_find_item(view, name, id + 1);
}

/* Finds the row of a micrograph: "motion-corrector/Disc1/mov_00001.mrc" is that of "Disc1/mov_00001". */
static int64_t row_of(const struct view *view, const char *micrograph) {
    char name[PATH_SIZE];
    const char *inside = strchr(micrograph, '/');
    snprintf(name, sizeof name, "%s", inside != NULL && micrograph[0] != '/' ? inside + 1 : path_name(micrograph));
    return row_below(view, name);
}

static void count(struct report *report, const struct star_table *table) {
    int column = star_column_find(table, "rlnMicrographName");
    for (size_t i = 0; column >= 0 && i < star_row_count(table); i++) {
        int64_t row = row_of(report->view, star_get(table, i, column));
        if (row >= 0) report->selected[row]++;
    }
}

void report_count_selected(struct report *report, const char *path) {
    struct star_file *file = NULL;
    struct stat info;
    free(report->selected);
    report->selected = NULL;
    if (stat(path, &info) != 0 || info.st_size > SELECTION_MAX || star_read(path, &file, NULL) != STATUS_OK) return;
    const struct star_table *table = star_table_find(file, "particles");
    if (table != NULL) report->selected = calloc(view_row_count(report->view) + 1, sizeof *report->selected);
    if (report->selected != NULL) count(report, table);
    star_destroy(&file);
}
