/* The ctf-estimator as a stage: the callbacks that the harness runs for each micrograph, and the descriptor. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/picture.h"
#include "common/harness/display.h"
#include "common/harness/item_optics.h"
#include "common/harness/micrograph_table.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/ctf-estimator/ctf_estimator.h"
#include "stages/ctf-estimator/ctf_files.h"
#include "stages/ctf-estimator/input.h"
#include "stages/ctf-estimator/parameters.h"

/* Sides of the pictures of a spectrum, px: for people, and for a page that shows many. */
enum { PICTURE_SIDE = 512, DISPLAY_SIDE = 256 };

struct state {
    struct ctf_estimator *estimator; /* of the shape that came last */
};

struct lane {
    struct ctf_input input;
    bool known; /* the item has a CTF already and passes unchanged */
    struct ctf_record record;
};

/* Reasons for which the CTF of a micrograph means nothing. */
static const char NO_RINGS[] =
    "no rings in the spectrum, so the CTF values mean nothing: did the sample drift, or is there no ice?";

static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    const struct ctf_estimator_options *o = params;
    if (!(o->resolution.values[0] > o->resolution.values[1]))
        stage_checks_add(checks, STAGE_CHECK_ERROR, "resolution",
                         "resolution is [%g, %g]: the coarse end, the larger number, comes first",
                         o->resolution.values[0], o->resolution.values[1]);
    if (!(o->defocus.values[0] < o->defocus.values[1]))
        stage_checks_add(checks, STAGE_CHECK_ERROR, "defocus", "defocus is [%g, %g]: the least comes first",
                         o->defocus.values[0], o->defocus.values[1]);
    if (o->phase_shift.count == 2 && o->phase_shift.values[0] > o->phase_shift.values[1])
        stage_checks_add(checks, STAGE_CHECK_ERROR, "phase_shift", "phase_shift is [%g, %g]: the least comes first",
                         o->phase_shift.values[0], o->phase_shift.values[1]);
    if (o->box != INT_MIN && o->box % 2 != 0)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "box", "box is %d: an even number is expected", o->box);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    ctf_estimator_destroy(&s->estimator);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct lane *lane = stage_lane->state;
    ctf_input_clear(&lane->input);
    ctf_record_clear(&lane->record);
}

static enum status need(struct stage *stage, void *state, const struct stage_lane *stage_lane,
                        struct stage_need *ret_need, struct err *err) {
    (void)state;
    if (ctf_input_is_known(stage, stage_lane->item)) return STATUS_OK;
    return ctf_input_need(stage, stage_lane->item, ret_need, err);
}

static void release(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage;
    struct state *s = state;
    if (stage_lane == NULL) {
        ctf_estimator_destroy(&s->estimator);
        return;
    }
    struct lane *lane = stage_lane->state;
    ctf_input_clear(&lane->input);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    struct lane *lane = stage_lane->state;
    lane->known = ctf_input_is_known(stage, stage_lane->item);
    if (lane->known) return STATUS_OK;
    TRY(ctf_input_load(stage, stage_lane->item, &lane->input, err));
    struct ctf_estimator_task task = ctf_input_task(stage, &lane->input);
    stage_lane->shape[0] = task.nx;
    stage_lane->shape[1] = task.ny;
    stage_lane->shape[2] = task.box * (1 << 14) + task.side; /* both at most 8192 */
    return STATUS_OK;
}

static enum status reconfigure(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct lane *lane = stage_lane->state;
    struct state *s = state;
    if (lane->known) return STATUS_OK;
    ctf_estimator_destroy(&s->estimator);
    struct ctf_estimator_task task = ctf_input_task(stage, &lane->input);
    return ctf_estimator_create(&task, &s->estimator, err);
}

static enum status draw(const struct ctf_estimator_options *o, struct lane *lane, int side, struct err *err) {
    const struct ctf_fit_result *r = &lane->record.result;
    const struct optics *optics = &lane->input.optics;
    double pixel_size = lane->input.has_spectrum ? (double)lane->input.spectrum.pixel_size : optics->pixel_size;
    struct ctf fit = {.defocus_u = r->defocus_u,
                      .defocus_v = r->defocus_v,
                      .defocus_angle = r->angle,
                      .voltage = optics->voltage,
                      .spherical_aberration = optics->spherical_aberration,
                      .amplitude_contrast = optics->amplitude_contrast,
                      .phase_shift = r->phase_shift,
                      .scale = 1};
    /* The picture reaches a little beyond what was fitted. */
    return ctf_record_draw(&lane->record, &fit, pixel_size, 0.8 * o->resolution.values[1], side, err);
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct ctf_estimator_options *o = stage_params(stage);
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    struct ctf_fit_result result = {0};
    struct ctf_local_result local = {0};
    if (lane->known) return STATUS_OK;
    struct ctf_estimator_input input = ctf_input_given(&lane->input);
    TRY(ctf_estimator_run(s->estimator, &input, &result, &local, err));
    TRY(ctf_record_take_local(&lane->record, &local, lane->input.micrograph.nx, lane->input.micrograph.ny, err));
    lane->record.reason = result.resolution > 0 ? NULL : NO_RINGS;
    return ctf_record_take(&lane->record, ctf_estimator_fit(s->estimator), &result, ctf_estimator_box(s->estimator),
                           o->write_png || stage_in_pipeline(stage), err);
}

