#include "stages/lowpass-picker/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stages/lowpass-picker/noise_twin.h"

/* Part of the particles that new templates must find more, or what they must raise the expected F1 by. Part of the sure
 * picks that they must find again, and how near, in diameters. Measured: templates find again 0.6 to 0.98, ones with
 * random phases 0.07 to 0.32. */
static const double GAIN = 0.05, F1_GAIN = 0.02, AGAIN_LEAST = 0.45, NEAR = 0.15;

/* Density of picks in noise of the same spectrum, in densities of the picks. At the automatic threshold itself, which
 * adapts to crowded micrographs, right templates find up to four fifths in noise, whose spectrum has the particles'
 * power too. At the height of the better quarter they find 0 to 3 %, those of random phases 52 %. */
static const double NOISE_MOST = 0.05, COUNTED = 2;

static void clear_items(struct trial *t) {
    for (int i = 0; i < t->item_count; i++)
        item_destroy(&t->items[i]);
    t->item_count = 0;
}

void trial_clear(struct trial *t) {
    clear_items(t);
    template_set_clear(&t->from);
    picker_set_clear(&t->set);
    picker_input_destroy(&t->input);
    search_maps_clear(&t->maps.maps);
    pick_scratch_destroy(&t->scratch);
    pick_list_destroy(&t->picks);
    pick_list_destroy(&t->now);
    *t = (struct trial){0};
}

void trial_begin(struct trial *t, struct template_set *templates) {
    trial_clear(t);
    t->from = *templates;
    t->set.method = PICKER_TEMPLATE;
    t->set.templates = templates->images;
    t->set.pixel_size = (double)templates->images.pixel_size;
    t->from.images = (struct image){0};
    *templates = (struct template_set){0};
}

struct walk {
    struct trial *trial;
    size_t seen, all; /* micrographs; all 0: count them only */
};

/* Takes every so many a micrograph, so that those taken are spread over all. */
static enum status visit(const struct item *item, void *context, struct err *err) {
    struct walk *w = context;
    struct trial *t = w->trial;
    if (item_string(item, "micrograph.path") == NULL) return STATUS_OK;
    snprintf(t->last_source, sizeof t->last_source, "%s", item_source(item));
    snprintf(t->last_item, sizeof t->last_item, "%s", item_id(item));
    size_t at = w->seen++, most = w->all < TRIAL_MICROGRAPHS ? w->all : TRIAL_MICROGRAPHS;
    if (w->all == 0 || (size_t)t->item_count == most || at < (size_t)t->item_count * w->all / most) return STATUS_OK;
    TRY(item_clone(item, &t->items[t->item_count], err));
    t->item_count++;
    return STATUS_OK;
}

/* Whatever keeps the ledger from being read says nothing about the templates. */
static enum status choose(struct trial *t, struct stage *stage, struct err *err) {
    struct walk w = {.trial = t};
    if (stage_each_done(stage, visit, &w, err) != STATUS_OK) return STATUS_UNAVAILABLE;
    if (w.seen < TRIAL_LEAST) return STATUS_OK;
    w = (struct walk){.trial = t, .all = w.seen};
    if (stage_each_done(stage, visit, &w, err) == STATUS_OK) return STATUS_OK;
    clear_items(t);
    return STATUS_UNAVAILABLE;
}

/* Reads a micrograph that is done. ret_shape: as of the searches. */
static enum status read_item(struct trial *t, struct stage *stage, const struct item *item, int ret_shape[3],
                             struct err *err) {
    const char *path = NULL;
    double pixel_size = 0;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    TRY(picker_input_read(stage, path, true, &t->input, err));
    TRY(picker_pixel_size(stage, item, path, t->input.pixel_size, &pixel_size, err));
    ret_shape[0] = t->input.nx;
    ret_shape[1] = t->input.ny;
    ret_shape[2] = (int)lround(pixel_size * 1e6);
    return STATUS_OK;
}

/* Searches the micrograph that was read. */
static enum status search_with(struct trial *t, struct stage *stage, struct picker_set *set, const struct item *item,
                               const int shape[3], struct pick_list *ret_picks, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct lowpass_picker *picker = NULL;
    struct ctf ctf = {0};
    struct pick_rules rules = p->rules;
    rules.threshold = rules.max_stddev_noise = NAN;
    rules.separate = true;
    bool known = p->ctf && picker_ctf(stage, item, &ctf);
    TRY(picker_set_get(stage, set, shape, &picker, err));
    TRY(lowpass_picker_search(picker, &t->input.search, known ? &ctf : NULL, picker_seed(item), &t->maps, err));
    t->maps.geometry.data = t->input.data;
    return pick_choose(&t->maps, &rules, &t->scratch, ret_picks, err);
}

