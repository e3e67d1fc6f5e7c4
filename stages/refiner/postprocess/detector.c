#include "stages/refiner/postprocess/detector.h"

#include <math.h>
#include <stddef.h>

#include "common/formats/mtf.h"
#include "common/memory.h"

enum status detector_curve(const char *path, double detector, int box, double pixel_size, float **ret_curve,
                           struct err *err) {
    struct mtf mtf = {0};
    *ret_curve = NULL;
    if (path == NULL) return STATUS_OK;
    TRY(mtf_read(path, &mtf, err));
    enum status status = mem_new((size_t)box / 2 + 1, sizeof **ret_curve, "the MTF", ret_curve, err);
    if (status == STATUS_OK) mtf_fill(&mtf, isnan(detector) ? pixel_size : detector, box, pixel_size, *ret_curve);
    mtf_clear(&mtf);
    return status;
}
