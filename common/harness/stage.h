/* The stage harness. A stage is one constant struct stage_descriptor; `stage_main(&descriptor, argc, argv)` is its
 * whole main. The harness owns sockets, ledger, signals, lanes, metrics, logs and parameters.
 *
 * Threads: I/O threads run load and store, one compute thread runs reconfigure, process, idle and flush, one commits
 * outcomes to the ledger, the main thread serves the sockets. An item passes load → process → store inside one lane, so
 * reading item n+1, computing n and writing n−1 overlap. Callbacks of one lane never run at the same time. Several loads
 * run at once; several stores only where the descriptor allows it. Outcomes are in the order of arrival, those that are
 * ready together in one transaction.
 *
 * Programs are called in two ways:
 *   icestream-NAME --i INPUT --o DIR [--KEY VALUE]…   on files: INPUT is a STAR file, a file, a folder, or a table (.csv)
 *                                                     whose first column names images
 *   icestream-NAME --instance FILE                    in a pipeline; the launcher writes FILE (JSON):
 *     { "v": 1, "name": "lowpass-picker", "instance": 0, "replicas": 2, "run": 3, "session": "/abs/SESSION",
 *       "session_params": {"pixel_size": 1.5, …}, "params": {…as in the graph, without from/replicas/program…},
 *       "inputs":  [{"edge": "watcher.0>lowpass-picker", "data": "ipc://…", "ack": "ipc://…"}],
 *       "outputs": [{"edge": "lowpass-picker.0>extractor", "data": "ipc://…", "ack": "ipc://…", "window": 8}],
 *       "until_idle": 30 or null, "device": "auto|cpu|cuda:N", "threads": 1, "flush_threads": 4 (optional: threads),
 *       "curve": null or {"public": "z85", "secret": "z85"}, "folders": ["/data/grid3"] (optional: none),
 *       "ledger": "/abs/….sqlite", "log": "/abs/….log", "log_size": 16777216, "heartbeat": "/abs/….json", "current": "/abs/…" }
 *   icestream-NAME --describe | --help | --version | --manual man|markdown|completion
 * `heartbeat` is rewritten (renamed into place) every second: {"time","pid","state":"waiting|blocked|processing",
 * "item","in","out","rejected","failed","bytes","latency","queue","note","parts"}; parts, from the first item on, says how
 * long load, process, store and ledger were busy (common/harness/parts.h). `current` is a memory-mapped file with the
 * ids that are inside `process`, from which the launcher learns which item killed a stage.
 *
 * Signals in a pipeline: SIGINT ends a source's search (the stream then drains); other stages ignore it. SIGTERM stops
 * now; what was not finished is done again at the next run. */
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
};

struct stage_lane {
    int index;
    struct item *item; /* the lane's item; process and store add to it what goes downstream */
    int shape[3];      /* load sets it; reconfigure is called before process when it differs from the last one */
    void *state;       /* lane_size bytes, zeroed at start: buffers that are kept from item to item */
};

enum stage_work { STAGE_WORK_NONE, STAGE_WORK_MORE };

struct stage_descriptor {
    const char *name;    /* "lowpass-picker" */
    const char *summary; /* one line for --help and `icestream stages` */
    const char *in;  /* what members an item must have: "", "micrograph", "micrograph picks", "particles|selection" */
    const char *out; /* what it adds: "picks"; "" when nothing goes on */
    const struct param *params;
    size_t param_count;
    size_t params_size; /* of the struct that the table fills */
    size_t state_size;  /* zeroed before init */
    size_t lane_size;
    /* Default numbers. A lane holds an item's buffers from load to the end of store, so memory is lanes times a lane. On
     * a CUDA device an item is through process in milliseconds, and what is not set here is more. */
    int lanes;         /* 0: 3; on a device three more than there are threads that can hold one */
    int load_threads;  /* 0: 2; on a device 3 */
    int store_threads; /* 0: 1, and store is called in the order of arrival. More: store may run for several lanes at
                          once, in any order, beside summarise; it must not touch `state` without a lock */
    bool cuda;     /* its kernels have CUDA versions; else it says so and computes on the CPU whatever it is given */
    bool unscaled; /* it counts in pixels: images need not tell how large those are */
    const char *takes; /* on files: what --i may be, for --help; NULL: what others take that have such an `in` */
    const char *input; /* on files: the parameter, a path, that stands for --i where that is not given; NULL: none */
    bool cumulative;   /* keeps state over items: has one instance only (replicas must be 1); its items end here, and
                        what goes on is what it emits */

