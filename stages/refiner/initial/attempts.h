/* Makes the first map of a refinement that was given no reference, when there are particles enough for an attempt.
 *
 * While there is no map, attempts are all that the stage does. The first accepted map begins the refinement. Attempts
 * then follow at doublings until one of them confirms the map: it is accepted and is the same map, up to rotation and
 * hand. On the CPU they take turns with the iterations, and have as much time at most, but for time that the refinement
 * leaves. On a device, whose memory they take, iterations wait until they end.
 * One that is accepted, is another map, and fits held-out particles clearly better (again.h) replaces the map, and the
 * refinement begins again from it; any other one changes nothing. At the end of a stream the one that runs or is due is
 * made before the last iterations.
 *
 * Particles that do not show the map are marked (junk.h): all of them at the end, and while the stream goes on those
 * that have come since.
 *
 * With several classes the attempt looks for a map of each (several.h). If there are, the classes begin with them, and
 * no attempt is made again: one map, of all particles, is no standard for them. Else all begin with the one map.
 *
 * initial_model.json decides after a restart. A map that is replaced loses its iterations first, then comes the new
 * map, then the decision: killed in between, the refinement begins again from the map that is there, and the attempt is
 * due again. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_ATTEMPTS_H
#define ICESTREAM_STAGES_REFINER_INITIAL_ATTEMPTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/harness/stage.h"
#include "stages/refiner/initial/initial.h"
#include "stages/refiner/initial/junk.h"

/* All 0: a reference was given, and nothing is to be done. */
struct attempts {
    bool wanted;             /* there is no map yet */
    bool mapped;             /* there is one on disk, which an attempt has made */
    bool unconfirmed;        /* there is one, which no later attempt has confirmed */
    bool own;                /* each class has one of its own: no attempt follows */
    bool shared;             /* several classes have none of their own, and begin with the one */
    struct initial *running; /* NULL: none is */
    bool gathered;           /* the one that runs has its images */
    bool on_device;          /* what runs may take the memory of the refinement's device: it waits */
    bool marking;            /* particles are compared with the map, and marked if they do not show it */
    bool unmarked;           /* the comparison has failed: none is made in this run any more */
    bool unrepeated;         /* there was no memory to make the map again: it is not tried in this run any more */
    double worked;           /* s, on an attempt that is made again, since the last iteration */
    struct junk junk;        /* those that are compared now */
    int marked;              /* particles that are; −1: none were compared */
    int count, made_by;      /* attempts made; the one that made the map */
    size_t tried;            /* particles that were present at the last attempt; 0: none */
    bool last;               /* no attempt follows the one that runs */
    char text[256];          /* what the last one found, while there is no map */
    char later[512];         /* what the last one has found that was made again; "": none was */
};

/* Looks for a map that an earlier run accepted, and gives it to the refiner; else a map is wanted. Call it before the
 * refiner continues from earlier files. */
enum status attempts_init(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err);
void attempts_destroy(struct attempts *attempts);

/* Returns whether what runs forbids that particles join and iterations are made. */
bool attempts_hold(const struct attempts *attempts);
/* Does a part of an attempt that runs, or begins one if particles enough are there. ret_worked: false: nothing is to be
 * done until more particles come. */
enum status attempts_work(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_worked,
                          struct err *err);
/* Returns whether there is a map, and attempts_again may have something to do. */
bool attempts_go_on(const struct attempts *attempts);
/* Does the same once there is a map. Call it between iterations, when the files of the last one are written.
 * ret_replaced: the refiner begins again from another map. */
enum status attempts_again(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_worked,
                           bool *ret_replaced, struct err *err);
/* Returns whether it is the turn of an attempt that is made again, and not of the next iteration. iteration: s, which the
 * last one took; 0: there was none yet. */
bool attempts_turn(const struct attempts *attempts, const struct refiner *refiner, double iteration);
/* Call it when an iteration begins. */
void attempts_pass_turn(struct attempts *attempts);
/* Returns what to say of the first map beside the refinement; "": nothing. */
const char *attempts_remark(const struct attempts *attempts);
/* Does what is left of the attempt that runs. Call it at the end of the stream, before the last particles join.
 * ret_replaced: as for attempts_again. */
enum status attempts_finish(struct stage *stage, struct refiner *refiner, struct attempts *attempts, bool *ret_replaced,
                            struct err *err);
/* Makes the attempt again that is due at the end of the stream, if there is one. */
enum status attempts_again_at_end(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                                  bool *ret_replaced, struct err *err);
/* Marks all particles that are left. Does nothing without a first map. */
enum status attempts_mark_rest(struct stage *stage, struct refiner *refiner, struct attempts *attempts,
                               struct err *err);
/* Makes a last attempt with all particles, unless that was made already, and says what came of it. */
enum status attempts_last(struct stage *stage, struct refiner *refiner, struct attempts *attempts, struct err *err);

#endif
