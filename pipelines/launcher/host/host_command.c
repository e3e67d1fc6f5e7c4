/* `icestream host`: makes this machine a host of a session. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/host/agent.h"
#include "pipelines/launcher/host/host_message.h"
#include "pipelines/launcher/host/placement.h"
#include "pipelines/launcher/machine.h"
#include "pipelines/launcher/metrics/metrics_private.h"

static const double ALONE = 600; /* s without a launcher before a host ends */

/* A name stands in graphs, messages and file names: that of the machine up to its first dot, or what the user gives.
 * Several jobs of Slurm may run on one machine, each with a share of it: their numbers tell them apart. */
static enum status find_name(const struct options *options, char name[HOST_NAME_SIZE], struct err *err) {
    char own[256] = "";
    if (gethostname(own, sizeof own - 1) != 0) own[0] = '\0';
    own[strcspn(own, ".")] = '\0';
    const char *job = getenv("SLURM_JOB_ID");
    size_t used = strlen(own);
    if (job != NULL && used > 0) snprintf(own + used, sizeof own - used, "-%s", job);
    const char *given = options->name != NULL ? options->name : own;
    FAIL_IF(
        !graph_is_stage_name(given) || placement_is_kind(given) || strcmp(given, "launcher") == 0, err,
        STATUS_BAD_ARGUMENT,
        "\"%.80s\" cannot name a host; letters, digits, - and _ can (but for cpu, gpu and launcher): give it a --name",
        given);
    snprintf(name, HOST_NAME_SIZE, "%s", given);
    return STATUS_OK;
}

static int code_of(enum agent_outcome outcome, const char *session) {
    switch (outcome) {
    case AGENT_OVER:
        printf("the session %s is over\n", session);
        return EXIT_OK;
    case AGENT_LEFT:
        printf("this host has left the session %s\n", session);
        return EXIT_OK;
    case AGENT_REFUSED:
        return EXIT_ERROR;
    case AGENT_ALONE:
        break;
    }
    fprintf(stderr, "icestream: no launcher runs %s; this host ends\n", session);
    return EXIT_UNAVAILABLE;
}

int command_host(const struct options *options) {
    char name[HOST_NAME_SIZE], session[PATH_SIZE];
    struct err err = {0};
    struct machine machine;
    enum agent_outcome outcome = AGENT_ALONE;
    char *whole = realpath(options->words[0], NULL);
    if (whole == NULL || strlen(whole) >= sizeof session) {
        fprintf(stderr, "icestream: %s: %s\n", options->words[0], whole == NULL ? strerror(errno) : "too long a path");
        free(whole);
        return EXIT_USAGE;
    }
    snprintf(session, sizeof session, "%s", whole);
    free(whole);
    enum status status = find_name(options, name, &err);
    machine_inspect(&machine);
    const struct agent_options agent = {.session = session,
                                        .name = name,
                                        .address = options->address,
                                        .revision = metrics_build(),
                                        .cores = machine.cores,
                                        .gpus = machine.cuda ? machine.gpus : 0,
                                        .alone = options->alone > 0 ? options->alone : ALONE,
                                        .stop_kill = options->supervisor.stop_kill};
    signal(SIGPIPE, SIG_IGN); /* whoever read the output may be gone, such as an ssh that has started this */
    if (status == STATUS_OK) status = agent_run(&agent, &outcome, &err);
    if (status == STATUS_OK) return code_of(outcome, session);
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
