/* Lists the watched folder and the folders below it, and takes notices about single paths.
 *
 * A sweep goes over folders in breadth: files near the top are known first. It enters each folder once, by device and
 * inode, however many links lead there. Folders that are links come after all others, in the order of their names, so
 * that a file has the same id in each sweep. A link to a folder above the watched one is not followed: it would lead
 * through the whole disk. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "common/text.h"
#include "stages/watcher/folder_private.h"

enum {
    DEPTH_MAX = 64,
    CLOCK_EVERY = 64, /* entries between looks at the clock */
};

/* Tells once of each file that is another one than was handed out, or has a later date. An earlier date is that of a
 * program which copies a file and sets its time last. Another file begins again. */
static enum status see_done(struct folder *folder, long index, double now, struct err *err) {
    struct known_file *file = &folder->known.files[index];
    char path[PATH_SIZE];
    struct stat there;
    if (folder->options.replaced == NULL || file->inode == 0) return STATUS_OK;
    TRY(path_join(folder->directory, file->path, path, sizeof path, err));
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode)) return STATUS_OK;
    double time = (double)there.st_mtim.tv_sec + 1e-9 * (double)there.st_mtim.tv_nsec;
    bool another = there.st_size != file->size || there.st_ino != file->inode || there.st_dev != file->device;
    bool told = another || time > file->time;
    file->time = time;
    file->size = there.st_size;
    if (!told) return STATUS_OK;
    folder->options.replaced(folder->options.context, path, another);
    if (!another) return STATUS_OK;
    int64_t revision = (int64_t)(1e3 * clock_realtime());
    file->revision = revision > file->revision ? revision : file->revision + 1;
    file->state = KNOWN_WAITING;
    file->changed_at = folder->last_change = now;
    return queue_push(folder, index, err);
}

/* Keeps the name of the first image that the pattern does not take, as long as it takes none. */
static void note_unfitting(struct folder *folder, const char *relative) {
    unsigned uses = folder->options.movies ? IMAGE_AS_MOVIE : IMAGE_AS_MICROGRAPH | IMAGE_AS_PHOTOGRAPH;
    if (folder->known.count > 0 || folder->unfitting[0] != '\0' || !image_path_fits(relative, uses)) return;
    snprintf(folder->unfitting, sizeof folder->unfitting, "%s", relative);
}

const char *folder_unfitting(const struct folder *folder) {
    return folder->is_swept && folder->known.count == 0 && folder->unfitting[0] != '\0' ? folder->unfitting : NULL;
}

/* Adds a matching file to the queue if it is new. A notice about a file that is still growing makes the next look
 * due. */
static enum status see_file(struct folder *folder, const char *relative, bool noticed, double now, struct err *err) {
    if (!pattern_match(&folder->pattern, relative)) {
        note_unfitting(folder, relative);
        return STATUS_OK;
    }
    long index = known_find_path(&folder->known, relative);
    if (index != KNOWN_NONE && folder->known.files[index].state != KNOWN_GONE) {
        struct known_file *file = &folder->known.files[index];
        if (file->state == KNOWN_DONE) return see_done(folder, index, now, err);
        if (noticed && (file->state == KNOWN_GROWING || file->state == KNOWN_REPORTED))
            file->check_at = folder->wake_at = now;
        return STATUS_OK;
    }
    char path[PATH_SIZE];
    struct stat information;
    TRY(path_join(folder->directory, relative, path, sizeof path, err));
    if (stat(path, &information) != 0 || !S_ISREG(information.st_mode))
        return STATUS_OK; /* already deleted, a broken link, or a folder with the name of a micrograph */
    if (index == KNOWN_NONE) TRY(known_add(&folder->known, relative, &index, err));
    struct known_file *file = &folder->known.files[index];
    file->state = KNOWN_WAITING;
    file->time = (double)information.st_mtim.tv_sec + 1e-9 * (double)information.st_mtim.tv_nsec;
    file->size = information.st_size;
    file->device = information.st_dev;
    file->inode = information.st_ino;
    file->changed_at = now;
    folder->last_change = now;
    return queue_push(folder, index, err);
}

static uint64_t hash_place(dev_t device, ino_t inode) {
    const uint64_t both[2] = {(uint64_t)device, (uint64_t)inode};
    return text_hash_bytes(both, sizeof both);
}

