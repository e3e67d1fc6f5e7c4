#include "common/formats/image_formats.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/picture.h"
#include "common/formats/tiff.h"
#include "common/memory.h"

enum { MAGICS = 4, ENDINGS = 6, SPACE = 256 };

struct magic {
    const char *bytes;
    size_t length;
};

struct ending {
    const char *text;
    unsigned uses;
};

struct format {
    const char *name;            /* in messages */
    struct magic magics[MAGICS]; /* the first bytes of a file, one of these */
    /* For a format without magic bytes: judges the first bytes of a file that no other format claims. */
    bool (*looks_like_one)(const unsigned char *bytes, size_t length);
    struct ending endings[ENDINGS];
    bool top_line_first; /* image_read_micrograph turns it over */
    enum status (*probe)(const char *path, struct image_info *ret_info, struct err *err);
    enum status (*read)(const char *path, struct image *image, struct err *err);
    /* slice: from 0. */
    enum status (*read_slice)(const char *path, int slice, struct image *image, struct err *err);
};

static enum status probe_mrc(const char *path, struct image_info *ret_info, struct err *err) {
    struct mrc_header h = {0};
    TRY(mrc_read_header(path, &h, err));
    *ret_info = (struct image_info){.format = IMAGE_MRC,
                                    .nx = h.nx,
                                    .ny = h.ny,
                                    .nz = h.nz,
                                    .pixel_size = h.pixel_size,
                                    .bytes = image_bytes(h.nx, h.ny, h.nz)};
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

static enum status read_picture_slice(const char *path, int slice, struct image *image, struct err *err) {
    FAIL_IF(slice != 0, err, STATUS_NOT_FOUND, "%s: a picture has one slice; number %d was asked for", path, slice + 1);
    return picture_read(path, image, err);
}

static const struct format FORMATS[] = {
    [IMAGE_MRC] = {.name = "MRC",
                   .looks_like_one = mrc_looks_like_one,
                   .endings = {{".mrc", IMAGE_AS_MICROGRAPH | IMAGE_AS_MOVIE | IMAGE_AS_TILT | IMAGE_AS_TILT_STACK |
                                            IMAGE_AS_VOLUME},
                               {".mrcs", IMAGE_AS_MOVIE | IMAGE_AS_TILT_STACK},
                               {".st", IMAGE_AS_TILT | IMAGE_AS_TILT_STACK},
                               {".ali", IMAGE_AS_TILT_STACK},
                               {".map", IMAGE_AS_VOLUME},
                               {".rec", IMAGE_AS_VOLUME}},
                   .probe = probe_mrc,
                   .read = mrc_read,
                   .read_slice = read_mrc_slice},
    /* EER files are TIFF files, but libtiff cannot unpack their frames: only the ending is known. */
    [IMAGE_TIFF] = {.name = "TIFF",
                    .magics = {{"II*\0", 4}, {"MM\0*", 4}, {"II+\0", 4}, {"MM\0+", 4}},
                    .endings = {{".tif", IMAGE_AS_MICROGRAPH | IMAGE_AS_MOVIE | IMAGE_AS_TILT | IMAGE_AS_TILT_STACK},
                                {".tiff", IMAGE_AS_MICROGRAPH | IMAGE_AS_MOVIE | IMAGE_AS_TILT | IMAGE_AS_TILT_STACK},
                                {".eer", IMAGE_AS_MOVIE | IMAGE_AS_TILT_STACK}},
                    .top_line_first = true,
                    .probe = tiff_probe,
                    .read = tiff_read,
                    .read_slice = tiff_read_page},
    [IMAGE_PNG] = {.name = "PNG",
                   .magics = {{"\x89PNG\r\n\x1a\n", 8}},
                   .endings = {{".png", IMAGE_AS_PHOTOGRAPH}},
                   .probe = picture_probe,
                   .read = picture_read,
                   .read_slice = read_picture_slice},
    [IMAGE_JPEG] = {.name = "JPEG",
                    .magics = {{"\xff\xd8\xff", 3}},
                    .endings = {{".jpg", IMAGE_AS_PHOTOGRAPH}, {".jpeg", IMAGE_AS_PHOTOGRAPH}},
                    .probe = picture_probe,
                    .read = picture_read,
                    .read_slice = read_picture_slice},
};
enum { FORMAT_COUNT = sizeof FORMATS / sizeof *FORMATS };

/* Formats that icestream does not read, to say in a message what a file is. */
static const struct {
    struct magic magic;
    const char *what;
} FOREIGN[] = {
    {{"\x1f\x8b", 2}, "a gzip-compressed file: unpack it first"},
    {{"BZh", 3}, "a bzip2-compressed file: unpack it first"},
    {{"\xfd\x37zXZ", 5}, "an xz-compressed file: unpack it first"},
    {{"\x28\xb5\x2f\xfd", 4}, "a zstd-compressed file: unpack it first"},
    {{"PK\x03\x04", 4}, "a zip archive: unpack it first"},
    {{"\x89HDF", 4}, "an HDF5 file"},
    {{"GIF8", 4}, "a GIF picture"},
    {{"BM", 2}, "a BMP picture"},
    {{"%PDF", 4}, "a PDF document"},
    {{"\x7f\x45LF", 4}, "a program"},
};

/* Returns where the ending of a path begins if it has one of the uses, else NULL. A name such as ".mrc" has no
 * ending. */
static const char *find_ending(const char *path, unsigned uses) {
    const char *dot = strrchr(path, '.'), *ending;
    if (dot == NULL || dot == path || dot[-1] == '/') return NULL;
    for (size_t i = 0; (ending = image_ending(i, uses)) != NULL; i++)
        if (strcasecmp(dot, ending) == 0) return dot;
    return NULL;
}

bool image_path_fits(const char *path, unsigned uses) {
    return find_ending(path, uses) != NULL;
}

size_t image_path_stem(const char *path, unsigned uses) {
    const char *ending = find_ending(path, uses);
    return ending != NULL ? (size_t)(ending - path) : strlen(path);
}

const char *image_ending(size_t index, unsigned uses) {
    for (size_t f = 0; f < FORMAT_COUNT; f++)
        for (size_t e = 0; e < ENDINGS && FORMATS[f].endings[e].text != NULL; e++)
            if ((FORMATS[f].endings[e].uses & uses) != 0 && index-- == 0) return FORMATS[f].endings[e].text;
    return NULL;
}

bool image_is_photograph(enum image_format format) {
    return (FORMATS[format].endings[0].uses & IMAGE_AS_PHOTOGRAPH) != 0;
}

static bool begins(const unsigned char *bytes, size_t length, struct magic magic) {
    return magic.bytes != NULL && length >= magic.length && memcmp(bytes, magic.bytes, magic.length) == 0;
}

/* Returns the format of a file by its first bytes; NULL: a format that icestream does not read. */
static const struct format *recognise(const unsigned char *bytes, size_t length) {
    for (size_t f = 0; f < FORMAT_COUNT; f++)
        for (size_t m = 0; m < MAGICS; m++)
            if (begins(bytes, length, FORMATS[f].magics[m])) return &FORMATS[f];
    for (size_t f = 0; f < FORMAT_COUNT; f++)
        if (FORMATS[f].looks_like_one != NULL && FORMATS[f].looks_like_one(bytes, length)) return &FORMATS[f];
    return NULL;
}

/* Writes "MRC, TIFF, PNG or JPEG" for a message. */
static void list_names(char *out, size_t size) {
    size_t used = 0;
    for (size_t f = 0; f < FORMAT_COUNT && used < size; f++) {
        const char *before = f == 0 ? "" : f + 1 < FORMAT_COUNT ? ", " : " or ";
        used += (size_t)snprintf(out + used, size - used, "%s%s", before, FORMATS[f].name);
    }
}

static bool is_text(const unsigned char *bytes, size_t length) {
    size_t text = 0;
    while (text < length && ((bytes[text] >= ' ' && bytes[text] < 127) || bytes[text] == '\n' || bytes[text] == '\r' ||
                             bytes[text] == '\t'))
        text++;
    return text == length;
}

/* Says what a file is that no format recognises. bytes: its first; all of it if is_short. */
static enum status refuse(const char *path, const unsigned char *bytes, size_t length, bool is_short, struct err *err) {
    char names[SPACE];
    const char *what = is_text(bytes, length) ? "it holds text" : "its content is none of these";
    list_names(names, sizeof names);
    for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; i++)
        if (begins(bytes, length, FOREIGN[i].magic)) what = FOREIGN[i].what;
    const char *it_is = what[0] == 'a' ? "it is " : "";
    FAIL_IF(is_short, err, STATUS_TRUNCATED, "%s: ends at byte %zu, which is too short for an image (%s); %s%s", path,
            length, names, it_is, what);
    FAIL(err, STATUS_BAD_FORMAT, "%s: an image (%s) is expected; %s%s", path, names, it_is, what);
}

