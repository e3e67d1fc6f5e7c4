/* Class averages become templates: good ones, each once whatever its turn or mirror image, centred and normalised. They
 * are written once two snapshots agree, and not again while they stay the same. */
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
#include "stages/classifier/class_templates.h"
#include "stages/classifier/template_writer.h"

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct err err = {0};                                                                                          \
        if ((call) != STATUS_OK) fail_msg("%s:%d: %s", err.file, err.line, err.message);                               \
    } while (0)

enum { BOX = 64, SIDE = BOX * BOX, CLASSES = 24 };
static const double PIXEL = 4, RADIUS = 24;

/* Blobs of each shape: (x, y) in px. No turn or mirror image of one shape is another. */
static const double BLOBS[][4][2] = {
    {{-12, 0}, {0, 0}, {12, 0}, {0, 0}},   {{-9, -9}, {9, -9}, {9, 9}, {-9, 9}},   {{0, 0}, {0, 0}, {0, 0}, {0, 0}},
    {{-12, 6}, {0, -10}, {12, 6}, {0, 0}}, {{-14, -3}, {-5, 3}, {5, -3}, {14, 3}}, {{-8, 0}, {8, 0}, {-8, 1}, {8, -1}},
};
enum { SHAPES = sizeof BLOBS / sizeof *BLOBS };

static struct model *model;

/* Draws a shape into a class that could not be better; angle in °. */
static struct model_class *draw(int index, int shape, double angle, bool mirror, double dx, double dy) {
    OK(model_set_map(model, index, 0, &err)); /* makes its memory */
    struct model_class *class = &model->classes[index];
    double c = cos(angle * M_PI / 180), s = sin(angle * M_PI / 180);
    for (int i = 0; i < SIDE; i++) {
        double value = 0;
        for (int b = 0; b < 4; b++) {
            double bx = mirror ? -BLOBS[shape][b][0] : BLOBS[shape][b][0], by = BLOBS[shape][b][1];
            double x = i % BOX - BOX / 2 - dx - (c * bx - s * by), y = i / BOX - BOX / 2 - dy - (s * bx + c * by);
            value += exp(-(x * x + y * y) / (2 * 3.5 * 3.5));
        }
        class->map[i] = (float)value;
    }
    for (int s2 = 0; s2 <= BOX / 2; s2++)
        class->fsc[s2] = 1;
    class->kept = true;
    class->members = 100;
    class->quality = 1 - 0.01 * index;
    if (model->class_count <= index) model->class_count = index + 1;
    return class;
}

static int begin(void **state) {
    (void)state;
    const struct model_options options = {.box = BOX,
                                          .max_size = BOX,
                                          .pixel_size = PIXEL,
                                          .class_capacity = CLASSES,
                                          .mask_radius = RADIUS,
                                          .tau_fudge = 2,
                                          .threads = 1};
    OK(model_create(&options, &model, &err));
    model->size = BOX;
    model->class_count = 0;
    return 0;
}

static int end(void **state) {
    (void)state;
    model_destroy(&model);
    return 0;
}

static void draw_all(void) {
    for (int i = 0; i < SHAPES; i++)
        draw(i, i, 37 * i, false, 0, 0);
}

static void chooses_each_once(void **state) {
    (void)state;
    struct class_templates t = {0};
    draw_all();
    model->classes[2].quality = 1.5; /* the best comes first */
    draw(6, 3, 200, false, 0, 0);    /* turned */
    draw(7, 4, 80, true, 0, 0);      /* mirrored */
    draw(8, 1, 10, false, 0.7, -1);  /* moved */
    OK(class_templates_choose(model, &t, &err));
    assert_int_equal(t.images.nz, SHAPES);
    const int expected[SHAPES] = {2, 0, 1, 3, 4, 5};
    for (int i = 0; i < SHAPES; i++)
        assert_int_equal(t.classes[i], expected[i]);
    class_templates_clear(&t);
}

