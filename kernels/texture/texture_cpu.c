/* Slides windows over the image, on the CPU.
 *
 * A task is a tile of positions, a number of levels and a length. For each displacement of the length a window is built
 * at the first position of the tile and goes through the tile like a plough, forth and back. When it moves by a pixel,
 * a line of pairs leaves and another one enters. It moves along x if that line, of window − |dy| pairs, is the shorter
 * one, otherwise along y: 31.3 pairs change on average over the 1,026 displacements; 40.3 would change if all moved
 * along x, and 392 would have to be built. Planes are kept both ways, so that the pixels of a line are neighbours in
 * memory.
 *
 * The matrix (8 KiB), the other counts and the used part of the logarithms stay in the first-level cache. The sums of
 * all positions of a tile are stored as terms; features are computed from them with vector instructions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/texture/texture_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* Positions of a tile's side; number of partial sums, so that vector instructions can add up a total in an order that
 * is always the same. */
enum { TILE = 32, TILE_POSITIONS = TILE * TILE, PARTS = 8 };

/* Counts of a matrix: cells at smaller level · TEXTURE_LEVELS + larger level. */
struct counts {
    uint16_t cells[TEXTURE_LEVELS * TEXTURE_LEVELS];
    uint16_t sums[2 * TEXTURE_LEVELS], differences[TEXTURE_LEVELS], marginals[TEXTURE_LEVELS];
};

struct slider {
    struct counts counts;
    struct texture_sums sums;
    const struct texture_tables *tables;
};

/* Memory of one thread, in its own cache lines. */
struct space {
    _Alignas(64) struct slider slider;
    double terms[TEXTURE_TERMS][TILE_POSITIONS];
    float features[TEXTURE_FEATURES][TILE_POSITIONS], low[TEXTURE_FEATURES][TILE_POSITIONS],
        high[TEXTURE_FEATURES][TILE_POSITIONS];
    double total[TEXTURE_FEATURES][PARTS];
    char apart[64]; /* lines come in pairs */
};

struct result {
    double total[TEXTURE_FEATURES];
    float largest[TEXTURE_FEATURES], smallest[TEXTURE_FEATURES];
};

struct tile {
    int x, y;                       /* its first position */
    int nx, ny;                     /* positions, of which those in the circle are evaluated */
    int count;                      /* evaluated */
    int16_t number[TILE_POSITIONS]; /* index of the position at [y][x] among the evaluated ones, or −1 */
};

struct texture_cpu {
    const struct texture_geometry *geometry;
    int tile_count;
    struct tile *tiles;
    struct space *spaces;              /* [threads] */
    struct result *results;            /* [tiles][TEXTURE_QUANTISATIONS][TEXTURE_LENGTHS] */
    uint8_t *planes;                   /* [TEXTURE_QUANTISATIONS][y][x] */
    uint8_t *turned;                   /* planes [TEXTURE_QUANTISATIONS][x][y] */
    struct texture_features *features; /* [slots]: an image is finished when it is started */
};

/* A displacement in the frame of its slider. The slider moves along u, the slow axis of a plane: plane pixel (u, v) is
 * at u · pitch + v. */
struct frame {
    const uint8_t *first;   /* first pixel of the first pair of the window at the tile's first position */
    ptrdiff_t pitch, apart; /* from a pair's first pixel to its second */
    int across, along;      /* pairs in v and in u */
    int stride;
    int nu, nv;         /* positions of the tile */
    int step_u, step_v; /* in tile.number */
    int pairs;
};

static inline void enter(struct counts *c, struct texture_sums *s, const struct texture_tables *t, unsigned i,
                         unsigned j) {
    unsigned low = i < j ? i : j, high = i < j ? j : i, sum = i + j, apart = high - low;
    unsigned n = c->cells[low * TEXTURE_LEVELS + high]++;
    s->cells += t->step[n];
    s->squares += (int64_t)((2 * n + 1) << (apart == 0));
    s->sums += t->step[c->sums[sum]++];
    s->sum_powers += t->powers[sum];
    s->differences += t->step[c->differences[apart]++];
    s->difference_powers += t->powers[apart];
    s->closeness += t->closeness[apart];
    s->marginals += t->step[c->marginals[low]++];
    s->marginals += t->step[c->marginals[high]++];
}

