#include "stages/crystal-scorer/scores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/csv.h"
#include "common/memory.h"

void score_set(struct score *score, const struct model *model, const float *of_class) {
    int best = 0;
    memset(score->probability, 0, sizeof score->probability);
    for (int k = 0; k < model->classes; k++) {
        score->probability[model->outcomes[k]] = of_class[k];
        if (of_class[k] > of_class[best]) best = k;
    }
    score->outcome = model->outcomes[best];
}

double score_crystal(const float probability[OUTCOMES]) {
    double sum = 0;
    for (int k = 0; k < OUTCOMES; k++)
        if (outcome_has_crystal((enum outcome)k)) sum += (double)probability[k];
    return sum;
}

static void write_heading(FILE *out, const char *first) {
    fputs(first, out);
    for (int k = 0; k < OUTCOMES; k++) {
        fputc(',', out);
        csv_write(out, outcome_name((enum outcome)k));
    }
    fputc('\n', out);
}

static void write_probabilities(FILE *out, enum outcome outcome, const float *probability) {
    csv_write(out, outcome_name(outcome));
    for (int k = 0; k < OUTCOMES; k++)
        fprintf(out, ",%.6f", (double)probability[k]);
    fputc('\n', out);
}

static void write_row(FILE *out, const struct score *score) {
    csv_write(out, score->image);
    fputc(',', out);
    write_probabilities(out, score->outcome, score->probability);
}

enum status score_write(const struct score *score, const char *path, struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    write_heading(file_output_stream(output), "image,outcome");
    write_row(file_output_stream(output), score);
    return file_commit(&output, err);
}

static void score_clear(struct score *score) {
    free(score->image);
    free(score->id);
    free(score->series);
}

void scores_clear(struct scores *scores) {
    for (size_t i = 0; i < scores->count; i++)
        score_clear(&scores->rows[i]);
    free(scores->rows);
    *scores = (struct scores){0};
}

static enum status take(const char *path, const struct csv *csv, const char *id, struct score *score, struct err *err) {
    FAIL_IF(csv->count != 2 || csv->rows[1].count != 2 + OUTCOMES ||
                !outcome_parse(csv->rows[1].cells[1], &score->outcome),
            err, STATUS_BAD_FORMAT,
            "%s: is not the score of an image (image, outcome and %d probabilities): remove it, and "
            "`icestream retry --lost` makes it anew",
            path, OUTCOMES);
    for (int k = 0; k < OUTCOMES; k++) {
        char *end;
        score->probability[k] = strtof(csv->rows[1].cells[2 + k], &end);
        FAIL_IF(*end != '\0' || !(score->probability[k] >= 0 && score->probability[k] <= 1), err, STATUS_BAD_FORMAT,
                "%s: the probability of '%s' is '%.40s': 0 to 1 was expected", path, outcome_name((enum outcome)k),
                csv->rows[1].cells[2 + k]);
    }
    score->image = strdup(csv->rows[1].cells[0]);
    score->id = strdup(id);
    FAIL_IF(score->image == NULL || score->id == NULL, err, STATUS_NO_MEMORY, "no memory for scores");
    return STATUS_OK;
}

enum status scores_add(struct scores *scores, const char *path, const char *id, struct err *err) {
    if (scores->count == scores->capacity) {
        size_t capacity = scores->capacity == 0 ? 256 : 2 * scores->capacity;
        struct score *rows = realloc(scores->rows, capacity * sizeof *rows);
        FAIL_IF(rows == NULL, err, STATUS_NO_MEMORY, "no memory for the scores of %zu images", capacity);
        scores->rows = rows;
        scores->capacity = capacity;
    }
    struct csv csv = {0};
    struct score score = {0};
    TRY(csv_read(path, &csv, err));
    enum status status = take(path, &csv, id, &score, err);
    csv_clear(&csv);
    if (status == STATUS_OK)
        scores->rows[scores->count++] = score;
    else
        score_clear(&score);
    return status;
}

/* ---- time series ---- */

/* Images of no series come last. */
static int by_drop(const void *a, const void *b) {
    const struct score *p = a, *q = b;
    if (p->in_series != q->in_series) return p->in_series ? -1 : 1;
    int order = p->in_series ? series_compare(p->series, q->series) : 0;
    return order != 0 ? order : strcmp(p->image, q->image);
}

