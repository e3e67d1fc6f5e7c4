/* Images of a dataset: reads them, brings them to the grid, checks, normalises and cuts them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image.h"
#include "common/formats/optics.h"
#include "common/memory.h"
#include "stages/classifier/dataset_private.h"

static size_t whole_pixels(const struct dataset *d) {
    return (size_t)d->whole_box * (size_t)d->whole_box;
}

static size_t cut_bytes(const struct dataset *d) {
    return (size_t)d->box * (size_t)d->box * sizeof(float);
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
    const size_t given = (size_t)way->box * (size_t)way->box, before_scratch = regrid_before_scratch(way->box);
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
    if (d->pool == NULL) TRY(image_pool_create((size_t)d->box * (size_t)d->box, &d->pool, err));
    if (d->cut == NULL) TRY(cut_create(d->whole_box, d->box, &d->cut, err));
    if (d->whole != NULL) return STATUS_OK;
    return mem_new_unset(regrid_before_scratch(d->whole_box) + regrid_scratch(d->cut), sizeof *d->whole, "a particle",
                         &d->whole, err);
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
    TRY(read_image(d, p, read, d->whole, err));
    check_values(d, p, d->whole);
    cut(d, p, d->whole, d->whole + regrid_before_scratch(d->whole_box), to);
    return STATUS_OK;
}

static bool has_room(const struct dataset *d) {
    return d->memory_used + cut_bytes(d) <= d->memory_limit;
}

/* Returns room for an image that stays in memory; NULL: there is none. */
static float *room_for_image(const struct dataset *d) {
    if (!has_room(d)) return NULL;
    return d->pool != NULL ? image_pool_take(d->pool) : mem_aligned((size_t)d->box * (size_t)d->box, sizeof(float));
}

static void free_image(struct dataset *d, float *image) {
    if (d->pool != NULL)
        image_pool_give(d->pool, image);
    else
        free(image);
}

static void keep_image(struct dataset *d, struct dataset_particle *p, float *image) {
    if (image == NULL) return;
    d->memory_used += cut_bytes(d);
    d->in_memory++;
    p->image = image;
}

static void give_up_image(struct dataset *d, struct dataset_particle *p) {
    free_image(d, p->image);
    p->image = NULL;
    d->memory_used -= cut_bytes(d);
    d->in_memory--;
}

/* Takes the image that a thread has made: into memory if there is room, else to scratch. scratch may be NULL. */
static const float *take_made(struct dataset *d, struct dataset_particle *p, const struct ahead_made *made,
                              const float *image, float *scratch) {
    float *kept = has_room(d) ? ahead_hand_over(d->ahead) : NULL, *to = kept != NULL ? kept : scratch;
    p->unusable = p->unusable || !made->usable;
    p->sampled = false;
    keep_image(d, p, kept);
    if (to == NULL) return NULL;
    if (p->unusable)
        memset(to, 0, cut_bytes(d));
    else if (kept == NULL)
        memcpy(to, image, cut_bytes(d));
    return to;
}

enum status dataset_image(struct dataset *d, size_t index, float *scratch, const float **ret_image, struct err *err) {
    struct dataset_particle *p = &d->particles[index];
    struct ahead_made made = {0};
    if (p->image != NULL) {
        *ret_image = p->image;
        return STATUS_OK;
    }
    const float *read = d->ahead != NULL ? ahead_take(d->ahead, index, &made) : NULL;
    if (made.made) {
        *ret_image = take_made(d, p, &made, read, scratch);
        return STATUS_OK;
    }
    if (is_cut(d)) TRY(prepare_cut(d, err));
    float *image = room_for_image(d), *to = image != NULL ? image : scratch;
    enum status status = make_image(d, p, read, to, err);
    if (status != STATUS_OK) {
        free_image(d, image);
        return status;
    }
    keep_image(d, p, image);
    *ret_image = to;
    return STATUS_OK;
}

/* Returns whether a thread makes images of these optics: they are cut, and are on the whole grid as they are. */
static bool is_made(const struct dataset *d, const struct way *way) {
    return d->making.sample != NULL && d->making.cut != NULL && way->made && way->regrid == NULL;
}

struct ahead_image dataset_look(void *context, size_t index) {
    struct dataset *d = context;
    struct dataset_particle *p = &d->particles[index];
    const bool kept = d->keeps != NULL && d->keeps(d->keeper, index), made = is_made(d, d->ways.list[p->way]);
    return (struct ahead_image){.stack = d->batches[p->batch]->stacks[p->stack].path,
                                .box = p->image_box,
                                .slice = p->slice,
                                .in_memory = kept || p->image != NULL,
                                .pool = made ? d->pool : NULL,
                                .scratch = made ? regrid_scratch(d->cut) : 0,
                                .measure = p->sampled,
                                .slot = &p->slot};
}

void dataset_make(const void *context, float *image, float *scratch, bool measure, float *to,
                  struct ahead_made *ret_made) {
    const struct making *m = &((const struct dataset *)context)->making;
    const bool finite = image_values_fit(image, m->whole);
    const bool usable = finite && (m->check == NULL || image_check_usable(m->check, image));
    *ret_made = (struct ahead_made){.made = true, .finite = finite, .usable = usable, .measured = measure && finite};
    if (ret_made->measured) ret_made->measures = image_check_measure(m->sample, image);
    if (!usable) {
        memset(to, 0, m->pixels * sizeof *to);
        return;
    }
    if (m->check != NULL) image_check_take(m->check, image);
    regrid_run(m->cut, image, scratch, to);
}

