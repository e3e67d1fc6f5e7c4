#include "stages/crystal-scorer/series.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* The parts of a pattern: before, the first of the two, between, the second, after. */
struct parts {
    char before[SERIES_PATTERN_SIZE], between[SERIES_PATTERN_SIZE], after[SERIES_PATTERN_SIZE];
    bool time_first;
};

static bool take_apart(const char *pattern, struct parts *parts) {
    const char *drop = strstr(pattern, "{drop}"), *time = strstr(pattern, "{time}");
    if (drop == NULL || time == NULL || strlen(pattern) >= SERIES_PATTERN_SIZE) return false;
    if (strstr(drop + 1, "{drop}") != NULL || strstr(time + 1, "{time}") != NULL) return false;
    const char *first = drop < time ? drop : time, *second = drop < time ? time : drop;
    parts->time_first = time < drop;
    snprintf(parts->before, sizeof parts->before, "%.*s", (int)(first - pattern), pattern);
    snprintf(parts->between, sizeof parts->between, "%.*s", (int)(second - first - 6), first + 6);
    snprintf(parts->after, sizeof parts->after, "%s", second + 6);
    return true;
}

enum status series_check(const char *pattern, struct err *err) {
    struct parts parts;
    FAIL_IF(!take_apart(pattern, &parts), err, STATUS_BAD_ARGUMENT,
            "series: '%.200s' is no pattern: it needs {drop} and {time} once each, as {drop}_t{time}", pattern);
    FAIL_IF(parts.time_first && parts.between[0] == '\0', err, STATUS_BAD_ARGUMENT,
            "series: '%.200s': nothing between {time} and {drop} tells where the one ends", pattern);
    return STATUS_OK;
}

/* Returns the last place of `what` in text[0 … length); NULL: none. */
static const char *find_last(const char *text, size_t length, const char *what) {
    size_t size = strlen(what);
    for (size_t i = length + 1; i-- > 0;)
        if (i + size <= length && memcmp(text + i, what, size) == 0) return text + i;
    return NULL;
}

/* Copies a part of a text that is shorter than a name. */
static void copy(char *out, const char *from, size_t length) {
    memcpy(out, from, length);
    out[length] = '\0';
}

/* Returns where the part of the path begins that the pattern is matched with: as many folders as the pattern has, and
 * the name. */
static const char *own_part(const char *pattern, const char *id) {
    int slashes = 0;
    for (const char *c = pattern; *c != '\0'; c++)
        slashes += *c == '/';
    for (const char *c = id + strlen(id); c > id; c--)
        if (c[-1] == '/' && slashes-- == 0) return c;
    return id;
}

bool series_parse(const char *pattern, const char *id, struct series_name *ret_name) {
    struct parts parts;
    size_t length = strlen(id);
    if (!take_apart(pattern, &parts) || length >= SERIES_NAME_SIZE) return false;
    bool drop_leads = !parts.time_first && parts.before[0] == '\0'; /* it takes the folders as well */
    const char *own = drop_leads ? id : own_part(pattern, id), *end = id + length, *second;
    size_t after = strlen(parts.after), before = strlen(parts.before), folders = (size_t)(own - id);
    if (before + after > (size_t)(end - own) || memcmp(end - after, parts.after, after) != 0 ||
        memcmp(own, parts.before, before) != 0)
        return false;
    const char *begin = own + before;
    end -= after;
    if (parts.between[0] == '\0') { /* digits at the end are the time */
        for (second = end; second > begin && isdigit((unsigned char)second[-1]);)
            second--;
    } else {
        second = find_last(begin, (size_t)(end - begin), parts.between);
        if (second == NULL) return false;
    }
    const char *second_begin = second + strlen(parts.between);
    if (second == begin || second_begin == end) return false;
    const char *drop = parts.time_first ? second_begin : begin, *time = parts.time_first ? begin : second_begin;
    copy(ret_name->time, time, (size_t)((parts.time_first ? second : end) - time));
    /* Drops of the same name in two folders differ. */
    copy(ret_name->drop, id, folders);
    copy(ret_name->drop + folders, drop, (size_t)((parts.time_first ? end : second) - drop));
    return true;
}

