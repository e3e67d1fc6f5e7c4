/* The stage harness: what every stage author reads. A stage is one constant struct stage_descriptor; its main is
 * `return stage_main(&NAME_stage, argc, argv);`. The harness owns sockets, ledger, signals, lanes, metrics, logs and
 * parameters; the stage owns the callbacks of the descriptor.
 *
 * Threads. I/O threads run load, store and summarise. One compute thread runs reconfigure, process, idle, flush and
 * produce. One thread commits outcomes to the ledger. The main thread runs init, resume and fini, and serves the
 * sockets. An item passes load → process → store inside one lane, so the stage reads item n+1 while it computes item n
 * and writes item n−1. Two callbacks of one lane never run at the same time. Several loads run at once, in different
 * lanes; several stores only where the descriptor allows it. Outcomes are committed in the order in which items
 * arrived; all that are ready share one transaction.
 *
 * Statuses. What load, process and store return decides about the item:
 *   STATUS_OK           the item goes on
 *   STATUS_REJECTED     the item is set aside, with the message as the reason; this is no error
 *   STATUS_UNAVAILABLE, STATUS_NO_MEMORY
 *                       the machine lacks something that may come back; in a pipeline the harness waits and calls again
 *                       (stage_wait_out): load and process for up to five minutes, store for as long as necessary
 *   STATUS_DEVICE       the stage ends with an error; a later run does the item again
 *   anything else       the item fails, with the message as the reason; the stage goes on
 * From init, resume, idle, flush, produce and the last summarise, an error ends the stage.
 *
 * Programs are called in three ways:
 *   icestream-NAME --i INPUT --o DIR [--KEY VALUE]…   on files: INPUT is a STAR file, an image, a folder, or a table
 *                                                     (.csv) whose first column names images
 *   icestream-NAME --instance FILE                    in a pipeline; the launcher writes FILE (JSON):
 *     { "v": 1, "name": "lowpass-picker", "instance": 0, "replicas": 2, "run": 3, "session": "/abs/SESSION",
 *       "session_id": "5f0c…" (optional),
 *       "session_params": {"pixel_size": 1.5, …}, "params": {…as in the graph, without from/replicas/program…},
 *       "inputs":  [{"edge": "watcher.0>lowpass-picker", "data": "ipc://…", "ack": "ipc://…"}],
 *       "outputs": [{"edge": "lowpass-picker.0>extractor", "data": "ipc://…", "ack": "ipc://…", "window": 8}],
 *       "until_idle": 30 or null, "device": "auto|cpu|cuda:N", "threads": 1, "flush_threads": 4 (optional: threads),
 *       "curve": null or {"public": "z85", "secret": "z85"}, "folders": ["/data/grid3"] (optional: none),
 *       "ledger": "/abs/….sqlite", "log": "/abs/….log", "log_size": 16777216, "heartbeat": "/abs/….json",
 *       "current": "/abs/…" }
 *   icestream-NAME --check FILE                       checks the parameters of such a file, and opens no socket, ledger
 *                                                     or log: prints [{"key", "level", "message"}], level "warning" or
 *                                                     "error"; only params, session_params and device are needed
 *   icestream-NAME --describe | --help | --version | --manual man|markdown|completion
 *
 * The stage rewrites `heartbeat` every second (by renaming): {"time","pid","state":"waiting|blocked|processing",
 * "item","in","out","rejected","failed","bytes","latency","queue","note","doing","resolution","parts",
 * "outcomes","latencies","resident"} (docs/protocol.md). From the first item on, parts says how long load, process,
 * store and ledger were busy (common/harness/parts.h). `current` is a memory-mapped file with the id of the item inside
 * `process`: when a stage crashes, the launcher learns from it which item was the cause.
 *
 * Signals in a pipeline: SIGINT makes a source end its search, and the stream then drains; other stages ignore SIGINT.
 * SIGTERM stops the stage at once; the next run does again what was not finished. */
