#include "stages/classifier/cut.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"

/* Shells beyond the last one that is compared. */
enum { MARGIN = 2 };
/* Most of the box that is worth a cut: 0.8² is about two thirds of the pixels. */
static const double WORTH = 0.8;

int cut_box(int box, double pixel_size, double resolution) {
    if (!(resolution > 0)) return box;
    double shells = ceil(box * pixel_size / resolution) + MARGIN;
    if (!(2 * shells <= WORTH * box)) return box;
    int cut = fft_good_size(2 * (int)shells);
    if (cut < PARTICLE_BOX_LEAST) cut = PARTICLE_BOX_LEAST;
    return cut <= WORTH * box ? cut : box;
}

enum status cut_create(int from_box, int to_box, struct regrid **ret_cut, struct err *err) {
    /* Pixels of any unit do, if both boxes have one extent. */
    const struct regrid_options options = {.from_box = from_box,
                                           .box = to_box,
                                           .from_pixel = to_box,
                                           .pixel_size = from_box,
                                           .magnification = {1, 0, 0, 1}};
    return regrid_create(&options, ret_cut, err);
}

enum status cut_convert(int from_box, int to_box, const float *const *images, size_t count, float *to, size_t stride,
                        struct err *err) {
    const size_t pixels = (size_t)to_box * (size_t)to_box;
    _cleanup_(regrid_destroy) struct regrid *cut = NULL;
    _cleanup_(mem_free) float *scratch = NULL;
    if (from_box != to_box) {
        TRY(cut_create(from_box, to_box, &cut, err));
        TRY(mem_new_unset(regrid_scratch(cut), sizeof *scratch, "an average", &scratch, err));
    }
    for (size_t i = 0; i < count; i++)
        if (cut != NULL)
            regrid_run(cut, images[i], scratch, to + i * stride);
        else
            memcpy(to + i * stride, images[i], pixels * sizeof *to);
    return STATUS_OK;
}
