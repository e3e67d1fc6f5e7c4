#include "examples/score/score.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/star.h"
#include "common/memory.h"

struct points {
    size_t count;
    double (*xy)[2];
};

/* Reads the points of the table that has coordinates. A file without such a table holds no points. */
static enum status read_points(const char *path, struct points *ret_points, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_read(path, &file, err));
    struct points p = {0};
    for (size_t t = 0; t < star_table_count(file) && p.count == 0; t++) {
        struct star_table *table = star_table_at(file, t);
        int x = star_column_find(table, "rlnCoordinateX"), y = star_column_find(table, "rlnCoordinateY");
        if (x < 0 || y < 0) continue;
        TRY(mem_new(star_row_count(table), sizeof *p.xy, "coordinates", &p.xy, err));
        for (; p.count < star_row_count(table); p.count++) {
            enum status status = star_get_number(table, p.count, x, &p.xy[p.count][0], err);
            if (status == STATUS_OK) status = star_get_number(table, p.count, y, &p.xy[p.count][1], err);
            if (status != STATUS_OK) {
                free(p.xy);
                return status;
            }
        }
    }
    *ret_points = p;
    return STATUS_OK;
}

struct pair {
    double distance2;
    size_t pick, truth;
};

static int by_distance(const void *a, const void *b) {
    double x = ((const struct pair *)a)->distance2, y = ((const struct pair *)b)->distance2;
    return (x > y) - (x < y);
}

/* Pairs picks and true centres one to one, nearest first. ret_hit[pick] (may be NULL) says whether a pick is right.
 * Returns how many are. */
static enum status match_points(const struct points *picks, const struct points *truth, double tolerance, bool *ret_hit,
                                long *ret_hits, struct err *err) {
    *ret_hits = 0;
    if (picks->count == 0 || truth->count == 0) return STATUS_OK;
    _cleanup_(mem_free) struct pair *pairs = NULL;
    _cleanup_(mem_free) bool *used = NULL;
    TRY(mem_new(picks->count * truth->count, sizeof *pairs, "pairs", &pairs, err));
    TRY(mem_new(picks->count + truth->count, sizeof *used, "pairs", &used, err));
    size_t count = 0;
    for (size_t i = 0; i < picks->count; i++)
        for (size_t j = 0; j < truth->count; j++) {
            double dx = picks->xy[i][0] - truth->xy[j][0], dy = picks->xy[i][1] - truth->xy[j][1];
            double d2 = dx * dx + dy * dy;
            if (d2 <= tolerance * tolerance) pairs[count++] = (struct pair){d2, i, j};
        }
    qsort(pairs, count, sizeof *pairs, by_distance);
    for (size_t n = 0; n < count; n++) {
        bool *pick = &used[pairs[n].pick], *real = &used[picks->count + pairs[n].truth];
        if (*pick || *real) continue;
        *pick = *real = true;
        ++*ret_hits;
        if (ret_hit != NULL) ret_hit[pairs[n].pick] = true;
    }
    return STATUS_OK;
}

enum status score_picks(const char *session, const char *truth, double tolerance, struct score_picks *ret_score,
                        struct err *err) {
    char folder[PATH_MAX], path[PATH_MAX + NAME_MAX];
    snprintf(folder, sizeof folder, "%s/lowpass-picker", session);
    DIR *directory = opendir(folder);
    FAIL_IF(directory == NULL, err, STATUS_NOT_FOUND, "%s: %s", folder, strerror(errno));
    struct score_picks score = {0};
    enum status status = STATUS_OK;
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(directory)) != NULL;) {
        const char *ending = strstr(entry->d_name, "_autopick.star");
        if (ending == NULL) continue;
        struct points picks = {0}, real = {0};
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        status = read_points(path, &picks, err);
        snprintf(path, sizeof path, "%s/%.*s.star", truth, (int)(ending - entry->d_name), entry->d_name);
        if (status == STATUS_OK) status = read_points(path, &real, err);
        long hits = 0;
        if (status == STATUS_OK) status = match_points(&picks, &real, tolerance, NULL, &hits, err);
        score.hits += hits;
        score.picked += (long)picks.count;
        score.truth += (long)real.count;
        free(picks.xy);
        free(real.xy);
    }
    closedir(directory);
    if (status == STATUS_OK) *ret_score = score;
    return status;
}

/* Finds the last of the names PREFIX…SUFFIX in a folder, in order of text: iteration numbers have leading zeros. */
static enum status newest(const char *folder, const char *prefix, const char *suffix, char *ret_path, size_t size,
                          struct err *err) {
    DIR *directory = opendir(folder);
    FAIL_IF(directory == NULL, err, STATUS_NOT_FOUND, "%s: %s", folder, strerror(errno));
    char best[NAME_MAX + 1] = "";
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        size_t n = strlen(entry->d_name), m = strlen(suffix);
        if (n >= m && strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            strcmp(entry->d_name + n - m, suffix) == 0 && strcmp(entry->d_name, best) > 0)
            memcpy(best, entry->d_name, n + 1);
    }
    closedir(directory);
    FAIL_IF(best[0] == 0, err, STATUS_NOT_FOUND, "%s: there is no %s…%s", folder, prefix, suffix);
    snprintf(ret_path, size, "%s/%s", folder, best);
    return STATUS_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Compares the particles of one micrograph (rows first..last-1 of `table`) with its truth. `kept`: sorted names. */