#ifndef ICESTREAM_COMMON_HARNESS_STAGE_H
#define ICESTREAM_COMMON_HARNESS_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/edges/item.h"
#include "common/harness/params.h"
#include "common/log.h"
#include "common/status.h"

struct stage; /* the harness, as callbacks see it */

struct stage_session {
    double pixel_size, voltage, spherical_aberration, amplitude_contrast; /* NaN: not set */
    double min_free_memory;                                               /* GB */
    char *mtf;                                                            /* path of the detector's MTF; NULL: none */
};

struct stage_lane {
    int index;
    struct item *item; /* the lane's item; process and store add to it what goes downstream */
    int shape[3];      /* load sets it; when it differs from the last item's, the harness calls reconfigure first */
    void *state;       /* lane_size bytes, zeroed at the start: buffers that the lane keeps from item to item */
};

/* The memory that one item needs, in bytes. */
struct stage_need {
    size_t lane;   /* held by its lane from load to the end of store */
    size_t shared; /* for plans and buffers that reconfigure and process use for all items of this shape */
};

enum stage_work { STAGE_WORK_NONE, STAGE_WORK_MORE };

struct stage_checks; /* the problems that check finds */
enum stage_check_level {
    STAGE_CHECK_WARNING, /* the stage runs, and logs it */
    STAGE_CHECK_ERROR    /* the stage does not run */
};

struct stage_descriptor {
    const char *name;    /* "lowpass-picker" */
    const char *summary; /* one line for --help and `icestream stages` */
    const char *in;  /* members that an item must have: "", "micrograph", "micrograph picks", "particles|selection" */
    const char *out; /* what the stage adds: "picks"; "" when nothing goes on */
    const struct param *params; /* rows of the parameter table; it fills a struct of params_size bytes */
    size_t param_count;
    size_t params_size;
    size_t state_size; /* bytes of `state`, which the harness zeroes before init */
    size_t lane_size;  /* bytes of each lane's own state */
    /* Default numbers of lanes and threads. A lane holds an item's buffers from load to the end of store, so the memory
     * is the number of lanes times one lane. On a CUDA device an item passes process within milliseconds; numbers that
     * are 0 here are then larger. */
    int lanes;         /* 0: 3; on a device, three more than the threads that can hold a lane */
    int load_threads;  /* 0: 2; on a device 3 */
    int store_threads; /* 0: 1, and store is called in the order of arrival. More: store may run for several lanes at
                          once, in any order, beside summarise; it must not touch `state` without a lock */
    bool cuda;         /* the stage has CUDA kernels; false: it computes on the CPU, with a warning when a GPU is asked
                          for */
    bool unscaled;     /* the stage counts in pixels: images need not state their pixel size */
    const char *takes; /* on files: what --i may be, for --help; NULL: the usual text for this `in` */
    const char *input; /* on files: the path parameter that replaces --i where --i is missing; NULL: none */
    bool cumulative;   /* the stage collects over all items: it has one instance only (replicas must be 1), its items
                          end here, and only what it emits goes on */
    bool revisions;    /* an item may come again in a later revision, which replaces the earlier one. The harness does
                          most of it: products are written anew, a cumulative stage begins again from the ledger. false:
                          the launcher sends the stage no later revision */

    const char *columns; /* columns that the stage may set in an item, with blanks between them, which rules (reject_if)
                            of this stage and those behind it may name; NULL: none */

    /* Checks parameters against each other and against the files that they name, beyond what the parameter table says:
     * adds each problem with stage_checks_add. `icestream check` runs it by --check before a session begins; the
     * harness runs it at each start, in a pipeline, on files and in process. There is no stage yet, so it must not
     * depend on items, devices or folders of the session. A file that is away now is no problem: its stage waits for
     * it. Must take a few seconds at most. Called on the main thread, with parameters that are within their limits.
     * NULL: the table says it all. */
    void (*check)(const void *params, const struct stage_session *session, struct stage_checks *checks);

