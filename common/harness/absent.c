/* Waits for files that another host has written. On a shared file system a new file may be seen late: a client remembers
 * for a while what was not there. An item that names such a file is set aside and loaded again, first soon, then every few
 * seconds. Other items pass it meanwhile. When the time is over, the item fails with the usual message. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/edges/item_files.h"
#include "common/harness/stage_private.h"

static const double first_pause = 0.25, last_pause = 5; /* s between looks */

struct look {
    const struct stage *stage;
    bool missing;
};

/* Asks the server for what a folder holds now. What this host remembers of names in it counts no longer if the folder
 * has changed. */
static void refresh_folder(const char *path) {
    char folder[PATH_SIZE];
    struct statx info;
    if (path_folder(path, folder, sizeof folder, NULL) == STATUS_OK)
        (void)statx(AT_FDCWD, folder, AT_STATX_FORCE_SYNC, STATX_MTIME | STATX_CTIME, &info);
}

static enum status look_for(const char *path, void *context, struct err *err) {
    struct look *look = context;
    char absolute[PATH_SIZE];
    struct stat info;
    (void)err;
    if (path_join(look->stage->root, path, absolute, sizeof absolute, NULL) != STATUS_OK) return STATUS_OK;
    if (stat(absolute, &info) == 0 || (errno != ENOENT && errno != ESTALE)) return STATUS_OK;
    refresh_folder(absolute);
    look->missing = true;
    return STATUS_OK;
}

bool absent_waits(struct stage *stage, struct slot *slot, enum status status) {
    struct look look = {.stage = stage};
    struct absence *absence = &slot->absence;
    double now = clock_monotonic();
    if (!stage->shared || status != STATUS_NOT_FOUND) return false;
    if (item_each_path(slot->item, look_for, &look, NULL) != STATUS_OK || !look.missing) return false;
    if (absence->since == 0) {
        absence->since = now;
        log_write(stage->log, LOG_INFO, "absent",
                  "%s: %s; another host may have written it just now: looks again for %g s", slot->id,
                  slot->err.message, stage->file_wait);
    }
    if (now >= absence->since + stage->file_wait) {
        size_t used = strlen(slot->err.message);
        snprintf(
            slot->err.message + used, sizeof slot->err.message - used,
            " (waited %.0f s for it: is the session's folder the same file system on all hosts? put the file back, "
            "then `icestream retry`)",
            now - absence->since);
        return false;
    }
    double pause = fmin(ldexp(first_pause, absence->looks < 10 ? absence->looks : 10), last_pause);
    absence->looks++;
    absence->due = fmin(now + pause, absence->since + stage->file_wait);
    return true;
}

void absent_keep(struct stage *stage, struct absent *absent, struct slot *slot) {
    /* There is room: nothing is taken in while ABSENT_MAX items are kept, and no more than SLOTS_MAX are in hand. */
    struct absent_item *kept = &absent->list[absent->count];
    stage_lock(stage);
    *kept = (struct absent_item){.item = slot->item,
                                 .arrival_count = slot->arrival_count,
                                 .replaces = slot->replaces,
                                 .taken = slot->taken,
                                 .absence = slot->absence};
    memcpy(kept->arrivals, slot->arrivals, sizeof kept->arrivals);
    slot->item = NULL;
    absent->count++;
    stage_unlock(stage);
}

void absent_look(struct stage *stage, struct absent *absent, int room, double now) {
    for (int i = 0; i < absent->count && room > 0;) {
        if (now < absent->list[i].absence.due) {
            i++;
            continue;
        }
        lanes_take_again(stage, &absent->list[i]);
        room--;
        memmove(&absent->list[i], &absent->list[i + 1], (size_t)(absent->count - i - 1) * sizeof *absent->list);
        absent->count--;
    }
}

void absent_clear(struct absent *absent) {
    for (int i = 0; i < absent->count; i++)
        item_destroy(&absent->list[i].item);
    absent->count = 0;
}
