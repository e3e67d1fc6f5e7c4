#include "stages/crystal-scorer/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

enum { SEED = 1, FOLDS_MAX = 64 };
static const double SUBSAMPLE = 0.63, ROOM = 0x1p33; /* bytes for growing forests */

static enum status grow(struct training *t, struct err *err) {
    size_t capacity = t->capacity == 0 ? 64 : 2 * t->capacity, width = (size_t)features_count(t->features.groups);
    struct example *examples = realloc(t->examples, capacity * sizeof *examples);
    if (examples != NULL) t->examples = examples;
    float *rows = examples != NULL ? realloc(t->rows, capacity * width * sizeof *rows) : NULL;
    FAIL_IF(rows == NULL, err, STATUS_NO_MEMORY, "no memory for the features of %zu images", capacity);
    t->rows = rows;
    t->capacity = capacity;
    return STATUS_OK;
}

enum status training_add(struct training *t, const char *image, const char *id, enum outcome outcome,
                         const float *vector, struct err *err) {
    if (t->count == t->capacity) TRY(grow(t, err));
    struct example *e = &t->examples[t->count];
    size_t width = (size_t)features_count(t->features.groups);
    *e = (struct example){.outcome = outcome, .row = t->count, .image = strdup(image)};
    FAIL_IF(e->image == NULL, err, STATUS_NO_MEMORY, "no memory for the name of an image");
    e->in_series = t->pattern != NULL && series_parse(t->pattern, id, &e->series);
    memcpy(t->rows + t->count * width, vector, width * sizeof *vector);
    t->count++;
    return STATUS_OK;
}

void training_clear(struct training *t) {
    for (size_t i = 0; i < t->count; i++)
        free(t->examples[i].image);
    mem_free(&t->examples);
    mem_free(&t->rows);
    t->count = t->capacity = 0;
}

/* Orders by drop and time; images of no series come last. Images of the same name have the same path. */
static int by_drop(const void *a, const void *b) {
    const struct example *p = a, *q = b;
    if (p->in_series != q->in_series) return p->in_series ? -1 : 1;
    int order = p->in_series ? series_compare(&p->series, &q->series) : 0;
    return order != 0 ? order : strcmp(p->image, q->image);
}

static bool begins_drop(const struct training *t, size_t i) {
    return i == 0 || !t->examples[i].in_series ||
           strcmp(t->examples[i].series.drop, t->examples[i - 1].series.drop) != 0;
}

/* Sorts rows into the order of the examples, however they arrived. */
static enum status sort(struct training *t, struct err *err) {
    size_t width = (size_t)features_count(t->features.groups);
    float *rows = NULL;
    qsort(t->examples, t->count, sizeof *t->examples, by_drop);
    TRY(mem_new_unset(t->count * width, sizeof *rows, "features", &rows, err));
    for (size_t i = 0; i < t->count; i++) {
        memcpy(rows + i * width, t->rows + t->examples[i].row * width, width * sizeof *rows);
        t->examples[i].row = i;
    }
    free(t->rows);
    t->rows = rows;
    t->capacity = t->count;
    return STATUS_OK;
}

