#include "pipelines/launcher/run/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"

/* Runs the tool's side of the fork; does not return. output −1: the log takes it. */
static void become(const char *const *words, const char *log, int output, pid_t parent) {
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(127);
    int input = open("/dev/null", O_RDWR), error = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (error < 0) error = input;
    if (output < 0) output = error;
    if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(error, 2) < 0) _exit(127);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(words[0], (char *const *)words);
    dprintf(2, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(127);
}

enum status tool_start(struct tool *ret_tool, const char *const *words, const char *log, bool keeps, struct err *err) {
    int ends[2] = {-1, -1};
    FAIL_IF(keeps && pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0, err, STATUS_UNAVAILABLE, "no pipe: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(words, log, ends[1], parent);
    int reason = errno;
    file_close(&ends[1]);
    if (pid < 0) file_close(&ends[0]);
    FAIL_IF(pid < 0, err, STATUS_UNAVAILABLE, "%s cannot be started: %s", words[0], strerror(reason));
    *ret_tool = (struct tool){.pid = pid, .output = ends[0]};
    return STATUS_OK;
}

/* Takes what there is; what is longer than the text is lost. */
static void take(struct tool *tool) {
    char bytes[TOOL_TEXT_SIZE];
    ssize_t length;
    while (tool->output >= 0 && (length = read(tool->output, bytes, sizeof bytes)) > 0) {
        size_t room = sizeof tool->text - 1 - tool->length;
        size_t fits = (size_t)length < room ? (size_t)length : room;
        memcpy(tool->text + tool->length, bytes, fits);
        tool->length += fits;
        tool->text[tool->length] = '\0';
    }
}

bool tool_ended(struct tool *tool, int *ret_exit) {
    int status = 0;
    pid_t found = waitpid(tool->pid, &status, WNOHANG);
    take(tool);
    if (found == 0 || (found < 0 && errno == EINTR)) return false;
    take(tool); /* what it printed between the two */
    file_close(&tool->output);
    tool->pid = 0;
    *ret_exit = found > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return true;
}

int tool_end(struct tool *tool, double seconds) {
    const double begin = clock_monotonic();
    bool asked = false;
    int code = -1;
    if (tool->pid <= 0) return code;
    while (!tool_ended(tool, &code)) {
        const double passed = clock_monotonic() - begin;
        if (passed > seconds + 1)
            kill(-tool->pid, SIGKILL);
        else if (passed > seconds && !asked)
            asked = kill(tool->pid, SIGTERM) == 0;
        clock_pause(0.02);
    }
    return code;
}
