/* Takes in micrographs of random bits, in all kinds of pixels, and compares them with what other code says of the same
 * bits: test_intake [gpu]. Every bit of the pixels must agree, NaNs too.
 *
 * The first micrograph leaves the intake's memory full of other values, and that of the second is poisoned before. */
#include "common/formats/mrc_pixels.h"
#include "kernels/contamination/lines.h"
#include "kernels/intake/intake.h"
#include "tests/kernels/devices.h"

enum { KINDS = 6 };

static const enum intake_kind kinds[KINDS] = {INTAKE_FLOAT32, INTAKE_FLOAT16, INTAKE_INT8,
                                              INTAKE_UINT8,   INTAKE_INT16,   INTAKE_UINT16};

struct micrograph {
    enum intake_kind kind;
    int nx, ny;
    unsigned char *stored;
    float *expected;
};

static size_t pixels_of(const struct micrograph *m) {
    return (size_t)m->nx * (size_t)m->ny;
}

/* Returns the exact value of a float16 that is not NaN. */
static double half_value(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent == 0    ? ldexp(fraction, -24)
                  : exponent == 31 ? INFINITY
                                   : ldexp(1024 + fraction, exponent - 25);
    return half >> 15 ? -size : size;
}

/* As the files' readers convert; what float16 means is checked beside. */
static void expect(struct micrograph *m) {
    static const enum mrc_mode modes[KINDS] = {MRC_FLOAT32, MRC_FLOAT16, MRC_INT8, MRC_INT8, MRC_INT16, MRC_UINT16};
    size_t count = pixels_of(m);
    if (m->kind == INTAKE_UINT8)
        mrc_unsigned_to_float(m->stored, count, m->expected);
    else
        mrc_to_float(modes[m->kind], m->stored, count, m->expected);
    const uint16_t *halves = (const uint16_t *)(const void *)m->stored;
    for (size_t i = 0; m->kind == INTAKE_FLOAT16 && i < count; i++)
        if (!isnan(m->expected[i])) assert_true((double)m->expected[i] == half_value(halves[i]));
}

/* Draws a micrograph. plain: floats near 1 rather than any bits. filled: lines at its left and upper edges that repeat
 * others. */
static struct micrograph draw(enum intake_kind kind, int nx, int ny, bool plain, int filled) {
    struct micrograph m = {.kind = kind, .nx = nx, .ny = ny};
    size_t size = intake_pixel_bytes(kind), row = size * (size_t)nx;
    m.stored = host_new(pixels_of(&m), size);
    m.expected = host_new(pixels_of(&m), sizeof *m.expected);
    for (size_t i = 0; i < pixels_of(&m) * size; i++)
        m.stored[i] = (unsigned char)(256 * uniform());
    for (size_t i = 0; plain && kind == INTAKE_FLOAT32 && i < pixels_of(&m); i++) {
        float value = (float)(1 + normal());
        memcpy(m.stored + i * size, &value, size);
    }
    for (int y = 0; y < filled; y++)
        memcpy(m.stored + (size_t)y * row, m.stored + (size_t)filled * row, row);
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < filled; x++)
            memcpy(m.stored + (size_t)y * row + (size_t)x * size, m.stored + (size_t)y * row + (size_t)filled * size,
                   size);
    expect(&m);
    return m;
}

static void forget(struct micrograph *m) {
    free(m->stored);
    free(m->expected);
}

static void check_range(const struct micrograph *m, float limit, const struct intake_result *found) {
    double least = INFINITY, most = -INFINITY;
    size_t beyond = 0;
    for (size_t i = 0; i < pixels_of(m); i++) {
        double value = (double)m->expected[i];
        if (!isfinite(value)) continue;
        least = fmin(least, value);
        most = fmax(most, value);
        beyond += fabs(value) > (double)limit;
    }
    assert_int_equal(found->beyond, beyond);
    assert_int_equal(found->finite, least <= most);
    if (!found->finite) return;
    assert_true((double)found->least == least);
    assert_true((double)found->most == most);
}

