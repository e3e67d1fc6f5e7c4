/* Tests the watcher on movies: when a movie is whole, what is no movie, and the items of movies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "common/edges/ledger.h"
#include "common/formats/eer_file.h"
#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/harness/stage_private.h"
#include "stages/watcher/folder.h"
#include "stages/watcher/watcher.h"
#include "tests/stages/watched.h"

enum { NX = 24, NY = 16 };

/* ---- Movies to watch: NX × NY pixels, counts between 1 and 9 ---- */

static float count_at(int frame, int pixel) {
    return (float)(1 + (frame * 7 + pixel * 3) % 9);
}

static void put_mrc(const char *name, int frames, enum mrc_mode mode, float pixel_size) {
    struct err err = {0};
    struct mrc_writer *writer = NULL;
    char path[PATH_SIZE];
    float frame[NY * NX];
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0700, &err));
    assert_ok(mrc_writer_create(path, NX, NY, pixel_size, MRC_STACK, mode, &writer, &err));
    for (int f = 0; f < frames; f++) {
        for (int i = 0; i < NY * NX; i++)
            frame[i] = count_at(f, i);
        assert_ok(mrc_writer_append(writer, frame, &err));
    }
    assert_ok(mrc_writer_finish(&writer, &err));
}

/* Writes a movie in LZW, or appends frames to it. */
static void put_tiff(const char *name, int frames, bool append) {
    struct err err = {0};
    char path[PATH_SIZE];
    unsigned char rows[NY * NX];
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0700, &err));
    TIFF *tiff = TIFFOpen(path, append ? "a" : "w");
    assert_non_null(tiff);
    for (int f = 0; f < frames; f++) {
        TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, NX);
        TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, NY);
        TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
        TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
        TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
        TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_LZW);
        TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, NY);
        for (int i = 0; i < NY * NX; i++)
            rows[i] = (unsigned char)count_at(f, i);
        assert_int_equal(TIFFWriteEncodedStrip(tiff, 0, rows, sizeof rows), sizeof rows);
        TIFFWriteDirectory(tiff);
    }
    TIFFClose(tiff);
}

static void put_eer(const char *name, int frames) {
    struct err err = {0};
    struct eer_writer *writer = NULL;
    const struct eer_format format = eer_format_of(EER_COMPRESSION_7);
    char path[PATH_SIZE];
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0700, &err));
    assert_ok(eer_writer_create(path, &format, NX, NY, NULL, &writer, &err));
    for (int f = 0; f < frames; f++) {
        struct eer_electron electrons[NY];
        for (int y = 0; y < NY; y++)
            electrons[y] = (struct eer_electron){(uint32_t)(4 * ((y * 5 + f) % NX)), (uint32_t)(4 * y)};
        assert_ok(eer_writer_append(writer, electrons, NY, &err));
    }
    assert_ok(eer_writer_finish(&writer, &err));
}

/* ---- The folder, with a clock of the test's own ---- */

static struct folder *watch(const char *name, int frames) {
    struct err err = {0};
    struct folder *folder = NULL;
    char path[PATH_SIZE];
    watched_folder(name);
    scratch_path(name, path);
    const struct folder_options options = {.directory = path,
                                           .pattern = "*.mrc,*.mrcs,*.tif,*.tiff,*.eer",
                                           .recursive = true,
                                           .settle = 10,
                                           .stall = 60,
                                           .poll = 5,
                                           .movies = true,
                                           .frames = frames};
    assert_ok(folder_create(&options, &folder, &err));
    return folder;
}

/* Sweeps and compares all that is found: "id:frames", "id-" for no movie, "id!" for a failed one. */
static void expect(struct folder *folder, double now, const char *expected) {
    struct err err = {0};
    char text[1024] = "";
    assert_ok(folder_sweep(folder, now, &err));
    for (;;) {
        struct folder_find find;
        bool found;
        size_t used = strlen(text);
        assert_ok(folder_next(folder, now, &find, &found, &err));
        if (!found) break;
        const char *space = used > 0 ? " " : "";
        if (find.verdict == FOLDER_READY)
            snprintf(text + used, sizeof text - used, "%s%s:%d", space, find.id, find.image.nz);
        else
            snprintf(text + used, sizeof text - used, "%s%s%s", space, find.id,
                     find.verdict == FOLDER_NO_MOVIE ? "-" : "!");
        assert_true(find.verdict == FOLDER_READY || find.reason[0] != '\0');
    }
    assert_string_equal(text, expected);
}

