#include "stages/refiner/stage.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/files.h"
#include "kernels/postprocess/postprocess.h"
#include "stages/refiner/arrivals.h"
#include "stages/refiner/postprocess_write.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/writer.h"

static const double LEAST_MEMORY = 0.25; /* GiB */

struct params {
    char *reference, *symmetry, *mask;
    double diameter, initial_lowpass, offset_range, offset_step, tau_fudge, join_resolution, memory;
    int healpix_order, local_order, live_order, classes, iterations, seed, min_particles, max_iterations,
        keep_iterations, max_significant, reliability_norm;
    bool reliability, auto_mask, memory_trace;
};

static const struct param PARAMS[] = {
    {"reference", PARAM_PATH, offsetof(struct params, reference), "", NULL, 0, 0, NULL, 0, false,
     "Map to start from, on any grid and grey scale, protein white; or a STAR file that lists several, a class each."},
    {"diameter", PARAM_FLOAT, offsetof(struct params, diameter), "Å", NULL, 1, 1e5, NULL, 0, true,
     "Diameter of the circle and sphere outside of which there is solvent."},
    {"symmetry", PARAM_STRING, offsetof(struct params, symmetry), "", "C1", 0, 0, NULL, 0, false,
     "Point group: Cn, Dn, T, O or I (I1 to I4)."},
    {"initial_lowpass", PARAM_FLOAT, offsetof(struct params, initial_lowpass), "Å", "60", 1, 1e4, NULL, 0, false,
     "The reference is low-pass filtered to this resolution."},
    {"healpix_order", PARAM_INT, offsetof(struct params, healpix_order), "", "2", 0, 5, NULL, 0, false,
     "Order of the first coarse grid of directions: 2 is 15°, searched in steps of 7.5°; one more halves both."},
    {"offset_range", PARAM_FLOAT, offsetof(struct params, offset_range), "px", "5", 0, 50, NULL, 0, false,
     "Shifts searched at first, to each side."},
    {"offset_step", PARAM_FLOAT, offsetof(struct params, offset_step), "px", "1", 0.1, 10, NULL, 0, false,
     "Step of that search (the coarse pass takes twice as much)."},
    {"local_order", PARAM_INT, offsetof(struct params, local_order), "", "4", 1, 8, NULL, 0, false,
     "From this order on poses are searched near the last one only."},
    {"mask", PARAM_PATH, offsetof(struct params, mask), "", NULL, 0, 0, NULL, 0, false,
     "Map of 0 to 1 that is put over the maps after each iteration, in place of a sphere."},
    {"auto_mask", PARAM_BOOL, offsetof(struct params, auto_mask), "", "true", 0, 0, NULL, 0, false,
     "Without a mask, make one from the map in each iteration that reaches 30 Å, inside the sphere."},
    {"reliability", PARAM_BOOL, offsetof(struct params, reliability), "", "false", 0, 0, NULL, 0, false,
     "Weigh particles by whether their fit grows better or worse between iterations."},
    {"reliability_norm", PARAM_CHOICE, offsetof(struct params, reliability_norm), "", "l2", 0, 0, "l2|l2sq", 0, false,
     "What a fit is judged by: the norm of what is left of the image, or its square, which weighs about twice as "
     "hard."},
    {"classes", PARAM_INT, offsetof(struct params, classes), "", "1", 1, 100, NULL, 0, false,
     "1 refines one map; more sort the particles into so many classes of different maps (3D classification)."},
    {"iterations", PARAM_INT, offsetof(struct params, iterations), "", "25", 1, 1000, NULL, 0, false,
     "Iterations of a classification, with all particles."},
    {"tau_fudge", PARAM_FLOAT, offsetof(struct params, tau_fudge), "", "auto", 0.1, 100, NULL, 0, false,
     "Factor on the signal's power in the Wiener filter; 1, in a classification 4."},
    {"join_resolution", PARAM_FLOAT, offsetof(struct params, join_resolution), "Å", "40", 5, 1000, NULL, 0, false,
     "Up to this resolution the halves share their data, so that they do not drift apart."},
    {"live_order", PARAM_INT, offsetof(struct params, live_order), "", "2", 0, 5, NULL, 0, false,
     "While particles still arrive the grid grows no finer than this order."},
    {"min_particles", PARAM_INT, offsetof(struct params, min_particles), "", "100", 10, 1000000, NULL, 0, false,
     "The first map waits for so many particles (the end of the stream does not)."},
    {"max_iterations", PARAM_INT, offsetof(struct params, max_iterations), "", "40", 1, 1000, NULL, 0, false,
     "At the end of the stream, no more iterations than this before the final one."},
    {"max_significant", PARAM_INT, offsetof(struct params, max_significant), "", "300", 10, 10000000, NULL, 0, false,
     "Of the coarse samples that hold 99.9 % of a particle's probability, the fine pass takes the best so many."},
    {"keep_iterations", PARAM_INT, offsetof(struct params, keep_iterations), "", "3", 1, 1000, NULL, 0, false,
     "Files of so many iterations are kept."},
    {"seed", PARAM_INT, offsetof(struct params, seed), "", "1", 0, 1e9, NULL, 0, false,
     "Decides which half a particle belongs to, and the perturbation of the grids."},
    {"memory", PARAM_FLOAT, offsetof(struct params, memory), "GiB", "4", 0, 4096, NULL, 0, false,
     "Memory to work with, about; half of it keeps particle images that were read once. 0: of a CUDA device what is "
     "free when the first iteration begins, for a stage that has it to itself, and of the host 4 GiB."},
    {"memory_trace", PARAM_BOOL, offsetof(struct params, memory_trace), "", "false", 0, 0, NULL, 0, false,
     "Write what each iteration takes of a CUDA device's memory, step by step (run_itNNN_memory.csv)."},
};

