#include "stages/lowpass-picker/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/quantile/quantile.h"
#include "stages/lowpass-picker/contaminated.h"
#include "stages/lowpass-picker/faint.h"
#include "stages/lowpass-picker/geometry.h"
#include "stages/lowpass-picker/rough.h"
#include "stages/lowpass-picker/threshold.h"

/* Part of the diameter: touching particles stay two picks, even if the diameter is a third too large, and the side
 * peaks of one particle do not become picks. */
static const double MIN_DISTANCE = 0.7;
/* Templates whose amplitude in the picks is outside this range have another grey scale than normalised particles.
 * Inside it, a circle that is a little too wide, crowding or imperfect templates explain the amplitude. */
static const double SCALE_LEAST = 0.25, SCALE_MOST = 4;
/* If no pick is sure, a particle is assumed to be so many standard deviations of noise, and at least the threshold that
 * no peak reached. */
static const double FAINT = 8;
/* The background is no noise if the quarter of the opposite peaks lies higher than that of noise by this factor. */
static const double BACKGROUND_MOST = 1.5;
/* Fewer peaks tell nothing of their heights. */
enum { PEAKS_MIN = 16 };

void pick_list_destroy(struct pick_list *list) {
    free(list->items);
    *list = (struct pick_list){0};
}

void pick_scratch_destroy(struct pick_scratch *scratch) {
    contamination_destroy(&scratch->contamination);
    free(scratch->bad);
    free(scratch->values);
    peak_list_destroy(&scratch->peaks);
    peak_list_destroy(&scratch->found);
    *scratch = (struct pick_scratch){0};
}

static enum status fit(struct pick_scratch *scratch, size_t pixels, struct err *err) {
    if (pixels <= scratch->pixels) return STATUS_OK;
    mem_free(&scratch->bad);
    mem_free(&scratch->values);
    scratch->pixels = 0;
    TRY(mem_new(pixels, sizeof *scratch->bad, "contamination", &scratch->bad, err));
    TRY(mem_new(pixels, sizeof *scratch->values, "order statistics", &scratch->values, err));
    scratch->pixels = pixels;
    return STATUS_OK;
}

/* The data of one choice. */
struct choice {
    const struct pick_geometry *g;
    const struct search_maps *maps;
    const struct pick_rules *rules;
    struct pick_scratch *scratch;
    double scale;     /* map px per micrograph px */
    double distance;  /* map px */
    double threshold; /* figure of merit, or score in LoG mode; NaN: use the score `automatic` */
    float automatic;
    double templates; /* factor of the templates for figures of merit */
    float noise;      /* standard deviation of the scores of noise */
    struct separation separation;
};

/* Returns the search area: the part of the maps that may hold centres. */
static struct peak_search search_area(const struct choice *c, float threshold) {
    struct pick_area area = geometry_area(c->g);
    bool relion = c->rules->prune == PICK_PRUNE_RELION;
    return (struct peak_search){
        .nx = c->g->work,
        .ny = c->g->work,
        .x0 = area.x0,
        .y0 = area.y0,
        .x1 = area.x1,
        .y1 = area.y1,
        .threshold = threshold,
        .bad = c->scratch->bad,
        .fractional = !relion,
        .all_neighbours = relion && c->scale >= 1,
    };
}

/* Local means and deviations are smooth: this number of samples gives their median and spread. */
enum { SAMPLES = 1 << 16 };

/* Computes median and deviation of the search area, without bad pixels. */
static void robust(const struct choice *c, const float *map, float *ret_median, float *ret_deviation) {
    struct peak_search s = search_area(c, 0);
    size_t count = 0, work = (size_t)c->g->work;
    double area = fmax(s.x1 - s.x0, 0) * fmax(s.y1 - s.y0, 0);
    int step = 1 + (int)sqrt(area / SAMPLES);
    for (int y = s.y0; y < s.y1; y += step)
        for (int x = s.x0; x < s.x1; x += step)
            if (!s.bad[(size_t)y * work + x]) c->scratch->values[count++] = map[(size_t)y * work + x];
    quantile_robust(c->scratch->values, count, ret_median, ret_deviation);
}

/* Returns the standard deviation of the scores of noise. */
static float noise_of(const struct choice *c) {
    float sigma = 1, spread, noise = c->maps->noise;
    if (!c->g->whiten) robust(c, c->maps->sigma, &sigma, &spread);
    return sigma > 0 ? noise / sigma : noise;
}

/* Finds the peaks of a map of scores, noise and particles alike; best first. Suppresses peaks nearer than particles can
 * be, whatever distance the user sets for picks. */
