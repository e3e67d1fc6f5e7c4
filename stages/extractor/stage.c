/* The extractor as a stage: the callbacks that the harness runs for each micrograph, and the descriptor. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/harness/display.h"
#include "common/harness/stage.h"
#include "common/memory.h"
#include "stages/extractor/extractor.h"
#include "stages/extractor/parameters.h"

enum { EPOCH_MOST = 1000 }; /* of the picks; a session adopts templates a few times */

static void check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    extractor_check(params, checks);
}

static enum status init(struct stage *stage, void *state, struct err *err) {
    struct extractor *extractor = state;
    extractor->options = extractor_cut_options(stage_params(stage));
    const struct extractor_options *p = stage_params(stage);
    if (p->coordinates != NULL && *p->coordinates != '\0')
        TRY(coordinates_create(p->coordinates, p->coordinates_scale, &extractor->coordinates, err));
    int threads = stage_threads(stage) > 0 ? stage_threads(stage) : 1;
    TRY(mem_new((size_t)threads, sizeof *extractor->workers, "workers", &extractor->workers, err));
    extractor->worker_count = threads;
    for (int i = 0; i < threads; i++)
        TRY(extract_create(&extractor->options, &extractor->workers[i], err));
    return STATUS_OK;
}

static void fini(struct stage *stage, void *state) {
    (void)stage;
    struct extractor *extractor = state;
    for (int i = 0; i < extractor->worker_count && extractor->workers != NULL; i++)
        extract_destroy(&extractor->workers[i]);
    mem_free(&extractor->workers);
    coordinates_destroy(&extractor->coordinates);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    (void)stage, (void)state;
    struct extractor_lane *lane = stage_lane->state;
    extractor_picks_clear(&lane->picks);
    local_ctf_clear(&lane->local);
    image_destroy(&lane->micrograph);
    image_destroy(&lane->stack);
}

static enum status check_one(const char *path, int nz, struct err *err) {
    FAIL_IF(nz != 1, err, STATUS_BAD_FORMAT,
            "%s holds %d images: a micrograph has one (is it a movie that has not been corrected?)", path, nz);
    return STATUS_OK;
}

/* A larger box holds more repeated edge pixels than micrograph, and its stacks fill the disk. */
static enum status check_box(const struct extractor *extractor, const char *path, int nx, int ny, struct err *err) {
    int box = extractor->options.box, side = nx < ny ? nx : ny;
    FAIL_IF(box > side, err, STATUS_BAD_FORMAT,
            "%s has %d × %d px, but box is %d px: a box must fit into the micrograph; give one of 1.5 to 2 times the "
            "particle, in px of the micrograph",
            path, nx, ny, box);
    return STATUS_OK;
}

/* Returns whether the picker has found nothing in the micrograph: then it need not be read. */
static bool has_no_picks(const struct extractor *extractor, const struct item *item) {
    return extractor->coordinates == NULL && item_number(item, "picks.count", 1) == 0;
}

static enum status need(struct stage *stage, void *state, const struct stage_lane *stage_lane,
                        struct stage_need *ret_need, struct err *err) {
    const struct extractor *extractor = state;
    const struct item *item = stage_lane->item;
    const char *micrograph;
    char path[PATH_MAX];
    struct image_info info;
    double count = extractor->coordinates != NULL ? 0 : item_number(item, "picks.count", 0);
    TRY(item_need_string(item, "micrograph.path", &micrograph, err));
    if (has_no_picks(extractor, item)) return STATUS_OK;
    TRY(stage_resolve(stage, micrograph, path, err));
    TRY(image_probe(path, &info, err));
    TRY(check_one(path, info.nz, err));
    TRY(check_box(extractor, path, info.nx, info.ny, err));
    /* On files the number of picks is not known yet; they rarely cover the micrograph more than once. */
    size_t stack = image_bytes(info.nx, info.ny, 1);
    if (count > 0 && count < 1e9) stack = image_bytes(extractor->options.size, extractor->options.size, (int)count);
    ret_need->lane = mem_sum(info.bytes, stack);
    return STATUS_OK;
}

static void release(struct stage *stage, void *state, struct stage_lane *stage_lane) {
    if (stage_lane != NULL) lane_fini(stage, state, stage_lane);
}

