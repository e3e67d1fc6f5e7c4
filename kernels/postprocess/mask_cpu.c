/* Makes a soft mask around the density of a map. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/postprocess/postprocess.h"

enum { BINS = 1024, LARGEST = POSTPROCESS_BOX_MOST, MOST = POSTPROCESS_MASK_MOST };
static const double LOWPASS = 15; /* Å */
const struct postprocess_mask_shape postprocess_usual_mask = {.threshold = NAN, .extend = 3, .edge = 6};

/* Applies the usual low-pass: a raised cosine over the two shells about the limit. */
static enum status lowpass(int box, double pixel_size, const float *map, float *ret_map, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    const struct fft_options forward = {
        .rank = 3, .shape = {box, box, box}, .direction = FFT_FORWARD, .threads = FFT_ALL_THREADS};
    struct fft_options inverse = forward;
    inverse.direction = FFT_INVERSE;
    struct fft_plan *to = NULL, *back = NULL;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *spectrum = NULL;
    enum status status = fft_create(&forward, &to, err);
    if (status == STATUS_OK) status = fft_create(&inverse, &back, err);
    if (status == STATUS_OK) status = mem_new_unset(voxels, sizeof *real, "map", &real, err);
    if (status == STATUS_OK)
        status = mem_new_unset(fft_complex_floats(to), sizeof *spectrum, "map transform", &spectrum, err);
    if (status == STATUS_OK) {
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < voxels; i++)
            real[i] = map[i];
        fft_run(to, real, spectrum);
        double limit = round(box * pixel_size / LOWPASS);
#pragma omp parallel for schedule(static)
        for (int z = 0; z < box; z++)
            for (int y = 0; y < box; y++)
                for (int kx = 0; kx <= box / 2; kx++) {
                    size_t at = ((size_t)z * (size_t)box + (size_t)y) * (size_t)(box / 2 + 1) + (size_t)kx;
                    float *value = spectrum + 2 * at;
                    int kz = z <= box / 2 ? z : z - box, ky = y <= box / 2 ? y : y - box;
                    double over = sqrt(kx * kx + ky * ky + kz * kz) - (limit - 1);
                    double keep = over <= 0 ? 1 : over >= 2 ? 0 : 0.5 + 0.5 * cos(M_PI * over / 2);
                    value[0] *= (float)(keep / (double)voxels);
                    value[1] *= (float)(keep / (double)voxels);
                }
        fft_run(back, spectrum, real);
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < voxels; i++)
            ret_map[i] = real[i];
    }
    fft_destroy(&to);
    fft_destroy(&back);
    return status;
}

/* Finds the voxels first .. end−1 of a row along x that lie within the sphere. */
static void sphere_row(int box, size_t row, int *ret_first, int *ret_end) {
    int c = box / 2, y = (int)(row % (size_t)box) - c, z = (int)(row / (size_t)box) - c, x = 0;
    int r2 = c * c - y * y - z * z;
    while (x * x < r2)
        x++;
    *ret_first = r2 > 0 ? c - x + 1 : 0;
    *ret_end = r2 > 0 ? (c + x < box ? c + x : box) : 0;
}

/* Chooses the threshold. Otsu's threshold separates density from solvent, at about half the density's height. The value
 * half-way between it and the solvent's mean keeps weaker parts; it is used unless it lies within the solvent's
 * fluctuation. */
static float threshold(int box, const float *map) {
    size_t n_rows = (size_t)box * (size_t)box;
    float least = INFINITY, most = -INFINITY;
#pragma omp parallel for schedule(static) reduction(min : least) reduction(max : most)
    for (size_t row = 0; row < n_rows; row++) {
        int first, end;
        sphere_row(box, row, &first, &end);
        for (int x = first; x < end; x++) {
            least = fminf(least, map[row * (size_t)box + (size_t)x]);
            most = fmaxf(most, map[row * (size_t)box + (size_t)x]);
        }
    }
    if (!(most > least)) return INFINITY;
    double count[BINS] = {0}, n = 0, sum = 0, step = ((double)most - (double)least) / BINS;
    /* Integer counts: their sum does not depend on the order. */
#pragma omp parallel for schedule(static) reduction(+ : count[:BINS])
    for (size_t row = 0; row < n_rows; row++) {
        int first, end;
        sphere_row(box, row, &first, &end);
        for (int x = first; x < end; x++) {
            int bin = (int)(((double)map[row * (size_t)box + (size_t)x] - (double)least) / step);
            count[bin < BINS ? bin : BINS - 1] += 1;
        }
    }
    for (int b = 0; b < BINS; b++)
        n += count[b], sum += count[b] * b;
    double below = 0, below_sum = 0, below_square = 0, best = -1, cut = 0, mean = 0, deviation = 0;
    for (int b = 0; b < BINS - 1; b++) {
        below += count[b], below_sum += count[b] * b, below_square += count[b] * b * b;
        if (below == 0 || below == n) continue;
        double m0 = below_sum / below, m1 = (sum - below_sum) / (n - below);
        double between = below * (n - below) * (m1 - m0) * (m1 - m0);
        if (between > best) {
            best = between, cut = b + 1, mean = m0;
            deviation = sqrt(fmax(0, below_square / below - m0 * m0));
        }
    }
    double level = fmax(mean + 0.5 + 0.5 * (cut - mean - 0.5), fmin(mean + 0.5 + 2 * deviation, cut));
    return (float)((double)least + step * level);
}

