#include "common/formats/tiff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/formats/tiff_private.h"
#include "common/memory.h"

/* Limits that keep a wrong directory, or a few bytes that unpack to gigabytes, from allocating too much memory. A small
 * file may be a blank image; a large image that was exposed has noise, and fewer than MOST_PER_BYTE pixels per byte. */
enum { LARGEST_SIDE = 1 << 24, LIKELY_PIXELS = 1 << 24, MOST_PER_BYTE = 256, MOST_SAMPLES = 16 };
static const uint64_t MOST_PIXELS = (uint64_t)1 << 31;

/* libtiff calls these instead of printing. */
static int take_error(TIFF *tiff, void *context, const char *module, const char *format, va_list args) {
    (void)tiff;
    (void)module;
    struct tiff_reader *r = context;
    if (r->message[0] == '\0') vsnprintf(r->message, sizeof r->message, format, args);
    return 1;
}

static int drop_warning(TIFF *tiff, void *context, const char *module, const char *format, va_list args) {
    (void)tiff;
    (void)context;
    (void)module;
    (void)format;
    (void)args;
    return 1;
}

void tiff_reader_close(struct tiff_reader *r) {
    if (r->tiff != NULL)
        TIFFClose(r->tiff); /* closes the descriptor too */
    else
        file_close(&r->descriptor);
    r->tiff = NULL;
}

enum status tiff_bad_page(const struct tiff_reader *r, uint32_t directory, const char *what) {
    FAIL(r->err, STATUS_BAD_FORMAT, "%s: directory %u: %s%s%s", r->path, directory + 1, what,
         r->message[0] != '\0' ? ": " : "", r->message);
}

enum status tiff_reader_open(struct tiff_reader *r, const char *path, struct err *err) {
    *r = (struct tiff_reader){.path = path, .descriptor = -1, .err = err};
    TRY(file_open_read(path, &r->descriptor, &r->size, err));
    TRY(tiff_walk(path, r->descriptor, r->size, err));
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    FAIL_IF(options == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    TIFFOpenOptionsSetErrorHandlerExtR(options, take_error, r);
    TIFFOpenOptionsSetWarningHandlerExtR(options, drop_warning, r);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)1 << 32);
    /* m: no memory mapping, because a file that shrinks would then cause a SIGBUS. */
    r->tiff = TIFFFdOpenExt(r->descriptor, path, "rm", options);
    TIFFOpenOptionsFree(options);
    FAIL_IF(r->tiff == NULL, err, STATUS_BAD_FORMAT, "%s: not a TIFF file that can be read: %s", path, r->message);
    return STATUS_OK;
}

static float page_pixel_size(TIFF *tiff) {
    uint16_t unit = RESUNIT_INCH;
    float per_unit = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_RESOLUTIONUNIT, &unit);
    if (!TIFFGetField(tiff, TIFFTAG_XRESOLUTION, &per_unit) || !(per_unit > 0) ||
        (unit != RESUNIT_INCH && unit != RESUNIT_CENTIMETER))
        return 0;
    double pixel_size = (unit == RESUNIT_INCH ? 2.54e8 : 1e8) / per_unit;
    return pixel_size >= 0.01 && pixel_size <= 100 ? (float)pixel_size : 0;
}

static enum status sample_type(const struct tiff_reader *r, uint32_t directory, uint16_t format, struct tiff_page *p) {
    bool whole = p->bits >= 1 && (p->bits < 32 || p->bits == 32 || p->bits == 64);
    if (format == SAMPLEFORMAT_IEEEFP && (p->bits == 16 || p->bits == 32 || p->bits == 64))
        p->sample = SAMPLE_FLOAT;
    else if (format == SAMPLEFORMAT_INT && whole)
        p->sample = SAMPLE_SIGNED;
    else if ((format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID) && whole)
        p->sample = SAMPLE_UNSIGNED;
    else
        FAIL(
            r->err, STATUS_UNSUPPORTED,
            "%s: directory %u: samples of %u bits in format %u%s are not supported: write whole numbers of 8, 16 or 32 "
            "bits, or 32-bit floats",
            r->path, directory + 1, p->bits, format,
            format == SAMPLEFORMAT_COMPLEXIEEEFP || format == SAMPLEFORMAT_COMPLEXINT ? " (complex numbers)" : "");
    return STATUS_OK;
}

