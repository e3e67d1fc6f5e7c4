#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/fourier/window.h"
#include "stages/lowpass-picker/picker_private.h"
#include "stages/lowpass-picker/threshold.h"

/* Rotated templates are kept up to here; more are rotated as they are used, which costs a fifth of the transform. */
static const size_t ROTATED_LIMIT = (size_t)512 << 20;
/* RELION's reduction of the mask radius, px. */
enum { SHRINK_MASK = 2 };
/* Robust standard deviations of the local mean and deviation at which a place is not ice any more. */
static const float CONTAMINATION_SPREADS = 6;
/* Rings of the spectrum whose power is compared, at most; their least width, px, and the coefficients that a ring's mean
 * needs. */
enum { NOISE_RINGS = 64, RING_WIDTH = 4, NOISE_COEFFICIENTS = 100 };
/* Templates whose amplitude in the picks is outside of this are on another grey scale than that of normalised
 * particles. Inside, a circle that is a little too wide, crowding and imperfect templates explain it. */
static const double SCALE_LEAST = 0.25, SCALE_MOST = 4;

/* Width of what is not zero on the central row, Å, averaged over the templates (masked templates end at zero). */
static double diameter_of(const struct picker_templates *t) {
    double width = 0;
    for (int i = 0; i < t->count; i++) {
        const float *row = t->data + ((size_t)i * t->box + t->box / 2) * t->box;
        int first = 0, last = t->box - 1;
        while (first < last && row[first] == 0)
            first++;
        while (last > first && row[last] == 0)
            last--;
        width += last - first + 1;
    }
    return width / t->count * t->pixel_size;
}

static enum status resized(struct picker *p, const struct picker_templates *templates, int *ret_box, float **ret_data,
                           struct err *err) {
    double ratio = templates->pixel_size / p->settings.pixel_size;
    bool same = fabs(templates->pixel_size - p->settings.pixel_size) <= 1e-3;
    int box = same ? templates->box : 2 * (int)lround(templates->box / 2 * ratio);
    FAIL_IF(box < 8, err, STATUS_BAD_ARGUMENT,
            "the templates (%d px of %.3g Å) are %d px wide at the micrograph's %.3g Å/px: check templates_pixel_size",
            templates->box, templates->pixel_size, box, p->settings.pixel_size);
    FAIL_IF(box >= p->nx || box >= p->ny, err, STATUS_BAD_ARGUMENT,
            "the templates (%d px of %.3g Å) are %d px wide at the micrograph's %.3g Å/px and do not fit into its "
            "%d × %d px: check templates_pixel_size",
            templates->box, templates->pixel_size, box, p->settings.pixel_size, p->nx, p->ny);
    TRY(mem_new((size_t)templates->count * box * box, sizeof(float), "templates", ret_data, err));
    *ret_box = box;
    if (same) {
        memcpy(*ret_data, templates->data, (size_t)templates->count * box * box * sizeof(float));
        return STATUS_OK;
    }
    return template_resize(templates->data, templates->box, templates->count, box, *ret_data, err);
}

static enum status make_terms(struct picker *p, struct err *err) {
    TRY(mem_new((size_t)p->template_count, sizeof *p->terms, "templates", &p->terms, err));
    TRY(mem_new((size_t)p->template_count, sizeof *p->terms, "templates", &p->terms_here, err));
    for (int t = 0; t < p->template_count; t++) {
        bool conjugate = false;
        const float *f = template_spectra_get(p->spectra, t, 0, p->product, &conjugate);
        merit_window_terms(p->window, f, NULL, &p->terms[t]);
        FAIL_IF(!(p->terms[t].power > 0), err, STATUS_BAD_ARGUMENT,
                "template %d is empty inside the particle's circle: leave it out of the stack", t + 1);
    }
    return STATUS_OK;
}

