/* Decides how a refinement proceeds: which sizes and grids an iteration uses, what halves share, when the grid
 * becomes finer, and when to stop. All rules of convergence stand here. They depend on what the user has set and on
 * what iterations have found, and on nothing else. */
#ifndef ICESTREAM_STAGES_REFINER_SCHEDULE_H
#define ICESTREAM_STAGES_REFINER_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

enum { LEAST_SHELL = 5 }; /* below this shell there is no prior; no map counts as worse resolved than this shell */

/* The values that stay the same in all iterations. */
struct schedule_options {
    bool classifies;                         /* 3D classification: no halves, the grid stays as it is */
    int references;                          /* maps that each particle is compared with: 1, or the number of classes */
    int box;                                 /* px */
    double pixel_size, diameter;             /* Å; of the particle */
    double initial_lowpass, join_resolution; /* Å */
    int healpix_order, local_order;
    bool poses_given;                 /* particles come with poses: searches are local from the start */
    bool keep_poses;                  /* these poses are kept, and nothing is searched */
    bool maps_of_poses;               /* the first iteration makes its maps from the poses that are given */
    double local_range;               /* °: how far from given poses directions and in-plane angles are searched */
    double offset_range, offset_step; /* px; the step of the fine pass */
    int iterations;                   /* of a classification, with all particles or parts of all */
    int part_particles;               /* the fewest that a part of the particles has, and more for more than six
                                         classes; 0: there are no parts */
};

/* The particles are divided by chance into `of` parts of about equal size; an iteration compares one. 1: all. */
struct schedule_part {
    size_t index, of;
};

/* The state of the schedule after an iteration, for the next one. */
struct schedule {
    struct schedule_options options;
    int iteration, order;
    double offset_range, offset_step; /* px, of the coarse pass */
    double perturbation;
    int current_size, resolution_shell;
    int telling_size;     /* px: finer detail of the reference does not help to find poses. Only the final iteration
                             compares more */
    int increment;        /* shells that an iteration compares beyond resolution_shell */
    bool large_increment; /* a quarter of all shells instead */
    int since_resolution, since_changes;    /* iterations since the resolution grew; since poses still moved */
    double best_resolution;                 /* 1/Å */
    double gain;                            /* growth of the resolution beyond the best before: 0.1 is a tenth */
    int turns;                              /* iterations with this grid */
    double smallest_angle, smallest_offset; /* °, px: smallest mean change of poses with this grid */
    double accuracy_angle, accuracy_offset; /* °, px: of the half whose poses are known better */
    double average_pmax, best_pmax;         /* of the last iteration; the best with this grid */
    bool sharp;                             /* poses are so certain that searches become local one order earlier */
    bool local;                             /* this iteration searches near the last poses only */
    bool oversampled; /* the fine pass compares children of coarse samples; else the coarse samples themselves */
    bool kept;        /* this iteration compares particles at the poses that they have, and nowhere else */
    int max_order;    /* the grid grows no finer, while data arrive; −1: no bound */
    bool stalled;     /* the grid would grow finer, but max_order forbids it */
    bool converged, final;
    struct schedule_part part; /* the particles of this iteration */
    bool whole;                /* parts are done: iterations compare all particles from now on */
    int whole_iterations;   /* of a classification: successive iterations with the same particles, or parts of them */
    size_t whole_particles; /* how many particles there were; 0: the last iteration lacked some, and not for a part */
};

/* Sets the schedule to the state before the first iteration; keeps the options. */
void schedule_start(struct schedule *schedule);
/* Sets the schedule to a state that was kept in files (files/kept_state.h), in place of schedule_start. What the
 * files do not hold is as at the start. */
void schedule_resume(struct schedule *schedule, const struct schedule *kept);
/* Returns how far the first iteration compares, px. */
int schedule_first_size(const struct schedule_options *options);

