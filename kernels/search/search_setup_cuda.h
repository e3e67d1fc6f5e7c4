/* Connects the C file that prepares a search on a CUDA device once (search_setup_cuda.c) with the CUDA C++ file that
 * runs the search (search_plan_cuda.cu). kernels/search/search.h explains numbers and arrays. */
#ifndef ICESTREAM_KERNELS_SEARCH_SEARCH_SETUP_CUDA_H
#define ICESTREAM_KERNELS_SEARCH_SEARCH_SETUP_CUDA_H

#include "kernels/search/search_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values that the host computes once for all micrographs. Only search_plan_create reads the arrays; the caller may free
 * them afterwards. */
struct search_setup {
    struct search_tuning tuning;
    int circle, background;          /* pixels of the box inside and outside the circle */
    double ring_count[SEARCH_RINGS]; /* coefficients in each ring of the noise spectrum */
    struct template_grid templates;  /* padded template transforms */
    struct whiten_options whiten;    /* used if tile > 0 */
    int tile;                        /* px of a side (kernels/whiten); 0: no whitening */
    const int *ring_members,
        *ring_starts;             /* coefficients of a tile's half plane, ring by ring; first member of a ring */
    const double *template_power; /* [work/2 + 1] of the templates (kernels/whiten); NULL: no whitening */
};

/* A search in the memory of a CUDA device. */
struct search_cuda;

/* Creates a search on the device that options->device names. */
enum status search_plan_create(const struct search_options *options, const struct search_setup *setup,
                               struct search_cuda **ret_search, struct err *err);

/* Entries of search_cuda_work; state: struct search_cuda. */
void search_cuda_destroy(void *state);
enum status search_cuda_run(void *state, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                            struct search_maps *maps, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
