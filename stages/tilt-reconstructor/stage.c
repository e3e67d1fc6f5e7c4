/* What the harness calls. A stack, or an .mdoc, is a whole series: read, made and written like any item. A single tilt
 * joins its series; what comes of that is made in idle, and what is left at the end of the stream. */
#include "stages/tilt-reconstructor/stage.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "stages/tilt-reconstructor/live.h"
#include "stages/tilt-reconstructor/tables.h"

struct state {
    struct settings *settings;
    struct job_plan plan; /* the compute thread's */
    struct live *live;
};

struct lane {
    struct job job;
    struct projections_source source; /* of a single tilt */
    bool single;
    char id[PATH_SIZE], path[PATH_SIZE]; /* of the series; of the tilt */
    struct arrival arrival;
    uint64_t fingerprint;
};

static bool go_on(void *context, int iteration, double residual) {
    struct stage *stage = context;
    if (isnan(residual))
        stage_note(stage, "some of the rows, iteration %d", iteration);
    else
        stage_note(stage, "iteration %d, residual %.4g", iteration, residual);
    return !stage_stopping(stage);
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    TRY(settings_create(stage, &s->settings, err));
    s->settings->job.tomography.go_on = go_on;
    s->settings->job.tomography.context = stage;
    return live_create(stage, s->settings, &s->plan, &s->live, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    live_destroy(&s->live);
    job_plan_clear(&s->plan);
    settings_destroy(&s->settings);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct lane *lane = stage_lane->state;
    job_clear(&lane->job);
    projections_source_clear(&lane->source);
}

/* A number that an item may have from anywhere. */
static int count_of(const struct item *item, const char *member) {
    double value = item_number(item, member, 0);
    return value >= 0 && value <= TILTS_MAX ? (int)value : 0;
}

/* Where the item says which tilt of which series it is: the watcher does, or the .mdoc that was given. */
static enum status find_tilt(const struct settings *settings, const struct item *item, struct arrival *ret_arrival,
                             char id[PATH_SIZE], bool *ret_single, struct err *err) {
    const char *series = item_string(item, "tilt.series"), *path;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    *ret_single = true;
    *ret_arrival = (struct arrival){.pixel_size = item_number(item, "optics.pixel_size", NAN),
                                    .spacing = item_number(item, "tilt.pixel_size", NAN),
                                    .time = item_number(item, "tilt.time", NAN),
                                    .tilt_axis = item_number(item, "tilt.axis", NAN)};
    if (series != NULL) {
        TRY(item_need_number(item, "tilt.angle", &ret_arrival->angle, err));
        ret_arrival->number = count_of(item, "tilt.number");
        ret_arrival->taken = count_of(item, "tilt.taken");
        snprintf(id, PATH_SIZE, "%s", series);
        return STATUS_OK;
    }
    int found = settings->mdoc_id != NULL && !mdoc_is_name(path) ? mdoc_find(&settings->mdoc, path) : -1;
    if (found >= 0 && item_number(item, "micrograph.nz", 1) <= 1) {
        const struct mdoc_tilt *tilt = &settings->mdoc.tilts[found];
        ret_arrival->angle = tilt->angle;
        ret_arrival->number = tilt->z + 1;
        ret_arrival->taken = found;
        ret_arrival->time = tilt->time;
        ret_arrival->spacing = settings->mdoc.pixel_size;
        ret_arrival->tilt_axis = settings->mdoc.tilt_axis;
        if (isnan(ret_arrival->pixel_size)) ret_arrival->pixel_size = settings->mdoc.pixel_size;
        snprintf(id, PATH_SIZE, "%s", settings->mdoc_id);
        return STATUS_OK;
    }
    *ret_single = false;
    mdoc_series_name(item_id(item), id, PATH_SIZE);
    return STATUS_OK;
}

static enum status check_angle(const char *path, double angle, struct err *err) {
    FAIL_IF(!isfinite(angle), err, STATUS_BAD_FORMAT, "%s: its tilt angle is no number", path);
    FAIL_IF(fabs(angle) > TILT_ANGLE_MAX, err, STATUS_BAD_FORMAT, "%s: a tilt of %g° lies beyond ±90°", path, angle);
    return STATUS_OK;
}

/* A mask of another size is found before the series has come. */
static enum status check_mask(const struct job_settings *settings, struct lane *lane, const struct image_info *info,
                              struct err *err) {
    struct tilt tilt = {.path = lane->path};
    const struct series series = {.name = lane->id,
                                  .nx = info->nx,
                                  .ny = info->ny,
                                  .tilt_axis = lane->arrival.tilt_axis,
                                  .count = 1,
                                  .tilts = &tilt};
    return job_check_mask(settings, &series, err);
}

/* All pixels are looked at, so that a broken image fails, and not its series. */
static enum status load_single(struct stage *stage, const struct job_settings *settings, struct lane *lane,
                               struct err *err) {
    const struct settings_params *p = stage_params(stage);
    struct image_info info;
    FAIL_IF(
        p->transforms != NULL, err, STATUS_BAD_ARGUMENT,
        "%s: transforms %s go with the images of a stack, and this is a single image of its series: make a stack of "
        "them, or leave transforms out (align: coarse finds shifts)",
        lane->path, p->transforms);
    TRY(check_angle(lane->path, lane->arrival.angle, err));
    TRY(image_probe(lane->path, &info, err));
    FAIL_IF(info.nz != 1, err, STATUS_UNSUPPORTED,
            "%s holds %d images: a file of frames must go through a motion corrector first", lane->path, info.nz);
    TRY(check_mask(settings, lane, &info, err));
    struct tilt tilt = {.path = lane->path, .angle = lane->arrival.angle, .number = lane->arrival.number};
    TRY(projections_check(&tilt, info.nx, info.ny, &lane->source, err));
    if (isnan(lane->arrival.pixel_size) && info.pixel_size > 0) lane->arrival.pixel_size = info.pixel_size;
    lane->arrival.nx = info.nx;
    lane->arrival.ny = info.ny;
    lane->arrival.series = lane->id;
    lane->arrival.path = lane->path;
    return STATUS_OK;
}

/* The .xf beside a stack, where `transforms: beside` was said. */
static enum status transforms_beside(const char *stack, char out[PATH_SIZE], struct err *err) {
    char stem[PATH_SIZE];
    TRY(path_without_ending(stack, stem, sizeof stem, err));
    int used = snprintf(out, PATH_SIZE, "%s.xf", stem);
    FAIL_IF(used >= PATH_SIZE || !file_exists(out), err, STATUS_NOT_FOUND,
            "%s: there is no %s.xf beside it, where transforms: beside expects its transforms", stack, path_name(stem));
    return STATUS_OK;
}

static enum status read_series(struct stage *stage, const char *path, const bool *exclude, struct series *ret_series,
                               struct err *err) {
    const struct settings_params *p = stage_params(stage);
    char transforms[PATH_SIZE];
    struct series_files files = {
        .tilts = p->tilts, .transforms = p->transforms, .images = p->images, .exclude = exclude};
    if (p->transforms != NULL && strcmp(p->transforms, "beside") == 0) {
        TRY(transforms_beside(path, transforms, err));
        files.transforms = transforms;
    }
    return series_read(path, &files, ret_series, err);
}

/* A single image in the folder, but not of the series whose .mdoc was given. */
static enum status refuse_stranger(const char *path, const struct mdoc *mdoc, const char *tilts, struct err *err) {
    struct image_info info;
    const char *first = NULL;
    TRY(image_probe(path, &info, err));
    for (int i = 0; i < mdoc->count && first == NULL; i++)
        first = mdoc->tilts[i].file;
    FAIL_IF(info.nz == 1 && first != NULL, err, STATUS_BAD_FORMAT,
            "%s names no %s (its first tilt is %s): it is not of that series; leave it out of the folder", tilts,
            path_name(path), mdoc_file_name(first));
    return STATUS_OK;
}

static enum status load_series(struct stage *stage, const struct state *s, struct lane *lane, const struct item *item,
                               struct err *err) {
    const struct settings_params *p = stage_params(stage);
    _cleanup_(series_clear) struct series series = {0};
    const bool *exclude = s->settings->job.exclude;
    if (s->settings->mdoc_id != NULL && !mdoc_is_name(lane->path))
        TRY(refuse_stranger(lane->path, &s->settings->mdoc, p->tilts, err));
    TRY(read_series(stage, lane->path, exclude, &series, err));
    for (int i = 0; i < series.count; i++)
        if (!series_excludes(exclude, series.tilts[i].number)) TRY(stage_may_read(stage, series.tilts[i].path, err));
    double known = item_number(item, "optics.pixel_size", NAN);
    if (known > 0) series.pixel_size = known;
    lane->fingerprint = job_fingerprint(&s->settings->job, &series);
    return job_read(&s->settings->job, &series, true, &lane->job, err);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct state *s = state;
    struct lane *lane = stage_lane->state;
    const char *path;
    TRY(find_tilt(s->settings, stage_lane->item, &lane->arrival, lane->id, &lane->single, err));
    TRY(item_need_string(stage_lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, lane->path, err));
    return lane->single ? load_single(stage, &s->settings->job, lane, err)
                        : load_series(stage, s, lane, stage_lane->item, err);
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)stage;
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    return lane->single ? STATUS_OK : job_make(&s->settings->job, &s->plan, &lane->job, err);
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    struct product_paths paths;
    if (lane->single) {
        lane->arrival.item = item_id(stage_lane->item);
        return live_submit(s->live, &lane->arrival, err);
    }
    TRY(product_paths_of(stage, lane->id, false, &paths, err));
    TRY(products_write(&s->settings->job, &lane->job, &paths.products, lane->fingerprint, err));
    live_tell(stage, lane->id, &lane->job);
    return live_announce(s->live, lane->id, lane->job.series.count, lane->job.series.pixel_size * s->settings->job.bin,
                         err);
}

