#include "stages/classifier/seed.h"

#include <math.h>

#include "common/memory.h"
#include "kernels/prepare/prepare.h"
#include "stages/classifier/estep.h"

/* Space for one particle over the Fourier pixels of the model's size. */
struct sample {
    struct fourier_pixels pixels;
    struct prepare *prepare;
    float *image; /* box²: for an image that is not in memory */
    float *masked, *unmasked, *ctf, *weight, *power;
};

static void sample_destroy(struct sample *s) {
    fourier_pixels_destroy(&s->pixels);
    prepare_destroy(&s->prepare);
    mem_free(&s->image);
    mem_free(&s->masked);
    mem_free(&s->unmasked);
    mem_free(&s->ctf);
    mem_free(&s->weight);
    mem_free(&s->power);
}

static enum status sample_create(const struct model *m, struct sample *s, struct err *err) {
    size_t box = (size_t)m->options.box;
    TRY(fourier_pixels_create(m->options.box, m->size, &s->pixels, err));
    TRY(prepare_create(m->options.box, &s->prepare, err));
    size_t n = (size_t)s->pixels.count;
    TRY(mem_new(box * box, sizeof *s->image, "a particle", &s->image, err));
    TRY(mem_new(2 * n, sizeof *s->masked, "a particle", &s->masked, err));
    TRY(mem_new(2 * n, sizeof *s->unmasked, "a particle", &s->unmasked, err));
    TRY(mem_new(n, sizeof *s->ctf, "a particle", &s->ctf, err));
    TRY(mem_new(n, sizeof *s->weight, "a particle", &s->weight, err));
    return mem_new(box / 2 + 1, sizeof *s->power, "a particle", &s->power, err);
}

static enum status sample_take(struct sample *s, const struct model *m, struct dataset *dataset, size_t index,
                               struct err *err) {
    const float *image;
    TRY(dataset_image(dataset, index, s->image, &image, err));
    const struct prepare_options options = {.scale = 1, .mask_radius = m->options.mask_radius};
    prepare_image(s->prepare, image, &options, &s->pixels, s->masked, s->unmasked, s->power);
    return STATUS_OK;
}

/* Turns data into c X/σ² and makes weights c²/σ², for the sums. */
static void sample_weigh(struct sample *s, const struct model *m, const struct dataset_particle *p) {
    int n = s->pixels.count;
    for (int i = 0; i < n; i++)
        s->ctf[i] = 1;
    if (p->uses_ctf) ctf_at(&p->ctf, m->options.box, p->pixel_size, n, s->pixels.kx, s->pixels.ky, s->ctf);
    for (int i = 0; i < n; i++) {
        float factor = s->ctf[i] / m->sigma2[s->pixels.shell[i]];
        s->unmasked[2 * i] *= factor;
        s->unmasked[2 * i + 1] *= factor;
        s->weight[i] = factor * s->ctf[i];
    }
}

static enum status add_noise(struct sample *s, struct model *m, struct dataset *dataset, const size_t *which,
                             size_t count, struct err *err) {
    int half = m->options.box / 2;
    _cleanup_(mem_free) double *power = NULL;
    _cleanup_(mem_free) size_t *seen = NULL; /* images that have the shell */
    TRY(mem_new((size_t)half + 1, sizeof *power, "noise spectrum", &power, err));
    TRY(mem_new((size_t)half + 1, sizeof *seen, "noise spectrum", &seen, err));
    dataset_expect(dataset, which, count, which, count); /* seed_sums needs the same images */
    for (size_t i = 0; i < count; i++) {
        TRY(sample_take(s, m, dataset, which[i], err));
        int last = estep_last_shell(m, dataset_at(dataset, which[i]));
        for (int shell = 1; shell <= last; shell++) {
            power[shell] += (double)s->power[shell] / (double)count;
            seen[shell]++;
        }
    }
    for (int shell = 1; shell <= half; shell++)
        power[shell] *= seen[shell] > 0 ? (double)count / (double)seen[shell] : 0;
    /* The signal of one particle is small beside its noise: its power serves as noise until the first averages can be
     * subtracted. */
    for (int shell = 1; shell <= half; shell++)
        m->sigma2[shell] = power[shell] > 0 ? (float)power[shell] : shell > 1 ? m->sigma2[shell - 1] : 1;
    model_floor_noise(m);
    return STATUS_OK;
}

enum status seed_noise(struct model *m, struct dataset *dataset, const size_t *which, size_t count, struct err *err) {
    struct sample s = {0};
    enum status status = sample_create(m, &s, err);
    if (status == STATUS_OK) status = add_noise(&s, m, dataset, which, count, err);
    sample_destroy(&s);
    return status;
}

static enum status add_one(struct sample *s, struct model *m, struct dataset *dataset, size_t index, int class_index,
                           double psi, struct err *err) {
    TRY(sample_take(s, m, dataset, index, err));
    const struct dataset_particle *p = dataset_at(dataset, index);
    m->effective++;
    if (p->unusable) return STATUS_OK;
    int half = estep_half(index);
    float c = (float)cos(psi), sine = (float)sin(psi);
    const float matrix[9] = {c, sine, 0, -sine, c, 0, 0, 0, 1};
    sample_weigh(s, m, p);
    TRY(accumulator_add(averages_sums(m->averages, class_index, half), &s->pixels, s->pixels.count, 1, matrix,
                        s->unmasked, s->weight, 1, err));
    m->classes[class_index].weight[half] += 1;
    int last = estep_last_shell(m, p);
    for (int shell = 1; shell <= m->options.box / 2; shell++) {
        if (shell <= last)
            m->sigma2_sum[shell] += (double)s->power[shell];
        else
            m->sigma2_lacking[shell]++;
    }
    m->sigma2_count++;
    m->offset_count++;
    return STATUS_OK;
}

enum status seed_sums(struct model *m, struct dataset *dataset, const size_t *which, size_t count, int angles,
                      unsigned seed, struct err *err) {
    struct sample s = {0};
    unsigned random = seed;
    enum status status = sample_create(m, &s, err);
    dataset_expect(dataset, which, count, NULL, 0);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        random = random * 1664525u + 1013904223u;
        double psi = 2 * M_PI * (double)((random >> 8) % (unsigned)angles) / angles;
        status = add_one(&s, m, dataset, which[i], (int)(i % (size_t)m->class_count), psi, err);
    }
    sample_destroy(&s);
    return status;
}
