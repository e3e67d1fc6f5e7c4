/* Replay: the files of a recorded session appear in SESSION/replay/ as they once did, at another pace if wanted, and
 * with injected faults. The files' names and times decide everything beforehand, so that two replays are alike. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_REPLAY_H
#define ICESTREAM_PIPELINES_LAUNCHER_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "pipelines/launcher/run/supervisor.h"

struct replay_file {
    char *path;   /* relative to the recorded folder */
    double time;  /* time of its last change; s since 1970 */
    double due;   /* time at which it appears; s from the start */
    bool corrupt; /* only its first half appears */
    bool again;   /* it has appeared before, and appears once more */
};

struct replay_kill {
    char stage[80];
    int64_t after; /* number of items done before the kill */
    bool happened;
};

struct replay {
    char *source, *target;
    struct replay_file *files; /* in the order in which they appear */
    size_t count, next;
    size_t expected; /* files, each counted once */
    double start;    /* CLOCK_MONOTONIC */
    double longest_gap;
    struct replay_kill *kills;
    size_t kill_count;
    bool drained;
};

/* Collects the files below `source`. speed: infinity for all at once. faults: as on the command line. */
enum status replay_create(const char *source, double speed, const char *const *faults, size_t fault_count,
                          struct replay *ret_replay, struct err *err);
/* Frees what the replay holds. */
void replay_clear(struct replay *replay);
/* Sets where the files go. Files that are there already, from an earlier replay that was stopped, count as done. */
enum status replay_begin(struct replay *replay, const char *target, struct err *err);
/* Puts all files in place that are due. */
enum status replay_advance(struct replay *replay, struct err *err);
/* Returns whether all files have appeared. */
bool replay_all_in(const struct replay *replay);

#endif