struct state {
    struct arrivals arrivals;
    struct refiner *refiner;
    struct writer *writer;
    size_t last_particles;    /* of the last iteration */
    size_t settled_particles; /* how many there were when nothing more was to be gained */
    bool settled, remarked, looked;
    bool told;          /* that sums come to the host */
    size_t spoiled;     /* images that were told of */
    bool warned;        /* of particles without a CTF */
    bool unwritten;     /* files of the last iteration are not begun */
    bool gone;          /* the file of the last selection, when the stage began */
    struct err refused; /* the first file that could not join; status OK: none */
};

struct lane {
    struct arrival arrival;
};

/* Several iterations are kept: where the files of the last one are broken, those of one before serve, and without any it
 * begins anew. No particle is lost by it. */
static enum status restore(struct stage *stage, struct refiner *refiner, struct err *err) {
    struct err mine = {0};
    bool tried = false;
    for (int i = INT_MAX; (i = refiner_last(stage_folder(stage), i)) > 0;) {
        enum status status = refiner_restore(refiner, stage_folder(stage), i, &mine);
        if (status == STATUS_OK) {
            stage_log(stage, LOG_INFO, "refine-restored", "goes on after iteration %d", i);
            return STATUS_OK;
        }
        /* Once it has a grid the files were whole, and something else is wrong. */
        FAIL_IF(!status_is_of_file(status) || refiner_grid(refiner).box != 0, err, status, "%s", mine.message);
        stage_log(stage, LOG_WARN, "refine-not-restored", "iteration %d cannot be gone on from: %s", i, mine.message);
        tried = true;
    }
    if (tried) stage_log(stage, LOG_WARN, "refine-not-restored", "begins anew, from the reference");
    return STATUS_OK;
}

