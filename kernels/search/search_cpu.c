#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/fourier/forward.h"
#include "kernels/fourier/window.h"
#include "kernels/local_stats/local_stats.h"
#include "kernels/normalise/normalise.h"
#include "kernels/search/search_private.h"
#include "kernels/template_spectra/template_spectra.h"
#include "kernels/whiten/whiten.h"

struct search_cpu {
    struct search_options options;
    int circle;          /* pixels in it */
    float *square, *low; /* size², the columns of its transform that are used */
    int columns;
    float *image, *image2;          /* work half planes of I and I² */
    float *ctf, *product, *rotated; /* work half planes: real, complex, complex */
    float *best, *score;            /* work² */
    uint16_t *rotation;             /* work² */
    struct merit_terms *terms;      /* [count], without CTF */
    /* NULL unless the search is whitened. */
    struct whiten *whiten;
    float *weights, *white_mu; /* [work/2 + 1], work² */
    double *template_power;    /* [work/2 + 1] */
    struct fourier_forward *forward, *forward_squares;
    struct fft_plan *inverse;
    struct template_spectra *spectra;
    struct local_stats *stats;
    struct correlate *correlate;
    struct merit_window *window;
};

static enum status allocate(struct search_cpu *s, struct err *err) {
    const struct search_options *o = &s->options;
    size_t size = (size_t)o->size, work = (size_t)o->work, floats = work * (work + 2);
    TRY(mem_new(size * size, sizeof(float), "micrograph", &s->square, err));
    TRY(mem_new(2 * size * (size_t)s->columns, sizeof(float), "micrograph transform", &s->low, err));
    float **halves[] = {&s->image, &s->image2, &s->ctf, &s->product, &s->rotated};
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        TRY(mem_new(floats, sizeof(float), "micrograph transform", halves[i], err));
    TRY(mem_new(work * work, sizeof(float), "correlation", &s->best, err));
    TRY(mem_new(work * work, sizeof(float), "correlation", &s->score, err));
    TRY(mem_new(work * work, sizeof(uint16_t), "best rotations", &s->rotation, err));
    return mem_new((size_t)o->count, sizeof *s->terms, "templates", &s->terms, err);
}

static enum status build(struct search_cpu *s, const float *templates, struct err *err) {
    const struct search_options *o = &s->options;
    struct template_spectra_options spectra = search_spectra_options(o, o->memory_limit);
    struct fft_options inverse = {
        .rank = 2, .shape = {o->work, o->work}, .direction = FFT_INVERSE, .threads = o->threads};
    s->circle = circle_count(o->box, o->radius);
    s->columns = search_rings_end(o) > o->work / 2 + 1 ? search_rings_end(o) : o->work / 2 + 1;
    TRY(allocate(s, err));
    TRY(local_stats_create(o->size, o->work, o->box, o->radius, o->threads, &s->stats, err));
    TRY(fourier_forward_create(o->size, s->columns, o->threads, &s->forward, err));
    TRY(fourier_forward_create(o->size, o->work / 2 + 1, o->threads, &s->forward_squares, err));
    TRY(fft_create(&inverse, &s->inverse, err));
    TRY(template_spectra_create(&spectra, templates, &s->spectra, err));
    TRY(merit_window_create(o->size, o->work, o->box, o->radius, o->threads, &s->window, err));
    TRY(correlate_create(o->work, o->threads, &s->correlate, err));
    for (int t = 0; t < o->count; t++) {
        bool conjugate = false;
        const float *f = template_spectra_get(s->spectra, t, 0, s->rotated, &conjugate);
        merit_window_terms(s->window, f, NULL, &s->terms[t]);
    }
    return STATUS_OK;
}

static enum status create_whiten(struct search_cpu *s, const float *templates, struct err *err) {
    const struct search_options *o = &s->options;
    size_t rings = (size_t)o->work / 2 + 1, pixels = (size_t)o->work * (size_t)o->work;
    struct whiten_options options = search_whiten_options(o);
    TRY(mem_new(rings, sizeof *s->weights, "weights", &s->weights, err));
    TRY(mem_new(rings, sizeof *s->template_power, "weights", &s->template_power, err));
    TRY(mem_new(pixels, sizeof *s->white_mu, "local mean", &s->white_mu, err));
    TRY(whiten_create(&options, &s->whiten, err));
    return whiten_template_power(&options, templates, o->box, o->count, o->radius, s->template_power, err);
}

static void destroy(void *state) {
    struct search_cpu *s = state;
    void *buffers[] = {s->square, s->low,   s->image,    s->image2, s->ctf,     s->product,  s->rotated,
                       s->best,   s->score, s->rotation, s->terms,  s->weights, s->white_mu, s->template_power};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]);
    fourier_forward_destroy(&s->forward);
    fourier_forward_destroy(&s->forward_squares);
    fft_destroy(&s->inverse);
    template_spectra_destroy(&s->spectra);
    local_stats_destroy(&s->stats);
    correlate_destroy(&s->correlate);
    merit_window_destroy(&s->window);
    whiten_destroy(&s->whiten);
    free(s);
}

