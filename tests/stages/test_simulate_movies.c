/* Parts of the simulator of movies: files hold the counts, the gain reference turns as RELION turns it, the specimen
 * moves as far as it should. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/formats/movie.h"
#include "common/memory.h"
#include "examples/simulate/camera.h"
#include "examples/simulate/drift.h"
#include "examples/simulate/lzw.h"
#include "examples/simulate/movie_files.h"
#include "tests/common/scratch.h"

enum { NX = 150, NY = 110, FRAMES = 3, GROUP = 20 };

/* Few electrons in most pixels, and now and then more than a byte holds. */
static void draw_counts(struct random *random, uint16_t *counts) {
    for (int i = 0; i < NX * NY; i++) {
        uint64_t bits = random_next(random);
        counts[i] = (uint16_t)(bits % 512 == 0 ? bits >> 20 & 1023 : bits >> 40 & 3);
    }
}

static void check_file(enum movie_file_format format, enum movie_file_mode mode, int largest) {
    struct err err = {0};
    char path[PATH_SIZE], name[32];
    snprintf(name, sizeof name, "counts_%d%s", (int)mode, movie_file_ending(format));
    scratch_path(name, path);
    const struct movie_file_task task = {.format = format,
                                         .mode = mode,
                                         .nx = NX,
                                         .ny = NY,
                                         .frames = FRAMES,
                                         .pixel_size = 1.25,
                                         .eer_group = GROUP,
                                         .threads = 2};
    uint16_t counts[FRAMES][NX * NY];
    struct random random = random_stream(4, 0, 0);
    struct movie_file *file = NULL;
    assert_ok(movie_file_create(&task, &file, &err));
    for (int round = 0; round < 2; round++) { /* buffers serve again */
        assert_ok(movie_file_begin(file, path, 9, &err));
        for (int j = 0; j < FRAMES; j++) {
            draw_counts(&random, counts[j]);
            assert_ok(movie_file_append(file, counts[j], &err));
        }
        assert_ok(movie_file_finish(file, &err));
    }
    movie_file_destroy(&file);

    const struct movie_options options = {.eer_group = GROUP};
    struct movie *movie = NULL;
    struct movie_reader *reader = NULL;
    assert_ok(movie_open(path, &options, &movie, &err));
    const struct movie_info *info = movie_info(movie);
    assert_int_equal(info->nx, NX);
    assert_int_equal(info->ny, NY);
    assert_int_equal(info->frames, FRAMES);
    assert_true(fabs((double)info->pixel_size - 1.25) < 1e-4);
    assert_ok(movie_reader_create(movie, &reader, &err));
    float *frame = mem_aligned((size_t)NX * NY, sizeof *frame);
    assert_non_null(frame);
    for (int j = 0; j < FRAMES; j++) {
        assert_ok(movie_reader_read(reader, j, frame, &err));
        for (int i = 0; i < NX * NY; i++)
            if ((int)frame[i] != (counts[j][i] < largest ? counts[j][i] : largest))
                fail_msg("%s: frame %d, pixel %d is %g; %d was written", path, j, i, (double)frame[i], counts[j][i]);
    }
    free(frame);
    movie_reader_destroy(&reader);
    movie_close(&movie);
}

static void files_hold_the_counts(void **state) {
    (void)state;
    check_file(MOVIE_FILE_MRC, MOVIE_FILE_INT8, 127);
    check_file(MOVIE_FILE_MRC, MOVIE_FILE_UINT16, 65535);
    check_file(MOVIE_FILE_MRC, MOVIE_FILE_FLOAT, 65535);
    check_file(MOVIE_FILE_TIFF, MOVIE_FILE_INT8, 255);
    check_file(MOVIE_FILE_TIFF, MOVIE_FILE_UINT16, 65535);
    check_file(MOVIE_FILE_EER, MOVIE_FILE_INT8, GROUP);
}

/* Strips that fill the table several times over, of one value and of noise, need no more than the bound. */
static void strips_stay_within_their_bound(void **state) {
    (void)state;
    enum { LENGTH = 300000 };
    uint8_t *bytes = malloc(LENGTH), *packed = malloc(lzw_bound(LENGTH));
    assert_true(bytes != NULL && packed != NULL);
    struct random random = random_stream(8, 0, 0);
    for (int i = 0; i < LENGTH; i++)
        bytes[i] = (uint8_t)(random_next(&random) >> 30);
    size_t noise = lzw_encode(bytes, LENGTH, packed);
    assert_in_range(noise, LENGTH, lzw_bound(LENGTH));
    memset(bytes, 7, LENGTH);
    assert_in_range(lzw_encode(bytes, LENGTH, packed), 100, LENGTH / 50);
    assert_in_range(lzw_encode(bytes, 1, packed), 3, lzw_bound(1));
    free(bytes);
    free(packed);
}

