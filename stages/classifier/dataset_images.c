/* Images of a dataset: reads them, brings them to the grid, checks, normalises and cuts them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image.h"
#include "common/formats/optics.h"
#include "common/memory.h"
#include "stages/classifier/ahead.h"
#include "stages/classifier/dataset_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

static size_t whole_pixels(const struct dataset *d) {
    return (size_t)d->whole_box * (size_t)d->whole_box;
}

static size_t cut_bytes(const struct dataset *d) {
    return (size_t)d->box * (size_t)d->box * sizeof(float);
}

static size_t aligned(size_t floats) {
    return (floats + 15) / 16 * 16;
}

static bool is_cut(const struct dataset *d) {
    return d->box != d->whole_box;
}

static bool is_resampled(const struct dataset *d, const struct way *way) {
    return way->box != d->whole_box || !optics_same_pixel_size(way->pixel_size, d->whole_pixel_size);
}

/* Images whose optics alone are corrected keep the deviation of their background. Others are judged and normalised as
 * their files have them. */
static bool changes_noise(const struct dataset *d, const struct dataset_particle *p) {
    const struct way *way = d->ways.list[p->way];
    return way->filtered || is_resampled(d, way);
}

/* Returns whether the image is normalised before it is brought to the grid. */
static bool normalised_before(const struct dataset *d, const struct dataset_particle *p) {
    return d->check != NULL && image_check_normalises(d->check) && changes_noise(d, p);
}

/* Sets the image of an unusable particle to zero, and normalises others where images are. */
static void check_values(const struct dataset *d, struct dataset_particle *p, float *image) {
    size_t pixels = whole_pixels(d);
    bool fits = image_values_fit(image, pixels), checked = d->check == NULL || normalised_before(d, p);
    p->unusable = p->unusable || !fits || (!checked && !image_check_usable(d->check, image));
    if (p->unusable)
        memset(image, 0, pixels * sizeof *image);
    else if (!checked)
        image_check_take(d->check, image);
}

/* Makes room for an image as its file has it, and for the scratch of its way to the grid. */
static enum status reserve_given(struct dataset *d, size_t floats, struct err *err) {
    if (floats <= d->given_floats) return STATUS_OK;
    mem_free(&d->given);
    d->given_floats = 0;
    TRY(mem_new_unset(floats, sizeof *d->given, "a particle", &d->given, err));
    d->given_floats = floats;
    return STATUS_OK;
}

/* Gets the image as its file has it. read: the same, if it was read ahead; else NULL. */
static enum status read_given(struct dataset *d, const struct dataset_particle *p, const float *read, float *to,
                              struct err *err) {
    const size_t pixels = (size_t)p->image_box * (size_t)p->image_box;
    if (read == NULL)
        return stack_reader_image(d->reader, d->batches[p->batch]->stacks[p->stack].path, p->image_box, p->slice, to,
                                  err);
    memcpy(to, read, pixels * sizeof *to);
    return STATUS_OK;
}

/* Reads the image of a particle, and brings it to the whole grid. */
static enum status read_image(struct dataset *d, struct dataset_particle *p, const float *read, float *to,
                              struct err *err) {
    struct way *way = d->ways.list[p->way];
    TRY(way_make(way, d->whole_box, d->whole_pixel_size, ways_detector(&d->ways), err));
    if (way->regrid == NULL) return read_given(d, p, read, to, err);
    size_t given = (size_t)way->box * (size_t)way->box, before_scratch = (given + 15) / 16 * 16;
    TRY(reserve_given(d, before_scratch + regrid_scratch(way->regrid), err));
    TRY(read_given(d, p, read, d->given, err));
    p->unusable = p->unusable || !image_values_fit(d->given, given);
    bool usable = !p->unusable;
    if (usable && normalised_before(d, p)) {
        TRY(image_check_prepare_other(d->check, way->box, way->pixel_size, err));
        TRY(image_check_take_other(d->check, way->box, way->pixel_size, d->given, &usable, err));
    }
    p->unusable = !usable;
    if (p->unusable)
        memset(to, 0, whole_pixels(d) * sizeof *to);
    else
        regrid_run(way->regrid, d->given, d->given + before_scratch, to);
    return STATUS_OK;
}

/* Makes what cuts images, once, and room for one that is whole. */
static enum status prepare_cut(struct dataset *d, struct err *err) {
    if (d->cut == NULL) TRY(cut_create(d->whole_box, d->box, &d->cut, err));
    if (d->whole != NULL) return STATUS_OK;
    return mem_new_unset(aligned(whole_pixels(d)) + regrid_scratch(d->cut), sizeof *d->whole, "a particle", &d->whole,
                         err);
}

