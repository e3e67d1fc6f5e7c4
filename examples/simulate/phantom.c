#include "examples/simulate/phantom.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"

static const double REACH = 4;      /* standard deviations at which a Gaussian is cut */
static const double FINE_PIXEL = 2; /* Å: largest pixel of maps before they are cut in frequency */
enum { WINDOW = 64 };               /* the widest Gaussian, px */

void phantom_rotation(double rot, double tilt, double psi, double ret_rows[3][3]) {
    double ca = cos(rot * M_PI / 180), sa = sin(rot * M_PI / 180);
    double cb = cos(tilt * M_PI / 180), sb = sin(tilt * M_PI / 180);
    double cg = cos(psi * M_PI / 180), sg = sin(psi * M_PI / 180);
    const double rows[3][3] = {{cg * cb * ca - sg * sa, cg * cb * sa + sg * ca, -cg * sb},
                               {-sg * cb * ca - cg * sa, -sg * cb * sa + cg * ca, sg * sb},
                               {sb * ca, sb * sa, cb}};
    memcpy(ret_rows, rows, sizeof rows);
}

/* Computes one axis of a separable Gaussian about `centre` px: values[i] at pixel first + i, within [0, limit). */
static int gaussian_axis(double centre, double sigma, int limit, int *ret_first, float values[WINDOW]) {
    int first = (int)ceil(centre - REACH * sigma), last = (int)floor(centre + REACH * sigma);
    first = first < 0 ? 0 : first;
    last = last >= limit ? limit - 1 : last;
    int count = last - first + 1 > WINDOW ? WINDOW : last - first + 1;
    for (int i = 0; i < count; i++) {
        double d = (first + i - centre) / sigma;
        values[i] = (float)exp(-d * d / 2);
    }
    *ret_first = first;
    return count;
}

void phantom_project(const struct phantom *phantom, const double rows[3][3], double pixel_size, double x, double y,
                     double scale, struct image *image) {
    double sigma = phantom->sigma / pixel_size;
    double height = scale / (2 * M_PI * phantom->sigma * phantom->sigma);
    for (size_t i = 0; i < phantom->count; i++) {
        const struct residue *r = &phantom->residues[i];
        double px = x + (rows[0][0] * r->x + rows[0][1] * r->y + rows[0][2] * r->z) / pixel_size;
        double py = y + (rows[1][0] * r->x + rows[1][1] * r->y + rows[1][2] * r->z) / pixel_size;
        float across[WINDOW], down[WINDOW];
        int x0, y0;
        int nx = gaussian_axis(px, sigma, image->nx, &x0, across);
        int ny = gaussian_axis(py, sigma, image->ny, &y0, down);
        for (int j = 0; j < ny; j++) {
            float weight = (float)(height * r->weight) * down[j];
            float *row = image->data + (size_t)(y0 + j) * (size_t)image->nx + x0;
            for (int k = 0; k < nx; k++)
                row[k] += weight * across[k];
        }
    }
}

static void sample(const struct phantom *phantom, double pixel_size, double scale, struct image *map) {
    int box = map->nx;
    double sigma = phantom->sigma / pixel_size;
    double height = scale * pixel_size / pow(2 * M_PI * phantom->sigma * phantom->sigma, 1.5);
    memset(map->data, 0, image_count(map) * sizeof *map->data);
    for (size_t i = 0; i < phantom->count; i++) {
        const struct residue *r = &phantom->residues[i];
        float gx[WINDOW], gy[WINDOW], gz[WINDOW];
        int x0, y0, z0;
        int nx = gaussian_axis(box / 2 + r->x / pixel_size, sigma, box, &x0, gx);
        int ny = gaussian_axis(box / 2 + r->y / pixel_size, sigma, box, &y0, gy);
        int nz = gaussian_axis(box / 2 + r->z / pixel_size, sigma, box, &z0, gz);
        for (int z = 0; z < nz; z++)
            for (int y = 0; y < ny; y++) {
                float weight = (float)(height * r->weight) * gz[z] * gy[y];
                float *row = map->data + ((size_t)(z0 + z) * (size_t)box + (size_t)(y0 + y)) * (size_t)box + x0;
                for (int x = 0; x < nx; x++)
                    row[x] += weight * gx[x];
            }
    }
}

