#include "stages/refiner/initial/attempts.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/refiner.h"

#define MAP "initial_model.mrc"
#define DECISION "initial_model.json"

enum { DECISION_BYTES = 65536 };

/* Returns where the value of a key stands; NULL: there is none. */
static const char *value_of(const char *text, const char *key) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *at = strstr(text, pattern);
    return at != NULL ? at + strlen(pattern) : NULL;
}

static double number_of(const char *text, const char *key) {
    const char *at = value_of(text, key);
    return at != NULL ? strtod(at, NULL) : NAN;
}

/* Reads what an earlier run decided, with the same diameter and point group. *ret_accepted: false if there is nothing. */
static enum status read_decision(struct stage *stage, struct attempts *attempts, bool *ret_accepted,
                                 double *ret_lowpass, struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    *ret_accepted = false;
    TRY(path_join(stage_folder(stage), DECISION, path, sizeof path, err));
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
    if (*ret_accepted) return STATUS_OK;
    attempts->tried = (size_t)present;
    snprintf(attempts->text, sizeof attempts->text, "%.*s", (int)strcspn(found + 1, "\""), found + 1);
    stage_note(stage, "no first map yet");
    return STATUS_OK;
}

static enum status give(struct stage *stage, struct refiner *refiner, double lowpass, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(stage_folder(stage), MAP, path, sizeof path, err));
    return refiner_give_reference(refiner, path, lowpass, err);
}

enum status attempts_init(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    char path[PATH_SIZE];
    bool accepted;
    double lowpass = p->initial_lowpass;
    if (p->reference != NULL) return STATUS_OK;
    TRY(path_join(stage_folder(stage), MAP, path, sizeof path, err));
    TRY(read_decision(stage, attempts, &accepted, &lowpass, err));
    /* A refinement that has begun had its reference, and can do without the file. */
    if ((accepted && file_exists(path)) || refiner_last(stage_folder(stage), INT_MAX) > 0)
        return give(stage, refiner, lowpass, err);
    attempts->wanted = true;
    return STATUS_OK;
}

void attempts_destroy(struct attempts *attempts) {
    initial_destroy(&attempts->running);
}

static enum status conclude(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err) {
    const struct initial_decision d = *initial_decision(attempts->running);
    TRY(initial_write(attempts->running, stage_folder(stage), err));
    if (d.failed == INITIAL_ACCEPTED) TRY(give(stage, refiner, d.lowpass, err));
    initial_destroy(&attempts->running);
    attempts->tried = d.present;
    memcpy(attempts->text, d.text, sizeof attempts->text);
    if (d.failed != INITIAL_ACCEPTED) {
        stage_note(stage, "no first map yet (%s)", initial_test_name(d.failed));
        if (!attempts->last)
            stage_log(stage, LOG_WARN, "refine-no-model",
                      "no first map yet (%s): %s. The next attempt is made when there are twice as many, or at the end",
                      initial_test_name(d.failed), d.text);
        return STATUS_OK;
    }
    stage_log(stage, LOG_INFO, "refine-first-map", "first map: %s", d.text);
    attempts->wanted = false;
    return STATUS_OK;
}

static enum status begin(struct refiner *refiner, int threads, struct attempts *attempts, struct err *err) {
    TRY(refiner_look(refiner, err));
    return initial_create(refiner, threads, &attempts->running, err);
}

static enum status work(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err) {
    bool complete;
    stage_doing(stage, "making a first map: %.0f %%", 100 * initial_progress(attempts->running));
    enum status status = initial_work(attempts->running, &complete, err);
    if (status == STATUS_OK && complete) status = conclude(stage, refiner, attempts, err);
    /* Without memory, or images, an attempt is made anew when there is some again. */
    if (status != STATUS_OK) initial_destroy(&attempts->running);
    return status;
}

enum status attempts_work(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_worked,
                          struct err *err) {
    *ret_worked = true;
    if (attempts->running != NULL) return work(stage, refiner, attempts, err);
    *ret_worked = initial_is_due(initial_present(refiner), attempts->tried, refiner_operators(refiner));
    return *ret_worked ? begin(refiner, stage_threads(stage), attempts, err) : STATUS_OK;
}

enum status attempts_finish(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err) {
    while (attempts->running != NULL) {
        FAIL_IF(stage_stopping(stage), err, STATUS_CANCELLED, "stopped while the first map was being made");
        TRY(work(stage, refiner, attempts, err));
    }
    return STATUS_OK;
}

enum status attempts_last(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err) {
    static const char *const files[] = {DECISION, NULL};
    const size_t particles = initial_present(refiner);
    attempts->last = true;
    if (attempts->wanted && particles != attempts->tried) {
        TRY(begin(refiner, stage_flush_threads(stage), attempts, err));
        TRY(attempts_finish(stage, refiner, attempts, err));
    }
    if (!attempts->wanted) return STATUS_OK;
    stage_log(stage, LOG_WARN, "refine-no-model",
              "no map is refined, because there is no first map: %s. Give a `reference`, or more or better particles",
              attempts->text);
    stage_incomplete(stage);
    stage_result(stage, files, "no first map: %s", attempts->text);
    return STATUS_OK;
}
