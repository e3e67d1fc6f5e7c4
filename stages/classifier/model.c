#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

enum { MINRES_SHELL = 3 };
static const float NOISE_FLOOR = 0.01f;

static enum status create_class(const struct model_options *o, struct model_class *c, struct err *err) {
    size_t shells = (size_t)o->box / 2 + 1, pixels = (size_t)o->box * (size_t)o->box;
    TRY(mem_new(pixels, sizeof *c->map, "class average", &c->map, err));
    TRY(mem_new(shells, sizeof *c->tau2, "class spectrum", &c->tau2, err));
    TRY(mem_new(shells, sizeof *c->ssnr, "class spectrum", &c->ssnr, err));
    TRY(mem_new(shells, sizeof *c->fsc, "class spectrum", &c->fsc, err));
    TRY(mem_new(shells, sizeof *c->completeness, "class spectrum", &c->completeness, err));
    TRY(projector_create(2, o->box, 1, &c->projector, err));
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_create(2, o->box, o->max_size, &c->half[h], err));
        TRY(accumulator_clear(c->half[h], o->max_size, err));
    }
    return accumulator_create(2, o->box, o->max_size, &c->added, err);
}

static enum status create_members(struct model *m, struct err *err) {
    const struct model_options *o = &m->options;
    size_t box = (size_t)o->box, shells = box / 2 + 1;
    TRY(mem_new((size_t)o->class_capacity, sizeof *m->classes, "classes", &m->classes, err));
    TRY(mem_new(shells, sizeof *m->sigma2, "noise spectrum", &m->sigma2, err));
    TRY(mem_new(shells, sizeof *m->sigma2_sum, "noise spectrum", &m->sigma2_sum, err));
    TRY(mem_new(box * (box + 2), sizeof *m->spectrum, "class spectrum", &m->spectrum, err));
    TRY(mem_new((size_t)o->threads, sizeof *m->spaces, "class averages", &m->spaces, err));
    for (int t = 0; t < o->threads; t++) {
        TRY(mem_new(box * box, sizeof *m->spaces[t].image, "class average", &m->spaces[t].image, err));
        for (int i = 0; i < 3; i++)
            TRY(accumulator_create(2, o->box, o->max_size, &m->spaces[t].sums[i], err));
    }
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
    projector_destroy(&c->projector);
    accumulator_destroy(&c->half[0]);
    accumulator_destroy(&c->half[1]);
    accumulator_destroy(&c->added);
}

void model_destroy(struct model **model) {
    if (model == NULL || *model == NULL) return;
    struct model *m = *model;
    for (int i = 0; i < m->options.class_capacity && m->classes != NULL; i++)
        destroy_class(&m->classes[i]);
    for (int t = 0; t < m->options.threads && m->spaces != NULL; t++) {
        mem_free(&m->spaces[t].image);
        for (int i = 0; i < 3; i++)
            accumulator_destroy(&m->spaces[t].sums[i]);
    }
    mem_free(&m->spaces);
    fft_destroy(&m->forward);
    fft_destroy(&m->inverse);
    mem_free(&m->classes);
    mem_free(&m->sigma2);
    mem_free(&m->sigma2_sum);
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

/* Raised cosine from shell rp-2 to rp. */
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

enum status model_set_map(struct model *m, int index, int lowpass_shell, struct err *err) {
    struct model_class *c = &m->classes[index];
    if (c->projector == NULL) TRY(create_class(&m->options, c, err));
    if (lowpass_shell > 0) lowpass(m, c->map, lowpass_shell);
    mask_sphere(2, m->options.box, c->map, m->options.mask_radius, 5, 0);
    TRY(projector_set_map(c->projector, c->map, m->options.max_size, err));
    TRY(projector_power(c->projector, c->tau2, err));
    return STATUS_OK;
}

static void exchange(double *a, double *b, bool back) {
    *(back ? a : b) = *(back ? b : a);
}

/* Both ways: to `values`, or back from there. */
static void exchange_sums(struct model *m, int half, double *values, bool back) {
    double *const singles[] = {&m->empty_weight, &m->sigma2_count, &m->offset_sum, &m->offset_count,
                               &m->norm_sum,     &m->norm_count,   &m->effective};
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        exchange(singles[i], values++, back);
    for (int s = 0; s <= m->options.box / 2; s++)
        exchange(&m->sigma2_sum[s], values++, back);
    for (int k = 0; k < m->class_count; k++)
        exchange(&m->classes[k].weight[half], values++, back);
}

enum status model_copy_sums(struct model *m, int half, struct model_sums *sums, struct err *err) {
    size_t count = 7 + (size_t)m->options.box / 2 + 1 + (size_t)m->options.class_capacity;
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
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(m->options.threads) schedule(static)
    for (int i = 0; i < 2 * m->class_count; i++) {
        struct model_class *c = &m->classes[i / 2];
        struct err own = {0};
        enum status status = factor > 0 ? accumulator_scale(c->half[i % 2], factor, &own)
                                        : accumulator_clear(c->half[i % 2], m->options.max_size, &own);
        c->weight[i % 2] *= factor;
        if (status != STATUS_OK) {
#pragma omp critical(model_fade)
            {
                failed = status;
                if (err != NULL) *err = own;
            }
        }
    }
    TRY(failed);
    for (int s = 0; s <= m->options.box / 2; s++)
        m->sigma2_sum[s] *= factor;
    m->sigma2_count *= factor;
    m->empty_weight *= factor;
    m->offset_sum *= factor;
    m->offset_count *= factor;
    m->norm_sum *= factor;
    m->norm_count *= factor;
    m->effective *= factor;
    return STATUS_OK;
}

/* Moves the centre of mass of what is positive to the middle, in whole pixels. Particles follow in their next E-step.
 */
static void centre(int box, float *scratch, float *map) {
    int half = box / 2;
    double sum = 0, sx = 0, sy = 0;
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++) {
            double v = map[y * box + x];
            if (v > 0) sum += v, sx += v * (x - half), sy += v * (y - half);
        }
    if (sum <= 0) return;
    int dx = (int)lround(-sx / sum), dy = (int)lround(-sy / sum);
    if (dx == 0 && dy == 0) return;
    memcpy(scratch, map, (size_t)box * (size_t)box * sizeof *map);
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++) {
            int from_x = x - dx, from_y = y - dy;
            bool inside = from_x >= 0 && from_x < box && from_y >= 0 && from_y < box;
            map[y * box + x] = inside ? scratch[from_y * box + from_x] : 0;
        }
}

