/* Judges the quality of classes and decides which of them are kept.
 *
 * quality = strength · evidence · detail, each from 0 to 1 and relative to the median class (weighted by members):
 *   strength  1; falls with the square for averages more than three times as strong as the median: ice, carbon;
 *   evidence  mean over members of ln(likelihood of the classes / likelihood of noise alone): low for picks of noise
 *             and for picks beside the particle;
 *   detail    shells in which the averages of the two halves of the members agree: low for mixtures and few members.
 * The empty class, with images that noise alone explains best, is never kept. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_QUALITY_H
#define ICESTREAM_STAGES_CLASSIFIER_QUALITY_H

#include "stages/classifier/dataset.h"
#include "stages/classifier/model.h"

/* A rule for keeping classes: "auto" (quality >= 0.3), "all", or comparisons joined by "and", such as
 * "quality >= 0.4 and distribution > 0.01". Names: quality (0 to 1), distribution (fraction of the particles),
 * resolution (Å), members, evidence (ln of the odds against noise, per particle). */
enum { QUALITY_TERMS = 8 };
struct quality_rule {
    int count; /* 0: all */
    struct {
        int name, comparison;
        double value;
    } terms[QUALITY_TERMS];
};
/* Parses a rule. STATUS_BAD_ARGUMENT: the text is no rule. */
enum status quality_rule_parse(const char *text, struct quality_rule *ret_rule, struct err *err);

/* Counts members, scores every class and sets `kept`. */
enum status quality_judge(struct model *model, struct dataset *dataset, const struct quality_rule *rule,
                          struct err *err);
/* Writes why no class is kept, after quality_judge: what the rule asks, what the best class has, and where the other
 * particles are. */
void quality_explain(const struct model *model, struct dataset *dataset, const char *rule, char *text, size_t size);
/* Returns the quality of the best class that has members, after quality_judge; 0: there is none. */
double quality_best(const struct model *model);

#endif
