#include "stages/extractor/parameters.h"

#include <stddef.h>

#include "stages/extractor/extractor.h"

#define AT(member) offsetof(struct extractor_options, member)
const struct param extractor_parameters[EXTRACTOR_PARAMETERS] = {
    {.name = "box",
     .type = PARAM_INT,
     .offset = AT(box),
     .unit = "px",
     .default_text = "128",
     .minimum = 8,
     .maximum = 8192,
     .help = "Side of the square cut from the micrograph, which it must fit into; 1.5 to 2 times the particle."},
    {.name = "downscale_to",
     .type = PARAM_INT,
     .offset = AT(downscale_to),
     .unit = "px",
     .minimum = 8,
     .maximum = 8192,
     .help = "Side after Fourier cropping; by default the box."},
    {.name = "background_radius",
     .type = PARAM_INT,
     .changes = PARAM_RESTART,
     .offset = AT(background_radius),
     .unit = "px",
     .minimum = 1,
     .maximum = 4096,
     .help = "Beyond this radius in the final box is background, which is normalised; by default 0.375 of the box."},
    {.name = "invert",
     .type = PARAM_BOOL,
     .offset = AT(invert),
     .default_text = "true",
     .help = "Multiply by -1, so that protein is white."},
    {.name = "normalise",
     .type = PARAM_BOOL,
     .offset = AT(normalise),
     .default_text = "true",
     .help = "Take a background ramp away and give the background mean 0 and standard deviation 1."},
    {.name = "minimum_pick_fom",
     .type = PARAM_FLOAT,
     .changes = PARAM_LIVE,
     .offset = AT(minimum_pick_fom),
     .help = "Only picks whose rlnAutopickFigureOfMerit is above this are cut out; by default all."},
    {.name = "coordinates",
     .type = PARAM_GLOB,
     .changes = PARAM_RESTART,
     .offset = AT(coordinates),
     .gives = "picks",
     .help = "Files of coordinates of another picker, such as \"picks/*.box\", in place of icestream's picks: .star "
             "(RELION), .box (EMAN), .cbox (crYOLO) or .txt (Topaz), a file named after each micrograph or one for "
             "all."},
    {.name = "coordinates_scale",
     .type = PARAM_FLOAT,
     .changes = PARAM_RESTART,
     .offset = AT(coordinates_scale),
     .default_text = "1",
     .minimum = 1e-3,
     .maximum = 1e3,
     .help = "Factor of these coordinates: 4 if they were picked on micrographs that were binned by 4."},
};
#undef AT
