#include "common/formats/eer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/eer_file.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

enum { NX = 160, NY = 96, FRAMES = 5 };

static uint64_t next_random(uint64_t *seed) {
    return *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}

/* Draws the electrons of a frame, on average one in `spread` / 2 pixels. tests/common/eer_referee.py draws the same. */
static size_t draw(uint64_t seed, uint64_t spread, struct eer_electron *electrons) {
    size_t count = 0;
    for (uint64_t pixel = 0;; pixel++) {
        uint64_t r = next_random(&seed);
        pixel += (r >> 33) % spread;
        if (pixel >= NX * NY) return count;
        electrons[count++] = (struct eer_electron){.x = (uint32_t)(pixel % NX * 4 + (r >> 20 & 3)),
                                                   .y = (uint32_t)(pixel / NX * 4 + (r >> 22 & 3))};
    }
}

/* FNV-1a over the counts as little-endian 16-bit numbers. */
static uint64_t hash_of(const uint16_t *counts, size_t count) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < count; i++)
        for (int byte = 0; byte < 2; byte++)
            hash = (hash ^ (counts[i] >> 8 * byte & 255)) * 1099511628211u;
    return hash;
}

static const struct referee {
    int skip_bits, level;
    uint64_t seed, spread, electrons, hash;
} REFEREE[] = {
#include "tests/common/eer_referee.inc"
};
enum { REFEREE_COUNT = sizeof REFEREE / sizeof *REFEREE };

/* imagecodecs decodes what the encoder writes to the same counts: see eer_referee.py. */
static void the_referee_counts_the_same_electrons(void **state) {
    (void)state;
    struct err err = {0};
    _cleanup_(mem_free) struct eer_electron *electrons = malloc(NX * NY * sizeof *electrons);
    _cleanup_(mem_free) uint16_t *counts = malloc((NX * NY << 2 * EER_LEVEL_MAX) * sizeof *counts);
    assert_true(electrons != NULL && counts != NULL);
    for (int i = 0; i < REFEREE_COUNT; i++) {
        const struct referee *r = &REFEREE[i];
        const struct eer_format format = {.skip_bits = r->skip_bits, .column_bits = 2, .row_bits = 2};
        size_t count = draw(r->seed, r->spread, electrons), pixels = (size_t)NX * NY << 2 * r->level;
        _cleanup_(mem_free) uint8_t *bytes = malloc(eer_encoded_bound(&format, count, NX, NY));
        assert_non_null(bytes);
        size_t length = eer_encode(&format, electrons, count, NX, NY, bytes);
        uint64_t electrons_seen = 0;
        memset(counts, 0, pixels * sizeof *counts);
        assert_ok(eer_decode(&format, bytes, length, NX, NY, r->level, counts, &electrons_seen, &err));
        assert_int_equal(electrons_seen, r->electrons);
        if (hash_of(counts, pixels) != r->hash)
            fail_msg("skip of %d bits, level %d, seed %llu: other counts than the referee's", r->skip_bits, r->level,
                     (unsigned long long)r->seed);
    }
}

/* Each electron stands in its pixel at each level and in each width, and the decoder adds to what is there. */
static void electrons_come_back_where_they_were(void **state) {
    (void)state;
    struct err err = {0};
    _cleanup_(mem_free) struct eer_electron *electrons = malloc(NX * NY * sizeof *electrons);
    _cleanup_(mem_free) uint16_t *counts = malloc((NX * NY << 2 * EER_LEVEL_MAX) * sizeof *counts);
    assert_true(electrons != NULL && counts != NULL);
    for (int skip_bits = 4; skip_bits <= 16; skip_bits++)
        for (int part_bits = 2; part_bits <= 4; part_bits++)
            for (int level = 0; level <= EER_LEVEL_MAX; level++) {
                const struct eer_format format = {.skip_bits = skip_bits,
                                                  .column_bits = part_bits,
                                                  .row_bits = 6 - part_bits > 4 ? 4 : 6 - part_bits};
                size_t count = draw((uint64_t)skip_bits, 40, electrons), width = (size_t)NX << level;
                _cleanup_(mem_free) uint8_t *bytes = malloc(eer_encoded_bound(&format, count, NX, NY));
                assert_non_null(bytes);
                size_t length = eer_encode(&format, electrons, count, NX, NY, bytes);
                assert_true(length <= eer_encoded_bound(&format, count, NX, NY));
                memset(counts, 0, (NX * NY << 2 * EER_LEVEL_MAX) * sizeof *counts);
                for (int times = 0; times < 2; times++)
                    assert_ok(eer_decode(&format, bytes, length, NX, NY, level, counts, NULL, &err));
                for (size_t i = 0; i < count; i++) {
                    uint16_t *pixel =
                        &counts[(electrons[i].y >> (2 - level)) * width + (electrons[i].x >> (2 - level))];
                    assert_int_equal(*pixel, 2);
                    *pixel = 0;
                }
                for (size_t i = 0; i < width * ((size_t)NY << level); i++)
                    assert_int_equal(counts[i], 0);
            }
}

static void any_bytes_are_safe(void **state) {
    (void)state;
    uint64_t seed = 7;
    _cleanup_(mem_free) uint16_t *counts = calloc(NX * NY, sizeof *counts);
    assert_non_null(counts);
    for (int round = 0; round < 500; round++) {
        size_t length = next_random(&seed) >> 33 & 4095;
        _cleanup_(mem_free) uint8_t *bytes = malloc(length + 1); /* no byte after the codes that a reader may touch */
        assert_non_null(bytes);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (uint8_t)(next_random(&seed) >> 40);
        struct eer_format format = {.skip_bits = 4 + round % 13, .column_bits = round % 5, .row_bits = round / 5 % 5};
        struct err err = {0};
        enum status status = eer_decode(&format, bytes, length, NX, NY, 0, counts, NULL, &err);
        assert_true(status == STATUS_OK || status == STATUS_BAD_FORMAT);
    }
}

