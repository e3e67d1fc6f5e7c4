/* What the harness calls. Items only bring structures in; they are compared in idle, and once more, all in one go, at
 * the end. Nothing is kept on disk for a restart: the structures are read again, and what was computed of them follows.
 */
#include "stages/superposer/stage.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "stages/superposer/fitted.h"
#include "stages/superposer/results.h"

struct params {
    char *topology, *chain, *residues, *reference;
    int select, weights, clustering, method, results, superposed, centres, memory;
    double cutoff, snapshot_interval;
    bool rotations;
};

#define P(member) offsetof(struct params, member)
static const struct param params[] = {
    {"topology", PARAM_PATH, P(topology), "", NULL,
     .help = "PDB or mmCIF file whose first structure says which atoms there are; DCD files need it"},
    {"select", PARAM_CHOICE, P(select), "", "ca", .choices = STRUCTURE_WHAT_CHOICES,
     .help = "Atoms to compare: alpha carbons, N CA C O, all but hydrogen and water, or all"},
    {"chain", PARAM_STRING, P(chain), "", NULL, .help = "Chains to compare, with commas between; default: all"},
    {"residues", PARAM_STRING, P(residues), "", NULL,
     .help = "Residues to compare, as 10-50,52A,60-70 (with insertion codes); default: all"},
    {"weights", PARAM_CHOICE, P(weights), "", "none", .choices = ENSEMBLE_WEIGHTS_CHOICES,
     .help = "Weights of atoms, from the first structure: none, their masses, or what stands in that column"},
    {"cutoff", PARAM_FLOAT, P(cutoff), "Å", "4", 1e-3, 1e4,
     .help = "RMSD below which structures are neighbours, and merge"},
    {"clustering", PARAM_CHOICE, P(clustering), "", "neighbours", .choices = SUPERPOSER_CLUSTERING_CHOICES,
     .help = "By the largest neighbourhood, which is taken out, and so on; or by average linkage up to the cut-off"},
    {"method", PARAM_CHOICE, P(method), "", "qcp", .choices = "jacobi|qcp|kabsch",
     .help = "How the eigenvalue of a pair is found; all give the same RMSD"},
    {"results", PARAM_CHOICE, P(results), "", "auto", .choices = SUPERPOSER_RESULTS_CHOICES,
     .help = "RMSDs of all pairs, or of neighbours only; auto: all where that fits into memory"},
    {"centres", PARAM_INT, P(centres), "", "100", 0, 9999,
     .help = "Centres of so many clusters, the largest first, are written as PDB files"},
    {"reference", PARAM_PATH, P(reference), "", NULL,
     .help =
         "Structure to which RMSDs of all are written, and on which they are put; default: the first of the ensemble"},
    {"superposed", PARAM_CHOICE, P(superposed), "", "none", .choices = FITTED_FORMAT_CHOICES,
     .help = "Write all structures as they lie on the reference (npy: the selected atoms alone)"},
    {"rotations", PARAM_BOOL, P(rotations), "", "false",
     .help = "Write the rotations and translations that put the structures on the reference"},
    {"snapshot_interval", PARAM_FLOAT, P(snapshot_interval), "s", "10", 0, 86400,
     .help = "Least time between two sets of results while structures still arrive"},
    {"memory", PARAM_INT, P(memory), "MiB", "4096", 1, 1 << 24,
     .help = "For RMSDs and neighbour lists, and on the CPU for structures"},
};
#undef P

/* Large matrices take long to write: this part of the time, at least, is for other things. */
static const double MOST_OF_TIME = 4;

struct state {
    struct ensemble_rules rules;
    struct ensemble *ensemble;
    struct superposer superposer;
    float *reference; /* [atoms][3] the one that was asked for, once there are structures to compare it with */
    int written;      /* structures in the last results */
    double due;       /* when the next results are */
};

struct lane {
    struct ensemble_batch *batch;
};

