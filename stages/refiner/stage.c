/* The refiner as a stage: collects particles, refines while nothing else is to be done, and refines to the end when
 * the stream ends. */
#include <limits.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/optics_aberrations.h"
#include "common/harness/scratch.h"
#include "common/harness/stage.h"
#include "stages/refiner/arrivals.h"
#include "stages/refiner/check.h"
#include "stages/refiner/ending.h"
#include "stages/refiner/files/writer.h"
#include "stages/refiner/initial/attempts.h"
#include "stages/refiner/map_templates.h"
#include "stages/refiner/parameters.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/schedule.h"
#include "stages/refiner/tell.h"
#include "stages/refiner/warnings.h"

enum { LEAST_PARTICLES = 10 }; /* fewer make no map */

struct state {
    struct arrivals arrivals;
    struct refiner *refiner;
    struct scratch scratch;
    bool ended; /* all work is done */
    struct writer *writer;
    struct attempts attempts;       /* at a first map */
    struct map_templates templates; /* for the picker */
    struct schedule_live live;
    bool looked;        /* for the final files of an earlier run */
    bool unwritten;     /* the writer has not taken the last iteration yet */
    bool gone;          /* the file of the last selection was gone when the stage began */
    struct err refused; /* error of the first file that could not join; status OK: none */
    /* Reported in the log already: */
    bool logged_start;     /* how the refinement began */
    bool logged_host_sums; /* sums come to the host */
    struct warned warned;
    bool told_noise; /* the images are noise */
    bool told_views; /* they may be from one side */
};

struct lane {
    struct arrival arrival;
};

/* Continues from files of an earlier run. Several iterations are kept: if the files of the last one are broken,
 * those of the one before serve; if none serve, the refinement begins anew. No particle is lost. */
static enum status restore(struct stage *stage, struct refiner *refiner, struct err *err) {
    struct err own = {0};
    bool tried = false;
    for (int i = INT_MAX; (i = refiner_last(stage_folder(stage), i)) > 0;) {
        enum status status = refiner_resume(refiner, stage_folder(stage), i, &own);
        if (status == STATUS_OK) {
            stage_log(stage, LOG_INFO, "refine-restored", "continues after iteration %d%s", i,
                      refiner_state(refiner).inverted ? ", hand inverted" : "");
            return STATUS_OK;
        }
        /* Once the refiner has a grid the files were complete, and the error is another one. */
        FAIL_IF(!status_is_of_file(status) || refiner_grid(refiner).box != 0, err, status, "%s", own.message);
        stage_log(stage, LOG_WARN, "refine-not-restored", "cannot continue from iteration %d: %s", i, own.message);
        tried = true;
    }
    if (tried)
        stage_log(stage, LOG_WARN, "refine-not-restored",
                  "no iteration can be continued: begins anew, from the reference");
    return STATUS_OK;
}

static enum status init(struct stage *stage, void *context, struct err *err) {
    struct state *state = context;
    const struct refiner_options *p = stage_params(stage);
    TRY(arrivals_init(&state->arrivals, err));
    scratch_open(&state->scratch, stage, p->scratch, p->scratch_size);
    struct refiner_context machine = {.threads = stage_threads(stage),
                                      .scratch = state->scratch.shards,
                                      .device = *stage_device(stage),
                                      .fallback_pixel_size = stage_session(stage)->pixel_size,
                                      .root = stage_root(stage)};
    TRY(stage_devices(stage, p->devices, ALIGNMENT_DEVICES_MOST, machine.devices, &machine.device_count, err));
    if (machine.device_count > 1)
        stage_log(stage, LOG_INFO, "refine-devices", "%d devices share the particles of each iteration",
                  machine.device_count);
    TRY(refiner_create(p, &machine, &state->refiner, err));
    TRY(attempts_init(stage, state->refiner, &state->attempts, err));
    TRY(restore(stage, state->refiner, err));
    refiner_set_hand(state->refiner, p->invert_hand);
    TRY(writer_create(stage, state->refiner, p->keep_iterations, &state->writer, err));
    return STATUS_OK;
}

static enum status change(struct stage *stage, void *context, struct err *err) {
    const struct state *state = context;
    const struct refiner_options *p = stage_params(stage);
    (void)err;
    refiner_set_hand(state->refiner, p->invert_hand);
    return STATUS_OK;
}

