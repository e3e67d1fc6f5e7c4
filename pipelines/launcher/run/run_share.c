/* The files of a session that several hosts share. */
#include <string.h>
#include <unistd.h>

#include "pipelines/launcher/run/run_private.h"

/* Writers that still run, on a host that is cut off, notice: what they hold is void (common/files.h). */
static void sweep_all(const struct run *run) {
    char folder[PATH_SIZE];
    for (size_t i = 0; i < run->graph->stage_count; i++)
        if (path_join(run->session.path, run->graph->stages[i].section.name, folder, sizeof folder, NULL) == STATUS_OK)
            file_sweep(folder, NULL);
}

void run_share(struct run *run, const char *token) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') strcpy(host, "host");
    file_share(host, token);
    sweep_all(run);
    run->orders.shared = true;
}

void run_share_end(const struct run *run) {
    if (run->orders.shared) sweep_all(run);
}
