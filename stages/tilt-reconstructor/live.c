#include "stages/tilt-reconstructor/live.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "stages/tilt-reconstructor/tilt_reconstructor.h"

/* An item to send on. */
struct news {
    struct news *next;
    struct item *item;
};

struct live {
    struct stage *stage;
    const struct settings *settings;
    struct groups *groups;
    struct reconstruction reconstruction, preview;
    struct reconstruction_plan *plan, preview_plan;
    struct projections_source source;
    pthread_mutex_t lock;
    struct news *news;
    char *blamed; /* the series on which the stage died again and again; NULL: none */
};

/* ---- Series that end the stage ----
 *
 * The file .begun names the series on which idle or flush works. After a death it is still there. */
enum { DEATHS_MAX = 3 };

static enum status begun_path(const struct stage *stage, char path[PATH_SIZE], struct err *err) {
    return path_join(stage_folder(stage), ".begun", path, PATH_SIZE, err);
}

/* Finds the series on which the stage died again and again. */
static void find_blamed(struct live *live) {
    char path[PATH_SIZE];
    if (stage_deaths(live->stage) < DEATHS_MAX || begun_path(live->stage, path, NULL) != STATUS_OK) return;
    /* If the file cannot be read, no series is known to be the cause. */
    (void)file_read_whole(path, PATH_SIZE, &live->blamed, NULL, NULL);
}

/* Notes that work on a series begins. Refuses the series that ended the stage: it may need more memory than the machine
 * has. */
static enum status begin_series(const struct live *live, const struct group *group, struct err *err) {
    char path[PATH_SIZE];
    if (!stage_in_pipeline(live->stage)) return STATUS_OK;
    FAIL_IF(live->blamed != NULL && strcmp(live->blamed, group->id) == 0, err, STATUS_UNSUPPORTED,
            "the stage died %d times while it worked on this series, with nothing finished between: it may need more "
            "memory than there is (raise bin, or give the stage more)",
            stage_deaths(live->stage));
    TRY(begun_path(live->stage, path, err));
    return file_write_whole(path, group->id, strlen(group->id), err);
}

static void end_series(const struct live *live) {
    char path[PATH_SIZE];
    if (stage_in_pipeline(live->stage) && begun_path(live->stage, path, NULL) == STATUS_OK) unlink(path);
}

/* ---- The series that grow ---- */

enum status live_create(struct stage *stage, const struct settings *settings, struct reconstruction_plan *plan,
                        struct live **ret_live, struct err *err) {
    struct live *live = calloc(1, sizeof *live);
    FAIL_IF(live == NULL, err, STATUS_NO_MEMORY, "no memory for series that grow");
    if (pthread_mutex_init(&live->lock, NULL) != 0) {
        free(live);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a lock");
    }
    live->stage = stage;
    live->settings = settings;
    live->plan = plan;
    find_blamed(live);
    enum status status = groups_create(&live->groups, err);
    if (status == STATUS_OK)
        *ret_live = live;
    else
        live_destroy(&live);
    return status;
}

void live_destroy(struct live **live) {
    if (live == NULL || *live == NULL) return;
    struct live *l = *live;
    for (struct news *news = l->news, *next; news != NULL; news = next) {
        next = news->next;
        item_destroy(&news->item);
        free(news);
    }
    groups_destroy(&l->groups);
    reconstruction_clear(&l->reconstruction);
    reconstruction_clear(&l->preview);
    reconstruction_plan_clear(&l->preview_plan);
    projections_source_clear(&l->source);
    pthread_mutex_destroy(&l->lock);
    free(l->blamed);
    free(l);
    *live = NULL;
}

enum status live_submit(struct live *live, const struct arrival *arrival, struct err *err) {
    return groups_submit(live->groups, arrival, err);
}

