/* Declares the stage as a whole, and the functions that each file of the harness has for the others. */
#ifndef ICESTREAM_COMMON_HARNESS_STAGE_PRIVATE_H
#define ICESTREAM_COMMON_HARNESS_STAGE_PRIVATE_H

#include <fts.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/budget.h"
#include "common/device.h"
#include "common/edges/ledger.h"
#include "common/files.h"
#include "common/harness/checks.h"
#include "common/harness/files_of_items.h"
#include "common/harness/metrics.h"
#include "common/harness/parts.h"
#include "common/harness/rules.h"
#include "common/harness/stage.h"
#include "common/harness/warnings.h"
#include "common/log.h"
#include "common/screen.h"

enum { LANES_MAX = 32, EDGES_MAX = 128, EDGE_NAME_SIZE = 192, TOKEN_SIZE = 33, ARRIVALS_MAX = 8 };
/* Items whose files are waited for (absent.c): no more are taken in while there are so many. */
enum { ABSENT_MAX = 256 };
/* Items in hand are those in lanes and those whose outcome the ledger has yet to write. One wait for the disk serves
 * all of the latter, so there may be as many as arrive while it lasts. */
enum { SETTLING_MAX = 256, SLOTS_MAX = LANES_MAX + SETTLING_MAX, EMISSIONS_MAX = 256 };
enum {
    IO_THREADS_MAX = 8,                   /* load threads; store threads */
    THREADS_MAX = 2 + 2 * IO_THREADS_MAX, /* all threads */
};

enum stage_mode { STAGE_ON_FILES, STAGE_IN_PROCESS, STAGE_IN_PIPELINE };
enum stage_stop { STOP_NOT, STOP_DRAIN, STOP_NOW };

/* The input by which an item came, and its number there. With two inputs that lead back to one stage it comes by
 * both. */
struct arrival {
    int edge;
    int64_t seq;
};

/* The phases of an item. In each phase, one kind of thread may touch it. */
enum slot_phase {
    SLOT_FREE,
    SLOT_LOAD,
    SLOT_LOADING,
    SLOT_PROCESS,
    SLOT_PROCESSING,
    SLOT_STORE,
    SLOT_STORING,
    SLOT_STORED,
    SLOT_SETTLING,
    SLOT_DONE
};

/* Files of an item that are not there yet. */
struct absence {
    double since, due; /* first seen, 0: they are there; next look */
    int looks;
};

/* An item in hand. Slots are used in a circle: ticket t has slots[t % slot_count]. */
struct slot {
    struct stage_lane *lane; /* from load to the end of store, else NULL: before and after, the lane serves other
                                items */
    struct item *item;
    char source[ITEM_SOURCE_SIZE], id[ITEM_ID_MAX + 1]; /* of the item, which itself belongs to the thread that works
                                                          on it */
    char mark[ITEM_MARK_SIZE];                          /* both, as they stand in `current` */
    enum slot_phase phase;
    uint32_t judged;                       /* bit i: rule i of reject_if has been applied */
    struct arrival arrivals[ARRIVALS_MAX]; /* all of them are acknowledged when the item is done */
    int arrival_count;
    double taken;       /* time of arrival, CLOCK_MONOTONIC */
    enum status status; /* the result so far */
    struct err err;
    uint64_t ticket;        /* its place in the order of arrival */
    bool admitted;          /* it may hold memory: from before load to the end of store */
    struct stage_need need; /* of an admitted item */
    bool settled;           /* the ledger holds the outcome, which is `state` */
    bool replaces;          /* an earlier revision of the item was done */
    bool set_aside;         /* it is not finished: its files are waited for, and it is loaded again later */
    struct absence absence;
    enum ledger_state state;
    struct slot_files files; /* what load and store have read and written */
};

struct stage_output {
    char edge[EDGE_NAME_SIZE];
    bool revisions; /* the receiver takes later revisions */
    int window;
    int64_t unacknowledged; /* guarded by the lock; includes what is still to be sent */
};

/* The parameters that every stage has. */
struct stage_common {
    int threads, lanes, replicas;
    char *device, *gpu, *reject_if, *from, *program, *on;
    double memory_limit; /* GB; NaN: not set */
};

