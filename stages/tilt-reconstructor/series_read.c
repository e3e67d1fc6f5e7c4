/* Reads a series from files: a stack with its angles and transforms, or an .mdoc and the images that it names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mdoc.h"
#include "common/memory.h"
#include "stages/tilt-reconstructor/series.h"

static enum status begin(struct series *series, const char *path, const struct image_info *image, struct err *err) {
    *series = (struct series){.nx = image->nx, .ny = image->ny, .spacing = NAN, .tilt_axis = NAN};
    series->pixel_size = image->pixel_size > 0 ? (double)image->pixel_size : NAN;
    series->name = strdup(path);
    FAIL_IF(series->name == NULL, err, STATUS_NO_MEMORY, "no memory for the name %s", path);
    return STATUS_OK;
}

static bool try_name(const char *stem, size_t length, const char *ending, char out[PATH_SIZE]) {
    int used = snprintf(out, PATH_SIZE, "%.*s%s", (int)length, stem, ending);
    return used > 0 && used < PATH_SIZE && file_exists(out);
}

/* Looks for a file with this ending beside the stack TS.mrc, or beside the aligned stack TS_ali.mrc that IMOD made of
 * TS. */
static bool try_stems(const char *stem, const char *ending, char out[PATH_SIZE]) {
    static const char *const tails[] = {"", "_ali", "_preali"};
    for (size_t t = 0; t < sizeof tails / sizeof *tails; t++) {
        size_t length = strlen(stem), tail = strlen(tails[t]);
        if (length > tail && strcmp(stem + length - tail, tails[t]) == 0 && try_name(stem, length - tail, ending, out))
            return true;
    }
    return false;
}

/* Looks for the .mdoc of a stack: for TS.st these are TS.st.mdoc, that of a stack TS with another ending (TS.mrc.mdoc),
 * and TS.mdoc. */
static enum status find_mdoc(const char *stack, char out[PATH_SIZE], bool *ret_found, struct err *err) {
    char stem[PATH_SIZE], ending[32];
    const char *of_stack;
    TRY(path_without_ending(stack, stem, sizeof stem, err));
    bool found = try_name(stack, strlen(stack), ".mdoc", out);
    for (size_t i = 0; !found && (of_stack = image_ending(i, IMAGE_AS_TILT_STACK)) != NULL; i++) {
        snprintf(ending, sizeof ending, "%s.mdoc", of_stack);
        found = try_stems(stem, ending, out);
    }
    *ret_found = found || try_stems(stem, ".mdoc", out);
    return STATUS_OK;
}

/* Looks for refined angles (.tlt), then nominal ones (.rawtlt), then those of the microscope (.mdoc). */
static enum status find_tilts(const char *stack, char out[PATH_SIZE], struct err *err) {
    char stem[PATH_SIZE];
    bool found = false;
    TRY(path_without_ending(stack, stem, sizeof stem, err));
    if (try_stems(stem, ".tlt", out) || try_stems(stem, ".rawtlt", out)) return STATUS_OK;
    TRY(find_mdoc(stack, out, &found, err));
    FAIL_IF(!found, err, STATUS_NOT_FOUND,
            "%s: its tilt angles are unknown: there is neither %s.tlt nor %s.rawtlt nor an .mdoc beside it; name the "
            "file with tilts (of single images, the .mdoc that names them)",
            stack, path_name(stem), path_name(stem));
    return STATUS_OK;
}

/* Angles and times of a stack's images, [images] each. */
struct views {
    double *angles; /* °; NaN: unknown (an excluded view) */
    double *times;  /* s; NaN: unknown */
};

static void views_clear(struct views *views) {
    mem_free(&views->angles);
    mem_free(&views->times);
}

static enum status section_without(const char *path, const struct mdoc_tilt *tilt, const char *what, struct err *err) {
    FAIL(err, STATUS_BAD_FORMAT, "%s: section ZValue %d has no %s: complete it, or leave the view out with exclude: %d",
         path, tilt->z, what, tilt->z + 1);
}

/* Copies angles and times from an .mdoc. If an image has two sections, the later counts: SerialEM writes a section
 * again. */
