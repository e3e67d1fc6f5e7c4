#include "stages/refiner/arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"
#include "stages/refiner/particles.h"

enum status arrivals_init(struct arrivals *a, struct err *err) {
    *a = (struct arrivals){0};
    FAIL_IF(pthread_mutex_init(&a->lock, NULL) != 0, err, STATUS_NO_MEMORY, "no lock could be made");
    a->lock_made = true;
    return STATUS_OK;
}

void arrivals_destroy(struct arrivals *a) {
    arrivals_free(a->list, a->count);
    if (a->lock_made) pthread_mutex_destroy(&a->lock);
    *a = (struct arrivals){0};
}

void arrival_clear(struct arrival *a) {
    particle_set_free(&a->read);
}

/* Finds the stack where particles_read.c will look for it. ret_images: how many images the stack has. */
static enum status check_stack(struct stage *stage, const char *star_path, const char *name, int *ret_images,
                               struct err *err) {
    char path[PATH_SIZE];
    struct mrc_reader *reader = NULL;
    if (particle_stack_find(stage_root(stage), star_path, name, path))
        TRY(stage_may_read(stage, path, err));
    else
        TRY(stage_resolve(stage, name, path, err));
    TRY(mrc_open(path, &reader, err));
    *ret_images = mrc_reader_header(reader)->nz;
    mrc_close(&reader);
    return STATUS_OK;
}

/* Checks the stacks that a file names, so that an item with a broken stack fails by itself, before its particles are
 * among the others. Rows of one stack follow each other. */
static enum status check_stacks(struct stage *stage, const char *star_path, struct star_file *file, struct err *err) {
    for (size_t t = 0; t < star_table_count(file); t++) {
        const struct star_table *table = star_table_at(file, t);
        int column = star_column_find(table, "rlnImageName"), images = 0;
        const char *last = "";
        for (size_t row = 0; column >= 0 && row < star_row_count(table); row++) {
            const char *name = star_get(table, row, column), *at = strchr(name, '@');
            char *end = NULL;
            long number = strtol(name, &end, 10);
            FAIL_IF(at == NULL || end != at || number < 1, err, STATUS_BAD_FORMAT,
                    "%s, row %zu: rlnImageName is '%s'; NNNNNN@stack.mrcs with a number from 1 was expected", star_path,
                    row + 1, name);
            if (strcmp(at, last) != 0) TRY(check_stack(stage, star_path, at + 1, &images, err));
            last = at;
            FAIL_IF(number > images, err, STATUS_BAD_FORMAT, "%s, row %zu: image %ld was asked for, but %s has %d",
                    star_path, row + 1, number, at + 1, images);
        }
    }
    return STATUS_OK;
}

enum status arrival_read(struct stage *stage, const struct refiner *refiner, const struct item *item,
                         struct arrival *arrival, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    const char *name;
    char path[PATH_SIZE];
    arrival_clear(arrival);
    arrival->replace = strcmp(item_kind(item), "selection") == 0;
    /* A micrograph without picks has no file of particles. */
    if (!arrival->replace && item_number(item, "particles.count", 1) == 0) return STATUS_OK;
    TRY(item_need_string(item, arrival->replace ? "selection.star" : "particles.star", &name, err));
    TRY(stage_resolve(stage, name, path, err));
    TRY(star_read(path, &file, err));
    TRY(check_stacks(stage, path, file, err));
    const struct refiner_options *options = stage_params(stage);
    FAIL_IF(
        arrival->replace && (options->poses != 0 || options->skip_align), err, STATUS_UNSUPPORTED,
        "%s is a selection of the classifier, whose rlnAnglePsi and origins are those of 2D classes: poses cannot be "
        "taken from it; refine `from` the extractor, or set `poses` to search and `skip_align` to false",
        path);
    return refiner_read(refiner, &file, path, &arrival->read, err);
}

static enum status keep_locked(struct arrivals *a, struct arrival *arrival, struct err *err) {
    if (a->count == a->capacity) {
        int capacity = a->capacity > 0 ? 2 * a->capacity : 16;
        struct arrival *larger = realloc(a->list, (size_t)capacity * sizeof *larger);
        FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for %d files", capacity);
        a->list = larger;
        a->capacity = capacity;
    }
    a->last = clock_monotonic();
    for (int i = 0; arrival->replace && i < a->count; i++)
        arrival_clear(&a->list[i]);
    if (arrival->replace) a->count = 0;
    a->list[a->count++] = *arrival;
    *arrival = (struct arrival){0};
    return STATUS_OK;
}

enum status arrivals_keep(struct arrivals *a, struct arrival *arrival, struct err *err) {
    if (arrival->read == NULL) return STATUS_OK;
    pthread_mutex_lock(&a->lock);
    enum status status = keep_locked(a, arrival, err);
    pthread_mutex_unlock(&a->lock);
    return status;
}

struct arrival *arrivals_take(struct arrivals *a, int *ret_count) {
    pthread_mutex_lock(&a->lock);
    struct arrival *list = a->list;
    *ret_count = a->count;
    a->list = NULL;
    a->count = a->capacity = 0;
    pthread_mutex_unlock(&a->lock);
    return list;
}

void arrivals_free(struct arrival *list, int count) {
    for (int i = 0; i < count; i++)
        arrival_clear(&list[i]);
    free(list);
}

bool arrivals_pause(struct arrivals *a, double seconds) {
    pthread_mutex_lock(&a->lock);
    bool paused = clock_monotonic() - a->last > seconds;
    pthread_mutex_unlock(&a->lock);
    return paused;
}
