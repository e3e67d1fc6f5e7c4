#include "common/formats/gain.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "common/formats/image_formats.h"
#include "common/memory.h"

bool gain_divides(const char *path, const struct gain_options *options) {
    const char *ending = strrchr(path, '.');
    return options->divide || (options->eer && (ending == NULL || strcasecmp(ending, ".gain") != 0));
}

/* Returns how many pixels of the frames along a side one pixel of the file is; 0: the sizes do not fit. */
static int scale_of(int file_nx, int file_ny, int nx, int ny, bool eer) {
    for (int scale = 1; scale <= (eer ? 4 : 1); scale *= 2)
        if (nx / scale == file_nx && ny / scale == file_ny && nx % scale == 0 && ny % scale == 0) return scale;
    return 0;
}

static const char *name_of(enum turn_flip flip) {
    return flip == TURN_FLIP_ROWS ? "rows" : flip == TURN_FLIP_COLUMNS ? "columns" : "none";
}

static enum status refuse_size(const char *path, const struct image *image, const struct gain_options *options, int nx,
                               int ny, struct err *err) {
    int turned_nx, turned_ny;
    struct turn quarter = {.rotate = options->turn.rotate + 1};
    turn_shape(options->turn, image->nx, image->ny, &turned_nx, &turned_ny);
    FAIL_IF(scale_of(turned_ny, turned_nx, nx, ny, options->eer) == 0, err, STATUS_BAD_FORMAT,
            "%s: has %d × %d pixels, the movie %d × %d: it is the gain reference of another camera or binning", path,
            image->nx, image->ny, nx, ny);
    FAIL(err, STATUS_BAD_FORMAT,
         "%s: has %d × %d pixels after gain_rotate %d and gain_flip %s, the movie %d × %d: gain_rotate %d or %d would "
         "fit",
         path, turned_nx, turned_ny, options->turn.rotate, name_of(options->turn.flip), nx, ny, quarter.rotate % 2,
         quarter.rotate % 2 + 2);
}

/* Turns what the file holds into factors, in place; ret_good counts those above 0. */
static void make_factors(float *gain, size_t count, bool divide, size_t *ret_good) {
    double sum = 0;
    size_t good = 0;
    for (size_t i = 0; i < count; i++) {
        bool fine = gain[i] > 0 && isfinite(gain[i]);
        if (!fine) gain[i] = 0;
        sum += (double)gain[i];
        good += fine;
    }
    double mean = good > 0 ? sum / (double)good : 0;
    if (divide)
        for (size_t i = 0; i < count; i++)
            if (gain[i] > 0) gain[i] = (float)(mean / (double)gain[i]);
    *ret_good = good;
}

static void enlarge(const float *in, int nx, int scale, int out_nx, int out_ny, float *out) {
    for (int y = 0; y < out_ny; y++)
        for (int x = 0; x < out_nx; x++)
            out[(size_t)y * (size_t)out_nx + (size_t)x] = in[(size_t)(y / scale) * (size_t)nx + (size_t)(x / scale)];
}

static enum status read_one_image(const char *path, const char *what, struct image *image, struct err *err) {
    struct image_info info = {0};
    TRY(image_probe(path, &info, err));
    FAIL_IF(info.nz != 1, err, STATUS_BAD_FORMAT, "%s: has %d images; one is expected in %s", path, info.nz, what);
    return image_read_micrograph(path, image, err);
}

enum status gain_read(const char *path, const struct gain_options *options, int nx, int ny, float **ret_gain,
                      struct err *err) {
    _cleanup_(image_destroy) struct image image = {0};
    _cleanup_(mem_free) float *turned = NULL, *gain = NULL;
    int turned_nx, turned_ny;
    TRY(read_one_image(path, "a gain reference", &image, err));
    turn_shape(options->turn, image.nx, image.ny, &turned_nx, &turned_ny);
    int scale = scale_of(turned_nx, turned_ny, nx, ny, options->eer);
    if (scale == 0) return refuse_size(path, &image, options, nx, ny, err);
    size_t good = 0, pixels = image_count(&image);
    make_factors(image.data, pixels, gain_divides(path, options), &good);
    FAIL_IF(good == 0, err, STATUS_BAD_FORMAT, "%s: no pixel is above 0: it is not a gain reference", path);
    TRY(mem_new_unset(pixels, sizeof *turned, "the gain reference", &turned, err));
    turn_image(options->turn, image.data, image.nx, image.ny, turned);
    if (scale > 1) {
        image_destroy(&image);
        TRY(mem_new_unset((size_t)nx * (size_t)ny, sizeof *gain, "the gain reference", &gain, err));
        enlarge(turned, turned_nx, scale, nx, ny, gain);
        *ret_gain = gain;
        gain = NULL;
        return STATUS_OK;
    }
    *ret_gain = turned;
    turned = NULL;
    return STATUS_OK;
}