static enum status load(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct extractor_lane *lane = stage_lane->state;
    const struct extractor_options *p = stage_params(stage);
    const struct item *item = stage_lane->item;
    const struct extractor *extractor = state;
    const char *micrograph, *picks = NULL, *local = item_string(item, "ctf.local");
    char path[PATH_MAX];
    TRY(item_need_string(item, "micrograph.path", &micrograph, err));
    if (extractor->coordinates == NULL) TRY(item_need_string(item, "picks.star", &picks, err));
    snprintf(lane->micrograph_name, sizeof lane->micrograph_name, "%s", micrograph);
    lane->picks.count = 0;
    lane->picks.table = NULL;
    lane->local.columns = 0;
    lane->unread = has_no_picks(extractor, item);
    if (lane->unread) return STATUS_OK;
    TRY(stage_resolve(stage, micrograph, path, err));
    TRY(image_read_micrograph(path, &lane->micrograph, err));
    TRY(check_one(path, lane->micrograph.nz, err));
    TRY(check_box(state, path, lane->micrograph.nx, lane->micrograph.ny, err));
    int nx = lane->micrograph.nx, ny = lane->micrograph.ny;
    if (picks != NULL) {
        TRY(stage_resolve(stage, picks, path, err));
        TRY(extractor_read_picks(path, micrograph, p->minimum_pick_fom, nx, ny, &lane->picks, err));
    } else
        TRY(extractor_read_coordinates(stage, extractor, micrograph, p->minimum_pick_fom, nx, ny, &lane->picks, err));
    if (picks == NULL && lane->picks.absent)
        stage_log(stage, LOG_WARN, "no-coordinates", "%s: the table of `coordinates` has no row of this micrograph",
                  item_id(item));
    if (local != NULL) {
        TRY(stage_resolve(stage, local, path, err));
        TRY(local_ctf_read(path, &lane->local, err));
    }
    if (lane->picks.outside > 0)
        stage_log(stage, LOG_WARN, "outside", "%s: %zu picks have their centre outside the micrograph of %d × %d px",
                  item_id(item), lane->picks.outside, lane->micrograph.nx, lane->micrograph.ny);
    return STATUS_OK;
}

static enum status process(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct extractor_lane *lane = stage_lane->state;
    TRY(extractor_cut(state, lane, err));
    if (lane->broken > 0)
        stage_log(stage, LOG_WARN, "broken",
                  "%s: %zu particles left out: the micrograph has NaN or infinite pixels there",
                  item_id(stage_lane->item), lane->broken);
    if (lane->flat > 0)
        stage_log(stage, LOG_WARN, "flat",
                  "%s: %zu particles have a background without variance: they are not normalised",
                  item_id(stage_lane->item), lane->flat);
    return STATUS_OK;
}

static enum status write_stack(const struct extractor_lane *lane, const char *path, double pixel_size,
                               struct err *err) {
    const struct image *stack = &lane->stack;
    struct mrc_writer *writer = NULL;
    TRY(mrc_writer_create(path, stack->nx, stack->ny, (float)pixel_size, MRC_STACK, MRC_FLOAT32, &writer, err));
    size_t pixels = (size_t)stack->nx * (size_t)stack->ny;
    for (size_t i = 0; i < lane->picks.count; i++) {
        enum status status = mrc_writer_append(writer, stack->data + i * pixels, err);
        if (status != STATUS_OK) {
            mrc_writer_discard(&writer);
            return status;
        }
    }
    return mrc_writer_finish(&writer, err);
}

/* Builds the name of a product. Picks of other templates give other particles. These get names of their own, so that a
 * stage behind this one reads no image of them in place of an earlier one. */
static enum status name_product(struct stage *stage, const struct item *item, int epoch, const char *ending,
                                char *relative, char *path, struct err *err) {
    char suffix[64];
    if (epoch > 0)
        snprintf(suffix, sizeof suffix, "_epoch%03d%s", epoch, ending);
    else
        snprintf(suffix, sizeof suffix, "%s", ending);
    return stage_product(stage, item, suffix, relative, path, err);
}

