/* Superposes an ensemble on the CPU: its panels, and loops over them. Threads share out groups of panels, each with all
 * panels behind it, so that a panel loaded once serves a whole group from the second-level cache. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/superpose/superpose_private.h"
#include "kernels/superpose/tile_cpu.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

enum { GROUP = 8 }; /* panels */

struct superpose_cpu {
    struct superpose_options options;
    const float *roots; /* of the ensemble's */
    double total;
    int count, capacity; /* structures; capacity is whole panels */
    float *panels;
    double *norms;    /* [capacity] */
    float *reference; /* a panel, of which the first lane is used */
    float *slabs;     /* neighbours: per thread the rows of a group */
    size_t slab_floats;
};

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static size_t panel_floats(const struct superpose_cpu *s) {
    return (size_t)s->options.atoms * 3 * SUPERPOSE_LANES;
}

static void destroy(void *state) {
    struct superpose_cpu *s = state;
    mem_free(&s->panels);
    mem_free(&s->norms);
    mem_free(&s->reference);
    mem_free(&s->slabs);
    mem_free(&s);
}

static enum status create(const struct superpose_options *options, enum superpose_product product, const float *roots,
                          double total, void **ret_state, struct err *err) {
    (void)product;
    struct superpose_cpu *s = NULL;
    TRY(mem_new(1, sizeof *s, "an ensemble", &s, err));
    s->options = *options;
    s->roots = roots;
    s->total = total;
    enum status status = mem_new(panel_floats(s), sizeof *s->reference, "a reference", &s->reference, err);
    if (status != STATUS_OK) {
        destroy(s);
        return status;
    }
    *ret_state = s;
    return STATUS_OK;
}

static enum status within_memory(const struct superpose_cpu *s, size_t floats, const char *what, struct err *err) {
    size_t bytes = floats * sizeof(float), limit = s->options.memory;
    FAIL_IF(limit > 0 && bytes > limit, err, STATUS_NO_MEMORY,
            "%s of %d atoms take %zu bytes of memory, and %zu is what they may take: give more memory, or select fewer "
            "atoms",
            what, s->options.atoms, bytes, limit);
    return STATUS_OK;
}

static enum status reserve(struct superpose_cpu *s, int structures, struct err *err) {
    if (structures <= s->capacity) return STATUS_OK;
    int64_t doubled = 2 * (int64_t)s->capacity,
            capacity = structures > doubled || doubled > INT32_MAX / 2 ? structures : doubled;
    capacity = (capacity + SUPERPOSE_LANES - 1) / SUPERPOSE_LANES * SUPERPOSE_LANES;
    size_t floats = (size_t)capacity / SUPERPOSE_LANES * panel_floats(s);
    char what[64];
    snprintf(what, sizeof what, "%lld structures", (long long)capacity);
    /* Takes only what is needed if twice as much would exceed the limit. */
    if (s->options.memory > 0 && floats * sizeof(float) > s->options.memory &&
        capacity > structures + SUPERPOSE_LANES) {
        capacity = (structures + SUPERPOSE_LANES - 1) / SUPERPOSE_LANES * SUPERPOSE_LANES;
        floats = (size_t)capacity / SUPERPOSE_LANES * panel_floats(s);
        snprintf(what, sizeof what, "%d structures", structures);
    }
    TRY(within_memory(s, floats, what, err));
    float *panels = NULL;
    double *norms = NULL;
    TRY(mem_new_unset(floats, sizeof *panels, "structures", &panels, err));
    enum status status = mem_new((size_t)capacity, sizeof *norms, "structures", &norms, err);
    if (status != STATUS_OK) {
        mem_free(&panels);
        return status;
    }
    if (s->count > 0) {
        size_t used = (size_t)((s->count + SUPERPOSE_LANES - 1) / SUPERPOSE_LANES) * panel_floats(s);
        memcpy(panels, s->panels, used * sizeof *panels);
        memcpy(norms, s->norms, (size_t)s->count * sizeof *norms);
    }
    mem_free(&s->panels);
    mem_free(&s->norms);
    s->panels = panels;
    s->norms = norms;
    s->capacity = (int)capacity;
    return STATUS_OK;
}

/* Computes the weighted centroid of a structure; partial sums stand side by side in a fixed order. Returns false if a
 * coordinate is too far from the origin, infinite or NaN. */
