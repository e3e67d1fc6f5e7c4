/* The copy is a struct refiner itself, so that the same code writes both. Members that no file needs are NULL. */
#include "stages/refiner/files/snapshot.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "stages/refiner/orientations.h"
#include "stages/refiner/refiner_private.h"

/* An array that is kept from iteration to iteration and grows as needed. */
struct room {
    void *data;
    size_t bytes;
};

struct snapshot {
    struct refiner refiner;
    bool taken;
    struct room particles, optics, sources, combined, fsc;
    struct room references[2], members[2], sigma2[2];
    struct room *classes; /* [references of all sides][ROOMS] */
    int class_count;
};

static const char WHAT[] = "the files of an iteration";
enum { MAP, TAU2, SSNR, COMPLETENESS, SIGMA2, ROOMS };

enum status snapshot_create(struct snapshot **ret_snapshot, struct err *err) {
    return mem_new(1, sizeof(struct snapshot), WHAT, ret_snapshot, err);
}

void snapshot_destroy(struct snapshot **snapshot) {
    struct snapshot *s = *snapshot;
    if (s == NULL) return;
    struct room *own[] = {&s->particles,  &s->optics,        &s->sources,       &s->combined,
                          &s->fsc,        &s->references[0], &s->references[1], &s->members[0],
                          &s->members[1], &s->sigma2[0],     &s->sigma2[1]};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        mem_free(&own[i]->data);
    for (int i = 0; s->classes != NULL && i < s->class_count * ROOMS; i++)
        mem_free(&s->classes[i].data);
    mem_free(&s->classes);
    mem_free(snapshot);
}

static void reserve_room(struct room *room, size_t bytes) {
    if (bytes <= room->bytes) return;
    mem_free(&room->data);
    room->bytes = mem_new(bytes, 1, WHAT, &room->data, NULL) == STATUS_OK ? bytes : 0;
    if (room->bytes > 0) memset(room->data, 1, bytes);
}

void snapshot_reserve(struct snapshot *s, const struct snapshot *like) {
    /* Iterations with larger maps take longer than their files: no second copy is needed. */
    enum { MAPS_MOST = 128 << 20 };
    size_t maps = like->combined.bytes;
    for (int i = 0; i < like->class_count; i++)
        maps += like->classes[i * ROOMS + MAP].bytes;
    if (maps > MAPS_MOST) return;
    reserve_room(&s->particles, like->particles.bytes);
    reserve_room(&s->combined, like->combined.bytes);
    if (s->classes == NULL) {
        size_t count = (size_t)like->class_count * ROOMS;
        if (mem_new(count, sizeof *s->classes, WHAT, &s->classes, NULL) != STATUS_OK) return;
        s->class_count = like->class_count;
    }
    for (int i = 0; i < s->class_count; i++)
        reserve_room(&s->classes[i * ROOMS + MAP], like->classes[i * ROOMS + MAP].bytes);
}

/* Copies with several threads: nothing else runs meanwhile, and one thread alone does not use the full memory
 * bandwidth. The team has the usual number of threads: OpenMP would end those that a smaller one does not need. */
static void copy_bytes(char *to, const char *from, size_t bytes) {
    enum { PIECE = 1 << 20, THREADS = 16 };
    const int pieces = (int)((bytes + PIECE - 1) / PIECE);
#pragma omp parallel for schedule(static, (pieces + THREADS - 1) / THREADS) if (pieces > THREADS)
    for (int i = 0; i < pieces; i++) {
        size_t first = (size_t)i * PIECE, left = bytes - first;
        memcpy(to + first, from + first, left < PIECE ? left : PIECE);
    }
}

static enum status copy(struct room *room, const void *from, size_t count, size_t size, const void *ret_pointer,
                        struct err *err) {
    size_t bytes = count * size;
    if (bytes > room->bytes) {
        mem_free(&room->data);
        room->bytes = 0;
        TRY(bytes < MEM_LARGE ? mem_new_unset(bytes, 1, WHAT, &room->data, err)
                              : mem_new_pages(bytes, WHAT, &room->data, err));
        room->bytes = bytes;
    }
    copy_bytes(room->data, from, bytes);
    memcpy((void *)ret_pointer, &room->data, sizeof room->data);
    return STATUS_OK;
}

/* Copies of each map the one that is written: after the final iteration the one without a prior. */
static enum status copy_reference(struct room rooms[ROOMS], const struct refiner *r, struct reference *c,
                                  struct err *err) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box, shells = (size_t)r->shells;
    bool unfiltered = r->schedule.final && c->unfiltered != NULL;
    const float *map = unfiltered ? c->unfiltered : c->map;
    c->map = c->unfiltered = NULL;
    c->projector = NULL;
    c->accumulator = NULL;
    TRY(copy(&rooms[MAP], map, voxels, sizeof *map, unfiltered ? &c->unfiltered : &c->map, err));
    TRY(copy(&rooms[TAU2], c->tau2, shells, sizeof *c->tau2, &c->tau2, err));
    TRY(copy(&rooms[SSNR], c->ssnr, shells, sizeof *c->ssnr, &c->ssnr, err));
    TRY(copy(&rooms[COMPLETENESS], c->completeness, shells, sizeof *c->completeness, &c->completeness, err));
    return copy(&rooms[SIGMA2], c->sigma2_reconstruction, shells, sizeof *c->sigma2_reconstruction,
                &c->sigma2_reconstruction, err);
}