/* Every state of a growing movie is a correct file: only rest shows its end. */
static void a_movie_is_whole_after_rest(void **state) {
    (void)state;
    put_tiff("rest/a.tif", 3, false);
    watched_date("rest/a.tif", 1000);
    struct folder *folder = watch("rest", 0);
    expect(folder, 0, "");
    expect(folder, 9, "");
    put_tiff("rest/a.tif", 2, true);
    expect(folder, 11, "");
    expect(folder, 20, "");
    put_eer("rest/b.eer", 3);
    put_mrc("rest/c.mrcs", 4, MRC_INT8, 1);
    watched_date("rest/b.eer", 2000);
    watched_date("rest/c.mrcs", 3000);
    expect(folder, 22, "a:5");
    expect(folder, 33, "b:3 c:4");
    expect(folder, 100, "");
    folder_destroy(&folder);
}

static void a_movie_of_all_frames_is_whole_at_once(void **state) {
    (void)state;
    put_tiff("frames/a.tif", 5, false);
    put_mrc("frames/b.mrc", 5, MRC_INT16, 1);
    put_eer("frames/c.eer", 5);
    put_tiff("frames/short.tif", 3, false);
    watched_date("frames/a.tif", 1000);
    watched_date("frames/b.mrc", 2000);
    watched_date("frames/c.eer", 3000);
    struct folder *folder = watch("frames", 5);
    expect(folder, 0, "a:5 b:5 c:5");
    expect(folder, 59, "");
    expect(folder, 61, "short!");
    put_tiff("frames/short.tif", 2, true);
    expect(folder, 70, "short:5");
    folder_destroy(&folder);
}

/* A program that reserves the whole file first has not written the end yet. */
static void a_reserved_movie_waits(void **state) {
    (void)state;
    enum { FRAMES = 16 }; /* more than the end of the file at which the watcher looks */
    put_mrc("reserved/a.mrc", FRAMES, MRC_INT8, 1);
    char path[PATH_SIZE];
    scratch_path("reserved/a.mrc", path);
    assert_int_equal(scratch_shell("dd if=/dev/zero of='%s' bs=1 seek=%d count=%d conv=notrunc 2>/dev/null", path,
                                   1024 + NX * NY, (FRAMES - 1) * NX * NY),
                     0);
    struct folder *folder = watch("reserved", FRAMES);
    expect(folder, 0, "");
    expect(folder, 9, "");
    put_mrc("reserved/a.mrc", FRAMES, MRC_INT8, 1);
    expect(folder, 10.1, "a:16");
    folder_destroy(&folder);
}

static void a_broken_movie_is_reported(void **state) {
    (void)state;
    char path[PATH_SIZE];
    put_tiff("broken/a.tif", 5, false);
    scratch_path("broken/a.tif", path);
    assert_int_equal(scratch_shell("truncate -s -40 '%s'", path), 0);
    put_eer("broken/b.eer", 5);
    scratch_path("broken/b.eer", path);
    assert_int_equal(scratch_shell("truncate -s 300 '%s'", path), 0);
    watched_date("broken/a.tif", 1000);
    watched_date("broken/b.eer", 2000);
    struct folder *folder = watch("broken", 5);
    expect(folder, 0, "");
    expect(folder, 59, "");
    expect(folder, 61, "a! b!");
    put_tiff("broken/a.tif", 5, false);
    expect(folder, 70, "a:5");
    folder_destroy(&folder);
}

/* Gain references and sums lie beside movies, with names or with values that tell. A single frame of counts is a
 * movie. */
static void gains_and_sums_are_no_movies(void **state) {
    (void)state;
    static const char *const names[] = {
        "none/a.tif",      "none/a.mrc",   "none/FoilHole_7.mrc", "none/FoilHole_7_EER.eer",
        "none/floats.mrc", "none/one.mrc", "none/x_Gain.tif",     "none/CountRef_1.mrc"};
    put_tiff(names[0], 3, false);
    put_mrc(names[1], 1, MRC_INT16, 1);
    put_mrc(names[2], 1, MRC_INT16, 1);
    put_eer(names[3], 3);
    put_mrc(names[4], 1, MRC_FLOAT32, 1);
    put_mrc(names[5], 1, MRC_INT16, 1);
    put_tiff(names[6], 1, false);
    put_mrc(names[7], 1, MRC_INT16, 1);
    for (int i = 0; i < 8; i++)
        watched_date(names[i], 1000 + i);
    struct folder *folder = watch("none", 0);
    expect(folder, 0, "");
    expect(folder, 11, "a:3 a- FoilHole_7- FoilHole_7_EER:3 floats- one:1 x_Gain- CountRef_1-");
    expect(folder, 100, "");
    folder_destroy(&folder);
}