enum { SIDE_BY_SIDE = 12 };
MULTIVERSION static bool find_centre(const float *xyz, const float *roots, int atoms, double total,
                                     double *ret_centre) {
    double sums[SIDE_BY_SIDE] = {0};
    int odd[SIDE_BY_SIDE] = {0}, k = 0, any = 0;
    for (; k + SIDE_BY_SIDE / 3 <= atoms; k += SIDE_BY_SIDE / 3)
        for (int m = 0; m < SIDE_BY_SIDE; m++) {
            float x = xyz[3 * k + m];
            double root = roots[k + m / 3];
            sums[m] += root * root * x;
            odd[m] |= !(fabsf(x) <= SUPERPOSE_FARTHEST);
        }
    for (; k < atoms; k++)
        for (int m = 0; m < 3; m++) {
            float x = xyz[3 * k + m];
            sums[m] += (double)roots[k] * roots[k] * x;
            odd[m] |= !(fabsf(x) <= SUPERPOSE_FARTHEST);
        }
    for (int m = 3; m < SIDE_BY_SIDE; m++) {
        sums[m % 3] += sums[m];
        odd[m % 3] |= odd[m];
    }
    for (int m = 0; m < 3; m++) {
        ret_centre[m] = sums[m] / total;
        any |= odd[m];
    }
    return !any;
}

/* Copies structures [lanes][atoms][3] into the lanes of a panel, from `first` on: centred, times √w. Computes their
 * G. */
MULTIVERSION static void lay_out(const float *xyz, int atoms, const float *roots, double (*centre)[3], int first,
                                 int lanes, float *panel, double *norms) {
    double squares[SUPERPOSE_LANES] = {0};
    for (int k = 0; k < atoms; k++)
        for (int a = 0; a < 3; a++)
            for (int lane = 0; lane < lanes; lane++) {
                float x =
                    (float)((xyz[((size_t)lane * (size_t)atoms + (size_t)k) * 3 + a] - centre[lane][a]) * roots[k]);
                panel[((size_t)k * 3 + a) * SUPERPOSE_LANES + first + lane] = x;
                squares[lane] += (double)x * x;
            }
    memcpy(norms + first, squares, (size_t)lanes * sizeof *norms);
}

/* Returns false if a coordinate is bad; the panel is then unchanged. */
static bool put(const struct superpose_cpu *s, const float *xyz, int first, int lanes, float *panel, double *norms) {
    double centre[SUPERPOSE_LANES][3];
    for (int lane = 0; lane < lanes; lane++)
        if (!find_centre(xyz + (size_t)lane * 3 * (size_t)s->options.atoms, s->roots, s->options.atoms, s->total,
                         centre[lane]))
            return false;
    lay_out(xyz, s->options.atoms, s->roots, centre, first, lanes, panel, norms);
    return true;
}

static float *lane_of(const struct superpose_cpu *s, int structure) {
    return s->panels + (size_t)(structure / SUPERPOSE_LANES) * panel_floats(s) + structure % SUPERPOSE_LANES;
}

static enum status find_bad(const struct superpose_cpu *s, const float *xyz, int count, int first, struct err *err) {
    for (int n = 0; n < count; n++)
        for (int k = 0; k < s->options.atoms; k++) {
            const float *x = xyz + ((size_t)n * s->options.atoms + k) * 3;
            for (int a = 0; a < 3; a++)
                if (!(fabsf(x[a]) <= SUPERPOSE_FARTHEST)) return superpose_bad_coordinate(x, first + n, k, err);
        }
    return STATUS_OK;
}

static void clear_lanes(struct superpose_cpu *s, int first, int end) {
    for (int n = first; n < end; n++)
        for (int k = 0; k < 3 * s->options.atoms; k++)
            lane_of(s, n)[(size_t)k * SUPERPOSE_LANES] = 0;
}

