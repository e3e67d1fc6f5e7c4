/* Compares a run on a simulated session with the truth. `session` and `truth` are the paths of the two folders. */
#ifndef ICESTREAM_EXAMPLES_SCORE_SCORE_H
#define ICESTREAM_EXAMPLES_SCORE_SCORE_H

#include <stdbool.h>

#include "common/status.h"

struct score_picks {
    long picked, truth, hits;
};
struct score_classes {
    int classes, kept;
    long true_all, true_kept, false_all,
        false_kept; /* extracted particles, right and false, and how many of each are kept */
};
struct score_map {
    double gold_standard;   /* Å, halves, FSC 0.143 */
    double against_phantom; /* Å, map against phantom, FSC 0.5 */
    bool aligned;           /* the phantom was moved onto the map first; if false, the rest is 0 */
    bool inverted;          /* the map has the other hand */
    double angle, shift;    /* °, px: between phantom and map */
};

static inline double score_ratio(long part, long whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* Compares lowpass-picker/MIC_autopick.star with every truth/MIC.star (rlnCoordinateX, rlnCoordinateY); tolerance in
 * px. */
enum status score_picks(const char *session, const char *truth, double tolerance, struct score_picks *ret_score,
                        struct err *err);
/* Compares the newest classifier/selected_itNNN.star and _model.star with the truth. */
enum status score_classes(const char *session, const char *truth, double tolerance, struct score_classes *ret_score,
                          struct err *err);
/* Measures the resolution of the refiner's map. Where the map lies elsewhere than the phantom, or has the other hand, the
 * phantom is moved onto it; a map that agrees as well as it lies is compared so. */
enum status score_map(const char *session, const char *truth, struct score_map *ret_score, struct err *err);

#endif
