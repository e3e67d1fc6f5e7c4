/* Judges files of the watched folder by their content: whole, growing or hopeless; movies and what is none. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "common/formats/image_formats.h"
#include "common/formats/structure.h"
#include "common/text.h"
#include "stages/watcher/folder_private.h"
#include "stages/watcher/movie_files.h"

enum { TAIL = 4096 };

/* Returns whether a file ends in zeros: a program may have reserved its full size before it writes the pixels. */
static bool ends_in_zeros(const char *path, int64_t size) {
    /* Non-blocking: a named pipe may have taken the file's place. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    unsigned char tail[TAIL];
    ssize_t got = pread(descriptor, tail, sizeof tail, size > TAIL ? size - TAIL : 0);
    close(descriptor);
    bool zeros = got > 0;
    for (ssize_t i = 0; i < got && zeros; i++)
        zeros = tail[i] == 0;
    return zeros;
}

/* Returns whether a part of a file before its end was never written, as when a program reserves the whole file, or
 * writes its end first. False where the file system does not tell. */
static bool has_holes(const char *path, int64_t size) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    off_t hole = lseek(descriptor, 0, SEEK_HOLE);
    close(descriptor);
    return hole >= 0 && hole < size;
}

void folder_set_failed(struct folder_find *find, const char *reason) {
    snprintf(find->reason, sizeof find->reason, "%s", reason);
    text_trim(find->reason);
    find->verdict = FOLDER_FAILED;
}

/* Returns how long (s) a file with holes must rest. Programs leave holes until they come to them, but a file may be
 * sparse for good. */
static double patience_for_holes(const struct folder *folder) {
    return fmax(folder->options.stall, 6 * folder->options.settle);
}

/* Returns whether nothing shows that a part of a file is missing: pixels that are zeros to the end, or were never
 * written, may still come. */
static bool looks_written(const struct folder *folder, const struct known_file *file, double unchanged) {
    if (unchanged < patience_for_holes(folder) && has_holes(folder->path, file->size)) return false;
    return unchanged >= folder->options.settle || !ends_in_zeros(folder->path, file->size);
}

static enum look set_ready(const struct known_file *file, struct folder_find *find) {
    find->verdict = FOLDER_READY;
    find->failed_before = file->was_reported;
    return LOOK_REPORT;
}

static enum look look_at_structure(const struct folder *folder, const struct known_file *file, double unchanged,
                                   bool ends, struct folder_find *find) {
    if (unchanged < patience_for_holes(folder) && has_holes(folder->path, file->size)) return LOOK_AGAIN;
    if (!ends && unchanged < folder->options.settle) return LOOK_AGAIN;
    return set_ready(file, find);
}

static enum look look_at_image(const struct folder *folder, const struct known_file *file, double unchanged,
                               struct folder_find *find) {
    bool picture = image_is_photograph(find->image.format);
    bool grows = folder->options.stacks_grow && find->image.nz > 1;
    if (unchanged < folder->options.settle && (picture || grows)) return LOOK_AGAIN;
    if (!looks_written(folder, file, unchanged)) return LOOK_AGAIN;
    if (picture && folder_is_thumbnail(folder, file)) {
        snprintf(find->reason, sizeof find->reason, "%s", FOLDER_PICTURE);
        find->verdict = FOLDER_DUPLICATE;
        return LOOK_REPORT;
    }
    return set_ready(file, find);
}

/* Movies grow frame by frame, and are correct files each time: only the number of frames, or rest, shows the end. A
 * short movie is reported; it goes on if its other frames come after all. */
static enum look look_at_movie(const struct folder *folder, const struct known_file *file, double unchanged,
                               struct folder_find *find) {
    int frames = find->image.nz, expected = folder->options.frames;
    bool counted = expected > 0 && frames >= expected;
    if (!counted && unchanged < folder->options.settle) return LOOK_AGAIN;
    if (!looks_written(folder, file, unchanged)) return LOOK_AGAIN;
    if (movie_file_is_none(folder->path, &find->image, find->reason, sizeof find->reason)) {
        find->verdict = FOLDER_NO_MOVIE;
        return LOOK_REPORT;
    }
    if (expected == 0 || counted) return set_ready(file, find);
    if (file->was_reported || unchanged < folder->options.stall) return LOOK_AGAIN;
    snprintf(find->reason, sizeof find->reason,
             "%s: has %d frames, and watcher.frames says %d (unchanged for %.0f s): the movie was cut short, or "
             "watcher.frames is wrong",
             folder->path, frames, expected, unchanged);
    find->verdict = FOLDER_FAILED;
    return LOOK_REPORT;
}

static enum status probe(const struct folder *folder, const struct known_file *file, struct folder_find *find,
                         bool *ret_ends, struct err *err) {
    enum structure_format format;
    find->structure = structure_is_name(file->path);
    if (find->structure) return structure_probe(folder->path, &format, ret_ends, err);
    if (folder->options.movies) return movie_file_probe(folder->path, &find->image, err);
    return image_probe(folder->path, &find->image, err);
}

enum look folder_look_inside(const struct folder *folder, const struct known_file *file, double now,
                             struct folder_find *find) {
    struct err own = {0};
    bool ends = false;
    enum status status = probe(folder, file, find, &ends, &own);
    double unchanged = now - file->changed_at;
    if (status == STATUS_OK)
        return find->structure          ? look_at_structure(folder, file, unchanged, ends, find)
               : folder->options.movies ? look_at_movie(folder, file, unchanged, find)
                                        : look_at_image(folder, file, unchanged, find);
    bool hopeless = status == STATUS_BAD_FORMAT || status == STATUS_UNSUPPORTED;
    double limit = hopeless ? fmin(folder->options.settle, folder->options.stall) : folder->options.stall;
    bool passing = status == STATUS_UNAVAILABLE || status == STATUS_NO_MEMORY; /* says nothing about the file */
    if (file->was_reported || passing || unchanged < limit) return LOOK_AGAIN;
    char reason[sizeof own.message + 64];
    snprintf(reason, sizeof reason, "%s (unchanged for %.0f s)", own.message, unchanged);
    folder_set_failed(find, reason);
    return LOOK_REPORT;
}

bool folder_is_no_movie(const struct folder *folder, struct folder_find *find) {
    struct image_info info;
    return folder->options.movies && movie_file_probe(folder->path, &info, NULL) == STATUS_OK &&
           movie_file_is_none(folder->path, &info, find->reason, sizeof find->reason);
}
