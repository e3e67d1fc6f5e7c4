#include "stages/motion-corrector/corrected.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "stages/motion-corrector/motion_corrector.h"

/* RELION's limit between early and late motion, e⁻/Å². */
static const double EARLY = 4;

void corrected_clear(struct corrected *c) {
    struct image *images[] = {&c->weighted_sum, &c->unweighted_sum, &c->even, &c->odd, &c->spectrum};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        image_destroy(images[i]);
    motion_model_clear(&c->model);
    free(c->patches);
    free(c->shifts);
    *c = (struct corrected){0};
}

enum status corrected_resize(struct corrected *c, int nx, int ny, int spectrum_side, struct err *err) {
    TRY(image_resize_unset(&c->unweighted_sum, nx, ny, 1, err));
    if (c->weighted) TRY(image_resize_unset(&c->weighted_sum, nx, ny, 1, err));
    if (c->halves) {
        TRY(image_resize_unset(&c->even, nx, ny, 1, err));
        TRY(image_resize_unset(&c->odd, nx, ny, 1, err));
    }
    return image_resize_unset(&c->spectrum, spectrum_side, spectrum_side, 1, err);
}

static enum status make_room(struct corrected *c, size_t patches, size_t shifts, struct err *err) {
    if (patches > c->patch_room) {
        mem_free(&c->patches);
        c->patch_room = 0;
        TRY(mem_new(patches, sizeof *c->patches, "the motion of patches", &c->patches, err));
        c->patch_room = patches;
    }
    if (shifts > c->shift_room) {
        mem_free(&c->shifts);
        c->shift_room = 0;
        TRY(mem_new(shifts, sizeof *c->shifts, "the motion of patches", &c->shifts, err));
        c->shift_room = shifts;
    }
    return STATUS_OK;
}

enum status corrected_take_report(struct corrected *c, const struct motion_report *report, struct err *err) {
    size_t patches = report->patches > 0 ? (size_t)report->patches : 0, groups = (size_t)report->groups;
    TRY(make_room(c, patches, 2 * patches * groups, err));
    for (size_t i = 0; i < patches; i++) {
        float *x = c->shifts + 2 * i * groups, *y = x + groups;
        c->patches[i] = report->patch[i];
        if (report->patch[i].shift_x != NULL && report->patch[i].shift_y != NULL) {
            memcpy(x, report->patch[i].shift_x, groups * sizeof *x);
            memcpy(y, report->patch[i].shift_y, groups * sizeof *y);
        } else
            memset(x, 0, 2 * groups * sizeof *x);
        c->patches[i].shift_x = x;
        c->patches[i].shift_y = y;
    }
    c->report = *report;
    c->report.patch = c->patches;
    return STATUS_OK;
}

struct motion_lengths motion_lengths(const struct motion_model *model, const struct exposure *exposure) {
    struct motion_lengths lengths = {0};
    double dose = exposure->dose_per_frame > 0 ? exposure->dose_per_frame : 1;
    double last_early = (EARLY - exposure->pre_exposure) / dose;
    for (int j = 1; j < model->frames; j++) {
        double x = (double)model->x[j] - (double)model->x[j - 1], y = (double)model->y[j] - (double)model->y[j - 1];
        double step = hypot(x, y) * exposure->pixel_size;
        lengths.total += step;
        *(exposure->first_frame + j <= last_early ? &lengths.early : &lengths.late) += step;
    }
    return lengths;
}