static enum status init(struct stage *stage, void *context, struct err *err) {
    struct state *state = context;
    const struct params *p = stage_params(stage);
    FAIL_IF(p->reference == NULL, err, STATUS_BAD_ARGUMENT,
            "the refiner needs a reference map: set `reference` to a map of the particle, low resolution is enough");
    TRY(arrivals_init(&state->arrivals, err));
    const struct stage_session *session = stage_session(stage);
    const struct refiner_options options = {.reference = p->reference,
                                            .mask = p->mask,
                                            .symmetry = p->symmetry,
                                            .diameter = p->diameter,
                                            .initial_lowpass = p->initial_lowpass,
                                            .healpix_order = p->healpix_order,
                                            .local_order = p->local_order,
                                            .offset_range = p->offset_range,
                                            .offset_step = p->offset_step,
                                            .max_significant = p->max_significant,
                                            .classes = p->classes,
                                            .iterations = p->iterations,
                                            .tau_fudge = p->tau_fudge,
                                            .join_resolution = p->join_resolution,
                                            .auto_mask = p->auto_mask,
                                            .reliability = !p->reliability            ? ALIGNMENT_NORM_NONE
                                                           : p->reliability_norm == 0 ? ALIGNMENT_NORM_L2
                                                                                      : ALIGNMENT_NORM_L2SQ,
                                            .seed = (unsigned)p->seed,
                                            .threads = stage_threads(stage),
                                            .device = *stage_device(stage),
                                            .memory = p->memory * 0x1p30,
                                            .memory_trace = p->memory_trace,
                                            .fallback_pixel_size = session->pixel_size,
                                            .root = stage_root(stage)};
    FAIL_IF(p->memory > 0 && p->memory < LEAST_MEMORY, err, STATUS_BAD_ARGUMENT,
            "memory is %g GiB: at least %g are needed, or 0 for what is free", p->memory, LEAST_MEMORY);
    TRY(refiner_create(&options, &state->refiner, err));
    TRY(restore(stage, state->refiner, err));
    TRY(writer_create(stage, state->refiner, p->keep_iterations, &state->writer, err));
    state->arrivals.grid = refiner_grid(state->refiner);
    return STATUS_OK;
}

static void fini(struct stage *stage, void *context) {
    (void)stage;
    struct state *state = context;
    writer_destroy(&state->writer);
    refiner_destroy(&state->refiner);
    arrivals_destroy(&state->arrivals);
}

static void lane_fini(struct stage *stage, void *context, struct stage_lane *lane) {
    (void)stage, (void)context;
    arrival_clear(&((struct lane *)lane->state)->arrival);
}

static enum status load(struct stage *stage, void *context, struct stage_lane *lane, struct err *err) {
    const struct state *state = context;
    return arrival_read(stage, state->refiner, lane->item, &((struct lane *)lane->state)->arrival, err);
}

static enum status store(struct stage *stage, void *context, struct stage_lane *lane, struct err *err) {
    (void)stage;
    struct state *state = context;
    return arrivals_keep(&state->arrivals, &((struct lane *)lane->state)->arrival, err);
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
        /* The classifier removes its selections after a while: no matter, unless it is the last one. */
        state->gone = is_gone(stage, item);
        if (state->gone) return STATUS_OK;
    }
    enum status status = arrival_read(stage, state->refiner, item, &arrival, err);
    if (status == STATUS_OK) status = arrivals_keep(&state->arrivals, &arrival, err);
    arrival_clear(&arrival);
    return status;
}

/* What has arrived joins. A file that cannot is reported, and the others go on. */
static enum status take_arrivals(struct stage *stage, struct state *state, struct err *err) {
    if (state->gone)
        stage_log(stage, LOG_ERROR, "refine-refused",
                  "the file of the last selection is gone: its particles are missing until the next one comes");
    state->gone = false;
    int count;
    struct arrival *list = arrivals_take(&state->arrivals, &count);
    enum status status = STATUS_OK;
    for (int i = 0; i < count; i++) {
        struct err mine = {0};
        if (status != STATUS_OK || list[i].file == NULL) continue;
        enum status merged = refiner_merge(state->refiner, &list[i].file, list[i].path, list[i].replace, NULL, &mine);
        if (merged == STATUS_NO_MEMORY) {
            status = merged;
            if (err != NULL) *err = mine;
        } else if (merged != STATUS_OK) {
            stage_log(stage, LOG_ERROR, "refine-refused", "%s", mine.message);
            if (state->refused.status == STATUS_OK) state->refused = mine;
        }
    }
    arrivals_free(list, count);
    return status;
}

