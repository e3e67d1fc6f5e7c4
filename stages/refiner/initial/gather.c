/* Gathers the images of a first map from the particles of a refinement. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/regrid/regrid.h"
#include "stages/refiner/initial/images.h"
#include "stages/refiner/refiner_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

enum { READ_AT_ONCE = 256, BOX_LEAST = 32, BOX_MOST = 96, BOX_STEP = 8 };
/* Extent of an image over the diameter; the last shell that is compared is at two thirds of the last one of the grid. */
static const double MARGIN = 1.6, NYQUIST = 2.0 / 3;

/* Chooses a grid: as large as particles need, and as coarse as the finest detail allows. */
static void choose_grid(const struct refiner *r, double finest, struct initial_images *images) {
    const double given = r->box * r->pixel_size, extent = fmin(given, MARGIN * r->options.diameter);
    images->pixel_size = fmax(fmax(r->pixel_size, NYQUIST * finest / 2), extent / BOX_MOST);
    images->box = BOX_STEP * (int)ceil(extent / images->pixel_size / BOX_STEP);
    if (images->box < BOX_LEAST) images->box = BOX_LEAST;
    if (images->box * 1.2 < r->box || r->box > BOX_MOST) return;
    images->box = r->box;
    images->pixel_size = r->pixel_size;
}

static enum status reserve(struct initial_images *images, int count, struct err *err) {
    const size_t n = (size_t)count + 1, pixels = (size_t)images->box * (size_t)images->box;
    images->count = count;
    TRY(mem_new(n * pixels, sizeof *images->values, "small images", &images->values, err));
    TRY(mem_new(n, sizeof *images->ctfs, "CTFs", &images->ctfs, err));
    return mem_new(n, sizeof *images->with_ctf, "CTFs", &images->with_ctf, err);
}

/* Returns the floats that a thread needs, so that the scratch of each begins on a cache line of its own. */
static size_t scratch_size(const struct regrid *regrid) {
    return regrid != NULL ? (regrid_scratch(regrid) + 15) / 16 * 16 : 0;
}

/* Reads the images of particles images->which[], from `first` on, and brings them to the small grid. scratch: [threads] times what
 * the regridding needs. */
static enum status read_some(struct refiner *r, const struct regrid *regrid, float *scratch, int first, int count,
                             struct initial_images *images, struct err *err) {
    const size_t pixels = (size_t)images->box * (size_t)images->box, own = scratch_size(regrid);
    const float *const *read;
    TRY(loader_take(r->loader, NULL, images->which + first, count, &read, err));
#pragma omp parallel for num_threads(r->context.threads) schedule(static)
    for (int i = 0; i < count; i++) {
        float *image = images->values + (size_t)(first + i) * pixels;
        if (regrid == NULL)
            memcpy(image, read[i], pixels * sizeof *image);
        else
            regrid_run(regrid, read[i], scratch + (size_t)omp_get_thread_num() * own, image);
    }
    return STATUS_OK;
}

static enum status read_all(struct refiner *r, struct initial_images *images, struct err *err) {
    const struct regrid_options options = {.from_box = r->box,
                                           .box = images->box,
                                           .from_pixel = r->pixel_size,
                                           .pixel_size = images->pixel_size,
                                           .magnification = {1, 0, 0, 1}};
    struct regrid *regrid = NULL;
    _cleanup_(mem_free) float *scratch = NULL;
    if (!regrid_changes_nothing(&options)) TRY(regrid_create(&options, &regrid, err));
    enum status status =
        mem_new((size_t)r->context.threads * scratch_size(regrid) + 1, sizeof *scratch, "images", &scratch, err);
    for (int first = 0, count; status == STATUS_OK && first < images->count; first += count) {
        count = images->count - first < READ_AT_ONCE ? images->count - first : READ_AT_ONCE;
        status = read_some(r, regrid, scratch, first, count, images, err);
    }
    regrid_destroy(&regrid);
    return status;
}

enum status initial_images_read(struct refiner *r, double finest, struct initial_images *images, struct err *err) {
    choose_grid(r, finest, images);
    TRY(reserve(images, images->count, err));
    for (int i = 0; i < images->count; i++) {
        const struct ctf *ctf = particle_ctf(&r->set.particles[images->which[i]]);
        images->with_ctf[i] = ctf != NULL;
        if (ctf != NULL) images->ctfs[i] = *ctf;
    }
    return read_all(r, images, err);
}

enum status initial_images_gather(struct refiner *r, int most, double finest, struct initial_images *images,
                                  struct err *err) {
    const size_t all = (size_t)r->sides[0].member_count + (size_t)r->sides[1].member_count;
    const int count = all < (size_t)most ? (int)all : most;
    _cleanup_(mem_free) struct initial_key *keys = NULL;
    TRY(mem_new((size_t)count + 1, sizeof *images->which, "particles", &images->which, err));
    TRY(mem_new((size_t)count + 1, sizeof *keys, "particles", &keys, err));
    images->count = count;
    for (int i = 0, n = 0; n < count; i++)
        for (int side = 0; side < r->side_count && n < count; side++)
            if (i < r->sides[side].member_count) images->which[n++] = r->sides[side].members[i];
    for (int i = 0; i < count; i++) {
        const struct particle *p = &r->set.particles[images->which[i]];
        keys[i] = (struct initial_key){particle_hash(p->name, (unsigned)r->options.seed), p->place.micrograph};
    }
    TRY(initial_images_read(r, finest, images, err));
    return initial_images_divide(images, keys, (unsigned)r->options.seed, err);
}