static enum status smooth_drop(struct score *rows, size_t count, const struct model *model, struct err *err) {
    _cleanup_(mem_free) float *seen = NULL;
    size_t classes = (size_t)model->classes;
    TRY(mem_new(count * classes, sizeof *seen, "a time series", &seen, err));
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < classes; k++)
            seen[i * classes + k] = rows[i].probability[model->outcomes[k]];
    TRY(series_smooth(&model->series, seen, count, seen, err));
    for (size_t i = 0; i < count; i++) {
        memset(rows[i].smoothed, 0, sizeof rows[i].smoothed);
        for (size_t k = 0; k < classes; k++)
            rows[i].smoothed[model->outcomes[k]] = seen[i * classes + k];
    }
    return STATUS_OK;
}

enum status scores_smooth(struct scores *scores, const struct model *model, const char *pattern, struct err *err) {
    struct series_name name;
    for (size_t i = 0; i < scores->count; i++) {
        struct score *row = &scores->rows[i];
        row->in_series = series_parse(pattern, row->id, &name);
        if (!row->in_series) continue;
        row->series = malloc(sizeof *row->series);
        FAIL_IF(row->series == NULL, err, STATUS_NO_MEMORY, "no memory for time series");
        *row->series = name;
    }
    if (scores->count > 0) qsort(scores->rows, scores->count, sizeof *scores->rows, by_drop);
    for (size_t begin = 0, end; begin < scores->count; begin = end) {
        const struct score *first = &scores->rows[begin];
        end = begin + 1;
        while (first->in_series && end < scores->count && scores->rows[end].in_series &&
               strcmp(scores->rows[end].series->drop, first->series->drop) == 0)
            end++;
        TRY(smooth_drop(scores->rows + begin, end - begin, model, err));
    }
    return STATUS_OK;
}

/* ---- tables ---- */

static enum outcome likeliest(const float probability[OUTCOMES]) {
    int best = 0;
    for (int k = 1; k < OUTCOMES; k++)
        if (probability[k] > probability[best]) best = k;
    return (enum outcome)best;
}

static enum status write_scores(const struct scores *scores, FILE *out) {
    write_heading(out, "image,outcome");
    for (size_t i = 0; i < scores->count; i++)
        write_row(out, &scores->rows[i]);
    return STATUS_OK;
}

static enum status write_series(const struct scores *scores, FILE *out) {
    write_heading(out, "image,drop,time,outcome");
    for (size_t i = 0; i < scores->count; i++) {
        const struct score *row = &scores->rows[i];
        csv_write(out, row->image);
        fputc(',', out);
        csv_write(out, row->in_series ? row->series->drop : row->id);
        fputc(',', out);
        csv_write(out, row->in_series ? row->series->time : "");
        fputc(',', out);
        write_probabilities(out, likeliest(row->smoothed), row->smoothed);
    }
    return STATUS_OK;
}

static int by_crystal(const void *a, const void *b) {
    const struct score *p = a, *q = b;
    double x = score_crystal(p->smoothed), y = score_crystal(q->smoothed);
    return x != y ? (x > y ? -1 : 1) : strcmp(p->image, q->image);
}

static void write_crystals(const struct scores *scores, double likely, FILE *out) {
    fputs("rank,image,crystal,outcome\n", out);
    for (size_t i = 0; i < scores->count && score_crystal(scores->rows[i].smoothed) >= likely; i++) {
        fprintf(out, "%zu,", i + 1);
        csv_write(out, scores->rows[i].image);
        fprintf(out, ",%.6f,", score_crystal(scores->rows[i].smoothed));
        csv_write(out, outcome_name(likeliest(scores->rows[i].smoothed)));
        fputc('\n', out);
    }
}

static enum status begin(const char *folder, const char *name, struct file_output **output, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
    return file_create(path, output, err);
}

enum status scores_tables(struct scores *scores, const char *folder, double likely, bool smoothed, struct err *err) {
    _cleanup_(file_discard) struct file_output *all = NULL, *series = NULL, *crystals = NULL;
    TRY(begin(folder, "scores.csv", &all, err));
    TRY(write_scores(scores, file_output_stream(all)));
    TRY(file_commit(&all, err));
    if (smoothed) {
        TRY(begin(folder, "series.csv", &series, err));
        TRY(write_series(scores, file_output_stream(series)));
        TRY(file_commit(&series, err));
    } else {
        for (size_t i = 0; i < scores->count; i++)
            memcpy(scores->rows[i].smoothed, scores->rows[i].probability, sizeof scores->rows[i].smoothed);
    }
    if (scores->count > 0) qsort(scores->rows, scores->count, sizeof *scores->rows, by_crystal);
    TRY(begin(folder, "crystals.csv", &crystals, err));
    write_crystals(scores, likely, file_output_stream(crystals));
    return file_commit(&crystals, err);
}
