#include "stages/lowpass-picker/follow.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/harness/again.h"
#include "common/memory.h"
#include "stages/lowpass-picker/template_history.h"
#include "stages/lowpass-picker/trial.h"

enum { NAME_SIZE = 80 };

struct maker {
    char name[NAME_SIZE];
    char folder[PATH_SIZE];
    struct stat seen; /* its record, when it was read */
};

struct follow {
    struct maker makers[FOLLOW_STAGES_MOST];
    int maker_count;
    char folder[PATH_SIZE], history_path[PATH_SIZE];
    struct template_history history;
    bool repeats; /* what another session adopted; nothing is tried then */
    struct template_history recorded;
    size_t next; /* its first line that is not settled */
    char recorded_folder[PATH_SIZE];
    struct picker_set first; /* as the picks began; empty until the first adoption */
    struct trial trial;
    bool won;                                             /* the templates of the trial are to be adopted */
    char source[ITEM_SOURCE_SIZE], item[ITEM_ID_MAX + 1]; /* the last item that was picked; "": none yet */
    int joined;                                           /* the last epoch of the history that was looked at */
    int asked;                                            /* the epoch for which items were asked for again */
    bool troubled; /* the last step could not do its work, which the log says once */
};

/* Cuts the next name off a list with commas. Returns false at its end. */
static bool next_name(const char **list, char name[NAME_SIZE]) {
    const char *at = *list + strspn(*list, " ,");
    size_t length = strcspn(at, " ,");
    if (length == 0) return false;
    snprintf(name, NAME_SIZE, "%.*s", (int)(length < NAME_SIZE ? length : NAME_SIZE - 1), at);
    *list = at + length;
    return true;
}

enum status follow_check(const char *names, struct err *err) {
    char name[NAME_SIZE];
    int count = 0;
    const char *at = names;
    for (; next_name(&at, name); count++)
        FAIL_IF(strchr(name, '/') != NULL || name[0] == '.', err, STATUS_BAD_ARGUMENT,
                "templates_from: \"%s\" is not the name of a stage", name);
    FAIL_IF(count < 1 || count > FOLLOW_STAGES_MOST, err, STATUS_BAD_ARGUMENT,
            "templates_from is \"%s\": expected the names of 1 to %d stages, such as [classifier]", names,
            FOLLOW_STAGES_MOST);
    return STATUS_OK;
}

static enum status find_makers(struct follow *f, const struct stage *stage, const char *names, struct err *err) {
    char name[NAME_SIZE];
    while (f->maker_count < FOLLOW_STAGES_MOST && next_name(&names, name)) {
        struct maker *maker = &f->makers[f->maker_count++];
        memcpy(maker->name, name, sizeof name);
        TRY(path_join(stage_root(stage), name, maker->folder, sizeof maker->folder, err));
    }
    return STATUS_OK;
}

/* Replaces the set by the next one, and keeps that of the beginning. */
static void replace(struct follow *f, struct picker_set *set, struct picker_set *next) {
    if (set->epoch == 0) {
        picker_set_clear(&f->first);
        f->first = *set;
    } else {
        picker_set_clear(set);
    }
    *set = *next;
    *next = (struct picker_set){0};
}

/* Makes a set of adopted templates. folder: of the history that names them. */
static enum status take(struct picker_set *ret_set, const char *folder, const struct adoption *a, int epoch,
                        struct err *err) {
    char path[PATH_SIZE];
    struct image images = {0};
    TRY(path_join(folder, a->file, path, sizeof path, err));
    enum status status = mrc_read(path, &images, err);
    const struct picker_templates templates = {
        .data = images.data, .box = images.nx, .count = images.nz, .pixel_size = (double)images.pixel_size};
    if (status == STATUS_OK && images.nx != images.ny)
        status = err_set(err, STATUS_BAD_FORMAT, __FILE__, __LINE__, "%s: expected square images", path);
    if (status == STATUS_OK) status = templates_check(&templates, err);
    if (status != STATUS_OK) {
        image_destroy(&images);
        return status;
    }
    *ret_set = (struct picker_set){
        .method = PICKER_TEMPLATE, .templates = images, .pixel_size = (double)images.pixel_size, .epoch = epoch};
    return STATUS_OK;
}

/* Forgets what is being tried: it was compared with picks of templates that are no longer used. The makers' records are
 * looked at anew. */
static void try_anew(struct follow *f) {
    trial_clear(&f->trial);
    f->won = false;
    for (int i = 0; i < f->maker_count; i++)
        f->makers[i].seen = (struct stat){0};
}

