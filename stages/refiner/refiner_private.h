/* The refinement itself, as the files of its steps share it. Each step declares its functions in a header of its
 * own. */
#ifndef ICESTREAM_STAGES_REFINER_REFINER_PRIVATE_H
#define ICESTREAM_STAGES_REFINER_REFINER_PRIVATE_H

#include "kernels/alignment/alignment.h"
#include "kernels/fourier/pixels.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/sampling/sampling.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/batch.h"
#include "stages/refiner/loader.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/schedule.h"
#include "stages/refiner/signal.h"
#include "stages/refiner/timing.h"
#include "stages/refiner/twins.h"

enum { MASK_EDGE = 5, MAP_LEAST = 8 }; /* px; side of the smallest reference */

/* The map of a half, or of a class, and what is known of it. */
struct reference {
    float *map;                                                /* box³: what the next E-step compares with */
    float *unfiltered;                                         /* box³: of a half, without any prior */
    float *tau2, *ssnr, *completeness, *sigma2_reconstruction; /* [shells] */
    struct projector *projector;
    struct accumulator *accumulator;
    double share;                           /* of a class: share of all particles */
    double weight_sum;                      /* gathered: Σ w */
    double resolution;                      /* of a class: Å, to where the particles say more than the prior */
    double accuracy_angle, accuracy_offset; /* of a class: °, Å; 0: not known yet */
    int seed_end; /* of a class in the iteration that seeds classes: index behind its last member */
};

/* The particles that an iteration compares with the same references, and their sums. Auto-refinement has two sides, the
 * halves, with a map each. A classification has one side, with all particles and a map for each class. */
struct side {
    struct reference *references;
    float *sigma2;        /* [optics][shells]: noise of masked images */
    float *whole_noise;   /* [optics][shells]: sigma2 over mask_share, with which the E-step compares */
    double *noise_shares; /* [optics]: of the noise of images with all shells, what images of the group have */
    int *all, all_count;  /* particle indices, in an order that does not depend on arrival (refiner.chosen) */
    int *members;         /* [all_count]: first those of this iteration, in that order */
    int member_count;
    int chunk_bits; /* of the hash that number a member's chunk: as few as leave 1,024 members to a chunk, on average */
    int met_twins;  /* members that this iteration has left out when it met their images */
    double average_norm, sigma_offset;      /* 1, px */
    double accuracy_angle, accuracy_offset; /* °, px */
    /* gathered in an iteration */
    double *sigma2_sum; /* [optics][shells]: Σ w |cP − X|² over half-plane pixels */
    double *optics_weight;
    double norm_sum, offset2_sum, weight_sum, pmax_sum, likelihood_sum, significant_sum;
    double angle_change, offset_change, reliability_sum;
    double class_change;
    int changed; /* particles that had a pose before */
};

/* Differences between particles, beside their noise (classes_alike.c). */
struct difference {
    size_t particles;  /* that were compared; 0: not known */
    double spread;     /* of their coordinates along it: variance over that along its turned copies */
    double null;       /* variance along the turned copies, over that of noise */
    double deviations; /* of chance, by which the spread exceeds 1 */
    bool alike;
};

/* Images of an iteration that no device has yet. Several devices get them before they compare: particles that follow
 * each other are compared by one device, and those of a file by all. */
struct images_to_bring {
    int *indices; /* [room] of particles, in the order of their files */
    size_t room;
    int count, next; /* next: of the images left */
};

/* The maps that the halves' M-step works on, box³ each. */
struct half_maps {
    float *unfiltered[2], *map[2]; /* of each half */
    float *combined;
};

/* The memory of references and sums in an iteration. */
struct placement {
    struct workspace *workspace; /* the alignment's, for references; NULL: host memory */
    bool maps_on_device;         /* maps of halves stay there through the M-step */
    struct half_maps maps;       /* on the device, if maps_on_device */
    float *bands[2];             /* where maps are parted: there, else refiner.bands */
    bool sums_on_device;         /* sums stay on the device until the M-step, which works on them there */
    bool sums_on_host;           /* sums of a device come to the host after each side */
};

/* The progress of the running iteration's E-step. */
struct position {
    int side, cursor; /* the side at work; the next one of its members */
    bool side_begun;
    bool reading;   /* images of a batch: if that fails, the E-step goes on here when called again */
    int seed_class; /* the class at work, in the iteration that seeds classes; −1 in all others */
};

/* There was no memory to compare starts, or the box is too small. */
enum { OTHER_START_UNKNOWN = -1 };

/* A second refinement leaves its maps here, and the comparison its result (other_start.h). */
struct other_start {
    float *halves[2]; /* box³: its unfiltered halves, until they are compared; NULL: there are none */
    int shell;        /* the last shell that both starts hold; 0: there was none; OTHER_START_UNKNOWN */
};