/* Memory that items hold (admission.c). */
struct admission {
    pthread_cond_t changed; /* an item has been admitted or has given back its lane */
    struct budget budget;   /* at the last look */
    const char *limited_by; /* what the budget's limit comes from, for messages */
    size_t base;            /* resident memory of the process when it began */
    size_t base_address;    /* and its address space */
    size_t address_most;    /* the highest limit of the address space so far */
    size_t kept[LANES_MAX]; /* what the lanes' buffers take, also between items */
    size_t kept_shared;     /* the same of the plans */
    uint64_t turn;          /* the ticket that is admitted next */
    int admitted;           /* items */
    bool full_told, short_told;
    bool release_wanted; /* the compute thread is to call release */
};

/* The outcome of an item, for stages that run in process. */
struct stage_outcome {
    char *source, *id, *reason; /* reason may be NULL */
    enum ledger_state state;
};

struct stage_results {
    struct item **emitted;
    size_t emitted_count;
    struct stage_outcome *outcomes;
    size_t outcome_count;
};

struct stage {
    const struct stage_descriptor *descriptor;
    enum stage_mode mode;
    char name[64];
    int instance, run, replicas;
    char token[TOKEN_SIZE]; /* identifies this incarnation of the instance */
    char root[PATH_SIZE], folder[PATH_SIZE];
    struct ledger_lease *lease; /* of a cumulative stage with its ledger in PostgreSQL, else NULL */
    char lease_root[PATH_SIZE]; /* where its folder lies instead of in root; "": it has no lease */
    char **places;           /* in a pipeline: folders in which items may name files, links resolved; none: anywhere */
    uint64_t *place_devices; /* file system of each of these folders, as it was at the start; 0: it was away */
    int place_count;
    bool separate;               /* products lie below folder/SOURCE/ */
    bool shared;                 /* the session's files are those of several hosts */
    double file_wait;            /* s for which a file that an item names, and that is not there, is waited for */
    char real_folder[PATH_SIZE]; /* in a pipeline: folder, with links resolved */
    void *params;
    struct stage_common common;
    struct stage_session session;
    struct device device;
    int threads, flush_threads;
    double until_idle;
    struct rules rules;         /* of a source: guarded by the lock */
    struct stage_checks checks; /* of the parameters, as the stage started */
    atomic_uint rules_warned;
    atomic_int change; /* number of the last change of parameters that the stage works with; 0: none */
    struct log *log;
    bool verbose;              /* on files: the log shows everything */
    struct warnings *warnings; /* of this process */
    struct ledger *ledger;
    struct metrics metrics;
    char *current; /* memory-mapped, or NULL: the mark of the item in process; from PATH_SIZE on, the mark of the item
                      of a thread that crashed */
    void *state;
    bool ready;      /* init has succeeded */
    bool incomplete; /* stage_incomplete was called */

    atomic_int stopping;
    int wake; /* eventfd by which the other threads wake the main one, or -1 */

