#include "kernels/prepare/image_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/memory.h"
#include "common/multiversion.h"

static const double STRONGEST = 1e4; /* times the median strength */
/* A mean of fewer pixels tells little; the share is that of the box. */
static const double LEAST_PIXELS = 32, LEAST_SHARE = 0.01;

/* The background of images of another grid. */
struct other {
    int box;
    double pixel_size;
    struct background *background;
};

struct image_check {
    struct image_check_options options;
    struct other *others;
    int other_count;
    struct background *background;
    bool corners; /* the diameter leaves no background: the corners of the box are looked at, and used for nothing */
    struct background_values *values; /* [backgrounds] of the sample */
    double *strengths, *about;        /* [count] about 0, and about the mean of the background */
    size_t count, backgrounds, room;
    double strongest; /* 0: not known yet */
    bool normalises;
    char reason[512];
};

/* Sums lane by lane: the same in any vector code, and without waiting for each addition. */
static MULTIVERSION double strength_about(const float *values, size_t count, double mean) {
    enum { LANES = 16 };
    double sums[LANES] = {0}, sum = 0;
    size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            sums[j] += ((double)values[i + j] - mean) * ((double)values[i + j] - mean);
    for (size_t i = whole; i < count; i++)
        sums[i - whole] += ((double)values[i] - mean) * ((double)values[i] - mean);
    for (size_t j = 0; j < LANES; j++)
        sum += sums[j];
    return sum / (double)count;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double limit_of(double *strengths, size_t count) {
    if (count == 0) return 0;
    qsort(strengths, count, sizeof *strengths, by_size);
    return STRONGEST * strengths[count / 2];
}

static size_t pixels_of(const struct image_check *c) {
    return (size_t)c->options.box * (size_t)c->options.box;
}

static bool is_enough(const struct background *background, int box) {
    return (double)background_pixels(background) >= fmax(LEAST_PIXELS, LEAST_SHARE * box * box);
}

enum status image_check_create(const struct image_check_options *options, struct image_check **ret_check,
                               struct err *err) {
    struct image_check *c = NULL;
    double radius = options->diameter / (2 * options->pixel_size);
    TRY(mem_new(1, sizeof *c, "the check of particles", &c, err));
    c->options = *options;
    enum status status = background_create(options->box, radius, &c->background, err);
    if (status == STATUS_OK && !is_enough(c->background, options->box)) {
        background_destroy(&c->background);
        c->corners = true;
        status = background_create(options->box, options->box / 2, &c->background, err);
    }
    if (status != STATUS_OK) {
        image_check_destroy(&c);
        return status;
    }
    *ret_check = c;
    return STATUS_OK;
}

void image_check_destroy(struct image_check **check) {
    struct image_check *c = *check;
    if (c == NULL) return;
    background_destroy(&c->background);
    for (int i = 0; i < c->other_count; i++)
        background_destroy(&c->others[i].background);
    mem_free(&c->others);
    mem_free(&c->values);
    mem_free(&c->strengths);
    mem_free(&c->about);
    mem_free(check);
}

static enum status grow(struct image_check *c, struct err *err) {
    size_t room = c->room < 256 ? 256 : 2 * c->room;
    struct background_values *values = realloc(c->values, room * sizeof *values);
    if (values != NULL) c->values = values;
    double *strengths = realloc(c->strengths, room * sizeof *strengths);
    if (strengths != NULL) c->strengths = strengths;
    double *about = realloc(c->about, room * sizeof *about);
    if (about != NULL) c->about = about;
    FAIL_IF(values == NULL || strengths == NULL || about == NULL, err, STATUS_NO_MEMORY,
            "no memory for a sample of %zu particles", room);
    c->room = room;
    return STATUS_OK;
}

struct image_measures image_check_measure(const struct image_check *c, const float *image) {
    const struct background_values background = background_measure(c->background, image);
    return (struct image_measures){.background = background,
                                   .strength = strength_about(image, pixels_of(c), 0),
                                   .about = strength_about(image, pixels_of(c), background.mean)};
}

enum status image_check_add(struct image_check *c, const struct image_measures *measures, bool resampled,
                            struct err *err) {
    if (c->count == c->room) TRY(grow(c, err));
    if (!resampled) c->values[c->backgrounds++] = measures->background;
    c->strengths[c->count] = measures->strength;
    c->about[c->count++] = measures->about;
    return STATUS_OK;
}

enum status image_check_sample(struct image_check *c, const float *image, bool resampled, struct err *err) {
    const struct image_measures measures = image_check_measure(c, image);
    return image_check_add(c, &measures, resampled, err);
}

/* Tells of images that cannot be normalised. */
static void take_as_they_are(struct image_check *c, const struct background_judgement *judgement, const char *text) {
    c->normalises = c->options.normalised && !c->corners;
    if (judgement->verdict == BACKGROUND_CONSTANT)
        snprintf(
            c->reason, sizeof c->reason,
            "some of the particles are not normalised and cannot be: outside the diameter (%g Å) most of %zu images "
            "are constant, at %.3g in the median",
            c->options.diameter, c->backgrounds, judgement->mean);
    else
        snprintf(c->reason, sizeof c->reason,
                 "some of the particles are not normalised and cannot be: the diameter (%g Å) leaves no background; %s",
                 c->options.diameter, text);
}

static enum status decide_background(struct image_check *c, struct err *err) {
    const struct image_check_options *o = &c->options;
    struct background_judgement judgement = background_judge(c->values, c->backgrounds);
    char text[256];
    background_describe(&judgement, text, sizeof text);
    const bool differs = judgement.verdict != BACKGROUND_NORMALISED;
    bool wanted = o->mode == IMAGE_CHECK_RAMP || differs || o->normalised;
    if (o->mode == IMAGE_CHECK_OFF && c->backgrounds > 0 && differs)
        snprintf(
            c->reason, sizeof c->reason,
            "the particles are not normalised: %s; since `normalise` is off, each image is taken as it is: classes "
            "and maps may mean nothing",
            text);
    if (o->mode == IMAGE_CHECK_OFF || (c->backgrounds == 0 && !o->normalised) || !wanted) return STATUS_OK;
    if (o->goes_on && (judgement.verdict == BACKGROUND_CONSTANT || c->corners)) {
        take_as_they_are(c, &judgement, text);
        return STATUS_OK;
    }
    FAIL_IF(judgement.verdict == BACKGROUND_CONSTANT, err, STATUS_BAD_FORMAT,
            "the particles are not normalised and cannot be: outside the diameter (%g Å) most of %zu images are "
            "constant, at %.3g in the median: a background of noise with mean 0 and standard deviation 1 was expected; "
            "extract the particles anew, unmasked, or set `normalise` to off",
            o->diameter, c->backgrounds, judgement.mean);
    FAIL_IF(
        c->corners, err, STATUS_BAD_FORMAT,
        "the particles are not normalised and cannot be: the diameter (%g Å) leaves no background in the box of %.0f "
        "Å; %s; set `diameter` to that of the particle, normalise the particles, or set `normalise` to off",
        o->diameter, o->box * o->pixel_size, text);
    c->normalises = true;
    if (judgement.verdict == BACKGROUND_NOT_NORMALISED)
        snprintf(c->reason, sizeof c->reason,
                 "the particles are not normalised: %s; each image is normalised in memory by its background", text);
    else if (o->normalised && o->mode == IMAGE_CHECK_AUTO)
        snprintf(
            c->reason, sizeof c->reason,
            "some of the particles are not normalised, as was found before: each image is normalised in memory by its "
            "background");
    return STATUS_OK;
}

enum status image_check_decide(struct image_check *c, struct err *err) {
    c->normalises = false;
    c->reason[0] = 0;
    TRY(decide_background(c, err));
    c->strongest = limit_of(c->normalises ? c->about : c->strengths, c->count);
    if (c->strongest > 0) c->strongest = fmax(c->strongest, c->options.strongest);
    return STATUS_OK;
}

double image_check_strongest(const struct image_check *c) {
    return c->strongest;
}

bool image_check_normalises(const struct image_check *c) {
    return c->normalises;
}

const char *image_check_reason(const struct image_check *c) {
    return c->reason;
}

bool image_check_usable(const struct image_check *c, const float *image) {
    double mean = 0;
    if (c->normalises) {
        struct background_values values = background_measure(c->background, image);
        if (values.constant) return false;
        mean = values.mean;
    }
    return !(c->strongest > 0 && strength_about(image, pixels_of(c), mean) > c->strongest);
}

void image_check_take(const struct image_check *c, float *image) {
    if (c->normalises) background_normalise(c->background, c->options.mode == IMAGE_CHECK_RAMP, image);
}

static const struct background *other_background(const struct image_check *c, int box, double pixel_size) {
    for (int i = 0; i < c->other_count; i++)
        if (c->others[i].box == box && c->others[i].pixel_size == pixel_size) return c->others[i].background;
    return NULL;
}

enum status image_check_prepare_other(struct image_check *c, int box, double pixel_size, struct err *err) {
    if (other_background(c, box, pixel_size) != NULL) return STATUS_OK;
    struct other *larger = realloc(c->others, ((size_t)c->other_count + 1) * sizeof *larger);
    FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the backgrounds of particles");
    c->others = larger;
    larger[c->other_count] = (struct other){.box = box, .pixel_size = pixel_size};
    TRY(background_create(box, c->options.diameter / (2 * pixel_size), &larger[c->other_count].background, err));
    c->other_count++;
    return STATUS_OK;
}

enum status image_check_take_other(const struct image_check *c, int box, double pixel_size, float *image,
                                   bool *ret_usable, struct err *err) {
    const struct background *background = other_background(c, box, pixel_size);
    *ret_usable = true;
    if (!c->normalises) return STATUS_OK;
    FAIL_IF(background == NULL, err, STATUS_BAD_STATE, "the background of images of %d px of %g Å is not prepared", box,
            pixel_size);
    const struct background_values values = background_measure(background, image);
    *ret_usable = is_enough(background, box) && !values.constant &&
                  !(c->strongest > 0 && strength_about(image, (size_t)box * (size_t)box, values.mean) > c->strongest);
    if (*ret_usable) background_normalise(background, c->options.mode == IMAGE_CHECK_RAMP, image);
    return STATUS_OK;
}