static void leaves_poor_ones_out(void **state) {
    (void)state;
    struct class_templates t = {0};
    draw_all();
    model->classes[0].kept = false;
    model->classes[1].quality = 0.4;
    OK(class_templates_choose(model, &t, &err));
    assert_int_equal(t.images.nz, 4);
    class_templates_clear(&t);
    /* 256 Å / 5 is coarser than a template may be, and a shell that does not agree alone ends nothing. */
    for (int s = 6; s <= BOX / 2; s++)
        model->classes[2].fsc[s] = 0;
    model->classes[3].fsc[6] = 0;
    draw(6, 0, 0, false, 0, 0);
    OK(class_templates_choose(model, &t, &err));
    assert_int_equal(t.images.nz, 4);
    assert_int_equal(t.classes[0], 3);
    class_templates_clear(&t);
    /* Few members are chance. */
    model->classes[6].members = 40;
    OK(class_templates_choose(model, &t, &err));
    assert_int_equal(t.images.nz, 0); /* three are too few */
    assert_null(t.images.data);
    model->classes[6].members = 100;
    /* A neighbour makes a class of its own, which is no view. */
    struct model_class *class = draw(7, 2, 0, false, 0, 0);
    for (int i = 0; i < SIDE; i++)
        class->map[i] +=
            3 * (float)exp(-(pow(i % BOX - BOX / 2 - 20, 2) + pow(i / BOX - BOX / 2, 2)) / (2 * 2.5 * 2.5));
    OK(class_templates_choose(model, &t, &err));
    for (int i = 0; i < t.images.nz; i++)
        assert_int_not_equal(t.classes[i], 7);
    class_templates_clear(&t);
    /* 6 px are beyond a tenth of the mask's diameter. */
    draw(6, 0, 0, false, 6, 0);
    OK(class_templates_choose(model, &t, &err));
    assert_int_equal(t.images.nz, 0); /* three are too few */
    assert_null(t.images.data);
}

/* Adds blobs to a class, to both sides of its middle: it stays centred. */
static void add_pairs(struct model_class *class, const double *distances, int count, double height) {
    for (int k = 0; k < 2 * count; k++)
        for (int i = 0; i < SIDE; i++) {
            double at = k % 2 == 0 ? distances[k / 2] : -distances[k / 2];
            class->map[i] +=
                (float)(height * exp(-(pow(i % BOX - BOX / 2 - at, 2) + pow(i / BOX - BOX / 2, 2)) / (2 * 3.0 * 3.0)));
        }
}

static bool is_chosen(int class_index) {
    struct class_templates t = {0};
    bool chosen = false;
    OK(class_templates_choose(model, &t, &err));
    assert_true(t.images.nz >= SHAPES);
    for (int i = 0; i < t.images.nz; i++)
        chosen = chosen || t.classes[i] == class_index;
    class_templates_clear(&t);
    return chosen;
}

/* A class with neighbours to both sides is centred, and no view. A long particle reaches as far, without a gap. */
static void neighbours_are_told_from_long_particles(void **state) {
    (void)state;
    static const double beside[] = {20}, along[] = {5, 10, 15, 20};
    draw_all();
    add_pairs(draw(SHAPES, 2, 0, false, 0, 0), beside, 1, 3);
    add_pairs(draw(SHAPES + 1, 2, 0, false, 0, 0), along, 4, 3);
    assert_false(is_chosen(SHAPES));
    assert_true(is_chosen(SHAPES + 1));
}

/* Darkens a class beside its middle, in a direction in °. */
static void darken(struct model_class *class, double angle) {
    double cx = BOX / 2 + 21 * cos(angle * M_PI / 180), cy = BOX / 2 + 21 * sin(angle * M_PI / 180);
    for (int i = 0; i < SIDE; i++)
        class->map[i] -= (float)(1.2 * exp(-(pow(i % BOX - cx, 2) + pow(i / BOX - cy, 2)) / (2 * 5.0 * 5.0)));
}

/* A class with one dark side is an edge or a gradient. A particle in a dark ring, as of its CTF, is a view. */
static void dark_sides_are_told_from_dark_rings(void **state) {
    (void)state;
    draw_all();
    struct model_class *side = draw(SHAPES, 5, 0, false, 0, 0);
    side->quality = 2; /* before its like */
    assert_true(is_chosen(SHAPES));
    darken(side, 90);
    assert_false(is_chosen(SHAPES));
    side = draw(SHAPES, 5, 0, false, 0, 0);
    side->quality = 2;
    for (int k = 0; k < 12; k++)
        darken(side, 30 * k);
    assert_true(is_chosen(SHAPES));
}

/* The class with the most members stands for those that are alike and of the same quality. */
static void many_members_come_first(void **state) {
    (void)state;
    draw_all();
    model->classes[1].quality = 1;
    draw(SHAPES, 1, 80, false, 0, 0)->quality = 1;
    assert_false(is_chosen(SHAPES));
    model->classes[SHAPES].members = 101;
    assert_true(is_chosen(SHAPES));
    assert_false(is_chosen(1));
}

