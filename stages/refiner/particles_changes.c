/* Reads what has changed since another selection, and applies it to a set that holds that selection. Whatever does not fit
 * is found before the set changes: its particles must be those that the whole selection would give. */
#include "stages/refiner/particles_private.h"

#include <stdlib.h>
#include <string.h>

#include "common/formats/particle_table.h"
#include "common/memory.h"

void particle_changes_free(struct particle_changes **changes) {
    struct particle_changes *c = *changes;
    if (c == NULL) return;
    for (size_t i = 0; c->names != NULL && i < c->removed; i++)
        free(c->names[i]);
    free(c->names);
    free(c->rows);
    free(c->digests);
    free(c->indices);
    mem_free(changes);
}

/* Reads in which rows of the whole table the particles stand. */
static enum status read_places(struct particle_set *read, const char *path, struct err *err) {
    struct particle_changes *c = read->changes;
    struct star_file *file = read->sources[0].file;
    const struct star_table *t = star_table_find(file, SELECTION_ROWS), *rows = particle_table_find(file);
    const int image = star_column_find(rows, "rlnImageName");
    const size_t count = star_row_count(rows);
    int column;
    FAIL_IF(read->count != count || t == NULL || star_row_count(t) != count, err, STATUS_BAD_FORMAT,
            "%s: a row of data_" SELECTION_ROWS " for each of %zu different particles was expected", path, count);
    TRY(mem_new_unset(count + 1, sizeof *c->rows, "changes of a selection", &c->rows, err));
    TRY(mem_new_unset(count + 1, sizeof *c->digests, "changes of a selection", &c->digests, err));
    TRY(star_column_need(t, SELECTION_ROW, &column, err));
    for (size_t i = 0; i < count; i++) {
        long row;
        TRY(star_get_integer(t, i, column, &row, err));
        FAIL_IF(row < 1 || (size_t)row > c->head.count || (i > 0 && (size_t)row <= c->rows[i - 1] + 1), err,
                STATUS_BAD_FORMAT, "%s, row %zu: " SELECTION_ROW " is %ld; rows of a table of %zu rise", path, i + 1,
                row, c->head.count);
        c->rows[i] = (size_t)row - 1;
        c->digests[i] = selection_digest(star_get(rows, i, image));
    }
    return STATUS_OK;
}

/* Writes the name that the set gives a particle. last: the stack of the row before, as its table names it; stack: as the
 * set does. */
static enum status name_of(const struct particle_set *read, const char *path, const char *text, const char **last,
                           char stack[PATH_SIZE], char name[PATH_SIZE + 16], struct err *err) {
    char *end, found[PATH_SIZE];
    long number = strtol(text, &end, 10);
    FAIL_IF(end == text || *end != '@' || number < 1 || number > INT32_MAX || strlen(end + 1) >= PATH_SIZE, err,
            STATUS_BAD_FORMAT, "%s: " SELECTION_REMOVED_NAME " is \"%.200s\"; NNNNNN@STACK was expected", path, text);
    if (*last == NULL || strcmp(*last, end + 1) != 0) {
        const bool there = particle_stack_find(read->root, path, end + 1, found);
        const char *own = there ? particle_name_below(read->root, found) : end + 1;
        memcpy(stack, own, strlen(own) + 1);
    }
    *last = end + 1;
    particle_name_write((int)number, stack, name);
    return STATUS_OK;
}

static enum status read_removed(struct particle_set *read, const char *path, struct err *err) {
    struct particle_changes *c = read->changes;
    const struct star_table *t = star_table_find(read->sources[0].file, SELECTION_REMOVED);
    const char *last = NULL;
    char stack[PATH_SIZE], name[PATH_SIZE + 16];
    int column;
    if (t == NULL) return STATUS_OK;
    TRY(star_column_need(t, SELECTION_REMOVED_NAME, &column, err));
    const size_t count = star_row_count(t);
    TRY(mem_new(count + 1, sizeof *c->names, "changes of a selection", &c->names, err));
    TRY(mem_new_unset(count + 1, sizeof *c->indices, "changes of a selection", &c->indices, err));
    c->removed = count;
    for (size_t i = 0; i < count; i++) {
        const char *text = star_get(t, i, column);
        TRY(name_of(read, path, text, &last, stack, name, err));
        TRY(particle_text(name, &c->names[i], err));
        c->removed_digest += selection_digest(text);
    }
    return STATUS_OK;
}

enum status particle_set_read_changes(const struct particle_set *set, struct star_file **file, const char *path,
                                      struct particle_set **ret_read, struct err *err) {
    _cleanup_(particle_set_free) struct particle_set *read = NULL;
    struct selection_changes head;
    enum status status = selection_changes_read(*file, path, &head, err);
    if (status != STATUS_OK) {
        star_destroy(file);
        return status;
    }
    TRY(particle_set_read(set, file, path, &read, err));
    TRY(mem_new(1, sizeof *read->changes, "changes of a selection", &read->changes, err));
    read->changes->head = head;
    TRY(read_places(read, path, err));
    TRY(read_removed(read, path, err));
    *ret_read = read;
    read = NULL;
    return STATUS_OK;
}

const char *particle_set_since(const struct particle_set *read) {
    return read->changes->head.since;
}

/* Returns whether all that has left was there, and marks it. */
static bool mark_removed(const struct particle_set *set, struct particle_changes *c, unsigned char *moved) {
    for (size_t i = 0; i < c->removed; i++) {
        const struct particle *p = particle_find(set, c->names[i]);
        if (p == NULL || p->source < 0 || moved[p - set->particles]) return false;
        c->indices[i] = (int)(p - set->particles);
        moved[c->indices[i]] = 1;
    }
    return true;
}

const char *particle_changes_misfit(const struct particle_set *set, const struct particle_set *read,
                                    const int *particles, unsigned char *moved) {
    struct particle_changes *c = read->changes;
    uint64_t digest = c->head.since_digest - c->removed_digest;
    size_t count = c->head.since_count;
    if (set->order == NULL || set->repeated > 0 || set->present != count || set->digest != c->head.since_digest)
        return "they begin with other particles than those that are there";
    if (!mark_removed(set, c, moved)) return "particles that have left are not there";
    for (size_t i = 0; i < read->count; i++) {
        const int index = particles[i];
        const bool there = index >= 0 && set->particles[index].source >= 0;
        if (index >= 0 && moved[index]) return "they say twice what became of a particle";
        if (index >= 0) moved[index] = 1;
        if (!there) digest += c->digests[i];
        count += !there;
    }
    if (count - c->removed != c->head.count || digest != c->head.digest) return "they do not lead to what they say";
    return NULL;
}

void particle_changes_leave(struct particle_set *set, const struct particle_changes *c) {
    for (size_t i = 0; i < c->removed; i++) {
        struct particle *p = &set->particles[c->indices[i]];
        p->source = -1;
        particle_image_free(set, p);
    }
    set->present -= c->removed;
    for (size_t i = 0; set->left_out > 0 && i < set->count; i++)
        set->particles[i].twin = 0;
    set->left_out = 0;
}

/* Rows that are not in the file keep their order, and fill the rows between. */
void particle_changes_order(const struct particle_set *read, const int *particles, const unsigned char *moved,
                            const int *before, int *order) {
    const struct particle_changes *c = read->changes;
    size_t next = 0, earlier = 0;
    for (size_t row = 0; row < c->head.count; row++) {
        if (next < read->count && c->rows[next] == row) {
            order[row] = particles[next++];
            continue;
        }
        while (moved[before[earlier]])
            earlier++;
        order[row] = before[earlier++];
    }
}
