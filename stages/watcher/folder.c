/* Looks at files of the watched folder: new, growing, whole, duplicate or hopeless. */
#include "stages/watcher/folder.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/edges/item.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "common/text.h"
#include "stages/watcher/folder_private.h"

static const double LOOK_LEAST = 0.1, LOOK_MOST = 1; /* s between looks at a growing file */

enum status folder_create(const struct folder_options *options, struct folder **ret_folder, struct err *err) {
    _cleanup_(folder_destroy) struct folder *folder = calloc(1, sizeof *folder);
    FAIL_IF(folder == NULL, err, STATUS_NO_MEMORY, "no memory for a watcher");
    folder->options = *options;
    folder->last_change = -INFINITY;
    folder->wake_at = INFINITY;
    TRY(pattern_create(options->pattern, &folder->pattern, err));
    folder->directory = realpath(options->directory, NULL);
    FAIL_IF(folder->directory == NULL, err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "watcher.directory %s: %s",
            options->directory, strerror(errno));
    bool plain = options->directory[0] == '/' && strlen(options->directory) < sizeof folder->given;
    snprintf(folder->given, sizeof folder->given, "%s", plain ? options->directory : folder->directory);
    if (!path_plain(folder->given)) snprintf(folder->given, sizeof folder->given, "%s", folder->directory);
    struct stat information;
    for (int i = 0; i < 2; i++)
        if (options->skip[i] != NULL && stat(options->skip[i], &information) == 0) {
            folder->skip_device[i] = information.st_dev;
            folder->skip_inode[i] = information.st_ino;
        }
    *ret_folder = folder;
    folder = NULL;
    return STATUS_OK;
}

void folder_destroy(struct folder **folder) {
    if (folder == NULL || *folder == NULL) return;
    pattern_destroy(&(*folder)->pattern);
    known_destroy(&(*folder)->known);
    queue_destroy(&(*folder)->waiting);
    sweep_end(&(*folder)->sweep);
    free((*folder)->growing);
    free((*folder)->directory);
    free(*folder);
    *folder = NULL;
}

/* Returns whether file a is looked at before file b. */
bool folder_before(const struct folder *folder, long a, long b) {
    const struct known_file *x = &folder->known.files[a], *y = &folder->known.files[b];
    bool newest = folder->options.order == FOLDER_NEWEST;
    if (x->time < y->time || x->time > y->time) return (x->time < y->time) != newest;
    return (strcmp(x->path, y->path) < 0) != newest;
}

static double look_interval(const struct folder *folder) {
    return fmin(fmax(folder->options.settle / 4, LOOK_LEAST), LOOK_MOST);
}

static enum status keep_looking(struct folder *folder, long index, double check_at, struct err *err) {
    if (folder->growing_count == folder->growing_capacity) {
        size_t capacity = folder->growing_capacity > 0 ? 2 * folder->growing_capacity : 16;
        long *growing = realloc(folder->growing, capacity * sizeof *growing);
        FAIL_IF(growing == NULL, err, STATUS_NO_MEMORY, "no memory for a list of %zu files", capacity);
        folder->growing = growing;
        folder->growing_capacity = capacity;
    }
    folder->growing[folder->growing_count++] = index;
    struct known_file *file = &folder->known.files[index];
    file->check_at = check_at;
    folder->wake_at = fmin(folder->wake_at, check_at);
    file->state = file->was_reported ? KNOWN_REPORTED : KNOWN_GROWING;
    return STATUS_OK;
}

/* Moves incomplete files whose next look is due into the queue, so that one order holds for all files. */
static enum status wake_growing(struct folder *folder, double now, struct err *err) {
    if (now < folder->wake_at) return STATUS_OK;
    size_t kept = 0;
    enum status status = STATUS_OK;
    folder->wake_at = INFINITY;
    for (size_t i = 0; i < folder->growing_count; i++) {
        long index = folder->growing[i];
        struct known_file *file = &folder->known.files[index];
        if (status == STATUS_OK && file->check_at <= now) {
            status = queue_push(folder, index, err);
            if (status == STATUS_OK) {
                folder->waiting_reported += file->state == KNOWN_REPORTED;
                continue;
            }
        }
        folder->growing[kept++] = index;
        folder->wake_at = fmin(folder->wake_at, file->check_at);
    }
    folder->growing_count = kept;
    return status;
}

