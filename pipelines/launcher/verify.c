/* `icestream verify`: compares every file that the ledgers name with the disk. */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/digest.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/session.h"

enum verdict { WHOLE, MISSING, CHANGED, ROTTEN, UNREADABLE, UNKNOWN, VERDICTS };
static const char *const verdict_names[] = {"whole", "missing", "changed", "rotten", "unreadable", "unknown"};

/* A file as one ledger has it. */
struct entry {
    char *path, *stage, *id; /* path: as in the ledger; id: "" for a file of the stage itself */
    char digest[DIGEST_SIZE];
    bool product;
    int64_t size, mtime_ns;
    size_t order;
};

struct verify {
    const struct session *session;
    const char *stage; /* the one whose ledger is read */
    struct entry *list;
    size_t count, capacity;
    double begun; /* s since 1970 */
    bool running, json;
    json_t *found;
    int64_t numbers[VERDICTS], bytes;
};

static enum status add_entry(const struct ledger_file_row *row, void *context, struct err *err) {
    struct verify *verify = context;
    if (verify->count == verify->capacity) {
        size_t capacity = verify->capacity ? 2 * verify->capacity : 256;
        struct entry *list = realloc(verify->list, capacity * sizeof *list);
        FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for the list of files");
        verify->list = list;
        verify->capacity = capacity;
    }
    struct entry *entry = &verify->list[verify->count];
    *entry = (struct entry){.path = strdup(row->file.path),
                            .stage = strdup(verify->stage),
                            .id = strdup(row->id),
                            .product = row->file.product,
                            .size = row->file.size,
                            .mtime_ns = row->file.mtime_ns,
                            .order = verify->count};
    snprintf(entry->digest, sizeof entry->digest, "%s", row->file.digest);
    verify->count++;
    FAIL_IF(entry->path == NULL || entry->stage == NULL || entry->id == NULL, err, STATUS_NO_MEMORY,
            "no memory for the list of files");
    return STATUS_OK;
}

static enum status read_ledgers(struct verify *verify, const json_t *plan, struct err *err) {
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        struct ledger *ledger = NULL;
        verify->stage = json_string_value(json_object_get(planned, "name"));
        TRY(session_ledger(verify->session, verify->stage, true, &ledger, err));
        if (ledger == NULL) continue;
        enum status status = ledger_each_file(ledger, add_entry, verify, err);
        ledger_close(&ledger);
        TRY(status);
    }
    return STATUS_OK;
}

/* By path; who wrote a file comes before those who read it. */
static int by_path(const void *a, const void *b) {
    const struct entry *one = a, *two = b;
    int order = strcmp(one->path, two->path);
    if (order == 0) order = (int)two->product - (int)one->product;
    return order ? order : (one->order > two->order) - (one->order < two->order);
}

static void report(struct verify *verify, enum verdict verdict, const char *path, const struct entry *entry,
                   const char *why) {
    verify->numbers[verdict]++;
    if (verdict == WHOLE) return;
    const char *stage = entry != NULL ? entry->stage : "", *id = entry != NULL ? entry->id : "";
    if (verify->json) {
        json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s}", "path", path, "state", verdict_names[verdict], "stage",
                                   stage, "item", id, "reason", why);
        if (object != NULL) json_array_append_new(verify->found, object);
        return;
    }
    printf("%-10s %s%s%s%s%s%s%s\n", verdict_names[verdict], path, entry != NULL ? ": " : "",
           entry == NULL    ? ""
           : entry->product ? "made by "
                            : "read by ",
           stage, id[0] != '\0' ? " of " : "", id, why);
}

/* A stage that runs now replaces files before it notes them. */
static bool is_in_work(const struct verify *verify, const struct stat *info) {
    static const double RECENT = 60; /* s */
    return verify->running && (double)info->st_mtim.tv_sec > verify->begun - RECENT;
}

/* Tells whether a stage that runs may have removed the file itself, such as the map of an earlier iteration: it notes so in
 * its ledger only when the iteration is over. */
static bool may_be_outdated(const struct verify *verify, const struct entry *entry) {
    return verify->running && entry->product && entry->id[0] == '\0';
}

/* The file at a path as the disk has it; read once for all entries. */
struct disk {
    struct stat info;
    bool there, readable;
    char digest[DIGEST_SIZE];
    char reason[256];
};

static void look(struct verify *verify, const char *path, bool digest, struct disk *disk) {
    struct err err = {0};
    int64_t size = 0;
    *disk = (struct disk){0};
    disk->there = stat(path, &disk->info) == 0;
    if (!disk->there) return;
    disk->readable = !digest || digest_file(path, disk->digest, &size, &err) == STATUS_OK;
    verify->bytes += size;
    snprintf(disk->reason, sizeof disk->reason, "; %s", err.message);
}

/* Judges the file as one ledger has it. *ret_why: what to add to the path in the report. */
static enum verdict judge(const struct entry *entry, const struct disk *disk, const char **ret_why) {
    *ret_why = "";
    if (!disk->there) return MISSING;
    if (!disk->readable) {
        *ret_why = disk->reason;
        return UNREADABLE;
    }
    if (disk->info.st_size != entry->size) {
        *ret_why = "; its size is another";
        return CHANGED;
    }
    bool dated = file_mtime_ns(&disk->info) == entry->mtime_ns, digested = entry->digest[0] != '\0';
    if (digested ? strcmp(entry->digest, disk->digest) == 0 : dated) return WHOLE;
    if (!digested) {
        *ret_why = "; its date is another";
        return CHANGED;
    }
    *ret_why = dated ? "; size and date are as they were, the content is not"
                     : "; the size is as it was, content and date are not";
    return ROTTEN;
}

