/* Reads PNG with libpng and JPEG with libjpeg. Both libraries report errors by a longjmp. Functions that call setjmp
 * keep their state in a struct of the caller, because local variables are undefined after the jump. */
#include "common/formats/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>
#include <png.h>

#include "common/files.h"
#include "common/memory.h"

/* Limits that keep a wrong header, or a few bytes that unpack to gigabytes, from allocating too much memory. A small
 * file may be a blank picture; a large photograph has noise, and fewer than MOST_PER_BYTE pixels per byte. */
enum { LARGEST_SIDE = 1 << 16, LIKELY_PIXELS = 1 << 24, MOST_PER_BYTE = 256, PNG_PIXEL_BYTES = 8 };

struct source {
    const char *path;
    int descriptor;
    int64_t size, at;
    bool is_png, ended; /* ended: the reader reached the end of the file too early */
    jmp_buf jump;
    char message[256];
    struct image *image;  /* NULL: read the header only */
    unsigned char *bytes; /* a row, or the whole interlaced picture */
    png_structp png;
    png_infop info;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr jpeg_error;
    struct jpeg_source_mgr jpeg_source;
    unsigned char buffer[16384];
    int nx, ny;
    size_t beside; /* bytes that decoding holds beside the image */
    enum status status;
    struct err *err;
};

static void source_close(struct source *s) {
    if (s->is_png && s->png != NULL) png_destroy_read_struct(&s->png, &s->info, NULL);
    if (!s->is_png) jpeg_destroy_decompress(&s->jpeg);
    file_close(&s->descriptor);
    free(s->bytes);
    s->bytes = NULL;
}

static enum status check_shape(struct source *s, uint32_t nx, uint32_t ny) {
    FAIL_IF(nx < 1 || ny < 1 || nx > LARGEST_SIDE || ny > LARGEST_SIDE, s->err, STATUS_BAD_FORMAT,
            "%s: the header gives %u × %u pixels; 1 to %d along a side are read", s->path, nx, ny, LARGEST_SIDE);
    FAIL_IF((uint64_t)nx * ny > LIKELY_PIXELS + (uint64_t)s->size * MOST_PER_BYTE, s->err, STATUS_BAD_FORMAT,
            "%s: %lld bytes cannot hold the %u × %u pixels that its header gives", s->path, (long long)s->size, nx, ny);
    s->nx = (int)nx;
    s->ny = (int)ny;
    if (s->image != NULL) {
        TRY(image_resize(s->image, s->nx, s->ny, 1, s->err));
        s->image->pixel_size = 0;
    }
    return STATUS_OK;
}

static enum status failed(const struct source *s) {
    FAIL(s->err, s->ended ? STATUS_TRUNCATED : STATUS_BAD_FORMAT,
         "%s: the %s cannot be read near byte %lld of %lld: %s", s->path, s->is_png ? "PNG" : "JPEG", (long long)s->at,
         (long long)s->size, s->ended ? "the file ends" : s->message);
}

/* Converts one row of grey or RGB values, 8 bits or 16 bits big-endian, to luminance. */
static void store_row(const unsigned char *row, int nx, int channels, int bytes, float *out) {
    int colours = channels >= 3 ? 3 : 1;
    float sample[3] = {0};
    for (int x = 0; x < nx; x++) {
        const unsigned char *pixel = row + (size_t)x * (size_t)(channels * bytes);
        for (int c = 0; c < colours; c++) {
            const unsigned char *v = pixel + c * bytes;
            sample[c] = bytes == 2 ? (float)(v[0] << 8 | v[1]) : (float)v[0];
        }
        out[x] = colours == 3 ? image_luminance(sample[0], sample[1], sample[2]) : sample[0];
    }
}

/* ---- PNG ---- */

static void png_failed(png_structp png, png_const_charp message) {
    struct source *s = png_get_error_ptr(png);
    snprintf(s->message, sizeof s->message, "%s", message);
    longjmp(s->jump, 1);
}