static inline void leave(struct counts *c, struct texture_sums *s, const struct texture_tables *t, unsigned i,
                         unsigned j) {
    unsigned low = i < j ? i : j, high = i < j ? j : i, sum = i + j, apart = high - low;
    unsigned n = --c->cells[low * TEXTURE_LEVELS + high];
    s->cells -= t->step[n];
    s->squares -= (int64_t)((2 * n + 1) << (apart == 0));
    s->sums -= t->step[--c->sums[sum]];
    s->sum_powers -= t->powers[sum];
    s->differences -= t->step[--c->differences[apart]];
    s->difference_powers -= t->powers[apart];
    s->closeness -= t->closeness[apart];
    s->marginals -= t->step[--c->marginals[low]];
    s->marginals -= t->step[--c->marginals[high]];
}

/* Lines of pairs: `lines` that stand `between` apart, of `count` pairs that stand `step` apart. */
struct lines {
    int lines, count;
    ptrdiff_t between, step, apart;
};

static void exchange_lines(struct slider *slider, const struct lines *l, const uint8_t *out, const uint8_t *in) {
    struct texture_sums s = slider->sums;
    for (int line = 0; line < l->lines; line++, out += l->between, in += l->between)
        for (int k = 0; k < l->count; k++) {
            ptrdiff_t at = k * l->step;
            leave(&slider->counts, &s, slider->tables, out[at], out[at + l->apart]);
            enter(&slider->counts, &s, slider->tables, in[at], in[at + l->apart]);
        }
    slider->sums = s;
}

static void build_window(struct slider *slider, const struct frame *f, const uint8_t *at) {
    memset(&slider->counts, 0, sizeof slider->counts);
    struct texture_sums s = {0};
    for (int u = 0; u < f->along; u++, at += f->pitch)
        for (int v = 0; v < f->across; v++)
            enter(&slider->counts, &s, slider->tables, at[v], at[v + f->apart]);
    slider->sums = s;
}

/* One step of a plough: forward or back along u, or forward along v. */
static void move_along(struct slider *slider, const struct frame *f, const uint8_t **at, int sign) {
    int lines = f->stride < f->along ? f->stride : f->along;
    struct lines l = {lines, f->across, f->pitch, 1, f->apart};
    const uint8_t *from = *at, *to = from + sign * f->stride * f->pitch;
    ptrdiff_t last = (f->along - lines) * f->pitch;
    exchange_lines(slider, &l, sign > 0 ? from : from + last, sign > 0 ? to + last : to);
    *at = to;
}
static void move_across(struct slider *slider, const struct frame *f, const uint8_t **at) {
    int lines = f->stride < f->across ? f->stride : f->across;
    struct lines l = {lines, f->along, 1, f->pitch, f->apart};
    const uint8_t *from = *at, *to = from + f->stride;
    exchange_lines(slider, &l, from, to + f->across - lines);
    *at = to;
}

static struct frame frame_of(const struct texture_geometry *g, const struct tile *tile, const uint8_t *const planes[2],
                             const struct texture_displacement *d) {
    int stride = g->options.stride, dx = abs(d->dx), dy = abs(d->dy);
    bool along_x = dy >= dx;
    int du = along_x ? d->dx : d->dy, dv = along_x ? d->dy : d->dx;
    int u = (along_x ? tile->x : tile->y) * stride, v = (along_x ? tile->y : tile->x) * stride;
    struct frame f = {.pitch = g->side,
                      .apart = (ptrdiff_t)du * g->side + dv,
                      .across = g->options.window - abs(dv),
                      .along = g->options.window - abs(du),
                      .stride = stride,
                      .nu = along_x ? tile->nx : tile->ny,
                      .nv = along_x ? tile->ny : tile->nx,
                      .step_u = along_x ? 1 : TILE,
                      .step_v = along_x ? TILE : 1,
                      .pairs = texture_pairs(g, d)};
    u += du < 0 ? -du : 0;
    v += dv < 0 ? -dv : 0;
    f.first = planes[!along_x] + (ptrdiff_t)u * f.pitch + v;
    return f;
}

