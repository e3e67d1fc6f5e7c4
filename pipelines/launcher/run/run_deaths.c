/* Handles deaths and silence of the processes of a run: writes them into the ledgers, and passes items on. */
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipelines/launcher/run/run_private.h"

enum { CRASH_LIMIT = 3 };
static const double STUCK = 3; /* s of silence before a stopped process that holds a ledger's lock is killed */

/* Finds the mark of the item that killed the child; "": none. If the stage could tell, it is the item of the thread
 * that got the signal; otherwise it is the item that was in process. */
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

/* Returns whether the child was at work of its own when it died: the last byte of `current` says so. */
static bool was_at_own_work(const struct child_texts *texts) {
    int file = open(texts->current, O_RDONLY | O_CLOEXEC);
    char byte = 0;
    bool at_work = file >= 0 && pread(file, &byte, 1, 2 * (off_t)PATH_SIZE - 1) == 1 && byte != 0;
    if (file >= 0) close(file);
    return at_work;
}

/* Returns whether a death speaks against the item by itself. SIGKILL comes from outside, and an exit for SIGTERM was
 * asked for: judge() has a rule for these. */
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
    run_warn(run, aside ? "set-aside" : "died-on-item", text);
    return STATUS_OK;
}

/* Returns whether the process was killed, or told to end, while the launcher wanted it to go on. Nothing but the item
 * it had begun may be to blame for that: it may have needed more memory than there is, or have written too large a
 * file. */
static bool is_kill(const struct run *run, int wait_status) {
    if (run->supervisor != NULL && supervisor_stopping(run->supervisor)) return false;
    return WIFSIGNALED(wait_status) ? !is_crash(wait_status) : WEXITSTATUS(wait_status) == 128 + SIGTERM;
}

/* The items that an instance had begun and not finished. */
struct begun {
    int replica;
    size_t count;
    char mark[ITEM_MARK_SIZE]; /* the first one */
};

static enum status note_begun(const struct ledger_row *row, void *context, struct err *err) {
    (void)err;
    struct begun *begun = context;
    if (row->instance != begun->replica) return STATUS_OK;
    if (begun->count++ == 0) item_mark((struct ledger_key){row->source, row->id}, begun->mark);
    return STATUS_OK;
}

/* Counts what is finished. An item that was done and fails with its series counts anew: its series is settled. */
static enum status count_finished(struct ledger *ledger, int64_t *ret_finished, struct err *err) {
    struct ledger_counts counts;
    TRY(ledger_counts(ledger, &counts, err));
    *ret_finished = counts.done + counts.rejected + 2 * counts.failed;
    return STATUS_OK;
}

static enum status set_aside(struct run *run, struct ledger *ledger, size_t child, int wait_status,
                             struct ledger_key key, bool memory, struct err *err) {
    char reason[512];
    bool aside = false;
    snprintf(
        reason, sizeof reason,
        "%s died %d times while it worked on this item alone, with nothing finished between, the last time of %s: %s",
        run->children[child].name, DEATHS_ALONE,
        WIFSIGNALED(wait_status) ? strsignal(WTERMSIG(wait_status)) : "SIGTERM",
        memory ? "the machine's memory was short, and the kernel's memory killer ended it; give the stage more "
                 "memory, then `icestream retry`"
               : "if nobody did so on purpose, the item needs more of the machine than there is (memory? earlyoom "
                 "and systemd-oomd kill, too); then `icestream retry`");
    /* The deaths were counted; one crash in the ledger is enough. */
    return ledger_crashed(ledger, key, 1, reason, &aside, err);
}

static void say_verdict(struct run *run, size_t child, enum deaths_verdict verdict, const char *id) {
    char text[ITEM_ID_MAX + 256];
    const char *name = run->children[child].name;
    if (verdict == DEATHS_NONE) return;
    if (verdict == DEATHS_ONE_BY_ONE)
        snprintf(
            text, sizeof text,
            "%s: died %d times with nothing finished between; its stage now takes items one by one, to find the one "
            "that ends it",
            name, DEATHS_IN_A_ROW);
    else if (verdict == DEATHS_SUSPECT)
        snprintf(text, sizeof text, "%s: died while it worked on %s alone", name, id);
    else
        snprintf(text, sizeof text, "%s: %s is set aside: the stage died %d times while it worked on it alone", name,
                 id, DEATHS_ALONE);
    run_warn(run,
             verdict == DEATHS_ONE_BY_ONE ? "one-by-one"
             : verdict == DEATHS_SUSPECT  ? "died-on-item"
                                          : "set-aside",
             text);
}