/* The item says it; one of an older session may not, and then its file does. */
static enum status find_size(const struct item *item, const char *path, struct arrival *arrival, struct err *err) {
    double nx = item_number(item, "micrograph.nx", 0), ny = item_number(item, "micrograph.ny", 0);
    struct image_info info;
    if (nx >= 1 && ny >= 1 && nx <= INT_MAX && ny <= INT_MAX) {
        arrival->nx = (int)nx;
        arrival->ny = (int)ny;
        return STATUS_OK;
    }
    TRY(image_probe(path, &info, err));
    if (isnan(arrival->pixel_size) && info.pixel_size > 0) arrival->pixel_size = info.pixel_size;
    arrival->nx = info.nx;
    arrival->ny = info.ny;
    return STATUS_OK;
}

/* A tilt joins its series again without being read: its file may be elsewhere once the tomogram is made. A tomogram is
 * announced again, which does nothing where it was. */
static enum status rejoin(struct stage *stage, struct state *s, const struct item *item, bool failed, struct err *err) {
    struct arrival arrival;
    bool single;
    char id[PATH_SIZE], absolute[PATH_SIZE];
    const char *path;
    if (strcmp(item_kind(item), "tomogram") == 0) return STATUS_OK; /* what this stage has sent itself */
    TRY(find_tilt(s->settings, item, &arrival, id, &single, err));
    if (!single) return STATUS_OK;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    enum status status = stage_resolve(stage, path, absolute, err);
    bool away = status == STATUS_NOT_FOUND || status == STATUS_UNAVAILABLE;
    arrival.gone = status == STATUS_NOT_FOUND || (status == STATUS_OK && !file_exists(absolute));
    if (away) status = path_join(stage_root(stage), path, absolute, sizeof absolute, err);
    TRY(status);
    TRY(find_size(item, absolute, &arrival, err));
    arrival.series = id;
    arrival.path = absolute;
    arrival.item = item_id(item);
    arrival.failed = failed;
    return live_submit(s->live, &arrival, err);
}

