#include "stages/refiner/initial/attempts.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/files/history.h"
#include "stages/refiner/initial/again.h"
#include "stages/refiner/initial/several.h"
#include "stages/refiner/initial/write.h"
#include "stages/refiner/refiner.h"

enum { DECISION_BYTES = 65536 };

/* Returns where the value of a key stands; NULL: there is none. */
static const char *value_of(const char *text, const char *key) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *at = strstr(text, pattern);
    return at != NULL ? at + strlen(pattern) : NULL;
}

/* Returns the number of a key, or NaN. */
static double number_of(const char *text, const char *key) {
    const char *at = value_of(text, key);
    return at != NULL ? strtod(at, NULL) : NAN;
}

/* Files of older versions do not tell how the attempts stand: then there was one. */
static void read_standing(const char *text, double present, int classes, struct attempts *attempts) {
    const double tried = number_of(text, "tried"), count = number_of(text, "attempts"),
                 made_by = number_of(text, "attempt");
    const char *confirmed = value_of(text, "confirmed");
    attempts->tried = (size_t)(tried >= present && tried < 1e15 ? tried : present);
    attempts->count = count >= 1 && count < 1e6 ? (int)count : 1;
    attempts->made_by = made_by >= 1 && made_by <= attempts->count ? (int)made_by : 1;
    const double marked = number_of(text, "junk");
    attempts->marked = marked >= 0 && marked < 1e9 ? (int)marked : -1;
    const char *own = value_of(text, "own");
    attempts->own = own != NULL && strncmp(own, "true", 4) == 0 && number_of(text, "count") == classes;
    attempts->shared = own != NULL && !attempts->own;
    attempts->unconfirmed = confirmed == NULL || strncmp(confirmed, "true", 4) != 0;
    const char *last = value_of(text, "last");
    if (last != NULL && *last == '"')
        snprintf(attempts->later, sizeof attempts->later, "%.*s", (int)strcspn(last + 1, "\""), last + 1);
}

/* Reads what an earlier run decided, with the same diameter and point group. *ret_accepted: false if there is
 * nothing. */
static enum status read_decision(struct stage *stage, struct attempts *attempts, bool *ret_accepted,
                                 double *ret_lowpass, struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    *ret_accepted = false;
    TRY(path_join(stage_folder(stage), INITIAL_DECISION, path, sizeof path, err));
    if (!file_exists(path)) return STATUS_OK;
    TRY(file_read_whole(path, DECISION_BYTES, &text, &length, err));
    const char *symmetry = value_of(text, "symmetry"), *accepted = value_of(text, "accepted"),
               *found = value_of(text, "text");
    const double lowpass = number_of(text, "lowpass"), present = number_of(text, "present");
    const size_t name = strlen(p->symmetry);
    if (symmetry == NULL || accepted == NULL || found == NULL || !(lowpass > 0) || !(present >= 0) ||
        !(fabs(number_of(text, "diameter") - p->diameter) < 0.01) ||
        strncasecmp(symmetry + 1, p->symmetry, name) != 0 || symmetry[name + 1] != '"')
        return STATUS_OK;
    *ret_accepted = strncmp(accepted, "true", 4) == 0;
    *ret_lowpass = lowpass;
    read_standing(text, present, p->classes, attempts);
    if (*ret_accepted) return STATUS_OK;
    snprintf(attempts->text, sizeof attempts->text, "%.*s", (int)strcspn(found + 1, "\""), found + 1);
    stage_note(stage, "no first map yet");
    return STATUS_OK;
}

/* Gives the refiner the first map, or those of the classes. */
static enum status give(struct stage *stage, struct refiner *refiner, const struct attempts *attempts, double lowpass,
                        struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(stage_folder(stage), attempts->own ? INITIAL_CLASSES : INITIAL_MAP, path, sizeof path, err));
    return refiner_give_reference(refiner, path, lowpass, err);
}