/* Counts the better half of the picks now, and those of them that the new picks find again. reach: px. */
static void compare(struct trial *t, double reach) {
    size_t half = (t->now.count + 1) / 2;
    t->strong += half;
    for (size_t i = 0; i < half; i++) {
        bool found = false;
        for (size_t j = 0; j < t->picks.count && !found; j++)
            found = hypot((double)t->now.items[i].x - (double)t->picks.items[j].x,
                          (double)t->now.items[i].y - (double)t->picks.items[j].y) < reach;
        t->again += found;
    }
}

/* Adds what picks are worth: no more particles than were picked, and nothing where none were. */
static void add(struct separation *sum, const struct pick_list *picks) {
    if (picks->count == 0) return;
    sum->sure += fmin(picks->separation.sure, (double)picks->count);
    sum->f1 += picks->separation.f1;
}

/* Returns whether a fault is neither of the micrograph nor of the templates, and may pass. */
static bool may_pass(enum status status) {
    return status == STATUS_NO_MEMORY || status == STATUS_UNAVAILABLE || status == STATUS_CANCELLED;
}

/* Returns where centres may lie, µm². */
static double searched_area(const struct pick_geometry *g) {
    struct pick_area a = geometry_area(g);
    double pixel = g->pixel_size * g->size / g->work * 1e-4;
    return fmax(a.x1 - a.x0, 0) * fmax(a.y1 - a.y0, 0) * pixel * pixel;
}

/* Makes noise of the micrograph that was searched last, and searches it with the new templates. */
static enum status search_twin(struct trial *t, struct stage *stage, const struct item *item, const int shape[3],
                               struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct lowpass_picker *picker = NULL;
    struct image *m = &t->input.image;
    struct ctf ctf = {0};
    bool known = p->ctf && picker_ctf(stage, item, &ctf);
    size_t found = 0;
    TRY(noise_twin(m->data, m->nx, m->ny, picker_seed(item), err));
    TRY(picker_input_again(stage, &t->input, err));
    TRY(picker_set_get(stage, &t->set, shape, &picker, err));
    TRY(lowpass_picker_search(picker, &t->input.search, known ? &ctf : NULL, picker_seed(item), &t->maps, err));
    TRY(pick_count_in_noise(&t->maps, t->picks.sure, &t->scratch, &found, err));
    double area = searched_area(&t->maps.geometry), clean = area * (1 - t->picks.masked);
    if (!(clean > 0)) return STATUS_OK;
    double sure = (double)(t->picks.count / PICK_SURE_PART + 1);
    t->sure += sure;
    t->found += (double)found * clean / area;
    t->density.data += sure / clean;
    t->density.noise += (double)found / area;
    t->twins++;
    return STATUS_OK;
}

static enum status try_one(struct trial *t, struct stage *stage, struct picker_set *now, const struct item *item,
                           struct err *err) {
    int shape[3] = {0};
    enum status status = read_item(t, stage, item, shape, err);
    if (status == STATUS_OK) status = search_with(t, stage, now, item, shape, &t->now, err);
    /* A micrograph that cannot be searched as it is now says nothing about the templates. */
    if (status != STATUS_OK) return status == STATUS_DEVICE || may_pass(status) ? status : STATUS_OK;
    double diameter = t->maps.geometry.diameter / t->maps.geometry.pixel_size;
    TRY(search_with(t, stage, &t->set, item, shape, &t->picks, err));
    if (t->twins < TRIAL_TWINS && t->picks.count > 0) TRY(search_twin(t, stage, item, shape, err));
    compare(t, NEAR * diameter);
    add(&t->before, &t->now);
    add(&t->after, &t->picks);
    t->tried++;
    return STATUS_OK;
}

enum status trial_step(struct trial *t, struct stage *stage, struct picker_set *now, bool *ret_more, struct err *err) {
    *ret_more = false;
    if (t->item_count == 0) TRY(choose(t, stage, err));
    if (t->next == t->item_count) return STATUS_OK;
    TRY(try_one(t, stage, now, t->items[t->next], err));
    t->next++;
    *ret_more = t->next < t->item_count;
    return STATUS_OK;
}

double trial_again(const struct trial *t) {
    return t->strong > 0 ? (double)t->again / (double)t->strong : 0;
}

bool trial_beats_noise(const struct trial *t) {
    /* Small micrographs have few picks: one of noise is chance. */
    double least = t->found - COUNTED * sqrt(t->found);
    return t->twins > 0 && least < NOISE_MOST * t->sure;
}

bool trial_won(const struct trial *t) {
    bool more = t->after.sure >= (1 + GAIN) * t->before.sure && t->after.f1 > t->before.f1;
    bool purer = t->after.sure >= t->before.sure && t->after.f1 >= t->before.f1 + F1_GAIN * t->tried;
    return t->tried >= TRIAL_LEAST && t->after.sure >= t->tried && (more || purer) && trial_again(t) >= AGAIN_LEAST &&
           trial_beats_noise(t);
}