    /* Any callback may be NULL. `state` is the one state of the instance. */

    /* Prepares the state. Called once, on the main thread, before any other callback. May allocate, read files and open
     * the device. The first heartbeat follows init and resume: together they must not take longer than a minute. */
    enum status (*init)(struct stage *stage, void *state, struct err *err);
    /* Frees the state. Called once, on the main thread, after all other threads have ended; also after an init that
     * failed half way, so it must accept a state that is only partly filled. */
    void (*fini)(struct stage *stage, void *state);
    /* Frees what one lane keeps in lane->state. Called once for each lane, on the main thread, before fini; not called
     * when init failed. */
    void (*lane_fini)(struct stage *stage, void *state, struct stage_lane *lane);
    /* Takes one item that is already done into the state. Called when a session is resumed, on the main thread, once
     * for each such item, after init and before anything new arrives. When it fails because of the item's files
     * (status_is_of_file), the harness marks this item as failed and goes on. */
    enum status (*resume)(struct stage *stage, void *state, const struct item *item, struct err *err);
    /* As resume, for an item that stage_revise has marked as failed: other items of the same group may still come. When
     * the item's files cannot be read, nothing is logged. */
    enum status (*resume_failed)(struct stage *stage, void *state, const struct item *item, struct err *err);

    /* Takes over parameters whose `changes` is PARAM_LIVE: stage_params has the new values, and init is not called
     * again. Called on the main thread, while no item is in the stage and no other callback runs, except produce, and a
     * flush that waits in stage_rest; reconfigure follows before the next item. NULL: the stage reads such parameters
     * from stage_params for each item. An error ends the stage. The produce of a source may be reading meanwhile: the
     * table of a source must have no PARAM_LIVE. */
    enum status (*change)(struct stage *stage, void *state, struct err *err);
    /* Makes plans and buffers for lane->shape. Called on the compute thread, before process, when the shape differs
     * from that of the item before. May be slow and may allocate; after a failure it is called again for the next
     * item. */
    enum status (*reconfigure)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    /* Says what the item will need, from headers, parameters and the item, without reading pixels; also refuses sizes
     * that the stage does not take. Called on an I/O thread before load, for several lanes at once; must not touch
     * lane->state. The harness calls load when there is room (common/harness/admission.c): items wait for the items
     * before them, and for the machine. An item that needs more than memory_limit fails. NULL: items need nothing worth
     * counting. */
    enum status (*need)(struct stage *stage, void *state, const struct stage_lane *lane, struct stage_need *ret_need,
                        struct err *err);
    /* Gives memory back because it is short. lane: one that holds no item now, whose buffers the next load can make
     * anew; called on an I/O thread, with the harness's lock held, so it must be quick and must not call the harness.
     * lane NULL: what state keeps for later items; called on the compute thread between two items, and reconfigure
     * follows before the next item. For stages with need. */
    void (*release)(struct stage *stage, void *state, struct stage_lane *lane);
    /* Reads the item's files into the lane and sets lane->shape. Called on an I/O thread, one OpenMP thread wide, for
     * several lanes at once. May block on the disk. Must not change `state` without a lock. */
    enum status (*load)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    /* Computes one item. Called on the compute thread, with stage_threads() OpenMP threads, one item after the other in
     * the order of arrival. Should not read or write files. NULL: items go from load to store and never wait for the
     * compute thread, which is then free for idle. */
    enum status (*process)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    /* Writes the products of one item and adds their paths to lane->item. Called on an I/O thread; see store_threads
     * for the order. May block on the disk. May be called again for the same item (after a wait, or in a later run), so
     * it must write whole files anew. The item goes on once the ledger holds the outcome. */
    enum status (*store)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    /* Does one slice of the stage's own work, such as one batch of an iteration. Called on the compute thread whenever
     * no item waits for it: at once after STAGE_WORK_MORE, else when something has happened or a second has passed.
     * Must return within about a second, because new items wait meanwhile. Never called on files: there the results
     * must not depend on how fast the files are read. */
    enum status (*idle)(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err);
    /* Finishes the stage's own work at the end of the stream. Called on the compute thread, after the last item was
     * stored; once, or again after a wait for the machine. May take as long as it needs, with stage_flush_threads()
     * threads; should look at stage_stopping() often. */
    enum status (*flush)(struct stage *stage, void *state, struct err *err);
    /* Writes the joined tables (autopick.star, particles.star), for which it walks the done items with stage_each_done.
     * Called on an I/O thread, never twice at once: every five seconds or less often while items are done, beside
     * store where that has several threads, and a last time after flush. A failure before the last time is logged. */
    enum status (*summarise)(struct stage *stage, void *state, struct err *err);
    /* Sources only (`in` is ""): finds items and sends them with stage_emit. Called once, on the compute thread;
     * returns when nothing more will come or when stage_stopping() holds. Waits with stage_wait. */
    enum status (*produce)(struct stage *stage, void *state, struct err *err);
};