static enum status resume(struct stage *stage, void *state, const struct item *item, struct err *err) {
    return rejoin(stage, state, item, false, err);
}

static enum status resume_failed(struct stage *stage, void *state, const struct item *item, struct err *err) {
    return rejoin(stage, state, item, true, err);
}

static enum status idle(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    (void)stage;
    return live_step(((struct state *)state)->live, false, ret_work, err);
}

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    enum stage_work work;
    do
        TRY(live_step(s->live, true, &work, err));
    while (work == STAGE_WORK_MORE && !stage_stopping(stage));
    return STATUS_OK;
}

struct table_context {
    struct stage *stage;
    const struct state *state;
    struct tomogram_table *table;
};

static enum status add_row(const struct item *item, void *context, struct err *err) {
    const struct table_context *c = context;
    struct arrival arrival;
    struct product_paths paths;
    bool single;
    char id[PATH_SIZE];
    if (strcmp(item_kind(item), "tomogram") == 0) return STATUS_OK;
    TRY(find_tilt(c->state->settings, item, &arrival, id, &single, err));
    TRY(product_paths_of(c->stage, id, false, &paths, err));
    return tomogram_table_add(c->table, id, paths.record, paths.relative, err);
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    _cleanup_(tomogram_table_destroy) struct tomogram_table *table = NULL;
    char path[PATH_SIZE];
    TRY(tomogram_table_create(&table, err));
    struct table_context context = {stage, state, table};
    TRY(stage_each_done(stage, add_row, &context, err));
    TRY(path_join(stage_folder(stage), "tomograms.star", path, sizeof path, err));
    return tomogram_table_write(table, path, err);
}

const struct stage_descriptor tilt_reconstructor_stage = {
    .name = "tilt-reconstructor",
    .summary = "tomograms from tilt series (SIRT or weighted back-projection), with previews while tilts are collected",
    .in = "micrograph",
    .out = "tomogram",
    .params = settings_table,
    .param_count = SETTINGS_PARAM_COUNT,
    .params_size = sizeof(struct settings_params),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .lanes = 2,
    .load_threads = 1,
    .store_threads = 1,
    .cuda = true,
    .takes =
        "a stack (.st, .mrc; several with commas), an .mdoc that names a stack or single images, a folder of stacks,\n"
        "             or with --tilts TS.mdoc one of single images",
    .cumulative = true,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .resume = resume,
    .resume_failed = resume_failed,
    .load = load,
    .process = process,
    .store = store,
    .idle = idle,
    .flush = flush,
    .summarise = summarise,
};
