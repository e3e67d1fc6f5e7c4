#include "tests/stages/placed_particles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/formats/mrc.h"
#include "tests/common/scratch.h"

void placed_put_stack(const char *name, int box, double pixel_size, int slices) {
    char path[PATH_SIZE];
    struct image image = {0};
    struct err err = {0};
    assert_ok(image_resize(&image, box, box, slices, &err));
    image.pixel_size = (float)pixel_size;
    scratch_path(name, path);
    assert_ok(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
}

FILE *placed_begin_table(const char *name, double pixel_size, double micrograph_pixel_size, const char *more) {
    char path[PATH_SIZE];
    scratch_path(name, path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "data_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnImagePixelSize #2\n_rlnMicrographOriginalPixelSize #3\n1 %g "
            "%g\n\ndata_particles\n\nloop_\n_rlnImageName #1\n_rlnMicrographName #2\n_rlnCoordinateX #3\n"
            "_rlnCoordinateY #4\n_rlnOpticsGroup #5\n%s",
            pixel_size, micrograph_pixel_size, more);
    return f;
}
