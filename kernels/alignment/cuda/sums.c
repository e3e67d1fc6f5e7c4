/* Sums over particles on a CUDA device, one group of particles at a time. */
#include "kernels/alignment/cuda/alignment_private.h"

/* Most spectra and contributions of a group, if a third of the memory left holds them: enough that a slice is scattered
 * for many particles at once. They grow as a reference does beyond 128 px, where spectra are larger and slices more. */
static const size_t SPECTRA_BYTES = (size_t)48 << 20, BYTES_OF_VOXEL = 24;
static const uint32_t CONTRIBUTIONS = 1 << 20, VOXELS_OF_CONTRIBUTION = 8;

static size_t spectrum_bytes(const struct alignment_cuda *a) {
    return (4 * a->stride + 1) * sizeof(float);
}

static enum status group_bytes(const struct alignment_cuda *a, const struct alignment_cuda_group *g,
                               size_t *ret_scratch, size_t *ret_all, struct err *err) {
    TRY(alignment_cuda_back_project_scratch(g->contributions_most, ret_scratch, err));
    *ret_all = *ret_scratch + (size_t)g->most * spectrum_bytes(a) +
               (size_t)g->contributions_most * sizeof(struct contribution_cuda);
    return STATUS_OK;
}

enum status alignment_cuda_sums_plan(struct alignment_cuda *a, struct err *err) {
    struct alignment_cuda_group *g = &a->group;
    size_t box = (size_t)a->options.box, voxels = box * box * (a->references.grids[0].dimensions == 3 ? box : 1);
    size_t spectra = BYTES_OF_VOXEL * voxels, contributions = voxels / VOXELS_OF_CONTRIBUTION;
    if (spectra < SPECTRA_BYTES) spectra = SPECTRA_BYTES;
    if (contributions < CONTRIBUTIONS) contributions = CONTRIBUTIONS;
    size_t scratch = 0, all = 0, most = spectra / spectrum_bytes(a);
    *g = (struct alignment_cuda_group){.most = most > 1 ? (int)most : 1, .contributions_most = (uint32_t)contributions};
    a->sums_near = a->iteration.local && alignment_cuda_back_project_can_be_near(&a->sampling, &a->sums);
    if (a->sums_near) return STATUS_OK;
    FAIL_IF(
        !alignment_cuda_back_project_can_sort(&a->sampling), err, STATUS_UNSUPPORTED,
        "%d references at %d orientations have more children than can be sorted: search a coarser grid, or near the "
        "last poses with fewer than %d shifts",
        a->sampling.references, a->orientations, a->sampling.shift_count);
    if (a->leader != NULL) {
        g->most = a->leader->group.most;
        g->contributions_most = a->leader->group.contributions_most;
    }
    TRY(group_bytes(a, g, &scratch, &all, err));
    while (a->leader == NULL && all > arena_left(a->arena) / 3 && (g->most > 1 || g->contributions_most > 1024)) {
        if (g->most > 1) g->most /= 2;
        if (g->contributions_most > 1024) g->contributions_most /= 2;
        TRY(group_bytes(a, g, &scratch, &all, err));
    }
    const char *what = "particles that are added to the sums";
    size_t n = (size_t)g->most, stride = a->stride;
    g->particles = (struct particles_cuda){.stride = stride};
    TRY(arena_take(a->arena, n * 2 * stride, sizeof(float), what, &g->particles.unmasked, err));
    TRY(arena_take(a->arena, n * stride, sizeof(float), what, &g->particles.ctf, err));
    TRY(arena_take(a->arena, n * stride, sizeof(float), what, &g->particles.weight, err));
    TRY(arena_take(a->arena, n, sizeof *g->factors, what, &g->factors, err));
    TRY(arena_take(a->arena, g->contributions_most, sizeof *g->contributions, what, &g->contributions, err));
    return arena_take(a->arena, scratch, 1, what, &g->scratch, err);
}

enum status alignment_cuda_sums_flush(struct alignment_cuda *a, struct err *err) {
    struct alignment_cuda_group *g = &a->group;
    uint32_t count = g->count;
    struct particles_cuda particles = g->particles;
    g->count = 0;
    g->particles.count = 0;
    if (count == 0) return STATUS_OK;
    return alignment_cuda_back_project(&a->references, &a->sampling, &particles, g->factors, g->contributions, NULL,
                                       count, 0, g->scratch, &a->sums, stream_cuda_kernels(a->stream), err);
}

/* Particles `first` .. first + count − 1 of a part, which contribute `length` poses from `begin` on. */
struct piece {
    int first, count;
    uint32_t begin, length;
};

