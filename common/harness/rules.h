/* reject_if: rules "COLUMN < NUMBER" on an item's columns, or on other numbers of it by path ("picks.count"). */
#ifndef ICESTREAM_COMMON_HARNESS_RULES_H
#define ICESTREAM_COMMON_HARNESS_RULES_H

#include <stdint.h>

#include "common/edges/item.h"
#include "common/status.h"

enum { RULES_MAX = 32 };

enum rule_operator { RULE_LESS, RULE_LESS_EQUAL, RULE_GREATER, RULE_GREATER_EQUAL, RULE_EQUAL, RULE_UNEQUAL };

struct rule {
    char column[112];
    enum rule_operator operation;
    double value;
};

struct rules {
    int count;
    struct rule rules[RULES_MAX];
};

/* One rule, or several with commas between; NULL or "": none. */
enum status rules_parse(const char *text, struct rules *ret_rules, struct err *err);
/* STATUS_REJECTED, with the reason, when a rule holds. Rules whose bit is set in *judged are left out; the bits of
 * those whose column is there are set. */
enum status rules_apply(const struct rules *rules, const struct item *item, uint32_t *judged, struct err *err);

#endif
