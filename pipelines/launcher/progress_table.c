#include "pipelines/launcher/progress_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/screen.h"
#include "common/text.h"

/* In the order in which they are shown. */
enum column { DONE, SEEN, FAILED, REJECTED, RATE, IN_FLIGHT, COLUMNS };
static const char *const titles[COLUMNS] = {"done", "seen", "failed", "rejected", "per min", "in flight"};
/* Left out first: the number in flight follows from the others. Rejected and failed items stay as long as there are
 * any. */
static const enum column leaving[] = {IN_FLIGHT, REJECTED, RATE, SEEN, FAILED};
enum { GAP = 2, NAME_MOST = 20, STATE_LEAST = 22, NOTE_INDENT = 4, NOTE_LINES = 6, SUM_GAP = 3 };

struct layout {
    int width, name, columns[COLUMNS]; /* 0: left out */
    int used;                          /* name and columns together */
};

static void print_value(const struct progress_row *row, enum column column, char *text, size_t size) {
    const int64_t values[COLUMNS] = {[DONE] = row->done,
                                     [SEEN] = row->seen,
                                     [FAILED] = row->failed,
                                     [REJECTED] = row->rejected,
                                     [IN_FLIGHT] = row->in_flight};
    if (column == RATE)
        snprintf(text, size, isnan(row->rate) ? "" : "%.1f", row->rate);
    else
        snprintf(text, size, "%" PRId64, values[column]);
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

static struct layout lay_out(const struct progress_row *rows, size_t count, int width) {
    struct layout layout = {.width = larger(width, 8), .name = (int)strlen("stage")};
    int most = larger(12, width / 4 < NAME_MOST ? width / 4 : NAME_MOST);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        int name = (int)text_width(rows[i].name);
        if (name <= most) layout.name = larger(layout.name, name);
        for (enum column column = 0; column < COLUMNS; column++) {
            print_value(&rows[i], column, text, sizeof text);
            layout.columns[column] = larger(layout.columns[column], (int)strlen(text));
        }
    }
    layout.used = layout.name;
    for (enum column column = 0; column < COLUMNS; column++) {
        layout.columns[column] = larger(layout.columns[column], (int)strlen(titles[column]));
        layout.used += GAP + layout.columns[column];
    }
    for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++) {
        const enum column column = leaving[i];
        bool empty = true;
        for (size_t k = 0; k < count; k++)
            empty &= column == REJECTED ? rows[k].rejected == 0 : column == FAILED && rows[k].failed == 0;
        /* The present work of a stage is worth more than a column, but less than what was rejected or has failed. */
        bool spare = empty || (column != REJECTED && column != FAILED);
        if (layout.used + (spare ? GAP + STATE_LEAST : 0) <= layout.width) continue;
        layout.used -= GAP + layout.columns[column];
        layout.columns[column] = 0;
    }
    return layout;
}

/* Prints a text from column `begin`, where the cursor is, and further lines from column `indent`. */
static void print_wrapped(const char *text, int begin, int indent, int width, int most, FILE *out) {
    for (int line = 0; *text != '\0' && line < most; line++) {
        int column = line == 0 ? begin : indent;
        size_t bytes = screen_break(text, (size_t)larger(width - column, 1));
        if (line > 0) fprintf(out, "%*s", column, "");
        fprintf(out, "%.*s\n", (int)bytes, text);
        text += bytes;
        text += strspn(text, " \n");
    }
}

static void print_padded(const char *text, int width, FILE *out) {
    fprintf(out, "%s%*s", text, larger(width - (int)text_width(text), 0), "");
}

static void print_row(const struct layout *layout, const struct progress_row *row, FILE *out) {
    char state[sizeof row->state + sizeof row->note + 2], text[32];
    bool aside = (int)text_width(row->name) > layout->name;
    if (aside) print_wrapped(row->name, 0, GAP, layout->width, NOTE_LINES, out);
    print_padded(aside ? "" : row->name, layout->name, out);
    for (enum column column = 0; column < COLUMNS; column++) {
        if (layout->columns[column] == 0) continue;
        print_value(row, column, text, sizeof text);
        fprintf(out, "%*s", GAP + layout->columns[column], text);
    }
    int room = layout->width - layout->used - GAP;
    bool noted = row->note[0] != '\0';
    snprintf(state, sizeof state, "%s%s%s", row->state, noted ? "; " : "", row->note);
    bool one_line = (int)text_width(state) <= room;
    if (!one_line) snprintf(state, sizeof state, "%s", row->state);
    bool beside = (int)text_width(state) <= room;
    if (beside) fprintf(out, "%*s%s", GAP, "", state);
    fputc('\n', out);
    int indent = layout->width > 2 * NOTE_INDENT ? NOTE_INDENT : 0;
    if (!beside) {
        fprintf(out, "%*s", indent, "");
        print_wrapped(state, indent, indent, layout->width, NOTE_LINES, out);
    }
    if (one_line || !noted) return;
    fprintf(out, "%*s", indent, "");
    print_wrapped(row->note, indent, indent, layout->width, NOTE_LINES, out);
}

/* Prints one of the sums, on a new line if there is no room for it. */
static void print_sum(const char *text, int width, int *column, FILE *out) {
    int wide = (int)text_width(text);
    bool first = *column == 0, fits = *column + SUM_GAP + wide <= width;
    fprintf(out, "%*s%s", !first && fits ? SUM_GAP : 0, "", first || fits ? "" : "\n");
    fputs(text, out);
    *column = (!first && fits ? *column + SUM_GAP : 0) + wide;
}

static void print_sums(const struct progress_sums *sums, int width, FILE *out) {
    char text[64];
    int column = 0;
    int64_t whole = sums->elapsed > 0 ? (int64_t)sums->elapsed : 0;
    snprintf(text, sizeof text, "%" PRId64 ":%02d:%02d", whole / 3600, (int)(whole / 60 % 60), (int)(whole % 60));
    print_sum(text, width, &column, out);
    snprintf(text, sizeof text, "%" PRId64 " items", sums->items);
    print_sum(text, width, &column, out);
    snprintf(text, sizeof text, "%.1f per minute", sums->rate);
    if (sums->rate >= 0) print_sum(text, width, &column, out);
    snprintf(text, sizeof text, "%" PRId64 " %s", sums->made, sums->made >= 0 ? sums->made_name : "");
    if (sums->made >= 0) print_sum(text, width, &column, out);
    snprintf(text, sizeof text, "%.1f Å", sums->resolution);
    if (sums->resolution > 0) print_sum(text, width, &column, out);
    fputc('\n', out);
}

void progress_table(const struct progress_sums *sums, const struct progress_row *rows, size_t count, int width,
                    FILE *out) {
    struct layout layout = lay_out(rows, count, width);
    print_sums(sums, layout.width, out);
    print_padded("stage", layout.name, out);
    for (enum column column = 0; column < COLUMNS; column++)
        if (layout.columns[column] > 0) fprintf(out, "%*s", GAP + layout.columns[column], titles[column]);
    if (layout.width - layout.used - GAP >= STATE_LEAST) fprintf(out, "%*snow", GAP, "");
    fputc('\n', out);
    for (size_t i = 0; i < count; i++)
        print_row(&layout, &rows[i], out);
}
