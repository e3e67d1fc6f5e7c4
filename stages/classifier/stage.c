/* The classifier as a stage: the callbacks that the harness runs, and the descriptor. Items bring particles in; the
 * classification works on them in the idle callback. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/particle_table.h"
#include "common/harness/item_optics.h"
#include "common/harness/scratch.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "kernels/alignment/alignment.h"
#include "stages/classifier/parameters.h"
#include "stages/classifier/snapshot.h"
#include "stages/classifier/snapshot_restore.h"
#include "stages/classifier/snapshot_writer.h"
#include "stages/classifier/template_writer.h"

static const double LEAST_MEMORY = 0.25; /* GiB */
/* Selections are kept longer than other files: the next stage may not have read them yet. */
enum { KEPT_SNAPSHOTS = 3, KEPT_SELECTIONS = 20, FIRST_SNAPSHOT_UPDATE = 4 };
/* Images that are read ahead: as many bytes as the E-step takes of images at a time. */
enum { READING_THREADS = 4, AHEAD_BYTES = 128 << 20 };

struct state {
    struct dataset *dataset;
    struct scratch scratch;
    bool ended; /* all work is done */
    struct classifier classifier;
    struct classifier_options options;
    char relative[PATH_MAX];
    int iteration;
    bool resumed;                       /* items were already done when this run began */
    bool restored;                      /* the state of the last run is restored, or there was none */
    bool warned_of_averages;            /* that they are made on the host */
    bool warned_of_ctf;                 /* that particles have none */
    bool warned_of_low_defocus;         /* that its unit is doubtful */
    bool warned_of_negative_defocus;    /* that its sign is doubtful */
    bool told_of_grids, told_of_optics; /* particles are resampled, or corrected */
    bool told_of_mtf;                   /* an MTF is missing */
    size_t unusable;                    /* images that the log has counted */
    char background[512];               /* the last warning of images that are not normalised */
    size_t finished;         /* count of particles with which the last run ended; 0: the last run did not end */
    struct choices *choices; /* by hand; NULL on files */
    bool warned_of_choices;  /* that they cannot be read */
    int chosen;              /* the last change whose choices the last snapshot obeys */
    struct template_writer templates;
    struct snapshot_writer *writer;
    struct selection sent, next; /* the selection that was sent last in this run, and one to be sent */
    double last_time;            /* s, of the last snapshot, with its particles and updates */
    size_t last_count;
    int last_updates;
};

struct lane {
    struct dataset_batch *batch;
};

static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    const struct classifier_options *o = params;
    struct quality_rule rule;
    struct err err = {0};
    scratch_check(o->scratch, checks);
    if (o->memory > 0 && o->memory < LEAST_MEMORY)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "memory",
                         "memory is %g GiB: at least %g are needed, or auto for what is free", o->memory, LEAST_MEMORY);
    enum status status = quality_rule_parse(o->keep != NULL ? o->keep : "auto", &rule, &err);
    (void)stage_checks_result(checks, "keep", status, &err);
}

