/* Several CUDA devices write the files of a single one (refiner_several.h). Device 0 stands for all of them. */
#include "tests/stages/refiner_several.h"

static const struct device DEVICE = {DEVICE_CUDA, 0};

/* Each half has several chunks of about a thousand particles. */
static void halves(void **state) {
    (void)state;
    several_check(&(struct several_case){.name = "halves",
                                         .device = DEVICE,
                                         .particles = 9000,
                                         .classes = 1,
                                         .order = 1,
                                         .iterations = 4,
                                         .memory = 2,
                                         .host_memory = 1});
}

/* Groups of particles are smaller than with more memory, and most images are read each time. */
static void with_little_memory(void **state) {
    (void)state;
    several_check(&(struct several_case){.name = "little",
                                         .device = DEVICE,
                                         .particles = 5000,
                                         .classes = 1,
                                         .order = 1,
                                         .iterations = 3,
                                         .memory = 0.12,
                                         .host_memory = 0.01});
}

static void classes(void **state) {
    (void)state;
    several_check(&(struct several_case){.name = "classes",
                                         .device = DEVICE,
                                         .particles = 5000,
                                         .classes = 3,
                                         .order = 1,
                                         .iterations = 4, /* two with parts */
                                         .part_particles = 1200,
                                         .memory = 2,
                                         .host_memory = 1});
}

int main(void) {
    int count = 0;
    struct err err = {0};
    if (device_count(&count, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
    if (count == 0) return puts("skipped: no CUDA device"), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves),
        cmocka_unit_test(with_little_memory),
        cmocka_unit_test(classes),
    };
    return scratch_run("refiner-several-devices", tests, sizeof tests / sizeof *tests);
}
