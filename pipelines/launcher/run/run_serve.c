/* The page of a session that runs: `icestream serve` as a process beside the stages. It may die, be killed or never
 * start; the run goes on. When the launcher is killed the server stays for a while, and shows that. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/program.h"
#include "pipelines/launcher/run/run_private.h"
#include "pipelines/launcher/serve/http_server.h"

/* s to wait for the address; before a dead server is started again, at first and at most; for its end. */
static const double ADDRESS = 20, BACKOFF = 1, BACKOFF_MAX = 30, END = 5, END_TELLING = 30;
static const double REPORT = 60; /* s that the report of the end may take */
enum { NICE = 10, WORDS = 10 };

static const char *session_text(const struct run *run, const char *key) {
    const struct graph_entry *entry = graph_entry(&run->graph->session, key);
    return entry != NULL && entry->value.count == 1 ? entry->value.texts[0] : "";
}

static bool is_wanted(const struct run *run) {
    const struct options *options = run->options;
    return options->serve || options->listen != NULL || options->socket != NULL ||
           strcmp(session_text(run, "web"), "true") == 0 || session_text(run, "notify")[0] != '\0';
}

/* Runs the child's side of the fork; does not return. output −1: nobody reads what it prints. */
static void become(const char *const words[WORDS], const char *log, int output) {
    setpgid(0, 0); /* Ctrl-C is for the launcher */
    int input = open("/dev/null", O_RDWR), error = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (output < 0) output = input;
    if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || (error >= 0 && dup2(error, 2) < 0)) _exit(127);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(words[0], (char *const *)words);
    dprintf(2, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(127);
}

/* Starts icestream with the words that follow words[0]. */
static enum status start_own(const struct run *run, const char *words[WORDS], int output, pid_t *ret_pid,
                             struct err *err) {
    char folder[PATH_SIZE], program[PATH_SIZE], log[PATH_SIZE];
    TRY(program_own_folder(folder, sizeof folder, err));
    TRY(path_join(folder, "icestream", program, sizeof program, err));
    TRY(session_file(&run->session, "log", "serve", ".log", log, err));
    words[0] = program;
    pid_t pid = fork();
    if (pid == 0) become(words, log, output);
    words[0] = NULL;
    FAIL_IF(pid < 0, err, STATUS_UNAVAILABLE, "%s cannot be started: %s", program, strerror(errno));
    *ret_pid = pid;
    return STATUS_OK;
}

/* Starts the server. *ret_output: where it prints its address. */
static enum status start(struct run *run, int *ret_output, struct err *err) {
    const char *words[WORDS] = {NULL, "serve", "--session", run->session.path, "--with-run"};
    size_t count = 5;
    int ends[2];
    if (run->options->listen != NULL) {
        words[count++] = "--listen";
        words[count++] = run->options->listen;
    } else if (run->options->socket != NULL) {
        words[count++] = "--socket";
        words[count++] = run->options->socket;
    }
    FAIL_IF(pipe2(ends, O_CLOEXEC) != 0, err, STATUS_UNAVAILABLE, "no pipe: %s", strerror(errno));
    enum status status = start_own(run, words, ends[1], &run->page.pid, err);
    close(ends[1]);
    if (status != STATUS_OK) {
        close(ends[0]);
        return status;
    }
    run->page.begun_at = clock_monotonic();
    *ret_output = ends[0];
    return STATUS_OK;
}

/* Prints what the server says of its address; waits until it has said all. */
static bool pass_on(int output) {
    double end = clock_monotonic() + ADDRESS;
    bool any = false;
    for (;;) {
        char text[1024];
        struct pollfd ready = {.fd = output, .events = POLLIN};
        double left = end - clock_monotonic();
        int polled = left > 0 ? poll(&ready, 1, (int)(left * 1000) + 1) : 0;
        if (polled < 0 && errno == EINTR) continue;
        ssize_t length = polled > 0 ? read(output, text, sizeof text) : 0;
        if (length <= 0) break;
        fwrite(text, 1, (size_t)length, stdout);
        any = true;
    }
    fflush(stdout);
    return any;
}

void run_serve_begin(struct run *run) {
    struct err err = {0};
    _cleanup_(file_close) int output = -1;
    run->page.pid = 0;
    if (!is_wanted(run)) return;
    if (!http_server_is_there()) {
        fputs("icestream: no page and no alarms: this icestream was built without libmicrohttpd\n", stderr);
        return;
    }
    run->page.wanted = true;
    if (start(run, &output, &err) != STATUS_OK)
        fprintf(stderr, "icestream: no page: %s\n", err.message);
    else if (!pass_on(output))
        fprintf(stderr, "icestream: no page yet: %s/log/serve.log says why; the run goes on\n", run->session.path);
}

void run_serve_tend(struct run *run) {
    struct run_page *page = &run->page;
    struct err err = {0};
    double now = clock_monotonic();
    if (!page->wanted) return;
    if (page->pid > 0 && waitpid(page->pid, NULL, WNOHANG) != 0) {
        page->pid = 0;
        page->pause = now - page->begun_at > BACKOFF_MAX || page->pause == 0 ? BACKOFF : 2 * page->pause;
        if (page->pause > BACKOFF_MAX) page->pause = BACKOFF_MAX;
        page->start_at = now + page->pause;
        log_write(run->log, LOG_WARN, "page", "the server of the page has ended; starting it again in %.0f s (log/%s)",
                  page->pause, "serve.log");
    }
    if (page->pid > 0 || now < page->start_at) return;
    _cleanup_(file_close) int output = -1;
    page->start_at = now + BACKOFF_MAX;
    /* The new server prints the same address: token and port stay. Nobody reads it. */
    if (start(run, &output, &err) != STATUS_OK) log_write(run->log, LOG_WARN, "page", "%s", err.message);
}

/* Waits for the end of a child, and kills it after so many seconds. */
static void wait_for(pid_t pid, double seconds) {
    const double end = clock_monotonic() + seconds;
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (clock_monotonic() > end) kill(pid, SIGKILL);
        clock_pause(0.02);
    }
}

void run_serve_end(struct run *run) {
    if (run->page.pid <= 0) return;
    kill(run->page.pid, SIGTERM);
    wait_for(run->page.pid, session_text(run, "notify")[0] != '\0' ? END_TELLING : END);
    run->page.pid = 0;
}

void run_serve_report(struct run *run) {
    char page[PATH_SIZE];
    const char *words[WORDS] = {NULL, "report", "--session", run->session.path, "--o", page};
    pid_t pid = 0;
    if (!run->page.wanted || session_file(&run->session, "web", "report.html", "", page, NULL) != STATUS_OK) return;
    if (start_own(run, words, -1, &pid, NULL) != STATUS_OK) return;
    setpriority(PRIO_PROCESS, (id_t)pid, NICE);
    wait_for(pid, REPORT);
}