enum status attempts_init(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    char path[PATH_SIZE];
    bool accepted;
    double lowpass = p->initial_lowpass;
    attempts->marked = -1;
    if (p->reference != NULL) return STATUS_OK;
    attempts->on_device = stage_device(stage)->kind != DEVICE_CPU;
    TRY(path_join(stage_folder(stage), INITIAL_MAP, path, sizeof path, err));
    TRY(read_decision(stage, attempts, &accepted, &lowpass, err));
    attempts->mapped = accepted && file_exists(path);
    TRY(path_join(stage_folder(stage), INITIAL_CLASSES, path, sizeof path, err));
    attempts->own = attempts->own && attempts->mapped && file_exists(path);
    attempts->unconfirmed = attempts->unconfirmed && attempts->mapped;
    /* A refinement that has begun had its reference, and can do without the file. */
    if (attempts->mapped || refiner_last(stage_folder(stage), INT_MAX) > 0)
        return give(stage, refiner, attempts, lowpass, err);
    attempts->wanted = true;
    return STATUS_OK;
}

/* Gives the attempt that runs up, or ends it. */
static void leave(struct attempts *attempts) {
    initial_destroy(&attempts->running);
}

void attempts_destroy(struct attempts *attempts) {
    leave(attempts);
    junk_destroy(&attempts->junk);
}

static struct initial_standing standing_of(const struct attempts *attempts) {
    return (struct initial_standing){.attempt = attempts->wanted ? attempts->count : attempts->made_by,
                                     .attempts = attempts->count,
                                     .tried = attempts->tried,
                                     .confirmed = !attempts->wanted && !attempts->unconfirmed,
                                     .junk = attempts->marked,
                                     .last = *attempts->later != 0 ? attempts->later : NULL};
}

/* Counts the attempt that runs, which is complete. */
static void count(struct attempts *attempts) {
    attempts->tried = initial_decision(attempts->running)->present;
    attempts->count++;
}

/* Returns whether the classes have maps of their own: they begin with these, and no attempt follows. */
static bool has_own_maps(const struct initial *attempt) {
    const struct several_decision *classes = initial_classes(attempt);
    return classes != NULL && classes->failed == SEVERAL_ACCEPTED;
}

static void tell_of_classes(struct stage *stage, const struct attempts *attempts) {
    const struct several_decision *classes = initial_classes(attempts->running);
    const int wanted = ((const struct refiner_options *)stage_params(stage))->classes;
    if (classes == NULL && wanted > SEVERAL_MOST)
        stage_log(stage, LOG_INFO, "refine-first-classes",
                  "%d classes all begin with the one map: at most %d have first maps of their own", wanted,
                  SEVERAL_MOST);
    else if (classes == NULL && wanted > 1)
        stage_log(
            stage, LOG_INFO, "refine-first-classes",
            "%d classes all begin with the one map: there is no memory for first maps of their own; raise `memory`",
            wanted);
    if (classes == NULL) return;
    if (attempts->own)
        stage_log(stage, LOG_INFO, "refine-first-classes", "each class has a first map of its own: %s", classes->text);
    else
        stage_log(stage, LOG_INFO, "refine-first-classes",
                  "the classes have no first maps of their own, and all begin with the one (%s): %s",
                  several_test_name(classes->failed), classes->text);
}

static enum status conclude_first(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                                  struct err *err) {
    const struct initial_decision d = *initial_decision(attempts->running);
    const bool accepted = d.failed == INITIAL_ACCEPTED;
    enum status status;
    count(attempts);
    attempts->wanted = !accepted;
    attempts->own = has_own_maps(attempts->running);
    attempts->shared = accepted && !attempts->own && initial_classes(attempts->running) != NULL;
    attempts->unconfirmed = accepted && !attempts->own;
    attempts->made_by = attempts->count;
    const struct initial_standing standing = standing_of(attempts);
    STAGE_PERSIST(stage, status, err, initial_write(attempts->running, NULL, &standing, stage_folder(stage), err));
    if (status == STATUS_OK && accepted) status = give(stage, refiner, attempts, d.lowpass, err);
    if (status != STATUS_OK) { /* as if it had not been made */
        attempts->wanted = true;
        attempts->unconfirmed = attempts->own = attempts->shared = false;
        attempts->tried = 0;
        attempts->count--;
    }
    TRY(status);
    memcpy(attempts->text, d.text, sizeof attempts->text);
    if (accepted) {
        stage_log(stage, LOG_INFO, "refine-first-map", "first map: %s", d.text);
        tell_of_classes(stage, attempts);
        leave(attempts);
        attempts->mapped = true;
        return STATUS_OK;
    }
    leave(attempts);
    stage_note(stage, "no first map yet (%s)", initial_test_name(d.failed));
    if (!attempts->last)
        stage_log(stage, LOG_WARN, "refine-no-model",
                  "no first map yet (%s): %s. The next attempt is made when there are twice as many, or at the end",
                  initial_test_name(d.failed), d.text);
    return STATUS_OK;
}

