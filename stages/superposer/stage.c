/* The superposer as a stage: the callbacks that the harness runs, and the descriptor. Items only bring structures in.
 * They are compared in `idle`, and once more, all in one go, in `flush`. Nothing is kept on disk for a restart: the
 * structures are read again and compared again. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/superposer/ensemble.h"
#include "stages/superposer/fitted.h"
#include "stages/superposer/parameters.h"
#include "stages/superposer/results.h"
#include "stages/superposer/superposer.h"

/* Large matrices take long to write: the time between results is at least so many times as long as writing takes. */
static const double MOST_OF_TIME = 4;

struct state {
    struct ensemble_rules rules;
    struct ensemble *ensemble;
    struct superposer superposer;
    float *reference; /* [atoms][3] that the user asked for, once there are structures to compare with it */
    int written;      /* structures in the last results */
    double due;       /* clock_monotonic() of the next results */
};

struct lane {
    struct ensemble_batch *batch;
};

static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    const struct superposer_options *p = params;
    struct structure_selection selection;
    struct err err = {0};
    enum status status = structure_selection_parse(p->select, p->chain, p->residues, &selection, &err);
    (void)stage_checks_result(checks, p->residues != NULL ? "residues" : "select", status, &err);
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    const struct superposer_options *p = stage_params(stage);
    int threads = stage_threads(stage) > 0 ? stage_threads(stage) : 1;
    superposer_init(&s->superposer, p, stage_device(stage), threads);
    s->due = clock_monotonic() + p->snapshot_interval;
    s->rules.weights = p->weights;
    TRY(structure_selection_parse(p->select, p->chain, p->residues, &s->rules.selection, err));
    if (p->topology != NULL) TRY(ensemble_rules_topology(&s->rules, p->topology, err));
    return ensemble_create(&s->rules, &s->ensemble, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    superposer_clear(&s->superposer);
    mem_free(&s->reference);
    ensemble_destroy(&s->ensemble);
    ensemble_rules_clear(&s->rules);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    ensemble_batch_destroy(&((struct lane *)stage_lane->state)->batch);
}

/* If the ensemble lies in the folder of results, a second run would find the centres that the first one wrote. */
static enum status refuse_own(const struct stage *stage, const char *path, struct err *err) {
    const char *name;
    char promised[PATH_SIZE];
    TRY(path_join(stage_root(stage), stage_promised(stage), promised, sizeof promised, err));
    FAIL_IF((path_is_below(path, stage_folder(stage), &name) || path_is_below(path, promised, &name)) &&
                (strncmp(name, "centre_", 7) == 0 || strncmp(name, "superposed.", 11) == 0),
            err, STATUS_BAD_ARGUMENT,
            "%s: is called as a result of this stage, in the folder of results: choose another folder for one of both",
            path);
    return STATUS_OK;
}