enum status picker_template_create(struct picker *p, const struct picker_templates *templates, struct err *err) {
    FAIL_IF(templates == NULL || templates->count < 1 || templates->box < 8 || templates->box % 2, err,
            STATUS_BAD_ARGUMENT, "templates are square images of an even size of at least 8 px");
    FAIL_IF(!(templates->pixel_size > 0), err, STATUS_BAD_ARGUMENT,
            "the templates' pixel size is not known: set templates_pixel_size");
    double diameter = isnan(p->settings.diameter) ? diameter_of(templates) : p->settings.diameter;
    p->diameter = diameter / p->settings.pixel_size;
    p->template_count = templates->count;
    _cleanup_(mem_free) float *data = NULL;
    int box = 0;
    TRY(resized(p, templates, &box, &data, err));
    double radius = lround(p->diameter / 2) - SHRINK_MASK;
    FAIL_IF(radius < 2, err, STATUS_BAD_ARGUMENT, "a diameter of %.3g Å is only %.1f px", diameter, p->diameter);
    /* Unmasked templates without a diameter: the largest circle that leaves a background. */
    if (isnan(p->settings.diameter) && radius > box / 2 - SHRINK_MASK) radius = box / 2 - SHRINK_MASK;
    p->border = box / 2;
    TRY(picker_allocate(p, err));

    size_t pixels = (size_t)p->work * p->work, floats = (size_t)p->work * (p->work + 2);
    TRY(mem_new(pixels, sizeof(float), "local mean", &p->mu, err));
    TRY(mem_new(pixels, sizeof(float), "local deviation", &p->sigma, err));
    TRY(mem_new(pixels, sizeof(float), "correlation", &p->best, err));
    TRY(mem_new(floats, sizeof(float), "CTF", &p->ctf, err));
    TRY(mem_new(floats, sizeof(float), "correlation", &p->product, err));
    TRY(mem_new(floats, sizeof(float), "correlation", &p->rotated, err));
    int threads = p->settings.threads;
    struct template_spectra_options options = {.size = p->size,
                                               .work = p->work,
                                               .box = box,
                                               .radius = radius,
                                               .count = p->template_count,
                                               .rotations = p->rotations,
                                               .invert = p->settings.invert,
                                               .memory_limit = ROTATED_LIMIT,
                                               .threads = threads};
    TRY(template_spectra_create(&options, data, &p->spectra, err));
    TRY(local_stats_create(p->size, p->work, box, radius, threads, &p->stats, err));
    TRY(merit_window_create(p->size, p->work, box, radius, threads, &p->window, err));
    TRY(correlate_create(p->work, threads, &p->correlate, err));
    p->circle = circle_count(box, radius);
    return make_terms(p, err);
}

/* product = image · ctf / n_o: all that the rotations of all templates have in common. */
MULTIVERSION static void prepare_product(const float *image, const float *ctf, size_t count, float factor, float *out) {
    for (size_t i = 0; i < count; i++) {
        float scale = ctf ? ctf[i] * factor : factor;
        out[2 * i] = image[2 * i] * scale;
        out[2 * i + 1] = image[2 * i + 1] * scale;
    }
}

MULTIVERSION static void scale_values(float *values, size_t count, float factor) {
    for (size_t i = 0; i < count; i++)
        values[i] *= factor;
}

/* The amplitude of one template everywhere. */
static void correlate_template(struct picker *p, int t, const float *ctf) {
    size_t pixels = (size_t)p->work * p->work;
    p->terms_here[t] = p->terms[t];
    if (ctf) {
        bool conjugate = false;
        const float *f = template_spectra_get(p->spectra, t, 0, p->rotated, &conjugate);
        merit_window_terms(p->window, f, ctf, &p->terms_here[t]);
    }
    correlate_best(p->correlate, p->spectra, t, p->rotations, p->product, p->best, p->rotation + t * pixels);
    merit_amplitude(&p->terms_here[t], p->best, p->mu, p->sigma, pixels, p->merit + t * pixels);
}

