/* Tests the schedule on made-up findings: when auto-refinement takes a finer grid, when it stops, when a classification
 * ends, and when an iteration is worth its time while particles arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/alignment/alignment.h"
#include "kernels/sampling/sampling.h"
#include "stages/refiner/schedule.h"

enum { BOX = 64, SHELLS = BOX / 2 + 1, RESOLVED = 17, FIRST_ORDER = 2, COUNT = 100 };

/* A refinement whose halves agree to shell RESOLVED in each iteration, and whose poses do not move. */
struct settled {
    struct schedule schedule;
    struct schedule_plan plan;
    struct findings findings;
    float ssnr[SHELLS], fsc[SHELLS];
};

static void begin(struct settled *s) {
    *s = (struct settled){.schedule = {.options = {.references = 1,
                                                   .box = BOX,
                                                   .pixel_size = 3,
                                                   .diameter = 120,
                                                   .initial_lowpass = 30,
                                                   .join_resolution = 40,
                                                   .healpix_order = FIRST_ORDER,
                                                   .local_order = 4,
                                                   .offset_range = 5,
                                                   .offset_step = 1}},
                          .plan = {.max_order = -1, .aligned = true},
                          .findings = {.particles = 2 * COUNT,
                                       .present = 2 * COUNT,
                                       .average_pmax = 0.5,
                                       .accuracy_offset = 1,
                                       .moved = 2 * COUNT}};
    for (int shell = 0; shell < SHELLS; shell++)
        s->ssnr[shell] = shell <= RESOLVED ? 10 : 0.1f, s->fsc[shell] = shell <= RESOLVED ? 0.9f : 0;
    s->findings.fsc = s->fsc;
    schedule_start(&s->schedule);
}

static void iterate(struct settled *s) {
    schedule_begin(&s->schedule, &s->plan);
    s->findings.signal_shell = schedule_signal_shell(s->ssnr, s->schedule.current_size / 2);
    schedule_after(&s->schedule, &s->findings);
}

/* Iterates until the grid changes or the refinement ends, at most 10 times. accuracy: of angles, degrees. */
static int settle(struct settled *s, double accuracy) {
    struct schedule *schedule = &s->schedule;
    int order = schedule->order, count = 0;
    s->findings.accuracy_angle = accuracy;
    for (; count < 10 && schedule->order == order && !schedule->converged; count++)
        iterate(s);
    return count;
}

static void goes_on_while_the_grid_is_coarse(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    for (int order = FIRST_ORDER + 1; order <= 5; order++) {
        assert_in_range(settle(&s, 1), 1, 9);
        assert_false(s.schedule.converged);
        assert_int_equal(s.schedule.order, order);
    }
}

/* Shell 17 is 11.3 Å: half a step moves the rim by 1.96 Å at order 3, and by 0.98 Å at order 4. */
static void stops_where_many_poses_fit_alike(void **state) {
    (void)state;
    for (int broad = 0; broad < 2; broad++) {
        struct settled s;
        begin(&s);
        s.findings.average_pmax = broad ? 0.02 : 0.1;
        (void)settle(&s, 0.1);
        assert_int_equal(s.schedule.order, 3);
        (void)settle(&s, 0.1);
        assert_int_equal(s.schedule.converged, broad);
        assert_int_equal(s.schedule.order, broad ? 3 : 4);
    }
}

static void stops_where_the_grid_is_fine(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    (void)settle(&s, 3);
    (void)settle(&s, 3);
    assert_int_equal(s.schedule.order, 4);
    assert_false(s.schedule.converged);
    (void)settle(&s, 3); /* half of 3.7° is less than 0.75 · 3° */
    assert_true(s.schedule.converged);
    assert_int_equal(s.schedule.order, 4);
}

/* Tests the finest grid, however accurate the poses are. At order 8 the whole sphere has 1.2e9 orientations; with two
 * references the samples would be too many to number. */
static void stops_at_the_finest_grid_there_is(void **state) {
    (void)state;
    for (int references = 1; references <= 2; references++) {
        struct settled s;
        begin(&s);
        s.schedule.options.references = references;
        for (int i = 0; i < 10 && !s.schedule.converged; i++)
            (void)settle(&s, 0.001);
        assert_true(s.schedule.converged);
        assert_int_equal(s.schedule.order, references == 1 ? 8 : 7);
        assert_true(alignment_can_number(sampling_whole_sphere(s.schedule.order), references));
    }
}