static void cut(const struct dataset *d, const struct dataset_particle *p, const float *whole, float *scratch,
                float *to) {
    if (p->unusable)
        memset(to, 0, cut_bytes(d));
    else
        regrid_run(d->cut, whole, scratch, to);
}

/* Reads the image of a particle, and brings it to the grid of the comparison. read: as read_given has it. */
static enum status make_image(struct dataset *d, struct dataset_particle *p, const float *read, float *to,
                              struct err *err) {
    if (!is_cut(d)) {
        TRY(read_image(d, p, read, to, err));
        check_values(d, p, to);
        return STATUS_OK;
    }
    TRY(prepare_cut(d, err));
    TRY(read_image(d, p, read, d->whole, err));
    check_values(d, p, d->whole);
    cut(d, p, d->whole, d->whole + aligned(whole_pixels(d)), to);
    return STATUS_OK;
}

/* Returns room for an image that stays in memory; NULL: there is none. */
static float *room_for_image(const struct dataset *d) {
    if (d->memory_used + cut_bytes(d) > d->memory_limit) return NULL;
    return mem_aligned((size_t)d->box * (size_t)d->box, sizeof(float));
}

static void keep_image(struct dataset *d, struct dataset_particle *p, float *image) {
    if (image != NULL) d->memory_used += cut_bytes(d);
    p->image = image;
}

enum status dataset_image(struct dataset *d, size_t index, float *scratch, const float **ret_image, struct err *err) {
    struct dataset_particle *p = &d->particles[index];
    if (p->image != NULL) {
        *ret_image = p->image;
        return STATUS_OK;
    }
    const float *read = d->ahead != NULL ? ahead_take(d->ahead, index) : NULL;
    float *image = room_for_image(d), *to = image != NULL ? image : scratch;
    enum status status = make_image(d, p, read, to, err);
    if (status != STATUS_OK) {
        free(image);
        return status;
    }
    keep_image(d, p, image);
    *ret_image = to;
    return STATUS_OK;
}

/* A group of whole images that were read ahead, which threads check and cut. */
enum { GROUP = 64 };
struct cutting {
    float *whole[GROUP], *images[GROUP];
    size_t which[GROUP];
    struct image_check *sample; /* NULL, or whole images are added to it */
    int count;
};

/* Makes room for each thread, once. */
static enum status prepare_threads(struct dataset *d, struct err *err) {
    TRY(prepare_cut(d, err));
    if (d->cutting != NULL) return STATUS_OK;
    return mem_new_unset((size_t)d->threads * regrid_scratch(d->cut), sizeof *d->cutting, "particles", &d->cutting,
                         err);
}

static enum status cut_group(struct dataset *d, struct cutting *c, struct err *err) {
    enum status status = STATUS_OK;
    for (int i = 0; i < c->count && c->sample != NULL; i++) {
        struct dataset_particle *p = &d->particles[c->which[i]];
        check_values(d, p, c->whole[i]);
        if (!p->unusable && status == STATUS_OK)
            status = image_check_sample(c->sample, c->whole[i], changes_noise(d, p), err);
    }
#pragma omp parallel for num_threads(d->threads) schedule(dynamic)
    for (int i = 0; i < c->count; i++) {
        struct dataset_particle *p = &d->particles[c->which[i]];
        if (c->sample == NULL) check_values(d, p, c->whole[i]);
        cut(d, p, c->whole[i], d->cutting + (size_t)omp_get_thread_num() * regrid_scratch(d->cut), c->images[i]);
    }
    for (int i = 0; i < c->count; i++)
        keep_image(d, &d->particles[c->which[i]], c->images[i]);
    ahead_release(d->ahead);
    c->count = 0;
    return status;
}

/* Returns whether threads can cut the image: it is to be read, and is on the whole grid then. */
static bool can_stage(const struct dataset *d, size_t index) {
    const struct dataset_particle *p = &d->particles[index];
    const struct way *way = d->ways.list[p->way];
    return way->made && way->regrid == NULL && p->image == NULL && (d->keeps == NULL || !d->keeps(d->keeper, index));
}

/* Takes an image that was read ahead into the group, if there is one and room for it. Returns whether it did. */
static bool stage_image(struct dataset *d, size_t index, struct cutting *c) {
    const size_t taken = (size_t)c->count * cut_bytes(d); /* by the group, not counted yet */
    d->memory_used += taken;
    float *image = room_for_image(d);
    d->memory_used -= taken;
    float *whole = image != NULL ? ahead_hold(d->ahead, index) : NULL;
    if (whole == NULL) {
        free(image);
        return false;
    }
    c->whole[c->count] = whole;
    c->images[c->count] = image;
    c->which[c->count++] = index;
    return true;
}

