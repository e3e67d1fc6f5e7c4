/* Definitions shared by the C files of the alignment on a CUDA device. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_PRIVATE_H
#define ICESTREAM_KERNELS_ALIGNMENT_CUDA_ALIGNMENT_PRIVATE_H

#include "common/worker.h"
#include "kernels/alignment/alignment.h"
#include "kernels/alignment/alignment_private.h"
#include "kernels/alignment/cuda/alignment.h"
#include "kernels/alignment/cuda/stream.h"

/* Input of the particles that are on the device at a time: images and earlier results. One block each on the host
 * (page-locked) and on the device. */
struct alignment_cuda_slot {
    float *images;                       /* [particles][box²], on the device alone */
    struct prepare_particle_cuda *which; /* [particles] */
    int *own;                            /* [particles][2] integer shifts, px */
    int *known_shell;                    /* [particles] last shell that `residual` counts */
    double *residual;                    /* [particles] residual in the last iteration */
    struct doubt *doubts;                /* [particles] */
};

/* Results of a batch on the host, page-locked. */
struct alignment_cuda_found {
    struct top_sum *coarse;         /* [particles] */
    struct sample_counts *counts;   /* [particles] */
    struct sample_counts *screened; /* [particles] with screen_pixels: before those of coarse_pixels are chosen */
    struct best_cuda *best;         /* [particles] */
    float *power;                   /* [particles][shells] */
    float *reference_weights;       /* [particles][references] */
    float *factors;                 /* [particles] reliability */
    double *residuals;              /* [particles][2] */
    double *constant;               /* [particles] */
    uint32_t *contributions;        /* [particles + 1] first contribution of each particle of a part */
};

/* Images that stay on the device (images.c): number i + 1 has entry entries[i]; −1: not on the device. They lie from
 * `end` downwards, entry 0 last. */
struct alignment_cuda_images {
    char *end;
    size_t bytes;
    int *entries, count; /* count: numbers with an entry */
    int used, room;
};

/* Page-locked memory through which images come to the device, one stage after the other. It stays in the processor's
 * cache, and is soon taken: to page-lock the images of a whole batch takes longer than to compare them. */
struct alignment_cuda_stages {
    char *block; /* [STREAM_STAGES][most][box²] floats */
    int most;    /* images of a stage */
    int next;
    int *order; /* [ALIGNMENT_PARTICLES_MOST]: particles whose images are copied, as these will lie on the device */
};

/* Particles that wait to be added to the sums together: their contributions to a slice are scattered once. The choice
 * of particles depends on their order and their contributions, not on memory or batches; so do the last bits of the
 * sums. */
struct alignment_cuda_group {
    struct particles_cuda particles; /* only unmasked, ctf and weight are filled */
    float *factors;                  /* [most] reliability */
    struct contribution_cuda *contributions;
    void *scratch;
    int chunk;                          /* of the particles that wait: none of another one joins them */
    int most;                           /* most particles */
    uint32_t count, contributions_most; /* contributions that wait; most contributions */
};

/* order.c: the particles of a batch in the order of their directions. indices: their places in the batch. */
struct alignment_cuda_order {
    int room, *indices;
    struct alignment_particle *particles;
    struct alignment_cuda_place *places;
};

struct alignment_cuda {
    struct alignment_options options;
    /* The first of several workers (kernels/alignment/alignment_private.h): this one copies its references and follows
     * its plan. NULL: this one works alone, or is the first. */
    const struct alignment_cuda *leader;
    struct sums_fill joined; /* of the workers whose sums were added to these ones */
    int shells;
    double *shell_pixels; /* [shells]: pixels of the half plane */
    struct arena *arena;
    struct stream_cuda *stream;
    struct workspace *workspace; /* uses this arena and this stream */
    struct coarse_cuda *coarse;
    struct prepare_cuda *prepare;
    struct alignment_cuda_images images;
    struct alignment_cuda_stages stages;

    /* State of the iteration. */
    struct alignment_iteration iteration;
    struct references_cuda references;
    struct sampling_cuda sampling;
    struct sums_cuda sums;
    bool sums_near; /* local searches: particles are added one by one, without a group */
    struct alignment_cuda_group group;
    float *sigma2, *row_log_prior;
    double *device_shell_pixels; /* shell_pixels, if images are doubtful */
    float *matrices;             /* [orientations][9] of the coarse grid */
    int orientations, rows, rotations, each;
    uint32_t most;     /* most samples of a particle that the fine pass takes */
    uint32_t screened; /* most samples of a particle that are compared over coarse_pixels, with screen_pixels */
    size_t stride;     /* as in struct particles_cuda */
    int particles;     /* most particles on the device at a time */
    int rows_at_once;  /* number of slices that fit into memory; if equal to `rows`, all slices are made once */
    float *slices, *squares;
    bool slices_made;
    struct alignment_cuda_slot host[STREAM_SLOTS], device[STREAM_SLOTS];
    struct alignment_cuda_found found_of[STREAM_SLOTS], *found; /* found: results of the part that is being compared */
    void *host_block;
    size_t host_bytes;
    char *put_block; /* page-locked: data for planning an iteration, on their way to the device */
    size_t put_used;
    char *sums_block; /* page-locked: sums for host memory, on their way from the device */
    size_t sums_bytes;
    /* [particles] poses near each particle, in host memory. near: those of the part that is being compared. */
    struct sampling_subset *near_of[STREAM_SLOTS], *near;
    void *near_block; /* page-locked: lists of the near poses */
    size_t near_bytes;
    /* Job of the worker: copies the images of the next particles to the device, and finds the poses near them. */
    struct bringing {
        struct alignment_cuda *alignment;
        const struct alignment_particle *particles;
        int count, slot;
    } bringing;
    struct worker *worker;
    struct alignment_cuda_order order;
};

