#include <math.h>
#include <string.h>

#include "kernels/ctf_fit/local_private.h"

/* Steepest plane: tan 60°. */
static const double STEEPEST = 1.7320508;
/* The search moves the outermost tile by so much at a time, and the middle by so much as far as that. Å. */
static const double COARSE_EDGE = 100, COARSE_MIDDLE = 100, MIDDLE_REACH = 300, FINE_EDGE = 1;
/* The sheet: deviations of a tile from its neighbours and from the surface, the largest, and the step. Å. */
static const double SHEET_BEND = 40, SHEET_HEIGHT = 100, SHEET_REACH = 400, SHEET_STEP = 10;
enum { SHEET_SWEEPS = 50 };
/* A tile's misfit is measured so far to both sides of the surface. Å. */
static const double MISFIT_REACH = 300;

double ctf_surface_at(const struct ctf_surface *s, double x, double y) {
    return s->mean + s->x * x + s->y * y + s->xx * x * x + s->xy * x * y + s->yy * y * y;
}

static double score_of(const struct ctf_local *l, const struct ctf_surface *surface) {
    double sum = 0;
    for (int t = 0; t < l->tiles; t++)
        sum += local_score(l, t, ctf_surface_at(surface, l->across[t], l->up[t]));
    return sum;
}

static double farthest(const struct ctf_local *l) {
    double most = 0;
    for (int t = 0; t < l->tiles; t++)
        most = fmax(most, hypot(l->across[t], l->up[t]));
    return most;
}

double local_climb(const struct ctf_local *l, unsigned terms, struct ctf_surface *surface) {
    static const unsigned kind[6] = {LOCAL_MEAN, LOCAL_SLOPES, LOCAL_SLOPES, LOCAL_BEND, LOCAL_BEND, LOCAL_BEND};
    double edge = fmax(farthest(l), 1), best = score_of(l, surface);
    const double scale[6] = {1, edge, edge, edge * edge, edge * edge, edge * edge};
    for (double step = COARSE_EDGE / 2; step > FINE_EDGE; step /= 2) {
        bool moved = true;
        for (int round = 0; moved && round < 100; round++) {
            moved = false;
            for (int k = 0; k < 12; k++) {
                if ((terms & kind[k / 2]) == 0) continue;
                struct ctf_surface trial = *surface;
                double *const term[6] = {&trial.mean, &trial.x, &trial.y, &trial.xx, &trial.xy, &trial.yy};
                *term[k / 2] += (k % 2 == 0 ? step : -step) / scale[k / 2];
                if (hypot(trial.x, trial.y) > STEEPEST) continue;
                double score = score_of(l, &trial);
                if (score <= best) continue;
                best = score;
                *surface = trial;
                moved = true;
            }
        }
    }
    return best;
}

static void search(const struct ctf_local *l, double steepest, double edge, struct ctf_surface *best) {
    double step = COARSE_EDGE / edge, highest = -INFINITY;
    int reach = (int)(steepest / step);
    for (int y = -reach; y <= reach; y++)
        for (int x = -reach; x <= reach; x++) {
            if (x * x + y * y > reach * reach) continue;
            for (double mean = -MIDDLE_REACH; mean <= MIDDLE_REACH; mean += COARSE_MIDDLE) {
                struct ctf_surface trial = {.mean = mean, .x = x * step, .y = y * step};
                double score = score_of(l, &trial);
                if (score <= highest) continue;
                highest = score;
                *best = trial;
            }
        }
}

struct ctf_surface local_find_plane(const struct ctf_local *l, const struct ctf_surface *start) {
    struct ctf_surface level = {0}, tilted = start != NULL ? *start : (struct ctf_surface){0};
    double edge = farthest(l), level_score = local_climb(l, LOCAL_MEAN, &level);
    if (l->columns < 2 || l->rows < 2) return level;
    /* The tables end at LOCAL_REACH. */
    if (start == NULL) search(l, fmin(STEEPEST, (LOCAL_REACH - 2 * MIDDLE_REACH) / edge), edge, &tilted);
    return local_climb(l, LOCAL_MEAN | LOCAL_SLOPES, &tilted) > level_score ? tilted : level;
}

/* Returns what a tile gains by a height of its own over the surface; −1: the tile is empty. */
static double misfit_of(const struct ctf_local *l, int tile, const struct ctf_surface *surface) {
    double offset = ctf_surface_at(surface, l->across[tile], l->up[tile]), on = local_score(l, tile, offset), best = on;
    const float *table = l->table + (size_t)tile * LOCAL_DEFOCI;
    bool empty = true;
    for (int d = 0; d < LOCAL_DEFOCI && empty; d++)
        empty = !(fabsf(table[d]) > 0);
    for (double height = -MISFIT_REACH; height <= MISFIT_REACH; height += SHEET_STEP)
        best = fmax(best, local_score(l, tile, offset + height));
    return empty ? -1 : best - on;
}

double local_certainty(const struct ctf_local *l, const struct ctf_surface *surface, int number, double gain) {
    double misfit = 0, freedom = -number;
    for (int t = 0; t < l->tiles; t++) {
        double own = misfit_of(l, t, surface);
        if (own < 0) continue;
        misfit += own;
        freedom++;
    }
    if (!(freedom >= 1) || !(gain > 0)) return 0;
    /* Noise alone gives half for each tile that is free. Where the tiles happen to agree better, this still holds. */
    return freedom / 2 * log1p(gain / fmax(misfit, freedom / 2));
}

void local_set_surface(struct ctf_local *l, const struct ctf_surface *surface) {
    for (int t = 0; t < l->tiles; t++)
        l->surface[t] = ctf_surface_at(surface, l->across[t], l->up[t]);
}

/* Returns the log of the prior of a tile's height, with its neighbours as they are. */
static double prior(const struct ctf_local *l, int tile, double height) {
    int x = tile % l->columns, y = tile / l->columns;
    const int near[4][2] = {{x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}};
    double sum = height * height / (2 * SHEET_HEIGHT * SHEET_HEIGHT);
    for (int k = 0; k < 4; k++) {
        if (near[k][0] < 0 || near[k][0] >= l->columns || near[k][1] < 0 || near[k][1] >= l->rows) continue;
        int other = near[k][1] * l->columns + near[k][0];
        double bend = height - (l->offset[other] - l->surface[other]);
        sum += bend * bend / (2 * SHEET_BEND * SHEET_BEND);
    }
    return -sum;
}

/* Moves one tile after the other to its best height, until none moves. */
void local_find_sheet(struct ctf_local *l) {
    bool moved = true;
    memcpy(l->offset, l->surface, (size_t)l->tiles * sizeof *l->offset);
    for (int sweep = 0; moved && sweep < SHEET_SWEEPS; sweep++) {
        moved = false;
        for (int t = 0; t < l->tiles; t++) {
            double now = l->offset[t] - l->surface[t], chosen = now;
            double best = local_score(l, t, l->offset[t]) + prior(l, t, now);
            for (double height = -SHEET_REACH; height <= SHEET_REACH; height += SHEET_STEP) {
                double score = local_score(l, t, l->surface[t] + height) + prior(l, t, height);
                if (score <= best + 1e-6) continue;
                best = score;
                chosen = height;
            }
            moved = moved || chosen != now;
            l->offset[t] = l->surface[t] + chosen;
        }
    }
}
