#include "stages/superposer/superposer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

void superposer_init(struct superposer *s, const struct superposer_options *options, const struct device *device,
                     int threads) {
    *s = (struct superposer){
        .options = *options, .device = *device, .threads = threads, .memory = (size_t)options->memory << 20};
}

enum superpose_method superposer_method(const struct superposer *s) {
    static const enum superpose_method methods[] = {SUPERPOSE_JACOBI, SUPERPOSE_QCP, SUPERPOSE_KABSCH};
    return methods[s->options.method];
}

static void forget_matrix(struct superposer *s) {
    device_host_free(&s->device, &s->rmsd);
    s->rmsd_capacity = 0;
    s->solved = 0;
}

void superposer_clear(struct superposer *s) {
    for (int i = 0; i < s->count; i++)
        free(s->names[i]);
    for (int i = 0; i < s->file_count; i++)
        free(s->files[i].path);
    mem_free(&s->names);
    mem_free(&s->files);
    mem_free(&s->weights);
    mem_free(&s->waiting);
    forget_matrix(s);
    superpose_neighbours_clear(&s->neighbours);
    superpose_clusters_clear(&s->clusters);
    superpose_destroy(&s->plan);
}

/* Creates the plan: the first file says how many atoms there are, and their weights. */
static enum status begin(struct superposer *s, const struct ensemble_batch *batch, struct err *err) {
    FAIL_IF(batch->atoms > INT_MAX / 3, err, STATUS_UNSUPPORTED, "%s: %zu atoms are more than can be compared",
            batch->path, batch->atoms);
    s->atoms = (int)batch->atoms;
    if (batch->weights != NULL && s->weights == NULL) {
        TRY(mem_new(batch->atoms, sizeof *s->weights, "weights of atoms", &s->weights, err));
        memcpy(s->weights, batch->weights, batch->atoms * sizeof *s->weights);
    }
    struct superpose_options options = {
        .atoms = s->atoms,
        .weights = s->weights,
        .method = superposer_method(s),
        .device = s->device,
        .threads = s->threads,
        .memory = s->device.kind == DEVICE_CPU ? s->memory : 0,
    };
    return superpose_create(&options, &s->plan, err);
}

static enum status grow(struct superposer *s, int more, struct err *err) {
    FAIL_IF(more > INT_MAX / 2 - s->count, err, STATUS_UNSUPPORTED, "more than %d structures", INT_MAX / 2);
    if (s->count + more > s->name_capacity) {
        int capacity = s->count + more > 2 * s->name_capacity ? s->count + more : 2 * s->name_capacity;
        char **names = realloc(s->names, (size_t)capacity * sizeof *names);
        FAIL_IF(names == NULL, err, STATUS_NO_MEMORY, "no memory for the names of %d structures", capacity);
        s->names = names;
        s->name_capacity = capacity;
    }
    if (s->file_count == s->file_capacity) {
        int capacity = s->file_capacity > 0 ? 2 * s->file_capacity : 64;
        struct superposer_file *files = realloc(s->files, (size_t)capacity * sizeof *files);
        FAIL_IF(files == NULL, err, STATUS_NO_MEMORY, "no memory for the names of %d files", capacity);
        s->files = files;
        s->file_capacity = capacity;
    }
    return STATUS_OK;
}

/* Writes names behind those in use, into places that grow has made. They count only once the structures are added. */
static bool make_names(struct superposer *s, const struct ensemble_batch *batch) {
    char **names = s->names + s->count;
    char *path = strdup(batch->path);
    int made = 0;
    for (; path != NULL && made < batch->count; made++) {
        int length = batch->count == 1 ? asprintf(&names[made], "%s", batch->name)
                                       : asprintf(&names[made], "%s:%d", batch->name, batch->numbers[made]);
        if (length < 0) break;
    }
    s->files[s->file_count] = (struct superposer_file){.path = path, .begin = s->count, .count = made};
    return made == batch->count;
}

static void drop_names(struct superposer *s) {
    struct superposer_file *file = &s->files[s->file_count];
    for (int i = 0; i < file->count; i++)
        free(s->names[s->count + i]);
    mem_free(&file->path);
}

/* Hands the waiting structures to the plan. */
static enum status hand_over(struct superposer *s, struct err *err) {
    if (s->waiting_count > 0) TRY(superpose_add(s->plan, s->waiting, s->waiting_count, err));
    s->waiting_count = 0;
    return STATUS_OK;
}

static enum status make_room(struct superposer *s, size_t wanted, struct err *err) {
    if (wanted <= s->waiting_capacity) return STATUS_OK;
    size_t capacity = wanted > 2 * s->waiting_capacity ? wanted : 2 * s->waiting_capacity;
    float *waiting = realloc(s->waiting, capacity * 3 * (size_t)s->atoms * sizeof *waiting);
    FAIL_IF(waiting == NULL, err, STATUS_NO_MEMORY, "no memory for %zu structures of %d atoms", capacity, s->atoms);
    s->waiting = waiting;
    s->waiting_capacity = capacity;
    return STATUS_OK;
}

