/* Tests tables with commas: reads good ones, refuses bad ones, and reads back written ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/csv.h"
#include "tests/common/scratch.h"

static enum status read_text(const char *text, size_t length, struct csv *csv, struct err *err) {
    char path[PATH_SIZE];
    scratch_path("a.csv", path);
    assert_int_equal(file_write_whole(path, text, length, NULL), STATUS_OK);
    return csv_read(path, csv, err);
}

static void cells_and_lines(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbfpath, label\r\n\r\na.png,\"precip & \"\"crystal\"\"\"\n"
                               "\"b,\n1.png\" , clear ,x\n,\nlast";
    struct csv csv = {0};
    struct err err = {0};
    assert_int_equal(read_text(text, sizeof text - 1, &csv, &err), STATUS_OK);
    assert_int_equal(csv.count, 5);
    assert_string_equal(csv.rows[0].cells[0], "path");
    assert_string_equal(csv.rows[0].cells[1], "label");
    assert_int_equal(csv.rows[1].line, 3);
    assert_string_equal(csv.rows[1].cells[1], "precip & \"crystal\"");
    assert_int_equal(csv.rows[2].count, 3);
    assert_string_equal(csv.rows[2].cells[0], "b,\n1.png");
    assert_string_equal(csv.rows[2].cells[1], "clear");
    assert_int_equal(csv.rows[3].count, 2);
    assert_int_equal(csv.rows[3].line, 6);
    assert_string_equal(csv.rows[3].cells[0], "");
    assert_string_equal(csv.rows[4].cells[0], "last");
    csv_clear(&csv);
    assert_int_equal(read_text("", 0, &csv, &err), STATUS_OK);
    assert_int_equal(csv.count, 0);
    csv_clear(&csv);
}

static void broken_ones_are_refused(void **state) {
    (void)state;
    struct csv csv = {0};
    struct err err = {0};
    assert_int_equal(read_text("a,b\n\"c,d\n", 9, &csv, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "line 2: the quote that begins on this line is not closed"));
    assert_int_equal(read_text("a\n\"c\"d,e\n", 9, &csv, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "line 2: a comma or the line's end is expected"));
    assert_int_equal(read_text("a\0b", 3, &csv, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "a byte 0 at 1"));
    assert_int_equal(read_text("a,b\rc,d\r", 8, &csv, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "a carriage return alone"));
    assert_null(csv.rows);
}

static void what_is_written_comes_back(void **state) {
    (void)state;
    static const char *const cells[] = {"plain", "with, comma", "\"quoted\"", "two\nlines", " blank ", "", "é"};
    enum { COUNT = sizeof cells / sizeof *cells };
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    for (int i = 0; i < COUNT; i++) {
        csv_write(out, cells[i]);
        fputc(i + 1 < COUNT ? ',' : '\n', out);
    }
    fclose(out);
    struct csv csv = {0};
    assert_int_equal(read_text(text, length, &csv, NULL), STATUS_OK);
    assert_int_equal(csv.count, 1);
    assert_int_equal(csv.rows[0].count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_string_equal(csv.rows[0].cells[i], cells[i]);
    csv_clear(&csv);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_and_lines),
        cmocka_unit_test(broken_ones_are_refused),
        cmocka_unit_test(what_is_written_comes_back),
    };
    return scratch_run("csv", tests, sizeof tests / sizeof *tests);
}
