#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/mrc_pixels.h"
#include "common/memory.h"
#include "common/multiversion.h"

enum { HEADER_BYTES = 1024, LABEL = 224, LABEL_BYTES = 80, LABELS = 10 };

struct mrc_writer {
    struct file_output *output;
    char *path;
    int nx, ny, nz;
    float pixel_size;
    enum mrc_kind kind;
    enum mrc_mode mode;
    float minimum, maximum;
    int labels; /* besides the first */
    char label[LABELS - 1][LABEL_BYTES];
    double count, mean, squares; /* squares: sum of squared deviations from the mean */
    _Alignas(64) unsigned char stored[MRC_CHUNK * 4];
    _Alignas(64) float as_stored[MRC_CHUNK];
};

enum status mrc_writer_create(const char *path, int nx, int ny, float pixel_size, enum mrc_kind kind,
                              enum mrc_mode mode, struct mrc_writer **ret_writer, struct err *err) {
    FAIL_IF(nx < 1 || ny < 1, err, STATUS_BAD_ARGUMENT, "%s: an image of %d × %d pixels cannot be written", path, nx,
            ny);
    FAIL_IF(mrc_pixel_bytes((int)mode) == 0, err, STATUS_BAD_ARGUMENT,
            "%s: mode %d cannot be written; 0, 1, 2, 6 or 12 is expected", path, (int)mode);
    _cleanup_(mrc_writer_discard) struct mrc_writer *writer = NULL;
    TRY(mem_new(1, sizeof *writer, "writing an MRC file", &writer, err));
    writer->nx = nx;
    writer->ny = ny;
    writer->pixel_size = pixel_size;
    writer->kind = kind;
    writer->mode = mode;
    writer->minimum = INFINITY;
    writer->maximum = -INFINITY;
    writer->path = strdup(path);
    FAIL_IF(writer->path == NULL, err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    TRY(file_create(path, &writer->output, err));
    /* Leave room for the header, which is complete at the end. */
    static const unsigned char room[HEADER_BYTES];
    (void)!fwrite(room, 1, sizeof room, file_output_stream(writer->output));
    *ret_writer = writer;
    writer = NULL;
    return STATUS_OK;
}

void mrc_writer_discard(struct mrc_writer **writer) {
    if (writer == NULL || *writer == NULL) return;
    file_discard(&(*writer)->output);
    free((*writer)->path);
    mem_free(writer);
}

MULTIVERSION static void extremes(const float *values, size_t count, float *least, float *most, double *sum) {
    float low = *least, high = *most;
    double total = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(+ : total)
    for (size_t i = 0; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
        total += values[i];
    }
    *least = low;
    *most = high;
    *sum = total;
}

MULTIVERSION static double squared_deviations(const float *values, size_t count, double mean) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (size_t i = 0; i < count; i++)
        total += (values[i] - mean) * (values[i] - mean);
    return total;
}

/* Adds the statistics of a part by Chan's update, which stays exact for any number of parts; a sum of squares would
 * lose digits. */
static void add_statistics(struct mrc_writer *w, const float *values, size_t count) {
    double sum = 0, n = (double)count;
    extremes(values, count, &w->minimum, &w->maximum, &sum);
    double mean = sum / n, total = w->count + n, difference = mean - w->mean;
    w->squares += squared_deviations(values, count, mean) + difference * difference * w->count * n / total;
    w->mean += difference * n / total;
    w->count = total;
}

static enum status put_values(struct mrc_writer *w, const void *values, size_t size, size_t count, struct err *err) {
    FAIL_IF(fwrite(values, size, count, file_output_stream(w->output)) != count, err, status_of_writing(errno),
            "%s: slice %d cannot be written: %s", w->path, w->nz + 1, status_reason(errno));
    return STATUS_OK;
}

/* Appends pixels, converted to the mode of the file; float32 needs no conversion. */
static enum status append_part(struct mrc_writer *w, const float *values, size_t count, struct err *err) {
    bool as_they_are = w->mode == MRC_FLOAT32;
    if (!as_they_are) mrc_from_float(w->mode, values, count, w->stored, w->as_stored);
    add_statistics(w, as_they_are ? values : w->as_stored, count);
    return put_values(w, as_they_are ? (const void *)values : w->stored, mrc_pixel_bytes((int)w->mode), count, err);
}

