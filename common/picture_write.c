#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/picture.h"

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

static bool write_rows(struct target *t, FILE *out, int nx, int ny, int channels, const uint8_t *pixels) {
    if (setjmp(t->jump) != 0) return false;
    png_init_io(t->png, out);
    png_set_IHDR(t->png, t->info, (png_uint_32)nx, (png_uint_32)ny, 8,
                 channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    /* Micrographs are noise: harder compression costs time and saves nothing. */
    png_set_compression_level(t->png, 2);
    png_write_info(t->png, t->info);
    for (int y = 0; y < ny; y++)
        png_write_row(t->png, pixels + (size_t)y * (size_t)nx * (size_t)channels);
    png_write_end(t->png, NULL);
    return true;
}

static enum status write_png(const char *path, int nx, int ny, int channels, const uint8_t *pixels, struct err *err) {
    FAIL_IF(nx < 1 || ny < 1, err, STATUS_BAD_ARGUMENT, "%s: a picture of %d × %d pixels cannot be written", path, nx,
            ny);
    _cleanup_(file_discard) struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    struct target target = {0};
    target.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &target, png_failed, png_warned);
    target.info = target.png != NULL ? png_create_info_struct(target.png) : NULL;
    bool done = target.info != NULL && write_rows(&target, file_output_stream(output), nx, ny, channels, pixels);
    if (target.png != NULL) png_destroy_write_struct(&target.png, &target.info);
    FAIL_IF(!done, err, STATUS_IO, "%s: the picture cannot be written: %s", path,
            target.message[0] != '\0' ? target.message : "no memory");
    return file_commit(&output, err);
}

enum status picture_write_grey(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err) {
    return write_png(path, nx, ny, 1, pixels, err);
}

enum status picture_write_rgb(const char *path, int nx, int ny, const uint8_t *pixels, struct err *err) {
    return write_png(path, nx, ny, 3, pixels, err);
}
