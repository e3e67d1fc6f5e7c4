#include "common/formats/star.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/files.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "common/text.h"
#include "tests/common/scratch.h"

static struct star_file *parsed(const char *text) {
    struct err err = {0};
    struct star_file *file = NULL;
    assert_ok(star_parse("text.star", text, strlen(text), &file, &err));
    return file;
}

static void assert_cell(const struct star_table *table, size_t row, const char *column, const char *expected) {
    int index = star_column_find(table, column);
    assert_true(index >= 0);
    assert_string_equal(star_get(table, row, index), expected);
}

static void loops_pairs_and_comments_are_read(void **state) {
    (void)state;
    const char *text =
        "# a comment\n\n# version 30001\n\ndata_general # trailing\n\n_rlnA   1.5 # one\n_rlnB 'two words'\n"
        "\ndata_particles\n\nloop_ \n_rlnX #1 \n_rlnY #2 \n   1.0  first#mrc # note\n\n# between\n 2.0 _second\n"
        "_third 3.0 \n";
    struct star_file *file = parsed(text);
    assert_int_equal(star_table_count(file), 2);
    struct star_table *general = star_table_find(file, "general");
    assert_false(star_table_is_loop(general));
    assert_int_equal(star_row_count(general), 1);
    assert_cell(general, 0, "rlnA", "1.5");
    assert_cell(general, 0, "rlnB", "two words");
    struct star_table *particles = star_table_find(file, "particles");
    assert_true(star_table_is_loop(particles));
    assert_int_equal(star_row_count(particles), 3);
    assert_cell(particles, 0, "rlnY", "first#mrc");
    assert_cell(particles, 1, "rlnY", "_second");
    assert_cell(particles, 2, "rlnX", "_third");
    assert_null(star_table_find(file, "other"));
    star_destroy(&file);
    assert_null(file);
}

static void quotes_end_at_a_space(void **state) {
    (void)state;
    struct star_file *file =
        parsed("data_\nloop_\n_a\n_b\n_c\n_d\n'it's here' \"5\"deep\" '' d'e\n' ' \"\" \"x\" '\"'\n");
    struct star_table *table = star_table_find(file, "");
    assert_cell(table, 0, "a", "it's here");
    assert_cell(table, 0, "b", "5\"deep");
    assert_cell(table, 0, "c", "");
    assert_cell(table, 0, "d", "d'e");
    assert_cell(table, 1, "a", " ");
    assert_cell(table, 1, "b", "");
    assert_cell(table, 1, "c", "x");
    assert_cell(table, 1, "d", "\"");
    star_destroy(&file);
}

static void foreign_line_ends_do_not_matter(void **state) {
    (void)state;
    struct star_file *file = parsed("\xEF\xBB\xBF"
                                    "data_x\r\n\r\nloop_\r\n_a #1\r\n_b #2\r\n1 2\r\n3\t4");
    struct star_table *table = star_table_find(file, "x");
    assert_int_equal(star_row_count(table), 2);
    assert_cell(table, 0, "b", "2");
    assert_cell(table, 1, "b", "4");
    star_destroy(&file);
}

static void text_blocks_are_read(void **state) {
    (void)state;
    struct star_file *file =
        parsed("data_x\n_note\n;first\nsecond\n;\n_after 1\nloop_\n_a\n_b\n_c\n1\n;in a\nrow\n; 3\n4 5 6\n"
               ";start\n; 8\n9\n");
    assert_int_equal(star_table_count(file), 2);
    assert_cell(star_table_at(file, 0), 0, "note", "first\nsecond");
    assert_cell(star_table_at(file, 0), 0, "after", "1");
    struct star_table *table = star_table_at(file, 1);
    assert_string_equal(star_table_name(table), "x");
    assert_int_equal(star_row_count(table), 3);
    assert_cell(table, 0, "b", "in a\nrow");
    assert_cell(table, 0, "c", "3");
    assert_cell(table, 1, "c", "6");
    assert_cell(table, 2, "a", "start");
    assert_cell(table, 2, "c", "9");
    star_destroy(&file);
}

