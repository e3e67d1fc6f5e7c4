#include "stages/refiner/unresolved.h"

#include <stdio.h>
#include <string.h>

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

enum refiner_unresolved unresolved_of_word(const char *word) {
    for (int why = UNRESOLVED_NOISE; why <= UNRESOLVED_NOWHERE; why++)
        if (strcmp(word, unresolved_word((enum refiner_unresolved)why)) == 0) return (enum refiner_unresolved)why;
    return UNRESOLVED_SHARED;
}

const char *unresolved_clause(enum refiner_unresolved why) {
    switch (why) {
    case REFINER_RESOLVED:
        return NULL;
    case UNRESOLVED_NOISE:
        return "the images resemble the reference no more than its negative";
    case UNRESOLVED_SHARED:
        return "the halves agree no further than they share";
    case UNRESOLVED_START:
        return "from its blurred reference the map does not come back";
    case UNRESOLVED_NOWHERE:
        return "the halves are believed in no shell";
    }
    return NULL;
}

void unresolved_describe(const struct refiner_state *s, char text[UNRESOLVED_SIZE]) {
    const char *clause = unresolved_clause(s->unresolved);
    if (clause == NULL)
        *text = 0;
    else if (s->unresolved == UNRESOLVED_NOISE)
        snprintf(text, UNRESOLVED_SIZE, "noise, no resolution");
    else if (s->unresolved == UNRESOLVED_SHARED)
        snprintf(text, UNRESOLVED_SIZE, "no resolution: %s (%.0f Å)", clause, s->shared);
    else
        snprintf(text, UNRESOLVED_SIZE, "no resolution: %s", clause);
}