/* out[i] = min over j within reach of in[j] + (i − j)², where i and j count rows of `width` floats, `stride` apart. */
MULTIVERSION static void nearest_row(const float *in, size_t stride, int rows, int i, int reach, int width,
                                     float *out) {
    int first = i - reach > 0 ? i - reach : 0, last = i + reach < rows - 1 ? i + reach : rows - 1;
    for (int x = 0; x < width; x++)
        out[x] = in[(size_t)i * stride + (size_t)x];
    for (int j = first; j <= last; j++) {
        const float *row = in + (size_t)j * stride, away = (float)((i - j) * (i - j));
        for (int x = 0; x < width; x++)
            out[x] = out[x] < row[x] + away ? out[x] : row[x] + away;
    }
}

/* Like nearest_row along x. The margins of `padded`, a row with reach more at each side, are FAR. */
MULTIVERSION static void nearest_in_row(const float *padded, int reach, int width, float *out) {
    for (int x = 0; x < width; x++)
        out[x] = padded[reach + x];
    for (int j = -reach; j <= reach; j++)
        for (int x = 0; x < width; x++) {
            float value = padded[reach + x + j] + (float)(j * j);
            out[x] = out[x] < value ? out[x] : value;
        }
}

static const float FAR = 1e9f;

/* Processes one row with its margins. */
static void nearest_across(const float *row, int reach, int box, float *out) {
    float line[LARGEST + 2 * MOST];
    for (int i = 0; i < reach; i++)
        line[i] = line[reach + box + i] = FAR;
    memcpy(line + reach, row, (size_t)box * sizeof *line);
    nearest_in_row(line, reach, box, out);
}

/* Computes squared distances, one axis after the other. map: in: 0 inside, FAR outside; out: squared distance to the
 * nearest inside voxel within reach. spare: as large as map. */
static void distances(int box, int reach, float *map, float *spare) {
    size_t n = (size_t)box;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < n * n; row++)
        nearest_across(map + row * n, reach, box, spare + row * n);
#pragma omp parallel for schedule(static)
    for (size_t z = 0; z < n; z++)
        for (int y = 0; y < box; y++)
            nearest_row(spare + z * n * n, n, box, y, reach, box, map + (z * n + (size_t)y) * n);
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        nearest_row(map, n * n, box, z, reach, box * box, spare + (size_t)z * n * n);
    memcpy(map, spare, n * n * n * sizeof *map);
}

static enum status check_shape(int box, const struct postprocess_mask_shape *shape, struct err *err) {
    FAIL_IF(box > LARGEST, err, STATUS_BAD_ARGUMENT, "a map of %d px is too large for a mask: at most %d px", box,
            LARGEST);
    FAIL_IF(!(shape->extend >= 0 && shape->extend <= MOST && shape->edge >= 0 && shape->edge <= MOST), err,
            STATUS_BAD_ARGUMENT, "a mask cannot be extended by %g px with an edge of %g px: 0 to %d are possible",
            shape->extend, shape->edge, (int)MOST);
    return STATUS_OK;
}

enum status postprocess_shape_mask(int box, double pixel_size, const struct postprocess_mask_shape *shape,
                                   const float *map, float *ret_mask, struct err *err) {
    size_t n = (size_t)box, voxels = n * n * n;
    const float extend = (float)shape->extend, edge = (float)shape->edge;
    _cleanup_(mem_free) float *mask = NULL;
    _cleanup_(mem_free) float *spare = NULL;
    TRY(check_shape(box, shape, err));
    TRY(mem_new_unset(voxels, sizeof *mask, "mask", &mask, err));
    TRY(mem_new_unset(voxels, sizeof *spare, "mask", &spare, err));
    TRY(lowpass(box, pixel_size, map, spare, err));
    const float level = isnan(shape->threshold) ? threshold(box, spare) : (float)shape->threshold;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < n * n; row++) {
        int first, end;
        sphere_row(box, row, &first, &end);
        for (int x = 0; x < box; x++)
            mask[row * n + (size_t)x] = x >= first && x < end && spare[row * n + (size_t)x] >= level ? 0 : FAR;
    }
    distances(box, (int)ceilf(extend), mask, spare);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        mask[i] = mask[i] == 0 || mask[i] < extend * extend ? 0 : FAR;
    distances(box, (int)ceilf(edge), mask, spare);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++) {
        float r = sqrtf(mask[i]);
        ret_mask[i] = r <= 0 ? 1 : r >= edge ? 0 : 0.5f + 0.5f * cosf((float)M_PI * r / edge);
    }
    return STATUS_OK;
}

enum status postprocess_make_mask(int box, double pixel_size, const float *map, float *ret_mask, struct err *err) {
    return postprocess_shape_mask(box, pixel_size, &postprocess_usual_mask, map, ret_mask, err);
}