static enum status copy_side(struct snapshot *s, const struct refiner *r, int index, struct err *err) {
    struct side *side = &s->refiner.sides[index];
    size_t references = (size_t)r->reference_count, members = (size_t)side->member_count;
    size_t noise = (size_t)r->sigma2_optics * (size_t)r->shells;
    side->sigma2_sum = side->optics_weight = side->noise_shares = NULL;
    side->whole_noise = NULL;
    side->all = NULL;
    TRY(copy(&s->references[index], side->references, references, sizeof *side->references, &side->references, err));
    TRY(copy(&s->members[index], side->members, members, sizeof *side->members, &side->members, err));
    TRY(copy(&s->sigma2[index], side->sigma2, noise, sizeof *side->sigma2, &side->sigma2, err));
    for (int k = 0; k < r->reference_count; k++)
        TRY(copy_reference(s->classes + (index * r->reference_count + k) * ROOMS, r, &side->references[k], err));
    return STATUS_OK;
}

/* Copies the particles. Names stay valid as long as the refinement exists; tables stay while a copy is out. */
static enum status copy_particles(struct snapshot *s, const struct particle_set *from, struct err *err) {
    struct particle_set *set = &s->refiner.set;
    set->particle_names = set->stack_paths = (struct names){0};
    set->stacks = NULL;
    set->stack_count = 0;
    set->order = NULL;
    TRY(copy(&s->particles, from->particles, from->count, sizeof *from->particles, &set->particles, err));
    TRY(copy(&s->optics, from->optics, (size_t)from->optics_count, sizeof *from->optics, &set->optics, err));
    return copy(&s->sources, from->sources, (size_t)from->source_count, sizeof *from->sources, &set->sources, err);
}

/* Clears members that belong to the running iteration: the copy must not use them. */
static void leave_out(struct refiner *r) {
    r->mask = r->solvent = r->fsc_joined = NULL;
    r->held = NULL;
    r->views = NULL;
    r->bands[0] = r->bands[1] = NULL;
    r->other.halves[0] = r->other.halves[1] = NULL;
    r->alignment = NULL;
    r->loader = NULL;
    r->placement.workspace = NULL;
    r->trace = NULL;
    r->batch = (struct batch){0};
    r->to_bring = (struct images_to_bring){0};
    r->met = (struct twins_met){0};
    r->kept_poses = NULL;
    r->sampling.pixels = NULL;
    r->sampling.frames = r->sampling.bases = r->sampling.child_bases = NULL;
    r->sampling.shifts = NULL;
    r->pixels = (struct fourier_pixels){.box = r->pixels.box, .size = r->pixels.size, .count = r->pixels.count};
}

static enum status copy_all(struct snapshot *s, const struct refiner *r, struct err *err) {
    size_t voxels = (size_t)r->box * (size_t)r->box * (size_t)r->box;
    if (s->classes == NULL) {
        s->class_count = r->side_count * r->reference_count;
        TRY(mem_new((size_t)s->class_count * ROOMS, sizeof *s->classes, WHAT, &s->classes, err));
    }
    s->refiner = *r;
    leave_out(&s->refiner);
    TRY(copy_particles(s, &r->set, err));
    for (int side = 0; side < r->side_count; side++)
        TRY(copy_side(s, r, side, err));
    TRY(copy(&s->fsc, r->fsc, (size_t)r->shells, sizeof *r->fsc, &s->refiner.fsc, err));
    s->refiner.combined = NULL;
    if (classifies(r)) return STATUS_OK;
    return copy(&s->combined, r->combined, voxels, sizeof *r->combined, &s->refiner.combined, err);
}

enum status snapshot_take(struct snapshot *s, struct refiner *r, struct err *err) {
    FAIL_IF(s->taken || r->busy, err, STATUS_BAD_STATE, "a refinement is copied between two iterations, once each");
    TRY(copy_all(s, r, err));
    s->taken = true;
    particle_set_hold(&r->set);
    return STATUS_OK;
}

void snapshot_return(struct snapshot *s, struct refiner *r) {
    if (!s->taken) return;
    s->taken = false;
    particle_set_let_go(&r->set);
}

enum status snapshot_measure(struct snapshot *s, struct orientations *ret_views, struct err *err) {
    struct orientations o = {.efficiency = NAN, .tilt = NAN, .tilted_efficiency = NAN};
    if (!classifies(&s->refiner) && s->refiner.schedule.final)
        TRY(orientations_advise(&s->refiner, &o, err));
    else if (!classifies(&s->refiner))
        TRY(orientations_measure(&s->refiner, &o, err));
    s->refiner.efficiency = o.efficiency;
    *ret_views = o;
    return STATUS_OK;
}

const struct refiner *snapshot_refiner(const struct snapshot *s) {
    return &s->refiner;
}
