#include "common/machine_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/files.h"
#include "common/memory.h"

enum { LINE_SIZE = PATH_SIZE + 256 };

static FILE *open_below(const char *root, const char *folder, const char *name) {
    char path[2 * PATH_SIZE];
    int used = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return used > 0 && (size_t)used < sizeof path ? fopen(path, "re") : NULL;
}

/* Reads a number of bytes; "max", as anything else that is no number, gives SIZE_MAX. */
static size_t bytes_of(const char *text) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    return end == text || errno != 0 || value > SIZE_MAX ? SIZE_MAX : (size_t)value;
}

/* Returns the number that a file holds; SIZE_MAX: none. */
static size_t read_number(const char *root, const char *folder, const char *name) {
    char line[64];
    FILE *file = open_below(root, folder, name);
    size_t value = file != NULL && fgets(line, sizeof line, file) != NULL ? bytes_of(line) : SIZE_MAX;
    if (file != NULL) fclose(file);
    return value;
}

/* Returns the number behind a word at the beginning of a line; `absent` when there is none. */
static size_t read_entry(const char *root, const char *folder, const char *name, const char *word, size_t absent) {
    char line[256];
    size_t value = absent, length = strlen(word);
    FILE *file = open_below(root, folder, name);
    while (file != NULL && value == absent && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, word, length) == 0 && (line[length] == ' ' || line[length] == ':'))
            value = bytes_of(line + length + 1);
    if (file != NULL) fclose(file);
    return value;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void take_limit(struct machine_memory *m, size_t limit, size_t used, size_t cache) {
    if (limit == SIZE_MAX || used == SIZE_MAX) return;
    size_t firm = used > cache ? used - cache : 0;
    m->total = smaller(m->total, limit);
    m->available = smaller(m->available, limit > firm ? limit - firm : 0);
}

static void take_version_2(const char *root, const char *folder, struct machine_memory *m) {
    size_t limit = smaller(read_number(root, folder, "memory.max"), read_number(root, folder, "memory.high"));
    if (limit == SIZE_MAX) return;
    take_limit(m, limit, read_number(root, folder, "memory.current"),
               read_entry(root, folder, "memory.stat", "inactive_file", 0));
}

/* Version 1 writes "no limit" as a number near 2^63. */
static void take_version_1(const char *root, const char *folder, struct machine_memory *m) {
    size_t limit = read_number(root, folder, "memory.limit_in_bytes");
    if (limit >= (size_t)1 << 60) return;
    take_limit(m, limit, read_number(root, folder, "memory.usage_in_bytes"),
               read_entry(root, folder, "memory.stat", "total_inactive_file", 0));
}

/* Visits a group and those above it. Inside a container the path may name a group that is not mounted there; the mount
 * itself is then the container's group. */
static void walk_up(const char *root, const char *mount, char *group, bool second, struct machine_memory *m) {
    char folder[LINE_SIZE];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        if (second)
            take_version_2(root, folder, m);
        else
            take_version_1(root, folder, m);
        char *slash = strrchr(group, '/');
        if (slash == NULL) return;
        *slash = '\0';
    }
}

/* Returns whether a comma-separated list holds "memory". */
static bool names_memory(const char *list, size_t length) {
    static const char word[] = "memory";
    for (size_t at = 0; at < length; at += strcspn(list + at, ",:") + 1)
        if (strncmp(list + at, word, sizeof word - 1) == 0 && strchr(",:", list[at + sizeof word - 1]) != NULL)
            return true;
    return false;
}

/* A line of /proc/self/cgroup is ID:CONTROLLERS:/GROUP; version 2 has no controllers there. */
static void take_groups(const char *root, struct machine_memory *m) {
    char line[LINE_SIZE];
    FILE *file = open_below(root, "/proc/self", "cgroup");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) continue;
        controllers++;
        size_t length = (size_t)(group++ - controllers), end = strlen(group);
        if (end > 0 && group[end - 1] == '/') group[end - 1] = '\0';
        if (length == 0) {
            walk_up(root, "/sys/fs/cgroup", group, true, m);
        } else if (names_memory(controllers, length)) {
            walk_up(root, "/sys/fs/cgroup/memory", group, false, m);
        }
    }
    if (file != NULL) fclose(file);
}

static void take_process(const char *root, struct machine_memory *m) {
    char line[128], *rest = NULL;
    FILE *file = open_below(root, "/proc/self", "statm");
    long page = sysconf(_SC_PAGESIZE);
    if (file != NULL && fgets(line, sizeof line, file) != NULL && page > 0) {
        m->address_used = mem_bytes(strtoul(line, &rest, 10), (size_t)page);
        m->resident = mem_bytes(strtoul(rest, NULL, 10), (size_t)page);
    }
    if (file != NULL) fclose(file);
}

struct machine_memory machine_memory_read(const char *root) {
    struct machine_memory m = {.address_limit = SIZE_MAX};
    size_t total = read_entry(root, "/proc", "meminfo", "MemTotal", SIZE_MAX);
    size_t available = read_entry(root, "/proc", "meminfo", "MemAvailable", SIZE_MAX);
    m.total = mem_bytes(total, 1024);
    m.available = mem_bytes(available, 1024);
    take_groups(root, &m);
    take_process(root, &m);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) m.address_limit = (size_t)limit.rlim_cur;
    return m;
}

size_t machine_memory_room(const struct machine_memory *m, size_t reserve) {
    size_t room = m->available == SIZE_MAX ? SIZE_MAX : m->available > reserve ? m->available - reserve : 0;
    if (m->address_limit == SIZE_MAX) return room;
    size_t used = mem_sum(m->address_used, MEM_HEADROOM);
    return smaller(room, m->address_limit > used ? m->address_limit - used : 0);
}
