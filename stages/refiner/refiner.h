/* Refines 3D maps from an accumulating set of particles. With one class: auto-refinement, by regularised likelihood,
 * with two independent halves and a sampling that grows finer as the maps allow (Scheres 2012; the numbers of RELION's
 * auto-refine). With several classes: 3D classification. It compares all particles with all maps, on a grid that stays
 * as it is, with the power of the maps themselves as the prior (RELION's Class3D).
 *
 * refiner_begin starts an iteration with the particles that are present. refiner_work does a slice of it (a batch of
 * particles, about a second). When refiner_work reports the iteration as complete, maps and poses are those of the
 * new iteration. The last iteration is marked final: it joins the halves and compares at full size. If images cannot
 * be read, refiner_work fails and may be called again; it continues where it was. After any other failure the
 * iteration is given up (refiner_busy returns false), and refiner_begin begins it anew. */
#ifndef ICESTREAM_STAGES_REFINER_REFINER_H
#define ICESTREAM_STAGES_REFINER_REFINER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/device.h"
#include "common/formats/optics_aberrations.h"
#include "common/formats/star.h"
#include "common/status.h"
#include "kernels/alignment/alignment.h"
#include "stages/refiner/orientations.h"

/* The parameters that a user sets (parameters.c). */
struct refiner_options {
    char *reference;        /* path of a map, or of a STAR file that lists maps (rlnReferenceImage), a class each; NULL:
                               refiner_give_reference follows */
    char *mask;             /* path; NULL: a sphere of the diameter */
    int classes;            /* 1: refine. If there is one map for more, the first iteration seeds the classes with
                                   particles chosen by chance */
    int iterations;         /* of a classification, with all particles */
    char *symmetry;         /* point group */
    double diameter;        /* Å */
    double initial_lowpass; /* Å */
    int healpix_order;      /* of the first coarse grid */
    int local_order;        /* from this order on, searches are near the last pose only */
    int poses;              /* 0: search all; 1: begin with those of the table, and search near them */
    double local_range;     /* °, of these searches */
    bool skip_align;        /* keep the poses of the table */
    double offset_range;    /* px */
    double offset_step;     /* px, of the fine pass: the coarse grid has twice that */
    int part_particles;     /* iterations before the last ones compare a part of the particles with at least so many
                               (schedule.h); 0: all */
    int max_significant;    /* the most coarse samples of a particle whose children are compared */
    double tau_fudge;       /* NaN: 1, or 4 in a classification */
    double join_resolution; /* Å: up to here the halves share their data */
    bool auto_mask;         /* without a mask, make one from the map when the map is good enough */
    bool local_resolution;  /* at the end: local resolution, and a map filtered by it */
    int normalise;          /* enum image_check_mode */
    int twins;              /* particles that are there twice; 0: leave the later one out, 1: keep both */
    bool reliability;       /* weigh particles by how their fit changes between iterations */
    int reliability_norm;   /* how a fit is judged; 0: l2, 1: l2sq */
    int seed;
    /* GiB, about, of the device that compares. 0 or NaN: what is free there when the first iteration begins, or 4 GiB
     * on the CPU (kernels/alignment). */
    double memory;
    double host_memory; /* GiB, about, for images and batches. 0 or NaN: `memory` if that is above 0, else 4 GiB */
    char *scratch; /* folder for copies of images (common/harness/scratch.h); used by the stage alone; NULL: none */
    double scratch_size; /* GiB; NaN: what is free */
    int devices;         /* CUDA devices that share the E-step; used by the stage alone. 0: all of its `gpu` */
    bool memory_trace;   /* record the use of the device's memory (refiner_write_trace) */
    /* Used by the stage alone: */
    char *mtf;             /* path of a detector's MTF (common/formats/mtf.h), for the final map; NULL: the session's */
    double mtf_pixel_size; /* Å, of the detector; NaN: the session's, or that of the map */
    double bfactor;        /* Å², of the final map; NaN: fitted */
    bool ignore_optics;    /* aberrations are not corrected */
    bool invert_hand;      /* the maps have the other hand than the reference (refiner_set_hand) */
    int live_order;        /* bounds the grid while particles arrive (schedule_live_max_order) */
    int min_particles;     /* that the first map waits for */
    int max_iterations;    /* at the end of the stream, before the final one */
    int keep_iterations;   /* whose files stay */
};

