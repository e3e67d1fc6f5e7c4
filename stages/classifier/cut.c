#include "stages/classifier/cut.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"

/* Shells beyond the last one that is compared. */
enum { MARGIN = 2 };
/* Most of the box that is worth a cut: 0.8² is about two thirds of the pixels. */
static const double WORTH = 0.8;

struct cut {
    int from, to; /* px */
    struct fft_plan *forward, *backward;
};

int cut_box(int box, double pixel_size, double resolution) {
    if (!(resolution > 0)) return box;
    double shells = ceil(box * pixel_size / resolution) + MARGIN;
    if (!(2 * shells <= WORTH * box)) return box;
    int cut = fft_good_size(2 * (int)shells);
    if (cut < PARTICLE_BOX_LEAST) cut = PARTICLE_BOX_LEAST;
    return cut <= WORTH * box ? cut : box;
}

static enum status make_plans(struct cut *c, struct err *err) {
    const struct fft_options forward = {.rank = 2, .shape = {c->from, c->from}, .direction = FFT_FORWARD};
    const struct fft_options backward = {.rank = 2, .shape = {c->to, c->to}, .direction = FFT_INVERSE};
    TRY(fft_create(&forward, &c->forward, err));
    return fft_create(&backward, &c->backward, err);
}

enum status cut_create(int from_box, int to_box, struct cut **ret_cut, struct err *err) {
    struct cut *c = NULL;
    TRY(mem_new(1, sizeof *c, "another grid for particles", &c, err));
    *c = (struct cut){.from = from_box, .to = to_box};
    enum status status = make_plans(c, err);
    if (status != STATUS_OK) {
        cut_destroy(&c);
        return status;
    }
    *ret_cut = c;
    return STATUS_OK;
}

void cut_destroy(struct cut **cut) {
    struct cut *c = *cut;
    if (c == NULL) return;
    fft_destroy(&c->forward);
    fft_destroy(&c->backward);
    mem_free(cut);
}

static size_t aligned(size_t floats) {
    return (floats + 15) / 16 * 16;
}

size_t cut_scratch(const struct cut *c) {
    return aligned(fft_complex_floats(c->forward)) + aligned(fft_complex_floats(c->backward));
}

/* Copies frequencies below both last ones. The last one of a grid stands for both signs and has no counterpart. */
static void copy_frequencies(const struct cut *c, const float *from, float *to) {
    const int reach = (c->from < c->to ? c->from : c->to) / 2;
    const size_t from_row = (size_t)c->from / 2 + 1, to_row = (size_t)c->to / 2 + 1;
    const float scale = (float)(1.0 / ((double)c->from * c->to)); /* from/to in value, 1/from² of the transforms */
    memset(to, 0, fft_complex_floats(c->backward) * sizeof *to);
    for (int ky = 1 - reach; ky < reach; ky++) {
        const float *in = from + 2 * from_row * (size_t)(ky < 0 ? ky + c->from : ky);
        float *out = to + 2 * to_row * (size_t)(ky < 0 ? ky + c->to : ky);
        for (int i = 0; i < 2 * reach; i++)
            out[i] = scale * in[i];
    }
}

void cut_run(const struct cut *c, float *image, float *scratch, float *to) {
    float *half = scratch, *result = half + aligned(fft_complex_floats(c->forward));
    fft_run(c->forward, image, half);
    copy_frequencies(c, half, result);
    fft_run(c->backward, result, to);
}

static enum status convert(const struct cut *c, const float *const *images, size_t count, float *to, size_t stride,
                           struct err *err) {
    const size_t from = (size_t)c->from * (size_t)c->from, result = (size_t)c->to * (size_t)c->to;
    _cleanup_(mem_free) float *scratch = NULL, *image = NULL, *out = NULL;
    TRY(mem_new_unset(cut_scratch(c), sizeof *scratch, "an average", &scratch, err));
    TRY(mem_new_unset(from, sizeof *image, "an average", &image, err));
    TRY(mem_new_unset(result, sizeof *out, "an average", &out, err));
    for (size_t i = 0; i < count; i++) {
        memcpy(image, images[i], from * sizeof *image);
        cut_run(c, image, scratch, out);
        memcpy(to + i * stride, out, result * sizeof *out);
    }
    return STATUS_OK;
}

enum status cut_convert(int from_box, int to_box, const float *const *images, size_t count, float *to, size_t stride,
                        struct err *err) {
    struct cut *c = NULL;
    if (from_box == to_box) {
        for (size_t i = 0; i < count; i++)
            memcpy(to + i * stride, images[i], (size_t)to_box * (size_t)to_box * sizeof *to);
        return STATUS_OK;
    }
    TRY(cut_create(from_box, to_box, &c, err));
    enum status status = convert(c, images, count, to, stride, err);
    cut_destroy(&c);
    return status;
}
