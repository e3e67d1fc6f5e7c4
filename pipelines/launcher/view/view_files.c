/* Reads what lies beside the ledgers: heartbeats, histories, the graph, the changes, and whether a launcher runs. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/changes.h"
#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/status.h"
#include "pipelines/launcher/view/view_private.h"

enum { HISTORY_MAX = 1 << 26, LOG_TAIL = 1 << 16 };
static const double FILES_PAUSE = 0.5, SILENT = 5; /* s; there is one heartbeat a second */

/* A number that is another when the file was changed or replaced; 0: there is none. */
static int64_t stamp(const struct view *view, const char *folder, const char *name, const char *ending) {
    char path[PATH_SIZE];
    struct stat info;
    if (session_file(&view->session, folder, name, ending, path, NULL) != STATUS_OK || stat(path, &info) != 0) return 0;
    return file_mtime_ns(&info) ^ (int64_t)info.st_ino ^ ((int64_t)info.st_size << 20);
}

/* ---- heartbeats ---- */

static void clear_beats(struct view *view) {
    for (size_t i = 0; i < view->beat_count; i++) {
        free(view->beats[i].instance);
        json_decref(view->beats[i].json);
    }
    free(view->beats);
    view->beats = NULL;
    view->beat_count = 0;
}

static enum status make_beats(struct view *view, struct err *err) {
    size_t i, k;
    json_t *stage, *name;
    clear_beats(view);
    json_array_foreach(json_object_get(view->plan, "stages"), i, stage) {
        json_array_foreach(json_object_get(stage, "instances"), k, name) {
            struct beat *grown = realloc(view->beats, (view->beat_count + 1) * sizeof *grown);
            if (grown != NULL) view->beats = grown;
            char *copy = grown != NULL ? strdup(json_string_value(name)) : NULL;
            FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory to show %s", view->session.path);
            view->beats[view->beat_count++] = (struct beat){.instance = copy};
        }
    }
    return STATUS_OK;
}

static void read_beats(struct view *view, unsigned *changed) {
    for (size_t i = 0; i < view->beat_count; i++) {
        struct beat *beat = &view->beats[i];
        int64_t now = stamp(view, "log", beat->instance, ".heartbeat.json");
        if (now == beat->stamp) continue;
        json_t *json = status_heartbeat(&view->session, beat->instance);
        /* One that is being written is read next time. */
        if (json == NULL && now != 0) continue;
        json_decref(beat->json);
        beat->json = json;
        beat->stamp = now;
        *changed |= VIEW_BEATS;
    }
}

const json_t *view_heartbeat(const struct view *view, const char *instance) {
    for (size_t i = 0; i < view->beat_count; i++)
        if (strcmp(view->beats[i].instance, instance) == 0) return view->beats[i].json;
    return NULL;
}

double view_silence(const struct view *view, const char *instance, double now) {
    const json_t *beat = view_heartbeat(view, instance);
    double said = json_number_value(json_object_get(beat, "time"));
    return view->running && status_lives(beat) && said > 0 && now - said > SILENT ? now - said : 0;
}

/* ---- histories ---- */

static void read_lines(struct stage_view *s, const char *text) {
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_t *event = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (json_is_object(event))
            json_array_append_new(s->history, event);
        else
            json_decref(event);
    }
}

/* Returns false when the file cannot be read now: the history stays as it was. */
static bool read_history(struct view *view, size_t stage) {
    struct stage_view *s = &view->stages[stage];
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *text = NULL;
    if (s->history == NULL) s->history = json_array();
    if (session_file(&view->session, s->name, "history.jsonl", "", path, NULL) != STATUS_OK) return false;
    if (file_exists(path) && file_read_whole(path, HISTORY_MAX, &text, NULL, NULL) != STATUS_OK) return false;
    json_array_clear(s->history);
    if (text != NULL) read_lines(s, text);
    return true;
}

static void look_at_histories(struct view *view, unsigned *changed) {
    for (size_t i = 0; i < view->stage_count; i++) {
        int64_t now = stamp(view, view->stages[i].name, "history.jsonl", "");
        if (now == view->stages[i].history_stamp) continue;
        if (!read_history(view, i)) continue;
        view->stages[i].history_stamp = now;
        *changed |= VIEW_HISTORY;
    }
}

const json_t *view_history(struct view *view, const char *stage) {
    int found = view_stage_find(view, stage);
    if (found < 0) return NULL;
    struct stage_view *s = &view->stages[found];
    if (s->history == NULL) read_history(view, (size_t)found);
    return s->history;
}

/* ---- the graph and its changes ---- */

static json_t *section_json(const struct graph_section *section) {
    json_t *object = json_object();
    for (size_t i = 0; i < section->count; i++)
        json_object_set_new(object, section->entries[i].key, graph_value_json(&section->entries[i].value));
    return object;
}

static json_t *graph_json(const struct graph *graph) {
    json_t *stages = json_object();
    for (size_t i = 0; i < graph->stage_count; i++)
        json_object_set_new(stages, graph->stages[i].section.name, section_json(&graph->stages[i].section));
    return json_pack("{s:o, s:o}", "session", section_json(&graph->session), "stages", stages);
}

static void read_graph(struct view *view) {
    struct graph *graph = NULL;
    json_t *changes = NULL;
    if (session_read_graph(&view->session, &graph, NULL) == STATUS_OK) {
        if (changes_read(&view->session, &changes, NULL) == STATUS_OK) (void)changes_apply(changes, graph, NULL);
        view->graph = graph_json(graph);
    }
    json_decref(changes);
    graph_destroy(&graph);
    if (view->graph == NULL) view->graph = json_object();
}