/* Marks what lies on ice crystals, carbon or dirt: there the background is rougher, or darker, than anywhere else. */
static void mark_contamination(struct picker *p) {
    size_t pixels = (size_t)p->work * p->work;
    double limit = p->settings.max_stddev_noise;
    float middle, spread;
    if (isnan(limit)) {
        picker_robust(p, p->sigma, &middle, &spread);
        for (size_t i = 0; i < pixels; i++)
            p->bad[i] |= p->sigma[i] > middle + fmaxf(CONTAMINATION_SPREADS * spread, 0.15f * middle);
        picker_robust(p, p->mu, &middle, &spread);
        for (size_t i = 0; i < pixels; i++)
            p->bad[i] |= fabsf(p->mu[i] - middle) > fmaxf(CONTAMINATION_SPREADS * spread, 0.3f);
    } else if (limit > 0) {
        for (size_t i = 0; i < pixels; i++)
            p->bad[i] |= p->sigma[i] > limit;
    }
}

double picker_template_scale(const struct picker *p, const struct peak_list *peaks) {
    if (peaks->count == 0) return 1;
    /* Peaks fall, so this is the median but for the order of templates of different power. */
    const struct peak *middle = &peaks->items[peaks->count / 2];
    double amplitude = middle->merit / sqrt(p->terms_here[middle->template].power);
    return amplitude < SCALE_LEAST || amplitude > SCALE_MOST ? amplitude : 1;
}

float picker_template_merit(const struct picker *p, int template, double scale, float score) {
    float merit = score / (float)sqrt(p->terms_here[template].power);
    merit_map(&p->terms_here[template], scale, 1, &merit);
    return merit;
}

/* Variance of white noise of the least power at any resolution up to twice the low-pass's: particles and the ice's own
 * structure add to the power at the others. half: the micrograph's transform at full size. */
static double noise_variance(const struct picker *p) {
    double power[NOISE_RINGS] = {0}, least = INFINITY, pixels = (double)p->size * p->size;
    size_t count[NOISE_RINGS] = {0}, stride = 2 * ((size_t)p->size / 2 + 1);
    int end = p->work < p->size / 2 ? p->work : p->size / 2;
    int rings = end / RING_WIDTH < NOISE_RINGS ? end / RING_WIDTH : NOISE_RINGS;
    for (int row = -end + 1; row < end; row++) {
        const float *line = p->half + (size_t)(row < 0 ? row + p->size : row) * stride;
        for (int kx = 0; kx < end; kx++) {
            int ring = (int)(sqrtf((float)kx * (float)kx + (float)row * (float)row) * (float)rings / (float)end);
            if (ring >= rings) break;
            power[ring] += (double)line[2 * kx] * line[2 * kx] + (double)line[2 * kx + 1] * line[2 * kx + 1];
            count[ring]++;
        }
    }
    for (int ring = 0; ring < rings; ring++)
        if (count[ring] >= NOISE_COEFFICIENTS) least = fmin(least, power[ring] / (double)count[ring] / pixels);
    return isfinite(least) ? least : 0;
}

void picker_template_noise(struct picker *p) {
    if (p->scores) p->noise = (float)sqrt(noise_variance(p) / p->circle);
}

enum status picker_template_run(struct picker *p, const struct ctf *ctf, struct err *err) {
    (void)err;
    size_t half = (size_t)p->work * (p->work / 2 + 1), pixels = (size_t)p->work * p->work;
    local_stats_run(p->stats, p->image, p->image2, p->mu, p->sigma);
    mark_contamination(p);
    if (ctf) ctf_half_plane(ctf, p->size, p->settings.pixel_size, p->work, p->ctf);
    prepare_product(p->image, ctf ? p->ctf : NULL, half, 1.0f / (float)p->circle, p->product);
    for (int t = 0; t < p->template_count; t++)
        correlate_template(p, t, ctf ? p->ctf : NULL);
    float sigma, spread;
    picker_robust(p, p->sigma, &sigma, &spread);
    if (sigma > 0) p->noise /= sigma;
    for (int t = 0; t < p->template_count; t++)
        if (p->scores)
            scale_values(p->merit + t * pixels, pixels, (float)sqrt(p->terms_here[t].power));
        else
            merit_map(&p->terms_here[t], 1, pixels, p->merit + t * pixels);
    return STATUS_OK;
}
