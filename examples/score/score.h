/* Compares a run on a simulated session with the truth. `session` and `truth` are the paths of the two folders. */
#ifndef ICESTREAM_EXAMPLES_SCORE_SCORE_H
#define ICESTREAM_EXAMPLES_SCORE_SCORE_H

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
/* Measures the resolution of the refiner's map. */
enum status score_map(const char *session, const char *truth, struct score_map *ret_score, struct err *err);

#endif
