/* Several workers on the CPU write the files of a single one (refiner_several.h). The images are more than memory
 * holds. */
#include "tests/stages/refiner_several.h"

/* Images are read 16 at a time by each worker. */
static const double LITTLE = 256.0 * BOX * BOX * sizeof(float) * 0x1p-30;

static void halves(void **state) {
    (void)state;
    several_check(&(struct several_case){
        .name = "halves", .particles = 130, .classes = 1, .iterations = 2, .memory = 0.25, .host_memory = LITTLE});
}

/* The first iteration compares each class with members of its own, and a half of all. */
static void classes(void **state) {
    (void)state;
    several_check(&(struct several_case){.name = "classes",
                                         .particles = 90,
                                         .part_particles = 40,
                                         .classes = 2,
                                         .iterations = 3,
                                         .memory = 0.25,
                                         .host_memory = LITTLE});
}

static int forgotten; /* calls for the whole, and for each of its workers */

void __real_alignment_forget_images(struct alignment *alignment);
void __wrap_alignment_forget_images(struct alignment *alignment);
void __wrap_alignment_forget_images(struct alignment *alignment) {
    forgotten++;
    __real_alignment_forget_images(alignment);
}

enum { MOST_SCALES = 256 };
static struct { double dots, norms; } scales[MOST_SCALES]; /* the sums after each measurement of a grey scale */
static int scale_count;

enum status __real_alignment_scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                   double *ret_mean, double *dots, double *norms, struct err *err);
enum status __wrap_alignment_scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                   double *ret_mean, double *dots, double *norms, struct err *err);
enum status __wrap_alignment_scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                   double *ret_mean, double *dots, double *norms, struct err *err) {
    enum status status = __real_alignment_scale(alignment, particles, count, ret_mean, dots, norms, err);
    assert_true(scale_count < MOST_SCALES);
    if (status == STATUS_OK && dots != NULL) {
        scales[scale_count].dots = *dots;
        scales[scale_count++].norms = *norms;
    }
    return status;
}

/* Rounding of sums in double precision hardly ever shows in the maps, which have single precision. */
static void grey_scale_has_one_sum(void **state) {
    (void)state;
    const struct several_case c = {
        .name = "scales", .particles = 130, .classes = 1, .memory = 0.25, .host_memory = LITTLE};
    char scratch[PATH_SIZE], reference[PATH_SIZE];
    double dots[MOST_SCALES] = {0}, norms[MOST_SCALES] = {0};
    int count = 0;
    several_prepare(&c, scratch, reference);
    for (int workers = 1; workers <= 3; workers++) {
        const struct refiner_options options = several_options(&c, reference);
        const struct refiner_context context = several_context(&c, workers);
        const struct refiner_iteration iteration = {.max_order = 0};
        struct refiner *refiner = NULL;
        struct err err = {0};
        scale_count = 0;
        must_be(refiner_create(&options, &context, &refiner, &err), &err);
        several_merge(refiner, scratch, "a");
        must_be(refiner_begin(refiner, &iteration, &err), &err);
        refiner_destroy(&refiner);
        if (workers == 1) count = scale_count;
        assert_true(count > 1);
        assert_int_equal(scale_count, count);
        for (int i = 0; i < count; i++) {
            if (workers == 1) dots[i] = scales[i].dots, norms[i] = scales[i].norms;
            assert_true(scales[i].dots == dots[i] && scales[i].norms == norms[i]);
        }
    }
}

enum { MOST_PARTS = 64 };
static int parts[MOST_PARTS], part_count; /* particles that one worker compares at a time, in turn */

enum status __real_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err);
enum status __wrap_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err);
enum status __wrap_alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                 struct alignment_result *results, struct err *err) {
    for (int i = 0; i < count && part_count < MOST_PARTS; i++) {
        if (i == 0 || particles[i].chunk != particles[i - 1].chunk) parts[part_count++] = 0;
        parts[part_count - 1]++;
    }
    return __real_alignment_add(alignment, particles, count, results, err);
}

/* Begins an iteration, which compares the images with the reference and its negative. Returns by how many deviations they
 * favour the reference. */
static double signal_of(const struct several_case *c, const char *scratch, char *reference, int workers) {
    const struct refiner_options options = several_options(c, reference);
    const struct refiner_context context = several_context(c, workers);
    struct refiner *refiner = NULL;
    struct err err = {0};
    part_count = 0;
    must_be(refiner_create(&options, &context, &refiner, &err), &err);
    several_merge(refiner, scratch, "a");
    must_be(refiner_begin(refiner, &(struct refiner_iteration){.max_order = 0}, &err), &err);
    const double signal = refiner_state(refiner).signal;
    refiner_destroy(&refiner);
    return signal;
}

/* Some libraries round the products of a larger batch differently, so that the batches are compared, too. */
static void the_signal_has_one_sum(void **state) {
    (void)state;
    const struct several_case c = {
        .name = "signal", .particles = 130, .classes = 1, .memory = 0.004, .host_memory = LITTLE};
    char scratch[PATH_SIZE], reference[PATH_SIZE];
    int alone[MOST_PARTS];
    several_prepare(&c, scratch, reference);
    const double signal = signal_of(&c, scratch, reference, 1);
    const int count = part_count;
    memcpy(alone, parts, sizeof alone);
    assert_true(signal > 3);
    assert_in_range(count, 3, MOST_PARTS - 1);
    for (int workers = 2; workers <= 3; workers++) {
        assert_true(signal_of(&c, scratch, reference, workers) == signal);
        assert_int_equal(part_count, count);
        assert_memory_equal(parts, alone, (size_t)count * sizeof *parts);
    }
}

