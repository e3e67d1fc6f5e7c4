/* A simulated camera: each pixel counts an electron with a response of its own, in tiles and with a slow trend as in
 * real sensors; some pixels are broken. The gain reference is 1 / response, as measured by the microscopist: pixels
 * that broke before are 0 in it, later ones are not. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_CAMERA_H
#define ICESTREAM_EXAMPLES_SIMULATE_CAMERA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

enum camera_defect_kind {
    CAMERA_DEAD,       /* counts nothing; 0 in the gain reference */
    CAMERA_DEAD_LATER, /* counts nothing; the gain reference does not know it */
    CAMERA_HOT,        /* counts 20 times too much; the gain reference does not know it */
};

struct camera_defect {
    int x, y;
    enum camera_defect_kind kind;
};

struct camera {
    int nx, ny;
    float *gain, *response; /* [ny][nx] */
    struct camera_defect *defects;
    int defect_count;
};

struct camera_task {
    uint64_t seed;
    int nx, ny;
    bool uneven;    /* false: every pixel responds alike */
    double defects; /* broken pixels a megapixel; half of them dead before, of the others every other one hot. Where it
                       is above 0, a piece of one column is dead too. */
};
enum status camera_create(const struct camera_task *task, struct camera *ret_camera, struct err *err);
void camera_destroy(struct camera *camera);

struct camera_gain_file {
    /* A reader turns the file so, in RELION's terms. rotation: by 0 to 3 × 90°; then flip: 1 reverses rows, 2
     * columns. */
    int rotation, flip;
    bool response; /* write the response relative to its mean, as RELION expects beside EER movies; 0 stays 0 */
};
/* Writes the gain reference as MRC. */
enum status camera_write_gain(const struct camera *camera, const struct camera_gain_file *file, const char *path,
                              struct err *err);

#endif