/* First and last evaluated position of a row of the frame; begin > end: none. */
struct span {
    int begin, end;
};
static struct span span_of(const struct frame *f, const struct tile *tile, int v) {
    const int16_t *row = tile->number + v * f->step_v;
    struct span s = {0, f->nu - 1};
    while (s.begin < f->nu && row[s.begin * f->step_u] < 0)
        s.begin++;
    while (s.end > s.begin && row[s.end * f->step_u] < 0)
        s.end--;
    return s;
}

/* Computes terms of all evaluated positions of the tile, or their sums. */
static void slide(struct slider *slider, const struct frame *f, const struct tile *tile, double *terms,
                  struct texture_sums *sums) {
    int v = 0, u = 0, sign = 1;
    while (span_of(f, tile, v).begin >= f->nu)
        v++;
    u = span_of(f, tile, v).begin;
    const uint8_t *at = f->first + u * f->stride * f->pitch + v * f->stride;
    build_window(slider, f, at);
    for (;;) {
        struct span s = span_of(f, tile, v);
        if (s.begin >= f->nu) return;
        int begin = sign > 0 ? s.begin : s.end, end = sign > 0 ? s.end : s.begin;
        for (; u != begin; u += begin > u ? 1 : -1)
            move_along(slider, f, &at, begin > u ? 1 : -1);
        for (;; u += sign) {
            int number = tile->number[u * f->step_u + v * f->step_v];
            slider->sums.equal = slider->counts.differences[0];
            if (terms) texture_terms(&slider->sums, slider->tables, f->pairs, terms + number, TILE_POSITIONS);
            if (sums) sums[number] = slider->sums;
            if (u == end) break;
            move_along(slider, f, &at, sign);
        }
        if (++v == f->nv) return;
        move_across(slider, f, &at);
        sign = -sign;
    }
}

MULTIVERSION
static void make_features(struct space *s, int count, int pairs) {
    for (int k = 0; k < count; k++)
        texture_features_of(&s->terms[0][k], TILE_POSITIONS, pairs, &s->features[0][k], TILE_POSITIONS);
}

MULTIVERSION
static void gather(struct space *s, int count, bool first) {
    for (int k = 0; k < TEXTURE_FEATURES; k++) {
        const float *f = s->features[k];
        float *low = s->low[k], *high = s->high[k];
        double *total = s->total[k];
        for (int n = 0; n < count; n++) {
            low[n] = first || f[n] < low[n] ? f[n] : low[n];
            high[n] = first || f[n] > high[n] ? f[n] : high[n];
        }
        int whole = count / PARTS * PARTS;
        for (int n = 0; n < whole; n += PARTS)
            for (int part = 0; part < PARTS; part++)
                total[part] += (double)f[n + part];
        for (int n = whole; n < count; n++)
            total[n - whole] += (double)f[n];
    }
}

static void finish_tile(const struct space *s, int count, struct result *ret) {
    for (int k = 0; k < TEXTURE_FEATURES; k++) {
        float largest = 0, smallest = INFINITY;
        ret->total[k] = 0;
        for (int part = 0; part < PARTS; part++)
            ret->total[k] += s->total[k][part];
        for (int n = 0; n < count; n++) {
            float range = s->high[k][n] - s->low[k][n];
            largest = range > largest ? range : largest;
            smallest = range < smallest ? range : smallest;
        }
        ret->largest[k] = largest;
        ret->smallest[k] = smallest;
    }
}