struct refiner {
    struct refiner_options options;
    struct refiner_context context;
    char *reference_path, *mask_path;
    char **map_paths; /* of the references: one, or one for each class */
    int map_count;
    struct symmetry symmetry;
    struct particle_set set;
    struct image_check *check; /* of the set's images; NULL: not decided yet */
    char background[512];      /* what is wrong with particles that came later; "": nothing is known of such */
    bool normalised;           /* some images were found not to be normalised: all are, also after a restart */
    int box, shells;           /* shells = box/2 + 1 */
    double pixel_size;
    double mask_radius;      /* px */
    double mask_share;       /* of the noise of an image: inside the mask */
    double map_share;        /* of the noise of a map: inside its mask */
    float *mask;             /* box³, or NULL */
    float *solvent;          /* box³: the mask made from the map, or NULL */
    float *combined;         /* box³ */
    float *bands[2];         /* box³ each: where maps are parted (bands.h); NULL: there was no need yet */
    float *fsc, *fsc_joined; /* [shells]: of independent halves; with the low shells shared */
    int sigma2_optics;       /* optics groups that the sides have room for */
    struct side sides[2];
    int side_count, reference_count; /* 2 and 1; or 1 and the number of classes */
    struct schedule schedule;
    int shared_shell;  /* the last shell that halves share, of the present references; 0: shells are not kept apart */
    double resolution; /* Å: to which the halves agree, for the next iteration */
    int sure_shell;    /* to which they agree by more than the FSC's standard error (mstep.h); 0: not known */
    double *held;      /* [shells]: share of the signal that views fill (kernels/fsc/coverage.h); NULL: not known yet */
    double views_doubt;                 /* 0 to 1: how far the views that were found are doubted (told.h) */
    bool agree_beyond;                  /* the halves agree beyond the shells that they share */
    double told;                        /* Å: the resolution that is told (told.h) */
    enum refiner_unresolved unresolved; /* why none is; never UNRESOLVED_NOISE, which signal says */
    struct views_measure *views;        /* made beside an M-step (told.c); NULL: never yet */
    struct other_start other;
    struct signal signal;
    struct difference difference; /* of a classification, after its last iteration */
    double efficiency;            /* of the directions of view; known in copies of the writer alone */
    double contrast;        /* how much better particles fit the reference than its inverse: a factor; 0: not known */
    struct refiner_cut cut; /* of the references */
    char remark[512];
    int given_box;           /* px, of the reference file that was read last */
    double given_pixel_size; /* Å: the pixel size that it was taken to have */

    struct timing timing;
    struct placement placement;
    struct position at;
    struct batch batch;
    struct images_to_bring to_bring;
    bool busy, started;
    bool inverted_wanted; /* the hand that maps get (hand.h); set.inverted is that which they have */
    bool chosen;          /* members are chosen from the particles that are present */
    size_t chosen_most;
    struct schedule_part chosen_part;
    struct sampling sampling;
    bool sampling_local; /* the sampling was made for local searches */
    struct fourier_pixels pixels;
    int compared_size; /* px: up to here particles are compared with references, in the fine pass */
    int coarse_pixels, screen_pixels;
    struct alignment *alignment; /* NULL: an attempt at the first map has its memory */
    struct loader *loader;
    struct twins_met met;             /* images of the running iteration */
    bool crossed;                     /* one of them is in the maps of the other half */
    struct refiner_iteration running; /* as refiner_begin was asked for it */
    size_t unread;                    /* images neither in memory nor on a device before particles are compared */
    bool rereads;                     /* they are more than memory has room for, and are read in each iteration */
    struct arena_step *trace;         /* of the device's memory, or NULL */
    size_t trace_count;
    struct star_file *kept_poses; /* of an earlier run: given to particles as they join; or NULL */
};

/* A classification has one side, and no halves. */
static inline bool classifies(const struct refiner *r) {
    return r->side_count == 1;
}

/* Returns how many bytes of host memory to work with, about. Never asks what is free: the size of batches follows from
 * this, and with it the order of sums. */
static inline double host_memory(const struct refiner_options *options) {
    double given = options->host_memory > 0 ? options->host_memory : options->memory;
    return (given > 0 ? given : 4) * 0x1p30;
}

/* Returns how many bytes the E-step may take where it compares; 0: kernels/alignment finds them. */
static inline double compare_memory(const struct refiner_options *options) {
    return options->memory > 0 ? options->memory * 0x1p30 : 0;
}

/* Forgets the path of the reference, and those of the maps that it names. In anew.c. */
void refiner_forget_reference(struct refiner *r);

#endif