    enum status (*init)(struct stage *stage, void *state, struct err *err);
    void (*fini)(struct stage *stage, void *state);
    void (*lane_fini)(struct stage *stage, void *state, struct stage_lane *lane);
    /* Each item that is already done when a session is resumed, before anything new arrives. One of which the files
     * have become unreadable since (status_is_of_file) has failed after all. */
    enum status (*resume)(struct stage *stage, void *state, const struct item *item, struct err *err);
    /* As resume, of items that stage_revise has failed: others of what they belong to may still come. Of one that cannot
     * be read nothing more is said. */
    enum status (*resume_failed)(struct stage *stage, void *state, const struct item *item, struct err *err);

    enum status (*reconfigure)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    enum status (*load)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    /* NULL: items go from load to store and never wait for the compute thread (which is then free for idle). */
    enum status (*process)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    enum status (*store)(struct stage *stage, void *state, struct stage_lane *lane, struct err *err);
    /* On the compute thread whenever no item waits for it: a slice of work of its own. MORE: call again soon. Not on
     * files, whose end is known: there the results shall not depend on how fast they are read. */
    enum status (*idle)(struct stage *stage, void *state, enum stage_work *ret_work, struct err *err);
    /* At end of stream, on the compute thread: what is left. */
    enum status (*flush)(struct stage *stage, void *state, struct err *err);
    /* Joined tables (autopick.star, particles.star): called on an I/O thread now and then after items were done, and
     * at the end; walk the done items with stage_each_done. */
    enum status (*summarise)(struct stage *stage, void *state, struct err *err);
    /* Sources only (in ""): runs on the compute thread until nothing more will come or stage_stopping(). */
    enum status (*produce)(struct stage *stage, void *state, struct err *err);
};

/* 0, or the exit code: 1 error, 2 usage, 3 some items failed and the rest are done. */
int stage_main(const struct stage_descriptor *descriptor, int argc, char **argv);

/* What callbacks may ask of the harness. */
const void *stage_params(const struct stage *stage); /* the filled parameter struct */
const struct stage_session *stage_session(const struct stage *stage);
const char *stage_name(const struct stage *stage);   /* in the graph */
const char *stage_root(const struct stage *stage);   /* SESSION, or --o's parent on files: what paths are relative to */
const char *stage_folder(const struct stage *stage); /* where products go: SESSION/NAME, or --o */
int stage_threads(const struct stage *stage);        /* for OpenMP regions */
/* At the end of the stream the stages before this one rest: all cores, unless `threads` was set. For flush alone. */
int stage_flush_threads(const struct stage *stage);
const struct device *stage_device(const struct stage *stage);
bool stage_in_pipeline(const struct stage *stage);  /* not on files, nor in process */
bool stage_stopping(const struct stage *stage);     /* leave idle, produce, flush soon */
double stage_until_idle(const struct stage *stage); /* seconds, or infinity */
/* Waits so long, or until something happens that a source or idle should know of (stop, room, new item). */
void stage_wait(struct stage *stage, double seconds);

/* "NAME/MIC_autopick.star": the product of an item, relative to stage_root, into relative[], and absolute into
 * absolute[] (each PATH_MAX). Folders on the way are made. */
enum status stage_product(const struct stage *stage, const struct item *item, const char *suffix, char *relative,
                          char *absolute, struct err *err);
/* Absolute form of an item's path (relative to stage_root, else to the working directory). In a pipeline items come from
 * elsewhere, so this fails for what is, after all links, neither in the session nor in an input folder: the watcher's
 * directory, its CTF table's folder, the files that the graph names, the folders of `session: {inputs: […]}`. */
