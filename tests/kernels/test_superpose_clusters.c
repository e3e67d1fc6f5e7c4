/* Compares clusters of random distances, with many ties, with the simplest algorithm that finds them.
 * test_superpose_clusters [SEED]. */
#include "tests/kernels/seed.h"
#include "tests/kernels/superpose_cases.h"

#include "kernels/superpose/clusters.h"

/* Returns random distances with `steps` different values. Few steps give many ties. */
static float *random_distances(int n, int steps) {
    size_t pairs = superpose_pairs(n);
    float *rmsd = host_new(pairs, sizeof *rmsd);
    for (size_t k = 0; k < pairs; k++)
        rmsd[k] = (float)(1 + (int)(uniform() * steps)) / (float)steps;
    return rmsd;
}

/* Returns distances of points in a plane that form clusters. */
static float *distances_of_points(int n) {
    float *rmsd = host_new(superpose_pairs(n), sizeof *rmsd), *x = host_new(2 * (size_t)n, sizeof *x);
    for (int k = 0; k < n; k++)
        for (int a = 0; a < 2; a++)
            x[2 * k + a] = (float)(3 * (int)(uniform() * 4) + 0.5 * normal());
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            rmsd[superpose_at(n, i, j)] = hypotf(x[2 * i] - x[2 * j], x[2 * i + 1] - x[2 * j + 1]);
    free(x);
    return rmsd;
}

static double between(const float *rmsd, int n, int i, int j) {
    return i == j ? 0 : rmsd[i < j ? superpose_at(n, i, j) : superpose_at(n, j, i)];
}

static void check_neighbourhoods(const float *rmsd, int n, float cutoff, const struct superpose_clusters *c) {
    int *cluster = host_new((size_t)n, sizeof *cluster), found = 0;
    for (int k = 0; k < n; k++)
        cluster[k] = -1;
    for (;; found++) {
        int best = -1, most = -1;
        for (int i = 0; i < n; i++) {
            if (cluster[i] >= 0) continue;
            int size = 0;
            for (int j = 0; j < n; j++)
                size += cluster[j] < 0 && (i == j || between(rmsd, n, i, j) < cutoff);
            if (size > most) {
                most = size;
                best = i;
            }
        }
        if (best < 0) break;
        for (int j = 0; j < n; j++)
            if (cluster[j] < 0 && (j == best || between(rmsd, n, best, j) < cutoff)) cluster[j] = found;
        assert_true(found < c->count);
        assert_int_equal(c->centre[found], best);
        assert_int_equal(c->size[found], most);
    }
    assert_int_equal(c->count, found);
    assert_int_equal(c->structures, n);
    for (int k = 0; k < n; k++)
        assert_int_equal(c->cluster[k], cluster[k]);
    free(cluster);
}

static void lists_of(const float *rmsd, int n, float cutoff, struct superpose_neighbours *lists) {
    lists->count = n;
    lists->starts = host_new((size_t)n + 1, sizeof *lists->starts);
    lists->index = host_new(superpose_pairs(n), sizeof *lists->index);
    lists->rmsd = host_new(superpose_pairs(n), sizeof *lists->rmsd);
    for (int i = 0; i < n; i++) {
        lists->starts[i + 1] = lists->starts[i];
        for (int j = i + 1; j < n; j++)
            if (between(rmsd, n, i, j) < cutoff) {
                lists->index[lists->starts[i + 1]] = j;
                lists->rmsd[lists->starts[i + 1]++] = (float)between(rmsd, n, i, j);
            }
    }
}

static void neighbourhoods(void **state) {
    (void)state;
    struct err err = {0};
    const int sizes[] = {1, 2, 3, 30, 120, 600};
    const float cutoffs[] = {0.01f, 0.3f, 1, 2, 100};
    struct superpose_clusters clusters = {0};
    for (size_t s = 0; s < 6; s++)
        for (size_t c = 0; c < 5; c++) {
            float *rmsd = c % 2 ? random_distances(sizes[s], 20) : distances_of_points(sizes[s]);
            struct superpose_neighbours lists = {0};
            must(superpose_cluster_matrix(rmsd, sizes[s], cutoffs[c], &clusters, &err), &err);
            check_neighbourhoods(rmsd, sizes[s], cutoffs[c], &clusters);
            lists_of(rmsd, sizes[s], cutoffs[c], &lists);
            for (int threads = 1; threads <= 7; threads += 3) {
                must(superpose_cluster_neighbours(&lists, threads, &clusters, &err), &err);
                check_neighbourhoods(rmsd, sizes[s], cutoffs[c], &clusters);
            }
            superpose_neighbours_clear(&lists);
            free(rmsd);
        }
    superpose_clusters_clear(&clusters);
}