/* The accuracy of a map from a coarse grid does not limit finer grids. */
static void does_not_stop_at_the_first_grid(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    (void)settle(&s, 15);
    assert_false(s.schedule.converged);
    assert_int_equal(s.schedule.order, FIRST_ORDER + 1);
    (void)settle(&s, 15);
    assert_true(s.schedule.converged);
    assert_int_equal(s.schedule.order, FIRST_ORDER + 1);
}

/* Local searches begin at local_order, or one order earlier if poses were sharp. They do not begin while a particle has
 * no pose. */
static void searches_become_local(void **state) {
    (void)state;
    for (int sharp = 0; sharp < 2; sharp++) {
        struct settled s;
        begin(&s);
        s.findings.significant = sharp ? 100 : 101; /* the best pose holds a third of the probability */
        iterate(&s);
        assert_true(s.schedule.sharp == (sharp == 1));
        s.schedule.order = 3;
        iterate(&s);
        assert_true(s.schedule.local == (sharp == 1));
        s.schedule.order = 4;
        assert_true(schedule_local_next(&s.schedule));
        s.plan.aligned = false;
        schedule_begin(&s.schedule, &s.plan);
        assert_false(s.schedule.local || s.schedule.sharp);
        assert_int_equal(s.schedule.order, 3);
    }
}

/* Gives the schedule so many particles, in parts of at least COUNT. */
static void begin_with(struct settled *s, size_t present) {
    begin(s);
    s->schedule.options.part_particles = COUNT;
    s->findings.present = present;
}

static struct schedule_part part_of(struct settled *s, size_t present) {
    return schedule_part(&s->schedule, &s->plan, present);
}

/* A part has at least part_particles, and there are at most four. Each iteration compares the next one. */
static void parts_take_turns(void **state) {
    (void)state;
    static const size_t PRESENT[] = {1, 2 * COUNT - 1, 2 * COUNT, 3 * COUNT, 100 * COUNT}, OF[] = {1, 1, 2, 3, 4};
    for (size_t i = 0; i < sizeof OF / sizeof *OF; i++) {
        struct settled s;
        begin_with(&s, PRESENT[i]);
        assert_int_equal(part_of(&s, PRESENT[i]).of, OF[i]);
        size_t first = part_of(&s, PRESENT[i]).index;
        for (size_t turn = 0; turn < 2 * OF[i]; turn++) {
            assert_int_equal(part_of(&s, PRESENT[i]).index, (first + turn) % OF[i]);
            s.schedule.iteration++;
        }
        s.schedule.options.part_particles = 0;
        assert_int_equal(part_of(&s, PRESENT[i]).of, 1);
    }
}

/* Particles without a pose, data that still arrive, the final iteration, the only one of a classification, and poses of a
 * table need all. */
static void parts_wait_for_poses(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct settled s;
        begin_with(&s, 2 * COUNT);
        assert_int_equal(part_of(&s, 2 * COUNT).of, 2);
        if (i == 0) s.plan.aligned = false;
        if (i == 1) s.plan.max_order = FIRST_ORDER;
        if (i == 2) s.plan.final = true;
        if (i == 3) s.schedule.options.classifies = true, s.schedule.options.iterations = 1;
        if (i == 4) s.schedule.options.poses_given = true;
        if (i == 5) s.schedule.whole = true;
        assert_int_equal(part_of(&s, 2 * COUNT).of, 1);
        assert_int_equal(part_of(&s, 2 * COUNT).index, 0);
    }
}

/* A refinement does not end with a part: one iteration with all follows, and one with a finer grid if the map deserves
 * it. Parts go on while the map gains, and until each has had its turn on the last grid. */
static void parts_end_in_iterations_with_all(void **state) {
    (void)state;
    for (int finer = 0; finer < 2; finer++) {
        struct settled s;
        begin_with(&s, 4 * COUNT);
        int whole = 0, last = 0;
        for (int i = 0; i < 40 && !s.schedule.converged; i++) {
            s.plan.part = part_of(&s, 4 * COUNT);
            s.findings.accuracy_angle = s.schedule.whole && finer ? 1.5 : 3;
            bool all = s.plan.part.of == 1;
            assert_true(s.plan.part.of == 4 || all);
            last += s.schedule.order == 4 && !all;
            if (s.schedule.order == 4 && last == 4)
                for (int shell = 0; shell < RESOLVED + 3; shell++) /* the map gains once more */
                    s.ssnr[shell] = 10;
            iterate(&s);
            whole += all;
        }
        assert_true(s.schedule.converged && s.schedule.whole);
        assert_int_equal(whole, finer ? 2 : 1);
        assert_int_equal(last, 5);
        assert_int_equal(s.schedule.order, finer ? 5 : 4); /* half of 3.7 degrees is less than 0.75 times 3 */
        struct schedule resumed = {.options = s.schedule.options};
        schedule_resume(&resumed, &s.schedule);
        assert_true(resumed.whole);
        assert_int_equal(resumed.turns, s.schedule.turns);
    }
}

