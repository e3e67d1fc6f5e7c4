#include "pipelines/launcher/run/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "pipelines/launcher/api/gpus.h"
#include "pipelines/launcher/check.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/cores.h"
#include "pipelines/launcher/run/run_private.h"
#include "pipelines/launcher/status.h"
#include "pipelines/launcher/warnings.h"

enum { MISCOUNT_LIMIT = 20 };
/* s to wait for a ledger while stages run: meanwhile nobody watches the stages. What could not be done is done
 * later. */
static const double PATIENCE = 2;

static void inject_kills(struct run *run, struct supervisor *supervisor) {
    for (size_t k = 0; k < run->replay->kill_count; k++) {
        struct replay_kill *fault = &run->replay->kills[k];
        const struct tally_stage *stage = tally_find(&run->tally, fault->stage);
        if (fault->happened || stage == NULL || stage->done < fault->after) continue;
        for (size_t i = 0; i < run->plan->instance_count && !fault->happened; i++)
            if (strcmp(run->graph->stages[run->plan->instances[i].stage].section.name, fault->stage) == 0 &&
                supervisor_pid(supervisor, i) > 0) {
                fault->happened = true;
                char text[160];
                snprintf(text, sizeof text, "fault: killing %s", run->children[i].name);
                progress_say(&run->progress, text);
                supervisor_kill(supervisor, i, SIGKILL);
            }
    }
}

/* Ends the stream when all files are in place, the sources have seen each of them, and a stage that adopts templates has
 * made again what it wants again. */
static enum status end_replay(struct run *run, struct supervisor *supervisor, struct err *err) {
    bool pending = false;
    int64_t seen = 0;
    for (size_t i = 0; i < run->tally.count; i++)
        if (run->tally.stages[i].source) seen += run->tally.stages[i].seen;
    if (run->replay->drained || !replay_all_in(run->replay) || seen < (int64_t)run->replay->expected) return STATUS_OK;
    TRY(run_again_pending(run, &pending, err));
    if (pending) return STATUS_OK;
    run->replay->drained = true;
    for (size_t i = 0; i < run->plan->instance_count; i++)
        if (run->children[i].source) supervisor_kill(supervisor, i, SIGINT);
    return STATUS_OK;
}

/* Returns whether the instance sends to some stage, and all instances to which it sends have ended. */
static bool receivers_ended(const struct run *run, const struct supervisor *supervisor, size_t instance) {
    bool sends = false;
    for (size_t e = 0; e < run->plan->edge_count; e++)
        for (size_t i = 0; run->plan->edges[e].instance == instance && i < run->plan->instance_count; i++) {
            if (run->plan->instances[i].stage != run->plan->edges[e].to) continue;
            if (supervisor_state(supervisor, i) != CHILD_ENDED) return false;
            sends = true;
        }
    return sends;
}

/* A stage that dies just after its end was acknowledged starts again to announce its end. When all its receivers have
 * ended, this writes into its ledger that it need not. */
static enum status release_senders(struct run *run, const struct supervisor *supervisor, struct err *err) {
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        const struct plan_instance *instance = &run->plan->instances[i];
        struct ledger *ledger = NULL;
        if (run->released[i] || supervisor_state(supervisor, i) == CHILD_ENDED || !receivers_ended(run, supervisor, i))
            continue;
        TRY(session_ledger(&run->session, run->graph->stages[instance->stage].section.name, false, &ledger, err));
        if (ledger == NULL) continue; /* perhaps it comes later */
        enum status status = ledger_end_output(ledger, instance->replica, run->session.run, err);
        ledger_close(&ledger);
        TRY(status);
        run->released[i] = true;
    }
    return STATUS_OK;
}

/* A ledger that cannot be read for a moment is no reason to stop the stages; one that can never be read is. */
static enum status miscount(struct run *run, struct err *err) {
    run->tally_at = clock_monotonic();
    if (err->status == STATUS_UNAVAILABLE) return err->status;
    if (++run->miscounts >= MISCOUNT_LIMIT) return err->status;
    err->message[0] = '\0';
    return STATUS_OK;
}

/* Our own stages rotate their logs while they run. This handles the output of other programs: a program that starts
 * again, or opens its log for each line, gets the new file. */
