/* Several workers on the CPU write the files of a single one (refiner_several.h). The images are more than memory holds. */
#include "tests/stages/refiner_several.h"

/* Images are read 16 at a time by each worker. */
static const double LITTLE = 256.0 * BOX * BOX * sizeof(float) * 0x1p-30;

static void halves(void **state) {
    (void)state;
    several_check(&(struct several_case){
        .name = "halves", .particles = 130, .classes = 1, .iterations = 2, .memory = 0.25, .host_memory = LITTLE});
}

/* The first iteration compares each class with members of its own. */
static void classes(void **state) {
    (void)state;
    several_check(&(struct several_case){
        .name = "classes", .particles = 90, .classes = 2, .iterations = 2, .memory = 0.25, .host_memory = LITTLE});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves),
        cmocka_unit_test(classes),
    };
    return scratch_run("refiner-several", tests, sizeof tests / sizeof *tests);
}
