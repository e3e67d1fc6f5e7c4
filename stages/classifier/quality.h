/* How good a class is, and which classes go on. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_QUALITY_H
#define ICESTREAM_STAGES_CLASSIFIER_QUALITY_H

#include "dataset.h"
#include "model.h"

/* A rule over what is known of a class: "auto", "all", or comparisons joined by "and", as "quality >= 0.3 and
 * distribution > 0.01". Names: quality (0 to 1), distribution (fraction of the particles), resolution (Å), members,
 * evidence (ln of the odds against noise, per particle). */
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