/* Reads what was marked by hand since. A file that is broken or away does not keep the stage from its work. */
static void look_at_choices(struct stage *stage, struct state *s) {
    struct err own = {0};
    /* The thread that writes a snapshot looks at them too. */
    if (s->choices == NULL || snapshot_writer_busy(s->writer)) return;
    enum status status = choices_poll(s->choices, NULL, &own);
    if (status != STATUS_OK && !s->warned_of_choices)
        stage_log(stage, LOG_WARN, "choices", "later marks and choices of classes do not count: %s", own.message);
    s->warned_of_choices = status != STATUS_OK;
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    struct classifier_options *o = &s->options;
    *o = *(const struct classifier_options *)stage_params(stage);
    o->device = *stage_device(stage);
    o->threads = stage_threads(stage) > 0 ? stage_threads(stage) : 1;
    TRY(stage_devices(stage, o->devices, ALIGNMENT_DEVICES_MOST, o->sharing, &o->sharing_count, err));
    if (o->sharing_count > 1)
        stage_log(stage, LOG_INFO, "classify-devices", "%d devices share the particles of each batch",
                  o->sharing_count);
    /* One of four or more is empty: no particle is compared with it. */
    FAIL_IF(o->device.kind == DEVICE_CUDA && o->classes > ALIGNMENT_REFERENCES_MOST + 1, err, STATUS_BAD_ARGUMENT,
            "classes is %d: a CUDA device compares particles with at most %d; take fewer classes, or device: cpu",
            o->classes, ALIGNMENT_REFERENCES_MOST + 1);
    TRY(quality_rule_parse(o->keep != NULL ? o->keep : "auto", &o->rule, err));
    /* Names in files are relative to the root if the folder lies below the root, as in a session. */
    const char *root = stage_root(stage);
    snprintf(s->relative, sizeof s->relative, "%s", stage_promised(stage));
    TRY(dataset_create((size_t)o->image_memory << 20, &s->dataset, err));
    if (o->cut) dataset_cut(s->dataset, o->resolution);
    scratch_open(&s->scratch, stage, o->scratch, o->scratch_size);
    /* Beside a device they may cut, too. On the CPU, which computes meanwhile, a few are enough. */
    const bool all = (o->cut && o->device.kind == DEVICE_CUDA) || o->threads < READING_THREADS;
    const int readers = all ? o->threads : READING_THREADS;
    TRY(dataset_read_ahead(s->dataset, readers, AHEAD_BYTES, s->scratch.shards, err));
    classifier_init(&s->classifier, &s->options, s->dataset);
    TRY(snapshot_writer_create(stage, &s->writer, err));
    if (!stage_in_pipeline(stage)) return STATUS_OK;
    TRY(choices_create(root, stage_name(stage), &s->choices, err));
    s->classifier.choices = s->choices;
    look_at_choices(stage, s);
    return STATUS_OK;
}

static void fini(struct stage *stage, void *state) {
    struct state *s = state;
    snapshot_writer_destroy(&s->writer);
    classifier_clear(&s->classifier);
    dataset_destroy(&s->dataset);
    scratch_close(&s->scratch, stage, s->ended);
    choices_destroy(&s->choices);
    template_writer_clear(&s->templates);
    selection_clear(&s->sent);
    selection_clear(&s->next);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct lane *lane = stage_lane->state;
    dataset_batch_destroy(&lane->batch);
}

static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *err) {
    const struct stage *stage = context;
    bool found = particle_stack_find(stage_root(stage), star_path, name, absolute);
    return found ? stage_may_read(stage, absolute, err) : stage_resolve(stage, name, absolute, err);
}

static enum status read_item(struct stage *stage, const struct item *item, struct dataset_batch **ret_batch,
                             struct err *err) {
    const char *star;
    char path[PATH_MAX];
    dataset_batch_destroy(ret_batch);
    if (item_number(item, "particles.count", 1) == 0) return STATUS_OK;
    TRY(item_need_string(item, "particles.star", &star, err));
    TRY(stage_resolve(stage, star, path, err));
    struct dataset_batch *batch = NULL;
    const struct classifier_options *o = stage_params(stage);
    TRY(dataset_batch_read(path, resolve, stage, stage_session(stage)->pixel_size, o->ignore_optics, &batch, err));
    enum status status = dataset_batch_name(batch, item_source(item), item_id(item), err);
    if (status == STATUS_OK)
        *ret_batch = batch;
    else
        dataset_batch_destroy(&batch);
    return status;
}

static enum status resume(struct stage *stage, void *state, const struct item *item, struct err *err) {
    struct state *s = state;
    struct dataset_batch *batch = NULL;
    if (strcmp(item_kind(item), "selection") == 0) return STATUS_OK; /* a product of this stage */
    s->resumed = true;
    TRY(read_item(stage, item, &batch, err));
    enum status status = batch != NULL ? dataset_submit(s->dataset, &batch, err) : STATUS_OK;
    dataset_batch_destroy(&batch);
    return status;
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    struct lane *lane = stage_lane->state;
    return read_item(stage, stage_lane->item, &lane->batch, err);
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)stage;
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    return lane->batch != NULL ? dataset_submit(s->dataset, &lane->batch, err) : STATUS_OK;
}

static struct snapshot describe(struct stage *stage, struct state *s, bool final) {
    return (struct snapshot){.folder = stage_folder(stage),
                             .relative = s->relative,
                             .root = stage_root(stage),
                             .iteration = s->iteration,
                             .final = final,
                             .sent = &s->sent,
                             .selection = &s->next};
}