int series_compare(const struct series_name *a, const struct series_name *b) {
    int order = strcmp(a->drop, b->drop);
    if (order != 0) return order;
    if (isdigit((unsigned char)a->time[0]) && isdigit((unsigned char)b->time[0])) {
        double p = strtod(a->time, NULL), q = strtod(b->time, NULL);
        if (p != q) return p < q ? -1 : 1;
    }
    return strcmp(a->time, b->time);
}

void series_learn(int classes, const int *of_image, const bool *begins, size_t count, struct series_model *ret_model) {
    struct series_model model = {.classes = classes};
    double rows[OUTCOMES] = {0}, first = 0, even = 1.0 / classes;
    for (size_t i = 0; i < count; i++) {
        model.share[of_image[i]] += 1.0 / (double)count;
        if (begins[i]) {
            model.prior[of_image[i]]++;
            first++;
        } else {
            model.transition[of_image[i - 1]][of_image[i]]++;
            rows[of_image[i - 1]]++;
        }
    }
    for (int a = 0; a < classes; a++) {
        model.prior[a] = (model.prior[a] + even) / (first + 1);
        for (int b = 0; b < classes; b++)
            model.transition[a][b] = (model.transition[a][b] + even) / (rows[a] + 1);
    }
    *ret_model = model;
}

/* Normalises values to a sum of 1; if all are 0, to equal values. */
static void normalise(double *values, int count) {
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += values[k];
    for (int k = 0; k < count; k++)
        values[k] = sum > 0 ? values[k] / sum : 1.0 / count;
}

/* Computes P(image | class) up to a factor. Never 0: one image must not rule out what all others show. */
static void likelihoods(const struct series_model *m, const float *seen, double *ret_likelihood) {
    for (int k = 0; k < m->classes; k++)
        ret_likelihood[k] = fmax((double)seen[k], 1e-9) / fmax(m->share[k], 1e-9);
}

enum status series_smooth(const struct series_model *m, const float *seen, size_t count, float *ret_known,
                          struct err *err) {
    int classes = m->classes;
    _cleanup_(mem_free) double *forward = NULL;
    double backward[OUTCOMES], likelihood[OUTCOMES], known[OUTCOMES];
    TRY(mem_new(count, OUTCOMES * sizeof *forward, "a time series", &forward, err));
    for (size_t i = 0; i < count; i++) {
        double *now = forward + i * OUTCOMES;
        const double *before = i > 0 ? now - OUTCOMES : NULL;
        likelihoods(m, seen + i * (size_t)classes, likelihood);
        for (int b = 0; b < classes; b++) {
            double sum = i == 0 ? m->prior[b] : 0;
            for (int a = 0; before != NULL && a < classes; a++)
                sum += before[a] * m->transition[a][b];
            now[b] = sum * likelihood[b];
        }
        normalise(now, classes);
    }
    for (int k = 0; k < classes; k++)
        backward[k] = 1.0 / classes;
    for (size_t i = count; i-- > 0;) {
        double earlier[OUTCOMES] = {0};
        likelihoods(m, seen + i * (size_t)classes, likelihood);
        for (int k = 0; k < classes; k++)
            known[k] = forward[i * OUTCOMES + (size_t)k] * backward[k];
        normalise(known, classes);
        for (int a = 0; a < classes; a++) {
            for (int b = 0; b < classes; b++)
                earlier[a] += m->transition[a][b] * likelihood[b] * backward[b];
        }
        normalise(earlier, classes);
        memcpy(backward, earlier, sizeof backward);
        for (int k = 0; k < classes; k++)
            ret_known[i * (size_t)classes + (size_t)k] = (float)known[k];
    }
    return STATUS_OK;
}
