#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fsc/directional.h"

enum { CROSS, POWER_A, POWER_B, COUNT, TERMS, LEAST_VOXELS = 16, PLANES = 8 }; /* PLANES: at a time */

/* The voxels of one plane of the half transforms that lie within the last shell. */
struct plane {
    float (*place)[3];
    double (*terms)[TERMS];
    int *shell;
    int count;
};

static void plane_destroy(struct plane *p) {
    mem_free(&p->place);
    mem_free(&p->terms);
    mem_free(&p->shell);
}

static enum status plane_create(int box, struct plane *p, struct err *err) {
    const size_t most = (size_t)box * ((size_t)box / 2 + 1);
    *p = (struct plane){0};
    TRY(mem_new_unset(most, sizeof *p->place, "voxels", &p->place, err));
    TRY(mem_new_unset(most, sizeof *p->terms, "voxels", &p->terms, err));
    return mem_new_unset(most, sizeof *p->shell, "voxels", &p->shell, err);
}

/* Columns other than the first and the last count twice, for their conjugates. */
static void fill_plane(int box, int z, const float *a, const float *b, struct plane *p) {
    const int columns = box / 2 + 1, kz = z <= box / 2 ? z : z - box;
    p->count = 0;
    for (int y = 0; y < box; y++) {
        const int ky = y <= box / 2 ? y : y - box;
        const size_t row = 2 * ((size_t)z * (size_t)box + (size_t)y) * (size_t)columns;
        for (int kx = 0; kx < columns; kx++) {
            const int shell = (int)(sqrt(kx * kx + ky * ky + kz * kz) + 0.5);
            if (shell > box / 2) break;
            const float *f = a + row + 2 * (size_t)kx, *g = b + row + 2 * (size_t)kx;
            const double re = (double)f[0], im = (double)f[1], other_re = (double)g[0], other_im = (double)g[1];
            const double copies = kx == 0 || 2 * kx == box ? 1 : 2;
            const int at = p->count++;
            p->place[at][0] = (float)kx, p->place[at][1] = (float)ky, p->place[at][2] = (float)kz;
            p->shell[at] = shell;
            p->terms[at][CROSS] = copies * (re * other_re + im * other_im);
            p->terms[at][POWER_A] = copies * (re * re + im * im);
            p->terms[at][POWER_B] = copies * (other_re * other_re + other_im * other_im);
            p->terms[at][COUNT] = copies;
        }
    }
}

/* Adds the voxels of a plane that lie in the cone; axis NULL: all. */
static void add(const struct plane *p, const double *axis, double cosine, double (*sums)[TERMS]) {
    const float x = axis != NULL ? (float)axis[0] : 0, y = axis != NULL ? (float)axis[1] : 0,
                z = axis != NULL ? (float)axis[2] : 0, least = (float)(cosine * cosine);
    for (int i = 0; i < p->count; i++) {
        const float *k = p->place[i], along = k[0] * x + k[1] * y + k[2] * z;
        if (axis != NULL && along * along < least * (k[0] * k[0] + k[1] * k[1] + k[2] * k[2])) continue;
        double *sum = sums[p->shell[i]];
        for (int t = 0; t < TERMS; t++)
            sum[t] += p->terms[i][t];
    }
}

static double correlation(const double sum[TERMS]) {
    const double scale = sqrt(sum[POWER_A] * sum[POWER_B]);
    return scale > 0 ? sum[CROSS] / scale : 0;
}

