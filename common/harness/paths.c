/* Decides where a stage may read and write. In a pipeline, items come from elsewhere. The files that an item names must
 * lie in the session or in an input folder; its products, named after its id, must lie below the stage's own folder;
 * both after all links. On files the user may name any file. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/harness/stage_private.h"
#include "common/memory.h"

static enum status add_text(struct stage *stage, const char *path, struct err *err) {
    char *copy = strdup(path);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the input folders");
    struct stat info;
    stage->place_devices[stage->place_count] = stat(path, &info) == 0 ? (uint64_t)info.st_dev : 0;
    stage->places[stage->place_count++] = copy;
    return STATUS_OK;
}

/* Adds a folder as it is written, for files that no longer exist, and as it is with links resolved. Notes on which file
 * system it lies: another one in its place is an empty mount point. */
static enum status add_place(struct stage *stage, const char *path, struct err *err) {
    char real[PATH_MAX];
    FAIL_IF(path == NULL || path[0] != '/', err, STATUS_BAD_ARGUMENT, "'folders' must be a list of absolute paths");
    TRY(add_text(stage, path, err));
    return realpath(path, real) != NULL && strcmp(path, real) != 0 ? add_text(stage, real, err) : STATUS_OK;
}

enum status stage_confine(struct stage *stage, const json_t *folders, struct err *err) {
    FAIL_IF(folders != NULL && !json_is_array(folders), err, STATUS_BAD_FORMAT, "'folders' must be a list");
    size_t count = json_array_size(folders);
    FAIL_IF(realpath(stage->folder, stage->real_folder) == NULL, err, STATUS_IO, "%s: the folder cannot be reached: %s",
            stage->folder, strerror(errno));
    stage->places = calloc(2 * (count + 2), sizeof *stage->places);
    stage->place_devices = calloc(2 * (count + 2), sizeof *stage->place_devices);
    FAIL_IF(stage->places == NULL || stage->place_devices == NULL, err, STATUS_NO_MEMORY,
            "no memory for the input folders");
    TRY(add_place(stage, stage->root, err));
    TRY(add_place(stage, stage->folder, err));
    for (size_t i = 0; i < count; i++)
        TRY(add_place(stage, json_string_value(json_array_get(folders, i)), err));
    return STATUS_OK;
}

void stage_places_clear(struct stage *stage) {
    for (int i = 0; i < stage->place_count; i++)
        free(stage->places[i]);
    mem_free(&stage->places);
    mem_free(&stage->place_devices);
    stage->place_count = 0;
}

static bool is_in_a_place(const struct stage *stage, const char *path) {
    char real[PATH_MAX];
    for (int i = 0; i < stage->place_count; i++)
        if (path_is_below(path, stage->places[i], NULL)) return true;
    /* A folder that was away when the stage began may be there by now, behind a link. */
    for (int i = 0; i < stage->place_count; i++)
        if (realpath(stage->places[i], real) != NULL && path_is_below(path, real, NULL)) return true;
    return false;
}

/* Returns whether a folder of the session is one in which a stage puts its products: each stage has a ledger or a
 * log. */
static bool is_stage_folder(const struct stage *stage, const char *name) {
    char path[PATH_SIZE];
    int used = snprintf(path, sizeof path, "%s/ledger/%s.sqlite", stage->root, name);
    if (used > 0 && used < (int)sizeof path && file_exists(path)) return true;
    used = snprintf(path, sizeof path, "%s/log/%s.0.log", stage->root, name);
    return used > 0 && used < (int)sizeof path && file_exists(path);
}

/* Checks a path "NAME/…" in the session that leads to no file. When NAME is the folder of a stage and is gone, it may
 * be put back; any other name was never a folder. */
static enum status folder_there(const struct stage *stage, const char *path, struct err *err) {
    char first[PATH_SIZE], absolute[PATH_SIZE];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(path, "/"), path);
    TRY(path_join(stage->root, first, absolute, sizeof absolute, err));
    bool gone = strchr(path, '/') != NULL && is_stage_folder(stage, first) && !file_is_folder(absolute);
    FAIL_IF(gone, err, STATUS_UNAVAILABLE, "%s: there is no such file, and the folder %s is gone: put it back", path,
            absolute);
    return STATUS_OK;
}

/* Returns whether an input folder is away: it is no folder, or a mount point without its file system. */
static bool is_away(const struct stage *stage, int place) {
    struct stat info;
    if (stat(stage->places[place], &info) != 0 || !S_ISDIR(info.st_mode)) return true;
    return stage->place_devices[place] != 0 && stage->place_devices[place] != (uint64_t)info.st_dev;
}

/* Sets the error of a file that is not there. Only a folder that was there is worth waiting for: a stage's folder, or
 * an input folder. A path to nowhere fails its item. */
