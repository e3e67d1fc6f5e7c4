#include "common/edges/dropped.h"

#include <stdio.h>

static const double pause = 60;

static void tell(struct dropped *dropped, struct log *log, double now) {
    log_write(log, dropped->level, dropped->id, "%s; dropped (%lld so far)", dropped->last, dropped->count);
    dropped->told = dropped->count;
    dropped->tell_at = now + pause;
}

void dropped_note(struct dropped *dropped, struct log *log, const char *where, const struct err *why, double now) {
    unsigned bit = 1u << why->status;
    dropped->count++;
    snprintf(dropped->last, sizeof dropped->last, "%s: %s", where, why->message);
    if ((dropped->kinds & bit) == 0 || now >= dropped->tell_at) tell(dropped, log, now);
    dropped->kinds |= bit;
}

void dropped_tell(struct dropped *dropped, struct log *log, double now) {
    if (dropped->count > dropped->told && now >= dropped->tell_at) tell(dropped, log, now);
}
