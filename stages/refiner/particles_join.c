/* Adds particles that were read from a file to a set. What may fail comes first, so that a file that cannot join leaves
 * the particles of the set as they were. */
#include "stages/refiner/particles_private.h"

#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/together.h"
#include "stages/refiner/detectors.h"
#include "stages/refiner/given_poses.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/heirs.h"

struct joining {
    struct particle_set *set, *read;
    const char *path;     /* of the file */
    int *stacks;          /* index in `read` → index in `set` */
    int *optics;          /* the same */
    uint32_t *hashes;     /* of the names of particles that the set does not have */
    int *particles;       /* index in `read` → index in `set`; −1: the set does not have it yet */
    size_t added;         /* particles that the set does not have yet */
    bool adopted;         /* the particles of the set are those of `read` */
    int *before;          /* set->order before */
    int *order;           /* of changes: set->order afterwards */
    unsigned char *moved; /* of changes: particle_changes_misfit */
    int source, known;    /* of the file; optics groups that the set had before */
    bool *renewed; /* of each stack of the set: it was written anew since a table named it; NULL: not looked at */
};

/* Particles of the set that are not in the file stay, or leave, or those leave that it names. */
enum how { ADD, REPLACE, CHANGE };

/* Returns whether a file was written anew. One that is longer than before may have grown, if it is the same one. The
 * number of a file alone proves nothing: some network file systems give it anew. */
static bool is_renewed(const struct stat *before, const struct stat *now) {
    return file_mtime_ns(now) != file_mtime_ns(before) &&
           (now->st_ino != before->st_ino || now->st_size <= before->st_size);
}

/* Notes which stacks of the set that the file names were written anew. */
static enum status find_renewed(struct joining *j, struct err *err) {
    const struct particle_set *set = j->set;
    TRY(mem_new((size_t)set->stack_count + 1, sizeof *j->renewed, "stacks", &j->renewed, err));
    for (int i = 0; i < j->read->stack_count; i++) {
        const struct particle_stack *now = &j->read->stacks[i];
        const int index = particle_stack_at(set, now->path);
        if (index < 0) continue;
        j->renewed[index] = is_renewed(&set->stacks[index].file, &now->file);
    }
    return STATUS_OK;
}

/* Moves a stack that the set does not have to its end. */
static enum status move_stack(struct joining *j, struct particle_stack *from, struct err *err) {
    struct particle_set *set = j->set;
    FAIL_IF(!file_exists(from->path), err, STATUS_NOT_FOUND, "%s names the stack %s, which is gone since", j->path,
            from->path);
    TRY(names_reserve(&set->stack_paths, (size_t)set->stack_count + 1, err));
    TRY(particle_list_append(&set->stacks, &set->stack_count, sizeof *set->stacks, err));
    set->stacks[set->stack_count - 1] = *from;
    TRY(names_put(&set->stack_paths, names_hash(from->path), set->stack_count - 1, err));
    *from = (struct particle_stack){0};
    return STATUS_OK;
}

static enum status join_stacks(struct joining *j, struct err *err) {
    TRY(mem_new_unset((size_t)j->read->stack_count + 1, sizeof *j->stacks, "stacks", &j->stacks, err));
    for (int i = 0; i < j->read->stack_count; i++) {
        struct particle_stack *from = &j->read->stacks[i];
        int index = particle_stack_at(j->set, from->path);
        if (index >= 0) {
            j->set->stacks[index].images = from->images; /* it may have grown since another file named it */
            j->set->stacks[index].file = from->file;
        } else {
            TRY(move_stack(j, from, err));
            index = j->set->stack_count - 1;
        }
        j->stacks[i] = index;
    }
    return STATUS_OK;
}

static int find_optics(const struct particle_set *set, const struct particle_optics *o) {
    const struct optics values = {.pixel_size = o->pixel_size,
                                  .voltage = o->voltage,
                                  .spherical_aberration = o->spherical_aberration,
                                  .amplitude_contrast = o->amplitude_contrast};
    const struct optics_detector *d = o->detector;
    return particle_optics_find(set, o->name, &values, &o->aberrations, d != NULL ? d->name : NULL,
                                d != NULL ? d->pixel_size : 0);
}

