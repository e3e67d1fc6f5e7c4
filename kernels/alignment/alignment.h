/* The whole E-step: compares particles with references at the poses of a grid, computes the probabilities of poses, and
 * makes the sums for the M-step. 2D classes and 3D references alike, on the CPU or on a CUDA device. Source: Scheres
 * 2012; formulas: kernels/expectation/expectation.h.
 *
 * Two passes. The coarse pass compares every orientation of the grid × every shift × every reference (`local`: those
 * near the particle's last pose) over the first coarse_pixels of the list, and keeps the samples that hold 99.9 % of
 * the probability. With screen_pixels, a search of the whole grid takes two steps, the first over fewer pixels. The
 * fine pass compares the children of these samples over all pixels that references hold; the children that hold 99.9 %
 * contribute.
 *
 * Both devices give the same poses and weights except for rounding. Results do not depend on the number of threads, and
 * repeat bit for bit on one device. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_H
#define ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/arena.h"
#include "common/device.h"
#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/fourier/pixels.h"
#include "kernels/fourier/workspace.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/sampling/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The norm in paper 001's weight of images: the paper's formula and its text differ, so both exist. The squared norm
 * reacts twice as much to small changes. */
enum alignment_norm {
    ALIGNMENT_NORM_NONE, /* all images have the same weight */
    ALIGNMENT_NORM_L2,   /* √Σ |X − c P|² */
    ALIGNMENT_NORM_L2SQ, /* Σ |X − c P|² */
};

enum { ALIGNMENT_DEVICES_MOST = 16 };
struct alignment_options {
    struct device device;
    /* Devices that share the particles, each with its own memory: CUDA devices, or the CPU several times, for tests.
     * One device may stand there twice. The first one holds references and sums for the caller. device_count 0 or 1:
     * `device` alone works. */
    struct device devices[ALIGNMENT_DEVICES_MOST];
    int device_count;
    int threads; /* on the CPU, of all devices together */
    /* The E-step may use so many bytes on each device, beside what libraries take; on a CUDA device, of device memory.
     * 0: on a CUDA device all memory that is free when the alignment is created, less 1 GiB or a quarter of it for
     * libraries; on the CPU 4 GiB. Several CUDA devices all take what the one with the least has. */
    double memory;
    int box;            /* px; shells are 0 .. box/2 */
    double pixel_size;  /* Å */
    double mask_radius; /* px; edge 5 px */
    /* Most coarse samples of a particle whose children are compared: the best ones, more only for ties with the last;
     * at most 2^25 */
    int max_significant;
    enum alignment_norm reliability; /* how an image's change of residual weights what it gives to the map */
};

/* Returns the weight of an image in the map (paper 001): 1 if nothing is known, more if its fit improves. before, now:
 * residuals √Σ |X − c P|² at the best pose, over the same shells; before < 0: not known. */
static inline double alignment_reliability(enum alignment_norm norm, double before, double now) {
    if (norm == ALIGNMENT_NORM_NONE || !(before >= 0 && now > 0)) return 1;
    double ratio = before / now, change = (norm == ALIGNMENT_NORM_L2SQ ? ratio * ratio : ratio) - 1;
    return 0.75 + 0.5 / (1 + exp(-change));
}

struct alignment; /* memory and plans, kept from iteration to iteration */
enum status alignment_create(const struct alignment_options *options, struct alignment **ret_alignment,
                             struct err *err);
void alignment_destroy(struct alignment **alignment);
/* Returns how many devices share the particles. */
int alignment_workers(const struct alignment *alignment);

enum { ALIGNMENT_REFERENCES_MOST = 256 }; /* most references on a CUDA device */

