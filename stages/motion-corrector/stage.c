/* The motion-corrector as a stage: the callbacks that the harness runs for each movie, and the descriptor. */
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/harness/item_optics.h"
#include "common/harness/micrograph_table.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "common/text.h"
#include "kernels/gain_residual/gain_residual.h"
#include "stages/motion-corrector/estimate.h"
#include "stages/motion-corrector/frames.h"
#include "stages/motion-corrector/motion_corrector.h"
#include "stages/motion-corrector/parameters.h"
#include "stages/motion-corrector/products.h"
#include "stages/motion-corrector/reference.h"

/* Pixel sizes of movies, Å. Spectra end at 2.8 Å: of finer pixels, too few frequencies would be left. */
static const double PIXEL_MIN = 0.05, PIXEL_MAX = 50;

struct state {
    struct references references;
    struct motion_corrector *corrector; /* of the shape that came last */
    struct estimate estimate;           /* with estimate_gain, instead */
    atomic_bool told_no_dose;
};

struct lane {
    struct frames frames;
    struct reference *reference;
    struct exposure exposure;
    struct optics optics; /* of the movie's pixels */
    struct hot_pixels hot;
    struct corrected corrected;
};

static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    const struct motion_corrector_options *o = params;
    const double *patches = o->patches.values;
    if (o->eer_upsampling == 3)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "eer_upsampling", "eer_upsampling is 3: 1, 2 or 4 is expected");
    if (o->last_frame != INT_MIN && o->last_frame <= o->first_frame)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "last_frame",
                         "first_frame is %d and last_frame %d: at least two frames are needed to find motion",
                         o->first_frame, o->last_frame);
    if (o->patches.count == 2 && (patches[0] != round(patches[0]) || patches[1] != round(patches[1])))
        stage_checks_add(checks, STAGE_CHECK_ERROR, "patches", "patches are %g × %g: whole numbers are expected",
                         patches[0], patches[1]);
    if (o->estimate_gain && o->gain != NULL)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "estimate_gain",
                         "estimate_gain makes a gain reference, and gain names one: give one of the two");
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    const struct motion_corrector_options *o = stage_params(stage);
    if (o->estimate_gain)
        TRY(estimate_check(stage, err));
    else if (o->gain == NULL)
        stage_log(
            stage, LOG_WARN, "no-gain",
            "there is no gain reference, so frames are used as they are: right only for movies that the camera has "
            "corrected already. Set `gain`, or make one of the session's movies with "
            "icestream-motion-corrector --estimate-gain");
    return references_init(&s->references, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    motion_corrector_destroy(&s->corrector);
    estimate_clear(&s->estimate);
    references_clear(&s->references);
}

static void release_lane(struct lane *lane) {
    frames_clear(&lane->frames);
    corrected_clear(&lane->corrected);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct lane *lane = stage_lane->state;
    release_lane(lane);
    hot_pixels_clear(&lane->hot);
}

static void release(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage;
    struct state *s = state;
    if (stage_lane == NULL)
        motion_corrector_destroy(&s->corrector);
    else
        release_lane(stage_lane->state);
}

static struct frames_task reading(const struct stage *stage) {
    const struct motion_corrector_options *o = stage_params(stage);
    return (struct frames_task){
        .movie = {.eer_group = o->eer_grouping, .eer_level = o->eer_upsampling == 4 ? 2 : o->eer_upsampling - 1},
        .first = o->first_frame,
        .last = o->last_frame,
        .threads = stage_threads(stage) > 0 ? stage_threads(stage) : 1,
        .device = *stage_device(stage)};
}

/* The dose of a frame of the movie. Items count the frames of a file, and of EER those of the detector. */
static double dose_of(const struct motion_corrector_options *o, const struct item *item,
                      const struct movie_info *info) {
    if (!isnan(o->dose_per_frame)) return o->dose_per_frame;
    return item_number(item, "movie.dose_per_frame", NAN) * (info->format == MOVIE_EER ? o->eer_grouping : 1);
}

