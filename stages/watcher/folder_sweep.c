/* Lists the watched folder and the folders below it, and takes notices about single paths. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/memory.h"
#include "stages/watcher/folder_private.h"

enum { DEPTH_MAX = 64 };

/* The folders on the way down, to stop at a link that leads back to one of them. */
struct step {
    dev_t device;
    ino_t inode;
    const struct step *above;
    int depth;
};

static enum status sweep_folder(struct folder *folder, const char *relative, const struct step *above, double now,
                                struct err *err);

/* Adds a matching file to the queue if it is new. A notice about a file that is still growing makes the next look
 * due. */
static enum status see_file(struct folder *folder, const char *relative, bool noticed, double now, struct err *err) {
    if (!pattern_match(&folder->pattern, relative)) return STATUS_OK;
    long index = known_find_path(&folder->known, relative);
    if (index != KNOWN_NONE && folder->known.files[index].state != KNOWN_GONE) {
        struct known_file *file = &folder->known.files[index];
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

static bool is_folder(const struct dirent *entry, const char *path) {
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) return entry->d_type == DT_DIR;
    return file_is_folder(path);
}

static enum status sweep_entry(struct folder *folder, const char *relative, const struct dirent *entry,
                               const struct step *here, double now, struct err *err) {
    char below[PATH_SIZE], path[PATH_SIZE];
    if (entry->d_name[0] == '.')
        return STATUS_OK; /* hidden (unfinished files of rsync and of icestream), "." or ".." */
    if (path_join(relative, entry->d_name, below, sizeof below, NULL) != STATUS_OK ||
        path_join(folder->directory, below, path, sizeof path, NULL) != STATUS_OK)
        return STATUS_OK; /* too long for the system to open */
    if (!is_folder(entry, path)) return see_file(folder, below, false, now, err);
    return folder->options.recursive ? sweep_folder(folder, below, here, now, err) : STATUS_OK;
}

static bool enter(const struct folder *folder, const struct step *here) {
    if (here->above == NULL) return true;
    if (here->depth >= DEPTH_MAX) return false;
    for (int i = 0; i < 2; i++)
        if (folder->skip_inode[i] == here->inode && folder->skip_device[i] == here->device) return false;
    for (const struct step *s = here->above; s != NULL; s = s->above)
        if (s->device == here->device && s->inode == here->inode) return false;
    return true;
}

static enum status sweep_folder(struct folder *folder, const char *relative, const struct step *above, double now,
                                struct err *err) {
    char path[PATH_SIZE];
    struct stat information;
    bool top = *relative == '\0';
    TRY(path_join(top ? "" : folder->directory, top ? folder->directory : relative, path, sizeof path, err));
    if (stat(path, &information) != 0) {
        FAIL_IF(top, err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "watcher.directory %s: %s", path,
                strerror(errno));
        return STATUS_OK;
    }
    struct step here = {information.st_dev, information.st_ino, above, above != NULL ? above->depth + 1 : 0};
    if (!enter(folder, &here)) return STATUS_OK;
    if (folder->options.before_listing != NULL) folder->options.before_listing(folder->options.context, path);
    DIR *listing = opendir(path);
    if (listing == NULL) {
        FAIL_IF(top, err, STATUS_IO, "watcher.directory %s: %s", path, strerror(errno));
        return STATUS_OK;
    }
    enum status status = STATUS_OK;
    struct dirent *entry;
    while (status == STATUS_OK && (entry = readdir(listing)) != NULL)
        status = sweep_entry(folder, relative, entry, &here, now, err);
    closedir(listing);
    return status;
}

enum status folder_sweep(struct folder *folder, double now, struct err *err) {
    return sweep_folder(folder, "", NULL, now, err);
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
    /* A folder was made or moved here. Sweeping the whole directory finds links that lead back and folders to skip by
     * the way down; new folders are few. */
    return folder->options.recursive ? folder_sweep(folder, now, err) : STATUS_OK;
}
