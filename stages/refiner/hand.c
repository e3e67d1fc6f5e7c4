#include "stages/refiner/hand.h"

#include "stages/refiner/refiner_private.h"

/* Returns the opposite of an index along an axis. */
static inline int opposite(int box, int index) {
    return index == 0 ? 0 : box - index;
}

static void swap(float *a, float *b) {
    const float kept = *a;
    *a = *b;
    *b = kept;
}

/* Exchanges two rows that are opposite to each other, or inverts one. */
static void exchange_rows(int box, float *row, float *other) {
    const int end = row == other ? box / 2 : box;
    for (int x = row == other; x < end; x++)
        swap(&row[x], &other[opposite(box, x)]);
}

void hand_invert_map(int box, int threads, float *map) {
    const size_t side = (size_t)box;
    /* Each pair of planes belongs to one thread. */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int z = 0; z <= box / 2; z++) {
        float *plane = map + (size_t)z * side * side, *other = map + (size_t)opposite(box, z) * side * side;
        for (int y = 0; y < box; y++)
            if (plane != other || y <= opposite(box, y))
                exchange_rows(box, plane + (size_t)y * side, other + (size_t)opposite(box, y) * side);
    }
}

void hand_turn_pose(double pose[9]) {
    for (int i = 0; i < 6; i++)
        pose[i] = -pose[i];
}

static void invert(const struct refiner *r, float *map_or_null) {
    if (map_or_null != NULL) hand_invert_map(r->box, r->context.threads, map_or_null);
}

static void invert_maps(struct refiner *r) {
    for (int side = 0; side < r->side_count; side++)
        for (int k = 0; r->sides[side].references != NULL && k < r->reference_count; k++) {
            invert(r, r->sides[side].references[k].map);
            invert(r, r->sides[side].references[k].unfiltered);
        }
    invert(r, r->combined);
    invert(r, r->mask);
    invert(r, r->solvent);
}

/* Particles that have left the set keep their poses, since they may come back. */
static void turn_poses(struct particle_set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].aligned || set->particles[i].given) hand_turn_pose(set->particles[i].pose);
}

void refiner_set_hand(struct refiner *r, bool inverted) {
    r->inverted_wanted = inverted;
}

bool refiner_inverts(const struct refiner *r) {
    return r->started && r->inverted_wanted != r->set.inverted;
}

/* Maps that are not there yet are read in the new hand (setup.c). Poses of an earlier run are in the hand of its files:
 * refiner_begin gives them to the particles before it inverts. */
void refiner_invert(struct refiner *r) {
    if (r->inverted_wanted == r->set.inverted) return;
    invert_maps(r);
    turn_poses(&r->set);
    r->set.inverted = r->inverted_wanted;
}