static void fini(struct stage *stage, void *context) {
    struct state *state = context;
    writer_destroy(&state->writer);
    attempts_destroy(&state->attempts);
    refiner_destroy(&state->refiner);
    scratch_close(&state->scratch, stage, state->ended);
    arrivals_destroy(&state->arrivals);
}

static void lane_fini(struct stage *stage, void *context, struct stage_lane *lane) {
    (void)stage, (void)context;
    arrival_clear(&((struct lane *)lane->state)->arrival);
}

static enum status load(struct stage *stage, void *context, struct stage_lane *lane, struct err *err) {
    const struct state *state = context;
    return arrival_read(stage, state->refiner, lane->item, true, &((struct lane *)lane->state)->arrival, err);
}

static enum status store(struct stage *stage, void *context, struct stage_lane *lane, struct err *err) {
    struct state *state = context;
    struct arrival *arrival = &((struct lane *)lane->state)->arrival;
    if (arrival->changes && !arrivals_follow(&state->arrivals, arrival)) {
        stage_log(stage, LOG_INFO, "refine-whole",
                  "%s: reads the whole table: the selection with which its changes begin was not the last one here",
                  item_id(lane->item));
        TRY(arrival_read_whole(stage, state->refiner, arrival, err));
    }
    return arrivals_keep(&state->arrivals, arrival, err);
}

static bool is_gone(const struct stage *stage, const struct item *selection) {
    char path[PATH_SIZE];
    const char *name = item_string(selection, "selection.star");
    return name != NULL && path_join(stage_root(stage), name, path, sizeof path, NULL) == STATUS_OK &&
           !file_exists(path);
}

static enum status resume(struct stage *stage, void *context, const struct item *item, struct err *err) {
    struct state *state = context;
    struct arrival arrival = {0};
    if (strcmp(item_kind(item), "selection") == 0) {
        /* The classifier removes its older selections: only the last one is missed. */
        state->gone = is_gone(stage, item);
        if (state->gone) return STATUS_OK;
    }
    enum status status = arrival_read(stage, state->refiner, item, false, &arrival, err);
    if (status == STATUS_OK) status = arrivals_keep(&state->arrivals, &arrival, err);
    arrival_clear(&arrival);
    return status;
}

/* Applies the changes of a selection, or lets its whole table join where they do not fit. */
static enum status take_changes(struct stage *stage, struct state *state, struct arrival *arrival, struct err *err) {
    const char *misfit = NULL;
    TRY(refiner_change(state->refiner, &arrival->read, &misfit, err));
    if (misfit == NULL) return STATUS_OK;
    stage_log(stage, LOG_INFO, "refine-changes", "reads the whole table %s: the changes cannot be applied, because %s",
              arrival->selection->path, misfit);
    TRY(arrival_read_whole(stage, state->refiner, arrival, err));
    return refiner_join(state->refiner, &arrival->read, true, NULL, err);
}

static enum status take_arrival(struct stage *stage, struct state *state, struct arrival *arrival, struct err *err) {
    if (arrival->changes) return take_changes(stage, state, arrival, err);
    return refiner_join(state->refiner, &arrival->read, arrival->replace, NULL, err);
}

/* Adds the particles that have arrived. Reports a file that cannot join, and goes on with the others. */
static enum status take_arrivals(struct stage *stage, struct state *state, struct err *err) {
    if (state->gone)
        stage_log(stage, LOG_ERROR, "refine-refused",
                  "the file of the last selection is gone: its particles are missing until the next selection comes");
    state->gone = false;
    int count;
    struct arrival *list = arrivals_take(&state->arrivals, &count);
    enum status status = STATUS_OK;
    for (int i = 0; i < count; i++) {
        struct err own = {0};
        if (status != STATUS_OK || list[i].read == NULL) continue;
        enum status merged = take_arrival(stage, state, &list[i], &own);
        if (merged == STATUS_NO_MEMORY) {
            status = merged;
            if (err != NULL) *err = own;
        } else if (merged != STATUS_OK) {
            stage_log(stage, LOG_ERROR, "refine-refused", "%s", own.message);
            if (state->refused.status == STATUS_OK) state->refused = own;
        }
    }
    arrivals_free(list, count);
    return status;
}

