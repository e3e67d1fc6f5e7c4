#include "common/process_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { START_FIELD = 22 }; /* of /proc/PID/stat, counted from 1 */

static bool read_line(const char *path, char *line, size_t size) {
    FILE *stream = fopen(path, "re");
    bool well = stream != NULL && fgets(line, (int)size, stream) != NULL;
    if (stream != NULL) fclose(stream);
    if (well) line[strcspn(line, "\n")] = '\0';
    return well;
}

enum process { PROCESS_UNKNOWN, PROCESS_ENDED, PROCESS_RUNS };

/* Reads when a process began, in ticks since the machine did. ENDED: there is no such process, or only its remains. That
 * /proc does not show it says nothing: it may hide the processes of other users, and reading may fail. */
static enum process read_start(long pid, unsigned long long *ret_start) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!read_line(path, line, sizeof line))
        return kill((pid_t)pid, 0) != 0 && errno == ESRCH ? PROCESS_ENDED : PROCESS_UNKNOWN;
    /* "PID (NAME) STATE …"; the name may hold anything. */
    const char *at = strrchr(line, ')');
    if (at == NULL) return PROCESS_UNKNOWN;
    if (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0) return PROCESS_ENDED;
    for (int field = 2; field < START_FIELD && at != NULL; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL) return PROCESS_UNKNOWN;
    *ret_start = strtoull(at, NULL, 10);
    return PROCESS_RUNS;
}

/* Writes what tells this machine, since it was started, and this space of process numbers from all others. */
static bool read_place(char *place, size_t size) {
    char boot[64], space[64];
    if (!read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) return false;
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    if (length <= 0) return false;
    space[length] = '\0';
    return (size_t)snprintf(place, size, "%s %llu", boot, strtoull(space + strcspn(space, "0123456789"), NULL, 10)) <
           size;
}

void process_mark(char mark[PROCESS_MARK_SIZE]) {
    char place[96];
    unsigned long long start = 0;
    mark[0] = '\0';
    if (read_place(place, sizeof place) && read_start((long)getpid(), &start) == PROCESS_RUNS)
        snprintf(mark, PROCESS_MARK_SIZE, "%s %ld %llu", place, (long)getpid(), start);
}

bool process_mark_has_ended(const char *mark) {
    char place[96];
    unsigned long long start = 0, now = 0;
    long pid = 0;
    if (!read_place(place, sizeof place)) return false;
    size_t length = strlen(place);
    if (strncmp(mark, place, length) != 0 || sscanf(mark + length, " %ld %llu", &pid, &start) != 2 || pid <= 0)
        return false;
    enum process process = read_start(pid, &now);
    return process == PROCESS_ENDED || (process == PROCESS_RUNS && now != start);
}
