#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/formats/star.h"

static void check_same(struct star_file *a, struct star_file *b) {
    FUZZ_CHECK(star_table_count(a) == star_table_count(b));
    for (size_t i = 0; i < star_table_count(a); i++) {
        struct star_table *s = star_table_at(a, i), *t = star_table_at(b, i);
        FUZZ_CHECK(strcmp(star_table_name(s), star_table_name(t)) == 0);
        FUZZ_CHECK(star_row_count(s) == star_row_count(t) && star_column_count(s) == star_column_count(t));
        for (size_t c = 0; c < star_column_count(s); c++) {
            FUZZ_CHECK(strcmp(star_column_name(s, c), star_column_name(t, c)) == 0);
            for (size_t r = 0; r < star_row_count(s); r++)
                FUZZ_CHECK(strcmp(star_get(s, r, (int)c), star_get(t, r, (int)c)) == 0);
        }
    }
}

/* A file that can be read must be the same after it is written and read again. */
static void check_round_trip(struct star_file *file) {
    char path[64];
    struct err err = {0};
    struct star_file *again = NULL;
    fuzz_scratch("star", path);
    FUZZ_CHECK(star_write(file, path, &err) == STATUS_OK);
    FUZZ_CHECK(star_read(path, &again, &err) == STATUS_OK);
    unlink(path);
    check_same(file, again);
    star_destroy(&again);
}

/* Reads every cell as a number, then changes it. Neighbouring cells must not change. */
static void change_all(struct star_table *table) {
    for (size_t r = 0; r < star_row_count(table); r++)
        for (int c = 0; c < (int)star_column_count(table); c++) {
            double number = 0;
            long whole = 0;
            (void)star_get_number(table, r, c, &number, NULL);
            (void)star_get_integer(table, r, c, &whole, NULL);
            FUZZ_CHECK(star_set_integer(table, r, c, (long)(r * 31 + (size_t)c), NULL) == STATUS_OK);
        }
    FUZZ_CHECK(star_column_add(table, "rlnFuzz", "x", NULL, NULL) == STATUS_OK);
    for (size_t r = 0; r < star_row_count(table); r++)
        for (int c = 0; c + 1 < (int)star_column_count(table); c++) {
            long whole = -1;
            FUZZ_CHECK(
                strcmp(star_column_name(table, (size_t)c), "rlnFuzz") == 0 ||
                (star_get_integer(table, r, c, &whole, NULL) == STATUS_OK && whole == (long)(r * 31 + (size_t)c)));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct star_file *file = NULL;
    struct err err = {0};
    if (star_parse("fuzz.star", (const char *)bytes, length, &file, &err) != STATUS_OK) {
        FUZZ_CHECK(file == NULL && strstr(err.message, "fuzz.star") != NULL);
        return 0;
    }
    check_round_trip(file);
    for (size_t i = 0; i < star_table_count(file); i++)
        change_all(star_table_at(file, i));
    star_destroy(&file);
    return 0;
}
