#include "common/formats/image.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/picture.h"
#include "common/formats/tiff.h"
#include "common/memory.h"

typedef enum status memory_maker(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err);

static enum status resize(struct image *image, int nx, int ny, int nz, memory_maker *make, struct err *err) {
    size_t count = 0;
    FAIL_IF(nx < 1 || ny < 1 || nz < 1, err, STATUS_BAD_ARGUMENT, "an image of %d × %d × %d pixels cannot be", nx, ny,
            nz);
    FAIL_IF(__builtin_mul_overflow((size_t)nx * (size_t)ny, (size_t)nz, &count), err, STATUS_NO_MEMORY,
            "no memory for an image of %d × %d × %d pixels", nx, ny, nz);
    if (count > image->capacity) {
        float *data = NULL;
        TRY(make(count, sizeof *data, "pixels", &data, err));
        free(image->data);
        image->data = data;
        image->capacity = count;
    }
    image->nx = nx;
    image->ny = ny;
    image->nz = nz;
    return STATUS_OK;
}

enum status image_resize(struct image *image, int nx, int ny, int nz, struct err *err) {
    return resize(image, nx, ny, nz, mem_new, err);
}

enum status image_resize_unset(struct image *image, int nx, int ny, int nz, struct err *err) {
    return resize(image, nx, ny, nz, mem_new_unset, err);
}

void image_destroy(struct image *image) {
    if (image == NULL) return;
    free(image->data);
    *image = (struct image){0};
}

/* What other files are called, to say what was found instead. */
static const struct {
    const char *magic;
    size_t offset, length;
    const char *what;
} FOREIGN[] = {
    {"\x1f\x8b", 0, 2, "a gzip-compressed file: unpack it first"},
    {"BZh", 0, 3, "a bzip2-compressed file: unpack it first"},
    {"\xfd"
     "7zXZ",
     0, 5, "an xz-compressed file: unpack it first"},
    {"\x28\xb5\x2f\xfd", 0, 4, "a zstd-compressed file: unpack it first"},
    {"PK\x03\x04", 0, 4, "a zip archive: unpack it first"},
    {"\x89HDF", 0, 4, "an HDF5 file"},
    {"GIF8", 0, 4, "a GIF picture"},
    {"BM", 0, 2, "a BMP picture"},
    {"%PDF", 0, 4, "a PDF document"},
    {"\x7f"
     "ELF",
     0, 4, "a program"},
};

/* bytes: the file's first; all of it when it is shorter than an image can be. */
static enum status foreign(const char *path, const unsigned char *bytes, size_t length, bool is_short,
                           struct err *err) {
    const char *what = "its content is none of these";
    size_t text = 0;
    while (text < length && ((bytes[text] >= ' ' && bytes[text] < 127) || bytes[text] == '\n' || bytes[text] == '\r' ||
                             bytes[text] == '\t'))
        text++;
    if (text == length) what = "it holds text";
    for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; i++)
        if (length >= FOREIGN[i].offset + FOREIGN[i].length &&
            memcmp(bytes + FOREIGN[i].offset, FOREIGN[i].magic, FOREIGN[i].length) == 0)
            what = FOREIGN[i].what;
    FAIL_IF(is_short, err, STATUS_TRUNCATED,
            "%s: ends at byte %zu, which is too short for an MRC, TIFF, PNG or JPEG file; %s%s", path, length,
            what[0] == 'a' ? "it is " : "", what);
    FAIL(err, STATUS_BAD_FORMAT, "%s: an MRC, TIFF, PNG or JPEG file is expected; %s%s", path,
         what[0] == 'a' ? "it is " : "", what);
}

static bool begins(const unsigned char *bytes, size_t length, const char *magic, size_t magic_length) {
    return length >= magic_length && memcmp(bytes, magic, magic_length) == 0;
}

