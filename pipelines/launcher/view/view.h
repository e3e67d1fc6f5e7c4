/* The one reading interface of a session: `status`, `serve`, `report`, the metrics and the alarms see a session through
 * it alone. It opens everything read-only, works on running, ended and copied sessions, and keeps in memory what it has
 * read, so that looking again costs only what has changed.
 *
 * A row is an exposure: an item of a source. Its state is its worst outcome in any stage (failed, then rejected, then
 * in flight, then done), its stage and reason those of that outcome; if several stages have it, those of the furthest.
 * An item on its way between two stages is in flight at the second one. Selections, maps and other items that begin at
 * a cumulative stage are no rows.
 *
 * One thread uses a view. Everything that it returns is borrowed, and valid until the next view_poll or view_close,
 * unless a comment says otherwise. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_H
#define ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipelines/launcher/session.h"
#include "pipelines/launcher/tally.h"

struct view;

/* Changes that a poll has found; a mask. */
enum view_change {
    VIEW_COUNTS = 1,  /* the tally */
    VIEW_ROWS = 2,    /* rows, or what a stage knows of a row */
    VIEW_BEATS = 4,   /* a heartbeat */
    VIEW_HISTORY = 8, /* a history.jsonl: see view_history_count */
    VIEW_STATE = 16,  /* the state, the run, the plan or the graph */
    VIEW_CHANGES = 32 /* SESSION/changes */
};

/* Opens a session, and reads its plan, its counts and no rows yet: the first view_poll reads them. NOT_FOUND: the
 * folder is no session. */
enum status view_open(const char *folder, struct view **ret_view, struct err *err);
/* Makes the view wait no longer than this (s) for a ledger that others hold; else counts and warnings wait as long as
 * stages do (20 s). For a program that has more to do than to look. */
void view_hurry(struct view *view, double patience);
/* Closes the view and frees it; accepts NULL. */
void view_close(struct view **view);
/* Reads what has changed. now: s since 1970. *ret_changed: a mask of enum view_change. May be called as often as one
 * likes: a ledger in which nothing was committed costs some microseconds, and one that is costly to read is read less
 * often, but at least twice a second. After a failure (UNAVAILABLE: a ledger is held by others or gone) the view shows
 * what it had read before, and the next poll tries again. */
enum status view_poll(struct view *view, double now, unsigned *ret_changed, struct err *err);

/* Reads at once what lies beside the ledgers: plan, heartbeats, histories, graph, state. For a program that looks once and
 * needs no rows; view_poll does this by itself. */
enum status view_look_around(struct view *view, struct err *err);

/* ---- the session as a whole ---- */
const struct session *view_session(const struct view *view);
/* log/plan.json, as session_read_plan returns it. */
const json_t *view_plan(const struct view *view);
/* graph.yaml as an object: {"session": {…}, "stages": {"watcher": {…}, …}, "icestream": {…}}, with the changes of
 * `icestream set` that hold put upon it; an empty object where it cannot be read. */
const json_t *view_graph(struct view *view);
/* running: a launcher runs it; draining: it takes in nothing new; finished: no launcher runs, and each item is finished;
 * stopped: no launcher runs, and items are left. */
enum view_state { VIEW_RUNNING, VIEW_DRAINING, VIEW_STOPPED, VIEW_FINISHED };
enum view_state view_state(const struct view *view);
/* Returns whether a launcher runs the session, draining or not. */
bool view_is_running(const struct view *view);
/* Returns "running", "draining", "stopped" or "finished". */
const char *view_state_name(enum view_state state);
/* Returns whether no launcher runs the session and the last one has not ended by itself: it was killed, or its machine
 * stopped. So it is with a copy of a session that ran. */
bool view_launcher_gone(const struct view *view);
int view_run(const struct view *view);          /* from 1 */
double view_started(const struct view *view);   /* when the first exposure was found, s since 1970; NaN: none */
double view_last_time(const struct view *view); /* when an item last changed in any ledger; NaN: none */
/* The epoch changes when row numbers or columns of an earlier time mean nothing any more; below 2^53. The revision
 * counts up with each poll that has changed a row; 0: no row yet. */
uint64_t view_epoch(const struct view *view);
uint64_t view_revision(const struct view *view);

/* ---- counts ---- */
/* The very numbers of `icestream status`, as of the last poll (depth TALLY_COUNTS; its lists of items may be empty). */
const struct tally *view_tally(const struct view *view);
/* Returns whether the ledgers add up (tally_reconciles); `reason` may be NULL. Looked at less often than the counts. */
bool view_adds_up(const struct view *view, const char **ret_reason);
/* Takes exact counts now, at any depth, whatever the last poll knew; the caller calls tally_clear. */
enum status view_tally_now(struct view *view, enum tally_depth depth, struct tally *ret_tally, struct err *err);

