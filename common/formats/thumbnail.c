#include "common/formats/thumbnail.h"

#include <math.h>

#include "common/files.h"
#include "common/formats/picture_encode.h"
#include "common/memory.h"

enum { QUALITY = 75, GREYS = 255 };
static const double CONTRAST = 3; /* standard deviations */

/* The averages of the boxes; NaN where no pixel is finite. */
struct boxes {
    int nx, ny;
    float value[THUMBNAIL_SIDE * THUMBNAIL_SIDE];
};

static int side_of(int side, double shrink) {
    long small = lround(side / shrink);
    return small < 1 ? 1 : (int)small;
}

/* Averages one row of boxes. */
static void average_row(const struct image *image, struct boxes *boxes, int row) {
    double sum[THUMBNAIL_SIDE] = {0};
    long count[THUMBNAIL_SIDE] = {0};
    int first = (int)((int64_t)row * image->ny / boxes->ny), last = (int)(((int64_t)row + 1) * image->ny / boxes->ny);
    for (int y = first; y < last; y++) {
        const float *line = image->data + (size_t)y * (size_t)image->nx;
        for (int box = 0, x = 0; box < boxes->nx; box++) {
            int end = (int)(((int64_t)box + 1) * image->nx / boxes->nx), finite = 0;
            float part = 0;
            for (; x < end; x++) {
                bool counts = isfinite(line[x]);
                part += counts ? line[x] : 0;
                finite += counts;
            }
            sum[box] += (double)part;
            count[box] += finite;
        }
    }
    for (int box = 0; box < boxes->nx; box++)
        boxes->value[row * boxes->nx + box] = count[box] > 0 ? (float)(sum[box] / (double)count[box]) : NAN;
}

/* Finds mean and deviation of the boxes within `reach` of `middle`. */
static void moments(const struct boxes *boxes, double middle, double reach, double *ret_mean, double *ret_deviation) {
    double sum = 0, squares = 0, count = 0;
    for (int i = 0; i < boxes->nx * boxes->ny; i++) {
        double value = (double)boxes->value[i] - middle;
        if (!(fabs(value) <= reach)) continue;
        sum += value;
        squares += value * value;
        count++;
    }
    double mean = count > 0 ? sum / count : 0;
    *ret_mean = middle + mean;
    *ret_deviation = count > 0 ? sqrt(fmax(squares / count - mean * mean, 0)) : 0;
}

void thumbnail_make(const struct image *image, struct thumbnail *ret_thumbnail) {
    int longer = image->nx > image->ny ? image->nx : image->ny;
    double shrink = fmax(1, (double)longer / THUMBNAIL_SIDE), mean = 0, deviation = 0;
    struct boxes boxes = {.nx = side_of(image->nx, shrink), .ny = side_of(image->ny, shrink)};
    for (int row = 0; row < boxes.ny; row++)
        average_row(image, &boxes, row);
    moments(&boxes, 0, INFINITY, &mean, &deviation);
    moments(&boxes, mean, INFINITY, &mean, &deviation); /* about the mean: exact also where the mean is large */
    moments(&boxes, mean, CONTRAST * deviation, &mean, &deviation);
    ret_thumbnail->nx = boxes.nx;
    ret_thumbnail->ny = boxes.ny;
    for (int i = 0; i < boxes.nx * boxes.ny; i++) {
        double value = (double)boxes.value[i] - mean;
        double level = deviation > 0 ? 0.5 + value / (2 * CONTRAST * deviation) : 0.5;
        ret_thumbnail->pixels[i] = isfinite(value) ? (uint8_t)lround(GREYS * fmin(fmax(level, 0), 1)) : 0;
    }
}

enum status thumbnail_write(const struct thumbnail *t, const char *path, struct err *err) {
    _cleanup_(mem_free) unsigned char *bytes = NULL;
    size_t length = 0;
    TRY(picture_encode_jpeg(t->nx, t->ny, t->pixels, QUALITY, &bytes, &length, err));
    return file_write_whole(path, bytes, length, err);
}
