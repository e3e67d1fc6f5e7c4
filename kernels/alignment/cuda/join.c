/* Brings the sums of several devices together, as integers: their sum is the same in any order. */
#include "kernels/alignment/cuda/alignment_private.h"

static const double MOST_UNITS = 0x1p62; /* of a voxel (struct sums_fill) */
enum { PIECE = 8 << 20 };                /* integers that are copied at a time */

static enum status check_fill(const struct sums_fill *fill, const struct sums_fill *joined, struct err *err) {
    const bool much = (double)fill->data + (double)joined->data > MOST_UNITS ||
                      (double)fill->weight + (double)joined->weight > MOST_UNITS;
    FAIL_IF(fill->overflow || joined->overflow || much, err, STATUS_BAD_STATE,
            "sums over particles overflowed: images are not normalised (their background's standard "
            "deviation should be about 1)");
    return STATUS_OK;
}

/* Leaves the fill of this device in put_block, which no transfer to the device uses any more. */
enum status alignment_cuda_close(struct alignment *alignment, struct err *err) {
    struct alignment_cuda *a = alignment->cuda;
    struct sums_fill *fill = (struct sums_fill *)(void *)a->put_block;
    TRY(stream_cuda_begin(a->stream, err));
    TRY(alignment_cuda_sums_flush(a, err));
    TRY(stream_cuda_get(a->stream, fill, a->sums.overflow, sizeof *fill, err));
    TRY(stream_cuda_end(a->stream, err));
    TRY(stream_cuda_wait(a->stream, err));
    return check_fill(fill, &a->joined, err);
}

/* Adds the sums of one reference, a piece at a time. */
static enum status add_sums(struct alignment_cuda *leader, const struct alignment_cuda *other, int k, size_t count,
                            int64_t *piece, size_t most, struct err *err) {
    void *stream = stream_cuda_kernels(leader->stream);
    for (size_t first = 0, part; first < count; first += part) {
        part = count - first < most ? count - first : most;
        TRY(alignment_cuda_copy_from(piece, leader->options.device.index, other->sums.voxels[k] + first,
                                     other->options.device.index, part * sizeof *piece, stream, err));
        TRY(alignment_cuda_add_integers(leader->sums.voxels[k] + first, piece, part, stream, err));
    }
    return STATUS_OK;
}

static enum status add_all(struct alignment_cuda *leader, const struct alignment_cuda *other, struct err *err) {
    const struct sums_cuda *s = &leader->sums;
    const size_t count = (size_t)s->nx * (size_t)s->ny * (size_t)s->nz * 4;
    size_t most = arena_left(leader->arena) / 2 / sizeof(int64_t);
    int64_t *piece = NULL;
    if (most > PIECE) most = PIECE;
    if (most > count) most = count;
    FAIL_IF(most == 0, err, STATUS_NO_MEMORY, "no memory is left to add the sums of another device: raise `memory`");
    TRY(arena_take(leader->arena, most, sizeof *piece, "sums of another device", &piece, err));
    for (int k = 0; k < leader->iteration.reference_count; k++)
        TRY(add_sums(leader, other, k, count, piece, most, err));
    return STATUS_OK;
}

enum status alignment_cuda_join(struct alignment *alignment, struct alignment *closed, struct err *err) {
    struct alignment_cuda *leader = alignment->cuda, *other = closed->cuda;
    const struct sums_fill *fill = (const struct sums_fill *)(const void *)other->put_block;
    leader->joined.data += fill->data;
    leader->joined.weight += fill->weight;
    TRY(check_fill(&(struct sums_fill){0}, &leader->joined, err));
    TRY(arena_open(leader->arena, ARENA_PARTICLES, err));
    enum status status = stream_cuda_begin(leader->stream, err);
    if (status == STATUS_OK) status = add_all(leader, other, err);
    if (status == STATUS_OK) status = stream_cuda_end(leader->stream, err);
    /* The other device's sums, and the memory of a piece, are free only after this. */
    if (status == STATUS_OK) status = stream_cuda_wait(leader->stream, err);
    arena_close(leader->arena, ARENA_PARTICLES);
    arena_close(other->arena, ARENA_ITERATION);
    return status;
}