/* After a refinement has ended with all particles, more may come. They get poses, and parts take turns again. */
static void new_particles_bring_parts_back(void **state) {
    (void)state;
    struct settled s;
    begin_with(&s, 2 * COUNT);
    s.schedule.whole = true;
    s.plan.aligned = false;
    s.plan.part = part_of(&s, 2 * COUNT);
    assert_int_equal(s.plan.part.of, 1);
    iterate(&s);
    assert_false(s.schedule.whole || s.schedule.converged);
    s.plan.aligned = true;
    assert_int_equal(part_of(&s, 2 * COUNT).of, 2);
}

/* Poses that grow more certain delay a finer grid, but not those of a part below a Pmax of 0.1. */
static void broad_poses_of_parts_do_not_delay_the_grid(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool parts = i & 1, broad = i & 2;
        struct settled s;
        begin_with(&s, 4 * COUNT);
        s.plan.part = (struct schedule_part){.of = parts ? 2 : 1};
        s.findings.accuracy_angle = 1;
        s.findings.average_pmax = broad ? 0.05 : 0.2;
        int count = 0;
        for (; s.schedule.order == FIRST_ORDER && count < 7; count++) {
            iterate(&s);
            s.findings.average_pmax *= 1.1;
        }
        if (parts && broad)
            assert_in_range(count, 1, 4);
        else
            assert_int_equal(count, 7);
    }
}

/* While data arrive, the grid gets no finer than the bound: the schedule stalls, and continues when the bound
 * is gone. */
static void stalls_below_the_bound(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    s.plan.max_order = FIRST_ORDER;
    for (int i = 0; i < 5; i++)
        iterate(&s);
    assert_true(s.schedule.stalled && !s.schedule.converged);
    assert_int_equal(s.schedule.order, FIRST_ORDER);
    s.plan.max_order = -1;
    assert_int_equal(settle(&s, 1), 1);
    assert_int_equal(s.schedule.order, FIRST_ORDER + 1);
}

/* Early iterations, with a map that shows no detail, compare only the coarse samples. Later iterations also compare the
 * children. */
static void children_wait_for_a_map(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    s.findings.average_pmax = 0.01;
    for (int i = 0; i < 4; i++) {
        iterate(&s);
        assert_true(s.schedule.oversampled == (i == 3));
    }
    s.findings.average_pmax = 0.05;
    s.plan.max_order = FIRST_ORDER;
    iterate(&s); /* the iteration before had 0.01 */
    assert_false(s.schedule.oversampled);
    iterate(&s);
    assert_true(s.schedule.oversampled);
}

/* A classification ends after a given number of iterations with all particles. A new particle restarts the count. */
static void a_classification_counts_whole_iterations(void **state) {
    (void)state;
    struct settled s;
    begin(&s);
    s.schedule.options.classifies = true;
    s.schedule.options.references = 2;
    s.schedule.options.iterations = 2;
    schedule_start(&s.schedule);
    s.findings.present = 2 * COUNT + 1;
    iterate(&s); /* one particle is missing */
    assert_int_equal(s.schedule.whole_iterations, 0);
    s.findings.present = 2 * COUNT;
    iterate(&s);
    assert_false(s.schedule.converged);
    s.findings.particles++, s.findings.present++;
    iterate(&s);
    assert_int_equal(s.schedule.whole_iterations, 1);
    assert_false(s.schedule.converged);
    iterate(&s);
    assert_true(s.schedule.converged);
    assert_int_equal(s.schedule.order, FIRST_ORDER);
    assert_true(s.schedule.oversampled);
}

static void begin_classes(struct settled *s, size_t present, int classes, int iterations) {
    begin_with(s, present);
    s->schedule.options.classifies = true;
    s->schedule.options.references = classes;
    s->schedule.options.iterations = iterations;
    schedule_start(&s->schedule);
    s->plan.aligned = false; /* which classes do not wait for */
}

/* Runs an iteration of a classification; returns into how many parts the particles were divided. */
static size_t classify_once(struct settled *s) {
    s->plan.part = part_of(s, s->findings.present);
    s->findings.particles = (int)(s->findings.present / s->plan.part.of);
    iterate(s);
    return s->plan.part.of;
}

