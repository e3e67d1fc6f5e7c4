/* Templates that one stage of a session, a classifier or a refiner, makes for the picker. The maker puts a stack of
 * images and then a record of it into its own folder, each renamed into place, so that a reader finds both or neither:
 *
 *   templates_eNNN.mrcs  the images of epoch NNN, the best one first
 *   templates.json       {"v": 1, "epoch": 3, "file": "templates_e003.mrcs", "count": 8, "box": 64,
 *                         "pixel_size": 3.54, "particles": 4120, "from": {"stage": "classifier", "iteration": 12,
 *                         "classes": [4, 1, 7, …]}} */
#ifndef ICESTREAM_COMMON_HARNESS_TEMPLATE_SET_H
#define ICESTREAM_COMMON_HARNESS_TEMPLATE_SET_H

#include <stdbool.h>

#include "common/formats/image.h"
#include "common/status.h"

#define TEMPLATE_SET_RECORD "templates.json"

enum { TEMPLATE_SET_MOST = 48, TEMPLATE_SET_NAME = 32 };

struct template_set {
    int epoch;                      /* from 1 */
    char file[TEMPLATE_SET_NAME];   /* of the images, in the folder of the record */
    char stage[80];                 /* that made them */
    int iteration;                  /* of the stage's snapshot */
    int classes[TEMPLATE_SET_MOST]; /* class of each image, from 1; 1 of all projections of a map */
    double particles;               /* that the stage had */
    struct image images;            /* [count][box][box], px of images.pixel_size Å */
};

/* Writes the images of set->epoch, then the record. Sets `file`. */
enum status template_set_write(const char *folder, struct template_set *set, struct err *err);
/* Reads record and images; `ret_set` need not be cleared before, and is not changed on failure. STATUS_NOT_FOUND: there
 * is no record yet. STATUS_BAD_FORMAT: the record or the images are damaged, or do not belong together. */
enum status template_set_read(const char *folder, struct template_set *ret_set, struct err *err);
void template_set_clear(struct template_set *set);

/* Masks a template of box² px softly by a circle (px), and gives it mean 0 and standard deviation 1 inside. Returns
 * whether it has any contrast. */
bool template_normalise(float *image, int box, double radius);

#endif
