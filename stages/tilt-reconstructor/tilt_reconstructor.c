#include "stages/tilt-reconstructor/tilt_reconstructor.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/harness/stage.h"
#include "common/memory.h"

/* Returns a number of an item if it is between 0 and TILTS_MAX, else 0: an item may come from anywhere. */
static int count_of(const struct item *item, const char *member) {
    double value = item_number(item, member, 0);
    return value >= 0 && value <= TILTS_MAX ? (int)value : 0;
}

/* Checks that a tomogram and its item can be named after a series. The name may come from anywhere, so that a bad one
 * fails its tilts and not the stage. */
static enum status check_series(const char *series, struct err *err) {
    _cleanup_(item_destroy) struct item *probe = NULL;
    char id[PATH_SIZE + 16];
    struct err own = {0};
    snprintf(id, sizeof id, "tomogram/%s/0000", series);
    enum status status = strlen(series) < PATH_SIZE ? item_create(id, "tomogram", &probe, &own) : STATUS_BAD_FORMAT;
    FAIL_IF(status == STATUS_NO_MEMORY, err, status, "%s", own.message);
    FAIL_IF(status != STATUS_OK, err, STATUS_BAD_FORMAT,
            "the name of its series (tilt.series, %zu bytes) cannot name a tomogram: it must be text without control "
            "characters, an empty part, '.' or '..', of at most %d bytes",
            strlen(series), ITEM_ID_MAX - 16);
    return STATUS_OK;
}

/* Two sources may have series of one name. */
static enum status name_series(const struct settings *settings, const struct item *item, const char *series,
                               char id[PATH_SIZE], struct err *err) {
    const char *source = settings->separate ? item_source(item) : "";
    int used = snprintf(id, PATH_SIZE, "%s%s%s", source, *source != '\0' ? "/" : "", series);
    FAIL_IF(used < 0 || used > ITEM_ID_MAX - 16, err, STATUS_BAD_FORMAT,
            "the name of the series %.80s… and of its source has %d bytes: at most %d are allowed", series, used,
            ITEM_ID_MAX - 16);
    return STATUS_OK;
}

enum status tilt_reconstructor_find(const struct settings *settings, const struct item *item,
                                    struct arrival *ret_arrival, char id[PATH_SIZE], bool *ret_single,
                                    struct err *err) {
    const char *series = item_string(item, "tilt.series"), *path;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    *ret_single = true;
    *ret_arrival = (struct arrival){.pixel_size = item_number(item, "optics.pixel_size", NAN),
                                    .spacing = item_number(item, "tilt.pixel_size", NAN),
                                    .time = item_number(item, "tilt.time", NAN),
                                    .tilt_axis = item_number(item, "tilt.axis", NAN)};
    if (series != NULL) {
        TRY(check_series(series, err));
        TRY(item_need_number(item, "tilt.angle", &ret_arrival->angle, err));
        ret_arrival->number = count_of(item, "tilt.number");
        ret_arrival->taken = count_of(item, "tilt.taken");
        return name_series(settings, item, series, id, err);
    }
    int found = settings->mdoc_id != NULL && !mdoc_is_name(path) ? mdoc_find(&settings->mdoc, path) : -1;
    if (found >= 0 && item_number(item, "micrograph.nz", 1) <= 1) {
        const struct mdoc_tilt *tilt = &settings->mdoc.tilts[found];
        ret_arrival->angle = tilt->angle;
        ret_arrival->number = tilt->z + 1;
        ret_arrival->taken = found;
        ret_arrival->time = tilt->time;
        ret_arrival->spacing = settings->mdoc.pixel_size;
        ret_arrival->tilt_axis = settings->mdoc.tilt_axis;
        if (isnan(ret_arrival->pixel_size)) ret_arrival->pixel_size = settings->mdoc.pixel_size;
        return name_series(settings, item, settings->mdoc_id, id, err);
    }
    *ret_single = false;
    char name[PATH_SIZE];
    mdoc_series_name(item_id(item), name, PATH_SIZE);
    return name_series(settings, item, name, id, err);
}

