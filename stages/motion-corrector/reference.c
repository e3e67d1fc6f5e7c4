#include "stages/motion-corrector/reference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/gain.h"
#include "common/memory.h"
#include "kernels/gain_match/gain_match.h"
#include "stages/motion-corrector/motion_corrector.h"

/* Movies that are compared with the gain reference, at most: some show nothing. */
enum { MATCHED_MOVIES = 5 };

enum status references_init(struct references *references, struct err *err) {
    FAIL_IF(pthread_mutex_init(&references->lock, NULL) != 0, err, STATUS_NO_MEMORY, "no memory for a lock");
    references->begun = true;
    return STATUS_OK;
}

static void reference_destroy(struct reference **reference) {
    if (*reference == NULL) return;
    defects_destroy(&(*reference)->defects);
    free((*reference)->gain);
    free((*reference)->applied);
    pthread_mutex_destroy(&(*reference)->busy);
    mem_free(reference);
}

void references_clear(struct references *references) {
    if (!references->begun) return;
    while (references->first != NULL) {
        struct reference *first = references->first;
        references->first = first->next;
        reference_destroy(&first);
    }
    pthread_mutex_destroy(&references->lock);
    references->begun = false;
}

size_t reference_bytes(const struct motion_corrector_options *options, int nx, int ny) {
    size_t plane = mem_bytes((size_t)nx * (size_t)ny, sizeof(float));
    return mem_sum(defects_bytes(nx, ny), options->gain != NULL ? mem_sum(plane, plane) : 0);
}

static enum status add_defects(struct reference *r, const char *path, struct err *err) {
    _cleanup_(mem_free) uint8_t *map = NULL;
    TRY(gain_read_defects(path, r->nx, r->ny, &map, err));
    defects_add_map(r->defects, map);
    return STATUS_OK;
}

/* Bad pixels take counts of good ones around them: of a frame that is mostly bad, nothing would be left. */
static enum status check_enough_good(const struct reference *r, const struct motion_corrector_options *o,
                                     struct err *err) {
    const uint8_t *mask = defects_mask(r->defects);
    size_t pixels = (size_t)r->nx * (size_t)r->ny, bad = 0;
    for (size_t i = 0; i < pixels; i++)
        bad += mask[i] != 0;
    FAIL_IF(
        bad > pixels / 2, err, STATUS_BAD_FORMAT,
        "%s%s%s: %zu of the camera's %zu pixels are bad: at most half of them can be repaired. Is it the right file?",
        o->gain != NULL ? o->gain : "", o->gain != NULL && o->defects != NULL ? " and " : "",
        o->defects != NULL ? o->defects : "", bad, pixels);
    return STATUS_OK;
}

static enum status fill(struct reference *r, const struct motion_corrector_options *o, struct err *err) {
    size_t pixels = (size_t)r->nx * (size_t)r->ny;
    TRY(defects_create(r->nx, r->ny, &r->defects, err));
    if (o->defects != NULL) TRY(add_defects(r, o->defects, err));
    if (o->gain == NULL) return check_enough_good(r, o, err);
    const struct gain_options options = {.turn = {.rotate = o->gain_rotate, .flip = (enum turn_flip)o->gain_flip},
                                         .divide = o->gain_divide,
                                         .eer = r->eer};
    TRY(gain_read(o->gain, &options, r->nx, r->ny, &r->gain, err));
    defects_add_gain(r->defects, r->gain);
    TRY(check_enough_good(r, o, err));
    TRY(mem_new_unset(pixels, sizeof *r->applied, "a gain reference", &r->applied, err));
    memcpy(r->applied, r->gain, pixels * sizeof *r->applied);
    defects_repair_gain(r->defects, r->applied);
    return STATUS_OK;
}

static enum status add(struct references *references, const struct motion_corrector_options *options, int nx, int ny,
                       bool eer, struct reference **ret_reference, struct err *err) {
    struct reference *r = NULL;
    TRY(mem_new(1, sizeof *r, "a gain reference", &r, err));
    *r = (struct reference){.nx = nx, .ny = ny, .eer = eer, .movies_to_match = MATCHED_MOVIES};
    if (pthread_mutex_init(&r->busy, NULL) != 0) {
        mem_free(&r);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a lock");
    }
    enum status status = fill(r, options, err);
    if (status != STATUS_OK) {
        reference_destroy(&r);
        return status;
    }
    r->next = references->first;
    references->first = *ret_reference = r;
    return STATUS_OK;
}

