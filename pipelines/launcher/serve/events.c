#include "pipelines/launcher/serve/events.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/memory.h"

struct event {
    char *text; /* "id: …\nevent: …\ndata: …\n\n" */
    size_t length;
};

struct events {
    pthread_mutex_t lock;
    uint64_t server;      /* random: ids of another server are told apart */
    uint64_t first, next; /* numbers of the oldest event that is kept, and of the next one */
    struct event ring[EVENTS_KEPT];
    size_t bytes;
};

static const char resync[] = "event: resync\ndata: {\"v\":1}\n\n";

enum status events_create(struct events **ret_events, struct err *err) {
    struct events *events = calloc(1, sizeof *events);
    FAIL_IF(events == NULL, err, STATUS_NO_MEMORY, "no memory for events");
    if (getrandom(&events->server, sizeof events->server, 0) != sizeof events->server) {
        free(events);
        FAIL(err, STATUS_IO, "the system gives no random numbers");
    }
    events->server &= (UINT64_C(1) << 52) - 1;
    events->first = events->next = 1;
    pthread_mutex_init(&events->lock, NULL);
    *ret_events = events;
    return STATUS_OK;
}

static void drop_oldest(struct events *events) {
    struct event *event = &events->ring[events->first++ % EVENTS_KEPT];
    events->bytes -= event->length;
    mem_free(&event->text);
    event->length = 0;
}

void events_destroy(struct events **events) {
    if (*events == NULL) return;
    while ((*events)->first < (*events)->next)
        drop_oldest(*events);
    pthread_mutex_destroy(&(*events)->lock);
    free(*events);
    *events = NULL;
}

static void append(struct events *events, char *text, size_t length) {
    while (events->first < events->next &&
           (events->next - events->first == EVENTS_KEPT || events->bytes + length > EVENTS_BYTES))
        drop_oldest(events);
    events->ring[events->next++ % EVENTS_KEPT] = (struct event){text, length};
    events->bytes += length;
}

void events_gap(struct events *events) {
    pthread_mutex_lock(&events->lock);
    if (events->first < events->next) {
        while (events->first < events->next)
            drop_oldest(events);
        events->first = ++events->next;
    }
    pthread_mutex_unlock(&events->lock);
}

void events_publish_text(struct events *events, const char *event, const char *data) {
    char *text = NULL;
    pthread_mutex_lock(&events->lock);
    int length = data == NULL
                     ? -1
                     : asprintf(&text, "id: %llx-%llu\nevent: %s\ndata: %s\n\n", (unsigned long long)events->server,
                                (unsigned long long)events->next, event, data);
    if (length >= 0 && (size_t)length <= EVENTS_BYTES) {
        append(events, text, (size_t)length);
    } else {
        if (length >= 0) free(text);
        /* Whoever listens finds its place gone. */
        while (events->first < events->next)
            drop_oldest(events);
        events->next += 2;
        events->first = events->next;
    }
    pthread_mutex_unlock(&events->lock);
}

void events_publish(struct events *events, const char *event, json_t *json) {
    /* Thirteen digits keep the milliseconds of a time since 1970. */
    _cleanup_(mem_free) char *data = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(13)) : NULL;
    json_decref(json);
    events_publish_text(events, event, data);
}

void events_begin(struct events *events, const char *last_id, struct events_place *ret_place) {
    unsigned long long server, number;
    int used = 0;
    *ret_place = (struct events_place){.fresh = true};
    pthread_mutex_lock(&events->lock);
    ret_place->next = events->next;
    if (last_id[0] != '\0') {
        bool known = strlen(last_id) < 40 && sscanf(last_id, "%llx-%llu%n", &server, &number, &used) == 2 &&
                     last_id[used] == '\0' && server == events->server && number + 1 >= events->first &&
                     number < events->next;
        if (known) ret_place->next = number + 1;
        ret_place->resync = !known;
    }
    ret_place->begin_length = (size_t)snprintf(ret_place->begin, sizeof ret_place->begin, "retry: 2000\n\n%s",
                                               ret_place->resync ? resync : "");
    pthread_mutex_unlock(&events->lock);
}

/* Copies as much of a text as fits, from the place's offset on. Returns whether the text is at its end. */
static bool copy(const char *text, size_t length, size_t *offset, char *buffer, size_t size, size_t *used) {
    size_t left = length - *offset, room = size - *used, take = left < room ? left : room;
    memcpy(buffer + *used, text + *offset, take);
    *used += take;
    *offset = take < left ? *offset + take : 0;
    return take == left;
}

size_t events_read(struct events *events, struct events_place *place, char *buffer, size_t size) {
    size_t used = 0;
    pthread_mutex_lock(&events->lock);
    if (place->fresh && copy(place->begin, place->begin_length, &place->offset, buffer, size, &used))
        place->fresh = false;
    /* The listener may have half of an event whose rest is gone. Later lines of an event win, so these turn it into one
     * that nobody listens for. */
    if (!place->fresh && place->next < events->first) {
        static const char cut[] = "\nevent: cut\ndata:\n\n";
        if (size - used < sizeof cut + sizeof resync) goto done;
        if (place->offset > 0) {
            memcpy(buffer + used, cut, sizeof cut - 1);
            used += sizeof cut - 1;
        }
        memcpy(buffer + used, resync, sizeof resync - 1);
        used += sizeof resync - 1;
        place->offset = 0;
        place->next = events->next;
    }
    while (!place->fresh && place->next < events->next && used < size) {
        const struct event *event = &events->ring[place->next % EVENTS_KEPT];
        if (!copy(event->text, event->length, &place->offset, buffer, size, &used)) break;
        place->next++;
    }
done:
    pthread_mutex_unlock(&events->lock);
    return used;
}