/* The first 6 of 10 iterations compare parts in turn, the others all. A particle that joins begins parts anew. */
static void classes_compare_parts_first(void **state) {
    (void)state;
    struct settled s;
    begin_classes(&s, 4 * COUNT, 2, 10);
    for (int i = 0; i < 10; i++) {
        assert_false(s.schedule.converged);
        size_t of = classify_once(&s);
        assert_int_equal(of, i < 6 ? 4 : 1);
        assert_int_equal(s.plan.part.index, (size_t)i % of);
        assert_int_equal(s.schedule.whole_iterations, i + 1);
        struct schedule resumed = {.options = s.schedule.options};
        schedule_resume(&resumed, &s.schedule);
        assert_int_equal(schedule_part(&resumed, &s.plan, 4 * COUNT).of, part_of(&s, 4 * COUNT).of);
    }
    assert_true(s.schedule.converged);
    s.findings.present++;
    assert_int_equal(classify_once(&s), 1);
    assert_false(s.schedule.converged);
    assert_int_equal(s.schedule.whole_iterations, 1);
    assert_int_equal(classify_once(&s), 4);
}

/* A part has as many particles for each of many classes as for each of six. */
static void many_classes_take_larger_parts(void **state) {
    (void)state;
    static const int CLASSES[] = {2, 6, 12, 25};
    static const size_t OF[] = {4, 4, 2, 1};
    for (size_t i = 0; i < sizeof OF / sizeof *OF; i++) {
        struct settled s;
        begin_classes(&s, 4 * COUNT, CLASSES[i], 10);
        assert_int_equal(part_of(&s, 4 * COUNT).of, OF[i]);
        s.schedule.options.part_particles = 0;
        assert_int_equal(part_of(&s, 4 * COUNT).of, 1);
    }
}

static void live_iterations_wait_for_particles(void **state) {
    (void)state;
    struct schedule_live live = {0};
    assert_true(schedule_live_worth(&live, 100, false));
    schedule_live_after(&live, 100, 150, true, false);
    assert_false(live.settled); /* new particles have joined */
    assert_false(schedule_live_worth(&live, 109, false));
    assert_true(schedule_live_worth(&live, 111, false));
    assert_true(schedule_live_worth(&live, 100, true));
    schedule_live_after(&live, 160, 160, true, false);
    assert_false(schedule_live_worth(&live, 199, true));
    assert_true(schedule_live_worth(&live, 200, false));
    assert_int_equal(schedule_live_most(0), 300);
    assert_int_equal(schedule_live_most(4), 4800);
    assert_int_equal(schedule_live_most(5), 0);
    assert_int_equal(schedule_live_max_order(4, 2), 4);
    assert_int_equal(schedule_live_max_order(2, 3), 3);
}

/* At the end there is at least one iteration. The final one follows after convergence or max_iterations; a
 * classification has no final iteration. */
static void the_end_has_its_iterations(void **state) {
    (void)state;
    assert_int_equal(schedule_at_end(false, 0, 2, true), SCHEDULE_ITERATE);
    assert_int_equal(schedule_at_end(false, 1, 2, false), SCHEDULE_ITERATE);
    assert_int_equal(schedule_at_end(false, 1, 2, true), SCHEDULE_FINAL);
    assert_int_equal(schedule_at_end(false, 2, 2, false), SCHEDULE_FINAL);
    assert_int_equal(schedule_at_end(true, 2, 2, false), SCHEDULE_ITERATE);
    assert_int_equal(schedule_at_end(true, 1, 2, true), SCHEDULE_DONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_while_the_grid_is_coarse),
        cmocka_unit_test(stops_where_many_poses_fit_alike),
        cmocka_unit_test(stops_where_the_grid_is_fine),
        cmocka_unit_test(stops_at_the_finest_grid_there_is),
        cmocka_unit_test(does_not_stop_at_the_first_grid),
        cmocka_unit_test(searches_become_local),
        cmocka_unit_test(parts_take_turns),
        cmocka_unit_test(parts_wait_for_poses),
        cmocka_unit_test(parts_end_in_iterations_with_all),
        cmocka_unit_test(new_particles_bring_parts_back),
        cmocka_unit_test(broad_poses_of_parts_do_not_delay_the_grid),
        cmocka_unit_test(stalls_below_the_bound),
        cmocka_unit_test(children_wait_for_a_map),
        cmocka_unit_test(a_classification_counts_whole_iterations),
        cmocka_unit_test(classes_compare_parts_first),
        cmocka_unit_test(many_classes_take_larger_parts),
        cmocka_unit_test(live_iterations_wait_for_particles),
        cmocka_unit_test(the_end_has_its_iterations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
