/* Texts that are kept once. */
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/view/view_private.h"

/* FNV-1a. */
uint64_t view_hash(const char *text) {
    uint64_t hash = 14695981039346656037U;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    return hash;
}

static char **find(const struct view_texts *texts, const char *text) {
    for (size_t i = view_hash(text) & (texts->room - 1);; i = (i + 1) & (texts->room - 1))
        if (texts->slots[i] == NULL || strcmp(texts->slots[i], text) == 0) return &texts->slots[i];
}

static bool grow(struct view_texts *texts) {
    const struct view_texts old = *texts;
    struct view_texts larger = {.room = old.room ? 2 * old.room : 64, .count = old.count};
    larger.slots = calloc(larger.room, sizeof *larger.slots);
    if (larger.slots == NULL) return false;
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i] != NULL) *find(&larger, old.slots[i]) = old.slots[i];
    free(old.slots);
    *texts = larger;
    return true;
}

const char *view_text(struct view_texts *texts, const char *text) {
    if (2 * (texts->count + 1) > texts->room && !grow(texts)) return NULL;
    char **slot = find(texts, text);
    if (*slot != NULL) return *slot;
    *slot = strdup(text);
    texts->count += *slot != NULL;
    return *slot;
}

void view_texts_clear(struct view_texts *texts) {
    for (size_t i = 0; i < texts->room; i++)
        free(texts->slots[i]);
    free(texts->slots);
    *texts = (struct view_texts){0};
}