    /* The lock guards everything below. Each part has a condition of its own, so that a change wakes only a thread that
     * it concerns; the main thread waits for `changed`. */
    pthread_mutex_t lock;
    pthread_cond_t changed, wakes[PART_COUNT];
    struct admission admission;
    struct stage_lane lanes[LANES_MAX], *free_lanes[LANES_MAX];
    int lane_count, free_lane_count;
    /* Tickets number the items in the order of arrival; items are processed and settled in that order. The next ticket
     * to give out, and the next ones to load, process, store (by one thread), settle and let go. */
    struct slot slots[SLOTS_MAX];
    int slot_count, ahead; /* items that may wait for a lane */
    int deaths;            /* of the stage, in a row, with no item in work; see stage_deaths */
    int one_by_one;        /* so many items are still taken one by one, because one of them ends the process */
    bool room_told;        /* the main thread knows that there may be room again */
    uint64_t next_ticket, load_ticket, process_ticket, store_ticket, settle_ticket, done_ticket;
    struct item *emissions[EMISSIONS_MAX]; /* of a source: items that the ledger has not written yet, oldest first */
    int emission_count;
    struct settling *settling; /* belongs to the ledger thread */
    struct parts parts;
    uint64_t events, waited; /* counts what idle and produce want to know; `waited`: how far stage_wait has seen it */
    struct stage_output outputs[EDGES_MAX];
    int output_count;
    bool warnings_wanted; /* the ledger thread is to write the warnings */
    bool threads_end, flush_wanted, flushed, summary_wanted, summarising, summarised;
    uint64_t stored;   /* items since the last summary */
    double summary_at; /* earliest time of the next summary */
    /* A cumulative stage has counted an earlier revision of an item: it writes and sends nothing more, and begins again
     * once the ledger holds the later one. idling: idle is running. */
    bool stale, idling;
    bool revised, again;              /* the ledger holds a later revision; the process ends, to begin again */
    double revised_since, revised_at; /* of the first such item, and of the last one */
    char revised_id[ITEM_ID_MAX + 1];
    bool changing; /* live parameters wait until no item is in hand: none is taken in, and idle does not begin */
    bool resting;  /* flush waits in stage_rest until these are taken over */
    bool taking;   /* they are being taken over: flush must not go on meanwhile */
    bool reshape;  /* reconfigure follows before the next item */
    int troubles;  /* threads that wait for the machine */
    double trouble_since;
    struct err trouble; /* the first one */
    enum status fatal;
    struct err fatal_err;
    struct files_progress *files_progress; /* on files only; may be NULL */
    struct {
        char *text;                /* owned, or NULL */
        const char *const *files;  /* or NULL */
    } result;                      /* on files only */
    struct stage_results *results; /* in process only */
    struct slot_files own_files;   /* files that belong to no single item */

    pthread_t threads_of[THREADS_MAX];
    int threads_started;
};

/* Texts of --help that the manual has too. */
extern const char stage_verbose_help[], stage_profile_help[], stage_syntax_help[], stage_exit_codes[];
/* Returns what --i may be, for help texts. */
const char *stage_takes(const struct stage_descriptor *descriptor);
/* setup.c: makes a stage from a descriptor, up to the call of init, and destroys it. */
enum status stage_create(const struct stage_descriptor *descriptor, struct stage **ret_stage, struct err *err);
/* Stops the stage's threads, calls fini, and frees the stage; accepts NULL. */
void stage_destroy(struct stage **stage);
/* Sets one key from the command line or a test: looks in the stage's own parameters first, then in those of every
 * stage, then in the session's. */
enum status stage_set(struct stage *stage, const char *key, const char *text, const char *where, struct err *err);
/* Fills a new parameter struct, and the parameters of every stage, from the params of an instance file. Free them with
 * stage_params_free. */
enum status stage_params_read(const struct stage *stage, const json_t *object, void **ret_params,
                              struct stage_common *ret_common, struct err *err);
void stage_params_free(const struct stage *stage, void **params, struct stage_common *common);
/* Copies the session's parameters that the stage has no parameter of the same name for, and returns their number: --help
 * and the manual list each name once. */
enum { STAGE_SESSION_PARAMS = 6 };
size_t stage_session_params_beside(const struct stage_descriptor *descriptor,
                                   struct param ret_params[STAGE_SESSION_PARAMS]);
/* Returns the row of a key from the tables that stage_set looks in, in that order; NULL: there is none. */
const struct param *stage_param(const struct stage *stage, const char *key);
/* Checks folder, parameters, device, rules and number of lanes, and fills what follows from them. */
enum status stage_configure(struct stage *stage, const char *where, struct err *err);
/* Sets root and folder; makes them when they are missing. */
enum status stage_place(struct stage *stage, const char *folder, struct err *err);
/* Calls init and resume, and starts the threads. */
enum status stage_begin(struct stage *stage, struct err *err);

/* paths.c: from now on, items may name only files in the session or in one of the folders (JSON list of texts; or
 * NULL). */
enum status stage_confine(struct stage *stage, const json_t *folders, struct err *err);
/* Forgets the folders of stage_confine. */
void stage_places_clear(struct stage *stage);

