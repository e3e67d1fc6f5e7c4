/* Tests where images of a series lie: resampling compared with its definition, resampled images beside others, and the
 * picture of a tomogram. */
#include "common/formats/image_formats.h"
#include "tests/common/scratch.h"

#include "stages/tilt-reconstructor/products.h"
#include "stages/tilt-reconstructor/projections.h"
#include "stages/tilt-reconstructor/resample.h"
#include "tests/kernels/chance.h"

static double between(double low, double high) {
    return low + (high - low) * uniform();
}

/* The kernel of Keys (1981) with a = −1/2, that of Catmull and Rom. */
static double cubic(double d) {
    d = fabs(d);
    return d < 1 ? (1.5 * d - 2.5) * d * d + 1 : d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0;
}

static double pixel_at(const struct image *image, int i, int j) {
    i = i < 0 ? 0 : i >= image->nx ? image->nx - 1 : i;
    j = j < 0 ? 0 : j >= image->ny ? image->ny - 1 : j;
    return (double)image->data[j * image->nx + i];
}

/* Sums over all pixels of the image; pixels beyond the rim equal the rim. */
static double value_at(const struct image *image, double u, double v) {
    double sum = 0;
    for (int j = -2; j < image->ny + 2; j++)
        for (int i = -2; i < image->nx + 2; i++)
            sum += cubic(u - i) * cubic(v - j) * pixel_at(image, i, j);
    return sum;
}

static void compare_with_definition(const struct image *image, const struct tilt_transform *t, int nx, int ny) {
    size_t count = (size_t)nx * (size_t)ny;
    float *out = malloc(count * sizeof *out), *again = malloc(count * sizeof *again);
    double mean = 0, det = t->a11 * t->a22 - t->a12 * t->a21, c = 0.5 * image->nx - 0.5, d = 0.5 * image->ny - 0.25;
    assert_true(out != NULL && again != NULL);
    memset(out, 0xff, count * sizeof *out); /* NaN */
    memset(again, 0xff, count * sizeof *again);
    resample_image(image, c, d, t, nx, ny, out, 1);
    resample_image(image, c, d, t, nx, ny, again, 3);
    assert_memory_equal(out, again, count * sizeof *out);
    for (int i = 0; i < image->nx * image->ny; i++)
        mean += (double)image->data[i] / (image->nx * image->ny);
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            double px = x - 0.5 * (nx - 1) - t->dx, py = y - 0.5 * (ny - 1) - t->dy;
            double u = c + (t->a22 * px - t->a12 * py) / det, v = d + (t->a11 * py - t->a21 * px) / det;
            bool there = u >= -0.5 && v >= -0.5 && u <= image->nx - 0.5 && v <= image->ny - 0.5;
            double expected = there ? value_at(image, u, v) : mean;
            /* A dozen roundings of values of at most 1, with weights of at most 1.6 in sum. */
            if (!(fabs((double)out[y * nx + x] - expected) < 5e-6))
                fail_msg("%d × %d px, transform %g %g %g %g %g %g: (%d, %d) is %g, not %g", image->nx, image->ny,
                         t->a11, t->a12, t->a21, t->a22, t->dx, t->dy, x, y, (double)out[y * nx + x], expected);
        }
    free(out);
    free(again);
}

static void resampling_follows_its_definition(void **state) {
    (void)state;
    static const int sizes[][4] = {{37, 29, 40, 31}, {3, 2, 9, 7}, {80, 5, 130, 6}, {21, 34, 33, 20}, {1, 1, 2, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct image image = {0};
        struct err err;
        assert_ok(image_resize(&image, sizes[s][0], sizes[s][1], 1, &err));
        for (size_t i = 0; i < image_count(&image); i++)
            image.data[i] = (float)between(-1, 1);
        for (int i = 0; i < 6; i++) {
            double a = i < 2 ? i * M_PI / 2 : between(-M_PI, M_PI);
            double scale = i < 3 ? 1 : between(0.6, 1.7);
            struct tilt_transform t = {scale * cos(a), -scale * sin(a), scale * sin(a), scale * cos(a), 0, 0};
            t.dx = between(-4, 4);
            t.dy = i == 5 ? 1000 : between(-4, 4); /* 1000 moves the whole image out of sight */
            compare_with_definition(&image, &t, sizes[s][2], sizes[s][3]);
        }
        image_destroy(&image);
    }
}

enum { SIDE = 98, BIN = 4 };
static const double BUMP_X = 9, BUMP_Y = -13;

static void find_bump(const float *image, int nx, int ny, double *ret_x, double *ret_y) {
    double sum = 0, x = 0, y = 0;
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            double value = fmax((double)image[j * nx + i] - 0.1, 0); /* not the fill at the rim */
            sum += value;
            x += value * (i - 0.5 * (nx - 1));
            y += value * (j - 0.5 * (ny - 1));
        }
    *ret_x = x / sum;
    *ret_y = y / sum;
}

