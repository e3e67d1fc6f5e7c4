/* Server-sent events of one session: a ring of the last EVENTS_KEPT, from which each listener reads on at its own pace.
 * The house thread publishes; the server's thread reads. A lock stands between them. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_EVENTS_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/status.h"

enum { EVENTS_KEPT = 1000, EVENTS_BYTES = 32 << 20 /* of all that are kept */ };

struct events;
enum status events_create(struct events **ret_events, struct err *err);
/* Frees the events; accepts NULL. Nobody may listen any more. */
void events_destroy(struct events **events);
/* Adds an event for all. Steals the reference. An event that does not fit into memory is left out, and all listeners
 * are told to begin anew ("resync"). */
void events_publish(struct events *events, const char *event, json_t *json);
/* The same for JSON in one line; NULL: it did not fit into memory. */
void events_publish_text(struct events *events, const char *event, const char *data);

/* Forgets all that was published: nobody listens, and what comes now is not published. Who comes back with an earlier id
 * gets "resync". */
void events_gap(struct events *events);

/* A listener's place. */
struct events_place {
    uint64_t next;  /* number of the next event */
    size_t offset;  /* bytes of it that are sent */
    bool fresh;     /* the first line is still to be sent */
    bool resync;    /* and "resync" with it: what was missed is gone */
    char begin[96]; /* the first lines, while fresh */
    size_t begin_length;
};
/* Finds the place after the event with this id; "": the present. Another server's id, or one that is gone, gives
 * "resync". */
void events_begin(struct events *events, const char *last_id, struct events_place *ret_place);
/* Copies what comes next. Returns the bytes; 0: nothing new. A listener who is too slow gets "resync". */
size_t events_read(struct events *events, struct events_place *place, char *buffer, size_t size);

#endif