/* Takes over what this instance has not adopted itself: an earlier run did, or another instance. Without the copy of
 * the templates the picks go on as they are. */
static enum status join(struct follow *f, const struct stage *stage, struct picker_set *set, struct err *err) {
    struct err own = {0};
    TRY(template_history_read(f->history_path, &f->history, err));
    const struct adoption *last = template_history_last(&f->history);
    if (last == NULL || last->epoch <= f->joined) return STATUS_OK;
    struct picker_set next = {0};
    enum status status = take(&next, f->folder, last, last->epoch, &own);
    FAIL_IF(status != STATUS_OK && !status_is_of_file(status), err, status, "%s", own.message);
    f->joined = last->epoch;
    if (status == STATUS_OK) replace(f, set, &next);
    try_anew(f);
    if (status == STATUS_OK)
        stage_log(stage, LOG_INFO, "adopted", "goes on with %d templates of %s, epoch %d of the picks",
                  set->templates.nz, last->stage, last->epoch);
    else
        stage_log(stage, LOG_WARN, "templates", "the templates of epoch %d of the picks are lost: %s", last->epoch,
                  own.message);
    return STATUS_OK;
}

static enum status open_histories(struct follow *f, const struct stage *stage, struct picker_set *set,
                                  struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    snprintf(f->folder, sizeof f->folder, "%s", stage_folder(stage));
    TRY(path_join(f->folder, TEMPLATE_HISTORY, f->history_path, sizeof f->history_path, err));
    f->repeats = p->templates_history != NULL;
    if (f->repeats) {
        TRY(template_history_read(p->templates_history, &f->recorded, err));
        TRY(path_folder(p->templates_history, f->recorded_folder, sizeof f->recorded_folder, err));
    }
    return join(f, stage, set, err);
}

enum status follow_create(const struct stage *stage, struct picker_set *set, struct follow **ret_follow,
                          struct err *err) {
    const struct lowpass_picker_options *p = stage_params(stage);
    struct follow *f = NULL;
    TRY(mem_new(1, sizeof *f, "templates of the session", &f, err));
    enum status status = find_makers(f, stage, p->templates_from, err);
    if (status == STATUS_OK) status = open_histories(f, stage, set, err);
    if (status != STATUS_OK) {
        follow_destroy(&f);
        return status;
    }
    *ret_follow = f;
    return STATUS_OK;
}

void follow_destroy(struct follow **follow) {
    if (*follow == NULL) return;
    template_history_clear(&(*follow)->history);
    template_history_clear(&(*follow)->recorded);
    trial_clear(&(*follow)->trial);
    picker_set_clear(&(*follow)->first);
    mem_free(follow);
}

void follow_forget(struct follow *f) {
    picker_set_forget(&f->trial.set);
    picker_set_forget(&f->first);
}

/* follow: of an adoption; NULL: it is a refusal. */
static struct adoption describe(const struct trial *t, const struct follow *follow) {
    struct adoption a = {.adopted = follow != NULL,
                         .after_item = true,
                         .stage_epoch = t->from.epoch,
                         .iteration = t->from.iteration,
                         .micrographs = t->tried,
                         .before = t->before,
                         .after = t->after,
                         .again = trial_again(t),
                         .density = t->twins > 0 ? t->density.data / t->twins : 0,
                         .noise = t->twins > 0 ? t->density.noise / t->twins : 0};
    snprintf(a.stage, sizeof a.stage, "%s", t->from.stage);
    if (follow == NULL) return a;
    /* An instance that has picked nothing yet names the last item that was picked. */
    bool own = follow->item[0] != '\0';
    snprintf(a.source, sizeof a.source, "%s", own ? follow->source : t->last_source);
    snprintf(a.item, sizeof a.item, "%s", own ? follow->item : t->last_item);
    return a;
}

static void tell(struct stage *stage, const struct adoption *a, const char *how) {
    stage_log(stage, LOG_INFO, "adopted", "%s %s: picks with %d templates of %s, epoch %d of the picks%s",
              a->after_item ? "after" : "from", a->item, a->count, a->stage, a->epoch, how);
}

/* Says once that the templates have to wait. A stage that is to stop has no trouble. */
static void wait_for_better(struct follow *f, struct stage *stage, enum status status, const char *reason) {
    if (status == STATUS_CANCELLED) return;
    if (!f->troubled) stage_log(stage, LOG_WARN, "templates-wait", "new templates have to wait: %s", reason);
    f->troubled = true;
}

/* Writes the adoption down, and then adopts. If another instance has decided meanwhile, its word counts. If it cannot
 * be written, the picks go on as they are; unless the line stands there nevertheless. */
