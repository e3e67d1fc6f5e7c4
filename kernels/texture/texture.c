#include "kernels/texture/texture.h"

#include "common/memory.h"
#include "kernels/texture/texture_private.h"

struct texture {
    struct texture_geometry geometry;
    bool *taken;                     /* [slots] whether a slot holds an image */
    const struct texture_work *work; /* for the kind of device */
    void *state;                     /* of the work */
};

/* Returns NULL for a CUDA device when the program was built without CUDA. */
static const struct texture_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &texture_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &texture_cuda_work;
#else
    return NULL;
#endif
}

struct texture_options texture_defaults(void) {
    return (struct texture_options){.levels = {64, 32, 16},
                                    .lengths = TEXTURE_LENGTHS,
                                    .window = 31,
                                    .diameter = 200,
                                    .stride = 1,
                                    .slots = 1,
                                    .threads = 1,
                                    .device = {DEVICE_CPU, 0}};
}

static enum status build(struct texture *t, const struct texture_options *options, struct err *err) {
    TRY(texture_geometry_create(options, &t->geometry, err));
    TRY(mem_new((size_t)options->slots, sizeof *t->taken, "texture", &t->taken, err));
    t->work = work_on(&options->device);
    FAIL_IF(t->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: texture can be measured on the CPU only");
    return t->work->create(&t->geometry, &t->state, err);
}

enum status texture_create(const struct texture_options *options, struct texture **ret_texture, struct err *err) {
    struct texture *t = NULL;
    TRY(mem_new(1, sizeof *t, "texture", &t, err));
    enum status status = build(t, options, err);
    if (status != STATUS_OK) {
        texture_destroy(&t);
        return status;
    }
    *ret_texture = t;
    return STATUS_OK;
}

void texture_destroy(struct texture **texture) {
    if (*texture == NULL) return;
    if ((*texture)->state) (*texture)->work->destroy((*texture)->state);
    mem_free(&(*texture)->taken);
    texture_geometry_destroy(&(*texture)->geometry);
    mem_free(texture);
}

int texture_pixels(const struct texture *texture) {
    return texture->geometry.pixels;
}

int texture_displacements(const struct texture *texture) {
    return texture->geometry.first[TEXTURE_LENGTHS + 1];
}

const struct texture_geometry *texture_geometry(const struct texture *texture) {
    return &texture->geometry;
}

enum status texture_start(struct texture *texture, int slot, const struct texture_image *image, struct err *err) {
    const struct texture_options *o = &texture->geometry.options;
    FAIL_IF(slot < 0 || slot >= o->slots, err, STATUS_BAD_ARGUMENT, "there is no slot %d among %d", slot, o->slots);
    FAIL_IF(texture->taken[slot], err, STATUS_BAD_STATE, "slot %d holds an image that was not finished", slot);
    TRY(texture_quantise(&texture->geometry, image, texture->work->planes(texture->state, slot), err));
    TRY(texture->work->start(texture->state, slot, err));
    texture->taken[slot] = true;
    return STATUS_OK;
}

enum status texture_finish(struct texture *texture, int slot, struct texture_features *ret_features, struct err *err) {
    const struct texture_options *o = &texture->geometry.options;
    FAIL_IF(slot < 0 || slot >= o->slots || !texture->taken[slot], err, STATUS_BAD_STATE,
            "slot %d of %d holds no image", slot, o->slots);
    texture->taken[slot] = false;
    return texture->work->finish(texture->state, slot, ret_features, err);
}

enum status texture_run(struct texture *texture, const struct texture_image *image,
                        struct texture_features *ret_features, struct err *err) {
    TRY(texture_start(texture, 0, image, err));
    return texture_finish(texture, 0, ret_features, err);
}
