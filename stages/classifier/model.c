#include "stages/classifier/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"

enum { MINRES_SHELL = 3 };
static const float NOISE_FLOOR = 0.01f;

static enum status create_class(const struct model_options *o, struct model_class *c, struct err *err) {
    size_t shells = (size_t)o->box / 2 + 1, pixels = (size_t)o->box * (size_t)o->box;
    TRY(mem_new(pixels, sizeof *c->map, "class average", &c->map, err));
    TRY(mem_new(shells, sizeof *c->tau2, "class spectrum", &c->tau2, err));
    TRY(mem_new(shells, sizeof *c->ssnr, "class spectrum", &c->ssnr, err));
    TRY(mem_new(shells, sizeof *c->fsc, "class spectrum", &c->fsc, err));
    return mem_new(shells, sizeof *c->completeness, "class spectrum", &c->completeness, err);
}

struct averages_options model_averages(const struct model_options *o) {
    return (struct averages_options){.box = o->box,
                                     .max_size = o->max_size,
                                     .capacity = o->class_capacity,
                                     .mask_radius = o->mask_radius,
                                     .tau_fudge = o->tau_fudge,
                                     .minres_shell = MINRES_SHELL,
                                     .threads = o->threads};
}

static enum status create_members(struct model *m, struct err *err) {
    const struct model_options *o = &m->options;
    const struct averages_options averages = model_averages(o);
    size_t box = (size_t)o->box, shells = box / 2 + 1;
    TRY(averages_create(&averages, &m->averages, err));
    TRY(mem_new((size_t)o->class_capacity, sizeof *m->classes, "classes", &m->classes, err));
    TRY(mem_new((size_t)o->class_capacity, sizeof *m->made, "classes", &m->made, err));
    TRY(mem_new(shells, sizeof *m->sigma2, "noise spectrum", &m->sigma2, err));
    TRY(mem_new(shells, sizeof *m->sigma2_sum, "noise spectrum", &m->sigma2_sum, err));
    TRY(mem_new(shells, sizeof *m->sigma2_lacking, "noise spectrum", &m->sigma2_lacking, err));
    TRY(mem_new(box * (box + 2), sizeof *m->spectrum, "class spectrum", &m->spectrum, err));
    struct fft_options plan = {.rank = 2, .shape = {o->box, o->box}, .direction = FFT_FORWARD};
    TRY(fft_create(&plan, &m->forward, err));
    plan.direction = FFT_INVERSE;
    return fft_create(&plan, &m->inverse, err);
}

enum status model_create(const struct model_options *options, struct model **ret_model, struct err *err) {
    struct model *m = calloc(1, sizeof *m);
    FAIL_IF(m == NULL, err, STATUS_NO_MEMORY, "no memory for class averages");
    m->options = *options;
    m->average_norm = 1;
    enum status status = create_members(m, err);
    if (status != STATUS_OK) {
        model_destroy(&m);
        return status;
    }
    *ret_model = m;
    return STATUS_OK;
}

static void destroy_class(struct model_class *c) {
    mem_free(&c->map);
    mem_free(&c->tau2);
    mem_free(&c->ssnr);
    mem_free(&c->fsc);
    mem_free(&c->completeness);
}

void model_destroy(struct model **model) {
    if (model == NULL || *model == NULL) return;
    struct model *m = *model;
    for (int i = 0; i < m->options.class_capacity && m->classes != NULL; i++)
        destroy_class(&m->classes[i]);
    averages_destroy(&m->averages);
    mem_free(&m->made);
    fft_destroy(&m->forward);
    fft_destroy(&m->inverse);
    mem_free(&m->classes);
    mem_free(&m->sigma2);
    mem_free(&m->sigma2_sum);
    mem_free(&m->sigma2_lacking);
    mem_free(&m->spectrum);
    free(m);
    *model = NULL;
}

