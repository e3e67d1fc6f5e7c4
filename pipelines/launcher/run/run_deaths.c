/* Handles deaths and silence of the processes of a run: writes them into the ledgers, and passes items on. */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipelines/launcher/run/run_private.h"

enum { CRASH_LIMIT = 3 };
static const double STUCK = 3; /* s of silence before a stopped process that holds a ledger's lock is killed */

/* Finds the mark of the item that killed the child; "": none. If the stage could tell, it is the item of the thread that got the
 * signal; otherwise it is the item that was in process. */
static void take_current(const struct child_texts *texts, char *mark, size_t size) {
    static const off_t places[] = {PATH_SIZE, 0};
    int file = open(texts->current, O_RDONLY | O_CLOEXEC);
    mark[0] = '\0';
    for (size_t i = 0; file >= 0 && mark[0] == '\0' && i < 2; i++) {
        ssize_t length = pread(file, mark, size - 1, places[i]);
        mark[length > 0 ? length : 0] = '\0';
    }
    if (file >= 0) close(file);
    mark[strcspn(mark, "\n")] = '\0';
}

/* Returns whether a death speaks against the item. SIGKILL comes from outside (the kernel's memory killer, too), and an
 * exit for SIGTERM was asked for. */
static bool is_crash(int wait_status) {
    if (WIFEXITED(wait_status))
        return WEXITSTATUS(wait_status) != 128 + SIGTERM && WEXITSTATUS(wait_status) != EXIT_UNAVAILABLE;
    int signal = WTERMSIG(wait_status);
    return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

static enum status count_crash(struct run *run, struct ledger *ledger, size_t child, struct ledger_key key,
                               int wait_status, struct err *err) {
    char reason[256], text[ITEM_ID_MAX + 256];
    const char *name = run->children[child].name;
    if (WIFEXITED(wait_status))
        snprintf(reason, sizeof reason, "%s ended with exit code %d on it, %d times", name, WEXITSTATUS(wait_status),
                 CRASH_LIMIT);
    else
        snprintf(reason, sizeof reason, "%s was killed by %s on it, %d times", name, strsignal(WTERMSIG(wait_status)),
                 CRASH_LIMIT);
    bool aside = false;
    TRY(ledger_crashed(ledger, key, CRASH_LIMIT, reason, &aside, err));
    snprintf(text, sizeof text,
             aside ? "%s: %s is set aside: it has brought the stage down %d times" : "%s: died while it worked on %s",
             name, key.id, CRASH_LIMIT);
    progress_say(&run->progress, text);
    return STATUS_OK;
}

static enum status bury_in_ledger(struct run *run, struct ledger *ledger, size_t child, int wait_status,
                                  int64_t *ret_finished, struct err *err) {
    const struct plan_instance *instance = &run->plan->instances[child];
    char mark[ITEM_MARK_SIZE];
    struct ledger_counts counts;
    take_current(&run->texts[child], mark, sizeof mark);
    if (mark[0] != '\0' && is_crash(wait_status))
        TRY(count_crash(run, ledger, child, item_key_of_mark(mark), wait_status, err));
    /* A crash counts once, even if the rest must be tried again. */
    unlink(run->texts[child].current);
    TRY(ledger_release_instance(ledger, instance->replica, err));
    TRY(ledger_counts(ledger, &counts, err));
    *ret_finished = counts.done + counts.rejected + counts.failed;
    return STATUS_OK;
}

/* Kills a process that was stopped while it wrote to the ledger: it keeps all others from the ledger, so it has to go
 * first. A process that is not stopped may wait for a slow disk; it gets the time of any silent process. */
static bool kill_stuck_writer(struct run *run, size_t stage) {
    char path[PATH_SIZE];
    struct err err = {0};
    if (run->supervisor == NULL || session_file(&run->session, "ledger", run->graph->stages[stage].section.name,
                                                ".sqlite", path, &err) != STATUS_OK)
        return false;
    pid_t writer = ledger_writer(path);
    for (size_t i = 0; writer > 0 && i < run->plan->instance_count; i++) {
        if (supervisor_pid(run->supervisor, i) != writer) continue;
        const struct supervisor_options *options = &run->options->supervisor;
        double limit = hung_is_stopped(writer) ? STUCK : options->hang_report + options->hang_kill;
        if (supervisor_silence(run->supervisor, i) < limit) continue;
        char text[160];
        snprintf(text, sizeof text, "%s does not answer and blocks the ledger for the others: killing it",
                 run->children[i].name);
        progress_say(&run->progress, text);
        supervisor_kill(run->supervisor, i, SIGKILL);
        return true;
    }
    return false;
}

enum status run_died(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err) {
    struct run *run = context;
    size_t stage = run->plan->instances[child].stage;
    struct ledger *ledger = NULL;
    kill_stuck_writer(run, stage);
    TRY(session_ledger(&run->session, run->graph->stages[stage].section.name, false, &ledger, err));
    if (ledger == NULL) {
        /* A third party's stage has no ledger: what it has acknowledged is what it has finished. */
        const struct tally_stage *tally = tally_find(&run->tally, run->graph->stages[stage].section.name);
        *ret_finished = tally ? tally->done + tally->rejected + tally->failed : 0;
        return STATUS_OK;
    }
    enum status status = bury_in_ledger(run, ledger, child, wait_status, ret_finished, err);
    ledger_close(&ledger);
    return status;
}

/* Returns whether another replica of the same stage answers. */
static bool has_substitute(const struct run *run, size_t child) {
    for (size_t i = 0; i < run->plan->instance_count; i++)
        if (i != child && run->plan->instances[i].stage == run->plan->instances[child].stage &&
            supervisor_pid(run->supervisor, i) > 0 &&
            supervisor_silence(run->supervisor, i) < run->options->supervisor.hang_report)
            return true;
    return false;
}

const char *run_silent(void *context, struct supervisor *supervisor, size_t child) {
    struct run *run = context;
    struct err err = {0};
    run->supervisor = supervisor;
    if (kill_stuck_writer(run, run->plan->instances[child].stage) || !has_substitute(run, child)) return NULL;
    if (hung_let_go(run->hung, &run->session, child, &err) == STATUS_OK) return "its items go to the other replicas";
    /* The supervisor asks four times a second; a repeated reason is not reported again. */
    if (strncmp(run->unheard, err.message, sizeof run->unheard - 1) != 0) progress_say(&run->progress, err.message);
    snprintf(run->unheard, sizeof run->unheard, "%s", err.message);
    return NULL;
}
