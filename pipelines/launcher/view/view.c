#include "pipelines/launcher/view/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/view/view_private.h"
#include "pipelines/launcher/warnings.h"

/* Reading ledgers takes about one part in so many of a core, and pauses this long (s) at least and at most. The first
 * reading of a long session takes seconds, and comes once: what changes right after it is not to wait for minutes. After
 * any other reading, too, a change is seen within a second. */
static const double SHARE = 30, PAUSE = 0.2, PAUSE_MAX = 0.5;

double view_clock(void) {
    return clock_monotonic();
}

double view_cpu(void) {
    struct timespec used;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0 ? (double)used.tv_sec + 1e-9 * (double)used.tv_nsec : 0;
}

/* ---- the plan ---- */

static void clear_stages(struct view *view) {
    for (size_t i = 0; i < view->stage_count; i++) {
        struct stage_view *s = &view->stages[i];
        ledger_watch_close(&s->watch);
        json_decref(s->history);
        free(s->to);
        free(s->visits);
        free(s->open);
        free(s->awaited);
    }
    free(view->stages);
    view->stages = NULL;
    view->stage_count = 0;
    view_table_clear(view);
}

int view_stage_find(const struct view *view, const char *name) {
    for (size_t i = 0; i < view->stage_count; i++)
        if (strcmp(view->stages[i].name, name) == 0) return (int)i;
    return -1;
}

static enum status link_stage(struct view *view, size_t to, const json_t *from, struct err *err) {
    size_t i;
    json_t *name;
    json_array_foreach(from, i, name) {
        int sender = json_is_string(name) ? view_stage_find(view, json_string_value(name)) : -1;
        if (sender < 0) continue;
        struct stage_view *s = &view->stages[sender];
        size_t *grown = realloc(s->to, (s->to_count + 1) * sizeof *grown);
        FAIL_IF(grown == NULL, err, STATUS_NO_MEMORY, "no memory to show %s", view->session.path);
        s->to = grown;
        s->to[s->to_count++] = to;
    }
    return STATUS_OK;
}

static enum status make_stages(struct view *view, struct err *err) {
    const json_t *planned = json_object_get(view->plan, "stages");
    size_t count = json_array_size(planned), sources = 0;
    view->stages = calloc(count + 1, sizeof *view->stages);
    FAIL_IF(view->stages == NULL, err, STATUS_NO_MEMORY, "no memory to show %s", view->session.path);
    for (size_t i = 0; i < count; i++) {
        const json_t *stage = json_array_get(planned, i);
        const char *name = json_string_value(json_object_get(stage, "name"));
        bool source = json_array_size(json_object_get(stage, "from")) == 0;
        sources += source;
        view->stages[view->stage_count++] =
            (struct stage_view){.name = name,
                                .source = source,
                                .keeps = session_keeps_ledger(stage),
                                .passes_on = session_passes_on(stage),
                                .left_out = json_is_true(json_object_get(stage, "left_out")),
                                .oldest = NAN};
    }
    for (size_t i = 0; i < count; i++)
        TRY(link_stage(view, i, json_object_get(json_array_get(planned, i), "from"), err));
    view->several = sources > 1 || json_is_true(json_object_get(view->plan, "separate"));
    return STATUS_OK;
}

/* Row numbers and columns of before mean nothing any more. */
enum status view_begin(struct view *view, struct err *err) {
    uint64_t epoch = (uint64_t)(clock_realtime() * 1000);
    clear_stages(view);
    view->epoch = epoch > view->epoch ? epoch : view->epoch + 1;
    view->revision = 0;
    view->last_time = NAN;
    view->due = view->check_due = view->suspect_due = view->compare_due = view->reread_due = view->exact_due = 0;
    view->reread = false;
    view->unsound = 0;
    view->stale = true;
    return make_stages(view, err);
}

static bool same_stages(const json_t *a, const json_t *b) {
    static const char *const keys[] = {"name", "from", "cumulative", "left_out", "program"};
    size_t count = json_array_size(json_object_get(a, "stages"));
    if (count != json_array_size(json_object_get(b, "stages"))) return false;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const json_t *one = json_array_get(json_object_get(a, "stages"), i);
            const json_t *other = json_array_get(json_object_get(b, "stages"), i);
            if (!json_equal(json_object_get(one, keys[k]), json_object_get(other, keys[k]))) return false;
        }
    return json_is_true(json_object_get(a, "separate")) == json_is_true(json_object_get(b, "separate"));
}

