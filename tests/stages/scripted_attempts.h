/* Replaces attempts at a first map, and the stage, by a script (--wrap): it says which map an attempt makes, and how
 * well held-out particles fit it. For test_refiner_first_map.c and test_refiner_first_classes.c, each of which includes
 * it once. */
#ifndef ICESTREAM_TESTS_STAGES_SCRIPTED_ATTEMPTS_H
#define ICESTREAM_TESTS_STAGES_SCRIPTED_ATTEMPTS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/initial/attempts.h"
#include "stages/refiner/initial/several.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/refiner_private.h"
#include "tests/common/scratch.h"
#include "tests/stages/few_blobs.h"
#include "tests/stages/refiner_runs.h"

enum { BLOBS = 12, COUNT = 60, VOXELS = BOX * BOX * BOX, HELD = COUNT / 3, SLICES = 2 };
#define DIAMETER 126.0 /* Å */

struct initial {
    struct refiner *refiner;
    struct initial_decision decision;
    int slices;
};

/* The script of the next attempt. */
static struct {
    enum initial_test failed;
    const float *map;
    double gain;                            /* standard errors by which the map is better than any other */
    const struct several_decision *classes; /* whose maps are `first` and `second` */
} next;
static size_t present;
static char root[PATH_SIZE], folder[PATH_SIZE + 16], told[1 << 14]; /* all lines of the log */
static bool incomplete;
static int judged; /* calls */
static struct refiner_options options;

enum status __wrap_initial_create(struct refiner *refiner, int threads, struct initial **ret_initial, struct err *err);
void __wrap_initial_destroy(struct initial **initial);
enum status __wrap_initial_work(struct initial *initial, bool *ret_complete, struct err *err);
double __wrap_initial_progress(const struct initial *initial);
const struct initial_decision *__wrap_initial_decision(const struct initial *initial);
const float *__wrap_initial_map(const struct initial *initial);
const struct several_decision *__wrap_initial_classes(const struct initial *initial);
const float *__wrap_initial_class_map(const struct initial *initial, int class);
const struct refiner *__wrap_initial_refiner(const struct initial *initial);
size_t __wrap_initial_present(const struct refiner *refiner);
enum status __wrap_initial_evidence(struct initial *initial, const float *map, enum initial_part part,
                                    double *ret_evidence, struct err *err);
enum status __wrap_starts_judge(struct starts *starts, const struct starts_judgement *maps, int count, int order,
                                double limit, struct err *err);
struct arrivals;
bool __wrap_arrivals_pause(struct arrivals *arrivals, double seconds);
enum status __wrap_stage_may_read(const struct stage *stage, const char *absolute, struct err *err);
bool __wrap_stage_in_pipeline(const struct stage *stage);
const char *__wrap_stage_root(const struct stage *stage);
const struct stage_session *__wrap_stage_session(const struct stage *stage);
enum status __wrap_stage_resolve(const struct stage *stage, const char *name, char *path, struct err *err);
void __wrap_stage_rest(struct stage *stage);
void __wrap_stage_resolution(struct stage *stage, double resolution);
const struct device *__wrap_stage_device(const struct stage *stage);
enum status __wrap_stage_devices(const struct stage *stage, int wanted, int most, struct device *ret_devices,
                                 int *ret_count, struct err *err);
const char *__wrap_stage_folder(const struct stage *stage);
const char *__wrap_stage_promised(const struct stage *stage);
const void *__wrap_stage_params(const struct stage *stage);
int __wrap_stage_threads(const struct stage *stage);
int __wrap_stage_flush_threads(const struct stage *stage);
bool __wrap_stage_stopping(const struct stage *stage);
bool __wrap_stage_wait_out(struct stage *stage, enum status status, const struct err *err,
                           struct stage_patience *patience);
void __wrap_stage_incomplete(struct stage *stage);
void __wrap_stage_log(struct stage *stage, enum log_level level, const char *id, const char *format, ...);
void __wrap_stage_note(struct stage *stage, const char *format, ...);
void __wrap_stage_doing(struct stage *stage, const char *format, ...);
void __wrap_stage_result(struct stage *stage, const char *const *files, const char *format, ...);

