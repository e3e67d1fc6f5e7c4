#include "examples/simulate-tilts/series_files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "examples/simulate/random.h"

enum { SHIFTS = 1, NOISE = 2 }; /* streams of random numbers */

static int by_size(const void *a, const void *b) {
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    if (x < y || x > y) return x < y ? -1 : 1;
    return *(const double *)a > *(const double *)b ? -1 : 1; /* +3 before −3 */
}

enum status tilt_scheme(double from, double to, double step, bool dose_symmetric, double **ret_angles, int *ret_count,
                        struct err *err) {
    FAIL_IF(
        !(to > from && step > 0 && (to - from) / step < 10000), err, STATUS_BAD_ARGUMENT,
        "tilts from %g° to %g° every %g°: `to` must be above `from`, `step` positive, and the tilts fewer than 10,000",
        from, to, step);
    int count = (int)floor((to - from) / step + 1e-6) + 1;
    double *angles = NULL;
    TRY(mem_new((size_t)count, sizeof *angles, "tilt angles", &angles, err));
    for (int i = 0; i < count; i++)
        angles[i] = from + i * step;
    if (dose_symmetric) qsort(angles, (size_t)count, sizeof *angles, by_size);
    *ret_angles = angles;
    *ret_count = count;
    return STATUS_OK;
}

struct writing {
    const struct series_files_options *options;
    const struct balls *balls;
    struct image image;
    double noise; /* standard deviation */
    FILE *mdoc, *angles, *truth;
    struct mrc_writer *stack;
};

static void writing_clear(struct writing *w) {
    FILE *files[] = {w->mdoc, w->angles, w->truth};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] != NULL) fclose(files[i]);
    mrc_writer_discard(&w->stack);
    image_destroy(&w->image);
}

static enum status path_of(const struct writing *w, const char *ending, char path[PATH_SIZE], struct err *err) {
    char name[PATH_SIZE];
    snprintf(name, sizeof name, "tilts/%s%s", w->options->name, ending);
    return path_join(w->options->folder, name, path, PATH_SIZE, err);
}

static enum status open_text(const char *path, FILE **ret_file, struct err *err) {
    *ret_file = fopen(path, "w");
    FAIL_IF(*ret_file == NULL, err, STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
    return STATUS_OK;
}

static enum status open_files(struct writing *w, struct err *err) {
    const struct series_files_options *o = w->options;
    char path[PATH_SIZE], truth[PATH_SIZE];
    snprintf(truth, sizeof truth, "%s/truth/%s.xf", o->folder, o->name);
    TRY(open_text(truth, &w->truth, err));
    TRY(path_of(w, o->single ? ".mdoc" : ".st.mdoc", path, err));
    TRY(open_text(path, &w->mdoc, err));
    fprintf(w->mdoc, "PixelSpacing = %g\n", o->pixel_size);
    if (!o->single) fprintf(w->mdoc, "ImageFile = %s.st\n", o->name);
    fprintf(w->mdoc, "ImageSize = %d %d\nDataMode = 2\n\n[T = icestream: simulated]\n\n", o->nx, o->ny);
    fputs("[T =     Tilt axis angle = 0.0, binning = 1  spot = 8  camera = 0]\n\n", w->mdoc);
    if (o->single) return STATUS_OK;
    TRY(path_of(w, ".rawtlt", path, err));
    TRY(open_text(path, &w->angles, err));
    TRY(path_of(w, ".st", path, err));
    return mrc_writer_create(path, o->nx, o->ny, (float)o->pixel_size, MRC_STACK, MRC_FLOAT32, &w->stack, err);
}

static void set_noise(struct writing *w) {
    size_t count = image_count(&w->image);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)w->image.data[i];
    for (size_t i = 0; i < count; i++)
        squares += pow((double)w->image.data[i] - sum / (double)count, 2);
    w->noise = w->options->snr > 0 ? sqrt(squares / (double)count / w->options->snr) : 0;
}

/* Paints tilt i of the scheme with its shift. */
static void paint(struct writing *w, double angle, int i, double *ret_dx, double *ret_dy) {
    const struct series_files_options *o = w->options;
    struct random shifts = random_stream(o->seed, (uint64_t)i, SHIFTS),
                  noise = random_stream(o->seed, (uint64_t)i, NOISE);
    *ret_dx = i > 0 ? random_uniform(&shifts, -o->shift, o->shift) : 0;
    *ret_dy = i > 0 ? random_uniform(&shifts, -o->shift, o->shift) : 0;
    memset(w->image.data, 0, image_count(&w->image) * sizeof *w->image.data);
    balls_project(w->balls, angle, *ret_dx, *ret_dy, &w->image);
    if (i == 0) set_noise(w);
    for (size_t p = 0; p < image_count(&w->image); p++) {
        if (w->noise > 0) w->image.data[p] += (float)(w->noise * random_normal(&noise));
        w->image.data[p] += (float)o->background;
    }
}

static void wait_until(double moment) {
    double seconds = moment - clock_monotonic();
    if (seconds <= 0) return;
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&time, NULL);
}

/* Writes the image before its section, so that a reader of the section finds the image. */
static enum status write_tilt(struct writing *w, double angle, int i, struct err *err) {
    const struct series_files_options *o = w->options;
    char path[PATH_SIZE], name[PATH_SIZE], ending[64];
    double dx, dy;
    paint(w, angle, i, &dx, &dy);
    snprintf(name, sizeof name, "%s_%03d_%.1f.mrc", o->name, i + 1, angle);
    snprintf(ending, sizeof ending, "_%03d_%.1f.mrc", i + 1, angle);
    TRY(path_of(w, ending, path, err));
    if (o->single) TRY(mrc_write(path, &w->image, MRC_IMAGE, MRC_FLOAT32, err));
    if (!o->single) TRY(mrc_writer_append(w->stack, w->image.data, err));
    if (!o->single) fprintf(w->angles, "%.2f\n", angle);
    fprintf(w->mdoc, "[ZValue = %d]\nTiltAngle = %.4f\nPixelSpacing = %g\nRotationAngle = 90\n", i, angle,
            o->pixel_size);
    fprintf(w->mdoc, "ExposureDose = 3\nSubFramePath = X:\\simulated\\%s\n\n", name);
    fprintf(w->truth, "1.0 0.0 0.0 1.0 %.4f %.4f\n", -dx, -dy);
    FAIL_IF(fflush(w->mdoc) != 0, err, STATUS_IO, "the .mdoc of %s cannot be written: %s", o->name, strerror(errno));
    return STATUS_OK;
}

enum status series_files_write(const struct series_files_options *options, const struct balls *balls,
                               const double *angles, int count, struct err *err) {
    _cleanup_(writing_clear) struct writing w = {.options = options, .balls = balls};
    TRY(open_files(&w, err));
    TRY(image_resize(&w.image, options->nx, options->ny, 1, err));
    w.image.pixel_size = (float)options->pixel_size;
    double start = clock_monotonic();
    for (int i = 0; i < count; i++) {
        wait_until(start + i * options->interval);
        TRY(write_tilt(&w, angles[i], i, err));
    }
    bool failed = fflush(w.truth) != 0 || (w.angles != NULL && fflush(w.angles) != 0);
    FAIL_IF(failed, err, STATUS_IO, "%s: its angles cannot be written: %s", options->name, strerror(errno));
    return w.stack != NULL ? mrc_writer_finish(&w.stack, err) : STATUS_OK;
}
