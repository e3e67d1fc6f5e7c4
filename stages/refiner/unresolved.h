/* Says why a map has no resolution, in one word for files and in a clause for people. */
#ifndef ICESTREAM_STAGES_REFINER_UNRESOLVED_H
#define ICESTREAM_STAGES_REFINER_UNRESOLVED_H

#include "stages/refiner/refiner.h"

enum { UNRESOLVED_SIZE = 128 };
/* Returns the word that files give; NULL: the map has a resolution. */
const char *unresolved_word(enum refiner_unresolved why);
/* Returns what a word of a file stands for; UNRESOLVED_SHARED if it is not known: the map has no resolution then. */
enum refiner_unresolved unresolved_of_word(const char *word);
/* Returns the reason as a clause, which the page and the report give in the same words (01_format.js,
 * report_particles.c); NULL: the map has a resolution. */
const char *unresolved_clause(enum refiner_unresolved why);
/* Fills text: "no resolution: " and the clause, or "noise, no resolution". "": the map has one. */
void unresolved_describe(const struct refiner_state *state, char text[UNRESOLVED_SIZE]);

#endif
