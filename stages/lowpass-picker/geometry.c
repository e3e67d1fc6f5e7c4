#include "stages/lowpass-picker/geometry.h"

#include <math.h>

#include "common/fft.h"
#include "kernels/normalise/normalise.h"

/* The largest prime that RELION allows in a map's size and in half of it plus one. */
enum { RELION_PRIME_MOST = 43 };

static int largest_prime(int n) {
    int largest = 1;
    for (int prime = 2; prime * prime <= n; prime++)
        for (; n % prime == 0; n /= prime)
            largest = prime;
    return n > largest ? n : largest;
}

static int worst_prime(int work) {
    int whole = largest_prime(work), half = largest_prime(work / 2 + 1);
    return whole > half ? whole : half;
}

/* Returns the nearest even size without large primes, of two equally near ones the larger; at most the micrograph's
 * size. */
static int relion_work(int wanted, int size) {
    if (worst_prime(wanted) <= RELION_PRIME_MOST) return wanted;
    int up = wanted, down = wanted;
    while (up <= size && worst_prime(up) >= RELION_PRIME_MOST)
        up += 2;
    while (down > 2 && worst_prime(down) >= RELION_PRIME_MOST)
        down -= 2;
    return up > size || wanted - down < up - wanted ? down : up;
}

void geometry_choose_sizes(struct pick_geometry *g) {
    int longest = g->nx > g->ny ? g->nx : g->ny;
    bool relion = g->size_rule == PICK_SIZES_RELION;
    g->size = relion ? longest + longest % 2 : fft_good_size(longest);
    int work = g->size;
    if (g->lowpass > 0) {
        /* The low-pass is the Nyquist frequency of the maps. */
        double wanted = 2 * round(g->size * g->pixel_size / g->lowpass);
        if (wanted < g->size) work = (int)wanted;
    }
    /* RELION keeps the low-pass of the templates when it changes the size of the maps. */
    int exact = work / 2;
    work = relion ? relion_work(work, g->size) : fft_good_size(work);
    if (work > g->size) work = g->size;
    g->work = work < PICK_WORK_LEAST ? PICK_WORK_LEAST : work;
    g->band = relion ? exact : g->work / 2;
}

/* RELION rounds the micrograph's width and border on the maps down, in single precision, and puts the maps' centre on
 * the centre of the rest: its coordinates lie up to one pixel of the maps beside the true place. */
static struct pick_area relion_area(const struct pick_geometry *g) {
    float scale = (float)g->work / (float)g->size;
    int nx = (int)((float)g->nx * scale), ny = (int)((float)g->ny * scale);
    int border = (int)((float)g->border * scale);
    if (border < 1) border = 1;
    int x = g->work / 2 - nx / 2, y = g->work / 2 - ny / 2;
    return (struct pick_area){
        .x = x, .y = y, .x0 = x + border, .y0 = y + border, .x1 = x + nx - border, .y1 = y + ny - border};
}

struct pick_area geometry_area(const struct pick_geometry *g) {
    if (g->size_rule == PICK_SIZES_RELION) return relion_area(g);
    double scale = (double)g->work / g->size;
    int x = normalise_offset(g->size, g->nx), y = normalise_offset(g->size, g->ny);
    return (struct pick_area){.x = x * scale,
                              .y = y * scale,
                              .x0 = (int)ceil((x + g->border) * scale),
                              .y0 = (int)ceil((y + g->border) * scale),
                              .x1 = (int)floor((x + g->nx - 1 - g->border) * scale) + 1,
                              .y1 = (int)floor((y + g->ny - 1 - g->border) * scale) + 1};
}
