/* The images of one drop over time, and what they say together: a hidden Markov model over outcomes (Rabiner 1989), as
 * Kotseruba, Cumbaa & Jurisica 2012 propose in 2.3. States are the forest's classes; what an image shows is seen through
 * the forest alone, so that P(image | class) ∝ P(class | image) / P(class), P(class) being the share of the examples that
 * the forest was trained on. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_SERIES_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_SERIES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "stages/crystal-scorer/outcomes.h"

/* Which drop an image is of, and when it was taken, by its name: a pattern in which {drop} stands for the one and {time}
 * for the other, as "{drop}_t{time}" for plate7/A01_t03; all else stands for itself. It is laid over the path without its
 * ending: over the name and as many folders before it as the pattern has; what comes before belongs to the drop. The
 * first of both takes as much as it can; {time} right behind {drop} takes the digits at the end. Times are in order as
 * numbers where both begin with digits, else as texts. */
enum { SERIES_PATTERN_SIZE = 256, SERIES_NAME_SIZE = 1024 };

struct series_name {
    char drop[SERIES_NAME_SIZE], time[SERIES_NAME_SIZE];
};

/* STATUS_BAD_ARGUMENT: {drop} or {time} is missing or there twice, or nothing tells where one ends. */
enum status series_check(const char *pattern, struct err *err);
/* False: the name does not fit. It then is a drop of its own. */
bool series_parse(const char *pattern, const char *id, struct series_name *ret_name);
/* Below, at or above 0: by drop, then by time. */
int series_compare(const struct series_name *a, const struct series_name *b);

struct series_model {
    int classes;
    double prior[OUTCOMES];                /* of a drop's first image */
    double transition[OUTCOMES][OUTCOMES]; /* [from][to], rows sum to 1 */
    double share[OUTCOMES];                /* of the classes among the examples */
};

/* Counted over images in order (by drop, by time): classes[count]; begins[i]: image i is the first of its drop. Each row
 * gets one image more, spread evenly, so that nothing is impossible that was not seen. */
void series_learn(int classes, const int *of_image, const bool *begins, size_t count, struct series_model *ret_model);

/* Forward-backward: seen[count][classes] are the forest's probabilities for the images of one drop in their order;
 * ret_known[count][classes] is P(class of image i | all images), rows sum to 1. May be the same array. */
enum status series_smooth(const struct series_model *model, const float *seen, size_t count, float *ret_known,
                          struct err *err);

#endif