/* Returns whether a name is printable UTF-8, as ids and paths must be in JSON, STAR files and messages. */
static bool name_is_text(const char *name) {
    bool valid = item_text_fits(name);
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0' && valid; c++)
        valid = *c >= 0x20 && *c != 0x7f;
    return valid;
}

/* Returns whether RELION can read the path in a STAR file. RELION ends a quoted value at the first quotation mark of
 * its kind, so a path with a blank and both kinds of marks cannot be written. */
static bool can_be_quoted(const char *path) {
    return strchr(path, ' ') == NULL || strchr(path, '"') == NULL || strchr(path, '\'') == NULL;
}

static void make_id(struct folder *folder, const struct known_file *file) {
    if (path_without_ending(file->path, folder->id, sizeof folder->id, NULL) != STATUS_OK) folder->id[0] = '\0';
}

/* Makes an id to show for a name that cannot be an id: its readable characters and a hash, because two such names may
 * differ only in unreadable ones. */
static void make_shown_id(struct folder *folder, const char *name) {
    enum { MARK = 1 + 16 };
    bool text = name_is_text(folder->id);
    for (unsigned char *c = (unsigned char *)folder->id; *c != '\0'; c++)
        if (*c < 0x20 || *c == 0x7f || (!text && *c >= 0x80)) *c = '?';
    size_t end = text_fit(folder->id, ITEM_ID_MAX - 1 - MARK);
    snprintf(folder->id + end, sizeof folder->id - end, "~%016llx", (unsigned long long)text_hash(name));
}

/* Returns whether the file is another name of a file that was taken before. */
static bool is_duplicate(const struct folder *folder, long index, struct folder_find *find) {
    const struct known_file *file = &folder->known.files[index];
    long other = known_find_inode(&folder->known, file->device, file->inode);
    if (other == KNOWN_NONE || other == index) return false;
    char path[PATH_SIZE];
    struct stat information;
    const char *name = folder->known.files[other].path;
    if (path_join(folder->directory, name, path, sizeof path, NULL) != STATUS_OK || stat(path, &information) != 0 ||
        information.st_dev != file->device || information.st_ino != file->inode)
        return false; /* the other file is gone; its inode is used again, or the file was renamed to this name */
    snprintf(find->reason, sizeof find->reason, "it is the same file as %s, which was taken before", name);
    return true;
}

/* Returns whether another file with the same id was taken before. */
static bool is_namesake(const struct folder *folder, long index, struct folder_find *find) {
    long other = known_find_id(&folder->known, folder->id);
    if (other == KNOWN_NONE || other == index) return false;
    snprintf(find->reason, sizeof find->reason,
             "%s has the same name but for its ending, and was taken before: rename one of the two",
             folder->known.files[other].path);
    return true;
}

/* Reads the size, date and inode of a file. LOOK_DROP: nothing is there, or no regular file. */
static enum look refresh(struct folder *folder, struct known_file *file, double now) {
    struct stat information;
    if (stat(folder->path, &information) != 0) {
        file->state = KNOWN_GONE;
        return LOOK_DROP;
    }
    if (!S_ISREG(information.st_mode)) {
        file->state = KNOWN_DONE;
        return LOOK_DROP;
    }
    double time = (double)information.st_mtim.tv_sec + 1e-9 * (double)information.st_mtim.tv_nsec;
    bool changed = file->size != information.st_size || fabs(file->time - time) > 0;
    if (changed && file->asked) {
        file->changed_at = now;
        folder->last_change = now;
    }
    file->time = time;
    file->size = information.st_size;
    file->device = information.st_dev;
    file->inode = information.st_ino;
    return LOOK_REPORT;
}

/* Gives a file that shares its id with another one its name with the ending as its id. */
static void make_own_id(struct folder *folder, const struct known_file *file) {
    snprintf(folder->id, sizeof folder->id, "%s", file->path);
    if (strlen(folder->id) >= ITEM_ID_MAX) make_shown_id(folder, file->path);
}

/* Reports a file whose id is that of another file: a picture beside its micrograph, or a failure under its name with
 * the ending. */
static void set_namesake(struct folder *folder, struct known_file *file, struct folder_find *find) {
    bool picture = folder_is_thumbnail(folder, file);
    file->state = KNOWN_DONE;
    find->verdict = picture ? FOLDER_DUPLICATE : FOLDER_FAILED;
    if (picture) snprintf(find->reason, sizeof find->reason, "%s", FOLDER_PICTURE);
    make_own_id(folder, file);
}

