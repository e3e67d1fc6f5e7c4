/* Says why a map has no resolution, in one word for files and in a clause for people. */
#ifndef ICESTREAM_STAGES_REFINER_UNRESOLVED_H
#define ICESTREAM_STAGES_REFINER_UNRESOLVED_H

#include <stddef.h>

#include "stages/refiner/refiner.h"

enum { UNRESOLVED_SIZE = 128 };
/* Returns the word that files give; NULL: the map has a resolution. */
const char *unresolved_word(enum refiner_unresolved why);
/* Fills text, which has UNRESOLVED_SIZE bytes: "no resolution: ...". "": the map has one. */
void unresolved_describe(const struct refiner_state *state, char *text);

#endif