static enum status check_colours(const struct tiff_reader *r, uint32_t directory, struct tiff_page *p) {
    FAIL_IF(p->samples < 1 || p->samples > MOST_SAMPLES, r->err, STATUS_UNSUPPORTED,
            "%s: directory %u: %u samples a pixel are not supported: 1 to %d are", r->path, directory + 1, p->samples,
            MOST_SAMPLES);
    if (p->photometric == PHOTOMETRIC_YCBCR && p->compression == COMPRESSION_JPEG) {
        /* libtiff then gives RGB. */
        TIFFSetField(r->tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        p->photometric = PHOTOMETRIC_RGB;
    }
    bool grey = p->photometric == PHOTOMETRIC_MINISBLACK || p->photometric == PHOTOMETRIC_MINISWHITE;
    bool rgb = p->photometric == PHOTOMETRIC_RGB && p->samples >= 3;
    bool palette = p->photometric == PHOTOMETRIC_PALETTE && p->bits <= 16 && p->sample == SAMPLE_UNSIGNED &&
                   TIFFGetField(r->tiff, TIFFTAG_COLORMAP, &p->palette[0], &p->palette[1], &p->palette[2]);
    FAIL_IF(!grey && !rgb && !palette, r->err, STATUS_UNSUPPORTED,
            "%s: directory %u: colours of kind %u (photometric interpretation) with %u samples a pixel are not "
            "supported: convert it to grey or RGB",
            r->path, directory + 1, p->photometric, p->samples);
    return STATUS_OK;
}

enum status tiff_page_shape(struct tiff_reader *r, struct tiff_page *ret_page) {
    TIFF *t = r->tiff;
    uint32_t directory = (uint32_t)TIFFCurrentDirectory(t), depth = 1;
    struct tiff_page p = {.bits = 1, .samples = 1};
    if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &p.nx) || !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &p.ny))
        return tiff_bad_page(r, directory, "has no width or length");
    FAIL_IF(p.nx < 1 || p.ny < 1 || p.nx > LARGEST_SIDE || p.ny > LARGEST_SIDE, r->err, STATUS_BAD_FORMAT,
            "%s: directory %u gives %u × %u pixels; each must be between 1 and %d", r->path, directory + 1, p.nx, p.ny,
            LARGEST_SIDE);
    uint16_t format = SAMPLEFORMAT_UINT;
    TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &p.bits);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &p.samples);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &p.planar);
    TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &p.compression);
    TIFFGetFieldDefaulted(t, TIFFTAG_IMAGEDEPTH, &depth);
    if (!TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &p.photometric))
        p.photometric = p.samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    FAIL_IF(p.compression >= 65000 && p.compression <= 65002, r->err, STATUS_UNSUPPORTED,
            "%s: an EER movie (compression %u) cannot be read as an image: sum its frames first", r->path,
            p.compression);
    FAIL_IF(!TIFFIsCODECConfigured(p.compression), r->err, STATUS_UNSUPPORTED,
            "%s: directory %u: this build of libtiff cannot read compression %u: write it with LZW, with Deflate, or "
            "uncompressed",
            r->path, directory + 1, p.compression);
    FAIL_IF(depth != 1, r->err, STATUS_UNSUPPORTED,
            "%s: directory %u holds a volume of depth %u: write its slices as pages", r->path, directory + 1, depth);
    TRY(sample_type(r, directory, format, &p));
    TRY(check_colours(r, directory, &p));
    p.tiled = TIFFIsTiled(t);
    p.block_nx = p.nx;
    if (p.tiled &&
        (!TIFFGetField(t, TIFFTAG_TILEWIDTH, &p.block_nx) || !TIFFGetField(t, TIFFTAG_TILELENGTH, &p.block_ny)))
        return tiff_bad_page(r, directory, "has tiles without a size");
    if (!p.tiled) TIFFGetFieldDefaulted(t, TIFFTAG_ROWSPERSTRIP, &p.block_ny);
    if (!p.tiled && p.block_ny > p.ny) p.block_ny = p.ny;
    if (p.block_nx < 1 || p.block_ny < 1 || p.block_nx > LARGEST_SIDE || p.block_ny > LARGEST_SIDE)
        return tiff_bad_page(r, directory, "has strips or tiles without a size");
    p.pixel_size = page_pixel_size(t);
    *ret_page = p;
    return STATUS_OK;
}