/* lanes.c: where each item is. */
struct lane_plan {
    int lanes, load_threads, store_threads;
};
/* Returns how many lanes and threads a stage has; `lanes` is what the user wants (0: not set). */
struct lane_plan lanes_plan(const struct stage_descriptor *descriptor, const struct device *device, int lanes);
/* Makes the lanes and starts the threads. */
enum status lanes_start(struct stage *stage, struct err *err);
/* All of these need the lock. Returns the slot of a ticket when it is in that phase, else NULL. */
struct slot *lanes_at(struct stage *stage, uint64_t ticket, enum slot_phase phase);
/* Returns the earliest slot that waits for store, or NULL. */
struct slot *lanes_to_store(struct stage *stage);
/* Returns how many more items may be taken: there are lanes, or places to wait for one, and slots, and room in every
 * output. */
int lanes_room(const struct stage *stage);
/* Returns how many items are in hand. */
int lanes_in_hand(const struct stage *stage);
/* Returns source and id of the item in a slot. */
struct ledger_key slot_key(const struct slot *slot);
/* Takes an item in and consumes it; needs room. replaces: an earlier revision of it was done. Takes the lock itself. */
void lanes_take(struct stage *stage, struct item **item, int edge, int64_t seq, bool replaces);
/* Does the same with an item that was set aside, whose slot was like `before`. */
struct absent_item;
void lanes_take_again(struct stage *stage, struct absent_item *before);
/* Returns the earliest slot that waits to be loaded, with a lane for it; NULL when there is none. */
struct slot *lanes_to_load(struct stage *stage);
/* Frees the lane of an item after store: what is left to do needs no lane. */
void lanes_let_go(struct stage *stage, struct slot *slot);
/* Returns the earliest item that is done with, or NULL. */
struct slot *lanes_done(struct stage *stage);
/* Gives back the slot of an item that is done, and destroys the item. */
void lanes_free(struct stage *stage, struct slot *slot);
/* Returns whether no item is in hand. */
bool lanes_empty(const struct stage *stage);
/* Ends the threads and waits for them; the lanes stay. */
void lanes_stop(struct stage *stage);

/* absent.c: files that another host has written, and that are not to be seen here yet. Returns whether an item whose load
 * ended with `status` is to be loaded again later, because a file that it names is not there; when the time is over, says
 * so in slot->err. Called by the thread that loads, without the lock. */
bool absent_waits(struct stage *stage, struct slot *slot, enum status status);
struct absent_item {
    struct item *item;
    struct arrival arrivals[ARRIVALS_MAX];
    int arrival_count;
    bool replaces;
    double taken;
    struct absence absence;
};
struct absent {
    struct absent_item list[ABSENT_MAX + SLOTS_MAX];
    int count;
};
/* For the main thread. Takes the item out of a slot that is done with, and keeps it; takes the lock itself. */
void absent_keep(struct stage *stage, struct absent *absent, struct slot *slot);
/* Lets items be loaded again whose time has come; the stage has room for `room` items. */
void absent_look(struct stage *stage, struct absent *absent, int room, double now);
/* Destroys the items that are kept; their senders have them still. */
void absent_clear(struct absent *absent);

/* admission.c: lets items take memory. */
/* Call before threads are started: keeps their address space small where that is limited. */
void admission_prepare(const struct stage *stage);
/* Finds out how much the stage may use; the threads are there, and no item yet. */
void admission_begin(struct stage *stage);
/* Waits until the item may take the memory that it needs; nothing when `status`, the result so far, is not OK. Items
 * are admitted in the order of arrival. Fails for an item that needs more than the limit. Takes the lock itself. */
enum status admission_wait(struct stage *stage, struct slot *slot, enum status status);
/* Notes that an item is about to give back its lane; needs the lock. */
void admission_leave(struct stage *stage, struct slot *slot);
/* Calls release on the compute thread if it is wanted; returns whether it was. Needs the lock, and lets go of it for
 * the call. */
bool admission_release(struct stage *stage);

/* threads.c: the threads that run load; process (and reconfigure, idle, flush, produce); store; and the ledger's
 * commits. */
void *thread_load(void *stage);
void *thread_compute(void *stage);
void *thread_store(void *stage);
void *thread_ledger(void *stage);
/* Logs what the parts did with their time, and prints it as a table when `out` is not NULL. Does nothing when no item
 * came. */