/* Finds the classes that occur; each needs at least two examples. ret_class[count]. */
static enum status find_classes(const struct training *t, struct model *model, int *ret_class, struct err *err) {
    size_t of[OUTCOMES] = {0};
    int class_of[OUTCOMES] = {0};
    for (size_t i = 0; i < t->count; i++)
        of[t->examples[i].outcome]++;
    model->classes = 0;
    for (int k = 0; k < OUTCOMES; k++) {
        FAIL_IF(of[k] == 1, err, STATUS_BAD_FORMAT,
                "only one image of '%s' could be read: two or more are needed, one to learn from and one to check with",
                outcome_name((enum outcome)k));
        if (of[k] == 0) continue;
        class_of[k] = model->classes;
        model->outcomes[model->classes] = (enum outcome)k;
        model->examples[model->classes++] = of[k];
    }
    FAIL_IF(model->classes < 2, err, STATUS_NOT_FOUND,
            "%zu labelled images of %d outcomes could be read: two outcomes or more are needed", t->count,
            model->classes);
    for (size_t i = 0; i < t->count; i++)
        ret_class[i] = class_of[t->examples[i].outcome];
    return STATUS_OK;
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15U; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

/* Deals drops out in random order: each goes to the part that has least of the class of the drop's first image; of
 * several, to the one with fewest images. */
static enum status deal(const struct training *t, const int *class_of, int folds, int *ret_fold, struct err *err) {
    _cleanup_(mem_free) size_t *starts = NULL;
    size_t drops = 0, held[FOLDS_MAX][OUTCOMES] = {{0}}, all[FOLDS_MAX] = {0};
    uint64_t state = SEED;
    TRY(mem_new(t->count, sizeof *starts, "parts", &starts, err));
    for (size_t i = 0; i < t->count; i++)
        if (begins_drop(t, i)) starts[drops++] = i;
    for (size_t i = drops; i > 1; i--) {
        size_t k = next_random(&state) % i, swap = starts[i - 1];
        starts[i - 1] = starts[k];
        starts[k] = swap;
    }
    for (size_t d = 0; d < drops; d++) {
        int best = 0, first = class_of[starts[d]];
        for (int f = 1; f < folds; f++)
            if (held[f][first] < held[best][first] || (held[f][first] == held[best][first] && all[f] < all[best]))
                best = f;
        for (size_t i = starts[d]; i < t->count && (i == starts[d] || !begins_drop(t, i)); i++) {
            ret_fold[i] = best;
            held[best][class_of[i]]++;
            all[best]++;
        }
    }
    return STATUS_OK;
}

struct work {
    const struct training *training;
    struct forest_options options;
    float weights[FEATURES_MOST];
    const int *class_of, *fold;
    float *predicted;
    int workers;
    struct forest *forests[FOLDS_MAX + 1]; /* the first: from all examples; the others: without one part */
};

/* Grows one part of a forest from all examples outside fold `held`; −1: from all. */
static enum status grow_part(const struct work *w, int held, int part, struct err *err) {
    size_t width = (size_t)w->options.features, count = 0;
    _cleanup_(mem_free) float *rows = NULL;
    _cleanup_(mem_free) int *classes = NULL;
    TRY(mem_new_unset(w->training->count * width, sizeof *rows, "features", &rows, err));
    TRY(mem_new(w->training->count, sizeof *classes, "classes", &classes, err));
    for (size_t i = 0; i < w->training->count; i++) {
        if (w->fold[i] == held) continue;
        memcpy(rows + count * width, w->training->rows + i * width, width * sizeof *rows);
        classes[count++] = w->class_of[i];
    }
    FAIL_IF(count == 0, err, STATUS_BAD_FORMAT, "nothing is left to learn from while a part is held out");
    return forest_grow(w->forests[held + 1], part, rows, classes, count, err);
}

/* Returns how many parts grow at once: at most the number of threads, and as many as fit into memory. Each holds its
 * examples four times (rows, XGBoost's matrix, and its sorted columns with an index each). */
static int workers_of(const struct work *w, int threads) {
    double each = 16.0 * (double)w->training->count * w->options.features;
    int room = (int)fmin(fmax(ROOM / each, 1), 1 << 16);
    return threads < room ? threads : room;
}

/* Grows each part of each forest in its own thread, since trees are small and many. After a failure no other part
 * begins. */
static enum status grow_all(struct work *w, int folds, int threads, struct err *err) {
    enum status status = STATUS_OK;
    bool failed = false;
    w->workers = workers_of(w, threads);
    for (int f = 0; f <= folds; f++)
        TRY(forest_create(&w->options, &w->forests[f], err));
#pragma omp parallel for schedule(dynamic, 1) num_threads(w->workers)
    for (int task = 0; task < (folds + 1) * FOREST_PARTS; task++) {
        struct err own = {0};
        bool stop;
#pragma omp atomic read
        stop = failed;
        if (stop) continue;
        enum status came = grow_part(w, task / FOREST_PARTS - 1, task % FOREST_PARTS, &own);
#pragma omp critical(icestream_training)
        if (came != STATUS_OK && status == STATUS_OK) {
            status = came;
            if (err != NULL) *err = own;
#pragma omp atomic write
            failed = true;
        }
    }
    return status;
}

static enum status validate(struct work *w, struct err *err) {
    size_t width = (size_t)w->options.features, classes = (size_t)w->options.classes;
    for (size_t i = 0; i < w->training->count; i++)
        TRY(forest_predict(w->forests[w->fold[i] + 1], w->training->rows + i * width, w->predicted + i * classes, err));
    return STATUS_OK;
}

static void count_up(const struct work *w, struct confusion *confusion) {
    size_t classes = (size_t)w->options.classes;
    for (size_t i = 0; i < w->training->count; i++) {
        const float *p = w->predicted + i * classes;
        size_t best = 0;
        for (size_t k = 1; k < classes; k++)
            if (p[k] > p[best]) best = k;
        confusion->counts[w->class_of[i]][best]++;
    }
}

static enum status learn_series(const struct training *t, const int *class_of, struct model *model, struct err *err) {
    _cleanup_(mem_free) bool *begins = NULL;
    model->has_series = t->pattern != NULL;
    if (!model->has_series) return STATUS_OK;
    snprintf(model->pattern, sizeof model->pattern, "%s", t->pattern);
    TRY(mem_new(t->count, sizeof *begins, "time series", &begins, err));
    for (size_t i = 0; i < t->count; i++)
        begins[i] = begins_drop(t, i);
    series_learn(model->classes, class_of, begins, t->count, &model->series);
    return STATUS_OK;
}

static enum status run(struct training *t, struct work *w, int *class_of, int *fold, struct model *model,
                       struct confusion *confusion, struct err *err) {
    TRY(sort(t, err));
    TRY(find_classes(t, model, class_of, err));
    TRY(deal(t, class_of, t->folds, fold, err));
    TRY(learn_series(t, class_of, model, err));
    features_weights(t->features.groups, w->weights);
    w->options = (struct forest_options){.classes = model->classes,
                                         .features = features_count(t->features.groups),
                                         .trees = t->trees,
                                         .subsample = SUBSAMPLE,
                                         .seed = SEED,
                                         .threads = 1,
                                         .weights = w->weights};
    TRY(mem_new(t->count * (size_t)model->classes, sizeof *w->predicted, "predictions", &w->predicted, err));
    *confusion = (struct confusion){.classes = model->classes};
    memcpy(confusion->outcomes, model->outcomes, sizeof confusion->outcomes);
    TRY(grow_all(w, t->folds, t->threads, err));
    TRY(validate(w, err));
    count_up(w, confusion);
    return STATUS_OK;
}

enum status training_run(struct training *t, struct model *ret_model, struct confusion *ret_confusion,
                         float **ret_predicted, struct err *err) {
    _cleanup_(mem_free) int *class_of = NULL, *fold = NULL;
    FAIL_IF(t->count == 0, err, STATUS_NOT_FOUND,
            "not one labelled image could be read: there is nothing to learn from");
    FAIL_IF(t->folds < 2 || t->folds > FOLDS_MAX, err, STATUS_BAD_ARGUMENT,
            "folds: 2 to %d parts can be held out, not %d", FOLDS_MAX, t->folds);
    TRY(mem_new(t->count, sizeof *class_of, "classes", &class_of, err));
    TRY(mem_new(t->count, sizeof *fold, "parts", &fold, err));
    struct model model = {.features = t->features};
    struct work work = {.training = t, .class_of = class_of, .fold = fold};
    struct confusion confusion;
    enum status status = run(t, &work, class_of, fold, &model, &confusion, err);
    for (int f = status == STATUS_OK ? 1 : 0; f <= t->folds; f++)
        forest_destroy(&work.forests[f]);
    if (status != STATUS_OK) {
        mem_free(&work.predicted);
        return status;
    }
    model.forest = work.forests[0];
    *ret_model = model;
    *ret_confusion = confusion;
    *ret_predicted = work.predicted;
    return STATUS_OK;
}
