/* Checks the words of a graph before ":": keys that nobody knows, and keys without a value. */
#include <stdio.h>
#include <string.h>

#include "common/harness/stage.h"
#include "common/text.h"
#include "pipelines/launcher/graph/graph_check_private.h"

enum { KEYS_MAX = 128 };

/* Returns the known key nearest to a word, or NULL. */
static const char *nearest(const json_t *described, bool with_common, const char *word) {
    const char *names[KEYS_MAX];
    size_t count = 0, common_count, i;
    const struct param *common = stage_common_params(&common_count);
    const json_t *param;
    json_array_foreach(described, i, param) {
        const char *name = json_string_value(json_object_get(param, "name"));
        if (count < KEYS_MAX - common_count && name != NULL) names[count++] = name;
    }
    for (i = 0; with_common && i < common_count; i++)
        names[count++] = common[i].name;
    return text_nearest(word, names, count);
}

void graph_unknown_key(struct graph_checks *c, const json_t *described, bool with_common,
                       const struct graph_section *section, const struct graph_entry *entry, const char *advice) {
    const char *near = nearest(described, with_common, entry->key);
    if (near != NULL)
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s: unknown key \"%s\"; did you mean \"%s\"?",
                     graph_set_by(entry), section->name, entry->key, near);
    else
        problems_add(c->problems, PROBLEM_ERROR, entry->line, "%s%s: unknown key \"%s\"; %s", graph_set_by(entry),
                     section->name, entry->key, advice);
}

static bool is_digits(const char *text) {
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Returns the entry of "KEY: 1,5" inside braces, which YAML reads as KEY: 1 and a key "5"; NULL: it is no such key. */
static const struct graph_entry *before_comma(const struct graph_section *section, const struct graph_entry *entry) {
    const struct graph_entry *before = entry > section->entries ? entry - 1 : NULL;
    bool is_half = before != NULL && is_digits(entry->key) && before->line == entry->line && !before->value.is_list &&
                   before->value.count == 1 && is_digits(before->value.texts[0] + (before->value.texts[0][0] == '-'));
    return is_half ? before : NULL;
}

bool graph_check_has_value(struct graph_checks *c, const json_t *described, bool with_common,
                           const struct graph_section *section, const struct graph_entry *entry) {
    if (entry->value.is_list || entry->value.count > 0) return true;
    const char *colon = strchr(entry->key, ':');
    const struct graph_entry *before = before_comma(section, entry);
    char word[80];
    snprintf(word, sizeof word, "%.*s", colon != NULL ? (int)(colon - entry->key) : (int)strlen(entry->key),
             entry->key);
    const char *near = nearest(described, with_common, word);
    /* The caller says that nobody knows the key. */
    if (near == NULL && before == NULL && colon == NULL && described != NULL) return true;
    if (before != NULL)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s: \"%s\" has no value; did you mean \"%s: %s.%s\", with a point, or a list, \"%s: [%s, %s]\"?",
                     section->name, entry->key, before->key, before->value.texts[0], entry->key, before->key,
                     before->value.texts[0], entry->key);
    else if (colon != NULL && colon != entry->key && colon[1] != '\0')
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s: \"%s\" has no value: a blank follows the colon; did you mean \"%s: %s\"?", section->name,
                     entry->key, near != NULL ? near : word, colon + 1);
    else if (near != NULL && strcmp(near, entry->key) != 0)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s: unknown key \"%s\", without a value; did you mean \"%s\"?", section->name, entry->key, near);
    else
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s: \"%s\" has no value; write one behind it, as in %s: VALUE, or leave the key out",
                     section->name, entry->key, entry->key);
    return false;
}