/* Runs a stage's program. Returns its exit code: 0 all done, 1 error, 2 usage, 3 some items failed and the rest are
 * done. */
int stage_main(const struct stage_descriptor *descriptor, int argc, char **argv);

/* For check: adds a problem. key: the parameter at fault, "" where no single one is; the text names it too, with its
 * value, what was expected and what to do. */
void stage_checks_add(struct stage_checks *checks, enum stage_check_level level, const char *key, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));
/* For check: adds the message of a function that has failed because a value or a file is wrong. Adds nothing for
 * STATUS_OK, nor when the machine lacks something, which the stage itself waits for. Returns whether it was OK. */
bool stage_checks_result(struct stage_checks *checks, const char *key, enum status status, const struct err *err);

/* Functions for callbacks. Any callback may call them, on any thread. */
const void *stage_params(const struct stage *stage); /* the filled parameter struct */
const struct stage_session *stage_session(const struct stage *stage);
const char *stage_name(const struct stage *stage); /* the stage's name in the graph */
const char *stage_root(const struct stage *stage); /* SESSION, or --o's parent on files: where relative paths begin */
const char *
stage_folder(const struct stage *stage); /* the folder for products: SESSION/NAME, or --o, or that of a lease */
/* Returns the folder for products as tables and items name it: relative to stage_root where it lies below. It may lead
 * to stage_folder by a link: with ledgers in PostgreSQL, a cumulative stage writes into the folder of its lease. */
const char *stage_promised(const struct stage *stage);
int stage_threads(const struct stage *stage); /* threads for OpenMP regions */
/* Returns the number of threads for flush, and only for flush: the stages before this one rest by then, so it is all
 * cores unless the user set `threads`. */
int stage_flush_threads(const struct stage *stage);
/* Takes over live parameters that were set meanwhile (`change`). For flush alone, between two pieces of its work; may
 * wait for a moment. Without it they wait for the next run. */
void stage_rest(struct stage *stage);
const struct device *stage_device(const struct stage *stage);
/* Lists the devices that share the work of the stage: its own one and, with CUDA, the visible ones behind it. wanted:
 * how many; 0: all that the graph names, one on files and in process. most: room in ret_devices. STATUS_BAD_ARGUMENT:
 * there are not so many. */
enum status stage_devices(const struct stage *stage, int wanted, int most, struct device *ret_devices, int *ret_count,
                          struct err *err);
bool stage_separate(const struct stage *stage);    /* products of different sources lie in folders of their own */
bool stage_in_pipeline(const struct stage *stage); /* false on files and in process */
bool stage_stopping(const struct stage *stage);    /* idle, produce and flush should return soon */
/* Returns how often in a row the stage was killed in idle or flush, or with no item in work, with nothing finished
 * between, in this run of the session. A stage that then knows on what it worked can leave it. */
