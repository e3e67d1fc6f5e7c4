/* Judges the maps of classes: how probable held-out particles are with them, and whether two starts have the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/map_align/map_align.h"
#include "stages/refiner/hand.h"
#include "stages/refiner/initial/several_private.h"

static const double LEAST_SHARE = 0.01; /* of a class that has not lost its particles */

const char *several_test_name(enum several_test test) {
    static const char *const names[] = {"", "empty", "agreement", "alike", "likelihood", "rivals"};
    return names[test];
}

const float *several_class_map(const struct several *s, int start, int class) {
    return starts_state(s->starts, start).map + (size_t) class * s->voxels;
}

void several_refuse(struct several *s, enum several_test test) {
    if (s->decision.failed == SEVERAL_ACCEPTED) s->decision.failed = test;
}

bool several_has_empty(const struct several *s, int start) {
    const double *shares = starts_state(s->starts, start).shares;
    for (int k = 0; k < s->classes; k++)
        if (shares[k] < LEAST_SHARE) return true;
    return false;
}

/* Finds how probable held-out particles are with classes together, `other` in place of the evidence of class k (−1: of
 * none). */
static void put_together(const struct several *s, int start, int k, const double *other, double *ret_together) {
    const struct family *f = &s->families[start];
    const double *shares = starts_state(s->starts, start).shares;
    for (int i = 0; i < s->held; i++) {
        double logs[SEVERAL_MOST], most = -INFINITY, sum = 0;
        for (int c = 0; c < s->classes; c++) {
            logs[c] = log(fmax(shares[c], LEAST_SHARE)) + (c == k ? other[i] : f->evidence[c][i]);
            most = fmax(most, logs[c]);
        }
        for (int c = 0; c < s->classes; c++)
            sum += exp(logs[c] - most);
        ret_together[i] = most + log(sum);
    }
}

/* Finds the mean of the differences of two, and its standard error. */
void several_mean_of(const double *more, const double *less, int count, double *ret_mean, double *ret_deviation) {
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += more[i] - less[i];
    const double mean = sum / count;
    for (int i = 0; i < count; i++)
        squares += (more[i] - less[i] - mean) * (more[i] - less[i] - mean);
    *ret_mean = mean;
    *ret_deviation = sqrt(squares / fmax(count - 1, 1) / count);
}

/* Finds the evidence of the classes of a start. */
enum status several_judge(struct several *s, int start, int order, struct err *err) {
    struct family *f = &s->families[start];
    const double *shares = starts_state(s->starts, start).shares;
    struct starts_judgement maps[SEVERAL_MOST];
    int count = 0;
    for (int k = 0; k < s->classes; k++)
        if (shares[k] >= LEAST_SHARE)
            maps[count++] = (struct starts_judgement){several_class_map(s, start, k), INITIAL_HELD_OUT, f->evidence[k]};
        else /* as an empty map, which would take long: it fits alike in all poses */
            memset(f->evidence[k], 0, (size_t)s->held * sizeof *f->evidence[k]);
    TRY(starts_judge(s->starts, maps, count, order, s->options.fine, err));
    put_together(s, start, -1, NULL, f->together);
    f->mean = 0;
    for (int i = 0; i < s->held; i++)
        f->mean += f->together[i] / s->held;
    return STATUS_OK;
}

/* Pairs the classes of two families, those that are most alike first. Returns whether all pairs are the same map. */
static bool pair_up(const struct several *s, int *ret_match) {
    bool taken[2][SEVERAL_MOST] = {{false}}, same = true;
    for (int n = 0; n < s->classes; n++) {
        int best = -1;
        for (int i = 0; i < s->classes * s->classes; i++)
            if (!taken[0][i / s->classes] && !taken[1][i % s->classes] &&
                (best < 0 || s->found[i].mean > s->found[best].mean))
                best = i;
        taken[0][best / s->classes] = taken[1][best % s->classes] = true;
        ret_match[best / s->classes] = best % s->classes;
        same = same && likeness_is_same(&s->found[best]);
    }
    return same;
}

