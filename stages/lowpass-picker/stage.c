/* The lowpass-picker as a stage: the callbacks that the harness runs for each micrograph, and the descriptor. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/device.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/harness/display.h"
#include "common/harness/item_optics.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "common/text.h"
#include "stages/lowpass-picker/check.h"
#include "stages/lowpass-picker/choose.h"
#include "stages/lowpass-picker/from_maps.h"
#include "stages/lowpass-picker/lowpass_picker.h"
#include "stages/lowpass-picker/maps_file.h"
#include "stages/lowpass-picker/parameters.h"
#include "stages/lowpass-picker/pick_files.h"
#include "stages/lowpass-picker/pick_picture.h"
#include "stages/lowpass-picker/pixels.h"
#include "stages/lowpass-picker/templates.h"

/* A larger pixel than any particle, Å. */
static const double PIXEL_SIZE_MOST = 1000;

/* Pickers (plans and rotated templates) are kept for a few shapes of micrographs, so that sessions of mixed shapes do
 * not make them anew for each micrograph. */
enum { PICKERS_KEPT = 3 };

struct kept_picker {
    int shape[3];
    uint64_t used; /* the clock when it was last used */
    struct lowpass_picker *picker;
};

struct state {
    enum picker_method method;
    struct pick_rules rules;
    struct image templates;
    double templates_pixel_size; /* Å */
    struct kept_picker kept[PICKERS_KEPT];
    struct lowpass_picker *picker; /* of the kept ones, that of the shape being searched */
    uint64_t clock;                /* counts uses */
    double diameter;               /* Å, measured in the templates and logged */
};

struct lane {
    struct image micrograph;
    struct contamination_area data; /* the micrograph without filled borders */
    struct device_copy *uploaded;   /* the micrograph on the CUDA device */
    struct pick_maps maps;
    struct image stack; /* maps on their way to or from a file */
    struct pick_scratch scratch;
    struct pick_list picks;
    struct pick_picture *picture;
    double diameter; /* of the particle, Å; NaN: not known */
};

static enum status take_rules(const struct lowpass_picker_options *p, struct state *s, struct err *err) {
    struct pick_rules rules = p->rules;
    TRY(check_number_or_auto("threshold", p->threshold, &rules.threshold, err));
    TRY(check_number_or_auto("max_stddev_noise", p->max_stddev_noise, &rules.max_stddev_noise, err));
    s->rules = rules;
    return STATUS_OK;
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct state *s = state;
    TRY(take_rules(p, s, err));
    if (p->from_maps != NULL) return STATUS_OK;
    bool by_template = p->method == METHOD_TEMPLATE || (p->method == METHOD_AUTO && p->templates != NULL);
    s->method = by_template ? PICKER_TEMPLATE : PICKER_LOG;
    return by_template ? templates_read(p, stage_threads(stage), &s->templates, &s->templates_pixel_size, err)
                       : STATUS_OK;
}

static void forget_pickers(struct state *s) {
    for (int i = 0; i < PICKERS_KEPT; i++) {
        lowpass_picker_destroy(&s->kept[i].picker);
        s->kept[i].used = 0;
    }
}