/* A path may begin with a keyword. */
static void keywords_mean_something_only_alone(void **state) {
    (void)state;
    struct star_file *file = parsed("data_x\nloop_\n_a\n_b\ndata_2020/mic.mrc 1\nloop_ 2\ndata_y\n_c 5\n");
    assert_int_equal(star_table_count(file), 2);
    assert_cell(star_table_at(file, 0), 0, "a", "data_2020/mic.mrc");
    assert_cell(star_table_at(file, 0), 1, "a", "loop_");
    assert_cell(star_table_at(file, 1), 0, "c", "5");
    star_destroy(&file);
}

static void broken_files_are_refused_with_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum status status;
        const char *says;
    } cases[] = {
        {"", STATUS_TRUNCATED, "empty"},
        {"# only a comment\n", STATUS_TRUNCATED, "no data block"},
        {"Dear reader,\n", STATUS_BAD_FORMAT, "line 1"},
        {"loop_\n_a\n1\n", STATUS_BAD_FORMAT, "line 1"},
        {"_a 1\n", STATUS_BAD_FORMAT, "line 1"},
        {"data_x\nloop_\n_a\n_b\n1 2\n3\n4 5\n", STATUS_BAD_FORMAT, "line 6: 1 values"},
        {"data_x\nloop_\n_a\n_b\n1 2 3\n", STATUS_BAD_FORMAT, "line 5: 3 values"},
        {"data_x\nloop_\n_a\n_b\n1 2\n3", STATUS_TRUNCATED, "line 6: 1 values"},
        {"data_x\nloop_\n_a\n_b\n_a\n1 2 3\n", STATUS_BAD_FORMAT, "line 5"},
        {"data_x\n_a 1\n_a 2\n", STATUS_BAD_FORMAT, "twice"},
        {"data_x\n_a 1 2\n", STATUS_BAD_FORMAT, "line 2"},
        {"data_x\n_a\n_b 1\n", STATUS_BAD_FORMAT, "_a has no value"},
        {"data_x\n_a", STATUS_TRUNCATED, "_a has no value"},
        {"data_x\nstray\n", STATUS_BAD_FORMAT, "stray"},
        {"data_x\n;stray\n;\n", STATUS_BAD_FORMAT, "line 2"},
        {"data_x\n_a 'open\n", STATUS_BAD_FORMAT, "quote is not closed"},
        {"data_x\n_a\n;open\nand open\n", STATUS_TRUNCATED, "begins in line 3"},
        {"data_x\nloop_\n1 2\n", STATUS_BAD_FORMAT, "line 3"},
        {"data_x\nloop_\nloop_\n", STATUS_BAD_FORMAT, "line 3"},
        {"data_x\nloop_\n", STATUS_TRUNCATED, "loop_"},
        {"data_x\nloop_\ndata_y\n", STATUS_BAD_FORMAT, "line 3"},
        {"data_x\nloop_\n_a 1\n", STATUS_BAD_FORMAT, "line 3"},
        {"data_x\n_ 1\n", STATUS_BAD_FORMAT, "line 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct star_file *file = NULL;
        enum status status = star_parse("broken.star", cases[i].text, strlen(cases[i].text), &file, &err);
        if (status != cases[i].status || strstr(err.message, cases[i].says) == NULL ||
            strncmp(err.message, "broken.star: ", 13) != 0)
            fail_msg("%s\ngave %s: %s", cases[i].text, status_name(status), err.message);
        assert_null(file);
    }
    struct err err = {0};
    struct star_file *file = NULL;
    assert_int_equal(star_parse("zero.star", "data_x\n_a \0001\n", 13, &file, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "byte 10"));
}

static void assert_same(struct star_file *a, struct star_file *b) {
    assert_int_equal(star_table_count(a), star_table_count(b));
    for (size_t i = 0; i < star_table_count(a); i++) {
        struct star_table *s = star_table_at(a, i), *t = star_table_at(b, i);
        assert_string_equal(star_table_name(s), star_table_name(t));
        assert_int_equal(star_table_is_loop(s), star_table_is_loop(t));
        assert_int_equal(star_row_count(s), star_row_count(t));
        assert_int_equal(star_column_count(s), star_column_count(t));
        for (size_t c = 0; c < star_column_count(s); c++) {
            assert_string_equal(star_column_name(s, c), star_column_name(t, c));
            for (size_t r = 0; r < star_row_count(s); r++)
                if (strcmp(star_get(s, r, (int)c), star_get(t, r, (int)c)) != 0)
                    fail_msg("row %zu: %s is \"%s\", not \"%s\"", r, star_column_name(s, c), star_get(t, r, (int)c),
                             star_get(s, r, (int)c));
        }
    }
}