static enum status all_peaks(const struct choice *c, const float *map, struct err *err) {
    struct peak_list *peaks = &c->scratch->peaks;
    struct peak_search area = search_area(c, -INFINITY);
    peaks->count = 0;
    area.fractional = true;
    area.all_neighbours = false;
    TRY(peaks_find(&area, map, NULL, 0, peaks, err));
    TRY(peaks_prune_greedy(peaks, MIN_DISTANCE * c->g->diameter / c->g->pixel_size * c->scale, err));
    size_t pixels = (size_t)c->g->work * c->g->work;
    if (peaks->count > pixels) peaks->count = pixels;
    return STATUS_OK;
}

/* Finds the peaks of what is as unlike particles as particles are unlike noise: the least score of all templates,
 * negated. Noise has as many and as high ones as it has peaks. */
static enum status opposite_peaks(const struct choice *c, struct err *err) {
    const struct search_maps *m = c->maps;
    size_t pixels = (size_t)c->g->work * c->g->work;
    float *opposite = c->scratch->values;
    for (size_t i = 0; i < pixels; i++)
        opposite[i] = -m->scores[i];
    for (int t = 1; t < m->count; t++)
        for (size_t i = 0; i < pixels; i++)
            opposite[i] = fmaxf(opposite[i], -m->scores[t * pixels + i]);
    return all_peaks(c, opposite, err);
}

/* Returns the scores of the peaks, in memory of the scratch. */
static const float *heights(const struct choice *c) {
    for (size_t i = 0; i < c->scratch->peaks.count; i++)
        c->scratch->values[i] = c->scratch->peaks.items[i].merit;
    return c->scratch->values;
}

/* Finds whether the micrograph's background is noise, which the model of its peaks describes, and the factor on their
 * heights. Fringes of particles raise it a little. */
static enum status check_background(const struct choice *c, bool *ret_noise, double *ret_scale, struct err *err) {
    const struct noise_peaks *model = &c->g->peaks;
    const struct peak_list *peaks = &c->scratch->peaks;
    *ret_noise = false;
    if (c->g->method != PICKER_LOG || !noise_peaks_known(model) || c->maps->scores == NULL || !(c->noise > 0))
        return STATUS_OK;
    TRY(opposite_peaks(c, err));
    if (peaks->count < PEAKS_MIN) return STATUS_OK;
    float *values = c->scratch->values;
    for (size_t i = 0; i < peaks->count; i++)
        values[i] = peaks->items[i].merit / c->noise;
    *ret_noise = noise_peaks_share(model, 0, values[peaks->count / 4] / BACKGROUND_MOST) > 0.25;
    *ret_scale = noise_peaks_scale(model, values, peaks->count);
    return STATUS_OK;
}

/* Finds the automatic threshold from the scores of all peaks. */
static enum status automatic_threshold(struct choice *c, struct err *err) {
    bool noise = false;
    double scale = 1;
    c->noise = noise_of(c);
    TRY(check_background(c, &noise, &scale, err));
    TRY(all_peaks(c, c->maps->score, err));
    size_t count = c->scratch->peaks.count;
    const float *scores = heights(c);
    if (c->rules->separate) c->separation = separation_of(scores, count);
    c->automatic = threshold_over_noise(scores, count, c->noise);
    if (count < PEAKS_MIN || !(c->noise > 0)) return STATUS_OK;
    float faint = INFINITY;
    bool known = c->g->method == PICKER_TEMPLATE && noise_peaks_known(&c->g->peaks);
    if (noise)
        c->automatic = faint_threshold(scores, count, c->noise, scale, &c->g->peaks);
    else if (known && faint_threshold_of_templates(scores, count, c->noise, &c->g->peaks, &faint))
        c->automatic = faint;
    else if (c->g->method == PICKER_TEMPLATE && !threshold_is_sure(scores, count, c->noise) &&
             faint_threshold_of_best(scores, count, c->noise, &faint))
        c->automatic = faint;
    return STATUS_OK;
}

/* Makes a choice in which no pixel is bad. */
static enum status choice_in_noise(const struct pick_maps *maps, struct pick_scratch *scratch,
                                   struct choice *ret_choice, struct err *err) {
    static const struct pick_rules rules = {.prune = PICK_PRUNE_GREEDY};
    const struct pick_geometry *g = &maps->geometry;
    size_t pixels = (size_t)g->work * g->work;
    TRY(fit(scratch, pixels, err));
    memset(scratch->bad, 0, pixels);
    *ret_choice = (struct choice){.g = g,
                                  .maps = &maps->maps,
                                  .rules = &rules,
                                  .scratch = scratch,
                                  .scale = (double)g->work / g->size,
                                  .threshold = NAN};
    return STATUS_OK;
}

