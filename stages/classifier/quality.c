#include "quality.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const char *const NAMES[] = {"quality", "distribution", "resolution", "members", "evidence"};
static const char *const COMPARISONS[] = {">=", "<=", ">", "<"};
static const char AUTO_RULE[] = "quality >= 0.4";

static const char *skip_space(const char *text) {
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* One of the words at `text`, which is moved behind it; -1: none. */
static int take_word(const char **text, const char *const *words, int count) {
    *text = skip_space(*text);
    for (int i = 0; i < count; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(*text, words[i], length) == 0) {
            *text += length;
            return i;
        }
    }
    return -1;
}

enum status quality_rule_parse(const char *text, struct quality_rule *ret_rule, struct err *err) {
    struct quality_rule rule = {0};
    const char *whole = text, *at = skip_space(text);
    if (strcmp(at, "all") == 0) {
        *ret_rule = rule;
        return STATUS_OK;
    }
    if (strcmp(at, "auto") == 0 || *at == '\0')
        at = AUTO_RULE;
    static const char *const joint[] = {"and"};
    do {
        FAIL_IF(rule.count == QUALITY_TERMS, err, STATUS_BAD_ARGUMENT, "keep: \"%s\" has more than %d comparisons",
                whole, QUALITY_TERMS);
        int name = take_word(&at, NAMES, 5), comparison = name < 0 ? -1 : take_word(&at, COMPARISONS, 4);
        char *end = NULL;
        double value = comparison < 0 ? 0 : strtod(at, &end);
        FAIL_IF(comparison < 0 || end == at || !isfinite(value), err, STATUS_BAD_ARGUMENT,
                "keep: \"%s\" is not understood at \"%s\"; give auto, all, or comparisons as \"quality >= 0.3 and "
                "resolution < 20\" of quality, distribution, resolution, members, evidence",
                whole, at);
        at = end;
        rule.terms[rule.count].name = name;
        rule.terms[rule.count].comparison = comparison;
        rule.terms[rule.count].value = value;
        rule.count++;
    } while (take_word(&at, joint, 1) == 0);
    FAIL_IF(*skip_space(at) != '\0', err, STATUS_BAD_ARGUMENT,
            "keep: \"%s\" is not understood at \"%s\"; comparisons are joined by \"and\"", whole, at);
    *ret_rule = rule;
    return STATUS_OK;
}

static bool obeys(const struct quality_rule *rule, const struct model_class *c, double particles) {
    for (int i = 0; i < rule->count; i++) {
        const double values[] = {c->quality, particles > 0 ? c->members / particles : 0, c->resolution, c->members,
                                 c->evidence};
        double value = values[rule->terms[i].name], limit = rule->terms[i].value;
        const bool outcomes[] = {value >= limit, value <= limit, value > limit, value < limit};
        if (!outcomes[rule->terms[i].comparison])
            return false;
    }
    return true;
}

/* Last shell before signal falls below noise, as a resolution. */
static double estimated_resolution(const struct model *m, const struct model_class *c) {
    int half = m->options.box / 2, s = 1;
    while (s <= half && c->ssnr[s] >= 1)
        s++;
    return m->options.box * m->options.pixel_size / (s > 1 ? s - 1 : 1);
}

/* Σ over shells of ln(1 + SSNR) of what the halves of a class have in common, in units of shells: the reproducible
 * detail of the average. */
static double reproducible_detail(const struct model *m, const struct model_class *c) {
    double sum = 0;
    for (int s = 1; 2 * s <= m->size; s++) {
        double f = fmin(fmax(c->fsc[s], 0), 0.999);
        if (f < 0.143)
            break;
        sum += f;
    }
    return sum;
}

enum status quality_judge(struct model *m, struct dataset *dataset, const struct quality_rule *rule, struct err *err) {
    size_t count = dataset_count(dataset);
    double best = 0, classified = 0;
    (void)err;
    for (int k = 0; k < m->class_count; k++)
        m->classes[k].members = m->classes[k].evidence = 0;
    for (size_t i = 0; i < count; i++) {
        const struct dataset_particle *p = dataset_at(dataset, i);
        if (p->class_index < 0)
            continue;
        classified++;
        if (p->class_index < m->class_count) {
            m->classes[p->class_index].members++;
            m->classes[p->class_index].evidence += p->evidence;
        }
    }
    for (int k = 0; k < m->class_count; k++) {
        struct model_class *c = &m->classes[k];
        c->evidence = c->members > 0 ? c->evidence / c->members : 0;
        c->resolution = estimated_resolution(m, c);
        c->detail = c->members > 0 ? reproducible_detail(m, c) : 0;
        if (c->detail > best)
            best = c->detail;
    }
    for (int k = 0; k < m->class_count; k++) {
        struct model_class *c = &m->classes[k];
        c->quality = best > 0 ? c->detail / best : 0;
        c->kept = c->members > 0 && obeys(rule, c, classified);
    }
    return STATUS_OK;
}
