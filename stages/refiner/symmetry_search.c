/* Finds poses anew, in C1: a search of a coarse grid with two refinements of the angles, each block of particles against
 * the map of the others. Shifts stay as they are. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/resample.h"
#include "stages/refiner/setup.h"
#include "stages/refiner/symmetry_private.h"

enum { PASSES = 6, ORDER = 2, SHELLS_OF_GRID = 10, ROUNDS = 2 };

/* A grid of orientations and its slices of the present map. */
struct grid {
    struct sampling sampling;
    int orientations, count; /* count: pixels */
    float *matrices;         /* [orientations][9] */
    float *slices, *power;   /* [orientations][2·count], [orientations][count]: |slice|² */
    int *found;              /* [particles of a half] */
};

static void grid_close(struct grid *g) {
    sampling_destroy(&g->sampling);
    mem_free(&g->matrices);
    mem_free(&g->slices);
    mem_free(&g->power);
    mem_free(&g->found);
}

static enum status grid_open(const struct symmetry_work *w, int particles, struct grid *g, struct err *err) {
    const int shells = w->size / 2 < SHELLS_OF_GRID ? w->size / 2 : SHELLS_OF_GRID;
    TRY(sampling_create(ORDER, NULL, 1, 1, &g->sampling, err));
    g->orientations = sampling_orientation_count(&g->sampling);
    g->count = fourier_pixels_within(&w->own, 2 * shells);
    const size_t orientations = (size_t)g->orientations, pixels = (size_t)g->count;
    TRY(mem_new(orientations * 9, sizeof(float), "poses", &g->matrices, err));
    TRY(mem_new(orientations * 2 * pixels, sizeof(float), "slices", &g->slices, err));
    TRY(mem_new(orientations * pixels, sizeof(float), "slices", &g->power, err));
    return mem_new((size_t)particles + 1, sizeof(int), "poses", &g->found, err);
}

static void grid_turn(struct grid *g, double perturbation) {
    sampling_perturb(&g->sampling, perturbation);
    for (int o = 0; o < g->orientations; o++) {
        double m[9];
        sampling_matrix(&g->sampling, o, m);
        for (int j = 0; j < 9; j++)
            g->matrices[9 * (size_t)o + (size_t)j] = (float)m[j];
    }
}

static void grid_slice(const struct symmetry_work *w, struct grid *g) {
    const size_t numbers = (size_t)g->orientations * (size_t)g->count;
    projector_slices(w->projector, &w->own, g->count, g->orientations, g->matrices, w->r->context.threads, g->slices);
    for (size_t i = 0; i < numbers; i++)
        g->power[i] = g->slices[2 * i] * g->slices[2 * i] + g->slices[2 * i + 1] * g->slices[2 * i + 1];
}

/* Returns the orientation of the grid that a particle fits best, at any grey scale. */
MULTIVERSION static int best_of_grid(const float *slices, const float *power, int orientations, int count,
                                     const float *data, const float *weight) {
    float best = -INFINITY;
    int found = 0;
    for (int o = 0; o < orientations; o++) {
        const float *slice = slices + 2 * (size_t)count * (size_t)o, *square = power + (size_t)count * (size_t)o;
        float dot = 0, norm = 0;
#pragma omp simd reduction(+ : dot)
        for (int j = 0; j < 2 * count; j++)
            dot += slice[j] * data[j];
#pragma omp simd reduction(+ : norm)
        for (int j = 0; j < count; j++)
            norm += square[j] * weight[j];
        const float fit = norm > 0 ? dot / sqrtf(norm) : 0;
        if (fit > best) best = fit, found = o;
    }
    return found;
}

/* Turns a pose by a small angle about one of its own axes; turn 0: not at all. */
static void turn_pose(const float pose[9], int turn, double angle, float ret[9]) {
    const int axis = (turn - 1) / 2, a = (axis + 1) % 3, b = (axis + 2) % 3;
    const double by = turn % 2 ? angle : -angle, c = cos(by), s = sin(by);
    memcpy(ret, pose, 9 * sizeof *ret);
    if (turn == 0) return;
    for (int j = 0; j < 3; j++) {
        ret[3 * a + j] = (float)(c * (double)pose[3 * a + j] - s * (double)pose[3 * b + j]);
        ret[3 * b + j] = (float)(s * (double)pose[3 * a + j] + c * (double)pose[3 * b + j]);
    }
}