/* Begins an iteration. Warnings that the images of a sample give come at once. */
static enum status begin(struct stage *stage, struct state *state, const struct refiner_iteration *next,
                         struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    const bool inverted = refiner_state(state->refiner).inverted;
    TRY(refiner_begin(state->refiner, next, err));
    const struct refiner_state begun = refiner_state(state->refiner);
    tell_hand(stage, &begun, inverted, p->mask);
    warnings_of_particles(stage, state->refiner, &state->warned);
    return STATUS_OK;
}

/* Compares the particles of a classification that has ended. Without the comparison its classes are complete. */
static void compare_classes(struct stage *stage, struct state *state) {
    struct err own = {0};
    const struct refiner_state s = refiner_state(state->refiner);
    if (!s.converged || s.classes < 2 || !isnan(s.difference)) return;
    stage_doing(stage, "comparing the particles of all classes");
    if (refiner_compare_classes(state->refiner, &own) != STATUS_OK)
        stage_log(stage, LOG_WARN, "refine-classes", "the particles of the classes were not compared: %s", own.message);
    const struct refiner_state compared = refiner_state(state->refiner);
    tell_classes(stage, &compared);
}

/* Writes what an iteration has found. Called again if the files could not be written. */
static enum status after_iteration(struct stage *stage, struct state *state, struct err *err) {
    warnings_of_particles(stage, state->refiner, &state->warned);
    const struct refiner_state s = refiner_state(state->refiner);
    stage_resolution(stage, s.unresolved != REFINER_RESOLVED ? 0 : s.resolution);
    tell_noise(stage, &s, &state->told_noise);
    tell_views(stage, &s, &state->told_views);
    if (!state->logged_start && *refiner_remark(state->refiner) != 0)
        stage_log(stage, LOG_INFO, "refine-start", "%s", refiner_remark(state->refiner));
    state->logged_start = true;
    if (!state->logged_host_sums && refiner_state(state->refiner).sums_on_host) {
        state->logged_host_sums = true;
        stage_log(stage, LOG_INFO, "refine-memory",
                  "the device's memory has no room for the sums of both halves beside the E-step: the sums come to the "
                  "host in between, which takes longer; set `memory` to more to avoid this");
    }
    struct err own = {0};
    if (refiner_write_trace(state->refiner, stage_folder(stage), &own) != STATUS_OK)
        stage_log(stage, LOG_WARN, "refine-trace", "%s", own.message);
    TRY(writer_write(state->writer, attempts_remark(&state->attempts), err));
    state->unwritten = false;
    map_templates_step(&state->templates, stage, state->refiner);
    return STATUS_OK;
}

/* No iteration follows the final one: if another hand was asked for meanwhile, its maps get it. */
static void take_hand(struct stage *stage, struct state *state) {
    const struct refiner_options *p = stage_params(stage);
    const bool inverted = refiner_state(state->refiner).inverted;
    stage_rest(stage);
    refiner_invert(state->refiner);
    const struct refiner_state s = refiner_state(state->refiner);
    tell_hand(stage, &s, inverted, p->mask);
}

/* Works on a batch of the running iteration. */
static enum status work_on(struct stage *stage, struct state *state, bool *ret_complete, struct err *err) {
    TRY(writer_look(state->writer, err));
    scratch_look(&state->scratch, stage);
    stage_doing(stage, "computing iteration %d", refiner_state(state->refiner).iteration);
    TRY(refiner_work(state->refiner, ret_complete, err));
    state->unwritten = *ret_complete;
    if (!*ret_complete) return STATUS_OK;
    compare_classes(stage, state);
    if (refiner_state(state->refiner).final) take_hand(stage, state);
    return after_iteration(stage, state, err);
}

/* Works on a slice of the running iteration while the stream goes on. */
static enum status go_on(struct stage *stage, struct state *state, struct err *err) {
    bool complete = false;
    TRY(work_on(stage, state, &complete, err));
    const struct refiner_state s = refiner_state(state->refiner);
    if (complete)
        schedule_live_after(&state->live, s.particles, refiner_particles(state->refiner), s.stalled, s.converged);
    return STATUS_OK;
}

/* Looks once for the final files of an earlier run: a session that is run again after its end has nothing to add. */
static void look_for_end(struct stage *stage, struct state *state, size_t particles) {
    if (state->looked) return;
    state->looked = true;
    state->live.settled = refiner_is_final(state->refiner, stage_folder(stage));
    state->live.settled_particles = particles;
}