static enum status join_optics(struct joining *j, struct err *err) {
    struct particle_set *set = j->set;
    j->known = set->optics_count;
    TRY(mem_new_unset((size_t)j->read->optics_count + 1, sizeof *j->optics, "optics groups", &j->optics, err));
    for (int i = 0; i < j->read->optics_count; i++) {
        struct particle_optics *from = &j->read->optics[i];
        j->optics[i] = find_optics(set, from);
        if (j->optics[i] < set->optics_count) continue;
        TRY(particle_list_append(&set->optics, &set->optics_count, sizeof *set->optics, err));
        set->optics[j->optics[i]] = *from;
        set->optics[j->optics[i]].source = -1;
        from->name = NULL;
        from->even = NULL;
        from->detector = NULL;
    }
    return STATUS_OK;
}

/* Returns the particle of a name, which is often one of the next few in the order of the set; else *ret_hash is that of
 * the name. */
static const struct particle *find_near(const struct particle_set *set, const char *name, size_t next,
                                        uint32_t *ret_hash) {
    enum { NEAR = 3 };
    for (size_t i = next; i < set->count && i < next + NEAR; i++)
        if (!set->particles[i].gone && strcmp(set->particles[i].name, name) == 0) return &set->particles[i];
    *ret_hash = names_hash(name);
    return particle_find_hashed(set, name, *ret_hash);
}

enum { PIECE = 8192 };

/* Finds some of the particles in the set. */
static enum status find_piece(void *context, size_t piece, struct err *err) {
    (void)err;
    const struct joining *j = context;
    const struct particle_set *set = j->set;
    const size_t first = piece * PIECE, left = j->read->count - first;
    size_t next = 0;
    for (size_t i = first; i < first + (left < PIECE ? left : PIECE); i++) {
        const struct particle *known = find_near(set, j->read->particles[i].name, next, &j->hashes[i]);
        if (known != NULL && j->renewed != NULL && j->renewed[known->stack]) {
            known = NULL;
            j->hashes[i] = names_hash(j->read->particles[i].name);
        }
        j->particles[i] = known != NULL ? (int)(known - set->particles) : -1;
        if (known != NULL) next = (size_t)j->particles[i] + 1;
    }
    return STATUS_OK;
}

/* Finds the particles that the set has, and makes room for the others. */
static enum status find_particles(struct joining *j, struct err *err) {
    struct particle_set *set = j->set;
    const size_t count = j->read->count;
    TRY(mem_new_unset(count + 1, sizeof *j->hashes, "names of particles", &j->hashes, err));
    TRY(mem_new_unset(count + 1, sizeof *j->particles, "the particles of a table", &j->particles, err));
    TRY(work_together((count + PIECE - 1) / PIECE, TOGETHER_FILE, find_piece, j, err));
    for (size_t i = 0; i < count; i++)
        j->added += j->particles[i] < 0;
    TRY(names_reserve(&set->particle_names, set->count + j->added, err));
    return set->count > 0 ? particle_set_reserve(set, set->count + j->added, err) : STATUS_OK;
}

static enum status join_source(struct joining *j, struct err *err) {
    struct particle_set *set = j->set;
    TRY(particle_list_append(&set->sources, &set->source_count, sizeof *set->sources, err));
    j->source = set->source_count - 1;
    set->sources[j->source] = j->read->sources[0];
    j->read->sources[0] = (struct particle_source){0};
    return STATUS_OK;
}

/* All particles leave the set; those of the file join it again. Those of a stack that was written anew leave for good:
 * their names stand for other images now. Halves and poses stay for those that lie in their places (heirs_join). */
