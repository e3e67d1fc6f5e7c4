#include "kernels/fourier/pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"

/* Returns the shell of a half-plane pixel; 0 if the list leaves the pixel out. */
static int shell_of(int kx, int ky, int size, int box) {
    if ((kx == 0 && ky <= 0) || 2 * ky == -box) return 0;
    int shell = (int)floor(sqrt((double)kx * kx + (double)ky * ky) + 0.5);
    return shell <= size / 2 ? shell : 0;
}

enum status fourier_pixels_create(int box, int size, struct fourier_pixels *ret_pixels, struct err *err) {
    FAIL_IF(box < 4 || box % 2 != 0 || box > 8192, err, STATUS_BAD_ARGUMENT,
            "a box of %d px cannot be compared: it must be even and between 4 and 8192 px", box);
    FAIL_IF(size < 2 || size > box || size % 2 != 0, err, STATUS_BAD_ARGUMENT,
            "a Fourier size of %d px does not fit a box of %d px: it must be even and at most the box", size, box);
    struct fourier_pixels p = {.box = box, .size = size};
    int half = size / 2;
    enum status status = mem_new((size_t)half + 2, sizeof *p.shell_begin, "shell index", &p.shell_begin, err);
    for (int kx = 0; status == STATUS_OK && kx <= half; kx++)
        for (int ky = -half; ky <= half; ky++) {
            int shell = shell_of(kx, ky, size, box);
            if (shell > 0) p.shell_begin[shell + 1]++, p.count++;
        }
    if (status == STATUS_OK) status = mem_new((size_t)p.count, sizeof *p.kx, "Fourier pixels", &p.kx, err);
    if (status == STATUS_OK) status = mem_new((size_t)p.count, sizeof *p.ky, "Fourier pixels", &p.ky, err);
    if (status == STATUS_OK) status = mem_new((size_t)p.count, sizeof *p.shell, "Fourier pixels", &p.shell, err);
    _cleanup_(mem_free) int *next = NULL;
    if (status == STATUS_OK) status = mem_new((size_t)half + 2, sizeof *next, "shell index", &next, err);
    if (status != STATUS_OK) {
        fourier_pixels_destroy(&p);
        return status;
    }
    /* shell_begin[s+1] holds the count of shell s so far; turn counts into first indices. Shell 0 (the origin) is
     * empty. */
    for (int s = 1; s <= half + 1; s++)
        p.shell_begin[s] += p.shell_begin[s - 1];
    memcpy(next, p.shell_begin, ((size_t)half + 2) * sizeof *next);
    for (int kx = 0; kx <= half; kx++)
        for (int ky = -half; ky <= half; ky++) {
            int shell = shell_of(kx, ky, size, box);
            if (shell == 0) continue;
            int i = next[shell]++;
            p.kx[i] = (short)kx;
            p.ky[i] = (short)ky;
            p.shell[i] = (short)shell;
        }
    *ret_pixels = p;
    return STATUS_OK;
}

void fourier_pixels_destroy(struct fourier_pixels *pixels) {
    if (pixels == NULL) return;
    mem_free(&pixels->kx);
    mem_free(&pixels->ky);
    mem_free(&pixels->shell);
    mem_free(&pixels->shell_begin);
    *pixels = (struct fourier_pixels){0};
}

int fourier_pixels_within(const struct fourier_pixels *pixels, int size) {
    return pixels->shell_begin[(size < pixels->size ? size : pixels->size) / 2 + 1];
}

void fourier_pixels_gather(const struct fourier_pixels *pixels, const float *half, float *out) {
    int columns = pixels->box / 2 + 1;
    for (int i = 0; i < pixels->count; i++) {
        int kx = pixels->kx[i], ky = pixels->ky[i];
        int row = ky < 0 ? ky + pixels->box : ky;
        const float *value = half + 2 * ((size_t)row * (size_t)columns + (size_t)kx);
        float sign = (kx + ky) % 2 == 0 ? 1.0f : -1.0f;
        out[2 * i] = sign * value[0];
        out[2 * i + 1] = sign * value[1];
    }
}

/* exp(−2πi (kx x + ky y)/box) is the product of two table entries: 2·box sines instead of count. */
MULTIVERSION void fourier_pixels_shift(const struct fourier_pixels *pixels, int count, const float *in, double x,
                                       double y, float *out) {
    float cx[4097], sx[4097], cy[8193], sy[8193];
    int half = pixels->size / 2;
    double step = -2 * M_PI / pixels->box;
    for (int k = 0; k <= half; k++) {
        cx[k] = (float)cos(step * k * x);
        sx[k] = (float)sin(step * k * x);
        cy[half + k] = cy[half - k] = (float)cos(step * k * y);
        sy[half + k] = (float)sin(step * k * y);
        sy[half - k] = -sy[half + k];
    }
    for (int i = 0; i < count; i++) {
        int a = pixels->kx[i], b = half + pixels->ky[i];
        float c = cx[a] * cy[b] - sx[a] * sy[b], s = sx[a] * cy[b] + cx[a] * sy[b];
        float re = in[2 * i], im = in[2 * i + 1];
        out[2 * i] = re * c - im * s;
        out[2 * i + 1] = re * s + im * c;
    }
}
