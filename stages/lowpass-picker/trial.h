/* Tries new templates on micrographs that are done: each is searched once more as it is now, and with the new
 * templates, and what the two searches find is compared (separation.h). One call does one micrograph. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_TRIAL_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_TRIAL_H

#include "common/harness/template_set.h"
#include "stages/lowpass-picker/input.h"
#include "stages/lowpass-picker/picker_set.h"

enum { TRIAL_MICROGRAPHS = 10, TRIAL_LEAST = 3, TRIAL_TWINS = 2 };

/* Density of the new templates' picks, per µm²: in micrographs, and in noise of the same spectrum, at the height that
 * the better quarter of the micrograph's picks has. */
struct trial_density {
    double data, noise;
};

/* Starts as {0}: nothing is tried. */
struct trial {
    struct template_set from; /* where the templates are from; its images are those of `set` */
    struct picker_set set;    /* searches with them */
    struct item *items[TRIAL_MICROGRAPHS];
    int item_count, next;                                           /* next: of the items */
    char last_source[ITEM_SOURCE_SIZE], last_item[ITEM_ID_MAX + 1]; /* the last one that was done at its beginning */
    int tried;
    struct separation before, after; /* sums over the micrographs tried */
    size_t strong, again;            /* the better half of the picks now; those of them that are found again */
    struct trial_density density;    /* sums over the micrographs that have a twin */
    double sure, found;              /* the picks that the density of the data counts, and that of noise */
    int twins;                       /* of noise that were searched (noise_twin.h) */
    struct pick_list now;            /* picks of the micrograph as it is now */
    struct picker_input input;
    struct pick_maps maps;
    struct pick_scratch scratch;
    struct pick_list picks;
};
void trial_clear(struct trial *trial);

/* Begins with a set of templates, which it takes over. */
void trial_begin(struct trial *trial, struct template_set *templates);
static inline bool trial_runs(const struct trial *trial) {
    return trial->set.templates.nz > 0;
}
/* Searches the next micrograph; first chooses TRIAL_MICROGRAPHS of those that are done, spread over the session. Skips
 * micrographs that cannot be read. *ret_more: micrographs are left. Fewer than TRIAL_LEAST are done: *ret_more is
 * false, and item_count stays 0. After an error the next call tries the same micrograph again. A status of a file
 * (status_is_of_file) or STATUS_BAD_ARGUMENT is the fault of the new templates; no other is. Compute thread. */
enum status trial_step(struct trial *trial, struct stage *stage, struct picker_set *now, bool *ret_more,
                       struct err *err);
/* Returns the share of the better half of the picks now that the new templates find again, within 0.15 diameters. */
double trial_again(const struct trial *trial);
/* Returns whether noise of the same spectrum has next to none of the picks: less than 5 % of the density, within two
 * standard deviations of what was counted. */
bool trial_beats_noise(const struct trial *trial);
/* Returns whether the new templates are better: they find 5 % more particles that stand out from the rest and are
 * expected to mistake less, or no fewer with an expected F1 higher by 0.02; and they find again 45 % of the picks that
 * are sure now, in the same places. Templates with random phases may find as many, but beside the centres. They must
 * also beat noise. */
bool trial_won(const struct trial *trial);

#endif