static enum status find_format(const char *path, const struct format **ret_format, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    int64_t size = 0;
    unsigned char bytes[1024];
    TRY(file_open_read(path, &descriptor, &size, err));
    FAIL_IF(size == 0, err, STATUS_TRUNCATED, "%s: the file is empty", path);
    size_t length = size < (int64_t)sizeof bytes ? (size_t)size : sizeof bytes;
    TRY(file_read_at(descriptor, path, 0, bytes, length, err));
    *ret_format = recognise(bytes, length);
    if (*ret_format != NULL) return STATUS_OK;
    /* Some programs first fill a file with zeros and write over them later. */
    bool zeros = true;
    for (size_t i = 0; i < length; i++)
        zeros &= bytes[i] == 0;
    FAIL_IF(zeros, err, STATUS_TRUNCATED, "%s: its first %zu bytes are zeros: it is not written yet", path, length);
    return refuse(path, bytes, length, length < sizeof bytes, err);
}

enum status image_probe(const char *path, struct image_info *ret_info, struct err *err) {
    const struct format *format;
    TRY(find_format(path, &format, err));
    return format->probe(path, ret_info, err);
}

enum status image_read(const char *path, struct image *image, struct err *err) {
    const struct format *format;
    TRY(find_format(path, &format, err));
    return format->read(path, image, err);
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
    const struct format *format;
    TRY(find_format(path, &format, err));
    TRY(format->read(path, image, err));
    if (format->top_line_first) turn_over(image);
    return STATUS_OK;
}

enum status image_read_slice(const char *name, struct image *image, struct err *err) {
    const struct format *format;
    size_t digits = strspn(name, "0123456789");
    if (digits == 0 || name[digits] != '@') return image_read(name, image, err);
    const char *path = name + digits + 1;
    long number = digits < 10 ? strtol(name, NULL, 10) : 0;
    FAIL_IF(number < 1 || number > INT_MAX, err, STATUS_BAD_ARGUMENT, "%s: the slice before @ must be between 1 and %d",
            name, INT_MAX);
    TRY(find_format(path, &format, err));
    return format->read_slice(path, (int)number - 1, image, err);
}