static enum status add(void *state, const float *xyz, int count, struct err *err) {
    struct superpose_cpu *s = state;
    TRY(reserve(s, s->count + count, err));
    int bad = 0, first_panel = s->count / SUPERPOSE_LANES, last_panel = (s->count + count - 1) / SUPERPOSE_LANES;
    /* Each panel belongs to one thread: its lanes share cache lines. Lanes behind the last structure are zero. */
#pragma omp parallel for num_threads(s->options.threads) schedule(static) reduction(| : bad)
    for (int panel = first_panel; panel <= last_panel; panel++) {
        int from = panel * SUPERPOSE_LANES, first = from < s->count ? s->count - from : 0;
        int end = smaller(SUPERPOSE_LANES, s->count + count - from);
        if (first == 0) clear_lanes(s, from + end, from + SUPERPOSE_LANES);
        bad |= !put(s, xyz + (size_t)(from + first - s->count) * 3 * (size_t)s->options.atoms, first, end - first,
                    s->panels + (size_t)panel * panel_floats(s), s->norms + from);
    }
    if (bad) {
        clear_lanes(s, s->count, (last_panel + 1) * SUPERPOSE_LANES);
        return find_bad(s, xyz, count, s->count, err);
    }
    s->count += count;
    return STATUS_OK;
}

static void run_tile(const struct superpose_cpu *s, int panel_p, int panel_q, struct superpose_batch *batch) {
    struct superpose_tile tile = {.p = s->panels + (size_t)panel_p * panel_floats(s),
                                  .q = s->panels + (size_t)panel_q * panel_floats(s),
                                  .norm_p = s->norms + (size_t)panel_p * SUPERPOSE_LANES,
                                  .norm_q = s->norms + (size_t)panel_q * SUPERPOSE_LANES,
                                  .p_count = smaller(SUPERPOSE_LANES, s->count - panel_p * SUPERPOSE_LANES),
                                  .q_count = smaller(SUPERPOSE_LANES, s->count - panel_q * SUPERPOSE_LANES),
                                  .least = panel_p == panel_q ? 1 : -SUPERPOSE_LANES,
                                  .atoms = s->options.atoms,
                                  .total = s->total,
                                  .method = s->options.method};
    superpose_tile_run(&tile, batch);
}

/* All pairs of the panels first ≤ p < end with p ≤ q. Row i goes to out + row(i) − begin, where row(i) is the place of
 * its pair with structure 0, if there were one. */
struct rows {
    float *out;
    int begin;   /* first structure */
    bool packed; /* as in the upper triangle; otherwise each row holds the structures from `begin` on */
};

static float *row_at(const struct superpose_cpu *s, const struct rows *rows, int i, int j) {
    if (rows->packed) return rows->out + superpose_at(s->count, i, j);
    return rows->out + (size_t)(i - rows->begin) * (size_t)(s->count - rows->begin) + (size_t)(j - rows->begin);
}

static void run_group(const struct superpose_cpu *s, int first, int end, const struct rows *rows) {
    struct superpose_batch batch;
    int panels = (s->count + SUPERPOSE_LANES - 1) / SUPERPOSE_LANES;
    for (int q = first; q < panels; q++)
        for (int p = first; p < end && p <= q; p++) {
            run_tile(s, p, q, &batch);
            for (int lane = 0; lane < SUPERPOSE_LANES; lane++) {
                int i = p * SUPERPOSE_LANES + lane, j = q * SUPERPOSE_LANES, skip = i >= j ? i - j + 1 : 0;
                int count = smaller(SUPERPOSE_LANES, s->count - j);
                if (i >= s->count || skip >= count) continue;
                float *to = row_at(s, rows, i, j + skip);
                for (int k = skip; k < count; k++)
                    to[k - skip] = (float)batch.rmsd[lane * SUPERPOSE_LANES + k];
            }
        }
}

/* Returns the panels of a group: fewer if there would be too few groups to keep all threads busy to the end. */
static int group_panels(const struct superpose_cpu *s, int panels) {
    int fair = panels / (8 * s->options.threads);
    return fair < 1 ? 1 : smaller(fair, GROUP);
}

static enum status matrix(void *state, float *ret_rmsd, struct err *err) {
    struct superpose_cpu *s = state;
    (void)err;
    int panels = (s->count + SUPERPOSE_LANES - 1) / SUPERPOSE_LANES, group = group_panels(s, panels);
    struct rows rows = {.out = ret_rmsd, .packed = true};
#pragma omp parallel for num_threads(s->options.threads) schedule(dynamic, 1)
    for (int first = 0; first < panels; first += group)
        run_group(s, first, smaller(first + group, panels), &rows);
    return STATUS_OK;
}

