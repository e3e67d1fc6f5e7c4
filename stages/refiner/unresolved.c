#include "stages/refiner/unresolved.h"

#include <stdio.h>

const char *unresolved_word(enum refiner_unresolved why) {
    switch (why) {
    case REFINER_RESOLVED:
        return NULL;
    case UNRESOLVED_NOISE:
        return "noise";
    case UNRESOLVED_SHARED:
        return "shared";
    case UNRESOLVED_START:
        return "start";
    case UNRESOLVED_NOWHERE:
        return "nowhere";
    }
    return NULL;
}

void unresolved_describe(const struct refiner_state *s, char *text) {
    switch (s->unresolved) {
    case REFINER_RESOLVED:
        *text = 0;
        return;
    case UNRESOLVED_NOISE:
        snprintf(text, UNRESOLVED_SIZE, "noise, no resolution");
        return;
    case UNRESOLVED_SHARED:
        snprintf(text, UNRESOLVED_SIZE, "no resolution: the halves agree no further than they share (%.0f Å)",
                 s->shared);
        return;
    case UNRESOLVED_START:
        snprintf(text, UNRESOLVED_SIZE, "no resolution: from its blurred reference the map does not come back");
        return;
    case UNRESOLVED_NOWHERE:
        snprintf(text, UNRESOLVED_SIZE, "no resolution: the halves are believed in no shell");
        return;
    }
}
