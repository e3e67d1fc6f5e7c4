/* What the parts of the harness share. */
#ifndef ICESTREAM_COMMON_HARNESS_STAGE_PRIVATE_H
#define ICESTREAM_COMMON_HARNESS_STAGE_PRIVATE_H

#include <fts.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/device.h"
#include "common/edges/ledger.h"
#include "common/files.h"
#include "common/harness/metrics.h"
#include "common/harness/parts.h"
#include "common/harness/rules.h"
#include "common/harness/stage.h"
#include "common/log.h"

enum { LANES_MAX = 32, EDGES_MAX = 128, EDGE_NAME_SIZE = 192, TOKEN_SIZE = 33, ARRIVALS_MAX = 8 };
/* Items in hand: those in lanes, and those that wait for the ledger to write down what came of them. One wait for the
 * disk serves all of these, so there may be as many as arrive while it lasts. */
enum { SETTLING_MAX = 256, SLOTS_MAX = LANES_MAX + SETTLING_MAX, EMISSIONS_MAX = 256 };
enum { IO_THREADS_MAX = 8, THREADS_MAX = 2 + 2 * IO_THREADS_MAX }; /* of load, and of store; all */

enum stage_mode { STAGE_ON_FILES, STAGE_IN_PROCESS, STAGE_IN_PIPELINE };
enum stage_stop { STOP_NOT, STOP_DRAIN, STOP_NOW };

/* By which input an item came, and its number there. With two inputs that go back to one stage it comes by both. */
struct arrival {
    int edge;
    int64_t seq;
};

/* Where an item is on its way. Each phase has one kind of thread that may touch it. */
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

/* An item in hand. Slots are used in a circle: that of a ticket is slots[ticket % slot_count]. */
struct slot {
    struct stage_lane *lane; /* from load to the end of store; NULL before and after, when it serves other items */
    struct item *item;
    char id[ITEM_ID_MAX + 1]; /* the item's: the item itself belongs to whoever works on it */
    enum slot_phase phase;
    uint32_t judged;                       /* the rules of reject_if that have been looked at */
    struct arrival arrivals[ARRIVALS_MAX]; /* all of them are acknowledged when the item is done */
    int arrival_count;
    double taken;       /* when */
    enum status status; /* so far */
    struct err err;
    bool settled; /* the ledger has the outcome, which is: */
    enum ledger_state state;
};

struct stage_output {
    char edge[EDGE_NAME_SIZE];
    int window;
    int64_t unacknowledged; /* under the lock: also what is still to be sent */
};

/* Parameters that every stage takes. */
struct stage_common {
    int threads, lanes, replicas;
    char *device, *gpu, *reject_if, *from, *program;
};

/* What came of an item, for stages that run in process. */
struct stage_outcome {
    char *id, *reason; /* reason may be NULL */
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
    char token[TOKEN_SIZE]; /* of this incarnation */
    char root[PATH_SIZE], folder[PATH_SIZE];
    char **places; /* in a pipeline: what items may name files in, without links; none: anything */
    int place_count;
    char real_folder[PATH_SIZE]; /* in a pipeline: folder, without links */
    void *params;
    struct stage_common common;
    struct stage_session session;
    struct device device;
    int threads, flush_threads;
    double until_idle;
    struct rules rules;
    atomic_uint rules_warned;
    struct log *log;
    struct ledger *ledger;
    struct metrics metrics;
    char *current; /* memory-mapped, or NULL: the item in process; PATH_SIZE on, that of a thread that crashed */
    void *state;
    bool ready; /* init has succeeded */

    atomic_int stopping;
    int wake; /* eventfd by which the other threads wake the main one, or -1 */

    /* The lock guards everything below. The threads of each part wait for calls of their own, so that a change wakes
     * one that it concerns; the main thread waits for `changed`. */
    pthread_mutex_t lock;
    pthread_cond_t changed, calls[PART_COUNT];
    struct stage_lane lanes[LANES_MAX], *free_lanes[LANES_MAX];
    int lane_count, free_lane_count;
    /* Tickets number the items in the order of arrival, in which they are processed and settled: the next one to be
     * given, and the next to be loaded, processed, stored (by one thread), settled and let go. */
    struct slot slots[SLOTS_MAX];
    int slot_count, ahead; /* items that may wait for a lane */
    bool room_told;        /* the main thread knows that there may be room again */
    uint64_t next_ticket, load_ticket, process_ticket, store_ticket, settle_ticket, done_ticket;
    struct item *emissions[EMISSIONS_MAX]; /* of a source: what the ledger has not taken yet, oldest first */
    int emission_count;
    struct settling *settling; /* the ledger thread's */
    struct parts parts;
    uint64_t events, waited; /* what idle and produce would want to know of; how far stage_wait has seen them */
    struct stage_output outputs[EDGES_MAX];
    int output_count;
    bool threads_end, flush_wanted, flushed, summary_wanted, summarising, summarised;
    uint64_t stored;   /* items since the last summary */
    double summary_at; /* not before */
    int troubles;      /* threads that wait for the machine */
    double trouble_since;
    struct err trouble; /* the first one */
    enum status fatal;
    struct err fatal_err;
    struct stage_results *results; /* in process only */