/* The machine and the session. */
struct refiner_context {
    int threads;
    struct device device; /* of the E-step */
    /* Devices that share the E-step (alignment_options); device_count 0 or 1: `device` alone. Else `device` is the
     * first of them, which makes the maps. */
    struct device devices[ALIGNMENT_DEVICES_MOST];
    int device_count;
    double fallback_pixel_size; /* Å, of particles whose file gives none; NaN: none */
    struct shards *scratch;     /* keeps copies of images (stack_reader.h), must outlive the refiner; NULL: none */
    const char *root;           /* session folder: relative paths of stacks are tried against it first; NULL: none */
};

struct refiner;
struct particle_set;
struct stage_descriptor;

extern const struct stage_descriptor refiner_stage;

/* Creates a refinement without particles. */
enum status refiner_create(const struct refiner_options *options, const struct refiner_context *context,
                           struct refiner **ret_refiner, struct err *err);
void refiner_destroy(struct refiner **refiner);

/* Adds the particles of a file (replace: see particle_set_merge). Consumes the file. Call it between iterations
 * only. */
enum status refiner_merge(struct refiner *refiner, struct star_file **file, const char *path, bool replace,
                          size_t *ret_new, struct err *err);
/* Reads and checks a file, which is consumed, as if there were no other particles. May be called at any time, from any
 * thread. The caller frees what was read (particle_set_free), or lets it join. */
enum status refiner_read(const struct refiner *refiner, struct star_file **file, const char *path,
                         struct particle_set **ret_read, struct err *err);
/* Does the same with a file of what has changed since another selection (particle_set_read_changes). */
enum status refiner_read_changes(const struct refiner *refiner, struct star_file **file, const char *path,
                                 struct particle_set **ret_read, struct err *err);
/* Applies changes that were read, which are consumed (particle_set_change). Call it between iterations only. */
enum status refiner_change(struct refiner *refiner, struct particle_set **read, const char **ret_misfit,
                           struct err *err);
/* Adds the particles of a file that was read, which are consumed. Call it between iterations only. */
enum status refiner_join(struct refiner *refiner, struct particle_set **read, bool replace, size_t *ret_new,
                         struct err *err);
/* Returns the number of particles, without those that are known to be twins of others (twins.h). */
size_t refiner_particles(const struct refiner *refiner);
/* Counts particles that make maps worse than they could be. Call it between iterations only. */
struct refiner_cut {
    double share;    /* of a map's density, squared, that lies outside the diameter; 0: not known */
    double diameter; /* Å: outside this one lies a hundredth of it */
};
struct refiner_doubts {
    size_t spoiled;     /* the image holds NaN or infinite values, or is far stronger than others: it counts as empty */
    size_t without_ctf; /* the particle has no CTF */
    size_t low_defocus, negative_defocus; /* ctf_doubt */
    double contrast; /* how much better particles fit the reference than its inverse: a factor; 0: not known. Noise has
                        about 1 */
    struct refiner_cut cut; /* of the reference; of several, of that with most outside */
    const char *background; /* why images are normalised, or cannot be; "": they are taken as they are */
    size_t twins;           /* left out: particles that are there twice (twins.h), and rows that name an image again */
    const char *twin, *twin_of;  /* an example: names, the refiner's own; NULL: there are none */
    size_t resampled;            /* the image has another box or pixel size, and is brought to the refinement's */
    int resampled_box;           /* px: an example */
    double resampled_pixel_size; /* Å */
    size_t corrected;            /* aberrations of the optics are corrected */
    const char *missing_mtf;     /* rlnMtfFileName of an optics group, which cannot be read; NULL: there is none */
    const struct optics_aberrations *aberrations; /* an example, the refiner's own; NULL: there are none */
};
struct refiner_doubts refiner_doubts(const struct refiner *refiner);
struct refiner_grid {
    int box;           /* px; 0: no particles */
    double pixel_size; /* Å; 0: no particles */
};
/* Checks that the file could join if there were no other particles. May be called at any time, from any thread. The
 * file stays the caller's. */