static enum status check_angle(const char *path, double angle, struct err *err) {
    FAIL_IF(!isfinite(angle), err, STATUS_BAD_FORMAT, "%s: its tilt angle is not a number", path);
    FAIL_IF(fabs(angle) > TILT_ANGLE_MAX, err, STATUS_BAD_FORMAT, "%s: a tilt of %g° lies beyond ±90°", path, angle);
    return STATUS_OK;
}

/* Compares the mask with the first image of a series, before the others have come. */
static enum status check_mask(const struct reconstruction_settings *settings, struct tilt_reconstructor_lane *lane,
                              const struct image_info *info, struct err *err) {
    struct tilt tilt = {.path = lane->path};
    const struct series series = {.name = lane->id,
                                  .nx = info->nx,
                                  .ny = info->ny,
                                  .tilt_axis = lane->arrival.tilt_axis,
                                  .count = 1,
                                  .tilts = &tilt};
    return reconstruction_check_mask(settings, &series, err);
}

static enum status load_single(struct stage *stage, const struct reconstruction_settings *settings,
                               struct tilt_reconstructor_lane *lane, struct err *err) {
    const struct tilt_reconstructor_options *p = stage_params(stage);
    struct image_info info;
    FAIL_IF(
        p->transforms != NULL, err, STATUS_BAD_ARGUMENT,
        "%s: transforms %s go with the images of a stack, and this is a single image of its series: make a stack of "
        "them, or leave transforms out (align: coarse finds shifts)",
        lane->path, p->transforms);
    TRY(check_angle(lane->path, lane->arrival.angle, err));
    TRY(image_probe(lane->path, &info, err));
    FAIL_IF(info.nz != 1, err, STATUS_UNSUPPORTED,
            "%s holds %d images: a file of frames must go through a motion corrector first", lane->path, info.nz);
    TRY(check_mask(settings, lane, &info, err));
    struct tilt tilt = {.path = lane->path, .angle = lane->arrival.angle, .number = lane->arrival.number};
    TRY(projections_check(&tilt, info.nx, info.ny, &lane->source, err));
    if (isnan(lane->arrival.pixel_size) && info.pixel_size > 0) lane->arrival.pixel_size = info.pixel_size;
    lane->arrival.nx = info.nx;
    lane->arrival.ny = info.ny;
    lane->arrival.series = lane->id;
    lane->arrival.path = lane->path;
    return STATUS_OK;
}

/* Finds the .xf beside a stack, for `transforms: beside`. */
static enum status transforms_beside(const char *stack, char out[PATH_SIZE], struct err *err) {
    char stem[PATH_SIZE];
    TRY(path_without_ending(stack, stem, sizeof stem, err));
    int used = snprintf(out, PATH_SIZE, "%s.xf", stem);
    FAIL_IF(used >= PATH_SIZE || !file_exists(out), err, STATUS_NOT_FOUND,
            "%s: there is no %s.xf beside it, where transforms: beside expects its transforms", stack, path_name(stem));
    return STATUS_OK;
}

static enum status read_series(struct stage *stage, const char *path, const bool *exclude, struct series *ret_series,
                               struct err *err) {
    const struct tilt_reconstructor_options *p = stage_params(stage);
    char transforms[PATH_SIZE];
    struct series_files files = {
        .tilts = p->tilts, .transforms = p->transforms, .images = p->images, .exclude = exclude};
    if (p->transforms != NULL && strcmp(p->transforms, "beside") == 0) {
        TRY(transforms_beside(path, transforms, err));
        files.transforms = transforms;
    }
    return series_read(path, &files, ret_series, err);
}

/* Refuses a single image that the .mdoc, which the user gave, does not name. */
static enum status refuse_stranger(const char *path, const struct mdoc *mdoc, const char *tilts, struct err *err) {
    struct image_info info;
    const char *first = NULL;
    TRY(image_probe(path, &info, err));
    for (int i = 0; i < mdoc->count && first == NULL; i++)
        first = mdoc->tilts[i].file;
    FAIL_IF(info.nz == 1 && first != NULL, err, STATUS_BAD_FORMAT,
            "%s names no %s (its first tilt is %s): it is not of that series; leave it out of the folder", tilts,
            path_name(path), mdoc_file_name(first));
    return STATUS_OK;
}