double model_fraction(const struct model *m, int index) {
    double total = m->empty_weight;
    for (int k = 0; k < m->class_count; k++)
        total += m->classes[k].weight[0] + m->classes[k].weight[1];
    if (total <= 0) return 1.0 / (m->class_count + 1);
    double weight =
        index == m->class_count ? m->empty_weight : m->classes[index].weight[0] + m->classes[index].weight[1];
    return weight / total;
}

/* Filters with a raised cosine from shell rp-2 to rp. */
static void lowpass(struct model *m, float *map, int shell) {
    int box = m->options.box;
    double rp = shell + 1;
    float scale = 1.0f / ((float)box * (float)box);
    fft_run(m->forward, map, m->spectrum);
    float *out = m->spectrum;
    for (int row = 0; row < box; row++)
        for (int kx = 0; kx <= box / 2; kx++, out += 2) {
            int ky = row <= box / 2 ? row : row - box;
            double r = sqrt((double)kx * kx + (double)ky * ky);
            double f = r <= rp - 2 ? 1 : r >= rp ? 0 : 0.5 - 0.5 * cos(M_PI * (rp - r) / 2);
            out[0] *= (float)f * scale;
            out[1] *= (float)f * scale;
        }
    fft_run(m->inverse, m->spectrum, map);
}

static struct average average_of(const struct model *m, int index) {
    const struct model_class *c = &m->classes[index];
    return (struct average){index, c->map, c->tau2, c->ssnr, c->completeness, c->fsc};
}

enum status model_set_map(struct model *m, int index, int lowpass_shell, struct err *err) {
    struct model_class *c = &m->classes[index];
    if (c->map == NULL) TRY(create_class(&m->options, c, err));
    if (lowpass_shell > 0) lowpass(m, c->map, lowpass_shell);
    mask_sphere(2, m->options.box, c->map, m->options.mask_radius, AVERAGES_MASK_EDGE, 0);
    const struct average set = average_of(m, index);
    return averages_set(m->averages, &set, 1, err);
}

enum status model_place(struct model *m, struct workspace *workspace, struct err *err) {
    struct averages_options options = model_averages(&m->options);
    struct averages *there = NULL;
    if (m->placed) return STATUS_OK;
    options.workspace = workspace;
    TRY(averages_create(&options, &there, err));
    for (int k = 0; k < m->class_count; k++)
        m->made[k] = average_of(m, k);
    enum status status = averages_set(there, m->made, m->class_count, err);
    if (status != STATUS_OK) {
        averages_destroy(&there);
        return status;
    }
    averages_destroy(&m->averages);
    m->averages = there;
    m->placed = true;
    return STATUS_OK;
}

static void exchange(double *a, double *b, bool back) {
    *(back ? a : b) = *(back ? b : a);
}

/* Copies the sums to `values`, or back. */
static void exchange_sums(struct model *m, int half, double *values, bool back) {
    double *const singles[] = {&m->empty_weight, &m->sigma2_count, &m->offset_sum, &m->offset_count,
                               &m->norm_sum,     &m->norm_count,   &m->effective};
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        exchange(singles[i], values++, back);
    for (int s = 0; s <= m->options.box / 2; s++) {
        exchange(&m->sigma2_sum[s], values++, back);
        exchange(&m->sigma2_lacking[s], values++, back);
    }
    for (int k = 0; k < m->class_count; k++)
        exchange(&m->classes[k].weight[half], values++, back);
}

enum status model_copy_sums(struct model *m, int half, struct model_sums *sums, struct err *err) {
    size_t count = 7 + 2 * ((size_t)m->options.box / 2 + 1) + (size_t)m->options.class_capacity;
    if (count > sums->room) {
        mem_free(&sums->values);
        sums->room = 0;
        TRY(mem_new(count, sizeof *sums->values, "sums of classes", &sums->values, err));
        sums->room = count;
    }
    exchange_sums(m, half, sums->values, false);
    return STATUS_OK;
}

void model_restore_sums(struct model *m, int half, const struct model_sums *sums) {
    exchange_sums(m, half, sums->values, true);
}

