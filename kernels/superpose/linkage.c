/* Average linkage. A chain of clusters, each the nearest of the one before, ends in two that are nearest to each other:
 * these merge, which changes nothing in the rest of the chain, because their average distance to a third is never less
 * than the smaller of both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/superpose/clusters.h"

/* A cluster is named by its lowest structure. */
struct linkage {
    int n, merged;
    float *distance; /* upper triangle, between clusters */
    int32_t *size;   /* [n] 0: merged into another */
    int32_t *active; /* [n] clusters, rising; the first n − merged */
    int32_t *chain;  /* [n] */
    int length;      /* of the chain */
};

static float *between(struct linkage *l, int a, int b) {
    return l->distance + (a < b ? superpose_at(l->n, a, b) : superpose_at(l->n, b, a));
}

/* Returns the nearest other cluster; of equals `before`, if it is one of them, else the lowest. */
static int nearest(struct linkage *l, int a, int before) {
    int best = before;
    float least = before >= 0 ? *between(l, a, before) : INFINITY;
    for (int k = 0; k < l->n - l->merged; k++) {
        int b = l->active[k];
        if (b == a) continue;
        float d = *between(l, a, b);
        if (d < least || best < 0) {
            least = d;
            best = b;
        }
    }
    return best;
}

static void merge(struct linkage *l, int a, int b, struct superpose_merge *ret_merge) {
    int first = a < b ? a : b, second = a < b ? b : a;
    double of_first = l->size[first], of_second = l->size[second], all = of_first + of_second;
    *ret_merge = (struct superpose_merge){first, second, (int32_t)all, *between(l, a, b)};
    int kept = 0;
    for (int k = 0; k < l->n - l->merged; k++) {
        int c = l->active[k];
        if (c == second) continue;
        l->active[kept++] = c;
        if (c == first) continue;
        float *d = between(l, first, c);
        *d = (float)((of_first * *d + of_second * *between(l, second, c)) / all);
    }
    l->size[first] += l->size[second];
    l->size[second] = 0;
    l->merged++;
}

/* A height and when it was found. */
struct ranked {
    float height;
    int at;
};

static int by_height(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->height != y->height) return x->height < y->height ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static enum status sort(struct superpose_merge *merges, int count, struct err *err) {
    _cleanup_(mem_free) struct ranked *rank = NULL;
    _cleanup_(mem_free) struct superpose_merge *copy = NULL;
    TRY(mem_new((size_t)count + 1, sizeof *rank, "merges", &rank, err));
    TRY(mem_new((size_t)count + 1, sizeof *copy, "merges", &copy, err));
    for (int k = 0; k < count; k++)
        rank[k] = (struct ranked){merges[k].height, k};
    memcpy(copy, merges, (size_t)count * sizeof *copy);
    qsort(rank, (size_t)count, sizeof *rank, by_height);
    for (int k = 0; k < count; k++)
        merges[k] = copy[rank[k].at];
    return STATUS_OK;
}

static enum status build(struct linkage *l, const float *rmsd, struct err *err) {
    size_t pairs = superpose_pairs(l->n), n = (size_t)l->n;
    TRY(mem_new_unset(pairs + 1, sizeof *l->distance, "distances between clusters", &l->distance, err));
    memcpy(l->distance, rmsd, pairs * sizeof *rmsd);
    TRY(mem_new(n, sizeof *l->size, "clusters", &l->size, err));
    TRY(mem_new(n, sizeof *l->active, "clusters", &l->active, err));
    TRY(mem_new(n, sizeof *l->chain, "clusters", &l->chain, err));
    for (int k = 0; k < l->n; k++) {
        l->size[k] = 1;
        l->active[k] = k;
    }
    return STATUS_OK;
}

static void linkage_clear(struct linkage *l) {
    mem_free(&l->distance);
    mem_free(&l->size);
    mem_free(&l->active);
    mem_free(&l->chain);
}

enum status superpose_linkage(const float *rmsd, int structures, struct superpose_merge *ret_merges, struct err *err) {
    _cleanup_(linkage_clear) struct linkage l = {.n = structures};
    if (structures < 2) return STATUS_OK;
    TRY(build(&l, rmsd, err));
    while (l.merged < l.n - 1) {
        if (l.length == 0) l.chain[l.length++] = l.active[0];
        int last = l.chain[l.length - 1], before = l.length > 1 ? l.chain[l.length - 2] : -1;
        int next = nearest(&l, last, before);
        if (next != before) {
            l.chain[l.length++] = next;
            continue;
        }
        merge(&l, last, before, &ret_merges[l.merged]);
        l.length -= 2;
    }
    return sort(ret_merges, l.n - 1, err);
}

