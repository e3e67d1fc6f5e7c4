/* Pictures inside the page: example micrographs, class sheets, slices of a map. What cannot be read is left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/formats/picture_encode.h"
#include "common/memory.h"
#include "pipelines/launcher/report/report_private.h"

enum { EDGE = 512, QUALITY = 75, EXAMPLES = 9, FILE_MAX = 3 << 20, MICROGRAPH_MAX = 1 << 28, VOLUME_MAX = 512 };

void report_put_picture(struct report *report, const char *type, const unsigned char *bytes, size_t length,
                        const char *alt) {
    if (report->picture_bytes + length > REPORT_PICTURES_MAX * 3 / 4) return;
    report->picture_bytes += length;
    put_format(report, "<img alt=\"");
    put_text(report, alt);
    put_format(report, "\" src=\"data:image/%s;base64,", type);
    put_base64(report, bytes, length);
    put(report, "\">");
}

void report_picture_file(struct report *report, const char *path, const char *alt) {
    char whole[PATH_SIZE];
    _cleanup_(mem_free) char *bytes = NULL;
    size_t length;
    size_t name = strlen(path);
    if (path_join(view_session(report->view)->path, path, whole, sizeof whole, NULL) != STATUS_OK ||
        file_read_whole(whole, FILE_MAX, &bytes, &length, NULL) != STATUS_OK)
        return;
    bool jpeg = name > 4 && strcmp(path + name - 4, ".jpg") == 0;
    put(report, "<figure>");
    report_put_picture(report, jpeg ? "jpeg" : "png", (const unsigned char *)bytes, length, alt);
    put(report, "</figure>\n");
}

/* Makes grey values of an image, from two standard deviations below its mean to two above. The caller frees them. */
static uint8_t *grey_of(const float *values, int nx, int ny, float spread) {
    size_t count = (size_t)nx * (size_t)ny;
    uint8_t *pixels = malloc(count + 1);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    double mean = sum / (double)count, sd = sqrt(fmax(0, squares / (double)count - mean * mean));
    for (size_t i = 0; pixels != NULL && i < count; i++) {
        double grey = sd > 0 ? 127.5 + 127.5 * ((double)values[i] - mean) / ((double)spread * sd) : 127.5;
        pixels[i] = grey < 0 ? 0 : grey > 255 ? 255 : (uint8_t)grey;
    }
    return pixels;
}

/* Averages boxes of pixels so that no side is longer than EDGE, in place; sets the new shape. */
static void shrink(float *values, int *nx, int *ny) {
    int by = (*nx > *ny ? *nx : *ny) / EDGE + ((*nx > *ny ? *nx : *ny) % EDGE != 0);
    int mx = *nx / by, my = *ny / by;
    if (by <= 1 || mx == 0 || my == 0) return;
    for (int y = 0; y < my; y++)
        for (int x = 0; x < mx; x++) {
            double sum = 0;
            for (int v = 0; v < by; v++)
                for (int u = 0; u < by; u++)
                    sum += (double)
                        values[((size_t)y * (size_t)by + (size_t)v) * (size_t)*nx + (size_t)x * (size_t)by + (size_t)u];
            values[(size_t)y * (size_t)mx + (size_t)x] = (float)(sum / (by * by));
        }
    *nx = mx;
    *ny = my;
}

static void put_jpeg(struct report *report, const float *values, int nx, int ny, float spread, const char *alt) {
    _cleanup_(mem_free) uint8_t *pixels = grey_of(values, nx, ny, spread);
    _cleanup_(mem_free) unsigned char *bytes = NULL;
    size_t length;
    if (pixels != NULL && picture_encode_jpeg(nx, ny, pixels, QUALITY, &bytes, &length, NULL) == STATUS_OK)
        report_put_picture(report, "jpeg", bytes, length, alt);
}

/* Reads the micrograph that the item names, or else its thumbnail. Returns whether there was a picture. */
static bool put_micrograph(struct report *report, const json_t *item, const char *alt) {
    struct image image = {0};
    struct mrc_header header;
    char whole[PATH_SIZE];
    const char *path = json_string_value(json_object_get(json_object_get(item, "micrograph"), "path"));
    const char *folder = view_session(report->view)->path;
    if (path != NULL && path_join(folder, path, whole, sizeof whole, NULL) == STATUS_OK &&
        mrc_read_header(whole, &header, NULL) == STATUS_OK && header.nz == 1 &&
        mem_bytes((size_t)header.nx, (size_t)header.ny) < MICROGRAPH_MAX &&
        mrc_read(whole, &image, NULL) == STATUS_OK) {
        int nx = image.nx, ny = image.ny;
        shrink(image.data, &nx, &ny);
        put_jpeg(report, image.data, nx, ny, 3, alt);
        image_destroy(&image);
        return true;
    }
    const char *thumb = json_string_value(json_object_get(json_object_get(item, "display"), "thumb"));
    _cleanup_(mem_free) char *bytes = NULL;
    size_t length;
    if (thumb == NULL || thumb[0] == '/' || path_join(folder, thumb, whole, sizeof whole, NULL) != STATUS_OK ||
        file_read_whole(whole, FILE_MAX, &bytes, &length, NULL) != STATUS_OK)
        return false;
    report_put_picture(report, "jpeg", (const unsigned char *)bytes, length, alt);
    return true;
}

