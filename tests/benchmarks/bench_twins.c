/* Times what it takes to leave out particles that are there twice: bench_twins [PARTICLES [BOX]]. First finding twins by
 * their places, 300 particles of a micrograph; then in the set of the refiner, with 2 % twins; then the digests of images,
 * beside a copy of them. All in CPU time of one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/digest.h"
#include "common/memory.h"
#include "stages/refiner/twins.h"

enum { EACH = 300, REPEATS = 5 };

static struct err err;

static void must(enum status status) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "bench_twins: %s\n", err.message);
    exit(1);
}

/* Returns the CPU time of the process (s): the machine may be shared. */
static double now(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) return NAN;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

/* Makes places, every 50th a twin of the one before. shuffled: micrographs take turns. */
static void make_places(struct particle_place *places, size_t count, bool shuffled) {
    size_t micrographs = count / EACH + 1;
    for (size_t i = 0; i < count; i++) {
        size_t micrograph = shuffled ? i % micrographs : i / EACH;
        places[i] = (struct particle_place){
            .micrograph = (micrograph + 1) * 0x9e3779b97f4a7c15u, .x = 4000 * uniform(), .y = 4000 * uniform()};
        if (i % 50 == 49 && !shuffled) places[i] = places[i - 1];
    }
}

static void bench_places(size_t count, double distance, bool shuffled) {
    struct particle_place *places = NULL;
    int *twins = NULL;
    double best = INFINITY;
    size_t found = 0;
    must(mem_new(count, sizeof *places, "places", &places, &err));
    must(mem_new(count, sizeof *twins, "places", &twins, &err));
    make_places(places, count, shuffled);
    for (int i = 0; i < REPEATS; i++) {
        double begin = now();
        must(particle_places_twins(places, count, distance, twins, &err));
        best = fmin(best, now() - begin);
    }
    for (size_t i = 0; i < count; i++)
        found += twins[i] >= 0;
    printf("places: %zu particles, within %g Å, %s: %.3f s, %zu twins\n", count, distance,
           shuffled ? "micrographs in turn" : "by micrograph", best, found);
    free(places);
    free(twins);
}

static void bench_set(size_t count) {
    struct particle_place *places = NULL;
    struct particle_set set;
    double best = INFINITY;
    particle_set_init(&set, 1, 0, 1);
    must(mem_new(count, sizeof *places, "places", &places, &err));
    make_places(places, count, false);
    set.box = 128;
    set.twin_distance = 20;
    set.sources = calloc(1, sizeof *set.sources);
    set.source_count = 1;
    set.particles = calloc(count, sizeof *set.particles);
    set.count = set.capacity = set.present = count;
    for (size_t i = 0; i < count; i++)
        set.particles[i] = (struct particle){.name = strdup("a"),
                                             .row = i,
                                             .place = places[i],
                                             .digest = {.high = 1, .low = (i / 2 + 1) * 0x9e3779b97f4a7c15u},
                                             .doubled = i % 50 < 2};
    for (int i = 0; i < REPEATS; i++) {
        set.settled = false;
        double begin = now();
        must(twins_settle(&set, &err));
        best = fmin(best, now() - begin);
    }
    printf("set: %zu particles: %.3f s, %zu twins\n", count, best, set.left_out);
    particle_set_destroy(&set);
    free(places);
}

static void bench_digests(size_t box) {
    const size_t images = ((size_t)256 << 20) / (box * box * sizeof(float)), pixels = box * box;
    float *data = NULL, *copy = NULL;
    double best = INFINITY, plain = INFINITY;
    uint64_t sum = 0;
    must(mem_new(images * pixels, sizeof *data, "images", &data, &err));
    must(mem_new(images * pixels, sizeof *copy, "images", &copy, &err));
    for (size_t i = 0; i < images * pixels; i++)
        data[i] = (float)uniform();
    for (int i = 0; i < REPEATS; i++) {
        double begin = now();
        for (size_t j = 0; j < images; j++)
            sum += digest_memory(data + j * pixels, pixels * sizeof *data).low;
        double end = now();
        best = fmin(best, end - begin);
        memcpy(copy, data, images * pixels * sizeof *data);
        plain = fmin(plain, now() - end);
    }
    double bytes = (double)(images * pixels * sizeof *data) * 1e-9;
    printf("digests: images of %zu px: %.1f GB/s a core; a copy: %.1f GB/s (%llx)\n", box, bytes / best, bytes / plain,
           (unsigned long long)sum & 0xfu);
    free(data);
    free(copy);
}

int main(int argc, char **argv) {
    size_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000, box = argc > 2 ? strtoull(argv[2], NULL, 10) : 128;
    if (count == 0 || box == 0) {
        fprintf(stderr, "bench_twins [PARTICLES [BOX]]\n");
        return 2;
    }
    bench_places(count, 20, false);
    bench_places(count, 20, true);
    bench_places(count / 10, 20, false);
    bench_set(count);
    bench_digests(box);
    return 0;
}