    pthread_t threads_of[THREADS_MAX];
    int threads_started;
};

/* setup.c: from nothing to a stage whose init has been called, and back. */
/* What --i may be, for help texts. */
const char *stage_takes(const struct stage_descriptor *descriptor);
enum status stage_create(const struct stage_descriptor *descriptor, struct stage **ret_stage, struct err *err);
void stage_destroy(struct stage **stage);
/* One key from the command line or a test: the stage's own parameters first, then those of every stage, then the
 * session's. */
enum status stage_set(struct stage *stage, const char *key, const char *text, const char *where, struct err *err);
const struct param *stage_param(const struct stage *stage, const char *key);
/* Folder, parameters, device, rules and number of lanes are there: checks them and fills what follows from them. */
enum status stage_configure(struct stage *stage, const char *where, struct err *err);
/* root and folder, made where they are missing. */
enum status stage_place(struct stage *stage, const char *folder, struct err *err);
/* init, resume, threads. */
enum status stage_begin(struct stage *stage, struct err *err);

/* paths.c: from now on items name only what is in the session or in one of the folders (JSON, a list of texts; or
 * NULL). */
enum status stage_confine(struct stage *stage, const json_t *folders, struct err *err);
void stage_places_clear(struct stage *stage);

/* lanes.c: an item's place. */
struct lane_plan {
    int lanes, load_threads, store_threads;
};
/* How many of each a stage has, where `lanes` (0: not set) is what the user wants. */
struct lane_plan lanes_plan(const struct stage_descriptor *descriptor, const struct device *device, int lanes);
enum status lanes_start(struct stage *stage, struct err *err);
/* All of these with the lock held. The slot of a ticket where it is in that phase, or NULL. */
struct slot *lanes_at(struct stage *stage, uint64_t ticket, enum slot_phase phase);
/* The earliest that waits for store; NULL. */
struct slot *lanes_to_store(struct stage *stage);
/* How many more items may be taken: there are lanes, or places to wait for them, and slots, and every output has room. */
int lanes_room(const struct stage *stage);
int lanes_in_hand(const struct stage *stage);
/* Takes an item in; consumes it. With room. Takes the lock itself. */
void lanes_take(struct stage *stage, struct item **item, int edge, int64_t seq);
/* The earliest that waits to be loaded, with a lane for it; NULL when there is none. */
struct slot *lanes_to_load(struct stage *stage);
/* What store has left behind needs no lane any more. */
void lanes_let_go(struct stage *stage, struct slot *slot);
/* The earliest item that is done with, or NULL. lanes_free gives its slot back. */
struct slot *lanes_done(struct stage *stage);
void lanes_free(struct stage *stage, struct slot *slot);
bool lanes_empty(const struct stage *stage);
void lanes_stop(struct stage *stage);
/* Flush and the last summary, which run on their own threads: asks for them and waits. */
enum status lanes_finish(struct stage *stage, struct err *err);
/* What the parts did with their time, as a line of the log, and as a table where `out` is not NULL; nothing where no
 * item came. */
void stage_report_parts(struct stage *stage, FILE *out);

/* threads.c: what runs load, process (and reconfigure, idle, flush, produce), store and the ledger's commits. */
void *thread_load(void *stage);
void *thread_compute(void *stage);
void *thread_store(void *stage);
void *thread_ledger(void *stage);

/* settle.c: what happened goes into the ledger. The ledger thread's place to put it together. */
enum status settling_create(int output_count, struct settling **ret_settling, struct err *err);
void settling_destroy(struct settling **settling);
/* The outcomes of items, in one transaction. */
enum status stage_settle(struct stage *stage, struct slot *const *slots, int count, struct err *err);
/* What a source has emitted, oldest first, in one transaction. */
enum status stage_settle_emissions(struct stage *stage, struct item *const *items, int count, struct err *err);
/* With the lock held: until everything emitted is in the ledger, or never will be. */
void stage_drain_emissions(struct stage *stage);
/* The rules of reject_if on what the item holds by now. */
enum status stage_judge(struct stage *stage, const struct item *item, uint32_t *judged, struct err *err);
/* Whether the item has what the descriptor's `in` asks for. */
enum status stage_check_input(const struct stage *stage, const struct item *item, struct err *err);

/* trouble.c: as stage_wait_out, but for one that has other things to do until patience->until. */
bool stage_may_wait(struct stage *stage, enum status status, const struct err *err, struct stage_patience *patience);

