/* Finds the files and items that requests name. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"

/* Returns whether a resolved path lies in a folder from which a source of the graph reads, or in the session. */
static bool is_allowed(struct serve *serve, const char *real) {
    const json_t *stage;
    const char *name;
    char place[PATH_MAX];
    if (realpath(serve->folder, place) != NULL && path_is_below(real, place, NULL)) return true;
    json_t *stages = json_object_get(view_graph(serve->view), "stages");
    json_object_foreach(stages, name, stage) {
        const char *folder = json_string_value(json_object_get(stage, "directory"));
        if (folder != NULL && realpath(folder, place) != NULL && path_is_below(real, place, NULL)) return true;
    }
    size_t i;
    const json_t *input, *inputs = json_object_get(json_object_get(view_graph(serve->view), "session"), "inputs");
    json_array_foreach(inputs, i, input) {
        const char *folder = json_string_value(input);
        if (folder != NULL && realpath(folder, place) != NULL && path_is_below(real, place, NULL)) return true;
    }
    return false;
}

/* Opens a file outside of the session by its resolved path, so that no link is followed after the check. */
static enum status open_outside(struct serve *serve, const char *path, struct api_file *file, struct err *err) {
    char real[PATH_MAX], opened[PATH_MAX];
    struct stat info;
    FAIL_IF(realpath(path, real) == NULL || !is_allowed(serve, real), err, STATUS_NOT_FOUND,
            "the file is not there, or lies neither in the session nor in a folder that a source reads");
    file->descriptor = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    FAIL_IF(file->descriptor < 0, err, STATUS_NOT_FOUND, "the file cannot be opened: %s", strerror(errno));
    snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->descriptor);
    ssize_t length = readlink(file->path, opened, sizeof opened - 1);
    opened[length > 0 ? length : 0] = '\0';
    bool good = fstat(file->descriptor, &info) == 0 && S_ISREG(info.st_mode) && is_allowed(serve, opened);
    if (!good) file_close(&file->descriptor);
    FAIL_IF(!good, err, STATUS_NOT_FOUND, "the file is no regular file, or has been moved");
    file->size = info.st_size;
    return STATUS_OK;
}

enum status api_open(struct serve *serve, const char *path, struct api_file *ret_file, struct err *err) {
    struct api_file file = {.descriptor = -1};
    struct stat info;
    FAIL_IF(path == NULL || path[0] == '\0', err, STATUS_NOT_FOUND, "there is no such file yet");
    if (path[0] == '/')
        TRY(open_outside(serve, path, &file, err));
    else
        TRY(serve_open_beneath(serve, path, &file.descriptor, &file.size, err));
    file.mtime_ns = fstat(file.descriptor, &info) == 0 ? file_mtime_ns(&info) : 0;
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
    *ret_file = file;
    return STATUS_OK;
}

void api_close(struct api_file *file) {
    file_close(&file->descriptor);
}

enum status api_read_star(struct serve *serve, const char *path, int64_t limit, struct star_file **ret_star,
                          struct err *err) {
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(api_open(serve, path, &file, err));
    FAIL_IF(file.size > limit, err, STATUS_UNSUPPORTED, "%s: the table has %lld bytes, at most %lld are read", path,
            (long long)file.size, (long long)limit);
    return err_context(err, star_read(file.path, ret_star, err), "%s", path);
}

enum status api_find_item(struct serve *serve, const struct http_request *request, int word, size_t *ret_row,
                          json_t **ret_item, struct err *err) {
    int64_t number;
    TRY(http_number(request->words[word], 0, (int64_t)1 << 53, &number, err));
    int64_t row = view_find(serve->view, number);
    FAIL_IF(row < 0, err, STATUS_NOT_FOUND, "there is no exposure %lld", (long long)number);
    if (ret_item != NULL) TRY(view_item(serve->view, (size_t)row, ret_item, err));
    *ret_row = (size_t)row;
    return STATUS_OK;
}

enum status api_or_nothing(enum status status, const struct http_request *request, struct http_answer *answer,
                           struct err *err) {
    const bool lacks = status == STATUS_NOT_FOUND || status == STATUS_UNSUPPORTED || status == STATUS_BAD_FORMAT;
    if (!lacks || http_query(request, "quiet") == NULL) return status;
    if (err != NULL) *err = (struct err){0};
    http_answer_clear(answer);
    *answer = (struct http_answer){.code = 204};
    return STATUS_OK;
}

const char *api_text_at(const json_t *object, const char *member, const char *name) {
    return json_string_value(json_object_get(json_object_get(object, member), name));
}

enum status api_stage_of_kind(struct serve *serve, const struct http_request *request, const char *kind,
                              const char **ret_name, struct err *err) {
    const char *wanted = http_query(request, "stage");
    size_t i;
    const json_t *planned;
    json_array_foreach(json_object_get(view_plan(serve->view), "stages"), i, planned) {
        const char *name = json_string_value(json_object_get(planned, "name"));
        const char *of = json_string_value(json_object_get(planned, "kind"));
        if (name == NULL || (wanted != NULL && strcmp(wanted, name) != 0)) continue;
        if (strcmp(of != NULL ? of : name, kind) != 0) continue;
        *ret_name = name;
        return STATUS_OK;
    }
    FAIL(err, STATUS_NOT_FOUND, "the graph has no %s%s%s", kind, wanted != NULL ? " of the name " : "",
         wanted != NULL ? wanted : "");
}

void api_kept_key(const struct api_file *file, const char *name, int64_t option, char key[160]) {
    snprintf(key, 160, "%.80s %lld %lld %lld", name, (long long)file->size, (long long)file->mtime_ns,
             (long long)option);
}

struct api_kept *api_kept_find(struct api_kept *kept, size_t count, const char *key, int64_t request) {
    struct api_kept *found = kept;
    for (size_t i = 0; i < count; i++) {
        if (kept[i].used < found->used) found = &kept[i];
        if (strcmp(kept[i].key, key) != 0) continue;
        found = &kept[i];
        break;
    }
    found->used = request;
    return found;
}

enum status api_kept_answer(const struct api_kept *kept, const char *type, struct http_answer *answer,
                            struct err *err) {
    void *copy = malloc(kept->length > 0 ? kept->length : 1);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the answer");
    memcpy(copy, kept->bytes, kept->length);
    http_answer_bytes(answer, type, copy, kept->length);
    return STATUS_OK;
}

void api_kept_put(struct api_kept *kept, const char *key, void *bytes, size_t length) {
    const int64_t used = kept->used;
    api_kept_clear(kept);
    kept->used = used;
    snprintf(kept->key, sizeof kept->key, "%s", key);
    kept->bytes = bytes;
    kept->length = length;
}

void api_kept_clear(struct api_kept *kept) {
    free(kept->bytes);
    *kept = (struct api_kept){0};
}
