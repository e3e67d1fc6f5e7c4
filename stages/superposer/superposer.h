/* The ensemble so far: RMSDs of its pairs, kept up to date, and its clusters. One thread. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_SUPERPOSER_H
#define ICESTREAM_STAGES_SUPERPOSER_SUPERPOSER_H

#include "kernels/superpose/clusters.h"
#include "kernels/superpose/superpose.h"
#include "stages/superposer/ensemble.h"

enum superposer_results { RESULTS_AUTO, RESULTS_MATRIX, RESULTS_NEIGHBOURS, RESULTS_BOTH };
#define SUPERPOSER_RESULTS_CHOICES "auto|matrix|neighbours|both"
enum superposer_clustering { CLUSTERING_NEIGHBOURS, CLUSTERING_AVERAGE };
#define SUPERPOSER_CLUSTERING_CHOICES "neighbours|average"

struct superposer_options {
    enum superposer_results results; /* AUTO: the matrix where it fits into memory, else neighbours */
    enum superposer_clustering clustering;
    enum superpose_method method;
    double cutoff; /* Å */
    struct device device;
    int threads;
    size_t memory; /* bytes */
};

struct superposer_file {
    char *path;
    int begin, count; /* its structures */
};

struct superposer {
    struct superposer_options options;
    struct superpose *plan; /* NULL before the first structure */
    int atoms, count;
    float *waiting; /* [waiting_count][atoms][3]: the last of them, which the plan has not got yet */
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

void superposer_init(struct superposer *s, const struct superposer_options *options);
void superposer_clear(struct superposer *s);
/* Adds a file's structures, all or (when it fails) none. They are compared only when results are asked for, and handed
 * to the plan many at a time. */
enum status superposer_add(struct superposer *s, const struct ensemble_batch *batch, struct err *err);
/* Whether the matrix of so many structures is to be kept. */
bool superposer_has_matrix(const struct superposer *s, int structures);
bool superposer_has_neighbours(const struct superposer *s, int structures);

/* RMSDs and clusters of all structures that were added. Not final: what was solved before stays, and a new structure
 * costs a row. Final: all is computed in one go, so that the numbers do not depend, to the last bit, on when they came.
 * At least two structures. */
enum status superposer_solve(struct superposer *s, bool final, struct err *err);

#endif
