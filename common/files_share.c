/* Names of partial files where several hosts write into one file system, and what becomes of those that are left. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/files.h"
#include "common/files_private.h"

enum { HOST_KEPT = 24, TOKEN_KEPT = 8 };
_Static_assert((int)FILE_MARK_SIZE == 1 + (int)HOST_KEPT + 1 + (int)TOKEN_KEPT + 1, "a mark is .HOST-TOKEN");

/* Names this process in its partial files, whichever thread writes them. It is set once, before there are other
 * threads. */
static char writer_mark[FILE_MARK_SIZE];

const char *file_writer_mark(void) {
    return writer_mark;
}

/* Writes a host's name as marks have it: a mark has no dot. */
static void plain_host(const char *host, char plain[HOST_KEPT + 1]) {
    size_t length = 0;
    for (; length < HOST_KEPT && host[length] != '\0'; length++)
        plain[length] = isalnum((unsigned char)host[length]) ? host[length] : '_';
    plain[length] = '\0';
}

static void make_mark(const char *host, const char *token, char mark[FILE_MARK_SIZE]) {
    char plain[HOST_KEPT + 1];
    size_t length = strlen(token);
    plain_host(host, plain);
    snprintf(mark, FILE_MARK_SIZE, ".%s-%s", plain, token + (length > TOKEN_KEPT ? length - TOKEN_KEPT : 0));
}

void file_share(const char *host, const char *token) {
    writer_mark[0] = '\0';
    if (host != NULL) make_mark(host, token, writer_mark);
}

void file_unique_mark(char mark[FILE_MARK_SIZE]) {
    char host[256] = "", token[TOKEN_KEPT + 1];
    uint32_t random = (uint32_t)getpid();
    if (writer_mark[0] != '\0') {
        memcpy(mark, writer_mark, FILE_MARK_SIZE);
        return;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') strcpy(host, "host");
    (void)!getrandom(&random, sizeof random, 0); /* without random numbers the process tells itself apart on its host */
    snprintf(token, sizeof token, "%08x", (unsigned)random);
    make_mark(host, token, mark);
}

/* Returns whether a name is ".NAME.HOST-TOKEN.partial" or ".link". host: NULL for any. */
static bool is_marked(const char *name, const char *host) {
    char plain[HOST_KEPT + 1], mark[HOST_KEPT + 1 + TOKEN_KEPT + 1];
    const char *end = strrchr(name, '.'), *begin = end;
    if (name[0] != '.' || end == NULL || (strcmp(end, ".partial") != 0 && strcmp(end, ".link") != 0)) return false;
    while (begin > name && begin[-1] != '.')
        begin--;
    size_t length = (size_t)(end - begin);
    if (begin <= name + 1 || length < 1 + TOKEN_KEPT || length >= sizeof mark) return false;
    memcpy(mark, begin, length);
    mark[length] = '\0';
    const char *token = mark + length - TOKEN_KEPT;
    if (token[-1] != '-' || strspn(token, "0123456789abcdef") != TOKEN_KEPT) return false;
    if (host == NULL) return true;
    plain_host(host, plain);
    return strlen(plain) == length - TOKEN_KEPT - 1 && strncmp(mark, plain, strlen(plain)) == 0;
}

/* Returns whether no process of this host writes the file. A file without locks counts as in use. */
static bool is_abandoned(int folder, const char *name) {
    int descriptor = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool abandoned = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    if (descriptor >= 0) close(descriptor);
    return abandoned;
}

static void sweep(int folder, const char *host) {
    DIR *entries = fdopendir(folder);
    if (entries == NULL) {
        close(folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        if (is_marked(name, host)) {
            if (host == NULL || is_abandoned(folder, name)) (void)unlinkat(folder, name, 0);
        } else if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) {
            int below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (below >= 0) sweep(below, host);
        }
    }
    closedir(entries);
}

void file_sweep(const char *folder, const char *host) {
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) sweep(descriptor, host);
}
