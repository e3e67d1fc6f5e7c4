#include "stages/refiner/grids.h"

#include <math.h>
#include <stdlib.h>

#include "common/formats/mrc.h"
#include "common/formats/optics.h"
#include "common/memory.h"
#include "stages/refiner/detectors.h"

_Static_assert((int)OPTICS_EVEN_MOST == (int)ABERRATION_EVEN_MOST && (int)OPTICS_ODD_MOST == (int)ABERRATION_ODD_MOST,
               "coefficients");

struct grid {
    int box;
    double pixel_size;
    size_t particles;
};

void grids_prefer_map(struct particle_set *set, const char *path) {
    struct mrc_header header;
    if (path == NULL || mrc_read_header(path, &header, NULL) != STATUS_OK) return;
    set->preferred_box = header.nx;
    set->preferred_pixel_size = (double)header.pixel_size;
}

static bool is_preferred(const struct particle_set *set, const struct grid *g) {
    return g->box == set->preferred_box && optics_same_pixel_size(g->pixel_size, set->preferred_pixel_size);
}

/* Adds a particle to the grids that there are. *count: in and out. */
static enum status count_particle(const struct particle_set *set, const struct particle *p, struct grid **grids,
                                  int *count, struct err *err) {
    const int box = set->stacks[p->stack].box;
    const double pixel_size = set->optics[p->optics].pixel_size;
    for (int i = *count - 1; i >= 0; i--)
        if ((*grids)[i].box == box && optics_same_pixel_size((*grids)[i].pixel_size, pixel_size)) {
            (*grids)[i].particles++;
            return STATUS_OK;
        }
    struct grid *larger = realloc(*grids, ((size_t)*count + 1) * sizeof *larger);
    FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the grids of particles");
    *grids = larger;
    larger[(*count)++] = (struct grid){box, pixel_size, 1};
    return STATUS_OK;
}

static enum status choose(struct particle_set *set, struct err *err) {
    _cleanup_(mem_free) struct grid *grids = NULL;
    int count = 0, best = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].source >= 0) TRY(count_particle(set, &set->particles[i], &grids, &count, err));
    if (count == 0) return STATUS_OK;
    for (int i = 1; i < count; i++) {
        bool preferred = is_preferred(set, &grids[i]) && !is_preferred(set, &grids[best]);
        bool larger = grids[i].particles > grids[best].particles && !is_preferred(set, &grids[best]);
        if (preferred || larger) best = i;
    }
    set->box = grids[best].box;
    set->pixel_size = grids[best].pixel_size;
    return STATUS_OK;
}

/* Fills all but what optics add. */
static struct regrid_options options_of(const struct particle_set *set, const struct particle_optics *o, int box) {
    /* Pixel sizes that count as the same are the same. */
    bool same = optics_same_pixel_size(o->pixel_size, set->pixel_size);
    const double *m = o->aberrations.magnification;
    return (struct regrid_options){.from_box = box,
                                   .box = set->box,
                                   .from_pixel = same ? set->pixel_size : o->pixel_size,
                                   .pixel_size = set->pixel_size,
                                   .magnification = {m[0], m[1], m[2], m[3]}};
}

/* Keeps the limit that was computed last, with the box and the optics group that it holds for. */
struct known_limit {
    int box, optics; /* box: 0 before the first */
    double limit;
};

/* Particles of one box and one optics group follow each other. */
static void set_limit(const struct particle_set *set, struct particle *p, struct known_limit *last) {
    /* Without a CTF the image has one of 1, which ends where the image does. */
    static const struct ctf FLAT = {.voltage = 300, .amplitude_contrast = 1, .scale = 1};
    const int box = set->stacks[p->stack].box;
    if (box != last->box || p->optics != last->optics) {
        const struct regrid_options options = options_of(set, &set->optics[p->optics], box);
        *last = (struct known_limit){box, p->optics, regrid_limit(&options)};
    }
    if (!p->has_ctf) p->ctf = FLAT;
    p->ctf.limit = last->limit;
}

enum status grids_settle(struct particle_set *set, const int *which, size_t count, struct err *err) {
    struct known_limit last = {0};
    bool all = which == NULL || set->box == 0;
    if (set->box == 0) TRY(choose(set, err));
    if (set->box == 0) return STATUS_OK;
    for (size_t i = 0; i < (all ? set->count : count); i++) {
        struct particle *p = &set->particles[all ? i : (size_t)which[i]];
        if (p->source >= 0) set_limit(set, p, &last);
    }
    return STATUS_OK;
}

double grids_limit(const struct particle_set *set, int optics) {
    /* A restart knows groups of which no particle has come yet. */
    if (optics >= set->optics_count) return 0;
    const struct regrid_options options = options_of(set, &set->optics[optics], set->box);
    return regrid_limit(&options) * set->box * set->pixel_size;
}

enum status grids_even(const struct optics_aberrations *a, struct aberration **ret_even, struct err *err) {
    struct aberration even = aberration_none();
    aberration_add_even(&even, a->even, a->even_count);
    *ret_even = NULL;
    if (even.degree < 0) return STATUS_OK;
    TRY(mem_new(1, sizeof **ret_even, "aberrations", ret_even, err));
    **ret_even = even;
    return STATUS_OK;
}

/* Returns whether images are multiplied by what makes their detector like the first one. */
static bool is_filtered(const struct particle_set *set, const struct particle_optics *o) {
    return optics_detector_is_known(o->detector) && o->detector != detectors_first(set);
}

enum status grids_regrid(const struct particle_set *set, const struct particle_optics *o, int box,
                         struct regrid **ret_regrid, struct err *err) {
    struct aberration odd = aberration_none();
    struct regrid_options options = options_of(set, o, box);
    aberration_add_odd(&odd, o->aberrations.odd, o->aberrations.odd_count);
    aberration_add_tilt(&odd, o->spherical_aberration, o->voltage, o->aberrations.tilt[0], o->aberrations.tilt[1]);
    options.odd = &odd;
    const struct optics_detector *const detectors[2] = {detectors_first(set), o->detector};
    if (is_filtered(set, o)) {
        options.factor = optics_detector_factor;
        options.context = detectors;
    }
    *ret_regrid = NULL;
    return regrid_changes_nothing(&options) ? STATUS_OK : regrid_create(&options, ret_regrid, err);
}

bool grids_resample(const struct particle_set *set, const struct particle *p) {
    return set->stacks[p->stack].box != set->box ||
           !optics_same_pixel_size(set->optics[p->optics].pixel_size, set->pixel_size);
}

bool grids_change_noise(const struct particle_set *set, const struct particle *p) {
    return grids_resample(set, p) || is_filtered(set, &set->optics[p->optics]);
}

bool grids_correct(const struct particle_set *set, const struct particle *p) {
    return !optics_aberrations_are_none(&set->optics[p->optics].aberrations);
}

void grids_shift_to_table(const struct particle_set *set, const struct particle *p, double ret_shift[2]) {
    const double shift[2] = {p->origin[0] * set->pixel_size, p->origin[1] * set->pixel_size};
    optics_shift_to_image(&set->optics[p->optics].aberrations, shift, ret_shift);
}

void grids_shift_from_table(const struct particle_set *set, struct particle *p, const double shift[2]) {
    double own[2];
    optics_shift_from_image(&set->optics[p->optics].aberrations, shift, own);
    for (int i = 0; i < 2; i++)
        p->origin[i] = own[i] / set->pixel_size;
}
