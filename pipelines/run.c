#include "pipelines/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "common/transport_keys.h"
#include "pipelines/check.h"
#include "pipelines/hung.h"
#include "pipelines/progress.h"
#include "pipelines/status.h"

enum { CRASH_LIMIT = 3, ENV_MAX = 8, MISCOUNT_LIMIT = 20 };
static const double STUCK = 3; /* s of silence after which one that holds a ledger's lock is taken to be stuck */
static const double REPLAY_IDLE = 2; /* s without a new file after which a replay's stream ends */

/* Texts of one child, which its spec points into. */
struct child_texts {
    char *argv[4];
    char *env[ENV_MAX];
    char program[PATH_SIZE], orders[PATH_SIZE], log[PATH_SIZE], heartbeat[PATH_SIZE], current[PATH_SIZE];
};

struct run {
    const struct options *options;
    const struct graph *graph;
    struct plan *plan;
    struct replay *replay;
    struct session session;
    json_t *planned;
    bool *released; /* instances that no receiver is left for */
    char sockets[PATH_SIZE]; /* folder of the ipc endpoints */
    struct supervisor_child *children;
    struct supervisor *supervisor; /* once it runs */
    struct child_texts *texts;
    struct hung *hung;
    struct tally tally;
    double tally_at, tally_cost;
    struct log *log; /* of the launcher itself */
    double logs_at;
    int miscounts; /* in a row */
    struct progress progress;
    bool waits;         /* the machine lacks something; said */
    struct err failure; /* of a hook */
    bool failed;
};

/* Sockets live in a folder of their own, which only this user may enter, and whose path is short. */
static enum status make_socket_folder(struct run *run, struct err *err) {
    const char *const parents[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
    struct stat info;
    for (size_t i = 0; i < 3; i++) {
        if (parents[i] == NULL || parents[i][0] != '/' || strlen(parents[i]) > PLAN_IPC_MAX - 32 ||
            access(parents[i], W_OK | X_OK) != 0 || stat(parents[i], &info) != 0)
            continue;
        /* Where others may rename what is ours, they could put a folder of theirs in its place. */
        if ((info.st_mode & 022) != 0 && (info.st_mode & S_ISVTX) == 0)
            continue;
        snprintf(run->sockets, sizeof run->sockets, "%s/icestream-XXXXXX", parents[i]);
        /* Whatever the umask left of its mode. */
        if (mkdtemp(run->sockets) != NULL && chmod(run->sockets, 0700) == 0)
            return STATUS_OK;
    }
    run->sockets[0] = '\0';
    FAIL(err, STATUS_IO,
         "no folder for sockets can be made in XDG_RUNTIME_DIR, TMPDIR or /tmp: %s (one that others may write to must be "
         "sticky, as /tmp is)",
         strerror(errno));
}

static void remove_socket_folder(const char *path) {
    if (path[0] == '\0')
        return;
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (folder == NULL && descriptor >= 0)
        close(descriptor);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry != NULL; entry = readdir(folder))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
    rmdir(path);
}

/* A launcher that was killed has left its folder; its name is kept in log/sockets. */
static enum status replace_socket_folder(struct run *run, struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *old = NULL;
    TRY(session_file(&run->session, "log", "sockets", "", path, err));
    if (file_exists(path))
        TRY(file_read_whole(path, PATH_SIZE, &old, NULL, err));
    if (old != NULL && strncmp(path_name(old), "icestream-", 10) == 0 && strlen(path_name(old)) == 16)
        remove_socket_folder(old);
    TRY(make_socket_folder(run, err));
    return file_write_whole(path, run->sockets, strlen(run->sockets), err);
}

/* GPU i of what this process may see, as CUDA numbers them. */
static void append_gpu(char *text, size_t size, int gpu) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    size_t used = strlen(text);
    for (int i = 0; visible != NULL && i < gpu && *visible != '\0'; i++)
        visible += strcspn(visible, ",") + (strchr(visible, ',') != NULL);
    if (visible != NULL)
        snprintf(text + used, size - used, "%s%.*s", used ? "," : "", (int)strcspn(visible, ","), visible);
    else
        snprintf(text + used, size - used, "%s%d", used ? "," : "", gpu);
}

