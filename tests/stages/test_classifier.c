/* Classifies made-up particles of three shapes, turned, shifted and noisy: the shapes are separated, a stream ends
 * like a batch, a run continues from its snapshots, rules and tables are read. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"
#include "stages/classifier/snapshot.h"
#include "stages/classifier/snapshot_restore.h"
#include "tests/stages/shapes.h"

static void run(struct classifier *c, bool final, int most) {
    struct classifier_progress progress = {.more = true};
    for (int i = 0; progress.more && i < most; i++)
        OK(classifier_step(c, final, &progress, &err));
}

/* Returns the fraction of particles in a class where their shape is the most frequent, and the fraction of noise images
 * that are not kept. */
static void measure(struct classifier *c, double *ret_pure, double *ret_dropped) {
    int table[64][SHAPES + 1] = {{0}}, pure = 0, dropped = 0, shapes = 0, noise = 0;
    size_t count = dataset_count(c->dataset);
    for (size_t i = 0; i < count; i++)
        table[dataset_at(c->dataset, i)->class_index][shapes_truth(c->dataset, i)]++;
    for (size_t i = 0; i < count; i++) {
        int k = dataset_at(c->dataset, i)->class_index, shape = shapes_truth(c->dataset, i);
        bool most = true;
        for (int other = 0; other <= SHAPES; other++)
            most = most && table[k][other] <= table[k][shape];
        bool kept = k < c->model->class_count && c->model->classes[k].kept;
        if (shape < SHAPES)
            shapes++, pure += most && kept;
        else
            noise++, dropped += !kept;
    }
    *ret_pure = (double)pure / shapes;
    *ret_dropped = (double)dropped / noise;
}

/* Returns how well psi follows the true angles, in RELION's sense, in the worst of the larger classes of the shape
 * without symmetry; 1: perfectly. */
static double angular_agreement(struct classifier *c) {
    double least = 1;
    for (int k = 0; k < c->model->class_count; k++) {
        double x = 0, y = 0, count = 0;
        for (size_t i = 0; i < COUNT; i++) {
            const struct dataset_particle *p = dataset_at(c->dataset, i);
            if (p->class_index != k || shapes_truth(c->dataset, i) != 2) continue;
            double sum = p->psi * M_PI / 180 + angles[i];
            x += cos(sum), y += sin(sum), count++;
        }
        if (count >= 20) least = fmin(least, hypot(x, y) / count);
    }
    return least;
}

static void shapes_are_told_apart(void **state) {
    (void)state;
    struct dataset *dataset = NULL;
    struct classifier c;
    double pure, dropped;
    OK(dataset_create(1 << 24, &dataset, &err));
    for (int part = 0; part < PARTS; part++)
        submit(dataset, part);
    struct classifier_options o = options_of(8);
    classifier_init(&c, &o, dataset);
    run(&c, true, 10000);
    OK(quality_judge(c.model, dataset, &o.rule, &err));
    measure(&c, &pure, &dropped);
    printf("batch: %.3f pure and kept, %.3f of the noise dropped, %d updates\n", pure, dropped, c.updates);
    assert_true(pure >= 0.9);
    double agreement = angular_agreement(&c);
    printf("angles agree to %.3f\n", agreement);
    assert_true(agreement >= 0.7);
    assert_true(dropped >= 0.7);
    classifier_clear(&c);
    dataset_destroy(&dataset);
}

/* Particles come during the work, and their images do not fit into memory. */
static void a_stream_ends_like_a_batch(void **state) {
    (void)state;
    struct dataset *dataset = NULL;
    struct classifier c;
    double pure, dropped;
    OK(dataset_create(BOX * BOX * 4 * 20, &dataset, &err));
    struct classifier_options o = options_of(8);
    classifier_init(&c, &o, dataset);
    for (int part = 0; part < PARTS; part++) {
        submit(dataset, part);
        run(&c, false, part == 0 ? 10000 : 7);
        if (part == 0) {
            assert_non_null(c.model);
            assert_true(c.visits >= 5.0 * COUNT / PARTS && c.visits < 5.0 * COUNT / PARTS + 200);
        }
    }
    run(&c, true, 10000);
    assert_int_equal(dataset_count(dataset), COUNT);
    OK(quality_judge(c.model, dataset, &o.rule, &err));
    measure(&c, &pure, &dropped);
    printf("stream: %.3f pure and kept, %.3f of the noise dropped\n", pure, dropped);
    assert_true(pure >= 0.85);
    assert_true(dropped >= 0.7);
    classifier_clear(&c);
    dataset_destroy(&dataset);
}