static void assert_round_trip(struct star_file *file) {
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("round_trip.star", path);
    assert_ok(star_write(file, path, &err));
    struct star_file *again = NULL;
    assert_ok(star_read(path, &again, &err));
    assert_same(file, again);
    star_destroy(&again);
}

static void odd_values_come_back(void **state) {
    (void)state;
    static const char *const values[] = {
        "",           " ",
        "a b",        "it's",
        "\"",         "'",
        "'\"",        "a' b",
        "a\" b",      "a' b\" c",
        "#x",         "_x",
        ";x",         "data_x",
        "DATA_",      "loop_",
        "stop_",      "$x",
        "two\nlines", "two\n\nlines\n",
        "tab\tin",    "000001@a/b.mrcs",
        "Å",          "x#y",
        "-1.5",       "nan",
        "a;b",        "[1]",
    };
    enum { COUNT = sizeof values / sizeof *values };
    struct err err = {0};
    struct star_file *file = NULL;
    assert_ok(star_create(&file, &err));
    struct star_table *loop = NULL, *pairs = NULL, *single = NULL, *empty = NULL;
    assert_ok(star_table_add(file, "pairs", false, &pairs, &err));
    assert_ok(star_table_add(file, "loop", true, &loop, &err));
    assert_ok(star_table_add(file, "single", true, &single, &err));
    assert_ok(star_table_add(file, "", true, &empty, &err));
    assert_ok(star_column_add(empty, "rlnNothing", NULL, NULL, &err));
    assert_ok(star_column_add(single, "rlnOne", NULL, NULL, &err));
    for (int c = 0; c < 3; c++) {
        char name[32];
        snprintf(name, sizeof name, "rlnColumn%d", c);
        assert_ok(star_column_add(loop, name, NULL, NULL, &err));
    }
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        int column = -1;
        snprintf(name, sizeof name, "rlnLabel%d", i);
        assert_ok(star_column_add(pairs, name, NULL, &column, &err));
        assert_int_equal(column, i);
        assert_ok(star_set(pairs, 0, column, values[i], &err));
        size_t row = 0;
        assert_ok(star_row_add(single, &row, &err));
        assert_ok(star_set(single, row, 0, values[i], &err));
        assert_ok(star_row_add(loop, &row, &err));
        for (int c = 0; c < 3; c++)
            assert_ok(star_set(loop, row, c, values[(i + 7 * c) % COUNT], &err));
    }
    assert_round_trip(file);
    assert_ok(star_set(loop, 0, 0, "cannot\n;be written", &err));
    char path[PATH_SIZE];
    scratch_path("refused.star", path);
    assert_int_equal(star_write(file, path, &err), STATUS_BAD_ARGUMENT);
    assert_false(file_exists(path));
    star_destroy(&file);
}

static void numbers_are_kept(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0.000000"},  {1.5, "1.500000"},       {-12345.678901, "-12345.678901"}, {999999.5, "999999.500000"},
        {1e-4, "0.0001"}, {-3.25e-9, "-3.25e-09"}, {12345678, "12345678"},           {1e12, "1e+12"},
        {INFINITY, "inf"}};
    struct err err = {0};
    struct star_file *file = NULL;
    struct star_table *table = NULL;
    assert_ok(star_create(&file, &err));
    assert_ok(star_table_add(file, "x", false, &table, &err));
    assert_ok(star_column_add(table, "a", NULL, NULL, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(star_set_number(table, 0, 0, cases[i].value, &err));
        assert_string_equal(star_get(table, 0, 0), cases[i].text);
        double back = 0;
        assert_ok(star_get_number(table, 0, 0, &back, &err));
        assert_true(back == cases[i].value || fabs(back - cases[i].value) <= 1e-8 * fabs(cases[i].value));
    }
    assert_int_equal(star_set_number(table, 0, 0, NAN, &err), STATUS_BAD_ARGUMENT);
    long whole = 0;
    assert_ok(star_set_integer(table, 0, 0, -42, &err));
    assert_ok(star_get_integer(table, 0, 0, &whole, &err));
    assert_int_equal(whole, -42);
    assert_ok(star_set(table, 0, 0, "3.000000", &err));
    assert_ok(star_get_integer(table, 0, 0, &whole, &err));
    assert_int_equal(whole, 3);
    assert_ok(star_set(table, 0, 0, "3.5", &err));
    assert_int_equal(star_get_integer(table, 0, 0, &whole, &err), STATUS_BAD_FORMAT);
    assert_ok(star_set(table, 0, 0, "12Å", &err));
    double number = 7;
    assert_int_equal(star_get_number(table, 0, 0, &number, &err), STATUS_BAD_FORMAT);
    assert_true(number == 7);
    assert_non_null(strstr(err.message, "12Å"));
    assert_int_equal(star_get_number(table, 1, 0, &number, &err), STATUS_BAD_ARGUMENT);
    assert_int_equal(star_set(table, 0, 1, "x", &err), STATUS_BAD_ARGUMENT);
    star_destroy(&file);
}