/* Compares a pair of classes of a family and of s->other. *ret_last: it was the last pair. */
enum status several_compare_pair(struct several *s, int fixed, bool *ret_last, struct err *err) {
    const float *map = several_class_map(s, fixed, s->step / s->classes);
    struct family *f = &s->families[s->other];
    TRY(likeness_find(s->likeness, map, several_class_map(s, s->other, s->step % s->classes), &s->found[s->step], err));
    *ret_last = ++s->step == s->classes * s->classes;
    if (!*ret_last) return STATUS_OK;
    s->step = 0;
    f->compared = true;
    f->same = pair_up(s, f->match);
    return STATUS_OK;
}

static enum status judge_map(struct several *s, const float *map, double *ret_evidence, struct err *err) {
    const struct starts_judgement judgement = {map, INITIAL_HELD_OUT, ret_evidence};
    return starts_judge(s->starts, &judgement, 1, s->options.order, s->options.fine, err);
}

/* Finds how much more probable held-out particles are with a class than with its opposite in its place. */
static enum status judge_class(struct several *s, int start, int k, struct err *err) {
    struct family *f = &s->families[start];
    const float *map = several_class_map(s, start, k);
    if (starts_state(s->starts, start).shares[k] < LEAST_SHARE) return STATUS_OK; /* no gain */
    memcpy(s->map, map, s->voxels * sizeof *map);
    TRY(map_align_without_radial(s->options.images->box, s->map, err));
    for (size_t i = 0; i < s->voxels; i++)
        s->map[i] = map[i] - 2 * s->map[i];
    TRY(judge_map(s, s->map, s->opposite, err));
    put_together(s, start, k, s->opposite, s->scratch);
    several_mean_of(f->together, s->scratch, s->held, &f->gain[k], &f->deviation[k]);
    return STATUS_OK;
}

/* Orders the classes of the best family by their shares. */
static void sort_classes(struct several *s) {
    const double *shares = starts_state(s->starts, s->first).shares;
    for (int k = 0; k < s->classes; k++) {
        int n = k;
        for (; n > 0 && shares[s->order[n - 1]] < shares[k]; n--)
            s->order[n] = s->order[n - 1];
        s->order[n] = k;
    }
}

/* Judges the best maps of a half: each against its opposite, and together against the one map. */
enum status several_judge_half(struct several *s, struct err *err) {
    struct several_decision *d = &s->decision;
    const int half = s->start, start = d->best[half];
    if (s->step < s->classes) {
        TRY(judge_class(s, start, s->step, err));
    } else {
        TRY(judge_map(s, s->options.one[half], s->one, err));
        several_mean_of(s->families[start].together, s->one, s->held, &d->gains[half], &d->deviations[half]);
    }
    if (++s->step <= s->classes) return STATUS_OK;
    s->step = 0;
    if (++s->start < SEVERAL_SIDES) return STATUS_OK;
    sort_classes(s);
    s->phase = AGREE;
    return STATUS_OK;
}

/* Tests whether each half has found the same maps, and the likelihoods. */
enum status several_agree(struct several *s, struct err *err) {
    struct several_decision *d = &s->decision;
    const struct family *f = &s->families[s->first], *o = &s->families[s->other];
    bool last;
    TRY(several_compare_pair(s, s->first, &last, err));
    if (!last) return STATUS_OK;
    if (several_has_empty(s, s->first) || several_has_empty(s, s->other)) several_refuse(s, SEVERAL_EMPTY);
    for (int half = 0; half < SEVERAL_SIDES; half++)
        if (!(d->gains[half] > SEVERAL_SURE * d->deviations[half])) several_refuse(s, SEVERAL_LIKELIHOOD);
    for (int n = 0; n < s->classes; n++) {
        const int k = s->order[n], m = o->match[k];
        const struct likeness_found *found = &s->found[k * s->classes + m];
        const bool less = f->gain[k] * o->deviation[m] > o->gain[m] * f->deviation[k];
        d->maps[n] = (struct several_class){.share = starts_state(s->starts, s->first).shares[k],
                                            .mean = found->mean,
                                            .least = found->least,
                                            .agreement = found->agreement,
                                            .gain = less ? o->gain[m] : f->gain[k],
                                            .deviation = less ? o->deviation[m] : f->deviation[k]};
        if (!(d->maps[n].gain > SEVERAL_SURE * d->maps[n].deviation)) several_refuse(s, SEVERAL_LIKELIHOOD);
    }
    if (!o->same) several_refuse(s, SEVERAL_AGREEMENT);
    s->start = 1;
    s->phase = TELL_APART;
    return STATUS_OK;
}