static enum status find_format(const char *path, enum image_format *ret_format, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    int64_t size = 0;
    unsigned char bytes[1024];
    TRY(file_open_read(path, &descriptor, &size, err));
    FAIL_IF(size == 0, err, STATUS_TRUNCATED, "%s: the file is empty", path);
    size_t length = size < (int64_t)sizeof bytes ? (size_t)size : sizeof bytes;
    TRY(file_read_at(descriptor, path, 0, bytes, length, err));
    if (begins(bytes, length, "II*\0", 4) || begins(bytes, length, "MM\0*", 4) || begins(bytes, length, "II+\0", 4) ||
        begins(bytes, length, "MM\0+", 4)) {
        *ret_format = IMAGE_TIFF;
    } else if (begins(bytes, length, "\x89PNG\r\n\x1a\n", 8)) {
        *ret_format = IMAGE_PNG;
    } else if (begins(bytes, length, "\xff\xd8\xff", 3)) {
        *ret_format = IMAGE_JPEG;
    } else if (mrc_looks_like_one(bytes, length)) {
        *ret_format = IMAGE_MRC;
    } else {
        /* A header that is not all there, or zeros that something will still be written over. */
        bool zeros = true;
        for (size_t i = 0; i < length; i++)
            zeros &= bytes[i] == 0;
        FAIL_IF(zeros, err, STATUS_TRUNCATED, "%s: its first %zu bytes are zeros: it is not written yet", path, length);
        return foreign(path, bytes, length, length < sizeof bytes, err);
    }
    return STATUS_OK;
}

enum status image_probe(const char *path, struct image_info *ret_info, struct err *err) {
    enum image_format format;
    TRY(find_format(path, &format, err));
    if (format == IMAGE_TIFF) return tiff_probe(path, ret_info, err);
    if (format == IMAGE_PNG || format == IMAGE_JPEG) return picture_probe(path, ret_info, err);
    struct mrc_header h = {0};
    TRY(mrc_read_header(path, &h, err));
    *ret_info =
        (struct image_info){.format = IMAGE_MRC, .nx = h.nx, .ny = h.ny, .nz = h.nz, .pixel_size = h.pixel_size};
    return STATUS_OK;
}

static enum status read_format(const char *path, enum image_format format, struct image *image, struct err *err) {
    if (format == IMAGE_TIFF) return tiff_read(path, image, err);
    if (format == IMAGE_PNG || format == IMAGE_JPEG) return picture_read(path, image, err);
    return mrc_read(path, image, err);
}

enum status image_read(const char *path, struct image *image, struct err *err) {
    enum image_format format;
    TRY(find_format(path, &format, err));
    return read_format(path, format, image, err);
}

static void turn_over(struct image *image) {
    size_t nx = (size_t)image->nx, ny = (size_t)image->ny;
    for (size_t z = 0; z < (size_t)image->nz; z++)
        for (size_t y = 0; y < ny / 2; y++) {
            float *low = image->data + (z * ny + y) * nx, *high = image->data + (z * ny + ny - 1 - y) * nx;
            for (size_t x = 0; x < nx; x++) {
                float value = low[x];
                low[x] = high[x];
                high[x] = value;
            }
        }
}

enum status image_read_micrograph(const char *path, struct image *image, struct err *err) {
    enum image_format format;
    TRY(find_format(path, &format, err));
    TRY(read_format(path, format, image, err));
    if (format == IMAGE_TIFF) turn_over(image);
    return STATUS_OK;
}

static enum status read_mrc_slice(const char *path, int slice, struct image *image, struct err *err) {
    _cleanup_(mrc_close) struct mrc_reader *reader = NULL;
    TRY(mrc_open(path, &reader, err));
    const struct mrc_header *h = mrc_reader_header(reader);
    FAIL_IF(slice >= h->nz, err, STATUS_NOT_FOUND, "%s: has %d slices; number %d was asked for", path, h->nz,
            slice + 1);
    TRY(image_resize_unset(image, h->nx, h->ny, 1, err));
    image->pixel_size = h->pixel_size;
    return mrc_read_slices(reader, slice, 1, image->data, err);
}

bool image_values_fit(const float *values, size_t count) {
    bool fit = true;
    for (size_t i = 0; i < count; i++)
        fit = fit && fabsf(values[i]) < IMAGE_VALUE_MAX;
    return fit;
}

enum status image_read_slice(const char *name, struct image *image, struct err *err) {
    size_t digits = strspn(name, "0123456789");
    if (digits == 0 || name[digits] != '@') return image_read(name, image, err);
    const char *path = name + digits + 1;
    long number = digits < 10 ? strtol(name, NULL, 10) : 0;
    FAIL_IF(number < 1 || number > INT_MAX, err, STATUS_BAD_ARGUMENT, "%s: the slice before @ must be between 1 and %d",
            name, INT_MAX);
    enum image_format format;
    TRY(find_format(path, &format, err));
    if (format == IMAGE_TIFF) return tiff_read_page(path, (int)number - 1, image, err);
    if (format == IMAGE_MRC) return read_mrc_slice(path, (int)number - 1, image, err);
    FAIL_IF(number != 1, err, STATUS_NOT_FOUND, "%s: a picture has one slice; number %ld was asked for", path, number);
    return picture_read(path, image, err);
}
