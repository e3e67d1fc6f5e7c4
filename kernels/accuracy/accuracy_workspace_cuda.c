/* Estimates accuracies from a reference in a workspace. The device compares every step of every particle at once; the
 * host then finds the first step that shows. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/accuracy/accuracy_private.h"
#include "kernels/fourier/workspace_cuda.h"

/* Padding of the grid (GRID_PAD, kernels/expectation/grid.cuh). */
static const float PAD = 2;

/* The steps by which a particle is moved. */
struct steps {
    double angles[ACCURACY_ANGLES], offsets[ACCURACY_OFFSETS];
    int angle_count, offset_count;
};

static enum status list_steps(struct steps *s, struct err *err) {
    *s = (struct steps){0};
    for (double e = 0; e < ACCURACY_ANGLE_MOST && s->angle_count < ACCURACY_ANGLES;)
        s->angles[s->angle_count++] = e = accuracy_next_angle(e);
    for (double e = 0; e < ACCURACY_OFFSET_MOST && s->offset_count < ACCURACY_OFFSETS;)
        s->offsets[s->offset_count++] = e = accuracy_next_offset(e);
    FAIL_IF(s->angles[s->angle_count - 1] < ACCURACY_ANGLE_MOST ||
                s->offsets[s->offset_count - 1] < ACCURACY_OFFSET_MOST,
            err, STATUS_BAD_STATE, "there is no room for %d steps of an angle and %d of a shift", s->angle_count,
            s->offset_count);
    return STATUS_OK;
}

static void plane_of(const double angles[3], float ret_plane[6]) {
    float matrix[9];
    accuracy_matrix(angles, matrix);
    for (int i = 0; i < 6; i++)
        ret_plane[i] = PAD * matrix[i];
}

static void list_moves(const struct accuracy_particle *p, const struct steps *s, struct accuracy_moves_cuda *moves) {
    *moves = (struct accuracy_moves_cuda){.has_ctf = p->ctf != NULL, .optics = p->optics};
    plane_of(p->angles, moves->pose);
    for (int i = 0; i < s->angle_count; i++) {
        double moved[3] = {p->angles[0], p->angles[1], p->angles[2]};
        moved[p->turned] += s->angles[i];
        plane_of(moved, moves->turned[i]);
    }
    for (int i = 0; i < s->offset_count; i++)
        moves->shifts[i][p->along_x ? 0 : 1] = (float)s->offsets[i];
    if (p->ctf == NULL) return;
    const struct ctf_terms terms = ctf_prepare(p->ctf);
    memcpy(moves->ctf, &terms, sizeof moves->ctf);
}

_Static_assert(sizeof(struct ctf_terms) == sizeof((struct accuracy_moves_cuda *)0)->ctf, "terms of a CTF");

static double first_to_tell(const double *differences, const double *steps, int count) {
    int i = 0;
    while (i < count - 1 && !(differences[i] > ACCURACY_TELLABLE))
        i++;
    return steps[i];
}

static enum status put(struct workspace *w, const void *host, size_t count, size_t size, const void *ret_pointer,
                       struct err *err) {
    void *to = NULL;
    TRY(arena_take(w->arena, count, size, "accuracies", &to, err));
    TRY(workspace_cuda_put(w, to, host, count * size, err));
    *(void **)ret_pointer = to;
    return STATUS_OK;
}

static enum status compare(const struct accuracy_input *in, struct workspace *w, const struct steps *s,
                           const struct accuracy_moves_cuda *moves, double *ret_differences, struct err *err) {
    const struct fourier_pixels *pixels = in->pixels;
    const struct projector_grid from = projector_grid(in->projector);
    const struct grid_cuda grid = {.values = from.values,
                                   .nx = from.nx,
                                   .ny = from.ny,
                                   .reach = from.reach,
                                   .r_max = from.r_max,
                                   .dimensions = from.dimensions};
    struct pixels_cuda list = {.box = pixels->box, .count = pixels->count};
    const struct accuracy_moves_cuda *device_moves = NULL;
    const short *shell = NULL;
    const float *sigma2 = NULL;
    double *differences = NULL;
    size_t n = (size_t)pixels->count, shells = (size_t)pixels->box / 2 + 1, count = (size_t)in->count;
    size_t all = count * (size_t)(s->angle_count + s->offset_count);
    _cleanup_(workspace_cuda_end) struct workspace *open = NULL;
    TRY(workspace_cuda_begin(w, &open, err));
    TRY(put(w, pixels->kx, n, sizeof *pixels->kx, &list.kx, err));
    TRY(put(w, pixels->ky, n, sizeof *pixels->ky, &list.ky, err));
    TRY(put(w, pixels->shell, n, sizeof *pixels->shell, &shell, err));
    TRY(put(w, in->sigma2, (size_t)in->optics_count * shells, sizeof *sigma2, &sigma2, err));
    TRY(put(w, moves, count, sizeof *moves, &device_moves, err));
    TRY(arena_take(w->arena, all, sizeof *differences, "accuracies", &differences, err));
    TRY(accuracy_cuda_differences(&grid, &list, shell, device_moves, in->count, s->angle_count, s->offset_count,
                                  1 / (pixels->box * in->pixel_size), sigma2, (int)shells, differences, w->stream,
                                  err));
    TRY(workspace_cuda_get(w, ret_differences, differences, all * sizeof *differences, err));
    return workspace_cuda_wait(w, err);
}

static enum status estimate(const struct accuracy_input *in, struct workspace *w, double *ret_angles,
                            double *ret_offsets, struct err *err) {
    struct steps steps;
    _cleanup_(mem_free) struct accuracy_moves_cuda *moves = NULL;
    _cleanup_(mem_free) double *differences = NULL;
    TRY(list_steps(&steps, err));
    size_t each = (size_t)(steps.angle_count + steps.offset_count);
    TRY(mem_new((size_t)in->count, sizeof *moves, "accuracies", &moves, err));
    TRY(mem_new((size_t)in->count * each, sizeof *differences, "accuracies", &differences, err));
#pragma omp parallel for num_threads(in->threads) schedule(static)
    for (int i = 0; i < in->count; i++)
        list_moves(&in->particles[i], &steps, &moves[i]);
    TRY(compare(in, w, &steps, moves, differences, err));
    for (int i = 0; i < in->count; i++) {
        const double *mine = differences + (size_t)i * each;
        ret_angles[i] = fmin(first_to_tell(mine, steps.angles, steps.angle_count), ACCURACY_ANGLE_MOST);
        ret_offsets[i] =
            fmin(first_to_tell(mine + steps.angle_count, steps.offsets, steps.offset_count), ACCURACY_OFFSET_MOST);
    }
    return STATUS_OK;
}

const struct accuracy_work accuracy_cuda_work = {.estimate = estimate};