static void check(const struct device *device, const struct micrograph *m, float limit,
                  const struct intake_result *found) {
    struct err err = {0};
    struct contamination_area area = contamination_data_area(m->expected, m->nx, m->ny);
    float *pixels = host_new(pixels_of(m), sizeof *pixels);
    must(device_get(device, pixels, found->pixels, pixels_of(m) * sizeof *pixels, &err), &err);
    if (memcmp(pixels, m->expected, pixels_of(m) * sizeof *pixels) != 0)
        for (size_t i = 0; i < pixels_of(m); i++)
            if (memcmp(pixels + i, m->expected + i, sizeof *pixels) != 0)
                fail_msg("kind %d, %d x %d: pixel %zu is %.9g, expected %.9g", (int)m->kind, m->nx, m->ny, i,
                         (double)pixels[i], (double)m->expected[i]);
    free(pixels);
    check_range(m, limit, found);
    if (memcmp(&found->data, &area, sizeof area) != 0)
        fail_msg("kind %d, %d x %d: data in %d-%d, %d-%d, expected %d-%d, %d-%d", (int)m->kind, m->nx, m->ny,
                 found->data.x0, found->data.x1, found->data.y0, found->data.y1, area.x0, area.x1, area.y0, area.y1);
}

static enum status deliver(void *context, size_t offset, void *bytes, size_t length, struct err *err) {
    (void)err;
    memcpy(bytes, (const char *)context + offset, length);
    return STATUS_OK;
}

/* A device's memory for one micrograph after another. */
struct place {
    struct device device;
    struct device_copy *copy;
    struct intake *intake;
};

static struct intake_result take(struct place *place, const struct micrograph *m, float limit) {
    struct err err = {0};
    struct intake_result found;
    memset(&found, 0xff, sizeof found);
    size_t bytes = pixels_of(m) * intake_pixel_bytes(m->kind);
    must(device_upload_parts(&place->device, bytes, deliver, m->stored, &place->copy, &err), &err);
    const void *stored = place->device.kind == DEVICE_CPU ? m->stored : device_copy_data(place->copy);
    struct intake_input in = {.stored = stored, .kind = m->kind, .nx = m->nx, .ny = m->ny, .limit = limit};
    must(intake_run(place->intake, &in, &found, &err), &err);
    return found;
}

/* Poisons the pixels that the intake made; float32 lies where it was uploaded. */
static void poison(const struct place *place, const struct micrograph *m, const float *pixels) {
    struct err err = {0};
    if (m->kind == INTAKE_FLOAT32) return;
    void *bad = host_new(pixels_of(m), sizeof(float)), *to;
    memset(bad, 0xa5, pixels_of(m) * sizeof(float));
    memcpy(&to, &pixels, sizeof to);
    must(device_put(&place->device, to, bad, pixels_of(m) * sizeof(float), &err), &err);
    free(bad);
}

static void all_agree(const struct device *device) {
    /* Sides of one pixel, odd ones, lines of more pixels than are compared, and more bytes than one part of an upload. */
    static const int shapes[][2] = {{1, 1},    {3, 1},     {1, 5},     {4, 4},     {5, 7},    {130, 67},
                                    {67, 130}, {1031, 70}, {65, 1030}, {701, 900}, {256, 256}};
    static const float limits[] = {1e15f, 100, 0};
    struct place place = {.device = *device};
    struct err err = {0};
    must(intake_create(device, &place.intake, &err), &err);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t k = 0; k < KINDS; k++) {
            int nx = shapes[s][0], ny = shapes[s][1], most = nx < ny ? nx : ny;
            int filled = most > 60 ? (int)(uniform() * 45) : 0;
            float limit = limits[(s + k) % 3];
            struct micrograph first = draw(kinds[k], nx, ny, s % 2 == 0, 0);
            struct micrograph second = draw(kinds[k], nx, ny, s % 2 != 0, filled);
            struct intake_result found = take(&place, &first, limit);
            check(device, &first, limit, &found);
            poison(&place, &first, found.pixels);
            found = take(&place, &second, limit);
            check(device, &second, limit, &found);
            forget(&first);
            forget(&second);
        }
    intake_destroy(&place.intake);
    device_copy_destroy(&place.copy);
}

