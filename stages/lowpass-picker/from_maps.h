/* Picks from the maps that an earlier run kept. The user's parameters must agree with those of that run. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_FROM_MAPS_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_FROM_MAPS_H

#include "common/formats/image.h"
#include "stages/lowpass-picker/lowpass_picker.h"

/* Checks options before maps are read. STATUS_BAD_ARGUMENT: an option is set that only a new search could obey. */
enum status from_maps_check(const struct lowpass_picker_options *options, struct err *err);

/* Reads the maps of an item from `folder`. id, micrograph: of the item. Reuses the memory of `scratch`.
 * STATUS_BAD_ARGUMENT: the maps come from another micrograph, or were searched with other parameters. */
enum status from_maps_read(const char *folder, const char *id, const char *micrograph,
                           const struct lowpass_picker_options *options, struct pick_maps *maps, struct image *scratch,
                           struct err *err);

#endif