/* sample: NULL, or images are added to it. */
static enum status gather(struct dataset *d, const size_t *which, size_t count, struct image_check *sample,
                          struct err *err) {
    struct cutting c = {.sample = sample};
    enum status status = STATUS_OK;
    if (!is_cut(d) || d->ahead == NULL || d->threads < 2) return STATUS_OK;
    TRY(prepare_threads(d, err));
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (!can_stage(d, which[i])) continue;
        bool taken = stage_image(d, which[i], &c);
        if (!taken && c.count > 0) { /* images of the group may hold all that can be read ahead */
            status = cut_group(d, &c, err);
            taken = status == STATUS_OK && stage_image(d, which[i], &c);
        }
        if (taken && c.count == GROUP) status = cut_group(d, &c, err);
    }
    return status == STATUS_OK ? cut_group(d, &c, err) : status;
}

void dataset_gather(struct dataset *d, const size_t *which, size_t count) {
    if (d->check != NULL) (void)gather(d, which, count, NULL, NULL);
}

/* Returns whether the whole image may be too strong. A cut multiplies the power that it keeps by the square of the ratio of
 * boxes, and drops the rest: so the limit is lower here. An image passes whose excess lies almost all in what was cut
 * away. */
static bool may_be_too_strong(const struct dataset *d, const float *image) {
    const double margin = 1.0 * d->whole_box / d->box, strongest = image_check_strongest(d->check);
    double sum = 0;
    for (size_t i = 0; i < (size_t)d->box * (size_t)d->box; i++)
        sum += (double)image[i] * image[i];
    return strongest > 0 && sum / ((double)d->box * d->box) > strongest / (margin * margin);
}

/* Checks an image that is in memory; one that is to be normalised before it is resampled is read again. */
static void check_again(struct dataset *d, struct dataset_particle *p) {
    if (p->image == NULL) return;
    bool again = normalised_before(d, p);
    if (is_cut(d)) again = image_check_normalises(d->check) || may_be_too_strong(d, p->image);
    if (!again) {
        if (!is_cut(d)) check_values(d, p, p->image);
        return;
    }
    free(p->image);
    p->image = NULL;
    d->memory_used -= cut_bytes(d);
}

/* Fewer particles than LEAST_LATER tell nothing of others: they are judged with those that come next. */
enum { SAMPLE = 2000, LATER_SAMPLE = 100, LEAST_LATER = 32 };

/* Once images are normalised, all are. Those that are normalised already lose nothing by it. */
static bool is_decided(const struct dataset *d, enum image_check_mode mode) {
    bool told = mode != IMAGE_CHECK_AUTO && d->check != NULL && image_check_reason(d->check)[0] != 0;
    return told || (d->check != NULL && image_check_normalises(d->check));
}

static size_t count_unjudged(const struct dataset *d, const size_t *which, size_t count) {
    size_t unjudged = 0;
    for (size_t i = 0; i < count; i++)
        unjudged += !d->particles[which[i]].judged;
    return unjudged;
}

/* Gets an image of the whole grid. One that is cut is in memory afterwards, as dataset_image leaves it. */
static enum status sample_image(struct dataset *d, size_t index, float *scratch, const float **ret_image,
                                struct err *err) {
    struct dataset_particle *p = &d->particles[index];
    if (!is_cut(d)) return dataset_image(d, index, scratch, ret_image, err);
    const float *read = d->ahead != NULL ? ahead_take(d->ahead, index) : NULL;
    float *image = p->image == NULL ? room_for_image(d) : NULL;
    enum status status = prepare_cut(d, err);
    if (status == STATUS_OK) status = read_image(d, p, read, scratch, err);
    if (status != STATUS_OK) {
        free(image);
        return status;
    }
    check_values(d, p, scratch);
    if (image != NULL) {
        cut(d, p, scratch, d->whole + aligned(whole_pixels(d)), image);
        keep_image(d, p, image);
    }
    *ret_image = scratch;
    return STATUS_OK;
}