static void run_task(const struct texture_cpu *cpu, const uint8_t *planes, struct space *s, int tile_index, int q,
                     int length) {
    const struct texture_geometry *g = cpu->geometry;
    const struct tile *tile = &cpu->tiles[tile_index];
    size_t plane = (size_t)g->side * (size_t)g->side;
    const uint8_t *const both[2] = {cpu->turned + (size_t)q * plane, planes + (size_t)q * plane};
    memset(s->total, 0, sizeof s->total);
    for (int d = g->first[length]; d < g->first[length + 1]; d++) {
        struct frame f = frame_of(g, tile, both, &g->displacements[d]);
        slide(&s->slider, &f, tile, &s->terms[0][0], NULL);
        make_features(s, tile->count, f.pairs);
        gather(s, tile->count, d == g->first[length]);
    }
    finish_tile(s, tile->count, &cpu->results[(tile_index * TEXTURE_QUANTISATIONS + q) * TEXTURE_LENGTHS + length - 1]);
}

static void combine(const struct texture_cpu *cpu, struct texture_features *ret_features) {
    const struct texture_geometry *g = cpu->geometry;
    memset(ret_features, 0, sizeof *ret_features);
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
        for (int length = 1; length <= g->options.lengths; length++) {
            double matrices = (double)g->pixels * (g->first[length + 1] - g->first[length]);
            for (int k = 0; k < TEXTURE_FEATURES; k++) {
                const struct result *r = &cpu->results[q * TEXTURE_LENGTHS + length - 1];
                struct result all = *r;
                for (int tile = 1; tile < cpu->tile_count; tile++) {
                    r += TEXTURE_QUANTISATIONS * TEXTURE_LENGTHS;
                    all.total[k] += r->total[k];
                    all.largest[k] = fmaxf(all.largest[k], r->largest[k]);
                    all.smallest[k] = fminf(all.smallest[k], r->smallest[k]);
                }
                float *to = ret_features->values[q][length - 1][k];
                to[TEXTURE_MEAN] = (float)(all.total[k] / matrices);
                to[TEXTURE_LARGEST_RANGE] = all.largest[k];
                to[TEXTURE_SMALLEST_RANGE] = all.smallest[k];
            }
        }
}

static void turn(const uint8_t *plane, int side, uint8_t *turned) {
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            turned[(size_t)x * (size_t)side + (size_t)y] = plane[(size_t)y * (size_t)side + (size_t)x];
}

static uint8_t *planes(void *state, int slot) {
    (void)slot;
    struct texture_cpu *cpu = state;
    return cpu->planes;
}

static enum status start(void *state, int slot, struct err *err) {
    (void)err;
    struct texture_cpu *cpu = state;
    const struct texture_geometry *g = cpu->geometry;
    size_t plane = (size_t)g->side * (size_t)g->side;
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
        turn(cpu->planes + (size_t)q * plane, g->side, cpu->turned + (size_t)q * plane);
    /* Long displacements go first: they are many and most of the work. */
    int per_length = cpu->tile_count * TEXTURE_QUANTISATIONS, tasks = g->options.lengths * per_length;
#pragma omp parallel for num_threads(g->options.threads) schedule(dynamic)
    for (int task = 0; task < tasks; task++) {
        int length = g->options.lengths - task / per_length, rest = task % per_length;
        run_task(cpu, cpu->planes, &cpu->spaces[omp_get_thread_num()], rest / TEXTURE_QUANTISATIONS,
                 rest % TEXTURE_QUANTISATIONS, length);
    }
    combine(cpu, &cpu->features[slot]);
    return STATUS_OK;
}

static enum status finish(void *state, int slot, struct texture_features *ret_features, struct err *err) {
    (void)err;
    struct texture_cpu *cpu = state;
    *ret_features = cpu->features[slot];
    return STATUS_OK;
}