static enum status angles_of_mdoc(const struct mdoc *mdoc, const char *path, const char *stack, int images,
                                  const bool *exclude, struct views *views, struct err *err) {
    double *angles = views->angles, *times = views->times;
    FAIL_IF(mdoc->montage, err, STATUS_BAD_FORMAT,
            "%s: this is the .mdoc of a montage, several pieces a tilt: blend them into one image a tilt first", path);
    for (int i = 0; i < mdoc->count; i++) {
        const struct mdoc_tilt *tilt = &mdoc->tilts[i];
        if (series_excludes(exclude, tilt->z + 1)) continue;
        FAIL_IF(tilt->z >= images, err, STATUS_BAD_FORMAT,
                "%s has a section for image %d (ZValue %d), but %s holds %d images", path, tilt->z + 1, tilt->z, stack,
                images);
        if (isnan(tilt->angle)) return section_without(path, tilt, "TiltAngle", err);
        if (!isnan(angles[tilt->z]) && !mdoc_is_later(times[tilt->z], tilt->time, true)) continue;
        angles[tilt->z] = tilt->angle;
        times[tilt->z] = tilt->time;
    }
    for (int i = 0; i < images; i++)
        FAIL_IF(isnan(angles[i]) && !series_excludes(exclude, i + 1), err, STATUS_BAD_FORMAT,
                "%s: there is no section for image %d (ZValue %d) of the %d in %s: add it, or leave the image out with "
                "exclude: %d",
                path, i + 1, i, images, stack, i + 1);
    return STATUS_OK;
}

static void clear_mdoc(struct mdoc *mdoc) {
    mdoc_clear(mdoc);
}

/* Copies tilt axis and spacing of an .mdoc. The header of an image has its own pixel size, also after binning; the
 * .mdoc only that of the microscope. */
static void take_mdoc(struct series *series, const struct mdoc *mdoc) {
    series->tilt_axis = mdoc->tilt_axis;
    series->spacing = mdoc->pixel_size;
    if (isnan(series->pixel_size)) series->pixel_size = series->spacing;
}

static enum status stack_views(struct series *series, const char *stack, const char *tilts, int images,
                               const bool *exclude, struct views *ret_views, struct err *err) {
    _cleanup_(views_clear) struct views views = {0};
    TRY(mem_new((size_t)images, sizeof *views.times, "times of tilts", &views.times, err));
    for (int i = 0; i < images; i++)
        views.times[i] = NAN;
    if (mdoc_is_name(tilts)) {
        _cleanup_(clear_mdoc) struct mdoc mdoc = {0};
        TRY(mdoc_read(tilts, &mdoc, err));
        TRY(mem_new((size_t)images, sizeof *views.angles, "tilt angles", &views.angles, err));
        for (int i = 0; i < images; i++)
            views.angles[i] = NAN;
        TRY(angles_of_mdoc(&mdoc, tilts, stack, images, exclude, &views, err));
        series->retaken = true;
        take_mdoc(series, &mdoc);
    } else {
        int count;
        TRY(tilts_read_angles(tilts, &views.angles, &count, err));
        FAIL_IF(count != images, err, STATUS_BAD_FORMAT,
                "%s holds %d angles, but %s holds %d images: one angle for each image of the stack is expected", tilts,
                count, stack, images);
    }
    *ret_views = views;
    views = (struct views){0};
    return STATUS_OK;
}

/* Looks for the tilt axis, which stands only in the .mdoc, when the angles come from another file. An unreadable .mdoc
 * is no error. */
static enum status look_for_axis(const char *stack, struct series *series, struct err *err) {
    _cleanup_(clear_mdoc) struct mdoc mdoc = {0};
    char path[PATH_SIZE];
    bool found = false;
    if (!isnan(series->tilt_axis)) return STATUS_OK;
    TRY(find_mdoc(stack, path, &found, err));
    if (!found || mdoc_read(path, &mdoc, NULL) != STATUS_OK) return STATUS_OK;
    take_mdoc(series, &mdoc);
    return STATUS_OK;
}

/* Returns whether a transform moves the whole image out of sight. */
static bool leads_away(const struct tilt_transform *t, const struct series *series) {
    double scale = sqrt(fabs(t->a11 * t->a22 - t->a12 * t->a21));
    return hypot(t->dx, t->dy) >= 0.5 * (1 + scale) * hypot(series->nx, series->ny);
}

/* Notes transforms that move images out of sight: their shifts may be in px of the images before binning. */
static enum status note_far_transforms(struct series *series, const char *path, const bool *exclude, struct err *err) {
    const struct tilt *first = NULL;
    int count = 0;
    for (int i = 0; i < series->count; i++) {
        const struct tilt *tilt = &series->tilts[i];
        if (series_excludes(exclude, tilt->number) || !leads_away(&tilt->transform, series)) continue;
        if (count++ == 0) first = tilt;
    }
    return count == 0
               ? STATUS_OK
               : series_note(series, err,
                             "%.200s moves %d of %d images out of sight, view %d by %.6g, %.6g px where it has %d × "
                             "%d: are its shifts in px of larger images?",
                             path_name(path), count, series->count, first->number, first->transform.dx,
                             first->transform.dy, series->nx, series->ny);
}