/* Returns whether a file that was taken still lies there, and is not the same file. */
static bool is_other(const struct folder *folder, long taken, const struct known_file *file) {
    char path[PATH_SIZE];
    struct stat information;
    return path_join(folder->directory, folder->known.files[taken].path, path, sizeof path, NULL) == STATUS_OK &&
           stat(path, &information) == 0 && (information.st_dev != file->device || information.st_ino != file->inode);
}

/* Returns whether another known file has the same path but for its ending. */
static bool has_sibling(const struct folder *folder, long index) {
    char id[PATH_SIZE];
    const struct known *known = &folder->known;
    long other;
    for (size_t position = 0; (other = known_next_namesake(known, known->files[index].path, &position)) != KNOWN_NONE;)
        if (other != index && path_without_ending(known->files[other].path, id, sizeof id, NULL) == STATUS_OK &&
            strcmp(id, folder->id) == 0)
            return true;
    return false;
}

/* Looks at a file whose id is settled: it is the file itself, taken in this run or an earlier one, or a namesake. */
static enum status look_at_settled(struct folder *folder, long index, struct folder_find *find, enum look *ret_look,
                                   struct err *err) {
    struct known_file *file = &folder->known.files[index];
    enum folder_past past = FOLDER_UNSEEN;
    bool left = false;
    file->state = KNOWN_DONE;
    TRY(folder_left_picture(folder, file, &left, err));
    if (left) {
        set_namesake(folder, file, find);
        *ret_look = LOOK_REPORT;
        return STATUS_OK;
    }
    /* An earlier run may have reported it as a namesake. */
    if (has_sibling(folder, index) && strlen(file->path) < ITEM_ID_MAX && item_text_fits(file->path))
        TRY(folder->options.past(folder->options.context, file->path, &past, err));
    if (past != FOLDER_UNSEEN) return STATUS_OK;
    long taken = known_find_id(&folder->known, folder->id);
    if (taken == KNOWN_NONE) return known_take(&folder->known, index, folder->id, err);
    if (taken == index || !is_other(folder, taken, file) || !is_namesake(folder, index, find)) return STATUS_OK;
    set_namesake(folder, file, find);
    *ret_look = LOOK_REPORT;
    return STATUS_OK;
}

static enum status look(struct folder *folder, long index, double now, struct folder_find *find, enum look *ret_look,
                        struct err *err) {
    struct known_file *file = &folder->known.files[index];
    *ret_look = LOOK_DROP;
    TRY(path_join(folder->directory, file->path, folder->path, sizeof folder->path, err));
    *find = (struct folder_find){.path = folder->path, .relative = file->path, .id = folder->id};
    folder->picture[0] = '\0';
    make_id(folder, file);
    if (refresh(folder, file, now) == LOOK_DROP) return STATUS_OK;
    find->time = file->time;
    enum folder_past past = FOLDER_UNSEEN;
    bool valid = name_is_text(file->path) && strlen(folder->id) < ITEM_ID_MAX;
    if (!valid) make_shown_id(folder, file->path);
    if (!file->asked && folder->options.past != NULL)
        TRY(folder->options.past(folder->options.context, folder->id, &past, err));
    file->asked = true;
    file->was_reported = file->was_reported || past == FOLDER_FAILED_THEN;
    if (past == FOLDER_SETTLED || file->follows) TRY(folder_follows_settled(folder, file, err));
    if (past == FOLDER_SETTLED && !file->follows) return look_at_settled(folder, index, find, ret_look, err);
    *ret_look = LOOK_REPORT;
    if (!valid || !can_be_quoted(folder->path)) {
        file->state = KNOWN_DONE;
        folder_set_failed(
            find, valid ? "its path holds a blank and both kinds of quotation mark, which RELION cannot read in a STAR "
                          "file: rename it"
                        : "its name holds a line break, a control character or bytes that are not UTF-8, or is too "
                          "long, and cannot be written into STAR files: rename it");
        return STATUS_OK;
    }
    if (is_duplicate(folder, index, find)) {
        file->state = KNOWN_DONE;
        find->verdict = FOLDER_DUPLICATE;
        return STATUS_OK;
    }
    bool follows = folder_follows_picture(folder, index);
    if (!follows && is_namesake(folder, index, find)) {
        if (folder_is_no_movie(folder, find)) {
            file->state = KNOWN_DONE;
            find->verdict = FOLDER_NO_MOVIE;
            return STATUS_OK;
        }
        set_namesake(folder, file, find);
        return STATUS_OK;
    }
    *ret_look = folder_look_inside(folder, file, now, find);
    if (*ret_look == LOOK_AGAIN) {
        bool slow = file->was_reported && now - file->changed_at > folder->options.stall;
        return keep_looking(folder, index, now + (slow ? folder->options.poll : look_interval(folder)), err);
    }
    if (find->verdict == FOLDER_FAILED) {
        file->was_reported = true;
        if (follows) make_own_id(folder, file);
        return keep_looking(folder, index, now + folder->options.poll, err);
    }
    file->state = KNOWN_DONE;
    if (find->verdict == FOLDER_READY && follows) folder_take_over(folder, file, find);
    return find->verdict == FOLDER_READY ? known_take(&folder->known, index, folder->id, err) : STATUS_OK;
}

