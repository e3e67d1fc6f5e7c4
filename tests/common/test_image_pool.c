/* Tests memory for many images of one size: each has room of its own, across blocks, and room that came back is given
 * out again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/image_pool.h"

enum { IMAGES = 12, END = 64 }; /* values at either end of an image that are looked at */

static void use(size_t floats) {
    static float *images[IMAGES];
    struct image_pool *pool = NULL;
    assert_int_equal(image_pool_create(floats, &pool, NULL), STATUS_OK);
    assert_int_equal(image_pool_floats(pool), floats);
    for (int i = 0; i < IMAGES; i++) {
        images[i] = image_pool_take(pool);
        assert_non_null(images[i]);
        assert_int_equal((uintptr_t)images[i] % 64, 0);
        for (size_t j = 0; j < END; j++)
            images[i][j] = images[i][floats - 1 - j] = (float)i;
    }
    for (int i = 0; i < IMAGES; i++)
        for (size_t j = 0; j < END; j++)
            assert_true(images[i][j] == (float)i && images[i][floats - 1 - j] == (float)i);
    image_pool_give(pool, NULL);
    image_pool_give(pool, images[3]);
    image_pool_give(pool, images[10]);
    assert_ptr_equal(image_pool_take(pool), images[10]);
    assert_ptr_equal(image_pool_take(pool), images[3]);
    float *other = image_pool_take(pool);
    for (int i = 0; i < IMAGES; i++)
        assert_ptr_not_equal(other, images[i]);
    image_pool_destroy(&pool);
    assert_null(pool);
    image_pool_destroy(&pool);
}

static void each_image_has_room_of_its_own(void **state) {
    (void)state;
    use(96 * 96);
    use(100 * 99); /* not a whole number of cache lines */
    use(3 << 20);  /* two in a block */
    use(9 << 20);  /* larger than a block */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_image_has_room_of_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
