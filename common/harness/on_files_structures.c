/* Makes items from what a user gives a stage that takes structures. */
#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/formats/structure.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

struct input {
    const struct stage *stage;
    struct item_list *list;
    json_t *paths; /* paths that were given, as items hold them */
    struct err *err;
};

/* Returns whether the item's file has the same name, and so lies in another folder. */
static bool is_namesake(const struct item *item, const char *name) {
    const char *path = item_string(item, "structure.path");
    return path != NULL && strcmp(path_name(path), path_name(name)) == 0;
}

/* Finds the first id that no other item has: the name without its ending; the name with its ending (files of two
 * formats); or the path, which alone distinguishes files of one name in two folders. */
static enum status choose_id(const struct item_list *list, const char *path, const char *name, char id[PATH_SIZE],
                             struct err *err) {
    TRY(stage_files_id(name, id, err));
    const struct item *other = item_list_find(list, id);
    if (other == NULL) return STATUS_OK;
    bool namesake = is_namesake(other, name);
    if (namesake) {
        TRY(stage_files_id(path, id, err));
        if (item_list_find(list, id) == NULL) return STATUS_OK;
    }
    const char *candidates[] = {name, path};
    for (size_t i = namesake ? 1 : 0; i < 2; i++) {
        const char *text = candidates[i];
        while (*text == '/' || strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0)
            text = strchr(text, '/') + 1;
        FAIL_IF(strlen(text) >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "the path '%.80s…' is too long", text);
        memcpy(id, text, strlen(text) + 1);
        if (item_list_find(list, id) == NULL) return STATUS_OK;
    }
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: another file has the same name and path: rename it", path);
}

static enum status add_structure(const struct input *input, const char *path, const char *name) {
    char id[PATH_SIZE], text[PATH_SIZE];
    struct item *item = NULL;
    TRY(stage_files_path(input->stage, path, "", text, input->err));
    FAIL_IF(json_object_get(input->paths, text) != NULL, input->err, STATUS_BAD_ARGUMENT,
            "%s: the file is given twice: a structure is compared once", path);
    TRY(choose_id(input->list, path, name, id, input->err));
    FAIL_IF(!item_text_fits(text) || json_object_set_new(input->paths, text, json_true()) != 0, input->err,
            STATUS_BAD_ARGUMENT, "%s: its name is not UTF-8: rename it", path);
    TRY(item_create(id, "structure", &item, input->err));
    enum status status = item_set_string(item, "structure.path", text, input->err);
    if (status == STATUS_OK) return item_list_add(input->list, item, input->err);
    item_destroy(&item);
    return status;
}

static enum status add_folder(const struct input *input, const char *path) {
    char copy[PATH_SIZE];
    size_t before = input->list->count;
    TRY(path_join("", path, copy, sizeof copy, input->err));
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--)
        copy[length - 1] = '\0';
    char *roots[] = {copy, NULL};
    size_t skip = strlen(copy) + (strcmp(copy, "/") != 0);
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, stage_files_by_name);
    FAIL_IF(walk == NULL, input->err, STATUS_IO, "%s: the folder cannot be read: %s", path, strerror(errno));
    enum status status = STATUS_OK;
    for (FTSENT *entry; status == STATUS_OK && (entry = fts_read(walk)) != NULL;)
        if (entry->fts_info == FTS_F && entry->fts_name[0] != '.' && structure_is_name(entry->fts_name))
            status = stage_files_name_fits(entry->fts_path + skip)
                         ? add_structure(input, entry->fts_path, entry->fts_path + skip)
                         : stage_files_refuse(input->stage, "structure", entry->fts_path + skip, input->err);
    fts_close(walk);
    FAIL_IF(status == STATUS_OK && input->list->count == before, input->err, STATUS_NOT_FOUND,
            "%s: there is no structure in this folder: a file .pdb, .ent, .cif, .mmcif or .dcd was expected", path);
    return status;
}

static bool is_list(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL && (strcasecmp(dot, ".txt") == 0 || strcasecmp(dot, ".lst") == 0);
}

/* Reads one path from each line: it counts from the list's folder or from the working directory; text after # is
 * ignored. */
static enum status add_list(const struct input *input, const char *path) {
    enum { LIST_MAX = 1 << 28 };
    _cleanup_(mem_free) char *text = NULL;
    char folder[PATH_SIZE], beside[PATH_SIZE];
    size_t before = input->list->count;
    TRY(file_read_whole(path, LIST_MAX, &text, NULL, input->err));
    TRY(path_folder(path, folder, sizeof folder, input->err));
    for (char *save = NULL, *line = strtok_r(text, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        line += strspn(line, " \t");
        line[strcspn(line, "#")] = '\0';
        for (size_t length = strlen(line); length > 0 && strchr(" \t", line[length - 1]) != NULL; length--)
            line[length - 1] = '\0';
        if (*line == '\0') continue;
        TRY(path_join(folder, line, beside, sizeof beside, input->err));
        bool here = file_exists(beside);
        FAIL_IF(!here && !file_exists(line), input->err, STATUS_NOT_FOUND,
                "%s: '%.200s' is neither beside this list nor in the working directory", path, line);
        TRY(add_structure(input, here ? beside : line, line));
    }
    FAIL_IF(input->list->count == before, input->err, STATUS_NOT_FOUND, "%s: there is no name in this list", path);
    return STATUS_OK;
}

static enum status add_one(const struct input *input, const char *path) {
    if (file_is_folder(path)) return add_folder(input, path);
    if (is_list(path)) return add_list(input, path);
    return add_structure(input, path, path_name(path));
}

/* Expands wildcards that were quoted, so that no shell has seen them: they may name more files than a command line
 * holds. */
static enum status add_glob(const struct input *input, const char *pattern) {
    glob_t found = {0};
    int result = glob(pattern, GLOB_TILDE, NULL, &found);
    enum status status = STATUS_OK;
    if (result != 0)
        status = err_set(input->err, result == GLOB_NOSPACE ? STATUS_NO_MEMORY : STATUS_NOT_FOUND, __FILE__, __LINE__,
                         "%s: there is no such file or folder", pattern);
    for (size_t i = 0; status == STATUS_OK && i < found.gl_pathc; i++)
        status = file_is_folder(found.gl_pathv[i]) ? add_folder(input, found.gl_pathv[i])
                                                   : add_structure(input, found.gl_pathv[i], found.gl_pathv[i]);
    globfree(&found);
    return status;
}

static enum status add_part(const struct input *input, const char *path) {
    return file_exists(path) ? add_one(input, path) : add_glob(input, path);
}

static enum status add_parts(const struct input *input, const char *text) {
    if (file_exists(text)) return add_one(input, text);
    _cleanup_(mem_free) char *copy = strdup(text);
    FAIL_IF(copy == NULL, input->err, STATUS_NO_MEMORY, "no memory for the list of structures");
    for (char *save = NULL, *part = strtok_r(copy, ",", &save); part != NULL; part = strtok_r(NULL, ",", &save))
        TRY(add_part(input, part));
    return STATUS_OK;
}

enum status stage_files_structures(const struct stage *stage, const char *text, struct item_list *list,
                                   struct err *err) {
    const struct input input = {stage, list, json_object(), err};
    FAIL_IF(input.paths == NULL, err, STATUS_NO_MEMORY, "no memory for the list of structures");
    enum status status = add_parts(&input, text);
    json_decref(input.paths);
    return status;
}