enum status __wrap_initial_create(struct refiner *refiner, int threads, struct initial **ret_initial, struct err *err) {
    (void)threads, (void)err;
    struct initial *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->refiner = refiner;
    a->decision = (struct initial_decision){.failed = next.failed,
                                            .text = "as the script says",
                                            .present = present,
                                            .particles = COUNT,
                                            .box = BOX,
                                            .pixel_size = PIXEL,
                                            .diameter = DIAMETER,
                                            .parts = {HELD, HELD, HELD},
                                            .wanted = 22,
                                            .lowpass = 40};
    *ret_initial = a;
    return STATUS_OK;
}

void __wrap_initial_destroy(struct initial **initial) {
    free(*initial);
    *initial = NULL;
}

enum status __wrap_initial_work(struct initial *a, bool *ret_complete, struct err *err) {
    (void)err;
    *ret_complete = ++a->slices == SLICES;
    return STATUS_OK;
}

double __wrap_initial_progress(const struct initial *a) {
    return (double)a->slices / SLICES;
}

const struct initial_decision *__wrap_initial_decision(const struct initial *a) {
    return &a->decision;
}

const float *__wrap_initial_map(const struct initial *a) {
    (void)a;
    return next.map;
}

const struct several_decision *__wrap_initial_classes(const struct initial *a) {
    (void)a;
    return next.classes;
}

const struct refiner *__wrap_initial_refiner(const struct initial *a) {
    return a->refiner;
}

size_t __wrap_initial_present(const struct refiner *refiner) {
    (void)refiner;
    return present;
}

/* With another map each particle loses about gain/√HELD, ± 1. */
enum status __wrap_initial_evidence(struct initial *a, const float *map, enum initial_part part, double *ret_evidence,
                                    struct err *err) {
    (void)err;
    const double loss = map == next.map ? 0 : next.gain / sqrt(HELD);
    assert_int_equal(part, INITIAL_HELD_OUT);
    for (int i = 0; i < a->decision.parts[part]; i++)
        ret_evidence[i] = 10 * sin(i) - loss + (map == next.map ? 0 : i % 2 == 0 ? 1 : -1);
    return STATUS_OK;
}

/* All but every fifth particle show the map, which is compared first, and then its rotational average. */
enum status __wrap_starts_judge(struct starts *starts, const struct starts_judgement *maps, int count, int order,
                                double limit, struct err *err) {
    (void)starts, (void)order, (void)limit, (void)err;
    assert_int_equal(count, 1);
    assert_int_equal(maps->part, INITIAL_HALF_A);
    for (int i = 0; i < COUNT; i++)
        maps->ret_gains[i] = judged % JUNK_COMPARED == JUNK_ROUND ? 2 : i % 5 == 0 ? -4 : 9;
    judged++;
    return STATUS_OK;
}

bool __wrap_stage_in_pipeline(const struct stage *stage) {
    (void)stage;
    return false;
}

const struct device *__wrap_stage_device(const struct stage *stage) {
    static const struct device device = {.kind = DEVICE_CPU};
    (void)stage;
    return &device;
}

enum status __wrap_stage_devices(const struct stage *stage, int wanted, int most, struct device *ret_devices,
                                 int *ret_count, struct err *err) {
    (void)wanted, (void)most, (void)err;
    ret_devices[0] = *__wrap_stage_device(stage);
    *ret_count = 1;
    return STATUS_OK;
}

bool __wrap_arrivals_pause(struct arrivals *arrivals, double seconds) {
    (void)arrivals, (void)seconds;
    return false;
}

const char *__wrap_stage_root(const struct stage *stage) {
    (void)stage;
    return root;
}

const struct stage_session *__wrap_stage_session(const struct stage *stage) {
    static const struct stage_session session = {NAN, NAN, NAN, NAN, NAN, NULL};
    (void)stage;
    return &session;
}

enum status __wrap_stage_resolve(const struct stage *stage, const char *name, char *path, struct err *err) {
    (void)stage, (void)err;
    snprintf(path, PATH_SIZE, "%s", name); /* absolute already */
    return STATUS_OK;
}

