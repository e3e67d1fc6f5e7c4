#include "pipelines/launcher/alarms/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/memory.h"

extern char **environ;

enum { WAITING = 16, LATER = 6 };

struct notify {
    char program[PATH_SIZE], folder[PATH_SIZE], output[PATH_SIZE];
    double limit, pause;
    int tries;
    char *texts[WAITING]; /* the first one is on its way */
    size_t count;
    int tried;       /* of the first one */
    double try_at;   /* when the next try is due */
    pid_t child;     /* 0: none runs */
    double deadline; /* of the child */
    bool killed;
    long long sent, failed;
    char message[512];
};

void notify_defaults(struct notify_options *options) {
    options->limit = 20;
    options->pause = 5;
    options->tries = 3;
}

enum status notify_new(const struct notify_options *options, struct notify **ret_notify, struct err *err) {
    struct notify *notify = NULL;
    TRY(mem_new(1, sizeof *notify, "the program that tells of alarms", &notify, err));
    snprintf(notify->program, sizeof notify->program, "%s", options->program);
    snprintf(notify->folder, sizeof notify->folder, "%s", options->folder);
    snprintf(notify->output, sizeof notify->output, "%s", options->output != NULL ? options->output : "/dev/null");
    notify->limit = options->limit;
    notify->pause = options->pause;
    notify->tries = options->tries;
    *ret_notify = notify;
    return STATUS_OK;
}

void notify_free(struct notify **address) {
    struct notify *notify = *address;
    if (notify == NULL) return;
    if (notify->child > 0) {
        kill(-notify->child, SIGKILL);
        kill(notify->child, SIGKILL);
        waitpid(notify->child, NULL, 0);
    }
    for (size_t i = 0; i < notify->count; i++)
        free(notify->texts[i]);
    free(notify);
    *address = NULL;
}

enum status notify_add(struct notify *notify, char *text, struct err *err) {
    FAIL_IF(notify->count == WAITING, err, STATUS_BAD_STATE, "%d messages wait for %s already", (int)WAITING,
            notify->program);
    notify->texts[notify->count++] = text;
    return STATUS_OK;
}

bool notify_busy(const struct notify *notify) {
    return notify->count > 0;
}

struct notify_state notify_state(const struct notify *notify) {
    return (struct notify_state){notify->sent, notify->failed, notify->message};
}

/* Puts the text into a file without a name, from which the program reads: it needs no writer that waits for a slow
 * reader, and no signal comes when the reader ends early. */
static int open_text(const char *text) {
    int descriptor = memfd_create("notify", MFD_CLOEXEC);
    const size_t length = strlen(text);
    size_t done = 0;
    while (descriptor >= 0 && done < length) {
        const ssize_t some = write(descriptor, text + done, length - done);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) break;
        done += (size_t)some;
    }
    if (descriptor >= 0 && (done < length || lseek(descriptor, 0, SEEK_SET) != 0)) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

static int spawn(struct notify *notify, int input) {
    char *const argv[] = {notify->program, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0) return code;
    code = posix_spawnattr_init(&attributes);
    if (code != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return code;
    }
    if (code == 0) code = posix_spawn_file_actions_adddup2(&actions, input, 0);
    if (code == 0)
        code = posix_spawn_file_actions_addopen(&actions, 1, notify->output, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (code == 0) code = posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (code == 0) code = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (code == 0) code = posix_spawn_file_actions_addchdir_np(&actions, notify->folder);
    if (code == 0)
        code = posix_spawnattr_setflags(&attributes,
                                        POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (code == 0) code = posix_spawnattr_setsigmask(&attributes, &none);
    if (code == 0) code = posix_spawnattr_setsigdefault(&attributes, &all);
    if (code == 0) code = posix_spawn(&notify->child, notify->program, &actions, &attributes, argv, environ);
    if (code != 0) notify->child = 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* The first text was told, or is given up. */
static void finish(struct notify *notify, bool told) {
    free(notify->texts[0]);
    notify->count--;
    memmove(notify->texts, notify->texts + 1, notify->count * sizeof notify->texts[0]);
    notify->tried = 0;
    notify->try_at = 0;
    notify->sent += told;
    notify->failed += !told;
    if (told) notify->message[0] = '\0';
}

static void fail(struct notify *notify, double now) {
    if (notify->tried >= notify->tries)
        finish(notify, false);
    else
        notify->try_at = now + notify->pause * (notify->tried == 1 ? 1 : LATER);
}

static void start(struct notify *notify, double now) {
    _cleanup_(file_close) int input = open_text(notify->texts[0]);
    int code = input < 0 ? errno : spawn(notify, input);
    notify->tried++;
    notify->killed = false;
    notify->deadline = now + notify->limit;
    if (code == 0) return;
    snprintf(notify->message, sizeof notify->message, "%.300s cannot be started: %.100s", notify->program,
             strerrordesc_np(code));
    fail(notify, now);
}

/* Looks whether the program has ended, and kills it when its time is over. */
static void look(struct notify *notify, double now) {
    int ended = W_EXITCODE(127, 0); /* where somebody else has waited for it */
    if (waitpid(notify->child, &ended, WNOHANG) == 0) {
        if (now < notify->deadline || notify->killed) return;
        notify->killed = true;
        kill(-notify->child, SIGKILL);
        return;
    }
    kill(-notify->child, SIGKILL); /* what it has left behind */
    notify->child = 0;
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) {
        finish(notify, true);
        return;
    }
    if (notify->killed)
        snprintf(notify->message, sizeof notify->message, "%.300s did not end within %g s", notify->program,
                 notify->limit);
    else if (WIFSIGNALED(ended))
        snprintf(notify->message, sizeof notify->message, "%.300s was killed by signal %d", notify->program,
                 WTERMSIG(ended));
    else
        snprintf(notify->message, sizeof notify->message, "%.300s ended with exit code %d", notify->program,
                 WEXITSTATUS(ended));
    fail(notify, now);
}

void notify_tick(struct notify *notify, double now) {
    if (notify->child > 0) look(notify, now);
    if (notify->child == 0 && notify->count > 0 && now >= notify->try_at) start(notify, now);
}
