/* Both libraries report errors by a longjmp. A function that calls setjmp changes nothing of its own after it. */
#include "common/formats/picture_encode.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jpeglib.h needs the types of stdio.h. */
#include <jpeglib.h>

enum { SIDE_MAX = 65000 };

struct encoder {
    jmp_buf jump;
    int nx, ny, quality;
    const uint8_t *pixels;
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr jpeg_error;
    struct jpeg_destination_mgr jpeg_target;
    unsigned char piece[4096]; /* of JPEG, until it goes to bytes */
    png_structp png;
    png_infop png_info;
    unsigned char *bytes;
    size_t length, capacity;
};

static enum status check(int nx, int ny, struct err *err) {
    FAIL_IF(nx < 1 || ny < 1 || nx > SIDE_MAX || ny > SIDE_MAX, err, STATUS_BAD_ARGUMENT,
            "a picture of %d × %d px cannot be encoded: each side needs 1 to %d px", nx, ny, SIDE_MAX);
    return STATUS_OK;
}

static bool append(struct encoder *e, const unsigned char *bytes, size_t length) {
    if (e->capacity - e->length < length) {
        size_t capacity = 2 * e->capacity + length + 4096;
        unsigned char *larger = realloc(e->bytes, capacity);
        if (larger == NULL) return false;
        e->bytes = larger;
        e->capacity = capacity;
    }
    memcpy(e->bytes + e->length, bytes, length);
    e->length += length;
    return true;
}

/* ---- JPEG ---- */

static void jpeg_failed(j_common_ptr jpeg) {
    longjmp(((struct encoder *)jpeg->client_data)->jump, 1);
}

static void jpeg_said(j_common_ptr jpeg) {
    (void)jpeg;
}

static void jpeg_begin(j_compress_ptr jpeg) {
    struct encoder *e = jpeg->client_data;
    e->jpeg_target.next_output_byte = e->piece;
    e->jpeg_target.free_in_buffer = sizeof e->piece;
}

static boolean jpeg_full(j_compress_ptr jpeg) {
    struct encoder *e = jpeg->client_data;
    if (!append(e, e->piece, sizeof e->piece)) longjmp(e->jump, 1);
    jpeg_begin(jpeg);
    return TRUE;
}

static void jpeg_end(j_compress_ptr jpeg) {
    struct encoder *e = jpeg->client_data;
    if (!append(e, e->piece, sizeof e->piece - e->jpeg_target.free_in_buffer)) longjmp(e->jump, 1);
}

static bool run_jpeg(struct encoder *e) {
    if (setjmp(e->jump) != 0) return false;
    jpeg_create_compress(&e->jpeg);
    e->jpeg.dest = &e->jpeg_target;
    e->jpeg.image_width = (JDIMENSION)e->nx;
    e->jpeg.image_height = (JDIMENSION)e->ny;
    e->jpeg.input_components = 1;
    e->jpeg.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&e->jpeg);
    jpeg_set_quality(&e->jpeg, e->quality, TRUE);
    jpeg_start_compress(&e->jpeg, TRUE);
    while (e->jpeg.next_scanline < e->jpeg.image_height) {
        /* libjpeg reads the row and never writes to it. */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(e->pixels + (size_t)e->jpeg.next_scanline * (size_t)e->nx);
        jpeg_write_scanlines(&e->jpeg, &row, 1);
    }
    jpeg_finish_compress(&e->jpeg);
    return true;
}

enum status picture_encode_jpeg(int nx, int ny, const uint8_t *pixels, int quality, unsigned char **ret_bytes,
                                size_t *ret_length, struct err *err) {
    TRY(check(nx, ny, err));
    struct encoder e = {.nx = nx, .ny = ny, .quality = quality, .pixels = pixels};
    e.jpeg.err = jpeg_std_error(&e.jpeg_error);
    e.jpeg_error.error_exit = jpeg_failed;
    e.jpeg_error.output_message = jpeg_said;
    e.jpeg.client_data = &e;
    e.jpeg_target = (struct jpeg_destination_mgr){
        .init_destination = jpeg_begin, .empty_output_buffer = jpeg_full, .term_destination = jpeg_end};
    bool done = run_jpeg(&e);
    jpeg_destroy_compress(&e.jpeg);
    if (!done) free(e.bytes);
    FAIL_IF(!done, err, STATUS_NO_MEMORY, "no memory to encode a picture of %d × %d px as JPEG", nx, ny);
    *ret_bytes = e.bytes;
    *ret_length = e.length;
    return STATUS_OK;
}

/* ---- PNG ---- */

static void png_failed(png_structp png, png_const_charp message) {
    (void)message;
    longjmp(((struct encoder *)png_get_error_ptr(png))->jump, 1);
}

static void png_warned(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static void png_put(png_structp png, png_bytep bytes, png_size_t length) {
    if (!append(png_get_io_ptr(png), bytes, length)) png_error(png, "no memory");
}

static void png_flushed(png_structp png) {
    (void)png;
}

static bool run_png(struct encoder *e) {
    if (setjmp(e->jump) != 0) return false;
    png_set_write_fn(e->png, e, png_put, png_flushed);
    png_set_IHDR(e->png, e->png_info, (png_uint_32)e->nx, (png_uint_32)e->ny, 8, PNG_COLOR_TYPE_GRAY,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    png_set_compression_level(e->png, 1);
    png_write_info(e->png, e->png_info);
    for (int y = 0; y < e->ny; y++)
        png_write_row(e->png, e->pixels + (size_t)y * (size_t)e->nx);
    png_write_end(e->png, NULL);
    return true;
}

enum status picture_encode_png(int nx, int ny, const uint8_t *pixels, unsigned char **ret_bytes, size_t *ret_length,
                               struct err *err) {
    TRY(check(nx, ny, err));
    struct encoder e = {.nx = nx, .ny = ny, .pixels = pixels};
    e.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &e, png_failed, png_warned);
    e.png_info = e.png != NULL ? png_create_info_struct(e.png) : NULL;
    bool done = e.png_info != NULL && run_png(&e);
    if (e.png != NULL) png_destroy_write_struct(&e.png, &e.png_info);
    if (!done) free(e.bytes);
    FAIL_IF(!done, err, STATUS_NO_MEMORY, "no memory to encode a picture of %d × %d px as PNG", nx, ny);
    *ret_bytes = e.bytes;
    *ret_length = e.length;
    return STATUS_OK;
}