int stage_deaths(const struct stage *stage);
/* Returns whether this instance may decide what holds for all instances of its stage. On one machine each may, and a lock
 * on a file orders them; where hosts share the files no lock does, and the first instance alone decides. */
bool stage_decides(const struct stage *stage);
double stage_until_idle(const struct stage *stage); /* seconds, or infinity */
/* Waits that many seconds, or until something happens that a source or idle should know of: a request to stop, room to
 * send, a new item. */
void stage_wait(struct stage *stage, double seconds);

/* Names the product of an item, "NAME/MIC_autopick.star", or "NAME/SOURCE/MIC_autopick.star" where the items of several
 * sources come together: relative to stage_root in relative[], absolute in absolute[] (each PATH_MAX). Makes the
 * folders on the way. */
enum status stage_product(const struct stage *stage, const struct item *item, const char *suffix, char *relative,
                          char *absolute, struct err *err);
/* Makes an item's path absolute: it counts from stage_root, else from the working directory. In a pipeline items come
 * from elsewhere, so the function fails for a path that, after all links, lies neither in the session nor in an input
 * folder. Input folders are the watcher's directory, the folder of its CTF table, those of files that the graph names,
 * and `session: {inputs: […]}`. absolute: PATH_MAX. */
enum status stage_resolve(const struct stage *stage, const char *path, char *absolute, struct err *err);
/* Checks a path that the stage has made absolute itself, such as one from an item's STAR file, by the same rule. */
enum status stage_may_read(const struct stage *stage, const char *absolute, struct err *err);

/* Repeats a call for as long as the machine lacks something that may come back (STATUS_UNAVAILABLE: the disk is full, a
 * folder is away, descriptors are short; STATUS_NO_MEMORY), and sets `status` to its result:
 *     enum status status;
 *     STAGE_PERSIST(stage, status, err, write_something(…, err));
 * stage_wait_out returns true after a pause (1 s, then more, up to 30 s): try again. It returns false when the status
 * stands: the status is OK or of another kind, the stage is to stop, or the stage works on files, where the user sees
 * the error at once. After STATUS_NO_MEMORY there are three more tries. The harness logs the reason once, and the
 * heartbeat's note shows it for as long as the wait lasts.
 *
 * The harness itself does this around load, process, store, idle, flush, the last summarise and everything that it
 * writes, so each of these callbacks may be called again after one of the two statuses. A callback needs it only around
 * work that it would not begin again from its beginning. */
#define STAGE_PERSIST(stage, status, err, call) STAGE_PERSIST_FOR(0, stage, status, err, call)
/* As STAGE_PERSIST; gives up after so many seconds (0: never). */
#define STAGE_PERSIST_FOR(seconds, stage, status, err, call)                                                           \
    do {                                                                                                               \
        struct stage_patience patience_ = {.limit = (seconds)};                                                        \
        do                                                                                                             \
            (status) = (call);                                                                                         \
        while (stage_wait_out((stage), (status), (err), &patience_));                                                  \
    } while (0)

struct stage_patience {
    double limit; /* s after which to give up; 0: never */
    int tries;    /* so far, in the present trouble; begin with 0 */
    double since, until;
};
bool stage_wait_out(struct stage *stage, enum status status, const struct err *err, struct stage_patience *patience);

/* Sends a new item on its way; for sources and cumulative stages. Copies the item. Blocks while the window is full, but
 * never from idle or flush of a cumulative stage. ret_new: false when the item's id was seen before, in this revision
 * or a later one; may be NULL. A later revision replaces the earlier one in every stage behind this one. The ledger
 * writes down what a source emits a little later, together with what it emits meanwhile, and only then sends it: after
 * a power cut the source must find again what stage_lookup does not know. */