enum status product_paths_of(const struct stage *stage, const char *series, bool preview,
                             struct product_paths *ret_paths, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    struct product_paths *p = ret_paths;
    char ignored[PATH_SIZE];
    TRY(item_create(series, "tomogram", &item, err));
    TRY(stage_product(stage, item, preview ? "_preview.mrc" : ".mrc", p->relative, p->tomogram, err));
    TRY(stage_product(stage, item, preview ? "_preview.png" : "_slices.png", ignored, p->slices, err));
    TRY(stage_product(stage, item, "_residuals.csv", ignored, p->residuals, err));
    TRY(stage_product(stage, item, ".json", ignored, p->record, err));
    p->products = (struct products){p->tomogram, p->slices, preview ? NULL : p->residuals, preview ? NULL : p->record};
    return STATUS_OK;
}

/* Makes the item of a tomogram. Its id holds series and number of tilts: it is the same after a restart, so the item is
 * sent once. */
static enum status make_item(const struct live *live, const char *series, int tilts, double pixel_size,
                             struct item **ret_item, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    struct product_paths paths;
    char id[ITEM_ID_MAX + 1];
    int used = snprintf(id, sizeof id, "tomogram/%s/%04d", series, tilts);
    FAIL_IF(used >= (int)sizeof id, err, STATUS_BAD_ARGUMENT, "the name of the series %.80s… is too long", series);
    TRY(product_paths_of(live->stage, series, false, &paths, err));
    TRY(item_create(id, "tomogram", &item, err));
    TRY(item_set_string(item, "tomogram.path", paths.relative, err));
    TRY(item_set_string(item, "tomogram.series", series, err));
    TRY(item_set_number(item, "tomogram.tilts", tilts, err));
    if (!isnan(pixel_size)) TRY(item_set_number(item, "tomogram.pixel_size", pixel_size, err));
    *ret_item = item;
    item = NULL;
    return STATUS_OK;
}

enum status live_announce(struct live *live, const char *series, int tilts, double pixel_size, struct err *err) {
    _cleanup_(item_destroy) struct item *item = NULL;
    TRY(make_item(live, series, tilts, pixel_size, &item, err));
    struct news *news = calloc(1, sizeof *news);
    FAIL_IF(news == NULL, err, STATUS_NO_MEMORY, "no memory for an item");
    news->item = item;
    item = NULL;
    pthread_mutex_lock(&live->lock);
    news->next = live->news;
    live->news = news;
    pthread_mutex_unlock(&live->lock);
    return STATUS_OK;
}

static enum status send_news(struct live *live, struct err *err) {
    for (;;) {
        pthread_mutex_lock(&live->lock);
        struct news *news = live->news;
        if (news != NULL) live->news = news->next;
        pthread_mutex_unlock(&live->lock);
        if (news == NULL) return STATUS_OK;
        enum status status = stage_emit(live->stage, news->item, NULL, err);
        if (status != STATUS_OK) {
            pthread_mutex_lock(&live->lock);
            news->next = live->news;
            live->news = news;
            pthread_mutex_unlock(&live->lock);
            return status;
        }
        item_destroy(&news->item);
        free(news);
    }
}

void live_tell(struct stage *stage, const char *series, const struct reconstruction *reconstruction) {
    size_t i;
    const json_t *note;
    json_array_foreach(reconstruction->series.notes, i, note)
        stage_log(stage, LOG_WARN, "tilts", "%s: %s", series, json_string_value(note));
    if (reconstruction->alignment[0] != '\0')
        stage_log(stage, LOG_INFO, "aligned", "%s: %s", series, reconstruction->alignment);
    stage_log(stage, LOG_INFO, "tomogram", "%s: %d tilts, %d × %d × %d voxels, %.2f s", series,
              reconstruction->series.count, reconstruction->projections.nx, reconstruction->projections.ny,
              reconstruction->nz, reconstruction->seconds);
    stage_note(stage, "%s: %d × %d × %d voxels", series, reconstruction->projections.nx, reconstruction->projections.ny,
               reconstruction->nz);
}