/* Says in words what an attempt that was made again has found. */
static void describe(const struct initial_decision *d, const struct again *found, char *text, size_t size) {
    if (d->failed != INITIAL_ACCEPTED)
        snprintf(text, size, "the attempt with %zu particles finds no map (%s): %s", d->present,
                 initial_test_name(d->failed), d->text);
    else if (found->same)
        snprintf(text, size, "an attempt with %zu particles makes the same map: mean FSC %.2f with it up to %.1f Å",
                 d->present, found->mean, d->wanted);
    else
        snprintf(
            text, size,
            "the attempt with %zu particles makes another map (mean FSC %.2f up to %.1f Å), to which particles that "
            "were held out fit %s by %.1f standard errors",
            d->present, found->mean, d->wanted, found->gain >= 0 ? "better" : "worse", fabs(found->gain));
}

static enum status write_standing(struct stage *stage, const struct attempts *attempts, struct err *err) {
    const struct initial_standing standing = standing_of(attempts);
    enum status status;
    STAGE_PERSIST(stage, status, err, initial_write_standing(&standing, stage_folder(stage), err));
    return status;
}

/* Puts back how the attempts stood, as if the one that runs had not been made: it is due again. */
static void uncount(struct attempts *attempts, const struct attempts *before) {
    attempts->count = before->count;
    attempts->made_by = before->made_by;
    attempts->tried = before->tried;
    attempts->unconfirmed = before->unconfirmed;
    attempts->marked = before->marked;
}

/* Leaves the map as it is. */
static enum status keep_map(struct stage *stage, struct attempts *attempts, bool confirmed, struct err *err) {
    const struct attempts before = *attempts;
    count(attempts);
    attempts->unconfirmed = !confirmed;
    const enum status status = write_standing(stage, attempts, err);
    if (status != STATUS_OK) uncount(attempts, &before);
    TRY(status);
    stage_log(stage, LOG_INFO, "refine-first-map", "first map %s: %s",
              confirmed ? "confirmed" : "kept, not confirmed yet", attempts->later);
    leave(attempts);
    return STATUS_OK;
}

/* Writes what replaces the map. map: of the attempt, turned onto the one that it replaces. */
static enum status write_replaced(struct stage *stage, struct refiner *refiner, const struct attempts *attempts,
                                  int replaced, const float *map, double gain, struct err *err) {
    const struct initial_standing standing = standing_of(attempts);
    const size_t present = initial_decision(attempts->running)->present;
    enum status status;
    STAGE_PERSIST(stage, status, err, refiner_forget(refiner, stage_folder(stage), err));
    if (status == STATUS_OK)
        STAGE_PERSIST(stage, status, err, initial_write(attempts->running, map, &standing, stage_folder(stage), err));
    if (status == STATUS_OK)
        STAGE_PERSIST(stage, status, err,
                      history_write_first_map(stage_folder(stage), attempts->count, replaced, present, gain, err));
    return status;
}

static enum status replace_map(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                               const float *map, double gain, struct err *err) {
    const struct attempts before = *attempts;
    const double lowpass = initial_decision(attempts->running)->lowpass;
    char path[PATH_SIZE];
    TRY(path_join(stage_folder(stage), INITIAL_MAP, path, sizeof path, err));
    count(attempts);
    attempts->made_by = attempts->count;
    attempts->own = false;
    attempts->marked = -1;
    junk_destroy(&attempts->junk);
    const enum status status = write_replaced(stage, refiner, attempts, before.made_by, map, gain, err);
    if (status != STATUS_OK) uncount(attempts, &before);
    TRY(status);
    TRY(refiner_begin_anew(refiner, path, lowpass, err));
    stage_note(stage, "first map replaced, begins again");
    stage_log(stage, LOG_WARN, "refine-first-map-replaced", "first map replaced, the refinement begins again: %s",
              attempts->later);
    leave(attempts);
    return STATUS_OK;
}