/* Micrographs without an image: all pixels NaN, or all the same. */
static void nothing_is_found(const struct device *device) {
    enum { NX = 70, NY = 33 };
    struct place place = {.device = *device};
    struct err err = {0};
    must(intake_create(device, &place.intake, &err), &err);
    struct micrograph m = draw(INTAKE_FLOAT32, NX, NY, true, 0);
    for (int i = 0; i < NX * NY; i++)
        m.expected[i] = i % 2 ? NAN : -INFINITY;
    memcpy(m.stored, m.expected, sizeof(float) * NX * NY);
    struct intake_result found = take(&place, &m, 1);
    check(device, &m, 1, &found);
    assert_false(found.finite);
    assert_int_equal(found.data.x0, found.data.x1);
    for (int i = 0; i < NX * NY; i++)
        m.expected[i] = -7;
    memcpy(m.stored, m.expected, sizeof(float) * NX * NY);
    found = take(&place, &m, 1);
    check(device, &m, 1, &found);
    assert_true(found.least == -7 && found.most == -7);
    struct intake_input empty = {.stored = m.stored, .nx = 0, .ny = 4};
    assert_int_equal(intake_run(place.intake, &empty, &found, &err), STATUS_BAD_ARGUMENT);
    forget(&m);
    intake_destroy(&place.intake);
    device_copy_destroy(&place.copy);
}

static void on_the_cpu(void **state) {
    (void)state;
    struct device cpu = {DEVICE_CPU, 0};
    all_agree(&cpu);
    nothing_is_found(&cpu);
}

static void on_each_cuda_device(void **state) {
    (void)state;
    struct err err = {0};
    int count = 0;
    must(device_count(&count, &err), &err);
    for (int i = 0; i < count; i++) {
        struct device device = {DEVICE_CUDA, i};
        all_agree(&device);
        nothing_is_found(&device);
    }
}

/* The area from all differences is the area from the pixels, also where many lines are filled. */
static void lines_are_enough(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++) {
        int nx = 4 + (int)(uniform() * 300), ny = 4 + (int)(uniform() * 300), most = nx < ny ? nx : ny;
        struct micrograph m = draw(INTAKE_INT8, nx, ny, true, (int)(uniform() * most));
        double *rows = host_new((size_t)ny, sizeof *rows), *columns = host_new((size_t)nx, sizeof *columns);
        for (int y = 0; y < ny - 1; y++)
            rows[y] = contamination_difference(m.expected + (size_t)y * (size_t)nx, nx, 1, nx);
        for (int x = 0; x < nx - 1; x++)
            columns[x] = contamination_difference(m.expected + x, 1, nx, ny);
        struct contamination_area expected = contamination_data_area(m.expected, nx, ny);
        struct contamination_area found = contamination_area_of_lines(rows, columns, nx, ny);
        assert_memory_equal(&found, &expected, sizeof found);
        free(rows);
        free(columns);
        forget(&m);
    }
}

/* test_intake: the CPU. test_intake gpu: each GPU, or skips. */
int main(int argc, char **argv) {
    choose_seed(NULL);
    if (argc > 1 && strcmp(argv[1], "gpu") == 0) {
        const int missing = no_device();
        if (missing != 0) return missing;
        const struct CMUnitTest gpu[] = {cmocka_unit_test(on_each_cuda_device)};
        return cmocka_run_group_tests(gpu, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_cpu), cmocka_unit_test(lines_are_enough)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