const json_t *view_graph(struct view *view) {
    if (view->graph == NULL) read_graph(view);
    return view->graph;
}

enum status view_changes(struct view *view, json_t **ret_changes, struct err *err) {
    json_t *changes = status_changes_json(&view->session, view->plan);
    FAIL_IF(changes == NULL, err, STATUS_NO_MEMORY, "no memory for the changes of %s", view->session.path);
    *ret_changes = changes;
    return STATUS_OK;
}

/* ---- the state ---- */

/* Reads from the launcher's log whether the newest run takes in nothing new, and whether it has ended by itself. A log
 * that cannot be read, or is empty, says that it has. */
static void read_log(struct view *view) {
    char path[PATH_SIZE], tail[LOG_TAIL + 1];
    struct stat info;
    int descriptor = -1;
    const bool draining = view->draining;
    view->draining = view->unended = false;
    if (session_file(&view->session, "log", "icestream", ".log", path, NULL) != STATUS_OK) return;
    if (file_open_read(path, &descriptor, NULL, NULL) != STATUS_OK) return;
    bool well = fstat(descriptor, &info) == 0;
    ssize_t length =
        well ? pread(descriptor, tail, LOG_TAIL, info.st_size > LOG_TAIL ? info.st_size - LOG_TAIL : 0) : -1;
    file_close(&descriptor);
    if (length <= 0) return;
    tail[length] = '\0';
    const char *run = NULL;
    for (const char *p = tail; (p = strstr(p, " icestream INFO start ")) != NULL; p++)
        run = p;
    /* The state before the tail still holds. */
    const char *from = run != NULL ? run : tail;
    view->draining = strstr(from, " icestream INFO notice draining") != NULL || (run == NULL && draining);
    view->unended = strstr(from, " icestream INFO end ") == NULL;
}

bool view_launcher_gone(const struct view *view) {
    return !view->running && view->unended;
}

void view_judge_state(struct view *view) {
    int64_t open = 0;
    for (size_t i = 0; i < view->tally.count; i++)
        open += view->tally.stages[i].in_flight + view->tally.stages[i].waiting;
    if (view->running)
        view->state = view->draining ? VIEW_DRAINING : VIEW_RUNNING;
    else
        view->state = open > 0 || !view->sound ? VIEW_STOPPED : VIEW_FINISHED;
}

static enum status look_at_plan(struct view *view, unsigned *changed, struct err *err) {
    int64_t now = stamp(view, "log", "plan", ".json");
    json_t *plan = NULL;
    if (now == view->plan_stamp) return STATUS_OK;
    TRY(session_read_plan(&view->session, &plan, err));
    bool other = !json_equal(plan, view->plan);
    if (other)
        TRY(view_take_plan(view, plan, err));
    else
        json_decref(plan);
    if (other || view->beats == NULL) TRY(make_beats(view, err));
    json_decref(view->graph);
    view->graph = NULL;
    view->plan_stamp = now;
    *changed |= VIEW_STATE;
    return STATUS_OK;
}

/* Ledgers in PostgreSQL become files when the session stands, and are read there again when it goes on. */
static enum status look_at_server(struct view *view, bool *ret_moved, struct err *err) {
    int64_t now = stamp(view, "ledger", "postgresql", ".json");
    *ret_moved = now != view->server_stamp;
    view->server_stamp = now;
    return *ret_moved ? session_find_server(&view->session, err) : STATUS_OK;
}

/* A ledger that was put in the place of another is opened anew. */
static bool any_replaced(struct view *view) {
    bool replaced = false;
    for (size_t i = 0; i < view->stage_count; i++) {
        struct stage_view *s = &view->stages[i];
        char path[PATH_SIZE];
        struct stat info;
        if (s->watch == NULL || session_ledger_path(&view->session, s->name, true, path, NULL) != STATUS_OK) continue;
        /* One that is away may come back; until then the view shows what it had read. */
        if (stat(path, &info) != 0) continue;
        if (s->inode != 0 && (int64_t)info.st_ino != s->inode) replaced = true;
        s->inode = (int64_t)info.st_ino;
    }
    return replaced;
}

enum status view_files_poll(struct view *view, unsigned *changed, struct err *err) {
    double clock = view_clock();
    if (clock < view->files_due) return STATUS_OK;
    view->files_due = clock + FILES_PAUSE;
    TRY(look_at_plan(view, changed, err));
    bool moved = false;
    TRY(look_at_server(view, &moved, err));
    if (moved || any_replaced(view)) TRY(view_begin(view, err));
    const bool running = session_is_running(&view->session), draining = view->draining;
    int64_t log = stamp(view, "log", "icestream", ".log"); /* a launcher writes its end before it lets go of the lock */
    if (log != view->log_stamp) read_log(view);
    view->log_stamp = log;
    if (running != view->running || (running && draining != view->draining)) *changed |= VIEW_STATE;
    view->running = running;
    int64_t changes = stamp(view, "changes", "", "");
    if (changes != view->changes_stamp) {
        view->changes_stamp = changes;
        json_decref(view->graph);
        view->graph = NULL;
        *changed |= VIEW_CHANGES;
    }
    read_beats(view, changed);
    look_at_histories(view, changed);
    return STATUS_OK;
}

enum status view_look_around(struct view *view, struct err *err) {
    unsigned changed = 0;
    view->files_due = 0;
    return view_files_poll(view, &changed, err);
}

void view_files_clear(struct view *view) {
    clear_beats(view);
}
