#ifndef ICESTREAM_STAGES_REFINER_SCHEDULE_H
#define ICESTREAM_STAGES_REFINER_SCHEDULE_H

#include <stdbool.h>

/* Where the sampling stands. */
struct schedule {
    int iteration, order;
    double offset_range, offset_step; /* px, coarse */
    double perturbation;
    int current_size, resolution_shell;
    int telling_size;     /* beyond it the reference says nothing of a pose: the final iteration is larger */
    int increment;        /* shells added beyond what the maps hold */
    bool large_increment; /* a quarter of the box instead */
    int since_resolution, since_changes;
    double best_resolution; /* 1/Å */
    double smallest_angle, smallest_offset;
    double accuracy_angle, accuracy_offset;
    double average_pmax, best_pmax; /* of the last iteration; of those with this grid */
    bool sharp;                     /* poses leave so little doubt that searches are local one order early */
    int max_order;                  /* while data arrive; −1: no bound */
    bool stalled;                   /* would go finer, but max_order forbids it */
    bool converged, final;
};

#endif
