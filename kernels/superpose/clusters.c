/* Clusters by the size of neighbourhoods. */
#include "kernels/superpose/clusters.h"

#include <string.h>

#include "common/memory.h"

/* The largest count of each block of so many structures is remembered, and searched again only if one of them fell. */
enum { BLOCK = 512 };

void superpose_clusters_clear(struct superpose_clusters *clusters) {
    mem_free(&clusters->cluster);
    mem_free(&clusters->centre);
    mem_free(&clusters->size);
    *clusters = (struct superpose_clusters){0};
}

/* Neighbours of all structures, in both directions, and how many of each are left. */
struct graph {
    int n, blocks;
    size_t *starts; /* [n + 1] */
    int32_t *index;
    int32_t *degree; /* [n] −1: the structure is in a cluster */
    int32_t *most;   /* [blocks] at least the largest degree */
};

static void graph_clear(struct graph *g) {
    mem_free(&g->starts);
    mem_free(&g->index);
    mem_free(&g->degree);
    mem_free(&g->most);
}

/* Makes room for structures whose degrees will be counted, then for their neighbours. */
static enum status graph_begin(struct graph *g, int n, struct err *err) {
    g->n = n;
    g->blocks = (n + BLOCK - 1) / BLOCK;
    TRY(mem_new((size_t)n + 1, sizeof *g->starts, "neighbours", &g->starts, err));
    TRY(mem_new((size_t)n + 1, sizeof *g->degree, "neighbours", &g->degree, err));
    return mem_new((size_t)g->blocks + 1, sizeof *g->most, "neighbours", &g->most, err);
}

static enum status graph_room(struct graph *g, struct err *err) {
    for (int i = 0; i < g->n; i++)
        g->starts[i + 1] = g->starts[i] + (size_t)g->degree[i];
    return mem_new_unset(g->starts[g->n] + 1, sizeof *g->index, "neighbours", &g->index, err);
}

/* Returns where the entries of row i from structure `first` on begin. */
static size_t find_from(const struct superpose_neighbours *lists, int i, int first) {
    size_t low = lists->starts[i], high = lists->starts[i + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lists->index[middle] < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Counts the neighbours of structures first ≤ j < end. If at is not NULL, writes them one behind the other from at[j]
 * on: first those before j, as their rows are read, then j's own row. */
static void gather(const struct superpose_neighbours *lists, int first, int end, struct graph *g, size_t *at) {
    for (int i = 0; i < end; i++) {
        if (i >= first) {
            size_t begin = lists->starts[i], count = lists->starts[i + 1] - begin;
            if (at)
                memcpy(g->index + at[i], lists->index + begin, count * sizeof *g->index);
            else
                g->degree[i] += (int32_t)count;
        }
        for (size_t k = find_from(lists, i, first); k < lists->starts[i + 1] && lists->index[k] < end; k++) {
            int j = lists->index[k];
            if (at)
                g->index[at[j]++] = i;
            else
                g->degree[j]++;
        }
    }
}

/* Each thread gathers for structures of its own. */
static void gather_all(const struct superpose_neighbours *lists, int threads, struct graph *g, size_t *at) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++)
        gather(lists, (int)((int64_t)g->n * t / threads), (int)((int64_t)g->n * (t + 1) / threads), g, at);
}

static enum status graph_of_lists(const struct superpose_neighbours *lists, int threads, struct graph *g,
                                  struct err *err) {
    _cleanup_(mem_free) size_t *at = NULL;
    TRY(graph_begin(g, lists->count, err));
    gather_all(lists, threads, g, NULL);
    TRY(graph_room(g, err));
    TRY(mem_new((size_t)g->n + 1, sizeof *at, "neighbours", &at, err));
    memcpy(at, g->starts, (size_t)g->n * sizeof *at);
    gather_all(lists, threads, g, at);
    return STATUS_OK;
}

static void graph_link(struct graph *g, size_t *at, int i, int j) {
    g->index[at[i]++] = j;
    g->index[at[j]++] = i;
}

