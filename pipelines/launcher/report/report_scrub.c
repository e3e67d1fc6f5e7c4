/* Takes out what an anonymous report must not tell: absolute paths, and the names of machines and people that the session
 * knows, wherever a text has them. */
#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipelines/launcher/report/report_private.h"

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Returns how long the secret is that stands at `p` as a whole word; 0: none does. */
static size_t secret_at(const json_t *secrets, const char *text, const char *p) {
    size_t i;
    json_t *secret;
    if (p > text && is_word(p[-1])) return 0;
    json_array_foreach(secrets, i, secret) {
        size_t length = json_string_length(secret);
        if (length > 0 && strncmp(p, json_string_value(secret), length) == 0 && !is_word(p[length])) return length;
    }
    return 0;
}

/* A path ends at a blank, a quote, a bracket, a comma or a semicolon. */
static size_t path_at(const char *text, const char *p) {
    bool begins = *p == '/' && (p == text || strchr(" \t\"'([{=,;:@", p[-1]) != NULL) && p[1] != '\0' && p[1] != ' ';
    return begins ? strcspn(p, " \t\"')]},;") : 0;
}

char *report_clean(const struct report *report, const char *text) {
    size_t used = 0;
    char *copy = malloc(8 * strlen(text) + 8);
    for (const char *p = text; copy != NULL && *p != '\0';) {
        size_t path = path_at(text, p), secret = path > 0 ? 0 : secret_at(report->secrets, text, p);
        const char *instead = path > 0 ? "(path)" : "(name)";
        if (path + secret == 0) {
            copy[used++] = *p++;
            continue;
        }
        memcpy(copy + used, instead, strlen(instead));
        used += strlen(instead);
        p += path + secret;
    }
    if (copy != NULL) copy[used] = '\0';
    return copy;
}

/* Returns the text without secrets as JSON, or NULL to keep it. */
static json_t *scrubbed(const struct report *report, const json_t *value) {
    const char *text = json_string_value(value);
    if (text == NULL) return NULL;
    char *copy = report_clean(report, text);
    json_t *clean = copy != NULL && strcmp(copy, text) == 0 ? NULL : json_value_text(copy != NULL ? copy : "?");
    free(copy);
    return clean;
}

static void scrub(const struct report *report, json_t *data) {
    const char *key;
    json_t *value, *clean;
    void *next;
    size_t i;
    json_object_foreach_safe(data, next, key, value) {
        if ((clean = scrubbed(report, value)) != NULL)
            json_object_set_new(data, key, clean);
        else
            scrub(report, value);
    }
    if (!json_is_array(data)) return;
    json_array_foreach(data, i, value) {
        if ((clean = scrubbed(report, value)) != NULL)
            json_array_set_new(data, i, clean);
        else
            scrub(report, value);
    }
}

void report_scrub(struct report *report) {
    scrub(report, report->data);
}

/* ---- the names ---- */

/* Words that the report itself needs are no secrets, whoever is called so. */
static bool is_own(const struct report *report, const char *name) {
    static const char *const words[] = {"session", "in", "flight", "done", "rejected", "failed", "icestream"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], name) == 0) return true;
    return view_stage_find(report->view, name) >= 0;
}

static void add_secret(struct report *report, const char *name) {
    size_t i;
    json_t *known;
    if (name == NULL || strlen(name) < 2 || is_own(report, name)) return;
    json_array_foreach(report->secrets, i, known) {
        if (strcmp(json_string_value(known), name) == 0) return;
    }
    json_array_append_new(report->secrets, json_value_text(name));
}

/* A machine is known by its whole name and by the first part of it. */
static void add_host(struct report *report, const char *name) {
    char first[256];
    if (name == NULL) return;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(name, "."), name);
    add_secret(report, name);
    add_secret(report, first);
}

void report_find_secrets(struct report *report) {
    json_t *changes = NULL, *change, *machine;
    struct stat info;
    char host[256] = "";
    size_t i;
    report->secrets = json_array();
    if (view_changes(report->view, &changes, NULL) == STATUS_OK) json_array_foreach(changes, i, change) {
            add_host(report, json_string_value(json_object_get(change, "host")));
            add_secret(report, json_string_value(json_object_get(change, "user")));
        }
    json_decref(changes);
    json_array_foreach(json_object_get(report->data, "machines"), i, machine) {
        add_host(report, json_string_value(json_object_get(machine, "host")));
        json_object_set_new(machine, "host", json_null());
    }
    if (gethostname(host, sizeof host - 1) == 0) add_host(report, host);
    const struct passwd *reader = getpwuid(geteuid());
    add_secret(report, reader != NULL ? reader->pw_name : NULL);
    const char *path = view_session(report->view)->path;
    const struct passwd *owner = stat(path, &info) == 0 ? getpwuid(info.st_uid) : NULL;
    add_secret(report, owner != NULL ? owner->pw_name : NULL);
    add_secret(report, path_name(path));
}