void stage_report_parts(struct stage *stage, FILE *out);

/* settle.c: writes to the ledger what happened. A settling is the ledger thread's workspace for one commit. */
enum status settling_create(int output_count, struct settling **ret_settling, struct err *err);
/* Frees a settling; accepts NULL. */
void settling_destroy(struct settling **settling);
/* Writes the outcomes of items, in one transaction. */
enum status stage_settle(struct stage *stage, struct slot *const *slots, int count, struct err *err);
/* Writes what a source has emitted, oldest first, in one transaction. */
enum status stage_settle_emissions(struct stage *stage, struct item *const *items, int count, struct err *err);
/* Makes the item that a row of the ledger holds. */
enum status stage_item_of_row(const struct ledger_row *row, struct item **ret_item, struct err *err);
/* Waits, with the lock held, until everything emitted is in the ledger or never will be. */
void stage_drain_emissions(struct stage *stage);
/* Applies the rules of reject_if to what the item holds by now. */
enum status stage_judge(struct stage *stage, const struct item *item, uint32_t *judged, struct err *err);
/* Checks that the item has what the descriptor's `in` asks for. */
enum status stage_check_input(const struct stage *stage, const struct item *item, struct err *err);

/* trouble.c: returns whether the stage is ending, so that nobody waits any longer. */
bool stage_ending(const struct stage *stage);
/* Does the same as stage_wait_out for a caller that has other things to do until patience->until. */
bool stage_may_wait(struct stage *stage, enum status status, const struct err *err, struct stage_patience *patience);

/* revisions.c: returns whether an item is a later revision of what a source has emitted. */
enum status revision_is_later(struct stage *stage, const struct item *item, bool *ret_later, struct err *err);
/* Returns whether the state of the stage holds an earlier revision of the item in a slot. */
bool revision_counts_twice(const struct stage *stage, const struct slot *slot);
/* Makes the stage stale before `store` adds the item to the state, and waits, with the lock held, until idle has ended.
 * No result then holds the item in two revisions. */
void revision_begin(struct stage *stage);
/* Notes that the later revision was committed. */
void revision_end(struct stage *stage, const char *id);
/* Ends the process a moment after the last later revision was committed; the launcher starts it again, and it resumes.
 * ended: nothing more comes, so it ends at once. Returns whether a later revision was committed: the stage must not
 * finish its own work. For the main thread. */
bool revision_look(struct stage *stage, bool ended);

/* wake.c: the lock that the threads share, and how they wake each other. */
/* Takes the lock. */
void stage_lock(struct stage *stage);
/* Gives the lock back. */
void stage_unlock(struct stage *stage);
/* Wakes the main thread; needs the lock. */
void stage_changed(struct stage *stage);
/* As stage_changed, and counts as an event for stage_wait. */
void stage_event(struct stage *stage);
/* Wake one thread of a part, or all threads; need the lock. */
void stage_wake(struct stage *stage, enum part part);
void stage_wake_all(struct stage *stage);
/* Wait, with the lock held, until stage_changed (or stage_wake) is called or the time (CLOCK_MONOTONIC, s) is
 * reached. */
void stage_wait_until(struct stage *stage, double deadline);
void stage_sleep(struct stage *stage, enum part part, double deadline);
void stage_wait_on(struct stage *stage, pthread_cond_t *condition, double deadline);
/* stage_fatal ends the stage with an error; stage_stop drains it or stops it. Both take the lock themselves. */
void stage_fatal(struct stage *stage, enum status status, const struct err *err);
void stage_stop(struct stage *stage, enum stage_stop how);

/* crash.c: notes what a thread works on, so that the launcher knows it when a SIGSEGV, SIGABRT, SIGBUS, SIGILL or
 * SIGFPE of this thread ends the process. mark: of the item, borrowed until the next call; NULL: nothing. */
void crash_blame(char *current, const char *mark);
/* Installs a handler for each of these signals, unless a sanitizer has one. */
void crash_watch(void);

