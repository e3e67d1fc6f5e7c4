/* Takes micrographs in on the CPU. */
#include <stdlib.h>

#include "common/half.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/intake/intake_private.h"

/* Converted pixels; micrographs of float32 need none. */
struct intake_cpu {
    float *pixels;
    size_t capacity;
};

static enum status create(const struct device *device, void **ret_state, struct err *err) {
    struct intake_cpu *made = NULL;
    (void)device;
    TRY(mem_new(1, sizeof *made, "a micrograph", &made, err));
    *ret_state = made;
    return STATUS_OK;
}

static void destroy(void *state) {
    struct intake_cpu *s = state;
    free(s->pixels);
    free(s);
}

#define CONVERT(type, value)                                                                                           \
    do {                                                                                                               \
        const type *in = stored;                                                                                       \
        for (size_t i = 0; i < count; i++)                                                                             \
            out[i] = value;                                                                                            \
    } while (0)

/* kind: any but float32. */
MULTIVERSION static void convert(enum intake_kind kind, const void *restrict stored, size_t count,
                                 float *restrict out) {
    if (kind == INTAKE_FLOAT16)
        CONVERT(uint16_t, half_to_float(in[i]));
    else if (kind == INTAKE_INT8)
        CONVERT(int8_t, (float)in[i]);
    else if (kind == INTAKE_UINT8)
        CONVERT(uint8_t, (float)in[i]);
    else if (kind == INTAKE_INT16)
        CONVERT(int16_t, (float)in[i]);
    else
        CONVERT(uint16_t, (float)in[i]);
}

MULTIVERSION static struct intake_range range_of(const float *pixels, size_t count, uint32_t limit) {
    struct intake_range range = INTAKE_NOTHING;
    for (size_t i = 0; i < count; i++)
        intake_see(pixels[i], limit, &range);
    return range;
}

/* Rows are looked at one by one, so that a count of 32 bits holds. */
static void look(const float *pixels, const struct intake_input *in, struct intake_result *result) {
    struct intake_range all = INTAKE_NOTHING;
    for (int y = 0; y < in->ny; y++) {
        struct intake_range row = range_of(pixels + (size_t)y * (size_t)in->nx, (size_t)in->nx, intake_bits(in->limit));
        all.least = row.least < all.least ? row.least : all.least;
        all.most = row.most > all.most ? row.most : all.most;
        result->beyond += row.beyond;
    }
    result->finite = all.least <= all.most;
    result->least = result->finite ? intake_value(all.least) : 0;
    result->most = result->finite ? intake_value(all.most) : 0;
}

static enum status run(void *state, const struct intake_input *in, struct intake_result *ret_result, struct err *err) {
    struct intake_cpu *s = state;
    size_t count = (size_t)in->nx * (size_t)in->ny;
    const float *pixels = in->stored;
    if (in->kind != INTAKE_FLOAT32) {
        if (count > s->capacity) {
            mem_free(&s->pixels);
            s->capacity = 0;
            TRY(mem_new_unset(count, sizeof *s->pixels, "a micrograph", &s->pixels, err));
            s->capacity = count;
        }
        convert(in->kind, in->stored, count, s->pixels);
        pixels = s->pixels;
    }
    *ret_result = (struct intake_result){.pixels = pixels, .data = contamination_data_area(pixels, in->nx, in->ny)};
    look(pixels, in, ret_result);
    return STATUS_OK;
}

const struct intake_work intake_cpu_work = {.create = create, .destroy = destroy, .run = run};