static enum status append(struct alignment_cuda *a, const struct particles_cuda *p, const float *factors,
                          const struct contribution_cuda *contributions, const struct piece *piece, struct err *err) {
    struct alignment_cuda_group *g = &a->group;
    size_t from = (size_t)piece->first, to = (size_t)g->particles.count, n = (size_t)piece->count, row = p->stride;
    TRY(stream_cuda_copy(a->stream, g->particles.unmasked + to * 2 * row, p->unmasked + from * 2 * row,
                         n * 2 * row * sizeof(float), err));
    TRY(stream_cuda_copy(a->stream, g->particles.ctf + to * row, p->ctf + from * row, n * row * sizeof(float), err));
    TRY(stream_cuda_copy(a->stream, g->particles.weight + to * row, p->weight + from * row, n * row * sizeof(float),
                         err));
    TRY(stream_cuda_copy(a->stream, g->factors + to, factors + from, n * sizeof *factors, err));
    TRY(alignment_cuda_contributions_copy(contributions + piece->begin, piece->length,
                                          g->particles.count - piece->first, g->contributions + g->count,
                                          stream_cuda_kernels(a->stream), err));
    g->particles.count += piece->count;
    g->count += piece->length;
    return STATUS_OK;
}

/* Returns as many particles of the group's chunk as it has room for; count 0 if the next particle alone fills more than
 * a whole group. */
static struct piece next_piece(const struct alignment_cuda *a, const struct alignment_particle *of_host, int first,
                               int end) {
    const struct alignment_cuda_group *g = &a->group;
    const uint32_t *begin = a->found->contributions;
    struct piece piece = {.first = first, .begin = begin[first]};
    while (first + piece.count < end && g->particles.count + piece.count < g->most &&
           of_host[first + piece.count].chunk == g->chunk &&
           begin[first + piece.count + 1] - piece.begin <= g->contributions_most - g->count)
        piece.count++;
    piece.length = begin[first + piece.count] - piece.begin;
    return piece;
}

/* Returns the most contributions of a particle that are more than a group holds; otherwise 0. */
static uint32_t too_many(const struct alignment_cuda *a, int count) {
    uint32_t most = 0;
    for (int i = 0; i < count; i++) {
        uint32_t length = a->found->contributions[i + 1] - a->found->contributions[i];
        if (length > a->group.contributions_most && length > most) most = length;
    }
    return most;
}

/* Adds a particle as a group of its own, with renumbered contributions. */
static enum status add_alone(struct alignment_cuda *a, const struct particles_cuda *p, const float *factors,
                             struct contribution_cuda *contributions, int i, void *scratch, struct err *err) {
    const uint32_t *begin = a->found->contributions;
    size_t row = (size_t)i * p->stride;
    struct particles_cuda one = {.count = 1,
                                 .stride = p->stride,
                                 .unmasked = p->unmasked + 2 * row,
                                 .ctf = p->ctf + row,
                                 .weight = p->weight + row};
    struct contribution_cuda *own = contributions + begin[i];
    TRY(alignment_cuda_contributions_copy(own, begin[i + 1] - begin[i], -i, own, stream_cuda_kernels(a->stream), err));
    return alignment_cuda_back_project(&a->references, &a->sampling, &one, factors + i, own, NULL,
                                       begin[i + 1] - begin[i], 0, scratch, &a->sums, stream_cuda_kernels(a->stream),
                                       err);
}

enum status alignment_cuda_sums_add(struct alignment_cuda *a, const struct particles_cuda *p,
                                    const struct alignment_particle *of_host, const float *factors,
                                    struct contribution_cuda *contributions, const uint32_t *begin, struct err *err) {
    const uint32_t *found = a->found->contributions;
    struct alignment_cuda_group *g = &a->group;
    uint32_t most = too_many(a, p->count);
    void *scratch = NULL;
    if (a->sums_near)
        return alignment_cuda_back_project(&a->references, &a->sampling, p, factors, contributions, begin,
                                           found[p->count], 1, NULL, &a->sums, stream_cuda_kernels(a->stream), err);
    if (most > 0) {
        size_t bytes = 0;
        TRY(alignment_cuda_back_project_scratch(most, &bytes, err));
        TRY(arena_take(a->arena, bytes, 1, "poses that contribute", &scratch, err));
    }
    for (int first = 0; first < p->count;) {
        if (of_host[first].chunk != g->chunk) TRY(alignment_cuda_sums_flush(a, err));
        g->chunk = of_host[first].chunk;
        struct piece piece = next_piece(a, of_host, first, p->count);
        if (piece.count > 0) TRY(append(a, p, factors, contributions, &piece, err));
        first += piece.count;
        if (first == p->count) break;
        if (of_host[first].chunk != g->chunk) continue;
        TRY(alignment_cuda_sums_flush(a, err));
        if (found[first + 1] - found[first] <= g->contributions_most) continue;
        TRY(add_alone(a, p, factors, contributions, first, scratch, err));
        first++;
    }
    return STATUS_OK;
}
