#include "stages/classifier/quality.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const char *const NAMES[] = {"quality", "distribution", "resolution", "members", "evidence"};
static const char *const COMPARISONS[] = {">=", "<=", ">", "<"};
static const char AUTO_RULE[] = "quality >= 0.3";

/* A class loses quality if its average is more than so many times as strong as the median. */
static const double STRONGEST = 3;

static const char *skip_space(const char *text) {
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* Returns which word `text` begins with and moves `text` behind it; -1: none. */
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
    if (strcmp(at, "auto") == 0 || *at == '\0') at = AUTO_RULE;
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
        if (!outcomes[rule->terms[i].comparison]) return false;
    }
    return true;
}

/* Returns the resolution (Å) of the last shell before the signal falls below the noise. */
static double estimated_resolution(const struct model *m, const struct model_class *c) {
    int half = m->options.box / 2, s = 1;
    while (s <= half && c->ssnr[s] >= 1)
        s++;
    return m->options.box * m->options.pixel_size / (s > 1 ? s - 1 : 1);
}

/* Sums the agreement of the two halves over shells, up to two shells in a row that do not agree. Leaves out the first
 * shell, which has three pixels and hardly any contrast. */
static double reproducible_detail(const struct model *m, const struct model_class *c) {
    double sum = 0;
    for (int s = 2; 2 * s <= m->size; s++) {
        if (c->fsc[s] < 0.143 && (2 * s + 2 > m->size || c->fsc[s + 1] < 0.143)) break;
        sum += fmin(fmax(c->fsc[s], 0), 0.999);
    }
    return sum;
}

/* Returns Σ |P|² / σ² over the pixels compared, with a mean CTF² of ½. */
static double strength(const struct model *m, const struct model_class *c) {
    double sum = 0;
    for (int s = 1; 2 * s <= m->size; s++)
        sum += 0.5 * M_PI * s * c->tau2[s] / m->sigma2[s];
    return sum;
}

struct weighed {
    double value, weight;
};

static int by_value(const void *a, const void *b) {
    double x = ((const struct weighed *)a)->value, y = ((const struct weighed *)b)->value;
    return (x > y) - (x < y);
}

/* Returns the value below which half of the weight lies; 0: there is no weight. */
static double weighted_median(struct weighed *list, int count) {
    double total = 0, sum = 0;
    qsort(list, (size_t)count, sizeof *list, by_value);
    for (int i = 0; i < count; i++)
        total += list[i].weight;
    for (int i = 0; i < count; i++) {
        sum += list[i].weight;
        if (sum > 0 && 2 * sum >= total) return list[i].value;
    }
    return 0;
}

static double count_members(struct model *m, struct dataset *dataset) {
    double classified = 0;
    for (int k = 0; k < m->class_count; k++)
        m->classes[k].members = m->classes[k].evidence = 0;
    for (size_t i = 0; i < dataset_count(dataset); i++) {
        const struct dataset_particle *p = dataset_at(dataset, i);
        classified += p->class_index >= 0;
        if (p->class_index >= 0 && p->class_index < m->class_count) {
            m->classes[p->class_index].members++;
            m->classes[p->class_index].evidence += p->evidence;
        }
    }
    return classified;
}

/* Returns value / reference, limited to 0 to 1. */
static double part(double value, double reference) {
    return reference > 0 ? fmin(fmax(value / reference, 0), 1) : 0;
}

enum status quality_judge(struct model *m, struct dataset *dataset, const struct quality_rule *rule, struct err *err) {
    _cleanup_(mem_free) struct weighed *list = NULL;
    TRY(mem_new((size_t)m->class_count, sizeof *list, "classes", &list, err));
    double classified = count_members(m, dataset);
    for (int k = 0; k < m->class_count; k++) {
        struct model_class *c = &m->classes[k];
        c->evidence = c->members > 0 ? c->evidence / c->members : 0;
        c->resolution = estimated_resolution(m, c);
        c->detail = c->members > 0 ? reproducible_detail(m, c) : 0;
        list[k] = (struct weighed){strength(m, c), c->members};
    }
    /* Lowers the quality of ice, carbon and other images far stronger than most particles. */
    double usual_strength = weighted_median(list, m->class_count);
    for (int k = 0; k < m->class_count; k++) {
        struct model_class *c = &m->classes[k];
        double excess = part(STRONGEST * usual_strength, strength(m, c));
        c->quality = excess * excess;
        list[k] = (struct weighed){c->evidence, c->members * fmax(c->evidence, 0) * c->quality};
    }
    /* The median of the evidence is weighted by evidence, so that many picks of noise do not lower it. */
    double usual_evidence = weighted_median(list, m->class_count);
    for (int k = 0; k < m->class_count; k++) {
        struct model_class *c = &m->classes[k];
        c->quality *= part(c->evidence, usual_evidence);
        list[k] = (struct weighed){c->detail, c->members * c->quality};
    }
    double usual_detail = weighted_median(list, m->class_count);
    for (int k = 0; k < m->class_count; k++) {
        struct model_class *c = &m->classes[k];
        if (usual_detail > 0) /* else there are too few particles to judge by detail */
            c->quality *= part(c->detail, usual_detail);
        c->kept = c->members > 0 && obeys(rule, c, classified);
    }
    return STATUS_OK;
}

double quality_best(const struct model *m) {
    double best = 0;
    for (int k = 0; k < m->class_count; k++)
        if (m->classes[k].members > 0) best = fmax(best, m->classes[k].quality);
    return best;
}

void quality_explain(const struct model *m, struct dataset *dataset, const char *rule, char *text, size_t size) {
    const struct model_class *best = NULL;
    size_t count = dataset_count(dataset), in_classes = 0, unusable = 0;
    for (int k = 0; k < m->class_count; k++) {
        const struct model_class *c = &m->classes[k];
        if (c->members > 0 && (best == NULL || c->quality > best->quality)) best = c;
    }
    for (size_t i = 0; i < count; i++) {
        const struct dataset_particle *p = dataset_at(dataset, i);
        unusable += p->unusable;
        in_classes += !p->unusable && p->class_index >= 0 && p->class_index < m->class_count;
    }
    bool by_default = strcmp(rule, "auto") == 0;
    int used = snprintf(text, size, "`keep` asks for %s", by_default ? AUTO_RULE : rule);
    if (best != NULL && used >= 0 && (size_t)used < size)
        used +=
            snprintf(text + used, size - (size_t)used,
                     "; the best class has %.0f particles, quality %.2f, evidence %.1f (averages of noise have up to "
                     "15), halves that agree in %.1f shells, and %.1f Å",
                     best->members, best->quality, best->evidence, best->detail, best->resolution);
    if (used >= 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used,
                 "; %zu of %zu particles are in classes, %zu in the empty class, %zu images are ignored", in_classes,
                 count, count - in_classes - unusable, unusable);
}
