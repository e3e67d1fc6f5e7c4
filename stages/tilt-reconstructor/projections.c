#include "stages/tilt-reconstructor/projections.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "stages/tilt-reconstructor/resample.h"

void projections_clear(struct projections *projections) {
    projections_source_clear(&projections->source);
    device_host_free(&projections->device, &projections->data);
    free(projections->means);
    free(projections->deviations);
    *projections = (struct projections){0};
}

struct tilt_transform projections_transform(const struct tilt *tilt, double tilt_axis) {
    if (tilt->shifted) return tilt->transform;
    struct tilt_transform turn = {1, 0, 0, 1, 0, 0};
    if (isnan(tilt_axis) || fabs(tilt_axis) < 1e-9) return turn;
    double angle = tilt_axis * acos(-1) / 180;
    return (struct tilt_transform){cos(angle), sin(angle), -sin(angle), cos(angle), 0, 0};
}

void projections_size(const struct series *series, const struct projections_options *options, int *ret_nx,
                      int *ret_ny) {
    int nx = series->nx / options->bin, ny = series->ny / options->bin;
    struct tilt_transform t = {1, 0, 0, 1, 0, 0};
    if (series->count > 0) t = projections_transform(&series->tilts[series->count / 2], options->tilt_axis);
    bool turned = fabs(t.a12) > fabs(t.a11) && fabs(t.a21) > fabs(t.a22);
    *ret_nx = turned ? ny : nx;
    *ret_ny = turned ? nx : ny;
}

enum status projections_resize(struct projections *projections, int nx, int ny, int count, struct err *err) {
    size_t needed = (size_t)nx * (size_t)ny * (size_t)count;
    FAIL_IF(nx < 1 || ny < 1, err, STATUS_BAD_ARGUMENT, "bin leaves nothing of the images: %d × %d px", nx, ny);
    if (needed > projections->capacity) {
        device_host_free(&projections->device, &projections->data);
        projections->capacity = 0;
        TRY(device_host_new(&projections->device, needed, sizeof *projections->data, "the images of a tilt series",
                            &projections->data, err));
        projections->capacity = needed;
    }
    if (count > projections->means_capacity) {
        mem_free(&projections->means);
        mem_free(&projections->deviations);
        projections->means_capacity = 0;
        TRY(mem_new((size_t)count, sizeof *projections->means, "means", &projections->means, err));
        TRY(mem_new((size_t)count, sizeof *projections->deviations, "deviations", &projections->deviations, err));
        projections->means_capacity = count;
    }
    projections->nx = nx;
    projections->ny = ny;
    projections->count = count;
    return STATUS_OK;
}

void projections_source_clear(struct projections_source *source) {
    mrc_close(&source->reader);
    free(source->path);
    image_destroy(&source->read);
    image_destroy(&source->binned);
    *source = (struct projections_source){0};
}

/* Opens a stack, once for all its images. */
static enum status open_stack(struct projections_source *source, const char *path, struct err *err) {
    if (source->path != NULL && strcmp(source->path, path) == 0) return STATUS_OK;
    mrc_close(&source->reader);
    mem_free(&source->path);
    TRY(mrc_open(path, &source->reader, err));
    source->path = strdup(path);
    FAIL_IF(source->path == NULL, err, STATUS_NO_MEMORY, "no memory for the name %s", path);
    return STATUS_OK;
}

static enum status check_size(const struct tilt *tilt, int nx, int ny, int found_nx, int found_ny, int found_nz,
                              struct err *err) {
    FAIL_IF(found_nx != nx || found_ny != ny || found_nz <= tilt->slice, err, STATUS_BAD_FORMAT,
            "%s has changed: %d images of %d × %d px, where %d × %d px and image %d are expected", tilt->path, found_nz,
            found_nx, found_ny, nx, ny, tilt->slice + 1);
    return STATUS_OK;
}

