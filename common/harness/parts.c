#include "common/harness/parts.h"

#include <stdarg.h>

static const char *const names[PART_COUNT] = {"load", "process", "store", "ledger"};

void parts_begin(struct parts *parts, double now) {
    if (parts->begun == 0) parts->begun = now;
}

void parts_end(struct parts *parts, double now) {
    if (parts->begun > 0) parts->ended = now;
}

/* Adds up the work since the last change before the number of workers changes. */
static void change(struct parts *parts, enum part part, int by, double now) {
    parts->part[part].busy += parts->part[part].active * (now - parts->part[part].since);
    parts->part[part].since = now;
    parts->part[part].active += by;
}

void parts_enter(struct parts *parts, enum part part, double now) {
    change(parts, part, 1, now);
}

void parts_leave(struct parts *parts, enum part part, double now) {
    change(parts, part, -1, now);
}

double parts_wall(const struct parts *parts, double now) {
    if (parts->begun == 0) return 0;
    return (parts->ended > 0 ? parts->ended : now) - parts->begun;
}

double parts_busy(const struct parts *parts, enum part part, double now) {
    if (parts->part[part].threads == 0) return 0;
    return (parts->part[part].busy + parts->part[part].active * (now - parts->part[part].since)) /
           parts->part[part].threads;
}

enum part parts_slowest(const struct parts *parts, double now, double *ret_busy) {
    enum part slowest = PART_LOAD;
    for (int i = PART_LOAD + 1; i < PART_COUNT; i++)
        if (parts_busy(parts, (enum part)i, now) > parts_busy(parts, slowest, now)) slowest = (enum part)i;
    *ret_busy = parts_busy(parts, slowest, now);
    return slowest;
}

json_t *parts_json(const struct parts *parts, double now) {
    double wall = parts_wall(parts, now), busy;
    enum part slowest = parts_slowest(parts, now, &busy);
    json_t *root = json_pack("{s:f, s:f, s:s}", "wall", wall, "setup", parts->setup, "slowest", names[slowest]);
    for (int i = 0; i < PART_COUNT && root != NULL; i++) {
        busy = parts_busy(parts, (enum part)i, now);
        /* Work before the first item (idle) may take longer than the run has lasted. */
        json_object_set_new(root, names[i],
                            json_pack("{s:i, s:f, s:f}", "threads", parts->part[i].threads, "busy", busy, "waiting",
                                      wall > busy ? wall - busy : 0.0));
    }
    return root;
}

static double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static void __attribute__((format(printf, 4, 5)))
append(char *line, size_t size, size_t *used, const char *format, ...) {
    if (*used >= size) return;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line + *used, size - *used, format, args);
    va_end(args);
    if (length > 0) *used += (size_t)length;
}

void parts_line(const struct parts *parts, long long done, double now, char *line, size_t size) {
    double wall = parts_wall(parts, now), longest;
    enum part slowest = parts_slowest(parts, now, &longest);
    size_t used = 0;
    append(line, size, &used, "%lld done in %.3g s, %.3g ms each:", done, wall,
           done > 0 ? 1e3 * wall / (double)done : 0);
    for (int i = 0; i < PART_COUNT; i++) {
        double busy = parts_busy(parts, (enum part)i, now);
        append(line, size, &used, " %s %d × %.3g s busy (%.0f %%)", names[i], parts->part[i].threads, busy,
               percent(busy, wall));
        if (i == PART_PROCESS && parts->setup > 0) append(line, size, &used, ", %.3g s of it set-up", parts->setup);
        append(line, size, &used, i + 1 < PART_COUNT ? "," : "; ");
    }
    append(line, size, &used, "%s is the slowest: wall/slowest %.2f", names[slowest], longest > 0 ? wall / longest : 0);
}

void parts_table(const struct parts *parts, long long done, double now, FILE *out) {
    double wall = parts_wall(parts, now), longest;
    enum part slowest = parts_slowest(parts, now, &longest);
    fprintf(out, "%-10s %8s %12s %12s %10s %8s\n", "part", "threads", "busy each", "waiting", "ms/item", "of wall");
    for (int i = 0; i < PART_COUNT; i++) {
        double busy = parts_busy(parts, (enum part)i, now);
        int threads = parts->part[i].threads;
        fprintf(out, "%-10s %8d %10.3f s %10.3f s %10.2f %6.0f %%\n", names[i], threads, busy,
                wall > busy ? wall - busy : 0, done > 0 ? 1e3 * busy * threads / (double)done : 0, percent(busy, wall));
    }
    fprintf(out, "%lld done in %.3f s, %.2f ms each", done, wall, done > 0 ? 1e3 * wall / (double)done : 0);
    if (parts->setup > 0) fprintf(out, ", %.3f s of it set-up in process", parts->setup);
    fprintf(out, "; %s is the slowest: wall/slowest %.2f\n", names[slowest], longest > 0 ? wall / longest : 0);
}
