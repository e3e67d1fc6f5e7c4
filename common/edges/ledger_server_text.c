/* Translates the SQL of the ledger for PostgreSQL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger_server.h"

#define CLOCK "(extract(epoch from clock_timestamp())::float8)"

struct writing {
    char *text;
    size_t used;
    bool full;
};

static void put(struct writing *out, const char *bytes, size_t length) {
    if (out->used + length >= SERVER_TEXT) {
        out->full = true;
        return;
    }
    memcpy(out->text + out->used, bytes, length);
    out->used += length;
    out->text[out->used] = '\0';
}

static void put_table(struct writing *out, const char *stage, const char *table, size_t length) {
    put(out, "\"", 1);
    put(out, stage, strlen(stage));
    put(out, ".", 1);
    put(out, table, length);
    put(out, "\"", 1);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_table(const char *word, size_t length) {
    static const char *const tables[] = {"items", "outbox", "ends", "about", "files", "warnings", "commits"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strlen(tables[i]) == length && strncmp(tables[i], word, length) == 0) return true;
    return false;
}

/* Returns where the text goes on after a word. */
static const char *put_word(const struct ledger_server *server, struct writing *out, const char *word) {
    const char *end = word;
    while (is_word(*end))
        end++;
    size_t length = (size_t)(end - word);
    bool main = strncmp(word, "main.", 5) == 0, other = strncmp(word, "other.", 6) == 0;
    if (main || other) {
        const char *table = end + 1;
        for (end = table; is_word(*end);)
            end++;
        put_table(out, main ? server->address.stage : server->other, table, (size_t)(end - table));
    } else if (length == strlen("compared") && strncmp(word, "compared", length) == 0)
        put_table(out, server->other, "items", strlen("items"));
    else if (is_table(word, length))
        put_table(out, server->address.stage, word, length);
    else
        put(out, word, length);
    return end;
}

static const char *put_parameter(struct writing *out, const char *at, unsigned now) {
    char *end;
    long index = strtol(at + 1, &end, 10);
    char name[24];
    snprintf(name, sizeof name, "$%ld", index);
    const char *text = index < 32 && (now >> index & 1) ? CLOCK : name;
    put(out, text, strlen(text));
    return end;
}

enum status server_translate(const struct ledger_server *server, const char *text, unsigned now,
                             char translated[SERVER_TEXT], struct err *err) {
    struct writing out = {.text = translated};
    translated[0] = '\0';
    for (const char *at = text; *at != '\0';) {
        if (*at == '\'') {
            const char *end = strchr(at + 1, '\'');
            size_t length = end != NULL ? (size_t)(end - at) + 1 : strlen(at);
            put(&out, at, length);
            at += length;
        } else if (*at == '?')
            at = put_parameter(&out, at, now);
        else if (is_word(*at))
            at = put_word(server, &out, at);
        else
            put(&out, at++, 1);
    }
    FAIL_IF(out.full, err, STATUS_NO_MEMORY, "a statement of the ledger is longer than %d bytes", SERVER_TEXT);
    return STATUS_OK;
}