/* Collects how a movie was taken. The pixel size of session and item is that of the detector's pixels. */
static enum status find_exposure(const struct stage *stage, const struct item *item, const struct movie_info *info,
                                 const char *path, struct optics *optics, struct exposure *exposure, struct err *err) {
    const struct motion_corrector_options *o = stage_params(stage);
    int finer = info->format == MOVIE_EER ? o->eer_upsampling : 1;
    *optics = item_optics(item, stage_session(stage));
    optics->pixel_size = optics->pixel_size > 0 ? optics->pixel_size / finer : (double)info->pixel_size;
    FAIL_IF(!(optics->pixel_size >= PIXEL_MIN) || optics->pixel_size > PIXEL_MAX, err, STATUS_BAD_ARGUMENT,
            "%s: a pixel size of %g to %g Å is needed (it is %g): set session.pixel_size", path, PIXEL_MIN, PIXEL_MAX,
            optics->pixel_size);
    *exposure = (struct exposure){.pixel_size = optics->pixel_size,
                                  .voltage = optics->voltage,
                                  .dose_per_frame = dose_of(o, item, info),
                                  .pre_exposure = isnan(o->pre_exposure) ? item_number(item, "movie.pre_exposure", 0)
                                                                         : o->pre_exposure,
                                  .first_frame = o->first_frame};
    return STATUS_OK;
}