enum status refiner_try(const struct refiner *refiner, struct star_file **file, const char *path, struct err *err);
/* Returns box and pixel size of the particles; while there are none, of the maps being continued. Call it between
 * iterations only. */
struct refiner_grid refiner_grid(const struct refiner *refiner);

/* Changes the number of threads. Call it between iterations only. */
enum status refiner_set_threads(struct refiner *refiner, int threads, struct err *err);

/* Chooses from the particles that are present, and judges their images, as the next iteration would. */
enum status refiner_look(struct refiner *refiner, struct err *err);
/* Gives a reference to a refinement that was created without one. lowpass: Å, in place of options.initial_lowpass. The
 * file is read when the first iteration begins. */
enum status refiner_give_reference(struct refiner *refiner, const char *path, double lowpass, struct err *err);
/* Begins the refinement again from another reference, as if it had just been created: what iterations have found of the
 * particles is forgotten, their halves and the hand stay. Call it between iterations only, and refiner_forget before.
 * In anew.c. */
enum status refiner_begin_anew(struct refiner *refiner, const char *path, double lowpass, struct err *err);
/* Returns how many operators the point group has. */
int refiner_operators(const struct refiner *refiner);

struct refiner_iteration {
    int max_order; /* the grid grows no finer (while data still arrive); −1: no bound */
    size_t most;   /* the most particles, chosen by chance; 0: all */
    bool final;    /* join the halves, compare at full size */
};
/* Begins an iteration. STATUS_BAD_STATE: one is running, or there are no particles. */
enum status refiner_begin(struct refiner *refiner, const struct refiner_iteration *iteration, struct err *err);
/* Does a part of the iteration; call it until *ret_complete. */
enum status refiner_work(struct refiner *refiner, bool *ret_complete, struct err *err);
/* Returns whether an iteration is running. */
bool refiner_busy(const struct refiner *refiner);

/* Says which hand the maps are to have: that of the reference, or the other one. refiner_begin inverts maps, masks and
 * poses if they have another hand; the running iteration keeps its own. In hand.c, as the next two. */
void refiner_set_hand(struct refiner *refiner, bool inverted);
/* Returns whether maps are there that the next iteration will invert. */
bool refiner_inverts(const struct refiner *refiner);
/* Inverts at once what the last iteration has found, if another hand was asked for. Call it between iterations only. */
void refiner_invert(struct refiner *refiner);

/* The steps of an iteration. */
enum refiner_step {
    REFINER_START,      /* of the first iteration: memory, the device */
    REFINER_NOISE,      /* of the first iteration: noise of the particles as they come */
    REFINER_SCALE,      /* of the first iteration: the reference and its grey scale */
    REFINER_PLAN,       /* grids, memory */
    REFINER_REFERENCES, /* making projections of the maps possible */
    REFINER_IMAGES,     /* reading images, or finding them in memory */
    REFINER_COMPARE,    /* the E-step */
    REFINER_PARTICLES,  /* taking its results over into the particles */
    REFINER_SUMS,       /* bringing its sums to the M-step */
    REFINER_ACCURACY,
    REFINER_MAPS, /* making maps from the sums */
    REFINER_FSC,
    REFINER_MASK,
    REFINER_STEPS
};
/* Returns the step's name in history.jsonl. */
const char *refiner_step_name(enum refiner_step step);

/* A map has a resolution, or has none for one of these reasons. */
enum refiner_unresolved {
    REFINER_RESOLVED,  /* it has one */
    UNRESOLVED_NOISE,  /* images do not favour the reference (signal.h) */
    UNRESOLVED_SHARED, /* the halves agree no further than they share, and no other start has shown that much */
    UNRESOLVED_START, /* a refinement from a blurred reference holds no more of the map than that reference (other_start.h) */
    UNRESOLVED_NOWHERE /* the FSC is believed in no shell (told.h) */
};