/* Numbers the evaluated positions of the tile. */
static struct tile tile_at(const struct texture_geometry *g, int x, int y) {
    struct tile t = {.x = x, .y = y};
    t.nx = g->positions - x < TILE ? g->positions - x : TILE;
    t.ny = g->positions - y < TILE ? g->positions - y : TILE;
    for (int k = 0; k < TILE_POSITIONS; k++) {
        int px = x + k % TILE, py = y + k / TILE;
        bool inside = px < g->positions && py < g->positions && abs(px - g->steps) <= g->reach[py];
        t.number[k] = (int16_t)(inside ? t.count++ : -1);
    }
    return t;
}

static enum status make_tiles(struct texture_cpu *cpu, struct err *err) {
    const struct texture_geometry *g = cpu->geometry;
    int side = (g->positions + TILE - 1) / TILE;
    TRY(mem_new((size_t)(side * side), sizeof *cpu->tiles, "tiles", &cpu->tiles, err));
    for (int k = 0; k < side * side; k++) {
        cpu->tiles[cpu->tile_count] = tile_at(g, k % side * TILE, k / side * TILE);
        cpu->tile_count += cpu->tiles[cpu->tile_count].count > 0;
    }
    return STATUS_OK;
}

static enum status build(struct texture_cpu *cpu, struct err *err) {
    const struct texture_geometry *g = cpu->geometry;
    size_t plane = (size_t)g->side * (size_t)g->side;
    TRY(make_tiles(cpu, err));
    size_t results = (size_t)cpu->tile_count * TEXTURE_QUANTISATIONS * TEXTURE_LENGTHS;
    TRY(mem_new(results, sizeof *cpu->results, "texture features", &cpu->results, err));
    TRY(mem_new((size_t)g->options.threads, sizeof *cpu->spaces, "windows", &cpu->spaces, err));
    for (int k = 0; k < g->options.threads; k++)
        cpu->spaces[k].slider.tables = g->tables;
    TRY(mem_new((size_t)g->options.slots, sizeof *cpu->features, "texture features", &cpu->features, err));
    TRY(mem_new(TEXTURE_QUANTISATIONS * plane, 1, "grey levels", &cpu->planes, err));
    return mem_new(TEXTURE_QUANTISATIONS * plane, 1, "grey levels", &cpu->turned, err);
}

static void destroy(void *state) {
    struct texture_cpu *cpu = state;
    mem_free(&cpu->tiles);
    mem_free(&cpu->spaces);
    mem_free(&cpu->results);
    mem_free(&cpu->planes);
    mem_free(&cpu->turned);
    mem_free(&cpu->features);
    mem_free(&cpu);
}

static enum status create(const struct texture_geometry *geometry, void **ret_state, struct err *err) {
    struct texture_cpu *cpu = NULL;
    TRY(mem_new(1, sizeof *cpu, "texture", &cpu, err));
    cpu->geometry = geometry;
    enum status status = build(cpu, err);
    if (status != STATUS_OK) {
        destroy(cpu);
        return status;
    }
    *ret_state = cpu;
    return STATUS_OK;
}

void texture_cpu_sums(void *state, const uint8_t *plane, int displacement, struct texture_sums *ret_sums) {
    struct texture_cpu *cpu = state;
    const struct texture_geometry *g = cpu->geometry;
    struct texture_sums sums[TILE_POSITIONS];
    const uint8_t *const both[2] = {cpu->turned, plane};
    turn(plane, g->side, cpu->turned);
    for (int k = 0; k < cpu->tile_count; k++) {
        const struct tile *tile = &cpu->tiles[k];
        struct frame f = frame_of(g, tile, both, &g->displacements[displacement]);
        slide(&cpu->spaces[0].slider, &f, tile, NULL, sums);
        for (int p = 0; p < TILE_POSITIONS; p++)
            if (tile->number[p] >= 0)
                ret_sums[(tile->y + p / TILE) * g->positions + tile->x + p % TILE] = sums[tile->number[p]];
    }
}

const struct texture_work texture_cpu_work = {
    .create = create,
    .destroy = destroy,
    .planes = planes,
    .start = start,
    .finish = finish,
};
