#include "stages/watcher/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/harness/item_optics.h"
#include "common/memory.h"

const char *record_relative(const char *path, const char *root) {
    const char *rest;
    return root[0] != '\0' && path_is_below(path, root, &rest) ? rest : path;
}

/* Movies that were taken at one shift of the beam share aberrations, so they are one group. */
static void name_group(const struct record_source *source, char *out, size_t size) {
    if (source->notes.shot[0] != '\0')
        snprintf(out, size, "beamShift_%s", source->notes.shot);
    else if (source->shift_group > 0)
        snprintf(out, size, "beamShift%03d", source->shift_group);
    else
        snprintf(out, size, "opticsGroup1");
}

static enum status set_optics(const struct record_source *source, struct item *item, struct err *err) {
    struct ctf_optics given = {"", NAN, NAN, NAN, NAN, NAN, ""};
    if (source->rows != NULL) ctf_rows_optics(source->rows, source->row, &given);
    const struct optics session = session_optics(source->session);
    const struct movie_notes *notes = &source->notes;
    const struct optics table = {
        .pixel_size = isnan(given.pixel_size) && notes->pixel_size > 0 ? notes->pixel_size : given.pixel_size,
        .voltage = isnan(given.voltage) && notes->voltage > 0 ? notes->voltage : given.voltage,
        .spherical_aberration = given.spherical_aberration,
        .amplitude_contrast = given.amplitude_contrast,
    };
    double header = (double)source->image.pixel_size;
    if (!(header > 0) && source->tilt != NULL) header = source->tilt->pixel_size;
    const struct optics optics = optics_of_micrograph(&session, &table, header);
    FAIL_IF(isnan(optics.pixel_size), err, STATUS_NOT_FOUND,
            "%s: neither the session nor watcher.ctf nor the file's header tells its pixel size: set "
            "session.pixel_size (Å)",
            source->path);
    char group[64];
    bool named = given.group[0] != '\0' && item_text_fits(given.group);
    name_group(source, group, sizeof group);
    TRY(item_set_string(item, "optics.group", named ? given.group : group, err));
    if (given.aberrations[0] != '\0' && item_text_fits(given.aberrations))
        TRY(item_set_string(item, "optics.aberrations", given.aberrations, err));
    double original = isnan(given.original_pixel_size) ? optics.pixel_size : given.original_pixel_size;
    return item_set_optics(item, &optics, original, err);
}

enum status record_failed(const char *id, const char *path, const char *root, bool movie, struct item **ret_item,
                          struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(item_create(id, movie ? "movie" : "micrograph", &item, err));
    const char *name = record_relative(path, root);
    TRY(item_set_string(item, movie ? "movie.path" : "micrograph.path", item_text_fits(name) ? name : id, err));
    *ret_item = item;
    item = NULL;
    return STATUS_OK;
}

enum status record_structure(const char *id, const char *path, const char *root, struct item **ret_item,
                             struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(item_create(id, "structure", &item, err));
    TRY(item_set_string(item, "structure.path", record_relative(path, root), err));
    *ret_item = item;
    item = NULL;
    return STATUS_OK;
}

/* Checks the name of a series as that of a micrograph: the tomogram's item and its files are named after it. */
static enum status check_series(const char *series, struct err *err) {
    _cleanup_(item_destroy) struct item *probe = NULL;
    char id[PATH_SIZE + 16], shown[81];
    struct err own = {0};
    snprintf(id, sizeof id, "tomogram/%s/0000", series);
    if (item_create(id, "tomogram", &probe, &own) == STATUS_OK) return STATUS_OK;
    snprintf(shown, sizeof shown, "%s", series);
    for (unsigned char *c = (unsigned char *)shown; *c != '\0'; c++)
        if (*c < 0x20 || *c >= 0x7f) *c = '?';
    FAIL(err, STATUS_BAD_ARGUMENT,
         "the name of its series, '%s', holds a line break, a control character or bytes that are not UTF-8, has an "
         "empty part, '.' or '..', or is too long, so that no tomogram can be named after it: rename the .mdoc (or the "
         "images, where watcher.series is a pattern) and run the session again",
         shown);
}

static enum status set_tilt(const struct tilt_place *tilt, struct item *item, struct err *err) {
    TRY(check_series(tilt->series, err));
    TRY(item_set_string(item, "tilt.series", tilt->series, err));
    TRY(item_set_number(item, "tilt.angle", tilt->angle, err));
    TRY(item_set_number(item, "tilt.number", tilt->number, err));
    TRY(item_set_number(item, "tilt.taken", tilt->taken, err));
    if (!isnan(tilt->time)) TRY(item_set_number(item, "tilt.time", tilt->time, err));
    if (!isnan(tilt->pixel_size)) TRY(item_set_number(item, "tilt.pixel_size", tilt->pixel_size, err));
    return isnan(tilt->axis) ? STATUS_OK : item_set_number(item, "tilt.axis", tilt->axis, err);
}

static enum status set_movie(const struct record_source *source, struct item *item, struct err *err) {
    TRY(item_set_string(item, "movie.path", record_relative(source->path, source->root), err));
    TRY(item_set_number(item, "movie.nx", source->image.nx, err));
    TRY(item_set_number(item, "movie.ny", source->image.ny, err));
    TRY(item_set_number(item, "movie.frames", source->image.nz, err));
    double dose = source->notes.dose, prior = source->notes.pre_exposure;
    if (isnan(dose) && source->tilt != NULL) dose = source->tilt->dose;
    if (isnan(prior) && source->tilt != NULL) prior = source->tilt->prior_dose;
    if (!isnan(dose)) TRY(item_set_number(item, "movie.dose_per_frame", dose / source->image.nz, err));
    if (!isnan(prior)) TRY(item_set_number(item, "movie.pre_exposure", prior, err));
    if (!isnan(source->notes.stage_x) && !isnan(source->notes.stage_y)) {
        TRY(item_set_number(item, "movie.stage_x", source->notes.stage_x, err));
        TRY(item_set_number(item, "movie.stage_y", source->notes.stage_y, err));
    }
    if (source->shift_group == 0) return STATUS_OK;
    TRY(item_set_number(item, "movie.shift_group", source->shift_group, err));
    TRY(item_set_number(item, "movie.shift_x", source->notes.shift_x, err));
    return item_set_number(item, "movie.shift_y", source->notes.shift_y, err);
}

static enum status set_micrograph(const struct record_source *source, struct item *item, struct err *err) {
    TRY(item_set_string(item, "micrograph.path", record_relative(source->path, source->root), err));
    TRY(item_set_number(item, "micrograph.nx", source->image.nx, err));
    TRY(item_set_number(item, "micrograph.ny", source->image.ny, err));
    return source->image.nz > 1 ? item_set_number(item, "micrograph.nz", source->image.nz, err) : STATUS_OK;
}

enum status record_make(const struct record_source *source, struct item **ret_item, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(item_create(source->id, source->movie ? "movie" : "micrograph", &item, err));
    TRY(source->movie ? set_movie(source, item, err) : set_micrograph(source, item, err));
    if (!source->unscaled) TRY(set_optics(source, item, err));
    if (source->tilt != NULL) TRY(set_tilt(source->tilt, item, err));
    if (source->rows != NULL && source->row >= 0) TRY(ctf_rows_columns(source->rows, source->row, item, err));
    *ret_item = item;
    item = NULL;
    return STATUS_OK;
}
