/* Compares particles with the references: the E-step of an iteration. */
#ifndef ICESTREAM_STAGES_REFINER_ESTEP_H
#define ICESTREAM_STAGES_REFINER_ESTEP_H

#include "stages/refiner/refiner_private.h"

/* Makes the grids and pixel lists of an iteration. */
enum status estep_open(struct refiner *refiner, struct err *err);
/* Returns the noise of whole images in a shell: that of the optics group with the least. */
double estep_least_noise(const struct refiner *refiner, const struct side *side, int shell);
/* Decides where the references and sums of an iteration lie. */
enum status estep_place(struct refiner *refiner, struct err *err);
/* Begins the E-step of a side: sets all references, clears the sums, and begins to compare. */
enum status estep_begin(struct refiner *refiner, struct side *side, struct err *err);
/* Prepares references first .. first + count − 1 for projection, and clears the accumulators of these references. */
enum status estep_set_references(struct refiner *refiner, struct side *side, int first, int count, struct err *err);
/* Makes the following batches compare with references first .. first + count − 1. Call alignment_finish before: sums
 * that are not finished are lost. */
enum status estep_compare_with(struct refiner *refiner, struct side *side, int first, int count, struct err *err);
/* Lists the images that estep_bring brings to several devices before these compare: those that they have room for. */
enum status estep_list_images(struct refiner *refiner, struct err *err);
bool estep_images_left(const struct refiner *refiner);
/* Reads some of the images left, and brings them to their devices. */
enum status estep_bring(struct refiner *refiner, struct err *err);
/* Returns the alignment whose devices need no images that they keep already, or NULL: before an iteration the first of
 * several devices measures the grey scale, and does not keep all images. */
const struct alignment *estep_keeper(const struct refiner *refiner);
/* Loads members from `first` on into refiner->batch, as many as fit. *ret_count: number of members loaded. While an
 * iteration runs, members whose images are twins of images before them leave the side (twins.h). */
enum status estep_load(struct refiner *refiner, struct side *side, int first, int *ret_count, struct err *err);
/* Loads and compares a batch of members from `first` on. *ret_count: number of members compared. */
enum status estep_batch(struct refiner *refiner, struct side *side, int first, int *ret_count, struct err *err);

#endif