/* Samples images in the order given, but those that threads can cut first. */
static enum status sample_chosen(struct dataset *d, struct image_check *check, const size_t *chosen, size_t count,
                                 struct err *err) {
    _cleanup_(mem_free) float *scratch = NULL;
    _cleanup_(mem_free) bool *away = NULL; /* images that are not in memory */
    TRY(mem_new(whole_pixels(d), sizeof *scratch, "a particle", &scratch, err));
    TRY(mem_new(count + 1, sizeof *away, "a sample of particles", &away, err));
    for (size_t i = 0; i < count; i++)
        away[i] = d->particles[chosen[i]].image == NULL;
    TRY(gather(d, chosen, count, check, err));
    for (size_t i = 0; i < count; i++) {
        const struct dataset_particle *p = &d->particles[chosen[i]];
        const float *image = NULL;
        if (away[i] && p->image != NULL) continue;
        TRY(sample_image(d, chosen[i], scratch, &image, err));
        if (!p->unusable) TRY(image_check_sample(check, image, changes_noise(d, p), err));
    }
    return STATUS_OK;
}

/* Adds images that were not looked at before to the sample, evenly, `most` of them. */
static enum status sample_images(struct dataset *d, struct image_check *check, const size_t *which, size_t count,
                                 size_t most, struct err *err) {
    _cleanup_(mem_free) size_t *chosen = NULL;
    size_t every = count_unjudged(d, which, count) / (most + 1) + 1, at = 0, n = 0;
    TRY(mem_new(count / every + 1, sizeof *chosen, "a sample of particles", &chosen, err));
    for (size_t i = 0; i < count; i++)
        if (!d->particles[which[i]].judged && at++ % every == 0) chosen[n++] = which[i];
    dataset_expect(d, chosen, n, which, count); /* the others are compared next */
    return sample_chosen(d, check, chosen, n, err);
}

/* Takes the check over, and nulls it, where it finds more than the one before. */
static enum status decide(struct dataset *d, struct image_check **check, enum image_check_mode mode, struct err *err) {
    struct err own = {0};
    enum status status = image_check_decide(*check, &own);
    if (status == STATUS_BAD_FORMAT && d->check != NULL) {
        if (d->refused[0] == 0) snprintf(d->refused, sizeof d->refused, "%s", own.message);
        return STATUS_OK;
    }
    if (status != STATUS_OK) {
        if (err != NULL) *err = own;
        return status;
    }
    bool normalises = image_check_normalises(*check);
    if (d->check != NULL && !normalises && image_check_reason(*check)[0] == 0) return STATUS_OK;
    image_check_destroy(&d->check);
    d->check = *check;
    *check = NULL;
    d->normalised = mode == IMAGE_CHECK_AUTO && normalises;
    return STATUS_OK;
}

/* Images are sampled as their files have them. */
static enum status judge(struct dataset *d, const size_t *which, size_t count, struct image_check **check,
                         enum image_check_mode mode, struct err *err) {
    struct image_check *before = d->check;
    d->check = NULL;
    enum status status = sample_images(d, *check, which, count, before == NULL ? SAMPLE : LATER_SAMPLE, err);
    d->check = before;
    return status == STATUS_OK ? decide(d, check, mode, err) : status;
}

enum status dataset_judge(struct dataset *d, const size_t *which, size_t count, double diameter,
                          enum image_check_mode mode, bool *ret_changed, struct err *err) {
    const struct image_check *before = d->check;
    const struct image_check_options options = {.box = d->whole_box,
                                                .pixel_size = d->whole_pixel_size,
                                                .diameter = diameter,
                                                .mode = mode,
                                                .normalised = d->normalised,
                                                .goes_on = before == NULL && d->goes_on,
                                                .strongest = before != NULL ? image_check_strongest(before) : 0};
    _cleanup_(image_check_destroy) struct image_check *check = NULL;
    *ret_changed = false;
    if (is_decided(d, mode) || (before != NULL && count_unjudged(d, which, count) < LEAST_LATER)) return STATUS_OK;
    TRY(image_check_create(&options, &check, err));
    enum status status = judge(d, which, count, &check, mode, err);
    const bool other = check == NULL;
    for (size_t i = 0; i < count && !other && d->check != NULL; i++)
        check_again(d, &d->particles[which[i]]);
    TRY(status);
    for (size_t i = 0; i < count; i++)
        d->particles[which[i]].judged = true;
    for (size_t i = 0; i < d->count && other; i++)
        check_again(d, &d->particles[i]);
    *ret_changed = other && before != NULL && image_check_normalises(d->check);
    return STATUS_OK;
}

size_t dataset_resampled(const struct dataset *d, int *ret_box, double *ret_pixel_size) {
    size_t count = 0;
    for (int i = 0; i < d->ways.count; i++) {
        const struct way *way = d->ways.list[i];
        if (!is_resampled(d, way)) continue;
        count += way->particles;
        *ret_box = way->box;
        *ret_pixel_size = way->pixel_size;
    }
    return count;
}