/* ---- The stage ---- */

static struct stage_results run(const char *session, const char *const *more) {
    struct err err = {0};
    struct stage_results results = {0};
    char root[PATH_SIZE], ledger[PATH_SIZE + 16], directory[PATH_SIZE + 8];
    watched_folder(session);
    scratch_path(session, root);
    snprintf(ledger, sizeof ledger, "%s/l.sqlite", root);
    snprintf(directory, sizeof directory, "%s/raw", root);
    const char *key_values[32] = {"directory", directory, "until_idle", "0", "settle", "0", "movies", "true"};
    for (int i = 0; more != NULL && more[i] != NULL; i++)
        key_values[8 + i] = more[i];
    assert_ok(stage_run_results(&watcher_stage, root, ledger, key_values, NULL, 0, &results, &err));
    return results;
}

static const struct item *emitted(const struct stage_results *results, const char *id) {
    for (size_t i = 0; i < results->emitted_count; i++)
        if (strcmp(item_id(results->emitted[i]), id) == 0) return results->emitted[i];
    fail_msg("%s was not emitted", id);
    return NULL;
}

static void items_of_movies(void **state) {
    (void)state;
    struct err err = {0};
    char path[PATH_SIZE];
    put_tiff("s1/raw/g/a.tif", 3, false);
    put_mrc("s1/raw/b.mrcs", 4, MRC_INT8, 2.0f);
    put_eer("s1/raw/c.eer", 40);
    put_mrc("s1/raw/gain.mrc", 1, MRC_FLOAT32, 1);
    watched_put_text("s1/raw/d.tif", "II*");
    const char *more[] = {"pixel_size", "1.5", NULL};
    struct stage_results results = run("s1", more);
    assert_int_equal(results.emitted_count, 3);
    assert_int_equal(results.outcome_count, 4);
    const struct item *a = emitted(&results, "g/a");
    assert_string_equal(item_kind(a), "movie");
    assert_string_equal(item_string(a, "movie.path"), "raw/g/a.tif");
    assert_true(item_number(a, "movie.nx", 0) == NX && item_number(a, "movie.ny", 0) == NY);
    assert_true(item_number(a, "movie.frames", 0) == 3);
    assert_false(item_has(a, "micrograph"));
    assert_true(item_number(a, "optics.pixel_size", 0) == 1.5);
    assert_true(item_number(emitted(&results, "b"), "movie.frames", 0) == 4);
    assert_true(item_number(emitted(&results, "c"), "movie.frames", 0) == 40);
    for (size_t i = 0; i < results.outcome_count; i++)
        if (results.outcomes[i].state == LEDGER_FAILED) {
            assert_string_equal(results.outcomes[i].id, "d");
            assert_non_null(strstr(results.outcomes[i].reason, "d.tif"));
        }
    stage_results_clear(&results);

    struct star_file *file = NULL;
    scratch_path("s1/watcher/movies.star", path);
    assert_ok(star_read(path, &file, &err));
    struct star_table *table = star_table_find(file, "movies");
    assert_non_null(table);
    assert_int_equal(star_row_count(table), 3);
    assert_true(star_column_find(table, "rlnMicrographMovieName") >= 0);
    star_destroy(&file);
}

/* Tilts are movies too: each has its place in a series. */
static void movies_of_tilts_have_their_series(void **state) {
    (void)state;
    put_tiff("s2/raw/TS_01_000_0.0.tif", 3, false);
    put_tiff("s2/raw/TS_01_001_-3.0.tif", 3, false);
    const char *more[] = {"pixel_size", "1.5", "series", "{series}_{order}_{angle}.tif", NULL};
    struct stage_results results = run("s2", more);
    assert_int_equal(results.emitted_count, 2);
    const struct item *second = emitted(&results, "TS_01_001_-3.0");
    assert_string_equal(item_kind(second), "movie");
    assert_string_equal(item_string(second, "tilt.series"), "TS_01");
    assert_true(item_number(second, "tilt.angle", 0) == -3);
    assert_true(item_number(second, "movie.frames", 0) == 3);
    stage_results_clear(&results);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_movie_is_whole_after_rest),
        cmocka_unit_test(a_movie_of_all_frames_is_whole_at_once),
        cmocka_unit_test(a_reserved_movie_waits),
        cmocka_unit_test(a_broken_movie_is_reported),
        cmocka_unit_test(gains_and_sums_are_no_movies),
        cmocka_unit_test(items_of_movies),
        cmocka_unit_test(movies_of_tilts_have_their_series),
    };
    return scratch_run("watcher-movies", tests, sizeof tests / sizeof *tests);
}
