/* Class averages in host memory. Classes run in parallel, because one class is too small for several threads. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/averages/averages_private.h"
#include "kernels/fsc/fsc.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* A job that runs once per class k, or per entry k of a list. */
struct work {
    enum status (*run)(struct averages *a, const struct work *w, int k, struct err *err);
    int count, size, half;
    double factor;
    const struct average *list;
};

static enum status each(struct averages *a, const struct work *w, struct err *err) {
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(a->options.threads) schedule(dynamic)
    for (int k = 0; k < w->count; k++) {
        struct err own = {0};
        enum status status = w->run(a, w, k, &own);
        if (status != STATUS_OK) {
#pragma omp critical(averages_each)
            if (failed == STATUS_OK) {
                failed = status;
                if (err != NULL) *err = own;
            }
        }
    }
    return failed;
}

static enum status open_spaces(struct averages *a, struct err *err) {
    const struct averages_options *o = &a->options;
    size_t box = (size_t)o->box;
    TRY(mem_new((size_t)o->threads, sizeof *a->spaces, "class averages", &a->spaces, err));
    for (int t = 0; t < o->threads; t++) {
        TRY(mem_new(box * box, sizeof *a->spaces[t].image, "class average", &a->spaces[t].image, err));
        for (int i = 0; i < 3; i++)
            TRY(accumulator_create(2, o->box, o->max_size, &a->spaces[t].sums[i], err));
    }
    return STATUS_OK;
}

static void close_spaces(struct averages *a) {
    for (int t = 0; t < a->options.threads && a->spaces != NULL; t++) {
        mem_free(&a->spaces[t].image);
        for (int i = 0; i < 3; i++)
            accumulator_destroy(&a->spaces[t].sums[i]);
    }
    mem_free(&a->spaces);
}

static enum status open_class(struct averages *a, int k, struct err *err) {
    const struct averages_options *o = &a->options;
    struct class_sums *c = &a->classes[k];
    if (c->added != NULL) return STATUS_OK;
    if (c->reference == NULL) TRY(projector_create(2, o->box, 1, &c->reference, err));
    for (int h = 0; h < 2; h++)
        if (c->half[h] == NULL) TRY(accumulator_create(2, o->box, o->max_size, &c->half[h], err));
    return accumulator_create(2, o->box, o->max_size, &c->added, err);
}

static enum status clear_added(struct averages *a, const struct work *w, int k, struct err *err) {
    return accumulator_clear(a->classes[k].added, w->size, err);
}

static enum status begin(struct averages *a, int count, int size, struct err *err) {
    return each(a, &(struct work){.run = clear_added, .count = count, .size = size}, err);
}

static enum status join_added(struct averages *a, const struct work *w, int k, struct err *err) {
    return accumulator_merge(a->classes[k].half[w->half], a->classes[k].added, err);
}

static enum status end(struct averages *a, int count, int half, struct err *err) {
    return each(a, &(struct work){.run = join_added, .count = count, .half = half}, err);
}

static enum status fade_half(struct averages *a, const struct work *w, int i, struct err *err) {
    struct accumulator *half = a->classes[i / 2].half[i % 2];
    return w->factor > 0 ? accumulator_scale(half, w->factor, err) : accumulator_clear(half, a->options.max_size, err);
}

static enum status fade(struct averages *a, int count, double factor, struct err *err) {
    return each(a, &(struct work){.run = fade_half, .count = 2 * count, .factor = factor}, err);
}

static enum status split(struct averages *averages, int from, int to, struct err *err) {
    const int size = averages->options.max_size;
    TRY(open_class(averages, to, err));
    struct class_sums *a = &averages->classes[from], *b = &averages->classes[to];
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_clear(b->half[h], size, err));
        TRY(accumulator_merge(b->half[h], a->half[1], err));
    }
    TRY(accumulator_clear(a->half[1], size, err));
    TRY(accumulator_merge(a->half[1], a->half[0], err));
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_scale(a->half[h], 0.5, err));
        TRY(accumulator_scale(b->half[h], 0.5, err));
    }
    return STATUS_OK;
}

/* Moves the centre of mass of the positive pixels to the middle, by whole pixels. Particles follow in their next
 * E-step. */
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

static enum status set_one(struct averages *a, const struct work *w, int i, struct err *err) {
    const struct average *from = &w->list[i];
    TRY(open_class(a, from->index, err));
    struct projector *reference = a->classes[from->index].reference;
    TRY(projector_set_map(reference, from->map, a->options.max_size, err));
    return projector_power(reference, from->tau2, err);
}

static enum status set(struct averages *a, const struct average *list, int count, struct err *err) {
    return each(a, &(struct work){.run = set_one, .count = count, .list = list}, err);
}

static enum status make_one(struct averages *a, const struct work *w, int i, struct err *err) {
    const struct averages_options *o = &a->options;
    const struct average *to = &w->list[i];
    const struct class_sums *c = &a->classes[to->index];
    struct average_space *space = &a->spaces[omp_get_thread_num()];
    struct accumulator **s = space->sums;
    for (int j = 0; j < 3; j++)
        TRY(accumulator_clear(s[j], o->max_size, err));
    for (int h = 0; h < 2; h++) {
        TRY(accumulator_merge(s[h], c->half[h], err));
        TRY(accumulator_merge(s[2], c->half[h], err));
    }
    for (int j = 0; j < 3; j++)
        TRY(accumulator_finish(s[j], NULL, 1, err));
    TRY(accumulator_fsc(s[0], s[1], to->fsc, err));
    const struct reconstruct_options options = {
        .tau2 = to->tau2, .tau_fudge = o->tau_fudge, .minres_shell = o->minres_shell, .threads = 1};
    TRY(reconstruct_map(s[2], &options, to->map, to->data_vs_prior, to->completeness, err));
    mask_sphere(2, o->box, to->map, o->mask_radius, AVERAGES_MASK_EDGE, 0);
    centre(o->box, space->image, to->map);
    mask_sphere(2, o->box, to->map, o->mask_radius, AVERAGES_MASK_EDGE, 0);
    return set_one(a, w, i, err);
}

static enum status make(struct averages *a, const struct average *list, int count, struct err *err) {
    return each(a, &(struct work){.run = make_one, .count = count, .list = list}, err);
}

const struct averages_work averages_cpu_work = {
    .open = open_spaces,
    .close = close_spaces,
    .begin = begin,
    .end = end,
    .fade = fade,
    .split = split,
    .make = make,
    .set = set,
};