/* Numbers get six decimals as printf rounds them, also near and exactly half way between two values. */
static void six_decimals_are_those_of_printf(void **state) {
    (void)state;
    char expected[64], text[64];
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 2000000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        double uniform = (double)(random >> 11) * 0x1p-53, value = (uniform - 0.5) * pow(10, (double)(i % 12) - 2);
        if (i % 5 == 1) value = rint(value * 1e6) / 1e6;         /* a value read from a file */
        if (i % 5 == 2) value = (rint(value * 1e6) + 0.5) / 1e6; /* nearly half way */
        if (i % 5 == 3) value = rint(value * 128) / 128;         /* exactly half way: 7 decimals that end in 5 */
        if (i % 5 == 4) value = nextafter((rint(value * 1e6) + 0.5) / 1e6, i); /* the next value */
        size_t length = text_six_decimals(value, text);
        snprintf(expected, sizeof expected, "%.6f", value);
        if (strcmp(text, expected) != 0 || length != strlen(expected))
            fail_msg("%a: %s, not %s", value, text, expected);
    }
    static const double others[] = {0, -0.0, 0.5, -1, 999999.9999995, 1e8, 123456789.987654, 0x1p-60, -0x1p-60};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        (void)text_six_decimals(others[i], text);
        snprintf(expected, sizeof expected, "%.6f", others[i]);
        assert_string_equal(text, expected);
    }
}

/* Fails unless the text is read as strtod reads it, to the last bit, or is refused. Returns whether it was read. */
static bool read_as_strtod(const char *text) {
    char *end;
    double value = 1e300, expected = strtod(text, &end);
    bool read = text_decimal(text, &value);
    if (!read) assert_true(value == 1e300);
    if (read && (end == text || *end != '\0' || memcmp(&value, &expected, sizeof value) != 0))
        fail_msg("%s: %a, not %a", text, value, expected);
    return read;
}

static void decimals_are_those_of_strtod(void **state) {
    (void)state;
    char text[64];
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 1000000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        double value = ((double)(random >> 11) * 0x1p-53 - 0.5) * pow(10, (double)(i % 12) - 2);
        snprintf(text, sizeof text, "%.*f", i % 10, value);
        (void)read_as_strtod(text);
        if (i % 10 == 6) assert_true(read_as_strtod(text));
    }
    static const char *const read[] = {"0",
                                       "-0",
                                       "-0.000000",
                                       "+7",
                                       "007.50",
                                       ".5",
                                       "-.5",
                                       "5.",
                                       "9007199254740992",
                                       "0.000000000000000001",
                                       "9007199254740.991",
                                       "0.9007199254740991"};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!read_as_strtod(read[i])) fail_msg("%s was not read", read[i]);
    static const char *const refused[] = {"",
                                          "-",
                                          "+",
                                          ".",
                                          "-.",
                                          "1e3",
                                          "nan",
                                          "inf",
                                          "0x10",
                                          " 1",
                                          "1 ",
                                          "1.2.3",
                                          "--1",
                                          "1,5",
                                          "9007199254740993",
                                          "18446744073709551617",
                                          "0.0000000000000000001"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (read_as_strtod(refused[i])) fail_msg("%s was read", refused[i]);
}

