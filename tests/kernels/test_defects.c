/* Tests bad pixels: which are found, which are not, and what stands in their place. Each test prints its seed; give one
 * as the argument to repeat it. */
#include "kernels/defects/defects.h"

#include "tests/kernels/chance.h"

enum { NX = 250, NY = 230, FRAMES = 20 };
static const char *given_seed;

static int poisson(double mean) {
    double limit = exp(-mean), product = uniform();
    int count = 0;
    for (; product > limit; count++)
        product *= uniform();
    return count;
}

struct movie {
    struct motion_frames frames;
    void *frame[FRAMES];
    double *rate; /* [NY][NX] counts a frame, before the gain */
    float *gain;
};

static void set_count(struct movie *m, int frame, size_t at, double count) {
    if (m->frames.pixels == MOTION_U8)
        ((uint8_t *)m->frame[frame])[at] = (uint8_t)count;
    else if (m->frames.pixels == MOTION_U16)
        ((uint16_t *)m->frame[frame])[at] = (uint16_t)count;
    else
        ((float *)m->frame[frame])[at] = (float)count;
}

static double count_at(const struct movie *m, int frame, size_t at) {
    if (m->frames.pixels == MOTION_U8) return ((const uint8_t *)m->frame[frame])[at];
    if (m->frames.pixels == MOTION_U16) return ((const uint16_t *)m->frame[frame])[at];
    return (double)((const float *)m->frame[frame])[at];
}

/* Counts electrons where m->rate says. */
static void expose(struct movie *m) {
    for (int f = 0; f < FRAMES; f++)
        for (size_t i = 0; i < NX * NY; i++)
            set_count(m, f, i, fmin(poisson(m->rate[i]), 250));
}

static struct movie movie_new(enum motion_pixels pixels, bool with_gain, double rate) {
    struct movie m = {.frames = {.nx = NX, .ny = NY, .count = FRAMES, .pixels = pixels}};
    m.rate = host_new(NX * NY, sizeof *m.rate);
    m.gain = host_new(NX * NY, sizeof *m.gain);
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++) {
            size_t at = (size_t)y * NX + (size_t)x;
            m.gain[at] = with_gain ? (float)(0.7 + 0.6 * uniform()) : 1;
            /* A gradient, and waves as strong as those of a specimen. */
            m.rate[at] = rate * (0.8 + 0.4 * x / NX + 0.1 * sin(0.2 * x + 0.1 * y)) / (double)m.gain[at];
        }
    for (int f = 0; f < FRAMES; f++)
        m.frame[f] = host_new(NX * NY, motion_pixel_size(pixels));
    return m;
}

/* The arrays of frames point into the struct, so it is bound where it has come to rest. */
static const struct motion_frames *frames_of(struct movie *m, bool with_gain) {
    m->frames.frame = m->frame;
    m->frames.gain = with_gain ? m->gain : NULL;
    return &m->frames;
}

static void movie_free(struct movie *m) {
    for (int f = 0; f < FRAMES; f++)
        free(m->frame[f]);
    free(m->rate);
    free(m->gain);
}

static struct defects *defects_new(void) {
    struct err err = {0};
    struct defects *defects = NULL;
    must(defects_create(NX, NY, &defects, &err), &err);
    return defects;
}

/* Makes bad pixels: 1 hot, 2 dead; a column of them, a pair, one in a corner. Rows 0 to 9 lie in the shadow of an
 * aperture. */
static void spoil(struct movie *m, uint8_t *truth) {
    memset(truth, 0, NX * NY);
    for (size_t i = 0; i < 10 * NX; i++)
        m->rate[i] = 0;
    for (int k = 0; k < 60; k++) {
        size_t at = (size_t)(20 + (int)(uniform() * (NY - 30))) * NX + (size_t)(4 + 4 * k);
        truth[at] = k % 2 == 0 ? DEFECT_HOT : DEFECT_DEAD;
        m->rate[at] = k % 2 == 1 ? 0 : k % 4 == 0 ? 4 * m->rate[at] : 150;
    }
    const size_t pair = 200 * NX + 101, corner = NX * NY - 1;
    truth[pair] = truth[pair + NX] = truth[corner] = DEFECT_HOT;
    m->rate[pair] = m->rate[pair + NX] = m->rate[corner] = 100;
    for (size_t y = 60; y < 150; y++) {
        truth[y * NX + 129] = DEFECT_DEAD;
        m->rate[y * NX + 129] = 0;
    }
}

