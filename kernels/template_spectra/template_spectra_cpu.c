#include "kernels/template_spectra/template_spectra.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/fourier/window.h"

struct template_spectra {
    struct template_spectra_options options;
    int padded;       /* size of the padded square */
    int reach;        /* the farthest padded frequency that a rotation touches, plus one for interpolation */
    int stored;       /* rotations per template that are kept or 0 */
    float *padded_ft; /* [count][2·reach+1][reach+2] complex: ky from −reach, kx from 0 */
    float *rotated;   /* [count][stored][work][work/2+1] complex */
};

static size_t padded_stride(const struct template_spectra *s) {
    return 2 * (size_t)(s->reach + 2);
}

static size_t padded_floats(const struct template_spectra *s) {
    return (size_t)(2 * s->reach + 1) * padded_stride(s);
}

static size_t work_floats(const struct template_spectra *s) {
    return (size_t)s->options.work * (s->options.work + 2);
}

static double sinc(double x) {
    return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x);
}

/* Places the masked template around the origin of the padded square, divided by the factor of the interpolation. */
static void place(const struct template_spectra *s, const float *image, float *real) {
    const struct template_spectra_options *o = &s->options;
    int n = o->box, p = s->padded;
    memset(real, 0, (size_t)p * p * sizeof *real);
    for (int j = -n / 2; j < n / 2; j++)
        for (int i = -n / 2; i < n / 2; i++) {
            if (i * i + j * j >= o->radius * o->radius) continue;
            double flat = sinc((double)i / p) * sinc((double)j / p);
            double value = image[(size_t)(j + n / 2) * n + i + n / 2] / (flat * flat);
            real[(size_t)((j + p) % p) * p + (i + p) % p] = (float)(o->invert ? -value : value);
        }
}

/* Keeps the low frequencies of the padded transform, both signs of ky, and one more column for the interpolation. */
static void keep_low(const struct template_spectra *s, const float *half, float *out) {
    int p = s->padded;
    for (int ky = -s->reach; ky <= s->reach; ky++)
        for (int kx = 0; kx <= s->reach + 1; kx++, out += 2) {
            /* Beyond the half plane (only when the work size is the micrograph's) the transform is periodic. */
            bool beyond = kx > p / 2;
            int x = beyond ? p - kx : kx, y = beyond ? -ky : ky;
            const float *value = half + 2 * ((size_t)((y + 2 * p) % p) * (p / 2 + 1) + x);
            out[0] = value[0];
            out[1] = beyond ? -value[1] : value[1];
        }
}

/* Computes one row of a rotated transform: kx = 0 .. last. (u, v) starts at the first point of the row and moves by
 * (du, dv). */
MULTIVERSION static void rotate_row(const float *grid, size_t stride, int reach, float u0, float v0, float du, float dv,
                                    int last, float *out) {
    for (int k = 0; k <= last; k++) {
        float u = u0 + (float)k * du, v = v0 + (float)k * dv;
        /* The half plane holds u ≥ 0; other points are conjugates of the opposite point. */
        float sign = u < 0 ? -1.0f : 1.0f;
        u *= sign;
        v *= sign;
        int x = (int)u;
        int y = (int)(v + (float)reach);
        float fx = u - (float)x, fy = v + (float)reach - (float)y;
        const float *a = grid + (size_t)y * stride + 2 * (size_t)x;
        const float *b = a + stride;
        float re0 = a[0] + fx * (a[2] - a[0]), im0 = a[1] + fx * (a[3] - a[1]);
        float re1 = b[0] + fx * (b[2] - b[0]), im1 = b[1] + fx * (b[3] - b[1]);
        out[2 * k] = re0 + fy * (re1 - re0);
        out[2 * k + 1] = sign * (im0 + fy * (im1 - im0));
    }
}

/* Returns the last kx ≤ half of a row that lies inside the band; −1: none. */
static int last_in_band(int band, int half, int ky) {
    int square = band * band - ky * ky, last = square < 0 ? -1 : (int)floor(sqrt((double)square));
    return last < half ? last : half;
}

void template_spectra_rotate(const struct template_spectra *s, int template, double psi, float *out) {
    const struct template_spectra_options *o = &s->options;
    const float *grid = s->padded_ft + (size_t) template * padded_floats(s);
    double step = (double)s->padded / o->size, angle = psi * M_PI / 180;
    double c = step * cos(angle), sn = step * sin(angle);
    int half = o->work / 2;
    size_t stride = 2 * ((size_t)half + 1);
    for (int row = 0; row < o->work; row++) {
        int ky = row <= half ? row : row - o->work;
        int last = last_in_band(s->options.band, half, ky);
        float *target = out + row * stride;
        rotate_row(grid, padded_stride(s), s->reach, (float)(-sn * ky), (float)(c * ky), (float)c, (float)sn, last,
                   target);
        memset(target + 2 * (last + 1), 0, (stride - 2 * (size_t)(last + 1)) * sizeof *target);
    }
}

const float *template_spectra_get(const struct template_spectra *s, int template, int rotation, float *scratch,
                                  bool *ret_conjugate) {
    int n = s->options.rotations, half = n % 2 == 0 ? n / 2 : n;
    *ret_conjugate = rotation >= half;
    if (s->stored) return s->rotated + ((size_t) template * s->stored + rotation % half) * work_floats(s);
    template_spectra_rotate(s, template, rotation % half * 360.0 / n, scratch);
    return scratch;
}