/* Parameters of an iteration, the same for all its particles (of one half). They stay valid until alignment_finish. */
struct alignment_iteration {
    const struct fourier_pixels *pixels; /* pixels of the fine pass */
    int coarse_pixels;
    /* A search of the whole grid compares all samples over these first pixels alone, and over coarse_pixels those that
     * hold 99.9 % of the probability by then; 0: all over coarse_pixels. */
    int screen_pixels;
    /* A CUDA device may multiply values rounded to 11 bits when it compares all samples of the grid: that takes a third
     * of the time, and changes a log-likelihood by about √V/4096, V = Σ |P|²/σ² over the pixels. The samples that it
     * chooses are compared again, in the fine pass. With screen_pixels it does so in any case. */
    bool rounded;
    const struct sampling *sampling; /* perturbed */
    bool local;                      /* compare only poses near each particle's pose: sampling_near */
    double near_sigma; /* °, local: of the prior, which ends at three times as much; 0: the angle step of the grid */
    double near_range; /* °, local: no pose farther away counts, children included (sampling_near); 0: no such limit */
    /* With local, and without oversampled: compare each particle at its own pose alone. The sampling is a list of poses
     * (sampling_create_list). */
    bool given_poses;
    /* Share of a particle's probability whose poses make up sums, noise and spreads: the most probable ones; 0: 99.9 %.
     * Where thousands of poses fit alike, the last hundredth is a third of them. */
    double summed;
    bool oversampled;   /* compare children in the fine pass; false: the coarse samples themselves */
    int particle_count; /* most particles that will be added, 0 to 10^6: the sums have room for so many */
    int reference_count;
    /* Their maps are set for one size, at most pixels->size. Beyond it references are empty, and nothing is
     * compared. */
    struct projector *const *references;
    struct accumulator *const *sums; /* one per reference; cleared for pixels->size */
    /* Sums lie in the workspace, have at least that size, and are not empty: alignment_finish adds to them, and nothing
     * does before */
    bool add_to;
    const float *reference_log_prior; /* [reference_count]; NULL: all equal */
    double sigma_offset;              /* px: of the Gaussian prior of shifts about 0 */
    bool doubtful; /* images may show no particle, or something that must not count: see struct alignment_particle */
    const float *sigma2; /* [optics groups][box/2 + 1] */
    int optics_count;
    /* Last shell that the references share with those of an independent half. Images are then masked in two bands, up
     * to this shell and beyond it (kernels/prepare). 0: one band. */
    int shared_shell;
};

/* Returns the bytes that may be used: options.memory, or the value found for 0. */
double alignment_memory(const struct alignment *alignment);

/* Returns device memory in which references and sums can be kept, so that the E-step uses them in place. It is part of
 * the memory that alignment_memory counts. NULL on the CPU. It lives as long as the alignment. */
struct workspace *alignment_workspace(const struct alignment *alignment);

/* Keeps images on the device once they have been copied there: those with numbers up to `count`, as many as fit into
 * most_bytes, for as long as the alignment lives. Call it between iterations, before memory of the workspace is taken.
 * A number then stands for one image for good: an image that is kept is not read again. Only an increase has an effect.
 * The CPU keeps nothing. */
enum status alignment_keep_images(struct alignment *alignment, int count, size_t most_bytes, struct err *err);
/* Forgets all images that are kept, because their values have changed; their room stays. Call it between iterations. */
void alignment_forget_images(struct alignment *alignment);
/* Returns whether the image of that number stays already on the device that compares particles of that chunk, so that
 * such a particle needs no `image`. Call it while no particles are being added. */
bool alignment_keeps_image(const struct alignment *alignment, int number, int chunk);
/* Returns how many more images can stay on the device that compares particles of that chunk. Call it while no particles
 * are being added. */
int alignment_image_room(const struct alignment *alignment, int chunk);

/* Returns whether an E-step can number so many orientations of each reference. A `local` E-step can then search them.
 * One over the whole grid may still have too many samples (STATUS_UNSUPPORTED of alignment_begin). */
bool alignment_can_number(double orientations, int references);

/* Begins an iteration and plans its memory; abandons an unfinished iteration. STATUS_NO_MEMORY: the iteration needs at
 * least more than may be used; the message says how much. On the CPU, references and sums are the caller's and come on
 * top. On a device, those in the workspace are part of the memory; references in host memory are copied to the device,
 * and sums in host memory receive a copy of what the device has added. */
enum status alignment_begin(struct alignment *alignment, const struct alignment_iteration *iteration, struct err *err);
/* Returns how many particles alignment_add takes at a time, for each of the workers. A CUDA device works on an
 * ALIGNMENT_PARTS-th of them at once: smaller batches should be multiples of such a part. */
enum { ALIGNMENT_PARTS = 16 };
int alignment_batch(const struct alignment *alignment);

