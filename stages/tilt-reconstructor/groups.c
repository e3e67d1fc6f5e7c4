#include "stages/tilt-reconstructor/groups.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* A tilt in the inbox. */
struct entry {
    struct entry *next;
    struct arrival arrival;
    char *series, *path, *item;
};

struct groups {
    pthread_mutex_t lock;
    struct entry *first, *last; /* the inbox */
    struct group **list;
    int count, capacity;
};

static void entry_free(struct entry *entry) {
    free(entry->series);
    free(entry->path);
    free(entry->item);
    free(entry);
}

void group_drop_pixels(struct group *group) {
    for (int i = 0; i < group->series.count; i++)
        mem_free(&group->series.tilts[i].pixels);
}

static void group_free(struct group *group) {
    group_drop_pixels(group);
    for (int i = 0; i < group->series.count; i++)
        free(group->members[i].item);
    free(group->members);
    series_clear(&group->series);
    free(group->id);
    free(group);
}

enum status groups_create(struct groups **ret_groups, struct err *err) {
    struct groups *groups = calloc(1, sizeof *groups);
    FAIL_IF(groups == NULL, err, STATUS_NO_MEMORY, "no memory for a list of series");
    if (pthread_mutex_init(&groups->lock, NULL) != 0) {
        free(groups);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a lock");
    }
    *ret_groups = groups;
    return STATUS_OK;
}

void groups_destroy(struct groups **groups) {
    if (groups == NULL || *groups == NULL) return;
    struct groups *g = *groups;
    for (struct entry *entry = g->first, *next; entry != NULL; entry = next) {
        next = entry->next;
        entry_free(entry);
    }
    for (int i = 0; i < g->count; i++)
        group_free(g->list[i]);
    free(g->list);
    pthread_mutex_destroy(&g->lock);
    free(g);
    *groups = NULL;
}

enum status groups_submit(struct groups *groups, const struct arrival *arrival, struct err *err) {
    struct entry *entry = calloc(1, sizeof *entry);
    FAIL_IF(entry == NULL, err, STATUS_NO_MEMORY, "no memory for a tilt");
    entry->arrival = *arrival;
    entry->series = strdup(arrival->series);
    entry->path = strdup(arrival->path);
    entry->item = strdup(arrival->item);
    if (entry->series == NULL || entry->path == NULL || entry->item == NULL) {
        entry_free(entry);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a tilt");
    }
    pthread_mutex_lock(&groups->lock);
    if (groups->last != NULL)
        groups->last->next = entry;
    else
        groups->first = entry;
    groups->last = entry;
    pthread_mutex_unlock(&groups->lock);
    return STATUS_OK;
}

static struct entry *take(struct groups *groups) {
    pthread_mutex_lock(&groups->lock);
    struct entry *entry = groups->first;
    if (entry != NULL) groups->first = entry->next;
    if (groups->first == NULL) groups->last = NULL;
    pthread_mutex_unlock(&groups->lock);
    return entry;
}

static void put_back(struct groups *groups, struct entry *entry) {
    pthread_mutex_lock(&groups->lock);
    entry->next = groups->first;
    groups->first = entry;
    if (groups->last == NULL) groups->last = entry;
    pthread_mutex_unlock(&groups->lock);
}

static enum status find_group(struct groups *groups, const struct entry *entry, struct group **ret_group,
                              struct err *err) {
    for (int i = 0; i < groups->count; i++)
        if (strcmp(groups->list[i]->id, entry->series) == 0) {
            *ret_group = groups->list[i];
            return STATUS_OK;
        }
    if (groups->count == groups->capacity) {
        int capacity = groups->capacity > 0 ? 2 * groups->capacity : 16;
        struct group **list = realloc(groups->list, (size_t)capacity * sizeof *list);
        FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for %d series", capacity);
        groups->list = list;
        groups->capacity = capacity;
    }
    struct group *group = calloc(1, sizeof *group);
    FAIL_IF(group == NULL, err, STATUS_NO_MEMORY, "no memory for a series");
    group->id = strdup(entry->series);
    group->series.name = strdup(entry->series);
    if (group->id == NULL || group->series.name == NULL) {
        group_free(group);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a series");
    }
    group->series.nx = entry->arrival.nx;
    group->series.ny = entry->arrival.ny;
    group->series.pixel_size = entry->arrival.pixel_size;
    group->series.spacing = entry->arrival.spacing;
    group->series.tilt_axis = entry->arrival.tilt_axis;
    group->series.retaken = true;
    groups->list[groups->count++] = group;
    *ret_group = group;
    return STATUS_OK;
}

