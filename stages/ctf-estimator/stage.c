/* The ctf-estimator as a stage: the callbacks that the harness runs for each micrograph, and the descriptor. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/picture.h"
#include "common/harness/item_optics.h"
#include "common/harness/micrograph_table.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/ctf-estimator/ctf_estimator.h"
#include "stages/ctf-estimator/ctf_files.h"
#include "stages/ctf-estimator/parameters.h"

/* A micrograph whose item has this column has a CTF. */
static const char DEFOCUS[] = "columns.rlnDefocusU";

struct state {
    struct ctf_estimator *estimator; /* of the shape that came last */
};

struct lane {
    struct image micrograph;
    struct device_copy *uploaded; /* the micrograph on the CUDA device */
    struct optics optics;
    bool known; /* the item has a CTF already and passes unchanged */
    struct ctf_record record;
};

static enum status init(struct stage *stage, void *state, struct err *err) {
    (void)state;
    const struct ctf_estimator_options *o = stage_params(stage);
    FAIL_IF(!(o->resolution.values[0] > o->resolution.values[1]), err, STATUS_BAD_ARGUMENT,
            "resolution is [%g, %g]: the coarse end, the larger number, comes first", o->resolution.values[0],
            o->resolution.values[1]);
    FAIL_IF(!(o->defocus.values[0] < o->defocus.values[1]), err, STATUS_BAD_ARGUMENT,
            "defocus is [%g, %g]: the least comes first", o->defocus.values[0], o->defocus.values[1]);
    FAIL_IF(o->phase_shift.count == 2 && o->phase_shift.values[0] > o->phase_shift.values[1], err, STATUS_BAD_ARGUMENT,
            "phase_shift is [%g, %g]: the least comes first", o->phase_shift.values[0], o->phase_shift.values[1]);
    FAIL_IF(o->box != INT_MIN && o->box % 2 != 0, err, STATUS_BAD_ARGUMENT, "box is %d: an even number is expected",
            o->box);
    return STATUS_OK;
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    ctf_estimator_destroy(&s->estimator);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct lane *lane = stage_lane->state;
    device_copy_destroy(&lane->uploaded);
    image_destroy(&lane->micrograph);
    ctf_record_clear(&lane->record);
}

/* Returns the first pixel that is not finite; the number of pixels when there is none. */
static size_t first_broken(const struct image *image) {
    size_t count = image_count(image), i = 0;
    while (i < count && isfinite(image->data[i]))
        i++;
    return i;
}

/* A micrograph larger than any before takes new memory; the device must let go of the old memory first. */
static enum status read_micrograph(const char *path, struct lane *lane, struct err *err) {
    struct image_info info;
    if (lane->uploaded != NULL) {
        TRY(image_probe(path, &info, err));
        if ((size_t)info.nx * (size_t)info.ny * (size_t)info.nz > lane->micrograph.capacity)
            device_copy_forget(lane->uploaded);
    }
    return image_read_micrograph(path, &lane->micrograph, err);
}

static bool is_known(struct stage *stage, const struct item *item) {
    const struct ctf_estimator_options *o = stage_params(stage);
    return !o->again && item_has(item, DEFOCUS);
}

static enum status check_one(const char *path, int count, struct err *err) {
    FAIL_IF(count != 1, err, STATUS_BAD_FORMAT,
            "%s holds %d images; expected one micrograph (is it a movie that has not been corrected?)", path, count);
    return STATUS_OK;
}

