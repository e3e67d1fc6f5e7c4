#include "stages/watcher/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/edges/item.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/structure.h"
#include "common/memory.h"
#include "common/text.h"
#include "stages/watcher/watcher_private.h"

enum { TAIL = 4096 };

static const double LOOK_LEAST = 0.1, LOOK_MOST = 1; /* s between looks at a growing file */

enum status watcher_create(const struct watcher_options *options, struct watcher **ret_watcher, struct err *err) {
    _cleanup_(watcher_destroy) struct watcher *watcher = calloc(1, sizeof *watcher);
    FAIL_IF(watcher == NULL, err, STATUS_NO_MEMORY, "no memory for a watcher");
    watcher->options = *options;
    watcher->last_change = -INFINITY;
    watcher->wake_at = INFINITY;
    TRY(pattern_create(options->pattern, &watcher->pattern, err));
    watcher->directory = realpath(options->directory, NULL);
    FAIL_IF(watcher->directory == NULL, err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "watcher.directory %s: %s",
            options->directory, strerror(errno));
    struct stat information;
    for (int i = 0; i < 2; i++)
        if (options->skip[i] != NULL && stat(options->skip[i], &information) == 0) {
            watcher->skip_device[i] = information.st_dev;
            watcher->skip_inode[i] = information.st_ino;
        }
    *ret_watcher = watcher;
    watcher = NULL;
    return STATUS_OK;
}

void watcher_destroy(struct watcher **watcher) {
    if (watcher == NULL || *watcher == NULL) return;
    pattern_destroy(&(*watcher)->pattern);
    known_destroy(&(*watcher)->known);
    queue_destroy(&(*watcher)->waiting);
    free((*watcher)->growing);
    free((*watcher)->directory);
    free(*watcher);
    *watcher = NULL;
}

/* Whether a is to be handed out before b. */
bool watcher_before(const struct watcher *watcher, long a, long b) {
    const struct known_file *x = &watcher->known.files[a], *y = &watcher->known.files[b];
    bool newest = watcher->options.order == WATCHER_NEWEST;
    if (x->time < y->time || x->time > y->time) return (x->time < y->time) != newest;
    return (strcmp(x->path, y->path) < 0) != newest;
}

static double look_interval(const struct watcher *watcher) {
    return fmin(fmax(watcher->options.settle / 4, LOOK_LEAST), LOOK_MOST);
}

static enum status keep_looking(struct watcher *watcher, long index, double check_at, struct err *err) {
    if (watcher->growing_count == watcher->growing_capacity) {
        size_t capacity = watcher->growing_capacity > 0 ? 2 * watcher->growing_capacity : 16;
        long *growing = realloc(watcher->growing, capacity * sizeof *growing);
        FAIL_IF(growing == NULL, err, STATUS_NO_MEMORY, "no memory for a list of %zu files", capacity);
        watcher->growing = growing;
        watcher->growing_capacity = capacity;
    }
    watcher->growing[watcher->growing_count++] = index;
    struct known_file *file = &watcher->known.files[index];
    file->check_at = check_at;
    watcher->wake_at = fmin(watcher->wake_at, check_at);
    file->state = file->was_reported ? KNOWN_REPORTED : KNOWN_GROWING;
    return STATUS_OK;
}

/* Incomplete files whose next look is due join what waits, so that one order rules all. */
static enum status wake_growing(struct watcher *watcher, double now, struct err *err) {
    if (now < watcher->wake_at) return STATUS_OK;
    size_t kept = 0;
    enum status status = STATUS_OK;
    watcher->wake_at = INFINITY;
    for (size_t i = 0; i < watcher->growing_count; i++) {
        long index = watcher->growing[i];
        struct known_file *file = &watcher->known.files[index];
        if (status == STATUS_OK && file->check_at <= now) {
            status = queue_push(watcher, index, err);
            if (status == STATUS_OK) {
                watcher->waiting_reported += file->state == KNOWN_REPORTED;
                continue;
            }
        }
        watcher->growing[kept++] = index;
        watcher->wake_at = fmin(watcher->wake_at, file->check_at);
    }
    watcher->growing_count = kept;
    return status;
}

/* Ids and paths are printable text in UTF-8, so that they can stand in JSON, in a STAR file and in a message. */
static bool name_is_text(const char *name) {
    bool valid = item_text_fits(name);
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0' && valid; c++)
        valid = *c >= 0x20 && *c != 0x7f;
    return valid;
}

/* RELION reads a value with a blank in quotes that end at the first of their kind: nothing can be put around this one. */
static bool can_be_quoted(const char *path) {
    return strchr(path, ' ') == NULL || strchr(path, '"') == NULL || strchr(path, '\'') == NULL;
}

static void make_id(struct watcher *watcher, const struct known_file *file) {
    if (path_without_ending(file->path, watcher->id, sizeof watcher->id, NULL) != STATUS_OK) watcher->id[0] = '\0';
}

