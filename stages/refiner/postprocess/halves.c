#include "stages/refiner/postprocess/halves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "kernels/local_resolution/local_resolution.h"

enum { LEAST_BOX = LOCAL_RESOLUTION_LEAST_BOX, MOST_BOX = LOCAL_RESOLUTION_MOST_BOX };

enum status halves_find_second(const char *half1, char *out, size_t size, struct err *err) {
    static const char FIRST[] = "half1";
    const char *name = path_name(half1), *last = NULL;
    for (const char *at = name; (at = strstr(at, FIRST)) != NULL; at++)
        last = at;
    FAIL_IF(last == NULL, err, STATUS_BAD_ARGUMENT,
            "%s: the name does not say half1, so that half 2 cannot be found by it: give both half maps", half1);
    int length = snprintf(out, size, "%s", half1);
    FAIL_IF(length < 0 || (size_t)length >= size, err, STATUS_BAD_ARGUMENT, "%s: too long a path", half1);
    out[(size_t)(last - half1) + sizeof FIRST - 2] = '2';
    return STATUS_OK;
}

static enum status read_half(const char *path, double pixel_size, struct image *map, struct err *err) {
    TRY(mrc_read(path, map, err));
    FAIL_IF(map->nx != map->ny || map->nx != map->nz || map->nx % 2 != 0 || map->nx < LEAST_BOX || map->nx > MOST_BOX,
            err, STATUS_BAD_FORMAT,
            "%s is %d × %d × %d: a half map is expected, a cube of an even side from %d to %d px", path, map->nx,
            map->ny, map->nz, (int)LEAST_BOX, (int)MOST_BOX);
    FAIL_IF(!image_values_fit(map->data, image_count(map)), err, STATUS_BAD_FORMAT,
            "%s has voxels that are NaN, infinite or far too large: write it anew", path);
    if (!isnan(pixel_size)) map->pixel_size = (float)pixel_size;
    FAIL_IF(!(map->pixel_size > 0), err, STATUS_BAD_FORMAT,
            "the header of %s gives no pixel size: set --angpix to that of the map (Å)", path);
    return STATUS_OK;
}

enum status halves_read(const char *half1, const char *half2, double pixel_size, struct halves *ret_halves,
                        struct err *err) {
    struct image *a = &ret_halves->maps[0], *b = &ret_halves->maps[1];
    TRY(read_half(half1, pixel_size, a, err));
    TRY(read_half(half2, pixel_size, b, err));
    FAIL_IF(a->nx != b->nx, err, STATUS_BAD_FORMAT,
            "%s has a box of %d px, and %s one of %d: halves of one map are expected", half1, a->nx, half2, b->nx);
    FAIL_IF(fabsf(a->pixel_size - b->pixel_size) > 1e-3f * a->pixel_size, err, STATUS_BAD_FORMAT,
            "%s has pixels of %g Å, and %s of %g Å: set --angpix to what is right", half1, (double)a->pixel_size, half2,
            (double)b->pixel_size);
    bool equal = memcmp(a->data, b->data, image_count(a) * sizeof *a->data) == 0;
    FAIL_IF(equal, err, STATUS_BAD_FORMAT, "%s and %s hold the same map: two independent halves are expected", half1,
            half2);
    return STATUS_OK;
}

void halves_destroy(struct halves *halves) {
    for (int h = 0; h < 2; h++)
        image_destroy(&halves->maps[h]);
}