static enum status adopt(struct follow *f, struct stage *stage, struct picker_set *set, struct err *err) {
    struct adoption a = describe(&f->trial, f);
    struct err own = {0};
    char how[160];
    a.epoch = f->joined + 1; /* what was tried was compared with the picks of the epoch before */
    enum status status = template_history_add(f->folder, &a, &f->trial.set.templates, &f->history, &own);
    if (status != STATUS_OK) {
        wait_for_better(f, stage, status, own.message);
        return join(f, stage, set, err);
    }
    f->won = f->troubled = false;
    if (a.written) {
        snprintf(how, sizeof how, "; on %d micrographs %.0f particles stand out, %.0f before (expected F1 %.3f, %.3f)",
                 a.micrographs, a.after.sure, a.before.sure, a.after.f1 / a.micrographs, a.before.f1 / a.micrographs);
        replace(f, set, &f->trial.set);
        set->epoch = f->joined = a.epoch;
        tell(stage, &a, how);
        trial_clear(&f->trial);
        return STATUS_OK;
    }
    trial_clear(&f->trial);
    return join(f, stage, set, err);
}

static void refuse(struct follow *f, struct stage *stage, const char *reason) {
    struct adoption a = describe(&f->trial, NULL);
    struct err err = {0};
    snprintf(a.reason, sizeof a.reason, "%s", reason);
    enum status status = template_history_add(f->folder, &a, NULL, &f->history, &err);
    if (a.written)
        stage_log(stage, LOG_INFO, "refused",
                  "templates of %s (its epoch %d) are not adopted: on %d micrographs %.0f particles stand out, %.0f "
                  "before%s%s",
                  a.stage, a.stage_epoch, a.micrographs, a.after.sure, a.before.sure, *reason != '\0' ? ": " : "",
                  reason);
    if (status != STATUS_OK) {
        wait_for_better(f, stage, status, err.message);
        return;
    }
    f->troubled = false;
    trial_clear(&f->trial);
}

/* Puts recorded templates into the set once their line is written. Without their copy the picks go on as they are. */
static enum status repeat_one(struct follow *f, struct stage *stage, struct picker_set *set, struct adoption *a,
                              struct err *err) {
    struct picker_set next = {0};
    struct err own = {0};
    enum status status = take(&next, f->recorded_folder, a, 0, &own);
    if (status_is_of_file(status)) {
        stage_log(stage, LOG_WARN, "templates", "%s: the templates of epoch %d of the recorded session are lost: %s",
                  a->item, a->epoch, own.message);
        return STATUS_OK;
    }
    FAIL_IF(status != STATUS_OK, err, status, "%s", own.message);
    a->epoch = 0;
    status = template_history_add(f->folder, a, &next.templates, &f->history, err);
    if (status != STATUS_OK || !a->written) {
        picker_set_clear(&next);
        return status;
    }
    replace(f, set, &next);
    set->epoch = f->joined = a->epoch;
    tell(stage, a, ", as in the recorded session");
    return STATUS_OK;
}

/* Repeats what the recorded session did at this item, in its order: before it was picked, or after. An item that was
 * picked before its turn comes again, since an adoption asks for it. Lost templates keep no others waiting: their item
 * may have been picked in an earlier run. */
static enum status repeat(struct follow *f, struct stage *stage, struct picker_set *set, const char *source,
                          const char *item, bool after, struct err *err) {
    char path[PATH_SIZE];
    for (; f->next < f->recorded.count; f->next++) {
        struct adoption a = f->recorded.lines[f->next];
        if (!a.adopted || template_history_knows(&f->history, a.stage, a.stage_epoch)) continue;
        bool here = a.after_item == after && strcmp(a.item, item) == 0 && strcmp(a.source, source) == 0;
        TRY(path_join(f->recorded_folder, a.file, path, sizeof path, err));
        if (!here && file_exists(path)) return STATUS_OK;
        TRY(repeat_one(f, stage, set, &a, err));
    }
    return STATUS_OK;
}

/* Asks for the items again that were picked without the present templates. Where those of the last epoch are lost, the
 * set has earlier ones. */
static enum status ask(struct follow *f, const struct picker_set *set, struct err *err) {
    struct again again = {.number = set->epoch, .column = "icestreamPickEpoch", .spared = FOLLOW_KEPT};
    if (f->asked >= set->epoch) return STATUS_OK;
    TRY(again_write(f->folder, &again, err));
    f->asked = set->epoch;
    return STATUS_OK;
}