/* Returns whether the error concerns this series alone, so that others may go on. */
static bool is_of_series(enum status status) {
    return status_is_of_file(status) || status == STATUS_BAD_ARGUMENT || status == STATUS_UNSUPPORTED ||
           status == STATUS_NO_MEMORY;
}

/* Writes the products. Waits while the disk is full, so that nothing is computed twice. */
static enum status write_products(struct live *live, const struct reconstruction *reconstruction,
                                  const struct products *paths, uint64_t fingerprint, struct err *err) {
    enum status status;
    STAGE_PERSIST(live->stage, status, err,
                  products_write(&live->settings->reconstruction, reconstruction, paths, fingerprint, err));
    return status;
}

/* Checks that all images may be read: after a restart nothing has looked at them yet. */
static enum status may_read(const struct live *live, const struct series *series, struct err *err) {
    const bool *exclude = live->settings->reconstruction.exclude;
    for (int i = 0; i < series->count; i++)
        if (!series_excludes(exclude, series->tilts[i].number))
            TRY(stage_may_read(live->stage, series->tilts[i].path, err));
    return STATUS_OK;
}

/* Makes the tomogram of a series. Reads the images again at full size: to keep them in memory would not pay. */
static enum status make_tomogram(struct live *live, struct group *group, struct err *err) {
    struct series series = {0};
    struct product_paths paths;
    const struct reconstruction_settings *settings = &live->settings->reconstruction;
    TRY(group_series(group, false, &series, err));
    uint64_t fingerprint = reconstruction_fingerprint(settings, &series);
    enum status status = product_paths_of(live->stage, group->id, false, &paths, err);
    stage_note(live->stage, "%s: %d tilts: reading", group->id, series.count);
    if (status == STATUS_OK) status = may_read(live, &series, err);
    if (status == STATUS_OK) status = reconstruction_read(settings, &series, true, &live->reconstruction, err);
    if (status == STATUS_OK) status = reconstruction_make(settings, live->plan, &live->reconstruction, err);
    if (status == STATUS_OK) status = write_products(live, &live->reconstruction, &paths.products, fingerprint, err);
    series_clear(&series);
    TRY(status);
    live_tell(live->stage, group->id, &live->reconstruction);
    return live_announce(live, group->id, group->series.count, group->series.pixel_size * settings->bin, err);
}

static int shrink_of(const struct live *live, const struct group *group) {
    const struct tilt_reconstructor_options *p = stage_params(live->stage);
    int longest = group->series.nx > group->series.ny ? group->series.nx : group->series.ny;
    int shrink = (longest + p->preview_size - 1) / p->preview_size;
    return shrink > live->settings->reconstruction.bin ? shrink : live->settings->reconstruction.bin;
}

/* Reads the tilts that came since the last preview, or before a restart, into memory at the preview's size. */
static enum status need_pixels(struct live *live, struct group *group, int shrink, struct err *err) {
    struct series *series = &group->series;
    const struct projections_options options = {
        .bin = shrink, .tilt_axis = NAN, .threads = live->settings->reconstruction.tomography.threads};
    for (int i = 0; i < series->count; i++) {
        struct tilt *tilt = &series->tilts[i];
        if (tilt->pixels != NULL) continue;
        TRY(stage_may_read(live->stage, tilt->path, err));
        _cleanup_(mem_free) float *pixels = NULL;
        size_t count = (size_t)(series->nx / shrink) * (size_t)(series->ny / shrink);
        TRY(mem_new_unset(count, sizeof *pixels, "a preview", &pixels, err));
        TRY(projections_read_one(series, tilt, &options, &live->source, pixels, err));
        tilt->pixels = pixels;
        pixels = NULL;
    }
    return STATUS_OK;
}

