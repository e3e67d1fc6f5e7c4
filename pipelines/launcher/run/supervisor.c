#include "pipelines/launcher/run/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "pipelines/launcher/run/signals.h"

static const double SILENCE_TOLD = 0.25; /* s between calls of the hook `silent` */
static const double WAITED = 0.5;        /* s until a child that has no place yet asks again */

struct child {
    enum child_state state;
    const struct process_place *place; /* where it runs */
    pid_t pid;
    int wait_status;
    bool unburied; /* WAITING: the consequences of its death could not be written down yet */
    bool left;     /* it did not end: its place was lost */
    int lacks;     /* times in a row that the machine lacked something: the child could not start, could not be buried,
                      or exited saying so */
    int deaths;    /* deaths in a row of its stage, with nothing finished between them */
    int frail;     /* deaths in a row of this child, each soon after its start: another replica may finish items in
                      between */
    int restarts;
    int64_t finished; /* finished items at the last death */
    double start_at;  /* WAITING: time of the next start */
    double alive_at;  /* time of the last sign of life */
    double started_at;
    struct timespec beat; /* last seen time of the heartbeat file */
    double told_at;       /* time of the last call of the hook `silent` */
    bool beaten, reported, interrupt;
    double renew_kill_at; /* it is being stopped to be started again: time of the next SIGKILL; 0: it is not */
};

struct supervisor {
    const struct supervisor_child *specs;
    size_t count;
    struct child *children;
    const struct supervisor_options *options;
    const struct supervisor_hooks *hooks;
    int signals; /* a signalfd */
    sigset_t old_mask;
    struct process_place here;
    bool draining, stopping, gave_up;
    double kill_at; /* stopping: time of the next SIGKILL */
};

void supervisor_defaults(struct supervisor_options *ret_options) {
    *ret_options = (struct supervisor_options){.restart_limit = 5,
                                               .backoff = 0.5,
                                               .backoff_max = 30,
                                               .hang_report = 15,
                                               .hang_kill = 60,
                                               .stop_kill = 5,
                                               .tick = 0.2};
}

enum child_state supervisor_state(const struct supervisor *supervisor, size_t child) {
    return supervisor->children[child].state;
}

pid_t supervisor_pid(const struct supervisor *supervisor, size_t child) {
    return supervisor->children[child].state == CHILD_RUNNING ? supervisor->children[child].pid : 0;
}

bool supervisor_stopping(const struct supervisor *supervisor) {
    return supervisor->stopping;
}

bool supervisor_draining(const struct supervisor *supervisor) {
    return supervisor->draining || supervisor->stopping;
}

double supervisor_silence(const struct supervisor *supervisor, size_t index) {
    const struct supervisor_child *spec = &supervisor->specs[index];
    const struct child *child = &supervisor->children[index];
    bool watched = spec->heartbeat != NULL && (child->beaten || spec->heartbeat_expected);
    return watched && child->state == CHILD_RUNNING ? clock_monotonic() - child->alive_at : 0;
}

int supervisor_restarts(const struct supervisor *supervisor, size_t child) {
    return supervisor->children[child].restarts;
}

/* Sends a signal to a child that runs, or to its whole process group. */
static void send_signal(const struct supervisor *s, size_t index, int signal, bool group) {
    const struct child *child = &s->children[index];
    if (child->state == CHILD_RUNNING)
        child->place->operations->signal(child->place->context, index, child->pid, signal, group);
}

void supervisor_kill(struct supervisor *supervisor, size_t child, int signal) {
    send_signal(supervisor, child, signal, false);
}

void supervisor_start_now(struct supervisor *s, size_t index) {
    struct child *child = &s->children[index];
    if (child->state == CHILD_WAITING && !child->unburied) child->start_at = clock_monotonic();
}

const struct process_place *supervisor_place(const struct supervisor *supervisor, size_t child) {
    return supervisor->children[child].state == CHILD_RUNNING ? supervisor->children[child].place : NULL;
}