static enum status init(struct stage *stage, void *state, struct err *err) {
    static const enum superpose_method methods[] = {SUPERPOSE_JACOBI, SUPERPOSE_QCP, SUPERPOSE_KABSCH};
    struct state *s = state;
    const struct params *p = stage_params(stage);
    struct superposer_options options = {
        .results = (enum superposer_results)p->results,
        .clustering = (enum superposer_clustering)p->clustering,
        .method = methods[p->method],
        .cutoff = p->cutoff,
        .device = *stage_device(stage),
        .threads = stage_threads(stage) > 0 ? stage_threads(stage) : 1,
        .memory = (size_t)p->memory << 20,
    };
    superposer_init(&s->superposer, &options);
    s->due = clock_monotonic() + p->snapshot_interval;
    s->rules.weights = (enum ensemble_weights)p->weights;
    TRY(structure_selection_parse((enum structure_what)p->select, p->chain, p->residues, &s->rules.selection, err));
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

/* Of an ensemble that lies where results go, a second run would find its own centres. */
static enum status refuse_own(const struct stage *stage, const char *path, struct err *err) {
    const char *name;
    FAIL_IF(path_is_below(path, stage_folder(stage), &name) &&
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
    return ensemble_batch_read(&s->rules, absolute, item_id(item), batch, err);
}

static enum status resume(struct stage *stage, void *state, const struct item *item, struct err *err) {
    struct state *s = state;
    struct ensemble_batch *batch = NULL;
    if (strcmp(item_kind(item), "clusters") == 0) return STATUS_OK; /* what this stage has sent itself */
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

/* Before anything is compared: one of other atoms would else be noticed when all is done. */
static enum status read_reference(struct stage *stage, struct state *s, struct err *err) {
    const struct params *p = stage_params(stage);
    if (p->reference == NULL || s->reference != NULL || s->superposer.count == 0) return STATUS_OK;
    return fitted_read_reference(&s->rules, p->reference, s->superposer.files[0].path, &s->reference, err);
}

/* Named by how many structures it is of: the same after a restart, and sent once. */
static enum status emit(struct stage *stage, const struct state *s, struct err *err) {
    const struct superposer *all = &s->superposer;
    char id[32], path[PATH_SIZE];
    const char *rest;
    _cleanup_(item_destroy) struct item *item = NULL;
    snprintf(id, sizeof id, "clusters/%07d", all->count);
    TRY(path_join(stage_folder(stage), "clusters.csv", path, sizeof path, err));
    TRY(item_create(id, "clusters", &item, err));
    TRY(item_set_string(item, "clusters.csv", path_is_below(path, stage_root(stage), &rest) ? rest : path, err));
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
    stage_note(stage, "%d structures, %d clusters, the largest of %d", all->count, all->clusters.count,
               all->clusters.size[0]);
    stage_log(stage, LOG_INFO, "clusters", "%d structures in %d clusters below %g Å, the largest of %d around %s%s",
              all->count, all->clusters.count, all->options.cutoff, all->clusters.size[0],
              all->names[all->clusters.centre[0]], final ? "; final" : "");
    return emit(stage, s, err);
}

static enum status idle(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    struct state *s = state;
    const struct params *p = stage_params(stage);
    *ret_work = STAGE_WORK_NONE;
    TRY(take_in(s, err));
    TRY(read_reference(stage, s, err));
    int count = s->superposer.count;
    if (count < 2 || count == s->written || clock_monotonic() < s->due) return STATUS_OK;
    /* Without a matrix each result is one of all pairs anew. */
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

/* What was asked for at another time belongs to other structures, or to another reference. */
static enum status drop_fitted(const char *folder, struct err *err) {
    static const char *const names[] = {"reference_rmsd.csv", "superposed.pdb", "superposed.dcd",
                                        "superposed.npy",     "rotations.npy",  "translations.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        TRY(results_drop(folder, names[i], err));
    return STATUS_OK;
}

/* What needs the structures themselves. */
static enum status write_fitted(struct stage *stage, struct state *s, struct err *err) {
    const struct params *p = stage_params(stage);
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
    return fitted_write(all, &s->rules, folder, reference, (enum fitted_format)p->superposed, p->rotations, err);
}

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    TRY(take_in(s, err));
    int count = s->superposer.count;
    /* There more may come when the session goes on. */
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
    .params = params,
    .param_count = sizeof params / sizeof *params,
    .params_size = sizeof(struct params),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .cuda = true,
    .cumulative = true,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .resume = resume,
    .load = load,
    .store = store,
    .idle = idle,
    .flush = flush,
};
