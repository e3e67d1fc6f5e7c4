/* Draws random numbers that are the same on every machine: splitmix64 (Steele, Lea & Flood 2014). The state is one
 * word, so a stream for every micrograph and purpose costs nothing. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_RANDOM_H
#define ICESTREAM_EXAMPLES_SIMULATE_RANDOM_H

#include <math.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns the stream after `count` more numbers were drawn. */
static inline struct random random_after(const struct random *r, uint64_t count) {
    return (struct random){r->state + count * 0x9e3779b97f4a7c15u};
}

/* Returns the stream `purpose` of micrograph `index` under this seed. */
static inline struct random random_stream(uint64_t seed, uint64_t index, uint64_t purpose) {
    struct random r = {seed};
    r.state = random_next(&r) ^ (index * 0xd1342543de82ef95u);
    r.state = random_next(&r) ^ (purpose * 0xaf251af3b0f025b5u);
    random_next(&r);
    return r;
}

static inline double random_uniform(struct random *r, double low, double high) {
    return low + (high - low) * ((double)(random_next(r) >> 11) * 0x1p-53);
}

/* Draws two independent normal deviates (Box & Muller 1958). */
static inline void random_normal_pair(struct random *r, float *ret_first, float *ret_second) {
    uint64_t bits = random_next(r);
    float u = ((float)(bits >> 40) + 0.5f) * 0x1p-24f, v = (float)(bits & 0xffffff) * 0x1p-24f;
    float radius = sqrtf(-2 * logf(u)), angle = 2 * (float)M_PI * v;
    *ret_first = radius * cosf(angle);
    *ret_second = radius * sinf(angle);
}

static inline double random_normal(struct random *r) {
    float first, second;
    random_normal_pair(r, &first, &second);
    return first;
}

/* Draws a direction, uniform on the sphere. */
static inline void random_direction(struct random *r, double out[3]) {
    double z = random_uniform(r, -1, 1), angle = random_uniform(r, 0, 2 * M_PI), rho = sqrt(1 - z * z);
    out[0] = rho * cos(angle);
    out[1] = rho * sin(angle);
    out[2] = z;
}

#endif