static int find_tilt(const struct series *series, const char *path) {
    for (int i = 0; i < series->count; i++)
        if (strcmp(series->tilts[i].path, path) == 0) return i;
    return -1;
}

void odd_tilt_clear(struct odd_tilt *odd) {
    free(odd->item);
    free(odd->reason);
    *odd = (struct odd_tilt){0};
}

static enum status refuse(const struct group *group, const struct entry *entry, struct odd_tilt *ret_odd,
                          struct err *err) {
    const struct arrival *a = &entry->arrival;
    char text[1024];
    snprintf(text, sizeof text, "%.400s has %d × %d px, the tilts of %.400s before it %d × %d px: it is left out",
             entry->path, a->nx, a->ny, group->id, group->series.nx, group->series.ny);
    struct odd_tilt odd = {strdup(entry->item), strdup(text)};
    if (odd.item == NULL || odd.reason == NULL) {
        odd_tilt_clear(&odd);
        FAIL(err, STATUS_NO_MEMORY, "no memory for what is wrong with a tilt");
    }
    *ret_odd = odd;
    return STATUS_OK;
}

/* Takes over the entry's item, unless it fails. */
static enum status add_member(struct group *group, struct entry *entry, struct err *err) {
    const struct arrival *a = &entry->arrival;
    struct series *series = &group->series;
    if (series->count == group->capacity) {
        int capacity = group->capacity > 0 ? 2 * group->capacity : 64;
        struct member *members = realloc(group->members, (size_t)capacity * sizeof *members);
        FAIL_IF(members == NULL, err, STATUS_NO_MEMORY, "no memory for %d tilts", capacity);
        group->members = members;
        group->capacity = capacity;
    }
    struct tilt tilt = {
        .number = a->number > 0 ? a->number : series->count + 1, .angle = a->angle, .taken = a->taken, .time = a->time};
    TRY(series_add(series, &tilt, entry->path, err));
    group->members[series->count - 1] = (struct member){.item = entry->item, .failed = a->failed, .gone = a->gone};
    entry->item = NULL;
    return STATUS_OK;
}

static enum status add(struct groups *groups, struct entry *entry, double now, struct odd_tilt *ret_odd,
                       struct err *err) {
    const struct arrival *a = &entry->arrival;
    struct group *group = NULL;
    TRY(find_group(groups, entry, &group, err));
    struct series *series = &group->series;
    int known = find_tilt(series, entry->path);
    if (known >= 0) {
        group->members[known].gone &= a->gone;
        if (!group->members[known].failed || a->failed) return STATUS_OK;
        group->members[known].failed = false;
    } else {
        if (a->nx != series->nx || a->ny != series->ny) return refuse(group, entry, ret_odd, err);
        if (isnan(series->pixel_size)) series->pixel_size = a->pixel_size;
        if (isnan(series->spacing)) series->spacing = a->spacing;
        if (isnan(series->tilt_axis)) series->tilt_axis = a->tilt_axis;
        TRY(add_member(group, entry, err));
    }
    group->open |= !a->failed;
    group->last = now;
    return STATUS_OK;
}