enum status pick_count_in_noise(const struct pick_maps *maps, float score, struct pick_scratch *scratch,
                                size_t *ret_count, struct err *err) {
    struct choice c;
    TRY(choice_in_noise(maps, scratch, &c, err));
    TRY(all_peaks(&c, maps->maps.score, err));
    size_t count = 0;
    while (count < scratch->peaks.count && scratch->peaks.items[count].merit >= score)
        count++;
    *ret_count = count;
    return STATUS_OK;
}

enum status pick_heights_of_noise(const struct pick_maps *maps, struct pick_scratch *scratch, float *ret_heights,
                                  size_t most, size_t *ret_count, struct err *err) {
    struct choice c;
    TRY(choice_in_noise(maps, scratch, &c, err));
    float noise = noise_of(&c);
    /* The opposite peaks need the maps of each template. */
    int sides = maps->maps.scores ? 2 : 1;
    for (int side = 0; side < sides; side++) {
        TRY(side == 0 ? all_peaks(&c, maps->maps.score, err) : opposite_peaks(&c, err));
        for (size_t i = 0; i < scratch->peaks.count && *ret_count < most; i++)
            ret_heights[(*ret_count)++] = scratch->peaks.items[i].merit / noise;
    }
    return STATUS_OK;
}

/* Returns the score that template t must have: the threshold itself if that is a score, otherwise the score of its
 * figure of merit. */
static float score_needed(const struct choice *c, int t) {
    if (isnan(c->threshold)) return c->automatic;
    if (c->g->method == PICKER_LOG) return (float)c->threshold;
    return (float)merit_to_score(&c->maps->terms[t], c->templates, c->threshold);
}

/* Finds peaks of any template; of close ones the best score stays. */
static enum status find_greedy(const struct choice *c, struct err *err) {
    struct peak_list *peaks = &c->scratch->peaks;
    float least = INFINITY;
    for (int t = 0; t < c->maps->count; t++)
        least = fminf(least, score_needed(c, t));
    struct peak_search area = search_area(c, least);
    area.template = c->maps->best_template;
    peaks->count = 0;
    TRY(peaks_find(&area, c->maps->score, c->maps->best_rotation, 0, peaks, err));
    size_t kept = 0;
    for (size_t i = 0; i < peaks->count; i++) {
        struct peak peak = peaks->items[i];
        if (peak.merit >= score_needed(c, peak.template)) peaks->items[kept++] = peak;
    }
    peaks->count = kept;
    return peaks_prune_greedy(peaks, c->distance, err);
}

/* Finds and prunes the peaks of one template. They compete by figure of merit if the threshold is one. */
static enum status find_in_template(const struct choice *c, int t, double radius, double distance, struct err *err) {
    struct peak_list *found = &c->scratch->found;
    size_t pixels = (size_t)c->g->work * c->g->work;
    struct peak_search area = search_area(c, score_needed(c, t));
    bool merits = !isnan(c->threshold) && c->g->method == PICKER_TEMPLATE;
    found->count = 0;
    TRY(peaks_find(&area, c->maps->scores + t * pixels, c->maps->rotations + t * pixels, t, found, err));
    for (size_t i = 0; i < found->count && merits; i++)
        found->items[i].merit = (float)merit_from_score(&c->maps->terms[t], c->templates, found->items[i].merit);
    return peaks_prune_clusters(found, radius, distance, err);
}

/* Applies RELION's rule, which may drop both of a close pair: prunes the peaks of each template, then those of all
 * templates. */
static enum status find_relion(const struct choice *c, struct err *err) {
    struct peak_list *peaks = &c->scratch->peaks;
    FAIL_IF(c->maps->scores == NULL, err, STATUS_BAD_ARGUMENT, "RELION's pruning needs the maps of each template");
    bool merits = !isnan(c->threshold) && c->g->method == PICKER_TEMPLATE;
    double radius = c->g->radius * c->scale, distance = round(c->distance / c->scale) * c->scale;
    peaks->count = 0;
    for (int t = 0; t < c->maps->count; t++) {
        TRY(find_in_template(c, t, radius, distance, err));
        TRY(peak_list_append(peaks, &c->scratch->found, err));
    }
    TRY(peaks_prune_clusters(peaks, radius, distance, err));
    TRY(peaks_drop_close_pairs(peaks, distance, err));
    for (size_t i = 0; i < peaks->count && merits; i++) {
        struct peak *peak = &peaks->items[i];
        peak->merit = (float)merit_to_score(&c->maps->terms[peak->template], c->templates, peak->merit);
    }
    return STATUS_OK;
}

