/* Asks programs: runs them with an option, and reads what they print. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/program.h"

enum { ANSWER_MAX = 1 << 20 };

struct answer {
    char *text;
    size_t length;
    int code; /* exit code; -1: it was killed, did not end in time, or said too much */
};

static void be_asked(const char *path, const char *option, const char *argument, int output) {
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(null, 2) < 0) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execl(path, path, option, argument, (char *)NULL);
    _exit(127);
}

/* Reads up to ANSWER_MAX bytes until the other end closes. Returns false on too much text, or when the time is over. */
static bool read_all(int from, double deadline, struct answer *answer) {
    for (;;) {
        struct pollfd poller = {.fd = from, .events = POLLIN};
        double left = deadline - clock_monotonic();
        int ready = left > 0 ? poll(&poller, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        ssize_t got = read(from, answer->text + answer->length, ANSWER_MAX - answer->length);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return got == 0;
        answer->length += (size_t)got;
        if (answer->length == ANSWER_MAX) return false;
    }
}

/* argument: NULL for none. The caller frees ret_answer->text. */
static enum status ask(const char *path, const char *option, const char *argument, double seconds,
                       struct answer *ret_answer, struct err *err) {
    int pipes[2];
    _cleanup_(mem_free) char *text = malloc(ANSWER_MAX);
    struct answer answer = {.text = text, .code = -1};
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for what %s says of itself", path);
    FAIL_IF(pipe2(pipes, O_CLOEXEC) != 0, err, status_of_reading(errno), "no pipe to %s: %s", path, strerror(errno));
    pid_t child = fork();
    int reason = errno;
    if (child == 0) be_asked(path, option, argument, pipes[1]);
    if (child > 0) setpgid(child, child); /* in case the child has not got there yet */
    close(pipes[1]);
    if (child < 0) {
        close(pipes[0]);
        FAIL(err, status_of_reading(reason), "%s cannot be started: %s", path, strerror(reason));
    }
    bool whole = read_all(pipes[0], clock_monotonic() + seconds, &answer);
    close(pipes[0]);
    /* The program may have closed its output and live on, or have left a grandchild behind. */
    if (!whole) kill(-child, SIGKILL);
    int status;
    while (waitpid(child, &status, 0) < 0)
        FAIL_IF(errno != EINTR, err, STATUS_IO, "%s: lost: %s", path, strerror(errno));
    if (whole && WIFEXITED(status)) answer.code = WEXITSTATUS(status);
    *ret_answer = answer;
    text = NULL;
    return STATUS_OK;
}

enum status program_describe(const char *path, double seconds, json_t **ret_describe, struct err *err) {
    struct answer answer;
    TRY(ask(path, "--describe", NULL, seconds, &answer, err));
    enum status status = STATUS_OK;
    *ret_describe = NULL;
    if (answer.code == 0) status = program_answer(path, answer.text, answer.length, ret_describe, err);
    free(answer.text);
    return status;
}

/* Writes the text into a file in memory, which the program inherits: nothing is left behind, whatever happens. */
static enum status make_file(const char *text, int *ret_file, struct err *err) {
    size_t length = strlen(text), written = 0;
    int file = memfd_create("icestream-check", 0);
    FAIL_IF(file < 0, err, status_of_writing(errno), "no file in memory for a check: %s", strerror(errno));
    while (written < length) {
        ssize_t part = write(file, text + written, length - written);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) {
            int reason = errno;
            close(file);
            FAIL(err, status_of_writing(reason), "no room in memory for a check: %s", strerror(reason));
        }
        written += (size_t)part;
    }
    *ret_file = file;
    return STATUS_OK;
}

enum status program_judge(const char *path, const json_t *instance, double seconds, json_t **ret_problems,
                          struct err *err) {
    struct answer answer = {0};
    int file = -1;
    char name[64];
    _cleanup_(mem_free) char *text = json_dumps(instance, JSON_COMPACT | JSON_REAL_PRECISION(15));
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory to check the parameters of %s", path);
    TRY(make_file(text, &file, err));
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    enum status status = ask(path, "--check", name, seconds, &answer, err);
    close(file);
    TRY(status);
    /* A program exits with 2 where a problem is an error. */
    *ret_problems = NULL;
    if (answer.code == 0 || answer.code == 2)
        status = program_problems(path, answer.text, answer.length, ret_problems, err);
    free(answer.text);
    return status;
}