enum status follow_before(struct follow *f, struct stage *stage, struct picker_set *set, const struct item *item,
                          struct err *err) {
    TRY(join(f, stage, set, err));
    return f->repeats ? repeat(f, stage, set, item_source(item), item_id(item), false, err) : STATUS_OK;
}

struct picker_set *follow_choose(struct follow *f, struct picker_set *set, const struct item *item) {
    return set->epoch > 0 && again_spares(FOLLOW_KEPT, item_id(item)) ? &f->first : set;
}

void follow_after(struct follow *f, const struct item *item) {
    snprintf(f->source, sizeof f->source, "%s", item_source(item));
    snprintf(f->item, sizeof f->item, "%s", item_id(item));
}

/* Reads the record of a stage if it is new, and begins to try its templates. A record that is damaged, or half gone, is
 * looked at again once it has changed. */
static void look_at(struct follow *f, struct stage *stage, struct maker *maker) {
    char path[PATH_SIZE];
    struct stat info;
    struct template_set templates = {0};
    struct err err = {0};
    if (path_join(maker->folder, TEMPLATE_SET_RECORD, path, sizeof path, NULL) != STATUS_OK || stat(path, &info) != 0)
        return;
    if (info.st_ino == maker->seen.st_ino && file_mtime_ns(&info) == file_mtime_ns(&maker->seen)) return;
    maker->seen = info;
    enum status status = template_set_read(maker->folder, &templates, &err);
    if (status == STATUS_NO_MEMORY || status == STATUS_UNAVAILABLE) {
        maker->seen = (struct stat){0};
        wait_for_better(f, stage, status, err.message);
        return;
    }
    if (status != STATUS_OK) {
        stage_log(stage, LOG_WARN, "templates", "the templates of %s cannot be read: %s", maker->name, err.message);
        return;
    }
    snprintf(templates.stage, sizeof templates.stage, "%s", maker->name);
    if (template_history_knows(&f->history, maker->name, templates.epoch))
        template_set_clear(&templates);
    else
        trial_begin(&f->trial, &templates);
}

/* Looks for new templates, if none are being tried. A trial that waits for micrographs gives way to newer templates of
 * its own maker; those of others come after it. */
static void look(struct follow *f, struct stage *stage) {
    for (int i = 0; i < f->maker_count && f->trial.item_count == 0; i++)
        if (!trial_runs(&f->trial) || strcmp(f->trial.from.stage, f->makers[i].name) == 0)
            look_at(f, stage, &f->makers[i]);
}

/* Goes on with the trial, and decides at its end. */
static enum status try_step(struct follow *f, struct stage *stage, struct picker_set *set, enum stage_work *ret_work,
                            struct err *err) {
    bool more = false;
    struct err own = {0};
    if (!stage_decides(stage)) return STATUS_OK; /* `join` takes over what the one that does has adopted */
    look(f, stage);
    if (!trial_runs(&f->trial)) return STATUS_OK;
    enum status status = trial_step(&f->trial, stage, set, &more, &own);
    FAIL_IF(status == STATUS_DEVICE, err, status, "%s", own.message);
    if (status_is_of_file(status) || status == STATUS_BAD_ARGUMENT) {
        refuse(f, stage, own.message);
        return STATUS_OK;
    }
    if (status != STATUS_OK) {
        follow_forget(f);
        wait_for_better(f, stage, status, own.message);
        return STATUS_OK;
    }
    *ret_work = more ? STAGE_WORK_MORE : STAGE_WORK_NONE;
    if (more || f->trial.item_count == 0) {
        f->troubled = false;
        return STATUS_OK;
    }
    f->won = trial_won(&f->trial);
    if (!f->won)
        refuse(f, stage,
               f->trial.tried < TRIAL_LEAST ? "too few can be read"
               : f->trial.twins > 0 && !trial_beats_noise(&f->trial)
                   ? "they find too much in noise of the same spectrum"
                   : "");
    return STATUS_OK;
}

enum status follow_step(struct follow *f, struct stage *stage, struct picker_set *set, enum stage_work *ret_work,
                        struct err *err) {
    struct err own = {0};
    enum status status = STATUS_OK;
    *ret_work = STAGE_WORK_NONE;
    if (f->repeats)
        status = repeat(f, stage, set, f->source, f->item, true, &own);
    else if (!f->won)
        TRY(try_step(f, stage, set, ret_work, err));
    if (status == STATUS_OK && f->won) status = adopt(f, stage, set, &own);
    if (status == STATUS_OK) status = ask(f, set, &own);
    if (status != STATUS_OK) wait_for_better(f, stage, status, own.message);
    return STATUS_OK;
}
