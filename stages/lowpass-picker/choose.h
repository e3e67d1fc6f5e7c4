/* Chooses picks from the maps of a search: excludes contamination, finds a threshold, finds peaks, and keeps the better
 * one of close peaks. Needs only the maps, so kept maps can be thresholded again. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_CHOOSE_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/peaks/peaks.h"
#include "stages/lowpass-picker/geometry.h"
#include "stages/lowpass-picker/separation.h"

enum pick_prune { PICK_PRUNE_GREEDY, PICK_PRUNE_RELION };

struct pick_rules {
    enum pick_prune prune;
    double threshold;        /* figure of merit; NaN: from the micrograph's own peaks */
    double min_distance;     /* Å; NaN: from the diameter */
    double max_stddev_noise; /* NaN: mask_contamination decides; ≤ 0: off */
    bool mask_contamination;
    double contamination_threshold; /* standard deviations of the ice */
    bool separate;                  /* fill the list's `separation`; needs an automatic threshold */
};

/* A pick: centre in px of the micrograph (0-based), class from 1 (0: LoG), psi in degrees. */
struct pick {
    float x, y, merit, psi;
    int class_number;
};

/* One pick of so many is sure. */
enum { PICK_SURE_PART = 4 };

struct pick_list {
    struct pick *items;
    size_t count, capacity;
    double threshold; /* threshold used; infinite if nothing can be a particle */
    double scale;     /* factor of the templates' grey scale, found with an automatic threshold; else 1 */
    double masked;    /* contaminated part of the micrograph, 0 to 1 */
    /* Score of the last of the best count / PICK_SURE_PART + 1 picks, with an automatic threshold; 0: no picks. */
    float sure;
    struct separation separation; /* of all peaks where picks may be, if the rules ask for it; else {0} */
    const uint8_t *mask; /* [work²] of the maps, not 0 where no pick may be; owned by the scratch; NULL: not computed */
};
void pick_list_destroy(struct pick_list *list);

/* Memory that is kept from choice to choice; starts as {0}. */
struct pick_scratch {
    size_t pixels;
    uint8_t *bad; /* pixels of the maps that hold no centre */
    float *values;
    struct peak_list peaks;
    struct peak_list found; /* in one template */
    struct contamination *contamination;
};
void pick_scratch_destroy(struct pick_scratch *scratch);

/* Fills `picks`, which keeps its memory. PICK_PRUNE_RELION needs the maps of each template. */
enum status pick_choose(const struct pick_maps *maps, const struct pick_rules *rules, struct pick_scratch *scratch,
                        struct pick_list *picks, struct err *err);

/* Counts the peaks of a micrograph of noise whose score is at least this, no closer than particles can be. */
enum status pick_count_in_noise(const struct pick_maps *maps, float score, struct pick_scratch *scratch,
                                size_t *ret_count, struct err *err);

/* Appends the heights of the peaks of a micrograph of noise, in standard deviations of its scores. If the maps of each
 * template are there, appends those of the peaks opposite to particles too. Stops at `most` in all. */
enum status pick_heights_of_noise(const struct pick_maps *maps, struct pick_scratch *scratch, float *ret_heights,
                                  size_t most, size_t *ret_count, struct err *err);

#endif