/* A chunk holds 1,024 particles at most on average. One particle more makes two of it, which two workers compare. */
static void more_chunks_lie_on_other_devices(void **state) {
    (void)state;
    enum { CHUNK = 1024 };
    static struct object object;
    const struct several_case c = {.name = "chunks", .particles = CHUNK, .classes = 2, .memory = 0.25};
    char scratch[PATH_SIZE], reference[PATH_SIZE];
    several_prepare(&c, scratch, reference);
    make_object(&object, 14);
    write_particles(scratch, "b", &object, 2, 1, 1.0);
    for (int workers = 1; workers < 3; workers++) {
        const struct refiner_options options = several_options(&c, reference);
        const struct refiner_context context = several_context(&c, workers);
        struct refiner *refiner = NULL;
        struct err err = {0};
        must_be(refiner_create(&options, &context, &refiner, &err), &err);
        several_merge(refiner, scratch, "a");
        must_be(refiner_look(refiner, &err), &err);
        forgotten = 0;
        const int all = workers > 1 ? 1 + workers : 0;
        several_merge(refiner, scratch, "b");
        must_be(refiner_look(refiner, &err), &err);
        assert_int_equal(forgotten, all);
        must_be(refiner_look(refiner, &err), &err);
        assert_int_equal(forgotten, all);
        refiner_destroy(&refiner);
    }
}

static bool room_for_all; /* devices claim to have room for all images */
enum { IMAGES = 130 };
static int brought[IMAGES + 1]; /* how often each image was, by its number */

int __real_alignment_image_room(const struct alignment *alignment, int chunk);
int __wrap_alignment_image_room(const struct alignment *alignment, int chunk);
int __wrap_alignment_image_room(const struct alignment *alignment, int chunk) {
    return room_for_all ? IMAGES : __real_alignment_image_room(alignment, chunk);
}

enum status __real_alignment_bring(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                   struct err *err);
enum status __wrap_alignment_bring(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                   struct err *err);
enum status __wrap_alignment_bring(struct alignment *alignment, const struct alignment_particle *particles, int count,
                                   struct err *err) {
    for (int i = 0; i < count; i++) {
        assert_non_null(particles[i].image);
        assert_in_range(particles[i].number, 1, IMAGES);
        assert_true(i == 0 || particles[i].number > particles[i - 1].number); /* in the order of their files */
        brought[particles[i].number]++;
    }
    return __real_alignment_bring(alignment, particles, count, err);
}

/* Several devices that have room for all images get each of them before they compare any; results are those of one. */
static void images_come_before_they_are_compared(void **state) {
    (void)state;
    room_for_all = true;
    several_check(&(struct several_case){
        .name = "brought", .particles = IMAGES, .classes = 1, .iterations = 2, .memory = 0.25, .host_memory = LITTLE});
    room_for_all = false;
    /* Two and three devices, and two iterations; twins are known after the first. */
    int often = 0, once = 0;
    for (int i = 1; i <= IMAGES; i++) {
        often += brought[i] == 4;
        once += brought[i] == 2;
    }
    assert_int_equal(once, TWINS);
    assert_int_equal(often, IMAGES - TWINS);
}

/* An image that cannot be brought delays the iteration, which then goes on. */
static void images_that_cannot_be_read_are_waited_for(void **state) {
    (void)state;
    const struct several_case c = {
        .name = "waits", .particles = IMAGES, .classes = 1, .iterations = 1, .memory = 0.25, .host_memory = LITTLE};
    char scratch[PATH_SIZE], reference[PATH_SIZE], one[PATH_SIZE], two[PATH_SIZE + 8];
    char stack[PATH_SIZE + 16], gone[PATH_SIZE + 16];
    struct err err = {0};
    struct refiner *refiner = NULL;
    bool complete = false;
    several_prepare(&c, scratch, reference);
    several_refine(&c, scratch, reference, 1, one);
    const struct refiner_options options = several_options(&c, reference);
    const struct refiner_context context = several_context(&c, 2);
    must_be(refiner_create(&options, &context, &refiner, &err), &err);
    several_merge(refiner, scratch, "a");
    must_be(refiner_begin(refiner, &(struct refiner_iteration){.max_order = 0}, &err), &err);
    snprintf(stack, sizeof stack, "%s/a.mrcs", scratch);
    snprintf(gone, sizeof gone, "%s/a.gone", scratch);
    room_for_all = true;
    assert_int_equal(rename(stack, gone), 0);
    while (refiner_work(refiner, &complete, &err) == STATUS_OK)
        assert_false(complete); /* most images are in memory */
    assert_non_null(strstr(err.message, "a.mrcs"));
    assert_int_not_equal(refiner_work(refiner, &complete, &err), STATUS_OK);
    assert_int_equal(rename(gone, stack), 0);
    while (!complete)
        must_be(refiner_work(refiner, &complete, &err), &err);
    room_for_all = false;
    snprintf(two, sizeof two, "%s/two", scratch);
    must_be(file_make_folders(two, 0755, &err), &err);
    must_be(refiner_write(refiner, two, "", 0, &err), &err);
    assert_true(several_compare(one, two) > 0);
    refiner_destroy(&refiner);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_chunks_lie_on_other_devices),
        cmocka_unit_test(grey_scale_has_one_sum),
        cmocka_unit_test(the_signal_has_one_sum),
        cmocka_unit_test(halves),
        cmocka_unit_test(classes),
        cmocka_unit_test(images_come_before_they_are_compared),
        cmocka_unit_test(images_that_cannot_be_read_are_waited_for),
    };
    return scratch_run("refiner-several", tests, sizeof tests / sizeof *tests);
}
