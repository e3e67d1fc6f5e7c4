/* Declares for the files of the view: what it holds in memory. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_VIEW_VIEW_PRIVATE_H

#include "common/edges/ledger_watch.h"
#include "pipelines/launcher/view/view.h"

/* Texts kept once, found by their content: stages, sources, reasons, squares. A text's address is its identity. */
struct view_texts {
    char **slots; /* open addressing; a power of two */
    size_t room, count;
};
/* Returns the one copy of a text, or NULL without memory. */
const char *view_text(struct view_texts *texts, const char *text);
void view_texts_clear(struct view_texts *texts);
uint64_t view_hash(const char *text);

/* One stage's record of one entry. */
struct visit {
    int64_t number; /* of the row in the stage's ledger; 0: the stage does not have it */
    int64_t revision;
    const char *reason; /* one of view_texts; never NULL */
    double time_seen, time_changed;
    int32_t attempts;
    uint32_t mark; /* the poll that saw it: what counts once is counted once, what a whole reading misses is gone */
    int8_t state;
};

/* An item of any kind in any ledger. */
struct entry {
    const char *source; /* one of view_texts */
    char *id;           /* owned by the view */
    int64_t row;        /* −1: no exposure */
};

struct column {
    char *name;
    double *values; /* as many as there is room for rows */
};

/* An item that was sent again while its receiver still had the row of an earlier time: looked at until the receiver has
 * answered. */
struct awaited {
    size_t entry, sender;
    int64_t seq;
    bool answered;
};

struct stage_view {
    const char *name;
    bool source, keeps, passes_on, left_out;
    size_t *to, to_count; /* stages that it feeds */
    struct ledger_watch *watch;
    bool loaded, forced;      /* forced: its open entries are looked at even if nothing was committed */
    bool suspect, uncompared; /* its counts are not those in memory; it has changed since it was compared */
    int64_t version, last_number, last_seq, inode;
    int64_t counts[LEDGER_FAILED + 1];   /* of the visits */
    int64_t waiting, unseen;             /* parcels to this stage that are not acknowledged; those it does not have */
    double oldest;                       /* when the oldest of them was sent; NaN: none */
    struct visit *visits;                /* by entry; as many as there is room for entries */
    size_t *open, open_count, open_room; /* entries that were in flight when last looked at */
    struct awaited *awaited;
    size_t awaited_count, awaited_room;
    json_t *history; /* array, or NULL */
    int64_t history_stamp;
};

struct beat {
    char *instance;
    json_t *json; /* NULL: none */
    int64_t stamp;
};

struct view {
    struct session session;
    json_t *plan, *graph;
    int64_t plan_stamp, changes_stamp, log_stamp, server_stamp; /* of the files, when they were read last */
    enum view_state state;
    bool running, draining, several;
    bool unended; /* the launcher's log has no end of the newest run */
    double last_time;
    uint64_t epoch, revision;
    uint32_t poll; /* counts up */
    struct stage_view *stages;
    size_t stage_count;
    struct view_texts texts;

    struct entry *entries;
    size_t entry_count, entry_room;
    uint32_t *slots; /* by the hash of the id: entry + 1; a power of two */
    size_t slot_count;
    struct view_row *rows;
    int *item_stage;   /* by row: the stage whose item gave the columns; −1: none */
    size_t *row_entry; /* by row */
    uint64_t
        *row_changed; /* by row: the revision that last changed it; by itself, since each delta looks through all */
    size_t row_count, row_room;
    struct column *columns;
    size_t column_count;
    const char **squares;
    size_t square_count;
    bool rows_changed, counts_changed;

    struct tally tally;
    bool sound, stale; /* the last exact tally was; something was committed after it */
    double now;        /* of the last poll */
    char miscount[256];
    struct beat *beats;
    size_t beat_count;
    /* Times of the next looks, on the monotonic clock (s). */
    double due, files_due, exact_due, check_due, suspect_due, compare_due, reread_due;
    size_t turn;    /* the stage that is compared next */
    int unsound;    /* exact tallies in a row that did not add up */
    bool reread;    /* a whole reading is due */
    bool unchecked; /* a ledger has changed since the counts were compared */
};

/* view_table.c: entries, rows and columns. */
enum status view_entry(struct view *view, const char *source, const char *id, size_t *ret_entry, struct err *err);
int64_t view_entry_find(const struct view *view, const char *source, const char *id);
/* Takes what a ledger says about an entry; counts, and updates the row. */
enum status view_take(struct view *view, size_t stage, int64_t number, const struct ledger_row *row, struct err *err);
/* Notes an entry that a stage looks at again in the next poll. */
enum status view_open_add(struct view *view, size_t stage, size_t entry, struct err *err);
void view_table_clear(struct view *view);
/* view_row.c: computes the row of an entry from its visits. */
enum status view_settle(struct view *view, size_t entry, struct err *err);
/* view_read.c: reads what has changed in the ledgers. *ret_changed: something was committed. *ret_gone: an exposure was
 * taken out of the ledger of its source, so the table has to be made anew. */
enum status view_read(struct view *view, bool *ret_changed, bool *ret_gone, struct err *err);
/* view_check.c: finds what view_read has missed, and reads it; *ret_gone as in view_read. */
enum status view_check(struct view *view, bool *ret_gone, struct err *err);
/* view_counts.c: counts anew; any: something was committed. Sets view->counts_changed when a number is another. */
enum status view_count(struct view *view, bool any, struct err *err);
/* view.c: takes over a plan, and begins anew when its stages are others. Steals the reference. BAD_FORMAT: the plan lacks
 * names; the view keeps the one before. */
enum status view_take_plan(struct view *view, json_t *plan, struct err *err);
/* view.c: begins the table anew. */
enum status view_begin(struct view *view, struct err *err);
/* view_files.c: finds whether the session runs, is finished or stopped. */
void view_judge_state(struct view *view);
/* view_files.c: looks at all files of the session but the ledgers. */
enum status view_files_poll(struct view *view, unsigned *changed, struct err *err);
void view_files_clear(struct view *view);
/* view.c: the monotonic clock, and the processor time of this thread (s). */
double view_clock(void);
double view_cpu(void);

#endif