/* Reads one image: of an MRC stack, from a file of its own in any format, or from memory. */
static enum status read_pixels(const struct tilt *tilt, int nx, int ny, struct projections_source *source,
                               struct err *err) {
    struct image_info info;
    struct image *image = &source->read;
    bool open = source->path != NULL && strcmp(source->path, tilt->path) == 0;
    TRY(image_resize_unset(image, nx, ny, 1, err));
    if (tilt->pixels != NULL) {
        memcpy(image->data, tilt->pixels, (size_t)nx * (size_t)ny * sizeof *image->data);
        return STATUS_OK;
    }
    if (!open) TRY(image_probe(tilt->path, &info, err));
    if (!open && info.format != IMAGE_MRC) {
        FAIL_IF(info.nz != 1, err, STATUS_UNSUPPORTED, "%s: stacks must be MRC files (IMOD's tif2mrc makes one)",
                tilt->path);
        TRY(check_size(tilt, nx, ny, info.nx, info.ny, info.nz, err));
        return image_read_micrograph(tilt->path, image, err);
    }
    TRY(open_stack(source, tilt->path, err));
    const struct mrc_header *header = mrc_reader_header(source->reader);
    TRY(check_size(tilt, nx, ny, header->nx, header->ny, header->nz, err));
    return mrc_read_slices(source->reader, tilt->slice, 1, image->data, err);
}

static enum status refuse_nonsense(const struct tilt *tilt, const struct image *image, struct err *err) {
    size_t count = (size_t)image->nx * (size_t)image->ny;
    if (image_values_fit(image->data, count)) return STATUS_OK;
    for (size_t i = 0; i < count; i++)
        FAIL_IF(
            !(fabsf(image->data[i]) < IMAGE_VALUE_MAX), err, STATUS_BAD_FORMAT,
            "%s: view %d (%.2f°) holds %g at column %zu, row %zu, which is not a valid pixel value: mend the image, "
            "or leave it out with exclude",
            tilt->path, tilt->number, tilt->angle, (double)image->data[i], i % (size_t)image->nx + 1,
            i / (size_t)image->nx + 1);
    return STATUS_OK;
}

enum status projections_check(const struct tilt *tilt, int nx, int ny, struct projections_source *source,
                              struct err *err) {
    TRY(read_pixels(tilt, nx, ny, source, err));
    return refuse_nonsense(tilt, &source->read, err);
}

MULTIVERSION static void bin_row(const float *rows, int nx, int bin, int to, float *out) {
    float share = 1 / ((float)bin * (float)bin);
    for (int x = 0; x < to; x++) {
        float sum = 0;
        for (int j = 0; j < bin; j++)
            for (int i = 0; i < bin; i++)
                sum += rows[(size_t)j * (size_t)nx + (size_t)(x * bin + i)];
        out[x] = sum * share;
    }
}

static void bin_image(const struct image *in, int bin, int nx, int ny, float *out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int y = 0; y < ny; y++)
        bin_row(in->data + (size_t)y * (size_t)bin * (size_t)in->nx, in->nx, bin, nx, out + (size_t)y * (size_t)nx);
}

/* Resamples about the centre of the whole image: columns and rows that binning cuts off would move it. */
static void resample(const struct image *in, const struct series *series, const struct tilt_transform *transform,
                     int bin, int nx, int ny, float *out, int threads) {
    struct tilt_transform t = *transform;
    t.dx /= bin;
    t.dy /= bin;
    resample_image(in, 0.5 * series->nx / bin - 0.5, 0.5 * series->ny / bin - 0.5, &t, nx, ny, out, threads);
}

static bool is_identity(const struct tilt_transform *t) {
    const double least = 1e-9;
    return fabs(t->a11 - 1) < least && fabs(t->a22 - 1) < least && fabs(t->a12) < least && fabs(t->a21) < least &&
           fabs(t->dx) < least && fabs(t->dy) < least;
}

/* Returns whether no image is turned or shifted. Then images are cut to whole binned pixels, and the tilt axis moves
 * with them; else all images are resampled about the centres of the whole images, and none is cut. */
static bool lie_as_they_are(const struct series *series, const struct projections_options *options) {
    for (int i = 0; i < series->count; i++) {
        struct tilt_transform t = projections_transform(&series->tilts[i], options->tilt_axis);
        if (!is_identity(&t)) return false;
    }
    return true;
}

