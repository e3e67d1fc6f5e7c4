/* The files of a session that several hosts share. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "pipelines/launcher/run/run_private.h"

enum { RUNS_MOST = 200000, MOVES_MOST = 10000 }; /* their product fits into an int */

/* Writers that still run, on a host that is cut off, notice: what they hold is void (common/files.h). */
static void sweep_all(const struct run *run) {
    char folder[PATH_SIZE];
    for (size_t i = 0; i < run->graph->stage_count; i++)
        if (path_join(run->session.path, run->graph->stages[i].section.name, folder, sizeof folder, NULL) == STATUS_OK)
            file_sweep(folder, NULL);
}

void run_share(struct run *run) {
    char host[256] = "", token[17];
    uint64_t random = (uint64_t)getpid();
    (void)!getrandom(&random, sizeof random, 0); /* without random numbers the process tells itself apart on its host */
    snprintf(token, sizeof token, "%016llx", (unsigned long long)random);
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') strcpy(host, "host");
    file_share(host, token);
    sweep_all(run);
    run->orders.shared = true;
    /* A host may still have the record of endpoints of an earlier run, which is then an earlier one. */
    run->orders.endpoints_number = run->session.run % RUNS_MOST * MOVES_MOST;
}

/* A launcher that has taken over has writers of its own. */
void run_share_end(const struct run *run) {
    if (run->orders.shared && session_check_lease(&run->session, NULL) == STATUS_OK) sweep_all(run);
}
