/* Paints crystallisation drops of known outcome, to test scoring with. Each picture shows a drop in a round well under
 * uneven light. The drop is filled with textures that imitate its outcome (grains, droplets, crystals, folds).
 *
 * Brightness does not reveal the outcome: a rising curve maps the grey levels inside each drop to a histogram that is
 * drawn at random for each picture. Light, focus, noise, dust and places also differ from picture to picture. The same
 * seed gives the same pictures on every machine. */
#ifndef ICESTREAM_EXAMPLES_DROPS_DROPS_H
#define ICESTREAM_EXAMPLES_DROPS_DROPS_H

#include <stdint.h>

#include "common/status.h"
#include "examples/simulate/random.h"

/* Outcomes, in the order of table 1 of the paper (Kotseruba, Cumbaa & Jurisica 2012). */
enum drop_kind {
    DROP_CLEAR,
    DROP_PRECIPITATE,
    DROP_CRYSTAL,
    DROP_PHASE,
    DROP_PRECIPITATE_CRYSTAL,
    DROP_PRECIPITATE_SKIN,
    DROP_PHASE_CRYSTAL,
    DROP_PHASE_PRECIPITATE,
    DROP_SKIN,
    DROP_JUNK,
    DROP_OTHER,
    DROP_KINDS
};

const char *drop_kind_name(enum drop_kind kind); /* for labels: "precip & crystal" */
const char *drop_kind_stem(enum drop_kind kind); /* for names of files: "precip_crystal" */

struct drop_scene {
    int size;      /* px: width and height of the picture; at least 256 */
    uint64_t seed; /* of the whole set */
};

struct drop_truth {
    float x, y, radius; /* of the drop, px; x, y: centre, counted from the centre of the first pixel */
};

struct drop_painter;
enum status drop_painter_create(const struct drop_scene *scene, struct drop_painter **ret_painter, struct err *err);
void drop_painter_destroy(struct drop_painter **painter);
/* Paints picture `index` of the set into pixels[size][size]. ret_truth may be NULL. */
void drop_paint(struct drop_painter *painter, enum drop_kind kind, uint64_t index, uint8_t *pixels,
                struct drop_truth *ret_truth);

/* Draws the outcome that follows in a time series. Drops do not become clear again, and crystals stay. */
enum drop_kind drop_next(enum drop_kind kind, struct random *random);

#endif