void supervisor_renew(struct supervisor *s, size_t index) {
    struct child *child = &s->children[index];
    if (child->state != CHILD_RUNNING || s->stopping) return;
    child->renew_kill_at = clock_monotonic() + s->options->stop_kill;
    send_signal(s, index, SIGTERM, false);
}

static void say(const struct supervisor *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct supervisor *s, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (s->hooks->say != NULL) s->hooks->say(s->hooks->context, text);
}

/* Shows what should not happen, which is also kept. */
static void warn(const struct supervisor *s, const char *id, const char *text) {
    if (s->hooks->warn != NULL)
        s->hooks->warn(s->hooks->context, id, text);
    else
        say(s, "%s", text);
}

/* Finds where a child starts, and starts it there. */
static enum status start(struct supervisor *s, size_t index, struct err *err) {
    const struct supervisor_child *spec = &s->specs[index];
    const struct process_place *place = &s->here;
    struct child *child = &s->children[index];
    if (s->hooks->starting != NULL) TRY(s->hooks->starting(s->hooks->context, index, err));
    if (s->hooks->where != NULL) TRY(s->hooks->where(s->hooks->context, index, &place, err));
    if (place == NULL) place = &s->here;
    TRY(place->operations->start(place->context, index, spec, &child->pid, err));
    child->place = place;
    child->state = CHILD_RUNNING;
    child->started_at = child->alive_at = clock_monotonic();
    child->beaten = child->reported = false;
    child->interrupt = s->draining && spec->source;
    return STATUS_OK;
}

/* ---- Signals to all children ---- */

static void signal_all(struct supervisor *s, int signal) {
    for (size_t i = 0; i < s->count; i++)
        send_signal(s, i, signal, true);
}

static void drain(struct supervisor *s) {
    s->draining = true;
    for (size_t i = 0; i < s->count; i++)
        if (s->specs[i].source) s->children[i].interrupt = true;
}

static void stop(struct supervisor *s) {
    if (s->stopping) return;
    s->stopping = true;
    s->kill_at = clock_monotonic() + s->options->stop_kill;
    signal_all(s, SIGTERM);
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].state == CHILD_WAITING) s->children[i].state = CHILD_ENDED;
}

static void give_up(struct supervisor *s) {
    s->gave_up = true;
    stop(s);
}

/* ---- Deaths ---- */