/* Threads that read ahead go by these checks from now on, which must last until the next call. What they have made by
 * others is given up. */
static void make_by(struct dataset *d, const struct image_check *check, const struct image_check *sample) {
    if (d->ahead != NULL) ahead_forget(d->ahead);
    if (is_cut(d)) (void)prepare_cut(d, NULL); /* whoever needs it finds the error */
    d->making = (struct making){.whole = whole_pixels(d),
                                .pixels = cut_bytes(d) / sizeof(float),
                                .cut = d->cut,
                                .check = check,
                                .sample = sample};
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
    give_up_image(d, p);
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

/* Chooses images of which[count] that were not looked at before, evenly, and marks them. chosen: [count]; NULL: they are
 * only marked. */
static size_t choose_sample(struct dataset *d, const size_t *which, size_t count, size_t *chosen) {
    const size_t most = d->making.check == NULL ? SAMPLE : LATER_SAMPLE;
    size_t every = count_unjudged(d, which, count) / (most + 1) + 1, at = 0, n = 0;
    for (size_t i = 0; i < count; i++) {
        if (d->particles[which[i]].judged || at++ % every != 0) continue;
        d->particles[which[i]].sampled = true;
        if (chosen != NULL) chosen[n] = which[i];
        n++;
    }
    return n;
}

/* The ways of other particles are made later, when the detectors of more are known. */
void dataset_foresee(struct dataset *d, const size_t *which, size_t count, const size_t *next, size_t next_count) {
    if (!is_cut(d)) return;
    for (size_t i = 0; i < count && i < AHEAD_MOST; i++) {
        struct way *way = d->ways.list[d->particles[which[i]].way];
        if (!way->made) (void)way_make(way, d->whole_box, d->whole_pixel_size, ways_detector(&d->ways), NULL);
    }
    if (d->samples) (void)choose_sample(d, next, next_count, NULL);
}

/* Adds an image to the sample that a thread has measured and made, which stays in memory if there is room. Returns whether
 * there is one. *ret_read: the whole image, if it was read ahead and nothing was made of it; else NULL. */
static bool sample_made(struct dataset *d, size_t index, struct image_check *check, const float **ret_read,
                        enum status *ret_status, struct err *err) {
    struct dataset_particle *p = &d->particles[index];
    struct ahead_made made = {0};
    const bool usable = !p->unusable;
    *ret_read = d->ahead != NULL ? ahead_take(d->ahead, index, &made) : NULL;
    if (!made.made) return false;
    if (made.finite && !made.measured) { /* it was not foreseen that it would be looked at */
        *ret_read = NULL;
        return false;
    }
    /* One that is too strong by the check before may be a good one of a set that is normalised from now on. It is not
     * kept: whoever needs it reads it again, when that is decided. */
    p->sampled = false;
    if (made.usable || !made.finite) (void)take_made(d, p, &made, *ret_read, NULL);
    *ret_status = STATUS_OK;
    if (usable && made.finite) *ret_status = image_check_add(check, &made.measures, changes_noise(d, p), err);
    return true;
}

/* Adds an image of the whole grid to the sample. One that is cut is in memory afterwards, as dataset_image leaves it. */
static enum status sample_image(struct dataset *d, size_t index, struct image_check *check, float *scratch,
                                struct err *err) {
    struct dataset_particle *p = &d->particles[index];
    const float *image = scratch, *read = NULL;
    enum status status = STATUS_OK;
    if (!is_cut(d)) {
        TRY(dataset_image(d, index, scratch, &image, err));
    } else if (sample_made(d, index, check, &read, &status, err)) {
        return status;
    } else {
        TRY(prepare_cut(d, err));
        TRY(read_image(d, p, read, scratch, err));
        check_values(d, p, scratch);
        float *kept = p->image == NULL ? room_for_image(d) : NULL;
        if (kept != NULL) cut(d, p, scratch, d->whole + regrid_before_scratch(d->whole_box), kept);
        keep_image(d, p, kept);
    }
    return p->unusable ? STATUS_OK : image_check_sample(check, image, changes_noise(d, p), err);
}

static enum status sample_images(struct dataset *d, struct image_check *check, const size_t *which, size_t count,
                                 struct err *err) {
    _cleanup_(mem_free) size_t *chosen = NULL;
    _cleanup_(mem_free) float *scratch = NULL;
    TRY(mem_new(count + 1, sizeof *chosen, "a sample of particles", &chosen, err));
    TRY(mem_new_unset(whole_pixels(d), sizeof *scratch, "a particle", &scratch, err));
    const size_t n = choose_sample(d, which, count, chosen);
    dataset_expect(d, chosen, n, which, count); /* the others are compared next */
    for (size_t i = 0; i < n; i++)
        TRY(sample_image(d, chosen[i], check, scratch, err));
    return STATUS_OK;
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
    if (d->check != NULL) make_by(d, NULL, NULL);
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
    enum status status = sample_images(d, *check, which, count, err);
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
    d->samples = !is_decided(d, mode);
    if (!d->samples || (before != NULL && count_unjudged(d, which, count) < LEAST_LATER)) return STATUS_OK;
    TRY(image_check_create(&options, &check, err));
    if (before == NULL) make_by(d, NULL, check);
    enum status status = judge(d, which, count, &check, mode, err);
    const bool other = check == NULL;
    if (other || before == NULL) make_by(d, d->check, d->check);
    for (size_t i = 0; i < count && !other && d->check != NULL; i++) /* others were checked by it before */
        if (!d->particles[which[i]].judged) check_again(d, &d->particles[which[i]]);
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
