#include "stages/lowpass-picker/picker_set.h"

#include <math.h>
#include <string.h>

#include "common/harness/item_optics.h"
#include "common/text.h"

/* A larger pixel than any particle, Å. */
static const double PIXEL_SIZE_MOST = 1000;

void picker_set_forget(struct picker_set *set) {
    for (int i = 0; i < PICKERS_KEPT; i++) {
        lowpass_picker_destroy(&set->kept[i].picker);
        set->kept[i].used = 0;
    }
}

void picker_set_clear(struct picker_set *set) {
    picker_set_forget(set);
    image_destroy(&set->templates);
    *set = (struct picker_set){0};
}

/* A user who asks for RELION's rules compares with RELION, which searches micrographs as they are. */
static bool whiten_suits(const struct lowpass_picker_options *p, enum picker_method method) {
    return method == PICKER_TEMPLATE && p->rules.prune != PICK_PRUNE_RELION && p->size_rule == PICK_SIZES_SMOOTH;
}

struct lowpass_picker_task picker_task(const struct stage *stage, enum picker_method method, int nx, int ny,
                                       double pixel_size) {
    const struct lowpass_picker_options *p = stage_params(stage);
    return (struct lowpass_picker_task){
        .options = p,
        .method = method,
        .whiten = p->whiten == WHITEN_ON || (p->whiten == WHITEN_AUTO && whiten_suits(p, method)),
        .per_template = p->keep_maps || p->rules.prune == PICK_PRUNE_RELION,
        .nx = nx,
        .ny = ny,
        .pixel_size = pixel_size,
        .threads = stage_threads(stage),
        .device = *stage_device(stage),
    };
}

static enum status make_picker(const struct stage *stage, const struct picker_set *set, const int shape[3],
                               struct lowpass_picker **ret_picker, struct err *err) {
    struct lowpass_picker_task task = picker_task(stage, set->method, shape[0], shape[1], shape[2] * 1e-6);
    struct picker_templates templates = {.data = set->templates.data,
                                         .box = set->templates.nx,
                                         .count = set->templates.nz,
                                         .pixel_size = set->pixel_size};
    return lowpass_picker_create(&task, &templates, ret_picker, err);
}

enum status picker_set_get(const struct stage *stage, struct picker_set *set, const int shape[3],
                           struct lowpass_picker **ret_picker, struct err *err) {
    struct kept_picker *kept = &set->kept[0];
    for (int i = 0; i < PICKERS_KEPT; i++) {
        if (set->kept[i].picker && memcmp(set->kept[i].shape, shape, sizeof set->kept[i].shape) == 0) {
            set->kept[i].used = ++set->clock;
            *ret_picker = set->kept[i].picker;
            return STATUS_OK;
        }
        if (set->kept[i].used < kept->used) kept = &set->kept[i];
    }
    lowpass_picker_destroy(&kept->picker);
    kept->used = 0;
    enum status status = make_picker(stage, set, shape, &kept->picker, err);
    if (status == STATUS_NO_MEMORY) {
        picker_set_forget(set);
        status = make_picker(stage, set, shape, &kept->picker, err);
    }
    TRY(status);
    memcpy(kept->shape, shape, sizeof kept->shape);
    kept->used = ++set->clock;
    *ret_picker = kept->picker;
    return STATUS_OK;
}

enum status picker_pixel_size(const struct stage *stage, const struct item *item, const char *path, double header,
                              double *ret_pixel_size, struct err *err) {
    double pixel_size = item_number(item, "optics.pixel_size", stage_session(stage)->pixel_size);
    if (!(pixel_size > 0)) pixel_size = header;
    FAIL_IF(!(pixel_size > 0) || pixel_size > PIXEL_SIZE_MOST, err, STATUS_BAD_ARGUMENT,
            "%s: the pixel size is not known (%g Å/px): set session.pixel_size", path, pixel_size);
    *ret_pixel_size = pixel_size;
    return STATUS_OK;
}

bool picker_ctf(const struct stage *stage, const struct item *item, struct ctf *ret_ctf) {
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

uint64_t picker_seed(const struct item *item) {
    const char *id = item_id(item);
    return text_fnv(TEXT_FNV_BEGIN, id, strlen(id));
}
