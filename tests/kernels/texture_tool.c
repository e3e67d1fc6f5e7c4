/* Computes texture features for tests in Python.
 *
 * texture_tool matrix LEVELS: reads p[LEVELS][LEVELS] as text from standard input. Prints 13 features, one a line.
 *
 * texture_tool image FILE NX NY X Y DIAMETER LENGTHS WINDOW [STRIDE]: reads bytes [NY][NX]. Prints the features around
 * (X, Y); each line holds levels, length, feature, mean, largest and smallest range. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/texture/texture_reference.h"

static enum status of_matrix(int levels, struct err *err) {
    _cleanup_(mem_free) double *p = NULL;
    double f[TEXTURE_FEATURES];
    FAIL_IF(levels < 1 || levels > 4096, err, STATUS_BAD_ARGUMENT, "%d levels", levels);
    TRY(mem_new((size_t)(levels * levels), sizeof *p, "a matrix", &p, err));
    for (int k = 0; k < levels * levels; k++)
        FAIL_IF(scanf("%lf", &p[k]) != 1, err, STATUS_BAD_FORMAT, "the matrix ends at %d", k);
    TRY(texture_reference_features(p, levels, f, err));
    for (int k = 0; k < TEXTURE_FEATURES; k++)
        printf("%.15g\n", f[k]);
    return STATUS_OK;
}

static enum status measure(const struct texture_options *options, const struct texture_image *image,
                           struct texture_features *ret, struct err *err) {
    struct texture *t = NULL;
    TRY(texture_create(options, &t, err));
    enum status status = texture_run(t, image, ret, err);
    texture_destroy(&t);
    return status;
}

static enum status of_image(int count, char **arguments, struct err *err) {
    struct texture_options o = texture_defaults();
    struct texture_image image = {.nx = atoi(arguments[1]),
                                  .ny = atoi(arguments[2]),
                                  .pitch = atoi(arguments[1]),
                                  .centre = {atoi(arguments[3]), atoi(arguments[4])}};
    _cleanup_(mem_free) uint8_t *bytes = NULL;
    _cleanup_(mem_free) struct texture_features *f = NULL;
    o.diameter = atof(arguments[5]);
    o.lengths = atoi(arguments[6]);
    o.window = atoi(arguments[7]);
    if (count > 8) o.stride = atoi(arguments[8]);
    size_t pixels = (size_t)image.nx * (size_t)image.ny;
    TRY(mem_new(pixels, 1, "an image", &bytes, err));
    TRY(mem_new(1, sizeof *f, "features", &f, err));
    FILE *file = fopen(arguments[0], "rb");
    FAIL_IF(file == NULL, err, STATUS_IO, "%s cannot be opened", arguments[0]);
    size_t done = fread(bytes, 1, pixels, file);
    FAIL_IF(fclose(file) != 0 || done != pixels, err, STATUS_IO, "%s holds %zu of %zu bytes", arguments[0], done,
            pixels);
    image.bytes = bytes;
    TRY(measure(&o, &image, f, err));
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
        for (int l = 0; l < o.lengths; l++)
            for (int k = 0; k < TEXTURE_FEATURES; k++) {
                const float *v = f->values[q][l][k];
                printf("%d %d %d %.9g %.9g %.9g\n", o.levels[q], l + 1, k + 1, (double)v[0], (double)v[1],
                       (double)v[2]);
            }
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    enum status status = STATUS_BAD_ARGUMENT;
    if (argc == 3 && strcmp(argv[1], "matrix") == 0)
        status = of_matrix(atoi(argv[2]), &err);
    else if ((argc == 10 || argc == 11) && strcmp(argv[1], "image") == 0)
        status = of_image(argc - 2, argv + 2, &err);
    else
        snprintf(err.message, sizeof err.message,
                 "texture_tool matrix LEVELS | image FILE NX NY X Y DIAMETER LENGTHS WINDOW [STRIDE]");
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
