/* Parts of the E-step on a CUDA device, each beside its lower bound: bench_expectation_cuda [SIZE [SLICES [PARTICLES
 * [SHIFTS]]]]. Top-sum selection beside CUB's sort and scan. Medians of repeated runs, by device events. */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cublas_v2.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "kernels/expectation/expectation_cuda.h"
#include "kernels/fourier/pixels.h"

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t result_ = (call);                                                                                  \
        if (result_ != cudaSuccess) {                                                                                  \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result_));                                      \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

static void must(enum status status, const struct err &err) {
    if (status == STATUS_OK) return;
    std::fprintf(stderr, "%s\n", err.message);
    std::exit(1);
}

/* Fills new memory with NaN: results that depend on memory that nobody wrote become NaN. */
template <typename T> static T *device_new(size_t count) {
    T *memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0xff, count * sizeof(T)));
    return memory;
}

template <typename T> static T *upload(const std::vector<T> &host) {
    T *memory = device_new<T>(host.size());
    CHECK(cudaMemcpy(memory, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
}

static double milliseconds(const std::function<void()> &work, int repeats = 9) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < repeats + 1; i++) {
        CHECK(cudaEventRecord(begin));
        work();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        float t;
        CHECK(cudaEventElapsedTime(&t, begin, end));
        if (i > 0) times.push_back(t);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    return times[repeats / 2];
}

static std::mt19937_64 generator(20261121);

static std::vector<float> normals(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float &v : values)
        v = normal(generator);
    return values;
}

/* Makes weights like those of a coarse pass: exp of minus a value spread over many units. */
static void top_sum_table(void) {
    struct err err = {};
    std::printf("top-sum selection (ms): one particle, and 256 of them; CUB: sort and inclusive sum\n");
    std::printf("%12s %10s %10s %10s %12s %12s\n", "weights", "1", "CUB", "ratio", "256 each", "floor, 1 read");
    for (size_t n : {(size_t)44640, (size_t)104160, (size_t)479232, (size_t)774144, (size_t)10000000}) {
        std::uniform_real_distribution<float> spread(0, 40);
        size_t many = n <= 1000000 ? 256 : 8;
        std::vector<float> weights(n * many);
        for (float &w : weights)
            w = std::exp(-spread(generator));
        std::vector<size_t> begin(many + 1);
        for (size_t i = 0; i <= many; i++)
            begin[i] = i * n;
        float *w = upload(weights), *sorted = device_new<float>(n), *sums = device_new<float>(n);
        size_t *b = upload(begin), bytes = 0, scan_bytes = 0;
        top_sum *found = device_new<top_sum>(many);
        char *meetings = device_new<char>(top_sum_scratch((int)many));
        CHECK(cub::DeviceRadixSort::SortKeysDescending(nullptr, bytes, w, sorted, n));
        CHECK(cub::DeviceScan::InclusiveSum(nullptr, scan_bytes, sorted, sums, n));
        char *scratch = device_new<char>(std::max(bytes, scan_bytes));
        double one =
            milliseconds([&] { must(top_sum_cuda(w, b, 1, n, 0.999, 0, meetings, found, nullptr, &err), err); });
        double all = milliseconds(
            [&] { must(top_sum_cuda(w, b, (int)many, n, 0.999, 0, meetings, found, nullptr, &err), err); });
        double cub = milliseconds([&] {
            CHECK(cub::DeviceRadixSort::SortKeysDescending(scratch, bytes, w, sorted, n));
            CHECK(cub::DeviceScan::InclusiveSum(scratch, scan_bytes, sorted, sums, n));
        });
        std::printf("%12zu %10.4f %10.4f %10.2f %12.4f %12.4f%s\n", n, one, cub, cub / one, all / (double)many,
                    (double)n * 4 / 4e12 * 1e3, many == 256 ? "" : "  (8)");
        for (void *p :
             {(void *)w, (void *)sorted, (void *)sums, (void *)b, (void *)found, (void *)scratch, (void *)meetings})
            CHECK(cudaFree(p));
    }
}

static double matrix_rate(cublasComputeType_t compute) {
    int n = 8192;
    std::vector<float> values = normals((size_t)n * n);
    float *a = upload(values), *b = upload(values), *c = device_new<float>((size_t)n * n);
    const float one = 1, zero = 0;
    cublasHandle_t handle;
    cublasCreate(&handle);
    double ms = milliseconds([&] {
        cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_32F, n, b, CUDA_R_32F, n, &zero, c,
                     CUDA_R_32F, n, compute, CUBLAS_GEMM_DEFAULT);
    });
    cublasDestroy(handle);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(c));
    return 2.0 * n * n * n / ms / 1e9;
}

/* Returns the mean number of samples that a particle keeps. */
static double mean_kept(const top_sum *found, int particles) {
    std::vector<top_sum> host((size_t)particles);
    CHECK(cudaMemcpy(host.data(), found, host.size() * sizeof host[0], cudaMemcpyDeviceToHost));
    double sum = 0;
    for (const top_sum &f : host) {
        if (!(f.total > 0 && std::isfinite(f.total) && std::isfinite(f.least))) {
            std::fprintf(stderr, "weights of a particle sum to %g, their least difference is %g\n", f.total, f.least);
            std::exit(1);
        }
        sum += f.kept;
    }
    return sum / particles;
}

