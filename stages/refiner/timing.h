/* Measures what an iteration spends its time on. */
#ifndef ICESTREAM_STAGES_REFINER_TIMING_H
#define ICESTREAM_STAGES_REFINER_TIMING_H

#include "stages/refiner/refiner.h"

/* Seconds. All 0 before the first iteration. */
struct timing {
    double steps[REFINER_STEPS];
    double seconds; /* that the last iteration took */
    double between; /* from the end of the iteration before to the beginning of this one */
    double device;  /* in which the device was at work */
    /* On the clock: */
    double began, ended, step_began;
    double device_before; /* what the device had been at work before the iteration */
};

/* Starts the clocks of an iteration. */
void timing_begin(struct timing *timing);
/* Starts the clock of the next step: work outside of the iteration may have come in between. */
void timing_continue(struct timing *timing);
/* Counts the time since the last of these calls towards a step. */
void timing_spent(struct timing *timing, enum refiner_step step);
/* Ends the iteration and sets its seconds. */
void timing_end(struct timing *timing);

#endif