static void columns_are_added_and_missed(void **state) {
    (void)state;
    struct err err = {0};
    struct star_file *file =
        parsed("data_micrographs\nloop_\n_rlnMicrographName\n_rlnDefocusU\na.mrc 1\nb.mrc 2\nc.mrc 3\n");
    struct star_table *table = star_table_at(file, 0);
    int column = -1;
    /* More columns than the first stride holds, so that the rows move. */
    for (int i = 0; i < 40; i++) {
        char name[32], fill[32];
        snprintf(name, sizeof name, "rlnMore%d", i);
        snprintf(fill, sizeof fill, "fill%d", i);
        assert_ok(star_column_add(table, name, fill, &column, &err));
        assert_int_equal(column, 2 + i);
    }
    assert_ok(star_column_add(table, "rlnDefocusU", "9", &column, &err));
    assert_int_equal(column, 1);
    for (size_t row = 0; row < 3; row++) {
        const char name[] = {(char)('a' + row), '.', 'm', 'r', 'c', '\0'}, defocus[] = {(char)('1' + row), '\0'};
        assert_cell(table, row, "rlnMicrographName", name);
        assert_cell(table, row, "rlnDefocusU", defocus);
        assert_cell(table, row, "rlnMore0", "fill0");
        assert_cell(table, row, "rlnMore39", "fill39");
    }
    /* Setting one cell does not change the fill text that others share. */
    assert_ok(star_set(table, 1, 2, "x", &err));
    assert_cell(table, 0, "rlnMore0", "fill0");
    assert_cell(table, 1, "rlnMore0", "x");
    assert_int_equal(star_column_need(table, "rlnMicrographNmae", &column, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "text.star"));
    assert_non_null(strstr(err.message, "rlnMicrographName"));
    assert_int_equal(star_column_add(table, "two words", NULL, &column, &err), STATUS_BAD_ARGUMENT);
    struct star_table *other = NULL;
    assert_int_equal(star_table_add(file, "two words", true, &other, &err), STATUS_BAD_ARGUMENT);
    assert_ok(star_table_add(file, "fresh", true, &other, &err));
    assert_int_equal(star_row_add(other, NULL, &err), STATUS_BAD_STATE);
    star_destroy(&file);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Writes and reads the particles of a long session, and prints the times. */
static void long_tables_come_back(void **state) {
    (void)state;
    enum { ROWS = 300000, COLUMNS = 20 };
    struct err err = {0};
    struct star_file *file = NULL, *again = NULL;
    struct star_table *table = NULL;
    assert_ok(star_create(&file, &err));
    assert_ok(star_table_add(file, "particles", true, &table, &err));
    for (int c = 0; c < COLUMNS; c++) {
        char name[32];
        snprintf(name, sizeof name, "rlnColumn%d", c);
        assert_ok(star_column_add(table, name, NULL, NULL, &err));
    }
    double start = seconds();
    for (int r = 0; r < ROWS; r++) {
        char name[64];
        assert_ok(star_row_add(table, NULL, &err));
        snprintf(name, sizeof name, "%06d@extractor/micrograph_%04d.mrcs", r % 300 + 1, r / 300);
        assert_ok(star_set(table, (size_t)r, 0, name, &err));
        for (int c = 1; c < COLUMNS; c++)
            assert_ok(star_set_number(table, (size_t)r, c, r * 0.37 + c, &err));
    }
    double filled = seconds();
    char path[PATH_SIZE];
    scratch_path("long.star", path);
    assert_ok(star_write(file, path, &err));
    double written = seconds();
    assert_ok(star_read(path, &again, &err));
    double read = seconds();
    printf("%d x %d: filled in %.2f s, written in %.2f s, read in %.2f s\n", ROWS, COLUMNS, filled - start,
           written - filled, read - written);
    assert_same(file, again);
    star_destroy(&file);
    star_destroy(&again);
}

/* Writing piece by piece gives the same file as one table with all rows. */
static void rows_are_written_as_they_come(void **state) {
    (void)state;
    char whole[PATH_SIZE], pieces[PATH_SIZE];
    struct err err = {0};
    struct star_file *all =
        parsed("data_optics\nloop_\n_o\n1\ndata_p\nloop_\n_a\n_b\n1 x\n2 'y z'\n3 w\ndata_end\n_c 4\n");
    struct star_file *first = parsed("data_p\nloop_\n_a\n_b\n1 x\n"),
                     *rest = parsed("data_p\nloop_\n_a\n_b\n2 'y z'\n3 w\n");
    struct star_file *other = parsed("data_p\nloop_\n_a\n9\n");
    struct star_writer *writer = NULL;
    scratch_path("whole.star", whole);
    scratch_path("pieces.star", pieces);
    assert_ok(star_write(all, whole, &err));
    assert_ok(star_writer_create(pieces, &writer, &err));
    assert_int_equal(star_writer_rows(writer, star_table_at(rest, 0), &err),
                     STATUS_BAD_ARGUMENT); /* no loop has begun */
    assert_ok(star_writer_table(writer, star_table_at(all, 0), &err));
    assert_ok(star_writer_table(writer, star_table_at(first, 0), &err));
    assert_int_equal(star_writer_rows(writer, star_table_at(other, 0), &err), STATUS_BAD_ARGUMENT);
    assert_ok(star_writer_rows(writer, star_table_at(rest, 0), &err));
    assert_ok(star_writer_table(writer, star_table_at(all, 2), &err));
    assert_false(file_exists(pieces));
    assert_ok(star_writer_commit(&writer, &err));
    char *a = NULL, *b = NULL;
    assert_ok(file_read_whole(whole, 1 << 20, &a, NULL, &err));
    assert_ok(file_read_whole(pieces, 1 << 20, &b, NULL, &err));
    assert_string_equal(a, b);
    assert_ok(star_writer_create(pieces, &writer, &err));
    star_writer_discard(&writer);
    assert_true(file_exists(pieces));
    free(a);
    free(b);
    struct star_file *files[] = {all, first, rest, other};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        star_destroy(&files[i]);
}

static void other_programs_files_are_read(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t tables, rows, columns;
    } files[] = {
        {"basic_double_quote.star", 1, 1, 4},
        {"basic_single_quote.star", 1, 1, 4},
        {"default_pipeline.star", 5, 72, 2},
        {"empty_loop.star", 1, 0, 1},
        {"loop_double_quote.star", 1, 2, 8},
        {"loop_single_quote.star", 1, 2, 8},
        {"one_loop.star", 1, 16, 12},
        {"postprocess.star", 3, 49, 3},
        {"relion_tutorial/run_it025_optimiser_2D.star", 1, 1, 84},
        {"relion_tutorial/run_it025_optimiser_3D.star", 1, 1, 84},
        {"relion_tutorial/run_it025_sampling_2D.star", 1, 1, 12},
        {"relion_tutorial/run_it025_sampling_3D.star", 2, 192, 2},
        {"rln3.1_data_style.star", 3, 2, 5},
        {"single_line_end_of_multiblock.star", 2, 1, 5},
        {"single_line_middle_of_multiblock.star", 2, 1, 5},
        {"two_basic_blocks.star", 2, 1, 3},
        {"two_single_line_loop_blocks.star", 2, 1, 3},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[256], path[PATH_SIZE];
        snprintf(name, sizeof name, "starfile/tests/data/%s", files[i].name);
        if (!scratch_data(name, path)) {
            print_message("no shared data: %s\n", path);
            skip();
        }
        struct err err = {0};
        struct star_file *file = NULL;
        assert_ok(star_read(path, &file, &err));
        size_t count = star_table_count(file);
        struct star_table *last = star_table_at(file, count - 1);
        if (count != files[i].tables || star_row_count(last) != files[i].rows ||
            star_column_count(last) != files[i].columns)
            fail_msg("%s: %zu tables, last %zu x %zu", name, count, star_row_count(last), star_column_count(last));
        if (strstr(name, "_quote") != NULL) {
            assert_cell(last, 0, "quote_string", "quote string");
            assert_cell(last, 0, "whitespace_string", " ");
            assert_cell(last, 0, "empty_string", "");
        }
        assert_round_trip(file);
        star_destroy(&file);
    }
}