static void a_state_is_taken_up_again(void **state) {
    (void)state;
    struct dataset *dataset = NULL;
    struct classifier c, again;
    bool final = false;
    OK(dataset_create(1 << 24, &dataset, &err));
    for (int part = 0; part < PARTS; part++)
        submit(dataset, part);
    struct classifier_options o = options_of(8);
    classifier_init(&c, &o, dataset);
    run(&c, true, 10000);
    struct snapshot nearer = {.folder = folder, .relative = "classifier", .iteration = 7}, s = nearer;
    c.options.off_centre = 2 * c.model->options.pixel_size; /* of shifts of up to 4 px */
    OK(snapshot_write(&c, &nearer, &err));
    c.options.off_centre = NAN;
    s.final = true;
    OK(snapshot_write(&c, &s, &err));
    OK(snapshot_history(&c, &s, &err));
    assert_int_equal(snapshot_last(folder, INT_MAX), 7);
    assert_true(s.kept > 150);
    assert_true(nearer.kept > 0 && nearer.kept < s.kept);
    struct dataset *second = NULL;
    OK(dataset_create(1 << 24, &second, &err));
    for (int part = PARTS - 1; part >= 0; part--) /* in another order: names count */
        submit(second, part);
    classifier_init(&again, &o, second);
    OK(dataset_merge(second, NULL, &err));
    OK(classifier_start(&again, &err));
    OK(snapshot_restore(&again, &s, &final, &err));
    assert_true(final);
    assert_int_equal(dataset_count(second), COUNT);
    assert_int_equal(again.model->class_count, c.model->class_count);
    size_t offset = COUNT - COUNT / PARTS; /* the first part of `dataset` is the last of `second` */
    for (size_t i = 0; i < COUNT / PARTS; i++) {
        const struct dataset_particle *a = dataset_at(dataset, i), *b = dataset_at(second, offset + i);
        assert_int_equal(a->class_index, b->class_index);
        assert_true(fabsf(a->x - b->x) < 1e-4f && fabsf(a->psi - b->psi) < 1e-3f);
    }
    /* Without new particles no visits are due, and the final passes change hardly any class. */
    struct classifier_progress progress;
    OK(classifier_step(&again, false, &progress, &err));
    assert_false(progress.more);
    /* Images that are away for a while are read again. */
    char stack[PATH_MAX], away[PATH_MAX];
    snprintf(stack, sizeof stack, "%.200s/part1.mrcs", folder);
    snprintf(away, sizeof away, "%.200s/away", folder);
    assert_int_equal(rename(stack, away), 0);
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(classifier_step(&again, true, &progress, NULL), STATUS_OK);
    assert_int_equal(rename(away, stack), 0);
    run(&again, true, 10000);
    int moved = 0;
    for (size_t i = 0; i < COUNT / PARTS; i++)
        moved += dataset_at(dataset, i)->class_index != dataset_at(second, offset + i)->class_index;
    printf("restored: %d of %d particles moved\n", moved, COUNT / PARTS);
    assert_true(moved <= COUNT / PARTS / 5);
    snapshot_remove(&s, 7, false);
    assert_int_equal(snapshot_last(folder, INT_MAX), 0);
    classifier_clear(&again);
    classifier_clear(&c);
    dataset_destroy(&second);
    dataset_destroy(&dataset);
}

static void run_stage(struct item *const *items, size_t count) {
    char ledger[PATH_MAX];
    const char *const parameters[] = {"classes", "6", "diameter",     "100", "threads", "2",
                                      "visits",  "2", "final_passes", "2",   NULL};
    struct stage_results results = {0};
    snprintf(ledger, sizeof ledger, "%.200s/classifier.sqlite", folder);
    OK(stage_run_results(&classifier_stage, folder, ledger, parameters, items, count, &results, &err));
    for (size_t i = 0; i < results.outcome_count; i++)
        assert_int_equal(results.outcomes[i].state, LEDGER_DONE);
    stage_results_clear(&results);
}