/* ---- stages, in the order of the plan ---- */
size_t view_stage_count(const struct view *view);
const char *view_stage_name(const struct view *view, size_t stage);
/* Returns the stage of that name; −1: there is none. */
int view_stage_find(const struct view *view, const char *name);

/* ---- exposures ---- */
/* Pictures and data that an item names of its exposure; a mask. A file that is named may have been removed since. */
enum view_shows {
    VIEW_THUMB = 1,       /* display.thumb */
    VIEW_SPECTRUM = 2,    /* display.spectrum */
    VIEW_CTF = 4,         /* display.ctf */
    VIEW_MOTION = 8,      /* display.motion */
    VIEW_PICKS = 16,      /* picks.star */
    VIEW_MICROGRAPH = 32, /* micrograph.path */
};
struct view_row {
    int64_t number;                  /* its own for ever: the same in each view of this session */
    const char *source, *id, *name;  /* name: as `status` names it */
    int state;                       /* enum ledger_state */
    int stage;                       /* index: where it is in flight, was rejected or failed, or was done last */
    int reached;                     /* the furthest stage that has it */
    const char *reason;              /* "": none */
    int attempts;                    /* at `stage` */
    double time_found, time_changed; /* s since 1970: in the first ledger that has it; the last change in any */
    int64_t item_revision;
    unsigned shows;   /* enum view_shows, of the item that gave the columns */
    int square;       /* index for view_square; −1: the path names none */
    const char *hole; /* "": the path names none */
};
/* One stage's record of an exposure. */
struct view_visit {
    bool known; /* it is in the stage's ledger */
    int state, attempts;
    double time_seen, time_changed;
    const char *reason; /* "": none */
};
/* Rows stand in the order in which they were first seen. */
size_t view_row_count(const struct view *view);
const struct view_row *view_row(const struct view *view, size_t row);
/* Finds a row by its number, or by source and id; −1: there is none. source "": any. */
int64_t view_find(const struct view *view, int64_t number);
int64_t view_find_item(const struct view *view, const char *source, const char *id);
/* Returns the first row at or after `from` that changed after that revision, or −1. To list a delta, call it with
 * from = 0, then with the row that it returned + 1. */
int64_t view_rows_since(const struct view *view, uint64_t revision, size_t from);
/* One stage's record of one row. */
struct view_visit view_visit(const struct view *view, size_t row, size_t stage);
/* Numbers of the rows, column by column: each number of the item's `columns` under its name (rlnDefocusU in Å, …),
 * picks.count and particles.count; movie.stage_x and movie.stage_y, where the stage was (µm). New ones may come with a poll, at the end. NaN: the row has none. */
size_t view_column_count(const struct view *view);
const char *view_column_name(const struct view *view, size_t column);
/* Returns the column of that name; −1: there is none. */
int view_column_find(const struct view *view, const char *name);
double view_value(const struct view *view, size_t row, size_t column);
/* Reads a row's item as the furthest stage keeps it, and what each stage did: {"item": {…}, "stages": [{"stage", "state",
 * "reason", "attempts", "seen", "changed", "seconds", "products": ["STAGE/NAME.mrc", …]}]}; stages that do not have it
 * are left out. The caller owns the result. */
enum status view_item(struct view *view, size_t row, json_t **ret_json, struct err *err);

/* ---- grid squares, by the names that EPU and SerialEM give (view_path.h) ---- */
size_t view_square_count(const struct view *view);
const char *view_square(const struct view *view, size_t square);

/* ---- instances, histories, warnings, changes ---- */
/* The last heartbeat of an instance; NULL: none. */
const json_t *view_heartbeat(const struct view *view, const char *instance);
/* Returns how long (s) a process that should be working has been silent; 0: it has not begun, has ended, or answers. */
double view_silence(const struct view *view, const char *instance, double now);
/* STAGE/history.jsonl of a cumulative stage as an array of its lines; an empty array: none. A last line that is being
 * written comes later; a broken one is left out. */
const json_t *view_history(struct view *view, const char *stage);
/* Items that wait for a stage's answer: sent, and not acknowledged; and for how long the oldest waits (s). */
int64_t view_queue(const struct view *view, size_t stage);
double view_oldest(const struct view *view, size_t stage, double now);
/* As warnings_read and status_changes_json return them; the caller owns the result. */
enum status view_warnings(struct view *view, json_t **ret_warnings, struct err *err);
enum status view_changes(struct view *view, json_t **ret_changes, struct err *err);

#endif
