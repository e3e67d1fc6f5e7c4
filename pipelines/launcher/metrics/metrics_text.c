#include "pipelines/launcher/metrics/metrics_text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "common/text.h"

void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *help) {
    text->name = name;
    text->type = type;
    text->help = help;
    text->begun = false;
}

static void begin(struct metrics_text *text) {
    if (text->begun) return;
    fprintf(text->out, "# HELP %s %s\n# TYPE %s %s\n", text->name, text->help, text->name, text->type);
    text->begun = true;
}

static void put_label(FILE *out, const char *name, const char *value) {
    fprintf(out, "%s=\"", name);
    size_t left = strlen(value), step;
    for (const char *at = value; left > 0; at += step, left -= step) {
        const size_t length = text_character(at, left);
        step = length > 0 ? length : 1;
        switch (length > 0 ? *at : '\x80') {
        case '\\':
            fputs("\\\\", out);
            break;
        case '"':
            fputs("\\\"", out);
            break;
        case '\n':
            fputs("\\n", out);
            break;
        case '\x80': /* begins no character: the format is UTF-8, and a path may hold any bytes */
            fputs("\xef\xbf\xbd", out);
            break;
        default:
            fwrite(at, 1, step, out);
        }
    }
    fputc('"', out);
}

static void put_value(FILE *out, double value) {
    if (isinf(value))
        fputs(value > 0 ? "+Inf" : "-Inf", out);
    else
        fprintf(out, "%.15g", value);
}

void metrics_sample(struct metrics_text *text, double value, ...) {
    if (isnan(value)) return;
    begin(text);
    fprintf(text->out, "%s{", text->name);
    put_label(text->out, "session", text->session);
    va_list labels;
    va_start(labels, value);
    for (const char *name = va_arg(labels, const char *); name != NULL; name = va_arg(labels, const char *)) {
        fputc(',', text->out);
        put_label(text->out, name, va_arg(labels, const char *));
    }
    va_end(labels);
    fputs("} ", text->out);
    put_value(text->out, value);
    fputc('\n', text->out);
}

static void put_part(struct metrics_text *text, const char *part, const char *label, const char *value,
                     const char *limit, double number) {
    fprintf(text->out, "%s_%s{", text->name, part);
    put_label(text->out, "session", text->session);
    fputc(',', text->out);
    put_label(text->out, label, value);
    if (limit != NULL) {
        fputc(',', text->out);
        put_label(text->out, "le", limit);
    }
    fputs("} ", text->out);
    put_value(text->out, number);
    fputc('\n', text->out);
}

void metrics_histogram(struct metrics_text *text, const double *limits, const double *counts, size_t count, double sum,
                       const char *label, const char *value) {
    begin(text);
    for (size_t i = 0; i < count; i++) {
        char limit[32];
        snprintf(limit, sizeof limit, "%.15g", limits[i]);
        put_part(text, "bucket", label, value, limit, counts[i]);
    }
    put_part(text, "bucket", label, value, "+Inf", counts[count]);
    put_part(text, "sum", label, value, NULL, sum);
    put_part(text, "count", label, value, NULL, counts[count]);
}
