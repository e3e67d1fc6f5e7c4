#include "common/harness/item_optics.h"

#include <math.h>

struct optics session_optics(const struct stage_session *session) {
    return (struct optics){
        .pixel_size = session->pixel_size,
        .voltage = session->voltage,
        .spherical_aberration = session->spherical_aberration,
        .amplitude_contrast = session->amplitude_contrast,
    };
}

struct optics item_optics(const struct item *item, const struct stage_session *session) {
    const struct optics shared = session_optics(session);
    const struct optics own = {
        .pixel_size = item_number(item, "optics.pixel_size", NAN),
        .voltage = item_number(item, "optics.voltage", NAN),
        .spherical_aberration = item_number(item, "optics.spherical_aberration", NAN),
        .amplitude_contrast = item_number(item, "optics.amplitude_contrast", NAN),
    };
    return optics_of_item(&own, &shared);
}

static enum status set_known(struct item *item, const char *member, double value, struct err *err) {
    return isnan(value) ? STATUS_OK : item_set_number(item, member, value, err);
}

enum status item_set_optics(struct item *item, const struct optics *optics, double original_pixel_size,
                            struct err *err) {
    TRY(set_known(item, "optics.pixel_size", optics->pixel_size, err));
    TRY(set_known(item, "optics.original_pixel_size", original_pixel_size, err));
    TRY(set_known(item, "optics.voltage", optics->voltage, err));
    TRY(set_known(item, "optics.spherical_aberration", optics->spherical_aberration, err));
    return set_known(item, "optics.amplitude_contrast", optics->amplitude_contrast, err);
}
