/* Tests loops that are long enough for several threads: each cell is that of its row, and an error names the line that
 * a reader of one line after the other would name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/star.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

enum { ROWS = 20000, FIRST_LINE = 5 }; /* of the first row */

static struct err err;

/* Makes a loop of two columns. other, other2: what stands in place of two rows; NULL: what stands in all. */
static char *loop_of(size_t rows, size_t row, const char *other, size_t row2, const char *other2, const char *newline) {
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    fprintf(f, "data_rows\nloop_\n_a\n_b\n");
    for (size_t i = 0; i < rows; i++)
        if ((i == row && other != NULL) || (i == row2 && other2 != NULL))
            fprintf(f, "%s%s", i == row ? other : other2, newline);
        else
            fprintf(f, i % 3 == 0 ? "%zu 'b %zu'%s" : " %zu\t\"b %zu\" # note%s", i, i, newline);
    assert_int_equal(fclose(f), 0);
    return text;
}

static void assert_row(const struct star_table *t, size_t row, size_t number) {
    char a[32], b[32];
    snprintf(a, sizeof a, "%zu", number);
    snprintf(b, sizeof b, "b %zu", number);
    assert_string_equal(star_get(t, row, 0), a);
    assert_string_equal(star_get(t, row, 1), b);
}

/* Replaces a row by a text that stands for `more` + 1 rows, of which the first is a, b. */
static void assert_read(const char *other, size_t more, const char *a, const char *b) {
    _cleanup_(mem_free) char *text = loop_of(ROWS, 9000, other, 0, NULL, "\n");
    _cleanup_(star_destroy) struct star_file *file = NULL;
    assert_ok(star_parse("long.star", text, strlen(text), &file, &err));
    const struct star_table *t = star_table_find(file, "rows");
    assert_int_equal(star_row_count(t), ROWS + more);
    assert_string_equal(star_get(t, 9000, 0), a);
    assert_string_equal(star_get(t, 9000, 1), b);
    for (size_t i = 0; i < ROWS; i++)
        if (i != 9000) assert_row(t, i < 9000 ? i : i + more, i);
}

static void each_row_is_where_it_stands(void **state) {
    (void)state;
    assert_read("x y", 0, "x", "y");
    assert_read("x 'y y' # note", 0, "x", "y y");
    assert_read("# between\nx y", 0, "x", "y");
    assert_read("\n \t\nx y", 0, "x", "y");
    assert_read("x\n;y\nz\n;", 0, "x", "y\nz");
    assert_read(";x\n; y", 0, "x", "y");
    assert_read("x y\n;z\n; u", 1, "x", "y");
    assert_read("_x y", 0, "_x", "y");
    assert_read("data_1/x y", 0, "data_1/x", "y");
    assert_read("loop_x y", 0, "loop_x", "y");
    assert_read("'data_x' loop_", 0, "data_x", "loop_");
}

/* A name behind an empty line begins a new table, and one in a row does not, however long ago a line was empty. */
static void an_empty_line_before_other_rows_is_forgotten(void **state) {
    (void)state;
    _cleanup_(mem_free) char *text = loop_of(ROWS, 9000, "_x y", 8000, "\n8000 'b 8000'", "\n");
    _cleanup_(star_destroy) struct star_file *file = NULL;
    assert_ok(star_parse("long.star", text, strlen(text), &file, &err));
    assert_int_equal(star_row_count(star_table_at(file, 0)), ROWS);
    assert_string_equal(star_get(star_table_at(file, 0), 9000, 0), "_x");
    assert_row(star_table_at(file, 0), 8000, 8000);
}

static void lines_may_end_as_windows_ends_them(void **state) {
    (void)state;
    _cleanup_(mem_free) char *text = loop_of(ROWS, 0, NULL, 0, NULL, "\r\n");
    _cleanup_(star_destroy) struct star_file *file = NULL;
    assert_ok(star_parse("long.star", text, strlen(text), &file, &err));
    for (size_t i = 0; i < ROWS; i++)
        assert_row(star_table_at(file, 0), i, i);
}