/* Judges all that the ledgers say about one path; the first complaint stands for it. */
static enum status judge_path(struct verify *verify, const struct entry *entries, size_t count, struct err *err) {
    char path[PATH_SIZE];
    bool digest = false;
    struct disk disk;
    TRY(path_join(verify->session->path, entries[0].path, path, sizeof path, err));
    for (size_t i = 0; i < count; i++)
        digest = digest || entries[i].digest[0] != '\0';
    look(verify, path, digest, &disk);
    if (!disk.there && may_be_outdated(verify, &entries[0])) return STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        const char *why;
        enum verdict verdict = judge(&entries[i], &disk, &why);
        if (verdict == WHOLE || (disk.there && is_in_work(verify, &disk.info))) continue;
        report(verify, verdict, entries[i].path, &entries[i], why);
        return STATUS_OK;
    }
    report(verify, WHOLE, entries[0].path, &entries[0], "");
    return STATUS_OK;
}

static enum status judge_all(struct verify *verify, struct err *err) {
    if (verify->count > 0) qsort(verify->list, verify->count, sizeof *verify->list, by_path);
    for (size_t i = 0, next; i < verify->count; i = next) {
        for (next = i + 1; next < verify->count && strcmp(verify->list[i].path, verify->list[next].path) == 0;)
            next++;
        TRY(judge_path(verify, &verify->list[i], next - i, err));
    }
    return STATUS_OK;
}

static int find_path(const void *key, const void *entry) {
    return strcmp(key, ((const struct entry *)entry)->path);
}

/* Files that the harness and the stages keep for themselves, and what a killed process has left half-written. */
static bool is_expected(const char *name) {
    return name[0] == '.' || strcmp(name, "history.jsonl") == 0 || strcmp(name, "left_out.json") == 0;
}

static enum status find_unknown(struct verify *verify, const char *stage, struct err *err) {
    char folder[PATH_SIZE];
    TRY(path_join(verify->session->path, stage, folder, sizeof folder, err));
    char *const roots[] = {folder, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    FAIL_IF(walk == NULL, err, STATUS_IO, "%s: cannot be listed: %s", folder, strerror(errno));
    for (FTSENT *found; (found = fts_read(walk)) != NULL;) {
        const char *rest;
        if (found->fts_info != FTS_F || is_expected(found->fts_name) || is_in_work(verify, found->fts_statp)) continue;
        if (!path_is_below(found->fts_path, verify->session->path, &rest)) continue;
        if (verify->count == 0 || bsearch(rest, verify->list, verify->count, sizeof *verify->list, find_path) == NULL)
            report(verify, UNKNOWN, rest, NULL, "");
    }
    fts_close(walk);
    return STATUS_OK;
}

static enum status verify_session(struct verify *verify, struct err *err) {
    json_t *plan = NULL, *planned;
    size_t i;
    TRY(session_read_plan(verify->session, &plan, err));
    verify->running = session_is_running(verify->session);
    verify->begun = clock_realtime();
    enum status status = read_ledgers(verify, plan, err);
    if (status == STATUS_OK) status = judge_all(verify, err);
    json_array_foreach(json_object_get(plan, "stages"), i, planned) {
        if (status == STATUS_OK)
            status = find_unknown(verify, json_string_value(json_object_get(planned, "name")), err);
    }
    json_decref(plan);
    return status;
}

static int64_t wrong(const struct verify *verify) {
    return verify->numbers[MISSING] + verify->numbers[CHANGED] + verify->numbers[ROTTEN] + verify->numbers[UNREADABLE];
}

static enum status print(struct verify *verify, struct err *err) {
    if (!verify->json) {
        for (int i = 0; i < VERDICTS; i++)
            if (i == WHOLE || verify->numbers[i] > 0)
                printf("%s%lld %s", i == WHOLE ? "" : ", ", (long long)verify->numbers[i], verdict_names[i]);
        printf(" (%.3g GB read)\n", 1e-9 * (double)verify->bytes);
        if (wrong(verify) > 0)
            puts("put back what is missing, changed or rotten from a copy; or remove the products of items and have "
                 "them "
                 "made again with `icestream retry --lost`; the next run makes joined tables again");
        return STATUS_OK;
    }
    json_t *root = json_pack("{s:s, s:b, s:I, s:O}", "session", verify->session->path, "running", (int)verify->running,
                             "bytes", (json_int_t)verify->bytes, "files", verify->found);
    for (int i = 0; i < VERDICTS; i++)
        json_object_set_new(root, verdict_names[i], json_integer((json_int_t)verify->numbers[i]));
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the report");
    puts(text);
    free(text);
    return STATUS_OK;
}

int command_verify(const struct options *options) {
    struct session session;
    struct err err = {0};
    struct verify verify = {.session = &session, .json = options->json, .found = json_array()};
    enum status status = session_find(options->session, &session, &err);
    if (status == STATUS_OK) status = verify_session(&verify, &err);
    if (status == STATUS_OK) status = print(&verify, &err);
    for (size_t i = 0; i < verify.count; i++) {
        free(verify.list[i].path);
        free(verify.list[i].stage);
        free(verify.list[i].id);
    }
    free(verify.list);
    json_decref(verify.found);
    if (status == STATUS_OK) return wrong(&verify) > 0 ? EXIT_COUNTS : EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
