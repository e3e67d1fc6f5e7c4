/* 3-D auto-refinement of an accumulating set of particles: regularised likelihood, two independent halves, sampling
 * that grows finer by what the maps hold (Scheres 2012; the numbers of RELION's auto-refine). Or, with more than one
 * class, 3-D classification: all particles against all maps on a grid that stays as it is, the prior from the power of
 * the maps themselves (RELION's Class3D).
 *
 * refiner_begin starts an iteration with the particles that are present; refiner_work does a slice of it (a batch of
 * particles, about a second); when it says that the iteration is complete, maps and poses are those of the new
 * iteration. The last one is marked final: halves joined, at full size. Where images cannot be read refiner_work fails
 * and may be called again, when it goes on where it was; after any other failure the iteration is given up (refiner_busy
 * says so), and refiner_begin begins it anew. */
#ifndef ICESTREAM_STAGES_REFINER_REFINER_H
#define ICESTREAM_STAGES_REFINER_REFINER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/formats/star.h"
#include "common/status.h"
#include "kernels/alignment/alignment.h"

struct refiner_options {
    const char *reference, *mask; /* paths; mask NULL: a sphere of the diameter. A STAR file is a list of references
                                     (rlnReferenceImage): a class each */
    int classes;                  /* 1: refine; of one map, the first iteration seeds them with particles by chance */
    int iterations;               /* of a classification, with all particles */
    const char *symmetry;
    double diameter;                  /* Å */
    double initial_lowpass;           /* Å */
    int healpix_order;                /* of the first coarse grid */
    int local_order;                  /* from this order on, only near the last pose */
    double offset_range, offset_step; /* px; the step of the fine pass (the coarse grid has twice that) */
    int max_significant;              /* coarse samples of a particle whose children are compared, at most */
    double tau_fudge;                 /* NaN: 1, of a classification 4 */
    double join_resolution;           /* Å: up to here the halves share what they know */
    bool auto_mask;                   /* without a mask, make one from the map when it is good enough */
    enum alignment_norm reliability;
    unsigned seed;
    int threads;
    struct device device;       /* of the E-step */
    double memory;              /* bytes, about: of the host, and of the device; 0: of the host 4 GiB, and of the
                                   device what is free when the first iteration begins (kernels/alignment) */
    bool memory_trace;          /* refiner_write_trace has something to write */
    double fallback_pixel_size; /* Å, NaN: none */
    const char *root;           /* session folder: what relative stacks are tried against first */
};

struct refiner;

enum status refiner_create(const struct refiner_options *options, struct refiner **ret_refiner, struct err *err);
void refiner_destroy(struct refiner **refiner);

/* Particles join (or replace: see particle_set_merge). Between iterations only. The file is consumed. */
enum status refiner_merge(struct refiner *refiner, struct star_file **file, const char *path, bool replace,
                          size_t *ret_new, struct err *err);
size_t refiner_particles(const struct refiner *refiner);
/* Of these, between iterations: whose images hold values that are no numbers, or far stronger than the others', and count
 * as empty; and that have no CTF. */
struct refiner_doubts {
    size_t spoiled, without_ctf;
};
struct refiner_doubts refiner_doubts(const struct refiner *refiner);
/* Whether the file could join by itself, whatever the others are like; at any time, from any thread. It stays the
 * caller's. */
struct refiner_grid {
    int box;           /* px; 0: no particles */
    double pixel_size; /* Å; 0: no particles */
};
enum status refiner_try(const struct refiner *refiner, struct star_file **file, const char *path,
                        struct refiner_grid *ret_grid, struct err *err);
/* That of the particles, or of the maps that it goes on from. Between iterations only. */
struct refiner_grid refiner_grid(const struct refiner *refiner);
/* Whether particles of that grid can join those of `common`, which the first ones decide. */
enum status refiner_join(struct refiner_grid *common, const struct refiner_grid *grid, const char *path,
                         struct err *err);

/* Between iterations only. */
enum status refiner_set_threads(struct refiner *refiner, int threads, struct err *err);

