#include "common/drops.h"

#include <stdio.h>

static const double pause = 60;

static void tell(struct drops *drops, struct log *log, double now) {
    log_write(log, drops->level, drops->id, "%s; dropped (%lld so far)", drops->last, drops->count);
    drops->told = drops->count;
    drops->tell_at = now + pause;
}

void drops_note(struct drops *drops, struct log *log, const char *where, const struct err *why, double now) {
    unsigned bit = 1u << why->status;
    drops->count++;
    snprintf(drops->last, sizeof drops->last, "%s: %s", where, why->message);
    if ((drops->kinds & bit) == 0 || now >= drops->tell_at) tell(drops, log, now);
    drops->kinds |= bit;
}

void drops_tell(struct drops *drops, struct log *log, double now) {
    if (drops->count > drops->told && now >= drops->tell_at) tell(drops, log, now);
}
