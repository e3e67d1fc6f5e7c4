/* Images of stacks come from the stack once, and then from the cache, with the same values. A stack that is another file
 * now is read anew, and one that is away is an error, whatever the cache has. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/formats/mrc.h"
#include "common/formats/stack_reader.h"
#include "tests/common/scratch.h"

enum { BOX = 10, PIXELS = BOX * BOX, IMAGES = 6 };

static struct err err;
static char folder[PATH_SIZE], stack[PATH_SIZE + 16];
static struct shards *cache;
static struct stack_reader *reader;

/* Not every value is one of float16. */
static float value(int seed, int slice, int pixel) {
    return (float)(seed * 100 + slice) + (float)pixel / 7;
}

static void write_stack(const char *path, int seed, int images, enum mrc_mode mode) {
    static float data[IMAGES * PIXELS];
    const struct image all = {.nx = BOX, .ny = BOX, .nz = images, .pixel_size = 2, .data = data};
    for (int i = 0; i < images * PIXELS; i++)
        data[i] = value(seed, i / PIXELS, i % PIXELS);
    assert_ok(mrc_write(path, &all, MRC_STACK, mode, &err));
}

static void begin(const char *name) {
    char disk[PATH_SIZE + 16];
    scratch_path(name, folder);
    snprintf(disk, sizeof disk, "%s/disk", folder);
    snprintf(stack, sizeof stack, "%s/a.mrcs", folder);
    assert_ok(file_make_folders(folder, 0755, &err));
    assert_ok(shards_open(disk, folder, 0, &cache, &err));
    assert_ok(stack_reader_create(cache, &reader, &err));
}

static void end(void) {
    stack_reader_destroy(&reader);
    shards_close(&cache, true);
}

/* Reads all images, in an order that is not theirs. */
static void assert_images(struct stack_reader *r, int seed, int images, float tolerance) {
    float image[PIXELS];
    for (int i = 0; i < images; i++) {
        int slice = 5 * i % images;
        assert_ok(stack_reader_image(r, stack, BOX, slice, image, &err));
        for (int j = 0; j < PIXELS; j++)
            assert_true(fabsf(image[j] - value(seed, slice, j)) <= tolerance);
    }
}

static void assert_reads(size_t opened, size_t images, size_t cached) {
    struct stack_reads reads = stack_reader_reads(reader);
    assert_int_equal(reads.opened, opened);
    assert_int_equal(reads.images, images);
    assert_int_equal(reads.cached, cached);
}

static void each_image_is_read_from_its_stack_once(void **state) {
    (void)state;
    static const enum mrc_mode modes[] = {MRC_FLOAT32, MRC_FLOAT16};
    for (int m = 0; m < 2; m++) {
        struct stack_reader *plain = NULL;
        float direct[PIXELS], cached[PIXELS];
        begin(m == 0 ? "once" : "once_half");
        write_stack(stack, 1, IMAGES, modes[m]);
        assert_images(reader, 1, IMAGES, m == 0 ? 0 : 0.1f);
        assert_reads(1, IMAGES, 0);
        stack_reader_close(reader);
        for (int i = 0; i < 3; i++)
            assert_images(reader, 1, IMAGES, m == 0 ? 0 : 0.1f);
        assert_reads(1, IMAGES, 3 * IMAGES);
        assert_ok(stack_reader_create(NULL, &plain, &err));
        for (int i = 0; i < IMAGES; i++) {
            assert_ok(stack_reader_image(plain, stack, BOX, i, direct, &err));
            assert_ok(stack_reader_image(reader, stack, BOX, i, cached, &err));
            assert_memory_equal(direct, cached, sizeof direct);
        }
        struct shards_report report;
        shards_report(cache, &report);
        assert_int_equal(report.bytes, (size_t)IMAGES * PIXELS * (m == 0 ? 4 : 2));
        stack_reader_destroy(&plain);
        end();
    }
}

/* With the stack open or not, renamed into place or written in place, of the same size or not. */
static void another_stack_is_read_anew(void **state) {
    (void)state;
    char other[PATH_SIZE + 16];
    float image[PIXELS];
    begin("other");
    snprintf(other, sizeof other, "%s/b.mrcs", folder);
    write_stack(stack, 1, IMAGES, MRC_FLOAT32);
    assert_images(reader, 1, 3, 0);
    for (int seed = 2; seed < 6; seed++) {
        struct timespec times[2] = {{.tv_sec = 1000 * seed}, {.tv_sec = 1000 * seed}};
        if (seed == 4) stack_reader_close(reader);
        write_stack(seed % 2 == 0 ? other : stack, seed, IMAGES, MRC_FLOAT32);
        if (seed % 2 == 0) {
            assert_int_equal(scratch_shell("cp %s %s", other, stack), 0); /* in place */
        }
        assert_int_equal(utimensat(AT_FDCWD, stack, times, 0), 0);
        assert_images(reader, seed, IMAGES, 0);
        assert_images(reader, seed, IMAGES, 0);
    }
    write_stack(stack, 9, 2, MRC_FLOAT32);
    assert_images(reader, 9, 2, 0);
    assert_int_equal(stack_reader_image(reader, stack, BOX, 2, image, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "has 2 images, image 3 was asked for: another file has taken its place"));
    assert_int_equal(stack_reader_image(reader, stack, BOX + 2, 1, image, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "another file has taken its place"));
    end();
}

static void a_stack_that_is_away_is_told(void **state) {
    (void)state;
    float image[PIXELS];
    begin("away");
    write_stack(stack, 1, IMAGES, MRC_FLOAT32);
    assert_images(reader, 1, IMAGES, 0);
    stack_reader_close(reader);
    assert_int_equal(unlink(stack), 0);
    assert_int_equal(stack_reader_image(reader, stack, BOX, 0, image, &err), STATUS_NOT_FOUND);
    assert_ok(file_write_whole(stack, "MAP", 3, &err));
    assert_int_equal(stack_reader_image(reader, stack, BOX, 0, image, &err), STATUS_TRUNCATED);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_image_is_read_from_its_stack_once),
        cmocka_unit_test(another_stack_is_read_anew),
        cmocka_unit_test(a_stack_that_is_away_is_told),
    };
    return scratch_run("stack_reader", tests, sizeof tests / sizeof *tests);
}
