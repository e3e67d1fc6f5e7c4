#include "stages/refiner/arrivals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/files.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"
#include "stages/refiner/particles_private.h"
#include "stages/refiner/row_images.h"

/* Changes are written if they are less than a part of the whole table, which has less than this. */
static const size_t LARGEST_CHANGES = (size_t)1 << 32;

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
    free(a->selection);
    *a = (struct arrival){0};
}

/* Checks that the stack may be read, where row_images.c will look for it and open it. */
static enum status check_stack(const void *context, const char *star_path, const char *name, struct err *err) {
    const struct stage *stage = context;
    char path[PATH_SIZE];
    bool found = particle_stack_find(stage_root(stage), star_path, name, path);
    return found ? stage_may_read(stage, path, err) : stage_resolve(stage, name, path, err);
}

static enum status check_stacks(struct stage *stage, const char *star_path, struct star_file *file, struct err *err) {
    return row_images_check(file, star_path, check_stack, stage, err);
}

static enum status read_table(struct stage *stage, const struct refiner *refiner, const char *path,
                              struct particle_set **ret_read, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    TRY(star_read(path, &file, err));
    TRY(check_stacks(stage, path, file, err));
    return refiner_read(refiner, &file, path, ret_read, err);
}

enum status arrival_read_whole(struct stage *stage, const struct refiner *refiner, struct arrival *arrival,
                               struct err *err) {
    particle_set_free(&arrival->read);
    arrival->changes = false;
    return read_table(stage, refiner, arrival->selection->path, &arrival->read, err);
}

/* Reads a file whose digest the item says, so that no broken one is taken for another set of particles. */
static enum status read_digested(const char *path, const char *expected, struct star_file **ret_file, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    char digest[DIGEST_SIZE];
    size_t length = 0;
    TRY(file_read_whole(path, LARGEST_CHANGES, &text, &length, err));
    digest_print(digest_memory(text, length), digest);
    FAIL_IF(strcmp(digest, expected) != 0, err, STATUS_BAD_FORMAT, "%s: has the digest %s; %s was expected", path,
            digest, expected);
    return star_parse_taken(path, &text, length, ret_file, err);
}

static enum status read_changes_of(struct stage *stage, const struct refiner *refiner, const struct item *item,
                                   struct particle_set **ret_read, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    _cleanup_(particle_set_free) struct particle_set *read = NULL;
    const char *name, *digest, *since;
    char path[PATH_SIZE];
    TRY(item_need_string(item, "selection.changes.star", &name, err));
    TRY(item_need_string(item, "selection.changes.digest", &digest, err));
    TRY(item_need_string(item, "selection.changes.since", &since, err));
    TRY(stage_resolve(stage, name, path, err));
    TRY(read_digested(path, digest, &file, err));
    TRY(check_stacks(stage, path, file, err));
    TRY(refiner_read_changes(refiner, &file, path, &read, err));
    FAIL_IF(strcmp(particle_set_since(read), since) != 0, err, STATUS_BAD_FORMAT,
            "%s: changes since %s; those since %s were expected", path, particle_set_since(read), since);
    *ret_read = read;
    read = NULL;
    return STATUS_OK;
}

/* Reads the changes of a selection, unless they are broken. What the item says of the file's time is left out of account:
 * without the changes the item is as good as with them. */
static enum status read_changes(struct stage *stage, const struct refiner *refiner, const struct item *item,
                                struct arrival *arrival, struct err *err) {
    struct err own = {0};
    if (!item_has(item, "selection.changes")) return STATUS_OK;
    const struct file_observer *observer = file_observe(NULL);
    enum status status = read_changes_of(stage, refiner, item, &arrival->read, &own);
    (void)file_observe(observer);
    FAIL_IF(status == STATUS_NO_MEMORY, err, status, "%s", own.message);
    arrival->changes = status == STATUS_OK;
    if (!arrival->changes) {
        stage_log(stage, LOG_WARN, "refine-changes",
                  "%s: reads the whole table, because the file of changes cannot be used: %s", item_id(item),
                  own.message);
        return STATUS_OK;
    }
    const struct ledger_key since = {item_source(item), item_string(item, "selection.changes.since")};
    item_mark(since, arrival->selection->since);
    return STATUS_OK;
}

enum status arrival_read(struct stage *stage, const struct refiner *refiner, const struct item *item, bool changes,
                         struct arrival *arrival, struct err *err) {
    const char *name;
    char path[PATH_SIZE];
    arrival_clear(arrival);
    arrival->replace = strcmp(item_kind(item), "selection") == 0;
    /* A micrograph without picks has no file of particles. */
    if (!arrival->replace && item_number(item, "particles.count", 1) == 0) return STATUS_OK;
    TRY(item_need_string(item, arrival->replace ? "selection.star" : "particles.star", &name, err));
    TRY(stage_resolve(stage, name, path, err));
    const struct refiner_options *options = stage_params(stage);
    FAIL_IF(
        arrival->replace && (options->poses != 0 || options->skip_align), err, STATUS_UNSUPPORTED,
        "%s is a selection of the classifier, whose rlnAnglePsi and origins are those of 2D classes: poses cannot be "
        "taken from it; refine `from` the extractor, or set `poses` to search and `skip_align` to false",
        path);
    if (!arrival->replace) return read_table(stage, refiner, path, &arrival->read, err);
    TRY(mem_new(1, sizeof *arrival->selection, "a selection", &arrival->selection, err));
    memcpy(arrival->selection->path, path, strlen(path) + 1);
    item_mark(item_key(item), arrival->selection->key);
    if (changes) TRY(read_changes(stage, refiner, item, arrival, err));
    return arrival->changes ? STATUS_OK : arrival_read_whole(stage, refiner, arrival, err);
}

static enum status keep_locked(struct arrivals *a, struct arrival *arrival, struct err *err) {
    TRY(mem_more((size_t)a->count, sizeof *a->list, "files of particles", &a->list, &a->capacity, err));
    a->last = clock_monotonic();
    const bool alone = arrival->replace && !arrival->changes;
    for (int i = 0; alone && i < a->count; i++)
        arrival_clear(&a->list[i]);
    if (alone) a->count = 0;
    snprintf(a->key, sizeof a->key, "%s", arrival->selection != NULL ? arrival->selection->key : "");
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

bool arrivals_follow(struct arrivals *a, const struct arrival *arrival) {
    pthread_mutex_lock(&a->lock);
    bool follow = *a->key != '\0' && strcmp(a->key, arrival->selection->since) == 0;
    pthread_mutex_unlock(&a->lock);
    return follow;
}

struct arrival *arrivals_take(struct arrivals *a, int *ret_count) {
    pthread_mutex_lock(&a->lock);
    struct arrival *list = a->list;
    *ret_count = a->count;
    a->list = NULL;
    a->count = 0;
    a->capacity = 0;
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
