#include "stages/lowpass-picker/template_map.h"

#include "common/formats/image_formats.h"

bool template_map_is_one(const char *path, const struct image *image) {
    bool stack = image_path_fits(path, IMAGE_AS_TILT_STACK) && !image_path_fits(path, IMAGE_AS_VOLUME);
    return image->nx == image->ny && image->ny == image->nz && !stack;
}
