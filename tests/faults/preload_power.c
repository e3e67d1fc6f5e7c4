/* Records what a power cut would leave of the folder ICESTREAM_POWER_DISK. A file keeps the content of its last sync, a
 * folder the entries of its last sync. The records are below ICESTREAM_POWER_SHADOW: files/ID holds contents,
 * folders/ID holds lines of "type ID name". ID is inode and time of birth, so a reused inode is another file. The disk
 * itself is never synced. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { ID_SIZE = 64 };

static bool identify(int folder, const char *name, int flags, char id[ID_SIZE], mode_t *ret_mode) {
    struct statx info;
    if (statx(folder, name, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &info) != 0) return false;
    snprintf(id, ID_SIZE, "%llu-%lld.%09u", (unsigned long long)info.stx_ino, (long long)info.stx_btime.tv_sec,
             info.stx_btime.tv_nsec);
    *ret_mode = info.stx_mode;
    return true;
}

static bool copy_content(int from, int to) {
    static __thread char bytes[1 << 16];
    /* The file may have been opened for writing only. */
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", from);
    int input = open(link, O_RDONLY | O_CLOEXEC);
    bool well = input >= 0;
    for (ssize_t got = 1; well && got > 0;) {
        got = read(input, bytes, sizeof bytes);
        well = got >= 0 && write(to, bytes, (size_t)got) == got;
    }
    if (input >= 0) close(input);
    return well;
}

static bool copy_entries(int from, int to) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", from);
    DIR *folder = opendir(link);
    bool well = folder != NULL;
    for (struct dirent *entry; well && (entry = readdir(folder)) != NULL;) {
        char id[ID_SIZE];
        mode_t mode;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (!identify(from, entry->d_name, 0, id, &mode)) continue; /* the file has just been removed */
        well = dprintf(to, "%c %s %s\n", S_ISDIR(mode) ? 'd' : 'f', id, entry->d_name) > 0;
    }
    if (folder != NULL) closedir(folder);
    return well;
}

/* The newest content wins. Processes that sync the same file take turns. */
static int keep(int descriptor, const char *kind, const char *id, bool (*copy)(int from, int to)) {
    char lock[PATH_MAX], partial[PATH_MAX + 8];
    snprintf(lock, sizeof lock, "%s/%s/%s", getenv("ICESTREAM_POWER_SHADOW"), "locks", id);
    int held = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (held < 0 || flock(held, LOCK_EX) != 0) abort();
    snprintf(lock, sizeof lock, "%s/%s/%s", getenv("ICESTREAM_POWER_SHADOW"), kind, id);
    snprintf(partial, sizeof partial, "%s.new", lock);
    int output = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (output < 0 || !copy(descriptor, output) || rename(partial, lock) != 0) abort();
    close(output);
    close(held);
    return 0;
}

static int synced(int descriptor) {
    const char *disk = getenv("ICESTREAM_POWER_DISK");
    char link[64], path[PATH_MAX], id[ID_SIZE];
    mode_t mode;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || disk == NULL) return length < 0 ? -1 : 0;
    path[length] = '\0';
    size_t below = strlen(disk);
    if (strncmp(path, disk, below) != 0 || (path[below] != '/' && path[below] != '\0')) return 0;
    if (!identify(descriptor, "", AT_EMPTY_PATH, id, &mode)) return -1;
    if (S_ISDIR(mode)) return keep(descriptor, "folders", path[below] == '\0' ? "root" : id, copy_entries);
    return keep(descriptor, "files", id, copy_content);
}

int fsync(int descriptor) {
    return synced(descriptor);
}

int fdatasync(int descriptor) {
    return synced(descriptor);
}