static void describe_death(int wait_status, char *text, size_t size) {
    if (WIFSIGNALED(wait_status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        snprintf(text, size, "ended with exit code %d", WEXITSTATUS(wait_status));
}

static void last_error(const struct supervisor *s, size_t index, char *text, size_t size) {
    const struct process_place *place = s->children[index].place;
    place->operations->last_error(place->context, index, &s->specs[index], text, size);
}

/* Shows how a child died, why (from its log), and what follows. */
static void report_death(const struct supervisor *s, size_t index, bool last, const char *what_follows) {
    const struct supervisor_child *spec = &s->specs[index];
    char how[128], why[512], text[1024];
    describe_death(s->children[index].wait_status, how, sizeof how);
    last_error(s, index, why, sizeof why);
    snprintf(text, sizeof text, "%s %s%s%s", spec->name, how, why, what_follows);
    warn(s, last ? "gave-up" : "died", text);
}

/* Starts the child again after a pause, which doubles so many times up to its limit. */
static void start_later(struct supervisor *s, struct child *child, int doublings) {
    double wait = s->options->backoff;
    for (int i = 0; i < doublings && wait < s->options->backoff_max; i++)
        wait *= 2;
    child->start_at = clock_monotonic() + (wait < s->options->backoff_max ? wait : s->options->backoff_max);
}

/* The machine lacks something that may come back: tries again, however often, and reports it once. */
static void wait_for_machine(struct supervisor *s, size_t index, const char *why) {
    struct child *child = &s->children[index];
    child->state = s->stopping ? CHILD_ENDED : CHILD_WAITING;
    start_later(s, child, child->lacks);
    char text[PATH_SIZE];
    snprintf(text, sizeof text, "%s; trying again until it works", why);
    if (child->lacks++ == 0) warn(s, "waits", text);
}

static void lack_something(struct supervisor *s, size_t index) {
    char why[512], text[640];
    last_error(s, index, why, sizeof why);
    snprintf(text, sizeof text, "%s cannot go on%s", s->specs[index].name, why);
    wait_for_machine(s, index, text);
}

/* Counts a death with which the machine has nothing to do. */
static void count_death(const struct supervisor *s, struct child *child, int64_t finished) {
    bool soon = clock_monotonic() - child->started_at < s->options->backoff_max;
    bool outside = WIFSIGNALED(child->wait_status) && WTERMSIG(child->wait_status) == SIGKILL;
    child->lacks = 0;
    child->deaths = finished > child->finished ? 1 : child->deaths + 1;
    child->finished = finished;
    child->frail = outside ? child->frail : soon ? child->frail + 1 : 1;
}

/* Gives the whole run up after a death, or starts the child again. */
static void give_up_or_start_again(struct supervisor *s, size_t index, int code) {
    struct child *child = &s->children[index];
    bool hopeless = code == 2 || code == 127; /* usage, or it cannot be started: the next time would be the same */
    char text[PATH_SIZE + 160];
    if (hopeless || child->deaths > s->options->restart_limit) {
        if (hopeless)
            snprintf(text, sizeof text, "; see %s", s->specs[index].log);
        else
            snprintf(text, sizeof text,
                     "; %d deaths in a row, with nothing finished between them, so icestream gives up. See %s",
                     child->deaths, s->specs[index].log);
        report_death(s, index, true, text);
        child->state = CHILD_ENDED;
        give_up(s);
        return;
    }
    int row = child->deaths > child->frail ? child->deaths : child->frail;
    start_later(s, child, row - 1);
    child->restarts++;
    report_death(s, index, false, row > 1 ? "; starting it again after a pause" : "; starting it again");
}

/* Returns whether a child that was to be started again has ended for that reason. */
static bool is_renewal(const struct supervisor *s, struct child *child) {
    bool renewing = child->renew_kill_at > 0;
    int status = child->wait_status;
    child->renew_kill_at = 0;
    if (!renewing || s->stopping) return false;
    return WIFEXITED(status) ? WEXITSTATUS(status) == 128 + SIGTERM
                             : WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL;
}

/* Decides what follows from the end of a child. */
static enum status bury(struct supervisor *s, size_t index, struct err *err) {
    struct child *child = &s->children[index];
    int code = WIFEXITED(child->wait_status) ? WEXITSTATUS(child->wait_status) : -1;
    int64_t finished = 0;
    bool well = code == 0 || code == 3; /* 3: done, but some items failed */
    if (is_renewal(s, child)) {
        child->state = CHILD_WAITING;
        child->start_at = clock_monotonic();
        return STATUS_OK;
    }
    if (code == EXIT_AGAIN) {
        child->state = s->stopping ? CHILD_ENDED : CHILD_WAITING;
        start_later(s, child, 0);
        return STATUS_OK;
    }
    child->state = well ? CHILD_ENDED : CHILD_WAITING;
    if (!well && s->hooks->died != NULL)
        TRY(s->hooks->died(s->hooks->context, index, child->wait_status, &finished, err));
    if (s->stopping) child->state = CHILD_ENDED;
    if (well || s->stopping) return STATUS_OK;
    if (code == EXIT_UNAVAILABLE) {
        lack_something(s, index);
    } else {
        count_death(s, child, finished);
        give_up_or_start_again(s, index, code);
    }
    return STATUS_OK;
}

/* Goes on without a child whose place is lost: it starts elsewhere at once. */
static enum status leave(struct supervisor *s, size_t index, struct err *err) {
    struct child *child = &s->children[index];
    child->state = s->stopping ? CHILD_ENDED : CHILD_WAITING;
    child->renew_kill_at = 0;
    if (s->hooks->lost != NULL) TRY(s->hooks->lost(s->hooks->context, index, err));
    child->start_at = clock_monotonic();
    return STATUS_OK;
}

static enum status bury_when_possible(struct supervisor *s, size_t index, struct err *err) {
    struct child *child = &s->children[index];
    struct err own = {0};
    enum status status = child->left ? leave(s, index, &own) : bury(s, index, &own);
    child->unburied = status == STATUS_UNAVAILABLE;
    FAIL_IF(status != STATUS_OK && !child->unburied, err, status, "%s", own.message);
    if (child->unburied) wait_for_machine(s, index, own.message);
    return STATUS_OK;
}

/* Takes news of all children. */
static enum status reap(struct supervisor *s, struct err *err) {
    for (size_t i = 0; i < s->count; i++) {
        struct child *child = &s->children[i];
        const struct process_place *place = child->place;
        if (child->state != CHILD_RUNNING) continue;
        enum place_news news = place->operations->reap(place->context, i, child->pid, &child->wait_status);
        child->left = news == PLACE_LOST;
        if (news != PLACE_RUNS) TRY(bury_when_possible(s, i, err));
    }
    return STATUS_OK;
}

/* ---- Time ---- */

/* Reports silence once. Calls the hook again and again, because some senders may hear late that the child hangs. */
static void report_silence(struct supervisor *s, size_t index, double silent) {
    struct child *child = &s->children[index];
    const char *measure = NULL;
    if (s->hooks->silent != NULL && (!child->reported || clock_monotonic() - child->told_at >= SILENCE_TOLD)) {
        measure = s->hooks->silent(s->hooks->context, s, index);
        child->told_at = clock_monotonic();
    }
    char text[640];
    snprintf(text, sizeof text, "%s has not answered for %.0f s; %s%sit will be killed and started again in %.0f s",
             s->specs[index].name, silent, measure ? measure : "", measure ? "; " : "", s->options->hang_kill);
    if (!child->reported) warn(s, "silent", text);
    child->reported = true;
}

static void watch_heartbeat(struct supervisor *s, size_t index) {
    const struct supervisor_child *spec = &s->specs[index];
    struct child *child = &s->children[index];
    const struct process_place *place = child->place;
    struct timespec beat;
    if (spec->heartbeat != NULL && place->operations->beat(place->context, index, spec, &beat) &&
        (!child->beaten || beat.tv_sec != child->beat.tv_sec || beat.tv_nsec != child->beat.tv_nsec)) {
        child->beat = beat;
        child->alive_at = clock_monotonic();
        child->beaten = true;
        if (child->reported) say(s, "%s answers again", spec->name);
        child->reported = false;
    }
    /* The child has by now what it lacked; the next lack is worth a new report. */
    if (child->beaten && clock_monotonic() - child->started_at > s->options->backoff_max) child->lacks = 0;
    double silent = supervisor_silence(s, index);
    if (silent > s->options->hang_report && !place->operations->takes_writes(place->context, index, spec)) {
        /* A missing heartbeat that cannot be written is nobody's fault; looks again in a second. */
        child->alive_at = clock_monotonic() - s->options->hang_report + 1;
        return;
    }
    if (silent > s->options->hang_report) report_silence(s, index, silent);
    if (silent > s->options->hang_report + s->options->hang_kill) send_signal(s, index, SIGKILL, true);
}

/* Interrupts a source only after it has shown that it handles signals: before that, SIGINT would kill it. */
static void pass_interrupt(struct supervisor *s, size_t index) {
    struct child *child = &s->children[index];
    const struct supervisor_child *spec = &s->specs[index];
    bool listens = spec->heartbeat == NULL || child->beaten ||
                   (!spec->heartbeat_expected && clock_monotonic() > child->started_at + 5);
    if (!child->interrupt || !listens) return;
    child->interrupt = false;
    send_signal(s, index, SIGINT, false);
}

static enum status start_when_possible(struct supervisor *s, size_t index, struct err *err) {
    struct err own = {0};
    enum status status = start(s, index, &own);
    if (status == STATUS_UNAVAILABLE && own.message[0] == '\0')
        s->children[index].start_at = clock_monotonic() + WAITED;
    else if (status == STATUS_UNAVAILABLE)
        wait_for_machine(s, index, own.message);
    FAIL_IF(status != STATUS_OK && status != STATUS_UNAVAILABLE, err, status, "%s", own.message);
    return STATUS_OK;
}

static enum status advance(struct supervisor *s, struct err *err) {
    for (size_t i = 0; i < s->count; i++) {
        struct child *child = &s->children[i];
        if (child->state == CHILD_WAITING && !s->stopping && clock_monotonic() >= child->start_at)
            TRY(child->unburied ? bury_when_possible(s, i, err) : start_when_possible(s, i, err));
        if (child->state != CHILD_RUNNING) continue;
        if (child->renew_kill_at > 0 && clock_monotonic() >= child->renew_kill_at) {
            send_signal(s, i, SIGKILL, false);
            child->renew_kill_at = clock_monotonic() + 1;
        }
        watch_heartbeat(s, i);
        pass_interrupt(s, i);
    }
    if (s->stopping && clock_monotonic() >= s->kill_at) {
        signal_all(s, SIGKILL);
        s->kill_at = clock_monotonic() + 1;
    }
    return STATUS_OK;
}

static void take_signal(struct supervisor *s, int signal) {
    if (signal == SIGCHLD) return;
    if (signal == SIGINT && !s->draining && !s->stopping) {
        say(s, "draining: finishing what has started; nothing new is taken in (Ctrl-C again to stop at once)");
        drain(s);
    } else if (!s->stopping) {
        say(s, "stopping now; run the session again to go on from here");
        stop(s);
    }
}

static enum status wait_for_event(struct supervisor *s, struct err *err) {
    double until = clock_monotonic() + s->options->tick;
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].state == CHILD_WAITING && s->children[i].start_at < until) until = s->children[i].start_at;
    double left = until - clock_monotonic();
    struct pollfd poller = {.fd = s->signals, .events = POLLIN};
    int ready = poll(&poller, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
    FAIL_IF(ready < 0 && errno != EINTR, err, STATUS_IO, "waiting for signals failed: %s", strerror(errno));
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == sizeof info)
        take_signal(s, (int)info.ssi_signo);
    return STATUS_OK;
}

