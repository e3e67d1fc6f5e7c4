#include "pipelines/launcher/program.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"

enum { NAMES_MAX = 256 };

static const char PREFIX[] = "icestream-";

enum status program_own_folder(char *folder, size_t size, struct err *err) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    FAIL_IF(length <= 0, err, STATUS_IO, "/proc/self/exe cannot be read: %s", strerror(errno));
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    FAIL_IF(slash == NULL || (size_t)(slash - path) >= size, err, STATUS_IO, "%s: no folder", path);
    *slash = '\0';
    memcpy(folder, path, (size_t)(slash - path) + 1);
    return STATUS_OK;
}

static bool is_program(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* Calls visit with each folder where programs may lie: our own, then those of PATH. Stops when visit returns true. */
typedef bool folder_visit(const char *folder, void *context);

static bool each_folder(bool own, bool path, folder_visit *visit, void *context) {
    char folder[PATH_MAX];
    if (own && program_own_folder(folder, sizeof folder, NULL) == STATUS_OK && visit(folder, context)) return true;
    const char *from = path ? getenv("PATH") : NULL;
    while (from != NULL && *from != '\0') {
        size_t length = strcspn(from, ":");
        if (length > 0 && length < sizeof folder && from[0] == '/') {
            memcpy(folder, from, length);
            folder[length] = '\0';
            if (visit(folder, context)) return true;
        }
        from += length + (from[length] == ':');
    }
    return false;
}

struct search {
    const char *name;
    char *found;
    bool no_memory;
};

static bool try_folder(const char *folder, void *context) {
    struct search *search = context;
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s%s", folder, PREFIX, search->name);
    if (length < 0 || (size_t)length >= sizeof path || !is_program(path)) return false;
    search->found = strdup(path);
    search->no_memory = search->found == NULL;
    return true;
}

enum status program_find(const char *name, char **ret_path, struct err *err) {
    struct search search = {.name = name};
    each_folder(true, true, try_folder, &search);
    FAIL_IF(search.no_memory, err, STATUS_NO_MEMORY, "no memory for the path of %s", name);
    FAIL_IF(search.found == NULL, err, STATUS_NOT_FOUND, "there is no program %s%s beside this one or on PATH", PREFIX,
            name);
    *ret_path = search.found;
    return STATUS_OK;
}

enum status program_check(const char *path, struct err *err) {
    struct stat status;
    FAIL_IF(stat(path, &status) != 0 || !S_ISREG(status.st_mode), err, STATUS_NOT_FOUND, "there is no program %s",
            path);
    FAIL_IF(!is_program(path), err, STATUS_UNSUPPORTED, "%s is there but may not be executed; chmod +x %s", path, path);
    return STATUS_OK;
}

static bool list_folder(const char *folder, void *context) {
    struct program_names *names = context;
    DIR *directory = opendir(folder);
    if (directory == NULL) return false;
    for (struct dirent *entry = readdir(directory); entry != NULL && names->count < NAMES_MAX;
         entry = readdir(directory)) {
        char path[PATH_MAX];
        const char *name = entry->d_name + strlen(PREFIX);
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 || name[0] == '\0') continue;
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof path || !is_program(path)) continue;
        bool known = false;
        for (size_t i = 0; i < names->count && !known; i++)
            known = strcmp(names->names[i], name) == 0;
        if (known) continue;
        names->names[names->count] = strdup(name);
        if (names->names[names->count] != NULL) names->count++;
    }
    closedir(directory);
    return false;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum status program_list(struct program_names *ret_names, struct err *err) {
    struct program_names names = {.names = calloc(NAMES_MAX, sizeof *names.names)};
    FAIL_IF(names.names == NULL, err, STATUS_NO_MEMORY, "no memory for the list of programs");
    each_folder(true, true, list_folder, &names);
    qsort(names.names, names.count, sizeof *names.names, compare_names);
    *ret_names = names;
    return STATUS_OK;
}

void program_names_clear(struct program_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct program_names){0};
}
