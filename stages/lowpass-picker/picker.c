#include "stages/lowpass-picker/picker.h"

#include <math.h>

#include "common/memory.h"
#include "stages/lowpass-picker/geometry.h"
#include "stages/lowpass-picker/picker_private.h"

static enum status build(struct picker *p, const struct picker_templates *templates, struct err *err) {
    const struct picker_settings *s = &p->settings;
    struct pick_geometry *g = &p->geometry;
    FAIL_IF(!(s->pixel_size > 0), err, STATUS_BAD_ARGUMENT, "the micrographs' pixel size is %g Å: set pixel_size",
            s->pixel_size);
    FAIL_IF(g->nx < PICK_WORK_LEAST || g->ny < PICK_WORK_LEAST || g->nx > 32000 || g->ny > 32000, err,
            STATUS_UNSUPPORTED, "a micrograph of %d × %d px: from %d to 32000 can be picked", g->nx, g->ny,
            PICK_WORK_LEAST);
    g->method = s->method;
    g->size_rule = s->size_rule;
    g->pixel_size = s->pixel_size;
    g->lowpass = s->lowpass;
    g->angle_step = s->angle_step;
    geometry_choose_sizes(g);
    g->whiten = s->whiten;
    g->bright = s->method == PICKER_LOG && !s->invert;
    g->rotations = s->method == PICKER_LOG ? 1 : (int)lround(360 / s->angle_step);
    if (g->rotations < 1) g->rotations = 1;
    return s->method == PICKER_TEMPLATE ? picker_template_create(p, templates, err) : picker_log_create(p, err);
}

enum status picker_create(const struct picker_settings *settings, const struct picker_templates *templates, int nx,
                          int ny, struct picker **ret_picker, struct err *err) {
    struct picker *p = NULL;
    TRY(mem_new(1, sizeof *p, "picker", &p, err));
    p->settings = *settings;
    if (p->settings.threads < 1) p->settings.threads = 1;
    p->geometry.nx = nx;
    p->geometry.ny = ny;
    p->geometry.data = (struct contamination_area){0, 0, nx, ny};
    enum status status = build(p, templates, err);
    if (status != STATUS_OK) {
        picker_destroy(&p);
        return status;
    }
    *ret_picker = p;
    return STATUS_OK;
}

void picker_destroy(struct picker **picker) {
    if (!*picker) return;
    search_destroy(&(*picker)->search);
    mem_free(picker);
}

double picker_diameter(const struct picker *p) {
    return p->geometry.diameter;
}

enum status picker_search(struct picker *p, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                          struct pick_maps *maps, struct err *err) {
    maps->geometry = p->geometry;
    return search_run(p->search, input, p->settings.method == PICKER_TEMPLATE ? ctf : NULL, seed, &maps->maps, err);
}