/* Turns an image as RELION turns a gain reference: rotation first, by the rules of its manual, then the flip. */
static float *turn(const struct image *image, int rotation, int flip) {
    int nx = rotation % 2 != 0 ? image->ny : image->nx, ny = rotation % 2 != 0 ? image->nx : image->ny;
    float *rotated = mem_aligned((size_t)NX * NY, sizeof *rotated);
    float *flipped = mem_aligned((size_t)NX * NY, sizeof *flipped);
    assert_true(rotated != NULL && flipped != NULL);
    for (int y = 0; y < image->ny; y++)
        for (int x = 0; x < image->nx; x++) {
            int to_y = rotation == 0 ? y : rotation == 1 ? x : rotation == 2 ? image->ny - 1 - y : image->nx - 1 - x;
            int to_x = rotation == 0 ? x : rotation == 1 ? image->ny - 1 - y : rotation == 2 ? image->nx - 1 - x : y;
            rotated[to_y * nx + to_x] = image->data[y * image->nx + x];
        }
    for (int y = 0; y < ny; y++)
        for (int x = 0; x < nx; x++)
            flipped[y * nx + x] = rotated[(flip == 1 ? ny - 1 - y : y) * nx + (flip == 2 ? nx - 1 - x : x)];
    free(rotated);
    return flipped;
}

static void the_gain_reference_turns_back(void **state) {
    (void)state;
    struct err err = {0};
    struct camera camera = {0};
    const struct camera_task task = {.seed = 3, .nx = NX, .ny = NY, .uneven = true, .defects = 500};
    assert_ok(camera_create(&task, &camera, &err));
    for (int rotation = 0; rotation < 4; rotation++)
        for (int flip = 0; flip < 3; flip++) {
            const struct camera_gain_file file = {.rotation = rotation, .flip = flip};
            struct image image = {0};
            char path[PATH_SIZE];
            scratch_path("gain.mrc", path);
            assert_ok(camera_write_gain(&camera, &file, path, &err));
            assert_ok(image_read(path, &image, &err));
            assert_int_equal(image.nx, rotation % 2 != 0 ? NY : NX);
            float *turned = turn(&image, rotation, flip);
            assert_memory_equal(turned, camera.gain, NX * NY * sizeof *turned);
            free(turned);
            image_destroy(&image);
        }
    camera_destroy(&camera);
}

/* Every kind of broken pixel behaves as its name says; good pixels have gain × response 1. */
static void broken_pixels_are_listed(void **state) {
    (void)state;
    struct err err = {0};
    struct camera camera = {0};
    const struct camera_task task = {.seed = 6, .nx = NX, .ny = NY, .uneven = true, .defects = 500};
    assert_ok(camera_create(&task, &camera, &err));
    int found[3] = {0}, bad = 0, listed = 0;
    char *known = calloc(NX * NY, 1);
    assert_non_null(known);
    for (int i = 0; i < camera.defect_count; i++) {
        const struct camera_defect *d = &camera.defects[i];
        int pixel = d->y * NX + d->x;
        found[d->kind]++;
        listed += !known[pixel];
        known[pixel] = 1;
        if (d->kind == CAMERA_HOT)
            assert_true(camera.response[pixel] == 0 || camera.response[pixel] > 10);
        else
            assert_true(!(camera.response[pixel] > 0));
    }
    for (int i = 0; i < NX * NY; i++)
        bad += !(fabsf(camera.gain[i] * camera.response[i] - 1) < 1e-5f);
    assert_int_equal(bad, listed);
    for (int kind = 0; kind < 3; kind++)
        assert_true(found[kind] > 0);
    free(known);
    camera_destroy(&camera);
}

static void the_specimen_moves_as_far_as_it_should(void **state) {
    (void)state;
    const struct drift_scene scene = {.frames = 40, .way = 10, .doming = 3};
    struct exposure_shift shifts[40];
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct random random = random_stream(seed, 0, 7);
        drift_draw(&scene, &random, shifts);
        const struct exposure_shift *first = &shifts[0], *last = &shifts[39];
        assert_true(!(hypot(first->x, first->y) > 0));
        assert_true(fabs(hypot(last->x, last->y) - 10) < 1e-9);
        assert_true(hypot(shifts[8].x, shifts[8].y) > 5); /* fast at first */
        double corner[4][2], largest = 0, mean[2] = {0, 0};
        for (int k = 0; k < 4; k++) {
            exposure_shift_at(last, NX, NY, k % 2 * NX, k / 2 * NY, corner[k]);
            for (int other = 0; other < k; other++)
                largest = fmax(largest, hypot(corner[k][0] - corner[other][0], corner[k][1] - corner[other][1]));
        }
        assert_true(fabs(largest - 3) < 1e-9);
        for (int i = 0; i < NX * NY; i++) {
            double d[2];
            exposure_shift_at(last, NX, NY, i % NX + 0.5, i / NX + 0.5, d);
            mean[0] += (d[0] - last->x) / (NX * NY);
            mean[1] += (d[1] - last->y) / (NX * NY);
        }
        assert_true(hypot(mean[0], mean[1]) < 1e-3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_the_counts),
        cmocka_unit_test(strips_stay_within_their_bound),
        cmocka_unit_test(the_gain_reference_turns_back),
        cmocka_unit_test(broken_pixels_are_listed),
        cmocka_unit_test(the_specimen_moves_as_far_as_it_should),
    };
    return scratch_run("simulate_movies", tests, sizeof tests / sizeof *tests);
}
