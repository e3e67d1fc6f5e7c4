/* Class averages in host memory or on a device. */
#include "kernels/averages/averages.h"

#include "common/memory.h"
#include "kernels/averages/averages_private.h"

/* Returns NULL for a workspace when the program was built without CUDA. */
static const struct averages_work *work_on(const struct workspace *workspace_or_null) {
    if (workspace_or_null == NULL) return &averages_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &averages_cuda_work;
#else
    return NULL;
#endif
}

static enum status build(struct averages *a, struct err *err) {
    a->work = work_on(a->options.workspace);
    FAIL_IF(a->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can keep class averages");
    TRY(mem_new((size_t)a->options.capacity, sizeof *a->classes, "classes", &a->classes, err));
    return a->work->open(a, err);
}

enum status averages_create(const struct averages_options *options, struct averages **ret_averages, struct err *err) {
    struct averages *a = NULL;
    FAIL_IF(
        options->capacity < 1 || options->box < 4 || options->box % 2 != 0 || options->box > 2048 ||
            options->max_size < 2 || options->max_size > options->box,
        err, STATUS_BAD_ARGUMENT,
        "%d class averages of %d px with a Fourier size of %d px cannot be made: expected at least one, an even box of "
        "4 to 2048 px, and a size within the box",
        options->capacity, options->box, options->max_size);
    TRY(mem_new(1, sizeof *a, "class averages", &a, err));
    a->options = *options;
    if (a->options.threads < 1) a->options.threads = 1;
    enum status status = build(a, err);
    if (status != STATUS_OK) {
        averages_destroy(&a);
        return status;
    }
    *ret_averages = a;
    return STATUS_OK;
}

void averages_destroy(struct averages **averages) {
    if (averages == NULL || *averages == NULL) return;
    struct averages *a = *averages;
    for (int k = 0; k < a->options.capacity && a->classes != NULL; k++) {
        accumulator_destroy(&a->classes[k].half[0]);
        accumulator_destroy(&a->classes[k].half[1]);
        accumulator_destroy(&a->classes[k].added);
        projector_destroy(&a->classes[k].reference);
    }
    if (a->work != NULL) a->work->close(a);
    mem_free(&a->classes);
    mem_free(averages);
}

size_t averages_bytes(const struct averages_options *o) {
    return (size_t)o->capacity * (2 * accumulator_bytes(2, o->max_size) + projector_bytes(2, o->max_size));
}

struct accumulator *averages_sums(struct averages *a, int index, int half) {
    return a->classes[index].half[half];
}

struct projector *averages_reference(struct averages *a, int index) {
    return a->classes[index].reference;
}

struct accumulator *averages_added(struct averages *a, int index, int half) {
    return a->options.workspace != NULL ? a->classes[index].half[half] : a->classes[index].added;
}

enum status averages_begin(struct averages *a, int count, int size, struct err *err) {
    return a->work->begin(a, count, size, err);
}

enum status averages_end(struct averages *a, int count, int half, struct err *err) {
    return a->work->end(a, count, half, err);
}

enum status averages_fade(struct averages *a, int count, double factor, struct err *err) {
    return a->work->fade(a, count, factor, err);
}

enum status averages_split(struct averages *a, int from, int to, struct err *err) {
    return a->work->split(a, from, to, err);
}

enum status averages_make(struct averages *a, const struct average *list, int count, struct err *err) {
    return count > 0 ? a->work->make(a, list, count, err) : STATUS_OK;
}

enum status averages_set(struct averages *a, const struct average *list, int count, struct err *err) {
    return count > 0 ? a->work->set(a, list, count, err) : STATUS_OK;
}
