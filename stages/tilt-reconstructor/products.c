#include "stages/tilt-reconstructor/products.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/picture.h"
#include "common/memory.h"

static const char *const matrices[] = {"auto", "on-the-fly", "ellr", "blob-ellr"};
static const char *const bases[] = {"blob", "linear", "voxel"};

enum { PICTURE_SIDE = 1024, GAP = 4, RECORD_LIMIT = 16 << 20 };
static const double CONTRAST = 3;

/* One of the three slices; in (i, j) j points upwards. */
struct plane {
    const float *origin;
    size_t step_i, step_j;
    int ni, nj;
};

static float plane_at(const struct plane *plane, int i, int j) {
    return plane->origin[(size_t)i * plane->step_i + (size_t)j * plane->step_j];
}

static void measure(const struct plane *planes, int count, double *ret_mean, double *ret_deviation) {
    double sum = 0, squares = 0, n = 0;
    for (int p = 0; p < count; p++)
        for (int j = 0; j < planes[p].nj; j++)
            for (int i = 0; i < planes[p].ni; i++, n++)
                sum += (double)plane_at(&planes[p], i, j);
    *ret_mean = sum / n;
    for (int p = 0; p < count; p++)
        for (int j = 0; j < planes[p].nj; j++)
            for (int i = 0; i < planes[p].ni; i++) {
                double d = (double)plane_at(&planes[p], i, j) - *ret_mean;
                squares += d * d;
            }
    *ret_deviation = sqrt(squares / n);
}

struct canvas {
    uint8_t *pixels;
    int nx, ny, shrink;
    double mean, factor;
};

/* Paints averages of shrink² values; (left, bottom) counts from the lower left corner of the picture. */
static void paint(const struct canvas *canvas, const struct plane *plane, int left, int bottom) {
    int s = canvas->shrink;
    for (int j = 0; j < plane->nj / s; j++)
        for (int i = 0; i < plane->ni / s; i++) {
            double sum = 0;
            for (int b = 0; b < s; b++)
                for (int a = 0; a < s; a++)
                    sum += (double)plane_at(plane, i * s + a, j * s + b);
            double grey = 127.5 + canvas->factor * (sum / (s * s) - canvas->mean);
            int row = canvas->ny - 1 - (bottom + j), column = left + i;
            canvas->pixels[(size_t)row * (size_t)canvas->nx + (size_t)column] = (uint8_t)fmin(fmax(grey, 0), 255);
        }
}

enum status products_picture(const float *volume, int nx, int ny, int nz, const char *path, struct err *err) {
    size_t row = (size_t)nx, slice = (size_t)nx * (size_t)ny;
    const struct plane planes[] = {
        {volume + (size_t)(nz / 2) * slice, 1, row, nx, ny},
        {volume + (size_t)(ny / 2) * row, 1, slice, nx, nz},
        {volume + (size_t)(nx / 2), slice, row, nz, ny},
    };
    int longest = (nx > ny ? nx : ny) + nz, shrink = (longest + PICTURE_SIDE - 1) / PICTURE_SIDE;
    while (shrink > 1 && (nx / shrink == 0 || ny / shrink == 0 || nz / shrink == 0))
        shrink--;
    struct canvas canvas = {
        .nx = nx / shrink + GAP + nz / shrink, .ny = ny / shrink + GAP + nz / shrink, .shrink = shrink};
    _cleanup_(mem_free) uint8_t *pixels = NULL;
    TRY(mem_new((size_t)canvas.nx * (size_t)canvas.ny, 1, "a picture", &pixels, err));
    canvas.pixels = pixels;
    double deviation;
    measure(planes, 3, &canvas.mean, &deviation);
    canvas.factor = deviation > 0 ? 127.5 / (CONTRAST * deviation) : 0;
    paint(&canvas, &planes[0], 0, 0);
    paint(&canvas, &planes[1], 0, ny / shrink + GAP);
    paint(&canvas, &planes[2], nx / shrink + GAP, 0);
    return picture_write_grey(path, canvas.nx, canvas.ny, pixels, err);
}

static double pixel_size(const struct reconstruction_settings *settings, const struct reconstruction *reconstruction) {
    return isnan(reconstruction->series.pixel_size) ? 0 : reconstruction->series.pixel_size * settings->bin;
}

static enum status write_volume(const struct reconstruction_settings *settings,
                                const struct reconstruction *reconstruction, const char *path, struct err *err) {
    _cleanup_(mrc_writer_discard) struct mrc_writer *writer = NULL;
    const struct projections *p = &reconstruction->projections;
    const struct tomography_options *t = &settings->tomography;
    char label[MRC_LABEL_SIZE];
    size_t slice = (size_t)p->nx * (size_t)p->ny;
    TRY(mrc_writer_create(path, p->nx, p->ny, (float)pixel_size(settings, reconstruction), MRC_VOLUME, settings->mode,
                          &writer, err));
    snprintf(label, sizeof label, "tomogram: x, y (tilt axis), z; %d tilts, %.1f to %.1f degrees", p->count,
             reconstruction->angles[0], reconstruction->angles[p->count - 1]);
    mrc_writer_label(writer, label);
    if (t->method == TOMOGRAPHY_WBP)
        snprintf(label, sizeof label, "weighted back-projection");
    else
        snprintf(label, sizeof label, "SIRT, %s basis, %d iterations, relaxation %g%s", bases[t->basis],
                 reconstruction->iterations, t->relaxation, t->non_negative ? ", non-negative" : "");
    mrc_writer_label(writer, label);
    for (int z = 0; z < reconstruction->nz; z++)
        TRY(mrc_writer_append(writer, reconstruction->volume + (size_t)z * slice, err));
    return mrc_writer_finish(&writer, err);
}