static enum status transform(enum fft_direction direction, int box, float *in, float *out, struct err *err) {
    _cleanup_(fft_destroy) struct fft_plan *plan = NULL;
    struct fft_options options = {.rank = 3, .shape = {box, box, box}, .direction = direction};
    TRY(fft_create(&options, &plan, err));
    fft_run(plan, in, out);
    return STATUS_OK;
}

/* Copies the low frequencies of the larger cube's spectrum into the smaller one. The sign that moves the origin from
 * one centre to the other cancels, since both boxes are even. The Nyquist planes are left out: their signs are
 * ambiguous. */
static void crop(const float *fine, int fine_box, float *coarse, int box) {
    float factor = 1 / ((float)fine_box * (float)fine_box * (float)fine_box);
    for (int z = -box / 2 + 1; z < box / 2; z++)
        for (int y = -box / 2 + 1; y < box / 2; y++)
            for (int x = 0; x < box / 2; x++) {
                size_t from =
                    ((size_t)((z + fine_box) % fine_box) * (size_t)fine_box + (size_t)((y + fine_box) % fine_box)) *
                        (size_t)(fine_box / 2 + 1) +
                    (size_t)x;
                size_t to =
                    ((size_t)((z + box) % box) * (size_t)box + (size_t)((y + box) % box)) * (size_t)(box / 2 + 1) +
                    (size_t)x;
                /* exp(−2πi k·(fine_box/2)/fine_box) = (−1)^k in either box. */
                coarse[2 * to] = factor * fine[2 * from];
                coarse[2 * to + 1] = factor * fine[2 * from + 1];
            }
}

enum status phantom_map(const struct phantom *phantom, int box, double pixel_size, double scale, struct image *map,
                        struct err *err) {
    FAIL_IF(box < 8 || box % 2 != 0, err, STATUS_BAD_ARGUMENT, "the box of the map is %d; it must be even, 8 or more",
            box);
    int times = (int)ceil(pixel_size / FINE_PIXEL);
    TRY(image_resize(map, box, box, box, err));
    map->pixel_size = (float)pixel_size;
    if (times <= 1) {
        sample(phantom, pixel_size, scale, map);
        return STATUS_OK;
    }
    int fine_box = box * times;
    size_t count = (size_t)fine_box * (size_t)fine_box;
    _cleanup_(image_destroy) struct image fine = {0};
    _cleanup_(mem_free) float *spectrum = NULL;
    _cleanup_(mem_free) float *cropped = NULL;
    TRY(image_resize(&fine, fine_box, fine_box, fine_box, err));
    TRY(mem_new(count * (size_t)(fine_box / 2 + 1), 2 * sizeof *spectrum, "phantom map", &spectrum, err));
    TRY(mem_new((size_t)box * (size_t)box * (size_t)(box / 2 + 1), 2 * sizeof *cropped, "phantom map", &cropped, err));
    /* The values are those of the fine grid; the factor makes sums along z those of the coarse grid. */
    sample(phantom, pixel_size / times, scale * times, &fine);
    TRY(transform(FFT_FORWARD, fine_box, fine.data, spectrum, err));
    crop(spectrum, fine_box, cropped, box);
    return transform(FFT_INVERSE, box, cropped, map->data, err);
}

enum status phantom_lowpass(struct image *map, double resolution, struct err *err) {
    int box = map->nx;
    size_t count = image_count(map);
    _cleanup_(mem_free) float *spectrum = NULL;
    TRY(mem_new((size_t)box * (size_t)box * (size_t)(box / 2 + 1), 2 * sizeof *spectrum, "low-pass", &spectrum, err));
    TRY(transform(FFT_FORWARD, box, map->data, spectrum, err));
    double edge = box * map->pixel_size / resolution + 1;
    float *value = spectrum;
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x <= box / 2; x++, value += 2) {
                int fz = z <= box / 2 ? z : z - box, fy = y <= box / 2 ? y : y - box;
                double r = sqrt((double)(fz * fz + fy * fy + x * x));
                double pass = r <= edge - 2 ? 1 : r >= edge ? 0 : 0.5 - 0.5 * cos(M_PI * (edge - r) / 2);
                value[0] *= (float)(pass / (double)count);
                value[1] *= (float)(pass / (double)count);
            }
    return transform(FFT_INVERSE, box, spectrum, map->data, err);
}
