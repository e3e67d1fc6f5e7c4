/* Prepares a search for a CUDA device on the host, once for all micrographs: template transforms, rings, whitening. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/local_stats/local_stats.h"
#include "kernels/search/search_setup_cuda.h"

/* Rings as in search_private.h. */
static void count_rings(const struct search_options *o, double *count) {
    int end = search_rings_end(o), rings = search_rings(o);
    float density = (float)rings / (float)end;
    for (int ky = -end + 1; ky < end; ky++)
        for (int kx = 0; kx < end; kx++) {
            int ring = (int)(sqrtf((float)kx * (float)kx + (float)ky * (float)ky) * density);
            if (ring >= rings) break;
            count[ring]++;
        }
}

/* Returns the ring of coefficient i in the half plane of tile². */
static int ring_of(int i, int tile) {
    int columns = tile / 2 + 1, row = i / columns;
    return whiten_ring(i % columns, row <= tile / 2 ? row : row - tile);
}

/* Lists the coefficients of the half plane of tile² by ring: ring r has members[starts[r]] to members[starts[r + 1] −
 * 1]. */
static enum status list_rings(int tile, int **ret_members, int **ret_starts, struct err *err) {
    int columns = tile / 2 + 1, rings = columns;
    int *members = NULL, *starts = NULL;
    TRY(mem_new((size_t)tile * (size_t)columns, sizeof *members, "rings", &members, err));
    *ret_members = members;
    TRY(mem_new((size_t)rings + 1, sizeof *starts, "rings", &starts, err));
    *ret_starts = starts;
    /* Counting sort: count each ring, find where it begins, then put every coefficient into its place; after that
     * starts[r] is where ring r + 1 begins. */
    for (int i = 0; i < tile * columns; i++)
        if (ring_of(i, tile) < rings) starts[ring_of(i, tile)]++;
    for (int ring = 0, begin = 0; ring <= rings; ring++) {
        int members_of = starts[ring];
        starts[ring] = begin;
        begin += members_of;
    }
    for (int i = 0; i < tile * columns; i++)
        if (ring_of(i, tile) < rings) members[starts[ring_of(i, tile)]++] = i;
    memmove(starts + 1, starts, (size_t)rings * sizeof *starts);
    starts[0] = 0;
    return STATUS_OK;
}

/* Arrays that the setup points to while the plan is made. */
struct arrays {
    struct template_spectra *spectra;
    int *members, *starts;
    double *template_power;
};

static void free_arrays(struct arrays *arrays) {
    template_spectra_destroy(&arrays->spectra);
    mem_free(&arrays->members);
    mem_free(&arrays->starts);
    mem_free(&arrays->template_power);
}

static enum status prepare_whiten(const struct search_options *o, const float *templates, struct search_setup *setup,
                                  struct arrays *arrays, struct err *err) {
    size_t rings = (size_t)o->work / 2 + 1;
    setup->whiten = search_whiten_options(o);
    setup->tile = whiten_tile(&setup->whiten);
    FAIL_IF(setup->tile < 4, err, STATUS_BAD_ARGUMENT, "a micrograph of %d × %d px cannot be whitened at %d px", o->nx,
            o->ny, o->work);
    TRY(list_rings(setup->tile, &arrays->members, &arrays->starts, err));
    setup->ring_members = arrays->members;
    setup->ring_starts = arrays->starts;
    TRY(mem_new(rings, sizeof *arrays->template_power, "weights", &arrays->template_power, err));
    setup->template_power = arrays->template_power;
    return whiten_template_power(&setup->whiten, templates, o->box, o->count, o->radius, arrays->template_power, err);
}

static enum status prepare(const struct search_options *o, const float *templates, struct search_setup *setup,
                           struct arrays *arrays, struct err *err) {
    /* The device rotates templates itself. */
    struct template_spectra_options spectra = search_spectra_options(o, 0);
    setup->circle = circle_count(o->box, o->radius);
    setup->background = o->box * o->box - setup->circle;
    FAIL_IF(setup->background < o->box, err, STATUS_BAD_ARGUMENT,
            "a particle of radius %.0f px leaves no background in a box of %d px: choose a smaller diameter, or "
            "templates with a wider border",
            o->radius, o->box);
    count_rings(o, setup->ring_count);
    TRY(template_spectra_create(&spectra, templates, &arrays->spectra, err));
    setup->templates = template_spectra_grid(arrays->spectra);
    return o->whiten ? prepare_whiten(o, templates, setup, arrays, err) : STATUS_OK;
}

static enum status create(const struct search_options *options, const float *templates,
                          const struct search_tuning *tuning, void **ret_state, struct err *err) {
    struct search_setup setup = {.tuning = *tuning};
    struct search_cuda *search = NULL;
    struct arrays arrays = {0};
    enum status status = prepare(options, templates, &setup, &arrays, err);
    if (status == STATUS_OK) status = search_plan_create(options, &setup, &search, err);
    free_arrays(&arrays);
    *ret_state = search;
    return status;
}

const struct search_work search_cuda_work = {.create = create, .destroy = search_cuda_destroy, .run = search_cuda_run};