static enum status read_tilt(const struct series *series, const struct tilt *tilt,
                             const struct projections_options *options, bool cut, struct projections_source *source,
                             float *out, struct err *err) {
    int nx, ny, bin = options->bin, across = series->nx / bin, along = series->ny / bin;
    projections_size(series, options, &nx, &ny);
    TRY(projections_check(tilt, series->nx, series->ny, source, err));
    struct tilt_transform t = projections_transform(tilt, options->tilt_axis);
    bool fits = nx == across && ny == along && (cut || (across * bin == series->nx && along * bin == series->ny));
    if (is_identity(&t) && fits) {
        if (bin == 1) {
            memcpy(out, source->read.data, (size_t)nx * (size_t)ny * sizeof *out);
            return STATUS_OK;
        }
        bin_image(&source->read, bin, nx, ny, out, options->threads);
        return STATUS_OK;
    }
    const struct image *in = &source->read;
    if (bin > 1) {
        TRY(image_resize_unset(&source->binned, across, along, 1, err));
        bin_image(&source->read, bin, across, along, source->binned.data, options->threads);
        in = &source->binned;
    }
    resample(in, series, &t, bin, nx, ny, out, options->threads);
    return STATUS_OK;
}

enum status projections_read_one(const struct series *series, const struct tilt *tilt,
                                 const struct projections_options *options, struct projections_source *source,
                                 float *out, struct err *err) {
    return read_tilt(series, tilt, options, lie_as_they_are(series, options), source, out, err);
}

enum status projections_read(const struct series *series, const struct projections_options *options,
                             struct projections *projections, struct err *err) {
    int nx, ny;
    projections_size(series, options, &nx, &ny);
    TRY(projections_resize(projections, nx, ny, series->count, err));
    bool cut = lie_as_they_are(series, options);
    projections->shift = cut ? 0.5 * series->nx / options->bin - 0.5 - 0.5 * (nx - 1) : 0;
    mrc_close(&projections->source.reader);
    mem_free(&projections->source.path);
    for (int i = 0; i < series->count; i++)
        TRY(read_tilt(series, &series->tilts[i], options, cut, &projections->source,
                      projections->data + (size_t)i * (size_t)nx * (size_t)ny, err));
    /* The next series may have another file of the same name. */
    mrc_close(&projections->source.reader);
    mem_free(&projections->source.path);
    projections_normalise(projections, options);
    return STATUS_OK;
}

MULTIVERSION static double squares_about(const float *values, size_t count, double mean) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sum;
}

MULTIVERSION static void change(float *values, size_t count, float factor, float offset) {
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] * factor + offset;
}

/* Returns whether the means measure mass: all are positive, and none is small beside the others or the contrast of its
 * image. */
static bool means_tell(const struct projections *p, double *ret_mean) {
    double sum = 0, least = INFINITY, most = -INFINITY;
    for (int i = 0; i < p->count; i++) {
        sum += p->means[i];
        least = fmin(least, p->means[i]);
        most = fmax(most, p->means[i]);
    }
    *ret_mean = sum / p->count;
    if (!(least > 0) || most > 20 * least) return false;
    for (int i = 0; i < p->count; i++)
        if (p->means[i] < 0.01 * p->deviations[i]) return false;
    return true;
}

/* Returns whether the mean of the images exceeds their contrast. */
static bool stand_on_background(const struct projections *p) {
    double contrast = 0;
    for (int i = 0; i < p->count; i++)
        contrast += p->deviations[i] / p->means[i];
    return contrast < p->count;
}

void projections_normalise(struct projections *p, const struct projections_options *options) {
    size_t pixels = (size_t)p->nx * (size_t)p->ny;
    enum projections_normalise how = options->normalise;
#pragma omp parallel for num_threads(options->threads) schedule(static)
    for (int i = 0; i < p->count; i++) {
        p->means[i] = resample_mean(p->data + (size_t)i * pixels, pixels);
        p->deviations[i] = sqrt(squares_about(p->data + (size_t)i * pixels, pixels, p->means[i]) / (double)pixels);
    }
    double overall = 0;
    bool masses = means_tell(p, &overall);
    double background = masses && !options->positive && stand_on_background(p) ? overall : 0;
    if (how == PROJECTIONS_AS_THEY_ARE) return;
#pragma omp parallel for num_threads(options->threads) schedule(static)
    for (int i = 0; i < p->count; i++) {
        float factor = 1, offset = (float)-p->means[i];
        if (how == PROJECTIONS_MASS && masses) {
            factor = (float)(overall / p->means[i]);
            offset = (float)-background;
        }
        if (how == PROJECTIONS_VARIANCE && p->deviations[i] > 0) {
            factor = (float)(1 / p->deviations[i]);
            offset = (float)(-p->means[i] / p->deviations[i]);
        }
        change(p->data + (size_t)i * pixels, pixels, factor, offset);
    }
}