static enum status score_group(const struct star_table *table, size_t first, size_t last, const char *truth,
                               double tolerance, const char **kept, size_t kept_count, struct score_classes *score,
                               struct err *err) {
    int x, y, name, micrograph;
    TRY(star_column_need(table, "rlnCoordinateX", &x, err));
    TRY(star_column_need(table, "rlnCoordinateY", &y, err));
    TRY(star_column_need(table, "rlnImageName", &name, err));
    TRY(star_column_need(table, "rlnMicrographName", &micrograph, err));
    const char *stem = strrchr(star_get(table, first, micrograph), '/');
    stem = stem != NULL ? stem + 1 : star_get(table, first, micrograph);
    const char *dot = strrchr(stem, '.');
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%.*s.star", truth, (int)(dot != NULL ? dot - stem : (long)strlen(stem)), stem);

    struct points real = {0}, found = {.count = last - first};
    TRY(read_points(path, &real, err));
    _cleanup_(mem_free) double(*truth_xy)[2] = real.xy;
    _cleanup_(mem_free) double(*xy)[2] = NULL;
    _cleanup_(mem_free) bool *hit = NULL;
    TRY(mem_new(found.count, sizeof *xy, "coordinates", &xy, err));
    TRY(mem_new(found.count, sizeof *hit, "coordinates", &hit, err));
    found.xy = xy;
    for (size_t i = 0; i < found.count; i++) {
        TRY(star_get_number(table, first + i, x, &xy[i][0], err));
        TRY(star_get_number(table, first + i, y, &xy[i][1], err));
    }
    long hits;
    TRY(match_points(&found, &real, tolerance, hit, &hits, err));
    for (size_t i = 0; i < found.count; i++) {
        const char *image = star_get(table, first + i, name);
        bool is_kept = bsearch(&image, kept, kept_count, sizeof *kept, by_text) != NULL;
        *(hit[i] ? &score->true_all : &score->false_all) += 1;
        *(hit[i] ? &score->true_kept : &score->false_kept) += is_kept;
    }
    return STATUS_OK;
}

/* Counts the classes of the model, and those that the selection draws on. */
static enum status count_classes(const char *folder, const struct star_table *selected, struct score_classes *score,
                                 struct err *err) {
    char path[PATH_MAX];
    TRY(newest(folder, "run_it", "_model.star", path, sizeof path, err));
    _cleanup_(star_destroy) struct star_file *model = NULL;
    TRY(star_read(path, &model, err));
    struct star_table *classes = star_table_find(model, "model_classes");
    FAIL_IF(classes == NULL, err, STATUS_NOT_FOUND, "%s has no table model_classes", path);
    score->classes = (int)star_row_count(classes);
    _cleanup_(mem_free) bool *seen = NULL;
    TRY(mem_new((size_t)score->classes + 1, sizeof *seen, "classes", &seen, err));
    int column = star_column_find(selected, "rlnClassNumber");
    for (size_t row = 0; column >= 0 && row < star_row_count(selected); row++) {
        long number;
        TRY(star_get_integer(selected, row, column, &number, err));
        if (number >= 1 && number <= score->classes && !seen[number]) seen[number] = true, score->kept++;
    }
    return STATUS_OK;
}

enum status score_classes(const char *session, const char *truth, double tolerance, struct score_classes *ret_score,
                          struct err *err) {
    char folder[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
    snprintf(folder, sizeof folder, "%s/classifier", session);
    TRY(newest(folder, "selected_it", ".star", path, sizeof path, err));
    _cleanup_(star_destroy) struct star_file *selection = NULL;
    _cleanup_(star_destroy) struct star_file *extracted = NULL;
    TRY(star_read(path, &selection, err));
    struct star_table *selected = star_table_find(selection, "particles");
    FAIL_IF(selected == NULL, err, STATUS_NOT_FOUND, "%s has no table particles", path);
    snprintf(path, sizeof path, "%s/extractor/particles.star", session);
    TRY(star_read(path, &extracted, err));
    struct star_table *all = star_table_find(extracted, "particles");
    FAIL_IF(all == NULL, err, STATUS_NOT_FOUND, "%s has no table particles", path);

    struct score_classes score = {0};
    TRY(count_classes(folder, selected, &score, err));
    int name, micrograph;
    TRY(star_column_need(selected, "rlnImageName", &name, err));
    TRY(star_column_need(all, "rlnMicrographName", &micrograph, err));
    size_t kept_count = star_row_count(selected);
    _cleanup_(mem_free) const char **kept = NULL;
    TRY(mem_new(kept_count, sizeof *kept, "names", &kept, err));
    for (size_t i = 0; i < kept_count; i++)
        kept[i] = star_get(selected, i, name);
    qsort(kept, kept_count, sizeof *kept, by_text);

    size_t rows = star_row_count(all);
    for (size_t first = 0, last; first < rows; first = last) {
        for (last = first + 1; last < rows; last++)
            if (strcmp(star_get(all, last, micrograph), star_get(all, first, micrograph)) != 0) break;
        TRY(score_group(all, first, last, truth, tolerance, kept, kept_count, &score, err));
    }
    *ret_score = score;
    return STATUS_OK;
}