struct template_grid template_spectra_grid(const struct template_spectra *s) {
    return (struct template_grid){
        .padded = s->padded, .reach = s->reach, .band = s->options.band, .values = s->padded_ft};
}

static enum status transform_all(struct template_spectra *s, const float *templates, struct err *err) {
    const struct template_spectra_options *o = &s->options;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *half = NULL;
    struct fft_plan *plan = NULL;
    TRY(mem_new((size_t)s->padded * s->padded, sizeof *real, "padded template", &real, err));
    TRY(mem_new((size_t)s->padded * (s->padded + 2), sizeof *half, "padded template", &half, err));
    struct fft_options options = {
        .rank = 2, .shape = {s->padded, s->padded}, .direction = FFT_FORWARD, .threads = o->threads};
    TRY(fft_create(&options, &plan, err));
    for (int t = 0; t < o->count; t++) {
        place(s, templates + (size_t)t * o->box * o->box, real);
        fft_run(plan, real, half);
        keep_low(s, half, s->padded_ft + t * padded_floats(s));
    }
    fft_destroy(&plan);
    return STATUS_OK;
}

static enum status build(struct template_spectra *s, const float *templates, struct err *err) {
    const struct template_spectra_options *o = &s->options;
    FAIL_IF(o->count < 1 || o->rotations < 1 || o->box < 2 || o->box % 2 || o->size % 2 || o->work % 2 ||
                o->work > o->size || o->box > o->size,
            err, STATUS_BAD_ARGUMENT, "%d templates of %d px do not fit a micrograph of %d px (work size %d px)",
            o->count, o->box, o->size, o->work);
    /* Eight boxes wide, so that linear interpolation sees a slowly varying transform; less for large boxes, where the
     * division by sinc² alone keeps the error small. */
    int generous = 8 * o->box < 4096 ? 8 * o->box : 4096;
    s->padded = fft_good_size(generous > 4 * o->box ? generous : 4 * o->box);
    s->reach = (int)ceil(o->band * (double)s->padded / o->size) + 1;
    TRY(mem_new(o->count * padded_floats(s), sizeof(float), "padded template transforms", &s->padded_ft, err));
    TRY(transform_all(s, templates, err));

    int turn = o->rotations % 2 == 0 ? o->rotations / 2 : o->rotations;
    size_t floats = (size_t)o->count * (size_t)turn * work_floats(s);
    if (floats * sizeof(float) > o->memory_limit) return STATUS_OK;
    s->stored = turn;
    TRY(mem_new(floats, sizeof(float), "rotated templates", &s->rotated, err));
#pragma omp parallel for num_threads(o->threads) schedule(static)
    for (int i = 0; i < o->count * turn; i++)
        template_spectra_rotate(s, i / turn, i % turn * 360.0 / o->rotations, s->rotated + i * work_floats(s));
    return STATUS_OK;
}

enum status template_spectra_create(const struct template_spectra_options *options, const float *templates,
                                    struct template_spectra **ret_spectra, struct err *err) {
    struct template_spectra *s = NULL;
    TRY(mem_new(1, sizeof *s, "template transforms", &s, err));
    s->options = *options;
    if (s->options.band <= 0) s->options.band = options->work / 2;
    enum status status = build(s, templates, err);
    if (status != STATUS_OK) {
        template_spectra_destroy(&s);
        return status;
    }
    *ret_spectra = s;
    return STATUS_OK;
}

void template_spectra_destroy(struct template_spectra **spectra) {
    if (!*spectra) return;
    free((*spectra)->padded_ft);
    free((*spectra)->rotated);
    mem_free(spectra);
}

/* The centre (index n/2) must stay the centre. For an even box the phases do that by themselves: index n/2 is the same
 * physical point n/2·px before and after. */
enum status template_resize(const float *in, int box, int count, int new_box, float *out, struct err *err) {
    FAIL_IF(box < 2 || new_box < 2 || box % 2 || new_box % 2, err, STATUS_BAD_ARGUMENT,
            "template boxes are even, not %d or %d px", box, new_box);
    int largest = box > new_box ? box : new_box;
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *before = NULL;
    _cleanup_(mem_free) float *after = NULL;
    struct fft_plan *forward = NULL, *inverse = NULL;
    size_t floats = (size_t)largest * (largest + 2);
    TRY(mem_new(floats, sizeof(float), "template resize", &real, err));
    TRY(mem_new(floats, sizeof(float), "template resize", &before, err));
    TRY(mem_new(floats, sizeof(float), "template resize", &after, err));
    struct fft_options options = {.rank = 2, .shape = {box, box}, .direction = FFT_FORWARD};
    TRY(fft_create(&options, &forward, err));
    options = (struct fft_options){.rank = 2, .shape = {new_box, new_box}, .direction = FFT_INVERSE};
    enum status status = fft_create(&options, &inverse, err);
    float factor = 1.0f / ((float)box * (float)box);
    for (int t = 0; t < count && status == STATUS_OK; t++) {
        memcpy(real, in + (size_t)t * box * box, (size_t)box * box * sizeof *real);
        fft_run(forward, real, before);
        if (new_box <= box)
            fourier_window_crop(before, box, new_box, factor, after);
        else
            fourier_window_fill(before, box, new_box, factor, after);
        fft_run(inverse, after, out + (size_t)t * new_box * new_box);
    }
    fft_destroy(&forward);
    fft_destroy(&inverse);
    return status;
}