static void a_loop_ends_where_another_block_begins(void **state) {
    (void)state;
    static const char *const ENDS[] = {"data_next\n\nloop_\n_a\n_b", "loop_\n_a\n_b"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        _cleanup_(mem_free) char *text = loop_of(ROWS, 9000, ENDS[i], 0, NULL, "\n");
        _cleanup_(star_destroy) struct star_file *file = NULL;
        assert_ok(star_parse("long.star", text, strlen(text), &file, &err));
        assert_int_equal(star_table_count(file), 2);
        assert_int_equal(star_row_count(star_table_at(file, 0)), 9000);
        assert_int_equal(star_row_count(star_table_at(file, 1)), ROWS - 9001);
        assert_row(star_table_at(file, 0), 8999, 8999);
        assert_row(star_table_at(file, 1), 0, 9001);
        assert_row(star_table_at(file, 1), ROWS - 9002, ROWS - 1);
    }
}

static void assert_refused(size_t row, const char *other, size_t row2, const char *other2, enum status expected,
                           size_t row_named, const char *said) {
    char message[256];
    _cleanup_(mem_free) char *text = loop_of(ROWS, row, other, row2, other2, "\n");
    struct star_file *file = NULL;
    snprintf(message, sizeof message, "long.star: line %zu: %s", FIRST_LINE + row_named, said);
    assert_int_equal(star_parse("long.star", text, strlen(text), &file, &err), expected);
    assert_string_equal(err.message, message);
    assert_null(file);
}

static void the_first_wrong_row_is_named(void **state) {
    (void)state;
    const char *few = "1 values where data_rows has 2 columns", *many = "3 values where data_rows has 2 columns";
    const size_t rows[] = {1, 2047, 2048, 2049, 9000, ROWS - 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(rows[i], "x", 0, NULL, STATUS_BAD_FORMAT, rows[i], few);
        assert_refused(rows[i], "x y z", 0, NULL, STATUS_BAD_FORMAT, rows[i], many);
        assert_refused(rows[i], "x \"y", 0, NULL, STATUS_BAD_FORMAT, rows[i], "a quote is not closed (\"\"y\")");
    }
    assert_refused(19000, "x", 3, "x y z", STATUS_BAD_FORMAT, 3, many);
    assert_refused(19000, "x", 16500, "x y z", STATUS_BAD_FORMAT, 16500, many);
    /* A line before with a comment, so that rows and lines differ. */
    assert_refused(10, "# note\nx y", 19000, "x", STATUS_BAD_FORMAT, 19001, few);
}

/* The last line has no newline: a writer may still be at work. */
static void a_row_that_the_file_cuts_is_truncated(void **state) {
    (void)state;
    _cleanup_(mem_free) char *text = loop_of(ROWS, ROWS - 1, "x", 0, NULL, "\n");
    struct star_file *file = NULL;
    assert_int_equal(star_parse("long.star", text, strlen(text) - 1, &file, &err), STATUS_TRUNCATED);
    text[strlen(text) - 2] = '\n';
    assert_ok(star_parse("long.star", text, strlen(text) - 1, &file, &err));
    assert_int_equal(star_row_count(star_table_at(file, 0)), ROWS - 1);
    star_destroy(&file);
}

static void rows_and_columns_may_follow(void **state) {
    (void)state;
    _cleanup_(mem_free) char *text = loop_of(ROWS, 0, NULL, 0, NULL, "\n");
    _cleanup_(star_destroy) struct star_file *file = NULL;
    assert_ok(star_parse("long.star", text, strlen(text), &file, &err));
    struct star_table *t = star_table_at(file, 0);
    for (size_t i = ROWS; i < ROWS + 100; i++) {
        size_t row;
        assert_ok(star_row_add(t, &row, &err));
        assert_int_equal(row, i);
        assert_ok(star_set_integer(t, row, 0, (long)i, &err));
    }
    for (int i = 0; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        assert_ok(star_column_add(t, name, "fill", NULL, &err));
    }
    for (size_t i = 0; i < ROWS; i++)
        assert_row(t, i, i);
    assert_string_equal(star_get(t, ROWS + 99, 0), "20099");
    assert_string_equal(star_get(t, 12345, 11), "fill");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_where_it_stands),
        cmocka_unit_test(an_empty_line_before_other_rows_is_forgotten),
        cmocka_unit_test(lines_may_end_as_windows_ends_them),
        cmocka_unit_test(a_loop_ends_where_another_block_begins),
        cmocka_unit_test(the_first_wrong_row_is_named),
        cmocka_unit_test(a_row_that_the_file_cuts_is_truncated),
        cmocka_unit_test(rows_and_columns_may_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