static enum status write_residuals(const struct reconstruction *reconstruction, const char *path, struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fputs("iteration,residual\n", out);
    for (int i = 0; i < reconstruction->iterations; i++)
        fprintf(out, "%d,%.9g\n", i + 1, reconstruction->residuals[i]);
    return file_commit(&output, err);
}

static json_t *describe_tilts(const struct reconstruction *reconstruction) {
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < reconstruction->series.count; i++) {
        const struct tilt *tilt = &reconstruction->series.tilts[i];
        json_t *one =
            json_pack("{s:i, s:f, s:f, s:f}", "view", tilt->number, "angle", tilt->angle, "mean",
                      reconstruction->projections.means[i], "deviation", reconstruction->projections.deviations[i]);
        if (one != NULL && tilt->shifted) {
            const struct tilt_transform *t = &tilt->transform;
            json_object_set_new(one, "transform",
                                json_pack("[f,f,f,f,f,f]", t->a11, t->a12, t->a21, t->a22, t->dx, t->dy));
        }
        json_array_append_new(list, one);
    }
    return list;
}

/* Returns a JSON string, "?" for a text that is not UTF-8. */
static json_t *text_of(const char *text) {
    json_t *string = json_string(text);
    return string != NULL ? string : json_string("?");
}

static enum status write_record(const struct reconstruction_settings *settings,
                                const struct reconstruction *reconstruction, const struct products *paths,
                                uint64_t fingerprint, struct err *err) {
    const struct tomography_options *t = &settings->tomography;
    const struct projections *p = &reconstruction->projections;
    char print[24];
    snprintf(print, sizeof print, "%016" PRIx64, fingerprint);
    bool sirt = t->method == TOMOGRAPHY_SIRT;
    json_t *record = json_pack(
        "{s:i, s:o, s:o, s:s, s:[i,i,i], s:f, s:i, s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:s, s:f, s:O, s:o}", "v", 1,
        "series", text_of(reconstruction->series.name), "tomogram", text_of(path_name(paths->tomogram)), "fingerprint",
        print, "size", p->nx, p->ny, reconstruction->nz, "pixel_size", pixel_size(settings, reconstruction), "bin",
        settings->bin, "method", sirt ? "sirt" : "wbp", "basis", sirt ? bases[t->basis] : "", "matrix",
        matrices[reconstruction->matrix], "iterations", reconstruction->iterations, "slabs", reconstruction->slabs,
        "residual",
        sirt && reconstruction->iterations > 0 ? reconstruction->residuals[reconstruction->iterations - 1] : 0.0,
        "tilt_axis", reconstruction->tilt_axis, "alignment", reconstruction->alignment, "seconds",
        reconstruction->seconds, "notes", reconstruction->series.notes, "tilts", describe_tilts(reconstruction));
    _cleanup_(mem_free) char *text =
        record != NULL ? json_dumps(record, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(record);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the record of %s", reconstruction->series.name);
    return file_write_whole(paths->record, text, strlen(text), err);
}

enum status products_write(const struct reconstruction_settings *settings, const struct reconstruction *reconstruction,
                           const struct products *paths, uint64_t fingerprint, struct err *err) {
    TRY(write_volume(settings, reconstruction, paths->tomogram, err));
    TRY(products_picture(reconstruction->volume, reconstruction->projections.nx, reconstruction->projections.ny,
                         reconstruction->nz, paths->slices, err));
    if (paths->residuals != NULL && settings->tomography.method == TOMOGRAPHY_SIRT)
        TRY(write_residuals(reconstruction, paths->residuals, err));
    return paths->record != NULL ? write_record(settings, reconstruction, paths, fingerprint, err) : STATUS_OK;
}

bool products_are_of(const struct products *paths, uint64_t fingerprint) {
    _cleanup_(mem_free) char *text = NULL;
    char print[24];
    if (!file_exists(paths->tomogram) || file_read_whole(paths->record, RECORD_LIMIT, &text, NULL, NULL) != STATUS_OK)
        return false;
    snprintf(print, sizeof print, "%016" PRIx64, fingerprint);
    json_t *record = json_loads(text, 0, NULL);
    const char *found = json_string_value(json_object_get(record, "fingerprint"));
    bool same = found != NULL && strcmp(found, print) == 0;
    json_decref(record);
    return same;
}
