/* Tests the layout of the live table at any width, and how lines break on a terminal. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "common/screen.h"
#include "common/text.h"
#include "pipelines/launcher/progress_table.h"
#include "tests/common/scratch.h"

static const struct progress_row rows[] = {
    {"watcher", 128, 128, 0, 0, 0, 12.34, "waiting", "128 files, 0 pending"},
    {"lowpass-picker", 120, 110, 7, 2, 1, 12.3, "processing", ""},
    {"a-stage-whose-name-is-longer-than-its-column", 1234567, 1234560, 0, 7, 0, 1234.5, "blocked", ""},
    {"refiner", 3, 3, 0, 0, 0, NAN, "computing iteration 17",
     "iteration 16, 345678 particles in 4 classes (52, 31, 10, 7 %), 8.43 Å, and more 123456.789"},
};
enum { ROWS = sizeof rows / sizeof *rows };
static const struct progress_sums sums = {754, 98765, 12.34, 345678, "particles", 8.43};

static char text[16384];

static void draw(size_t count, int width, const struct progress_row *from) {
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    progress_table(&sums, from, count, width, out);
    assert_int_equal(fclose(out), 0);
}

/* Returns whether the text has this number, with no digit beside it. */
static bool has_number(const char *number) {
    for (const char *at = text; (at = strstr(at, number)) != NULL; at++) {
        char before = at > text ? at[-1] : ' ', after = at[strlen(number)];
        if (!isdigit((unsigned char)before) && before != '.' && !isdigit((unsigned char)after)) return true;
    }
    return false;
}

static void no_line_is_too_wide_and_no_number_is_cut(void **state) {
    (void)state;
    static const char *const always[] = {"0:12:34", "98765",   "12.3", "345678",    "8.4",
                                         "110",     "1234560", "17",   "123456.789"};
    for (int width = 30; width <= 200; width++) {
        draw(ROWS, width, rows);
        for (size_t i = 0; i < sizeof always / sizeof *always; i++)
            if (!has_number(always[i])) fail_msg("width %d: %s is not there whole:\n%s", width, always[i], text);
        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
            if ((int)text_width(line) > width) fail_msg("width %d: '%s'", width, line);
    }
}

static void eighty_columns_show_what_matters(void **state) {
    (void)state;
    draw(2, 79, rows);
    assert_string_equal(text, "0:12:34   98765 items   12.3 per minute   345678 particles   8.4 Å\n"
                              "stage           done  seen  failed  rejected  per min  now\n"
                              "watcher          128   128       0         0     12.3  waiting\n"
                              "    128 files, 0 pending\n"
                              "lowpass-picker   110   120       2         7     12.3  processing\n");
}

static void a_long_note_goes_on_below(void **state) {
    (void)state;
    draw(1, 79, &rows[3]);
    assert_string_equal(strchr(text, '\n') + 1,
                        "stage    done  seen  failed  rejected  per min  now\n"
                        "refiner     3     3       0         0           computing iteration 17\n"
                        "    iteration 16, 345678 particles in 4 classes (52, 31, 10, 7 %), 8.43 Å, and\n"
                        "    more 123456.789\n");
}

static void lines_break_at_blanks(void **state) {
    (void)state;
    assert_int_equal(screen_break("one two three", 80), 13);
    assert_int_equal(screen_break("one two three", 9), 7);
    assert_int_equal(screen_break("one two\nthree", 80), 7);
    assert_int_equal(screen_break("at last 8.4 Å", 12), 7); /* not between a number and its unit */
    assert_int_equal(screen_break("/data/grid12345.mrc", 13), 10);
    assert_int_equal(screen_break("ÅÅÅÅ", 2), 4); /* bytes */
    assert_int_equal(screen_break("", 5), 0);
}

static void nothing_shown_moves_the_cursor(void **state) {
    (void)state;
    screen_plain("a\033[2Jb\tc\x7f", true, text, sizeof text);
    assert_string_equal(text, "a?[2Jb?c?");
    screen_plain("x\xc2\x9b"
                 "5Ay",
                 true, text, sizeof text);
    assert_string_equal(text, "x5Ay");
    screen_plain("8.4 Å, 4 × 3°, 日", false, text, sizeof text);
    assert_string_equal(text, "8.4 A, 4 x 3deg, ?");
    screen_plain("8.4 Å", true, text, sizeof text);
    assert_string_equal(text, "8.4 Å");
    screen_plain("ÅÅ", true, text, 4);
    assert_string_equal(text, "Å");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_is_too_wide_and_no_number_is_cut),
        cmocka_unit_test(eighty_columns_show_what_matters),
        cmocka_unit_test(a_long_note_goes_on_below),
        cmocka_unit_test(lines_break_at_blanks),
        cmocka_unit_test(nothing_shown_moves_the_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