static enum status need(struct stage *stage, void *state, const struct stage_lane *stage_lane,
                        struct stage_need *ret_need, struct err *err) {
    (void)state;
    const struct motion_corrector_options *o = stage_params(stage);
    const struct frames_task task = reading(stage);
    _cleanup_(movie_close) struct movie *movie = NULL;
    struct exposure exposure;
    struct optics optics;
    const char *path = NULL;
    char absolute[PATH_MAX];
    int count, nx, ny;
    TRY(item_need_string(stage_lane->item, "movie.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(movie_open(absolute, &task.movie, &movie, err));
    const struct movie_info *info = movie_info(movie);
    TRY(frames_count(path, info, &task, &count, err));
    size_t frame = mem_bytes((size_t)info->nx * (size_t)info->ny, movie_pixel_bytes(info->pixels));
    ret_need->lane = mem_bytes((size_t)count, frame);
    ret_need->shared = gain_estimate_bytes(info->nx, info->ny);
    if (o->estimate_gain) return STATUS_OK;
    TRY(find_exposure(stage, stage_lane->item, info, path, &optics, &exposure, err));
    const struct motion_corrector_task corrector = {.options = o,
                                                    .nx = info->nx,
                                                    .ny = info->ny,
                                                    .frames = count,
                                                    .pixels = (enum motion_pixels)info->pixels,
                                                    .threads = task.threads,
                                                    .device = task.device};
    motion_sum_size(info->nx, info->ny, o->bin, &nx, &ny);
    int sums = 1 + (exposure.dose_per_frame > 0) + 2 * o->half_sets;
    ret_need->lane = mem_sum(ret_need->lane, image_bytes(nx, ny, sums));
    ret_need->shared = mem_sum(motion_corrector_bytes(&corrector, &exposure), reference_bytes(o, info->nx, info->ny));
    return STATUS_OK;
}

static void tell_no_dose(struct stage *stage, struct state *s) {
    if (!atomic_exchange(&s->told_no_dose, true))
        stage_log(stage, LOG_WARN, "no-dose",
                  "nothing tells the dose of a frame, so micrographs are plain sums without dose weights: set "
                  "`dose_per_frame` (e⁻/Å²; logged once)");
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    const struct motion_corrector_options *o = stage_params(stage);
    const struct item *item = stage_lane->item;
    const struct frames_task task = reading(stage);
    struct frames *frames = &lane->frames;
    const char *path = NULL;
    char absolute[PATH_MAX];
    TRY(item_need_string(item, "movie.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(frames_read(absolute, &task, frames, err));
    const struct movie_info *info = &frames->info;
    stage_lane->shape[0] = info->nx;
    stage_lane->shape[1] = info->ny;
    stage_lane->shape[2] = 4 * frames->data.count + (int)info->pixels;
    if (o->estimate_gain) return STATUS_OK;
    TRY(find_exposure(stage, item, info, path, &lane->optics, &lane->exposure, err));
    if (!(lane->exposure.dose_per_frame > 0) && o->dose_per_frame != 0) tell_no_dose(stage, s);
    TRY(references_need(&s->references, o, info->nx, info->ny, info->format == MOVIE_EER, &lane->reference, err));
    TRY(reference_apply(lane->reference, o, task.threads, text_hash(item_id(item)), &frames->data, &lane->hot, err));
    lane->corrected.gain_residual = gain_residual(&frames->data);
    return STATUS_OK;
}

static enum status reconfigure(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct lane *lane = stage_lane->state;
    const struct motion_frames *frames = &lane->frames.data;
    struct state *s = state;
    const struct motion_corrector_options *o = stage_params(stage);
    if (o->estimate_gain) return STATUS_OK;
    motion_corrector_destroy(&s->corrector);
    const struct motion_corrector_task task = {.options = o,
                                               .nx = frames->nx,
                                               .ny = frames->ny,
                                               .frames = frames->count,
                                               .pixels = frames->pixels,
                                               .threads = stage_threads(stage),
                                               .device = *stage_device(stage)};
    return motion_corrector_create(&task, &s->corrector, err);
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    const struct motion_corrector_options *o = stage_params(stage);
    if (o->estimate_gain)
        return estimate_add(&s->estimate, item_string(stage_lane->item, "movie.path"), &lane->frames,
                            stage_threads(stage), err);
    enum status status = motion_corrector_run(s->corrector, &lane->frames.data, &lane->exposure, &lane->corrected, err);
    if (status != STATUS_OK) return err_context(err, status, "%s", item_string(stage_lane->item, "movie.path"));
    if (!lane->corrected.report.converged)
        stage_log(stage, LOG_WARN, "not-converged",
                  "%s: the shifts of the frames did not settle: is there signal in them? `reject_if: "
                  "icestreamMotionTotal > 100` leaves such movies out",
                  item_id(stage_lane->item));
    return STATUS_OK;
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    struct lane *lane = stage_lane->state;
    const struct motion_corrector_options *o = stage_params(stage);
    if (o->estimate_gain) return STATUS_OK;
    const struct products products = {.info = &lane->frames.info,
                                      .gain = lane->reference->gain,
                                      .exposure = &lane->exposure,
                                      .optics = &lane->optics,
                                      .corrected = &lane->corrected,
                                      .hot = &lane->hot};
    return products_write(stage, stage_lane->item, &products, err);
}

static enum status note(const struct item *item, void *context, struct err *err) {
    return item_has(item, "micrograph.path") ? micrograph_table_note(context, item, err) : STATUS_OK;
}

static enum status add(const struct item *item, void *context, struct err *err) {
    return item_has(item, "micrograph.path") ? micrograph_table_add(context, item, err) : STATUS_OK;
}

static enum status flush(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    const struct motion_corrector_options *o = stage_params(stage);
    return o->estimate_gain ? estimate_write(stage, &s->estimate, err) : STATUS_OK;
}

/* Goes over the items twice: first for columns and optics groups, then for the rows. */
static enum status summarise(struct stage *stage, void *state, struct err *err) {
    struct state *s = state;
    _cleanup_(micrograph_table_destroy) struct micrograph_table *table = NULL;
    char path[PATH_MAX];
    const struct motion_corrector_options *o = stage_params(stage);
    if (o->estimate_gain) return STATUS_OK;
    static const char *const files[] = {"corrected_micrographs.star", NULL};
    stage_result(stage, files, "%s", "");
    TRY(products_write_gains(stage, &s->references, err));
    TRY(path_join(stage_folder(stage), "corrected_micrographs.star", path, sizeof path, err));
    TRY(micrograph_table_create(&table, err));
    TRY(stage_each_done(stage, note, table, err));
    TRY(micrograph_table_begin(table, path, err));
    TRY(stage_each_done(stage, add, table, err));
    return micrograph_table_commit(table, err);
}

const struct stage_descriptor motion_corrector_stage = {
    .name = "motion-corrector",
    .summary = "Corrects the motion of movies and sums their frames, with dose weights",
    .in = "movie",
    .out = "micrograph spectrum",
    .takes = "a movie (MRC, TIFF, EER), a folder of movies, or a STAR file (rlnMicrographMovieName)",
    .params = motion_corrector_parameters,
    .param_count = MOTION_CORRECTOR_PARAMETERS,
    .params_size = sizeof(struct motion_corrector_options),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .revisions = true,
    .store_threads = 2,
    .cuda = true,
    .columns = "rlnAccumMotionTotal rlnAccumMotionEarly rlnAccumMotionLate icestreamMotionTotal icestreamMotionEarly "
               "icestreamMotionLate icestreamGainResidualSd",
    .check = check,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .reconfigure = reconfigure,
    .need = need,
    .release = release,
    .load = load,
    .process = process,
    .store = store,
    .flush = flush,
    .summarise = summarise,
};