static void png_warned(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static void png_more(png_structp png, png_bytep bytes, png_size_t length) {
    struct source *s = png_get_io_ptr(png);
    enum status status = file_read_at(s->descriptor, s->path, s->at, bytes, length, NULL);
    s->ended = status == STATUS_TRUNCATED;
    if (status != STATUS_OK) png_error(png, "the file cannot be read");
    s->at += (int64_t)length;
}

/* Walks the chunks of a PNG up to its end marker. */
static enum status walk_png(struct source *s) {
    for (int64_t at = 8;;) {
        unsigned char head[8];
        TRY(file_read_at(s->descriptor, s->path, at, head, sizeof head, s->err));
        uint32_t length = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
        FAIL_IF(length > INT32_MAX, s->err, STATUS_BAD_FORMAT, "%s: not a whole PNG: a chunk of %u bytes at byte %lld",
                s->path, length, (long long)at);
        FAIL_IF(at + 12 + length > s->size, s->err, STATUS_TRUNCATED,
                "%s: ends at byte %lld, inside a PNG chunk of %u bytes that begins at byte %lld", s->path,
                (long long)s->size, length, (long long)at);
        if (memcmp(head + 4, "IEND", 4) == 0) return STATUS_OK;
        at += 12 + (int64_t)length;
    }
}

static void png_pixels(struct source *s) {
    png_set_expand(s->png);
    png_set_strip_alpha(s->png);
    int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    int channels = png_get_channels(s->png, s->info), bytes = png_get_bit_depth(s->png, s->info) / 8;
    size_t row = png_get_rowbytes(s->png, s->info);
    if (bytes < 1 || bytes > 2 || row < (size_t)s->nx * (size_t)(channels * bytes))
        png_error(s->png, "its depth is not known");
    /* Each pass of an interlaced picture fills the same rows. */
    size_t rows = passes > 1 ? (size_t)s->ny : 1;
    s->bytes = calloc(rows, row);
    if (s->bytes == NULL) png_error(s->png, "no memory for its rows");
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < s->ny; y++) {
            unsigned char *to = s->bytes + (passes > 1 ? (size_t)y * row : 0);
            png_read_row(s->png, to, NULL);
            if (pass == passes - 1) store_row(to, s->nx, channels, bytes, s->image->data + (size_t)y * (size_t)s->nx);
        }
}

static enum status read_png(struct source *s) {
    TRY(walk_png(s));
    s->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, s, png_failed, png_warned);
    s->info = s->png != NULL ? png_create_info_struct(s->png) : NULL;
    FAIL_IF(s->info == NULL, s->err, STATUS_NO_MEMORY, "%s: no memory to read it", s->path);
    if (setjmp(s->jump) != 0) return failed(s);
    png_set_read_fn(s->png, s, png_more);
    png_set_user_limits(s->png, LARGEST_SIDE, LARGEST_SIDE);
    png_read_info(s->png, s->info);
    TRY(check_shape(s, png_get_image_width(s->png, s->info), png_get_image_height(s->png, s->info)));
    size_t row = mem_bytes(PNG_PIXEL_BYTES, (size_t)s->nx);
    bool interlaced = png_get_interlace_type(s->png, s->info) != PNG_INTERLACE_NONE;
    s->beside = interlaced ? mem_bytes(row, (size_t)s->ny) : row;
    if (s->image != NULL) png_pixels(s);
    return STATUS_OK;
}

/* ---- JPEG ---- */

static void jpeg_failed(j_common_ptr jpeg) {
    struct source *s = jpeg->client_data;
    char message[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, message);
    snprintf(s->message, sizeof s->message, "%s", message);
    longjmp(s->jump, 1);
}

/* Makes one warning an error: after it libjpeg would fill the rest with grey. Other warnings are harmless. */
static void jpeg_warned(j_common_ptr jpeg, int level) {
    if (level < 0 && jpeg->err->msg_code == JWRN_HIT_MARKER) jpeg_failed(jpeg);
}

static void jpeg_nothing(j_decompress_ptr jpeg) {
    (void)jpeg;
}

static boolean jpeg_more(j_decompress_ptr jpeg) {
    struct source *s = jpeg->client_data;
    int64_t left = s->size - s->at;
    size_t length = left < (int64_t)sizeof s->buffer ? (size_t)left : sizeof s->buffer;
    if (length == 0 || file_read_at(s->descriptor, s->path, s->at, s->buffer, length, NULL) != STATUS_OK) {
        s->ended = true;
        longjmp(s->jump, 1);
    }
    s->at += (int64_t)length;
    s->jpeg_source.next_input_byte = s->buffer;
    s->jpeg_source.bytes_in_buffer = length;
    return TRUE;
}

static void jpeg_skip(j_decompress_ptr jpeg, long count) {
    struct source *s = jpeg->client_data;
    while (count > (long)s->jpeg_source.bytes_in_buffer) {
        count -= (long)s->jpeg_source.bytes_in_buffer;
        jpeg_more(jpeg);
    }
    if (count > 0) {
        s->jpeg_source.next_input_byte += count;
        s->jpeg_source.bytes_in_buffer -= (size_t)count;
    }
}