static enum status name_changes(const struct state *s, const struct snapshot *snapshot, struct item *item,
                                struct err *err) {
    char star[PATH_MAX + 64];
    if (snapshot->changes[0] == '\0') return STATUS_OK;
    snprintf(star, sizeof star, "%s/changes_it%03d.star", snapshot->relative, snapshot->iteration);
    TRY(item_set_string(item, "selection.changes.since", s->sent.id, err));
    TRY(item_set_string(item, "selection.changes.star", star, err));
    return item_set_string(item, "selection.changes.digest", snapshot->changes, err);
}

/* Sends an item, and remembers the selection with which the next changes begin. A receiver may have another one of this
 * name, if the harness knows the item. */
static enum status send(struct stage *stage, struct state *s, const struct item *item, struct err *err) {
    bool new = false;
    TRY(stage_emit(stage, item, &new, err));
    const struct selection sent = s->sent;
    s->sent = s->next;
    s->next = sent;
    if (!new) selection_clear(&s->sent);
    return STATUS_OK;
}

static enum status emit(struct stage *stage, struct state *s, const struct snapshot *snapshot, struct err *err) {
    char id[32], star[PATH_MAX + 64];
    _cleanup_(item_destroy) struct item *item = NULL;
    snapshot_id(snapshot->iteration, id);
    snprintf(star, sizeof star, "%s/selected_it%03d.star", snapshot->relative, snapshot->iteration);
    TRY(item_create(id, "selection", &item, err));
    TRY(item_set_string(item, "selection.star", star, err));
    TRY(item_set_number(item, "selection.count", (double)snapshot->kept, err));
    TRY(item_set_number(item, "selection.iteration", snapshot->iteration, err));
    const struct way *way = dataset_way(s->dataset, 0);
    const struct optics optics = {
        .pixel_size = dataset_whole_pixel_size(s->dataset),
        .voltage = way->voltage,
        .spherical_aberration = way->spherical_aberration,
        .amplitude_contrast = way->amplitude_contrast,
    };
    TRY(item_set_string(item, "optics.group", "opticsGroup1", err));
    TRY(item_set_optics(item, &optics, NAN, err));
    TRY(name_changes(s, snapshot, item, err));
    return send(stage, s, item, err);
}

/* Continues from the latest snapshot with files that can be read, or begins anew. No particle is lost either way.
 * ret_snapshot: the snapshot that was read; iteration 0: none. */
static enum status restore_latest(struct stage *stage, struct state *s, int last, struct snapshot *ret_snapshot,
                                  struct err *err) {
    struct err own = {0};
    TRY(classifier_start(&s->classifier, err));
    for (int i = last; i > 0; i = snapshot_last(stage_folder(stage), i)) {
        struct snapshot snapshot = describe(stage, s, false);
        snapshot.iteration = i;
        bool final = false;
        enum status status = snapshot_restore(&s->classifier, &snapshot, &final, &own);
        if (status == STATUS_OK) {
            s->finished = final ? dataset_count(s->dataset) : 0;
            *ret_snapshot = snapshot;
            return STATUS_OK;
        }
        FAIL_IF(!status_is_of_file(status), err, status, "%s", own.message);
        stage_log(stage, LOG_WARN, "not-restored", "iteration %d cannot be restored: %s", i, own.message);
    }
    stage_log(stage, LOG_WARN, "not-restored", "the classification begins anew with all %zu particles",
              dataset_count(s->dataset));
    classifier_clear(&s->classifier);
    classifier_init(&s->classifier, &s->options, s->dataset);
    s->classifier.choices = s->choices;
    ret_snapshot->iteration = 0;
    return STATUS_OK;
}

/* Logs once that the mask, as the user wants it, does not fit into the box. */
static void warn_of_mask(struct stage *stage, const struct state *s) {
    double side = dataset_whole_box(s->dataset) * dataset_whole_pixel_size(s->dataset);
    if (s->options.diameter > side)
        stage_log(stage, LOG_WARN, "mask",
                  "diameter is %g Å, and the particles' box of %d px has %.0f Å: the mask is cut to the box; set a "
                  "smaller diameter, or extract with a larger box",
                  s->options.diameter, dataset_whole_box(s->dataset), side);
}