/* Shown in place of a name that cannot be an id: what can be read of it, and a hash, since two such names may differ in
 * nothing else. */
static void make_shown_id(struct watcher *watcher, const char *name) {
    enum { MARK = 1 + 16 };
    bool text = name_is_text(watcher->id);
    for (unsigned char *c = (unsigned char *)watcher->id; *c != '\0'; c++)
        if (*c < 0x20 || *c == 0x7f || (!text && *c >= 0x80)) *c = '?';
    size_t end = text_fit(watcher->id, ITEM_ID_MAX - 1 - MARK);
    snprintf(watcher->id + end, sizeof watcher->id - end, "~%016llx", (unsigned long long)text_hash(name));
}

/* Room for the whole file may have been set aside before its pixels came: then it ends in zeros. */
static bool ends_in_zeros(const char *path, int64_t size) {
    /* Non-blocking: a named pipe may have taken the file's place. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    unsigned char tail[TAIL];
    ssize_t got = pread(descriptor, tail, sizeof tail, size > TAIL ? size - TAIL : 0);
    close(descriptor);
    bool zeros = got > 0;
    for (ssize_t i = 0; i < got && zeros; i++)
        zeros = tail[i] == 0;
    return zeros;
}

static enum watcher_verdict set_failed(struct watcher_find *find, const char *reason) {
    snprintf(find->reason, sizeof find->reason, "%s", reason);
    text_trim(find->reason);
    return find->verdict = WATCHER_FAILED;
}

/* Whether something taken before is the same file, or has the same id. */
static bool is_duplicate(const struct watcher *watcher, long index, struct watcher_find *find) {
    const struct known_file *file = &watcher->known.files[index];
    long other = known_find_id(&watcher->known, watcher->id);
    if (other != KNOWN_NONE && other != index) {
        snprintf(find->reason, sizeof find->reason, "%s has the same name but for its ending and was taken before",
                 watcher->known.files[other].path);
        return true;
    }
    other = known_find_inode(&watcher->known, file->device, file->inode);
    if (other == KNOWN_NONE || other == index) return false;
    char path[PATH_SIZE];
    struct stat information;
    const char *name = watcher->known.files[other].path;
    if (path_join(watcher->directory, name, path, sizeof path, NULL) != STATUS_OK || stat(path, &information) != 0 ||
        information.st_dev != file->device || information.st_ino != file->inode)
        return false; /* that one is gone, and its inode has been used again or has moved here */
    snprintf(find->reason, sizeof find->reason, "it is the same file as %s, which was taken before", name);
    return true;
}

/* Acquisition software writes a small picture of each micrograph beside it, often first. */
static bool is_thumbnail(const char *path) {
    const char *ending;
    char stem[PATH_SIZE], sibling[PATH_SIZE + 8];
    if (path_without_ending(path, stem, sizeof stem, NULL) != STATUS_OK) return false;
    for (size_t i = 0; (ending = image_ending(i, IMAGE_AS_MICROGRAPH)) != NULL; i++) {
        snprintf(sibling, sizeof sibling, "%s%s", stem, ending);
        if (file_exists(sibling)) return true;
    }
    return false;
}

enum look { LOOK_SAY, LOOK_AGAIN, LOOK_DROP };

/* What is on disk now. DROP: nothing there, or nothing for us. */
static enum look refresh(struct watcher *watcher, struct known_file *file, double now) {
    struct stat information;
    if (stat(watcher->path, &information) != 0) {
        file->state = KNOWN_GONE;
        return LOOK_DROP;
    }
    if (!S_ISREG(information.st_mode)) {
        file->state = KNOWN_DONE;
        return LOOK_DROP;
    }
    double time = (double)information.st_mtim.tv_sec + 1e-9 * (double)information.st_mtim.tv_nsec;
    bool changed = file->size != information.st_size || fabs(file->time - time) > 0;
    if (changed && file->asked) {
        file->changed_at = now;
        watcher->last_change = now;
    }
    file->time = time;
    file->size = information.st_size;
    file->device = information.st_dev;
    file->inode = information.st_ino;
    return LOOK_SAY;
}

/* The content: ready, failed, or to be looked at again. */
static enum look look_inside(struct watcher *watcher, struct known_file *file, double now, struct watcher_find *find) {
    struct err problem = {0};
    bool ends = false;
    enum structure_format format;
    find->structure = structure_is_name(file->path);
    enum status status = find->structure ? structure_probe(watcher->path, &format, &ends, &problem)
                                         : image_probe(watcher->path, &find->image, &problem);
    double unchanged = now - file->changed_at;
    if (status == STATUS_OK && find->structure) {
        if (!ends && unchanged < watcher->options.settle) return LOOK_AGAIN;
        find->verdict = WATCHER_READY;
        find->failed_before = file->was_reported;
        return LOOK_SAY;
    }
    if (status == STATUS_OK) {
        bool picture = image_is_photograph(find->image.format);
        bool grows = watcher->options.stacks_grow && find->image.nz > 1;
        if (unchanged < watcher->options.settle && (picture || grows || ends_in_zeros(watcher->path, file->size)))
            return LOOK_AGAIN;
        if (picture && is_thumbnail(watcher->path)) {
            snprintf(find->reason, sizeof find->reason, "it is a picture of the micrograph beside it");
            find->verdict = WATCHER_DUPLICATE;
            return LOOK_SAY;
        }
        find->verdict = WATCHER_READY;
        find->failed_before = file->was_reported;
        return LOOK_SAY;
    }
    bool hopeless = status == STATUS_BAD_FORMAT || status == STATUS_UNSUPPORTED;
    double limit = hopeless ? fmin(watcher->options.settle, watcher->options.stall) : watcher->options.stall;
    bool passing = status == STATUS_UNAVAILABLE || status == STATUS_NO_MEMORY; /* nothing is known of the file */
    if (file->was_reported || passing || unchanged < limit) return LOOK_AGAIN;
    char reason[sizeof problem.message + 64];
    snprintf(reason, sizeof reason, "%s (unchanged for %.0f s)", problem.message, unchanged);
    set_failed(find, reason);
    return LOOK_SAY;
}

static enum status look(struct watcher *watcher, long index, double now, struct watcher_find *find, enum look *ret_look,
                        struct err *err) {
    struct known_file *file = &watcher->known.files[index];
    *ret_look = LOOK_DROP;
    TRY(path_join(watcher->directory, file->path, watcher->path, sizeof watcher->path, err));
    *find = (struct watcher_find){.path = watcher->path, .relative = file->path, .id = watcher->id};
    make_id(watcher, file);
    if (refresh(watcher, file, now) == LOOK_DROP) return STATUS_OK;
    find->time = file->time;
    enum watcher_past past = WATCHER_UNSEEN;
    bool valid = name_is_text(file->path) && strlen(watcher->id) < ITEM_ID_MAX;
    if (!valid) make_shown_id(watcher, file->path);
    if (!file->asked && watcher->options.past != NULL)
        TRY(watcher->options.past(watcher->options.context, watcher->id, &past, err));
    file->asked = true;
    file->was_reported = file->was_reported || past == WATCHER_FAILED_THEN;
    if (past == WATCHER_SETTLED) {
        file->state = KNOWN_DONE;
        return known_take(&watcher->known, index, watcher->id, err);
    }
    *ret_look = LOOK_SAY;
    if (!valid || !can_be_quoted(watcher->path)) {
        file->state = KNOWN_DONE;
        set_failed(
            find, valid ? "its path holds a blank and both kinds of quotation mark, which RELION cannot read in a STAR "
                          "file: rename it"
                        : "its name holds a line break, a control character or bytes that are not UTF-8, or is too "
                          "long, and cannot be written into STAR files: rename it");
        return STATUS_OK;
    }
    if (is_duplicate(watcher, index, find)) {
        file->state = KNOWN_DONE;
        find->verdict = WATCHER_DUPLICATE;
        return STATUS_OK;
    }
    *ret_look = look_inside(watcher, file, now, find);
    if (*ret_look == LOOK_AGAIN) {
        bool slow = file->was_reported && now - file->changed_at > watcher->options.stall;
        return keep_looking(watcher, index, now + (slow ? watcher->options.poll : look_interval(watcher)), err);
    }
    if (find->verdict == WATCHER_FAILED) {
        file->was_reported = true;
        return keep_looking(watcher, index, now + watcher->options.poll, err);
    }
    file->state = KNOWN_DONE;
    return find->verdict == WATCHER_READY ? known_take(&watcher->known, index, watcher->id, err) : STATUS_OK;
}

enum status watcher_next(struct watcher *watcher, double now, struct watcher_find *ret_find, bool *ret_found,
                         struct err *err) {
    TRY(wake_growing(watcher, now, err));
    *ret_found = false;
    while (watcher->waiting.count > 0) {
        long index = queue_pop(watcher);
        watcher->waiting_reported -= watcher->known.files[index].state == KNOWN_REPORTED;
        enum look outcome;
        struct watcher_find find;
        TRY(look(watcher, index, now, &find, &outcome, err));
        if (outcome != LOOK_SAY) continue;
        if (find.verdict == WATCHER_READY) watcher->last_change = now;
        *ret_find = find;
        *ret_found = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

size_t watcher_pending(const struct watcher *watcher) {
    size_t pending = watcher->waiting.count - watcher->waiting_reported;
    for (size_t i = 0; i < watcher->growing_count; i++)
        pending += watcher->known.files[watcher->growing[i]].state == KNOWN_GROWING;
    return pending;
}

double watcher_last_change(const struct watcher *watcher) {
    return watcher->last_change;
}