/* Adds a folder to the visited ones. *ret_new: it was not among them. */
static enum status visit(struct sweep *sweep, dev_t device, ino_t inode, bool *ret_new, struct err *err) {
    if (2 * (sweep->visited_count + 1) > sweep->visited_capacity) {
        size_t capacity = sweep->visited_capacity > 0 ? 2 * sweep->visited_capacity : 64;
        struct sweep_place *places = calloc(capacity, sizeof *places);
        FAIL_IF(places == NULL, err, STATUS_NO_MEMORY, "no memory for the places of %zu folders", capacity);
        for (size_t i = 0; i < sweep->visited_capacity; i++) {
            if (!sweep->visited[i].used) continue;
            size_t at = hash_place(sweep->visited[i].device, sweep->visited[i].inode) & (capacity - 1);
            while (places[at].used)
                at = (at + 1) & (capacity - 1);
            places[at] = sweep->visited[i];
        }
        free(sweep->visited);
        sweep->visited = places;
        sweep->visited_capacity = capacity;
    }
    size_t at = hash_place(device, inode) & (sweep->visited_capacity - 1);
    for (; sweep->visited[at].used; at = (at + 1) & (sweep->visited_capacity - 1))
        if (sweep->visited[at].device == device && sweep->visited[at].inode == inode) {
            *ret_new = false;
            return STATUS_OK;
        }
    sweep->visited[at] = (struct sweep_place){device, inode, true};
    sweep->visited_count++;
    *ret_new = true;
    return STATUS_OK;
}

static enum status list_push(struct sweep_list *list, const char *relative, int depth, struct err *err) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? 2 * list->capacity : 16;
        struct sweep_folder *folders = realloc(list->folders, capacity * sizeof *folders);
        FAIL_IF(folders == NULL, err, STATUS_NO_MEMORY, "no memory for a list of %zu folders", capacity);
        list->folders = folders;
        list->capacity = capacity;
    }
    char *copy = strdup(relative);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the name of a folder");
    list->folders[list->count++] = (struct sweep_folder){copy, depth};
    return STATUS_OK;
}

static void list_clear(struct sweep_list *list) {
    for (size_t i = list->next; i < list->count; i++)
        free(list->folders[i].relative);
    free(list->folders);
    *list = (struct sweep_list){0};
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct sweep_folder *)a)->relative, ((const struct sweep_folder *)b)->relative);
}

/* Takes the next folder of a sweep: first real folders, then links. Returns false at the end. */
static bool take_next(struct sweep *sweep, struct sweep_folder *ret_folder) {
    struct sweep_list *list = sweep->real.next < sweep->real.count ? &sweep->real : &sweep->links;
    if (list->next == list->count) return false;
    if (list == &sweep->links)
        qsort(list->folders + list->next, list->count - list->next, sizeof *list->folders, by_name);
    *ret_folder = list->folders[list->next++];
    return true;
}

void sweep_end(struct sweep *sweep) {
    if (sweep->listing != NULL) closedir(sweep->listing);
    free(sweep->here.relative);
    list_clear(&sweep->real);
    list_clear(&sweep->links);
    free(sweep->visited);
    *sweep = (struct sweep){0};
}

static void skip(struct folder *folder, const char *path, const char *reason) {
    if (folder->options.skipped != NULL) folder->options.skipped(folder->options.context, path, reason);
}

/* Returns whether a folder is that of a session of icestream: its products are no images of the microscope. */
static bool is_session(const char *path) {
    static const char *const NAMES[] = {"graph.yaml", "ledger", "log/plan.json"};
    char mark[PATH_SIZE];
    int found = 0;
    for (int i = 0; i < 3; i++)
        found += path_join(path, NAMES[i], mark, sizeof mark, NULL) == STATUS_OK && file_exists(mark);
    return found >= 2; /* one of them may be lost, or not be there yet */
}

/* Returns whether a place is a folder above the watched one. */
static bool is_above(const struct folder *folder, const struct stat *place) {
    char path[PATH_SIZE];
    struct stat above;
    snprintf(path, sizeof path, "%s", folder->directory);
    for (char *slash = strrchr(path, '/'); slash != NULL; slash = strrchr(path, '/')) {
        slash[slash == path] = '\0';
        if (stat(path, &above) == 0 && above.st_dev == place->st_dev && above.st_ino == place->st_ino) return true;
        if (slash == path) break;
    }
    return false;
}

/* Decides whether a folder below the watched one is entered. */
static enum status may_enter(struct folder *folder, const struct sweep_folder *here, const char *path,
                             const struct stat *place, bool *ret_may, struct err *err) {
    *ret_may = false;
    if (here->depth > DEPTH_MAX) return STATUS_OK;
    for (int i = 0; i < 2; i++)
        if (folder->skip_inode[i] == place->st_ino && folder->skip_device[i] == place->st_dev) return STATUS_OK;
    TRY(visit(&folder->sweep, place->st_dev, place->st_ino, ret_may, err));
    if (!*ret_may) return STATUS_OK;
    const char *reason = is_above(folder, place) ? "it leads to a folder above the watched one"
                         : is_session(path)      ? "it is the folder of a session (graph.yaml, ledger, log/plan.json)"
                                                 : NULL;
    if (reason != NULL) skip(folder, path, reason);
    *ret_may = reason == NULL;
    return STATUS_OK;
}