static enum status load_series(struct stage *stage, const struct tilt_reconstructor *reconstructor,
                               struct tilt_reconstructor_lane *lane, const struct item *item, struct err *err) {
    const struct tilt_reconstructor_options *p = stage_params(stage);
    _cleanup_(series_clear) struct series series = {0};
    const bool *exclude = reconstructor->settings->reconstruction.exclude;
    if (reconstructor->settings->mdoc_id != NULL && !mdoc_is_name(lane->path))
        TRY(refuse_stranger(lane->path, &reconstructor->settings->mdoc, p->tilts, err));
    TRY(read_series(stage, lane->path, exclude, &series, err));
    for (int i = 0; i < series.count; i++)
        if (!series_excludes(exclude, series.tilts[i].number)) TRY(stage_may_read(stage, series.tilts[i].path, err));
    double known = item_number(item, "optics.pixel_size", NAN);
    if (known > 0) series.pixel_size = known;
    lane->fingerprint = reconstruction_fingerprint(&reconstructor->settings->reconstruction, &series);
    return reconstruction_read(&reconstructor->settings->reconstruction, &series, true, &lane->reconstruction, err);
}

enum status tilt_reconstructor_load(struct stage *stage, const struct tilt_reconstructor *reconstructor,
                                    struct tilt_reconstructor_lane *lane, const struct item *item, struct err *err) {
    const struct settings *settings = reconstructor->settings;
    const char *path;
    TRY(tilt_reconstructor_find(settings, item, &lane->arrival, lane->id, &lane->single, err));
    TRY(item_need_string(item, "micrograph.path", &path, err));
    TRY(stage_resolve(stage, path, lane->path, err));
    return lane->single ? load_single(stage, &settings->reconstruction, lane, err)
                        : load_series(stage, reconstructor, lane, item, err);
}

/* Finds the size of an image: the item has it; for an item of an older session the file may have to be read. */
static enum status find_size(const struct item *item, const char *path, struct arrival *arrival, struct err *err) {
    double nx = item_number(item, "micrograph.nx", 0), ny = item_number(item, "micrograph.ny", 0);
    struct image_info info;
    if (nx >= 1 && ny >= 1 && nx <= INT_MAX && ny <= INT_MAX) {
        arrival->nx = (int)nx;
        arrival->ny = (int)ny;
        return STATUS_OK;
    }
    TRY(image_probe(path, &info, err));
    if (isnan(arrival->pixel_size) && info.pixel_size > 0) arrival->pixel_size = info.pixel_size;
    arrival->nx = info.nx;
    arrival->ny = info.ny;
    return STATUS_OK;
}

enum status tilt_reconstructor_rejoin(struct stage *stage, struct tilt_reconstructor *reconstructor,
                                      const struct item *item, bool failed, struct err *err) {
    struct arrival arrival;
    bool single;
    char id[PATH_SIZE], absolute[PATH_SIZE];
    const char *path;
    if (strcmp(item_kind(item), "tomogram") == 0) return STATUS_OK; /* this stage has sent it */
    TRY(tilt_reconstructor_find(reconstructor->settings, item, &arrival, id, &single, err));
    if (!single) return STATUS_OK;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    enum status status = stage_resolve(stage, path, absolute, err);
    bool away = status == STATUS_NOT_FOUND || status == STATUS_UNAVAILABLE;
    arrival.gone = status == STATUS_NOT_FOUND || (status == STATUS_OK && !file_exists(absolute));
    if (away) status = path_join(stage_root(stage), path, absolute, sizeof absolute, err);
    TRY(status);
    TRY(find_size(item, absolute, &arrival, err));
    arrival.series = id;
    arrival.path = absolute;
    char mark[ITEM_MARK_SIZE];
    item_mark(item_key(item), mark);
    arrival.item = mark;
    arrival.failed = failed;
    return live_submit(reconstructor->live, &arrival, err);
}
