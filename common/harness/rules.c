#include "common/harness/rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const operators[] = {"<", "<=", ">", ">=", "==", "!="};

static enum status parse_rule(const char *text, size_t length, struct rule *rule, struct err *err) {
    static const char expected[] = "it must be COLUMN < NUMBER, with one of < <= > >= == !=";
    while (length > 0 && text[0] == ' ') {
        text++;
        length--;
    }
    char copy[192];
    FAIL_IF(length >= sizeof copy, err, STATUS_BAD_ARGUMENT, "reject_if: the rule '%.40s…' is too long", text);
    memcpy(copy, text, length);
    copy[length] = '\0';
    size_t name = strcspn(copy, " \t<>=!");
    FAIL_IF(name == 0 || name >= sizeof rule->column, err, STATUS_BAD_ARGUMENT, "reject_if: '%s' is not a rule; %s",
            copy, expected);
    const char *p = copy + name + strspn(copy + name, " \t");
    int operation = -1;
    for (int i = 0; i < 6; i++)
        if (strncmp(p, operators[i], strlen(operators[i])) == 0 &&
            (operation < 0 || strlen(operators[i]) > strlen(operators[operation])))
            operation = i;
    FAIL_IF(operation < 0, err, STATUS_BAD_ARGUMENT, "reject_if: '%s' is not a rule; %s", copy, expected);
    p += strlen(operators[operation]);
    char *end;
    double value = strtod(p, &end);
    FAIL_IF(end == p || end[strspn(end, " \t")] != '\0' || !isfinite(value), err, STATUS_BAD_ARGUMENT,
            "reject_if: '%s' does not end with a number; %s", copy, expected);
    memcpy(rule->column, copy, name);
    rule->column[name] = '\0';
    rule->operation = (enum rule_operator)operation;
    rule->value = value;
    return STATUS_OK;
}

enum status rules_parse(const char *text, struct rules *ret_rules, struct err *err) {
    struct rules rules = {0};
    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, ",");
        FAIL_IF(rules.count == RULES_MAX, err, STATUS_BAD_ARGUMENT, "reject_if: more than %d rules", RULES_MAX);
        TRY(parse_rule(text, length, &rules.rules[rules.count++], err));
        text += length + (text[length] == ',');
    }
    *ret_rules = rules;
    return STATUS_OK;
}

static bool holds(const struct rule *rule, double value) {
    switch (rule->operation) {
    case RULE_LESS:
        return value < rule->value;
    case RULE_LESS_EQUAL:
        return value <= rule->value;
    case RULE_GREATER:
        return value > rule->value;
    case RULE_GREATER_EQUAL:
        return value >= rule->value;
    case RULE_EQUAL:
        return value == rule->value;
    case RULE_UNEQUAL:
        return value != rule->value;
    }
    return false;
}

enum status rules_apply(const struct rules *rules, const struct item *item, uint32_t *judged, struct err *err) {
    for (int i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rules[i];
        if (*judged & (UINT32_C(1) << i)) continue;
        char path[128];
        snprintf(path, sizeof path, "columns.%s", rule->column);
        double value = item_number(item, path, NAN);
        if (isnan(value)) value = item_number(item, rule->column, NAN);
        if (isnan(value)) continue;
        *judged |= UINT32_C(1) << i;
        FAIL_IF(holds(rule, value), err, STATUS_REJECTED, "%s %.6g %s %.6g (reject_if)", rule->column, value,
                operators[rule->operation], rule->value);
    }
    return STATUS_OK;
}
