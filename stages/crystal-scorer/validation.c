/* Writes the results of cross-validation, for programs and for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/csv.h"
#include "common/memory.h"
#include "stages/crystal-scorer/training.h"

static double ratio(size_t part, size_t whole) {
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

double confusion_precision(const struct confusion *c, int k) {
    size_t sum = 0;
    for (int i = 0; i < c->classes; i++)
        sum += c->counts[i][k];
    return ratio(c->counts[k][k], sum);
}

static size_t examples_of(const struct confusion *c, int k) {
    size_t sum = 0;
    for (int i = 0; i < c->classes; i++)
        sum += c->counts[k][i];
    return sum;
}

double confusion_recall(const struct confusion *c, int k) {
    return ratio(c->counts[k][k], examples_of(c, k));
}

double confusion_macro_recall(const struct confusion *c) {
    double sum = 0;
    for (int k = 0; k < c->classes; k++)
        sum += confusion_recall(c, k);
    return sum / c->classes;
}

double confusion_crystal_recall(const struct confusion *c) {
    size_t found = 0, all = 0;
    for (int i = 0; i < c->classes; i++)
        for (int k = 0; k < c->classes && outcome_has_crystal(c->outcomes[i]); k++) {
            all += c->counts[i][k];
            found += outcome_has_crystal(c->outcomes[k]) ? c->counts[i][k] : 0;
        }
    return ratio(found, all);
}

static void write_number(FILE *out, double value) {
    if (isnan(value))
        fputs(",", out);
    else
        fprintf(out, ",%.4f", value);
}

static enum status write_confusion(const struct confusion *c, FILE *out) {
    fputs("labelled", out);
    for (int k = 0; k < c->classes; k++) {
        fputc(',', out);
        csv_write(out, outcome_name(c->outcomes[k]));
    }
    fputc('\n', out);
    for (int i = 0; i < c->classes; i++) {
        csv_write(out, outcome_name(c->outcomes[i]));
        for (int k = 0; k < c->classes; k++)
            fprintf(out, ",%zu", c->counts[i][k]);
        fputc('\n', out);
    }
    return STATUS_OK;
}

static enum status write_validation(const struct confusion *c, FILE *out) {
    fputs("outcome,examples,precision,recall\n", out);
    for (int k = 0; k < c->classes; k++) {
        csv_write(out, outcome_name(c->outcomes[k]));
        fprintf(out, ",%zu", examples_of(c, k));
        write_number(out, confusion_precision(c, k));
        write_number(out, confusion_recall(c, k));
        fputc('\n', out);
    }
    return STATUS_OK;
}

static enum status write_text(const struct confusion *c, FILE *out) {
    fprintf(out, "Held out in turn; rows: as labelled, columns: as predicted\n\n%-18s", "");
    for (int k = 0; k < c->classes; k++)
        fprintf(out, " %5d", k + 1);
    fprintf(out, "   precision recall\n");
    for (int i = 0; i < c->classes; i++) {
        fprintf(out, "%2d %-15.16s", i + 1, outcome_name(c->outcomes[i]));
        for (int k = 0; k < c->classes; k++)
            fprintf(out, " %5zu", c->counts[i][k]);
        fprintf(out, "   %9.3f %6.3f\n", confusion_precision(c, i), confusion_recall(c, i));
    }
    fprintf(out, "\nmacro recall %.3f\n", confusion_macro_recall(c));
    double crystal = confusion_crystal_recall(c);
    if (!isnan(crystal)) fprintf(out, "any crystal recognised as any crystal %.3f\n", crystal);
    return STATUS_OK;
}

static enum status write_file(const struct confusion *c, const char *folder, const char *name,
                              enum status (*write)(const struct confusion *, FILE *), struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
    TRY(file_create(path, &output, err));
    TRY(write(c, file_output_stream(output)));
    return file_commit(&output, err);
}

static enum status write_examples(const struct training *t, const struct confusion *c, const float *predicted,
                                  const char *folder, struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    char path[PATH_SIZE];
    TRY(path_join(folder, "cross_validation.csv", path, sizeof path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fputs("image,label,outcome", out);
    for (int k = 0; k < c->classes; k++) {
        fputc(',', out);
        csv_write(out, outcome_name(c->outcomes[k]));
    }
    fputc('\n', out);
    for (size_t i = 0; i < t->count; i++) {
        const float *p = predicted + i * (size_t)c->classes;
        int best = 0;
        for (int k = 1; k < c->classes; k++)
            if (p[k] > p[best]) best = k;
        csv_write(out, t->examples[i].image);
        fputc(',', out);
        csv_write(out, outcome_name(t->examples[i].outcome));
        fputc(',', out);
        csv_write(out, outcome_name(c->outcomes[best]));
        for (int k = 0; k < c->classes; k++)
            fprintf(out, ",%.6f", (double)p[k]);
        fputc('\n', out);
    }
    return file_commit(&output, err);
}

enum status training_report(const struct training *t, const struct confusion *c, const float *predicted,
                            const char *folder, struct err *err) {
    TRY(write_file(c, folder, "confusion.csv", write_confusion, err));
    TRY(write_file(c, folder, "validation.csv", write_validation, err));
    TRY(write_file(c, folder, "validation.txt", write_text, err));
    return write_examples(t, c, predicted, folder, err);
}
