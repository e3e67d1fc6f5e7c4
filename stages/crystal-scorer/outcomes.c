#include "stages/crystal-scorer/outcomes.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/formats/csv.h"
#include "common/harness/params.h"
#include "common/memory.h"
#include "common/text.h"

static const char *const NAMES[OUTCOMES] = {"clear",
                                            "precipitate",
                                            "crystal",
                                            "phase separation",
                                            "precip & crystal",
                                            "precip & skin",
                                            "phase & crystal",
                                            "phase & precip",
                                            "skin",
                                            "junk",
                                            "other"};

const char *outcome_name(enum outcome outcome) {
    return NAMES[outcome];
}

bool outcome_has_crystal(enum outcome outcome) {
    return outcome == OUTCOME_CRYSTAL || outcome == OUTCOME_PRECIPITATE_CRYSTAL || outcome == OUTCOME_PHASE_CRYSTAL;
}

static int plain(char c) {
    return c == '_' || c == '-' ? ' ' : tolower((unsigned char)c);
}

static bool same(const char *a, const char *b) {
    for (; *a != '\0' || *b != '\0'; a++, b++)
        if (plain(*a) != plain(*b)) return false;
    return true;
}

bool outcome_parse(const char *text, enum outcome *ret_outcome) {
    for (int i = 0; i < OUTCOMES; i++)
        if (same(text, NAMES[i])) {
            *ret_outcome = (enum outcome)i;
            return true;
        }
    return false;
}

const char *outcome_nearest(const char *text) {
    return text_nearest(text, NAMES, OUTCOMES);
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct label *)a)->path, ((const struct label *)b)->path);
}

static enum status take_row(const char *path, const char *folder, const struct csv_row *row, struct labels *labels,
                            struct err *err) {
    char joined[PATH_SIZE], real[PATH_MAX];
    struct label *label = &labels->rows[labels->count];
    FAIL_IF(row->count < 2, err, STATUS_BAD_FORMAT, "%s: line %d: path,label is expected, and there is no comma", path,
            row->line);
    if (!outcome_parse(row->cells[1], &label->outcome)) {
        const char *near = outcome_nearest(row->cells[1]);
        FAIL(err, STATUS_BAD_FORMAT,
             "%s: line %d: '%.60s' is no outcome%s%s%s: clear, precipitate, crystal, phase separation, precip & "
             "crystal, "
             "precip & skin, phase & crystal, phase & precip, skin, junk and other are",
             path, row->line, row->cells[1], near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
             near != NULL ? "'?)" : "");
    }
    TRY(path_join(folder, row->cells[0], joined, sizeof joined, err));
    FAIL_IF(row->cells[0][0] == '\0' || realpath(joined, real) == NULL, err, STATUS_NOT_FOUND,
            "%s: line %d: there is no file '%s' (paths count from the table's folder)", path, row->line, row->cells[0]);
    label->path = strdup(real);
    FAIL_IF(label->path == NULL, err, STATUS_NO_MEMORY, "no memory for labels");
    label->line = row->line;
    labels->of_outcome[label->outcome]++;
    labels->count++;
    return STATUS_OK;
}

static enum status check(const char *path, const struct labels *labels, struct err *err) {
    FAIL_IF(labels->count == 0, err, STATUS_NOT_FOUND, "%s: holds no labels: lines of path,label are expected", path);
    int classes = 0;
    for (size_t i = 0; i + 1 < labels->count; i++)
        FAIL_IF(strcmp(labels->rows[i].path, labels->rows[i + 1].path) == 0, err, STATUS_BAD_FORMAT,
                "%s: lines %d and %d both label %s: leave one of them", path, labels->rows[i].line,
                labels->rows[i + 1].line, labels->rows[i].path);
    for (int k = 0; k < OUTCOMES; k++) {
        classes += labels->of_outcome[k] > 0;
        FAIL_IF(labels->of_outcome[k] == 1, err, STATUS_BAD_FORMAT,
                "%s: '%s' has one example only: two or more are needed, one to learn from and one to check with", path,
                NAMES[k]);
    }
    FAIL_IF(classes == 1, err, STATUS_BAD_FORMAT, "%s: all labels are the same: two outcomes or more are needed", path);
    return STATUS_OK;
}

static enum status take_rows(const char *path, const struct csv *csv, struct labels *labels, struct err *err) {
    char folder[PATH_SIZE];
    size_t first = csv->count > 0 &&
                   (strcasecmp(csv->rows[0].cells[0], "path") == 0 || strcasecmp(csv->rows[0].cells[0], "image") == 0);
    TRY(path_folder(path, folder, sizeof folder, err));
    TRY(mem_new(csv->count + 1, sizeof *labels->rows, "labels", &labels->rows, err));
    for (size_t i = first; i < csv->count; i++)
        TRY(take_row(path, folder, &csv->rows[i], labels, err));
    qsort(labels->rows, labels->count, sizeof *labels->rows, by_path);
    return check(path, labels, err);
}

enum status labels_read(const char *path, struct labels *ret_labels, struct err *err) {
    struct csv csv = {0};
    struct labels labels = {0};
    TRY(csv_read(path, &csv, err));
    enum status status = take_rows(path, &csv, &labels, err);
    csv_clear(&csv);
    if (status != STATUS_OK)
        labels_clear(&labels);
    else
        *ret_labels = labels;
    return status;
}

void labels_clear(struct labels *labels) {
    for (size_t i = 0; i < labels->count; i++)
        free(labels->rows[i].path);
    free(labels->rows);
    *labels = (struct labels){0};
}

const struct label *labels_find(const struct labels *labels, const char *path) {
    struct label key = {.path = (char *)path};
    return labels->count == 0 ? NULL : bsearch(&key, labels->rows, labels->count, sizeof *labels->rows, by_path);
}