static enum status graph_of_matrix(const float *rmsd, int n, float cutoff, struct graph *g, struct err *err) {
    _cleanup_(mem_free) size_t *at = NULL;
    TRY(graph_begin(g, n, err));
    size_t pair = 0;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++, pair++) {
            int below = rmsd[pair] < cutoff;
            g->degree[i] += below;
            g->degree[j] += below;
        }
    TRY(graph_room(g, err));
    TRY(mem_new((size_t)n + 1, sizeof *at, "neighbours", &at, err));
    memcpy(at, g->starts, (size_t)n * sizeof *at);
    pair = 0;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++, pair++)
            if (rmsd[pair] < cutoff) graph_link(g, at, i, j);
    return STATUS_OK;
}

static int32_t block_most(const struct graph *g, int block) {
    int end = (block + 1) * BLOCK < g->n ? (block + 1) * BLOCK : g->n;
    int32_t most = -1;
    for (int i = block * BLOCK; i < end; i++)
        most = g->degree[i] > most ? g->degree[i] : most;
    return most;
}

/* Returns the structure with most neighbours left, of equals the first; −1 if none is left. The remembered count of a
 * block is never too small, so only blocks that could hold the largest are searched. */
static int largest(struct graph *g) {
    for (;;) {
        int best = 0;
        for (int b = 1; b < g->blocks; b++)
            if (g->most[b] > g->most[best]) best = b;
        int32_t most = block_most(g, best);
        if (most != g->most[best]) {
            g->most[best] = most;
            continue;
        }
        if (most < 0) return -1;
        int i = best * BLOCK;
        while (g->degree[i] != most)
            i++;
        return i;
    }
}

static void take_out(struct graph *g, int i, int cluster, struct superpose_clusters *c) {
    c->cluster[i] = cluster;
    c->size[cluster]++;
    g->degree[i] = -1;
}

static enum status cluster_graph(struct graph *g, struct superpose_clusters *c, struct err *err) {
    size_t n = (size_t)g->n;
    c->structures = g->n;
    TRY(mem_new(n + 1, sizeof *c->cluster, "clusters", &c->cluster, err));
    TRY(mem_new(n + 1, sizeof *c->centre, "clusters", &c->centre, err));
    TRY(mem_new(n + 1, sizeof *c->size, "clusters", &c->size, err));
    for (int b = 0; b < g->blocks; b++)
        g->most[b] = block_most(g, b);
    for (int centre = n > 0 ? largest(g) : -1; centre >= 0; centre = largest(g)) {
        int cluster = c->count++;
        c->centre[cluster] = centre;
        /* First all members leave, then the remaining structures lose them as neighbours: no member is counted down by
         * another. */
        size_t begin = g->starts[centre], end = g->starts[centre + 1];
        take_out(g, centre, cluster, c);
        for (size_t k = begin; k < end; k++)
            if (g->degree[g->index[k]] >= 0) take_out(g, g->index[k], cluster, c);
        for (size_t k = begin; k < end; k++) {
            int member = g->index[k];
            if (c->cluster[member] != cluster) continue;
            for (size_t l = g->starts[member]; l < g->starts[member + 1]; l++)
                if (g->degree[g->index[l]] >= 0) g->degree[g->index[l]]--;
        }
    }
    return STATUS_OK;
}

static enum status cluster(struct graph *g, struct superpose_clusters *clusters, struct err *err) {
    enum status status = cluster_graph(g, clusters, err);
    if (status != STATUS_OK) superpose_clusters_clear(clusters);
    return status;
}

enum status superpose_cluster_neighbours(const struct superpose_neighbours *neighbours, int threads,
                                         struct superpose_clusters *clusters, struct err *err) {
    _cleanup_(graph_clear) struct graph g = {0};
    superpose_clusters_clear(clusters);
    TRY(graph_of_lists(neighbours, threads > 1 ? threads : 1, &g, err));
    return cluster(&g, clusters, err);
}

enum status superpose_cluster_matrix(const float *rmsd, int structures, float cutoff,
                                     struct superpose_clusters *clusters, struct err *err) {
    _cleanup_(graph_clear) struct graph g = {0};
    FAIL_IF(!(cutoff > 0), err, STATUS_BAD_ARGUMENT, "the cut-off is %g Å; it must be more than 0", (double)cutoff);
    superpose_clusters_clear(clusters);
    TRY(graph_of_matrix(rmsd, structures, cutoff, &g, err));
    return cluster(&g, clusters, err);
}