static enum status read_item(struct stage *stage, const struct state *s, const struct item *item,
                             struct ensemble_batch **batch, struct err *err) {
    const char *path;
    char absolute[PATH_SIZE];
    ensemble_batch_destroy(batch);
    TRY(item_need_string(item, "structure.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(refuse_own(stage, absolute, err));
    /* Two sources may have structures of one name. */
    char name[ITEM_MARK_SIZE];
    const char *source = stage_separate(stage) ? item_source(item) : "";
    snprintf(name, sizeof name, "%s%s%s", source, *source != '\0' ? "/" : "", item_id(item));
    return ensemble_batch_read(&s->rules, absolute, name, batch, err);
}

static enum status resume(struct stage *stage, void *state, const struct item *item, struct err *err) {
    struct state *s = state;
    struct ensemble_batch *batch = NULL;
    if (strcmp(item_kind(item), "clusters") == 0) return STATUS_OK; /* sent by this stage itself */
    TRY(read_item(stage, s, item, &batch, err));
    enum status status = ensemble_submit(s->ensemble, &batch, err);
    ensemble_batch_destroy(&batch);
    return status;
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct lane *lane = stage_lane->state;
    return read_item(stage, state, stage_lane->item, &lane->batch, err);
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)stage;
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    return ensemble_submit(s->ensemble, &lane->batch, err);
}

static enum status take_in(struct state *s, struct err *err) {
    for (struct ensemble_batch *batch; (batch = ensemble_next(s->ensemble)) != NULL;) {
        enum status status = superposer_add(&s->superposer, batch, err);
        if (status != STATUS_OK) {
            ensemble_put_back(s->ensemble, batch); /* the harness may try again */
            return status;
        }
        ensemble_batch_destroy(&batch);
    }
    return STATUS_OK;
}

/* Reads the reference before anything is compared: a reference with other atoms must not be noticed at the very end. */
static enum status read_reference(struct stage *stage, struct state *s, struct err *err) {
    const struct superposer_options *p = stage_params(stage);
    if (p->reference == NULL || s->reference != NULL || s->superposer.count == 0) return STATUS_OK;
    return fitted_read_reference(&s->rules, p->reference, s->superposer.files[0].path, &s->reference, err);
}

/* Sends an item that is named by its number of structures: the same after a restart, and so sent once. */
static enum status emit(struct stage *stage, const struct state *s, struct err *err) {
    const struct superposer *all = &s->superposer;
    char id[32], path[PATH_SIZE];
    _cleanup_(item_destroy) struct item *item = NULL;
    snprintf(id, sizeof id, "clusters/%07d", all->count);
    TRY(path_join(stage_promised(stage), "clusters.csv", path, sizeof path, err));
    TRY(item_create(id, "clusters", &item, err));
    TRY(item_set_string(item, "clusters.csv", path, err));
    TRY(item_set_number(item, "clusters.count", all->clusters.count, err));
    TRY(item_set_number(item, "clusters.structures", all->count, err));
    TRY(item_set_number(item, "clusters.largest", all->clusters.size[0], err));
    TRY(item_set_string(item, "clusters.centre", all->names[all->clusters.centre[0]], err));
    return stage_emit(stage, item, NULL, err);
}

static enum status write_results(struct stage *stage, struct state *s, bool final, struct err *err) {
    const struct superposer *all = &s->superposer;
    stage_note(stage, "%d structures: comparing", all->count);
    TRY(superposer_solve(&s->superposer, final, err));
    TRY(results_write(all, stage_folder(stage), err));
    s->written = all->count;
    static const char *const files[] = {"clusters.csv", NULL};
    stage_result(stage, files, "%d structures, %d clusters, the largest of %d", all->count, all->clusters.count,
                 all->clusters.size[0]);
    stage_note(stage, "%d structures, %d clusters, the largest of %d", all->count, all->clusters.count,
               all->clusters.size[0]);
    stage_log(stage, LOG_INFO, "clusters", "%d structures in %d clusters below %g Å, the largest of %d around %s%s",
              all->count, all->clusters.count, all->options.cutoff, all->clusters.size[0],
              all->names[all->clusters.centre[0]], final ? "; final" : "");
    return emit(stage, s, err);
}

static enum status idle(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    struct state *s = state;
    const struct superposer_options *p = stage_params(stage);
    *ret_work = STAGE_WORK_NONE;
    TRY(take_in(s, err));
    TRY(read_reference(stage, s, err));
    int count = s->superposer.count;
    if (count < 2 || count == s->written || clock_monotonic() < s->due) return STATUS_OK;
    /* Without a matrix each result computes all pairs again. */
    if (!superposer_has_matrix(&s->superposer, count)) {
        stage_note(stage, "%d structures; results follow at the end", count);
        return STATUS_OK;
    }
    double begun = clock_monotonic();
    TRY(write_results(stage, s, false, err));
    double now = clock_monotonic();
    s->due = now + fmax(p->snapshot_interval, MOST_OF_TIME * (now - begun));
    return STATUS_OK;
}

/* Files of an earlier run belong to other structures, or to another reference. */
static enum status drop_fitted(const char *folder, struct err *err) {
    static const char *const names[] = {"reference_rmsd.csv", "superposed.pdb", "superposed.dcd",
                                        "superposed.npy",     "rotations.npy",  "translations.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        TRY(results_drop(folder, names[i], err));
    return STATUS_OK;
}

/* Writes what needs the structures themselves. */
static enum status write_fitted(struct stage *stage, struct state *s, struct err *err) {
    const struct superposer_options *p = stage_params(stage);
    const struct superposer *all = &s->superposer;
    const char *folder = stage_folder(stage), *first = all->files[0].path;
    TRY(drop_fitted(folder, err));
    TRY(fitted_write_centres(all, &s->rules, folder, p->centres, err));
    if (s->reference == NULL && p->superposed == FITTED_NONE && !p->rotations) return STATUS_OK;
    _cleanup_(mem_free) float *own = NULL, *rmsd = NULL;
    if (s->reference == NULL) TRY(fitted_read_reference(&s->rules, first, first, &own, err));
    const float *reference = s->reference != NULL ? s->reference : own;
    TRY(mem_new((size_t)all->count, sizeof *rmsd, "RMSDs to the reference", &rmsd, err));
    TRY(superpose_to_reference(all->plan, reference, rmsd, err));
    TRY(results_write_reference(all, folder, rmsd, err));
    return fitted_write(all, &s->rules, folder, reference, p->superposed, p->rotations, err);
}

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    TRY(take_in(s, err));
    int count = s->superposer.count;
    /* In a pipeline more structures may come when the session goes on. */
    if (count < 2 && stage_in_pipeline(stage)) {
        stage_log(stage, LOG_WARN, "too-few", "the stream ended with %d structures: two or more are needed to compare",
                  count);
        return STATUS_OK;
    }
    FAIL_IF(count == 0, err, STATUS_NOT_FOUND, "not one structure could be read: there is nothing to compare");
    FAIL_IF(count == 1, err, STATUS_NOT_FOUND,
            "%s is the only structure: two or more are needed to compare (a file may hold several)",
            s->superposer.names[0]);
    TRY(read_reference(stage, s, err));
    TRY(write_results(stage, s, true, err));
    return write_fitted(stage, s, err);
}

const struct stage_descriptor superposer_stage = {
    .name = "superposer",
    .summary = "RMSDs of all pairs of a growing ensemble of structures, and its clusters",
    .in = "structure",
    .out = "clusters",
    .params = superposer_parameters,
    .param_count = SUPERPOSER_PARAMETERS,
    .params_size = sizeof(struct superposer_options),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .revisions = true,
    .cuda = true,
    .cumulative = true,
    .columns = "",
    .check = check,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .resume = resume,
    .load = load,
    .store = store,
    .idle = idle,
    .flush = flush,
};
