/* What the files of the alignment's CUDA side share: kernels/alignment/alignment_cuda*.c. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_PRIVATE_H
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_PRIVATE_H

#include "common/worker.h"
#include "kernels/alignment/alignment.h"
#include "kernels/alignment/alignment_private.h"
#include "kernels/alignment/cuda/alignment.h"
#include "kernels/alignment/cuda/stream.h"

/* Of the coarse pass: its plan counts what its batches take. */
static const enum coarse_precision ALIGNMENT_PRECISION = COARSE_TF32X3;

/* Images and what is known of them before, of the particles that are on the device at a time; one block each on the
 * host (page-locked) and on the device. */
struct alignment_slot {
    float *images;                       /* [particles][box²] */
    struct prepare_particle_cuda *which; /* [particles] */
    int *own, *known_shell;              /* [particles][2], [particles] */
    double *residual;                    /* [particles]: of the last iteration */
    struct doubt *doubts;                /* [particles] */
};

/* What the host gets of a batch: page-locked. */
struct alignment_found {
    struct top_sum *coarse;           /* [particles] */
    struct sample_counts *counts;     /* [particles] */
    struct best_cuda *best;           /* [particles] */
    float *power, *reference_weights; /* [particles][shells], [particles][references] */
    float *factors;                   /* [particles]: reliability */
    double *residuals, *constant;     /* [particles][2], [particles] */
    uint32_t *contributions;          /* [particles + 1]: where those of each particle of a part begin */
};

/* Images that stay on the device (images.c): number i + 1 has entry entries[i], −1 where it is not there.
 * They lie from `end` downwards, entry 0 last. */
struct alignment_images {
    char *end;
    size_t bytes;
    int *entries, count; /* of numbers */
    int used, room;
};

/* Particles that wait until they are added to the sums together: what they give to a slice is scattered once. Which ones
 * these are depends on their order and on what they contribute, not on the memory or on batches, and so do the last bits
 * of the sums. */
struct alignment_group {
    struct particles_cuda particles; /* unmasked, ctf and weight of them */
    float *factors;
    struct contribution_cuda *contributions;
    void *scratch;
    int most;
    uint32_t count, contributions_most;
};

struct alignment_cuda {
    struct alignment_options options;
    int shells;
    double *shell_pixels; /* [shells]: of the half plane */
    struct arena *arena;
    struct stream_cuda *stream;
    struct workspace *workspace; /* of both */
    struct coarse_cuda *coarse;
    struct prepare_cuda *prepare;
    struct alignment_images images;

    /* of the iteration */
    struct alignment_iteration iteration;
    struct references_cuda references;
    struct sampling_cuda sampling;
    struct sums_cuda sums;
    bool sums_near; /* of local searches: particles are added one by one, and no group is needed */
    struct alignment_group group;
    float *sigma2, *row_log_prior;
    double *device_shell_pixels; /* shell_pixels, where images are doubtful */
    float *matrices;             /* [orientations][9] of the coarse grid */
    int orientations, rows, rotations, each;
    uint32_t most; /* samples of a particle that the fine pass takes */
    size_t stride;
    int particles;    /* on the device at a time */
    int rows_at_once; /* slices that there is room for; rows: all, made once */
    float *slices, *squares;
    bool slices_made;
    struct alignment_slot host[STREAM_SLOTS], device[STREAM_SLOTS];
    int *staged[STREAM_SLOTS]; /* [particles]: place of the image among those of the slot; −1: it is on the device */
    struct alignment_found found_of[STREAM_SLOTS], *found; /* of the part that is compared */
    void *host_block;
    size_t host_bytes;
    char *put_block; /* page-locked: what an iteration is planned with, on its way to the device */
    size_t put_used;
    char *sums_block; /* page-locked: sums that the host keeps, on their way to it */
    size_t sums_bytes;
    struct sampling_subset *near_of[STREAM_SLOTS], *near; /* [particles] of the host; of the part that is compared */
    void *near_block;                                     /* page-locked: lists of them */
    size_t near_bytes;
    struct bringing {
        struct alignment_cuda *alignment;
        const struct alignment_particle *particles;
        int count, slot;
    } bringing; /* what the worker does: the images of the next particles on their way to the device, poses near them */
    struct worker *worker;
};

enum { ALIGNMENT_PUT_BYTES = 16 << 20, ALIGNMENT_SUMS_BYTES = 64 << 20 };
enum { ALIGNMENT_PARTICLES_MOST = 512, ALIGNMENT_PARTS = 16 };

/* plan.c */
enum status alignment_cuda_plan(struct alignment_cuda *alignment, struct err *err);

/* images.c. Copies the images that are not on the device yet into from->images, on `threads`, and sends
 * them on their way: to where they stay, or to the slot to->images. staged[count]; from->which[i].image becomes where
 * image i will be. */
enum status alignment_cuda_images_bring(struct alignment_cuda *alignment, const struct alignment_particle *particles,
                                        int count, int slot, int threads, struct err *err);
void alignment_cuda_images_destroy(struct alignment_cuda *alignment);

/* near.c: local searches. Room for lists of a batch, about: as many poses near each particle as near one.
 * The orientations near each particle, on the host; then the coarse samples that
 * matter of particles first .. first + p->count - 1 of the batch, whose counts and sums the host gets. */
enum status alignment_cuda_near_plan(struct alignment_cuda *alignment, struct err *err);
enum status alignment_cuda_find_near(const struct alignment_cuda *alignment, const struct alignment_particle *particles,
                                     int count, int threads, struct sampling_subset *ret_near, struct err *err);
enum status alignment_cuda_near(struct alignment_cuda *alignment, const struct particles_cuda *particles, int first,
                                struct samples_cuda *ret_kept, struct err *err);

/* fine.c: from coarse samples to sums and results. STATUS_NO_MEMORY, with nothing added: these particles
 * are too many at once. */
struct alignment_jobs { /* of the device, [particles] */
    const int *own, *known_shell;
    const double *residual;
    const struct doubt *doubts;
};
enum status alignment_cuda_fine(struct alignment_cuda *alignment, const struct particles_cuda *particles,
                                const struct samples_cuda *samples, const struct alignment_jobs *jobs, int first,
                                struct err *err);
/* sums.c: takes what the group needs for the iteration; adds p->count particles, whose contributions begin
 * at begin[] (of the device; found.contributions is its copy); adds those that still wait. STATUS_NO_MEMORY: as above. */
enum status alignment_cuda_sums_plan(struct alignment_cuda *alignment, struct err *err);
enum status alignment_cuda_sums_add(struct alignment_cuda *alignment, const struct particles_cuda *particles,
                                    const float *factors, struct contribution_cuda *contributions,
                                    const uint32_t *begin, struct err *err);
enum status alignment_cuda_sums_flush(struct alignment_cuda *alignment, struct err *err);
/* What the host got of particle i of a part. */
void alignment_cuda_result(const struct alignment_cuda *alignment, const struct alignment_found *found,
                           const struct alignment_particle *particle, int i, struct alignment_result *ret_result);

#endif