enum status mrc_writer_append(struct mrc_writer *writer, const float *slice, struct err *err) {
    FAIL_IF(writer->kind == MRC_IMAGE && writer->nz == 1, err, STATUS_BAD_STATE,
            "%s: a second slice does not fit into a single image", writer->path);
    FAIL_IF(writer->nz == INT_MAX, err, STATUS_BAD_STATE, "%s: too many slices", writer->path);
    size_t total = (size_t)writer->nx * (size_t)writer->ny;
    for (size_t done = 0; done < total; done += MRC_CHUNK)
        TRY(append_part(writer, slice + done, total - done < MRC_CHUNK ? total - done : MRC_CHUNK, err));
    writer->nz++;
    return STATUS_OK;
}

void mrc_writer_label(struct mrc_writer *writer, const char *text) {
    if (writer->labels == LABELS - 1) return;
    char *label = writer->label[writer->labels++];
    size_t length = strlen(text);
    memset(label, ' ', LABEL_BYTES);
    memcpy(label, text, length < LABEL_BYTES ? length : LABEL_BYTES);
}

static void put(unsigned char *bytes, size_t offset, int32_t value) {
    memcpy(bytes + offset, &value, sizeof value);
}

static void put_float(unsigned char *bytes, size_t offset, double number) {
    float value = (float)number;
    memcpy(bytes + offset, &value, sizeof value);
}

static void fill_header(const struct mrc_writer *w, unsigned char *bytes) {
    bool volume = w->kind == MRC_VOLUME;
    int sides[3] = {w->nx, w->ny, w->nz}, intervals[3] = {w->nx, w->ny, volume ? w->nz : 1};
    for (size_t i = 0; i < 3; i++) {
        put(bytes, 4 * i, sides[i]);
        put(bytes, 28 + 4 * i, intervals[i]);
        put_float(bytes, 40 + 4 * i, (double)intervals[i] * w->pixel_size);
        put_float(bytes, 52 + 4 * i, 90);
        put(bytes, 64 + 4 * i, (int32_t)i + 1);
    }
    put(bytes, 12, (int32_t)w->mode);
    put_float(bytes, 76, w->minimum);
    put_float(bytes, 80, w->maximum);
    put_float(bytes, 84, w->mean);
    put(bytes, 88, volume ? 1 : 0);
    put(bytes, 108, 20141);
    memcpy(bytes + 208, "MAP ", 4);
    const uint16_t one = 1;
    bool little = *(const unsigned char *)&one == 1;
    bytes[212] = little ? 0x44 : 0x11;
    bytes[213] = little ? 0x41 : 0x11;
    put_float(bytes, 216, sqrt(w->squares / w->count));
    put(bytes, 220, 1 + w->labels);
    memset(bytes + LABEL, ' ', LABEL_BYTES);
    memcpy(bytes + LABEL, "icestream " ICESTREAM_VERSION, strlen("icestream " ICESTREAM_VERSION));
    memcpy(bytes + LABEL + LABEL_BYTES, w->label, (size_t)w->labels * LABEL_BYTES);
}

enum status mrc_writer_finish(struct mrc_writer **writer, struct err *err) {
    struct mrc_writer *w = *writer;
    enum status status = STATUS_OK;
    if (w->nz == 0) {
        status = err_set(err, STATUS_BAD_STATE, __FILE__, __LINE__, "%s: no slice was written to it", w->path);
    } else {
        unsigned char bytes[HEADER_BYTES] = {0};
        fill_header(w, bytes);
        FILE *out = file_output_stream(w->output);
        if (fseek(out, 0, SEEK_SET) != 0 || fwrite(bytes, 1, sizeof bytes, out) != sizeof bytes)
            status = err_set(err, status_of_writing(errno), __FILE__, __LINE__, "%s: its header cannot be written: %s",
                             w->path, status_reason(errno));
        else
            status = file_commit(&w->output, err);
    }
    mrc_writer_discard(writer);
    return status;
}

enum status mrc_write(const char *path, const struct image *image, enum mrc_kind kind, enum mrc_mode mode,
                      struct err *err) {
    FAIL_IF(image->nz < 1 || image->data == NULL, err, STATUS_BAD_ARGUMENT, "%s: an empty image cannot be written",
            path);
    FAIL_IF(kind == MRC_IMAGE && image->nz != 1, err, STATUS_BAD_ARGUMENT,
            "%s: %d slices cannot be written as a single image", path, image->nz);
    _cleanup_(mrc_writer_discard) struct mrc_writer *writer = NULL;
    TRY(mrc_writer_create(path, image->nx, image->ny, image->pixel_size, kind, mode, &writer, err));
    size_t pixels = (size_t)image->nx * (size_t)image->ny;
    for (int z = 0; z < image->nz; z++)
        TRY(mrc_writer_append(writer, image->data + (size_t)z * pixels, err));
    return mrc_writer_finish(&writer, err);
}