static enum status read_stack(const char *stack, const struct series_files *files, const char *tilts,
                              struct series *series, struct err *err) {
    struct image_info image;
    _cleanup_(views_clear) struct views views = {0};
    _cleanup_(mem_free) struct tilt_transform *transforms = NULL;
    int lines = 0;
    TRY(image_probe(stack, &image, err));
    TRY(begin(series, stack, &image, err));
    FAIL_IF(image.nz < 2 || image.nz > TILTS_MAX, err, STATUS_BAD_FORMAT,
            "%s holds %d images: a stack of two or more tilts is expected, or an .mdoc that names single images", stack,
            image.nz);
    TRY(stack_views(series, stack, tilts, image.nz, files->exclude, &views, err));
    TRY(look_for_axis(stack, series, err));
    if (files->transforms != NULL) {
        TRY(tilts_read_transforms(files->transforms, &transforms, &lines, err));
        FAIL_IF(lines != image.nz, err, STATUS_BAD_FORMAT,
                "%s holds %d transforms, but %s holds %d images: a line for each image of the stack is expected",
                files->transforms, lines, stack, image.nz);
    }
    for (int i = 0; i < image.nz; i++) {
        struct tilt tilt = {.number = i + 1, .angle = views.angles[i], .slice = i, .taken = i, .time = views.times[i]};
        if (transforms != NULL) {
            tilt.transform = transforms[i];
            tilt.shifted = true;
        }
        TRY(series_add(series, &tilt, stack, err));
    }
    return transforms != NULL ? note_far_transforms(series, files->transforms, files->exclude, err) : STATUS_OK;
}

static enum status try_endings(const char *folder, const char *stem, char out[PATH_SIZE], bool *ret_found,
                               struct err *err) {
    const char *ending;
    char joined[PATH_SIZE];
    TRY(path_join(folder, stem, joined, sizeof joined, err));
    for (size_t i = 0; !*ret_found && (ending = image_ending(i, IMAGE_AS_TILT)) != NULL; i++)
        *ret_found = try_name(joined, strlen(joined), ending, out);
    return STATUS_OK;
}

/* Finds the image that an .mdoc calls `name`. Programs that process images on the way change endings, and points in
 * names into "_": this tries the changes that mdoc_find knows. */
static enum status find_image(const char *folder, const char *name, char out[PATH_SIZE], bool *ret_found,
                              struct err *err) {
    char stem[PATH_SIZE];
    TRY(path_join(folder, name, out, PATH_SIZE, err));
    *ret_found = file_exists(out);
    if (*ret_found) return STATUS_OK;
    snprintf(stem, sizeof stem, "%.*s", (int)mdoc_stem_length(name), name);
    TRY(try_endings(folder, stem, out, ret_found, err));
    for (char *at = stem; *at != '\0'; at++)
        if (*at == '.') *at = '_';
    return *ret_found ? STATUS_OK : try_endings(folder, stem, out, ret_found, err);
}

static enum status add_image(struct series *series, const struct mdoc_tilt *named, int taken, const char *path,
                             struct err *err) {
    struct image_info image;
    TRY(image_probe(path, &image, err));
    FAIL_IF(image.nz != 1, err, STATUS_UNSUPPORTED,
            "%s holds %d images: a file of frames must go through a motion corrector first", path, image.nz);
    if (series->nx == 0) {
        series->nx = image.nx;
        series->ny = image.ny;
    }
    if (isnan(series->pixel_size) && image.pixel_size > 0) series->pixel_size = image.pixel_size;
    FAIL_IF(image.nx != series->nx || image.ny != series->ny, err, STATUS_BAD_FORMAT,
            "%s has %d × %d px, the tilts before it %d × %d px: all of a series must have the same size; leave view %d "
            "out with exclude, or those",
            path, image.nx, image.ny, series->nx, series->ny, named->z + 1);
    struct tilt tilt = {.number = named->z + 1, .angle = named->angle, .taken = taken, .time = named->time};
    return series_add(series, &tilt, path, err);
}