enum status stage_resolve(const struct stage *stage, const char *path, char *absolute, struct err *err);
/* The same question of a path that the stage has made absolute itself, such as one that stands in an item's STAR file. */
enum status stage_may_read(const struct stage *stage, const char *absolute, struct err *err);

/* For what the machine may refuse for a while (STATUS_UNAVAILABLE: the disk is full, a folder is away, descriptors are
 * short; STATUS_NO_MEMORY):
 *     struct stage_patience patience = {0};
 *     do status = write_something(…, err);
 *     while (stage_wait_out(stage, status, err, &patience));
 * True: time has passed (1 s, then more, up to 30 s), try again. False: the status stands, since it is OK, or of another
 * kind, or the stage is to stop, or works on files, where the user is told at once. Memory is tried for three times more.
 * Meanwhile the log says so once, and the heartbeat's note all the time. The harness does this around load, process,
 * store, idle, flush, the last summarise and all that it writes itself, so each of them may be called again after one of
 * those statuses; a callback does it around what it would not begin again from its beginning. */
struct stage_patience {
    double limit; /* s after which it is given up; 0: never */
    int tries;    /* of what went wrong so far; begin with 0 */
    double since, until;
};
bool stage_wait_out(struct stage *stage, enum status status, const struct err *err, struct stage_patience *patience);

/* Sources and cumulative stages: sends a new item on its way (blocks while the window is full, unless from idle or
 * flush of a cumulative stage, which never block). The item is copied. ret_new: false when its id was seen
 * before; may be NULL. What a source emits is written down a little later, together with what else it emits meanwhile,
 * and sent only then: after a power cut it must find again what stage_lookup does not know. */
enum status stage_emit(struct stage *stage, const struct item *item, bool *ret_new, struct err *err);
/* Sources: an item that does not go on, with the reason (state LEDGER_REJECTED or LEDGER_FAILED). */
enum status stage_set_aside(struct stage *stage, const struct item *item, int state, const char *reason,
                            struct err *err);
/* Cumulative stages whose items are stored in order, from idle and flush: what was to be made of these items together
 * has failed, for this reason, so that those of them that are done have failed: they are counted and reported as such, and
 * a retry sends them again. Reason NULL: it could be made after all, and those that failed in this way are done. Waits
 * until what is being stored is in the ledger. */
enum status stage_revise(struct stage *stage, const char *const *ids, size_t count, const char *reason,
                         struct err *err);
/* Whether an id is in the ledger, and in which state (LEDGER_…; untouched when not). What a source had set aside as failed may still be emitted. */
enum status stage_lookup(struct stage *stage, const char *id, bool *ret_known, int *ret_state, struct err *err);
typedef enum status stage_visit(const struct item *item, void *context, struct err *err);
enum status stage_each_done(struct stage *stage, stage_visit *visit, void *context, struct err *err);

/* Log lines: time, stage, instance, level, stable id, message. `id` is a short word that scripts can search for. */
void stage_log(struct stage *stage, enum log_level level, const char *id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* One short line on what the stage is at ("iteration 7, 8.4 Å"), shown by run and status; the last one of a cumulative
 * stage is what it came to, and ends a run on files. */
void stage_note(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The parameters of every stage, and those of a session, for checks without a stage. */
const struct param *stage_common_params(size_t *ret_count);
const struct param *stage_session_params(size_t *ret_count); /* fill a struct stage_session */

/* In process, without sockets or sleeps: for tests. Runs items through the descriptor with parameters as key, value,
 * …, NULL. `folder` stands for SESSION: products are in folder/NAME, and relative paths are relative to folder.
 * ret_items gets what goes downstream, in order (count in *ret_count): item_destroy each and free the array. Items that
 * fail or are rejected are not among them; the reasons of failures are on standard error. */
enum status stage_run_in_process(const struct stage_descriptor *descriptor, const char *folder,
                                 const char *const *key_values, struct item *const *items, size_t item_count,
                                 struct item ***ret_items, size_t *ret_count, struct err *err);

#endif