static enum status maximise_class(struct model *m, int index, struct model_space *space, struct err *err) {
    const struct model_options *o = &m->options;
    struct model_class *c = &m->classes[index];
    struct accumulator **s = space->sums;
    for (int i = 0; i < 3; i++)
        TRY(accumulator_clear(s[i], o->max_size, err));
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_merge(s[h], c->half[h], err));
        TRY(accumulator_merge(s[2], c->half[h], err));
    }
    for (int i = 0; i < 3; i++)
        TRY(accumulator_finish(s[i], NULL, 1, err));
    TRY(accumulator_fsc(s[0], s[1], c->fsc, err));
    struct reconstruct_options options = {
        .tau2 = c->tau2, .tau_fudge = o->tau_fudge, .minres_shell = MINRES_SHELL, .threads = 1};
    TRY(reconstruct_map(s[2], &options, c->map, c->ssnr, c->completeness, err));
    mask_sphere(2, o->box, c->map, o->mask_radius, 5, 0);
    centre(o->box, space->image, c->map);
    return model_set_map(m, index, 0, err);
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
        double value = m->sigma2_sum[s] / m->sigma2_count;
        if (value > 0) {
            m->sigma2[s] = (float)value;
            floor_value = value;
        } else if (floor_value > 0) {
            m->sigma2[s] = (float)floor_value;
        }
    }
    model_floor_noise(m);
}

/* The last shell at which the best class is more signal than noise; it may grow by no more than `increment` at a time.
 */
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
    int increment = m->options.box / 8 < 10 ? m->options.box / 8 : 10;
    m->current_shell = best;
    int size = 2 * (best + increment);
    m->size = size < m->options.max_size ? size : m->options.max_size;
}

/* Classes side by side: each is too small for several threads. */
static enum status maximise_classes(struct model *m, struct err *err) {
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(m->options.threads) schedule(dynamic)
    for (int k = 0; k < m->class_count; k++) {
        struct err own = {0};
        if (!(m->classes[k].weight[0] + m->classes[k].weight[1] > 0)) continue;
        enum status status = maximise_class(m, k, &m->spaces[omp_get_thread_num()], &own);
        if (status != STATUS_OK) {
#pragma omp critical(model_maximise)
            if (failed == STATUS_OK) {
                failed = status;
                if (err != NULL) *err = own;
            }
        }
    }
    return failed;
}

enum status model_maximise(struct model *m, struct err *err) {
    TRY(maximise_classes(m, err));
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
    if (b->projector == NULL) TRY(create_class(o, b, err));
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_clear(b->half[h], o->max_size, err));
        TRY(accumulator_merge(b->half[h], a->half[1], err));
    }
    TRY(accumulator_clear(a->half[1], o->max_size, err));
    TRY(accumulator_merge(a->half[1], a->half[0], err));
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_scale(a->half[h], 0.5, err));
        TRY(accumulator_scale(b->half[h], 0.5, err));
    }
    b->weight[0] = b->weight[1] = a->weight[1] / 2;
    a->weight[0] = a->weight[1] = a->weight[0] / 2;
    memcpy(b->tau2, a->tau2, ((size_t)o->box / 2 + 1) * sizeof *a->tau2);
    if (to == m->class_count) m->class_count++;
    if (a->weight[0] > 0) TRY(maximise_class(m, from, m->spaces, err));
    return b->weight[0] > 0 ? maximise_class(m, to, m->spaces, err) : STATUS_OK;
}
