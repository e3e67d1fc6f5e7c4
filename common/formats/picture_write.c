#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/files.h"
#include "common/formats/picture.h"
#include "common/memory.h"

struct target {
    png_structp png;
    png_infop info;
    jmp_buf jump;
    char message[256];
};

static void png_failed(png_structp png, png_const_charp message) {
    struct target *t = png_get_error_ptr(png);
    snprintf(t->message, sizeof t->message, "%s", message);
    longjmp(t->jump, 1);
}

static void png_warned(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

struct content {
    int nx, ny, type; /* PNG_COLOR_TYPE_… */
    const uint8_t *pixels;
    const uint8_t (*palette)[3]; /* or NULL */
};

static void set_palette(struct target *t, const uint8_t palette[PICTURE_COLOURS][3]) {
    png_color colours[PICTURE_COLOURS];
    for (int i = 0; i < PICTURE_COLOURS; i++)
        colours[i] = (png_color){palette[i][0], palette[i][1], palette[i][2]};
    png_set_PLTE(t->png, t->info, colours, PICTURE_COLOURS);
    /* Noise does not repeat, so do not search for repeats. */
    png_set_compression_strategy(t->png, Z_HUFFMAN_ONLY);
}

static bool write_rows(struct target *t, FILE *out, const struct content *content) {
    if (setjmp(t->jump) != 0) return false;
    png_init_io(t->png, out);
    png_set_IHDR(t->png, t->info, (png_uint_32)content->nx, (png_uint_32)content->ny, 8, content->type,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    if (content->palette != NULL) set_palette(t, content->palette);
    /* Micrographs are noise: stronger compression costs time and saves nothing. */
    png_set_compression_level(t->png, 1);
    png_set_filter(t->png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_write_info(t->png, t->info);
    size_t row = (size_t)content->nx * (content->type == PNG_COLOR_TYPE_RGB ? 3 : 1);
    for (int y = 0; y < content->ny; y++)
        png_write_row(t->png, content->pixels + (size_t)y * row);
    png_write_end(t->png, NULL);
    return true;
}

static enum status write_png(const char *path, const struct content *content, struct err *err) {
    FAIL_IF(content->nx < 1 || content->ny < 1, err, STATUS_BAD_ARGUMENT,
            "%s: a picture of %d × %d pixels cannot be written", path, content->nx, content->ny);
    _cleanup_(file_discard) struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    struct target target = {0};
    target.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &target, png_failed, png_warned);
    target.info = target.png != NULL ? png_create_info_struct(target.png) : NULL;
    errno = 0;
    bool done = target.info != NULL && write_rows(&target, file_output_stream(output), content);
    int reason = errno;
    if (target.png != NULL) png_destroy_write_struct(&target.png, &target.info);
    /* libpng says only "Write Error" for a full disk. Without an error on the stream it ran out of memory. */
    FAIL_IF(!done && ferror(file_output_stream(output)), err, status_of_writing(reason),
            "%s: the picture cannot be written: %s", path, status_reason(reason));
    FAIL_IF(!done, err, STATUS_NO_MEMORY, "%s: the picture cannot be written: %s", path,
            target.message[0] != '\0' ? target.message : "no memory");
    return file_commit(&output, err);
}

enum status picture_write_grey(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err) {
    const struct content content = {nx, ny, PNG_COLOR_TYPE_GRAY, pixels, NULL};
    return write_png(path, &content, err);
}

enum status picture_write_rgb(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err) {
    const struct content content = {nx, ny, PNG_COLOR_TYPE_RGB, pixels, NULL};
    return write_png(path, &content, err);
}

enum status picture_write_palette(const char *path, int nx, int ny, const uint8_t *pixels,
                                  const uint8_t palette[PICTURE_COLOURS][3], struct err *err) {
    const struct content content = {nx, ny, PNG_COLOR_TYPE_PALETTE, pixels, palette};
    return write_png(path, &content, err);
}