static void leave(const struct joining *j) {
    struct particle_set *set = j->set;
    for (size_t i = 0; i < set->count; i++) {
        struct particle *p = &set->particles[i];
        p->source = -1;
        p->twin = p->repeated = 0;
        p->gone = p->gone || j->renewed[p->stack];
    }
    set->present = set->left_out = set->repeated = 0;
}

static void free_absent_images(struct particle_set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].source < 0) particle_image_free(set, &set->particles[i]);
}

/* Notes the row of the file that describes the optics. The newest file with particles of a group does so, so that older
 * files may be released. */
static void describe_optics(struct joining *j, int index) {
    const struct particle_optics *from = &j->read->optics[index];
    struct particle_optics *to = &j->set->optics[j->optics[index]];
    if (from->source >= 0) {
        to->source = j->source;
        to->row = from->row;
    }
    if (to->box == 0) to->box = from->box;
}

/* Gives a particle whose row does not say so its half. */
static void settle_half(const struct particle_set *set, struct particle *p) {
    if (p->half < 0) p->half = p->own_half = (int)(particle_hash(p->name, set->seed) & 1);
}

/* The first particles of a set stay where they were read. */
static enum status adopt(struct joining *j, struct err *err) {
    struct particle_set *set = j->set;
    if (set->count > 0 || j->read->count == 0) return STATUS_OK;
    TRY(names_reserve(&set->particle_names, j->read->count, err));
    free(set->particles);
    set->particles = j->read->particles;
    set->capacity = j->read->capacity;
    j->adopted = true;
    return STATUS_OK;
}

static enum status take_particle(struct joining *j, struct particle *from, uint32_t hash, struct err *err) {
    struct particle_set *set = j->set;
    if (!j->adopted) return particle_set_take(set, from, hash, err);
    TRY(names_put(&set->particle_names, hash, (int)set->count, err));
    set->count++;
    return STATUS_OK;
}

/* Particles keep what iterations have found of them, and their halves. */
static enum status join_particle(struct joining *j, size_t index, struct err *err) {
    struct particle_set *set = j->set;
    struct particle *from = &j->read->particles[index], *to;
    if (j->particles[index] < 0) {
        j->particles[index] = (int)set->count;
        settle_half(set, from);
        TRY(take_particle(j, from, j->hashes[index], err));
        to = &set->particles[j->particles[index]];
        to->stack = j->stacks[from->stack];
        to->source = -1;
    } else {
        to = &set->particles[j->particles[index]];
        set->repeated -= (size_t)to->repeated;
    }
    to->optics = j->optics[from->optics];
    to->has_ctf = from->has_ctf;
    to->place = from->place;
    to->ctf = from->ctf;
    to->ctf.even = set->optics[to->optics].even;
    to->row = from->row;
    to->repeated = from->repeated;
    set->repeated += (size_t)from->repeated;
    set->present += to->source < 0;
    to->source = j->source;
    return STATUS_OK;
}

static enum status join_particles(struct joining *j, struct err *err) {
    for (int i = 0; i < j->read->optics_count; i++)
        if (j->optics[i] >= j->known) describe_optics(j, i);
    for (size_t i = 0; i < j->read->count; i++) {
        int optics = j->read->particles[i].optics;
        TRY(join_particle(j, i, err));
        describe_optics(j, optics);
    }
    return STATUS_OK;
}

/* Gives the particles their poses, which need the grid of the set. */
static enum status take_poses(struct joining *j, struct err *err) {
    struct particle_set *set = j->set;
    struct given_columns given = {0};
    if (!set->poses_given || j->read->count == 0) return STATUS_OK; /* a file without particles is released */
    const struct star_table *rows = particle_table_find(set->sources[j->source].file);
    TRY(given_poses_find(rows, j->path, &given, err));
    return given_poses_take(set, j->particles, j->read->count, rows, &given, j->path, err);
}