static void images_are_as_promised(void **state) {
    (void)state;
    struct class_templates t = {0};
    draw_all();
    draw(0, 3, 0, false, 2, 3);
    for (int i = 0; i < SIDE; i++) /* detail beyond 20 Å */
        model->classes[0].map[i] = 100 * model->classes[0].map[i] + 7 + (i % 2 == 0 ? 20 : -20);
    OK(class_templates_choose(model, &t, &err));
    double sum = 0, squares = 0, pixels = 0, x = 0, y = 0, weight = 0, outside = 0;
    for (int i = 0; i < SIDE; i++) {
        double dx = i % BOX - BOX / 2, dy = i / BOX - BOX / 2, value = t.images.data[i];
        if (hypot(dx, dy) >= RADIUS) {
            outside += fabs(value);
            continue;
        }
        pixels++;
        sum += value;
        squares += value * value;
        weight += fmax(value, 0);
        x += fmax(value, 0) * dx;
        y += fmax(value, 0) * dy;
    }
    assert_true(outside == 0);
    assert_true(fabs(sum / pixels) < 0.05);
    assert_true(squares / pixels > 0.75 && squares / pixels < 1.05);
    assert_true(hypot(x, y) / weight < 0.5);
    /* A sample beside another differs little: stripes of one pixel are gone. */
    double rough = 0;
    for (int i = BOX / 2 * BOX + 15; i < BOX / 2 * BOX + 48; i++)
        rough = fmax(rough, fabs(t.images.data[i] - 0.5 * (t.images.data[i - 1] + t.images.data[i + 1])));
    assert_true(rough < 0.2);
    class_templates_clear(&t);
}

static char folder[128];

static int step(struct template_writer *writer, struct dataset *dataset, bool final) {
    struct classifier classifier = {.dataset = dataset, .model = model};
    struct snapshot snapshot = {.folder = folder, .iteration = 5, .final = final};
    int count = -1;
    OK(template_writer_step(writer, &classifier, &snapshot, "classifier", &count, &err));
    return count;
}

static void writes_what_is_settled(void **state) {
    (void)state;
    struct template_writer w = {0};
    struct dataset *dataset = NULL;
    struct template_set set = {0};
    OK(dataset_create(1 << 20, &dataset, &err));
    strcpy(folder, "/tmp/class_templates_XXXXXX");
    assert_non_null(mkdtemp(folder));
    draw_all();
    assert_int_equal(step(&w, dataset, false), 0); /* no snapshot before */
    draw(0, 0, 55, true, 0, 0);                    /* the same, otherwise turned */
    assert_int_equal(step(&w, dataset, false), SHAPES);
    OK(template_set_read(folder, &set, &err));
    assert_int_equal(set.epoch, 1);
    assert_int_equal(set.iteration, 5);
    assert_string_equal(set.stage, "classifier");
    assert_int_equal(set.images.nz, SHAPES);
    assert_int_equal(set.classes[1], 2);
    assert_true(fabs(set.images.pixel_size - PIXEL) < 1e-6);
    template_set_clear(&set);
    assert_int_equal(step(&w, dataset, false), 0); /* it is known */
    assert_int_equal(step(&w, dataset, true), 0);
    template_writer_clear(&w);
    assert_int_equal(step(&w, dataset, true), 0); /* also after a restart */
    model->class_count = 4;
    w.particles = 10;
    assert_int_equal(step(&w, dataset, false), 0); /* not twice as many particles */
    assert_int_equal(step(&w, dataset, true), 4);
    OK(template_set_read(folder, &set, &err));
    assert_int_equal(set.epoch, 2);
    template_set_clear(&set);
    /* A damaged record is not read, and its number not used again. */
    char path[256];
    snprintf(path, sizeof path, "%s/" TEMPLATE_SET_RECORD, folder);
    OK(file_write_whole(path, "{\"v\": 1, \"epoch\": -3}", 21, &err));
    struct err err = {0};
    assert_int_equal(template_set_read(folder, &set, &err), STATUS_BAD_FORMAT);
    template_writer_clear(&w);
    assert_int_equal(step(&w, dataset, true), 4);
    assert_int_equal(w.epoch, 3);
    template_writer_clear(&w);
    dataset_destroy(&dataset);
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chooses_each_once, begin, end),
        cmocka_unit_test_setup_teardown(leaves_poor_ones_out, begin, end),
        cmocka_unit_test_setup_teardown(neighbours_are_told_from_long_particles, begin, end),
        cmocka_unit_test_setup_teardown(dark_sides_are_told_from_dark_rings, begin, end),
        cmocka_unit_test_setup_teardown(many_members_come_first, begin, end),
        cmocka_unit_test_setup_teardown(images_are_as_promised, begin, end),
        cmocka_unit_test_setup_teardown(writes_what_is_settled, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