static void hot_and_dead_pixels_are_found(void **state) {
    (void)state;
    choose_seed(given_seed);
    static uint8_t truth[NX * NY], first[NX * NY];
    for (int kind = 0; kind < 6; kind++) {
        bool with_gain = kind >= 3;
        struct err err = {0};
        struct movie m = movie_new((enum motion_pixels)(kind % 3), with_gain, 2);
        struct defects *defects = defects_new();
        spoil(&m, truth);
        expose(&m);
        for (int threads = 3; threads >= 1; threads -= 2) {
            struct defects_found found = {0};
            must(defects_find_hot(defects, frames_of(&m, with_gain), threads, 6, &found, &err), &err);
            size_t hot = 0, dead = 0;
            for (size_t i = 0; i < NX * NY; i++) {
                hot += truth[i] == DEFECT_HOT;
                dead += truth[i] == DEFECT_DEAD;
                if (defects_mask(defects)[i] != truth[i])
                    fail_msg("type %d, row %zu, column %zu: %d, should be %d; sum %g", kind, i / NX, i % NX,
                             defects_mask(defects)[i], truth[i], (double)defects_sum(defects)[i]);
            }
            assert_true(found.hot == hot && found.dead == dead);
            if (threads == 3) memcpy(first, defects_mask(defects), sizeof first);
            assert_memory_equal(first, defects_mask(defects), sizeof first);
        }
        double sum = 0;
        for (int f = 0; f < FRAMES; f++)
            sum += count_at(&m, f, 77 * NX + 33);
        assert_true((double)defects_sum(defects)[77 * NX + 33] == sum);
        defects_destroy(&defects);
        movie_free(&m);
    }
}

/* Six deviations above a mean of 2 counts is 10.5 counts, which four pixels in a hundred thousand reach by chance. Of a
 * mean of 10 as many have none. */
static void few_counts_are_no_defect(void **state) {
    (void)state;
    choose_seed(given_seed);
    const double rates[] = {0.1, 0.5};
    for (int i = 0; i < 2; i++) {
        struct err err = {0};
        struct movie m = movie_new(MOTION_U8, false, rates[i]);
        struct defects *defects = defects_new();
        struct defects_found found = {0};
        m.rate[5000] = 4;
        expose(&m);
        must(defects_find_hot(defects, frames_of(&m, false), 2, 6, &found, &err), &err);
        assert_true(found.hot == 1 && found.dead == 0 && defects_mask(defects)[5000] == DEFECT_HOT);
        defects_destroy(&defects);
        movie_free(&m);
    }
}

/* Frames without contrast, and frames of one value, have no bad pixels; a value that is not finite is one. */
static void odd_frames(void **state) {
    (void)state;
    struct err err = {0};
    struct movie m = movie_new(MOTION_F32, false, 0);
    struct defects *defects = defects_new();
    struct defects_found found = {1, 1};
    must(defects_find_hot(defects, frames_of(&m, false), 2, 6, &found, &err), &err);
    assert_true(found.hot == 0 && found.dead == 0);
    for (size_t i = 0; i < NX * NY; i++) /* around 0, as after a subtraction of the background */
        set_count(&m, 0, i, normal());
    set_count(&m, 0, 333, NAN);
    set_count(&m, 0, 4444, 20);
    set_count(&m, 0, 5555, -20);
    must(defects_find_hot(defects, frames_of(&m, false), 2, 6, &found, &err), &err);
    assert_true(found.hot == 2 && found.dead == 1);
    assert_true(defects_mask(defects)[333] == DEFECT_HOT && defects_mask(defects)[4444] == DEFECT_HOT &&
                defects_mask(defects)[5555] == DEFECT_DEAD);
    /* The next movie begins without them. */
    set_count(&m, 0, 333, 0);
    set_count(&m, 0, 4444, 0);
    set_count(&m, 0, 5555, 0);
    must(defects_find_hot(defects, frames_of(&m, false), 2, 6, &found, &err), &err);
    assert_true(found.hot == 0 && found.dead == 0 && defects_mask(defects)[333] == 0);
    struct motion_frames other = m.frames;
    other.nx--;
    assert_int_equal(defects_find_hot(defects, &other, 2, 6, &found, &err), STATUS_BAD_ARGUMENT);
    defects_destroy(&defects);
    movie_free(&m);
}

static void gain_and_list_mark_pixels(void **state) {
    (void)state;
    struct defects *defects = defects_new();
    float *gain = host_new(NX * NY, sizeof *gain);
    uint8_t *map = host_new(NX * NY, 1);
    for (size_t i = 0; i < NX * NY; i++)
        gain[i] = 1 + 0.001f * (float)(i % NX);
    const size_t bad[] = {700, 5000, 5001, 9000, 20000, 30001};
    const float wrong[] = {0, NAN, -1, INFINITY, 20, 0.05f};
    for (int i = 0; i < 6; i++)
        gain[bad[i]] = wrong[i];
    map[30000] = 7;
    defects_add_gain(defects, gain);
    defects_add_map(defects, map);
    const uint8_t *mask = defects_mask(defects);
    size_t count = 0;
    for (size_t i = 0; i < NX * NY; i++)
        count += mask[i] != 0;
    assert_int_equal(count, 7);
    for (int i = 0; i < 6; i++)
        assert_int_equal(mask[bad[i]], DEFECT_GAIN);
    assert_int_equal(mask[30000], DEFECT_LISTED);
    gain[30000] = 4;
    defects_repair_gain(defects, gain);
    for (int i = 0; i < 6; i++)
        assert_float_equal(gain[bad[i]], 1 + 0.001 * (double)(bad[i] % NX),
                           2e-3); /* at a border its neighbours lie on one side */
    assert_float_equal(gain[30000], 1 + 0.001 * (30000 % NX), 2e-3);
    assert_true(gain[701] == 1 + 0.001f * (701 % NX));
    defects_destroy(&defects);
    free(gain);
    free(map);
}

