/* Files of particles that have come and wait for the end of an iteration. */
#ifndef ICESTREAM_STAGES_REFINER_ARRIVALS_H
#define ICESTREAM_STAGES_REFINER_ARRIVALS_H

#include <pthread.h>
#include <stdbool.h>

#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

struct arrival {
    struct star_file *file; /* NULL: nothing */
    char *path;
    struct refiner_grid grid;
    bool replace; /* a selection: what is not in it goes */
};

struct arrivals {
    pthread_mutex_t lock; /* guards all of it: files come on I/O threads */
    bool lock_made;
    struct arrival *list;
    int count, capacity;
    struct refiner_grid grid; /* of what was accepted first; as the refiner's when it begins */
    double last;              /* s, monotonic: when a file came */
};

enum status arrivals_init(struct arrivals *arrivals, struct err *err);
void arrivals_destroy(struct arrivals *arrivals);

/* The file that an item names, looked through: what is wrong with it is its own fault, and found before its particles are
 * among the others. No file, no error: of a micrograph without particles. Replaces what *arrival held. */
enum status arrival_read(struct stage *stage, const struct refiner *refiner, const struct item *item,
                         struct arrival *arrival, struct err *err);
void arrival_clear(struct arrival *arrival);

/* Consumes the arrival, unless it is refused. A selection makes all that wait before it needless. Whose particles decide
 * on box and pixel size is not left to which thread reads faster: this is called in the order of arrival. */
enum status arrivals_keep(struct arrivals *arrivals, struct arrival *arrival, struct err *err);
/* All that wait become the caller's (arrivals_free). */
struct arrival *arrivals_take(struct arrivals *arrivals, int *ret_count);
void arrivals_free(struct arrival *list, int count);
/* Whether nothing has come for so long. */
bool arrivals_pause(struct arrivals *arrivals, double seconds);

#endif
