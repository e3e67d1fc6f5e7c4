/* Tests the table that finds indices by names. */
#include <stdio.h>
#include <string.h>

#include "common/names.h"
#include "tests/common/scratch.h"

enum { COUNT = 20000 };

static char texts[COUNT][32];

static int find(const struct names *names, const char *text) {
    size_t step = 0;
    int index;
    while ((index = names_next(names, names_hash(text), &step)) >= 0)
        if (strcmp(texts[index], text) == 0) return index;
    return -1;
}

/* Names that share all but a few characters, as those of stacks do. */
static void each_name_is_found(void **state) {
    (void)state;
    struct err err = {0};
    struct names names = {0};
    assert_int_equal(find(&names, "nothing"), -1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "extractor/%05d.mrcs", i);
        assert_int_equal(find(&names, texts[i]), -1);
        assert_ok(names_put(&names, names_hash(texts[i]), i, &err));
        assert_int_equal(find(&names, texts[i]), i);
        assert_true(names.room >= 2 * names.count && names.count == (size_t)i + 1);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(find(&names, texts[i]), i);
    assert_int_equal(find(&names, ""), -1);
    names_destroy(&names);
    assert_int_equal(find(&names, texts[0]), -1);
}

/* Equal hashes, also at the end of the table, whose next slot is the first. */
static void names_of_one_hash_are_all_found(void **state) {
    (void)state;
    static const uint32_t HASHES[] = {0, 15, UINT32_MAX, 0x80000000u};
    struct err err = {0};
    struct names names = {0};
    for (int i = 0; i < 400; i++)
        assert_ok(names_put(&names, HASHES[i % 4], i, &err));
    for (int h = 0; h < 4; h++) {
        bool seen[400] = {false};
        size_t step = 0;
        int index, count = 0;
        while ((index = names_next(&names, HASHES[h], &step)) >= 0) {
            assert_true(index < 400 && index % 4 == h && !seen[index]);
            seen[index] = true;
            count++;
        }
        assert_int_equal(count, 100);
        assert_true(names_has(&names, HASHES[h], 100 + h) && !names_has(&names, HASHES[h], 101 + h));
    }
    names_destroy(&names);
}

static void room_is_made_once(void **state) {
    (void)state;
    struct err err = {0};
    struct names names = {0};
    assert_ok(names_reserve(&names, COUNT, &err));
    const struct names_slot *slots = names.slots;
    for (int i = 0; i < COUNT; i++)
        assert_ok(names_put(&names, (uint32_t)i * 2654435761u, i, &err));
    assert_ptr_equal(names.slots, slots);
    assert_ok(names_reserve(&names, 3, &err));
    assert_ptr_equal(names.slots, slots);
    assert_int_equal(names_reserve(&names, (size_t)1 << 40, &err), STATUS_UNSUPPORTED);
    assert_int_equal(names.count, COUNT);
    names_destroy(&names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_is_found),
        cmocka_unit_test(names_of_one_hash_are_all_found),
        cmocka_unit_test(room_is_made_once),
    };
    return scratch_run("names", tests, sizeof tests / sizeof *tests);
}
