#include "pipelines/launcher/run/memory_kills.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Returns the count in a file; -1: it has none. */
static int64_t read_count(const char *path) {
    FILE *file = path[0] != '\0' ? fopen(path, "re") : NULL;
    char line[256];
    int64_t count = -1;
    while (file != NULL && count < 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "oom_kill %" SCNd64, &count) != 1) count = -1;
    if (file != NULL) fclose(file);
    return count;
}

/* Finds memory.events of this process's own control group (version 2), in which its children are, too. */
static bool find_group(char *path, size_t size) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_SIZE];
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) != 0) continue;
        int used = snprintf(path, size, "/sys/fs/cgroup%s/memory.events", line + 3);
        found = used > 0 && (size_t)used < size && read_count(path) >= 0;
    }
    if (file != NULL) fclose(file);
    return found;
}

void memory_kills_open(struct memory_kills *kills, const char *path) {
    *kills = (struct memory_kills){0};
    if (path != NULL)
        snprintf(kills->path, sizeof kills->path, "%s", path);
    else if (!find_group(kills->path, sizeof kills->path))
        snprintf(kills->path, sizeof kills->path, "/proc/vmstat");
    if (read_count(kills->path) < 0) kills->path[0] = '\0';
    kills->now = kills->before = read_count(kills->path);
}

void memory_kills_look(struct memory_kills *kills) {
    kills->before = kills->now;
    kills->now = read_count(kills->path);
}

bool memory_kills_grew(const struct memory_kills *kills) {
    return kills->before >= 0 && read_count(kills->path) > kills->before;
}