static void a_frame_that_ends_early_is_told(void **state) {
    (void)state;
    struct err err = {0};
    struct eer_format format = eer_format_of(EER_COMPRESSION_7);
    _cleanup_(mem_free) struct eer_electron *electrons = malloc(NX * NY * sizeof *electrons);
    _cleanup_(mem_free) uint16_t *counts = calloc(NX * NY, sizeof *counts);
    assert_true(electrons != NULL && counts != NULL);
    size_t count = draw(3, 60, electrons);
    _cleanup_(mem_free) uint8_t *bytes = malloc(eer_encoded_bound(&format, count, NX, NY));
    assert_non_null(bytes);
    size_t length = eer_encode(&format, electrons, count, NX, NY, bytes);
    assert_int_equal(eer_decode(&format, bytes, length / 2, NX, NY, 0, counts, NULL, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "160 × 96 pixels end at 15360"));
    format.skip_bits = 3;
    assert_int_equal(eer_decode(&format, bytes, length, NX, NY, 0, counts, NULL, &err), STATUS_UNSUPPORTED);
}

static void write_file(const char *path, int skip_bits, int part_bits, bool jumps_have_parts) {
    struct err err = {0};
    struct eer_writer *writer = NULL;
    struct eer_format format = {
        .skip_bits = skip_bits, .column_bits = part_bits, .row_bits = part_bits, .jumps_have_parts = jumps_have_parts};
    _cleanup_(mem_free) struct eer_electron *electrons = malloc(NX * NY * sizeof *electrons);
    assert_non_null(electrons);
    assert_ok(eer_writer_create(path, &format, NX, NY,
                                "<metadata><item name=\"sensorPixelSize.width\" unit=\"m\">7.5e-11</item></metadata>",
                                &writer, &err));
    for (int frame = 0; frame < FRAMES; frame++)
        assert_ok(eer_writer_append(writer, electrons, draw((uint64_t)frame + 1, 700, electrons), &err));
    assert_ok(eer_writer_finish(&writer, &err));
    assert_null(writer);
}

static void files_hold_their_frames(void **state) {
    (void)state;
    char path[PATH_SIZE];
    scratch_path("movie.eer", path);
    _cleanup_(mem_free) struct eer_electron *electrons = malloc(NX * NY * sizeof *electrons);
    _cleanup_(mem_free) uint16_t *counts = malloc(NX * NY * 4 * sizeof *counts);
    assert_true(electrons != NULL && counts != NULL);
    for (int which = 0; which < 4; which++) {
        struct err err = {0};
        _cleanup_(eer_file_close) struct eer_file *file = NULL;
        /* Compressions 65001, 65000, 65002, and 65000 in RELION's reading. */
        write_file(path, which == 3 ? 8 : 7 + which, which == 2 ? 1 : 2, which == 3);
        assert_true(eer_file_is_one(path));
        assert_ok(eer_file_open(path, &file, &err));
        const struct eer_file_info *info = eer_file_info(file);
        assert_true(info->nx == NX && info->ny == NY && info->frames == FRAMES);
        assert_true(info->pixel_size > 0.7499f && info->pixel_size < 0.7501f);
        _cleanup_(mem_free) uint8_t *scratch = malloc(eer_file_scratch(file));
        assert_non_null(scratch);
        memset(counts, 0, NX * NY * 4 * sizeof *counts);
        assert_ok(eer_file_add(file, 1, 3, 1, scratch, counts, &err));
        for (int frame = 1; frame < 4; frame++) {
            size_t count = draw((uint64_t)frame + 1, 700, electrons);
            for (size_t i = 0; i < count; i++)
                counts[(size_t)(electrons[i].y / 2) * NX * 2 + electrons[i].x / 2]--;
        }
        for (size_t i = 0; i < NX * NY * 4; i++)
            assert_int_equal(counts[i], 0);
        assert_int_equal(eer_file_add(file, 3, 3, 0, scratch, counts, &err), STATUS_BAD_ARGUMENT);
    }
}

/* A file that is cut anywhere is refused, and never read past its end. */
static void cut_files_are_refused(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE], cut[PATH_SIZE];
    scratch_path("whole.eer", path);
    scratch_path("cut.eer", cut);
    write_file(path, 7, 2, false);
    size_t length = 0;
    _cleanup_(mem_free) char *bytes = NULL;
    assert_ok(file_read_whole(path, 1 << 24, &bytes, &length, &err));
    for (size_t part = 1; part < length; part += 997) {
        _cleanup_(eer_file_close) struct eer_file *file = NULL;
        assert_ok(file_write_whole(cut, bytes, part, &err));
        assert_int_equal(eer_file_open(cut, &file, &err), STATUS_TRUNCATED);
        assert_non_null(strstr(err.message, "cut.eer"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_referee_counts_the_same_electrons),
        cmocka_unit_test(electrons_come_back_where_they_were),
        cmocka_unit_test(any_bytes_are_safe),
        cmocka_unit_test(a_frame_that_ends_early_is_told),
        cmocka_unit_test(files_hold_their_frames),
        cmocka_unit_test(cut_files_are_refused),
    };
    return scratch_run("eer", tests, sizeof tests / sizeof *tests);
}
