#include "stages/watcher/known.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/text.h"

struct known_slot {
    uint64_t hash;
    uint32_t file; /* index + 1; 0: free */
};

/* Returns the hash of a base name without its ending. */
static uint64_t hash_stem(const char *path) {
    size_t length;
    const char *name = path_base(path, &length);
    return text_hash_bytes(name, length);
}

static uint64_t hash_inode(dev_t device, ino_t inode) {
    const uint64_t both[2] = {(uint64_t)device, (uint64_t)inode};
    return text_hash_bytes(both, sizeof both);
}

/* Returns the file (index + 1) of the next slot with this hash from *position on, which starts at the hash itself; 0:
 * none. */
static uint32_t next_match(const struct known_table *table, uint64_t hash, size_t *position) {
    if (table->capacity == 0) return 0;
    for (;; ++*position) {
        const struct known_slot *slot = &table->slots[*position & (table->capacity - 1)];
        if (slot->file == 0) return 0;
        if (slot->hash == hash) {
            ++*position;
            return slot->file;
        }
    }
}

static void put(struct known_table *table, uint64_t hash, uint32_t file) {
    size_t position = (size_t)hash;
    while (table->slots[position & (table->capacity - 1)].file != 0)
        position++;
    table->slots[position & (table->capacity - 1)] = (struct known_slot){hash, file};
    table->used++;
}

static enum status insert(struct known_table *table, uint64_t hash, long file, struct err *err) {
    if (2 * (table->used + 1) > table->capacity) {
        struct known_table larger = {.capacity = table->capacity > 0 ? 2 * table->capacity : 64};
        larger.slots = calloc(larger.capacity, sizeof *larger.slots);
        FAIL_IF(larger.slots == NULL, err, STATUS_NO_MEMORY, "no memory for the names of %zu files", larger.capacity);
        for (size_t i = 0; i < table->capacity; i++)
            if (table->slots[i].file != 0) put(&larger, table->slots[i].hash, table->slots[i].file);
        free(table->slots);
        *table = larger;
    }
    put(table, hash, (uint32_t)file + 1);
    return STATUS_OK;
}

void known_destroy(struct known *known) {
    for (size_t i = 0; i < known->count; i++)
        free(known->files[i].path);
    free(known->files);
    free(known->by_path.slots);
    free(known->by_id.slots);
    free(known->by_inode.slots);
    free(known->by_stem.slots);
    for (size_t i = 0; i < known->folder_count; i++)
        free(known->folders[i]);
    free(known->folders);
    free(known->by_folder.slots);
    *known = (struct known){0};
}

long known_find_path(const struct known *known, const char *path) {
    uint64_t hash = text_hash(path);
    size_t position = (size_t)hash;
    uint32_t file;
    while ((file = next_match(&known->by_path, hash, &position)) != 0)
        if (strcmp(known->files[file - 1].path, path) == 0) return (long)file - 1;
    return KNOWN_NONE;
}

static bool has_id(const struct known_file *file, const char *id) {
    char own[PATH_SIZE];
    return !file->given_up && path_without_ending(file->path, own, sizeof own, NULL) == STATUS_OK &&
           strcmp(own, id) == 0;
}

long known_find_id(const struct known *known, const char *id) {
    uint64_t hash = text_hash(id);
    size_t position = (size_t)hash;
    uint32_t file;
    while ((file = next_match(&known->by_id, hash, &position)) != 0)
        if (has_id(&known->files[file - 1], id)) return (long)file - 1;
    return KNOWN_NONE;
}

/* Returns the latest file with this inode: the system uses an inode number again after its file was deleted. */
long known_find_inode(const struct known *known, dev_t device, ino_t inode) {
    uint64_t hash = hash_inode(device, inode);
    size_t position = (size_t)hash;
    uint32_t file;
    long latest = KNOWN_NONE;
    while ((file = next_match(&known->by_inode, hash, &position)) != 0)
        if (known->files[file - 1].device == device && known->files[file - 1].inode == inode) latest = (long)file - 1;
    return latest;
}

long known_next_namesake(const struct known *known, const char *path, size_t *position) {
    uint64_t hash = hash_stem(path);
    size_t length, other_length, at = (size_t)hash + *position;
    const char *name = path_base(path, &length);
    uint32_t file;
    while ((file = next_match(&known->by_stem, hash, &at)) != 0) {
        const char *other = path_base(known->files[file - 1].path, &other_length);
        *position = at - (size_t)hash;
        if (other_length == length && memcmp(name, other, length) == 0) return (long)file - 1;
    }
    return KNOWN_NONE;
}

/* Notes the folder of a file. */
static enum status note_folder(struct known *known, const char *path, struct err *err) {
    const char *name = path_name(path);
    size_t length = name > path ? (size_t)(name - path) - 1 : 0;
    uint64_t hash = text_hash_bytes(path, length);
    size_t position = (size_t)hash;
    uint32_t folder;
    while ((folder = next_match(&known->by_folder, hash, &position)) != 0)
        if (strlen(known->folders[folder - 1]) == length && memcmp(known->folders[folder - 1], path, length) == 0)
            return STATUS_OK;
    if (known->folder_count == known->folder_capacity) {
        size_t capacity = known->folder_capacity > 0 ? 2 * known->folder_capacity : 16;
        char **folders = realloc(known->folders, capacity * sizeof *folders);
        FAIL_IF(folders == NULL, err, STATUS_NO_MEMORY, "no memory for the names of %zu folders", capacity);
        known->folders = folders;
        known->folder_capacity = capacity;
    }
    char *copy = strndup(path, length);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the name of a folder");
    known->folders[known->folder_count++] = copy;
    return insert(&known->by_folder, hash, (long)known->folder_count - 1, err);
}

enum status known_add(struct known *known, const char *path, long *ret_index, struct err *err) {
    FAIL_IF(known->count >= INT_MAX, err, STATUS_UNSUPPORTED, "more than %d files in the watched folder", INT_MAX);
    if (known->count == known->capacity) {
        size_t capacity = known->capacity > 0 ? 2 * known->capacity : 64;
        struct known_file *files = realloc(known->files, capacity * sizeof *files);
        FAIL_IF(files == NULL, err, STATUS_NO_MEMORY, "no memory for the names of %zu files", capacity);
        known->files = files;
        known->capacity = capacity;
    }
    TRY(note_folder(known, path, err));
    char *copy = strdup(path);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the name of a file");
    long index = (long)known->count;
    known->files[known->count++] = (struct known_file){.path = copy};
    TRY(insert(&known->by_path, text_hash(path), index, err));
    TRY(insert(&known->by_stem, hash_stem(path), index, err));
    *ret_index = index;
    return STATUS_OK;
}

enum status known_take(struct known *known, long index, const char *id, struct err *err) {
    const struct known_file *file = &known->files[index];
    TRY(insert(&known->by_id, text_hash(id), index, err));
    return insert(&known->by_inode, hash_inode(file->device, file->inode), index, err);
}
