/* Reads two half maps that belong together. */
#ifndef ICESTREAM_STAGES_REFINER_POSTPROCESS_HALVES_H
#define ICESTREAM_STAGES_REFINER_POSTPROCESS_HALVES_H

#include "common/formats/image.h"

struct halves {
    struct image maps[2]; /* cubes of one box, even, and one pixel size */
};

/* Makes the name of half 2: the last "half1" of the file name becomes "half2". */
enum status halves_find_second(const char *half1, char *out, size_t size, struct err *err);
/* Reads the maps. pixel_size: Å; NaN: that of their headers. */
enum status halves_read(const char *half1, const char *half2, double pixel_size, struct halves *ret_halves,
                        struct err *err);
void halves_destroy(struct halves *halves);

#endif
