/* Compares the map of a later attempt with the one in use, which an earlier attempt has made. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_AGAIN_H
#define ICESTREAM_STAGES_REFINER_INITIAL_AGAIN_H

#include "stages/refiner/initial/initial.h"

struct again {
    bool same;          /* it is the same map as the first map in use, or as what has been refined from that */
    double mean, least; /* FSC with the first map, as the attempt compares its halves */
    /* Standard errors by which particles that were held out are more probable with the new map: than with the first map
     * and with each refined one, the least of these. NaN: the maps are the same, and this is not asked. */
    double gain;
    bool better; /* it is another map, and the gain is significant */
};

/* Compares the map of a complete attempt, which is accepted, with the first map in the file `path`, and with the maps of the
 * refinement, if there are any. Maps in use were made from some of the particles that are held out now, so that a new one
 * has to be clearly better. Their shells get the power of the new map's, so that scale and filter decide nothing.
 * ret_turned: the new map turned onto the first one, in its hand, box³ of the small images; the caller frees it. Call it
 * between iterations. */
enum status again_compare(struct initial *attempt, const char *path, float **ret_turned, struct again *ret_found,
                          struct err *err);

#endif
