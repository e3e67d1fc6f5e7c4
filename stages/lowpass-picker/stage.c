/* The lowpass-picker as a stage: the callbacks that the harness runs for each micrograph, and the descriptor. */
#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/harness/display.h"
#include "common/harness/stage.h"
#include "common/harness/template_set.h"
#include "common/memory.h"
#include "stages/lowpass-picker/check.h"
#include "stages/lowpass-picker/choose.h"
#include "stages/lowpass-picker/follow.h"
#include "stages/lowpass-picker/from_maps.h"
#include "stages/lowpass-picker/input.h"
#include "stages/lowpass-picker/lowpass_picker.h"
#include "stages/lowpass-picker/maps_file.h"
#include "stages/lowpass-picker/parameters.h"
#include "stages/lowpass-picker/pick_files.h"
#include "stages/lowpass-picker/pick_picture.h"
#include "stages/lowpass-picker/picker_set.h"
#include "stages/lowpass-picker/templates.h"

struct state {
    struct pick_rules rules;
    int given;                     /* number of templates that the parameters name; 0: none */
    struct picker_set set;         /* compute thread, after init */
    struct lowpass_picker *picker; /* of a set, that of the shape being searched */
    struct follow *follow;         /* NULL: templates of other stages are not used */
    double diameter;               /* Å, measured in the templates and logged */
};

struct lane {
    struct picker_input input;
    struct pick_maps maps;
    struct image stack; /* maps on their way to or from a file */
    struct pick_scratch scratch;
    struct pick_list picks;
    struct pick_picture *picture;
    double diameter; /* of the particle, Å; NaN: not known */
    int epoch;       /* of the templates that it was searched with; PICK_NO_EPOCH: they are not counted */
};

static enum status take_rules(const struct lowpass_picker_options *p, struct state *s, struct err *err) {
    struct pick_rules rules = p->rules;
    TRY(check_number_or_auto("threshold", p->threshold, &rules.threshold, err));
    TRY(check_number_or_auto("max_stddev_noise", p->max_stddev_noise, &rules.max_stddev_noise, err));
    s->rules = rules;
    return STATUS_OK;
}

static bool by_template(const struct lowpass_picker_options *p) {
    return p->method == METHOD_TEMPLATE || (p->method == METHOD_AUTO && p->templates != NULL);
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct state *s = state;
    TRY(take_rules(p, s, err));
    if (p->from_maps != NULL) return STATUS_OK;
    s->set.method = by_template(p) ? PICKER_TEMPLATE : PICKER_LOG;
    if (by_template(p)) TRY(templates_read(p, stage_threads(stage), &s->set.templates, &s->set.pixel_size, err));
    s->given = s->set.templates.nz;
    return p->templates_from != NULL ? follow_create(stage, &s->set, &s->follow, err) : STATUS_OK;
}

static void forget_pickers(struct state *s) {
    picker_set_forget(&s->set);
    if (s->follow != NULL) follow_forget(s->follow);
}

static enum status change(struct stage *stage, void *state, struct err *err) {
    forget_pickers(state);
    return take_rules(stage_params(stage), state, err);
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct state *s = state;
    follow_destroy(&s->follow);
    picker_set_clear(&s->set);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct lane *lane = stage_lane->state;
    picker_input_destroy(&lane->input);
    image_destroy(&lane->stack);
    search_maps_clear(&lane->maps.maps);
    pick_scratch_destroy(&lane->scratch);
    pick_list_destroy(&lane->picks);
    pick_picture_destroy(&lane->picture);
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

/* Counts the memory of a search with `templates` templates, without the micrograph's own; 0: round ones. */
static struct stage_need need_of(struct stage *stage, const struct image_info *info, double pixel_size,
                                 enum picker_method method, int templates) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct lowpass_picker_task task = picker_task(stage, method, info->nx, info->ny, pixel_size);
    struct lowpass_picker_bytes bytes = lowpass_picker_estimate(&task, templates);
    size_t kept = p->keep_maps ? bytes.maps : 0; /* as they go to a file */
    return (struct stage_need){.lane = mem_sum(bytes.maps, kept), .shared = bytes.search};
}

/* Adds the memory of later searches with templates of the session. While the next ones are tried, there are three searches
 * with that of the beginning, one more micrograph, whose pixels the host holds, and its transform. */
