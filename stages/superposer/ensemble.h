/* Reads the structures of an ensemble as they arrive. Any thread reads a file as a whole and submits it to a queue; the
 * one thread that computes takes files in that order. The topology, or else the first file, determines the atoms; a
 * file with other atoms is refused as a whole, and the error names the first difference. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_ENSEMBLE_H
#define ICESTREAM_STAGES_SUPERPOSER_ENSEMBLE_H

#include "common/formats/structure.h"

enum ensemble_weights { WEIGHTS_NONE, WEIGHTS_MASS, WEIGHTS_OCCUPANCY, WEIGHTS_B_FACTOR };
#define ENSEMBLE_WEIGHTS_CHOICES "none|mass|occupancy|b_factor"

/* The way files are read; constant once made. */
struct ensemble_rules {
    struct structure_selection selection;
    enum ensemble_weights weights;
    const char *topology_path; /* NULL: none */
    struct structure_model topology;
};
/* Reads the atoms of DCD files from the first structure of another file. The path must outlive the rules. */
enum status ensemble_rules_topology(struct ensemble_rules *rules, const char *path, struct err *err);
void ensemble_rules_clear(struct ensemble_rules *rules);

/* A structure read again from its file, and its selected atoms. */
struct ensemble_view {
    const struct structure_model *model; /* as in the file, with all its atoms */
    const size_t *indices;               /* of the selected ones */
    size_t atoms;
    float *xyz;       /* [atoms][3] of the selected ones */
    int64_t expected; /* structures of the file, 0: unknown */
};
typedef enum status ensemble_visit(int ordinal, const struct ensemble_view *view, const char *name, void *context,
                                   struct err *err);
/* Visits all structures of a file in turn. The visit's `name` (path and number) is for messages. */
enum status ensemble_walk(const struct ensemble_rules *rules, const char *path, ensemble_visit *visit, void *context,
                          struct err *err);

/* The structures of a file. */
struct ensemble_batch {
    char *path, *name; /* name: the item's id */
    size_t atoms;
    struct structure_identity *identities; /* [atoms] */
    float *weights;                        /* [atoms], NULL: none */
    int count, capacity;
    int *numbers; /* [count] of the structures, as in the file; from 1 on if those do not rise */
    float *xyz;   /* [count][atoms][3] */
    struct ensemble_batch *next;
};
/* Reads the selected atoms of all structures of a file. */
enum status ensemble_batch_read(const struct ensemble_rules *rules, const char *path, const char *name,
                                struct ensemble_batch **ret_batch, struct err *err);
void ensemble_batch_destroy(struct ensemble_batch **batch);

struct ensemble;
/* Creates an empty queue. All structures must have the atoms that rules->topology selects, if there is a topology. */
enum status ensemble_create(const struct ensemble_rules *rules, struct ensemble **ret_ensemble, struct err *err);
void ensemble_destroy(struct ensemble **ensemble);
/* Takes ownership of the batch and sets *batch to NULL; on failure the caller keeps the batch. Any thread. */
enum status ensemble_submit(struct ensemble *ensemble, struct ensemble_batch **batch, struct err *err);
/* Returns the next batch of the queue, which the caller then owns; NULL: none. */
struct ensemble_batch *ensemble_next(struct ensemble *ensemble);
/* Puts back a batch that could not be used now: it is the next one again. */
void ensemble_put_back(struct ensemble *ensemble, struct ensemble_batch *batch);

#endif
