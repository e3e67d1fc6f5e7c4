#include "stages/lowpass-picker/pixels.h"

enum status pixels_check(const char *path, const struct intake_result *found, struct err *err) {
    FAIL_IF(found->beyond > 0, err, STATUS_BAD_FORMAT,
            "%s: %zu of its pixels are beyond ±%g, which no camera counts: write the micrograph again", path,
            found->beyond, (double)PIXELS_ABSURD);
    if (found->data.x1 > found->data.x0) return STATUS_OK;
    FAIL_IF(!found->finite, err, STATUS_BAD_FORMAT,
            "%s: none of its pixels is a finite number: write the micrograph again", path);
    FAIL_IF(found->least == found->most, err, STATUS_BAD_FORMAT,
            "%s: all of its pixels are %g: there is no image in it; was the shutter closed?", path,
            (double)found->least);
    return STATUS_OK;
}
