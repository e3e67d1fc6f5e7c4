#include "stages/refiner/timing.h"

#include <string.h>

#include "common/clock.h"

void timing_begin(struct timing *t) {
    t->began = t->step_began = clock_monotonic();
    t->between = t->ended > 0 ? t->began - t->ended : 0;
    memset(t->steps, 0, sizeof t->steps);
}

void timing_continue(struct timing *t) {
    t->step_began = clock_monotonic();
}

void timing_spent(struct timing *t, enum refiner_step step) {
    double now = clock_monotonic();
    t->steps[step] += now - t->step_began;
    t->step_began = now;
}

void timing_end(struct timing *t) {
    t->ended = clock_monotonic();
    t->seconds = t->ended - t->began;
}

const char *refiner_step_name(enum refiner_step step) {
    static const char *const NAMES[REFINER_STEPS] = {"start",  "noise",   "scale",     "plan", "references",
                                                     "images", "compare", "particles", "sums", "accuracy",
                                                     "maps",   "fsc",     "mask"};
    return NAMES[step];
}