/* signals.c: handles SIGINT and SIGTERM on a thread of their own. */
struct signals;
/* Starts the thread that waits for the signals. */
enum status signals_start(struct stage *stage, struct signals **ret_signals, struct err *err);
/* Ends the thread and frees its memory; accepts NULL. */
void signals_stop(struct signals **signals);

/* on_files.c: makes items from a STAR file, an image or a folder. */
struct star_table;
struct item_list {
    struct item **items;
    size_t count, capacity;
    json_t *by_id; /* id → place in items */
};
enum status item_list_add(struct item_list *list, struct item *item, struct err *err); /* consumes the item */
/* Returns the item of an id, or NULL. */
struct item *item_list_find(const struct item_list *list, const char *id);
/* Returns the id of a path as a person or a STAR file writes it, and the path as an item holds it: relative to the root
 * when it lies below the root, else relative to the working directory as in RELION's projects, else absolute. Links
 * stay as they are. Looks for a path from a STAR file beside that file (folder `beside`) first. In on_files_path.c. */
enum status stage_files_id(const char *path, char id[PATH_SIZE], struct err *err);
enum status stage_files_path(const struct stage *stage, const char *path, const char *beside, char out[PATH_SIZE],
                             struct err *err);
/* Compares two entries of a folder by name, for fts_open. */
int stage_files_by_name(const FTSENT **a, const FTSENT **b);
/* Products are named after images without their endings, so the function refuses two images with one id. Where images
 * are micrographs, the picture beside a micrograph is its preview and gives way to it, whichever of the two came
 * first. */
enum status stage_files_namesake(const struct stage *stage, const struct item_list *list, const char *id,
                                 const char *path, bool *ret_preview, struct err *err);
/* on_files_refused.c: returns whether an item can have a name (UTF-8 without control characters), and sets a file aside
 * whose name does not fit: as a failed item of this kind, with the reason. The other files of its folder are done. */
bool stage_files_name_fits(const char *name);
enum status stage_files_refuse(const struct stage *stage, const char *kind, const char *name, struct err *err);
/* Adds the item of one image; its id is made from `name`. stage_files_list adds those of all images that a table (.csv)
 * names in its first column. */
enum status stage_files_image(const struct stage *stage, const char *path, const char *name, struct item_list *list,
                              struct err *err);
enum status stage_files_list(const struct stage *stage, const char *path, struct item_list *list, struct err *err);
/* on_files_movies.c: what differs for a stage that takes movies. stage_files_kind and stage_files_member return the kind
 * of its items and the member with their path. */
bool stage_files_are_movies(const struct stage *stage);
const char *stage_files_kind(const struct stage *stage);
const char *stage_files_member(const struct stage *stage);
/* Returns whether a file of a folder is taken: a movie, or one that cannot be read, which the stage will report. A file
 * of one image is a gain reference or a sum. */
bool stage_files_may_be_movie(const struct stage *stage, const char *path);
/* Sets the path of a movie, and shape and pixel size when the file states them; a file that cannot be read is left for
 * the stage to report. */
enum status stage_files_set_movie(const struct stage *stage, struct item *item, const char *path,
                                  double *ret_pixel_size, struct err *err);
/* Sets the members of a micrograph for the files that a row of a table names beside it (micrograph_files); of a movie,
 * its pre-exposure from the columns that the item has. */
enum status stage_files_set_named(const struct stage *stage, const struct star_table *table, size_t row,
                                  const char *folder, struct item *item, struct err *err);
/* on_files_structures.c: makes items from structures: files, folders, globs, lists of files (.txt, .lst), with commas
 * between them. */
enum status stage_files_structures(const struct stage *stage, const char *input, struct item_list *list,
                                   struct err *err);
enum status stage_files_items(const struct stage *stage, const char *input, struct item ***ret_items, size_t *ret_count,
                              struct err *err);
