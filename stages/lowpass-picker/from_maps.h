/* Picking from the maps that an earlier run kept: what is asked for must be theirs. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_FROM_MAPS_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_FROM_MAPS_H

#include "stages/lowpass-picker/lowpass_picker.h"

/* Of the parameters alone: what a choice from maps cannot change, since the search would be another. */
enum status from_maps_check(const struct lowpass_picker_params *params, struct err *err);

/* Reads the maps of the lane's item into the lane; STATUS_BAD_ARGUMENT where they were searched for in another way. */
enum status from_maps_load(struct stage *stage, struct stage_lane *lane, struct err *err);

#endif