static void refine(const struct symmetry_work *w, struct symmetry_half *half, int i) {
    float *pose = half->poses + 9 * (size_t)i, near[9 * SYMMETRY_NEAR];
    double angle = sampling_angle_step(ORDER) * M_PI / 360;
    for (int round = 0; round < ROUNDS; round++, angle /= 2) {
        for (int turn = 0; turn < SYMMETRY_NEAR; turn++)
            turn_pose(pose, turn, angle, near + 9 * (ptrdiff_t)turn);
        projector_slices(w->projector, &w->own, w->own.count, SYMMETRY_NEAR, near, 1, w->slices);
        memcpy(pose, near + 9 * (ptrdiff_t)symmetry_choose(w, half, i, SYMMETRY_NEAR), 9 * sizeof *pose);
    }
}

static void search_block(struct symmetry_work *w, struct symmetry_half *half, int block, struct grid *g) {
    const size_t n = (size_t)w->own.count;
#pragma omp parallel for num_threads(w->r->context.threads) schedule(static)
    for (int i = block; i < half->count; i += SYMMETRY_BLOCKS)
        g->found[i] = best_of_grid(g->slices, g->power, g->orientations, g->count, half->data + 2 * n * (size_t)i,
                                   half->weight + n * (size_t)i);
    for (int i = block; i < half->count; i += SYMMETRY_BLOCKS) {
        memcpy(half->poses + 9 * (size_t)i, g->matrices + 9 * (size_t)g->found[i], 9 * sizeof *half->poses);
        refine(w, half, i);
    }
}

/* Makes w->map of the reference, as the refinement began with it but without symmetry. */
static enum status read_start(struct symmetry_work *w, struct err *err) {
    const double side = w->r->box * w->r->pixel_size;
    TRY(setup_read_map(w->r, w->r->map_paths[0], w->box, side / w->box, w->map, err));
    TRY(lowpass_map(w->map, w->box, side / w->r->options.initial_lowpass + 1, 2, err));
    mask_sphere(3, w->box, w->map, w->radius, 2, 0);
    return STATUS_OK;
}

/* Makes the slices of w->map. */
static enum status slice_map(struct symmetry_work *w, struct grid *g, struct err *err) {
    TRY(projector_set_map(w->projector, w->map, w->size, err));
    grid_slice(w, g);
    return STATUS_OK;
}

static enum status search_from_reference(struct symmetry_work *w, struct symmetry_half *half, struct grid *g,
                                         struct err *err) {
    TRY(read_start(w, err));
    TRY(slice_map(w, g, err));
    for (int block = 0; block < SYMMETRY_BLOCKS; block++) {
        search_block(w, half, block, g);
        TRY(symmetry_fill_block(w, half, block, err));
    }
    return STATUS_OK;
}

static enum status search(struct symmetry_work *w, int h, struct grid *g, struct err *err) {
    struct symmetry_half *half = &w->halves[h];
    double perturbation = 0;
    TRY(grid_open(w, half->count, g, err));
    grid_turn(g, perturbation);
    TRY(search_from_reference(w, half, g, err));
    for (int pass = 1; pass < PASSES; pass++) {
        perturbation = sampling_next_perturbation(perturbation, 0.3);
        grid_turn(g, perturbation);
        for (int block = 0; block < SYMMETRY_BLOCKS; block++) {
            TRY(symmetry_map_without(w, h, block, SYMMETRY_BLOCKS, err));
            TRY(slice_map(w, g, err));
            search_block(w, half, block, g);
            TRY(symmetry_fill_block(w, half, block, err));
        }
    }
    return STATUS_OK;
}

enum status symmetry_search(struct symmetry_work *w, int h, struct err *err) {
    struct grid grid = {0};
    enum status status = search(w, h, &grid, err);
    grid_close(&grid);
    return status;
}