/* What makes a map worse than it could be, and would not be seen in it. */
static void tell_doubts(struct stage *stage, struct state *state) {
    const struct refiner_doubts doubts = refiner_doubts(state->refiner);
    size_t particles = refiner_particles(state->refiner);
    if (doubts.spoiled > state->spoiled)
        stage_log(stage, LOG_WARN, "refine-images",
                  "%zu of %zu images hold values that are no numbers, or are a hundred times as strong as the others: "
                  "they count as empty",
                  doubts.spoiled, particles);
    if (doubts.without_ctf > 0 && !state->warned)
        stage_log(stage, LOG_WARN, "refine-ctf",
                  "%zu of %zu particles have no CTF (rlnDefocusU): they are taken as if the microscope had none",
                  doubts.without_ctf, particles);
    state->spoiled = doubts.spoiled;
    state->warned = doubts.without_ctf > 0;
}

static enum status after_iteration(struct stage *stage, struct state *state, struct err *err) {
    tell_doubts(stage, state);
    if (!state->remarked && *refiner_remark(state->refiner) != 0)
        stage_log(stage, LOG_INFO, "refine-start", "%s", refiner_remark(state->refiner));
    state->remarked = true;
    if (!state->told && refiner_state(state->refiner).sums_on_host) {
        state->told = true;
        stage_log(
            stage, LOG_INFO, "refine-memory",
            "the device's memory has no room for the sums of both halves beside the E-step: they come to the host in "
            "between, which takes longer; more `memory` would change that");
    }
    struct err mine = {0};
    if (refiner_write_trace(state->refiner, stage_folder(stage), &mine) != STATUS_OK)
        stage_log(stage, LOG_WARN, "refine-trace", "%s", mine.message);
    TRY(writer_write(state->writer, err));
    state->unwritten = false;
    return STATUS_OK;
}

/* A batch of the running iteration. */
static enum status work_on(struct stage *stage, struct state *state, bool *ret_complete, struct err *err) {
    TRY(writer_look(state->writer, err));
    TRY(refiner_work(state->refiner, ret_complete, err));
    state->unwritten = *ret_complete;
    return *ret_complete ? after_iteration(stage, state, err) : STATUS_OK;
}

/* While particles keep coming, an iteration waits until there are some more of them, and leaves the cores to the stages
 * before this one; when the stream pauses, it goes on until nothing is gained any more. */
static bool worth_iterating(struct state *state, size_t particles) {
    static const double PAUSE = 4; /* s */
    bool paused = arrivals_pause(&state->arrivals, PAUSE);
    if (state->settled) return (double)particles >= 1.25 * (double)state->settled_particles;
    return paused || (double)particles >= 1.1 * (double)state->last_particles;
}

/* The first maps are made of a part of the particles: a low-resolution reference is soon improved upon. */
static size_t live_particles(const struct state *state) {
    enum { FIRST = 300, DOUBLINGS = 5 };
    int iteration = refiner_state(state->refiner).iteration;
    return iteration < DOUBLINGS ? (size_t)FIRST << iteration : 0;
}

static enum status idle(struct stage *stage, void *context, enum stage_work *ret_work, struct err *err) {
    struct state *state = context;
    const struct params *p = stage_params(stage);
    bool complete = false;
    *ret_work = STAGE_WORK_NONE;
    TRY(writer_look(state->writer, err));
    if (state->unwritten) TRY(after_iteration(stage, state, err));
    if (refiner_busy(state->refiner)) {
        TRY(work_on(stage, state, &complete, err));
        if (complete) {
            struct refiner_state s = refiner_state(state->refiner);
            state->last_particles = s.particles;
            state->settled = (s.stalled || s.converged) && s.particles == refiner_particles(state->refiner);
            state->settled_particles = s.particles;
        }
        *ret_work = STAGE_WORK_MORE;
        return STATUS_OK;
    }
    TRY(take_arrivals(stage, state, err));
    size_t particles = refiner_particles(state->refiner);
    if (!state->looked && particles >= (size_t)p->min_particles) {
        /* A session that is run again after its end has nothing to add. */
        state->looked = true;
        state->settled = refiner_is_final(state->refiner, stage_folder(stage));
        state->settled_particles = particles;
    }
    if (particles < (size_t)p->min_particles || !worth_iterating(state, particles)) return STATUS_OK;
    const struct refiner_iteration next = {.max_order =
                                               p->live_order > p->healpix_order ? p->live_order : p->healpix_order,
                                           .most = live_particles(state)};
    TRY(refiner_begin(state->refiner, &next, err));
    *ret_work = STAGE_WORK_MORE;
    return STATUS_OK;
}