static enum status create(const struct search_options *options, const float *templates,
                          const struct search_tuning *tuning, void **ret_state, struct err *err) {
    (void)tuning;
    struct search_cpu *s = NULL;
    TRY(mem_new(1, sizeof *s, "search", &s, err));
    s->options = *options;
    enum status status = build(s, templates, err);
    if (status == STATUS_OK && options->whiten) status = create_whiten(s, templates, err);
    if (status != STATUS_OK) {
        destroy(s);
        return status;
    }
    *ret_state = s;
    return STATUS_OK;
}

MULTIVERSION static void square_values(float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] *= values[i];
}

/* Computes product = image · ctf / n_o, which all rotations of all templates have in common. */
MULTIVERSION static void prepare_product(const float *image, const float *ctf, size_t count, float factor, float *out) {
    for (size_t i = 0; i < count; i++) {
        float scale = ctf ? ctf[i] * factor : factor;
        out[2 * i] = image[2 * i] * scale;
        out[2 * i + 1] = image[2 * i + 1] * scale;
    }
}

/* Estimates the standard deviation of noise from the ring of least power: particles and the structure of the ice add to
 * the power at other resolutions. The rings reach to twice the low-pass. */
static float noise_of(const struct search_cpu *s) {
    const struct search_options *o = &s->options;
    double power[SEARCH_RINGS] = {0}, count[SEARCH_RINGS] = {0};
    size_t stride = 2 * (size_t)s->columns;
    int end = search_rings_end(o), rings = search_rings(o);
    float density = (float)rings / (float)end;
    for (int ky = -end + 1; ky < end; ky++) {
        const float *line = s->low + (size_t)(ky < 0 ? ky + o->size : ky) * stride;
        for (int kx = 0; kx < end; kx++) {
            int ring = (int)(sqrtf((float)kx * (float)kx + (float)ky * (float)ky) * density);
            if (ring >= rings) break;
            power[ring] += (double)line[2 * kx] * line[2 * kx] + (double)line[2 * kx + 1] * line[2 * kx + 1];
            count[ring]++;
        }
    }
    return search_noise(o, rings, power, count);
}

/* Normalises and low-passes the micrograph, and computes its local mean, deviation and noise. */
static void prepare(struct search_cpu *s, const float *micrograph, uint64_t seed, struct search_maps *maps) {
    const struct search_options *o = &s->options;
    size_t pixels = (size_t)o->size * o->size;
    float factor = 1.0f / (float)pixels;
    maps->deviation = normalise_micrograph(micrograph, o->nx, o->ny, o->clip, o->size, seed, o->threads, s->square);
    fourier_forward_run(s->forward, s->square, s->low);
    fourier_window_crop_columns(s->low, o->size, s->columns, o->work, factor, s->image);
    maps->noise = noise_of(s);
    square_values(s->square, pixels);
    fourier_forward_run(s->forward_squares, s->square, s->low);
    fourier_window_crop_columns(s->low, o->size, o->work / 2 + 1, o->work, factor, s->image2);
    local_stats_run(s->stats, s->image, s->image2, maps->mu, maps->sigma);
    memcpy(s->product, s->image, (size_t)o->work * (o->work + 2) * sizeof *s->product);
    fft_run(s->inverse, s->product, maps->image);
}

static void whiten(struct search_cpu *s, struct search_maps *maps) {
    whiten_weights(s->whiten, maps->image, s->weights);
    maps->noise *= whiten_noise(s->template_power, s->weights, s->options.work);
    whiten_apply(s->weights, s->options.work, s->image);
    local_stats_mean(s->stats, s->image, s->white_mu);
}

/* Computes the scores of one template everywhere. */
static void search_template(struct search_cpu *s, int t, const float *ctf, struct search_maps *maps) {
    const struct search_options *o = &s->options;
    size_t pixels = (size_t)o->work * o->work;
    float *score = maps->scores ? maps->scores + t * pixels : s->score;
    uint16_t *rotation = maps->rotations ? maps->rotations + t * pixels : s->rotation;
    maps->terms[t] = s->terms[t];
    if (ctf) {
        bool conjugate = false;
        const float *f = template_spectra_get(s->spectra, t, 0, s->rotated, &conjugate);
        merit_window_terms(s->window, f, ctf, &maps->terms[t]);
    }
    correlate_best(s->correlate, s->spectra, t, o->rotations, s->product, s->best, rotation);
    merit_scores(&maps->terms[t], s->best, o->whiten ? s->white_mu : maps->mu, o->whiten ? NULL : maps->sigma, pixels,
                 score);
    search_keep_best(score, rotation, t, maps);
}

static enum status run(void *state, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                       struct search_maps *maps, struct err *err) {
    (void)err;
    struct search_cpu *s = state;
    const struct search_options *o = &s->options;
    size_t half = (size_t)o->work * (o->work / 2 + 1);
    prepare(s, input->host, seed, maps);
    if (!(maps->deviation > 0)) return STATUS_OK;
    if (o->whiten) whiten(s, maps);
    if (ctf) ctf_half_plane(ctf, o->size, o->pixel_size, o->work, o->threads, s->ctf);
    prepare_product(s->image, ctf ? s->ctf : NULL, half, 1.0f / (float)s->circle, s->product);
    for (int t = 0; t < o->count; t++)
        search_template(s, t, ctf ? s->ctf : NULL, maps);
    return STATUS_OK;
}

const struct search_work search_cpu_work = {.create = create, .destroy = destroy, .run = run};
