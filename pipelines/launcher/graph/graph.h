/* The graph: a YAML file that names stages, their parameters, and which stage feeds which.
 *
 *   session: {pixel_size: 1.62}
 *   stages:
 *     watcher:   {directory: /data/grid3}
 *     extractor: {from: watcher, box: 256}
 *
 * and, before these, `programs: [/opt/mine/stage.py]` when a stage from elsewhere takes part with `program:`.
 * graph_parse keeps what the file says, with line numbers; graph_check (graph_check.h) adds what it means. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/edges/ledger_address.h"
#include "common/status.h"
#include "pipelines/launcher/problems.h"

enum { GRAPH_TEXT_MAX = 1 << 20, GRAPH_LIST_MAX = 256 };

struct graph_value {
    bool is_list;
    bool is_plain; /* not quoted: it may be a number or a boolean */
    size_t count;  /* 1 for a scalar */
    char **texts;
};

struct graph_entry {
    char *key;
    struct graph_value value;
    int line;     /* 0: from --set */
    bool derived; /* it follows from the machine: another run finds it anew, and the session does not keep it */
};

struct graph_section {
    char *name;
    int line;
    struct graph_entry *entries;
    size_t count;
};

struct graph_stage {
    struct graph_section section; /* section.name is the stage's name in the graph */

    /* The members below are filled by graph_check. */
    char *program;    /* absolute path */
    json_t *describe; /* NULL: the program has no --describe, and its keys are passed on unchecked */
    const char *kind; /* the program's own name ("lowpass-picker"), inside describe; section.name when there is none */
    size_t *from;     /* indices of the stages that feed it */
    size_t from_count;
    bool cumulative;
    bool wrong; /* some of its values are: the program is not asked about them */
    int replicas, lanes;
    int threads;      /* 0: the plan decides */
    char *on;         /* the name of a host, "cpu" or "gpu"; NULL: the plan decides */
    bool gpu_auto;    /* the instances take turns with the GPUs */
    int *gpus;        /* as in the graph */
    size_t gpu_count; /* 0: the CPU */
    char *device;     /* as in the graph; NULL: follows from gpu */
};

struct graph {
    char *folder;                /* folder of the file: relative paths are tried there first */
    struct graph_entry programs; /* programs that may be started besides our stages: absolute paths */
    struct graph_section session;
    struct graph_stage *stages;
    size_t stage_count;
    bool separate; /* items of several sources come together: products lie below STAGE/SOURCE/; from graph_check */
    bool begun;    /* this is the graph of a session that has begun: all files were there when it was first checked */
    int threads;   /* session.threads: cores that the session takes; 0: all */
    bool tcp;      /* session.transport */
    char ledger[LEDGER_URL_SIZE]; /* session.ledger; "": files */
    char listen[16];              /* session.listen, an IPv4 address; "": loopback */
    bool spread;                  /* hosts may join: session.hosts or session.control_port is given */
    int control_port;             /* session.control_port; 0: any that is free */
};

/* Parses a graph. `name` stands for the path in messages. Errors in the text go to problems, and there may still be a
 * graph of what could be understood; a status other than OK is a failure of the machine. */
enum status graph_parse(const char *name, const char *text, size_t length, struct problems *problems,
                        struct graph **ret_graph, struct err *err);
/* Reads and parses a file. */
enum status graph_read(const char *path, struct problems *problems, struct graph **ret_graph, struct err *err);
/* Frees a graph; accepts NULL. */
void graph_destroy(struct graph **graph);

/* Applies "STAGE.KEY=VALUE" or "session.KEY=VALUE": replaces or adds a value. Hyphens in KEY may stand for
 * underscores. */
enum status graph_set(struct graph *graph, const char *assignment, struct problems *problems, struct err *err);

/* Returns the stage of that name, or NULL. */
struct graph_stage *graph_find(const struct graph *graph, const char *name);
/* Returns the entry of a key, or NULL. */
struct graph_entry *graph_entry(const struct graph_section *section, const char *key);
/* Replaces a key's value with a scalar, or adds the key. */
enum status graph_put(struct graph_section *section, const char *key, const char *text, bool plain, struct err *err);
/* Replaces a key's value with a JSON scalar or list of scalars, or adds the key; null takes the key out. */
enum status graph_put_json(struct graph_section *section, const char *key, const json_t *value, struct err *err);
/* Returns the value as typed on a command line ("3,4"); the caller frees it; NULL: no memory. */
char *graph_value_text(const struct graph_value *value);
/* Returns the value as JSON: plain texts that are JSON numbers or true/false become those; all others strings. NULL: no
 * memory. */
json_t *graph_value_json(const struct graph_value *value);
/* Return the values for an instance file (JSON objects), without the keys that only the launcher reads. NULL: no
 * memory. */
json_t *graph_stage_params(const struct graph_stage *stage);
json_t *graph_session_params(const struct graph *graph);
bool graph_value_holds(const struct graph_value *value, const char *text); /* whether it is one of the texts */
/* Returns whether a text can name a stage, and so is never a path: letters, digits, - and _. */
bool graph_is_stage_name(const char *text);
/* Returns whether two values have the same texts. */
bool graph_value_equal(const struct graph_value *a, const struct graph_value *b);

#endif