/* Begins the refinement again, because another first map has taken the place of the one that it began with. */
static void begin_again(struct state *state) {
    state->live = (struct schedule_live){0};
    state->logged_start = false;
    map_templates_renew(&state->templates);
}

/* Works on a first map that is made again, or on its marks. */
static enum status make_again(struct stage *stage, struct state *state, enum stage_work *ret_work, struct err *err) {
    bool worked = false, replaced = false;
    if (!attempts_go_on(&state->attempts)) return STATUS_OK;
    TRY(writer_wait(state->writer, err)); /* the attempt may do away with what it writes */
    const enum status status = attempts_again(stage, state->refiner, &state->attempts, &worked, &replaced, err);
    *ret_work = worked ? STAGE_WORK_MORE : STAGE_WORK_NONE;
    if (replaced) begin_again(state);
    return status;
}

static enum status idle(struct stage *stage, void *context, enum stage_work *ret_work, struct err *err) {
    struct state *state = context;
    const struct refiner_options *p = stage_params(stage);
    *ret_work = STAGE_WORK_NONE;
    TRY(writer_look(state->writer, err));
    if (state->unwritten) TRY(after_iteration(stage, state, err));
    if (refiner_busy(state->refiner)) {
        TRY(go_on(stage, state, err));
        *ret_work = STAGE_WORK_MORE;
        return STATUS_OK;
    }
    if (!attempts_hold(&state->attempts)) TRY(take_arrivals(stage, state, err));
    size_t particles = refiner_particles(state->refiner);
    if (particles < (size_t)p->min_particles) return STATUS_OK;
    if (state->attempts.wanted) {
        bool worked;
        TRY(attempts_work(stage, state->refiner, &state->attempts, &worked, err));
        *ret_work = worked ? STAGE_WORK_MORE : STAGE_WORK_NONE;
        return STATUS_OK;
    }
    look_for_end(stage, state, particles);
    if (attempts_hold(&state->attempts)) return make_again(stage, state, ret_work, err);
    const bool worth = refiner_inverts(state->refiner) ||
                       schedule_live_worth(&state->live, particles, arrivals_pause(&state->arrivals, SCHEDULE_PAUSE));
    if (!worth || attempts_turn(&state->attempts, state->refiner, refiner_state(state->refiner).seconds))
        return make_again(stage, state, ret_work, err);
    attempts_pass_turn(&state->attempts);
    const struct refiner_iteration next = {.max_order = schedule_live_max_order(p->live_order, p->healpix_order),
                                           .most = schedule_live_most(refiner_state(state->refiner).iteration)};
    TRY(begin(stage, state, &next, err));
    *ret_work = STAGE_WORK_MORE;
    return STATUS_OK;
}

/* Files of the end may be on disk already: they stay. */
static void tell_late_hand(struct stage *stage, const struct state *state) {
    stage_rest(stage);
    if (refiner_inverts(state->refiner))
        stage_log(stage, LOG_WARN, "refine-hand",
                  "the other hand was asked for after the final iteration: run the session again, which then makes the "
                  "final maps in that hand");
}

static enum status finish_iteration(struct stage *stage, struct state *state, struct err *err) {
    bool complete = false;
    while (!complete && !stage_stopping(stage))
        TRY(work_on(stage, state, &complete, err));
    FAIL_IF(!complete, err, STATUS_CANCELLED, "stopped in the middle of an iteration");
    return STATUS_OK;
}

/* Makes the first map at the end of the stream, or makes it again. */
static enum status finish_first_map(struct stage *stage, struct state *state, struct err *err) {
    bool replaced;
    if (state->attempts.wanted) return attempts_last(stage, state->refiner, &state->attempts, err);
    TRY(attempts_again_at_end(stage, state->refiner, &state->attempts, &replaced, err));
    if (replaced) begin_again(state);
    return STATUS_OK;
}

/* The second refinement, and how long it has waited for what it lacks. */
struct second {
    struct stage *stage;
    struct stage_patience patience;
};

static bool stops(void *context) {
    const struct second *second = context;
    stage_doing(second->stage, "refining again from a blurred reference, to see whether the map depends on it");
    return stage_stopping(second->stage);
}

static bool waits(void *context, enum status status, const struct err *err) {
    struct second *second = context;
    return stage_wait_out(second->stage, status, err, &second->patience);
}

