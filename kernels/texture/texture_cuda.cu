/* Measures texture on a CUDA device: memory, and images in flight, each in its own stream. */
#include <stdlib.h>
#include <string.h>

#include "common/device.h"
#include "kernels/texture/texture.cuh"

/* Bytes for the records of a slot, unless those of one length need more. */
static const size_t RECORD_BYTES = (size_t)384 << 20;

struct slot {
    cudaStream_t stream;
    cudaEvent_t done;
    uint8_t *host_planes, *planes; /* [TEXTURE_QUANTISATIONS][side][side]; the device's have each plane both ways */
    struct texture_record *records;
    struct texture_partial *partials;
    struct texture_features *features, *host_features;
};

struct texture_cuda {
    const struct texture_geometry *geometry;
    struct texture_view view;
    struct texture_displacement *displacements;
    struct texture_tables *tables;
    int *numbers; /* reach, number, first */
    const int *first;
    struct texture_chunk chunks[TEXTURE_LENGTHS];
    int chunk_count;
    struct slot slots[TEXTURE_SLOTS];
};

/* Groups lengths into chunks whose records fit; the longest lengths, which have most displacements, come first. Returns
 * the number of displacements of the largest chunk. */
static int make_chunks(struct texture_cuda *t) {
    const struct texture_geometry *g = t->geometry;
    size_t most = RECORD_BYTES / ((size_t)g->pixels * sizeof(struct texture_record));
    int largest = 0;
    for (int last = g->options.lengths; last > 0;) {
        struct texture_chunk c = {g->first[last], 0, last, last};
        while (c.first_length > 1 && (size_t)(g->first[last + 1] - g->first[c.first_length - 1]) <= most)
            c.first_length--;
        c.first = g->first[c.first_length];
        c.count = g->first[last + 1] - c.first;
        largest = c.count > largest ? c.count : largest;
        t->chunks[t->chunk_count++] = c;
        last = c.first_length - 1;
    }
    return largest;
}

static enum status put(void *address_of_pointer, const void *from, size_t bytes, struct err *err) {
    void **to = (void **)address_of_pointer;
    CUDA_TRY(cudaMalloc(to, bytes), err, "making room for texture");
    CUDA_TRY(cuda_copy(*to, from, bytes), err, "taking tables there");
    return STATUS_OK;
}

static enum status put_geometry(struct texture_cuda *t, struct err *err) {
    const struct texture_geometry *g = t->geometry;
    size_t rows = (size_t)g->positions, lengths = TEXTURE_LENGTHS + 2;
    TRY(put(&t->displacements, g->displacements, (size_t)g->first[TEXTURE_LENGTHS + 1] * sizeof *t->displacements,
            err));
    TRY(put(&t->tables, g->tables, sizeof *t->tables, err));
    int *numbers = (int *)malloc((2 * rows + lengths) * sizeof *numbers);
    FAIL_IF(numbers == NULL, err, STATUS_NO_MEMORY, "no memory for the rows of a circle");
    memcpy(numbers, g->reach, rows * sizeof *numbers);
    for (size_t y = 0, number = 0; y < rows; y++) {
        numbers[rows + y] = (int)number;
        number += 2 * (size_t)g->reach[y] + 1;
    }
    memcpy(numbers + 2 * rows, g->first, lengths * sizeof *numbers);
    enum status status = put(&t->numbers, numbers, (2 * rows + lengths) * sizeof *numbers, err);
    free(numbers);
    t->first = t->numbers + 2 * rows;
    t->view.positions = g->positions;
    t->view.steps = g->steps;
    t->view.stride = g->options.stride;
    t->view.side = g->side;
    t->view.window = g->options.window;
    t->view.pixels = g->pixels;
    t->view.displacements = t->displacements;
    t->view.tables = t->tables;
    t->view.reach = t->numbers;
    t->view.number = t->numbers + rows;
    return status;
}

static enum status make_slot(struct texture_cuda *t, struct slot *s, size_t records, struct err *err) {
    const struct texture_geometry *g = t->geometry;
    size_t planes = (size_t)TEXTURE_QUANTISATIONS * g->side * g->side;
    size_t partials = (size_t)TEXTURE_LENGTHS * texture_gather_blocks(g->pixels) * TEXTURE_FEATURES;
    CUDA_TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), err, "making a stream");
    CUDA_TRY(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming | cudaEventBlockingSync), err,
             "making an event");
    TRY(device_host_new(&g->options.device, planes, 1, "grey levels", &s->host_planes, err));
    TRY(device_host_new(&g->options.device, 1, sizeof *s->host_features, "texture features", &s->host_features, err));
    CUDA_TRY(cudaMalloc(&s->planes, 2 * planes), err, "making room for grey levels");
    CUDA_TRY(cudaMalloc(&s->records, records * sizeof *s->records), err, "making room for the sums of matrices");
    CUDA_TRY(cudaMalloc(&s->partials, partials * sizeof *s->partials), err, "making room for features");
    CUDA_TRY(cudaMalloc(&s->features, sizeof *s->features), err, "making room for features");
    return STATUS_OK;
}

