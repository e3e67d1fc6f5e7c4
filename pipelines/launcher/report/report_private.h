/* Declares for the files of the report. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_PRIVATE_H

#include <stdio.h>

#include "pipelines/launcher/json_values.h"
#include "pipelines/launcher/report/report.h"

enum { REPORT_PICTURES_MAX = 8 << 20, TIME_SIZE = 40, REPORT_ROWS_MAX = 500 };

struct report {
    struct view *view;
    bool anonymous;
    json_t *data;         /* all numbers and texts of the page; report.json */
    FILE *out;            /* the page that is being written */
    size_t picture_bytes; /* of the pictures so far */
    json_t *secrets;      /* names that an anonymous report does not have; NULL: it is not anonymous */
    size_t left_out;      /* particles that marks took out of the selection */
    int64_t *selected;    /* by row: particles in the selection; NULL: not known */
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
/* Returns the finite values of a quantity over the rows, sorted; NULL without memory. The caller frees them. */
double *report_sorted(const struct view *view, const struct quantity *quantity, size_t *ret_count);
/* Writes a time as "2026-11-23 08:58:55"; "" for NaN. */
void report_time(double time, char text[TIME_SIZE]);
/* Returns when a line of a log was written, s since 1970: logs are in local time; NaN: it does not say. */
double report_parse_time(const struct report *report, const char *line);
/* Returns the last stage whose history has such an event; NULL: none. */
const char *report_history_stage(struct view *view, const char *event);
/* report_selected.c: counts the particles of a selection into report->selected. */
void report_count_selected(struct report *report, const char *path);
/* A number with so many decimals as JSON text, so that the page and the JSON show the same digits; null for NaN. */
json_t *report_number(double value, int decimals);

/* Returns why a map of a history has no resolution, in the words of the refiner (unresolved.c); NULL: it has one. */
const char *report_unresolved(const json_t *map);

/* Returns the name of the first stage of a kind; NULL: there is none. */
const char *report_stage_of(const struct report *report, const char *kind);
/* Returns a value of the graph; NULL: it has none. stage: "session", a stage, or NULL. */
const json_t *report_value_of(const struct report *report, const char *stage, const char *key);
/* Returns a number of a quantity ("resolution", "median"); NaN: there is none. */
double report_quality_number(const struct report *report, const char *key, const char *which);

/* report_data.c and others: parts of `data`. */
void report_collect(struct report *report, double made);
void report_add_losses(struct report *report);    /* report_losses.c */
void report_add_particles(struct report *report); /* report_particles.c: classes, map, FSC */
void report_add_settings(struct report *report);  /* report_settings.c: parameters, versions, products */
void report_add_incidents(struct report *report); /* report_incidents.c */
void report_add_marks(struct report *report);     /* report_marks.c: what was decided by hand */
void report_add_facts(struct report *report);     /* report_facts.c: the session in a table */
void report_add_machines(struct report *report);  /* report_machine.c */
void report_add_directions(struct report *report, const char *stage); /* report_directions.c */
void report_add_methods(struct report *report);                       /* report_methods.c: after all others */
/* report_scrub.c: finds names of machines and people, and takes them and absolute paths out of `data`. */
void report_find_secrets(struct report *report);
void report_scrub(struct report *report);
/* Returns a copy of a text without them; NULL: no memory. The caller frees it. */
char *report_clean(const struct report *report, const char *text);

/* report_text.c: writing the page. */
void put(struct report *report, const char *text);      /* as it is */
void put_text(struct report *report, const char *text); /* escaped */
void put_format(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_value(struct report *report, const json_t *value); /* text, number or a dash */
void put_base64(struct report *report, const unsigned char *bytes, size_t length);

/* report_html.c, report_html_run.c: write the page, and its second half. */
void report_page(struct report *report);
void report_page_run(struct report *report);
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
/* Puts a picture into the page; type: "jpeg" or "png". Left out where the page would become too large. */
void report_put_picture(struct report *report, const char *type, const unsigned char *bytes, size_t length,
                        const char *alt);
void report_surfaces(struct report *report, const char *path); /* report_surface.c */
void report_directions(struct report *report);                 /* report_directions.c */

#endif
