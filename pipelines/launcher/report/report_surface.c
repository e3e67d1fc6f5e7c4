/* Views of a map's surface: rays through the volume along its axes, shaded by the slope where they meet the level. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/formats/picture_encode.h"
#include "common/memory.h"
#include "pipelines/launcher/api/shrink.h"
#include "pipelines/launcher/report/report_private.h"

/* EDGE: of a view, px, as the EMDB takes it; SIDE_MAX: of the volume that is drawn. */
enum { EDGE = 500, SIDE_MAX = 128, QUALITY = 80, HALVINGS = 6 };
static const double LEVEL = 4; /* standard deviations above the mean */

struct volume {
    float *values; /* [side][side][side] */
    int side;
    float level;
};

static enum status read_slice(void *context, int z, float *slice, struct err *err) {
    return mrc_read_slices(context, z, 1, slice, err);
}

static enum status read_volume(const char *path, struct volume *volume, struct err *err) {
    struct mrc_reader *reader = NULL;
    TRY(mrc_open(path, &reader, err));
    const struct mrc_header header = *mrc_reader_header(reader);
    int side = header.nx < header.ny ? header.nx : header.ny;
    if (header.nz < side) side = header.nz;
    if (side > SIDE_MAX) side = SIDE_MAX;
    side -= side % 2;
    volume->side = side;
    enum status status = STATUS_OK;
    if (side < 8 || header.nx % 2 || header.ny % 2 || header.nz % 2)
        status = err_set(err, STATUS_UNSUPPORTED, __FILE__, __LINE__, "%s: no even cube", path);
    if (status == STATUS_OK)
        status =
            mem_new((size_t)side * (size_t)side * (size_t)side, sizeof *volume->values, "a map", &volume->values, err);
    if (status == STATUS_OK)
        status = shrink_volume(read_slice, reader, (const int[]){header.nz, header.ny, header.nx}, side, volume->values,
                               err);
    mrc_close(&reader);
    return status;
}

static void find_level(struct volume *volume) {
    size_t count = (size_t)volume->side * (size_t)volume->side * (size_t)volume->side;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)volume->values[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += ((double)volume->values[i] - mean) * ((double)volume->values[i] - mean);
    volume->level = (float)(mean + LEVEL * sqrt(squares / (double)count));
}

/* Returns the value at a point (px: x, y, z), linear between voxels; 0 outside. */
static float value_at(const struct volume *v, const double point[3]) {
    int at[3];
    float part[3];
    for (int i = 0; i < 3; i++) {
        double whole = floor(point[i]);
        if (!(whole >= 0) || whole >= v->side - 1) return 0;
        at[i] = (int)whole;
        part[i] = (float)(point[i] - whole);
    }
    size_t n = (size_t)v->side;
    const float *p = v->values + ((size_t)at[2] * n + (size_t)at[1]) * n + (size_t)at[0];
    float x00 = p[0] + part[0] * (p[1] - p[0]), x10 = p[n] + part[0] * (p[n + 1] - p[n]);
    const float *q = p + n * n;
    float x01 = q[0] + part[0] * (q[1] - q[0]), x11 = q[n] + part[0] * (q[n + 1] - q[n]);
    float y0 = x00 + part[1] * (x10 - x00), y1 = x01 + part[1] * (x11 - x01);
    return y0 + part[2] * (y1 - y0);
}

/* A view along an axis: columns and rows of the picture follow the other two. */
struct ray {
    int along, across, down;
    double point[3];
};

/* Goes along the ray to where it meets the surface. Returns whether it does. */
static bool meet(const struct volume *v, struct ray *ray) {
    for (int step = v->side - 2; step >= 0; step--) {
        ray->point[ray->along] = step;
        if (value_at(v, ray->point) < v->level) continue;
        double inside = step, outside = step + 1;
        for (int i = 0; i < HALVINGS; i++) {
            ray->point[ray->along] = 0.5 * (inside + outside);
            if (value_at(v, ray->point) >= v->level)
                inside = ray->point[ray->along];
            else
                outside = ray->point[ray->along];
        }
        ray->point[ray->along] = inside;
        return true;
    }
    return false;
}

/* Returns the light on the surface, 0 to 1: from above left, on the side of whoever looks, and dimmer farther away. */
static double light_at(const struct volume *v, const struct ray *ray) {
    static const double from[3] = {0.4, 0.45, 0.8}; /* along, across, down: of the picture */
    const int axes[3] = {ray->across, ray->down, ray->along};
    const double lamp[3] = {-from[0], -from[1], from[2]};
    double slope[3], length = 0, light = 0;
    for (int i = 0; i < 3; i++) {
        double low[3], high[3];
        memcpy(low, ray->point, sizeof low);
        memcpy(high, ray->point, sizeof high);
        low[axes[i]] -= 1;
        high[axes[i]] += 1;
        slope[i] = (double)value_at(v, low) - (double)value_at(v, high);
        length += slope[i] * slope[i];
    }
    for (int i = 0; i < 3 && length > 0; i++)
        light += slope[i] * lamp[i] / sqrt(length);
    double depth = ray->point[ray->along] / v->side;
    return (0.25 + 0.7 * fmax(0, light)) * (0.6 + 0.4 * depth);
}

static void draw(const struct volume *v, int along, uint8_t *pixels) {
    struct ray ray = {.along = along, .across = (along + 1) % 3, .down = (along + 2) % 3};
    for (int y = 0; y < EDGE; y++)
        for (int x = 0; x < EDGE; x++) {
            ray.point[ray.across] = (x + 0.5) / EDGE * (v->side - 1);
            ray.point[ray.down] = (y + 0.5) / EDGE * (v->side - 1);
            double light = meet(v, &ray) ? light_at(v, &ray) : 1;
            pixels[y * EDGE + x] = (uint8_t)lround(255 * fmin(1, light));
        }
}

static void put_views(struct report *report, const struct volume *volume) {
    static const char *const names[] = {"surface, seen along x", "surface, seen along y", "surface, seen along z"};
    _cleanup_(mem_free) uint8_t *pixels = malloc((size_t)EDGE * EDGE);
    report->failed |= pixels == NULL;
    put(report, "<div class=row>");
    for (int axis = 0; pixels != NULL && axis < 3; axis++) {
        _cleanup_(mem_free) unsigned char *bytes = NULL;
        size_t length;
        draw(volume, axis, pixels);
        if (picture_encode_jpeg(EDGE, EDGE, pixels, QUALITY, &bytes, &length, NULL) != STATUS_OK) continue;
        put(report, "<figure class=surface>");
        report_put_picture(report, "jpeg", bytes, length, names[axis]);
        put_format(report, "<figcaption>%s</figcaption></figure>", names[axis]);
    }
    put_format(report, "</div>\n<p>Surfaces at %.4g, which is %.0f σ above the mean of the map as drawn here.</p>\n",
               (double)volume->level, LEVEL);
}

void report_surfaces(struct report *report, const char *path) {
    struct volume volume = {0};
    char whole[PATH_SIZE];
    if (path_join(view_session(report->view)->path, path, whole, sizeof whole, NULL) == STATUS_OK &&
        read_volume(whole, &volume, NULL) == STATUS_OK) {
        find_level(&volume);
        put_views(report, &volume);
    }
    free(volume.values);
}