static enum status build(struct texture_cuda *t, struct err *err) {
    const struct texture_options *o = &t->geometry->options;
    CUDA_TRY(cudaSetDevice(o->device.index), err, "choosing it");
    TRY(put_geometry(t, err));
    TRY(texture_slide_prepare(o->window, err));
    size_t records = (size_t)make_chunks(t) * t->geometry->pixels;
    for (int k = 0; k < o->slots; k++)
        TRY(make_slot(t, &t->slots[k], records, err));
    return STATUS_OK;
}

static void free_slot(const struct texture_cuda *t, struct slot *s) {
    const struct device *device = &t->geometry->options.device;
    /* An image that was started and never finished may still write here. */
    if (s->stream) (void)cudaStreamSynchronize(s->stream);
    if (s->host_planes) device_host_free(device, &s->host_planes);
    if (s->host_features) device_host_free(device, &s->host_features);
    (void)cudaFree(s->planes);
    (void)cudaFree(s->records);
    (void)cudaFree(s->partials);
    (void)cudaFree(s->features);
    if (s->done) (void)cudaEventDestroy(s->done);
    if (s->stream) (void)cudaStreamDestroy(s->stream);
}

static void destroy(void *state) {
    struct texture_cuda *t = (struct texture_cuda *)state;
    (void)cudaSetDevice(t->geometry->options.device.index);
    for (int k = 0; k < TEXTURE_SLOTS; k++)
        free_slot(t, &t->slots[k]);
    (void)cudaFree(t->displacements);
    (void)cudaFree(t->tables);
    (void)cudaFree(t->numbers);
    free(t);
}

static enum status create(const struct texture_geometry *geometry, void **ret_state, struct err *err) {
    struct texture_cuda *t = (struct texture_cuda *)calloc(1, sizeof *t);
    FAIL_IF(t == NULL, err, STATUS_NO_MEMORY, "no memory for texture on a CUDA device");
    t->geometry = geometry;
    enum status status = build(t, err);
    if (status != STATUS_OK) {
        destroy(t);
        return status;
    }
    *ret_state = t;
    return STATUS_OK;
}

/* Returns page-locked memory. */
static uint8_t *planes(void *state, int slot) {
    return ((struct texture_cuda *)state)->slots[slot].host_planes;
}

static enum status queue_levels(struct texture_cuda *t, struct slot *s, int q, struct err *err) {
    const struct texture_geometry *g = t->geometry;
    size_t plane = (size_t)g->side * g->side;
    for (int k = 0; k < t->chunk_count; k++) {
        TRY(texture_slide_launch(&t->view, &t->chunks[k], g->options.levels[q], s->planes + 2 * q * plane, s->records,
                                 s->stream, err));
        TRY(texture_gather_launch(&t->view, &t->chunks[k], t->first, s->records, s->partials, s->stream, err));
    }
    return texture_finish_launch(&t->view, g->options.lengths, t->first, s->partials, &s->features->values[q][0][0][0],
                                 s->stream, err);
}

static enum status start(void *state, int slot, struct err *err) {
    struct texture_cuda *t = (struct texture_cuda *)state;
    struct slot *s = &t->slots[slot];
    size_t plane = (size_t)t->geometry->side * t->geometry->side;
    CUDA_TRY(cudaSetDevice(t->geometry->options.device.index), err, "choosing it");
    CUDA_TRY(cudaMemsetAsync(s->features, 0, sizeof *s->features, s->stream), err, "clearing features");
    CUDA_TRY(cudaMemcpy2DAsync(s->planes, 2 * plane, s->host_planes, plane, plane, TEXTURE_QUANTISATIONS,
                               cudaMemcpyHostToDevice, s->stream),
             err, "taking grey levels there");
    TRY(texture_turn_launch(t->geometry->side, s->planes, s->stream, err));
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
        TRY(queue_levels(t, s, q, err));
    CUDA_TRY(cudaMemcpyAsync(s->host_features, s->features, sizeof *s->features, cudaMemcpyDeviceToHost, s->stream),
             err, "fetching features");
    CUDA_TRY(cudaEventRecord(s->done, s->stream), err, "marking the end of an image");
    return STATUS_OK;
}

static enum status finish(void *state, int slot, struct texture_features *ret_features, struct err *err) {
    struct texture_cuda *cuda = (struct texture_cuda *)state;
    struct slot *s = &cuda->slots[slot];
    CUDA_TRY(cudaSetDevice(cuda->geometry->options.device.index), err, "choosing it");
    CUDA_TRY(cudaEventSynchronize(s->done), err, "measuring texture");
    *ret_features = *s->host_features;
    return STATUS_OK;
}

const struct texture_work texture_cuda_work = {
    .create = create,
    .destroy = destroy,
    .planes = planes,
    .start = start,
    .finish = finish,
};