enum status superposer_add(struct superposer *s, const struct ensemble_batch *batch, struct err *err) {
    static const size_t most = (size_t)64 << 20; /* bytes of waiting structures */
    if (s->plan == NULL) TRY(begin(s, batch, err));
    size_t values = 3 * (size_t)s->atoms;
    if ((size_t)(s->waiting_count + batch->count) * values * sizeof(float) > most) TRY(hand_over(s, err));
    TRY(grow(s, batch->count, err));
    bool large = (size_t)batch->count * values * sizeof(float) > most; /* handed to the plan at once */
    enum status status = STATUS_OK;
    if (!large) TRY(make_room(s, (size_t)s->waiting_count + (size_t)batch->count, err));
    if (!make_names(s, batch))
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the names of structures");
    else if (large)
        status = superpose_add(s->plan, batch->xyz, batch->count, err);
    if (status != STATUS_OK) {
        drop_names(s);
        return status;
    }
    if (!large) {
        memcpy(s->waiting + (size_t)s->waiting_count * values, batch->xyz,
               (size_t)batch->count * values * sizeof(float));
        s->waiting_count += batch->count;
    }
    s->file_count++;
    s->count += batch->count;
    return STATUS_OK;
}

bool superposer_has_matrix(const struct superposer *s, int structures) {
    if (s->options.results != RESULTS_AUTO) return s->options.results != RESULTS_NEIGHBOURS;
    /* Average linkage works on a copy of the matrix. */
    size_t copies = s->options.clustering == CLUSTERING_AVERAGE ? 2 : 1;
    return copies * superpose_pairs(structures) * sizeof(float) <= s->memory;
}

bool superposer_has_neighbours(const struct superposer *s, int structures) {
    return s->options.results == RESULTS_NEIGHBOURS || s->options.results == RESULTS_BOTH ||
           !superposer_has_matrix(s, structures);
}

/* Makes room for n structures. Moves the rows solved so far to their places in the larger matrix, the last row first. */
static enum status widen(struct superposer *s, int n, struct err *err) {
    size_t pairs = superpose_pairs(n);
    if (pairs > s->rmsd_capacity) {
        /* A quarter more than needed, since more structures will come. */
        size_t capacity = s->solved > 0 ? pairs + pairs / 4 : pairs;
        float *rmsd = NULL;
        TRY(device_host_new(&s->device, capacity, sizeof *rmsd, "RMSDs of all pairs", &rmsd, err));
        if (s->solved > 1) memcpy(rmsd, s->rmsd, superpose_pairs(s->solved) * sizeof *rmsd);
        device_host_free(&s->device, &s->rmsd);
        s->rmsd = rmsd;
        s->rmsd_capacity = capacity;
    }
    for (int i = s->solved - 2; i > 0; i--)
        memmove(s->rmsd + superpose_at(n, i, i + 1), s->rmsd + superpose_at(s->solved, i, i + 1),
                (size_t)(s->solved - 1 - i) * sizeof *s->rmsd);
    return STATUS_OK;
}

static enum status add_rows(struct superposer *s, int n, struct err *err) {
    _cleanup_(mem_free) float *row = NULL;
    TRY(mem_new_unset((size_t)n, sizeof *row, "a row of RMSDs", &row, err));
    int from = s->solved;
    TRY(widen(s, n, err));
    /* If a row fails, the matrix already has its new layout, and its values must not be used any more. */
    s->solved = 0;
    for (int j = from; j < n; j++) {
        TRY(superpose_row(s->plan, j, row, err));
        for (int i = 0; i < j; i++)
            s->rmsd[superpose_at(n, i, j)] = row[i];
    }
    s->solved = n;
    return STATUS_OK;
}

static enum status solve_matrix(struct superposer *s, bool final, struct err *err) {
    int n = s->count;
    /* Many new structures are computed faster together with all others, as one product. */
    bool whole = final || s->solved < 2 || n - s->solved > n / 4;
    if (!whole) return s->solved < n ? add_rows(s, n, err) : STATUS_OK;
    s->solved = 0;
    TRY(widen(s, n, err));
    TRY(superpose_matrix(s->plan, s->rmsd, err));
    s->solved = n;
    return STATUS_OK;
}

static enum status cluster(struct superposer *s, bool matrix, struct err *err) {
    float cutoff = (float)s->options.cutoff;
    if (s->options.clustering == CLUSTERING_NEIGHBOURS)
        return matrix ? superpose_cluster_matrix(s->rmsd, s->count, cutoff, &s->clusters, err)
                      : superpose_cluster_neighbours(&s->neighbours, s->threads, &s->clusters, err);
    FAIL_IF(
        !matrix, err, STATUS_BAD_ARGUMENT,
        "clustering: average needs the RMSDs of all pairs, and those of %d structures take 2 × %zu MiB: set memory to "
        "more than that, or choose clustering: neighbours",
        s->count, (superpose_pairs(s->count) * sizeof(float) >> 20) + 1);
    return superpose_cluster_average(s->rmsd, s->count, cutoff, &s->clusters, err);
}

enum status superposer_solve(struct superposer *s, bool final, struct err *err) {
    bool matrix = superposer_has_matrix(s, s->count);
    TRY(hand_over(s, err));
    if (matrix)
        TRY(solve_matrix(s, final, err));
    else
        forget_matrix(s);
    /* The lists may take half of the memory: clustering needs about as much as the lists themselves. */
    if (superposer_has_neighbours(s, s->count)) {
        struct err why = {0};
        enum status status =
            superpose_neighbours(s->plan, (float)s->options.cutoff, s->memory / 2, &s->neighbours, &why);
        FAIL_IF(status == STATUS_NO_MEMORY, err, STATUS_BAD_ARGUMENT,
                "the neighbours below %g Å of %d structures do not fit into %zu MiB (%s): lower cutoff, or set memory "
                "to more",
                s->options.cutoff, s->count, s->memory >> 20, why.message);
        if (status != STATUS_OK) {
            if (err != NULL) *err = why;
            return status;
        }
    }
    return cluster(s, matrix, err);
}