/* Checks that all strips or tiles lie inside the file; else the file is still being written. */
static enum status check_blocks(struct tiff_reader *r, const struct tiff_page *p) {
    uint32_t directory = (uint32_t)TIFFCurrentDirectory(r->tiff);
    uint64_t across = (p->nx + p->block_nx - 1) / p->block_nx, down = (p->ny + p->block_ny - 1) / p->block_ny;
    uint64_t blocks = across * down * (p->planar == PLANARCONFIG_SEPARATE ? p->samples : 1);
    if (blocks > UINT32_MAX || blocks > (uint64_t)r->size)
        return tiff_bad_page(r, directory, "has more strips or tiles than the file has bytes");
    for (uint32_t i = 0; i < (uint32_t)blocks; i++) {
        int failed = 0;
        uint64_t offset = TIFFGetStrileOffsetWithErr(r->tiff, i, &failed);
        uint64_t bytes = failed ? 0 : TIFFGetStrileByteCountWithErr(r->tiff, i, &failed);
        if (failed) return tiff_bad_page(r, directory, "its strips or tiles cannot be found");
        FAIL_IF(offset == 0 || bytes == 0, r->err, STATUS_TRUNCATED,
                "%s: directory %u: strip or tile %u of %llu is not written yet", r->path, directory + 1, i + 1,
                (unsigned long long)blocks);
        FAIL_IF(offset > (uint64_t)r->size || bytes > (uint64_t)r->size - offset, r->err, STATUS_TRUNCATED,
                "%s: ends at byte %lld; directory %u has %llu bytes of pixels from byte %llu on", r->path,
                (long long)r->size, directory + 1, (unsigned long long)bytes, (unsigned long long)offset);
    }
    return STATUS_OK;
}

bool tiff_is_extra(TIFF *tiff) {
    uint32_t kind = 0;
    return TIFFGetField(tiff, TIFFTAG_SUBFILETYPE, &kind) && (kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) != 0;
}

enum status tiff_survey(struct tiff_reader *r, struct tiff_page *ret_first, int *ret_count) {
    struct tiff_page first = {0};
    int count = 0;
    do {
        if (tiff_is_extra(r->tiff)) continue;
        struct tiff_page page = {0};
        TRY(tiff_page_shape(r, &page));
        TRY(check_blocks(r, &page));
        if (count == 0) first = page;
        FAIL_IF(page.nx != first.nx || page.ny != first.ny, r->err, STATUS_UNSUPPORTED,
                "%s: directory %u has %u × %u pixels, the first %u × %u: pages of one shape are expected", r->path,
                (uint32_t)TIFFCurrentDirectory(r->tiff) + 1, page.nx, page.ny, first.nx, first.ny);
        count++;
        uint64_t pixels = (uint64_t)page.nx * page.ny * (uint64_t)count;
        FAIL_IF(pixels > MOST_PIXELS || pixels > LIKELY_PIXELS + (uint64_t)r->size * MOST_PER_BYTE, r->err,
                STATUS_BAD_FORMAT, "%s: %lld bytes cannot hold the %u × %u × %d pixels that its directories give",
                r->path, (long long)r->size, page.nx, page.ny, count);
    } while (TIFFReadDirectory(r->tiff));
    if (r->message[0] != '\0')
        return tiff_bad_page(r, (uint32_t)TIFFCurrentDirectory(r->tiff), "it or the one after it cannot be read");
    FAIL_IF(count == 0, r->err, STATUS_BAD_FORMAT, "%s: holds previews or masks, but no image", r->path);
    *ret_first = first;
    *ret_count = count;
    return STATUS_OK;
}

/* ---- pixels ---- */

int tiff_count_bytes(const struct tiff_page *p) {
    bool counts = p->sample == SAMPLE_UNSIGNED && p->samples == 1 && p->photometric == PHOTOMETRIC_MINISBLACK;
    return !counts || p->bits > 16 ? 0 : p->bits > 8 ? 2 : 1;
}

void tiff_buffers_free(struct tiff_buffers *b) {
    mem_free(&b->block);
    mem_free(&b->row);
    b->block_bytes = b->row_samples = 0;
}

/* Adds a row of `count` pixels to the image: sample `plane` of each pixel, or all samples when they lie side by
 * side. */
static void add_row(const struct tiff_page *p, const float *samples, size_t count, int plane, float *out) {
    static const float weights[3] = {0.2126f, 0.7152f, 0.0722f};
    bool separate = p->planar == PLANARCONFIG_SEPARATE;
    size_t stride = separate ? 1 : p->samples;
    if (p->palette[0] != NULL) {
        for (size_t x = 0; x < count; x++) {
            size_t entry = (size_t)samples[x * stride];
            out[x] = image_luminance(p->palette[0][entry], p->palette[1][entry], p->palette[2][entry]);
        }
    } else if (p->photometric == PHOTOMETRIC_RGB && separate) {
        for (size_t x = 0; x < count; x++)
            out[x] += weights[plane] * samples[x];
    } else if (p->photometric == PHOTOMETRIC_RGB) {
        for (size_t x = 0; x < count; x++)
            out[x] = image_luminance(samples[x * stride], samples[x * stride + 1], samples[x * stride + 2]);
    } else {
        for (size_t x = 0; x < count; x++)
            out[x] = samples[x * stride];
    }
}

