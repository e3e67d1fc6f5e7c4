/* Tests memory and copies of the CPU and of each CUDA device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/device.h"
#include "common/memory.h"

enum { FLOATS = 3 << 20 };

static void texts_name_devices(void **state) {
    (void)state;
    struct device device = {DEVICE_CUDA, 7};
    struct err err = {0};
    assert_int_equal(device_parse("cpu", &device, &err), STATUS_OK);
    assert_int_equal(device.kind, DEVICE_CPU);
    assert_int_equal(device_parse("auto", &device, &err), STATUS_OK);
    const char *wrong[] = {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(device_parse(wrong[i], &device, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(device_parse("cuda:1000", &device, &err), STATUS_UNSUPPORTED);
}

static void host_memory_serves(const struct device *device) {
    struct err err = {0};
    float *memory = NULL;
    if (device_host_new(device, FLOATS, sizeof *memory, "test", &memory, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (int i = 0; i < FLOATS; i++)
        assert_true(memory[i] == 0);
    device_host_free(device, &memory);
    assert_null(memory);
    device_host_free(device, &memory);
    assert_int_equal(device_host_new(device, SIZE_MAX / 2, 8, "test", &memory, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "test"));
    assert_null(memory);
}

static void copies_stay(const struct device *device) {
    struct err err = {0};
    struct device_copy *copy = NULL;
    size_t used = 1;
    assert_int_equal(device_memory_used(device, &used, &err), STATUS_OK);
    float *a = mem_aligned(FLOATS, sizeof *a), *b = mem_aligned(FLOATS, sizeof *b);
    assert_true(a && b);
    assert_int_equal(device_upload(device, a, FLOATS / 2, &copy, &err), STATUS_OK);
    if (device->kind == DEVICE_CPU) {
        assert_null(copy);
        assert_int_equal(used, 0);
    } else {
        const void *data = device_copy_data(copy);
        assert_non_null(data);
        assert_int_equal(device_upload(device, b + 5, FLOATS / 3, &copy, &err), STATUS_OK);
        assert_ptr_equal(device_copy_data(copy), data);
        assert_int_equal(device_upload(device, a, FLOATS, &copy, &err), STATUS_OK);
        device_copy_forget(copy);
        assert_int_equal(device_upload(device, b, FLOATS, &copy, &err), STATUS_OK);
        /* These pages are already locked by another copy. */
        struct device_copy *other = NULL;
        assert_int_equal(device_upload(device, b, FLOATS, &other, &err), STATUS_OK);
        assert_ptr_not_equal(device_copy_data(other), device_copy_data(copy));
        device_copy_destroy(&other);
    }
    device_copy_destroy(&copy);
    assert_null(copy);
    assert_null(device_copy_data(copy));
    free(a);
    free(b);
}

struct delivery {
    const unsigned char *bytes;
    size_t next, fails_at;
};

static enum status deliver(void *context, size_t offset, void *bytes, size_t length, struct err *err) {
    struct delivery *d = context;
    assert_int_equal(offset, d->next);
    d->next += length;
    FAIL_IF(d->next > d->fails_at, err, STATUS_TRUNCATED, "the source ends at %zu", d->fails_at);
    memcpy(bytes, d->bytes + offset, length);
    return STATUS_OK;
}

/* Checks that a copy holds these bytes; there is none for the CPU. */
static void assert_holds(const struct device *device, const struct device_copy *copy, const unsigned char *bytes,
                         size_t length, unsigned char *back) {
    struct err err = {0};
    if (device->kind == DEVICE_CPU) {
        assert_null(copy);
        return;
    }
    memset(back, 0xa5, length);
    assert_int_equal(device_get(device, back, device_copy_data(copy), length, &err), STATUS_OK);
    assert_memory_equal(back, bytes, length);
}

/* One copy takes memory of the host, then more bytes in parts, and then the same memory of the host with other values, as
 * page-locked as it was. */
static void uploads_alternate(const struct device *device, unsigned char *bytes, unsigned char *back,
                              struct device_copy **copy) {
    const size_t whole = (size_t)5 << 20, more = (size_t)20 << 20;
    struct delivery d = {.bytes = bytes, .fails_at = more};
    struct err err = {0};
    for (int i = 0; i < 3; i++) {
        float *host = (float *)(void *)bytes;
        bytes[0] = bytes[whole - 1] = (unsigned char)(17 * i + 1);
        if (i == 2) device_copy_forget(*copy);
        assert_int_equal(device_upload(device, host, whole / sizeof *host, copy, &err), STATUS_OK);
        assert_holds(device, *copy, bytes, whole, back);
        if (i > 0) continue;
        assert_int_equal(device_upload_parts(device, more, deliver, &d, copy, &err), STATUS_OK);
        assert_holds(device, *copy, bytes, more, back);
    }
}

/* More and fewer bytes than pass at a time, and not whole parts; a source that fails leaves a copy that goes on. */
static void parts_arrive(const struct device *device) {
    static const size_t lengths[] = {1, 1 << 20, (19 << 20) + 7, 4097};
    struct err err = {0};
    struct device_copy *copy = NULL;
    size_t most = (size_t)20 << 20;
    unsigned char *bytes = mem_aligned(most, 1), *back = mem_aligned(most, 1);
    assert_true(bytes && back);
    for (size_t i = 0; i < most; i++)
        bytes[i] = (unsigned char)((i * 2654435761u) >> 13);
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        size_t length = lengths[i / 2];
        struct delivery d = {.bytes = bytes + i, .fails_at = i % 2 ? length / 2 : length};
        enum status status = device_upload_parts(device, length, deliver, &d, &copy, &err);
        if (device->kind == DEVICE_CPU) {
            assert_int_equal(status, STATUS_OK);
            assert_int_equal(d.next, 0);
            assert_null(copy);
            continue;
        }
        assert_int_equal(status, i % 2 ? STATUS_TRUNCATED : STATUS_OK);
        if (i % 2) continue;
        assert_holds(device, copy, bytes + i, length, back);
    }
    uploads_alternate(device, bytes, back, &copy);
    device_copy_destroy(&copy);
    free(bytes);
    free(back);
}

static void on_the_cpu(void **state) {
    (void)state;
    struct device cpu = {DEVICE_CPU, 0};
    host_memory_serves(&cpu);
    copies_stay(&cpu);
    parts_arrive(&cpu);
}

static void on_each_cuda_device(void **state) {
    (void)state;
    int count = 0;
    assert_int_equal(device_count(&count, NULL), STATUS_OK);
    for (int i = 0; i < count; i++) {
        struct device device = {DEVICE_CUDA, i};
        host_memory_serves(&device);
        copies_stay(&device);
        parts_arrive(&device);
    }
}

/* test_device: runs the tests that need no GPU. test_device gpu: runs the tests on each GPU, or skips. */
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "gpu") == 0) {
        int count = 0;
        struct err err = {0};
        if (device_count(&count, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
        if (count == 0) return puts("skipped: no CUDA device"), 77;
        const struct CMUnitTest gpu[] = {cmocka_unit_test(on_each_cuda_device)};
        return cmocka_run_group_tests(gpu, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_name_devices), cmocka_unit_test(on_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