static enum status fill_environment(const struct plan_instance *instance, struct child_texts *texts, struct err *err) {
    char gpus[512] = "";
    for (size_t g = 0; g < instance->gpu_count; g++)
        append_gpu(gpus, sizeof gpus, instance->gpus[g]);
    int count = 0;
    bool well = asprintf(&texts->env[count++], "OMP_NUM_THREADS=%d", instance->threads) >= 0 &&
                (texts->env[count++] = strdup("OMP_WAIT_POLICY=passive")) != NULL &&
                (texts->env[count++] = strdup("OPENBLAS_NUM_THREADS=1")) != NULL;
    /* With a device of its own choice a stage sees all GPUs. */
    if (well && (instance->gpu_count > 0 || strcmp(instance->device, "cpu") == 0))
        well = asprintf(&texts->env[count], "CUDA_VISIBLE_DEVICES=%s", gpus) >= 0;
    FAIL_IF(!well, err, STATUS_NO_MEMORY, "no memory for the environment of %s", instance->name);
    return STATUS_OK;
}

static enum status prepare_child(struct run *run, size_t index, const struct instance_orders *orders, struct err *err) {
    const struct plan_instance *instance = &run->plan->instances[index];
    const struct graph_stage *stage = &run->graph->stages[instance->stage];
    struct child_texts *texts = &run->texts[index];
    char ledger[PATH_SIZE];
    TRY(session_file(&run->session, "log", instance->name, ".instance.json", texts->orders, err));
    TRY(session_file(&run->session, "log", instance->name, ".log", texts->log, err));
    TRY(session_file(&run->session, "log", instance->name, ".heartbeat.json", texts->heartbeat, err));
    TRY(session_file(&run->session, "log", instance->name, ".current", texts->current, err));
    TRY(session_file(&run->session, "ledger", stage->section.name, ".sqlite", ledger, err));
    snprintf(texts->program, sizeof texts->program, "%s", stage->program);
    texts->argv[0] = texts->program;
    texts->argv[1] = strdup("--instance");
    texts->argv[2] = texts->orders;
    FAIL_IF(texts->argv[1] == NULL, err, STATUS_NO_MEMORY, "no memory for the arguments of %s", instance->name);
    TRY(fill_environment(instance, texts, err));
    unlink(texts->current);
    TRY(instance_write(&run->session, run->plan, index, orders, err));
    run->children[index] = (struct supervisor_child){.name = instance->name,
                                                     .argv = texts->argv,
                                                     .env = texts->env,
                                                     .log = texts->log,
                                                     .heartbeat = texts->heartbeat,
                                                     .heartbeat_expected = stage->describe != NULL,
                                                     .source = plan_is_source(stage)};
    return STATUS_OK;
}