/* Returns the mean distance between the members of two clusters. */
static double average(const float *rmsd, int n, const int *cluster, int a, int b) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (cluster[i] == a && cluster[j] == b) {
                sum += between(rmsd, n, i, j);
                count++;
            }
    return sum / count;
}

/* Each merge joins the two nearest clusters, by the mean distance of all their members. */
static void linkage(void **state) {
    (void)state;
    struct err err = {0};
    const int sizes[] = {2, 3, 10, 40};
    for (size_t s = 0; s < 4; s++)
        for (int round = 0; round < 3; round++) {
            int n = sizes[s], cluster[40];
            struct superpose_merge merges[40];
            float *rmsd = round == 0 ? distances_of_points(n) : random_distances(n, round == 1 ? 3 : 1 << 20);
            must(superpose_linkage(rmsd, n, merges, &err), &err);
            for (int k = 0; k < n; k++)
                cluster[k] = k;
            for (int k = 0; k < n - 1; k++) {
                int first = merges[k].first, second = merges[k].second, size = 0;
                assert_true(first < second && cluster[first] == first && cluster[second] == second);
                double height = average(rmsd, n, cluster, first, second), least = INFINITY;
                for (int a = 0; a < n; a++)
                    for (int b = a + 1; b < n; b++)
                        if (cluster[a] == a && cluster[b] == b) least = fmin(least, average(rmsd, n, cluster, a, b));
                assert_true(fabs(height - merges[k].height) < 1e-5);
                assert_true(height < least + 1e-5);
                assert_true(k == 0 || merges[k].height >= merges[k - 1].height);
                for (int i = 0; i < n; i++) {
                    if (cluster[i] == second) cluster[i] = first;
                    size += cluster[i] == first;
                }
                assert_int_equal(merges[k].size, size);
            }
            free(rmsd);
        }
}

static void clusters_by_average(void **state) {
    (void)state;
    struct err err = {0};
    enum { COUNT = 150 };
    struct superpose_clusters c = {0};
    for (int round = 0; round < 20; round++) {
        int n = round == 0 ? 1 : COUNT;
        /* Every second round uses distances in quarters: their sums are exact and often equal. */
        float *rmsd = round % 2 ? random_distances(n, 4) : distances_of_points(n);
        float cutoff = round == 1 ? 1e-6f : round == 2 ? 1e6f : round % 2 ? 0.6f : 1.5f;
        must(superpose_cluster_average(rmsd, n, cutoff, &c, &err), &err);
        assert_true(c.structures == n && c.count >= 1 && (round != 1 || c.count == n) && (round != 2 || c.count == 1));
        for (int k = 0; k < c.count; k++) {
            int size = 0, first = -1, before = -1, lowest = -1;
            double least = INFINITY, of_centre = 0;
            for (int i = 0; i < n; i++) {
                if (k > 0 && c.cluster[i] == k - 1 && before < 0) before = i;
                if (c.cluster[i] != k) continue;
                double sum = 0;
                for (int j = 0; j < n; j++)
                    sum += c.cluster[j] == k ? between(rmsd, n, i, j) : 0;
                if (first < 0) first = i;
                size++;
                if (sum < least) lowest = i;
                least = fmin(least, sum);
                if (i == c.centre[k]) of_centre = sum;
            }
            assert_int_equal(c.size[k], size);
            assert_int_equal(c.cluster[c.centre[k]], k);
            assert_true(of_centre <= least + 1e-9);
            if (round % 2) assert_int_equal(c.centre[k], lowest);
            assert_true(k == 0 || c.size[k - 1] > size || (c.size[k - 1] == size && before < first));
            /* The remaining clusters are too far apart to merge. */
            for (int l = k + 1; l < c.count; l++)
                assert_true(average(rmsd, n, c.cluster, k, l) > cutoff - 1e-5);
        }
        free(rmsd);
    }
    assert_int_equal(superpose_cluster_average(NULL, 0, 1, &c, &err), STATUS_OK);
    assert_int_equal(c.count, 0);
    assert_int_equal(superpose_cluster_average(NULL, 0, 0, &c, &err), STATUS_BAD_ARGUMENT);
    superpose_clusters_clear(&c);
}

int main(int argc, char **argv) {
    seed = chosen_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(neighbourhoods), cmocka_unit_test(linkage),
                                       cmocka_unit_test(clusters_by_average)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
