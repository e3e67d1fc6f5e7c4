/* The search's CUDA side as C sees it: what the host makes once, and which maps a result goes to. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/local_stats/local_stats.h"
#include "kernels/search/search_cuda.h"
#include "kernels/search/search_private.h"
#include "kernels/template_spectra/template_spectra.h"

_Static_assert((int)SEARCH_RINGS == (int)SEARCH_DEVICE_RINGS, "rings of the noise spectrum");

struct search_cuda {
    struct search_options options;
    double ring_count[SEARCH_RINGS]; /* coefficients */
    double *terms;                   /* [count][2] of the last run */
    /* Where the search is whitened: of the last run [work/2+1], and of the templates (kernels/whiten); else NULL. */
    float *weights;
    double *template_power;
    struct search_device *device;
};

/* The same for every micrograph; rings as in search_private.h. */
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

/* Of coefficient i of the half plane of tile². */
static int ring_of(int i, int tile) {
    int columns = tile / 2 + 1, row = i / columns;
    return whiten_ring(i % columns, row <= tile / 2 ? row : row - tile);
}

/* The coefficients of the half plane of tile² by ring: ring r's are members[starts[r]] to members[starts[r + 1] − 1]. */
static enum status list_rings(int tile, int **ret_members, int **ret_starts, struct err *err) {
    int columns = tile / 2 + 1, rings = columns;
    int *members = NULL, *starts = NULL;
    TRY(mem_new((size_t)tile * (size_t)columns, sizeof *members, "rings", &members, err));
    *ret_members = members;
    TRY(mem_new((size_t)rings + 1, sizeof *starts, "rings", &starts, err));
    *ret_starts = starts;
    /* Counting sort: how many there are of each, where each begins, then every coefficient to its place; starts[r] is by
     * then where ring r + 1 begins. */
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

static enum status prepare_whiten(struct search_cuda *s, const float *templates, struct search_setup *setup,
                                  int **ret_members, int **ret_starts, struct err *err) {
    const struct search_options *o = &s->options;
    size_t rings = (size_t)o->work / 2 + 1;
    if (!o->whiten) return STATUS_OK;
    setup->whiten = search_whiten_options(o);
    setup->tile = whiten_tile(&setup->whiten);
    FAIL_IF(setup->tile < 4, err, STATUS_BAD_ARGUMENT, "a micrograph of %d × %d px cannot be whitened at %d px", o->nx,
            o->ny, o->work);
    TRY(list_rings(setup->tile, ret_members, ret_starts, err));
    setup->ring_members = *ret_members;
    setup->ring_starts = *ret_starts;
    TRY(mem_new(rings, sizeof *s->weights, "weights", &s->weights, err));
    TRY(mem_new(rings, sizeof *s->template_power, "weights", &s->template_power, err));
    return whiten_template_power(&setup->whiten, templates, o->box, o->count, o->radius, s->template_power, err);
}

static enum status build(struct search_cuda *s, const float *templates, bool cufft, int pairs, struct err *err) {
    const struct search_options *o = &s->options;
    struct template_spectra_options spectra_options = {.size = o->size,
                                                       .work = o->work,
                                                       .band = o->band,
                                                       .box = o->box,
                                                       .radius = o->radius,
                                                       .count = o->count,
                                                       .rotations = o->rotations,
                                                       .invert = o->invert,
                                                       .threads = o->threads};
    int circle = circle_count(o->box, o->radius), background = o->box * o->box - circle;
    FAIL_IF(background < o->box, err, STATUS_BAD_ARGUMENT,
            "a particle of radius %.0f px leaves no background in a box of %d px: choose a smaller diameter, or "
            "templates with a wider border",
            o->radius, o->box);
    TRY(mem_new(2 * (size_t)o->count, sizeof *s->terms, "templates", &s->terms, err));
    count_rings(o, s->ring_count);
    struct template_spectra *spectra = NULL;
    TRY(template_spectra_create(&spectra_options, templates, &spectra, err));
    struct template_grid grid = template_spectra_grid(spectra);
    struct search_setup setup = {.index = o->device.index,
                                 .nx = o->nx,
                                 .ny = o->ny,
                                 .size = o->size,
                                 .work = o->work,
                                 .box = o->box,
                                 .count = o->count,
                                 .rotations = o->rotations,
                                 .radius = o->radius,
                                 .clip = o->clip,
                                 .pixel_size = o->pixel_size,
                                 .per_template = o->per_template,
                                 .memory_limit = o->memory_limit,
                                 .circle = circle,
                                 .background = background,
                                 .rings = search_rings(o),
                                 .ring_end = search_rings_end(o),
                                 .padded = grid.padded,
                                 .reach = grid.reach,
                                 .band = grid.band,
                                 .padded_ft = grid.values,
                                 .cufft = cufft,
                                 .pairs = pairs};
    _cleanup_(mem_free) int *members = NULL;
    _cleanup_(mem_free) int *starts = NULL;
    enum status status = prepare_whiten(s, templates, &setup, &members, &starts, err);
    if (status == STATUS_OK) status = search_device_create(&setup, &s->device, err);
    template_spectra_destroy(&spectra);
    return status;
}

enum status search_cuda_create_as(const struct search_options *options, const float *templates, bool cufft, int pairs,
                                  struct search_cuda **ret_search, struct err *err) {
    struct search_cuda *s = NULL;
    TRY(mem_new(1, sizeof *s, "search", &s, err));
    s->options = *options;
    if (s->options.threads < 1) s->options.threads = 1;
    enum status status = build(s, templates, cufft, pairs, err);
    if (status != STATUS_OK) {
        search_cuda_destroy(&s);
        return status;
    }
    *ret_search = s;
    return STATUS_OK;
}

enum status search_cuda_create(const struct search_options *options, const float *templates,
                               struct search_cuda **ret_search, struct err *err) {
    return search_cuda_create_as(options, templates, false, 0, ret_search, err);
}

void search_cuda_destroy(struct search_cuda **search) {
    if (!*search) return;
    search_device_destroy(&(*search)->device);
    mem_free(&(*search)->terms);
    mem_free(&(*search)->weights);
    mem_free(&(*search)->template_power);
    mem_free(search);
}

enum status search_cuda_run(struct search_cuda *s, const struct search_input *input, const struct ctf *ctf,
                            uint64_t seed, struct search_maps *maps, struct err *err) {
    struct search_results results = {.image = maps->image,
                                     .mu = maps->mu,
                                     .sigma = maps->sigma,
                                     .score = maps->score,
                                     .best_template = maps->template,
                                     .best_rotation = maps->rotation,
                                     .scores = maps->scores,
                                     .rotations = maps->rotations,
                                     .terms = s->terms,
                                     .weights = s->weights};
    struct ctf_terms ctf_terms = {0};
    if (ctf) ctf_terms = ctf_prepare(ctf);
    TRY(search_device_run(s->device, input->host, input->device, ctf ? &ctf_terms : NULL, seed, &results, err));
    maps->deviation = results.deviation;
    maps->noise = search_noise(&s->options, search_rings(&s->options), results.power, s->ring_count);
    if (s->options.whiten && maps->deviation > 0)
        maps->noise *= whiten_noise(s->template_power, s->weights, s->options.work);
    for (int t = 0; t < s->options.count; t++) {
        /* Rounding may leave a little below nothing. */
        double power = s->terms[2 * t + 1];
        maps->terms[t] = (struct merit_terms){.mean = s->terms[2 * t], .power = power > 0 ? power : 0};
    }
    return STATUS_OK;
}

enum status search_cuda_times(struct search_cuda *s, int repeats, struct search_times *ret_times, struct err *err) {
    return search_device_times(s->device, repeats, ret_times, err);
}