enum status groups_take_in(struct groups *groups, double now, struct odd_tilt *ret_odd, struct err *err) {
    struct odd_tilt odd = {0};
    for (struct entry *entry; odd.item == NULL && (entry = take(groups)) != NULL;) {
        enum status status = add(groups, entry, now, &odd, err);
        if (status != STATUS_OK) {
            put_back(groups, entry);
            return status;
        }
        entry_free(entry);
    }
    *ret_odd = odd;
    return STATUS_OK;
}

enum status group_turn_out(struct group *group, struct odd_tilt *ret_odd, struct err *err) {
    struct series *series = &group->series;
    int there = 0, made = 0;
    for (int i = 0; i < series->count; i++) {
        there += !group->members[i].gone;
        made += group->members[i].made;
    }
    for (int i = series->count - 1; i >= 0 && there >= made; i--) {
        struct member member = group->members[i];
        struct tilt *tilt = &series->tilts[i];
        char text[1024];
        if (!member.gone) continue;
        snprintf(text, sizeof text, "it was read, but %.700s is gone: the tomogram of %.200s is made without it",
                 tilt->path, group->id);
        char *reason = member.failed ? NULL : strdup(text);
        FAIL_IF(!member.failed && reason == NULL, err, STATUS_NO_MEMORY, "no memory for what is wrong with a tilt");
        free(tilt->path);
        mem_free(&tilt->pixels);
        memmove(tilt, tilt + 1, (size_t)(series->count - i - 1) * sizeof *tilt);
        memmove(&group->members[i], &group->members[i + 1], (size_t)(series->count - i - 1) * sizeof member);
        group->open &= --series->count > 0;
        if (!member.failed) {
            *ret_odd = (struct odd_tilt){member.item, reason};
            return STATUS_OK;
        }
        free(member.item);
    }
    return STATUS_OK;
}

struct group *groups_to_preview(struct groups *groups) {
    struct group *best = NULL;
    for (int i = 0; i < groups->count; i++) {
        struct group *group = groups->list[i];
        if (group->series.count < 2 || group->previewed >= group->series.count || group->made || !group->open) continue;
        if (best == NULL || group->last > best->last) best = group;
    }
    return best;
}

struct group *groups_complete(struct groups *groups, double now, int announced, double quiet, bool final) {
    for (int i = 0; i < groups->count; i++) {
        struct group *group = groups->list[i];
        if (!group->open) continue;
        /* Failed tilts do not count: some may be on their way a second time. */
        int standing = 0;
        for (int t = 0; t < group->series.count; t++)
            standing += !group->members[t].failed;
        if (final || (announced > 0 && standing >= announced) || now - group->last >= quiet) return group;
    }
    return NULL;
}

int groups_count(const struct groups *groups) {
    return groups->count;
}

int groups_waiting(const struct groups *groups) {
    int waiting = 0;
    for (int i = 0; i < groups->count; i++)
        waiting += groups->list[i]->open ? groups->list[i]->series.count : 0;
    return waiting;
}

void group_settle(struct group *group, bool made, const char **ret_items, size_t *ret_count) {
    size_t count = 0;
    for (int i = 0; i < group->series.count; i++) {
        struct member *member = &group->members[i];
        bool changes = made ? member->failed : !member->failed && !member->made;
        if (changes) ret_items[count++] = member->item;
        member->made |= made;
        member->failed = !made && (member->failed || changes);
    }
    group->open = false;
    group->made = made;
    *ret_count = count;
}

enum status group_series(const struct group *group, bool in_memory, struct series *ret_series, struct err *err) {
    _cleanup_(series_clear) struct series series = group->series;
    series.tilts = NULL;
    series.count = series.capacity = 0;
    series.notes = NULL;
    series.name = strdup(group->id);
    FAIL_IF(series.name == NULL, err, STATUS_NO_MEMORY, "no memory for a series");
    for (int i = 0; i < group->series.count; i++) {
        struct tilt tilt = group->series.tilts[i];
        if (!in_memory) tilt.pixels = NULL;
        TRY(series_add(&series, &tilt, group->series.tilts[i].path, err));
    }
    *ret_series = series;
    series = (struct series){0};
    return STATUS_OK;
}