/* Writes the spectrum of record->side px at most, and names it in the item. */
static enum status write_picture(struct stage *stage, struct stage_lane *stage_lane, int side, const char *suffix,
                                 const char *member, struct err *err) {
    struct lane *lane = stage_lane->state;
    char relative[PATH_MAX], path[PATH_MAX];
    TRY(draw(stage_params(stage), lane, side, err));
    TRY(stage_product(stage, stage_lane->item, suffix, relative, path, err));
    TRY(picture_write_grey(path, lane->record.side, lane->record.side, lane->record.pixels, err));
    return item_set_string(stage_lane->item, member, relative, err);
}

static enum status set_columns(struct item *item, const struct ctf_record *record, bool phase, struct err *err) {
    const struct ctf_fit_result *r = &record->result;
    if (record->tilted) {
        TRY(item_set_column(item, "icestreamTiltAngle", record->tilt, err));
        TRY(item_set_column(item, "icestreamTiltAxis", record->axis, err));
    }
    TRY(item_set_column(item, "rlnDefocusU", r->defocus_u, err));
    TRY(item_set_column(item, "rlnDefocusV", r->defocus_v, err));
    TRY(item_set_column(item, "rlnDefocusAngle", r->angle, err));
    TRY(item_set_column(item, "rlnCtfAstigmatism", r->defocus_u - r->defocus_v, err));
    if (phase) TRY(item_set_column(item, "rlnPhaseShift", r->phase_shift, err));
    TRY(item_set_column(item, "rlnCtfFigureOfMerit", r->score, err));
    TRY(item_set_column(item, "rlnCtfMaxResolution",
                        r->resolution > 0 ? fmin(r->resolution, CTF_NO_RESOLUTION) : CTF_NO_RESOLUTION, err));
    return isfinite(r->ice) ? item_set_column(item, "rlnCtfIceRingDensity", r->ice, err) : STATUS_OK;
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    const struct ctf_estimator_options *o = stage_params(stage);
    struct lane *lane = stage_lane->state;
    struct item *item = stage_lane->item;
    const struct ctf_fit_result *r = &lane->record.result;
    char relative[PATH_MAX], path[PATH_MAX];
    if (lane->known) return STATUS_OK;
    TRY(stage_product(stage, item, "_ctf.json", relative, path, err));
    TRY(ctf_record_write(&lane->record, path, err));
    TRY(item_set_string(item, "ctf.data", relative, err));
    TRY(item_set_string(item, "display.ctf", relative, err));
    if (o->write_png) TRY(write_picture(stage, stage_lane, PICTURE_SIDE, "_ctf.png", "ctf.picture", err));
    if (stage_in_pipeline(stage))
        TRY(write_picture(stage, stage_lane, DISPLAY_SIDE, "_spectrum.png", "display.spectrum", err));
    if (lane->input.has_micrograph) TRY(display_micrograph(stage, item, &lane->input.micrograph, err));
    if (o->local && lane->record.grid_columns > 0) {
        TRY(stage_product(stage, item, "_local.star", relative, path, err));
        TRY(ctf_record_write_local(&lane->record, path, err));
        TRY(item_set_string(item, "ctf.local", relative, err));
    }
    if (lane->record.reason != NULL)
        stage_log(stage, LOG_WARN, "no-rings",
                  "%s: %s (score %.3f) `reject_if: rlnCtfMaxResolution > 10` leaves such micrographs out",
                  item_id(item), lane->record.reason, r->score);
    TRY(item_set_optics(item, &lane->input.optics, NAN, err));
    return set_columns(item, &lane->record, o->phase_shift.count == 2, err);
}

static enum status note(const struct item *item, void *context, struct err *err) {
    return micrograph_table_note(context, item, err);
}

static enum status add(const struct item *item, void *context, struct err *err) {
    return micrograph_table_add(context, item, err);
}

/* Goes over the items twice: first for columns and optics groups, then for the rows. */
static enum status summarise(struct stage *stage, void *state, struct err *err) {
    static const char *const files[] = {"micrographs_ctf.star", NULL};
    (void)state;
    stage_result(stage, files, "%s", "");
    _cleanup_(micrograph_table_destroy) struct micrograph_table *table = NULL;
    char path[PATH_MAX];
    TRY(path_join(stage_folder(stage), "micrographs_ctf.star", path, sizeof path, err));
    TRY(micrograph_table_create(&table, err));
    TRY(stage_each_done(stage, note, table, err));
    TRY(micrograph_table_begin(table, path, err));
    TRY(stage_each_done(stage, add, table, err));
    return micrograph_table_commit(table, err);
}

const struct stage_descriptor ctf_estimator_stage = {
    .name = "ctf-estimator",
    .summary = "Estimates defocus and astigmatism of micrographs from their power spectra",
    .in = "micrograph",
    .out = "ctf",
    .params = ctf_estimator_parameters,
    .param_count = CTF_ESTIMATOR_PARAMETERS,
    .params_size = sizeof(struct ctf_estimator_options),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .revisions = true,
    .store_threads = 2,
    .cuda = true,
    .columns = "rlnDefocusU rlnDefocusV rlnDefocusAngle rlnCtfAstigmatism rlnPhaseShift rlnCtfFigureOfMerit "
               "rlnCtfMaxResolution rlnCtfIceRingDensity icestreamTiltAngle icestreamTiltAxis",
    .check = check,
    .fini = fini,
    .lane_fini = lane_fini,
    .reconfigure = reconfigure,
    .need = need,
    .release = release,
    .load = load,
    .process = process,
    .store = store,
    .summarise = summarise,
};
