/* When auto-refinement takes a finer grid and when it stops: schedule_after on iterations made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stages/refiner/refiner_private.h"

enum { BOX = 64, SHELLS = BOX / 2 + 1, RESOLVED = 17, FIRST_ORDER = 2, COUNT = 100 };

/* A refinement whose halves agree to shell RESOLVED, iteration for iteration, and whose poses stand still. */
struct settled {
    struct refiner refiner;
    struct reference maps[2];
    float ssnr[SHELLS], fsc[SHELLS];
};

static void begin(struct settled *s) {
    *s = (struct settled){.refiner = {.options = {.healpix_order = FIRST_ORDER,
                                                  .initial_lowpass = 30,
                                                  .offset_range = 5,
                                                  .offset_step = 1,
                                                  .local_order = 4},
                                      .box = BOX,
                                      .shells = SHELLS,
                                      .pixel_size = 3,
                                      .reference_count = 1,
                                      .oversampled = true}};
    for (int shell = 0; shell < SHELLS; shell++)
        s->ssnr[shell] = shell <= RESOLVED ? 10 : 0.1f, s->fsc[shell] = shell <= RESOLVED ? 0.9f : 0;
    s->refiner.fsc_joined = s->fsc;
    for (int h = 0; h < 2; h++) {
        s->maps[h].ssnr = s->ssnr;
        s->refiner.half[h] =
            (struct half){.references = &s->maps[h], .member_count = COUNT, .pmax_sum = 0.5 * COUNT, .changed = COUNT};
    }
    schedule_start(&s->refiner);
    s->refiner.schedule.max_order = -1;
}

/* Iterations until the grid changes or all is over; 10 at most. accuracy: of angles, degrees. */
static int settle(struct settled *s, double accuracy) {
    struct schedule *schedule = &s->refiner.schedule;
    int order = schedule->order, count = 0;
    for (int h = 0; h < 2; h++)
        s->refiner.half[h].accuracy_angle = accuracy, s->refiner.half[h].accuracy_offset = 1;
    while (count < 10 && schedule->order == order && !schedule->converged) {
        schedule_sizes(&s->refiner);
        s->refiner.sampling.angle_step = sampling_angle_step(order);
        s->refiner.sampling.offset_step = schedule->offset_step;
        schedule_after(&s->refiner);
        count++;
    }
    return count;
}

static void goes_on_while_the_grid_is_coarse(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    for (int order = FIRST_ORDER + 1; order <= 5; order++) {
        assert_in_range(settle(&s, 1), 1, 9);
        assert_false(s.refiner.schedule.converged);
        assert_int_equal(s.refiner.schedule.order, order);
    }
}

static void stops_where_the_grid_is_fine(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    (void)settle(&s, 3);
    (void)settle(&s, 3);
    assert_int_equal(s.refiner.schedule.order, 4);
    assert_false(s.refiner.schedule.converged);
    (void)settle(&s, 3); /* half of 3.7 degrees is less than 0.75 of 3 */
    assert_true(s.refiner.schedule.converged);
    assert_int_equal(s.refiner.schedule.order, 4);
}

/* However accurate the poses: the whole sphere has 1.2e9 orientations at order 8, and two references there are more than
 * are numbered. */
static void stops_at_the_finest_grid_there_is(void **state) {
    (void)state;
    for (int references = 1; references <= 2; references++) {
        struct settled s;
        begin(&s);
        s.refiner.reference_count = references;
        for (int i = 0; i < 10 && !s.refiner.schedule.converged; i++)
            (void)settle(&s, 0.001);
        assert_true(s.refiner.schedule.converged);
        assert_int_equal(s.refiner.schedule.order, references == 1 ? 8 : 7);
        assert_true(alignment_can_number(sampling_whole_sphere(s.refiner.schedule.order), references));
    }
}

/* A map of poses on a coarse grid says that nothing finer is known, whatever could be. */
static void does_not_stop_at_the_first_grid(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    (void)settle(&s, 15);
    assert_false(s.refiner.schedule.converged);
    assert_int_equal(s.refiner.schedule.order, FIRST_ORDER + 1);
    (void)settle(&s, 15);
    assert_true(s.refiner.schedule.converged);
    assert_int_equal(s.refiner.schedule.order, FIRST_ORDER + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_while_the_grid_is_coarse),
        cmocka_unit_test(stops_where_the_grid_is_fine),
        cmocka_unit_test(stops_at_the_finest_grid_there_is),
        cmocka_unit_test(does_not_stop_at_the_first_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
