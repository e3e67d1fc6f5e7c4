#include "common/fft.h"

#include <fftw3.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/memory.h"

#if defined(ICESTREAM_FFTW_THREADS) && defined(_OPENMP)
#include <omp.h>
#endif

struct fft_plan {
    fftwf_plan plan;
    enum fft_direction direction;
    size_t real_count, complex_floats;
};

/* FFTW has one planner per process, and two threads must not call it at once. */
static pthread_mutex_t planner_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_complex(const struct fft_options *o) {
    return o->direction == FFT_COMPLEX || o->direction == FFT_COMPLEX_INVERSE;
}

static fftwf_plan make_plan(const struct fft_options *o, int batch, float *real, float *complex_side, size_t real_count,
                            size_t complex_count) {
    unsigned flags = o->measure ? FFTW_MEASURE : FFTW_ESTIMATE;
    fftwf_complex *spectrum = (fftwf_complex *)complex_side;
    int rd = (int)real_count, cd = (int)complex_count;
#ifdef ICESTREAM_FFTW_THREADS
    int threads = o->threads > 0 ? o->threads : 1;
#ifdef _OPENMP
    if (o->threads == FFT_ALL_THREADS) threads = omp_get_max_threads();
#endif
    fftwf_init_threads();
    fftwf_plan_with_nthreads(threads);
#endif
    if (is_complex(o)) {
        int stride = o->stride > 0 ? o->stride : 1, apart = o->stride > 0 ? 1 : cd;
        int sign = o->direction == FFT_COMPLEX ? FFTW_FORWARD : FFTW_BACKWARD;
        return fftwf_plan_many_dft(o->rank, o->shape, batch, spectrum, NULL, stride, apart, spectrum, NULL, stride,
                                   apart, sign, flags);
    }
    if (o->direction == FFT_FORWARD)
        return fftwf_plan_many_dft_r2c(o->rank, o->shape, batch, real, NULL, 1, rd, spectrum, NULL, 1, cd, flags);
    return fftwf_plan_many_dft_c2r(o->rank, o->shape, batch, spectrum, NULL, 1, cd, real, NULL, 1, rd, flags);
}

/* FFTW ends the process when one of its own allocations fails: of twiddle factors and lists of plans while it plans, of
 * buffers while a transform runs. Nobody can pass it another allocator, so the room is looked for beforehand: for each
 * side of the shape some values a point (Bluestein's method, for large primes, takes the most), for each thread and for
 * the planner's tables a fixed sum. */
enum { PLANNER_BYTES = 8 << 20, THREAD_BYTES = 1 << 20, POINT_BYTES = 128 };

static enum status look_for_room(const struct fft_options *o, struct err *err) {
    size_t threads = o->threads > 0 ? (size_t)o->threads : 1, bytes = PLANNER_BYTES + threads * THREAD_BYTES;
    for (int d = 0; d < o->rank; d++)
        bytes = mem_sum(bytes, mem_bytes((size_t)o->shape[d], POINT_BYTES));
    FAIL_IF(!mem_would_fit(bytes), err, STATUS_NO_MEMORY, "no memory for a Fourier plan: %zu MiB were asked for",
            bytes >> 20);
    return STATUS_OK;
}

enum status fft_create(const struct fft_options *options, struct fft_plan **ret_plan, struct err *err) {
    FAIL_IF(options->rank < 1 || options->rank > 3, err, STATUS_BAD_ARGUMENT,
            "a transform has 1 to 3 dimensions, not %d", options->rank);
    int batch = options->batch > 0 ? options->batch : 1;
    FAIL_IF(options->stride != 0 && (options->stride < batch || options->rank != 1 || !is_complex(options)), err,
            STATUS_BAD_ARGUMENT, "%d transforms cannot lie %d values apart", batch, options->stride);
    size_t real_count = 1, complex_count = 1;
    for (int d = 0; d < options->rank; d++) {
        int n = options->shape[d];
        FAIL_IF(n < 1, err, STATUS_BAD_ARGUMENT, "a transform of size %d was asked for", n);
        real_count *= (size_t)n;
        bool halved = d == options->rank - 1 && !is_complex(options);
        complex_count *= halved ? (size_t)n / 2 + 1 : (size_t)n;
    }
    _cleanup_(mem_free) float *real = NULL;
    _cleanup_(mem_free) float *spectrum = NULL;
    /* Only FFTW_MEASURE touches the buffers while it plans. */
    enum status (*reserve)(size_t, size_t, const char *, void *, struct err *) =
        options->measure ? mem_new : mem_new_unset;
    TRY(reserve(real_count * (size_t)batch, sizeof *real, "Fourier plan", &real, err));
    size_t width = options->stride > 0 ? (size_t)options->stride : (size_t)batch;
    TRY(reserve(complex_count * width, 2 * sizeof *spectrum, "Fourier plan", &spectrum, err));
    struct fft_plan *plan = calloc(1, sizeof *plan);
    FAIL_IF(plan == NULL, err, STATUS_NO_MEMORY, "no memory for a Fourier plan");
    plan->direction = options->direction;
    plan->real_count = real_count;
    plan->complex_floats = 2 * complex_count;
    pthread_mutex_lock(&planner_lock);
    enum status status = look_for_room(options, err);
    if (status == STATUS_OK) plan->plan = make_plan(options, batch, real, spectrum, real_count, complex_count);
    pthread_mutex_unlock(&planner_lock);
    if (plan->plan == NULL) {
        free(plan);
        TRY(status);
        FAIL(err, STATUS_NO_MEMORY, "FFTW made no plan for a transform of %zu values × %d", real_count, batch);
    }
    *ret_plan = plan;
    return STATUS_OK;
}

void fft_destroy(struct fft_plan **plan) {
    if (plan == NULL || *plan == NULL) return;
    pthread_mutex_lock(&planner_lock);
    fftwf_destroy_plan((*plan)->plan);
    pthread_mutex_unlock(&planner_lock);
    free(*plan);
    *plan = NULL;
}

void fft_run(const struct fft_plan *plan, float *in, float *out) {
    if (plan->direction == FFT_FORWARD)
        fftwf_execute_dft_r2c(plan->plan, in, (fftwf_complex *)out);
    else if (plan->direction != FFT_INVERSE)
        fftwf_execute_dft(plan->plan, (fftwf_complex *)in, (fftwf_complex *)out);
    else
        fftwf_execute_dft_c2r(plan->plan, (fftwf_complex *)in, out);
}

size_t fft_real_count(const struct fft_plan *plan) {
    return plan->real_count;
}

size_t fft_complex_floats(const struct fft_plan *plan) {
    return plan->complex_floats;
}

int fft_good_size(int n) {
    for (int size = n + (n & 1);; size += 2) {
        int rest = size;
        for (int prime = 2; prime <= 7; prime++)
            while (rest % prime == 0)
                rest /= prime;
        if (rest == 1) return size;
    }
}
