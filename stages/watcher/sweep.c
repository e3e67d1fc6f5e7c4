#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/memory.h"
#include "stages/watcher/watcher_private.h"

enum { DEPTH_MAX = 64 };

/* The folders on the way down: a link back to one of them would never end. */
struct step {
    dev_t device;
    ino_t inode;
    const struct step *above;
    int depth;
};

static enum status sweep_folder(struct watcher *watcher, const char *relative, const struct step *above, double now,
                                struct err *err);

/* A file that matches: known from now on, or looked at again when it has not been taken. */
static enum status see_file(struct watcher *watcher, const char *relative, bool noticed, double now, struct err *err) {
    if (!pattern_match(&watcher->pattern, relative)) return STATUS_OK;
    long index = known_find_path(&watcher->known, relative);
    if (index != KNOWN_NONE && watcher->known.files[index].state != KNOWN_GONE) {
        struct known_file *file = &watcher->known.files[index];
        if (noticed && (file->state == KNOWN_GROWING || file->state == KNOWN_REPORTED))
            file->check_at = watcher->wake_at = now;
        return STATUS_OK;
    }
    char path[PATH_SIZE];
    struct stat information;
    TRY(path_join(watcher->directory, relative, path, sizeof path, err));
    if (stat(path, &information) != 0 || !S_ISREG(information.st_mode))
        return STATUS_OK; /* already gone, a link to nothing, or a folder that is named like a micrograph */
    if (index == KNOWN_NONE) TRY(known_add(&watcher->known, relative, &index, err));
    struct known_file *file = &watcher->known.files[index];
    file->state = KNOWN_WAITING;
    file->time = (double)information.st_mtim.tv_sec + 1e-9 * (double)information.st_mtim.tv_nsec;
    file->size = information.st_size;
    file->changed_at = now;
    watcher->last_change = now;
    return queue_push(watcher, index, err);
}

static bool is_folder(const struct dirent *entry, const char *path) {
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) return entry->d_type == DT_DIR;
    return file_is_folder(path);
}

static enum status sweep_entry(struct watcher *watcher, const char *relative, const struct dirent *entry,
                               const struct step *here, double now, struct err *err) {
    char below[PATH_SIZE], path[PATH_SIZE];
    if (entry->d_name[0] == '.')
        return STATUS_OK; /* hidden: unfinished files of rsync and of our own, and this folder and the one above */
    if (path_join(relative, entry->d_name, below, sizeof below, NULL) != STATUS_OK ||
        path_join(watcher->directory, below, path, sizeof path, NULL) != STATUS_OK)
        return STATUS_OK; /* longer than the system lets us open */
    if (!is_folder(entry, path)) return see_file(watcher, below, false, now, err);
    return watcher->options.recursive ? sweep_folder(watcher, below, here, now, err) : STATUS_OK;
}

static bool enter(const struct watcher *watcher, const struct step *here) {
    if (here->above == NULL) return true;
    if (here->depth >= DEPTH_MAX) return false;
    for (int i = 0; i < 2; i++)
        if (watcher->skip_inode[i] == here->inode && watcher->skip_device[i] == here->device) return false;
    for (const struct step *s = here->above; s != NULL; s = s->above)
        if (s->device == here->device && s->inode == here->inode) return false;
    return true;
}

static enum status sweep_folder(struct watcher *watcher, const char *relative, const struct step *above, double now,
                                struct err *err) {
    char path[PATH_SIZE];
    struct stat information;
    bool top = *relative == '\0';
    TRY(path_join(top ? "" : watcher->directory, top ? watcher->directory : relative, path, sizeof path, err));
    if (stat(path, &information) != 0) {
        FAIL_IF(top, err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "watcher.directory %s: %s", path,
                strerror(errno));
        return STATUS_OK;
    }
    struct step here = {information.st_dev, information.st_ino, above, above != NULL ? above->depth + 1 : 0};
    if (!enter(watcher, &here)) return STATUS_OK;
    if (watcher->options.folder != NULL) watcher->options.folder(watcher->options.context, path);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        FAIL_IF(top, err, STATUS_IO, "watcher.directory %s: %s", path, strerror(errno));
        return STATUS_OK;
    }
    enum status status = STATUS_OK;
    struct dirent *entry;
    while (status == STATUS_OK && (entry = readdir(folder)) != NULL)
        status = sweep_entry(watcher, relative, entry, &here, now, err);
    closedir(folder);
    return status;
}

enum status watcher_sweep(struct watcher *watcher, double now, struct err *err) {
    return sweep_folder(watcher, "", NULL, now, err);
}

/* The part of an absolute path below the directory; NULL for other and for hidden ones. */
static const char *below_directory(const struct watcher *watcher, const char *path) {
    size_t length = strlen(watcher->directory);
    if (strncmp(path, watcher->directory, length) != 0 || (path[length] != '/' && length > 1)) return NULL;
    const char *relative = path + length;
    relative += strspn(relative, "/");
    return *relative == '\0' || *relative == '.' || strstr(relative, "/.") != NULL ? NULL : relative;
}

enum status watcher_notice(struct watcher *watcher, const char *path, double now, struct err *err) {
    const char *relative = below_directory(watcher, path);
    if (relative == NULL) return STATUS_OK;
    bool deep = strchr(relative, '/') != NULL;
    if (deep && !watcher->options.recursive) return STATUS_OK;
    if (!file_is_folder(path)) return see_file(watcher, relative, true, now, err);
    /* A folder was made or moved here. It is swept as part of the whole, so that links back and what is to be skipped
     * are told by the way down; folders are few. */
    return watcher->options.recursive ? watcher_sweep(watcher, now, err) : STATUS_OK;
}