enum status tiff_block_decode(struct tiff_reader *r, const struct tiff_page *p, struct tiff_buffers *b, uint32_t x,
                              uint32_t y, int plane, size_t *ret_row_bytes) {
    TIFF *t = r->tiff;
    size_t per_pixel = p->planar == PLANARCONFIG_SEPARATE ? 1 : p->samples;
    size_t row_bytes = ((size_t)p->block_nx * per_pixel * p->bits + 7) / 8;
    uint32_t rows = p->ny - y < p->block_ny ? p->ny - y : p->block_ny;
    size_t needed = row_bytes * (p->tiled ? p->block_ny : rows);
    uint32_t number = p->tiled ? TIFFComputeTile(t, x, y, 0, (uint16_t)plane) : TIFFComputeStrip(t, y, (uint16_t)plane);
    tmsize_t got = p->tiled ? TIFFReadEncodedTile(t, number, b->block, (tmsize_t)needed)
                            : TIFFReadEncodedStrip(t, number, b->block, (tmsize_t)needed);
    FAIL_IF(got < 0 || (size_t)got < needed, r->err, STATUS_BAD_FORMAT, "%s: directory %u: %s %u cannot be decoded: %s",
            r->path, (uint32_t)TIFFCurrentDirectory(t) + 1, p->tiled ? "tile" : "strip", number + 1,
            r->message[0] != '\0' ? r->message : "it is too short");
    *ret_row_bytes = row_bytes;
    return STATUS_OK;
}

static enum status read_block(struct tiff_reader *r, const struct tiff_page *p, struct tiff_buffers *b, uint32_t x,
                              uint32_t y, int plane, float *out) {
    size_t per_pixel = p->planar == PLANARCONFIG_SEPARATE ? 1 : p->samples, row_bytes = 0;
    uint32_t columns = p->nx - x < p->block_nx ? p->nx - x : p->block_nx;
    uint32_t rows = p->ny - y < p->block_ny ? p->ny - y : p->block_ny;
    TRY(tiff_block_decode(r, p, b, x, y, plane, &row_bytes));
    for (uint32_t i = 0; i < rows; i++) {
        tiff_to_float(p->sample, p->bits, b->block + i * row_bytes, columns * per_pixel, b->row);
        add_row(p, b->row, columns, plane, out + (size_t)(y + i) * p->nx + x);
    }
    return STATUS_OK;
}

/* Turns min-is-white into min-is-black: the largest unsigned value becomes 0; signed and float values change their
 * sign. */
static void invert(const struct tiff_page *p, float *out) {
    double largest = p->sample != SAMPLE_UNSIGNED ? 0 : p->bits == 64 ? 0x1p64 : (double)(((uint64_t)1 << p->bits) - 1);
    for (size_t i = 0; i < (size_t)p->nx * p->ny; i++)
        out[i] = (float)(largest - (double)out[i]);
}

enum status tiff_buffers_fit(struct tiff_reader *r, const struct tiff_page *p, struct tiff_buffers *b) {
    bool separate = p->planar == PLANARCONFIG_SEPARATE;
    tmsize_t block_bytes = p->tiled ? TIFFTileSize(r->tiff) : TIFFStripSize(r->tiff);
    size_t row_samples = (size_t)p->block_nx * p->samples;
    size_t least = ((size_t)p->block_nx * (separate ? 1 : p->samples) * p->bits + 7) / 8 * p->block_ny;
    uint64_t bound = ((uint64_t)LIKELY_PIXELS + (uint64_t)r->size * MOST_PER_BYTE) * sizeof(double);
    FAIL_IF(block_bytes <= 0 || (size_t)block_bytes < least || (uint64_t)block_bytes > bound ||
                row_samples * sizeof(float) > bound,
            r->err, STATUS_BAD_FORMAT, "%s: directory %u: strips or tiles of %u × %u pixels do not fit the file",
            r->path, (uint32_t)TIFFCurrentDirectory(r->tiff) + 1, p->block_nx, p->block_ny);
    if ((size_t)block_bytes > b->block_bytes || row_samples > b->row_samples) {
        tiff_buffers_free(b);
        TRY(mem_new((size_t)block_bytes, 1, "a strip or tile", &b->block, r->err));
        TRY(mem_new(row_samples, sizeof *b->row, "a row of pixels", &b->row, r->err));
        b->block_bytes = (size_t)block_bytes;
        b->row_samples = row_samples;
    }
    return STATUS_OK;
}

