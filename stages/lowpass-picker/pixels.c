#include "stages/lowpass-picker/pixels.h"

#include <float.h>
#include <math.h>

enum status pixels_check(const char *path, const struct image *micrograph, struct contamination_area data,
                         struct err *err) {
    static const float absurd = 1e15f;
    size_t count = image_count(micrograph), first = count;
    int absurd_count = 0;
    for (size_t i = 0; i < count; i++) {
        float size = fabsf(micrograph->data[i]);
        absurd_count += size > absurd && size <= FLT_MAX;
    }
    FAIL_IF(absurd_count > 0, err, STATUS_BAD_FORMAT,
            "%s: %d of its pixels are beyond ±%g, which no camera counts: write the micrograph again", path,
            absurd_count, (double)absurd);
    if (data.x1 > data.x0) return STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(micrograph->data[i])) continue;
        if (first == count) first = i;
        if (micrograph->data[i] != micrograph->data[first]) return STATUS_OK;
    }
    FAIL_IF(first == count, err, STATUS_BAD_FORMAT,
            "%s: none of its pixels is a finite number: write the micrograph again", path);
    FAIL(err, STATUS_BAD_FORMAT, "%s: all of its pixels are %g: there is no image in it; was the shutter closed?", path,
         (double)micrograph->data[first]);
}