/* Looks for the end marker near the end: cameras append a few bytes. */
static enum status find_jpeg_end(struct source *s) {
    enum { TAIL = 4096 };
    unsigned char tail[TAIL];
    size_t length = s->size < TAIL ? (size_t)s->size : TAIL;
    TRY(file_read_at(s->descriptor, s->path, s->size - (int64_t)length, tail, length, s->err));
    for (size_t i = length - 1; i > 0; i--)
        if (tail[i - 1] == 0xff && tail[i] == 0xd9) return STATUS_OK;
    FAIL(s->err, STATUS_TRUNCATED, "%s: ends at byte %lld without a JPEG's end marker", s->path, (long long)s->size);
}

static void jpeg_pixels(struct source *s) {
    s->jpeg.out_color_space = s->jpeg.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&s->jpeg);
    s->bytes = calloc((size_t)s->nx, (size_t)s->jpeg.output_components);
    if (s->bytes == NULL) {
        snprintf(s->message, sizeof s->message, "no memory for a row");
        longjmp(s->jump, 1);
    }
    while ((int)s->jpeg.output_scanline < s->ny) {
        float *out = s->image->data + (size_t)s->jpeg.output_scanline * (size_t)s->nx;
        JSAMPROW rows[1] = {s->bytes};
        jpeg_read_scanlines(&s->jpeg, rows, 1);
        store_row(s->bytes, s->nx, s->jpeg.output_components, 1, out);
    }
}

static enum status read_jpeg(struct source *s) {
    TRY(find_jpeg_end(s));
    s->jpeg.err = jpeg_std_error(&s->jpeg_error);
    s->jpeg_error.error_exit = jpeg_failed;
    s->jpeg_error.emit_message = jpeg_warned;
    s->jpeg.client_data = s;
    if (setjmp(s->jump) != 0) return failed(s);
    jpeg_create_decompress(&s->jpeg);
    s->jpeg_source = (struct jpeg_source_mgr){.init_source = jpeg_nothing,
                                              .fill_input_buffer = jpeg_more,
                                              .skip_input_data = jpeg_skip,
                                              .resync_to_restart = jpeg_resync_to_restart,
                                              .term_source = jpeg_nothing};
    s->jpeg.src = &s->jpeg_source;
    jpeg_read_header(&s->jpeg, TRUE);
    TRY(check_shape(s, s->jpeg.image_width, s->jpeg.image_height));
    FAIL_IF(s->jpeg.num_components != 1 && s->jpeg.num_components != 3, s->err, STATUS_UNSUPPORTED,
            "%s: a JPEG with %d colour channels is not supported: convert it to grey or RGB", s->path,
            s->jpeg.num_components);
    /* libjpeg holds all coefficients of a picture that comes in several scans. */
    size_t row = mem_bytes((size_t)s->nx, (size_t)s->jpeg.num_components);
    s->beside = jpeg_has_multiple_scans(&s->jpeg) ? mem_bytes(mem_bytes(row, (size_t)s->ny), sizeof(JCOEF)) : row;
    if (s->image != NULL) jpeg_pixels(s);
    return STATUS_OK;
}

/* ---- both ---- */

static enum status read_either(struct source *s) {
    unsigned char magic[8] = {0};
    TRY(file_open_read(s->path, &s->descriptor, &s->size, s->err));
    FAIL_IF(s->size < (int64_t)sizeof magic, s->err, STATUS_TRUNCATED, "%s: ends at byte %lld, inside its header",
            s->path, (long long)s->size);
    TRY(file_read_at(s->descriptor, s->path, 0, magic, sizeof magic, s->err));
    s->is_png = png_sig_cmp(magic, 0, sizeof magic) == 0;
    FAIL_IF(!s->is_png && (magic[0] != 0xff || magic[1] != 0xd8), s->err, STATUS_BAD_FORMAT,
            "%s: neither a PNG nor a JPEG file", s->path);
    return s->is_png ? read_png(s) : read_jpeg(s);
}

static enum status open_and_read(const char *path, struct image *image, struct image_info *ret_info, struct err *err) {
    _cleanup_(mem_free) struct source *s = NULL;
    TRY(mem_new(1, sizeof *s, "reading a picture", &s, err));
    s->path = path;
    s->descriptor = -1;
    s->image = image;
    s->err = err;
    enum status status = read_either(s);
    if (status == STATUS_OK && ret_info != NULL)
        *ret_info = (struct image_info){.format = s->is_png ? IMAGE_PNG : IMAGE_JPEG,
                                        .nx = s->nx,
                                        .ny = s->ny,
                                        .nz = 1,
                                        .pixel_size = 0,
                                        .bytes = mem_sum(image_bytes(s->nx, s->ny, 1), s->beside)};
    source_close(s);
    return status;
}

enum status picture_probe(const char *path, struct image_info *ret_info, struct err *err) {
    return open_and_read(path, NULL, ret_info, err);
}

enum status picture_read(const char *path, struct image *image, struct err *err) {
    return open_and_read(path, image, NULL, err);
}