static void path_of(char path[PATH_MAX], int iteration, const char *part) {
    snprintf(path, PATH_MAX, "%.200s/classifier/run_it%03d_%s", folder, iteration, part);
}

static size_t classified_in(int iteration) {
    char path[PATH_MAX];
    struct star_file *file = NULL;
    path_of(path, iteration, "data.star");
    OK(star_read(path, &file, &err));
    size_t rows = star_row_count(star_table_find(file, "particles"));
    star_destroy(&file);
    return rows;
}

/* The links lead to the files of the last snapshot, by names without a folder. */
static void assert_latest(int iteration) {
    static const char *const links[] = {"latest_classes.mrcs", "latest_classes.png", "latest_selected.star"};
    for (int i = 0; i < 3; i++) {
        char path[PATH_MAX], target[64], found[256] = {0};
        snprintf(path, sizeof path, "%.200s/classifier/%s", folder, links[i]);
        snprintf(target, sizeof target, "run_it%03d_classes.%s", iteration, i == 0 ? "mrcs" : "png");
        if (i == 2) snprintf(target, sizeof target, "selected_it%03d.star", iteration);
        assert_true(readlink(path, found, sizeof found - 1) > 0);
        assert_string_equal(found, target);
        assert_true(file_exists(path));
    }
}

/* Below each average stand its number and members, its share and its resolution. */
static void assert_described(int iteration) {
    enum { SIDE = 160, LEAST_LETTERS = 200 };
    char path[PATH_MAX];
    struct image image = {0};
    path_of(path, iteration, "classes.png");
    OK(image_read(path, &image, &err));
    assert_true(image.nx >= 2 * SIDE);
    int bright[2] = {0, 0};
    for (int line = 0; line < 2; line++)
        for (int y = 0; y < 14; y++) /* px of a letter; the first class is kept, so its text is bright */
            for (int x = 0; x < SIDE; x++) {
                int row = SIDE + 12 + 20 * line + y;
                bright[line] += image.data[row * image.nx + x] > 200;
            }
    assert_true(bright[0] > LEAST_LETTERS && bright[1] > LEAST_LETTERS);
    image_destroy(&image);
}

/* Runs the stage in a session. If files of the last snapshot are broken, the stage continues from the one before, and
 * without any it begins anew. All particles are there each time. */
static void broken_snapshots_are_passed_over(void **state) {
    (void)state;
    static const char *const parts[] = {"classes.mrcs", "data.star", "model.star"};
    struct item *items[PARTS];
    char path[PATH_MAX], own[PATH_MAX];
    for (int part = 0; part < PARTS; part++) {
        snprintf(path, sizeof path, "part%d", part);
        OK(item_create(path, "particles", &items[part], &err));
        snprintf(path, sizeof path, "part%d.star", part);
        OK(item_set_string(items[part], "particles.star", path, &err));
    }
    run_stage(items, 2);
    snprintf(own, sizeof own, "%.200s/classifier", folder);
    int first = snapshot_last(own, INT_MAX);
    assert_true(first > 0);
    run_stage(items + 2, 1);
    int last = snapshot_last(own, INT_MAX);
    assert_true(last > first);
    assert_latest(last);
    assert_described(last);
    for (int i = 0; i < 3; i++) {
        path_of(path, last, parts[i]);
        assert_int_equal(truncate(path, 700), 0);
        run_stage(NULL, 0);
        int next = snapshot_last(own, INT_MAX);
        assert_int_equal(next, last + 1);
        assert_int_equal(classified_in(next), COUNT);
        assert_latest(next);
        last = next;
    }
    for (int i = last; i > 0; i = snapshot_last(own, i)) {
        path_of(path, i, "model.star");
        assert_int_equal(truncate(path, 0), 0);
    }
    run_stage(NULL, 0);
    assert_int_equal(snapshot_last(own, INT_MAX), last + 1);
    assert_int_equal(classified_in(last + 1), COUNT);
    for (int part = 0; part < PARTS; part++)
        item_destroy(&items[part]);
}