/* Destroys the items and frees the array. */
void stage_items_free(struct item **items, size_t count);
/* on_files_progress.c: shows how far a run on files is. Begins to show it, for so many items (0: not known). */
void files_progress_begin(struct stage *stage, size_t total);
/* Waits, with the lock held, until something changes, and shows the progress when it is time. */
void files_progress_wait(struct stage *stage);
/* Removes what is shown; needs no lock. */
void files_progress_end(struct stage *stage);
struct files_sums {
    double elapsed; /* s */
    size_t total, finished, failed;
    char doing[METRICS_DOING], note[METRICS_NOTE];
};
/* Prints one line without its newline: "45 of 100  12.3 per minute  0:04:28 left". */
void files_progress_print(const struct files_sums *sums, bool bar, FILE *out);
/* on_files_result.c: prints the result of a run on files, in which so many items were done. */
void stage_print_result(struct stage *stage, long long done);
/* Frees what stage_result has noted. */
void stage_result_clear(struct stage *stage);
/* run.c: passes items through lanes, flush and summary, as stages on files and in process do. Takes items over: each is
 * NULL in the list afterwards and is destroyed once done, so that the ledger can use its memory. */
enum status stage_run_items(struct stage *stage, struct item **items, size_t count, struct err *err);
/* in_process.c: as stage_run_in_process, with the outcome of each item, and a ledger that may be a file. */
enum status stage_run_results(const struct stage_descriptor *descriptor, const char *folder, const char *ledger_path,
                              const char *const *key_values, struct item *const *items, size_t item_count,
                              struct stage_results *ret_results, struct err *err);
/* Frees the items, outcomes and texts of the results. */
void stage_results_clear(struct stage_results *results);

/* The content of the instance file, which the launcher writes. */
struct stage_edge {
    char edge[EDGE_NAME_SIZE];
    char *data, *ack;                    /* endpoints */
    int data_descriptor, ack_descriptor; /* sockets that listen there, from the launcher; 0: none */
    bool revisions;
    int window;
    double resend; /* s; 0: not set */
};

enum { CURRENT_SIZE = 2 * PATH_SIZE, INSTANCE_SIZE_MAX = 4 << 20 };
/* Exit code of a stage for which the machine lacks something that may come back. */
enum { EXIT_UNAVAILABLE = 75 };
/* Exit code of a stage that begins again from its ledger; the launcher starts it at once. */
enum { EXIT_AGAIN = 76 };

struct instance {
    struct stage_edge inputs[EDGES_MAX], outputs[EDGES_MAX];
    int input_count, output_count;
    char *ledger, *log, *heartbeat, *current, *public_key, *secret_key;
    char *endpoints;                    /* the record of endpoints that have moved; NULL: they stay */
    int endpoints_number;               /* of the last change that the edges here have */
    int64_t log_size;                   /* bytes; 0: not set */
    char session_id[LEDGER_OWNER_SIZE]; /* "": not set */
};

/* lease.c: fails (UNAVAILABLE) where the stage has a lease and could not renew it. */
enum status stage_may_publish(const struct stage *stage, struct err *err);
/* instance.c: fills the stage's names, folders and parameters, and what else the pipeline needs. */
enum status instance_read(struct stage *stage, const char *path, struct instance *instance, struct err *err);
/* Does the same with the file's content, without touching the disk: does not make the stage's folder. */
enum status instance_parse(struct stage *stage, const json_t *root, struct instance *instance, struct err *err);
/* Opens the log, the ledger and the page for the current item's id; releases the claims of an earlier incarnation. */
enum status instance_open(struct stage *stage, const struct instance *instance, struct err *err);
/* Frees the texts of an instance. */
void instance_clear(struct instance *instance);

/* changes.c: notes in an item the change that it was made with. */
enum status change_note(const struct stage *stage, struct item *item, struct err *err);
/* Reads the instance file again if it is another one, and takes over what has changed when all of it is live and no item
 * is in hand; `running`: items still come, or flush runs. What is not live waits for the launcher, which starts the
 * stage again. An error ends the stage. For the main thread. */
struct change_watch;
enum status change_look(struct stage *stage, struct change_watch *watch, bool running, struct err *err);
/* Begins to watch an instance file that has been read, and ends it; accepts NULL. */
enum status change_watch_create(const char *instance_file, struct change_watch **ret_watch, struct err *err);
void change_watch_destroy(const struct stage *stage, struct change_watch **watch);

/* pipeline.c: runs the stage; returns the exit code. */
int stage_pipeline(struct stage *stage, const char *instance_file);

#endif
