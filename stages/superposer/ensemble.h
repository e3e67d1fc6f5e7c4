/* The structures of an ensemble as they come in: a file is read as a whole (any thread), taken into the line (any
 * thread), and handed out in that order to the one thread that computes. Which atoms count is settled by the topology,
 * or else by the first file; a file of other atoms is refused as a whole, with the first difference. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_ENSEMBLE_H
#define ICESTREAM_STAGES_SUPERPOSER_ENSEMBLE_H

#include "common/formats/structure.h"

enum ensemble_weights { WEIGHTS_NONE, WEIGHTS_MASS, WEIGHTS_OCCUPANCY, WEIGHTS_B_FACTOR };
#define ENSEMBLE_WEIGHTS_CHOICES "none|mass|occupancy|b_factor"

/* How files are read; constant once it is made. */
struct ensemble_rules {
    struct structure_selection selection;
    enum ensemble_weights weights;
    const char *topology_path; /* NULL: none */
    struct structure_model topology;
};
enum status ensemble_rules_topology(struct ensemble_rules *rules, const char *path, struct err *err);
void ensemble_rules_clear(struct ensemble_rules *rules);

/* The selected atoms of a structure, from its file again. */
struct ensemble_view {
    const struct structure_model *model; /* as in the file, with all its atoms */
    const size_t *indices;               /* of the selected ones */
    size_t atoms;
    float *xyz;       /* [atoms][3] of the selected ones */
    int64_t expected; /* structures of the file, 0: unknown */
};
typedef enum status ensemble_visit(int ordinal, const struct ensemble_view *view, const char *name, void *context,
                                   struct err *err);
/* All structures of a file in turn; `name` of the visit is for messages: path and number. */
enum status ensemble_walk(const struct ensemble_rules *rules, const char *path, ensemble_visit *visit, void *context,
                          struct err *err);

/* What a file held. */
struct ensemble_batch {
    char *path, *name; /* name: the item's id */
    size_t atoms;
    struct structure_identity *identities; /* [atoms] */
    float *weights;                        /* [atoms], NULL: none */
    int count, capacity;
    int *numbers; /* [count] of the structures, as the file has them, or from 1 where that is not in rising order */
    float *xyz;   /* [count][atoms][3] */
    struct ensemble_batch *next;
};
enum status ensemble_batch_read(const struct ensemble_rules *rules, const char *path, const char *name,
                                struct ensemble_batch **ret_batch, struct err *err);
void ensemble_batch_destroy(struct ensemble_batch **batch);

struct ensemble;
enum status ensemble_create(const struct ensemble_rules *rules, struct ensemble **ret_ensemble, struct err *err);
void ensemble_destroy(struct ensemble **ensemble);
/* Takes the batch over and nulls it, or refuses it. Any thread. */
enum status ensemble_submit(struct ensemble *ensemble, struct ensemble_batch **batch, struct err *err);
/* The next in line, the caller's from now on; NULL: none. */
struct ensemble_batch *ensemble_next(struct ensemble *ensemble);
/* It could not be used now: it is the next one again. */
void ensemble_put_back(struct ensemble *ensemble, struct ensemble_batch *batch);

#endif