/* Broken images of a table do not change how the rest is classified. */
static void broken_images_spoil_nothing(void **state) {
    (void)state;
    char path[PATH_MAX], text[4096] = "data_particles\n\nloop_\n_rlnImageName #1\n_rlnImagePixelSize #2\n_truth #3\n";
    struct image image = {0};
    enum { BROKEN = 5 };
    OK(image_resize(&image, BOX, BOX, BROKEN, &err));
    image.pixel_size = 4;
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = (float)(i % 7) - 3;
    for (int i = 0; i < BOX * BOX; i++) /* finite, but */
        image.data[4 * BOX * BOX + i] *= 1e9f;
    image.data[5] = NAN;
    image.data[BOX * BOX + 5] = INFINITY;
    image.data[2 * BOX * BOX + 5] = 1e30f;
    image.data[3 * BOX * BOX + 5] = -INFINITY;
    for (int i = 0; i < BROKEN; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%06d@broken.mrcs 4 %d\n", i + 1, SHAPES);
    strcat(text, "\n");
    snprintf(path, sizeof path, "%.200s/broken.mrcs", folder);
    OK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
    snprintf(path, sizeof path, "%.200s/broken.star", folder);
    OK(file_write_whole(path, text, strlen(text), &err));
    struct dataset *dataset = NULL;
    struct dataset_batch *batch = NULL;
    struct classifier c;
    double pure, dropped;
    OK(dataset_create(BOX * BOX * 4 * 100, &dataset, &err));
    OK(dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err));
    OK(dataset_submit(dataset, &batch, &err));
    for (int part = 0; part < PARTS; part++)
        submit(dataset, part);
    struct classifier_options o = options_of(8);
    classifier_init(&c, &o, dataset);
    run(&c, true, 10000);
    struct snapshot s = {.folder = folder, .relative = "classifier", .iteration = 9, .final = true};
    OK(snapshot_write(&c, &s, &err));
    measure(&c, &pure, &dropped);
    printf("with broken images: %.3f pure and kept, %.3f of the noise dropped\n", pure, dropped);
    assert_true(pure >= 0.9);
    for (size_t i = 0; i < BROKEN; i++)
        assert_int_equal(dataset_at(dataset, i)->class_index, c.model->class_count);
    snapshot_remove(&s, 9, false);
    classifier_clear(&c);
    dataset_destroy(&dataset);
}

/* A stream that ends early, even with one particle, is still classified. */
static void write_stack(const char *path, int count) {
    struct image image = {0};
    OK(image_resize(&image, BOX, BOX, count, &err));
    image.pixel_size = 4;
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = (float)(i % 7) - 3;
    OK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
}

/* A micrograph that is made again has another stack under the same name before its item comes: the stage's value is not
 * to blame, so that it may start again. */
static void another_stack_is_no_wrong_value(void **state) {
    (void)state;
    char stack[PATH_MAX], path[PATH_MAX];
    const char text[] = "data_particles\n\nloop_\n_rlnImageName #1\n_rlnImagePixelSize #2\n000001@again.mrcs 4\n"
                        "000002@again.mrcs 4\n000003@again.mrcs 4\n\n";
    static float scratch[BOX * BOX];
    struct err refusal = {0};
    const float *image = NULL;
    struct dataset *dataset = NULL;
    struct dataset_batch *batch = NULL;
    snprintf(stack, sizeof stack, "%.200s/again.mrcs", folder);
    snprintf(path, sizeof path, "%.200s/again.star", folder);
    write_stack(stack, 3);
    OK(file_write_whole(path, text, strlen(text), &err));
    OK(dataset_create(1, &dataset, &err));
    OK(dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err));
    OK(dataset_submit(dataset, &batch, &err));
    OK(dataset_merge(dataset, NULL, &err));
    write_stack(stack, 1);
    OK(dataset_image(dataset, 0, scratch, &image, &err));
    assert_int_equal(dataset_image(dataset, 2, scratch, &image, &refusal), STATUS_BAD_FORMAT);
    assert_non_null(strstr(refusal.message, "has 1 images, image 3 was asked for: another file has taken its place"));
    dataset_destroy(&dataset);
}