/* The batch that came first in the last run, whose grid is that of its averages, need not come first again. */
static void keep_grid(struct stage *stage, struct state *s, int last) {
    int box;
    double pixel_size;
    if (last > 0 && snapshot_grid(stage_folder(stage), last, &box, &pixel_size, NULL) == STATUS_OK)
        dataset_keep_grid(s->dataset, box, pixel_size);
}

/* Restores the state of the last run, once, before the first step. */
static enum status restore(struct stage *stage, struct state *s, struct err *err) {
    if (s->restored) return STATUS_OK;
    int last = s->resumed ? snapshot_last(stage_folder(stage), INT_MAX) : 0;
    keep_grid(stage, s, last);
    TRY(dataset_merge(s->dataset, NULL, err));
    if (dataset_count(s->dataset) == 0) return STATUS_OK;
    struct snapshot snapshot = {0};
    if (last > 0) TRY(restore_latest(stage, s, last, &snapshot, err));
    s->restored = true;
    warn_of_mask(stage, s);
    s->iteration = last;
    s->last_time = clock_monotonic() - 1e6; /* the first snapshot is due at once */
    if (snapshot.iteration == 0) return STATUS_OK;
    stage_log(stage, LOG_INFO, "restored", "continues from iteration %d with %zu particles", snapshot.iteration,
              dataset_count(s->dataset));
    s->last_count = dataset_count(s->dataset);
    s->last_time = clock_monotonic();
    s->last_updates = s->classifier.updates;
    s->chosen = snapshot.change;
    /* The last run may have ended before it sent the selection. The harness does not send a known selection again. */
    return snapshot.kept > 0 ? emit(stage, s, &snapshot, err) : STATUS_OK;
}

/* Averages of pure noise have an evidence of 10 to 15 at most, because each image is part of its own average. Quality
 * compares classes with each other, so that quality alone does not show that all classes are bad. */
static const double WEAK_EVIDENCE = 20;

static void warn_if_weak(struct stage *stage, const struct model *m) {
    double sum = 0, members = 0;
    for (int k = 0; k < m->class_count; k++)
        if (m->classes[k].kept) {
            sum += m->classes[k].evidence * m->classes[k].members;
            members += m->classes[k].members;
        }
    if (members > 0 && sum / members < WEAK_EVIDENCE)
        stage_log(
            stage, LOG_WARN, "weak",
            "the classes explain their particles hardly better than averages of noise (evidence %.1f, less than %g): "
            "look at the picture of the classes before you trust the selection",
            sum / members, WEAK_EVIDENCE);
}

/* No class is much better than all others where the selection is worth anything. */
static const double POOR_QUALITY = 0.2;

static void warn_if_poor(struct stage *stage, const struct model *m, int iteration) {
    double best = quality_best(m);
    if (best < POOR_QUALITY)
        stage_log(stage, LOG_WARN, "poor",
                  "iteration %d: the best class has a quality of %.2f, less than %g: no class stands out; check the "
                  "picks, the diameter and the contrast",
                  iteration, best, POOR_QUALITY);
}

/* Logs once which particles are resampled, and whose optics are corrected. */
static void tell_of_optics(struct stage *stage, struct state *s) {
    const struct optics_aberrations *aberrations = NULL;
    char name[256];
    int box = 0;
    double pixel_size = 0;
    size_t resampled = dataset_resampled(s->dataset, &box, &pixel_size);
    size_t corrected = dataset_corrected(s->dataset, &aberrations);
    if (resampled > 0 && !s->told_of_grids)
        stage_log(stage, LOG_WARN, "resampled",
                  "%zu of %zu particles have another box or pixel size (such as %d px of %.4g Å), and are resampled to "
                  "the %d px of %.4g Å of the classification",
                  resampled, dataset_count(s->dataset), box, pixel_size, dataset_whole_box(s->dataset),
                  dataset_whole_pixel_size(s->dataset));
    if (corrected > 0 && !s->told_of_optics)
        stage_log(stage, LOG_INFO, "optics", "the optics of %zu of %zu particles are corrected: %s", corrected,
                  dataset_count(s->dataset), optics_aberrations_name(aberrations, name, sizeof name));
    const char *mtf = dataset_missing_mtf(s->dataset);
    if (mtf != NULL && !s->told_of_mtf)
        stage_log(
            stage, LOG_WARN, "mtf",
            "the MTF %s (rlnMtfFileName) is not beside its table, nor in the session or the working directory, is "
            "no table with rlnResolutionInversePixel and rlnMtfValue, or rlnMicrographOriginalPixelSize is "
            "missing: images of its detector are not made like those of others",
            mtf);
    s->told_of_mtf = mtf != NULL;
    s->told_of_grids = resampled > 0;
    s->told_of_optics = corrected > 0;
}

