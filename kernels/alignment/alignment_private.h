/* State and ops table of the alignment: what alignment.c asks of each device. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_PRIVATE_H
#define ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_PRIVATE_H

#include "kernels/alignment/alignment.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return the probability that an image shows no particle, and that it shows one, each accurate however small; and ln of
 * the evidence of all poses and of nothing together. */
static inline double probability_of_nothing(double evidence, double nothing) {
    return 1 / (1 + exp(fmin(evidence - nothing, 700)));
}
static inline double probability_of_something(double evidence, double nothing) {
    return probability_of_nothing(nothing, evidence);
}
static inline double evidence_with_nothing(double evidence, double nothing) {
    return fmax(evidence, nothing) + log1p(exp(-fabs(evidence - nothing)));
}

/* Returns the most coarse samples of a particle that the fine pass takes, except for ties. More are taken if their
 * children (32 per sample) are not compared. */
enum { ALIGNMENT_WITHOUT_CHILDREN = 4 };
static inline size_t most_coarse_samples(const struct alignment_options *options,
                                         const struct alignment_iteration *iteration) {
    return (size_t)options->max_significant * (size_t)(iteration->oversampled ? 1 : ALIGNMENT_WITHOUT_CHILDREN);
}

/* Returns the share of the probability whose poses are added to the sums. */
static inline double summed_share(const struct alignment_iteration *iteration) {
    return iteration->summed > 0 ? iteration->summed : 0.999;
}

/* Returns how many pixels of all samples of the whole grid are compared, and the most samples of a particle that are
 * compared over coarse_pixels after that, except for ties. */
enum { ALIGNMENT_SCREENED = 64 };
static inline int grid_pixels(const struct alignment_iteration *iteration) {
    return iteration->screen_pixels > 0 ? iteration->screen_pixels : iteration->coarse_pixels;
}
static inline size_t most_screened_samples(const struct alignment_options *options,
                                           const struct alignment_iteration *iteration) {
    size_t most = most_coarse_samples(options, iteration), limit = (size_t)1 << 25;
    return most < limit / ALIGNMENT_SCREENED ? most * ALIGNMENT_SCREENED : limit;
}

/* Lists the orientations that a local search compares with a particle. */
static inline enum status alignment_near(const struct alignment_iteration *iteration,
                                         const struct alignment_particle *particle, struct sampling_subset *near,
                                         struct err *err) {
    if (iteration->given_poses) return sampling_only(particle->orientation, near, err);
    double sigma = iteration->near_sigma > 0 ? iteration->near_sigma : iteration->sampling->angle_step;
    return sampling_near(iteration->sampling, particle->pose, sigma, iteration->near_range, near, err);
}

struct alignment_cpu;
struct alignment_cuda;
struct alignment_several;
struct alignment_turns;

struct alignment {
    struct alignment_options options;
    struct alignment_iteration iteration;
    bool begun;
    const struct alignment_work *work; /* chosen once, when the alignment is created */
    struct alignment_cpu *cpu;         /* owned by the work: one of the three, the others are NULL */
    struct alignment_cuda *cuda;
    struct alignment_several *several;
    /* The first of several workers: this one copies its references, and adds its own sums to those of the leader. NULL:
     * this one works alone, or is the first. */
    const struct alignment *leader;
};

/* Ops of a device for the functions of alignment.h; alignment.c checks the arguments first. NULL: nothing to do. */
struct alignment_work {
    enum status (*create)(struct alignment *a, struct err *err);
    void (*destroy)(struct alignment *a); /* also called after a create that failed */
    struct workspace *(*workspace)(const struct alignment *a);
    enum status (*keep_images)(struct alignment *a, int count, size_t most_bytes, struct err *err);
    void (*forget_images)(struct alignment *a);
    bool (*keeps_image)(const struct alignment *a, int number);
    int (*image_room)(const struct alignment *a);
    enum status (*bring)(struct alignment *a, const struct alignment_particle *particles, int count, struct err *err);
    enum status (*begin)(struct alignment *a, const struct alignment_iteration *iteration, struct err *err);
    int (*batch)(const struct alignment *a);
    enum status (*scale)(struct alignment *a, const struct alignment_particle *particles, int count, double *ret_mean,
                         double *dots, double *norms, struct err *err);
    enum status (*add)(struct alignment *a, const struct alignment_particle *particles, int count,
                       struct alignment_result *results, struct err *err);
    enum status (*finish)(struct alignment *a, struct err *err);
    /* Several workers call these. take_turn makes the next `add` wait for its turn, and then add to sums that all
     * workers share. close finishes the sums that a worker has for itself, as integers. join adds the sums of a closed
     * worker to those of the leader. The CPU has take_turn, CUDA has close and join. */
    void (*take_turn)(struct alignment *a, struct alignment_turns *turns, int turn);
    enum status (*close)(struct alignment *a, struct err *err);
    enum status (*join)(struct alignment *leader, struct alignment *closed, struct err *err);
    enum status (*seconds)(struct alignment *a, double *ret_seconds, struct err *err);
    size_t (*trace)(struct alignment *a, struct arena_step *steps, size_t capacity);
};
/* Finds the bytes that an alignment on the device may use if options.memory is 0. */
enum status alignment_find_memory(const struct device *device, double *ret_memory, struct err *err);
/* several.c: deals particles out to workers, one for each device. */
extern const struct alignment_work alignment_several_work;
int alignment_several_count(const struct alignment *a);
bool alignment_several_keeps_image(const struct alignment *a, int number, int chunk);
int alignment_several_image_room(const struct alignment *a, int chunk);
extern const struct alignment_work alignment_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct alignment_work alignment_cuda_work;

#ifdef __cplusplus
}
#endif
#endif