enum status __wrap_stage_may_read(const struct stage *stage, const char *absolute, struct err *err) {
    (void)stage, (void)absolute, (void)err;
    return STATUS_OK;
}

void __wrap_stage_rest(struct stage *stage) {
    (void)stage;
}

void __wrap_stage_resolution(struct stage *stage, double resolution) {
    (void)stage, (void)resolution;
}

const char *__wrap_stage_folder(const struct stage *stage) {
    (void)stage;
    return folder;
}

const char *__wrap_stage_promised(const struct stage *stage) {
    (void)stage;
    return folder;
}

const void *__wrap_stage_params(const struct stage *stage) {
    (void)stage;
    return &options;
}

int __wrap_stage_threads(const struct stage *stage) {
    (void)stage;
    return 2;
}

int __wrap_stage_flush_threads(const struct stage *stage) {
    (void)stage;
    return 2;
}

bool __wrap_stage_stopping(const struct stage *stage) {
    (void)stage;
    return false;
}

bool __wrap_stage_wait_out(struct stage *stage, enum status status, const struct err *err,
                           struct stage_patience *patience) {
    (void)stage, (void)status, (void)err, (void)patience;
    return false;
}

void __wrap_stage_incomplete(struct stage *stage) {
    (void)stage;
    incomplete = true;
}

void __wrap_stage_log(struct stage *stage, enum log_level level, const char *id, const char *format, ...) {
    (void)stage, (void)level;
    const size_t before = strlen(told);
    va_list list;
    va_start(list, format);
    const int used = snprintf(told + before, sizeof told - before, "%s: ", id);
    vsnprintf(told + before + used, sizeof told - before - (size_t)used, format, list);
    va_end(list);
    print_message("%s\n", told + before);
}

void __wrap_stage_note(struct stage *stage, const char *format, ...) {
    (void)stage, (void)format;
}

void __wrap_stage_doing(struct stage *stage, const char *format, ...) {
    (void)stage, (void)format;
}

void __wrap_stage_result(struct stage *stage, const char *const *files, const char *format, ...) {
    (void)stage, (void)files, (void)format;
}

/* Maps of two objects; of the first one among two others; the first and the last of these turned, in the other hand. */
static float first[VOXELS], second[VOXELS], mixed[VOXELS], first_turned[VOXELS], mixed_turned[VOXELS];

const float *__wrap_initial_class_map(const struct initial *a, int class) {
    (void)a;
    return class == 0 ? first : second;
}

/* Turns an object, and inverts it. */
static inline void rotate_object(struct object *o) {
    const double c = cos(0.7), s = sin(0.7);
    for (int i = 0; i < o->count; i++) {
        double *b = o->blobs[i], x = b[0], y = b[1];
        b[0] = -(c * x - s * y), b[1] = -(s * x + c * y), b[2] = -b[2];
    }
}

/* Adds 0.75 times the map of an object, and that of the object turned. */
static inline void add_object(struct object *o, float *map, float *turned) {
    static float own[VOXELS], other[VOXELS];
    make_map(o, own, SIGMA);
    rotate_object(o);
    make_map(o, other, SIGMA);
    for (int i = 0; i < VOXELS; i++) {
        map[i] += 0.75F * own[i];
        turned[i] += 0.75F * other[i];
    }
}

static inline void make_maps(struct object *object) {
    struct object turned, others[2] = {{0}};
    make_object(object, BLOBS);
    make_object(&others[0], BLOBS);
    make_object(&others[1], BLOBS);
    turned = *object;
    rotate_object(&turned);
    make_map(object, first, SIGMA);
    make_map(&turned, first_turned, SIGMA);
    make_map(&others[0], second, SIGMA);
    memcpy(mixed, first, sizeof mixed);
    memcpy(mixed_turned, first_turned, sizeof mixed_turned);
    for (int i = 0; i < 2; i++)
        add_object(&others[i], mixed, mixed_turned);
}