static bool all_ended(const struct supervisor *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].state != CHILD_ENDED) return false;
    return true;
}

static enum status loop(struct supervisor *s, struct err *err) {
    while (!all_ended(s)) {
        TRY(advance(s, err));
        TRY(wait_for_event(s, err));
        TRY(reap(s, err));
        if (s->hooks->tick != NULL) s->hooks->tick(s->hooks->context, s);
    }
    return STATUS_OK;
}

/* After an error, no child may be left running. */
static void kill_rest(struct supervisor *s) {
    signal_all(s, SIGKILL);
    for (size_t i = 0; i < s->count; i++)
        if (s->children[i].state == CHILD_RUNNING) {
            const struct process_place *place = s->children[i].place;
            place->operations->bury(place->context, i, s->children[i].pid);
            s->children[i].state = CHILD_ENDED;
        }
}

enum status supervisor_run(const struct supervisor_child *children, size_t count,
                           const struct supervisor_options *options, const struct supervisor_hooks *hooks,
                           enum supervisor_outcome *ret_outcome, struct err *err) {
    struct supervisor s = {.specs = children, .count = count, .options = options, .hooks = hooks, .signals = -1};
    enum status status = signals_open(&s.old_mask, &s.signals, err);
    s.here = place_local(&s.old_mask);
    s.children = calloc(count + 1, sizeof *s.children);
    if (status == STATUS_OK && s.children == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory to watch %zu processes", count);
    if (status == STATUS_OK) status = loop(&s, err);
    if (s.children != NULL) kill_rest(&s);
    signals_close(s.signals, &s.old_mask);
    free(s.children);
    if (status == STATUS_OK)
        *ret_outcome = s.gave_up ? SUPERVISOR_GAVE_UP : s.stopping ? SUPERVISOR_STOPPED : SUPERVISOR_ENDED;
    return status;
}
