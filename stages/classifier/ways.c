#include "stages/classifier/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/optics.h"
#include "common/memory.h"

/* Names are as tables have them: those of two folders may be two files. */
static bool same_file(const struct optics_detector *a, const struct optics_detector *b) {
    return strcmp(a->path != NULL ? a->path : "", b->path != NULL ? b->path : "") == 0;
}

static bool same_detector(const struct optics_detector *a, const struct optics_detector *b) {
    return (a == NULL || b == NULL || same_file(a, b)) &&
           optics_detector_is(a, b != NULL ? b->name : NULL, b != NULL ? b->pixel_size : NAN);
}

static bool is_same(const struct way *a, const struct way *b) {
    return a->box == b->box && optics_same_pixel_size(a->pixel_size, b->pixel_size) && a->voltage == b->voltage &&
           a->spherical_aberration == b->spherical_aberration && a->amplitude_contrast == b->amplitude_contrast &&
           optics_aberrations_same(&a->aberrations, &b->aberrations) && same_detector(a->detector, b->detector);
}

static void free_way(struct way *way) {
    regrid_destroy(&way->regrid);
    optics_detector_destroy(&way->detector);
    free(way->even);
    free(way);
}

/* Makes what a new way owns. */
static enum status fill_way(const struct way *from, struct way *way, struct err *err) {
    struct aberration even = aberration_none();
    const struct optics_detector *d = from->detector;
    aberration_add_even(&even, from->aberrations.even, from->aberrations.even_count);
    if (d != NULL) TRY(optics_detector_create(d->name, d->path, d->pixel_size, &way->detector, err));
    if (even.degree < 0) return STATUS_OK;
    TRY(mem_new(1, sizeof even, "aberrations", &way->even, err));
    *way->even = even;
    return STATUS_OK;
}

static enum status copy_way(const struct way *from, struct way **ret_way, struct err *err) {
    struct way *way = NULL;
    TRY(mem_new(1, sizeof *way, "the optics of particles", &way, err));
    *way = *from;
    way->regrid = NULL;
    way->made = way->filtered = false;
    way->even = NULL;
    way->detector = NULL;
    enum status status = fill_way(from, way, err);
    if (status != STATUS_OK) {
        free_way(way);
        return status;
    }
    *ret_way = way;
    return STATUS_OK;
}

enum status ways_find(struct ways *ways, const struct way *wanted, int *ret_index, struct err *err) {
    int i = ways->count - 1;
    while (i >= 0 && !is_same(ways->list[i], wanted))
        i--;
    if (i >= 0) {
        ways->list[i]->particles += wanted->particles;
        *ret_index = i;
        return STATUS_OK;
    }
    struct way **larger = realloc(ways->list, ((size_t)ways->count + 1) * sizeof(void *));
    FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the optics of particles");
    ways->list = larger;
    TRY(copy_way(wanted, &larger[ways->count], err));
    *ret_index = ways->count++;
    return STATUS_OK;
}

void ways_destroy(struct ways *ways) {
    for (int i = 0; i < ways->count; i++)
        free_way(ways->list[i]);
    free(ways->list);
    *ways = (struct ways){0};
}

static bool same_grid(const struct way *a, const struct way *b) {
    return a->box == b->box && optics_same_pixel_size(a->pixel_size, b->pixel_size);
}

void ways_most(const struct ways *ways, int *ret_box, double *ret_pixel_size) {
    size_t most = 0;
    *ret_box = 0;
    *ret_pixel_size = 0;
    for (int i = 0; i < ways->count; i++) {
        size_t particles = 0;
        for (int j = 0; j < ways->count; j++)
            if (same_grid(ways->list[i], ways->list[j])) particles += ways->list[j]->particles;
        if (particles <= most) continue;
        most = particles;
        *ret_box = ways->list[i]->box;
        *ret_pixel_size = ways->list[i]->pixel_size;
    }
}

static struct regrid_options options_of(const struct way *way, int box, double pixel_size) {
    const double *m = way->aberrations.magnification;
    /* Pixel sizes that count as the same are the same. */
    bool same = optics_same_pixel_size(way->pixel_size, pixel_size);
    return (struct regrid_options){.from_box = way->box,
                                   .box = box,
                                   .from_pixel = same ? pixel_size : way->pixel_size,
                                   .pixel_size = pixel_size,
                                   .magnification = {m[0], m[1], m[2], m[3]}};
}

bool way_complete_ctf(const struct way *way, int box, double pixel_size, bool has_ctf, struct ctf *ctf) {
    /* Without a CTF the image has one of 1, which ends where the image does. */
    static const struct ctf FLAT = {.voltage = 300, .amplitude_contrast = 1, .scale = 1};
    const struct regrid_options options = options_of(way, box, pixel_size);
    double limit = regrid_limit(&options);
    if (!has_ctf && limit > 0) *ctf = FLAT;
    ctf->limit = limit;
    ctf->even = has_ctf ? way->even : NULL;
    return has_ctf || limit > 0;
}

enum status way_make(struct way *way, int box, double pixel_size, const struct optics_detector *like, struct err *err) {
    if (way->made) return STATUS_OK;
    struct aberration odd = aberration_none();
    const struct optics_aberrations *a = &way->aberrations;
    struct regrid_options options = options_of(way, box, pixel_size);
    aberration_add_odd(&odd, a->odd, a->odd_count);
    aberration_add_tilt(&odd, way->spherical_aberration, way->voltage, a->tilt[0], a->tilt[1]);
    options.odd = &odd;
    const struct optics_detector *const detectors[2] = {like, way->detector};
    if (like != NULL && optics_detector_is_known(way->detector) && !same_detector(like, way->detector)) {
        way->filtered = true;
        options.factor = optics_detector_factor;
        options.context = detectors;
    }
    if (!regrid_changes_nothing(&options)) TRY(regrid_create(&options, &way->regrid, err));
    way->made = true;
    return STATUS_OK;
}

const struct optics_detector *ways_detector(const struct ways *ways) {
    for (int i = 0; i < ways->count; i++)
        if (optics_detector_is_known(ways->list[i]->detector)) return ways->list[i]->detector;
    return NULL;
}

const char *ways_missing_mtf(const struct ways *ways) {
    for (int i = 0; i < ways->count; i++) {
        const struct optics_detector *d = ways->list[i]->detector;
        if (d != NULL && !optics_detector_is_known(d)) return d->name;
    }
    return NULL;
}