enum status references_need(struct references *references, const struct motion_corrector_options *options, int nx,
                            int ny, bool eer, struct reference **ret_reference, struct err *err) {
    enum status status = STATUS_OK;
    pthread_mutex_lock(&references->lock);
    struct reference *r = references->first;
    while (r != NULL && (r->nx != nx || r->ny != ny || r->eer != eer))
        r = r->next;
    if (r != NULL)
        *ret_reference = r;
    else
        status = add(references, options, nx, ny, eer, ret_reference, err);
    pthread_mutex_unlock(&references->lock);
    return status;
}

void hot_pixels_clear(struct hot_pixels *hot) {
    free(hot->x);
    free(hot->y);
    *hot = (struct hot_pixels){0};
}

/* Lists the pixels that the search has added to the camera's. */
static enum status list_found(const struct reference *r, const struct defects_found *found, struct hot_pixels *hot,
                              struct err *err) {
    const uint8_t *mask = defects_mask(r->defects);
    size_t most = found->hot + found->dead;
    if (most > hot->room) {
        hot_pixels_clear(hot);
        TRY(mem_new(most, sizeof *hot->x, "a list of hot pixels", &hot->x, err));
        TRY(mem_new(most, sizeof *hot->y, "a list of hot pixels", &hot->y, err));
        hot->room = most;
    }
    hot->count = 0;
    for (int y = 0; y < r->ny && most > 0; y++)
        for (int x = 0; x < r->nx && hot->count < most; x++)
            if ((mask[(size_t)y * (size_t)r->nx + (size_t)x] & (DEFECT_HOT | DEFECT_DEAD)) != 0) {
                hot->x[hot->count] = x;
                hot->y[hot->count++] = y;
            }
    return STATUS_OK;
}

/* Compares the gain with the sum of the frames that were searched last. */
static enum status match(struct reference *r, const struct motion_corrector_options *o, int threads, struct err *err) {
    static const char *const flips[] = {"none", "rows", "columns"};
    struct gain_match found;
    struct turn more = {0}, now = {.rotate = o->gain_rotate, .flip = (enum turn_flip)o->gain_flip};
    gain_match(defects_sum(r->defects), defects_mask(r->defects), r->gain, r->nx, r->ny, threads, &found);
    enum gain_verdict verdict = gain_match_judge(&found, &more);
    r->movies_to_match = verdict == GAIN_RIGHT ? 0 : r->movies_to_match - 1;
    if (verdict != GAIN_TURNED && verdict != GAIN_INVERSE) return STATUS_OK;
    r->movies_to_match = MATCHED_MOVIES;
    struct turn fits = turn_both(now, more);
    const struct gain_options as_eer = {.eer = r->eer};
    bool by_ending = !o->gain_divide && gain_divides(o->gain, &as_eer);
    FAIL_IF(verdict == GAIN_INVERSE && by_ending, err, STATUS_BAD_ARGUMENT,
            "%s holds factors, as the counts of the frames show (with gain_rotate %d and gain_flip %s): of EER movies, "
            "only files with the ending .gain do, and others hold the response. Rename it",
            o->gain, fits.rotate, flips[fits.flip]);
    FAIL(err, STATUS_BAD_ARGUMENT,
         "%s does not lie as the frames do: their counts fit it with gain_rotate %d, gain_flip %s and gain_divide %s, "
         "but the parameters are %d, %s and %s",
         o->gain, fits.rotate, flips[fits.flip], (verdict == GAIN_INVERSE) != o->gain_divide ? "true" : "false",
         now.rotate, flips[now.flip], o->gain_divide ? "true" : "false");
}

static enum status repair(struct reference *r, const struct motion_corrector_options *options, int threads,
                          uint64_t seed, const struct motion_frames *frames, struct hot_pixels *hot, struct err *err) {
    const double none = 1e6; /* deviations: the search then makes the sum alone, for the gain */
    struct defects_found found = {0};
    bool matches = r->gain != NULL && r->movies_to_match > 0;
    hot->count = 0;
    if (options->hot_pixels > 0 || matches)
        TRY(defects_find_hot(r->defects, frames, threads, options->hot_pixels > 0 ? options->hot_pixels : none, &found,
                             err));
    TRY(list_found(r, &found, hot, err));
    if (matches) TRY(match(r, options, threads, err));
    defects_repair(r->defects, frames, threads, seed);
    return STATUS_OK;
}

enum status reference_apply(struct reference *r, const struct motion_corrector_options *options, int threads,
                            uint64_t seed, struct motion_frames *frames, struct hot_pixels *hot, struct err *err) {
    frames->gain = r->applied;
    pthread_mutex_lock(&r->busy);
    enum status status = repair(r, options, threads, seed, frames, hot, err);
    pthread_mutex_unlock(&r->busy);
    return status;
}
