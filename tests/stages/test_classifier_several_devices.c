/* Several CUDA devices classify as a single one does (classifier_several.h), bit for bit. Device 0 stands for all of
 * them. */
#include "common/device.h"
#include "tests/stages/classifier_several.h"

static const struct device DEVICE = {DEVICE_CUDA, 0};

/* Each half of the last batches has four chunks. */
static void many_classes(void **state) {
    (void)state;
    several_check(
        &(struct several_case){
            .device = DEVICE, .stacks = 14, .image_memory = 1 << 26, .memory = 1, .classes = 40, .updates = 8},
        3);
}

/* Averages stay on the host, and images are read each time. */
static void with_little_memory(void **state) {
    (void)state;
    several_check(
        &(struct several_case){
            .device = DEVICE, .stacks = 10, .image_memory = 1 << 18, .memory = 0.05, .classes = 20, .updates = 5},
        3);
}

static int prepare(void **state) {
    if (make_particles(state) != 0) return -1;
    several_write(14);
    return 0;
}

int main(void) {
    int count = 0;
    struct err err = {0};
    if (device_count(&count, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
    if (count == 0) return puts("skipped: no CUDA device"), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_classes),
        cmocka_unit_test(with_little_memory),
    };
    return cmocka_run_group_tests_name("classifier-several-devices", tests, prepare, remove_particles);
}