static enum status read_single_images(const char *path, const struct mdoc *mdoc, const struct series_files *files,
                                      struct series *series, struct err *err) {
    char folder[PATH_SIZE], image[PATH_SIZE];
    FAIL_IF(files->transforms != NULL, err, STATUS_BAD_ARGUMENT,
            "%s: transforms go with the images of a stack, and %s names single files: make a stack of them", path,
            path_name(path));
    if (files->images != NULL)
        snprintf(folder, sizeof folder, "%s", files->images);
    else
        TRY(path_folder(path, folder, sizeof folder, err));
    const char *missing = NULL;
    int missing_count = 0, found_count = 0;
    for (int i = 0; i < mdoc->count; i++) {
        const struct mdoc_tilt *tilt = &mdoc->tilts[i];
        bool found = false;
        if (series_excludes(files->exclude, tilt->z + 1)) {
            struct tilt unread = {.number = tilt->z + 1, .angle = NAN};
            TRY(series_add(series, &unread, path, err));
            continue;
        }
        if (isnan(tilt->angle)) return section_without(path, tilt, "TiltAngle", err);
        if (tilt->file == NULL) return section_without(path, tilt, "SubFramePath, which others have", err);
        const char *name = mdoc_file_name(tilt->file);
        TRY(find_image(folder, name, image, &found, err));
        if (found) {
            TRY(add_image(series, tilt, i, image, err));
            found_count++;
            continue;
        }
        if (missing_count++ == 0) missing = name;
        TRY(series_note(series, err, "view %d at %.2f°: %.100s is not there: it is left out", tilt->z + 1, tilt->angle,
                        name));
    }
    FAIL_IF(missing != NULL && found_count < 2, err, STATUS_NOT_FOUND,
            "%s names %s, which is not in %s (%d of its %d images are missing there): put it there, or name the folder "
            "with images",
            path, missing, folder, missing_count, found_count + missing_count);
    if (isnan(series->pixel_size)) series->pixel_size = series->spacing;
    return STATUS_OK;
}

/* Finds the stack of an .mdoc: TS.st for TS.st.mdoc, else the file that the .mdoc names. The name inside may be an old
 * one. */
static enum status stack_of_mdoc(const char *path, const struct mdoc *mdoc, char stack[PATH_SIZE], struct err *err) {
    char folder[PATH_SIZE];
    struct image_info image;
    TRY(path_without_ending(path, stack, PATH_SIZE, err));
    if (file_exists(stack) && image_probe(stack, &image, NULL) == STATUS_OK) return STATUS_OK;
    TRY(path_folder(path, folder, sizeof folder, err));
    FAIL_IF(mdoc->image_file == NULL, err, STATUS_NOT_FOUND,
            "%s names no files: neither SubFramePath in its sections nor an ImageFile, and there is no %s", path,
            stack);
    TRY(path_join(folder, mdoc_file_name(mdoc->image_file), stack, PATH_SIZE, err));
    FAIL_IF(!file_exists(stack), err, STATUS_NOT_FOUND, "%s names the stack %s, which is not beside it", path,
            mdoc->image_file);
    return STATUS_OK;
}

static enum status read_mdoc(const char *path, const struct series_files *files, struct series *series,
                             struct err *err) {
    _cleanup_(clear_mdoc) struct mdoc mdoc = {0};
    char stack[PATH_SIZE];
    TRY(mdoc_read(path, &mdoc, err));
    FAIL_IF(mdoc.count == 0, err, STATUS_BAD_FORMAT, "%s: there is no [ZValue = …] section in it: no tilt is named",
            path);
    FAIL_IF(mdoc.montage, err, STATUS_BAD_FORMAT,
            "%s: this is the .mdoc of a montage, several pieces a tilt: blend them into one image a tilt first", path);
    FAIL_IF(mdoc.frames && mdoc.count == 1, err, STATUS_BAD_FORMAT,
            "%s: this is the .mdoc of one file of frames, not of a tilt series", path);
    /* A stack with all images serves better than the frames from which they were made. */
    if (files->images == NULL && stack_of_mdoc(path, &mdoc, stack, NULL) == STATUS_OK)
        return read_stack(stack, files, files->tilts != NULL ? files->tilts : path, series, err);
    bool named = false;
    for (int i = 0; i < mdoc.count; i++)
        named = named || mdoc.tilts[i].file != NULL;
    if (!named) return stack_of_mdoc(path, &mdoc, stack, err);
    struct image_info nothing = {0};
    TRY(begin(series, path, &nothing, err));
    series->retaken = true;
    series->tilt_axis = mdoc.tilt_axis;
    series->spacing = mdoc.pixel_size; /* used if no header has a pixel size */
    return read_single_images(path, &mdoc, files, series, err);
}

enum status series_read(const char *input, const struct series_files *files, struct series *ret_series,
                        struct err *err) {
    char tilts[PATH_SIZE];
    _cleanup_(series_clear) struct series series = {0};
    if (mdoc_is_name(input))
        TRY(read_mdoc(input, files, &series, err));
    else {
        if (files->tilts == NULL) TRY(find_tilts(input, tilts, err));
        TRY(read_stack(input, files, files->tilts != NULL ? files->tilts : tilts, &series, err));
    }
    *ret_series = series;
    series = (struct series){0};
    return STATUS_OK;
}