enum status tiff_page_read(struct tiff_reader *r, const struct tiff_page *p, struct tiff_buffers *b, float *out) {
    TRY(tiff_buffers_fit(r, p, b));
    bool separate = p->planar == PLANARCONFIG_SEPARATE;
    memset(out, 0, (size_t)p->nx * p->ny * sizeof *out);
    int planes = !separate ? 1 : p->photometric == PHOTOMETRIC_RGB ? 3 : 1;
    for (int plane = 0; plane < planes; plane++)
        for (uint32_t y = 0; y < p->ny; y += p->block_ny)
            for (uint32_t x = 0; x < p->nx; x += p->block_nx)
                TRY(read_block(r, p, b, x, y, plane, out));
    if (p->photometric == PHOTOMETRIC_MINISWHITE) invert(p, out);
    return STATUS_OK;
}

/* ---- interface ---- */

/* Returns what read_pages takes: the pixels, one decoded strip or tile with a row of it as floats, and what libtiff
 * holds of the packed one. */
static size_t bytes_to_read(const struct tiff_reader *r, const struct tiff_page *p, int pages) {
    size_t row = mem_bytes(p->block_nx, p->samples);
    size_t block = mem_bytes(mem_bytes(row, p->block_ny), (p->bits + 7u) / 8u);
    size_t beside = mem_sum(block, mem_bytes(row, sizeof(float)));
    if (p->compression != COMPRESSION_NONE) beside = mem_sum(beside, (size_t)r->size);
    return mem_sum(image_bytes((int)p->nx, (int)p->ny, pages), beside);
}

enum status tiff_probe(const char *path, struct image_info *ret_info, struct err *err) {
    _cleanup_(tiff_reader_close) struct tiff_reader r;
    struct tiff_page first = {0};
    int count = 0;
    TRY(tiff_reader_open(&r, path, err));
    TRY(tiff_survey(&r, &first, &count));
    *ret_info = (struct image_info){.format = IMAGE_TIFF,
                                    .nx = (int)first.nx,
                                    .ny = (int)first.ny,
                                    .nz = count,
                                    .pixel_size = first.pixel_size,
                                    .count_bytes = tiff_count_bytes(&first),
                                    .bytes = bytes_to_read(&r, &first, count)};
    return STATUS_OK;
}

/* Reads pages first .. first+count−1, or all from `first` on if count is 0. */
static enum status read_pages(const char *path, int first, int count, struct image *image, struct err *err) {
    _cleanup_(tiff_reader_close) struct tiff_reader r;
    _cleanup_(tiff_buffers_free) struct tiff_buffers b = {0};
    struct tiff_page shape = {0};
    int pages = 0;
    TRY(tiff_reader_open(&r, path, err));
    TRY(tiff_survey(&r, &shape, &pages));
    FAIL_IF(first < 0 || first >= pages, err, STATUS_NOT_FOUND, "%s: has %d pages; number %d was asked for", path,
            pages, first + 1);
    int last = count == 0 ? pages - 1 : first + count - 1;
    TRY(image_resize(image, (int)shape.nx, (int)shape.ny, last - first + 1, err));
    image->pixel_size = shape.pixel_size;
    if (!TIFFSetDirectory(r.tiff, 0)) return tiff_bad_page(&r, 0, "cannot be read again");
    for (int page = 0; page <= last;) {
        if (!tiff_is_extra(r.tiff)) {
            struct tiff_page p = {0};
            if (page >= first) {
                TRY(tiff_page_shape(&r, &p));
                FAIL_IF(p.nx != shape.nx || p.ny != shape.ny, err, STATUS_BAD_FORMAT, "%s: changed while it was read",
                        path);
                TRY(tiff_page_read(&r, &p, &b, image->data + (size_t)(page - first) * shape.nx * shape.ny));
            }
            page++;
        }
        if (page <= last && !TIFFReadDirectory(r.tiff))
            return tiff_bad_page(&r, (uint32_t)TIFFCurrentDirectory(r.tiff), "the one after it cannot be read");
    }
    return STATUS_OK;
}

enum status tiff_read(const char *path, struct image *image, struct err *err) {
    return read_pages(path, 0, 0, image, err);
}

enum status tiff_read_page(const char *path, int page, struct image *image, struct err *err) {
    return read_pages(path, page, 1, image, err);
}