/* The facts that are known before an iteration begins. */
struct schedule_plan {
    int max_order; /* as in struct schedule */
    bool final;
    bool aligned; /* all particles have a pose, found or given */
    struct schedule_part part;
};
/* Returns which particles the iteration that schedule_begin begins next compares: plan->part, which need not be set.
 * present: all that there are. */
struct schedule_part schedule_part(const struct schedule *schedule, const struct schedule_plan *plan, size_t present);
/* Decides on the grid of the iteration, and counts it. The caller then sets the perturbation. */
void schedule_begin(struct schedule *schedule, const struct schedule_plan *plan);
/* Sets telling_size and current_size. */
void schedule_sizes(struct schedule *schedule);
/* Returns the deviation (°) of the prior of a local search. Poses farther away than three times as much are not
 * searched. */
double schedule_near_sigma(const struct schedule *schedule);
/* Returns the step of the fine pass, over the step of the coarse grid. */
double schedule_fine_step(const struct schedule *schedule);

/* Returns the shell that holds a resolution (Å), at least 1. */
int schedule_shell(const struct schedule_options *options, double resolution);
/* Returns the last shell that both halves share and that is kept apart from the shells beyond (bands.c); 0: nothing
 * is kept apart. resolution: Å, to which the halves agree; 0: not known yet. */
int schedule_shared_shell(const struct schedule_options *options, double resolution);
/* Returns the last shell, up to `last`, in which a map's signal outweighs its noise. ssnr: [last + 1]. */
int schedule_signal_shell(const float *ssnr, int last);

/* The results of an iteration. */
struct findings {
    int particles;    /* compared in this iteration */
    size_t present;   /* all that there are */
    int signal_shell; /* schedule_signal_shell of the map that shows most */
    const float *fsc; /* [current_size/2 + 1]: of the halves, with low shells shared; NULL: of a classification */
    double average_pmax, significant; /* means over particles: Pmax, coarse samples that mattered */
    double accuracy_angle,
        accuracy_offset;                /* °, px: of the half whose poses are known better; not of a classification */
    int moved;                          /* particles that had a pose before; 0: the changes mean nothing */
    double angle_change, offset_change; /* °, px: their mean change of orientation; RMS change of shift along an axis */
};
/* Takes in what an iteration has found, and decides on the next one, or on the end. */
void schedule_after(struct schedule *schedule, const struct findings *findings);
/* Returns whether the next iteration searches near the last poses, if all particles have one. */
bool schedule_local_next(const struct schedule *schedule);

/* The state of the schedule while particles still arrive. All 0 at first. */
struct schedule_live {
    size_t last_particles;    /* of the last iteration */
    bool settled;             /* more iterations with the same particles gain nothing */
    size_t settled_particles; /* the number of particles then */
};
enum { SCHEDULE_PAUSE = 4 }; /* s without new particles, after which the stream counts as paused */
/* Returns whether another iteration is worth the time. paused: no particles have come for SCHEDULE_PAUSE. */
bool schedule_live_worth(const struct schedule_live *live, size_t particles, bool paused);
/* Takes in a completed iteration. present: all particles; stalled, converged: as in struct schedule. */
void schedule_live_after(struct schedule_live *live, size_t particles, size_t present, bool stalled, bool converged);
/* Returns how many particles, chosen by chance, the next iteration compares; 0: all. iteration: the number of those
 * done. */
size_t schedule_live_most(int iteration);
/* Returns how fine the grid may grow while particles still arrive (max_order of struct schedule_plan): as fine as the
 * user allows, but never coarser than the first grid. Both orders are HEALPix orders. */
int schedule_live_max_order(int live_order, int first_order);

enum schedule_step { SCHEDULE_ITERATE, SCHEDULE_FINAL, SCHEDULE_DONE };
/* Returns what follows at the end of the stream. done: iterations since then, the final one not counted. */
enum schedule_step schedule_at_end(bool classifies, int done, int max_iterations, bool converged);

#endif
