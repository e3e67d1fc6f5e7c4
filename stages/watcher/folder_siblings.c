/* Micrographs and their pictures: which of two files of one name makes the item. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/formats/image_formats.h"
#include "stages/watcher/folder_private.h"

/* Returns the use that the files of this folder have. */
static unsigned wanted_use(const struct folder *folder) {
    return folder->options.movies ? IMAGE_AS_MOVIE : IMAGE_AS_MICROGRAPH;
}

static bool is_picture(const char *path) {
    return image_path_fits(path, IMAGE_AS_PHOTOGRAPH);
}

bool folder_is_thumbnail(const struct folder *folder, const struct known_file *file) {
    const char *ending;
    char stem[PATH_SIZE], sibling[PATH_SIZE + 8], path[PATH_SIZE];
    if (!is_picture(file->path) || path_without_ending(file->path, stem, sizeof stem, NULL) != STATUS_OK) return false;
    for (size_t i = 0; (ending = image_ending(i, wanted_use(folder))) != NULL; i++) {
        snprintf(sibling, sizeof sibling, "%s%s", stem, ending);
        if (pattern_match(&folder->pattern, sibling) &&
            path_join(folder->directory, sibling, path, sizeof path, NULL) == STATUS_OK && file_exists(path))
            return true;
    }
    /* Endings in capitals, too: known files are those that the pattern takes. */
    const struct known *known = &folder->known;
    long other;
    for (size_t position = 0; (other = known_next_namesake(known, file->path, &position)) != KNOWN_NONE;) {
        const struct known_file *rival = &known->files[other];
        if (image_path_fits(rival->path, wanted_use(folder)) && rival->state != KNOWN_GONE &&
            path_without_ending(rival->path, path, sizeof path, NULL) == STATUS_OK && strcmp(path, stem) == 0)
            return true;
    }
    return false;
}

bool folder_follows_picture(struct folder *folder, long index) {
    long taken = known_find_id(&folder->known, folder->id);
    if (folder->picture[0] != '\0') return true;
    if (taken == KNOWN_NONE || taken == index) return false;
    const struct known_file *picture = &folder->known.files[taken];
    if (!is_picture(picture->path) || !image_path_fits(folder->known.files[index].path, wanted_use(folder)))
        return false;
    snprintf(folder->picture, sizeof folder->picture, "%s", picture->path);
    folder->picture_revision = picture->revision;
    return true;
}

/* Asks of which file an earlier run made the item with the present id. "": it is not known. */
static enum status ask_origin(const struct folder *folder, char path[PATH_SIZE], int64_t *ret_revision,
                              struct err *err) {
    path[0] = '\0';
    *ret_revision = 0;
    if (folder->options.made_of == NULL) return STATUS_OK;
    char given[PATH_SIZE] = "";
    const char *rest;
    TRY(folder->options.made_of(folder->options.context, folder->id, given, ret_revision, err));
    /* Items name files below the directory as it is written, with its links. */
    if (path_is_below(given, folder->given, &rest) && rest[0] != '\0')
        return path_join(folder->directory, rest, path, PATH_SIZE, err);
    memcpy(path, given, strlen(given) + 1);
    return STATUS_OK;
}

enum status folder_follows_settled(struct folder *folder, struct known_file *file, struct err *err) {
    char path[PATH_SIZE];
    int64_t revision;
    const char *rest;
    if (!image_path_fits(file->path, wanted_use(folder))) return STATUS_OK;
    TRY(ask_origin(folder, path, &revision, err));
    file->follows = is_picture(path);
    if (!file->follows) return STATUS_OK;
    bool below = path_is_below(path, folder->directory, &rest) && rest[0] != '\0';
    snprintf(folder->picture, sizeof folder->picture, "%s", below ? rest : path);
    folder->picture_revision = revision;
    return STATUS_OK;
}

enum status folder_left_picture(const struct folder *folder, const struct known_file *file, bool *ret_left,
                                struct err *err) {
    char path[PATH_SIZE];
    int64_t revision;
    *ret_left = false;
    if (!folder_is_thumbnail(folder, file)) return STATUS_OK;
    TRY(ask_origin(folder, path, &revision, err));
    *ret_left = path[0] != '\0' && strcmp(path, folder->path) != 0;
    return STATUS_OK;
}

void folder_take_over(struct folder *folder, struct known_file *file, struct folder_find *find) {
    int64_t revision = (int64_t)(1e3 * clock_realtime());
    long taken = known_find_id(&folder->known, folder->id);
    if (taken != KNOWN_NONE) folder->known.files[taken].given_up = true;
    file->revision = revision > folder->picture_revision ? revision : folder->picture_revision + 1;
    find->instead_of = folder->picture;
}
