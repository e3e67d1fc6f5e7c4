/* The report of a session: one HTML page that needs no script and no network, and beside it report.json,
 * exposures.csv, and, where the session has them, selected.star and fsc.xml. All numbers are those of the view, so they
 * are those of `icestream status`. For an unchanged session that has ended, two reports differ in the time alone at
 * which they were made. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_H
#define ICESTREAM_PIPELINES_LAUNCHER_REPORT_REPORT_H

#include "pipelines/launcher/view/view.h"

struct report_options {
    const char *path; /* of the page; the other files lie in the same folder */
    bool anonymous;   /* leaves out paths, host and user */
};

/* Writes the report of what the view knows now, which must have been polled. Every file is written beside and then
 * renamed. UNAVAILABLE: it cannot be written. */
enum status report_write(struct view *view, const struct report_options *options, struct err *err);
/* Prints a page as PDF by Chromium, which must be on PATH. NOT_FOUND: there is none. seconds: how long that may take. */
enum status report_print_pdf(const char *html, const char *pdf, double seconds, struct err *err);

#endif