static void rotate_logs(struct run *run, const struct supervisor *supervisor) {
    int64_t size = (int64_t)(run->options->log_size * (1 << 20));
    for (size_t i = 0; i < run->plan->instance_count; i++)
        log_rotate(run->children[i].log, supervisor_pid(supervisor, i) > 0 ? 2 * size : size);
}

static void look_around(struct run *run, struct supervisor *supervisor) {
    bool due = clock_monotonic() >= run->look_at;
    run_hosts_tend(run, supervisor);
    run_sockets_tend(run, supervisor, due);
    run_again_tend(run, supervisor);
    if (!due) return;
    run_warnings_look(run, false);
    run->look_at = clock_monotonic() + 1;
    rotate_logs(run, supervisor);
    hung_tend(run->hung);
    memory_kills_look(&run->memory);
    if (session_holds_lease(&run->session)) run_changes_tend(run, supervisor);
    run_serve_tend(run);
    run_engine_tend(run);
}

static enum status advance(struct run *run, struct supervisor *supervisor, struct err *err) {
    TRY(session_check_lease(&run->session, err));
    look_around(run, supervisor);
    if (run->replay != NULL) TRY(replay_advance(run->replay, err));
    TRY(release_senders(run, supervisor, err));
    /* Counting may cost at most a twentieth of a core, however long the session gets. */
    double pause = run->replay != NULL && run->replay->kill_count > 0 ? 0 : 1;
    if (20 * run->tally_cost > pause) pause = 20 * run->tally_cost;
    double begin = clock_monotonic();
    if (begin - run->tally_at < pause) return STATUS_OK;
    struct tally tally;
    if (tally_take(&run->session, run->planned, TALLY_LIVE, &tally, err) != STATUS_OK) {
        /* The counts stay as they were; states and notes go on. */
        progress_draw(&run->progress, &run->session, run->plan, &run->tally);
        return miscount(run, err);
    }
    run->miscounts = 0;
    tally_clear(&run->tally);
    run->tally = tally;
    run->tally_at = clock_monotonic();
    run->tally_cost = run->tally_at - begin;
    progress_draw(&run->progress, &run->session, run->plan, &run->tally);
    if (run->replay != NULL) {
        inject_kills(run, supervisor);
        TRY(end_replay(run, supervisor, err));
    }
    return STATUS_OK;
}

static void tick(void *context, struct supervisor *supervisor) {
    struct run *run = context;
    run->supervisor = supervisor;
    if (run->failed) {
        run_hosts_listen(run); /* until the processes on hosts have ended, too */
        return;
    }
    enum status status = advance(run, supervisor, &run->failure);
    if (status == STATUS_UNAVAILABLE && !run->waits) progress_say(&run->progress, run->failure.message);
    run->waits = status == STATUS_UNAVAILABLE;
    if (run->waits) run->failure = (struct err){0};
    if (status == STATUS_OK || run->waits) return;
    run->failed = true;
    progress_say(&run->progress, run->failure.message);
    kill(getpid(), SIGTERM); /* the supervisor handles it and stops */
}

static void say(void *context, const char *text) {
    struct run *run = context;
    log_write(run->log, LOG_INFO, "notice", "%s", text);
    progress_say(&run->progress, text);
}

/* ---- The end ---- */

static int conclude(struct run *run, enum supervisor_outcome outcome, struct err *err) {
    struct tally tally;
    if (outcome == SUPERVISOR_ENDED && run_again_end(run, err) != STATUS_OK) return EXIT_ERROR;
    if (tally_take(&run->session, run->planned, TALLY_COUNTS, &tally, err) != STATUS_OK) return EXIT_ERROR;
    run_warnings_look(run, true);
    progress_end(&run->progress);
    log_write(run->log, LOG_INFO, "end", "%s",
              outcome == SUPERVISOR_ENDED ? "all stages have ended" : "stopped before the end");
    status_table(&run->session, &tally, stdout);
    status_inputs(&tally, stdout);
    warnings_list(run->warnings, stdout);
    status_reasons(&tally, 10, stdout);
    char reason[256];
    int code = EXIT_OK;
    if (outcome != SUPERVISOR_ENDED || run->failed) {
        code = outcome == SUPERVISOR_GAVE_UP && run->wrong_value && !run->failed ? EXIT_USAGE : EXIT_ERROR;
    } else if (!tally_reconciles(&tally, reason, sizeof reason)) {
        status_miscount(&run->session, reason, stderr);
        code = EXIT_COUNTS;
    } else if (!tally_adds_up(&tally, reason, sizeof reason)) {
        fprintf(stderr, "icestream: the counts do not add up: %s; run the session again, and look into %s/log\n",
                reason, run->session.path);
        code = EXIT_COUNTS;
    } else if (tally_has_failed(&tally)) {
        fprintf(stderr, "icestream: some items failed; `icestream retry --session %s` sends them through again\n",
                run->session.path);
        code = EXIT_SOME_FAILED;
    }
    tally_clear(&tally);
    return code;
}

