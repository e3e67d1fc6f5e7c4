/* What the harness calls, and what a user sets. */
#include <stddef.h>

#include "stages/lowpass-picker/lowpass_picker.h"

#define AT(member) offsetof(struct lowpass_picker_params, member)

static const struct param params[] = {
    {.name = "method", .type = PARAM_CHOICE, .offset = AT(method), .unit = "", .choices = "auto|template|log",
     .default_text = "auto", .help = "How to find particles; auto: by template where templates are given, else by LoG."},
    {.name = "templates", .type = PARAM_PATH, .offset = AT(templates), .unit = "",
     .help = "Stack of templates (class averages or projections, on the grey scale of normalised particles), or a map, "
             "whose projections they are."},
    {.name = "symmetry", .type = PARAM_STRING, .offset = AT(symmetry), .unit = "", .default_text = "C1",
     .help = "Point group of the map that templates are projected from: C1, C4, D2, T, O, I1, …"},
    {.name = "templates_pixel_size", .type = PARAM_FLOAT, .offset = AT(templates_pixel_size), .unit = "Å",
     .minimum = 0.01, .maximum = 1000, .help = "Pixel size of the templates; by default what their file says."},
    {.name = "diameter", .type = PARAM_FLOAT, .offset = AT(diameter), .unit = "Å", .minimum = 1, .maximum = 100000,
     .help = "Diameter of the particle's circle; by default that of the templates' masks, or of most of their density."},
    {.name = "lowpass", .type = PARAM_FLOAT, .offset = AT(lowpass), .unit = "Å", .default_text = "20", .minimum = 0,
     .maximum = 1000, .help = "Micrographs are searched at this resolution; 0: at full resolution."},
    {.name = "angle_step", .type = PARAM_FLOAT, .offset = AT(angle_step), .unit = "°", .default_text = "5",
     .minimum = 0.1, .maximum = 360, .help = "Step of the in-plane rotation of the templates."},
    {.name = "threshold", .type = PARAM_STRING, .offset = AT(threshold), .unit = "", .default_text = "auto",
     .help = "Least figure of merit of a pick (1: as likely as expected of a particle; in whitened micrographs a typical "
             "one of auto), for LoG its least score, some 0.1 to 0.3; or auto: from each micrograph's own peaks, whatever "
             "the grey scale of the templates."},
    {.name = "min_distance", .type = PARAM_FLOAT, .offset = AT(min_distance), .unit = "Å", .minimum = 0,
     .maximum = 100000, .help = "Of two picks nearer than this the better stays; by default 0.7 of the diameter."},
    {.name = "max_stddev_noise", .type = PARAM_STRING, .offset = AT(max_stddev_noise), .unit = "",
     .default_text = "auto",
     .help = "No picks where the background's standard deviation, in units of the micrograph's, is above this; auto: "
             "mask_contamination instead; a number stands instead of that; 0: neither."},
    {.name = "mask_contamination", .type = PARAM_BOOL, .offset = AT(mask_contamination), .unit = "",
     .default_text = "true",
     .help = "No picks on ice crystals, carbon, dirt and filled borders, as found by local mean and variance."},
    {.name = "contamination_threshold", .type = PARAM_FLOAT, .offset = AT(contamination_threshold), .unit = "",
     .default_text = "10.5", .minimum = 3, .maximum = 1000,
     .help = "Standard deviations of the ice, averaged over a particle's width, beyond which a place is contaminated; "
             "lower ones take fainter contamination, and strong particles."},
    {.name = "log_diameter", .type = PARAM_FLOATS, .offset = AT(log_diameter), .unit = "Å", .minimum = 1,
     .maximum = 100000, .list_count = 2, .help = "Least and greatest diameter for LoG; by default diameter ± 20 %."},
    {.name = "invert", .type = PARAM_BOOL, .offset = AT(invert), .unit = "", .default_text = "true",
     .help = "Particles are dark in the micrographs and white in the templates."},
    {.name = "ctf", .type = PARAM_BOOL, .offset = AT(ctf), .unit = "", .default_text = "true",
     .help = "Apply the micrograph's CTF, where its defocus is known, to the templates."},
    {.name = "whiten", .type = PARAM_CHOICE, .offset = AT(whiten), .unit = "", .choices = "auto|on|off",
     .default_text = "auto",
     .help = "Weigh all resolutions of a micrograph alike before it is searched, which finds more and mistakes less; "
             "auto: with templates, but not beside RELION's prune or size_rule, whose figures of merit are of micrographs "
             "as they are."},
    {.name = "prune", .type = PARAM_CHOICE, .offset = AT(prune), .unit = "", .choices = "greedy|relion",
     .default_text = "greedy", .help = "Of close peaks the best stays (greedy), or RELION's rule, which drops pairs."},
    {.name = "size_rule", .type = PARAM_CHOICE, .offset = AT(size_rule), .unit = "", .choices = "smooth|relion",
     .default_text = "smooth", .help = "Maps have the smallest size that is fast and holds the low-pass (smooth), or "
                                       "RELION's size, with its rounding of coordinates by up to a pixel of the maps."},
    {.name = "write_png", .type = PARAM_BOOL, .offset = AT(write_png), .unit = "", .default_text = "true",
     .help = "Write a picture of each micrograph with its picks."},
    {.name = "keep_maps", .type = PARAM_BOOL, .offset = AT(keep_maps), .unit = "", .default_text = "false",
     .help = "Write the maps of each search beside its picks, for from_maps; some 4 MB for each template, and 5 MB, "
             "at 4096 px of 1.6 Å and 20 Å."},
    {.name = "from_maps", .type = PARAM_PATH, .offset = AT(from_maps), .unit = "",
     .help = "Folder of an earlier run with keep_maps: its maps are picked from again, with another threshold, distance "
             "or prune, without searching."},
};

const struct stage_descriptor lowpass_picker_stage = {
    .name = "lowpass-picker",
    .summary = "Finds particles in micrographs, with templates or by Laplacian of Gaussian.",
    .in = "micrograph",
    .cuda = true,
    .out = "picks",
    .params = params,
    .param_count = sizeof params / sizeof *params,
    .params_size = sizeof(struct lowpass_picker_params),
    .state_size = sizeof(struct lowpass_picker),
    .lane_size = sizeof(struct lowpass_picker_lane),
    .store_threads = 4,
    .init = lowpass_picker_init,
    .fini = lowpass_picker_fini,
    .lane_fini = lowpass_picker_lane_fini,
    .reconfigure = lowpass_picker_reconfigure,
    .load = lowpass_picker_load,
    .process = lowpass_picker_process,
    .store = lowpass_picker_store,
    .summarise = lowpass_picker_summarise,
};