static void relion_reads_what_we_write(void **state) {
    (void)state;
    if (scratch_shell("command -v relion_star_handler > /dev/null") != 0) {
        print_message("relion_star_handler is not installed\n");
        skip();
    }
    struct err err = {0};
    struct star_file *file =
        parsed("data_optics\n\nloop_\n_rlnOpticsGroupName\n_rlnOpticsGroup\n_rlnVoltage\n"
               "_rlnSphericalAberration\n_rlnAmplitudeContrast\n_rlnImagePixelSize\n_rlnImageSize\n"
               "_rlnImageDimensionality\nopticsGroup1 1 300 2.7 0.1 1.5 96 2\n"
               "data_particles\nloop_\n_rlnImageName\n_rlnMicrographName\n_rlnCoordinateX\n"
               "_rlnCoordinateY\n_rlnOpticsGroup\n"
               "000001@a.mrcs data_a.mrc 10.5 20.25 1\n000002@a.mrcs 'with space.mrc' 1e-4 2e7 1\n"
               "000003@a.mrcs \"\" 30 40 1\n");
    char path[PATH_SIZE], out[PATH_SIZE];
    scratch_path("for_relion.star", path);
    scratch_path("from_relion.star", out);
    assert_ok(star_write(file, path, &err));
    assert_int_equal(
        scratch_shell("relion_star_handler --i '%s' --o '%s' --select rlnCoordinateX --minval -1 > /dev/null", path,
                      out),
        0);
    struct star_file *again = NULL;
    assert_ok(star_read(out, &again, &err));
    struct star_table *particles = star_table_find(again, "particles");
    assert_non_null(particles);
    assert_int_equal(star_row_count(particles), 3);
    assert_cell(particles, 0, "rlnMicrographName", "data_a.mrc");
    assert_cell(particles, 1, "rlnMicrographName", "with space.mrc");
    assert_cell(particles, 2, "rlnImageName", "000003@a.mrcs");
    double x = 0;
    assert_ok(star_get_number(particles, 1, star_column_find(particles, "rlnCoordinateX"), &x, &err));
    assert_true(fabs(x - 1e-4) < 1e-9);
    assert_non_null(star_table_find(again, "optics"));
    star_destroy(&file);
    star_destroy(&again);
}