/* A row of a detector whose left half counts twice as much, and a bad block in the middle of it. */
static void repaired_pixels_look_like_their_neighbours(void **state) {
    (void)state;
    choose_seed(given_seed);
    for (int kind = 0; kind < 3; kind++) {
        struct movie m = movie_new((enum motion_pixels)kind, false, 0),
                     other = movie_new((enum motion_pixels)kind, false, 0);
        struct defects *defects = defects_new();
        uint8_t *map = host_new(NX * NY, 1);
        /* Every 16th pixel and a block of 50 × 50 are bad, and hot. */
        for (size_t i = 0; i < NX * NY; i++) {
            size_t x = i % NX, y = i / NX;
            map[i] = (x % 4 == 1 && y % 4 == 1) || (x >= 100 && x < 150 && y >= 100 && y < 150);
            m.rate[i] = x < 80 ? 8 : 4;
            /* The gain evens out both halves but for the bad pixels, whose gain is twice that of their neighbours. */
            m.gain[i] = (x < 80 ? 0.5f : 1) * (map[i] ? 2.0f : 1.0f);
        }
        expose(&m);
        for (int f = 0; f < FRAMES; f++)
            for (size_t i = 0; i < NX * NY; i++) {
                if (map[i]) set_count(&m, f, i, 200);
                set_count(&other, f, i, count_at(&m, f, i));
            }
        memcpy(other.gain, m.gain, NX * NY * sizeof *m.gain);
        defects_add_map(defects, map);
        bool with_gain = kind > 0;
        defects_repair(defects, frames_of(&m, with_gain), 3, 1);
        defects_repair(defects, frames_of(&other, with_gain), 1, 1);
        double sum[2] = {0}, squares[2] = {0}, block = 0;
        int count[2] = {0}, most = 0;
        for (int f = 0; f < FRAMES; f++)
            for (size_t i = 0; i < NX * NY; i++) {
                size_t x = i % NX, y = i / NX;
                double value = count_at(&m, f, i);
                assert_true(value == count_at(&other, f, i));
                if (!map[i]) continue;
                if (x >= 100 && x < 150 && y >= 100 && y < 150) {
                    block += value;
                    most = fmax(most, value) > most ? (int)value : most;
                    continue;
                }
                if (x >= 76 && x < 84) continue; /* neighbours of both kinds */
                sum[x < 80] += value;
                squares[x < 80] += value * value;
                count[x < 80]++;
            }
        for (int left = 0; left < 2; left++) {
            double expected = (left ? 8 : 4) / (with_gain ? 2.0 : 1.0), mean = sum[left] / count[left];
            double variance = squares[left] / count[left] - mean * mean;
            /* About 20,000 values: the mean is known to 1 %. */
            assert_true(fabs(mean / expected - 1) < 0.05);
            /* The noise of the neighbours, on the scale of the gain; rounding adds up to a quarter. */
            double noise = (left ? 8 : 4) / (with_gain ? 4.0 : 1.0);
            assert_true(variance > 0.85 * noise && variance < 1.15 * noise + (with_gain ? 0.25 : 0));
        }
        double per_pixel = block / (50.0 * 50 * FRAMES) * (with_gain ? 2 : 1);
        assert_true(per_pixel > 3.5 && per_pixel < 6 && most < 100);
        /* Another seed draws others; good pixels stay. */
        defects_repair(defects, frames_of(&other, with_gain), 2, 2);
        int changed = 0;
        for (int f = 0; f < FRAMES; f++)
            for (size_t i = 0; i < NX * NY; i++) {
                bool same = count_at(&m, f, i) == count_at(&other, f, i);
                assert_true(same || map[i]);
                changed += !same;
            }
        assert_true(changed > 1000);
        defects_destroy(&defects);
        free(map);
        movie_free(&m);
        movie_free(&other);
    }
}

static void a_detector_without_good_pixels_stays_as_it_is(void **state) {
    (void)state;
    struct movie m = movie_new(MOTION_U8, false, 0);
    struct defects *defects = defects_new();
    uint8_t *map = host_new(NX * NY, 1);
    memset(map, 1, NX * NY);
    set_count(&m, 3, 17, 9);
    defects_add_map(defects, map);
    defects_repair_gain(defects, m.gain);
    defects_repair(defects, frames_of(&m, true), 2, 1);
    assert_true(count_at(&m, 3, 17) == 9 && m.gain[5] == 1);
    defects_destroy(&defects);
    free(map);
    movie_free(&m);
}

int main(int argc, char **argv) {
    given_seed = argc > 1 ? argv[1] : "20";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot_and_dead_pixels_are_found),
        cmocka_unit_test(few_counts_are_no_defect),
        cmocka_unit_test(odd_frames),
        cmocka_unit_test(gain_and_list_mark_pixels),
        cmocka_unit_test(repaired_pixels_look_like_their_neighbours),
        cmocka_unit_test(a_detector_without_good_pixels_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
