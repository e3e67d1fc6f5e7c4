#include "parameters.h"

#include <stddef.h>

#include "brightness.h"

#define AT(member) offsetof(struct brightness_options, member)
const struct param brightness_parameters[BRIGHTNESS_PARAMETERS] = {
    {.name = "darkest",
     .type = PARAM_FLOAT,
     .offset = AT(darkest),
     .help = "Micrographs with a mean below this are rejected; by default none is."},
};
#undef AT