/* Tests whether a class is another map than each of those before it. */
enum status several_tell_apart(struct several *s, struct err *err) {
    struct several_decision *d = &s->decision;
    struct likeness_found found;
    TRY(likeness_find(s->likeness, several_class_map(s, s->first, s->order[s->step]),
                      several_class_map(s, s->first, s->order[s->start]), &found, err));
    d->alike = isfinite(d->alike) ? fmax(d->alike, found.mean) : found.mean;
    if (likeness_is_same(&found)) several_refuse(s, SEVERAL_ALIKE);
    if (++s->step < s->start) return STATUS_OK;
    s->step = 0;
    if (++s->start < s->classes) return STATUS_OK;
    s->start = 0;
    if (d->rival < SEVERAL_SURE) several_refuse(s, SEVERAL_RIVALS);
    s->phase = TAKE;
    return STATUS_OK;
}

/* Takes the map of a class, in the hand of the one map. */
enum status several_take(struct several *s, struct err *err) {
    struct likeness_found found;
    float *own = s->maps + (size_t)s->start * s->voxels;
    memcpy(own, several_class_map(s, s->first, s->order[s->start]), s->voxels * sizeof *own);
    TRY(likeness_find(s->likeness, s->options.one[s->families[s->first].half], own, &found, err));
    if (found.inverted) hand_invert_map(s->options.images->box, s->options.starts.threads, own);
    if (++s->start == s->classes) s->phase = COMPLETE;
    return STATUS_OK;
}

/* Says in words what was found. */
void several_describe(struct several *s) {
    struct several_decision *d = &s->decision;
    const int k = s->classes;
    double least = 1;
    for (int i = 0; i < k; i++)
        least = fmin(least, d->maps[i].mean);
    switch (d->failed) {
    case SEVERAL_EMPTY:
        snprintf(d->text, sizeof d->text,
                 "one of %d maps loses its particles to the others, which explain them as well", k);
        break;
    case SEVERAL_ACCEPTED:
        snprintf(
            d->text, sizeof d->text,
            "independent halves make the same %d maps: mean FSC %.2f and better up to %.1f Å; the two that are most "
            "alike have %.2f",
            k, least, s->options.wanted, d->alike);
        break;
    case SEVERAL_AGREEMENT:
        snprintf(d->text, sizeof d->text,
                 "independent halves do not make the same %d maps: the FSC of one is %.2f on average up to %.1f Å", k,
                 least, s->options.wanted);
        break;
    case SEVERAL_ALIKE:
        snprintf(d->text, sizeof d->text, "two of %d maps are the same: their FSC is %.2f on average up to %.1f Å", k,
                 d->alike, s->options.wanted);
        break;
    case SEVERAL_LIKELIHOOD:
        snprintf(d->text, sizeof d->text,
                 "%d maps explain particles that were held out no better than one (%.2f ± %.2f and %.2f ± %.2f), or no "
                 "better than with one of the %d replaced by its opposite",
                 k, d->gains[0], d->deviations[0], d->gains[1], d->deviations[1], k);
        break;
    case SEVERAL_RIVALS:
        snprintf(d->text, sizeof d->text,
                 "different sets of %d maps explain the particles alike: another one is %s by %.1f standard errors", k,
                 d->rival < 0 ? "better" : "worse", fabs(d->rival));
        break;
    }
}