/* A cell that is left out adds no column, wherever it stands in the list; a row without a value gets "nan". */
static void cells_are_left_out_on_a_condition(void **state) {
    (void)state;
    struct star_file *file = NULL;
    struct star_table *table = NULL;
    size_t row;
    struct err err = {0};
    assert_ok(star_create(&file, &err));
    assert_ok(star_table_add(file, "rows", true, &table, &err));
    for (int i = 0; i < 2; i++) {
        const struct star_cell cells[] = {
            {.column = "a", .value = 0.5},
            {.column = "b", .value = 7.6, .integer = true, .unless = i == 0},
            {.column = "c", .value = 3, .text = "text", .unless = false},
            {.column = "d", .unless = true},
        };
        assert_ok(star_cells_row(table, cells, sizeof cells / sizeof *cells, &err));
        assert_int_equal(star_column_count(table), i == 0 ? 2 : 3);
    }
    assert_cell(table, 0, "a", "0.500000");
    assert_cell(table, 0, "b", "nan");
    assert_cell(table, 1, "b", "8");
    assert_cell(table, 1, "c", "text");
    assert_int_equal(star_column_find(table, "d"), -1);
    assert_ok(star_row_begin(table, "a", &row, &err));
    assert_ok(star_put_integer(table, row, "b", -2, &err));
    assert_ok(star_row_fill(table, row, &err));
    assert_cell(table, row, "a", "nan");
    assert_cell(table, row, "b", "-2");
    assert_ok(star_row_copy(table, 1, table, row, &err));
    assert_cell(table, row, "b", "8");
    star_destroy(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_pairs_and_comments_are_read),
        cmocka_unit_test(quotes_end_at_a_space),
        cmocka_unit_test(foreign_line_ends_do_not_matter),
        cmocka_unit_test(text_blocks_are_read),
        cmocka_unit_test(keywords_mean_something_only_alone),
        cmocka_unit_test(broken_files_are_refused_with_their_line),
        cmocka_unit_test(odd_values_come_back),
        cmocka_unit_test(numbers_are_kept),
        cmocka_unit_test(six_decimals_are_those_of_printf),
        cmocka_unit_test(decimals_are_those_of_strtod),
        cmocka_unit_test(columns_are_added_and_missed),
        cmocka_unit_test(cells_are_left_out_on_a_condition),
        cmocka_unit_test(long_tables_come_back),
        cmocka_unit_test(rows_are_written_as_they_come),
        cmocka_unit_test(other_programs_files_are_read),
        cmocka_unit_test(relion_reads_what_we_write),
    };
    return scratch_run("star", tests, sizeof tests / sizeof *tests);
}
