#include "kernels/prepare/prepare.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/prepare/mask.h"

struct prepare {
    int box;
    struct fft_plan *plan, *inverse;
    float *shifted; /* box²: scaled and shifted, not masked */
    float *masked;  /* box² */
    float *half;    /* [box][box/2+1] complex */
    float *low;     /* the same, of the lower band; and its product with the mask */
    float *outside; /* box²: how much of a pixel is background, for mask_radius */
    double mask_radius, outside_sum;
    int *members; /* box/2+1: half-plane pixels per shell */
};

static enum status allocate(struct prepare *p, struct err *err) {
    size_t count = (size_t)p->box * (size_t)p->box;
    const struct fft_options options = {.rank = 2, .shape = {p->box, p->box}, .direction = FFT_FORWARD};
    const struct fft_options back = {.rank = 2, .shape = {p->box, p->box}, .direction = FFT_INVERSE};
    TRY(fft_create(&options, &p->plan, err));
    TRY(fft_create(&back, &p->inverse, err));
    TRY(mem_new(count, sizeof *p->shifted, "particle image", &p->shifted, err));
    TRY(mem_new(count, sizeof *p->masked, "particle image", &p->masked, err));
    TRY(mem_new(count, sizeof *p->outside, "particle mask", &p->outside, err));
    TRY(mem_new(fft_complex_floats(p->plan), sizeof *p->half, "particle spectrum", &p->half, err));
    TRY(mem_new(fft_complex_floats(p->plan), sizeof *p->low, "particle spectrum", &p->low, err));
    return mem_new((size_t)p->box / 2 + 1, sizeof *p->members, "shell sizes", &p->members, err);
}

static int distance(int row, int kx, int box) {
    int ky = row <= box / 2 ? row : row - box;
    return (int)floor(sqrt((double)kx * kx + (double)ky * ky) + 0.5);
}

/* Returns the shell of a half-plane pixel, or -1 for duplicates and pixels beyond the last shell. */
static int shell_of(int row, int kx, int box) {
    if (kx == 0 && row > box / 2) return -1;
    int shell = distance(row, kx, box);
    return shell <= box / 2 ? shell : -1;
}

enum status prepare_create(int box, struct prepare **ret_prepare, struct err *err) {
    FAIL_IF(box < 4 || box % 2 != 0 || box > 8192, err, STATUS_BAD_ARGUMENT,
            "particles of %d px cannot be compared: the box must be even and between 4 and 8192 px", box);
    struct prepare *p = calloc(1, sizeof *p);
    FAIL_IF(p == NULL, err, STATUS_NO_MEMORY, "no memory for the preparation of particles");
    p->box = box;
    p->mask_radius = -1;
    enum status status = allocate(p, err);
    if (status != STATUS_OK) {
        prepare_destroy(&p);
        return status;
    }
    for (int row = 0; row < box; row++)
        for (int kx = 0; kx <= box / 2; kx++) {
            int shell = shell_of(row, kx, box);
            if (shell >= 0) p->members[shell]++;
        }
    *ret_prepare = p;
    return STATUS_OK;
}

void prepare_destroy(struct prepare **prepare) {
    struct prepare *p = *prepare;
    if (p == NULL) return;
    fft_destroy(&p->plan);
    fft_destroy(&p->inverse);
    mem_free(&p->shifted);
    mem_free(&p->masked);
    mem_free(&p->outside);
    mem_free(&p->half);
    mem_free(&p->low);
    mem_free(&p->members);
    free(p);
    *prepare = NULL;
}

static void set_mask(struct prepare *p, double radius) {
    if (radius == p->mask_radius) return;
    p->mask_radius = radius;
    p->outside_sum = prepare_mask_outside(p->box, radius, p->outside);
}

static inline int around(int i, int n) {
    i %= n;
    return i < 0 ? i + n : i;
}

/* Shifts cyclically: only phases change. */
static void shift_around(struct prepare *p, const float *image, const struct prepare_options *o) {
    int n = p->box, split = around(o->shift_x, n);
    float scale = (float)o->scale;
    for (int y = 0; y < n; y++) {
        const float *in = image + (size_t)around(y - o->shift_y, n) * (size_t)n;
        float *out = p->shifted + (size_t)y * (size_t)n;
        for (int x = 0; x < split; x++)
            out[x] = scale * in[x + n - split];
        for (int x = split; x < n; x++)
            out[x] = scale * in[x - split];
    }
}