void stage_lock(struct stage *stage);
void stage_unlock(struct stage *stage);
/* With the lock held: wakes the main thread. */
void stage_changed(struct stage *stage);
/* As stage_changed, and counts as an event for stage_wait. */
void stage_event(struct stage *stage);
/* With the lock held: wakes one thread of a part; all threads there are. */
void stage_call(struct stage *stage, enum part part);
void stage_call_all(struct stage *stage);
/* With the lock held: until changed (called) or the time (CLOCK_MONOTONIC, s) is reached. */
void stage_wait_until(struct stage *stage, double deadline);
void stage_await_call(struct stage *stage, enum part part, double deadline);
/* The stage cannot go on. With the lock held or not. */
void stage_fatal(struct stage *stage, enum status status, const struct err *err);
void stage_stop(struct stage *stage, enum stage_stop how);

/* crash.c: what a thread works on, for the launcher to know when a SIGSEGV, SIGABRT, SIGBUS, SIGILL or SIGFPE of
 * this thread brings the process down. id: borrowed until the next call; NULL: nothing. */
void crash_blame(char *current, const char *id);
void crash_watch(void);

/* signals.c: SIGINT and SIGTERM on a thread of their own. */
struct signals;
enum status signals_start(struct stage *stage, struct signals **ret_signals, struct err *err);
void signals_stop(struct signals **signals);

/* on_files.c: items of a STAR file, an image or a folder. */
struct item_list {
    struct item **items;
    size_t count, capacity;
    json_t *by_id; /* id → place in items */
};
enum status item_list_add(struct item_list *list, struct item *item, struct err *err); /* consumes the item */
struct item *item_list_find(const struct item_list *list, const char *id);
/* The id of a path as a person or a STAR file has it, and the path as an item holds it. */
enum status stage_files_id(const char *path, char id[PATH_SIZE], struct err *err);
enum status stage_files_path(const struct stage *stage, const char *path, const char *beside, char out[PATH_SIZE],
                             struct err *err);
int stage_files_by_name(const FTSENT **a, const FTSENT **b);
/* Products are named after images without their endings, so two images of one id are refused; where images are
 * micrographs, the picture beside one is its preview, and gives way to it, whichever of them came first. */
enum status stage_files_namesake(const struct stage *stage, const struct item_list *list, const char *id,
                                 const char *path, bool *ret_preview, struct err *err);
/* The item of one image; its id is made of `name`. And those of all that a table (.csv) names in its first column. */
enum status stage_files_image(const struct stage *stage, const char *path, const char *name, struct item_list *list,
                              struct err *err);
enum status stage_files_list(const struct stage *stage, const char *path, struct item_list *list, struct err *err);
/* on_files_structures.c: items of structures: files, folders, globs, lists of files (.txt, .lst), with commas. */
enum status stage_files_structures(const struct stage *stage, const char *input, struct item_list *list,
                                   struct err *err);
enum status stage_files_items(const struct stage *stage, const char *input, struct item ***ret_items, size_t *ret_count,
                              struct err *err);
void stage_items_free(struct item **items, size_t count);
/* run.c: items through lanes, flush, summary; the way of stages on files and in process. */
enum status stage_run_items(struct stage *stage, struct item *const *items, size_t count, struct err *err);
/* in_process.c: stage_run_in_process with the outcome of each item, and a ledger that may be a file. */
enum status stage_run_results(const struct stage_descriptor *descriptor, const char *folder, const char *ledger_path,
                              const char *const *key_values, struct item *const *items, size_t item_count,
                              struct stage_results *ret_results, struct err *err);
void stage_results_clear(struct stage_results *results);

/* The instance file that the launcher writes. */
struct stage_edge {
    char edge[EDGE_NAME_SIZE];
    char *data, *ack; /* endpoints */
    int window;
    double resend; /* s; 0: not set */
};

enum { CURRENT_SIZE = 2 * PATH_SIZE };

struct instance {
    struct stage_edge inputs[EDGES_MAX], outputs[EDGES_MAX];
    int input_count, output_count;
    char *ledger, *log, *heartbeat, *current, *public_key, *secret_key;
    int64_t log_size; /* bytes; 0: not said */
};

/* instance.c: fills the stage's names, folders and parameters, and what the pipeline needs besides. */
enum status instance_read(struct stage *stage, const char *path, struct instance *instance, struct err *err);
/* The same of the file's content, without touching the disk: the stage's folder is not made. */
enum status instance_parse(struct stage *stage, const json_t *root, struct instance *instance, struct err *err);
/* Log, ledger and the page with the current item's id; claims of an earlier incarnation are let go. */
enum status instance_open(struct stage *stage, const struct instance *instance, struct err *err);
void instance_clear(struct instance *instance);

/* pipeline.c: the exit code */
int stage_pipeline(struct stage *stage, const char *instance_file);

#endif
