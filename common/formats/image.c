#include "common/formats/image.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"
#include "common/multiversion.h"

typedef enum status memory_maker(size_t count, size_t size, const char *what, void *ret_pointer, struct err *err);

static enum status resize(struct image *image, int nx, int ny, int nz, memory_maker *make, struct err *err) {
    size_t count = 0;
    FAIL_IF(nx < 1 || ny < 1 || nz < 1, err, STATUS_BAD_ARGUMENT, "an image cannot have %d × %d × %d pixels", nx, ny,
            nz);
    FAIL_IF(__builtin_mul_overflow((size_t)nx * (size_t)ny, (size_t)nz, &count), err, STATUS_NO_MEMORY,
            "no memory for an image of %d × %d × %d pixels", nx, ny, nz);
    if (count > image->capacity) {
        /* Nobody needs the old pixels: both at once could be too much. */
        mem_free(&image->data);
        image->capacity = 0;
        TRY(make(count, sizeof *image->data, "pixels", &image->data, err));
        image->capacity = count;
    }
    image->nx = nx;
    image->ny = ny;
    image->nz = nz;
    return STATUS_OK;
}

size_t image_bytes(int nx, int ny, int nz) {
    return mem_bytes(mem_bytes((size_t)nx * (size_t)ny, (size_t)nz), sizeof(float));
}

enum status image_resize(struct image *image, int nx, int ny, int nz, struct err *err) {
    return resize(image, nx, ny, nz, mem_new, err);
}

enum status image_resize_unset(struct image *image, int nx, int ny, int nz, struct err *err) {
    return resize(image, nx, ny, nz, mem_new_unset, err);
}

void image_destroy(struct image *image) {
    if (image == NULL) return;
    free(image->data);
    *image = (struct image){0};
}

MULTIVERSION bool image_values_fit(const float *values, size_t count) {
    int misfits = 0;
    for (size_t i = 0; i < count; i++)
        misfits |= !(fabsf(values[i]) < IMAGE_VALUE_MAX);
    return misfits == 0;
}
