#include "stages/lowpass-picker/from_maps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "stages/lowpass-picker/maps_file.h"

enum status from_maps_check(const struct lowpass_picker_params *p, struct err *err) {
    FAIL_IF(!file_exists(p->from_maps), err, STATUS_NOT_FOUND,
            "from_maps is %s, which is not there: expected the folder of an earlier run with keep_maps", p->from_maps);
    FAIL_IF(p->templates || p->log_diameter.count > 0 || !isnan(p->diameter), err, STATUS_BAD_ARGUMENT,
            "from_maps picks from maps as they are: templates, diameter and log_diameter are theirs, so leave these "
            "out, or "
            "search again without from_maps");
    FAIL_IF(
        !p->invert || !p->ctf, err, STATUS_BAD_ARGUMENT,
        "from_maps picks from maps as they are: invert and ctf are theirs, so leave these out, or search again without "
        "from_maps");
    FAIL_IF(p->keep_maps, err, STATUS_BAD_ARGUMENT,
            "from_maps and keep_maps exclude each other: the maps are kept already");
    return STATUS_OK;
}

/* A parameter that stands at its default may not have been given at all, and says nothing. */
static bool contradicts(const char *name, double asked, double searched) {
    const struct stage_descriptor *d = &lowpass_picker_stage;
    for (size_t i = 0; i < d->param_count; i++)
        if (strcmp(d->params[i].name, name) == 0 && asked == strtod(d->params[i].default_text, NULL)) return false;
    return fabs(asked - searched) > 1e-6 * fabs(searched);
}

static enum status check_search(const char *path, const struct lowpass_picker_params *p, const struct pick_geometry *g,
                                struct err *err) {
    FAIL_IF(contradicts("lowpass", p->lowpass, g->lowpass), err, STATUS_BAD_ARGUMENT,
            "%s: searched with lowpass %g Å, not %g: leave lowpass out, or search again without from_maps", path,
            g->lowpass, p->lowpass);
    FAIL_IF(contradicts("angle_step", p->angle_step, g->angle_step), err, STATUS_BAD_ARGUMENT,
            "%s: searched with angle_step %g°, not %g: leave angle_step out, or search again without from_maps", path,
            g->angle_step, p->angle_step);
    FAIL_IF((p->method == 1 && g->method == PICKER_LOG) || (p->method == 2 && g->method == PICKER_TEMPLATE), err,
            STATUS_BAD_ARGUMENT, "%s: searched with method %s: leave method out, or search again without from_maps",
            path, g->method == PICKER_LOG ? "log, not template" : "template, not log");
    FAIL_IF((p->whiten == 1 && !g->whiten) || (p->whiten == 2 && g->whiten), err, STATUS_BAD_ARGUMENT,
            "%s: searched with whiten %s: leave whiten out, or search again without from_maps", path,
            g->whiten ? "on, not off" : "off, not on");
    FAIL_IF(p->size_rule == 1 && g->size_rule == PICK_SIZES_SMOOTH, err, STATUS_BAD_ARGUMENT,
            "%s: searched with size_rule smooth, not relion: leave size_rule out, or search again without from_maps",
            path);
    return STATUS_OK;
}

enum status from_maps_load(struct stage *stage, struct stage_lane *lane, struct err *err) {
    const struct lowpass_picker_params *p = stage_params(stage);
    struct lowpass_picker_lane *l = lane->state;
    char folder[PATH_SIZE], stem[PATH_SIZE], name[PATH_SIZE], path[PATH_SIZE];
    const char *micrograph = NULL;
    TRY(item_need_string(lane->item, "micrograph.path", &micrograph, err));
    TRY(stage_resolve(stage, p->from_maps, folder, err));
    TRY(path_stem(item_id(lane->item), stem, sizeof stem, err));
    int used = snprintf(name, sizeof name, "%s" MAPS_SUFFIX, stem);
    FAIL_IF(used < 0 || (size_t)used >= sizeof name, err, STATUS_BAD_ARGUMENT,
            "the name of the maps of %.80s is too long", item_id(lane->item));
    TRY(path_join(folder, name, path, sizeof path, err));
    TRY(maps_file_read(path, micrograph, &l->maps, &l->stack, err));
    return check_search(path, p, &l->maps.geometry, err);
}