static enum status make_preview(struct live *live, struct group *group, struct err *err) {
    int shrink = shrink_of(live, group);
    struct series series = {0};
    struct product_paths paths;
    const struct reconstruction_settings settings = settings_preview(live->settings, shrink);
    TRY(need_pixels(live, group, shrink, err));
    TRY(product_paths_of(live->stage, group->id, true, &paths, err));
    TRY(group_series(group, true, &series, err));
    series.nx /= shrink;
    series.ny /= shrink;
    series.pixel_size *= shrink;
    series.spacing *= shrink;
    enum status status = reconstruction_read(&settings, &series, false, &live->preview, err);
    series_clear(&series);
    if (status == STATUS_OK) status = reconstruction_make(&settings, &live->preview_plan, &live->preview, err);
    if (status == STATUS_OK) status = products_write(&settings, &live->preview, &paths.products, 0, err);
    TRY(status);
    stage_note(live->stage, "%s: preview of %d tilts", group->id, live->preview.series.count);
    stage_log(live->stage, LOG_INFO, "preview", "%s: %d tilts", group->id, live->preview.series.count);
    return STATUS_OK;
}

/* Gives items, named by their marks, another outcome. */
static enum status revise(struct live *live, const char *const *marks, size_t count, const char *reason,
                          struct err *err) {
    _cleanup_(mem_free) struct ledger_key *keys = NULL;
    _cleanup_(mem_free) char *texts = NULL;
    TRY(mem_new(count + 1, sizeof *keys, "the tilts of a series", &keys, err));
    TRY(mem_new(count + 1, ITEM_MARK_SIZE, "the tilts of a series", &texts, err));
    for (size_t i = 0; i < count; i++) {
        char *text = texts + i * ITEM_MARK_SIZE;
        snprintf(text, ITEM_MARK_SIZE, "%s", marks[i]);
        keys[i] = item_key_of_mark(text);
    }
    return stage_revise(live->stage, keys, count, reason, err);
}

/* Moves new tilts into their series. A tilt that cannot be part of its series fails, although it was read without
 * error. */
static enum status take_in(struct live *live, struct err *err) {
    for (;;) {
        _cleanup_(odd_tilt_clear) struct odd_tilt odd = {0};
        TRY(groups_take_in(live->groups, clock_monotonic(), &odd, err));
        if (odd.item == NULL) return STATUS_OK;
        stage_log(live->stage, LOG_WARN, "odd-tilt", "%s", odd.reason);
        TRY(revise(live, (const char *const *)&odd.item, 1, odd.reason, err));
    }
}

/* Gives the tilts of a series the outcome of the series. failure: why there is no tomogram, or NULL. */
static enum status settle(struct live *live, struct group *group, const char *failure, struct err *err) {
    _cleanup_(mem_free) const char **items = NULL;
    size_t count = 0;
    TRY(mem_new((size_t)group->series.count, sizeof *items, "the tilts of a series", &items, err));
    group_settle(group, failure == NULL, items, &count);
    return revise(live, items, count, failure, err);
}

/* Fails the tilts whose files are gone, and removes them from their series. */
static enum status turn_out(struct live *live, struct group *group, struct err *err) {
    for (;;) {
        _cleanup_(odd_tilt_clear) struct odd_tilt odd = {0};
        TRY(group_turn_out(group, &odd, err));
        if (odd.item == NULL) return STATUS_OK;
        stage_log(live->stage, LOG_WARN, "odd-tilt", "%s", odd.reason);
        TRY(revise(live, (const char *const *)&odd.item, 1, odd.reason, err));
    }
}

/* Skips a series whose tomogram was made before a restart; its images may be gone. For an incomplete series, missing
 * images are left out. */
static enum status pass_over_made(struct live *live, struct group *group, bool *ret_made, struct err *err) {
    struct product_paths paths;
    *ret_made = false;
    TRY(product_paths_of(live->stage, group->id, false, &paths, err));
    for (int without = 0; without < 2 && !*ret_made; without++) {
        if (without) TRY(turn_out(live, group, err));
        *ret_made = products_are_of(&paths.products,
                                    reconstruction_fingerprint(&live->settings->reconstruction, &group->series));
    }
    if (!*ret_made) return STATUS_OK;
    group_drop_pixels(group);
    TRY(settle(live, group, NULL, err));
    return live_announce(live, group->id, group->series.count,
                         group->series.pixel_size * live->settings->reconstruction.bin, err);
}