/* Returns how far the bump lies from its place in each of three images, counted from the tilt axis; px. */
static double farthest_off(const double moved[3], double *ret_shift) {
    static float image[SIDE * SIDE];
    for (int j = 0; j < SIDE; j++)
        for (int i = 0; i < SIDE; i++) {
            double u = i - 0.5 * (SIDE - 1) - BUMP_X, v = j - 0.5 * (SIDE - 1) - BUMP_Y;
            image[j * SIDE + i] = (float)exp(-(u * u + v * v) / 128);
        }
    struct series series = {.name = strdup("ts"), .nx = SIDE, .ny = SIDE, .pixel_size = NAN, .tilt_axis = NAN};
    struct projections_options options = {.bin = BIN, .tilt_axis = NAN, .threads = 1};
    struct projections projections = {0};
    struct err err;
    double farthest = 0;
    for (int i = 0; i < 3; i++) {
        struct tilt tilt = {.number = i + 1, .angle = 3 * i, .pixels = image, .shifted = true};
        tilt.transform = (struct tilt_transform){1, 0, 0, 1, moved[i], 0};
        assert_ok(series_add(&series, &tilt, "memory", &err));
    }
    assert_ok(projections_read(&series, &options, &projections, &err));
    for (int i = 0; i < 3; i++) {
        double x, y;
        find_bump(projections.data + (size_t)i * (size_t)(projections.nx * projections.ny), projections.nx,
                  projections.ny, &x, &y);
        farthest = fmax(farthest, fabs(x - projections.shift - (BUMP_X + moved[i]) / BIN));
    }
    *ret_shift = projections.shift;
    projections_clear(&projections);
    series_clear(&series);
    return farthest;
}

/* Columns that binning cuts off move the middle of images that are not resampled, and of these alone. */
static void binning_moves_no_tilt_against_another(void **state) {
    (void)state;
    static const double none[] = {0, 0, 0}, some[] = {0, 8, 0}, slightly[] = {1e-4, 1e-4, 1e-4};
    double shift, off = farthest_off(none, &shift);
    if (!(off < 0.02) || fabs(shift - 0.25) > 1e-12) fail_msg("as they are: %g px off, axis at %g px", off, shift);
    off = farthest_off(slightly, &shift);
    if (!(off < 0.02) || fabs(shift) > 0) fail_msg("resampled: %g px off, axis at %g px", off, shift);
    off = farthest_off(some, &shift);
    if (!(off < 0.02) || fabs(shift) > 0) fail_msg("one of three resampled: %g px off, axis at %g px", off, shift);
}

/* Finds the brightest pixel of a panel, counted from its lower left corner. */
static void brightest(const struct image *picture, int left, int bottom, int nx, int ny, int *ret_x, int *ret_y) {
    float most = -1;
    *ret_x = *ret_y = -1;
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++) {
            float value = picture->data[(picture->ny - 1 - bottom - y) * picture->nx + left + x];
            if (value <= most) continue;
            most = value;
            *ret_x = x;
            *ret_y = y;
        }
    assert_true(most > 250);
}

/* Draws a volume with one bright voxel in each of the three slices. factor: by how much the picture is smaller. */
static void three_panels(int nx, int ny, int nz, int factor) {
    struct image volume = {0}, picture = {0};
    struct err err;
    char path[PATH_SIZE];
    const int cx = nx / 2, cy = ny / 2, cz = nz / 2;
    const int at[3][3] = {{nx / 5, ny / 3, cz}, {nx - nx / 4, cy, nz / 3}, {cx, ny - ny / 6, nz - nz / 3}};
    scratch_path("slices.png", path);
    assert_ok(image_resize(&volume, nx, ny, nz, &err));
    memset(volume.data, 0, image_count(&volume) * sizeof *volume.data);
    for (int p = 0; p < 3; p++)
        for (int j = 0; j < factor; j++)
            for (int i = 0; i < factor; i++) {
                int x = at[p][0] / factor * factor, y = at[p][1] / factor * factor, z = at[p][2] / factor * factor;
                x = p == 2 ? cx : x + i, y = p == 1 ? cy : p == 2 ? y + i : y + j, z = p == 0 ? cz : z + j;
                volume.data[((size_t)z * (size_t)ny + (size_t)y) * (size_t)nx + (size_t)x] = 1;
            }
    assert_ok(products_picture(volume.data, nx, ny, nz, path, &err));
    assert_ok(image_read(path, &picture, &err));
    int across = nx / factor, up = ny / factor, deep = nz / factor, gap = picture.nx - across - deep, i, j;
    assert_true(gap >= 0 && gap < 10 && picture.ny == up + gap + deep);
    brightest(&picture, 0, 0, across, up, &i, &j);
    assert_true(i == at[0][0] / factor && j == at[0][1] / factor);
    brightest(&picture, 0, up + gap, across, deep, &i, &j);
    assert_true(i == at[1][0] / factor && j == at[1][2] / factor);
    brightest(&picture, across + gap, 0, deep, up, &i, &j);
    assert_true(i == at[2][2] / factor && j == at[2][1] / factor);
    /* Empty parts are grey, half way between black and white. */
    float grey = picture.data[(picture.ny - 1) * picture.nx];
    assert_true(grey > 100 && grey < 150);
    image_destroy(&volume);
    image_destroy(&picture);
}

static void the_picture_lies_as_it_says(void **state) {
    (void)state;
    three_panels(40, 29, 17, 1);
    three_panels(1300, 301, 90, 2);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resampling_follows_its_definition),
        cmocka_unit_test(binning_moves_no_tilt_against_another),
        cmocka_unit_test(the_picture_lies_as_it_says),
    };
    return scratch_run("tilt-images", tests, sizeof tests / sizeof *tests);
}