/* Refines once more where nothing shows that the map does not depend on its reference. The user's live parameters wait
 * for it. */
static enum status refine_blurred(struct stage *stage, struct state *state, struct err *err) {
    struct second second = {.stage = stage};
    const struct refiner_pause pause = {.stops = stops, .waits = waits, .context = &second};
    struct err own = {0};
    if (!refiner_doubts_start(state->refiner)) return STATUS_OK;
    TRY(writer_wait(state->writer, err));
    enum status status = refiner_refine_blurred(state->refiner, &pause, &own);
    if (status == STATUS_CANCELLED || status == STATUS_UNAVAILABLE || status == STATUS_DEVICE) {
        *err = own;
        return status;
    }
    if (status != STATUS_OK) /* the map is as good without it */
        stage_log(stage, LOG_WARN, "refine-one-start", "the map is not compared with one from a blurred reference: %s",
                  own.message);
    return STATUS_OK;
}

static enum status finish(struct stage *stage, struct state *state, struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    bool replaced;
    if (refiner_busy(state->refiner)) TRY(finish_iteration(stage, state, err));
    if (state->unwritten) TRY(after_iteration(stage, state, err));
    TRY(writer_wait(state->writer, err));
    TRY(attempts_finish(stage, state->refiner, &state->attempts, &replaced, err));
    if (replaced) begin_again(state);
    TRY(refiner_set_threads(state->refiner, stage_flush_threads(stage), err));
    TRY(take_arrivals(stage, state, err));
    size_t particles = refiner_particles(state->refiner);
    if (particles < LEAST_PARTICLES && state->refused.status != STATUS_OK) {
        *err = state->refused;
        return err->status;
    }
    if (particles < LEAST_PARTICLES) {
        stage_log(stage, LOG_WARN, "refine-few", "%zu particles are too few for a map: no map is made", particles);
        if (state->attempts.wanted) stage_incomplete(stage);
        return STATUS_OK;
    }
    if (!refiner_is_final(state->refiner, stage_folder(stage))) TRY(finish_first_map(stage, state, err));
    if (state->attempts.wanted) return STATUS_OK;
    const bool classifies = refiner_state(state->refiner).classes > 1;
    if (refiner_is_final(state->refiner, stage_folder(stage)))
        return classifies ? STATUS_OK : ending_local_maps(stage, state->refiner, NULL, err);
    TRY(attempts_mark_rest(stage, state->refiner, &state->attempts, err));
    enum schedule_step step = SCHEDULE_ITERATE;
    for (int done = 0; step == SCHEDULE_ITERATE; done++) {
        stage_rest(stage);
        step = schedule_at_end(classifies, done, p->max_iterations, refiner_state(state->refiner).converged);
        if (step == SCHEDULE_DONE && refiner_inverts(state->refiner)) step = SCHEDULE_ITERATE;
        if (step == SCHEDULE_DONE) {
            ending_of_classes(stage, state->refiner);
            return writer_wait(state->writer, err);
        }
        if (step == SCHEDULE_FINAL) TRY(refine_blurred(stage, state, err));
        const struct refiner_iteration next = {.max_order = -1, .final = step == SCHEDULE_FINAL};
        TRY(begin(stage, state, &next, err));
        TRY(finish_iteration(stage, state, err));
    }
    TRY(ending_of_halves(stage, state->refiner, state->writer, err));
    tell_late_hand(stage, state);
    return STATUS_OK;
}

static enum status flush(struct stage *stage, void *context, struct err *err) {
    struct state *state = context;
    TRY(finish(stage, state, err));
    state->ended = true;
    return STATUS_OK;
}

const struct stage_descriptor refiner_stage = {
    .name = "refiner",
    .summary = "Refines a 3D map from particles: two independent halves, from a low-resolution reference to "
               "convergence; or "
               "sorts particles into classes of different maps",
    .in = "particles|selection",
    .out = "",
    .params = refiner_parameters,
    .param_count = REFINER_PARAMETERS,
    .params_size = sizeof(struct refiner_options),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .revisions = true,
    .lanes = 2,
    .cumulative = true,
    .cuda = true,
    .columns = "",
    .check = refiner_check,
    .init = init,
    .change = change,
    .fini = fini,
    .lane_fini = lane_fini,
    .resume = resume,
    .load = load,
    .store = store,
    .idle = idle,
    .flush = flush,
};
