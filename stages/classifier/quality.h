/* How good a class is, and which classes go on.
 *
 * quality = strength · evidence · detail, each from 0 to 1 and relative to what is usual among the particles (a median
 * weighed by members):
 *   strength  1, less (by the square) for averages more than three times as strong as the usual one: ice, carbon;
 *   evidence  mean over members of ln(likelihood of the classes / likelihood of nothing): low for picks of noise and of
 *             something off the centre;
 *   detail    shells that the averages of two halves of the members have in common: low for mixtures and for few.
 * What no class explains better than noise is in the empty class, which is never kept. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_QUALITY_H
#define ICESTREAM_STAGES_CLASSIFIER_QUALITY_H

#include "stages/classifier/dataset.h"
#include "stages/classifier/model.h"

/* A rule over what is known of a class: "auto" (quality >= 0.3), "all", or comparisons joined by "and", as "quality >=
 * 0.4 and distribution > 0.01". Names: quality (0 to 1), distribution (fraction of the particles), resolution (Å),
 * members, evidence (ln of the odds against noise, per particle). */
enum { QUALITY_TERMS = 8 };
struct quality_rule {
    int count; /* 0: all */
    struct {
        int name, comparison;
        double value;
    } terms[QUALITY_TERMS];
};
enum status quality_rule_parse(const char *text, struct quality_rule *ret_rule, struct err *err);

/* Counts members, scores every class and sets `kept`. */
enum status quality_judge(struct model *model, struct dataset *dataset, const struct quality_rule *rule,
                          struct err *err);

#endif