enum status stage_emit(struct stage *stage, const struct item *item, bool *ret_new, struct err *err);
/* Records an item of a source that does not go on, with the reason (state LEDGER_REJECTED or LEDGER_FAILED). */
enum status stage_set_aside(struct stage *stage, const struct item *item, int state, const char *reason,
                            struct err *err);
/* Marks finished items, named by source and id, as failed because a product that needs all of them (such as a tomogram)
 * could not be made. The items count as failed, with this reason, and a retry sends them again. reason NULL: the
 * product could be made after all; takes the mark back, and the items count as done. For cumulative stages with one
 * store thread, from idle and flush. Waits until the ledger holds what is being stored. */
enum status stage_revise(struct stage *stage, const struct ledger_key *keys, size_t count, const char *reason,
                         struct err *err);
/* Looks an item that begins in this stage up in the ledger, by its id. *ret_state (LEDGER_…) stays untouched when the
 * ledger does not know the id. A source may still emit an item that it had set aside as failed. */
enum status stage_lookup(struct stage *stage, const char *id, bool *ret_known, int *ret_state, struct err *err);
/* Reads an item that begins in this stage as the ledger keeps it; the caller destroys it. *ret_item: NULL when the
 * ledger does not know the id, or when what it keeps is no item. */
enum status stage_recall(struct stage *stage, const char *id, struct item **ret_item, struct err *err);
/* Calls `visit` for each item that is done, in the order in which the ledger first saw them. */
typedef enum status stage_visit(const struct item *item, void *context, struct err *err);
enum status stage_each_done(struct stage *stage, stage_visit *visit, void *context, struct err *err);

/* Writes a log line: time, stage, instance, level, stable id, message. `id` is a short word that scripts can search
 * for.
 *
 * A line of LOG_WARN is a record as well: `run` shows the first of each id at once, and `status` and the end of the run
 * list each id with its last message and how often it came, also after a restart. So one id is one kind of warning, and
 * the message may name the item. */
void stage_log(const struct stage *stage, enum log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Sets one short line on the stage's progress ("iteration 7, 8.4 Å"), which `run` and `status` show. The last line of a
 * cumulative stage is its result: a run on files prints it at its end. */
void stage_note(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says what the stage is computing by itself ("computing iteration 17"), which `run` shows instead of a state. Call it
 * from idle or flush, as often as it changes. It counts until idle has no more work, or flush returns. */
void stage_doing(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets the result of a run on files, which is printed at its end: a line of text (the numbers of picks and particles
 * need none: "" will do), and the files below the stage's folder that a user opens next, as far as they exist. files:
 * ends with NULL, and must stay valid; NULL: none. The last call counts. Does nothing in a pipeline. */
void stage_result(struct stage *stage, const char *const *files, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says that the stage could not make its result of items that are done: a run on files ends with exit code 3. */
void stage_incomplete(struct stage *stage);
/* Sets the resolution (Å) that the stage's result has now, which `run` shows above its table. */
void stage_resolution(struct stage *stage, double resolution);

/* Return the parameters that every stage has, and those of a session, for checks without a stage. */
const struct param *stage_common_params(size_t *ret_count);
const struct param *stage_session_params(size_t *ret_count); /* they fill a struct stage_session */

/* Runs items through the descriptor in this process, without sockets or sleeps: for tests. key_values: parameters as
 * key, value, …, NULL. `folder` stands for SESSION: products go to folder/NAME, and relative paths begin at folder.
 * ret_items gets what goes downstream, in order (*ret_count of them): call item_destroy for each and free the array.
 * Items that fail or are rejected are not among them; the reasons of failures go to standard error. */
enum status stage_run_in_process(const struct stage_descriptor *descriptor, const char *folder,
                                 const char *const *key_values, struct item *const *items, size_t item_count,
                                 struct item ***ret_items, size_t *ret_count, struct err *err);

#endif