static void warn_of_defocus(struct stage *stage, struct state *s) {
    size_t count = dataset_count(s->dataset), low = 0, negative = 0;
    for (size_t i = 0; i < count; i++) {
        const struct dataset_particle *p = dataset_at(s->dataset, i);
        enum ctf_doubt doubt = p->has_ctf ? ctf_doubt(&p->ctf) : CTF_USUAL;
        low += doubt == CTF_DEFOCUS_LOW;
        negative += doubt == CTF_DEFOCUS_NEGATIVE;
    }
    char text[CTF_DOUBT_SIZE];
    bool warn_low = ctf_doubt_text(CTF_DEFOCUS_LOW, low, count, text, sizeof text);
    if (warn_low && !s->warned_of_low_defocus) stage_log(stage, LOG_WARN, "defocus", "%s", text);
    bool warn_negative = ctf_doubt_text(CTF_DEFOCUS_NEGATIVE, negative, count, text, sizeof text);
    if (warn_negative && !s->warned_of_negative_defocus) stage_log(stage, LOG_WARN, "defocus", "%s", text);
    s->warned_of_low_defocus |= warn_low;
    s->warned_of_negative_defocus |= warn_negative;
}

/* Logs, once, that images are normalised in memory, or cannot be. */
static void warn_of_background(struct stage *stage, struct state *s) {
    const char *reason = dataset_background(s->dataset);
    if (strcmp(reason, s->background) == 0) return;
    stage_log(stage, LOG_WARN, "background", "%s", reason);
    snprintf(s->background, sizeof s->background, "%s", reason);
}

/* Logs defects of particles that make averages worse without being visible in them. */
static void warn_of_particles(struct stage *stage, struct state *s) {
    size_t count = dataset_count(s->dataset), unusable = 0, without_ctf = 0;
    for (size_t i = 0; i < count; i++) {
        unusable += dataset_at(s->dataset, i)->unusable;
        without_ctf += !dataset_at(s->dataset, i)->has_ctf;
    }
    warn_of_defocus(stage, s);
    if (unusable > s->unusable)
        stage_log(
            stage, LOG_WARN, "images",
            "%zu of %zu images are ignored: NaN or infinite pixels, or more than 100 times stronger than the median "
            "image",
            unusable, count);
    if (without_ctf > 0 && !s->warned_of_ctf)
        stage_log(stage, LOG_WARN, "ctf",
                  "%zu of %zu particles have no CTF (rlnDefocusU): their images are not corrected for a CTF",
                  without_ctf, count);
    s->unusable = unusable;
    s->warned_of_ctf = without_ctf > 0;
    tell_of_optics(stage, s);
}

/* Logs why the selection is empty. */
static void warn_if_none(struct stage *stage, const struct state *s, const struct classifier *copy,
                         const struct snapshot *snapshot) {
    char why[400];
    size_t count = dataset_count(copy->dataset);
    if (snapshot->kept > 0 || count == 0) return;
    if (snapshot->kept_classes > 0)
        snprintf(why, sizeof why,
                 "%d classes are kept, but all their particles are left out, by hand or because they lie farther from "
                 "their picks than `off_centre` allows",
                 snapshot->kept_classes);
    else
        quality_explain(copy->model, copy->dataset, s->options.keep != NULL ? s->options.keep : "auto", why,
                        sizeof why);
    stage_log(stage, LOG_WARN, "none", "iteration %d keeps none of %zu particles: %s", snapshot->iteration, count, why);
}

/* Writes templates for the picker, if the classes of the snapshot give new ones. */
static enum status write_templates(struct stage *stage, struct state *s, const struct classifier *copy,
                                   const struct snapshot *snapshot, struct err *err) {
    int count = 0;
    enum status status;
    STAGE_PERSIST(stage, status, err,
                  template_writer_step(&s->templates, copy, snapshot, stage_name(stage), &count, err));
    if (status == STATUS_OK && count > 0)
        stage_log(stage, LOG_INFO, "templates", "iteration %d: %d classes are templates of epoch %d",
                  snapshot->iteration, count, s->templates.epoch);
    return status;
}