static void run_clear(struct run *run) {
    run_serve_end(run);
    run_hosts_end(run);
    run_engine_end(run); /* the hosts were told */
    run_share_end(run);
    run_again_destroy(run);
    /* Those of a launcher that has taken over lie at the same place. */
    if (session_check_lease(&run->session, NULL) == STATUS_OK) run_sockets_remove(run);
    explicit_bzero(run->secret_key, sizeof run->secret_key);
    for (size_t i = 0; run->texts != NULL && i < run->plan->instance_count; i++) {
        free(run->texts[i].argv[1]);
        for (size_t k = 0; k < RUN_ENV_MAX; k++)
            free(run->texts[i].env[k]);
    }
    free(run->texts);
    free(run->children);
    free(run->released);
    free(run->bindings);
    listeners_destroy(&run->listeners);
    free(run->deaths);
    free(run->judged);
    hung_destroy(&run->hung);
    tally_clear(&run->tally);
    log_close(&run->log);
    json_decref(run->planned);
    json_decref(run->warned);
    json_decref(run->warnings);
    session_end(&run->session);
    run_serve_report(run); /* the session no longer runs, and the report says so */
}

/* Beside other sessions the cores are shared, which a person who looks should know. */
static void say_cores(struct run *run) {
    char shares[160], others[1024];
    cores_describe(run->plan, shares, sizeof shares);
    int count = cores_other_sessions(others, sizeof others);
    log_write(run->log, LOG_INFO, "cores", "%s; %d other sessions run on this machine%s%s", shares, count,
              count > 0 ? ": " : "", others);
    if (count == 0 || !isatty(STDERR_FILENO)) return;
    fprintf(stderr, "icestream: cores: %s; %d other session%s on this machine: %s\n", shares, count,
            count > 1 ? "s run" : " runs", others);
}

/* The log notes where the session ran, for its report. */
static void say_machine(struct run *run) {
    char host[256] = "", names[1024] = "";
    struct gpus *driver = NULL;
    struct gpu gpus[GPUS_MAX];
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') strcpy(host, "?");
    bool uses = false;
    for (size_t i = 0; i < run->plan->instance_count; i++)
        uses |= run->plan->instances[i].gpu_count > 0;
    uses = uses && gpus_open(NULL, &driver, NULL) == STATUS_OK;
    size_t count = uses ? gpus_read(driver, gpus) : 0, used = 0;
    for (size_t i = 0; i < count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "; GPUs: ", gpus[i].name);
    gpus_close(&driver);
    log_write(run->log, LOG_INFO, "machine", "%s; %d cores%s", host, run->plan->machine_cores, names);
}

