/* Decides on which host an instance starts. Knows no processes and no time. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_HOST_PLACEMENT_H
#define ICESTREAM_PIPELINES_LAUNCHER_HOST_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

/* A host; the first of a list is the launcher's own. */
struct placement_host {
    const char *name;
    bool there;
    int cores, gpus;
    int same; /* instances of the same stage that are there, without the one to be placed */
    int all;  /* all instances that are there and compute, without it */
};

/* The needs of an instance. */
struct placement_wish {
    const char *on; /* `on` of its stage: the name of a host, "cpu", "gpu", or NULL */
    bool bound;     /* it belongs to the launcher's own host, unless `on` names another one */
    bool gpu;       /* it can use a GPU */
};

/* Returns the host for an instance, or −1 when none that is there will do. Of several that will, it takes the one with
 * fewest instances of the stage, then the one with fewest instances for its cores, then the first. */
int placement_choose(const struct placement_wish *wish, const struct placement_host *hosts, size_t count);
/* Returns whether the instance had better move from a host where it runs: it may not be there, or another host has two
 * instances of the stage less. hosts: counted without the instance. */
bool placement_should_move(const struct placement_wish *wish, const struct placement_host *hosts, size_t count, int at);
/* Returns whether `on` names a kind of host, not a host. */
bool placement_is_kind(const char *on);
/* Returns whether a name is the launcher's own host's: "launcher", or what gethostname says. */
bool placement_is_own(const char *name);

#endif