/* Says what a snapshot holds. */
static void tell_snapshot(struct stage *stage, const struct snapshot *snapshot, size_t particles) {
    if (snapshot->kept_by_hand + snapshot->left_by_hand > 0)
        stage_log(stage, LOG_INFO, "by-hand", "iteration %d: by hand %zu more particles are kept, and %zu left out",
                  snapshot->iteration, snapshot->kept_by_hand, snapshot->left_by_hand);
    stage_log(stage, LOG_INFO, "classes", "iteration %d: %zu of %zu particles in %d of %d classes are kept%s",
              snapshot->iteration, snapshot->kept, particles, snapshot->kept_classes, snapshot->classes,
              snapshot->final ? "; final" : "");
    static const char *const files[] = {"latest_selected.star", "latest_classes.mrcs", "latest_classes.png", NULL};
    stage_result(stage, files, "%d of %d classes kept, with %zu of %zu particles (%.0f %%)", snapshot->kept_classes,
                 snapshot->classes, snapshot->kept, particles, 100 * (double)snapshot->kept / (double)particles);
}

/* Begins a snapshot. Its files are written while the classification goes on. */
static enum status take_snapshot(struct stage *stage, struct state *s, bool final, struct err *err) {
    s->iteration++;
    const struct snapshot snapshot = describe(stage, s, final);
    TRY(snapshot_writer_begin(s->writer, &s->classifier, &snapshot, err));
    s->last_time = clock_monotonic();
    s->last_count = dataset_count(s->dataset);
    s->last_updates = s->classifier.updates;
    s->chosen = s->choices != NULL ? choices_number(s->choices) : 0;
    return STATUS_OK;
}

/* Tells of a snapshot whose files are written, and sends its selection. If they could not be written, another snapshot
 * is due. */
static enum status end_snapshot(struct stage *stage, struct state *s, struct err *err) {
    const struct snapshot *snapshot = NULL;
    struct classifier *copy = NULL;
    enum status status = snapshot_writer_end(s->writer, &snapshot, &copy, err);
    if (status == STATUS_OK) status = write_templates(stage, s, copy, snapshot, err);
    if (status != STATUS_OK) {
        s->last_time = clock_monotonic() - 1e6;
        s->last_updates = -1;
        return status;
    }
    if (s->iteration > KEPT_SNAPSHOTS) snapshot_remove(snapshot, s->iteration - KEPT_SNAPSHOTS, false);
    if (s->iteration > KEPT_SELECTIONS) snapshot_remove(snapshot, s->iteration - KEPT_SELECTIONS, true);
    tell_snapshot(stage, snapshot, dataset_count(copy->dataset));
    warn_of_particles(stage, s);
    warn_if_poor(stage, copy->model, snapshot->iteration);
    warn_if_none(stage, s, copy, snapshot);
    if (snapshot->final) warn_if_weak(stage, copy->model);
    return snapshot->kept > 0 ? emit(stage, s, snapshot, err) : STATUS_OK;
}

/* Logs, once, why the classification takes longer. */
static void warn_if_on_host(struct stage *stage, struct state *s) {
    const struct model *m = s->classifier.model;
    if (!s->warned_of_averages && s->options.device.kind == DEVICE_CUDA && !m->placed)
        stage_log(stage, LOG_WARN, "averages-on-host",
                  "the averages of up to %d classes of %d px do not fit on the device beside the particles and are "
                  "made on the host, which takes longer; a larger `memory` or fewer classes make room",
                  m->options.class_capacity, m->options.box);
    s->warned_of_averages = true;
}

static void note(struct stage *stage, struct state *s) {
    const struct classifier *c = &s->classifier;
    if (c->model == NULL) {
        stage_note(stage, "%zu particles, begins with %d", dataset_count(s->dataset), c->options.minimum_particles);
        return;
    }
    const struct model *m = c->model;
    warn_of_background(stage, s);
    double length = m->options.box * m->options.pixel_size;
    warn_if_on_host(stage, s);
    double resolution = length / (m->current_shell > 0 ? m->current_shell : 1);
    char scratch[SCRATCH_NOTE_SIZE];
    scratch_note(&s->scratch, scratch);
    stage_note(stage, "update %d, %zu particles, %d classes, %.1f Å%s", c->updates, dataset_count(s->dataset),
               m->class_count, resolution, scratch);
    stage_resolution(stage, resolution);
}