/* The state after an iteration. */
struct refiner_state {
    int iteration, order, current_size;
    bool local, converged, final;
    bool kept;     /* particles were compared at their poses alone */
    bool inverted; /* maps have the other hand than the reference (hand.h) */
    bool stalled;  /* nothing more to gain below max_order */
    size_t particles;
    size_t twins;      /* left out, as in refiner_doubts */
    double resolution; /* Å, as it is told (told.h); means nothing unless unresolved is REFINER_RESOLVED */
    enum refiner_unresolved unresolved; /* why no resolution is told */
    double shared;                      /* Å: up to here the halves share their data */
    double agreement;                   /* Å: to which the unjoined halves agree, FSC 0.143 */
    double starts_agree; /* Å: what this map and one from a blurred reference hold (other_start.h); NaN: not compared */
    bool starts_differ;  /* both hold clearly less than that to which the halves agree */
    bool starts_unknown; /* they were to be compared, and could not be */
    /* 0 to 1: how far the views that were found may all be one. The told resolution allows for it. */
    double views_doubt;
    double angle_step;                      /* °, of the fine pass */
    double offset_step;                     /* px, of the fine pass */
    double accuracy_angle, accuracy_offset; /* °, px */
    double average_pmax, significant;       /* means over particles */
    struct orientations views;              /* measured in copies of the writer alone; else nothing is known */
    double signal;  /* deviations by which images favour the reference over its negative (signal.h); NaN: not known */
    double seconds; /* of the last iteration, and of its steps: */
    double steps[REFINER_STEPS];
    double device_seconds; /* part of the seconds in which the device was at work; 0: there is none */
    double between;        /* s, from the end of the iteration before to the beginning of this one */
    double waited;      /* s, after the iteration: for earlier files, and for the copy that its own are written from */
    bool sums_on_host;  /* the device's memory has no room for all sums: they came to the host in between */
    double reliability; /* mean over particles */
    int classes;
    double difference; /* deviations by which particles differ more than chance lets them (classes_alike.c), after the
                          last iteration of a classification; NaN: not known */
    bool alike;        /* they do not: nothing shows that classes are of different particles */
    double class_changes; /* share of particles that went to another class than before */
};
/* Returns the state after the last iteration. */
struct refiner_state refiner_state(const struct refiner *refiner);
struct refiner_class {
    double share;      /* of the particles */
    double resolution; /* Å: to where the particles say more than the prior */
};
/* Returns the values of one class. */
struct refiner_class refiner_class(const struct refiner *refiner, int index);

/* Writes the files of the iteration just completed below folder: run_itNNN_half1_class001.mrc … or, after the final
 * one, run_*. A classification writes run_itNNN_class001.mrc … and, after the last iteration, run_* beside them.
 * prefix: the folder's name relative to the session. keep: removes the files of iterations older than that many. In
 * files/output.c. */
enum status refiner_write(const struct refiner *refiner, const char *folder, const char *prefix, int keep,
                          struct err *err);
/* Makes the files of all iterations and of the end such that no run continues from them, or takes them for its end.
 * Maps of the last iteration stay, since latest_map.mrc leads to one. In anew.c. */
enum status refiner_forget(const struct refiner *refiner, const char *folder, struct err *err);
/* Writes the picture of the final map anew, with its FSC inside a mask (files/map_picture.h). In files/output.c. */
struct map_curve;
enum status refiner_write_masked(const struct refiner *refiner, const char *folder, const struct map_curve *masked,
                                 struct err *err);
/* Writes what the iteration just completed took of a CUDA device's memory, step by step, as run_itNNN_memory.csv:
 * the operation, the scope, the top of the memory after it, and what was taken. Writes nothing without
 * options.memory_trace, or on the CPU. Call it before the next iteration. In trace.c. */
enum status refiner_write_trace(const struct refiner *refiner, const char *folder, struct err *err);

/* Continues from an iteration whose files lie below folder. Call it before any merge: particles get their poses as
 * they join. If a file is incomplete nothing changes, and another iteration may be tried. In files/resume.c, as the
 * next two. */
enum status refiner_resume(struct refiner *refiner, const char *folder, int iteration, struct err *err);
/* Returns the last iteration before `before` that has files below folder; 0: none. */
int refiner_last(const char *folder, int before);
/* Returns whether the final files below folder are of exactly these particles, in the hand that was asked for: then
 * nothing is left to do. */
