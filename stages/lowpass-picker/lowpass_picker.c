#include "stages/lowpass-picker/lowpass_picker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/picture.h"
#include "common/formats/star.h"
#include "common/harness/item_optics.h"
#include "common/text.h"
#include "stages/lowpass-picker/from_maps.h"
#include "stages/lowpass-picker/maps_file.h"
#include "stages/lowpass-picker/pick_files.h"
#include "stages/lowpass-picker/pixels.h"
#include "stages/lowpass-picker/template_map.h"

/* A pixel larger than any particle. */
static const double PIXEL_SIZE_MOST = 1000;

/* A number, or NaN for "auto". */
static enum status number_or_auto(const char *name, const char *text, double *ret_value, struct err *err) {
    if (text == NULL || strcmp(text, "auto") == 0) {
        *ret_value = NAN;
        return STATUS_OK;
    }
    char *end = NULL;
    double value = strtod(text, &end);
    FAIL_IF(end == text || *end != '\0' || !isfinite(value), err, STATUS_BAD_ARGUMENT,
            "%s is \"%s\": expected a number or auto", name, text);
    *ret_value = value;
    return STATUS_OK;
}

/* A map gives way to its projections. */
static enum status project_map(struct lowpass_picker *s, const char *symmetry, int threads, struct err *err) {
    struct image projections = {0};
    TRY(template_map_project(&s->templates, symmetry, threads, &projections, err));
    image_destroy(&s->templates);
    s->templates = projections;
    return STATUS_OK;
}

static enum status read_templates(const struct stage *stage, struct lowpass_picker *s, struct err *err) {
    const struct lowpass_picker_params *p = stage_params(stage);
    TRY(image_read_micrograph(p->templates, &s->templates, err));
    FAIL_IF(s->templates.nx != s->templates.ny || s->templates.nx < 8, err, STATUS_BAD_FORMAT,
            "%s: templates of %d × %d px; expected square images of at least 8 px", p->templates, s->templates.nx,
            s->templates.ny);
    FAIL_IF(s->templates.nx % 2, err, STATUS_BAD_FORMAT, "%s: templates of %d px; expected an even size", p->templates,
            s->templates.nx);
    for (size_t i = 0; i < image_count(&s->templates); i++)
        FAIL_IF(!isfinite(s->templates.data[i]), err, STATUS_BAD_FORMAT,
                "%s: pixel %zu is not a finite number; expected grey values of normalised particles", p->templates, i);
    if (template_map_is_one(p->templates, &s->templates))
        TRY(project_map(s, p->symmetry, stage_threads(stage), err));
    else
        FAIL_IF(strcmp(p->symmetry, "C1") != 0, err, STATUS_BAD_ARGUMENT,
                "symmetry is %s, but %s holds %d images: symmetry is of a map that is projected", p->symmetry,
                p->templates, s->templates.nz);
    s->templates_pixel_size = isnan(p->templates_pixel_size) ? s->templates.pixel_size : p->templates_pixel_size;
    FAIL_IF(!(s->templates_pixel_size > 0), err, STATUS_BAD_ARGUMENT,
            "%s does not say its pixel size: set templates_pixel_size", p->templates);
    double width = s->templates.nx * s->templates_pixel_size;
    FAIL_IF(p->diameter > width, err, STATUS_BAD_ARGUMENT,
            "diameter is %g Å, but %s is only %g Å wide (%d px of %g Å): check diameter and templates_pixel_size",
            p->diameter, p->templates, width, s->templates.nx, s->templates_pixel_size);
    return STATUS_OK;
}

