#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/ctf_fit/local_private.h"
#include "kernels/periodogram/periodogram.h"

/* The amplitude of the rings is measured so often, each time along the plane that was found last. */
enum { ROUNDS = 3 };
/* A tilt or a bend is believed when chance gives one as good in fewer than exp(−8) = 1 of 3,000 level samples whose tiles
 * scatter as these do: 3.6 deviations. */
static const double LEAST_CERTAINTY = 8;

void ctf_local_destroy(struct ctf_local **local) {
    if (local == NULL || *local == NULL) return;
    struct ctf_local *l = *local;
    void *arrays[] = {l->x,     l->y,         l->across,    l->up,       l->offset, l->surface, l->pixels,
                      l->bin,   l->certainty, l->amplitude, l->profiles, l->models, l->rings,   l->weighted,
                      l->norms, l->table,     l->sums,      l->scratch,  l->radius, l->middle};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    mem_free(local);
}

size_t ctf_local_bytes(int nx, int ny, int box) {
    size_t tiles = (size_t)periodogram_tiles(nx, box) * (size_t)periodogram_tiles(ny, box), bins = (size_t)box / 2;
    size_t floats = tiles * (2 * bins + LOCAL_DEFOCI) + LOCAL_DEFOCI * (4 * bins + 1) + 8 * bins;
    return floats * sizeof(float) + PERIODOGRAM_SECTORS * bins * 3 * sizeof(int) + tiles * 6 * sizeof(double);
}

static enum status make_buffers(struct ctf_local *l, struct err *err) {
    static const char WHAT[] = "the local CTF";
    size_t bins = (size_t)l->bins, tiles = (size_t)l->tiles, cells = PERIODOGRAM_SECTORS * bins;
    const struct {
        double **array;
        size_t count;
    } doubles[] = {{&l->x, (size_t)l->columns}, {&l->y, (size_t)l->rows}, {&l->across, tiles},  {&l->up, tiles},
                   {&l->offset, tiles},         {&l->surface, tiles},     {&l->sums, 2 * bins}, {&l->middle, bins}};
    const struct {
        float **array;
        size_t count;
    } floats[] = {{&l->certainty, bins},
                  {&l->amplitude, bins},
                  {&l->profiles, tiles * bins},
                  {&l->models, LOCAL_DEFOCI * bins},
                  {&l->norms, LOCAL_DEFOCI},
                  {&l->radius, cells},
                  {&l->rings, LOCAL_DEFOCI * bins},
                  {&l->weighted, LOCAL_DEFOCI * bins},
                  {&l->scratch, (tiles > LOCAL_DEFOCI ? tiles : LOCAL_DEFOCI) * bins},
                  {&l->table, tiles * LOCAL_DEFOCI}};
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        TRY(mem_new(doubles[i].count, sizeof(double), WHAT, doubles[i].array, err));
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        TRY(mem_new(floats[i].count, sizeof(float), WHAT, floats[i].array, err));
    TRY(mem_new(cells, sizeof(int), WHAT, &l->pixels, err));
    return mem_new(cells, sizeof(int), WHAT, &l->bin, err);
}

enum status ctf_local_create(int nx, int ny, int box, int threads, struct ctf_local **ret_local, struct err *err) {
    FAIL_IF(box < 64 || box % 2 != 0 || box > nx || box > ny, err, STATUS_BAD_ARGUMENT,
            "tiles of %d px in %d × %d px: an even side of 64 px or more, at most that of the micrograph, is expected",
            box, nx, ny);
    _cleanup_(ctf_local_destroy) struct ctf_local *l = NULL;
    TRY(mem_new(1, sizeof *l, "the local CTF", &l, err));
    l->nx = nx;
    l->ny = ny;
    l->box = box;
    l->bins = box / 2;
    l->threads = threads > 0 ? threads : 1;
    l->columns = periodogram_tiles(nx, box);
    l->rows = periodogram_tiles(ny, box);
    l->tiles = l->columns * l->rows;
    TRY(make_buffers(l, err));
    for (int i = 0; i < l->columns; i++)
        l->x[i] = periodogram_tile_start(nx, box, i) + (box - 1) / 2.0;
    for (int i = 0; i < l->rows; i++)
        l->y[i] = periodogram_tile_start(ny, box, i) + (box - 1) / 2.0;
    for (int row = 0; row < box; row++)
        for (int kx = 0; kx <= box / 2; kx++) {
            int cell = periodogram_cell(box, kx, row <= box / 2 ? row : row - box);
            if (cell < 0) continue;
            l->pixels[cell]++;
            l->radius[cell] += (float)hypot(kx, row <= box / 2 ? row : row - box);
        }
    for (int i = 0; i < PERIODOGRAM_SECTORS * l->bins; i++)
        if (l->pixels[i] > 0) l->radius[i] /= (float)l->pixels[i];
    *ret_local = l;
    l = NULL;
    return STATUS_OK;
}

