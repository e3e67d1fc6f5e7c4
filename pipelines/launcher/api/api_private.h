/* Declarations that the files of this folder share. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_API_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_API_PRIVATE_H

#include <jansson.h>

#include "common/files.h"
#include "common/formats/star.h"
#include "common/harness/choices.h"
#include "pipelines/launcher/api/api.h"
#include "pipelines/launcher/api/api_text.h"
#include "pipelines/launcher/api/gpus.h"
#include "pipelines/launcher/json_values.h"
#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/view/view.h"

enum { API_PLACES = 8, API_SAMPLES = 64, API_STAGES = 64, API_DONE_MAX = 400, API_MAPS = 6, API_SPRITES = 4 };

/* Counts of finished items, and the room on the disks, at one time. */
struct api_sample {
    double time; /* s, monotonic */
    int64_t finished[API_STAGES];
    double free[API_PLACES]; /* bytes; NaN: unknown */
};

/* A large answer that is made of a file, kept until the file changes. */
struct api_kept {
    char key[160]; /* file, size, time and options; "": none */
    void *bytes;
    size_t length;
    char header[256];
    int64_t used; /* the request that last asked for it */
};

struct api {
    struct gpus *gpus; /* NULL: none */
    struct gpu gpu_values[GPUS_MAX];
    size_t gpu_count; /* as last read */
    double gpus_read; /* s, monotonic */
    bool gpus_known;
    struct api_sample samples[API_SAMPLES];
    size_t sample_count; /* a ring: the newest is at (sample_count − 1) % API_SAMPLES */
    char places[API_PLACES][PATH_SIZE];
    size_t place_count;
    json_t *left_out, *warnings, *changes; /* as last read */
    double slow_read;                      /* when, s, monotonic */
    double status_sent;                    /* when, s, monotonic */
    bool status_due;                       /* something has changed since */
    bool begun;               /* with rows of an epoch and a revision: listeners know those, or fetch them */
    uint64_t epoch, revision; /* of the rows that were published */
    json_t *starts;           /* {INSTANCE: {"pid", "run", "count"}} */
    json_t *histories;        /* {STAGE: number of lines that were published} */
    struct choices *choices;  /* marks by hand; NULL: they cannot be read */
    struct api_kept maps[API_MAPS], sprites[API_SPRITES], directions;
    double efficiency;                            /* of the kept directions; NaN: not known */
    double beam_tilt;                             /* mrad, of the table that beam_tilt_key names */
    char efficiency_key[160], beam_tilt_key[160]; /* of the tables that were looked at; "": none */
};

/* ---- api_files.c ---- */
/* A file that an item or a table names, opened below the session. Its own path leads to the descriptor, so that readers
 * which take a path cannot be led elsewhere. */
struct api_file {
    int descriptor; /* −1: none */
    int64_t size;
    int64_t mtime_ns;
    char path[32];
};
/* Opens a file. path: relative to the session; or absolute, below a folder from which a source of the graph reads. */
enum status api_open(struct serve *serve, const char *path, struct api_file *ret_file, struct err *err);
void api_close(struct api_file *file);
/* Reads a STAR file; a larger one than `limit` bytes is UNSUPPORTED. */
enum status api_read_star(struct serve *serve, const char *path, int64_t limit, struct star_file **ret_star,
                          struct err *err);
/* Finds the row of request->words[word], and reads its item, which the caller owns. */
enum status api_find_item(struct serve *serve, const struct http_request *request, int word, size_t *ret_row,
                          json_t **ret_item, struct err *err);
/* Ends a request for what an exposure may lack. With ?quiet=1 in the query, what is not there is 204 instead of an error:
 * a browser writes each error to its console. */
enum status api_or_nothing(enum status status, const struct http_request *request, struct http_answer *answer,
                           struct err *err);
/* Returns a text in an object by members: ("display", "thumb"), or NULL. */
const char *api_text_at(const json_t *object, const char *member, const char *name);
/* Finds the stage that a query's `stage` names, or else the first that runs the program `kind`. NOT_FOUND: none. */
enum status api_stage_of_kind(struct serve *serve, const struct http_request *request, const char *kind,
                              const char **ret_name, struct err *err);
/* Returns the kept answer's key for a file and some options. */
void api_kept_key(const struct api_file *file, const char *name, int64_t option, char key[160]);
/* Returns the kept answer of a key, or that which nobody has asked for for the longest time, to be replaced. request: a
 * number that grows. */
struct api_kept *api_kept_find(struct api_kept *kept, size_t count, const char *key, int64_t request);
/* Answers with a copy of what is kept. */
enum status api_kept_answer(const struct api_kept *kept, const char *type, struct http_answer *answer, struct err *err);
/* Keeps bytes, which it owns from now on. */
void api_kept_put(struct api_kept *kept, const char *key, void *bytes, size_t length);
void api_kept_clear(struct api_kept *kept);

/* ---- others ---- */
/* api.c: the epoch of the view, or of the marks by hand: whoever knows another one fetches all rows. */
uint64_t api_epoch(const struct serve *serve);
/* api_items.c: the rows that changed after `since`, or all, as JSON text. */
void api_items_text(struct serve *serve, bool full, uint64_t since, struct api_text *text);
/* api_columns.c: the columns of a graph's exposures, for /api/session; and each value of /api/items. */
json_t *api_columns_json(struct serve *serve);
size_t api_column_count(const struct view *view);
const char *api_column_key(const struct view *view, size_t column);
double api_column_value(const struct view *view, size_t row, size_t column);
bool api_column_shown(const struct view *view, size_t column); /* false: it is no column of the page */
/* api_status.c: the answer of /api/status. */
json_t *api_status_json(struct serve *serve);
/* api_restarts.c: returns how often an instance was started again in this run. beat: its heartbeat. */
int64_t api_restarts(struct serve *serve, const char *instance, const json_t *beat);
/* api_machine.c: disks, GPUs and memory. */
void api_machine_sample(struct serve *serve, struct api_sample *sample);
json_t *api_disk_json(struct serve *serve);
json_t *api_gpus_json(struct serve *serve);
json_t *api_host_json(void);
/* api_rates.c: takes a sample every few seconds; returns items finished per second over the last 10 minutes, NaN where
 * that is not known; and the same of a place's fill in bytes per second. */
void api_rates_tick(struct serve *serve);
double api_rate(struct serve *serve, size_t stage);
double api_fill_rate(struct serve *serve, size_t place);

#endif