enum status lowpass_picker_init(struct stage *stage, void *state, struct err *err) {
    const struct lowpass_picker_params *p = stage_params(stage);
    struct lowpass_picker *s = state;
    s->rules.prune = p->prune == 0 ? PICK_PRUNE_GREEDY : PICK_PRUNE_RELION;
    s->rules.min_distance = p->min_distance;
    TRY(number_or_auto("threshold", p->threshold, &s->rules.threshold, err));
    TRY(number_or_auto("max_stddev_noise", p->max_stddev_noise, &s->rules.max_stddev_noise, err));
    s->rules.mask_contamination = p->mask_contamination;
    s->rules.contamination_threshold = p->contamination_threshold;
    if (p->from_maps) return from_maps_check(p, err);
    FAIL_IF(p->method == 1 && p->templates == NULL, err, STATUS_BAD_ARGUMENT,
            "method is template but there are no templates: set templates, or method: log");
    s->method = p->method == 1 || (p->method == 0 && p->templates != NULL) ? PICKER_TEMPLATE : PICKER_LOG;
    if (s->method == PICKER_TEMPLATE) return read_templates(stage, s, err);
    FAIL_IF(p->log_diameter.count == 0 && isnan(p->diameter), err, STATUS_BAD_ARGUMENT,
            "without templates the particle's size must be known: set diameter, or log_diameter: [least, greatest], in "
            "Å");
    FAIL_IF(p->log_diameter.count == 2 && p->log_diameter.values[0] > p->log_diameter.values[1], err,
            STATUS_BAD_ARGUMENT, "log_diameter is [%g, %g]: the least comes first", p->log_diameter.values[0],
            p->log_diameter.values[1]);
    return STATUS_OK;
}

static void forget_pickers(struct lowpass_picker *s) {
    for (int i = 0; i < PICKERS_KEPT; i++) {
        picker_destroy(&s->kept[i].picker);
        s->kept[i].used = 0;
    }
}

void lowpass_picker_fini(struct stage *stage, void *state) {
    (void)stage;
    struct lowpass_picker *s = state;
    forget_pickers(s);
    image_destroy(&s->templates);
}

void lowpass_picker_lane_fini(struct stage *stage, void *state, struct stage_lane *lane) {
    (void)stage;
    (void)state;
    struct lowpass_picker_lane *l = lane->state;
    device_copy_destroy(&l->uploaded);
    image_destroy(&l->micrograph);
    image_destroy(&l->stack);
    search_maps_clear(&l->maps.maps);
    pick_scratch_destroy(&l->scratch);
    pick_list_destroy(&l->picks);
    pick_picture_destroy(&l->picture);
}

/* A larger one than any before takes new memory; the device must let go of the old first. */
static enum status read_micrograph(const char *path, struct lowpass_picker_lane *l, struct err *err) {
    if (l->uploaded) {
        struct image_info info;
        TRY(image_probe(path, &info, err));
        if ((size_t)info.nx * (size_t)info.ny * (size_t)info.nz > l->micrograph.capacity)
            device_copy_forget(l->uploaded);
    }
    return image_read_micrograph(path, &l->micrograph, err);
}