struct alignment_particle {
    const float *image;    /* box²; any, if the device keeps it (alignment_keeps_image) */
    const struct ctf *ctf; /* NULL: CTF 1 */
    int optics;
    int shift[2];    /* px: applied first; shifts of the grid are relative to it */
    double scale;    /* multiplies the image (average norm / norm) */
    double pose[9];  /* local: the pose to search near */
    double residual; /* of the last iteration (as in the results), up to known_shell; < 0: not known */
    int known_shell;
    int orientation; /* given_poses: the pose of the list */
    double rest[2];  /* px, given_poses: shift beyond `shift`, by phases of the masked image; without a prior */
    /* Particles in a row with the same chunk, from 0 on, are compared by one device: chunk modulo the number of
     * devices. A CUDA device adds nothing of several chunks together before sums are rounded to integers. Sums then
     * follow from the chunks, for any number of devices. Several workers on the CPU add each chunk of a call as a
     * single worker adds the particles of a call; a single worker there knows no chunks. */
    int chunk;
    int number; /* of the image, from 1 on, by which a device recognises it (alignment_keep_images); 0: none */
    /* doubtful: log prior that the image shows no particle, on the scale of the priors of poses (alignment_log_poses);
     * and the range of norm_sum within which the image contributes to the sums. */
    double nothing, norm_least, norm_most;
};

/* Returns ln of the sum of the (unnormalised) priors of all poses of a reference, for a particle with this shift of its
 * own. Not for a `local` E-step. */
double alignment_log_poses(const struct alignment_iteration *iteration, const int shift[2]);

struct alignment_result {
    double pose[9], shift[2]; /* of the most probable sample; shift in px, including the particle's own */
    int reference;
    int significant; /* number of coarse samples that hold 99.9 % */
    double pmax;     /* probability of that sample */
    double log_likelihood;
    double evidence;    /* ln Σ over poses of prior · likelihood, relative to the likelihood of an empty image */
    double nothing;     /* doubtful: probability that the image shows no particle; weights of poses sum to the rest */
    bool left_out;      /* doubtful: norm_sum is out of range, the image does not contribute */
    double weight_sum;  /* Σ w of the contributing poses: about `summed` (1 − nothing) */
    double offset2;     /* Σ w |shift|², px² */
    double norm_sum;    /* Σ w |c P − X|² over the half plane; |X|² beyond the current size */
    double reliability; /* factor applied to what the image gave to the map */
    double residual;    /* with options.reliability: √Σ |c P − X|² at the best pose, up to the current size */
    /* [box/2 + 1], the caller's: per shell mean Σ w |c P − X|²/2; beyond the current size |X|²/2; P = 0 has the weight
     * of nothing */
    float *power;
    /* [reference_count], the caller's, or NULL: Σ w of each reference, over all contributing poses */
    float *reference_weights;
};

/* Measures how well particles fit the first reference at any grey scale, over all orientations and shifts of the coarse
 * grid. Adds D = Σ Re(P conj cX)/σ² and N = Σ c²|P|²/σ² of each particle, at the pose where D²/N is largest, to *dots
 * and *norms. The best scale is ΣD/ΣN. ret_mean: N/2 of the first particle, averaged over orientations; if dots and
 * norms are NULL, only that is computed. Not for a `local` E-step. */
enum status alignment_scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                            double *ret_mean, double *dots, double *norms, struct err *err);

/* Copies images to the devices that compare them, as far as these have room to keep them; of each particle only
 * `image`, `number` and `chunk` count. Call it before the particles of the iteration are added, once it has begun.
 * Particles of many chunks come to all devices at the same time. The images may be overwritten once it has returned. */
enum status alignment_bring(struct alignment *alignment, const struct alignment_particle *particles, int count,
                            struct err *err);

/* Adds `count` particles to the sums, at most alignment_batch for each worker. Results have the order of the particles,
 * which is also the order of summation. */
enum status alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                          struct alignment_result *results, struct err *err);
/* Finishes the iteration. The accumulators then hold all sums. */
enum status alignment_finish(struct alignment *alignment, struct err *err);
/* Returns how long (s) the device, of several the first, has worked on E-steps so far, by its own clock; 0 on the
 * CPU. */
enum status alignment_device_seconds(struct alignment *alignment, double *ret_seconds, struct err *err);

/* Records each operation on device memory from now on (arena_trace, common/arena.h) in the caller's steps[capacity];
 * NULL stops recording. Of several devices only the first records, and the CPU nothing. Returns the number of
 * operations since the last call. */
size_t alignment_trace(struct alignment *alignment, struct arena_step *steps, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
