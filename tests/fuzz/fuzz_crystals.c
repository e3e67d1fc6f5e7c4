/* Fuzzes files that the crystal scorer reads: labels, the scores of an image, models, and names of time series. The
 * first byte selects one. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/formats/csv.h"
#include "stages/crystal-scorer/model.h"
#include "stages/crystal-scorer/outcomes.h"
#include "stages/crystal-scorer/scores.h"
#include "stages/crystal-scorer/series.h"

static void try_table(const char *path) {
    struct csv csv = {0};
    struct err err = {0};
    if (csv_read(path, &csv, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, path) != NULL);
        return;
    }
    for (size_t i = 0; i < csv.count; i++)
        for (int k = 0; k < csv.rows[i].count; k++)
            FUZZ_CHECK(strlen(csv.rows[i].cells[k]) < 1 << 20);
    csv_clear(&csv);
}

static void try_labels(const char *path) {
    struct labels labels = {0};
    struct err err = {0};
    if (labels_read(path, &labels, &err) != STATUS_OK) {
        FUZZ_CHECK(err.message[0] != '\0' && labels.rows == NULL);
        return;
    }
    for (size_t i = 0; i < labels.count; i++)
        FUZZ_CHECK(labels_find(&labels, labels.rows[i].path) == &labels.rows[i]);
    labels_clear(&labels);
}

static void try_scores(const char *path) {
    struct scores scores = {0};
    struct err err = {0};
    if (scores_add(&scores, path, "a", &err) == STATUS_OK)
        FUZZ_CHECK(scores.count == 1 && scores.rows[0].outcome < OUTCOMES);
    else
        FUZZ_CHECK(strstr(err.message, path) != NULL && scores.count == 0);
    scores_clear(&scores);
}

static void try_model(const char *bytes, size_t length) {
    struct model model;
    const char *forest;
    size_t forest_length;
    struct err err = {0};
    if (model_parse("a.model", bytes, length, &model, &forest, &forest_length, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, "a.model") != NULL);
        return;
    }
    FUZZ_CHECK(model.classes >= 2 && model.classes <= OUTCOMES && forest + forest_length == bytes + length);
    if (!model.has_series) return;
    float seen[3 * OUTCOMES];
    for (int i = 0; i < 3 * model.classes; i++)
        seen[i] = 1.0F / (float)model.classes;
    FUZZ_CHECK(series_smooth(&model.series, seen, 3, seen, NULL) == STATUS_OK);
    for (int i = 0; i < 3 * model.classes; i++)
        FUZZ_CHECK(seen[i] >= 0 && seen[i] <= 1);
}

/* The text is a pattern, a line end, and a name. */
static void try_series(const char *text) {
    char pattern[512];
    struct series_name name;
    const char *end = strchr(text, '\n');
    if (end == NULL || end - text >= (long)sizeof pattern) return;
    snprintf(pattern, sizeof pattern, "%.*s", (int)(end - text), text);
    if (series_check(pattern, NULL) != STATUS_OK) return;
    if (series_parse(pattern, end + 1, &name))
        FUZZ_CHECK(name.drop[0] != '\0' && name.time[0] != '\0' && series_compare(&name, &name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    if (length == 0) return 0;
    char path[64], *text = malloc(length);
    FUZZ_CHECK(text != NULL);
    memcpy(text, bytes + 1, length - 1);
    text[length - 1] = '\0';
    int descriptor = fuzz_file(bytes + 1, length - 1, path);
    switch (bytes[0] % 5) {
    case 0:
        try_table(path);
        break;
    case 1:
        try_labels(path);
        break;
    case 2:
        try_scores(path);
        break;
    case 3:
        try_model(text, length - 1);
        break;
    default:
        try_series(text);
    }
    close(descriptor);
    free(text);
    return 0;
}