static enum status run_session(struct run *run, enum supervisor_outcome *ret_outcome, struct err *err) {
    char log[PATH_SIZE];
    TRY(session_file(&run->session, "log", "icestream", ".log", log, err));
    struct err own = {0};
    /* A run without a log can still do its work. */
    if (log_open(log, "icestream", LOG_ERROR + 1, &run->log, &own) == STATUS_OK)
        log_set_size(run->log, (int64_t)(run->options->log_size * (1 << 20)));
    else
        progress_say(&run->progress, own.message);
    /* Whoever read the output may be gone. */
    signal(SIGPIPE, SIG_IGN);
    log_write(run->log, LOG_INFO, "start", "run %d, process %d", run->session.run, (int)getpid());
    say_cores(run);
    say_machine(run);
    if (run->replay != NULL) {
        char target[PATH_SIZE];
        TRY(session_file(&run->session, "replay", "", "", target, err));
        TRY(replay_begin(run->replay, target, err));
    }
    TRY(run_changes_begin(run, err));
    TRY(run_prepare(run, err));
    TRY(run_hosts_begin(run, err));
    TRY(session_read_plan(&run->session, &run->planned, err));
    TRY(run_again_create(run, err));
    if (run->replay != NULL) TRY(replay_advance(run->replay, err));
    run_serve_begin(run);
    progress_begin(&run->progress, run->log);
    const struct supervisor_hooks hooks = {.context = run,
                                           .starting = run_starting,
                                           .where = run_where,
                                           .lost = run_lost,
                                           .died = run_died,
                                           .silent = run_silent,
                                           .tick = tick,
                                           .warn = run_warn,
                                           .say = say};
    TRY(run_engine_begin(run, err));
    run->session.patience = PATIENCE;
    enum status status =
        supervisor_run(run->children, run->plan->instance_count, &run->options->supervisor, &hooks, ret_outcome, err);
    run->session.patience = 0;
    run_hosts_end(run);
    return status;
}

/* A session that has begun before may be restarted by the system, perhaps while the disk is full: it waits for what the
 * machine lacks. A new session has a user in front of it, who sees the error at once. */
static enum status begin(struct run *run, struct err *err) {
    struct session found;
    bool known = session_find(run->options->session, &found, NULL) == STATUS_OK;
    double wait = 1;
    for (bool said = false;; said = true) {
        struct err own = {0};
        enum status status = session_begin(run->options->session, run->plan, &run->session, &own);
        if (status == STATUS_OK && run->graph->separate && !run->session.separate)
            fprintf(stderr,
                    "icestream: %s was begun by a version that kept the products of all sources in one folder, and "
                    "goes on so; if two sources have items of one name, use another --session\n",
                    run->session.path);
        if (status == STATUS_OK) return STATUS_OK;
        FAIL_IF(status != STATUS_UNAVAILABLE || !known, err, status, "%s", own.message);
        if (!said) fprintf(stderr, "icestream: %s; trying again until it works\n", own.message);
        clock_pause(wait);
        wait = wait < 15 ? 2 * wait : 30;
    }
}

/* Whoever reads the session from now on needs no server. */
static void export_ledgers(const struct run *run) {
    struct err err = {0};
    if (run->planned == NULL || session_check_lease(&run->session, NULL) != STATUS_OK) return;
    if (session_export(&run->session, run->planned, &err) == STATUS_OK) return;
    fprintf(stderr, "icestream: the ledgers stay in PostgreSQL alone, and are no files that a copy could show: %s\n",
            err.message);
    if (err.status == STATUS_UNAVAILABLE)
        fputs("icestream: when the server is back, `icestream backup` has them, and the next run writes the files\n",
              stderr);
}

int run_graph(const struct options *options, struct graph *graph, struct plan *plan, struct replay *replay) {
    struct run run = {.options = options,
                      .graph = graph,
                      .plan = plan,
                      .replay = replay,
                      .session.lock = -1,
                      .begun_at = clock_realtime(),
                      .warned = json_object()};
    struct err err = {0};
    enum supervisor_outcome outcome = SUPERVISOR_GAVE_UP;
    enum status status = begin(&run, &err);
    bool begun = status == STATUS_OK;
    if (begun) status = run_session(&run, &outcome, &err);
    if (begun && status == STATUS_OK) status = session_await_lease(&run.session, &err);
    int code = EXIT_ERROR;
    if (status == STATUS_OK) code = conclude(&run, outcome, &err);
    if (begun) export_ledgers(&run);
    if (err.message[0] != '\0') fprintf(stderr, "icestream: %s\n", err.message);
    if (!begun && status == STATUS_BAD_ARGUMENT) code = EXIT_USAGE;
    if (begun && status == STATUS_UNAVAILABLE) code = EXIT_UNAVAILABLE;
    run_clear(&run);
    return code;
}

int command_run(const struct options *options) {
    struct graph *graph;
    struct plan plan;
    int code = check_graph(options->words[0], options, NULL, &graph, &plan);
    if (code != EXIT_OK) return code;
    code = run_graph(options, graph, &plan, NULL);
    plan_clear(&plan);
    graph_destroy(&graph);
    return code;
}