enum status folder_next(struct folder *folder, double now, struct folder_find *ret_find, bool *ret_found,
                        struct err *err) {
    TRY(wake_growing(folder, now, err));
    *ret_found = false;
    while (folder->waiting.count > 0) {
        long index = queue_pop(folder);
        folder->waiting_reported -= folder->known.files[index].state == KNOWN_REPORTED;
        enum look outcome;
        struct folder_find find;
        TRY(look(folder, index, now, &find, &outcome, err));
        if (outcome != LOOK_REPORT) continue;
        if (find.verdict == FOLDER_READY) folder->last_change = now;
        *ret_find = find;
        *ret_found = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

void folder_each_folder(const struct folder *folder, bool (*see)(void *context, const char *path), void *context) {
    char path[PATH_SIZE];
    for (size_t i = 0; i < folder->known.folder_count; i++) {
        const char *relative = folder->known.folders[i];
        bool top = *relative == '\0';
        if (path_join(top ? "" : folder->directory, top ? folder->directory : relative, path, sizeof path, NULL) ==
                STATUS_OK &&
            !see(context, path))
            return;
    }
}

void folder_each_namesake(const struct folder *folder, const char *relative,
                          bool (*see)(void *context, const char *path), void *context) {
    char id[PATH_SIZE], path[PATH_SIZE];
    const struct known *known = &folder->known;
    long own = known_find_path(known, relative), other;
    if (own == KNOWN_NONE || path_without_ending(relative, id, sizeof id, NULL) != STATUS_OK) return;
    const struct known_file *file = &known->files[own];
    for (size_t position = 0; (other = known_next_namesake(known, relative, &position)) != KNOWN_NONE;) {
        const struct known_file *rival = &known->files[other];
        bool same = other == own || (rival->device == file->device && rival->inode == file->inode) ||
                    (path_without_ending(rival->path, path, sizeof path, NULL) == STATUS_OK && strcmp(path, id) == 0);
        if (same || rival->state == KNOWN_GONE) continue;
        if (path_join(folder->directory, rival->path, path, sizeof path, NULL) == STATUS_OK && !see(context, path))
            return;
    }
}

size_t folder_pending(const struct folder *folder) {
    size_t pending = folder->waiting.count - folder->waiting_reported;
    for (size_t i = 0; i < folder->growing_count; i++)
        pending += folder->known.files[folder->growing[i]].state == KNOWN_GROWING;
    return pending;
}

int64_t folder_revision(const struct folder *folder, const char *id) {
    long index = known_find_id(&folder->known, id);
    return index == KNOWN_NONE ? 0 : folder->known.files[index].revision;
}

void folder_as_given(const struct folder *folder, const char *path, char ret_path[PATH_SIZE]) {
    const char *rest;
    bool below = path_is_below(path, folder->directory, &rest) && rest[0] != '\0';
    if (!below || path_join(folder->given, rest, ret_path, PATH_SIZE, NULL) != STATUS_OK)
        snprintf(ret_path, PATH_SIZE, "%s", path);
}

enum status folder_path(const struct folder *folder, const char *relative, char ret_path[PATH_SIZE], struct err *err) {
    return path_join(folder->directory, relative, ret_path, PATH_SIZE, err);
}

double folder_last_change(const struct folder *folder) {
    return folder->last_change;
}
