/* Judges the images of one drop over time together: a hidden Markov model over outcomes (Rabiner 1989), as Kotseruba,
 * Cumbaa & Jurisica 2012 propose in 2.3. States are the forest's classes. Images are observed through the forest only,
 * so that P(image | class) ∝ P(class | image) / P(class), where P(class) is the share of the class in the forest's
 * examples. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_SERIES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_SERIES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "stages/crystal-scorer/outcomes.h"

/* Drop and time of an image, read from its name with a pattern such as "{drop}_t{time}" for plate7/A01_t03. {drop} and
 * {time} stand for the two; all other characters stand for themselves. The pattern is matched with the path without its
 * ending: with the name and as many folders before it as the pattern has; earlier folders belong to the drop. The first
 * of the two matches as much as it can; {time} directly behind {drop} matches the digits at the end. Times are ordered
 * as numbers if both begin with digits, else as texts. */
enum { SERIES_PATTERN_SIZE = 256, SERIES_NAME_SIZE = 1024 };

struct series_name {
    char drop[SERIES_NAME_SIZE], time[SERIES_NAME_SIZE];
};

/* Checks a pattern. STATUS_BAD_ARGUMENT: {drop} or {time} is missing or occurs twice, or nothing separates them. */
enum status series_check(const char *pattern, struct err *err);
/* Matches an id with a pattern. Returns false if the id does not match; the image is then a drop of its own. */
bool series_parse(const char *pattern, const char *id, struct series_name *ret_name);
/* Returns a value below, at or above 0: compares by drop, then by time. */
int series_compare(const struct series_name *a, const struct series_name *b);

struct series_model {
    int classes;
    double prior[OUTCOMES];                /* of a drop's first image */
    double transition[OUTCOMES][OUTCOMES]; /* [from][to], rows sum to 1 */
    double share[OUTCOMES];                /* of the classes among the examples */
};

/* Learns the model by counting over images in order (by drop, by time): classes[count]; begins[i]: image i is the first
 * of its drop. Adds one image to each row, spread evenly, so that transitions without examples stay possible. */
void series_learn(int classes, const int *of_image, const bool *begins, size_t count, struct series_model *ret_model);

/* Forward-backward: seen[count][classes] are the forest's probabilities for the images of one drop in their order;
 * ret_known[count][classes] is P(class of image i | all images), rows sum to 1. May be the same array. */
enum status series_smooth(const struct series_model *model, const float *seen, size_t count, float *ret_known,
                          struct err *err);

#endif