/* The tilt that a surface has. */
struct tilt {
    double gain, certainty;
};

/* Bends the best plane where that is significant, and levels it where the tilt is not. */
static struct tilt choose(const struct ctf_local *l, struct ctf_surface *surface) {
    struct ctf_surface bent = *surface;
    double score = local_climb(l, 0, surface);
    unsigned terms = LOCAL_MEAN;
    int number = 3;
    if (l->columns > 2 && l->rows > 2) {
        double bent_score = local_climb(l, LOCAL_MEAN | LOCAL_SLOPES | LOCAL_BEND, &bent);
        if (local_certainty(l, &bent, 6, bent_score - score) >= LEAST_CERTAINTY) {
            *surface = bent;
            score = bent_score;
            terms |= LOCAL_BEND;
            number = 6;
        }
    }
    struct ctf_surface level = *surface;
    level.x = level.y = 0;
    struct tilt tilt = {.gain = fmax(score - local_climb(l, terms, &level), 0)};
    tilt.certainty = local_certainty(l, surface, number, tilt.gain);
    if (tilt.certainty < LEAST_CERTAINTY) *surface = level;
    return tilt;
}

void ctf_local_run(struct ctf_local *l, const float *cells, const struct ctf_fit_options *o,
                   const struct ctf_fit_result *fit, struct ctf_local_result *ret_result) {
    struct ctf_surface plane = {0}, surface = {0};
    struct tilt tilt = {0};
    bool significant = true;
    for (int t = 0; t < l->tiles; t++) {
        l->across[t] = (l->x[t % l->columns] - (l->nx - 1) / 2.0) * o->pixel_size;
        l->up[t] = (l->y[t / l->columns] - (l->ny - 1) / 2.0) * o->pixel_size;
    }
    local_make_profiles(l, cells, o, fit);
    local_set_surface(l, &surface);
    for (int round = 0; round < ROUNDS && significant; round++) {
        local_make_table(l);
        plane = local_find_plane(l, round > 0 ? &plane : NULL);
        surface = plane;
        tilt = choose(l, &surface);
        local_set_surface(l, &surface);
        significant = tilt.certainty >= LEAST_CERTAINTY;
        if (!significant && round > 0) local_make_table(l); /* the last one was made along a tilt */
    }
    local_find_sheet(l);
    double slope = hypot(surface.x, surface.y), axis = atan2(surface.y, surface.x) * 180 / M_PI - 90;
    *ret_result = (struct ctf_local_result){
        .tilt = significant ? atan(slope) * 180 / M_PI : 0,
        .axis = !significant ? 0
                : axis < 0   ? axis + 360
                             : axis,
        .significant = significant,
        .gain = tilt.gain,
        .chance = exp(-tilt.certainty),
        .columns = l->columns,
        .rows = l->rows,
        .x = l->x,
        .y = l->y,
        .offset = l->offset,
        .surface = surface,
        .middle_x = (l->nx - 1) / 2.0,
        .middle_y = (l->ny - 1) / 2.0,
        .pixel_size = o->pixel_size,
    };
}

/* Returns the height of the sheet at a tile. */
static double height_of(const struct ctf_local_result *r, int column, int row) {
    double x = (r->x[column] - r->middle_x) * r->pixel_size, y = (r->y[row] - r->middle_y) * r->pixel_size;
    return r->offset[(size_t)row * (size_t)r->columns + (size_t)column] - ctf_surface_at(&r->surface, x, y);
}

/* Returns the tile at or before a place, and how far the place is towards the next, 0 to 1. */
static int before(const double *places, int count, double at, double *ret_share) {
    int i = 0;
    while (i + 2 < count && places[i + 1] <= at)
        i++;
    *ret_share = count > 1 ? fmin(fmax((at - places[i]) / (places[i + 1] - places[i]), 0), 1) : 0;
    return i;
}

double ctf_local_at(const struct ctf_local_result *r, double x, double y) {
    double fx, fy;
    int i = before(r->x, r->columns, x, &fx), k = before(r->y, r->rows, y, &fy);
    int next_i = i + 1 < r->columns ? i + 1 : i, next_k = k + 1 < r->rows ? k + 1 : k;
    double low = (1 - fx) * height_of(r, i, k) + fx * height_of(r, next_i, k);
    double high = (1 - fx) * height_of(r, i, next_k) + fx * height_of(r, next_i, next_k);
    return (1 - fy) * low + fy * high +
           ctf_surface_at(&r->surface, (x - r->middle_x) * r->pixel_size, (y - r->middle_y) * r->pixel_size);
}
