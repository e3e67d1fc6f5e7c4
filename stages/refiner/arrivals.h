/* Keeps files of particles that have arrived until an iteration ends. */
#ifndef ICESTREAM_STAGES_REFINER_ARRIVALS_H
#define ICESTREAM_STAGES_REFINER_ARRIVALS_H

#include <pthread.h>
#include <stdbool.h>

#include "common/edges/item.h"
#include "common/files.h"
#include "common/formats/star.h"
#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

/* Identifies the selection that arrived. */
struct arrival_selection {
    char path[PATH_SIZE];       /* of its whole table */
    char key[ITEM_MARK_SIZE];   /* item_mark */
    char since[ITEM_MARK_SIZE]; /* key of the selection with which its changes begin */
};

struct arrival {
    struct particle_set *read;           /* NULL: no particles */
    bool replace;                        /* a selection: particles that are not in it leave the set */
    bool changes;                        /* `read` is what has changed since another selection */
    struct arrival_selection *selection; /* NULL: not a selection */
};

struct arrivals {
    pthread_mutex_t lock; /* guards all members: files arrive on I/O threads */
    bool lock_made;
    struct arrival *list;
    int count;
    size_t capacity;
    double last;              /* s, monotonic: when the last file arrived */
    char key[ITEM_MARK_SIZE]; /* of the selection that was kept last; "": none, or other particles came since */
};

/* Begins an empty list. */
enum status arrivals_init(struct arrivals *arrivals, struct err *err);
void arrivals_destroy(struct arrivals *arrivals);

/* Reads and checks the file that an item names, so that an item with a broken file fails by itself, before its
 * particles are among the others. A micrograph without particles has no file: no error. changes: of a selection that
 * says what has changed since another one, reads that instead, if its file is whole; else warns and reads the table.
 * Replaces what *arrival held. */
enum status arrival_read(struct stage *stage, const struct refiner *refiner, const struct item *item, bool changes,
                         struct arrival *arrival, struct err *err);
/* Reads the whole table in place of the changes that the arrival holds. */
enum status arrival_read_whole(struct stage *stage, const struct refiner *refiner, struct arrival *arrival,
                               struct err *err);
void arrival_clear(struct arrival *arrival);

/* Keeps an arrival. Consumes the arrival unless it returns an error. A selection replaces all that wait before it.
 * Changes must follow the selection that was kept last (arrivals_follow), and are applied after it.
 * Call this in the order of arrival: the first particles decide on box and pixel size, not the thread that reads
 * fastest. */
enum status arrivals_keep(struct arrivals *arrivals, struct arrival *arrival, struct err *err);
/* Returns whether the arrival begins with the selection that was kept last. */
bool arrivals_follow(struct arrivals *arrivals, const struct arrival *arrival);
/* Returns all that wait; the caller frees them (arrivals_free). */
struct arrival *arrivals_take(struct arrivals *arrivals, int *ret_count);
void arrivals_free(struct arrival *list, int count);
/* Returns whether nothing has arrived for so many seconds. */
bool arrivals_pause(struct arrivals *arrivals, double seconds);

#endif