/* Where there is no memory for what the second batch needs, the first has been taken over and the second still waits:
 * nothing is lost or freed twice, and the same call goes on later. */
static void batches_have_one_owner_after_an_error(void **state) {
    (void)state;
    struct dataset *dataset = NULL;
    struct err refusal = {0};
    char star[PATH_MAX];
    snprintf(star, sizeof star, "%.200s/part1.star", folder);
    for (int again = 0; again < 2; again++) {
        OK(dataset_create(1, &dataset, &err));
        submit(dataset, 0);
        struct dataset_batch *batch = NULL;
        OK(dataset_batch_read(star, resolve, NULL, NAN, false, &batch, &err));
        struct dataset_batch *waiting = batch;
        OK(dataset_submit(dataset, &batch, &err));
        const int ways = waiting->ways.count;
        const size_t expected = waiting->count;
        waiting->ways.count = -1; /* more than there is memory for */
        assert_int_equal(dataset_merge(dataset, NULL, &refusal), STATUS_NO_MEMORY);
        const size_t first = dataset_count(dataset);
        waiting->ways.count = ways;
        if (again == 1) {
            OK(dataset_merge(dataset, NULL, &err));
            assert_int_equal(dataset_count(dataset), first + expected);
        }
        dataset_destroy(&dataset);
        assert_true(first > 0);
    }
}

static void few_particles_are_enough(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 23};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        char path[PATH_MAX], text[4096] = "data_particles\n\nloop_\n_rlnImageName #1\n_rlnImagePixelSize #2\n";
        for (int i = 0; i < counts[n]; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%06d@part0.mrcs 4\n", i + 1);
        strcat(text, "\n");
        snprintf(path, sizeof path, "%.200s/few.star", folder);
        OK(file_write_whole(path, text, strlen(text), &err));
        struct dataset *dataset = NULL;
        struct dataset_batch *batch = NULL;
        struct classifier c;
        OK(dataset_create(1 << 24, &dataset, &err));
        OK(dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err));
        OK(dataset_submit(dataset, &batch, &err));
        struct classifier_options o = options_of(8);
        classifier_init(&c, &o, dataset);
        run(&c, false, 100);
        assert_null(c.model);
        run(&c, true, 10000);
        assert_non_null(c.model);
        struct snapshot s = {.folder = folder, .relative = "classifier", .iteration = 9, .final = true};
        OK(snapshot_write(&c, &s, &err));
        OK(snapshot_history(&c, &s, &err));
        assert_true(s.kept <= (size_t)counts[n]);
        snapshot_remove(&s, 9, false);
        classifier_clear(&c);
        dataset_destroy(&dataset);
    }
}

/* Tries one class, three classes (none is empty), and more classes than a batch has particles of a half. */
static void any_number_of_classes(void **state) {
    (void)state;
    static const int classes[] = {1, 3, 100};
    for (int n = 0; n < 3; n++) {
        struct dataset *dataset = NULL;
        struct classifier c;
        OK(dataset_create(1 << 24, &dataset, &err));
        for (int part = 0; part < PARTS; part++)
            submit(dataset, part);
        struct classifier_options o = options_of(classes[n]);
        o.particles_per_class = 1;
        o.visits = 2;
        classifier_init(&c, &o, dataset);
        run(&c, true, 10000);
        int real = classes[n] < 4 ? classes[n] : classes[n] - 1, empty = 0;
        double weight = c.model->empty_weight;
        assert_int_equal(c.model->class_count, real);
        for (int k = 0; k < real; k++) {
            weight += c.model->classes[k].weight[0] + c.model->classes[k].weight[1];
            for (int i = 0; i < BOX * BOX; i++)
                assert_true(isfinite(c.model->classes[k].map[i]));
        }
        for (size_t i = 0; i < COUNT; i++)
            empty += dataset_at(dataset, i)->class_index == real;
        print_message("%d classes: weights of %.1f, %d particles of nothing\n", real, weight, empty);
        assert_true(fabs(weight - COUNT) < 0.01 * COUNT);
        assert_true(classes[n] >= 4 || empty == 0);
        classifier_clear(&c);
        dataset_destroy(&dataset);
    }
}