enum status lowpass_picker_load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct lowpass_picker_params *p = stage_params(stage);
    struct lowpass_picker_lane *l = lane->state;
    if (p->from_maps) return from_maps_load(stage, lane, err);
    const char *path = NULL;
    char absolute[PATH_SIZE];
    TRY(item_need_string(lane->item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(read_micrograph(absolute, l, err));
    FAIL_IF(l->micrograph.nz != 1, err, STATUS_BAD_FORMAT,
            "%s holds %d images; expected one micrograph (movies are summed by motion-corrector)", path,
            l->micrograph.nz);
    l->data = contamination_data_area(l->micrograph.data, l->micrograph.nx, l->micrograph.ny);
    TRY(pixels_check(path, &l->micrograph, l->data, err));
    double pixel_size = item_number(lane->item, "optics.pixel_size", stage_session(stage)->pixel_size);
    if (!(pixel_size > 0)) pixel_size = l->micrograph.pixel_size;
    FAIL_IF(!(pixel_size > 0) || pixel_size > PIXEL_SIZE_MOST, err, STATUS_BAD_ARGUMENT,
            "%s: the pixel size is not known (%g Å/px): set session.pixel_size", path, pixel_size);
    lane->shape[0] = l->micrograph.nx;
    lane->shape[1] = l->micrograph.ny;
    /* A change of pixel size is a change of shape too; µÅ. */
    lane->shape[2] = (int)lround(pixel_size * 1e6);
    return device_upload(stage_device(stage), l->micrograph.data, image_count(&l->micrograph), &l->uploaded, err);
}

/* Who asks for RELION's rules compares with RELION, which searches micrographs as they are. */
static bool whiten_suits(const struct stage *stage, const struct lowpass_picker *s) {
    const struct lowpass_picker_params *p = stage_params(stage);
    return s->method == PICKER_TEMPLATE && s->rules.prune != PICK_PRUNE_RELION && p->size_rule == 0;
}

static enum status make_picker(struct stage *stage, const struct lowpass_picker *s, const struct stage_lane *lane,
                               struct picker **ret_picker, struct err *err) {
    const struct lowpass_picker_params *p = stage_params(stage);
    bool listed = p->log_diameter.count == 2;
    struct picker_settings settings = {
        .method = s->method,
        .pixel_size = lane->shape[2] * 1e-6,
        .diameter = p->diameter,
        .lowpass = p->lowpass,
        .size_rule = p->size_rule == 0 ? PICK_SIZES_SMOOTH : PICK_SIZES_RELION,
        .angle_step = p->angle_step,
        .log_minimum = listed ? p->log_diameter.values[0] : 0.8 * p->diameter,
        .log_maximum = listed ? p->log_diameter.values[1] : 1.2 * p->diameter,
        .invert = p->invert,
        .whiten = p->whiten == 1 || (p->whiten == 0 && whiten_suits(stage, s)),
        .per_template = p->keep_maps || s->rules.prune == PICK_PRUNE_RELION,
        .threads = stage_threads(stage),
        .device = *stage_device(stage),
    };
    struct picker_templates templates = {.data = s->templates.data,
                                         .box = s->templates.nx,
                                         .count = s->templates.nz,
                                         .pixel_size = s->templates_pixel_size};
    return picker_create(&settings, &templates, lane->shape[0], lane->shape[1], ret_picker, err);
}

enum status lowpass_picker_reconfigure(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    const struct lowpass_picker_params *p = stage_params(stage);
    struct lowpass_picker *s = state;
    if (p->from_maps) return STATUS_OK;
    struct lowpass_picker_kept *kept = &s->kept[0];
    for (int i = 0; i < PICKERS_KEPT; i++) {
        if (s->kept[i].picker && memcmp(s->kept[i].shape, lane->shape, sizeof lane->shape) == 0) {
            s->kept[i].used = ++s->clock;
            s->picker = s->kept[i].picker;
            return STATUS_OK;
        }
        if (s->kept[i].used < kept->used) kept = &s->kept[i];
    }
    s->picker = NULL;
    picker_destroy(&kept->picker);
    kept->used = 0;
    enum status status = make_picker(stage, s, lane, &kept->picker, err);
    if (status == STATUS_NO_MEMORY) {
        forget_pickers(s);
        status = make_picker(stage, s, lane, &kept->picker, err);
    }
    TRY(status);
    double diameter = picker_diameter(kept->picker);
    if (s->method == PICKER_TEMPLATE && isnan(p->diameter) && s->diameter != diameter) {
        stage_log(stage, LOG_WARN, "diameter", "diameter is not set: %.0f Å is taken, from the templates", diameter);
        s->diameter = diameter;
    }
    memcpy(kept->shape, lane->shape, sizeof lane->shape);
    kept->used = ++s->clock;
    s->picker = kept->picker;
    return STATUS_OK;
}

/* Whether the item's defocus is known; then its CTF. */
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

/* The same noise for the same micrograph, wherever and whenever it is picked. */
static uint64_t seed_of(const char *id) {
    return text_fnv(TEXT_FNV_BEGIN, id, strlen(id));
}

enum status lowpass_picker_process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    const struct lowpass_picker_params *p = stage_params(stage);
    struct lowpass_picker *s = state;
    struct lowpass_picker_lane *l = lane->state;
    if (p->from_maps) return STATUS_OK;
    struct ctf ctf = {0};
    bool known = p->ctf && item_ctf(stage, lane->item, &ctf);
    struct search_input input = {.host = l->micrograph.data,
                                 .device = l->uploaded ? device_copy_data(l->uploaded) : NULL};
    TRY(picker_search(s->picker, &input, known ? &ctf : NULL, seed_of(item_id(lane->item)), &l->maps, err));
    l->maps.geometry.data = l->data;
    return STATUS_OK;
}

static enum status keep_maps(struct stage *stage, struct stage_lane *lane, struct err *err) {
    struct lowpass_picker_lane *l = lane->state;
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    TRY(stage_product(stage, lane->item, MAPS_SUFFIX, relative, absolute, err));
    TRY(maps_file_write(absolute, item_string(lane->item, "micrograph.path"), &l->maps, &l->stack, err));
    return item_set_string(lane->item, "picks.maps", relative, err);
}