static enum status preview_next(struct live *live, enum stage_work *ret_work, struct err *err) {
    struct group *group = groups_to_preview(live->groups);
    struct err own = {0};
    bool made = false;
    if (group == NULL) return STATUS_OK;
    *ret_work = STAGE_WORK_MORE;
    enum status status = group->previewed == 0 ? pass_over_made(live, group, &made, &own) : STATUS_OK;
    int count = group->series.count;
    if (status == STATUS_OK && (made || count < 2)) return STATUS_OK;
    if (status == STATUS_OK) status = begin_series(live, group, &own);
    bool begun = status == STATUS_OK;
    if (begun) status = make_preview(live, group, &own);
    if (begun) end_series(live);
    if (status != STATUS_OK && !is_of_series(status)) FAIL(err, status, "%s", own.message);
    if (status != STATUS_OK)
        stage_log(live->stage, LOG_WARN, "preview", "no preview of %s: %s", group->id, own.message);
    group->previewed = count;
    return STATUS_OK;
}

/* Makes the tomogram of a series. *ret_over: there is nothing left to make. */
static enum status make_unless_made(struct live *live, struct group *group, bool *ret_over, struct err *err) {
    bool made = false;
    TRY(pass_over_made(live, group, &made, err));
    *ret_over = made || group->series.count == 0;
    if (*ret_over) return STATUS_OK;
    TRY(begin_series(live, group, err));
    return make_tomogram(live, group, err);
}

static enum status tomogram_next(struct live *live, bool final, enum stage_work *ret_work, struct err *err) {
    const struct tilt_reconstructor_options *p = stage_params(live->stage);
    struct group *group = groups_complete(live->groups, clock_monotonic(), p->tilts_per_series, p->quiet, final);
    struct err own = {0};
    if (group == NULL) return STATUS_OK;
    bool over = false;
    *ret_work = STAGE_WORK_MORE;
    /* Waits for memory only. A full disk waits in write_products, after the computing. The harness calls again when
     * other trouble is over. */
    struct stage_patience patience = {0};
    enum status status;
    do
        status = make_unless_made(live, group, &over, &own);
    while (status == STATUS_NO_MEMORY && stage_wait_out(live->stage, status, &own, &patience));
    if (!over) end_series(live);
    if (status != STATUS_OK && !is_of_series(status)) FAIL(err, status, "%s", own.message);
    if (status == STATUS_OK && over) return STATUS_OK;
    if (status == STATUS_OK) {
        group_drop_pixels(group);
        return settle(live, group, NULL, err);
    }
    const char *why = own.message;
    size_t name = strlen(group->id);
    if (strncmp(why, group->id, name) == 0 && strncmp(why + name, ": ", 2) == 0) why += name + 2;
    char reason[sizeof own.message + 128];
    snprintf(reason, sizeof reason, "no tomogram of %.100s, %d tilt%s: %s", group->id, group->series.count,
             group->series.count == 1 ? "" : "s", why);
    stage_log(live->stage, LOG_ERROR, "series", "%s", reason);
    /* More of its tilts, or a retry, may try again. */
    if (live->blamed != NULL && strcmp(live->blamed, group->id) == 0) mem_free(&live->blamed);
    return settle(live, group, reason, err);
}

enum status live_step(struct live *live, bool final, enum stage_work *ret_work, struct err *err) {
    const struct tilt_reconstructor_options *p = stage_params(live->stage);
    *ret_work = STAGE_WORK_NONE;
    TRY(take_in(live, err));
    TRY(send_news(live, err));
    if (p->preview && !final) TRY(preview_next(live, ret_work, err));
    if (*ret_work == STAGE_WORK_NONE) TRY(tomogram_next(live, final, ret_work, err));
    TRY(send_news(live, err));
    return STATUS_OK;
}
