/* Texts, numbers and times of the report. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pipelines/launcher/numbers.h"
#include "pipelines/launcher/report/report_private.h"

void put(struct report *report, const char *text) {
    fputs(text, report->out);
}

void put_format(struct report *report, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(report->out, format, arguments);
    va_end(arguments);
}

void put_text(struct report *report, const char *text) {
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '<')
            put(report, "&lt;");
        else if (c == '>')
            put(report, "&gt;");
        else if (c == '&')
            put(report, "&amp;");
        else if (c == '"')
            put(report, "&quot;");
        else if (c < 0x20 && c != '\n' && c != '\t')
            put(report, "?");
        else
            fputc(c, report->out);
    }
}

void put_value(struct report *report, const json_t *value) {
    if (json_is_string(value) && json_string_value(value)[0] != '\0')
        put_text(report, json_string_value(value));
    else if (json_is_integer(value))
        put_format(report, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        put_format(report, "%.10g", json_real_value(value));
    else if (json_is_boolean(value))
        put(report, json_is_true(value) ? "true" : "false");
    else if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (i > 0) put(report, ", ");
            put_value(report, json_array_get(value, i));
        }
    else
        put(report, "–");
}

void put_base64(struct report *report, const unsigned char *bytes, size_t length) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        unsigned b0 = bytes[i], b1 = i + 1 < length ? bytes[i + 1] : 0, b2 = i + 2 < length ? bytes[i + 2] : 0;
        char four[4] = {digits[b0 >> 2], digits[((b0 & 3) << 4) | (b1 >> 4)],
                        i + 1 < length ? digits[((b1 & 15) << 2) | (b2 >> 6)] : '=',
                        i + 2 < length ? digits[b2 & 63] : '='};
        fwrite(four, 1, sizeof four, report->out);
    }
}

void report_time(double time, char text[TIME_SIZE]) {
    time_t seconds = (time_t)floor(isfinite(time) ? time : 0);
    struct tm parts;
    text[0] = '\0';
    if (isfinite(time) && gmtime_r(&seconds, &parts) != NULL) strftime(text, TIME_SIZE, "%Y-%m-%d %H:%M:%S", &parts);
}

double report_parse_time(const struct report *report, const char *line) {
    const json_t *offset = json_object_get(view_plan(report->view), "utc_offset");
    struct tm parts = {0};
    if (strptime(line, "%Y-%m-%dT%H:%M:%S", &parts) == NULL) return NAN;
    return (double)(timegm(&parts) - (time_t)json_integer_value(offset));
}

json_t *report_number(double value, int decimals) {
    double scale = pow(10, decimals);
    if (!isfinite(value)) return json_null();
    return decimals == 0 ? json_integer((json_int_t)llround(value)) : json_real(round(value * scale) / scale);
}

double *report_sorted(const struct view *view, const struct quantity *quantity, size_t *ret_count) {
    size_t rows = view_row_count(view), count = 0;
    double *values = malloc((rows + 1) * sizeof *values);
    *ret_count = 0;
    if (values == NULL) return NULL;
    for (size_t i = 0; i < rows; i++) {
        double value = report_quantity(view, quantity, i);
        if (isfinite(value)) values[count++] = value;
    }
    numbers_sort(values, count);
    *ret_count = count;
    return values;
}