/* With little memory, fewer particles are compared at a time when averages become finer. */
static void batches_become_smaller(void **state) {
    (void)state;
    struct dataset *dataset = NULL;
    struct classifier c;
    OK(dataset_create(1 << 24, &dataset, &err));
    for (int part = 0; part < PARTS; part++)
        submit(dataset, part);
    struct classifier_options o = options_of(8);
    o.memory = 3.0 / 1024;
    classifier_init(&c, &o, dataset);
    run(&c, false, 2); /* of the first batch something is compared */
    int first = c.model->size;
    run(&c, true, 10000);
    print_message("size %d, and %d in the end\n", first, c.model->size);
    assert_true(c.model->size > first);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(dataset_at(dataset, i)->class_index >= 0);
    classifier_clear(&c);
    dataset_destroy(&dataset);
}

/* On the CPU, memory that is not stated is 4 GiB. */
static void memory_that_is_auto_changes_nothing(void **state) {
    (void)state;
    static const double memory[] = {4, NAN};
    static float maps[2][BOX * BOX];
    for (int i = 0; i < 2; i++) {
        struct dataset *dataset = NULL;
        struct classifier c;
        OK(dataset_create(1 << 24, &dataset, &err));
        submit(dataset, 0);
        struct classifier_options o = options_of(3);
        o.memory = memory[i];
        classifier_init(&c, &o, dataset);
        run(&c, true, 10000);
        memcpy(maps[i], c.model->classes[0].map, sizeof maps[i]);
        assert_memory_equal(maps[i], maps[0], sizeof maps[i]);
        classifier_clear(&c);
        dataset_destroy(&dataset);
    }
}

/* Images in memory never take what the classes need, however little memory there is. */
static void images_leave_room_for_classes(void **state) {
    (void)state;
    struct model *m = NULL;
    const struct model_options options = {
        .box = 360, .max_size = 360, .pixel_size = 1, .class_capacity = 200, .mask_radius = 150, .threads = 1};
    OK(model_create(&options, &m, &err));
    double classes = 200.0 * (double)(accumulator_bytes(2, 360) + projector_bytes(2, 360)), none = 0;
    for (double memory = 1e8; memory < 1e12; memory *= 1.3) {
        double images = (double)estep_image_bytes(memory, m);
        if (images + classes > memory && images > 0)
            fail_msg("images take %g of %g bytes, classes need %g", images, memory, classes);
        if (images > memory / 4) fail_msg("images take %g of %g bytes", images, memory);
        if (images == 0) none = memory;
        if (memory > 4 * classes) assert_true(images > memory / 6);
    }
    assert_true(none > 0 && none < 2 * classes);
    model_destroy(&m);
}

static void rules_are_read(void **state) {
    (void)state;
    struct quality_rule rule;
    OK(quality_rule_parse("all", &rule, &err));
    assert_int_equal(rule.count, 0);
    OK(quality_rule_parse(" quality>=0.25 and resolution < 20.5 and members > 9", &rule, &err));
    assert_int_equal(rule.count, 3);
    assert_true(rule.terms[1].value == 20.5);
    const char *const bad[] = {
        "quality",        "quality >= ",      "quality >= x", "sharpness > 1", "quality > 1 or members > 2",
        "quality >= nan", "quality > 0.1 and"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {0};
        assert_int_equal(quality_rule_parse(bad[i], &rule, &err), STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(err.message, bad[i]));
    }
}

