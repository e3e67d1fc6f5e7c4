#include "pipelines/launcher/cores.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cores_describe(const struct plan *plan, char *text, size_t size) {
    if (plan->graph->threads > 0)
        snprintf(text, size, "this session takes %d of %d cores, as session.threads says", plan->cores,
                 plan->machine_cores);
    else
        snprintf(text, size, "this session takes all %d cores; beside others give it a share: session: {threads: N}",
                 plan->machine_cores);
}

/* Reads a file of /proc and ends it with two 0. Returns its length. */
static size_t read_proc(const char *process, const char *file, char *text, size_t size) {
    char path[64];
    if (snprintf(path, sizeof path, "/proc/%.16s/%s", process, file) >= (int)sizeof path) return 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor >= 0 ? read(descriptor, text, size - 2) : -1;
    if (descriptor >= 0) close(descriptor);
    if (length < 0) length = 0;
    memset(text + length, 0, 2);
    return (size_t)length;
}

/* Returns the session that a command line of words runs, or NULL. */
static const char *session_of(const char *words, size_t length) {
    const char *session = NULL, *end = words + length;
    bool runs = false;
    for (const char *word = words; word < end; word += strlen(word) + 1) {
        const char *next = word + strlen(word) + 1;
        runs |= strcmp(word, "run") == 0 || strcmp(word, "replay") == 0;
        if (strcmp(word, "--session") == 0 && next < end) session = next;
        if (strncmp(word, "--session=", strlen("--session=")) == 0) session = word + strlen("--session=");
    }
    return runs ? session : NULL;
}

int cores_other_sessions(char *names, size_t size) {
    int count = 0;
    names[0] = '\0';
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
        char name[32], words[8192];
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == (int)getpid()) continue;
        read_proc(entry->d_name, "comm", name, sizeof name);
        if (strcmp(name, "icestream\n") != 0) continue;
        const char *session = session_of(words, read_proc(entry->d_name, "cmdline", words, sizeof words));
        if (session == NULL) continue;
        size_t used = strlen(names);
        snprintf(names + used, size - used, "%s%s", count > 0 ? ", " : "", session);
        count++;
    }
    if (processes != NULL) closedir(processes);
    return count;
}
