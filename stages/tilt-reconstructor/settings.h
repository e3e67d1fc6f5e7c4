/* Derives settings from the parameters: those of a reconstruction, the devices, the .mdoc that the user gave. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_SETTINGS_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_SETTINGS_H

#include "common/formats/mdoc.h"
#include "common/harness/stage.h"
#include "stages/tilt-reconstructor/reconstruction.h"

struct tilt_reconstructor_options;

struct settings {
    struct reconstruction_settings reconstruction;
    bool excluded[TILTS_MAX + 1];
    struct device *devices; /* that reconstruction.tomography points to */
    struct mdoc mdoc;       /* the file `tilts`, if it is an .mdoc */
    char *mdoc_id;          /* the name of its series; NULL: no .mdoc was given */
    bool separate;          /* series of different sources are different, even if their names are equal */
};

/* Adds the parameters that do not fit together, or a mask that does not fit them. */
void settings_check(const struct tilt_reconstructor_options *options, struct stage_checks *checks);
/* Checks the parameters of a stage and makes settings of them. */
enum status settings_create(struct stage *stage, struct settings **ret_settings, struct err *err);
void settings_destroy(struct settings **settings);

/* Returns the settings for previews of images that are binned by `shrink` in memory. */
struct reconstruction_settings settings_preview(const struct settings *settings, int shrink);

#endif