/* Opens the next folder of the sweep, if it may be entered. */
static enum status open_folder(struct folder *folder, struct err *err) {
    struct sweep *sweep = &folder->sweep;
    const struct sweep_folder *here = &sweep->here;
    char path[PATH_SIZE];
    struct stat place;
    bool top = *here->relative == '\0', may = true;
    TRY(path_join(top ? "" : folder->directory, top ? folder->directory : here->relative, path, sizeof path, err));
    if (stat(path, &place) != 0) {
        FAIL_IF(top, err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "watcher.directory %s: %s", path,
                strerror(errno));
        return STATUS_OK;
    }
    if (top) TRY(visit(sweep, place.st_dev, place.st_ino, &may, err));
    if (!top) TRY(may_enter(folder, here, path, &place, &may, err));
    if (!may) return STATUS_OK;
    if (folder->options.before_listing != NULL) folder->options.before_listing(folder->options.context, path);
    sweep->listing = opendir(path);
    FAIL_IF(top && sweep->listing == NULL, err, STATUS_IO, "watcher.directory %s: %s", path, strerror(errno));
    return STATUS_OK;
}

static enum status see_entry(struct folder *folder, const struct dirent *entry, double now, struct err *err) {
    struct sweep *sweep = &folder->sweep;
    char below[PATH_SIZE], path[PATH_SIZE];
    if (entry->d_name[0] == '.')
        return STATUS_OK; /* hidden (unfinished files of rsync and of icestream), "." or ".." */
    if (path_join(sweep->here.relative, entry->d_name, below, sizeof below, NULL) != STATUS_OK ||
        path_join(folder->directory, below, path, sizeof path, NULL) != STATUS_OK)
        return STATUS_OK; /* too long for the system to open */
    bool asks = entry->d_type == DT_UNKNOWN || entry->d_type == DT_LNK;
    bool is_folder = asks ? file_is_folder(path) : entry->d_type == DT_DIR;
    if (!is_folder) return see_file(folder, below, false, now, err);
    if (!folder->options.recursive) return STATUS_OK;
    struct stat information;
    bool link = asks && lstat(path, &information) == 0 && S_ISLNK(information.st_mode);
    return list_push(link ? &sweep->links : &sweep->real, below, sweep->here.depth + 1, err);
}

/* Goes on with the sweep until it ends or the clock passes `until`. */
static enum status go_on(struct folder *folder, double now, double until, bool *ret_done, struct err *err) {
    struct sweep *sweep = &folder->sweep;
    for (long steps = 1;; steps++) {
        *ret_done = false;
        if (steps % CLOCK_EVERY == 0 && clock_monotonic() >= until) return STATUS_OK;
        if (sweep->listing == NULL) {
            mem_free(&sweep->here.relative);
            *ret_done = !take_next(sweep, &sweep->here);
            if (*ret_done) return STATUS_OK;
            TRY(open_folder(folder, err));
            continue;
        }
        const struct dirent *entry = readdir(sweep->listing);
        if (entry != NULL) TRY(see_entry(folder, entry, now, err));
        if (entry == NULL) {
            closedir(sweep->listing);
            sweep->listing = NULL;
        }
    }
}

enum status folder_sweep_for(struct folder *folder, double now, double seconds, bool *ret_done, struct err *err) {
    struct sweep *sweep = &folder->sweep;
    enum status status = STATUS_OK;
    *ret_done = false;
    if (!sweep->is_active) {
        *sweep = (struct sweep){.is_active = true};
        folder->sweep_wanted = false;
        status = list_push(&sweep->real, "", 0, err);
    }
    if (status == STATUS_OK) status = go_on(folder, now, clock_monotonic() + seconds, ret_done, err);
    if (status != STATUS_OK || *ret_done) sweep_end(sweep);
    folder->is_swept = folder->is_swept || *ret_done;
    return status;
}

enum status folder_sweep(struct folder *folder, double now, struct err *err) {
    bool done = false;
    while (!done)
        TRY(folder_sweep_for(folder, now, 1, &done, err));
    return STATUS_OK;
}

bool folder_wants_sweep(const struct folder *folder) {
    return folder->sweep.is_active || folder->sweep_wanted;
}

bool folder_is_swept(const struct folder *folder) {
    return folder->is_swept;
}

/* Returns the part of an absolute path below the directory; NULL for a path elsewhere or a hidden one. */
static const char *below_directory(const struct folder *folder, const char *path) {
    size_t length = strlen(folder->directory);
    if (strncmp(path, folder->directory, length) != 0 || (path[length] != '/' && length > 1)) return NULL;
    const char *relative = path + length;
    relative += strspn(relative, "/");
    return *relative == '\0' || *relative == '.' || strstr(relative, "/.") != NULL ? NULL : relative;
}

enum status folder_notice(struct folder *folder, const char *path, double now, struct err *err) {
    const char *relative = below_directory(folder, path);
    if (relative == NULL) return STATUS_OK;
    bool deep = strchr(relative, '/') != NULL;
    if (deep && !folder->options.recursive) return STATUS_OK;
    if (!file_is_folder(path)) return see_file(folder, relative, true, now, err);
    /* A folder was made or moved here. A sweep of the whole directory knows the folders that were visited and those to
     * skip; new folders are few. */
    folder->sweep_wanted = folder->sweep_wanted || folder->options.recursive;
    return STATUS_OK;
}