/* Returns the precision of the products over the whole grid. Samples that are only screened are compared again. */
static inline enum coarse_precision grid_precision(const struct alignment_cuda *alignment) {
    const struct alignment_iteration *iteration = &alignment->iteration;
    return iteration->screen_pixels > 0 || iteration->rounded ? COARSE_TF32 : COARSE_TF32X3;
}

enum { ALIGNMENT_PUT_BYTES = 16 << 20, ALIGNMENT_SUMS_BYTES = 64 << 20 };
enum { ALIGNMENT_PARTICLES_MOST = 512 };

/* batch.c and images.c: do what the members of struct alignment_work of these names do. */
enum status alignment_cuda_keep_images(struct alignment *alignment, int count, size_t most_bytes, struct err *err);
void alignment_cuda_forget_images(struct alignment *alignment);
bool alignment_cuda_keeps_image(const struct alignment *alignment, int number);
int alignment_cuda_image_room(const struct alignment *alignment);
enum status alignment_cuda_bring(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct err *err);
enum status alignment_cuda_scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 double *ret_mean, double *dots, double *norms, struct err *err);
enum status alignment_cuda_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                               struct alignment_result *results, struct err *err);

/* plan.c: plans the memory of an iteration and copies its data to the device. */
enum status alignment_cuda_plan(struct alignment_cuda *alignment, struct err *err);

/* images.c: takes the page-locked memory. */
enum status alignment_cuda_images_create(struct alignment_cuda *alignment, struct err *err);
/* Copies the images that are not on the device yet, on `threads` threads, to where they stay, or to the device's slot.
 * which[i].image of the host's slot becomes the place where image i will be. */
enum status alignment_cuda_images_bring(struct alignment_cuda *alignment, const struct alignment_particle *particles,
                                        int count, int slot, int threads, struct err *err);
void alignment_cuda_images_destroy(struct alignment_cuda *alignment);

/* Sorts particles by the direction of their last poses: fills order->particles and order->indices. */
enum status alignment_cuda_order(struct alignment_cuda_order *order, const struct alignment_particle *particles,
                                 int count, struct err *err);
void alignment_cuda_order_destroy(struct alignment_cuda_order *order);

/* near.c: local searches. Takes room for the lists of a batch, estimated with as many poses near each particle as near
 * one. */
enum status alignment_cuda_near_plan(struct alignment_cuda *alignment, struct err *err);
/* Lists the orientations near each particle, on the host: ret_near[count]. */
enum status alignment_cuda_find_near(const struct alignment_cuda *alignment, const struct alignment_particle *particles,
                                     int count, int threads, struct sampling_subset *ret_near, struct err *err);
/* Lists the coarse samples that matter for particles first .. first + p->count - 1 of the batch. Copies their counts
 * and sums to the host. */
enum status alignment_cuda_near(struct alignment_cuda *alignment, const struct particles_cuda *particles, int first,
                                struct samples_cuda *ret_kept, struct err *err);

/* Compares listed samples over coarse_pixels, and lists those to keep: as alignment_cuda_near. begin[particles + 1]: of
 * the list's samples; longest: the most of one particle. */
enum status alignment_cuda_keep(struct alignment_cuda *alignment, const struct particles_cuda *particles,
                                const struct samples_cuda *list, const size_t *begin, size_t longest, int first,
                                struct samples_cuda *ret_kept, struct err *err);

/* Input of the fine pass, in device memory; arrays as in struct alignment_cuda_slot. */
struct alignment_cuda_jobs {
    const int *own, *known_shell;
    const double *residual;
    const struct doubt *doubts;
    const struct alignment_particle *particles; /* in host memory */
};
/* fine.c: goes from coarse samples to sums and results. first: as in alignment_cuda_near. STATUS_NO_MEMORY: nothing was
 * added; these particles are too many at a time. */
enum status alignment_cuda_fine(struct alignment_cuda *alignment, const struct particles_cuda *particles,
                                const struct samples_cuda *samples, const struct alignment_cuda_jobs *jobs, int first,
                                struct err *err);
/* sums.c: takes the memory of the group for the iteration. */
enum status alignment_cuda_sums_plan(struct alignment_cuda *alignment, struct err *err);
/* Adds particles->count particles, or lets them wait in the group. of_host: the same particles, for their chunks. Their
 * contributions begin at begin[particles + 1] (device memory; found.contributions is its copy). STATUS_NO_MEMORY as
 * alignment_cuda_fine. */
enum status alignment_cuda_sums_add(struct alignment_cuda *alignment, const struct particles_cuda *particles,
                                    const struct alignment_particle *of_host, const float *factors,
                                    struct contribution_cuda *contributions, const uint32_t *begin, struct err *err);
/* Adds the particles that still wait in the group. STATUS_NO_MEMORY as alignment_cuda_fine. */
enum status alignment_cuda_sums_flush(struct alignment_cuda *alignment, struct err *err);
/* join.c: do what the members of struct alignment_work of these names do. */
enum status alignment_cuda_close(struct alignment *alignment, struct err *err);
enum status alignment_cuda_join(struct alignment *leader, struct alignment *closed, struct err *err);
/* Fills the result of particle i of a part from what the host got. */
void alignment_cuda_result(const struct alignment_cuda *alignment, const struct alignment_cuda_found *found,
                           const struct alignment_particle *particle, int i, struct alignment_result *ret_result);

#endif