/* Tells the stage's instances what they need to know of its deaths after the next start. */
static enum status tell_instances(struct run *run, size_t stage, const struct deaths *deaths, struct err *err) {
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        struct plan_instance *instance = &run->plan->instances[i], before = *instance;
        if (instance->stage != stage) continue;
        instance->one_by_one = deaths->one_by_one;
        instance->deaths = deaths->idle;
        if (instance->one_by_one == before.one_by_one && instance->deaths == before.deaths) continue;
        struct err own = {0};
        if (instance_write(&run->session, run->plan, i, &run->orders, &own) == STATUS_OK) continue;
        *instance = before;
        FAIL(err, STATUS_UNAVAILABLE, "%s", own.message);
    }
    return STATUS_OK;
}

/* Judges a death from outside by what the instance had begun, and by what the stage has finished since the last one. */
static enum status judge(struct run *run, struct ledger *ledger, size_t child, int wait_status, bool own_work,
                         struct err *err) {
    const struct plan_instance *instance = &run->plan->instances[child];
    struct deaths next = run->deaths[instance->stage];
    struct begun begun = {.replica = instance->replica};
    struct death death = {.own_work = own_work,
                          .memory = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL &&
                                    memory_kills_grew(&run->memory)};
    TRY(count_finished(ledger, &death.finished, err));
    /* A crash that no item is to blame for happened in the stage's own work. */
    if (!is_crash(wait_status)) TRY(ledger_each(ledger, LEDGER_IN_FLIGHT, note_begun, &begun, err));
    death.begun = begun.count;
    death.alone = begun.mark;
    enum deaths_verdict verdict = deaths_count(&next, &death);
    const struct ledger_key key = item_key_of_mark(begun.mark);
    if (verdict == DEATHS_SET_ASIDE) TRY(set_aside(run, ledger, child, wait_status, key, death.memory, err));
    run->deaths[instance->stage] = next;
    run->judged[child] = true;
    say_verdict(run, child, verdict, key.id);
    return STATUS_OK;
}

static enum status bury_in_ledger(struct run *run, struct ledger *ledger, size_t child, int wait_status,
                                  int64_t *ret_finished, struct err *err) {
    const struct plan_instance *instance = &run->plan->instances[child];
    const struct deaths *deaths = &run->deaths[instance->stage];
    char mark[ITEM_MARK_SIZE];
    take_current(&run->texts[child], mark, sizeof mark);
    if (mark[0] != '\0' && is_crash(wait_status))
        TRY(count_crash(run, ledger, child, item_key_of_mark(mark), wait_status, err));
    bool own_work = was_at_own_work(&run->texts[child]);
    bool own_crash = own_work && WIFSIGNALED(wait_status) && is_crash(wait_status) && mark[0] == '\0';
    /* A crash counts once, even if the rest must be tried again. */
    unlink(run->texts[child].current);
    if ((is_kill(run, wait_status) || own_crash) && !run->judged[child])
        TRY(judge(run, ledger, child, wait_status, own_work, err));
    TRY(tell_instances(run, instance->stage, deaths, err));
    TRY(ledger_release_instance(ledger, instance->replica, err));
    const struct graph_stage *stage = &run->graph->stages[instance->stage];
    if (stage->cumulative) TRY(session_void_lease(&run->session, stage->section.name, err));
    TRY(count_finished(ledger, ret_finished, err));
    /* To find the item that ends the stage is work, too. */
    *ret_finished += deaths->steps;
    run->judged[child] = false;
    return STATUS_OK;
}

/* Kills a process that was stopped while it wrote to the ledger: it keeps all others from the ledger, so it has to go
 * first. A process that is not stopped may wait for a slow disk; it gets the time of any silent process. */
static bool kill_stuck_writer(struct run *run, size_t stage) {
    char path[PATH_SIZE];
    struct err err = {0};
    if (run->supervisor == NULL ||
        session_ledger_path(&run->session, run->graph->stages[stage].section.name, false, path, &err) != STATUS_OK)
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
        run_warn(run, "silent", text);
        supervisor_kill(run->supervisor, i, SIGKILL);
        return true;
    }
    return false;
}

enum status run_died(void *context, size_t child, int wait_status, int64_t *ret_finished, struct err *err) {
    struct run *run = context;
    size_t stage = run->plan->instances[child].stage;
    struct ledger *ledger = NULL;
    bool stopping = run->supervisor != NULL && supervisor_stopping(run->supervisor);
    if (!stopping && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_USAGE) run->wrong_value = true;
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