enum status model_fade(struct model *m, double factor, struct err *err) {
    TRY(averages_fade(m->averages, m->class_count, factor, err));
    for (int i = 0; i < 2 * m->class_count; i++)
        m->classes[i / 2].weight[i % 2] *= factor;
    for (int s = 0; s <= m->options.box / 2; s++) {
        m->sigma2_sum[s] *= factor;
        m->sigma2_lacking[s] *= factor;
    }
    m->sigma2_count *= factor;
    m->empty_weight *= factor;
    m->offset_sum *= factor;
    m->offset_count *= factor;
    m->norm_sum *= factor;
    m->norm_count *= factor;
    m->effective *= factor;
    return STATUS_OK;
}

void model_floor_noise(struct model *m) {
    float largest = 0;
    for (int s = 3; s <= m->options.box / 2; s++)
        largest = fmaxf(largest, m->sigma2[s]);
    for (int s = 1; s <= m->options.box / 2; s++)
        m->sigma2[s] = fmaxf(m->sigma2[s], NOISE_FLOOR * largest);
}

static void update_noise(struct model *m) {
    double floor_value = 0;
    for (int s = 1; s <= m->options.box / 2 && m->sigma2_count > 0; s++) {
        double count = m->sigma2_count - m->sigma2_lacking[s], value = count > 1e-6 ? m->sigma2_sum[s] / count : 0;
        if (value > 0) {
            m->sigma2[s] = (float)value;
            floor_value = value;
        } else if (floor_value > 0) {
            m->sigma2[s] = (float)floor_value;
        }
    }
    model_floor_noise(m);
}

/* Finds the last shell at which the best class holds more signal than noise, and sets the next size to at most
 * `increment` shells more. */
static void update_size(struct model *m) {
    int half = m->options.box / 2, best = MINRES_SHELL;
    for (int k = 0; k < m->class_count; k++) {
        const struct model_class *c = &m->classes[k];
        if (c->weight[0] + c->weight[1] < 1) continue;
        int s = 1;
        while (s <= half && c->ssnr[s] >= 1)
            s++;
        if (s - 1 > best) best = s - 1;
    }
    int eighth = model_whole_box(&m->options) / 8, increment = eighth < 10 ? eighth : 10;
    m->current_shell = best;
    int size = 2 * (best + increment);
    m->size = size < m->options.max_size ? size : m->options.max_size;
}

/* Makes the averages of the classes that have members: `count` classes from `first` on. */
static enum status maximise_classes(struct model *m, int first, int count, int step, struct err *err) {
    int made = 0;
    for (int i = 0, k = first; i < count; i++, k += step)
        if (m->classes[k].weight[0] + m->classes[k].weight[1] > 0) m->made[made++] = average_of(m, k);
    return averages_make(m->averages, m->made, made, err);
}

enum status model_maximise(struct model *m, struct err *err) {
    TRY(maximise_classes(m, 0, m->class_count, 1, err));
    update_noise(m);
    update_size(m);
    double smallest = 2.0 / m->options.pixel_size; /* 2 Å */
    if (m->offset_count > 0) m->sigma_offset = fmax(sqrt(m->offset_sum / (2 * m->offset_count)), smallest);
    if (m->norm_count > 0) m->average_norm = m->norm_sum / m->norm_count;
    return STATUS_OK;
}

enum status model_split(struct model *m, int from, int to, struct err *err) {
    const struct model_options *o = &m->options;
    struct model_class *a = &m->classes[from], *b = &m->classes[to];
    if (b->map == NULL) TRY(create_class(o, b, err));
    TRY(averages_split(m->averages, from, to, err));
    b->weight[0] = b->weight[1] = a->weight[1] / 2;
    a->weight[0] = a->weight[1] = a->weight[0] / 2;
    memcpy(b->tau2, a->tau2, ((size_t)o->box / 2 + 1) * sizeof *a->tau2);
    if (to == m->class_count) m->class_count++;
    return maximise_classes(m, from, 2, to - from, err);
}