static void shift_and_scale(struct prepare *p, const float *image, const struct prepare_options *o) {
    int n = p->box;
    float scale = (float)o->scale;
    memset(p->shifted, 0, (size_t)n * (size_t)n * sizeof *p->shifted);
    for (int y = 0; y < n; y++) {
        int from_y = y - o->shift_y;
        if (from_y < 0 || from_y >= n) continue;
        int first = o->shift_x > 0 ? o->shift_x : 0, last = o->shift_x < 0 ? n + o->shift_x : n;
        const float *in = image + (ptrdiff_t)from_y * n - o->shift_x;
        float *out = p->shifted + (size_t)y * (size_t)n;
        for (int x = first; x < last; x++)
            out[x] = scale * in[x];
    }
}

/* Masks `image`, which may be p->masked. */
static void mask_image(struct prepare *p, const float *image) {
    size_t count = (size_t)p->box * (size_t)p->box;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)p->outside[i] * image[i];
    /* A mask that covers the whole box leaves no background to take a mean of. */
    float background = p->outside_sum > 0 ? (float)(sum / p->outside_sum) : 0;
    for (size_t i = 0; i < count; i++)
        p->masked[i] = image[i] + p->outside[i] * (background - image[i]);
}

static void transform(struct prepare *p, float *image, float *half) {
    fft_run(p->plan, image, half);
    float norm = 1.0f / ((float)p->box * (float)p->box);
    size_t count = fft_complex_floats(p->plan);
    for (size_t i = 0; i < count; i++)
        half[i] *= norm;
}

/* Replaces p->half, the transform of the masked image, by the transform of both bands masked by themselves. Masking is
 * linear: the masked upper band is the masked image less the masked lower band. */
static void part_bands(struct prepare *p, int shared) {
    int columns = p->box / 2 + 1;
    transform(p, p->shifted, p->low);
    for (int row = 0; row < p->box; row++)
        for (int kx = 0; kx < columns; kx++)
            if (distance(row, kx, p->box) > shared)
                memset(p->low + 2 * ((size_t)row * (size_t)columns + (size_t)kx), 0, 2 * sizeof *p->low);
    fft_run(p->inverse, p->low, p->masked);
    mask_image(p, p->masked);
    transform(p, p->masked, p->low);
    for (int row = 0; row < p->box; row++)
        for (int kx = 0; kx < columns; kx++) {
            size_t at = 2 * ((size_t)row * (size_t)columns + (size_t)kx);
            bool lower = distance(row, kx, p->box) <= shared;
            for (size_t c = at; c < at + 2; c++)
                p->half[c] = lower ? p->low[c] : p->half[c] - p->low[c];
        }
}

static void shell_power(const struct prepare *p, float *ret_power) {
    int shells = p->box / 2 + 1;
    double sum[4097] = {0};
    for (int row = 0; row < p->box; row++)
        for (int kx = 0; kx < shells; kx++) {
            int shell = shell_of(row, kx, p->box);
            const float *value = p->half + 2 * ((size_t)row * (size_t)shells + (size_t)kx);
            if (shell >= 0) sum[shell] += (double)value[0] * value[0] + (double)value[1] * value[1];
        }
    for (int s = 0; s < shells; s++)
        ret_power[s] = (float)(p->members[s] > 0 ? sum[s] / (2.0 * p->members[s]) : 0);
}

void prepare_image(struct prepare *p, const float *image, const struct prepare_options *options,
                   const struct fourier_pixels *pixels, float *ret_masked, float *ret_unmasked, float *ret_power) {
    if (options->shared_shell > 0)
        shift_around(p, image, options);
    else
        shift_and_scale(p, image, options);
    if (ret_masked != NULL || ret_power != NULL) {
        set_mask(p, options->mask_radius);
        mask_image(p, p->shifted);
        transform(p, p->masked, p->half);
        if (options->shared_shell > 0) part_bands(p, options->shared_shell);
        if (ret_masked != NULL) fourier_pixels_gather(pixels, p->half, ret_masked);
        if (ret_power != NULL) shell_power(p, ret_power);
    }
    if (ret_unmasked != NULL) {
        transform(p, p->shifted, p->half);
        fourier_pixels_gather(pixels, p->half, ret_unmasked);
    }
}
