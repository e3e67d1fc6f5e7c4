#include "examples/simulate/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

enum { PIECES = 16, PIECE_BYTES = 1 << 16 };

const char *output_ending(enum output_format format) {
    return format == OUTPUT_TIFF ? ".tif" : ".mrc";
}

static enum status place(const struct output *output, const char *folder, const char *name, char path[PATH_MAX],
                         struct err *err) {
    int length = snprintf(path, PATH_MAX, "%s/%s/%s%s", output->folder, folder, name, output->ending);
    FAIL_IF(length >= PATH_MAX, err, STATUS_BAD_ARGUMENT, "%s: the path is too long", output->folder);
    return STATUS_OK;
}

enum status output_folders(const struct output *output, struct err *err) {
    const char *const names[] = {output->names, ".next"};
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX];
        TRY(path_join(output->folder, names[i], path, sizeof path, err));
        TRY(file_make_folders(path, 0777, err));
    }
    return STATUS_OK;
}

enum status output_hidden(const struct output *output, const char *name, char ret_path[PATH_MAX], struct err *err) {
    return place(output, ".next", name, ret_path, err);
}

static void quantise(const struct output *output, struct image *image) {
    size_t count = image_count(image);
    float step = sqrtf((float)output->counts) / 16;
    for (size_t i = 0; i < count; i++) {
        float value = image->data[i];
        if (output->mode == OUTPUT_UINT16)
            value = fminf(rintf(value), UINT16_MAX);
        else
            value = fmaxf(fminf(rintf((value - (float)output->counts) / step), INT8_MAX), INT8_MIN);
        image->data[i] = value;
    }
}

/* Converts one row to the file's number format. */
static void pack_row(enum output_mode mode, const float *values, int count, void *out) {
    for (int i = 0; i < count; i++)
        if (mode == OUTPUT_FLOAT)
            ((float *)out)[i] = values[i];
        else if (mode == OUTPUT_UINT16)
            ((uint16_t *)out)[i] = (uint16_t)values[i];
        else
            ((int8_t *)out)[i] = (int8_t)values[i];
}

static enum status write_tiff(const struct output *output, const char *path, const struct image *image,
                              struct err *err) {
    static const uint16_t bits[] = {32, 16, 8};
    static const uint16_t formats[] = {SAMPLEFORMAT_IEEEFP, SAMPLEFORMAT_UINT, SAMPLEFORMAT_INT};
    _cleanup_(mem_free) float *row = NULL;
    TRY(mem_new((size_t)image->nx, sizeof *row, "a row of pixels", &row, err));
    TIFF *tiff = TIFFOpen(path, "w");
    FAIL_IF(tiff == NULL, err, STATUS_IO, "%s: cannot be written", path);
    float per_centimetre = 1e8f / image->pixel_size;
    bool good = TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, (uint32_t)image->nx) == 1 &&
                TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, (uint32_t)image->ny) == 1 &&
                TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits[output->mode]) == 1 &&
                TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, formats[output->mode]) == 1 &&
                TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, (uint16_t)1) == 1 &&
                TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, (uint16_t)PHOTOMETRIC_MINISBLACK) == 1 &&
                TIFFSetField(tiff, TIFFTAG_COMPRESSION, (uint16_t)COMPRESSION_NONE) == 1 &&
                TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, (uint32_t)64) == 1 &&
                TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, (uint16_t)RESUNIT_CENTIMETER) == 1 &&
                TIFFSetField(tiff, TIFFTAG_XRESOLUTION, per_centimetre) == 1 &&
                TIFFSetField(tiff, TIFFTAG_YRESOLUTION, per_centimetre) == 1;
    for (int y = 0; good && y < image->ny; y++) { /* TIFF begins with the top line */
        pack_row(output->mode, image->data + (size_t)(image->ny - 1 - y) * (size_t)image->nx, image->nx, row);
        good = TIFFWriteScanline(tiff, row, (uint32_t)y, 0) == 1;
    }
    good = good && TIFFFlush(tiff) == 1;
    TIFFClose(tiff);
    FAIL_IF(!good, err, STATUS_IO, "%s: writing failed", path);
    return STATUS_OK;
}

enum status output_prepare(const struct output *output, const char *name, struct image *image, struct err *err) {
    static const enum mrc_mode modes[] = {MRC_FLOAT32, MRC_UINT16, MRC_INT8};
    char path[PATH_MAX];
    TRY(place(output, ".next", name, path, err));
    if (output->mode != OUTPUT_FLOAT) quantise(output, image);
    if (output->format == OUTPUT_TIFF) return write_tiff(output, path, image, err);
    return mrc_write(path, image, MRC_IMAGE, modes[output->mode], err);
}

void output_wait(double moment) {
    double seconds = moment - clock_monotonic();
    if (seconds <= 0) return;
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&time, NULL);
}

/* Copies `from` to `to` in pieces, with pauses between. */
static enum status grow(const struct output *output, int from, int to, const char *path, struct err *err) {
    struct stat information;
    FAIL_IF(fstat(from, &information) != 0, err, STATUS_IO, "%s: %s", path, strerror(errno));
    double pause = output->grow_seconds / PIECES;
    struct timespec time = {(time_t)pause, (long)(1e9 * (pause - floor(pause)))};
    off_t done = 0;
    for (int piece = 1; piece <= PIECES; piece++) {
        off_t end = information.st_size * piece / PIECES;
        while (done < end) {
            char bytes[PIECE_BYTES];
            size_t wanted = end - done < PIECE_BYTES ? (size_t)(end - done) : PIECE_BYTES;
            ssize_t got = pread(from, bytes, wanted, done);
            FAIL_IF(got <= 0 || write(to, bytes, (size_t)got) != got, err, STATUS_IO, "%s: writing failed: %s", path,
                    strerror(errno));
            done += got;
        }
        nanosleep(&time, NULL);
    }
    return STATUS_OK;
}

static enum status release_growing(const struct output *output, const char *ready, const char *path, struct err *err) {
    int from = open(ready, O_RDONLY | O_CLOEXEC);
    FAIL_IF(from < 0, err, STATUS_IO, "%s: %s", ready, strerror(errno));
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (to < 0) {
        close(from);
        FAIL(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    enum status status = grow(output, from, to, path, err);
    close(from);
    if (close(to) != 0 && status == STATUS_OK)
        status = err_set(err, STATUS_IO, __FILE__, __LINE__, "%s: %s", path, strerror(errno));
    if (status == STATUS_OK && unlink(ready) != 0)
        status = err_set(err, STATUS_IO, __FILE__, __LINE__, "%s: %s", ready, strerror(errno));
    return status;
}

enum status output_release(const struct output *output, const char *name, struct err *err) {
    char ready[PATH_MAX], path[PATH_MAX];
    TRY(place(output, ".next", name, ready, err));
    TRY(place(output, output->names, name, path, err));
    if (output->grow) return release_growing(output, ready, path, err);
    FAIL_IF(rename(ready, path) != 0, err, STATUS_IO, "%s: cannot be renamed to %s: %s", ready, path, strerror(errno));
    return STATUS_OK;
}

enum status output_finish(const struct output *output, struct err *err) {
    char path[PATH_MAX];
    TRY(path_join(output->folder, ".next", path, sizeof path, err));
    FAIL_IF(rmdir(path) != 0 && errno != ENOENT, err, STATUS_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return STATUS_OK;
}
