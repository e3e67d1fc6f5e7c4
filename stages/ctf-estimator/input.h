/* Reads what one item brings: the spectrum of its movie, the micrograph, or both. */
#ifndef ICESTREAM_STAGES_CTF_ESTIMATOR_INPUT_H
#define ICESTREAM_STAGES_CTF_ESTIMATOR_INPUT_H

#include "common/formats/image.h"
#include "common/harness/stage.h"
#include "stages/ctf-estimator/ctf_estimator.h"

/* The buffers of a lane. */
struct ctf_input {
    struct image micrograph, spectrum; /* as read; has_… says which of them this item has */
    bool has_micrograph, has_spectrum;
    struct device_copy *uploaded; /* the micrograph on the CUDA device */
    struct optics optics;         /* of the micrograph */
};

/* Returns whether the item has a CTF that is to stay. */
bool ctf_input_is_known(struct stage *stage, const struct item *item);
/* Fills the bytes that ctf_input_load and the estimator will need, from the headers of the files. STATUS_BAD_FORMAT: a
 * file holds several images. */
enum status ctf_input_need(struct stage *stage, const struct item *item, struct stage_need *ret_need, struct err *err);
/* Reads the item's files. STATUS_BAD_FORMAT, STATUS_BAD_ARGUMENT: the message names the file and the fault. */
enum status ctf_input_load(struct stage *stage, const struct item *item, struct ctf_input *input, struct err *err);
/* Returns the estimator that the input needs. */
struct ctf_estimator_task ctf_input_task(struct stage *stage, const struct ctf_input *input);
/* Returns what the estimator takes. */
struct ctf_estimator_input ctf_input_given(const struct ctf_input *input);
void ctf_input_clear(struct ctf_input *input);

#endif
