#include "stages/lowpass-picker/from_maps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "stages/lowpass-picker/maps_file.h"
#include "stages/lowpass-picker/parameters.h"

enum status from_maps_check(const struct lowpass_picker_options *p, struct err *err) {
    FAIL_IF(!file_exists(p->from_maps), err, STATUS_NOT_FOUND,
            "from_maps is %s, which is not there: expected the folder of an earlier run with keep_maps", p->from_maps);
    FAIL_IF(p->templates_from != NULL, err, STATUS_BAD_ARGUMENT,
            "from_maps picks from maps as they are, so nothing can be adopted: leave out templates_from");
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

/* A parameter at its default may not have been set at all, so it contradicts nothing. */
static bool contradicts(const char *name, double asked, double searched) {
    for (int i = 0; i < LOWPASS_PICKER_PARAMETERS; i++) {
        const struct param *param = &lowpass_picker_parameters[i];
        if (strcmp(param->name, name) == 0 && asked == strtod(param->default_text, NULL)) return false;
    }
    return fabs(asked - searched) > 1e-6 * fabs(searched);
}

static enum status check_search(const char *path, const struct lowpass_picker_options *p, const struct pick_geometry *g,
                                struct err *err) {
    FAIL_IF(contradicts("lowpass", p->lowpass, g->lowpass), err, STATUS_BAD_ARGUMENT,
            "%s: searched with lowpass %g Å, not %g: leave lowpass out, or search again without from_maps", path,
            g->lowpass, p->lowpass);
    FAIL_IF(contradicts("angle_step", p->angle_step, g->angle_step), err, STATUS_BAD_ARGUMENT,
            "%s: searched with angle_step %g°, not %g: leave angle_step out, or search again without from_maps", path,
            g->angle_step, p->angle_step);
    FAIL_IF((p->method == METHOD_TEMPLATE && g->method == PICKER_LOG) ||
                (p->method == METHOD_LOG && g->method == PICKER_TEMPLATE),
            err, STATUS_BAD_ARGUMENT,
            "%s: searched with method %s: leave method out, or search again without from_maps", path,
            g->method == PICKER_LOG ? "log, not template" : "template, not log");
    FAIL_IF((p->whiten == WHITEN_ON && !g->whiten) || (p->whiten == WHITEN_OFF && g->whiten), err, STATUS_BAD_ARGUMENT,
            "%s: searched with whiten %s: leave whiten out, or search again without from_maps", path,
            g->whiten ? "on, not off" : "off, not on");
    FAIL_IF(p->size_rule == PICK_SIZES_RELION && g->size_rule == PICK_SIZES_SMOOTH, err, STATUS_BAD_ARGUMENT,
            "%s: searched with size_rule smooth, not relion: leave size_rule out, or search again without from_maps",
            path);
    return STATUS_OK;
}

enum status from_maps_read(const char *folder, const char *id, const char *micrograph,
                           const struct lowpass_picker_options *options, struct pick_maps *maps, struct image *scratch,
                           struct err *err) {
    char stem[PATH_SIZE], name[PATH_SIZE], path[PATH_SIZE];
    TRY(path_stem(id, stem, sizeof stem, err));
    int used = snprintf(name, sizeof name, "%s" MAPS_SUFFIX, stem);
    FAIL_IF(used < 0 || (size_t)used >= sizeof name, err, STATUS_BAD_ARGUMENT,
            "the name of the maps of %.80s is too long", id);
    TRY(path_join(folder, name, path, sizeof path, err));
    TRY(maps_file_read(path, micrograph, maps, scratch, err));
    return check_search(path, options, &maps->geometry, err);
}