static enum status draw(struct stage *stage, struct stage_lane *lane, struct err *err) {
    struct lowpass_picker_lane *l = lane->state;
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    TRY(pick_picture_draw(&l->picture, &l->maps, &l->picks, err));
    TRY(stage_product(stage, lane->item, ".png", relative, absolute, err));
    return pick_picture_write(l->picture, absolute, err);
}

enum status lowpass_picker_store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    const struct lowpass_picker_params *p = stage_params(stage);
    const struct lowpass_picker *s = state;
    struct lowpass_picker_lane *l = lane->state;
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    TRY(pick_choose(&l->maps, &s->rules, &l->scratch, &l->picks, err));
    if (p->keep_maps) TRY(keep_maps(stage, lane, err));
    if (p->write_png) TRY(draw(stage, lane, err));
    TRY(stage_product(stage, lane->item, "_autopick.star", relative, absolute, err));
    TRY(pick_files_write(absolute, &l->picks, err));
    TRY(item_set_string(lane->item, "picks.star", relative, err));
    TRY(item_set_number(lane->item, "picks.count", (double)l->picks.count, err));
    TRY(item_set_number(lane->item, "columns.icestreamPickCount", (double)l->picks.count, err));
    TRY(item_set_number(lane->item, "columns.icestreamMaskedFraction", l->picks.masked, err));
    if (isfinite(l->picks.threshold))
        TRY(item_set_number(lane->item, "columns.icestreamPickThreshold", l->picks.threshold, err));
    stage_log(stage, LOG_INFO, "picked", "%s: %zu picks at threshold %.3g; %.3g %% contaminated", item_id(lane->item),
              l->picks.count, l->picks.threshold, 100 * l->picks.masked);
    if (l->picks.scale != 1 && l->picks.count > 0 && !l->maps.geometry.whiten)
        stage_log(
            stage, LOG_INFO, "rescaled",
            "%s: the templates were taken times %.3g: not on the grey scale of this micrograph's particles, or its "
            "CTF is not known",
            item_id(lane->item), l->picks.scale);
    return STATUS_OK;
}

/* autopick.star: micrographs and their picks, written in pieces, so that a long session needs no more memory. */
enum { SUMMARY_PIECE = 512 }; /* rows */

struct summary {
    struct star_writer *writer;
    struct star_file *file; /* of the piece */
    struct star_table *table;
    int micrograph, coordinates;
    bool begun;
};

static enum status begin_piece(struct summary *summary, struct err *err) {
    star_destroy(&summary->file);
    TRY(star_create(&summary->file, err));
    TRY(star_table_add(summary->file, "coordinate_files", true, &summary->table, err));
    TRY(star_column_add(summary->table, "rlnMicrographName", "", &summary->micrograph, err));
    return star_column_add(summary->table, "rlnMicrographCoordinates", "", &summary->coordinates, err);
}

static enum status write_piece(struct summary *summary, struct err *err) {
    TRY((summary->begun ? star_writer_rows : star_writer_table)(summary->writer, summary->table, err));
    summary->begun = true;
    return STATUS_OK;
}

static enum status add_row(const struct item *item, void *context, struct err *err) {
    struct summary *summary = context;
    const char *micrograph = item_string(item, "micrograph.path"), *star = item_string(item, "picks.star");
    if (micrograph == NULL || star == NULL) return STATUS_OK;
    if (star_row_count(summary->table) == SUMMARY_PIECE) {
        TRY(write_piece(summary, err));
        TRY(begin_piece(summary, err));
    }
    size_t row = 0;
    TRY(star_row_add(summary->table, &row, err));
    TRY(star_set(summary->table, row, summary->micrograph, micrograph, err));
    return star_set(summary->table, row, summary->coordinates, star, err);
}

static enum status summarise_into(struct stage *stage, struct summary *summary, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(stage_folder(stage), "autopick.star", path, sizeof path, err));
    TRY(star_writer_create(path, &summary->writer, err));
    TRY(begin_piece(summary, err));
    TRY(stage_each_done(stage, add_row, summary, err));
    TRY(write_piece(summary, err));
    return star_writer_commit(&summary->writer, err);
}

enum status lowpass_picker_summarise(struct stage *stage, void *state, struct err *err) {
    (void)state;
    struct summary summary = {0};
    enum status status = summarise_into(stage, &summary, err);
    star_writer_discard(&summary.writer);
    star_destroy(&summary.file);
    return status;
}
