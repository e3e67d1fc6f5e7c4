#include "stages/lowpass-picker/noise_search.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/memory.h"
#include "stages/lowpass-picker/choose.h"

enum { HEIGHTS_WANTED = 2500, HEIGHTS_MOST = 8192, MICROGRAPHS_MOST = 4 };

/* Fills an image with normal deviates (Box and Muller) of a linear congruential generator. */
static void fill(float *image, size_t count, uint64_t *seed) {
    for (size_t i = 0; i < count; i += 2) {
        double uniform[2];
        for (int k = 0; k < 2; k++) {
            *seed = *seed * 6364136223846793005u + 1442695040888963407u;
            uniform[k] = ((double)(*seed >> 32) + 0.5) * 0x1p-32;
        }
        double radius = sqrt(-2 * log(uniform[0])), angle = 2 * M_PI * uniform[1];
        image[i] = (float)(radius * cos(angle));
        if (i + 1 < count) image[i + 1] = (float)(radius * sin(angle));
    }
}

static int falling(const void *a, const void *b) {
    float p = *(const float *)a, q = *(const float *)b;
    return (p < q) - (p > q);
}

/* The memory of a search of noise. */
struct noise {
    float *image, *heights;
    size_t count;
    struct pick_maps maps;
    struct pick_scratch scratch;
};

static void noise_destroy(struct noise *noise) {
    free(noise->image);
    free(noise->heights);
    search_maps_clear(&noise->maps.maps);
    pick_scratch_destroy(&noise->scratch);
}

static enum status collect(struct search *search, struct even_scores *even, const struct ctf *ctf, struct noise *n,
                           struct err *err) {
    /* With templates the heights are known well enough from one micrograph, since their scale is fitted. */
    int micrographs = n->maps.geometry.method == PICKER_TEMPLATE ? 1 : MICROGRAPHS_MOST;
    size_t pixels = (size_t)n->maps.geometry.nx * n->maps.geometry.ny;
    uint64_t seed = 1;
    TRY(mem_new(pixels, sizeof *n->image, "noise", &n->image, err));
    TRY(mem_new(HEIGHTS_MOST, sizeof *n->heights, "heights of noise", &n->heights, err));
    for (int i = 0; i < micrographs && n->count < HEIGHTS_WANTED; i++) {
        struct search_input input = {.host = n->image};
        fill(n->image, pixels, &seed);
        TRY(search_run(search, &input, ctf, seed, &n->maps.maps, err));
        if (even) even_scores_run(even, &n->maps);
        TRY(pick_heights_of_noise(&n->maps, &n->scratch, n->heights, HEIGHTS_MOST, &n->count, err));
    }
    return STATUS_OK;
}

enum status noise_search(struct search *search, struct even_scores *even, const struct pick_geometry *geometry,
                         const struct ctf *ctf, struct noise_peaks *ret_peaks, struct err *err) {
    struct noise noise = {.maps = {.geometry = *geometry}};
    enum status status = collect(search, even, ctf, &noise, err);
    if (status == STATUS_OK) {
        qsort(noise.heights, noise.count, sizeof *noise.heights, falling);
        *ret_peaks = noise_peaks_fit(noise.heights, noise.count);
    }
    noise_destroy(&noise);
    return status;
}
