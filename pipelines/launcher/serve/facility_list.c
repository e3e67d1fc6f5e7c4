#include "pipelines/launcher/serve/facility_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/text.h"
#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/view/view.h"

enum { OPEN_MAX_VIEWS = 32 };
/* s: the list is made anew that often; reading takes so long at a time; it is watched so long after somebody asked. */
static const double LIST_EVERY = 2, READ_AT_ONCE = 0.3, WATCHED = 15;

struct listed {
    char *name;
    json_t *json;      /* without alarms; NULL: not read yet */
    uint64_t stamp;    /* of the files that json was read from */
    struct view *view; /* of a session that runs */
    bool seen;         /* the folder has it still */
};

struct facility_list {
    const char *folder;
    struct listed *rows; /* by name */
    size_t count, open;  /* open: how many have a view */
    size_t next;         /* the row with which reading goes on */
    bool left;           /* some are still to be read */
    json_t *json;
    double made, asked; /* of clock_monotonic */
};

bool facility_path(const char *folder, const char *name, char path[PATH_SIZE]) {
    char joined[PATH_SIZE], plan[PATH_SIZE];
    size_t length = strlen(folder);
    if (name[0] == '.' || name[0] == '\0' || strchr(name, '/') != NULL ||
        path_join(folder, name, joined, sizeof joined, NULL) != STATUS_OK)
        return false;
    char *whole = realpath(joined, NULL);
    bool well = whole != NULL && strlen(whole) < PATH_SIZE && strncmp(whole, folder, length) == 0 &&
                (whole[length] == '/' || length == 1);
    if (well) strcpy(path, whole);
    free(whole);
    return well && path_join(path, "log/plan.json", plan, sizeof plan, NULL) == STATUS_OK && file_exists(plan);
}

enum status facility_list_create(const char *folder, struct facility_list **ret_list, struct err *err) {
    struct facility_list *list = calloc(1, sizeof *list);
    FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for the list of sessions");
    list->folder = folder;
    list->made = list->asked = -1e9;
    *ret_list = list;
    return STATUS_OK;
}

static void close_view(struct facility_list *list, struct listed *row) {
    list->open -= row->view != NULL;
    view_close(&row->view);
}

static void clear_row(struct facility_list *list, struct listed *row) {
    close_view(list, row);
    json_decref(row->json);
    free(row->name);
}

void facility_list_destroy(struct facility_list **list) {
    if (*list == NULL) return;
    for (size_t i = 0; i < (*list)->count; i++)
        clear_row(*list, &(*list)->rows[i]);
    free((*list)->rows);
    json_decref((*list)->json);
    free(*list);
    *list = NULL;
}

/* ---- Which sessions there are ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct listed *)a)->name, ((const struct listed *)b)->name);
}

static enum status add_row(struct facility_list *list, const char *name, struct err *err) {
    struct listed *grown = realloc(list->rows, (list->count + 1) * sizeof *grown);
    FAIL_IF(grown == NULL, err, STATUS_NO_MEMORY, "no memory for the list of sessions");
    list->rows = grown;
    char *copy = strdup(name);
    FAIL_IF(copy == NULL, err, STATUS_NO_MEMORY, "no memory for the list of sessions");
    list->rows[list->count++] = (struct listed){.name = copy, .seen = true};
    return STATUS_OK;
}

/* JSON holds UTF-8 alone; a folder of another name is no address either. */
static bool is_text(const char *name) {
    json_t *json = json_string(name);
    json_decref(json);
    return json != NULL;
}

static enum status look(struct facility_list *list, struct err *err) {
    char path[PATH_SIZE];
    DIR *folder = opendir(list->folder);
    FAIL_IF(folder == NULL, err, STATUS_UNAVAILABLE, "%s: %s", list->folder, strerror(errno));
    enum status status = STATUS_OK;
    size_t known = list->count;
    for (size_t i = 0; i < known; i++)
        list->rows[i].seen = false;
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(folder)) != NULL;) {
        if (!facility_path(list->folder, entry->d_name, path) || !is_text(entry->d_name)) continue;
        struct listed key = {.name = entry->d_name};
        struct listed *row = known > 0 ? bsearch(&key, list->rows, known, sizeof key, by_name) : NULL;
        if (row != NULL)
            row->seen = true;
        else
            status = add_row(list, entry->d_name, err);
    }
    closedir(folder);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->rows[i].seen || status != STATUS_OK)
            list->rows[kept++] = list->rows[i];
        else
            clear_row(list, &list->rows[i]);
    list->count = kept;
    if (list->count > 1) qsort(list->rows, list->count, sizeof *list->rows, by_name);
    return status;
}

/* ---- What each of them is ---- */

static uint64_t stamp_file(const char *folder, const char *name) {
    char path[PATH_SIZE];
    struct stat about;
    if (path_join(folder, name, path, sizeof path, NULL) != STATUS_OK || stat(path, &about) != 0 || about.st_size == 0)
        return 0;
    const int64_t parts[] = {(int64_t)about.st_ino,         about.st_size,
                             about.st_mtim.tv_sec,          about.st_mtim.tv_nsec,
                             (int64_t)about.st_ctim.tv_sec, about.st_ctim.tv_nsec};
    return text_hash(name) ^ text_hash_bytes(parts, sizeof parts);
}

/* Returns a number that changes with the plan, the ledgers, and the launcher. Other files count as nothing: a reader may
 * leave ledgers' -shm files. */