static enum status conclude_again(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                                  bool *ret_replaced, struct err *err) {
    const struct initial_decision *d = initial_decision(attempts->running);
    struct again found = {.gain = NAN};
    char path[PATH_SIZE];
    _cleanup_(mem_free) float *turned = NULL;
    TRY(path_join(stage_folder(stage), INITIAL_MAP, path, sizeof path, err));
    if (d->failed == INITIAL_ACCEPTED) TRY(again_compare(attempts->running, path, &turned, &found, err));
    describe(d, &found, attempts->later, sizeof attempts->later);
    *ret_replaced = found.better;
    if (!found.better) return keep_map(stage, attempts, found.same, err);
    return replace_map(stage, refiner, attempts, turned, found.gain, err);
}

static enum status mark_some(struct stage *stage, struct refiner *refiner, struct attempts *attempts, int threads,
                             struct err *err) {
    size_t compared;
    stage_doing(stage, "comparing particles with the first map");
    attempts->marking = true;
    TRY(junk_work(&attempts->junk, refiner, threads, err));
    if (attempts->junk.starts != NULL || junk_is_left(refiner, false)) return STATUS_OK;
    attempts->marking = false;
    attempts->marked = (int)junk_count(refiner, &compared);
    TRY(write_standing(stage, attempts, err));
    stage_log(stage, LOG_INFO, "refine-junk",
              "%d of %zu particles do not show the first map: icestreamJunk is 1 in the tables of the particles",
              attempts->marked, compared);
    return STATUS_OK;
}

/* Does a part of what marks particles, until none is left. The marks are an extra: a refinement does without them,
 * where there is no memory for the comparison, say. */
static void mark(struct stage *stage, struct refiner *refiner, struct attempts *attempts, int threads) {
    struct err err = {0};
    if (mark_some(stage, refiner, attempts, threads, &err) == STATUS_OK) return;
    stage_log(stage, LOG_WARN, "refine-junk-unknown",
              "particles cannot be compared with the first map, and get no more marks in this run: %s", err.message);
    junk_destroy(&attempts->junk);
    attempts->marking = false;
    attempts->unmarked = true;
}

/* Returns whether particles are to be marked. some: only if it is worthwhile. */
static bool may_mark(const struct refiner *refiner, const struct attempts *attempts, bool some) {
    if (!attempts->mapped || attempts->unmarked) return false;
    return attempts->junk.starts != NULL || attempts->marking || junk_is_left(refiner, some);
}

enum status attempts_mark_rest(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                               struct err *err) {
    while (may_mark(refiner, attempts, false)) {
        FAIL_IF(stage_stopping(stage), err, STATUS_CANCELLED, "stopped while particles were marked");
        mark(stage, refiner, attempts, stage_flush_threads(stage));
    }
    return STATUS_OK;
}

static enum status begin(struct refiner *refiner, int threads, struct attempts *attempts, struct err *err) {
    TRY(refiner_look(refiner, err));
    attempts->gathered = false;
    return initial_create(refiner, threads, &attempts->running, err);
}

static enum status make(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_replaced,
                        struct err *err) {
    bool complete;
    stage_doing(stage, "making a first map%s: %.0f %%", attempts->wanted ? "" : " again",
                100 * initial_progress(attempts->running));
    TRY(initial_work(attempts->running, &complete, err));
    attempts->gathered = true;
    if (!complete) return STATUS_OK;
    return attempts->wanted ? conclude_first(stage, refiner, attempts, err)
                            : conclude_again(stage, refiner, attempts, ret_replaced, err);
}

/* Does a part of the attempt that runs. */
static enum status work(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_replaced,
                        struct err *err) {
    enum status status = make(stage, refiner, attempts, ret_replaced, err);
    /* Without memory, or images, an attempt is made anew when there is some again. */
    if (status != STATUS_OK) leave(attempts);
    return status;
}

bool attempts_hold(const struct attempts *attempts) {
    if (attempts->on_device) return attempts->running != NULL || attempts->junk.starts != NULL;
    return attempts->running != NULL && (attempts->wanted || !attempts->gathered);
}

static enum status begin_if_due(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                                bool *ret_worked, struct err *err) {
    *ret_worked = initial_is_due(initial_present(refiner), attempts->tried, refiner_operators(refiner));
    return *ret_worked ? begin(refiner, stage_threads(stage), attempts, err) : STATUS_OK;
}

enum status attempts_work(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_worked,
                          struct err *err) {
    bool replaced;
    *ret_worked = true;
    if (attempts->running != NULL) return work(stage, refiner, attempts, &replaced, err);
    return begin_if_due(stage, refiner, attempts, ret_worked, err);
}

