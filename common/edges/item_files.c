#include "common/edges/item_files.h"

#include <string.h>

bool item_file(const struct item *item, const char *path, struct item_file *ret_file) {
    const json_t *entry = json_object_get(json_object_get(item_json(item), "files"), path);
    const json_t *size = json_object_get(entry, "size"), *mtime = json_object_get(entry, "mtime_ns");
    if (!json_is_integer(size) || !json_is_integer(mtime)) return false;
    const char *digest = json_string_value(json_object_get(entry, "digest"));
    *ret_file = (struct item_file){.size = json_integer_value(size),
                                   .mtime_ns = json_integer_value(mtime),
                                   .inode = (uint64_t)json_integer_value(json_object_get(entry, "inode")),
                                   .digest = digest != NULL ? digest : ""};
    return true;
}

enum status item_set_file(struct item *item, const char *path, const struct item_file *file, struct err *err) {
    json_t *root = (json_t *)(uintptr_t)item_json(item), *files = json_object_get(root, "files");
    json_t *entry = json_pack("{s:I, s:I}", "size", (json_int_t)file->size, "mtime_ns", (json_int_t)file->mtime_ns);
    bool well = entry != NULL;
    if (file->inode != 0)
        well = json_object_set_new(entry, "inode", json_integer((json_int_t)file->inode)) == 0 && well;
    if (file->digest[0] != '\0') well = json_object_set_new(entry, "digest", json_string(file->digest)) == 0 && well;
    if (!json_is_object(files)) {
        files = json_object();
        well = json_object_set_new(root, "files", files) == 0 && well;
    }
    /* A path that is no UTF-8 is in no item either. */
    if (well && item_text_fits(path)) {
        int failed = json_object_set_new(files, path, entry);
        FAIL_IF(failed, err, STATUS_NO_MEMORY, "no memory for the files of the item %.200s", item_id(item));
        return STATUS_OK;
    }
    json_decref(entry);
    FAIL_IF(!well, err, STATUS_NO_MEMORY, "no memory for the files of the item %.200s", item_id(item));
    return STATUS_OK;
}

static enum status visit_below(const json_t *value, item_path_visit *visit, void *context, struct err *err) {
    const char *key, *text = json_string_value(value);
    size_t i;
    json_t *inner;
    if (text != NULL && strchr(text, '/') != NULL) return visit(text, context, err);
    json_object_foreach((json_t *)(uintptr_t)value, key, inner) TRY(visit_below(inner, visit, context, err));
    json_array_foreach(value, i, inner) TRY(visit_below(inner, visit, context, err));
    return STATUS_OK;
}

enum status item_each_path(const struct item *item, item_path_visit *visit, void *context, struct err *err) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)item_json(item), key, value) {
        if (strcmp(key, "id") == 0 || strcmp(key, "source") == 0 || strcmp(key, "files") == 0) continue;
        TRY(visit_below(value, visit, context, err));
    }
    return STATUS_OK;
}

struct search {
    const char *path;
    bool found;
};

static enum status compare(const char *path, void *context, struct err *err) {
    (void)err;
    struct search *search = context;
    search->found = search->found || strcmp(path, search->path) == 0;
    return STATUS_OK;
}

bool item_names(const struct item *item, const char *path) {
    struct search search = {.path = path};
    return item_each_path(item, compare, &search, NULL) == STATUS_OK && search.found;
}