/* Returns the epoch of an item's picks; 0: they are of no templates of the session. */
static int epoch_of(const struct item *item) {
    double epoch = item_number(item, "columns.icestreamPickEpoch", 0);
    return epoch > 0 && epoch < EPOCH_MOST ? (int)epoch : 0;
}

static const char *const ENDINGS[] = {"_extract.star", ".mrcs"};

/* Removes the products of an epoch. */
static enum status drop(struct stage *stage, const struct item *item, int epoch, struct err *err) {
    char relative[PATH_MAX], path[PATH_MAX];
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        TRY(name_product(stage, item, epoch, ENDINGS[i], relative, path, err));
        FAIL_IF(unlink(path) != 0 && errno != ENOENT, err, status_of_writing(errno), "%s: cannot be removed: %s", path,
                strerror(errno));
    }
    return STATUS_OK;
}

/* Finds the last epoch before this one whose products exist; -1: there is none. A micrograph need not have passed through
 * each epoch. */
static enum status find_earlier(struct stage *stage, const struct item *item, int epoch, int *ret_earlier,
                                struct err *err) {
    char relative[PATH_MAX], path[PATH_MAX];
    for (int earlier = epoch - 1; earlier >= 0; earlier--)
        for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
            TRY(name_product(stage, item, earlier, ENDINGS[i], relative, path, err));
            *ret_earlier = earlier;
            if (file_exists(path)) return STATUS_OK;
        }
    *ret_earlier = -1;
    return STATUS_OK;
}

/* Particles of the epoch before may still be read, until those of this one have taken their place. Opens them, so that the
 * ledger counts them among the files of the item. Removes those of older epochs. */
static enum status keep_last_epoch(struct stage *stage, const struct item *item, int epoch, struct err *err) {
    char relative[PATH_MAX], path[PATH_MAX];
    int64_t size = 0;
    int kept = -1;
    TRY(find_earlier(stage, item, epoch, &kept, err));
    for (size_t i = 0; kept >= 0 && i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        _cleanup_(file_close) int descriptor = -1;
        TRY(name_product(stage, item, kept, ENDINGS[i], relative, path, err));
        if (file_exists(path)) TRY(file_open_read(path, &descriptor, &size, err));
    }
    for (int older = kept - 1; older >= 0; older--)
        TRY(drop(stage, item, older, err));
    return STATUS_OK;
}

/* A box that cuts the particle spoils classes and maps without showing it. The picker says how large the particle is. */
static void warn_of_box(struct stage *stage, const struct extractor *extractor, const struct item *item,
                        double pixel_size) {
    double particle = item_number(item, "picks.diameter", 0), side = extractor->options.box * pixel_size;
    if (side < particle)
        stage_log(stage, LOG_WARN, "box",
                  "%s: box is %d px, which are %.0f Å, and the particle has %.0f Å: take a box of 1.5 to 2 times the "
                  "particle",
                  item_id(item), extractor->options.box, side, particle);
}

static enum status store(struct stage *stage, void *state, struct stage_lane *stage_lane, struct err *err) {
    struct extractor *extractor = state;
    struct extractor_lane *lane = stage_lane->state;
    struct item *item = stage_lane->item;
    size_t count = lane->picks.count;
    int epoch = epoch_of(item);
    TRY(keep_last_epoch(stage, item, epoch, err));
    TRY(item_set_number(item, "particles.count", (double)count, err));
    TRY(item_set_number(item, "particles.box", extractor->options.size, err));
    if (!lane->unread) TRY(display_micrograph(stage, item, &lane->micrograph, err));
    if (count == 0) {
        stage_log(stage, LOG_INFO, "no-picks", "%s: no picks, so there is nothing to cut out", item_id(item));
        return drop(stage, item, epoch, err); /* an earlier revision may have had picks */
    }
    struct extractor_optics optics;
    TRY(extractor_item_optics(item, stage_session(stage), lane->micrograph.pixel_size, &optics, err));
    if (((const struct extractor_options *)stage_params(stage))->ignore_optics) optics.aberrations = NULL;
    warn_of_box(stage, extractor, item, optics.pixel_size);
    double pixel_size = optics.pixel_size * extractor->options.box / extractor->options.size;
    char stack[PATH_MAX], star[PATH_MAX], path[PATH_MAX];
    TRY(name_product(stage, item, epoch, ".mrcs", stack, path, err));
    TRY(write_stack(lane, path, pixel_size, err));
    TRY(name_product(stage, item, epoch, "_extract.star", star, path, err));
    TRY(extractor_write_particles(path, stack, item, &optics, &extractor->options, lane, err));
    TRY(item_set_string(item, "particles.stack", stack, err));
    TRY(item_set_string(item, "particles.star", star, err));
    return item_set_number(item, "particles.pixel_size", pixel_size, err);
}