struct refiner_iteration {
    int max_order; /* the grid grows no finer (while data still arrive); −1: no bound */
    size_t most;   /* so many particles, chosen by chance, at most; 0: all */
    bool final;    /* halves joined, at full size */
};
enum status refiner_begin(struct refiner *refiner, const struct refiner_iteration *iteration, struct err *err);
enum status refiner_work(struct refiner *refiner, bool *ret_complete, struct err *err);
bool refiner_busy(const struct refiner *refiner); /* inside an iteration */

/* What an iteration's time goes into. */
enum refiner_step {
    REFINER_START,      /* of the first: memory, the device */
    REFINER_NOISE,      /* of the first: of the particles as they come */
    REFINER_SCALE,      /* of the first: the reference and its grey scale */
    REFINER_PLAN,       /* grids, memory */
    REFINER_REFERENCES, /* maps become what slices are taken from */
    REFINER_IMAGES,     /* read, or found in memory */
    REFINER_COMPARE,    /* the E-step */
    REFINER_PARTICLES,  /* what it found, into the particles */
    REFINER_SUMS,       /* its sums, into the M-step's */
    REFINER_ACCURACY,
    REFINER_MAPS, /* sums become maps */
    REFINER_FSC,
    REFINER_MASK,
    REFINER_STEPS
};
const char *refiner_step_name(enum refiner_step step);

struct refiner_state {
    int iteration, order, current_size;
    bool local, converged, final;
    bool stalled; /* nothing more to gain below max_order */
    size_t particles;
    int idle_iterations;                    /* since the resolution last grew */
    double resolution;                      /* Å, FSC 0.143 of the unjoined halves */
    double angle_step;                      /* °, of the fine pass */
    double offset_step;                     /* px, of the fine pass */
    double accuracy_angle, accuracy_offset; /* °, px */
    double average_pmax, significant;       /* means over particles */
    double seconds;                         /* of the last iteration, and of what it was made of: */
    double steps[REFINER_STEPS];
    double device_seconds; /* of these, in which the device was at work; 0: there is none */
    double between;        /* s, from the end of the iteration before to where this one began */
    double waited;      /* s, after them, for the files of the iteration before and a copy of what its own will hold */
    bool sums_on_host;  /* in between, of a device whose memory has no room for all */
    double reliability; /* mean over particles */
    int classes;
    double class_changes; /* share of particles that went to another class than before */
};
struct refiner_state refiner_state(const struct refiner *refiner);
struct refiner_class {
    double share;      /* of the particles */
    double resolution; /* Å: to where the particles say more than the prior */
};
struct refiner_class refiner_class(const struct refiner *refiner, int index);

/* Files of the iteration just completed, below folder: run_itNNN_half1_class001.mrc … or, after the final one, run_*.
 * A classification's are run_itNNN_class001.mrc … and, after the last one, run_* beside them.
 * prefix is the folder's name relative to the session. Older iterations than `keep` are removed. */
enum status refiner_write(const struct refiner *refiner, const char *folder, const char *prefix, int keep,
                          struct err *err);
/* What the iteration just completed took of a CUDA device's memory, step by step: run_itNNN_memory.csv, with the name of
 * the operation, the scope, where the top of the memory was after it, and what was taken. Without options.memory_trace,
 * and on the CPU, there is none. Before the next iteration. */
enum status refiner_write_trace(const struct refiner *refiner, const char *folder, struct err *err);
/* Goes on from an iteration whose files lie below folder. Before any merge: poses are given to particles as they join.
 * Files that are not whole change nothing: another iteration may be tried. */
enum status refiner_restore(struct refiner *refiner, const char *folder, int iteration, struct err *err);
/* The last iteration before that one that was written below folder; 0: none. */
int refiner_last(const char *folder, int before);

/* Whether the final files below folder are of these very particles: then there is nothing left to do. */
bool refiner_is_final(const struct refiner *refiner, const char *folder);

/* Unfiltered half maps of the last iteration, box³ each; mask NULL where none was given. Owned by the refiner. */
struct refiner_maps {
    int box;
    double pixel_size;
    const float *half1, *half2, *mask;
};
struct refiner_maps refiner_maps(const struct refiner *refiner);

/* Why the refinement started as it did, for the log: scale of the reference and so on. */
const char *refiner_remark(const struct refiner *refiner);

#endif