static enum status change(struct stage *stage, void *state, struct err *err) {
    forget_pickers(state);
    return take_rules(stage_params(stage), state, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    forget_pickers(s);
    image_destroy(&s->templates);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct lane *lane = stage_lane->state;
    device_copy_destroy(&lane->uploaded);
    image_destroy(&lane->micrograph);
    image_destroy(&lane->stack);
    search_maps_clear(&lane->maps.maps);
    pick_scratch_destroy(&lane->scratch);
    pick_list_destroy(&lane->picks);
    pick_picture_destroy(&lane->picture);
}

/* A micrograph larger than any before takes new memory; the device must let go of the old memory first. */
static enum status read_micrograph(const char *path, struct lane *lane, struct err *err) {
    if (lane->uploaded) {
        struct image_info info;
        TRY(image_probe(path, &info, err));
        if ((size_t)info.nx * (size_t)info.ny * (size_t)info.nz > lane->micrograph.capacity)
            device_copy_forget(lane->uploaded);
    }
    return image_read_micrograph(path, &lane->micrograph, err);
}

/* Reads the maps that an earlier run kept of the item's micrograph. */
static enum status load_maps(struct stage *stage, struct stage_lane *stage_lane, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct lane *lane = stage_lane->state;
    const char *micrograph = NULL;
    char all[PATH_SIZE], folder[PATH_SIZE];
    TRY(item_need_string(stage_lane->item, "micrograph.path", &micrograph, err));
    TRY(stage_resolve(stage, p->from_maps, all, err));
    /* The earlier run may have kept the maps of each source apart. */
    TRY(path_join(all, item_source(stage_lane->item), folder, sizeof folder, err));
    if (*item_source(stage_lane->item) == '\0' || !file_is_folder(folder)) memcpy(folder, all, strlen(all) + 1);
    return from_maps_read(folder, item_id(stage_lane->item), micrograph, p, &lane->maps, &lane->stack, err);
}

/* A user who asks for RELION's rules compares with RELION, which searches micrographs as they are. */
static bool whiten_suits(const struct lowpass_picker_options *p, enum picker_method method) {
    return method == PICKER_TEMPLATE && p->rules.prune != PICK_PRUNE_RELION && p->size_rule == PICK_SIZES_SMOOTH;
}

static struct lowpass_picker_task task_of(const struct stage *stage, const struct state *s, int nx, int ny,
                                          double pixel_size) {
    const struct lowpass_picker_options *p = stage_params(stage);
    return (struct lowpass_picker_task){
        .options = p,
        .method = s->method,
        .whiten = p->whiten == WHITEN_ON || (p->whiten == WHITEN_AUTO && whiten_suits(p, s->method)),
        .per_template = p->keep_maps || p->rules.prune == PICK_PRUNE_RELION,
        .nx = nx,
        .ny = ny,
        .pixel_size = pixel_size,
        .threads = stage_threads(stage),
        .device = *stage_device(stage),
    };
}

/* Finds the pixel size of an item in Å; header: that of its file, 0: none. */
static enum status find_pixel_size(struct stage *stage, const struct item *item, const char *path, double header,
                                   double *ret_pixel_size, struct err *err) {
    double pixel_size = item_number(item, "optics.pixel_size", stage_session(stage)->pixel_size);
    if (!(pixel_size > 0)) pixel_size = header;
    FAIL_IF(!(pixel_size > 0) || pixel_size > PIXEL_SIZE_MOST, err, STATUS_BAD_ARGUMENT,
            "%s: the pixel size is not known (%g Å/px): set session.pixel_size", path, pixel_size);
    *ret_pixel_size = pixel_size;
    return STATUS_OK;
}

/* Maps that an earlier run kept are small, and need no search. */
static enum status need(struct stage *stage, void *state, const struct stage_lane *stage_lane,
                        struct stage_need *ret_need, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    const struct state *s = state;
    const char *path = NULL;
    char absolute[PATH_SIZE];
    struct image_info info;
    double pixel_size = 0;
    if (p->from_maps) return STATUS_OK;
    TRY(item_need_string(stage_lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(image_probe(absolute, &info, err));
    TRY(lowpass_picker_check_size(path, info.nx, info.ny, info.nz, err));
    TRY(find_pixel_size(stage, stage_lane->item, path, info.pixel_size, &pixel_size, err));
    struct lowpass_picker_task task = task_of(stage, s, info.nx, info.ny, pixel_size);
    struct lowpass_picker_bytes bytes = lowpass_picker_estimate(&task, s->templates.nz);
    size_t kept = p->keep_maps ? bytes.maps : 0; /* as they go to a file */
    *ret_need = (struct stage_need){.lane = mem_sum(info.bytes, mem_sum(bytes.maps, kept)), .shared = bytes.search};
    return STATUS_OK;
}

/* Between two items a lane keeps its buffers, and the state the searches of a few shapes. */
static void release(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    if (stage_lane != NULL)
        lane_fini(stage, state, stage_lane);
    else
        forget_pickers(state);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    (void)state;
    const struct lowpass_picker_options *p = stage_params(stage);
    struct lane *lane = stage_lane->state;
    struct image *micrograph = &lane->micrograph;
    if (p->from_maps) return load_maps(stage, stage_lane, err);
    const char *path = NULL;
    char absolute[PATH_SIZE];
    TRY(item_need_string(stage_lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(read_micrograph(absolute, lane, err));
    TRY(lowpass_picker_check_size(path, micrograph->nx, micrograph->ny, micrograph->nz, err));
    lane->data = contamination_data_area(micrograph->data, micrograph->nx, micrograph->ny);
    TRY(pixels_check(path, micrograph, lane->data, err));
    double pixel_size = 0;
    TRY(find_pixel_size(stage, stage_lane->item, path, micrograph->pixel_size, &pixel_size, err));
    stage_lane->shape[0] = micrograph->nx;
    stage_lane->shape[1] = micrograph->ny;
    /* A change of pixel size is a change of shape too; µÅ. */
    stage_lane->shape[2] = (int)lround(pixel_size * 1e6);
    return device_upload(stage_device(stage), micrograph->data, image_count(micrograph), &lane->uploaded, err);
}

static enum status make_picker(struct stage *stage, const struct state *s, const int shape[3],
                               struct lowpass_picker **ret_picker, struct err *err) {
    struct lowpass_picker_task task = task_of(stage, s, shape[0], shape[1], shape[2] * 1e-6);
    struct picker_templates templates = {.data = s->templates.data,
                                         .box = s->templates.nx,
                                         .count = s->templates.nz,
                                         .pixel_size = s->templates_pixel_size};
    return lowpass_picker_create(&task, &templates, ret_picker, err);
}

/* Makes the picker of the lane's shape current: a kept one, or a new one in place of the one not used for longest. */
static enum status reconfigure(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct state *s = state;
    if (p->from_maps) return STATUS_OK;
    struct kept_picker *kept = &s->kept[0];
    for (int i = 0; i < PICKERS_KEPT; i++) {
        if (s->kept[i].picker && memcmp(s->kept[i].shape, lane->shape, sizeof lane->shape) == 0) {
            s->kept[i].used = ++s->clock;
            s->picker = s->kept[i].picker;
            return STATUS_OK;
        }
        if (s->kept[i].used < kept->used) kept = &s->kept[i];
    }
    s->picker = NULL;
    lowpass_picker_destroy(&kept->picker);
    kept->used = 0;
    enum status status = make_picker(stage, s, lane->shape, &kept->picker, err);
    if (status == STATUS_NO_MEMORY) {
        forget_pickers(s);
        status = make_picker(stage, s, lane->shape, &kept->picker, err);
    }
    TRY(status);
    double diameter = lowpass_picker_diameter(kept->picker);
    if (s->method == PICKER_TEMPLATE && isnan(p->diameter) && s->diameter != diameter) {
        stage_log(stage, LOG_WARN, "diameter", "diameter is not set: using %.0f Å, measured in the templates",
                  diameter);
        s->diameter = diameter;
    }
    memcpy(kept->shape, lane->shape, sizeof lane->shape);
    kept->used = ++s->clock;
    s->picker = kept->picker;
    return STATUS_OK;
}

/* Returns whether the item's defocus is known, and then its CTF. */
static bool item_ctf(const struct stage *stage, const struct item *item, struct ctf *ret_ctf) {
    double u = item_number(item, "columns.rlnDefocusU", NAN);
    if (isnan(u)) return false;
    const struct optics optics = item_optics(item, stage_session(stage));
    *ret_ctf = (struct ctf){.defocus_u = u,
                            .defocus_v = item_number(item, "columns.rlnDefocusV", u),
                            .defocus_angle = item_number(item, "columns.rlnDefocusAngle", 0),
                            .voltage = optics.voltage,
                            .spherical_aberration = optics.spherical_aberration,
                            .amplitude_contrast = optics.amplitude_contrast,
                            .phase_shift = item_number(item, "columns.rlnPhaseShift", 0),
                            .b_factor = item_number(item, "columns.rlnCtfBfactor", 0),
                            .scale = item_number(item, "columns.rlnCtfScalefactor", 1)};
    return true;
}

/* The same seed, and so the same noise, for the same micrograph, wherever and whenever it is picked. */
static uint64_t seed_of(const char *id) {
    return text_fnv(TEXT_FNV_BEGIN, id, strlen(id));
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    lane->diameter = p->diameter;
    if (p->from_maps) return STATUS_OK;
    lane->diameter = lowpass_picker_diameter(s->picker);
    struct ctf ctf = {0};
    bool known = p->ctf && item_ctf(stage, stage_lane->item, &ctf);
    struct search_input input = {.host = lane->micrograph.data,
                                 .device = lane->uploaded ? device_copy_data(lane->uploaded) : NULL};
    uint64_t seed = seed_of(item_id(stage_lane->item));
    TRY(lowpass_picker_search(s->picker, &input, known ? &ctf : NULL, seed, &lane->maps, err));
    lane->maps.geometry.data = lane->data;
    return STATUS_OK;
}

static enum status keep_maps(struct stage *stage, struct stage_lane *stage_lane, struct err *err) {
    struct lane *lane = stage_lane->state;
    const char *micrograph = item_string(stage_lane->item, "micrograph.path");
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    TRY(stage_product(stage, stage_lane->item, MAPS_SUFFIX, relative, absolute, err));
    TRY(maps_file_write(absolute, micrograph, &lane->maps, &lane->stack, err));
    return item_set_string(stage_lane->item, "picks.maps", relative, err);
}

static enum status draw(struct stage *stage, struct stage_lane *stage_lane, struct err *err) {
    struct lane *lane = stage_lane->state;
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    TRY(pick_picture_draw(&lane->picture, &lane->maps, &lane->picks, err));
    TRY(stage_product(stage, stage_lane->item, ".png", relative, absolute, err));
    return pick_picture_write(lane->picture, absolute, err);
}

/* Notes in the item where the picks are, and how they were chosen. */
static enum status note_picks(struct item *item, const char *star, const struct pick_list *picks, struct err *err) {
    TRY(item_set_string(item, "picks.star", star, err));
    TRY(item_set_number(item, "picks.count", (double)picks->count, err));
    TRY(item_set_number(item, "columns.icestreamPickCount", (double)picks->count, err));
    TRY(item_set_number(item, "columns.icestreamMaskedFraction", picks->masked, err));
    if (isfinite(picks->threshold)) TRY(item_set_number(item, "columns.icestreamPickThreshold", picks->threshold, err));
    return STATUS_OK;
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    const struct state *s = state;
    struct lane *lane = stage_lane->state;
    struct item *item = stage_lane->item;
    const struct pick_list *picks = &lane->picks;
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    TRY(pick_choose(&lane->maps, &s->rules, &lane->scratch, &lane->picks, err));
    if (p->keep_maps) TRY(keep_maps(stage, stage_lane, err));
    if (p->write_png) TRY(draw(stage, stage_lane, err));
    TRY(display_micrograph(stage, item, &lane->micrograph, err));
    TRY(stage_product(stage, item, "_autopick.star", relative, absolute, err));
    TRY(pick_files_write(absolute, picks, err));
    TRY(note_picks(item, relative, picks, err));
    if (lane->diameter > 0) TRY(item_set_number(item, "picks.diameter", lane->diameter, err));
    stage_log(stage, LOG_INFO, "picked", "%s: %zu picks at threshold %.3g; %.3g %% contaminated", item_id(item),
              picks->count, picks->threshold, 100 * picks->masked);
    if (picks->scale != 1 && picks->count > 0 && !lane->maps.geometry.whiten)
        stage_log(stage, LOG_INFO, "rescaled",
                  "%s: templates were multiplied by %.3g: their grey scale differs from that of the particles in this "
                  "micrograph, or its CTF is not known",
                  item_id(item), picks->scale);
    return STATUS_OK;
}

static enum status add_row(const struct item *item, void *context, struct err *err) {
    const char *micrograph = item_string(item, "micrograph.path"), *star = item_string(item, "picks.star");
    if (micrograph == NULL || star == NULL) return STATUS_OK;
    return pick_summary_add(context, micrograph, star, err);
}

/* Writes autopick.star. */
static enum status summarise(struct stage *stage, void *state, struct err *err) {
    static const char *const files[] = {"autopick.star", NULL};
    (void)state;
    stage_result(stage, files, "%s", "");
    _cleanup_(pick_summary_destroy) struct pick_summary *summary = NULL;
    char path[PATH_SIZE];
    TRY(path_join(stage_folder(stage), "autopick.star", path, sizeof path, err));
    TRY(pick_summary_create(path, &summary, err));
    TRY(stage_each_done(stage, add_row, summary, err));
    return pick_summary_commit(summary, err);
}

const struct stage_descriptor lowpass_picker_stage = {
    .name = "lowpass-picker",
    .summary = "Finds particles in micrographs, with templates or by Laplacian of Gaussian.",
    .in = "micrograph",
    .cuda = true,
    .out = "picks",
    .params = lowpass_picker_parameters,
    .param_count = LOWPASS_PICKER_PARAMETERS,
    .params_size = sizeof(struct lowpass_picker_options),
    .state_size = sizeof(struct state),
    .lane_size = sizeof(struct lane),
    .revisions = true,
    .store_threads = 4,
    .columns = "",
    .check = lowpass_picker_check,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .change = change,
    .reconfigure = reconfigure,
    .need = need,
    .release = release,
    .load = load,
    .process = process,
    .store = store,
    .summarise = summarise,
};