static void bad_tables_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *rows, *expected;
        const char *optics, *column; /* NULL: none */
    } cases[] = {
        {"000001@nowhere.mrcs 1\n", "nowhere.mrcs"},
        {"part0.mrcs 1\n", "NNNNNN@stack.mrcs"},
        {"000999@part0.mrcs 1\n", "999"},
        {"0@part0.mrcs 1\n", "NNNNNN@stack.mrcs"},
        {"1@odd.mrcs 1\n", "box must be even"},
        {"1@part0.mrcs 1 1e99\n", "row 1: its CTF", NULL, "rlnDefocusU"},
        {"1@part0.mrcs 1 inf\n", "row 1: rlnDefocusU is \"inf\"; a number", NULL, "rlnDefocusU"},
        {"1@part0.mrcs 1 12\n2@part0.mrcs 1 many\n", "row 2: rlnDefocusU is \"many\"; a number", NULL, "rlnDefocusU"},
        {"1@part0.mrcs 1 -1e6\n", "row 1: its CTF", NULL, "rlnCtfBfactor"},
        {"1@part0.mrcs 1\n", "row 1: its CTF", "1 4 0", NULL},
        {"1@part0.mrcs 7\n", "row 1 is of optics group 7", "1 4 300", NULL},
        {"1@part0.mrcs 1\n", "rlnImagePixelSize is \"small\"; a number", "1 small 300", NULL},
        {"1@part0.mrcs 1 0\n2@part0.mrcs 1 1\n", "multiplied by their CTF", NULL, "rlnCtfDataAreCtfPremultiplied"},
        {"1@part0.mrcs 1 much\n", "rlnBeamTiltX is \"much\"; a number", NULL, "rlnBeamTiltX"},
    };
    char path[PATH_MAX];
    struct image odd = {0};
    OK(image_resize(&odd, 17, 17, 1, &err));
    snprintf(path, sizeof path, "%.200s/odd.mrcs", folder);
    OK(mrc_write(path, &odd, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&odd);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char star[PATH_MAX], text[1024] = "";
        struct dataset_batch *batch = NULL;
        if (cases[i].optics != NULL)
            snprintf(text, sizeof text,
                     "data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnVoltage\n%s\n\n", cases[i].optics);
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length,
                 "data_particles\n\nloop_\n_rlnImageName\n_rlnOpticsGroup\n%s%s\n%s\n",
                 cases[i].column != NULL ? "_" : "", cases[i].column != NULL ? cases[i].column : "", cases[i].rows);
        snprintf(star, sizeof star, "%.200s/bad.star", folder);
        OK(file_write_whole(star, text, strlen(text), &err));
        struct err err = {0};
        assert_int_not_equal(dataset_batch_read(star, resolve, NULL, NAN, false, &batch, &err), STATUS_OK);
        if (strstr(err.message, cases[i].expected) == NULL) fail_msg("'%s', not '%s'", err.message, cases[i].expected);
        assert_null(batch);
    }
}

/* The pixel size comes from the table, else from the session, else from the header of the stack (4 Å/px). */
static void pixel_sizes_are_found(void **state) {
    (void)state;
    static const struct {
        const char *columns, *values;
        double session, expected;
    } cases[] = {
        {"", "", NAN, 4},
        {"", "", 3, 3},
        {"_rlnImagePixelSize\n", "2.5", 3, 2.5},
        {"_rlnMagnification\n_rlnDetectorPixelSize\n", "20000 5", 3, 2.5}, /* RELION 3.0: µm */
        {"_rlnMagnification\n", "20000", NAN, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char star[PATH_MAX], text[512];
        struct dataset_batch *batch = NULL;
        snprintf(text, sizeof text, "data_\n\nloop_\n_rlnImageName\n%s000001@part0.mrcs %s\n\n", cases[i].columns,
                 cases[i].values);
        snprintf(star, sizeof star, "%.200s/sizes.star", folder);
        OK(file_write_whole(star, text, strlen(text), &err));
        OK(dataset_batch_read(star, resolve, NULL, cases[i].session, false, &batch, &err));
        assert_true(fabs(batch->particles[0].pixel_size - cases[i].expected) < 1e-9);
        dataset_batch_destroy(&batch);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_told_apart),
        cmocka_unit_test(a_stream_ends_like_a_batch),
        cmocka_unit_test(a_state_is_taken_up_again),
        cmocka_unit_test(any_number_of_classes),
        cmocka_unit_test(rules_are_read),
        cmocka_unit_test(images_leave_room_for_classes),
        cmocka_unit_test(broken_images_spoil_nothing),
        cmocka_unit_test(another_stack_is_no_wrong_value),
        cmocka_unit_test(batches_have_one_owner_after_an_error),
        cmocka_unit_test(few_particles_are_enough),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(pixel_sizes_are_found),
        cmocka_unit_test(batches_become_smaller),
        cmocka_unit_test(memory_that_is_auto_changes_nothing),
        cmocka_unit_test(broken_snapshots_are_passed_over),
    };
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
