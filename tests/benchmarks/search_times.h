/* Times of the parts of a search on a CUDA device. */
#ifndef ICESTREAM_TESTS_BENCHMARKS_SEARCH_TIMES_H
#define ICESTREAM_TESTS_BENCHMARKS_SEARCH_TIMES_H

#include "common/status.h"
#include "kernels/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Milliseconds of each part, the mean of `repeats` runs of that part alone, on what the last search_run left behind. */
struct search_times {
    float prepare;    /* normalisation to local statistics */
    float terms;      /* the templates' mean and power with CTF */
    float score;      /* scores from the best of each template */
    float correlate;  /* multiply, transform and keep the best, all templates */
    float transforms; /* as many bare batched cuFFT transforms of that size */
    int batch;        /* transforms at a time in the latter */
};
/* search: on a CUDA device, after a search_run from host memory. */
#ifdef ICESTREAM_HAVE_CUDA
enum status search_times_measure(struct search *search, int repeats, struct search_times *ret_times, struct err *err);
#else
static inline enum status search_times_measure(struct search *search, int repeats, struct search_times *ret_times,
                                               struct err *err) {
    (void)search, (void)repeats, (void)ret_times;
    FAIL(err, STATUS_UNSUPPORTED, "this program was built without CUDA");
}
#endif

#ifdef __cplusplus
}
#endif
#endif