static enum status correlate(const struct fsc_cones *c, const float *a, const float *b, float *ret_curves,
                             struct err *err) {
    const size_t shells = (size_t)c->box / 2 + 1;
    const double cosine = c->half_angle < 90 ? cos(c->half_angle * M_PI / 180) : 0;
    struct plane planes[PLANES] = {{0}};
    double(*sums)[TERMS] = NULL;
    enum status status = STATUS_OK;
    for (int p = 0; p < PLANES && status == STATUS_OK; p++)
        status = plane_create(c->box, &planes[p], err);
    if (status == STATUS_OK)
        status = mem_new(((size_t)c->count + 1) * shells, sizeof *sums, "Fourier shell sums", &sums, err);
    for (int first = 0; first < c->box && status == STATUS_OK; first += PLANES) {
        const int count = c->box - first < PLANES ? c->box - first : PLANES;
#pragma omp parallel
        {
#pragma omp for schedule(dynamic)
            for (int p = 0; p < count; p++)
                fill_plane(c->box, first + p, a, b, &planes[p]);
#pragma omp for schedule(dynamic)
            for (int i = 0; i <= c->count; i++)
                for (int p = 0; p < count; p++)
                    add(&planes[p], i < c->count ? c->axes[i] : NULL, cosine, sums + (size_t)i * shells);
        }
    }
    for (size_t i = 0; i < (size_t)c->count && status == STATUS_OK; i++)
        for (size_t s = 0; s < shells; s++) {
            const double *own = sums[i * shells + s], *whole = sums[(size_t)c->count * shells + s];
            ret_curves[i * shells + s] = (float)correlation(own[COUNT] >= LEAST_VOXELS ? own : whole);
        }
    for (int p = 0; p < PLANES; p++)
        plane_destroy(&planes[p]);
    mem_free(&sums);
    return status;
}

static void transform(const struct fft_plan *plan, const float *map, const float *mask, float *real,
                      float *ret_spectrum) {
    const size_t voxels = fft_real_count(plan);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < voxels; i++)
        real[i] = mask != NULL ? map[i] * mask[i] : map[i];
    fft_run(plan, real, ret_spectrum);
}

enum status fsc_directional(const struct fsc_cones *c, const float *a, const float *b, const float *mask_or_null,
                            float *ret_curves, struct err *err) {
    FAIL_IF(c->box < 4 || c->box % 2 != 0 || c->box > 2048, err, STATUS_BAD_ARGUMENT,
            "maps of %d px cannot be correlated: the box must be even and between 4 and 2048 px", c->box);
    FAIL_IF(c->count < 1 || !(c->half_angle > 0 && c->half_angle <= 90), err, STATUS_BAD_ARGUMENT,
            "%d cones of %g° cannot be correlated: one or more, of 0 to 90°", c->count, c->half_angle);
    const struct fft_options options = {
        .rank = 3, .shape = {c->box, c->box, c->box}, .direction = FFT_FORWARD, .threads = FFT_ALL_THREADS};
    struct fft_plan *plan = NULL;
    TRY(fft_create(&options, &plan, err));
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *fa = NULL;
    _cleanup_(mem_free) float *fb = NULL;
    enum status status = mem_new_unset(fft_real_count(plan), sizeof *real, "map", &real, err);
    if (status == STATUS_OK) status = mem_new_unset(fft_complex_floats(plan), sizeof *fa, "map transform", &fa, err);
    if (status == STATUS_OK) status = mem_new_unset(fft_complex_floats(plan), sizeof *fb, "map transform", &fb, err);
    if (status == STATUS_OK) {
        transform(plan, a, mask_or_null, real, fa);
        transform(plan, b, mask_or_null, real, fb);
        status = correlate(c, fa, fb, ret_curves, err);
    }
    fft_destroy(&plan);
    return status;
}

void fsc_even_axes(int count, double (*ret_axes)[3]) {
    const double turn = M_PI * (3 - sqrt(5));
    for (int i = 0; i < count; i++) {
        const double z = (i + 0.5) / count, flat = sqrt(1 - z * z);
        ret_axes[i][0] = flat * cos(turn * i);
        ret_axes[i][1] = flat * sin(turn * i);
        ret_axes[i][2] = z;
    }
}

double fsc_cone_resolution(const float *curve, int box, double pixel_size) {
    int shell = 1;
    for (; shell <= box / 2; shell++) {
        const float next = curve[shell < box / 2 ? shell + 1 : shell];
        if ((curve[shell - 1] + curve[shell] + next) / 3 < 0.143f) break;
    }
    return shell == 1 ? 999 : box * pixel_size / (shell - 1);
}
