/* From where the particles of the map are seen, on an equal-area projection (Mollweide). */
#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "pipelines/launcher/api/directions_read.h"
#include "pipelines/launcher/report/report_private.h"

enum { NSIDE = 8, PIXELS = 12 * NSIDE * NSIDE, WIDTH = 560, HEIGHT = 290 };

static enum status read_counts(const struct report *report, const char *path, struct directions_spread *spread,
                               struct err *err) {
    char whole[PATH_SIZE];
    int64_t size = 0;
    _cleanup_(file_close) int descriptor = -1;
    TRY(path_join(view_session(report->view)->path, path, whole, sizeof whole, err));
    TRY(file_open_read(whole, &descriptor, &size, err));
    return directions_read(descriptor, size, spread, err);
}

void report_add_directions(struct report *report, const char *stage) {
    _cleanup_(mem_free) double *counts = calloc(PIXELS, sizeof *counts);
    char path[PATH_SIZE];
    _cleanup_(mem_free) struct directions_spread *spread = calloc(1, sizeof *spread);
    const char *symmetry = json_string_value(
        json_object_get(json_object_get(json_object_get(view_graph(report->view), "stages"), stage), "symmetry"));
    report->failed |= spread == NULL || counts == NULL;
    if (spread == NULL || counts == NULL) return;
    spread->nside = NSIDE;
    spread->counts = counts;
    spread->operations = directions_group(symmetry != NULL ? symmetry : "C1", spread->matrices);
    bool known = spread->operations > 0;
    if (!known) spread->operations = directions_group("C1", spread->matrices);
    snprintf(path, sizeof path, "%s/run_data.star", stage);
    if (read_counts(report, path, spread, NULL) != STATUS_OK || spread->particles == 0) return;
    json_t *list = json_array();
    for (size_t i = 0; i < PIXELS; i++)
        json_array_append_new(list, report_number(counts[i], 3));
    json_object_set_new(
        report->data, "directions",
        json_pack("{s:I, s:i, s:o, s:o}", "particles", (json_int_t)spread->particles, "nside", NSIDE, "efficiency",
                  report_number(known ? directions_efficiency(NSIDE, counts) : (double)NAN, 2), "counts", list));
}

/* Finds where a direction lies on the map of the sphere: x from −2 to 2, y from −1 to 1. */
static void project(const double direction[3], double *ret_x, double *ret_y) {
    double latitude = asin(fmax(-1, fmin(1, direction[2]))), angle = latitude;
    for (int i = 0; i < 20 && fabs(fabs(latitude) - M_PI / 2) > 1e-9; i++)
        angle -= (2 * angle + sin(2 * angle) - M_PI * sin(latitude)) / (2 + 2 * cos(2 * angle) + 1e-12);
    *ret_x = 2 / M_PI * atan2(direction[1], direction[0]) * cos(angle);
    *ret_y = sin(angle);
}

void report_directions(struct report *report) {
    const json_t *directions = json_object_get(report->data, "directions"),
                 *counts = json_object_get(directions, "counts");
    double most = 0;
    if (directions == NULL) return;
    for (size_t i = 0; i < PIXELS; i++)
        most = fmax(most, json_number_value(json_array_get(counts, i)));
    put_format(report,
               "<figure><figcaption>Directions of view: darker is more often; the most frequent has %.3g of %lld "
               "particles",
               most, (long long)json_integer_value(json_object_get(directions, "particles")));
    const json_t *efficiency = json_object_get(directions, "efficiency");
    if (json_is_number(efficiency)) put_format(report, "; efficiency %.2f", json_number_value(efficiency));
    put_format(report,
               "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Directions of view\">"
               "<ellipse class=g fill=none cx=\"%d\" cy=\"%d\" rx=\"%d\" ry=\"%d\"/>",
               WIDTH, HEIGHT, WIDTH / 2, HEIGHT / 2, WIDTH / 2 - 6, HEIGHT / 2 - 8);
    for (size_t i = 0; i < PIXELS && most > 0; i++) {
        double count = json_number_value(json_array_get(counts, i)), centre[3], x, y;
        if (!(count > 0)) continue;
        directions_centre(NSIDE, (long)i, centre);
        project(centre, &x, &y);
        put_format(report, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6.5\" fill-opacity=\"%.2f\"/>",
                   WIDTH / 2 + x / 2 * (WIDTH / 2 - 8), HEIGHT / 2 - y * (HEIGHT / 2 - 10), 0.08 + 0.92 * count / most);
    }
    put(report, "</svg></figure>\n");
}
