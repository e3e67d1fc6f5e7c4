/* Keeps files of particles that have arrived until an iteration ends. */
#ifndef ICESTREAM_STAGES_REFINER_ARRIVALS_H
#define ICESTREAM_STAGES_REFINER_ARRIVALS_H

#include <pthread.h>
#include <stdbool.h>

#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

struct arrival {
    struct particle_set *read; /* NULL: no particles */
    bool replace;              /* a selection: particles that are not in it leave the set */
};

struct arrivals {
    pthread_mutex_t lock; /* guards all members: files arrive on I/O threads */
    bool lock_made;
    struct arrival *list;
    int count, capacity;
    double last; /* s, monotonic: when the last file arrived */
};

/* Begins an empty list. */
enum status arrivals_init(struct arrivals *arrivals, struct err *err);
void arrivals_destroy(struct arrivals *arrivals);

/* Reads and checks the file that an item names, so that an item with a broken file fails by itself, before its
 * particles are among the others. A micrograph without particles has no file: no error. Replaces what *arrival held. */
enum status arrival_read(struct stage *stage, const struct refiner *refiner, const struct item *item,
                         struct arrival *arrival, struct err *err);
void arrival_clear(struct arrival *arrival);

/* Keeps an arrival. Consumes the arrival unless it returns an error. A selection replaces all that wait before it.
 * Call this in the order of arrival: the first particles decide on box and pixel size, not the thread that reads
 * fastest. */
enum status arrivals_keep(struct arrivals *arrivals, struct arrival *arrival, struct err *err);
/* Returns all that wait; the caller frees them (arrivals_free). */
struct arrival *arrivals_take(struct arrivals *arrivals, int *ret_count);
void arrivals_free(struct arrival *list, int count);
/* Returns whether nothing has arrived for so many seconds. */
bool arrivals_pause(struct arrivals *arrivals, double seconds);

#endif