/* Computes the RMSDs of the structure at a lane with structures 0 … count − 1. */
static void run_row(const struct superpose_cpu *s, const float *panel, int lane, double norm, int count,
                    float *ret_rmsd) {
#pragma omp parallel for num_threads(s->options.threads) schedule(static)
    for (int from = 0; from < count; from += SUPERPOSE_BATCH) {
        struct superpose_batch batch;
        int here = smaller(SUPERPOSE_BATCH, count - from), panels = (here + SUPERPOSE_LANES - 1) / SUPERPOSE_LANES;
        superpose_tile_row(panel, lane, norm, s->panels + (size_t)(from / SUPERPOSE_LANES) * panel_floats(s),
                           s->norms + from, panels, s->options.atoms, s->total, s->options.method, &batch);
        for (int k = 0; k < here; k++)
            ret_rmsd[from + k] = (float)batch.rmsd[k];
    }
}

static enum status row(void *state, int index, float *ret_rmsd, struct err *err) {
    struct superpose_cpu *s = state;
    (void)err;
    int lane = index % SUPERPOSE_LANES;
    run_row(s, lane_of(s, index) - lane, lane, s->norms[index], index, ret_rmsd);
    return STATUS_OK;
}

static enum status to_reference(void *state, const float *reference, float *ret_rmsd, struct err *err) {
    struct superpose_cpu *s = state;
    double norm = 0;
    if (!put(s, reference, 0, 1, s->reference, &norm)) return find_bad(s, reference, 1, 0, err);
    run_row(s, s->reference, 0, norm, s->count, ret_rmsd);
    return STATUS_OK;
}

/* Appends the entries below the cut-off in the rows of one group. */
static enum status pick(const struct superpose_cpu *s, const struct rows *rows, int end, float cutoff, size_t limit,
                        struct superpose_neighbours *n, struct err *err) {
    for (int i = rows->begin; i < end; i++) {
        size_t at = n->starts[i];
        /* i has at most as many neighbours as there are structures behind it. */
        TRY(superpose_neighbours_room(n, at, cutoff, limit, err));
        for (int j = i + 1; j < s->count; j++) {
            float rmsd = *row_at(s, rows, i, j);
            if (!(rmsd < cutoff)) continue;
            if (at == n->capacity) TRY(superpose_neighbours_room(n, at + 1, cutoff, limit, err));
            n->index[at] = j;
            n->rmsd[at++] = rmsd;
        }
        n->starts[i + 1] = at;
    }
    return STATUS_OK;
}

static enum status neighbours(void *state, float cutoff, size_t limit, struct superpose_neighbours *n,
                              struct err *err) {
    struct superpose_cpu *s = state;
    int panels = (s->count + SUPERPOSE_LANES - 1) / SUPERPOSE_LANES, group = group_panels(s, panels);
    size_t slab = (size_t)group * SUPERPOSE_LANES * (size_t)s->count, all = slab * (size_t)s->options.threads;
    TRY(within_memory(s, all + (size_t)panels * panel_floats(s), "structures, and what is compared at a time,", err));
    if (all > s->slab_floats) {
        mem_free(&s->slabs);
        s->slab_floats = 0;
        TRY(mem_new_unset(all, sizeof *s->slabs, "rows of RMSDs", &s->slabs, err));
        s->slab_floats = all;
    }
    enum status status = STATUS_OK;
    /* Threads hand in their groups in order, so that the lists do not depend on the number of threads. */
#pragma omp parallel for num_threads(s->options.threads) schedule(dynamic, 1) ordered
    for (int first = 0; first < panels; first += group) {
        struct rows rows = {.out = s->slabs + slab * (size_t)omp_get_thread_num(), .begin = first * SUPERPOSE_LANES};
        int end = smaller(first + group, panels);
        run_group(s, first, end, &rows);
#pragma omp ordered
        if (status == STATUS_OK)
            status = pick(s, &rows, smaller(end * SUPERPOSE_LANES, s->count), cutoff, limit, n, err);
    }
    return status;
}

const struct superpose_work superpose_cpu_work = {
    .create = create,
    .destroy = destroy,
    .add = add,
    .matrix = matrix,
    .row = row,
    .to_reference = to_reference,
    .neighbours = neighbours,
};
