#include "stages/watcher/movie_notes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/formats/epu.h"
#include "common/memory.h"

struct movie_notes movie_notes_unknown(void) {
    return (struct movie_notes){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, ""};
}

static double positive(double value) {
    return value > 0 ? value : NAN;
}

/* Takes the .mdoc of one file of frames. That of a whole series is read elsewhere. */
static enum status take_mdoc(const char *path, struct movie_notes *notes, bool *ret_found, struct err *err) {
    _cleanup_(mdoc_clear) struct mdoc mdoc = {0};
    TRY(mdoc_read(path, &mdoc, err));
    if (!mdoc.frames || mdoc.count != 1) return STATUS_OK;
    const struct mdoc_tilt *shot = &mdoc.tilts[0];
    notes->pixel_size = positive(mdoc.pixel_size);
    notes->voltage = positive(mdoc.voltage);
    notes->dose = positive(shot->dose);
    if (shot->prior >= 0) notes->pre_exposure = shot->prior;
    notes->stage_x = shot->stage_x;
    notes->stage_y = shot->stage_y;
    memcpy(notes->shot, shot->shot, sizeof notes->shot);
    *ret_found = true;
    return STATUS_OK;
}

static enum status take_epu(const char *path, struct movie_notes *notes, bool *ret_found, struct err *err) {
    struct epu_image image;
    TRY(epu_read(path, &image, err));
    notes->pixel_size = image.pixel_size;
    notes->voltage = image.voltage;
    notes->dose = image.dose;
    notes->shift_x = image.shift_x;
    notes->shift_y = image.shift_y;
    notes->stage_x = image.stage_x;
    notes->stage_y = image.stage_y;
    *ret_found = true;
    return STATUS_OK;
}

/* Writes the path without an ending that EPU gives to movies, "_Fractions" or "_EER". */
static void without_mark(const char *stem, char *out, size_t size) {
    static const char *const marks[] = {"_Fractions", "_EER"};
    snprintf(out, size, "%s", stem);
    size_t length = strlen(out);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t mark = strlen(marks[i]);
        if (length > mark && strcasecmp(out + length - mark, marks[i]) == 0) {
            out[length - mark] = '\0';
            return;
        }
    }
}

enum status movie_notes_read(const char *path, struct movie_notes *ret_notes, bool *ret_found, struct err *ret_problem,
                             struct err *err) {
    char stem[PATH_SIZE], exposure[PATH_SIZE], beside[PATH_SIZE + 8];
    struct movie_notes notes = movie_notes_unknown();
    *ret_found = false;
    *ret_problem = (struct err){0};
    TRY(path_without_ending(path, stem, sizeof stem, err));
    without_mark(stem, exposure, sizeof exposure);
    const struct {
        const char *stem, *ending;
        enum status (*take)(const char *path, struct movie_notes *notes, bool *ret_found, struct err *err);
    } places[] = {
        {path, ".mdoc", take_mdoc}, {stem, ".mdoc", take_mdoc}, {stem, ".xml", take_epu}, {exposure, ".xml", take_epu}};
    for (size_t i = 0; i < sizeof places / sizeof *places && !*ret_found; i++) {
        struct err own = {0};
        snprintf(beside, sizeof beside, "%s%s", places[i].stem, places[i].ending);
        if (!file_exists(beside)) continue;
        enum status status = places[i].take(beside, &notes, ret_found, &own);
        FAIL_IF(status == STATUS_NO_MEMORY, err, status, "%s", own.message);
        if (status == STATUS_OK) continue;
        *ret_problem = own;
        ret_problem->status = status;
    }
    if (*ret_found) *ret_problem = (struct err){0};
    *ret_notes = notes;
    return STATUS_OK;
}

int shift_groups_find(struct shift_groups *groups, double radius, double x, double y) {
    int nearest = -1;
    double least = INFINITY;
    for (int i = 0; i < groups->count; i++) {
        double distance = hypot(groups->x[i] - x, groups->y[i] - y);
        if (isnan(distance) || distance >= least) continue;
        nearest = i;
        least = distance;
    }
    bool full = groups->count == SHIFT_GROUPS_MAX;
    if (nearest >= 0 && (least <= radius || full)) return nearest + 1;
    if (full) return SHIFT_GROUPS_MAX; /* the shift is so large that no distance is finite */
    groups->x[groups->count] = x;
    groups->y[groups->count] = y;
    return ++groups->count;
}

void shift_groups_restore(struct shift_groups *groups, int number, double x, double y) {
    if (number < 1 || number > SHIFT_GROUPS_MAX || isnan(x) || isnan(y)) return;
    for (; groups->count < number; groups->count++)
        groups->x[groups->count] = groups->y[groups->count] = NAN;
    if (!isnan(groups->x[number - 1])) return;
    groups->x[number - 1] = x;
    groups->y[number - 1] = y;
}