struct ranked {
    double value;
    size_t row;
};

static int by_rank(const void *a, const void *b) {
    const struct ranked *one = a, *other = b;
    if (one->value != other->value) return (one->value > other->value) - (one->value < other->value);
    return (one->row > other->row) - (one->row < other->row);
}

static void put_group(struct report *report, const char *title, const struct ranked *ranked, size_t count,
                      const struct quantity *quantity) {
    put_format(report, "<h3>%s</h3><div class=row>", title);
    for (size_t i = 0; i < count; i++) {
        const struct view_row *row = view_row(report->view, ranked[i].row);
        json_t *json = NULL;
        if (view_item(report->view, ranked[i].row, &json, NULL) != STATUS_OK) continue;
        put(report, "<figure class=example>");
        put_micrograph(report, json_object_get(json, "item"), row->name);
        put(report, "<figcaption>");
        put_text(report, path_name(row->name));
        put_format(report, "<br>%.*f %s</figcaption></figure>", quantity->decimals, ranked[i].value, quantity->unit);
        json_decref(json);
    }
    put(report, "</div>\n");
}

/* The quantity that ranks the examples: the CTF's resolution, or the first that the session has. */
static const struct quantity *ranking(const struct report *report, size_t *ret_count) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < report_quantity_count; i++) {
            const struct quantity *q = &report_quantities[i];
            if (pass == 0 && strcmp(q->key, "resolution") != 0) continue;
            double *sorted = report_sorted(report->view, q, ret_count);
            free(sorted);
            if (*ret_count > 0) return q;
        }
    return NULL;
}

void report_examples(struct report *report) {
    size_t count = 0;
    const struct quantity *q = ranking(report, &count);
    _cleanup_(mem_free) struct ranked *ranked = q != NULL ? calloc(count + 1, sizeof *ranked) : NULL;
    if (ranked == NULL) return;
    count = 0;
    for (size_t i = 0; i < view_row_count(report->view); i++) {
        double value = report_quantity(report->view, q, i);
        if (isfinite(value)) ranked[count++] = (struct ranked){q->low_is_good ? value : -value, i};
    }
    qsort(ranked, count, sizeof *ranked, by_rank);
    for (size_t i = 0; i < count; i++)
        ranked[i].value *= q->low_is_good ? 1 : -1;
    size_t each = count / 3 < EXAMPLES ? count / 3 : EXAMPLES;
    if (each == 0) each = 1;
    put(report, "<p>Examples, by ");
    put_text(report, q->label);
    put(report, ".</p>");
    put_group(report, "Best", ranked, each, q);
    if (count >= 3) put_group(report, "Middle", ranked + (count - each) / 2, each, q);
    if (count >= 2) put_group(report, "Worst", ranked + count - each, each, q);
}

/* ---- slices of a map ---- */

static void take_slice(const struct image *volume, int axis, float *out) {
    size_t n = (size_t)volume->nx, m = n / 2;
    for (size_t v = 0; v < n; v++)
        for (size_t u = 0; u < n; u++) {
            size_t x = axis == 0 ? m : u, y = axis == 1 ? m : axis == 0 ? u : v, z = axis == 2 ? m : v;
            out[v * n + u] = volume->data[(z * n + y) * n + x];
        }
}

void report_slices(struct report *report, const char *path) {
    static const char *const names[] = {"slice through the centre, along x", "slice through the centre, along y",
                                        "slice through the centre, along z"};
    struct image volume = {0};
    struct mrc_header header;
    char whole[PATH_SIZE];
    if (path_join(view_session(report->view)->path, path, whole, sizeof whole, NULL) != STATUS_OK ||
        mrc_read_header(whole, &header, NULL) != STATUS_OK || header.nx != header.ny || header.nx != header.nz ||
        header.nx > VOLUME_MAX || mrc_read(whole, &volume, NULL) != STATUS_OK)
        return;
    size_t count = (size_t)volume.nx * (size_t)volume.nx;
    _cleanup_(mem_free) float *slice = malloc(count * sizeof *slice);
    put(report, "<div class=row>");
    for (int axis = 0; slice != NULL && axis < 3; axis++) {
        take_slice(&volume, axis, slice);
        put(report, "<figure class=example>");
        put_jpeg(report, slice, volume.nx, volume.nx, 4, names[axis]);
        put_format(report, "<figcaption>%s</figcaption></figure>", names[axis]);
    }
    put(report, "</div>\n");
    image_destroy(&volume);
}