struct walk {
    struct stage *stage;
    struct extractor_join *join;
    enum status (*add)(struct extractor_join *join, const char *path, struct err *err);
    size_t unreadable; /* tables */
    struct err first;  /* the error of the first unreadable table */
};

/* Passes the particle table of an item on. The item as it came in is enough: the names of products depend on nothing
 * else. */
static enum status visit(const struct item *item, void *context, struct err *err) {
    struct walk *walk = context;
    char relative[PATH_MAX], path[PATH_MAX];
    TRY(name_product(walk->stage, item, epoch_of(item), "_extract.star", relative, path, err));
    if (!file_exists(path)) return STATUS_OK; /* the micrograph had no picks */
    struct err own = {0};
    enum status status = walk->add(walk->join, path, &own);
    /* One lost table must not stop the others of a session. On files this run has just written all of them. */
    if (status_is_of_file(status) && stage_in_pipeline(walk->stage)) {
        if (walk->unreadable++ == 0) walk->first = own;
        return STATUS_OK;
    }
    if (status != STATUS_OK && err != NULL) *err = own;
    return status;
}

/* Warns of unreadable tables, once and not with every summary. */
static void warn_of_unreadable(struct stage *stage, struct extractor *extractor, const struct walk *walk) {
    if (walk->unreadable > 0 && walk->unreadable != extractor->unreadable)
        stage_log(stage, LOG_WARN, "particles-unreadable",
                  "%zu tables cannot be read and are left out of particles.star. The first: %s. Remove them; "
                  "`icestream retry --lost` then makes them anew",
                  walk->unreadable, walk->first.message);
    extractor->unreadable = walk->unreadable;
}

/* Goes over the items twice: first for columns and optics groups, then for the rows. */
static enum status join_into(struct stage *stage, struct extractor *extractor, struct extractor_join *join,
                             const char *path, struct err *err) {
    struct walk walk = {.stage = stage, .join = join, .add = extractor_join_note};
    TRY(stage_each_done(stage, visit, &walk, err));
    warn_of_unreadable(stage, extractor, &walk);
    TRY(extractor_join_begin(join, path, err));
    size_t noted = walk.unreadable;
    walk.add = extractor_join_rows;
    walk.unreadable = 0;
    TRY(stage_each_done(stage, visit, &walk, err));
    if (walk.unreadable > noted) warn_of_unreadable(stage, extractor, &walk);
    return extractor_join_commit(join, err);
}

static enum status summarise(struct stage *stage, void *state, struct err *err) {
    static const char *const files[] = {"particles.star", NULL};
    stage_result(stage, files, "%s", "");
    struct extractor_join *join = NULL;
    char path[PATH_MAX];
    TRY(path_join(stage_folder(stage), "particles.star", path, sizeof path, err));
    TRY(extractor_join_create(&join, err));
    enum status status = join_into(stage, state, join, path, err);
    extractor_join_destroy(&join);
    return status;
}

const struct stage_descriptor extractor_stage = {
    .name = "extractor",
    .summary = "Cuts picked particles out of micrographs, rescales and normalises them",
    .in = "micrograph picks",
    .out = "particles",
    .params = extractor_parameters,
    .param_count = EXTRACTOR_PARAMETERS,
    .params_size = sizeof(struct extractor_options),
    .state_size = sizeof(struct extractor),
    .lane_size = sizeof(struct extractor_lane),
    .revisions = true,
    .store_threads = 2,
    .columns = "",
    .check = check,
    .init = init,
    .fini = fini,
    .lane_fini = lane_fini,
    .need = need,
    .release = release,
    .load = load,
    .process = process,
    .store = store,
    .summarise = summarise,
};
