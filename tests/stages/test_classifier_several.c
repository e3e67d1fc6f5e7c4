/* Several workers on the CPU classify as a single one does (classifier_several.h), bit for bit. Chunks hold what they
 * should: particles of a half in their order, 512 at most on average, alike for any batch. */
#include "tests/stages/classifier_several.h"

static const struct device CPU = {.kind = DEVICE_CPU};
/* GiB: enough for the classes, and for a few dozen particles at a time. */
static const double LITTLE = 3e6 / 0x1p30;

static void images_in_memory(void **state) {
    (void)state;
    several_check(
        &(struct several_case){
            .device = CPU, .stacks = 1, .image_memory = 1 << 24, .memory = LITTLE, .classes = 6, .updates = 4},
        3);
}

/* Most images are read each time. */
static void images_on_disk(void **state) {
    (void)state;
    several_check(&(struct several_case){.device = CPU,
                                         .stacks = 1,
                                         .image_memory = BOX * BOX * 4 * 20,
                                         .memory = LITTLE,
                                         .classes = 3,
                                         .updates = 3},
                  3);
}

static void chunks_are_even(void **state) {
    (void)state;
    enum { MANY = 100000 };
    size_t chunks = estep_chunks(MANY), least = MANY, most = 0;
    static size_t members[MANY];
    assert_int_equal(estep_chunks(0), 1);
    assert_int_equal(estep_chunks(512), 1);
    assert_int_equal(estep_chunks(513), 2);
    assert_int_equal(chunks, 256);
    for (size_t i = 0; i < MANY; i++) {
        size_t chunk = estep_chunk(2 * i, chunks);
        assert_true(chunk < chunks);
        assert_int_equal(estep_chunk(2 * i, chunks / 2), chunk % (chunks / 2));
        members[chunk]++;
    }
    for (size_t k = 0; k < chunks; k++) {
        if (members[k] < least) least = members[k];
        if (members[k] > most) most = members[k];
    }
    print_message("%zu chunks of %zu to %zu particles\n", chunks, least, most);
    assert_true(least > MANY / chunks / 2 && most < 2 * MANY / chunks);
}

static int prepare(void **state) {
    if (make_particles(state) != 0) return -1;
    several_write(1);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_even),
        cmocka_unit_test(images_in_memory),
        cmocka_unit_test(images_on_disk),
    };
    return cmocka_run_group_tests_name("classifier-several", tests, prepare, remove_particles);
}