/* All that reads the plan relies on these texts. */
static enum status check_plan(const struct view *view, const json_t *plan, struct err *err) {
    size_t i, k;
    const json_t *stage, *instance;
    json_array_foreach(json_object_get(plan, "stages"), i, stage) {
        FAIL_IF(!json_is_string(json_object_get(stage, "name")), err, STATUS_BAD_FORMAT,
                "%s/log/plan.json: a stage has no name", view->session.path);
        json_array_foreach(json_object_get(stage, "instances"), k, instance) {
            FAIL_IF(!json_is_string(instance), err, STATUS_BAD_FORMAT,
                    "%s/log/plan.json: an instance of %s has no name", view->session.path,
                    json_string_value(json_object_get(stage, "name")));
        }
    }
    return STATUS_OK;
}

enum status view_take_plan(struct view *view, json_t *plan, struct err *err) {
    json_t *old = view->plan;
    enum status sound = check_plan(view, plan, err);
    if (sound != STATUS_OK) {
        json_decref(plan);
        return sound;
    }
    bool same = old != NULL && same_stages(old, plan);
    /* Whoever reads the tally counts on a stage of the view for each of its own. */
    if (!same) tally_clear(&view->tally);
    view->plan = plan;
    session_take_id(&view->session, plan);
    for (size_t i = 0; same && i < view->stage_count; i++)
        view->stages[i].name =
            json_string_value(json_object_get(json_array_get(json_object_get(plan, "stages"), i), "name"));
    enum status status = same ? STATUS_OK : view_begin(view, err);
    json_decref(old);
    return status;
}

/* ---- open, close, poll ---- */

static enum status open_view(struct view *view, const char *folder, struct err *err) {
    json_t *plan = NULL;
    TRY(session_find(folder, &view->session, err));
    TRY(session_read_plan(&view->session, &plan, err));
    view->sound = true;
    return view_take_plan(view, plan, err);
}

enum status view_open(const char *folder, struct view **ret_view, struct err *err) {
    struct view *view = calloc(1, sizeof *view);
    FAIL_IF(view == NULL, err, STATUS_NO_MEMORY, "no memory to show %s", folder);
    view->session.lock = -1;
    enum status status = open_view(view, folder, err);
    if (status != STATUS_OK) {
        view_close(&view);
        return status;
    }
    *ret_view = view;
    return STATUS_OK;
}

void view_hurry(struct view *view, double patience) {
    view->session.patience = patience;
}

void view_close(struct view **view) {
    if (*view == NULL) return;
    view_files_clear(*view);
    clear_stages(*view);
    tally_clear(&(*view)->tally);
    json_decref((*view)->plan);
    json_decref((*view)->graph);
    free(*view);
    *view = NULL;
}

static enum status poll_ledgers(struct view *view, bool state_changed, struct err *err) {
    bool any = false, gone = false;
    /* A launcher that begins or ends may change much at once. */
    if (state_changed) {
        view->check_due = view->exact_due = 0;
        view->stale = view->reread = true;
    }
    TRY(view_read(view, &any, &gone, err));
    if (gone) {
        TRY(view_begin(view, err));
        TRY(view_read(view, &any, &gone, err));
    }
    return view_count(view, any, err);
}

enum status view_poll(struct view *view, double now, unsigned *ret_changed, struct err *err) {
    unsigned changed = 0;
    double clock = view_clock(), before = view_cpu();
    view->now = now;
    TRY(view_files_poll(view, &changed, err));
    *ret_changed = changed;
    if (clock < view->due && !(changed & VIEW_STATE)) return STATUS_OK;
    bool first = view->poll == 0;
    enum status status = poll_ledgers(view, (changed & VIEW_STATE) != 0, err);
    if (view->rows_changed) {
        view->revision++;
        changed |= VIEW_ROWS;
    }
    if (view->counts_changed) changed |= VIEW_COUNTS;
    enum view_state state = view->state;
    view_judge_state(view);
    if (state != view->state) changed |= VIEW_STATE;
    view->rows_changed = view->counts_changed = false;
    double pause = first ? PAUSE : PAUSE + SHARE * (view_cpu() - before);
    view->due = view_clock() + (pause < PAUSE_MAX ? pause : PAUSE_MAX);
    *ret_changed = changed;
    return status;
}

