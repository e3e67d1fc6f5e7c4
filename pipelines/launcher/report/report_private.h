/* Declares for the files of the report. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_PRIVATE_H

#include <stdio.h>

#include "pipelines/launcher/json_values.h"
#include "pipelines/launcher/report/report.h"

enum { REPORT_PICTURES_MAX = 8 << 20, TIME_SIZE = 40 };

struct report {
    struct view *view;
    bool anonymous;
    json_t *data;         /* all numbers and texts of the page; report.json */
    FILE *out;            /* the page that is being written */
    size_t picture_bytes; /* of the pictures so far */
    bool failed;          /* there was no memory for something */
};

/* A quantity of exposures that the report shows. */
struct quantity {
    const char *key, *label, *unit;
    const char *columns[2]; /* of the view; the mean of both where there are two */
    double factor;          /* from the column's unit to this one */
    int decimals;
    bool low_is_good;
};
extern const struct quantity report_quantities[];
extern const size_t report_quantity_count;
/* Returns the quantity of a row in its unit; NaN: the row has none. */
double report_quantity(const struct view *view, const struct quantity *quantity, size_t row);
/* Returns the value below which this share of the sorted numbers lies, interpolated; NaN: there are none. */
double report_quantile(const double *sorted, size_t count, double share);
/* Returns the finite values of a quantity over the rows, sorted; NULL without memory. The caller frees them. */
double *report_sorted(const struct view *view, const struct quantity *quantity, size_t *ret_count);
/* Writes a time as "2026-11-23 08:58:55"; "" for NaN. */
void report_time(double time, char text[TIME_SIZE]);
/* A number with so many decimals as JSON text, so that the page and the JSON show the same digits; null for NaN. */
json_t *report_number(double value, int decimals);

/* report_data.c and others: parts of `data`. */
void report_collect(struct report *report, double made);
void report_add_losses(struct report *report);    /* report_losses.c */
void report_add_particles(struct report *report); /* report_particles.c: classes, map, FSC */
void report_add_settings(struct report *report);  /* report_settings.c: parameters, versions, incidents, products */
void report_add_methods(struct report *report);   /* report_methods.c: after all others */
void report_scrub(json_t *data);                  /* report_text.c: takes absolute paths out */

/* report_text.c: writing the page. */
void put(struct report *report, const char *text);      /* as it is */
void put_text(struct report *report, const char *text); /* escaped */
void put_format(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_value(struct report *report, const json_t *value); /* text, number or a dash */
void put_base64(struct report *report, const unsigned char *bytes, size_t length);

/* report_html.c: writes the page. */
void report_page(struct report *report);
/* report_chart.c: charts as SVG. x, y: NaN is left out; mark: 0 a dot, 1 a cross. At most 2000 points are drawn. */
struct points {
    const double *x, *y;
    const unsigned char *mark;
    size_t count;
};
void report_scatter(struct report *report, const char *title, const char *x_label, const char *y_label,
                    const struct points *points);
void report_histogram(struct report *report, const char *title, const char *label, const double *sorted, size_t count);
struct curve {
    const char *name;
    const double *y;
};
void report_curves(struct report *report, const char *title, const char *x_label, const char *y_label, const double *x,
                   const struct curve *curves, size_t curve_count, size_t count);
void report_bars(struct report *report, const char *title, const char *x_label, const char *y_label,
                 const double *heights, size_t count, double width);
/* report_picture.c: pictures inside the page. */
void report_examples(struct report *report);
void report_picture_file(struct report *report, const char *path, const char *alt);
void report_slices(struct report *report, const char *path);

#endif