static enum status need(struct stage *stage, void *state, const struct stage_lane *stage_lane,
                        struct stage_need *ret_need, struct err *err) {
    (void)state;
    const struct ctf_estimator_options *o = stage_params(stage);
    const char *path = NULL;
    char absolute[PATH_MAX];
    struct image_info info;
    if (is_known(stage, stage_lane->item)) return STATUS_OK;
    TRY(item_need_string(stage_lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(image_probe(absolute, &info, err));
    TRY(check_one(path, info.nz, err));
    double pixel_size = item_optics(stage_lane->item, stage_session(stage)).pixel_size;
    if (!(pixel_size > 0)) pixel_size = (double)info.pixel_size;
    int box = o->box != INT_MIN ? o->box : ctf_fit_box(info.nx, info.ny, pixel_size > 0 ? pixel_size : 1);
    ret_need->lane = mem_sum(info.bytes, image_bytes(box / 2 + 1, box, 1)); /* and a copy of the spectrum */
    ret_need->shared = ctf_estimator_bytes(info.ny, box, stage_threads(stage));
    return STATUS_OK;
}

static void release(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage;
    struct state *s = state;
    if (stage_lane == NULL) {
        ctf_estimator_destroy(&s->estimator);
        return;
    }
    struct lane *lane = stage_lane->state;
    device_copy_destroy(&lane->uploaded);
    image_destroy(&lane->micrograph);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    struct lane *lane = stage_lane->state;
    const struct image *micrograph = &lane->micrograph;
    const struct item *item = stage_lane->item;
    const char *path = NULL;
    char absolute[PATH_MAX];
    lane->known = is_known(stage, item);
    if (lane->known) return STATUS_OK;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(read_micrograph(absolute, lane, err));
    TRY(check_one(path, micrograph->nz, err));
    size_t broken = first_broken(micrograph);
    FAIL_IF(broken < image_count(micrograph), err, STATUS_BAD_FORMAT,
            "%s: pixel (%zu, %zu) is NaN or infinite: a spectrum needs all pixels", path,
            broken % (size_t)micrograph->nx, broken / (size_t)micrograph->nx);
    lane->optics = item_optics(item, stage_session(stage));
    if (!(lane->optics.pixel_size > 0)) lane->optics.pixel_size = (double)micrograph->pixel_size;
    FAIL_IF(!(lane->optics.pixel_size > 0) || lane->optics.pixel_size > 50, err, STATUS_BAD_ARGUMENT,
            "%s: a CTF needs a pixel size of at most 50 Å (it is %g): set session.pixel_size", path,
            lane->optics.pixel_size);
    stage_lane->shape[0] = micrograph->nx;
    stage_lane->shape[1] = micrograph->ny;
    stage_lane->shape[2] = (int)lround(lane->optics.pixel_size * 1e6); /* a change of pixel size is one of shape too */
    return device_upload(stage_device(stage), micrograph->data, image_count(micrograph), &lane->uploaded, err);
}

static enum status reconfigure(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct lane *lane = stage_lane->state;
    struct state *s = state;
    if (lane->known) return STATUS_OK;
    ctf_estimator_destroy(&s->estimator);
    struct ctf_estimator_task task = {.options = stage_params(stage),
                                      .nx = stage_lane->shape[0],
                                      .ny = stage_lane->shape[1],
                                      .pixel_size = stage_lane->shape[2] * 1e-6,
                                      .threads = stage_threads(stage),
                                      .device = *stage_device(stage)};
    return ctf_estimator_create(&task, &s->estimator, err);
}

static enum status draw(const struct ctf_estimator_options *o, struct lane *lane, struct err *err) {
    const struct ctf_fit_result *r = &lane->record.result;
    struct ctf fit = {.defocus_u = r->defocus_u,
                      .defocus_v = r->defocus_v,
                      .defocus_angle = r->angle,
                      .voltage = lane->optics.voltage,
                      .spherical_aberration = lane->optics.spherical_aberration,
                      .amplitude_contrast = lane->optics.amplitude_contrast,
                      .phase_shift = r->phase_shift,
                      .scale = 1};
    /* The picture reaches a little beyond what was fitted. */
    return ctf_record_draw(&lane->record, &fit, lane->optics.pixel_size, 0.8 * o->resolution.values[1], err);
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct ctf_estimator_options *o = stage_params(stage);
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    struct ctf_fit_result result = {0};
    if (lane->known) return STATUS_OK;
    TRY(ctf_estimator_run(s->estimator, lane->micrograph.data, device_copy_data(lane->uploaded), &lane->optics, &result,
                          err));
    return ctf_record_take(&lane->record, ctf_estimator_fit(s->estimator), &result, ctf_estimator_box(s->estimator),
                           o->write_png, err);
}

static enum status set_columns(struct item *item, const struct ctf_fit_result *r, bool phase, struct err *err) {
    TRY(item_set_column(item, "rlnDefocusU", r->defocus_u, err));
    TRY(item_set_column(item, "rlnDefocusV", r->defocus_v, err));
    TRY(item_set_column(item, "rlnDefocusAngle", r->angle, err));
    TRY(item_set_column(item, "rlnCtfAstigmatism", r->defocus_u - r->defocus_v, err));
    if (phase) TRY(item_set_column(item, "rlnPhaseShift", r->phase_shift, err));
    TRY(item_set_column(item, "rlnCtfFigureOfMerit", r->score, err));
    TRY(item_set_column(item, "rlnCtfMaxResolution",
                        r->resolution > 0 ? fmin(r->resolution, CTF_NO_RESOLUTION) : CTF_NO_RESOLUTION, err));
    return item_set_column(item, "rlnCtfIceRingDensity", r->ice, err);
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
    if (o->write_png) {
        TRY(draw(o, lane, err));
        TRY(stage_product(stage, item, "_ctf.png", relative, path, err));
        TRY(picture_write_grey(path, lane->record.side, lane->record.side, lane->record.pixels, err));
        TRY(item_set_string(item, "ctf.picture", relative, err));
    }
    if (r->resolution <= 0)
        stage_log(
            stage, LOG_WARN, "no-rings",
            "%s: no rings in the spectrum (score %.3f), so its CTF values mean nothing: did the sample drift, or is "
            "there no ice? `reject_if: rlnCtfMaxResolution > 10` leaves such micrographs out",
            item_id(item), r->score);
    TRY(item_set_optics(item, &lane->optics, NAN, err));
    return set_columns(item, r, o->phase_shift.count == 2, err);
}

static enum status note(const struct item *item, void *context, struct err *err) {
    return micrograph_table_note(context, item, err);
}

static enum status add(const struct item *item, void *context, struct err *err) {
    return micrograph_table_add(context, item, err);
}

/* Goes over the items twice: first for columns and optics groups, then for the rows. */
static enum status summarise(struct stage *stage, void *state, struct err *err) {
    (void)state;
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
    .store_threads = 2,
    .cuda = true,
    .init = init,
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