/* Claims that an earlier launcher's processes held when they went down with it. */
static enum status release_claims(struct run *run, struct err *err) {
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        const struct plan_instance *instance = &run->plan->instances[i];
        struct ledger *ledger = NULL;
        TRY(session_ledger(&run->session, run->graph->stages[instance->stage].section.name, false, &ledger, err));
        if (ledger == NULL)
            continue;
        enum status status = ledger_release_instance(ledger, instance->replica, err);
        ledger_close(&ledger);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status prepare(struct run *run, struct err *err) {
    char public_key[TRANSPORT_KEY_SIZE], secret_key[TRANSPORT_KEY_SIZE];
    struct instance_orders orders = {.until_idle = run->options->until_idle,
                                     .log_size = (int64_t)(run->options->log_size * (1 << 20))};
    if (run->replay != NULL && orders.until_idle < 0)
        orders.until_idle = run->replay->longest_gap + REPLAY_IDLE;
    if (run->replay != NULL)
        orders.recorded = run->replay->source;
    if (run->graph->tcp) {
        TRY(transport_make_keys(public_key, secret_key, err));
        orders.curve_public = public_key;
        orders.curve_secret = secret_key;
    }
    TRY(hung_create(run->plan, orders.curve_public, orders.curve_secret, &run->hung, err));
    run->children = calloc(run->plan->instance_count, sizeof *run->children);
    run->texts = calloc(run->plan->instance_count, sizeof *run->texts);
    run->released = calloc(run->plan->instance_count, sizeof *run->released);
    FAIL_IF(run->children == NULL || run->texts == NULL || run->released == NULL, err, STATUS_NO_MEMORY,
            "no memory for the processes");
    TRY(replace_socket_folder(run, err));
    TRY(plan_endpoints(run->plan, run->sockets, err));
    TRY(release_claims(run, err));
    for (size_t i = 0; i < run->plan->instance_count; i++)
        TRY(prepare_child(run, i, &orders, err));
    return STATUS_OK;
}

/* Hooks. */

/* The item on whose account the child died; empty: none. That of the thread that the signal came from, where the stage
 * could tell; else the one that was in process. */
static void take_current(const struct child_texts *texts, char *id, size_t size) {
    static const off_t places[] = {PATH_SIZE, 0};
    int file = open(texts->current, O_RDONLY | O_CLOEXEC);
    id[0] = '\0';
    for (size_t i = 0; file >= 0 && id[0] == '\0' && i < 2; i++) {
        ssize_t length = pread(file, id, size - 1, places[i]);
        id[length > 0 ? length : 0] = '\0';
    }
    if (file >= 0)
        close(file);
    id[strcspn(id, "\n")] = '\0';
}

/* Whether a death speaks against the item: a SIGKILL comes from outside, the memory killer included, and an exit for
 * SIGTERM was asked for. */
static bool is_crash(int wait_status) {
    if (WIFEXITED(wait_status))
        return WEXITSTATUS(wait_status) != 128 + SIGTERM && WEXITSTATUS(wait_status) != EXIT_UNAVAILABLE;
    int signal = WTERMSIG(wait_status);
    return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

static enum status count_crash(struct run *run, struct ledger *ledger, size_t child, const char *id, int wait_status,
                               struct err *err) {
    char reason[256], text[ITEM_ID_MAX + 256];
    const char *name = run->children[child].name;
    if (WIFEXITED(wait_status))
        snprintf(reason, sizeof reason, "%s ended with exit code %d on it, %d times", name, WEXITSTATUS(wait_status),
                 CRASH_LIMIT);
    else
        snprintf(reason, sizeof reason, "%s was killed by %s on it, %d times", name, strsignal(WTERMSIG(wait_status)),
                 CRASH_LIMIT);
    bool aside = false;
    TRY(ledger_crashed(ledger, id, CRASH_LIMIT, reason, &aside, err));
    snprintf(text, sizeof text, aside ? "%s: %s is set aside: it has brought the stage down %d times"
                                      : "%s: died while it worked on %s",
             name, id, CRASH_LIMIT);
    progress_say(&run->progress, text);
    return STATUS_OK;
}

static enum status bury_in_ledger(struct run *run, struct ledger *ledger, size_t child, int wait_status,
                                  int64_t *ret_finished, struct err *err) {
    const struct plan_instance *instance = &run->plan->instances[child];
    char id[ITEM_ID_MAX + 1];
    struct ledger_counts counts;
    take_current(&run->texts[child], id, sizeof id);
    if (id[0] != '\0' && is_crash(wait_status))
        TRY(count_crash(run, ledger, child, id, wait_status, err));
    /* Counted once, even where what follows must be tried again. */
    unlink(run->texts[child].current);
    TRY(ledger_release_instance(ledger, instance->replica, err));
    TRY(ledger_counts(ledger, &counts, err));
    *ret_finished = counts.done + counts.rejected + counts.failed;
    return STATUS_OK;
}

/* A process that was stopped while it wrote keeps all others from its ledger: it goes, whatever else is to be done. */
static bool kill_stuck_writer(struct run *run, size_t stage) {
    char path[PATH_SIZE];
    struct err err = {0};
    if (run->supervisor == NULL || session_file(&run->session, "ledger", run->graph->stages[stage].section.name,
                                                ".sqlite", path, &err) != STATUS_OK)
        return false;
    pid_t writer = ledger_writer(path);
    for (size_t i = 0; writer > 0 && i < run->plan->instance_count; i++) {
        if (supervisor_pid(run->supervisor, i) != writer || supervisor_silence(run->supervisor, i) < STUCK)
            continue;
        char text[160];
        snprintf(text, sizeof text, "%s does not answer and keeps the others from the ledger: it is killed",
                 run->children[i].name);
        progress_say(&run->progress, text);
        supervisor_kill(run->supervisor, i, SIGKILL);
        return true;
    }
    return false;
}

/* The ledger of a stage for what the launcher writes into it. NULL: a third party's. */
static enum status write_ledger(struct run *run, size_t stage, struct ledger **ret_ledger, struct err *err) {
    const char *name = run->graph->stages[stage].section.name;
    kill_stuck_writer(run, stage);
    struct err first = {0};
    if (session_ledger(&run->session, name, false, ret_ledger, &first) == STATUS_OK)
        return STATUS_OK;
    kill_stuck_writer(run, stage);
    return session_ledger(&run->session, name, false, ret_ledger, err);
}

static enum status died(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err) {
    struct run *run = context;
    size_t stage = run->plan->instances[child].stage;
    struct ledger *ledger = NULL;
    TRY(write_ledger(run, stage, &ledger, err));
    if (ledger == NULL) {
        /* A third party's: what it has acknowledged is what it has finished. */
        const struct tally_stage *tally = tally_find(&run->tally, run->graph->stages[stage].section.name);
        *ret_finished = tally ? tally->done + tally->rejected + tally->failed : 0;
        return STATUS_OK;
    }
    enum status status = bury_in_ledger(run, ledger, child, wait_status, ret_finished, err);
    ledger_close(&ledger);
    return status;
}

/* Whether another replica of the same stage answers. */
static bool has_substitute(const struct run *run, size_t child) {
    for (size_t i = 0; i < run->plan->instance_count; i++)
        if (i != child && run->plan->instances[i].stage == run->plan->instances[child].stage &&
            supervisor_pid(run->supervisor, i) > 0 &&
            supervisor_silence(run->supervisor, i) < run->options->supervisor.hang_report)
            return true;
    return false;
}

static const char *silent(void *context, struct supervisor *supervisor, size_t child) {
    struct run *run = context;
    struct err err = {0};
    run->supervisor = supervisor;
    if (kill_stuck_writer(run, run->plan->instances[child].stage) || !has_substitute(run, child))
        return NULL;
    if (hung_let_go(run->hung, &run->session, child, &err) == STATUS_OK)
        return "its items go to the other replicas";
    progress_say(&run->progress, err.message);
    return NULL;
}

static void inject_kills(struct run *run, struct supervisor *supervisor) {
    for (size_t k = 0; k < run->replay->kill_count; k++) {
        struct replay_kill *fault = &run->replay->kills[k];
        const struct tally_stage *stage = tally_find(&run->tally, fault->stage);
        if (fault->happened || stage == NULL || stage->done < fault->after)
            continue;
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

/* The stream ends when all files are in and the sources have seen each of them. */
static void end_replay(struct run *run, struct supervisor *supervisor) {
    int64_t seen = 0;
    for (size_t i = 0; i < run->tally.count; i++)
        if (run->tally.stages[i].source)
            seen += run->tally.stages[i].seen;
    if (run->replay->drained || !replay_all_in(run->replay) || seen < (int64_t)run->replay->expected)
        return;
    run->replay->drained = true;
    for (size_t i = 0; i < run->plan->instance_count; i++)
        if (run->children[i].source)
            supervisor_kill(supervisor, i, SIGINT);
}

/* Whether the instance sends to somebody, and all to whom it sends have ended. */
static bool receivers_ended(const struct run *run, const struct supervisor *supervisor, size_t instance) {
    bool sends = false;
    for (size_t e = 0; e < run->plan->edge_count; e++)
        for (size_t i = 0; run->plan->edges[e].instance == instance && i < run->plan->instance_count; i++) {
            if (run->plan->instances[i].stage != run->plan->edges[e].to)
                continue;
            if (supervisor_state(supervisor, i) != CHILD_ENDED)
                return false;
            sends = true;
        }
    return sends;
}

/* A stage that dies just as its end was acknowledged comes back to say it again. When those that it would tell have
 * ended, its ledger says that it need not. */
static enum status release_senders(struct run *run, const struct supervisor *supervisor, struct err *err) {
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        const struct plan_instance *instance = &run->plan->instances[i];
        struct ledger *ledger = NULL;
        if (run->released[i] || supervisor_state(supervisor, i) == CHILD_ENDED || !receivers_ended(run, supervisor, i))
            continue;
        TRY(session_ledger(&run->session, run->graph->stages[instance->stage].section.name, false, &ledger, err));
        if (ledger == NULL)
            continue; /* perhaps not yet */
        enum status status = ledger_end_output(ledger, instance->replica, run->session.run, err);
        ledger_close(&ledger);
        TRY(status);
        run->released[i] = true;
    }
    return STATUS_OK;
}

/* A ledger that cannot be read for a moment is no reason to stop the stages; one that cannot be read at all is. */
static enum status miscount(struct run *run, struct err *err) {
    run->tally_at = clock_monotonic();
    if (err->status == STATUS_UNAVAILABLE)
        return err->status;
    if (++run->miscounts >= MISCOUNT_LIMIT)
        return err->status;
    err->message[0] = '\0';
    return STATUS_OK;
}

/* Our own stages see to their logs while they run. What goes on in an old file is others' output: a program that is
 * started again, or opens its log for each line, comes to the new one. */
static void rotate_logs(struct run *run, const struct supervisor *supervisor) {
    if (clock_monotonic() < run->logs_at)
        return;
    run->logs_at = clock_monotonic() + 1;
    int64_t size = (int64_t)(run->options->log_size * (1 << 20));
    for (size_t i = 0; i < run->plan->instance_count; i++)
        log_rotate(run->children[i].log, supervisor_pid(supervisor, i) > 0 ? 2 * size : size);
}

static enum status advance(struct run *run, struct supervisor *supervisor, struct err *err) {
    if (run->replay != NULL)
        TRY(replay_advance(run->replay, err));
    TRY(release_senders(run, supervisor, err));
    rotate_logs(run, supervisor);
    /* Counting may cost no more than a twentieth of a core, however long the session gets. */
    double pause = run->replay != NULL && run->replay->kill_count > 0 ? 0 : 1;
    if (20 * run->tally_cost > pause)
        pause = 20 * run->tally_cost;
    double begin = clock_monotonic();
    if (begin - run->tally_at < pause)
        return STATUS_OK;
    struct tally tally;
    if (tally_take(&run->session, run->planned, TALLY_LIVE, &tally, err) != STATUS_OK)
        return miscount(run, err);
    run->miscounts = 0;
    tally_clear(&run->tally);
    run->tally = tally;
    run->tally_at = clock_monotonic();
    run->tally_cost = run->tally_at - begin;
    progress_draw(&run->progress, &run->session, run->plan, &run->tally);
    if (run->replay != NULL) {
        inject_kills(run, supervisor);
        end_replay(run, supervisor);
    }
    return STATUS_OK;
}

static void tick(void *context, struct supervisor *supervisor) {
    struct run *run = context;
    run->supervisor = supervisor;
    if (run->failed)
        return;
    enum status status = advance(run, supervisor, &run->failure);
    if (status == STATUS_UNAVAILABLE && !run->waits)
        progress_say(&run->progress, run->failure.message);
    run->waits = status == STATUS_UNAVAILABLE;
    if (run->waits)
        run->failure = (struct err){0};
    if (status == STATUS_OK || run->waits)
        return;
    run->failed = true;
    progress_say(&run->progress, run->failure.message);
    kill(getpid(), SIGTERM); /* the supervisor takes it and stops */
}

static void say(void *context, const char *text) {
    struct run *run = context;
    progress_say(&run->progress, text);
}

/* The end. */

static int conclude(struct run *run, enum supervisor_outcome outcome, struct err *err) {
    struct tally tally;
    if (tally_take(&run->session, run->planned, TALLY_COUNTS, &tally, err) != STATUS_OK)
        return EXIT_ERROR;
    progress_end(&run->progress);
    log_write(run->log, LOG_INFO, "end", "%s",
              outcome == SUPERVISOR_ENDED ? "all stages have ended" : "stopped before the end");
    status_table(&run->session, &tally, stdout);
    status_reasons(&tally, 10, stdout);
    char reason[256];
    int code = EXIT_OK;
    if (outcome != SUPERVISOR_ENDED || run->failed) {
        code = EXIT_ERROR;
    } else if (!tally_adds_up(&tally, reason, sizeof reason)) {
        fprintf(stderr, "icestream: the counts do not add up: %s; run the session again, and look into %s/log\n", reason,
                run->session.path);
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
    remove_socket_folder(run->sockets);
    for (size_t i = 0; run->texts != NULL && i < run->plan->instance_count; i++) {
        free(run->texts[i].argv[1]);
        for (size_t k = 0; k < ENV_MAX; k++)
            free(run->texts[i].env[k]);
    }
    free(run->texts);
    free(run->children);
    free(run->released);
    hung_destroy(&run->hung);
    tally_clear(&run->tally);
    log_close(&run->log);
    json_decref(run->planned);
    session_end(&run->session);
}

static enum status run_session(struct run *run, enum supervisor_outcome *ret_outcome, struct err *err) {
    char log[PATH_SIZE];
    TRY(session_file(&run->session, "log", "icestream", ".log", log, err));
    struct err own = {0};
    /* Without a log it can do its work all the same. */
    if (log_open(log, "icestream", LOG_ERROR + 1, &run->log, &own) == STATUS_OK)
        log_set_size(run->log, (int64_t)(run->options->log_size * (1 << 20)));
    else
        progress_say(&run->progress, own.message);
    /* Nobody may listen to what it says any more. */
    signal(SIGPIPE, SIG_IGN);
    log_write(run->log, LOG_INFO, "start", "run %d, process %d", run->session.run, (int)getpid());
    TRY(prepare(run, err));
    TRY(session_read_plan(&run->session, &run->planned, err));
    if (run->replay != NULL) {
        char target[PATH_SIZE];
        TRY(session_file(&run->session, "replay", "", "", target, err));
        TRY(replay_begin(run->replay, target, err));
        TRY(replay_advance(run->replay, err));
    }
    progress_begin(&run->progress, run->log);
    const struct supervisor_hooks hooks = {.context = run, .died = died, .silent = silent, .tick = tick, .say = say};
    return supervisor_run(run->children, run->plan->instance_count, &run->options->supervisor, &hooks, ret_outcome,
                          err);
}

int run_graph(const struct options *options, const struct graph *graph, struct plan *plan, struct replay *replay) {
    struct run run = {.options = options, .graph = graph, .plan = plan, .replay = replay, .session.lock = -1};
    struct err err = {0};
    enum supervisor_outcome outcome = SUPERVISOR_GAVE_UP;
    enum status status = session_begin(options->session, plan, &run.session, &err);
    bool begun = status == STATUS_OK;
    if (begun)
        status = run_session(&run, &outcome, &err);
    int code = EXIT_ERROR;
    if (status == STATUS_OK)
        code = conclude(&run, outcome, &err);
    if (err.message[0] != '\0')
        fprintf(stderr, "icestream: %s\n", err.message);
    if (!begun && status == STATUS_BAD_ARGUMENT)
        code = EXIT_USAGE;
    run_clear(&run);
    return code;
}

int command_run(const struct options *options) {
    struct graph *graph;
    struct plan plan;
    int code = check_graph(options->words[0], options, NULL, &graph, &plan);
    if (code != EXIT_OK)
        return code;
    code = run_graph(options, graph, &plan, NULL);
    plan_clear(&plan);
    graph_destroy(&graph);
    return code;
}