/* Returns the factor by which the templates match their picks. */
static double amplitude_of_picks(const struct choice *c) {
    const struct peak_list *peaks = &c->scratch->peaks;
    if (peaks->count == 0) {
        double score = fmax(FAINT * c->noise, isfinite(c->automatic) ? c->automatic : 0);
        return score / sqrt(c->maps->terms[0].power);
    }
    /* Peaks are sorted, so this is the median, apart from the order of templates of different power. */
    const struct peak *middle = &peaks->items[peaks->count / 2];
    return middle->merit / sqrt(c->maps->terms[middle->template].power);
}

/* Scales the templates for figures of merit. In a whitened micrograph templates have no grey scale: a figure of merit
 * of 1 is a typical pick of the automatic threshold. Otherwise they keep their own scale, unless it is far from that of
 * their picks. */
static enum status scale_templates(struct choice *c, struct err *err) {
    c->templates = 1;
    if (c->g->method != PICKER_TEMPLATE || (!c->g->whiten && !isnan(c->rules->threshold))) return STATUS_OK;
    TRY(find_greedy(c, err));
    double amplitude = amplitude_of_picks(c);
    bool far = amplitude < SCALE_LEAST || amplitude > SCALE_MOST;
    if (amplitude > 0 && (c->g->whiten || (far && c->scratch->peaks.count > 0))) c->templates = amplitude;
    return STATUS_OK;
}

/* Returns the reported value of a score: the figure of merit; for round shapes the score itself. */
static double reported(const struct choice *c, int template, double score) {
    return c->g->method == PICKER_LOG ? score : merit_from_score(&c->maps->terms[template], c->templates, score);
}

static enum status report(const struct choice *c, struct pick_list *picks, struct err *err) {
    const struct peak_list *peaks = &c->scratch->peaks;
    const struct pick_geometry *g = c->g;
    if (picks->capacity < peaks->count) {
        struct pick *items = realloc(picks->items, 2 * peaks->count * sizeof *items);
        FAIL_IF(items == NULL, err, STATUS_NO_MEMORY, "no memory for %zu picks", peaks->count);
        picks->items = items;
        picks->capacity = 2 * peaks->count;
    }
    bool templates = g->method == PICKER_TEMPLATE;
    picks->count = 0;
    picks->scale = c->templates;
    picks->separation = c->separation;
    picks->sure = isnan(c->threshold) && peaks->count > 0 ? peaks->items[peaks->count / PICK_SURE_PART].merit : 0;
    picks->threshold = !isnan(c->rules->threshold) ? c->rules->threshold
                       : isfinite(c->automatic)    ? reported(c, 0, c->automatic)
                                                   : c->automatic;
    struct pick_area area = geometry_area(g);
    for (size_t i = 0; i < peaks->count; i++) {
        const struct peak *peak = &peaks->items[i];
        picks->items[picks->count++] = (struct pick){
            .x = (float)((peak->x - area.x) / c->scale),
            .y = (float)((peak->y - area.y) / c->scale),
            .merit = (float)reported(c, peak->template, peak->merit),
            .psi = templates ? (float)(peak->rotation * 360.0 / g->rotations) : 0,
            .class_number = templates ? peak->template + 1 : 0,
        };
    }
    return STATUS_OK;
}

enum status pick_choose(const struct pick_maps *maps, const struct pick_rules *rules, struct pick_scratch *scratch,
                        struct pick_list *picks, struct err *err) {
    const struct pick_geometry *g = &maps->geometry;
    double scale = (double)g->work / g->size;
    double distance = isnan(rules->min_distance) ? MIN_DISTANCE * g->diameter : rules->min_distance;
    struct choice c = {.g = g,
                       .maps = &maps->maps,
                       .rules = rules,
                       .scratch = scratch,
                       .scale = scale,
                       .distance = distance / g->pixel_size * scale,
                       .threshold = NAN,
                       .automatic = INFINITY,
                       .templates = 1};
    scratch->peaks.count = 0;
    picks->masked = 0;
    picks->mask = NULL;
    if (!(maps->maps.deviation > 0)) return report(&c, picks, err);
    TRY(fit(scratch, (size_t)g->work * g->work, err));
    TRY(contaminated_mark(maps, rules, scratch, &picks->masked, err));
    picks->mask = scratch->bad;
    if (isnan(rules->threshold) || g->whiten) TRY(automatic_threshold(&c, err));
    TRY(scale_templates(&c, err));
    c.threshold = rules->threshold;
    TRY(rules->prune == PICK_PRUNE_GREEDY ? find_greedy(&c, err) : find_relion(&c, err));
    bool automatic = isnan(rules->threshold) && isnan(rules->max_stddev_noise) && rules->mask_contamination;
    if (automatic && rules->prune == PICK_PRUNE_GREEDY && scratch->peaks.count <= (size_t)g->work * (size_t)g->work)
        rough_drop(&scratch->peaks, maps->maps.sigma, g->work, scratch->values);
    return report(&c, picks, err);
}