/* Sends a selection as soon as its files are written. Without other work, waits for that. */
static enum status look_at_writer(struct stage *stage, struct state *s, enum stage_work *ret_work, struct err *err) {
    const double wait = *ret_work == STAGE_WORK_NONE ? 0.1 : 0; /* s; particles may come meanwhile */
    *ret_work = STAGE_WORK_MORE;
    return snapshot_writer_done(s->writer, wait) ? end_snapshot(stage, s, err) : STATUS_OK;
}

static enum status idle(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    struct state *s = state;
    struct classifier *c = &s->classifier;
    struct classifier_progress progress;
    TRY(restore(stage, s, err));
    scratch_look(&s->scratch, stage);
    if (c->model != NULL) stage_doing(stage, "computing update %d", c->updates + 1);
    TRY(classifier_step(c, false, &progress, err));
    *ret_work = progress.more ? STAGE_WORK_MORE : STAGE_WORK_NONE;
    if (progress.updated || (!progress.more && c->model == NULL)) note(stage, s);
    if (snapshot_writer_busy(s->writer)) return look_at_writer(stage, s, ret_work, err);
    look_at_choices(stage, s);
    if (c->model == NULL || c->updates < FIRST_SNAPSHOT_UPDATE) return STATUS_OK;
    bool chosen = s->iteration > 0 && s->choices != NULL && choices_number(s->choices) != s->chosen;
    if (c->updates == s->last_updates && !chosen) return STATUS_OK;
    if (chosen && c->restored) {
        classifier_review(c);
        *ret_work = STAGE_WORK_MORE;
        return STATUS_OK;
    }
    size_t count = dataset_count(s->dataset);
    bool rested = !progress.more; /* no new particles, and all had their share of visits */
    bool grown = (double)count >= 1.05 * (double)s->last_count && (double)c->first_unseen >= 0.9 * (double)count;
    /* Snapshots of better averages without more particles are written less often. */
    double due = s->last_time + s->options.snapshot_interval * (grown || chosen ? 1 : 6), now = clock_monotonic();
    if ((rested || ((grown || chosen) && progress.updated)) && now >= due) {
        TRY(take_snapshot(stage, s, false, err));
        *ret_work = STAGE_WORK_MORE;
    }
    return STATUS_OK;
}

static enum status finish(struct stage *stage, struct state *s, struct err *err) {
    TRY(restore(stage, s, err));
    if (snapshot_writer_busy(s->writer)) TRY(end_snapshot(stage, s, err));
    TRY(dataset_merge(s->dataset, NULL, err));
    look_at_choices(stage, s);
    bool chosen = s->choices != NULL && choices_number(s->choices) != s->chosen;
    if (s->finished > 0 && s->finished == dataset_count(s->dataset) && !chosen) return STATUS_OK;
    struct classifier_progress progress = {.more = true};
    while (progress.more) {
        scratch_look(&s->scratch, stage);
        if (stage_stopping(stage)) FAIL(err, STATUS_CANCELLED, "stopped before the final passes were complete");
        if (s->classifier.model != NULL) stage_doing(stage, "computing update %d", s->classifier.updates + 1);
        TRY(classifier_step(&s->classifier, true, &progress, err));
        if (progress.updated) note(stage, s);
    }
    if (s->classifier.model == NULL) {
        stage_log(stage, LOG_WARN, "no-particles", "the stream ended without a particle");
        return STATUS_OK;
    }
    TRY(take_snapshot(stage, s, true, err));
    return end_snapshot(stage, s, err);
}

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    TRY(finish(stage, s, err));
    s->ended = true;
    return STATUS_OK;
}

const struct stage_descriptor classifier_stage = {
    .name = "classifier",
    .summary = "2D class averages of a growing set of particles, and which particles go on",
    .in = "particles",
    .out = "selection",
    .params = classifier_parameters,
    .param_count = CLASSIFIER_PARAMETERS,
    .params_size = sizeof(struct classifier_options),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .revisions = true,
    .cumulative = true,
    .cuda = true,
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