static enum status missing(const struct stage *stage, const char *absolute, struct err *err) {
    const char *rest;
    if (path_is_below(absolute, stage->root, &rest)) TRY(folder_there(stage, rest, err));
    for (int i = 0; i < stage->place_count; i++) {
        if (strcmp(absolute, stage->places[i]) == 0) return file_missing(absolute, err);
        FAIL_IF(path_is_below(absolute, stage->places[i], NULL) && is_away(stage, i), err, STATUS_UNAVAILABLE,
                "%s: there is no such file, and the folder %s is not there either (moved, deleted or not mounted?)",
                absolute, stage->places[i]);
    }
    FAIL(err, STATUS_NOT_FOUND, "%s: there is no such file", absolute);
}

enum status stage_may_read(const struct stage *stage, const char *absolute, struct err *err) {
    char real[PATH_MAX];
    if (stage->place_count == 0) return STATUS_OK;
    bool there = realpath(absolute, real) != NULL;
    int reason = there ? 0 : errno;
    if (there && is_in_a_place(stage, real)) return STATUS_OK;
    /* A file that may not be read is not waited for either, even if its folder is away. */
    if (!there && is_in_a_place(stage, absolute) && strstr(absolute, "/../") == NULL) {
        if (reason == ENOENT) return missing(stage, absolute, err);
        FAIL(err, reason == ENOTDIR ? STATUS_NOT_FOUND : status_of_reading(reason), "%s: cannot be reached: %s",
             absolute, strerror(reason));
    }
    bool leads = there && strcmp(absolute, real) != 0;
    FAIL(err, STATUS_BAD_ARGUMENT,
         "%s%s%s is neither in the session nor in an input folder, so that it is not read; if it belongs to the data, "
         "name its folder in the graph: session: {inputs: [FOLDER]}",
         absolute, leads ? " leads to " : "", leads ? real : "");
}

/* Checks that the nearest existing folder on the way to a product lies below the stage's own. */
static enum status may_write(const struct stage *stage, const char *absolute, struct err *err) {
    char folder[PATH_SIZE], real[PATH_MAX];
    if (stage->place_count == 0) return STATUS_OK;
    TRY(path_folder(absolute, folder, sizeof folder, err));
    while (realpath(folder, real) == NULL) {
        FAIL_IF(errno != ENOENT, err, status_of_writing(errno), "%s: cannot be reached: %s", folder, strerror(errno));
        TRY(path_folder(folder, folder, sizeof folder, err));
    }
    FAIL_IF(!path_is_below(real, stage->real_folder, NULL), err, STATUS_BAD_ARGUMENT,
            "%s would be written outside of %s: a link leads to %s; remove it", absolute, stage->folder, real);
    return STATUS_OK;
}

enum status stage_product(const struct stage *stage, const struct item *item, const char *suffix, char *relative,
                          char *absolute, struct err *err) {
    char stem[PATH_SIZE], name[PATH_SIZE];
    TRY(path_stem(item_id(item), stem, sizeof stem, err));
    /* Two sources may have items of one name. */
    const char *source = stage->separate ? item_source(item) : "";
    int used = snprintf(name, sizeof name, "%s%s%s%s", source, *source != '\0' ? "/" : "", stem, suffix);
    FAIL_IF(used < 0 || (size_t)used >= sizeof name, err, STATUS_BAD_ARGUMENT,
            "the name of a product of %.80s is too long", item_id(item));
    TRY(path_join(stage->folder, name, absolute, PATH_SIZE, err));
    TRY(path_join(path_name(stage->folder), name, relative, PATH_SIZE, err));
    /* Silently making this folder anew would hide that its content is lost. */
    FAIL_IF(!file_is_folder(stage->folder), err, STATUS_UNAVAILABLE,
            "%s: the folder of the products is gone: put it back, or make it and have its products made again with "
            "`icestream retry --lost`",
            stage->folder);
    TRY(may_write(stage, absolute, err));
    return file_make_parents(absolute, 0777, err);
}

enum status stage_resolve(const struct stage *stage, const char *path, char *absolute, struct err *err) {
    TRY(path_join(stage->root, path, absolute, PATH_SIZE, err));
    if (path[0] == '/' || file_exists(absolute)) return stage_may_read(stage, absolute, err);
    char beside[PATH_SIZE], here[PATH_SIZE];
    FAIL_IF(getcwd(here, sizeof here) == NULL, err, STATUS_IO, "the working directory cannot be found: %s",
            strerror(errno));
    TRY(path_join(here, path, beside, sizeof beside, err));
    if (!file_exists(beside)) TRY(folder_there(stage, path, err));
    FAIL_IF(!file_exists(beside), err, STATUS_NOT_FOUND, "'%s' is neither in %s nor in the working directory %s", path,
            stage->root, here);
    memcpy(absolute, beside, strlen(beside) + 1);
    return stage_may_read(stage, absolute, err);
}