/* spread: of the logarithms of weights. */
static void coarse_table(int box, int size, int slices, int particles, int shifts, float spread) {
    struct err err = {};
    struct fourier_pixels pixels = {};
    must(fourier_pixels_create(box, size, &pixels, &err), err);
    int n = pixels.count, reach = 2 * (size / 2) + 1, nx = reach + 1, ny = 2 * reach + 1;
    std::vector<float> matrices((size_t)slices * 9), shift((size_t)shifts * 2);
    std::vector<float> angles = normals((size_t)slices * 3);
    for (int i = 0; i < slices; i++) {
        float a = angles[3 * i], b = angles[3 * i + 1], g = angles[3 * i + 2];
        float ca = std::cos(a), sa = std::sin(a), cb = std::cos(b), sb = std::sin(b), c = std::cos(g), s = std::sin(g);
        float m[9] = {c * cb * ca - s * sa,
                      c * cb * sa + s * ca,
                      -c * sb,
                      -s * cb * ca - c * sa,
                      -s * cb * sa + c * ca,
                      s * sb,
                      sb * ca,
                      sb * sa,
                      cb};
        std::copy(m, m + 9, matrices.begin() + 9 * i);
    }
    for (int t = 0; t < shifts; t++)
        shift[2 * t] = (float)(t % 5 - 2), shift[2 * t + 1] = (float)(t / 5 - 2);
    std::vector<float> grid_values = normals(2 * (size_t)nx * ny * ny), images = normals((size_t)particles * 2 * n);
    std::vector<float> ctf = normals((size_t)particles * n);
    std::vector<float> weight((size_t)particles * n, spread / std::sqrt(2 * (float)n));
    struct grid_cuda grid = {upload(grid_values), nx, ny, reach, size / 2, 3, nullptr};
    struct pixels_cuda p = {upload(std::vector<short>(pixels.kx, pixels.kx + n)),
                            upload(std::vector<short>(pixels.ky, pixels.ky + n)), box, n};
    float *m = upload(matrices), *x = upload(images), *c = upload(ctf), *w = upload(weight), *t = upload(shift);
    size_t samples = (size_t)slices * shifts;
    top_sum *found = device_new<top_sum>(particles);
    float *dots = device_new<float>(samples * particles);
    char *scratch = device_new<char>(top_sum_scratch(particles));
    uint32_t *kept = device_new<uint32_t>(kept_words(slices) * shifts * particles);
    float *norms = device_new<float>((size_t)slices * particles);
    struct coarse_cuda *coarse = nullptr;
    must(coarse_cuda_create(0, &coarse, &err), err);
    double operations = 2.0 * slices * particles * shifts * 2 * n;
    std::printf("coarse pass: box %d, size %d (%d pixels), %d slices x %d particles x %d shifts, %.3g operations, "
                "spread %g\n",
                box, size, n, slices, particles, shifts, operations, spread);
    for (int precision = COARSE_FP32; precision <= COARSE_TF32X3; precision++) {
        enum coarse_precision way = (enum coarse_precision)precision;
        size_t row = coarse_row(n, way), norm_row = coarse_norm_row(n);
        float *s = device_new<float>((size_t)slices * row), *squares = device_new<float>((size_t)slices * norm_row);
        float *columns = device_new<float>((size_t)particles * shifts * row);
        float *halves = device_new<float>((size_t)particles * norm_row);
        double rate = matrix_rate(way == COARSE_FP32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32) /
                      (way == COARSE_FP32 ? 1 : 3);
        double slicing = milliseconds(
            [&] { must(coarse_cuda_slices(&grid, &p, n, m, slices, way, s, squares, nullptr, &err), err); });
        double shifting = milliseconds([&] {
            must(coarse_cuda_columns(&p, n, x, c, w, n, particles, t, shifts, way, columns, halves, nullptr, &err),
                 err);
        });
        double product = milliseconds([&] {
            must(coarse_cuda_product(coarse, n, way, s, squares, slices, columns, halves, particles, shifts, slices,
                                     dots, norms, nullptr, &err),
                 err);
        });
        const struct posterior_input posterior = {dots, norms, nullptr, nullptr, particles, shifts, slices, 0, 0.999};
        double choosing =
            milliseconds([&] { must(posterior_cuda(&posterior, scratch, found, kept, nullptr, &err), err); });
        double all = shifting + product + choosing;
        std::printf("  %s: slices %.3f, columns %.3f, product %.3f (%.1f TFLOP/s), weights and choice %.3f ms; "
                    "without slices %.1f TFLOP/s, %.0f %% of the bare %.1f; %.0f samples kept of each\n",
                    way == COARSE_FP32 ? "FP32  " : "3xTF32", slicing, shifting, product, operations / product / 1e9,
                    choosing, operations / all / 1e9, 100 * operations / all / 1e9 / rate, rate,
                    mean_kept(found, particles));
        for (float *f : {s, squares, columns, halves})
            CHECK(cudaFree(f));
    }
    coarse_cuda_destroy(&coarse);
    for (void *f : {(void *)grid.values, (void *)p.kx, (void *)p.ky, (void *)m, (void *)x, (void *)c, (void *)w,
                    (void *)t, (void *)found, (void *)dots, (void *)norms, (void *)scratch, (void *)kept})
        CHECK(cudaFree(f));
    fourier_pixels_destroy(&pixels);
}

int main(int argc, char **argv) {
    int size = argc > 1 ? std::atoi(argv[1]) : 40, slices = argc > 2 ? std::atoi(argv[2]) : 36864;
    int particles = argc > 3 ? std::atoi(argv[3]) : 256, shifts = argc > 4 ? std::atoi(argv[4]) : 21;
    top_sum_table();
    coarse_table(128, size, slices, particles, shifts, 0.05f);
    coarse_table(128, size, slices, particles, shifts, 10);
    coarse_table(128, 2 * size, slices / 8, particles, shifts, 10);
    return 0;
}
