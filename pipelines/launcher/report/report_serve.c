/* The report that `icestream serve` keeps up to date in SESSION/web, for a program that copies it elsewhere. A process of
 * its own writes it, so that nobody who looks at the page waits. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "pipelines/launcher/report/report_serve.h"
#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/view/view.h"

static const double EVERY = 600; /* s */
enum { NICE = 10 };

struct report_keeper {
    pid_t child;    /* 0: none */
    double due;     /* on the monotonic clock (s) */
    uint64_t shown; /* view_revision of the last report, and the state */
    int state;
    bool any;
};

enum status report_serve_begin(struct serve *serve, struct err *err) {
    serve->report = calloc(1, sizeof *serve->report);
    FAIL_IF(serve->report == NULL, err, STATUS_NO_MEMORY, "no memory for the report");
    serve->report->due = serve->now_monotonic + EVERY;
    return STATUS_OK;
}

/* Starts `icestream report`. Between fork and exec only what is safe there: other threads of the server may hold
 * locks. */
static void start(struct serve *serve) {
    char page[PATH_SIZE], program[] = "/proc/self/exe", word[] = "report", session[] = "--session", o[] = "--o";
    if (serve_web_file(serve, "report.html", page, NULL) != STATUS_OK) return;
    char *arguments[] = {program, word, session, serve->folder, o, page, NULL};
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        if (nowhere >= 0) {
            dup2(nowhere, STDIN_FILENO);
            dup2(nowhere, STDOUT_FILENO);
            dup2(nowhere, STDERR_FILENO);
        }
        setpriority(PRIO_PROCESS, 0, NICE);
        /* The server takes its signals from a descriptor; this process is to end by them. */
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        execv(program, arguments);
        _exit(127);
    }
    if (child > 0) serve->report->child = child;
}

static void reap(struct serve *serve) {
    int ended = 0;
    if (serve->report->child == 0 || waitpid(serve->report->child, &ended, WNOHANG) == 0) return;
    serve->report->child = 0;
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0)
        log_write(serve->log, LOG_WARN, "report", "the report could not be written; `icestream report` says why");
}

void report_serve_tick(struct serve *serve) {
    struct report_keeper *keeper = serve->report;
    if (keeper == NULL || serve->read_only || serve->view == NULL) return;
    reap(serve);
    int state = (int)view_state(serve->view);
    /* A session that ends is written at once: this report is the one to keep. */
    bool ends = keeper->any && state != keeper->state && state >= VIEW_STOPPED;
    if (ends) keeper->due = serve->now_monotonic;
    keeper->state = state;
    keeper->any = true;
    if (keeper->child != 0 || serve->now_monotonic < keeper->due) return;
    keeper->due = serve->now_monotonic + EVERY;
    if (view_revision(serve->view) == keeper->shown && !ends) return;
    keeper->shown = view_revision(serve->view);
    start(serve);
}

void report_serve_end(struct serve *serve) {
    if (serve->report == NULL) return;
    if (serve->report->child != 0) {
        kill(serve->report->child, SIGTERM);
        waitpid(serve->report->child, NULL, 0);
    }
    free(serve->report);
    serve->report = NULL;
}