bool attempts_go_on(const struct attempts *attempts) {
    return attempts->mapped;
}

/* A refinement does without a map that is made again, where there is no memory for it, and goes on with the one it has. */
static enum status do_without(struct stage *stage, struct attempts *attempts, enum status status, const struct err *own,
                              struct err *err) {
    if (status == STATUS_NO_MEMORY && !attempts->wanted) {
        attempts->unrepeated = true;
        stage_log(stage, LOG_WARN, "refine-first-map-kept", "the first map is not made again in this run: %s",
                  own->message);
        return STATUS_OK;
    }
    if (status != STATUS_OK && err != NULL) *err = *own;
    return status;
}

enum status attempts_again(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_worked,
                           bool *ret_replaced, struct err *err) {
    *ret_worked = *ret_replaced = false;
    if (!attempts->mapped) return STATUS_OK;
    if (attempts->running == NULL && may_mark(refiner, attempts, true)) {
        *ret_worked = true;
        mark(stage, refiner, attempts, stage_threads(stage));
        return STATUS_OK;
    }
    const double begun = clock_monotonic();
    struct err own = {0};
    enum status status = STATUS_OK;
    if (attempts->running == NULL && attempts->unconfirmed && !attempts->unrepeated)
        status = begin_if_due(stage, refiner, attempts, ret_worked, &own);
    if (status == STATUS_OK && attempts->running == NULL) return STATUS_OK;
    *ret_worked = true;
    if (status == STATUS_OK) status = work(stage, refiner, attempts, ret_replaced, &own);
    attempts->worked += clock_monotonic() - begun;
    return do_without(stage, attempts, status, &own, err);
}

static bool is_due(const struct refiner *refiner, const struct attempts *attempts) {
    return attempts->unconfirmed && !attempts->unrepeated &&
           initial_is_due(initial_present(refiner), attempts->tried, refiner_operators(refiner));
}

bool attempts_turn(const struct attempts *attempts, const struct refiner *refiner, double iteration) {
    if (!attempts->mapped || attempts->worked >= iteration) return false;
    return attempts->running != NULL || is_due(refiner, attempts);
}

void attempts_pass_turn(struct attempts *attempts) {
    attempts->worked = 0;
}

const char *attempts_remark(const struct attempts *attempts) {
    if (attempts->own) return ", each class begun with a first map of its own";
    if (attempts->shared)
        return attempts->unconfirmed ? ", all classes begun with one first map, not confirmed yet"
                                     : ", all classes begun with one first map";
    return attempts->unconfirmed ? ", first map not confirmed yet" : "";
}

enum status attempts_finish(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_replaced,
                            struct err *err) {
    struct err own = {0};
    *ret_replaced = false;
    while (attempts->running != NULL) {
        FAIL_IF(stage_stopping(stage), err, STATUS_CANCELLED, "stopped while the first map was being made");
        TRY(do_without(stage, attempts, work(stage, refiner, attempts, ret_replaced, &own), &own, err));
    }
    return STATUS_OK;
}

enum status attempts_again_at_end(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                                  bool *ret_replaced, struct err *err) {
    struct err own = {0};
    *ret_replaced = false;
    if (!attempts->mapped || !is_due(refiner, attempts)) return STATUS_OK;
    TRY(do_without(stage, attempts, begin(refiner, stage_flush_threads(stage), attempts, &own), &own, err));
    return attempts_finish(stage, refiner, attempts, ret_replaced, err);
}

enum status attempts_last(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err) {
    static const char *const files[] = {INITIAL_DECISION, NULL};
    const size_t particles = initial_present(refiner);
    bool replaced;
    attempts->last = true;
    if (attempts->wanted && particles != attempts->tried) {
        TRY(begin(refiner, stage_flush_threads(stage), attempts, err));
        TRY(attempts_finish(stage, refiner, attempts, &replaced, err));
    }
    if (!attempts->wanted) return STATUS_OK;
    stage_log(stage, LOG_WARN, "refine-no-model",
              "no map is refined, because there is no first map: %s. Give a `reference`, or more or better particles",
              attempts->text);
    stage_incomplete(stage);
    stage_result(stage, files, "no first map: %s", attempts->text);
    return STATUS_OK;
}
