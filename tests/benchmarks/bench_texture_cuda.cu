/* Times the parts of texture on a CUDA device: for each number of levels, the sliding windows and the features.
 * Milliseconds of the device, the least of three, over all displacements. Floors: pairs that leave or enter, at 32 of a
 * warp's 110 instructions a pair (4 schedulers, 1.98 GHz); records, written and read at 4.8 TB/s.
 *
 *   bench_texture_cuda [STRIDE] */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/texture/texture.cuh"

/* Instructions of the four roles together, including loads of pixels, counted with nvdisasm. */
static const double INSTRUCTIONS = 110;

struct parts {
    struct texture_geometry g;
    struct texture_view view;
    uint8_t *planes;
    struct texture_record *records;
    struct texture_partial *partials;
    int *first;
    cudaEvent_t begin, end;
};

static enum status upload(void *address_of_pointer, const void *from, size_t bytes, struct err *err) {
    void **to = (void **)address_of_pointer;
    CUDA_TRY(cudaMalloc(to, bytes), err, "making room");
    CUDA_TRY(cudaMemcpy(*to, from, bytes, cudaMemcpyHostToDevice), err, "taking tables there");
    return STATUS_OK;
}

static enum status prepare(struct parts *p, struct err *err) {
    struct texture_geometry *g = &p->g;
    int *number = (int *)calloc((size_t)g->positions, sizeof *number);
    FAIL_IF(number == NULL, err, STATUS_NO_MEMORY, "no memory");
    for (int y = 1; y < g->positions; y++)
        number[y] = number[y - 1] + 2 * g->reach[y - 1] + 1;
    struct texture_view *v = &p->view;
    v->positions = g->positions;
    v->steps = g->steps;
    v->stride = g->options.stride;
    v->side = g->side;
    v->window = g->options.window;
    v->pixels = g->pixels;
    TRY(upload(&v->displacements, g->displacements, g->first[TEXTURE_LENGTHS + 1] * sizeof *g->displacements, err));
    TRY(upload(&v->tables, g->tables, sizeof *g->tables, err));
    TRY(upload(&v->reach, g->reach, g->positions * sizeof *g->reach, err));
    TRY(upload(&v->number, number, g->positions * sizeof *number, err));
    TRY(upload(&p->first, g->first, sizeof g->first, err));
    free(number);
    size_t records = (size_t)g->first[TEXTURE_LENGTHS + 1] * g->pixels;
    size_t partials = (size_t)TEXTURE_LENGTHS * texture_gather_blocks(g->pixels) * TEXTURE_FEATURES;
    CUDA_TRY(cudaMalloc(&p->records, records * sizeof *p->records), err, "making room");
    CUDA_TRY(cudaMalloc(&p->partials, partials * sizeof *p->partials), err, "making room");
    CUDA_TRY(cudaEventCreate(&p->begin), err, "making an event");
    CUDA_TRY(cudaEventCreate(&p->end), err, "making an event");
    return texture_slide_prepare(v->window, err);
}

static enum status make_planes(struct parts *p, int grain, struct err *err) {
    size_t plane = (size_t)p->g.side * p->g.side;
    uint8_t *levels = (uint8_t *)calloc(TEXTURE_QUANTISATIONS * 2, plane);
    FAIL_IF(levels == NULL, err, STATUS_NO_MEMORY, "no memory");
    uint64_t seed = 7;
    for (size_t k = 0; k < plane; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t y = k / p->g.side, x = k % p->g.side;
        int noise = (int)(seed >> 40) % grain, level = grain == 64 ? noise : (int)((x / 3 + y / 5) % 52) + noise;
        for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
            levels[2 * q * plane + k] = (uint8_t)(level >> q);
    }
    enum status status = upload(&p->planes, levels, TEXTURE_QUANTISATIONS * 2 * plane, err);
    free(levels);
    if (status == STATUS_OK) status = texture_turn_launch(p->g.side, p->planes, 0, err);
    return status;
}

static enum status time_part(struct parts *p, int q, bool slide, float *ret_ms, struct err *err) {
    struct texture_chunk all = {0, p->g.first[TEXTURE_LENGTHS + 1], 1, TEXTURE_LENGTHS};
    const uint8_t *planes = p->planes + 2 * (size_t)q * p->g.side * p->g.side;
    *ret_ms = INFINITY;
    for (int k = 0; k < 3; k++) {
        float ms = 0;
        CUDA_TRY(cudaEventRecord(p->begin), err, "timing");
        if (slide)
            TRY(texture_slide_launch(&p->view, &all, p->g.options.levels[q], planes, p->records, 0, err));
        else
            TRY(texture_gather_launch(&p->view, &all, p->first, p->records, p->partials, 0, err));
        CUDA_TRY(cudaEventRecord(p->end), err, "timing");
        CUDA_TRY(cudaEventSynchronize(p->end), err, "running a part");
        CUDA_TRY(cudaEventElapsedTime(&ms, p->begin, p->end), err, "timing");
        if (ms < *ret_ms) *ret_ms = ms;
    }
    return STATUS_OK;
}

static enum status run(struct parts *p, struct err *err) {
    const int grains[] = {64, 12, 1};
    double pairs = 0, matrices = (double)p->g.pixels * p->g.first[TEXTURE_LENGTHS + 1];
    for (int d = 0; d < p->g.first[TEXTURE_LENGTHS + 1]; d++) {
        int dx = abs(p->g.displacements[d].dx), dy = abs(p->g.displacements[d].dy);
        int shorter = p->g.options.window - max(dx, dy), longer = p->g.options.window - min(dx, dy);
        pairs += 2.0 * p->g.pixels * shorter * min(p->g.options.stride, longer);
    }
    double floor = pairs / 32 * INSTRUCTIONS / (132 * 4 * 1.98e9), bytes = matrices * sizeof(struct texture_record);
    printf("%.1f million matrices, %.0f million pairs a number of levels; floors: slide %.2f ms, gather %.2f ms\n",
           matrices / 1e6, pairs / 1e6, 1e3 * floor, bytes / 4.8e9);
    for (int k = 0; k < 3; k++) {
        TRY(make_planes(p, grains[k], err));
        for (int q = 0; q < TEXTURE_QUANTISATIONS; q++) {
            float slide = 0, gather = 0;
            TRY(time_part(p, q, true, &slide, err));
            TRY(time_part(p, q, false, &gather, err));
            printf("%s, %d levels: slide %.2f ms, gather %.2f ms\n",
                   k == 0   ? "noise"
                   : k == 1 ? "rough"
                            : "smooth",
                   p->g.options.levels[q], slide, gather);
        }
        CUDA_TRY(cudaFree(p->planes), err, "freeing levels");
    }
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {};
    static struct parts p;
    struct texture_options options = texture_defaults();
    options.stride = argc > 1 ? atoi(argv[1]) : 1;
    enum status status = texture_geometry_create(&options, &p.g, &err);
    if (status == STATUS_OK) status = prepare(&p, &err);
    if (status == STATUS_OK) status = run(&p, &err);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
