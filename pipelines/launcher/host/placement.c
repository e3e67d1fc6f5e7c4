#include "pipelines/launcher/host/placement.h"

#include <string.h>
#include <unistd.h>

bool placement_is_kind(const char *on) {
    return strcmp(on, "cpu") == 0 || strcmp(on, "gpu") == 0;
}

bool placement_is_own(const char *name) {
    char own[256] = "";
    if (gethostname(own, sizeof own - 1) != 0) own[0] = '\0';
    return strcmp(name, "launcher") == 0 || strcmp(name, own) == 0;
}

/* Returns whether a host with a GPU is there, or one without. */
static bool any(const struct placement_host *hosts, size_t count, bool with_gpu) {
    for (size_t i = 0; i < count; i++)
        if (hosts[i].there && (hosts[i].gpus > 0) == with_gpu) return true;
    return false;
}

static bool is_named(const char *on, const struct placement_host *hosts, size_t index) {
    return strcmp(on, hosts[index].name) == 0 || (index == 0 && placement_is_own(on));
}

static bool will_do(const struct placement_wish *wish, const struct placement_host *hosts, size_t count, size_t index) {
    const struct placement_host *host = &hosts[index];
    if (!host->there) return false;
    if (wish->on != NULL && !placement_is_kind(wish->on)) return is_named(wish->on, hosts, index);
    if (wish->bound) return index == 0;
    if (wish->on != NULL && strcmp(wish->on, "gpu") == 0) return host->gpus > 0;
    if (wish->on != NULL) return host->gpus == 0 || !any(hosts, count, false);
    return !wish->gpu || host->gpus > 0 || !any(hosts, count, true);
}

static bool is_better(const struct placement_host *a, const struct placement_host *b) {
    if (a->same != b->same) return a->same < b->same;
    long long load_a = (long long)a->all * (b->cores > 0 ? b->cores : 1);
    long long load_b = (long long)b->all * (a->cores > 0 ? a->cores : 1);
    return load_a < load_b;
}

int placement_choose(const struct placement_wish *wish, const struct placement_host *hosts, size_t count) {
    int best = -1;
    for (size_t i = 0; i < count; i++)
        if (will_do(wish, hosts, count, i) && (best < 0 || is_better(&hosts[i], &hosts[best]))) best = (int)i;
    return best;
}

bool placement_should_move(const struct placement_wish *wish, const struct placement_host *hosts, size_t count,
                           int at) {
    int best = placement_choose(wish, hosts, count);
    if (best < 0 || best == at) return false;
    return !will_do(wish, hosts, count, (size_t)at) || hosts[at].same - hosts[best].same >= 1;
}
