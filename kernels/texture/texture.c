#include "kernels/texture/texture.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/texture/texture_private.h"

/* One image in flight. The CPU has its features when it was started. */
struct slot {
    bool taken;
    struct texture_features features;
};

struct texture {
    struct texture_geometry geometry;
    uint8_t *planes; /* of the CPU */
    struct slot *slots;
    struct texture_cpu *cpu;
    struct texture_cuda *cuda;
};

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
    struct texture_geometry *g = &t->geometry;
    TRY(texture_geometry_create(options, g, err));
    TRY(mem_new((size_t)options->slots, sizeof *t->slots, "texture features", &t->slots, err));
    if (options->device.kind == DEVICE_CPU) {
        size_t plane = (size_t)g->side * (size_t)g->side;
        TRY(mem_new(TEXTURE_QUANTISATIONS * plane, 1, "grey levels", &t->planes, err));
        return texture_cpu_create(g, &t->cpu, err);
    }
#ifdef ICESTREAM_HAVE_CUDA
    return texture_cuda_create(g, &t->cuda, err);
#else
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA: texture can be measured on the CPU only");
#endif
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
    texture_cpu_destroy(&(*texture)->cpu);
#ifdef ICESTREAM_HAVE_CUDA
    texture_cuda_destroy(&(*texture)->cuda);
#endif
    mem_free(&(*texture)->planes);
    mem_free(&(*texture)->slots);
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
    FAIL_IF(texture->slots[slot].taken, err, STATUS_BAD_STATE, "slot %d holds an image that was not finished", slot);
    uint8_t *planes = texture->planes;
#ifdef ICESTREAM_HAVE_CUDA
    if (texture->cuda) planes = texture_cuda_planes(texture->cuda, slot);
#endif
    TRY(texture_quantise(&texture->geometry, image, planes, err));
#ifdef ICESTREAM_HAVE_CUDA
    if (texture->cuda) TRY(texture_cuda_start(texture->cuda, slot, err));
#endif
    if (texture->cpu) texture_cpu_run(texture->cpu, planes, &texture->slots[slot].features);
    texture->slots[slot].taken = true;
    return STATUS_OK;
}

enum status texture_finish(struct texture *texture, int slot, struct texture_features *ret_features, struct err *err) {
    const struct texture_options *o = &texture->geometry.options;
    FAIL_IF(slot < 0 || slot >= o->slots || !texture->slots[slot].taken, err, STATUS_BAD_STATE,
            "slot %d of %d holds no image", slot, o->slots);
    texture->slots[slot].taken = false;
#ifdef ICESTREAM_HAVE_CUDA
    if (texture->cuda) return texture_cuda_finish(texture->cuda, slot, ret_features, err);
#endif
    *ret_features = texture->slots[slot].features;
    return STATUS_OK;
}

enum status texture_run(struct texture *texture, const struct texture_image *image,
                        struct texture_features *ret_features, struct err *err) {
    TRY(texture_start(texture, 0, image, err));
    return texture_finish(texture, 0, ret_features, err);
}