/* Members of clusters: the cluster named by `first` is a list. */
struct members {
    int32_t *next, *last; /* [n] of a structure, the next of its cluster or −1; of a cluster, its last */
    int32_t *size;        /* [n] of a cluster; 0: it was merged */
};

static void members_clear(struct members *m) {
    mem_free(&m->next);
    mem_free(&m->last);
    mem_free(&m->size);
}

static enum status join(const struct superpose_merge *merges, int n, float cutoff, struct members *m, struct err *err) {
    TRY(mem_new((size_t)n + 1, sizeof *m->next, "clusters", &m->next, err));
    TRY(mem_new((size_t)n + 1, sizeof *m->last, "clusters", &m->last, err));
    TRY(mem_new((size_t)n + 1, sizeof *m->size, "clusters", &m->size, err));
    for (int k = 0; k < n; k++) {
        m->next[k] = -1;
        m->last[k] = k;
        m->size[k] = 1;
    }
    for (int k = 0; k < n - 1 && merges[k].height < cutoff; k++) {
        int first = merges[k].first, second = merges[k].second;
        m->next[m->last[first]] = second;
        m->last[first] = m->last[second];
        m->size[first] += m->size[second];
        m->size[second] = 0;
    }
    return STATUS_OK;
}

/* Returns the member with the least sum of distances to the others; of equals the lowest. */
static int medoid(const float *rmsd, int n, const struct members *m, int first) {
    int best = first;
    double least = INFINITY;
    for (int a = first; a >= 0; a = m->next[a]) {
        double sum = 0;
        for (int b = first; b >= 0; b = m->next[b])
            if (a != b) sum += rmsd[a < b ? superpose_at(n, a, b) : superpose_at(n, b, a)];
        if (sum < least || (sum == least && a < best)) {
            least = sum;
            best = a;
        }
    }
    return best;
}

static int by_size(const void *a, const void *b) {
    const int32_t *x = a, *y = b; /* size, first structure */
    if (x[0] != y[0]) return x[0] > y[0] ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

static enum status name(const float *rmsd, int n, const struct members *m, struct superpose_clusters *c,
                        struct err *err) {
    _cleanup_(mem_free) int32_t *order = NULL;
    TRY(mem_new((size_t)n + 1, 2 * sizeof *order, "clusters", &order, err));
    TRY(mem_new((size_t)n + 1, sizeof *c->cluster, "clusters", &c->cluster, err));
    TRY(mem_new((size_t)n + 1, sizeof *c->centre, "clusters", &c->centre, err));
    TRY(mem_new((size_t)n + 1, sizeof *c->size, "clusters", &c->size, err));
    c->structures = n;
    for (int k = 0; k < n; k++) {
        if (m->size[k] == 0) continue;
        order[2 * c->count] = m->size[k];
        order[2 * c->count++ + 1] = k;
    }
    qsort(order, (size_t)c->count, 2 * sizeof *order, by_size);
    for (int k = 0; k < c->count; k++) {
        int first = order[2 * k + 1];
        c->size[k] = order[2 * k];
        c->centre[k] = medoid(rmsd, n, m, first);
        for (int a = first; a >= 0; a = m->next[a])
            c->cluster[a] = k;
    }
    return STATUS_OK;
}

enum status superpose_cluster_average(const float *rmsd, int structures, float cutoff,
                                      struct superpose_clusters *clusters, struct err *err) {
    _cleanup_(mem_free) struct superpose_merge *merges = NULL;
    _cleanup_(members_clear) struct members m = {0};
    FAIL_IF(!(cutoff > 0), err, STATUS_BAD_ARGUMENT, "the cut-off is %g Å; it must be more than 0", (double)cutoff);
    superpose_clusters_clear(clusters);
    TRY(mem_new((size_t)structures + 1, sizeof *merges, "merges", &merges, err));
    TRY(superpose_linkage(rmsd, structures, merges, err));
    TRY(join(merges, structures, cutoff, &m, err));
    enum status status = name(rmsd, structures, &m, clusters, err);
    if (status != STATUS_OK) superpose_clusters_clear(clusters);
    return status;
}