/* ---- what the view knows ---- */

const struct session *view_session(const struct view *view) {
    return &view->session;
}
const json_t *view_plan(const struct view *view) {
    return view->plan;
}
enum view_state view_state(const struct view *view) {
    return view->state;
}

bool view_is_running(const struct view *view) {
    return view->state == VIEW_RUNNING || view->state == VIEW_DRAINING;
}

const char *view_state_name(enum view_state state) {
    static const char *const names[] = {"running", "draining", "stopped", "finished"};
    return names[state];
}
int view_run(const struct view *view) {
    return (int)json_integer_value(json_object_get(view->plan, "run"));
}
double view_started(const struct view *view) {
    double first = NAN;
    for (size_t i = 0; i < view->row_count; i++)
        if (!(first <= view->rows[i].time_found)) first = view->rows[i].time_found;
    return first;
}
double view_last_time(const struct view *view) {
    return view->last_time;
}
uint64_t view_epoch(const struct view *view) {
    return view->epoch;
}
uint64_t view_revision(const struct view *view) {
    return view->revision;
}
const struct tally *view_tally(const struct view *view) {
    return &view->tally;
}
bool view_adds_up(const struct view *view, const char **ret_reason) {
    if (ret_reason != NULL) *ret_reason = view->miscount;
    return view->sound;
}
enum status view_tally_now(struct view *view, enum tally_depth depth, struct tally *ret_tally, struct err *err) {
    return tally_take(&view->session, view->plan, depth, ret_tally, err);
}
size_t view_stage_count(const struct view *view) {
    return view->stage_count;
}
const char *view_stage_name(const struct view *view, size_t stage) {
    return view->stages[stage].name;
}
size_t view_row_count(const struct view *view) {
    return view->row_count;
}
const struct view_row *view_row(const struct view *view, size_t row) {
    return &view->rows[row];
}
int64_t view_find(const struct view *view, int64_t number) {
    for (size_t i = 0; i < view->row_count; i++)
        if (view->rows[i].number == number) return (int64_t)i;
    return -1;
}
int64_t view_find_item(const struct view *view, const char *source, const char *id) {
    int64_t entry = view_entry_find(view, source, id);
    return entry < 0 ? -1 : view->entries[entry].row;
}
int64_t view_rows_since(const struct view *view, uint64_t revision, size_t from) {
    for (size_t i = from; i < view->row_count; i++)
        if (view->row_changed[i] > revision) return (int64_t)i;
    return -1;
}
struct view_visit view_visit(const struct view *view, size_t row, size_t stage) {
    const struct visit *visit = &view->stages[stage].visits[view->row_entry[row]];
    if (visit->number == 0) return (struct view_visit){.time_seen = NAN, .time_changed = NAN, .reason = ""};
    return (struct view_visit){.known = true,
                               .state = visit->state,
                               .attempts = visit->attempts,
                               .time_seen = visit->time_seen,
                               .time_changed = visit->time_changed,
                               .reason = visit->reason};
}
size_t view_column_count(const struct view *view) {
    return view->column_count;
}
const char *view_column_name(const struct view *view, size_t column) {
    return view->columns[column].name;
}
int view_column_find(const struct view *view, const char *name) {
    for (size_t i = 0; i < view->column_count; i++)
        if (strcmp(view->columns[i].name, name) == 0) return (int)i;
    return -1;
}
double view_value(const struct view *view, size_t row, size_t column) {
    return view->columns[column].values[row];
}
size_t view_square_count(const struct view *view) {
    return view->square_count;
}
const char *view_square(const struct view *view, size_t square) {
    return view->squares[square];
}
int64_t view_queue(const struct view *view, size_t stage) {
    return view->stages[stage].waiting;
}
double view_oldest(const struct view *view, size_t stage, double now) {
    double oldest = view->stages[stage].oldest;
    return oldest < now ? now - oldest : 0;
}
enum status view_warnings(struct view *view, json_t **ret_warnings, struct err *err) {
    return warnings_read(&view->session, view->plan, ret_warnings, err);
}
