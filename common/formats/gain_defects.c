#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/gain.h"
#include "common/formats/image_formats.h"
#include "common/memory.h"

enum { MOST_TEXT = 16 << 20, SHOWN = 60 };

/* Marks the part of a rectangle that lies inside the frame. */
static void mark(const long corner[4], int nx, int ny, uint8_t *map) {
    long x0 = corner[0] > 0 ? corner[0] : 0, y0 = corner[1] > 0 ? corner[1] : 0;
    long x1 = corner[0] < nx - corner[2] ? corner[0] + corner[2] : nx;
    long y1 = corner[1] < ny - corner[3] ? corner[1] + corner[3] : ny;
    for (long y = y0; y < y1; y++)
        if (x1 > x0) memset(map + (size_t)y * (size_t)nx + (size_t)x0, 1, (size_t)(x1 - x0));
}

/* Reads the numbers of a line. Returns how many there are; −1: something else stands there. */
static int numbers_of(const char *line, long numbers[4]) {
    int count = 0;
    for (const char *at = line;;) {
        at += strspn(at, " \t\r,");
        if (*at == '\0' || *at == '#') return count;
        char *end = NULL;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || errno != 0 || count == 4 || strchr(" \t\r,#", *end) == NULL) return -1;
        if (value < -(1 << 24) || value > 1 << 24) return -1;
        numbers[count++] = value;
        at = end;
    }
}

static enum status read_rectangles(const char *path, char *text, int nx, int ny, uint8_t *map, struct err *err) {
    int number = 0;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        long r[4];
        number++;
        int count = numbers_of(line, r);
        if (count == 0) continue;
        FAIL_IF(count != 4 || r[2] < 1 || r[3] < 1, err, STATUS_BAD_FORMAT,
                "%s:%d: \"%.*s\": a line of bad pixels has four whole numbers, x y width height", path, number, SHOWN,
                line);
        FAIL_IF(r[0] >= nx || r[1] >= ny || r[0] + r[2] <= 0 || r[1] + r[3] <= 0, err, STATUS_BAD_FORMAT,
                "%s:%d: \"%.*s\": lies outside the movie's frames of %d × %d px: is it the list of another camera or "
                "binning?",
                path, number, SHOWN, line, nx, ny);
        mark(r, nx, ny, map);
    }
    return STATUS_OK;
}

static enum status read_image(const char *path, int nx, int ny, uint8_t *map, struct err *err) {
    _cleanup_(image_destroy) struct image image = {0};
    TRY(image_read_micrograph(path, &image, err));
    FAIL_IF(image.nx != nx || image.ny != ny || image.nz != 1, err, STATUS_BAD_FORMAT,
            "%s: the map of bad pixels has %d × %d × %d pixels, the movie's frames %d × %d", path, image.nx, image.ny,
            image.nz, nx, ny);
    for (size_t i = 0; i < image_count(&image); i++)
        map[i] = image.data[i] != 0;
    return STATUS_OK;
}

enum status gain_read_defects(const char *path, int nx, int ny, uint8_t **ret_map, struct err *err) {
    _cleanup_(mem_free) uint8_t *map = NULL;
    _cleanup_(mem_free) char *text = NULL;
    struct image_info info = {0};
    size_t length = 0;
    TRY(mem_new((size_t)nx * (size_t)ny, 1, "the map of bad pixels", &map, err));
    if (image_probe(path, &info, NULL) == STATUS_OK) {
        TRY(read_image(path, nx, ny, map, err));
    } else {
        TRY(file_read_whole(path, MOST_TEXT, &text, &length, err));
        FAIL_IF(strlen(text) != length, err, STATUS_BAD_FORMAT,
                "%s: neither text nor an image: bad pixels are lines of x y width height, or an MRC or TIFF map", path);
        TRY(read_rectangles(path, text, nx, ny, map, err));
    }
    *ret_map = map;
    map = NULL;
    return STATUS_OK;
}