static inline void create(struct refiner **ret_refiner, struct attempts *attempts) {
    struct star_file *file = NULL;
    struct err err = {0};
    char path[PATH_SIZE + 64];
    *attempts = (struct attempts){0};
    assert_int_equal(refiner_create(&options, &(struct refiner_context){.threads = 2}, ret_refiner, NULL), STATUS_OK);
    if (attempts_init(NULL, *ret_refiner, attempts, &err) != STATUS_OK) fail_msg("%s", err.message);
    const int last = refiner_last(folder, 1000);
    if (last > 0) assert_int_equal(refiner_resume(*ret_refiner, folder, last, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/a.star", root);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (refiner_merge(*ret_refiner, &file, path, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
}

static inline void restart(struct refiner **refiner, struct attempts *attempts) {
    attempts_destroy(attempts);
    refiner_destroy(refiner);
    create(refiner, attempts);
}

static inline void iterate(struct refiner *r, int number) {
    bool complete = false;
    struct err err = {0};
    enum status status = refiner_begin(r, &(struct refiner_iteration){.max_order = 1}, &err);
    while (status == STATUS_OK && !complete)
        status = refiner_work(r, &complete, &err);
    if (status == STATUS_OK) status = refiner_write(r, folder, "refiner", 3, &err);
    if (status != STATUS_OK) fail_msg("%s", err.message);
    assert_int_equal(refiner_state(r).iteration, number);
}

/* Lets an attempt run, if one is due, as the script says. Returns whether it was. *ret_replaced: as attempts_again. */
static inline bool attempt(struct refiner *r, struct attempts *attempts, size_t particles, bool *ret_replaced) {
    bool worked = true, replaced = false;
    int slices = 0;
    struct err err = {0};
    present = particles;
    *ret_replaced = false;
    while (worked && slices < 20) {
        enum status status = attempts->wanted ? attempts_work(NULL, r, attempts, &worked, &err)
                                              : attempts_again(NULL, r, attempts, &worked, &replaced, &err);
        if (status != STATUS_OK) fail_msg("%s", err.message);
        *ret_replaced = *ret_replaced || replaced;
        slices += worked;
        /* Only an attempt at a map that the refinement waits for, or one without images, keeps particles out. */
        assert_false(attempts_hold(attempts) && !attempts->wanted);
        if (!attempts->wanted && attempts->running == NULL) break;
    }
    assert_null(attempts->running);
    return slices > 0;
}

/* Checks that every fifth particle is marked, and no other one. */
static inline void junk_is_marked(const struct refiner *r) {
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(r->set.particles[i].junk, i % 5 == 0);
}

static inline char *text_of(const char *name) {
    char path[PATH_SIZE + 64], *text = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_read_whole(path, 1 << 16, &text, NULL, NULL), STATUS_OK);
    return text;
}

static inline void decision_has(const char *const *lines) {
    char *text = text_of("initial_model.json");
    for (; *lines != NULL; lines++)
        if (strstr(text, *lines) == NULL) fail_msg("%s is not in\n%s", *lines, text);
    free(text);
}

/* Returns the mean FSC up to 22 Å of a map with that on disk, as they lie. */
static inline double likeness(const float *map) {
    static float read[VOXELS];
    float fsc[BOX / 2 + 1];
    double mean = 0;
    const int last = (int)(BOX * PIXEL / 22);
    read_map(folder, "initial_model.mrc", read);
    assert_int_equal(fsc_maps(NULL, BOX, map, read, fsc, NULL), STATUS_OK);
    for (int i = 1; i <= last; i++)
        mean += (double)fsc[i] / last;
    return mean;
}

static inline bool has(const char *name) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_exists(path);
}

static inline void begin(const char *name, struct object *object) {
    srand(20261128);
    scratch_path(name, root);
    snprintf(folder, sizeof folder, "%s/refiner", root);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
    make_maps(object);
    write_particles(root, "a", object, 1, COUNT, 0.3);
    options = few_blobs_options();
    options.diameter = DIAMETER;
    options.memory = 0.25;
    options.healpix_order = 1;
    options.classes = 1;
    *told = 0;
    judged = 0;
    next.failed = INITIAL_ACCEPTED;
    next.map = first;
    next.gain = NAN;
    next.classes = NULL;
}

static inline void mark_rest(struct refiner *r, struct attempts *attempts) {
    struct err err = {0};
    if (attempts_mark_rest(NULL, r, attempts, &err) != STATUS_OK) fail_msg("%s", err.message);
}

#endif