static uint64_t stamp_of(const char *path) {
    char ledgers[PATH_SIZE];
    struct session session;
    uint64_t stamp = 1 + stamp_file(path, "log/plan.json");
    if (session_find(path, &session, NULL) == STATUS_OK) stamp += session_is_running(&session);
    DIR *folder =
        path_join(path, "ledger", ledgers, sizeof ledgers, NULL) == STATUS_OK ? opendir(ledgers) : (DIR *)NULL;
    if (folder == NULL) return stamp;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *end = strrchr(entry->d_name, '-');
        if (entry->d_name[0] != '.' && (end == NULL || strcmp(end, "-shm") != 0))
            stamp += stamp_file(ledgers, entry->d_name);
    }
    closedir(folder);
    return stamp;
}

static json_t *stage_counts(const struct tally *tally) {
    json_t *stages = json_array();
    for (size_t i = 0; i < tally->count; i++) {
        const struct tally_stage *stage = &tally->stages[i];
        json_array_append_new(stages,
                              json_pack("{s:s, s:I, s:I, s:I, s:I}", "stage", stage->name, "in_flight",
                                        (json_int_t)stage->in_flight, "done", (json_int_t)stage->done, "rejected",
                                        (json_int_t)stage->rejected, "failed", (json_int_t)stage->failed));
    }
    return stages;
}

static json_t *describe(const char *name, const struct view *view) {
    double last = view_last_time(view);
    return json_pack("{s:s, s:s, s:i, s:o, s:b, s:o, s:n}", "name", name, "state", view_state_name(view_state(view)),
                     "run", view_run(view), "changed", last == last ? json_real(last) : json_null(), "adds_up",
                     view_adds_up(view, NULL), "stages", stage_counts(view_tally(view)), "message");
}

static json_t *describe_nothing(const char *name, const char *state, const char *message) {
    return json_pack("{s:s, s:s, s:n, s:n, s:n, s:[], s:s?}", "name", name, "state", state, "run", "changed", "adds_up",
                     "stages", "message", message);
}

static void read_row(struct facility_list *list, struct listed *row, const char *path) {
    struct err err = {0};
    unsigned changed;
    bool fresh = row->view == NULL;
    enum status status = fresh ? view_open(path, &row->view, &err) : STATUS_OK;
    list->open += fresh && row->view != NULL;
    if (fresh && row->view != NULL) view_hurry(row->view, SERVE_PATIENCE);
    if (status == STATUS_OK) status = view_poll(row->view, clock_realtime(), &changed, &err);
    /* Others hold a ledger: what was known counts on. */
    if (status == STATUS_UNAVAILABLE && row->json != NULL && !fresh) return;
    json_decref(row->json);
    row->json = status == STATUS_OK ? describe(row->name, row->view) : NULL;
    bool runs = status == STATUS_OK && view_is_running(row->view);
    if (!runs || list->open > OPEN_MAX_VIEWS) close_view(list, row);
    if (row->json == NULL) row->json = describe_nothing(row->name, "unreadable", err.message);
    if (row->json == NULL) row->json = describe_nothing(row->name, "unreadable", "its description is no text in UTF-8");
}

/* Reads what has changed, for a while at most: nobody else is served meanwhile. */
static void read_rows(struct facility_list *list) {
    char path[PATH_SIZE];
    double end = clock_monotonic() + READ_AT_ONCE;
    size_t done = 0;
    if (list->next >= list->count) list->next = 0;
    for (; done < list->count && clock_monotonic() < end; done++) {
        struct listed *row = &list->rows[list->next];
        list->next = (list->next + 1) % list->count;
        if (!facility_path(list->folder, row->name, path)) continue; /* it goes with the next look */
        uint64_t stamp = stamp_of(path);
        if (row->view == NULL && row->json != NULL && stamp == row->stamp) continue;
        row->stamp = stamp;
        read_row(list, row, path);
    }
    list->left = done < list->count;
}

static enum status make(struct facility_list *list, struct err *err) {
    char path[PATH_SIZE];
    json_t *sessions = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct listed *row = &list->rows[i];
        json_t *one = row->json != NULL ? json_copy(row->json) : describe_nothing(row->name, "reading", NULL);
        json_t *alarms = facility_path(list->folder, row->name, path) ? alarms_of_folder(path, clock_realtime()) : NULL;
        json_object_set_new(one, "alarms", alarms != NULL ? alarms : json_array());
        json_array_append_new(sessions, one);
    }
    json_t *json = json_pack("{s:i, s:s, s:o}", "v", 1, "folder",
                             is_text(path_name(list->folder)) ? path_name(list->folder) : "", "sessions", sessions);
    FAIL_IF(json == NULL, err, STATUS_NO_MEMORY, "no memory for the list of sessions");
    json_decref(list->json);
    list->json = json;
    return STATUS_OK;
}

enum status facility_list_json(struct facility_list *list, json_t **ret_json, struct err *err) {
    double now = clock_monotonic();
    list->asked = now;
    if (list->json == NULL || now - list->made > LIST_EVERY) {
        TRY(look(list, err));
        read_rows(list);
        TRY(make(list, err));
        list->made = clock_monotonic();
    }
    *ret_json = json_incref(list->json);
    return STATUS_OK;
}

void facility_list_tick(struct facility_list *list) {
    double now = clock_monotonic();
    if (now - list->asked > WATCHED) {
        for (size_t i = 0; i < list->count; i++)
            close_view(list, &list->rows[i]);
    } else if (list->left) {
        read_rows(list);
    }
}