bool refiner_is_final(const struct refiner *refiner, const char *folder);

/* Returns the unfiltered half maps of the last iteration, box³ each; mask NULL: none was given. held: [box/2 + 1], see
 * kernels/fsc/coverage.h. last_shell: the shell of the told resolution, if nothing finer may be told, because the
 * halves agree no further than they share, or because of another start (other_start.h); else 0. Owned by the
 * refiner. */
struct refiner_maps {
    int box;
    double pixel_size;
    const float *half1, *half2, *mask;
    const double *held;
    int last_shell;
};
struct refiner_maps refiner_maps(const struct refiner *refiner);

/* Returns the path of the MTF that images have, as their optics groups name it, and the pixel size (Å) of its detector.
 * NULL: none is named. */
const char *refiner_mtf(const struct refiner *refiner, double *ret_detector);

/* A map refined in a group is the same in all its mates, and each particle has been put into any of them. So the group
 * alone cannot show that the particles lack it. Here each half lets its particles choose anew among the mates of their
 * poses, by a map in C1 of its other particles, from a first choice by chance. Particles that lack the symmetry
 * separate: the map of one half agrees with that of the other in one mate, and less in the rest. Particles that have it
 * agree in all mates alike. Poses of a wrong group may be wrong beyond its mates. So each half also searches all poses
 * in C1, from the reference that the refinement began with, and the maps are compared in the same way. Nothing of this
 * goes into any map. */
struct refiner_mates {
    double best, mean; /* agreement of the C1 maps of both halves in the best mate, and the mean over all mates:
                          atanh(FSC), averaged over shells */
};
struct refiner_symmetry {
    bool looked;                   /* false: C1, or a classification */
    struct refiner_mates chosen;   /* of poses chosen among the mates */
    struct refiner_mates searched; /* of poses searched in C1; set if has_searched */
    double near;                   /* share of the searched poses within 15 degrees of a mate of the refinement's */
    bool has_searched;             /* the reference is still there */
    double resolution;             /* Å, to which they were compared */
    size_t particles;              /* of a half */
};
/* Compares after the last iteration of a refinement. In symmetry_check.c. */
enum status refiner_check_symmetry(struct refiner *refiner, struct refiner_symmetry *ret_symmetry, struct err *err);

/* Finds whether the particles of a classification differ at all, after its last iteration: difference and alike of the
 * state. In classes_alike.c. */
enum status refiner_compare_classes(struct refiner *refiner, struct err *err);

/* Returns whether a second refinement, from a blurred reference, must show before the final iteration that the map
 * does not depend on its reference: the halves agree no further than they share; or poses are uncertain, and the halves
 * agree to less than four times the frequency that they share. In other_start.c, as the next one. */
bool refiner_doubts_start(const struct refiner *refiner);
/* Asks between two pieces of work whether to stop, and after each iteration, which may have failed, whether to go on with
 * it: true after a pause (stage_wait_out). */
struct refiner_pause {
    bool (*stops)(void *context);
    bool (*waits)(void *context, enum status status, const struct err *err);
    void *context;
};
/* Refines a second time, from the blurred reference. Between iterations only. Everything else is then as before; the final iteration compares its maps with
 * what was found, and tells no finer resolution than both hold. Stopped: STATUS_CANCELLED. */
enum status refiner_refine_blurred(struct refiner *refiner, const struct refiner_pause *pause, struct err *err);

/* Finds how much of the final map lies outside the diameter: what the unfiltered halves have in common, to 30 Å. In
 * doubts.c. */
enum status refiner_check_diameter(const struct refiner *refiner, struct refiner_cut *ret_cut, struct err *err);

/* Empties the memory of the iteration on the device, and lends it until the next iteration begins. NULL: there is no
 * device, or no iteration has been completed yet. Call it between iterations only. */
struct workspace *refiner_workspace(struct refiner *refiner);

/* Returns a text for the log: which references were taken and how they were scaled. */
const char *refiner_remark(const struct refiner *refiner);

#endif