static enum status finish_iteration(struct stage *stage, struct state *state, struct err *err) {
    bool complete = false;
    while (!complete && !stage_stopping(stage))
        TRY(work_on(stage, state, &complete, err));
    FAIL_IF(!complete, err, STATUS_CANCELLED, "stopped in the middle of an iteration");
    return STATUS_OK;
}

static enum status postprocess(struct stage *stage, struct state *state, struct err *err) {
    struct refiner_maps maps = refiner_maps(state->refiner);
    char half1[PATH_SIZE], half2[PATH_SIZE];
    const struct postprocess_options options = {.box = maps.box,
                                                .pixel_size = maps.pixel_size,
                                                .mask = maps.mask,
                                                .automatic_mask = true,
                                                .randomise_at_fsc = 0.8,
                                                .bfactor_low = 10,
                                                .adhoc_bfactor = NAN,
                                                .seed = 1};
    struct postprocess_result result = {0};
    TRY(path_join(writer_prefix(stage), "run_half1_class001_unfil.mrc", half1, sizeof half1, err));
    TRY(path_join(writer_prefix(stage), "run_half2_class001_unfil.mrc", half2, sizeof half2, err));
    TRY(postprocess_run(&options, maps.half1, maps.half2, &result, err));
    struct stage_patience patience = {0};
    /* Its files say that all is done: they come last. */
    enum status status = writer_wait(state->writer, err);
    if (status == STATUS_OK) {
        do
            status = postprocess_write(&result, &options, stage_folder(stage), half1, half2, err);
        while (stage_wait_out(stage, status, err, &patience));
    }
    if (status == STATUS_OK)
        stage_log(stage, LOG_INFO, "refine-postprocess", "%.2f Å inside a mask, B-factor %.0f Å²", result.resolution,
                  result.bfactor);
    postprocess_result_destroy(&result);
    return status;
}

static enum status flush(struct stage *stage, void *context, struct err *err) {
    struct state *state = context;
    const struct params *p = stage_params(stage);
    if (refiner_busy(state->refiner)) TRY(finish_iteration(stage, state, err));
    if (state->unwritten) TRY(after_iteration(stage, state, err));
    TRY(writer_wait(state->writer, err));
    TRY(refiner_set_threads(state->refiner, stage_flush_threads(stage), err));
    TRY(take_arrivals(stage, state, err));
    size_t particles = refiner_particles(state->refiner);
    if (particles < 10 && state->refused.status != STATUS_OK) {
        *err = state->refused;
        return err->status;
    }
    if (particles < 10) {
        stage_log(stage, LOG_WARN, "refine-few", "%zu particles are too few for a map: none is made", particles);
        return STATUS_OK;
    }
    if (refiner_is_final(state->refiner, stage_folder(stage))) return STATUS_OK;
    bool classifies = refiner_state(state->refiner).classes > 1;
    for (int i = 0; i < p->max_iterations || classifies; i++) {
        TRY(refiner_begin(state->refiner, &(struct refiner_iteration){.max_order = -1}, err));
        TRY(finish_iteration(stage, state, err));
        if (refiner_state(state->refiner).converged) break;
    }
    if (classifies) return writer_wait(state->writer, err);
    TRY(refiner_begin(state->refiner, &(struct refiner_iteration){.max_order = -1, .final = true}, err));
    TRY(finish_iteration(stage, state, err));
    return postprocess(stage, state, err);
}

const struct stage_descriptor refiner_stage = {
    .name = "refiner",
    .summary =
        "refines a 3-D map from particles: two independent halves, from a low-resolution reference to convergence; or "
        "sorts them into classes of different maps",
    .in = "particles|selection",
    .out = "",
    .params = PARAMS,
    .param_count = sizeof PARAMS / sizeof *PARAMS,
    .params_size = sizeof(struct params),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .lanes = 2,
    .cumulative = true,
    .cuda = true,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .resume = resume,
    .load = load,
    .store = store,
    .idle = idle,
    .flush = flush,
};
