#include "stages/crystal-scorer/features.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/memory.h"

int features_count(enum features_groups groups) {
    return groups == FEATURES_ALL      ? FEATURES_MOST
           : groups == FEATURES_SIMPLE ? DROP_FEATURES_COUNT
                                       : DROP_FEATURES_GRADIENT;
}

const char *features_groups_name(enum features_groups groups) {
    static const char *const names[] = {"all", "simple", "statistics"};
    return names[groups];
}

void features_weights(enum features_groups groups, float *ret_weights) {
    static const int kinds[] = {DROP_FEATURES_IMAGE,  DROP_FEATURES_GRADIENT, DROP_FEATURES_LINES,
                                DROP_FEATURES_STRIPS, DROP_FEATURES_TOPOLOGY, DROP_FEATURES_COUNT,
                                FEATURES_MOST};
    int count = features_count(groups);
    for (int k = 0; kinds[k] < count; k++)
        for (int i = kinds[k]; i < kinds[k + 1]; i++)
            ret_weights[i] = 1.0F / (float)(kinds[k + 1] - kinds[k]);
}

static enum status create_texture(struct features *f, int threads, const struct device *device, struct err *err) {
    struct texture_options options = texture_defaults();
    options.window = f->options.window;
    options.diameter = f->options.diameter;
    options.stride = f->options.stride;
    options.threads = threads;
    options.device = *device;
    return texture_create(&options, &f->texture, err);
}

enum status features_create(const struct features_options *options, bool with_texture, int threads,
                            const struct device *device, struct features **ret_features, struct err *err) {
    _cleanup_(features_destroy) struct features *f = NULL;
    TRY(mem_new(1, sizeof *f, "the features of a drop", &f, err));
    f->options = *options;
    f->with_texture = with_texture || options->groups == FEATURES_ALL;
    TRY(drop_find_create(&f->find, err));
    TRY(drop_features_create(options->diameter, &f->simple, err));
    if (f->with_texture) TRY(create_texture(f, threads, device, err));
    *ret_features = f;
    f = NULL;
    return STATUS_OK;
}

void features_destroy(struct features **address) {
    struct features *f = *address;
    if (f == NULL) return;
    drop_find_destroy(&f->find);
    drop_features_destroy(&f->simple);
    texture_destroy(&f->texture);
    image_destroy(&f->image);
    free(f);
    *address = NULL;
}

/* Returns the least centre coordinate: the circle may leave the image by half a pixel, since 200 px have no middle
 * pixel. */
static int least_centre(int diameter) {
    return (diameter - 1) / 2;
}

static int most_centre(int diameter, int size) {
    return size - 1 - least_centre(diameter);
}

static int kept_inside(double place, int diameter, int size) {
    int centre = (int)lrint(place), least = least_centre(diameter), most = most_centre(diameter, size);
    return centre < least ? least : centre > most ? most : centre;
}

static enum status place(struct features *f, const char *path, const int centre[2], struct err *err) {
    int d = f->options.diameter, nx = f->image.nx, ny = f->image.ny;
    FAIL_IF(most_centre(d, nx) < least_centre(d) || most_centre(d, ny) < least_centre(d), err, STATUS_BAD_FORMAT,
            "%s: %d × %d px are less than the circle of %d px that is evaluated: take larger images, or set diameter",
            path, nx, ny, d);
    f->fills = false;
    if (centre != NULL) {
        FAIL_IF(centre[0] < least_centre(d) || centre[0] > most_centre(d, nx) || centre[1] < least_centre(d) ||
                    centre[1] > most_centre(d, ny),
                err, STATUS_BAD_FORMAT,
                "%s: the circle of %d px around centre %d,%d leaves the image of %d × %d px: set another centre, or a "
                "smaller diameter",
                path, d, centre[0], centre[1], nx, ny);
        memcpy(f->centre, centre, sizeof f->centre);
        return STATUS_OK;
    }
    struct drop_circle circle;
    enum status status = drop_find_run(f->find, f->image.data, nx, ny, &circle, err);
    if (status != STATUS_OK) {
        err_context(err, status, "%s", path);
        size_t length = err != NULL ? strlen(err->message) : 0;
        if (err != NULL) snprintf(err->message + length, sizeof err->message - length, "; say where it is with centre");
        return status;
    }
    f->fills = circle.fills;
    f->centre[0] = kept_inside(circle.x, d, nx);
    f->centre[1] = kept_inside(circle.y, d, ny);
    return STATUS_OK;
}

enum status features_check_one(const char *path, int nz, struct err *err) {
    FAIL_IF(nz != 1, err, STATUS_BAD_FORMAT, "%s: holds %d images: a file of one drop has one", path, nz);
    return STATUS_OK;
}

enum status features_load(struct features *f, const char *path, const int centre[2], struct err *err) {
    TRY(image_read(path, &f->image, err));
    TRY(features_check_one(path, f->image.nz, err));
    FAIL_IF(!image_values_fit(f->image.data, image_count(&f->image)), err, STATUS_BAD_FORMAT,
            "%s: has NaN or infinite pixels", path);
    TRY(place(f, path, centre, err));
    drop_features_run(f->simple, f->image.data, f->image.nx, f->image.ny, f->centre[0], f->centre[1], f->vector);
    return STATUS_OK;
}

enum status features_start(struct features *f, struct err *err) {
    if (!f->with_texture) return STATUS_OK;
    struct texture_image image = {.floats = f->image.data,
                                  .nx = f->image.nx,
                                  .ny = f->image.ny,
                                  .pitch = f->image.nx,
                                  .centre = {f->centre[0], f->centre[1]}};
    return texture_start(f->texture, 0, &image, err);
}

enum status features_finish(struct features *f, struct err *err) {
    if (!f->with_texture) return STATUS_OK;
    TRY(texture_finish(f->texture, 0, &f->of_texture, err));
    memcpy(f->vector + DROP_FEATURES_COUNT, f->of_texture.values, sizeof f->of_texture.values);
    return STATUS_OK;
}