static void need_later(struct stage *stage, const struct image_info *info, double pixel_size, struct stage_need *need) {
    struct stage_need later = need_of(stage, info, pixel_size, PICKER_TEMPLATE, TEMPLATE_SET_MOST);
    if (later.lane > need->lane) need->lane = later.lane;
    size_t tried = mem_sum(mem_bytes(later.shared, 2), mem_sum(need->lane, mem_bytes(info->bytes, 2)));
    need->shared = mem_sum(need->shared, tried);
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
    bool host = display_wants_micrograph(stage, stage_lane->item), streams = false;
    if (p->from_maps) return STATUS_OK;
    TRY(item_need_string(stage_lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(image_probe(absolute, &info, err));
    TRY(lowpass_picker_check_size(path, info.nx, info.ny, info.nz, err));
    TRY(picker_pixel_size(stage, stage_lane->item, path, info.pixel_size, &pixel_size, err));
    *ret_need = need_of(stage, &info, pixel_size, by_template(p) ? PICKER_TEMPLATE : PICKER_LOG, s->given);
    if (p->templates_from != NULL) need_later(stage, &info, pixel_size, ret_need);
    TRY(picker_input_streams(stage, absolute, &info, host, &streams, err));
    ret_need->lane = mem_sum(ret_need->lane, streams ? PICKER_STREAM_BYTES : info.bytes);
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
    const struct item *item = stage_lane->item;
    struct lane *lane = stage_lane->state;
    if (p->from_maps) return load_maps(stage, stage_lane, err);
    const char *path = NULL;
    double pixel_size = 0;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    TRY(picker_input_read(stage, path, display_wants_micrograph(stage, item), &lane->input, err));
    TRY(picker_pixel_size(stage, item, path, lane->input.pixel_size, &pixel_size, err));
    stage_lane->shape[0] = lane->input.nx;
    stage_lane->shape[1] = lane->input.ny;
    /* A change of pixel size is a change of shape too; µÅ. */
    stage_lane->shape[2] = (int)lround(pixel_size * 1e6);
    return STATUS_OK;
}

/* Makes a set's search of a shape current. */
static enum status use_shape(struct stage *stage, struct state *s, struct picker_set *set, const int shape[3],
                             struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    s->picker = NULL;
    enum status status = picker_set_get(stage, set, shape, &s->picker, err);
    if (status == STATUS_NO_MEMORY && s->follow != NULL) {
        follow_forget(s->follow);
        status = picker_set_get(stage, set, shape, &s->picker, err);
    }
    TRY(status);
    double diameter = lowpass_picker_diameter(s->picker);
    if (set->method == PICKER_TEMPLATE && isnan(p->diameter) && s->diameter != diameter) {
        stage_log(stage, LOG_WARN, "diameter", "diameter is not set: using %.0f Å, measured in the templates",
                  diameter);
        s->diameter = diameter;
    }
    return STATUS_OK;
}

static enum status reconfigure(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct state *s = state;
    return p->from_maps ? STATUS_OK : use_shape(stage, s, &s->set, lane->shape, err);
}

/* Searches the lane's micrograph. */
static enum status search(struct stage *stage, struct state *s, struct stage_lane *stage_lane, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct lane *lane = stage_lane->state;
    struct ctf ctf = {0};
    bool known = p->ctf && picker_ctf(stage, stage_lane->item, &ctf);
    lane->diameter = lowpass_picker_diameter(s->picker);
    TRY(lowpass_picker_search(s->picker, &lane->input.search, known ? &ctf : NULL, picker_seed(stage_lane->item),
                              &lane->maps, err));
    lane->maps.geometry.data = lane->input.data;
    return STATUS_OK;
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct state *s = state;
    struct lane *lane = stage_lane->state;
    enum stage_work work;
    lane->diameter = p->diameter;
    lane->epoch = PICK_NO_EPOCH;
    if (p->from_maps) return STATUS_OK;
    if (s->follow == NULL) return search(stage, s, stage_lane, err);
    /* The trial takes searches of other shapes, and adoption replaces all. */
    TRY(follow_before(s->follow, stage, &s->set, stage_lane->item, err));
    struct picker_set *set = follow_choose(s->follow, &s->set, stage_lane->item);
    TRY(use_shape(stage, s, set, stage_lane->shape, err));
    lane->epoch = set->epoch;
    TRY(search(stage, s, stage_lane, err));
    follow_after(s->follow, stage_lane->item);
    /* A stream that never pauses must not keep the trial from its work. */
    return follow_step(s->follow, stage, &s->set, &work, err);
}

static enum status idle(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err) {
    struct state *s = state;
    *ret_work = STAGE_WORK_NONE;
    return s->follow != NULL ? follow_step(s->follow, stage, &s->set, ret_work, err) : STATUS_OK;
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
    TRY(display_micrograph(stage, item, &lane->input.image, err));
    TRY(stage_product(stage, item, "_autopick.star", relative, absolute, err));
    TRY(pick_files_write(absolute, picks, lane->epoch, err));
    TRY(note_picks(item, relative, picks, err));
    if (lane->epoch != PICK_NO_EPOCH) TRY(item_set_number(item, "columns.icestreamPickEpoch", lane->epoch, err));
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
    /* On a device the search of a 4096² micrograph takes 2.5 ms; one thread reads it in 5 to 15, and chooses in 20 to 40. */
    .load_threads = 5,
    .store_threads = 8,
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
    .idle = idle,
    .store = store,
    .summarise = summarise,
};
