/* Keeps the RMSDs of all pairs of a growing ensemble up to date, and its clusters. One thread. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_SUPERPOSER_H
#define ICESTREAM_STAGES_SUPERPOSER_SUPERPOSER_H

#include "kernels/superpose/clusters.h"
#include "kernels/superpose/superpose.h"
#include "stages/superposer/ensemble.h"

struct stage_descriptor;

enum superposer_results { RESULTS_AUTO, RESULTS_MATRIX, RESULTS_NEIGHBOURS, RESULTS_BOTH };
#define SUPERPOSER_RESULTS_CHOICES "auto|matrix|neighbours|both"
enum superposer_clustering { CLUSTERING_NEIGHBOURS, CLUSTERING_AVERAGE };
#define SUPERPOSER_CLUSTERING_CHOICES "neighbours|average"
enum superposer_method { METHOD_JACOBI, METHOD_QCP, METHOD_KABSCH };
#define SUPERPOSER_METHOD_CHOICES "jacobi|qcp|kabsch"
enum fitted_format { FITTED_NONE, FITTED_PDB, FITTED_DCD, FITTED_NPY };
#define FITTED_FORMAT_CHOICES "none|pdb|dcd|npy"

/* The options that a user sets (parameters.c). NULL: not set. */
struct superposer_options {
    char *topology, *chain, *residues, *reference;
    enum structure_what select;
    enum ensemble_weights weights;
    enum superposer_clustering clustering;
    enum superposer_method method;
    enum superposer_results results; /* AUTO: the matrix if it fits into memory, else neighbours */
    enum fitted_format superposed;
    int centres;              /* clusters whose centres are written */
    int memory;               /* MiB */
    double cutoff;            /* Å */
    double snapshot_interval; /* s */
    bool rotations;
};

struct superposer_file {
    char *path;
    int begin, count; /* its structures */
};

struct superposer {
    struct superposer_options options;
    struct device device;
    int threads;
    size_t memory;          /* bytes */
    struct superpose *plan; /* NULL before the first structure */
    int atoms, count;
    float *waiting; /* [waiting_count][atoms][3]: the last structures, not handed to the plan yet */
    int waiting_count;
    size_t waiting_capacity; /* structures */
    float *weights;          /* [atoms] or NULL */
    char **names;            /* [count] "ID", or "ID:NUMBER" where a file holds several */
    int name_capacity;
    struct superposer_file *files;
    int file_count, file_capacity;

    float *rmsd; /* upper triangle of the first `solved` structures; memory of device_host_new */
    int solved;
    size_t rmsd_capacity;
    struct superpose_neighbours neighbours;
    struct superpose_clusters clusters;
};

/* Copies the options; their texts stay the caller's and must outlive the superposer. threads: at least 1. */
void superposer_init(struct superposer *s, const struct superposer_options *options, const struct device *device,
                     int threads);
void superposer_clear(struct superposer *s);
/* Adds the structures of a file: all of them, or none if the call fails. They are handed to the plan many at a time,
 * and compared only when results are asked for. */
enum status superposer_add(struct superposer *s, const struct ensemble_batch *batch, struct err *err);
/* Returns whether the matrix of so many structures is kept. */
bool superposer_has_matrix(const struct superposer *s, int structures);
/* Returns whether the neighbours of so many structures are kept. */
bool superposer_has_neighbours(const struct superposer *s, int structures);
/* Returns the kernel's name of the user's method. */
enum superpose_method superposer_method(const struct superposer *s);

/* Computes RMSDs and clusters of all structures added so far, at least two. Not final: keeps what was solved before, so
 * that a new structure costs a row. Final: computes everything in one go, so that the numbers do not depend, to the
 * last bit, on when structures came. */
enum status superposer_solve(struct superposer *s, bool final, struct err *err);

/* The stage as main.c and the tests run it (stage.c). */
extern const struct stage_descriptor superposer_stage;

#endif
