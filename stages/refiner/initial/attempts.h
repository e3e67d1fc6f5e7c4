/* Makes the first map of a refinement that was given no reference, when there are particles enough for an attempt. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_ATTEMPTS_H
#define ICESTREAM_STAGES_REFINER_INITIAL_ATTEMPTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/harness/stage.h"
#include "stages/refiner/initial/initial.h"

/* All 0: a reference was given, and nothing is to be done. */
struct attempts {
    bool wanted;             /* there is no map yet */
    struct initial *running; /* NULL: none is */
    size_t tried;            /* particles that were present at the last attempt, which failed; 0: none */
    bool last;               /* no attempt follows the one that runs */
    char text[256];          /* what it found */
};

/* Looks for a map that an earlier run accepted, and gives it to the refiner; else a map is wanted. Call it before the
 * refiner continues from earlier files. */
enum status attempts_init(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err);
void attempts_destroy(struct attempts *attempts);

/* Does a part of an attempt that runs, or begins one if particles enough are there. ret_worked: false: nothing is to be
 * done until more particles come. While an attempt runs the refiner must not change. */
enum status attempts_work(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_worked,
                          struct err *err);
/* Does at the end of the stream what is left of an attempt. */
enum status attempts_finish(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err);
/* Makes a last attempt with all particles, unless that was made already, and says what came of it. */
enum status attempts_last(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err);

#endif
