/* The searches with one set of templates (or without): one for each of a few shapes of micrographs, so that sessions of
 * mixed shapes do not make them anew for each micrograph. Also what stage and trial both take from an item. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_PICKER_SET_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_PICKER_SET_H

#include "common/harness/stage.h"
#include "kernels/ctf/ctf.h"
#include "stages/lowpass-picker/lowpass_picker.h"

enum { PICKERS_KEPT = 3 };

struct kept_picker {
    int shape[3];  /* px, px, and the pixel size in µÅ */
    uint64_t used; /* the clock when it was last used */
    struct lowpass_picker *picker;
};

/* Starts as {0}, which searches with the method PICKER_TEMPLATE: set it. */
struct picker_set {
    enum picker_method method;
    struct image templates;
    double pixel_size; /* Å, of the templates */
    int epoch;         /* of templates that a stage of the session made; 0: others, or none */
    struct kept_picker kept[PICKERS_KEPT];
    uint64_t clock; /* counts uses */
};

/* Destroys the searches, and keeps the templates. */
void picker_set_forget(struct picker_set *set);
void picker_set_clear(struct picker_set *set);

/* Returns the task of a search in micrographs of this shape, with the stage's parameters. */
struct lowpass_picker_task picker_task(const struct stage *stage, enum picker_method method, int nx, int ny,
                                       double pixel_size);
/* Returns the search of a shape: a kept one, or a new one in place of the one not used for longest. The set owns it. */
enum status picker_set_get(const struct stage *stage, struct picker_set *set, const int shape[3],
                           struct lowpass_picker **ret_picker, struct err *err);

/* Finds the pixel size of an item in Å; header: that of its file, 0: none. */
enum status picker_pixel_size(const struct stage *stage, const struct item *item, const char *path, double header,
                              double *ret_pixel_size, struct err *err);
/* Returns whether the item's defocus is known, and then its CTF. */
bool picker_ctf(const struct stage *stage, const struct item *item, struct ctf *ret_ctf);
/* Returns the seed of an item's noise: the same for the same micrograph, wherever and whenever it is picked. */
uint64_t picker_seed(const struct item *item);

#endif
