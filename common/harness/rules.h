/* reject_if: rules "COLUMN < NUMBER" on an item's columns, or on other numbers of the item, named by path
 * ("picks.count"). */
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

/* Parses one rule, or several with commas between them; NULL or "": none. */
enum status rules_parse(const char *text, struct rules *ret_rules, struct err *err);
/* Returns STATUS_REJECTED, with the reason, when a rule holds. Skips rules whose bit in *judged is set; sets the bits
 * of rules whose column is present. */
enum status rules_apply(const struct rules *rules, const struct item *item, uint32_t *judged, struct err *err);

#endif