/* Takes the order of a selection's rows, if the set now has its particles alone. */
static void take_order(struct joining *j, enum how how) {
    struct particle_set *set = j->set;
    if (how == ADD) return;
    set->order = how == CHANGE ? j->order : j->particles;
    set->digest = how == CHANGE ? j->read->changes->head.digest : j->read->digest;
    if (how == CHANGE) particle_changes_order(j->read, j->particles, j->moved, j->before, set->order);
    if (how == CHANGE)
        j->order = NULL;
    else
        j->particles = NULL;
}

/* Particles that do not come with the file leave the set. */
static void let_leave(struct joining *j, enum how how) {
    if (how == REPLACE) leave(j);
    if (how == CHANGE) particle_changes_leave(j->set, j->read->changes);
    j->before = j->set->order;
    j->set->order = NULL;
}

static enum status join(struct joining *j, enum how how, struct err *err) {
    struct particle_set *set = j->set;
    bool all = set->unsettled;
    const size_t before = set->count;
    TRY(join_stacks(j, err));
    TRY(join_optics(j, err));
    TRY(join_source(j, err));
    j->path = set->sources[j->source].path;
    set->settled = false;
    set->unsettled = true;
    let_leave(j, how);
    TRY(adopt(j, err));
    TRY(join_particles(j, err));
    if (how == REPLACE) free_absent_images(set);
    if (how == REPLACE) particle_set_release_sources(set);
    TRY(grids_settle(set, all ? NULL : j->particles, j->read->count, err));
    set->unsettled = false;
    if (how != ADD) TRY(heirs_join(set, before, err));
    TRY(take_poses(j, err));
    take_order(j, how);
    return STATUS_OK;
}

static void end(struct joining *j, struct particle_set **read) {
    if (j->adopted) (*read)->particles = NULL;
    if (j->adopted) (*read)->count = 0;
    free(j->stacks);
    free(j->optics);
    free(j->hashes);
    free(j->particles);
    free(j->before);
    free(j->order);
    free(j->moved);
    free(j->renewed);
    particle_set_free(read);
}

enum status particle_set_join(struct particle_set *set, struct particle_set **read, bool replace, size_t *ret_new,
                              struct err *err) {
    struct joining j = {.set = set, .read = *read, .path = (*read)->sources[0].path};
    size_t before = set->present;
    enum status status = replace ? find_renewed(&j, err) : STATUS_OK;
    if (status == STATUS_OK) status = find_particles(&j, err);
    if (status == STATUS_OK) status = join(&j, replace ? REPLACE : ADD, err);
    if (status == STATUS_OK && ret_new != NULL) *ret_new = replace ? j.added : set->present - before;
    end(&j, read);
    return status;
}

static bool any_renewed(const struct joining *j) {
    for (int i = 0; i < j->set->stack_count; i++)
        if (j->renewed[i]) return true;
    return false;
}

static enum status change(struct joining *j, const char **ret_misfit, struct err *err) {
    TRY(find_renewed(j, err));
    *ret_misfit = "a stack was written anew";
    if (any_renewed(j)) return STATUS_OK;
    TRY(find_particles(j, err));
    TRY(mem_new(j->set->count + 1, sizeof *j->moved, "changes of a selection", &j->moved, err));
    *ret_misfit = particle_changes_misfit(j->set, j->read, j->particles, j->moved);
    if (*ret_misfit != NULL) return STATUS_OK;
    TRY(mem_new_unset(j->read->changes->head.count + 1, sizeof *j->order, "changes of a selection", &j->order, err));
    return join(j, CHANGE, err);
}

enum status particle_set_change(struct particle_set *set, struct particle_set **read, const char **ret_misfit,
                                struct err *err) {
    struct joining j = {.set = set, .read = *read, .path = (*read)->sources[0].path};
    enum status status = change(&j, ret_misfit, err);
    end(&j, read);
    return status;
}

enum status particle_set_merge(struct particle_set *set, struct star_file **file, const char *path, bool replace,
                               size_t *ret_new, struct err *err) {
    struct particle_set *read = NULL;
    TRY(particle_set_read(set, file, path, &read, err));
    return particle_set_join(set, &read, replace, ret_new, err);
}
