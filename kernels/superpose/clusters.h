/* Clusters the structures of an ensemble by the RMSDs of its pairs (kernels/superpose/superpose.h): by the size of
 * neighbourhoods, or by average linkage. Distances are the upper triangle row by row (superpose_at), in Å. When two are
 * equal the one with the lower index comes first, so that the result depends on the distances only. */
#ifndef ICESTREAM_KERNELS_SUPERPOSE_CLUSTERS_H
#define ICESTREAM_KERNELS_SUPERPOSE_CLUSTERS_H

#include "kernels/superpose/superpose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts as {0}; functions replace its contents. */
struct superpose_clusters {
    int structures, count;
    int32_t *cluster; /* [structures] from 0: cluster 0 is the largest, or the first that was taken */
    int32_t *centre;  /* [count] a structure */
    int32_t *size;    /* [count] */
};
/* Frees the lists, which become {0}. */
void superpose_clusters_clear(struct superpose_clusters *clusters);

/* Clusters by the largest neighbourhood: the structure with most neighbours below the cut-off becomes a centre and is
 * removed together with them; then the same with the rest (Shortle, Simons & Baker 1998). Sizes never rise from cluster
 * to cluster. Memory: 4 bytes for each of both directions of a pair below the cut-off. */
enum status superpose_cluster_neighbours(const struct superpose_neighbours *neighbours, int threads,
                                         struct superpose_clusters *clusters, struct err *err);
/* Does the same from a matrix of all distances, without lists. */
enum status superpose_cluster_matrix(const float *rmsd, int structures, float cutoff,
                                     struct superpose_clusters *clusters, struct err *err);

/* A merge of average linkage. first < second are the lowest structures of the two clusters; height is the average
 * distance between their members, and size the number of members after the merge. */
struct superpose_merge {
    int32_t first, second, size;
    float height;
};
/* Fills ret_merges[structures − 1], by rising height: the unweighted average of the distances between members (UPGMA).
 * Follows chains of nearest neighbours in O(N²) time (Murtagh 1983; Müllner 2011), with a copy of the distances. */
enum status superpose_linkage(const float *rmsd, int structures, struct superpose_merge *ret_merges, struct err *err);
/* Merges clusters up to the cut-off. The largest cluster comes first; when sizes are equal, the one with the lowest
 * structure. A centre has the least sum of distances to the members of its cluster. */
enum status superpose_cluster_average(const float *rmsd, int structures, float cutoff,
                                      struct superpose_clusters *clusters, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
