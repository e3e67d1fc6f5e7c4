/* `icestream report`. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/report/report.h"

static const double PDF_SECONDS = 120;

/* ---- PDF ---- */

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place) {
    (void)info;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}

/* Finds a program of one of these names on PATH. */
static enum status find_browser(char path[PATH_SIZE], struct err *err) {
    static const char *const names[] = {"chromium", "chromium-browser", "google-chrome"};
    const char *folders = getenv("PATH");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (const char *folder = folders; folder != NULL && *folder != '\0';) {
            size_t length = strcspn(folder, ":");
            bool fits = snprintf(path, PATH_SIZE, "%.*s/%s", (int)length, folder, names[i]) < PATH_SIZE;
            if (fits && length > 0 && access(path, X_OK) == 0) return STATUS_OK;
            folder += length + (folder[length] == ':');
        }
    FAIL(err, STATUS_NOT_FOUND,
         "--pdf needs Chromium, which is not on PATH; install it (Debian: chromium), or print the page from a browser");
}

/* Runs the browser without its own output; ret_status: as waitpid has it. */
static enum status run_browser(char *const *arguments, double seconds, int *ret_status, struct err *err) {
    pid_t child = fork();
    FAIL_IF(child < 0, err, STATUS_UNAVAILABLE, "%s cannot be started: %s", arguments[0], strerror(errno));
    if (child == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        if (nowhere >= 0) {
            dup2(nowhere, STDIN_FILENO);
            dup2(nowhere, STDOUT_FILENO);
            dup2(nowhere, STDERR_FILENO);
        }
        setpgid(0, 0);
        execv(arguments[0], arguments);
        _exit(127);
    }
    for (double end = clock_monotonic() + seconds;; clock_pause(0.05)) {
        pid_t ended = waitpid(child, ret_status, WNOHANG);
        if (ended == child) return STATUS_OK;
        if (clock_monotonic() < end) continue;
        kill(-child, SIGKILL);
        kill(child, SIGKILL);
        waitpid(child, ret_status, 0);
        FAIL(err, STATUS_UNAVAILABLE, "%s has not printed the report within %.0f s", arguments[0], seconds);
    }
}

enum status report_print_pdf(const char *html, const char *pdf, double seconds, struct err *err) {
    char browser[PATH_SIZE], profile[] = "/tmp/icestream-report-XXXXXX";
    char profile_option[64], pdf_option[PATH_SIZE + 32], address[PATH_SIZE + 16];
    _cleanup_(mem_free) char *whole = realpath(html, NULL);
    FAIL_IF(whole == NULL, err, STATUS_NOT_FOUND, "%s: %s", html, strerror(errno));
    TRY(find_browser(browser, err));
    FAIL_IF(mkdtemp(profile) == NULL, err, status_of_writing(errno), "%s: cannot be made: %s", profile,
            status_reason(errno));
    snprintf(profile_option, sizeof profile_option, "--user-data-dir=%s", profile);
    snprintf(pdf_option, sizeof pdf_option, "--print-to-pdf=%s", pdf);
    snprintf(address, sizeof address, "file://%s", whole);
    char headless[] = "--headless=new", gpu[] = "--disable-gpu", plain[] = "--no-pdf-header-footer";
    char memory[] = "--disable-dev-shm-usage", sandbox[] = "--no-sandbox";
    /* Chromium refuses its sandbox to the administrator. The page has no script and nothing from outside. */
    char *arguments[] = {
        browser, headless, gpu, plain, memory, profile_option, pdf_option, address, geteuid() == 0 ? sandbox : NULL,
        NULL};
    int ended = 0;
    enum status status = run_browser(arguments, seconds, &ended, err);
    nftw(profile, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    TRY(status);
    FAIL_IF(!WIFEXITED(ended) || WEXITSTATUS(ended) != 0 || !file_exists(pdf), err, STATUS_IO,
            "%s could not print %s; the page itself is in order, and any browser prints it", browser, pdf);
    return STATUS_OK;
}

/* ---- the command ---- */

static enum status place(const struct options *options, const struct view *view, char path[PATH_SIZE],
                         struct err *err) {
    if (options->output == NULL) return session_file(view_session(view), "report", "report.html", "", path, err);
    size_t length = strlen(options->output);
    FAIL_IF(length >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "--o: too long a path");
    FAIL_IF(length < 6 || strcmp(options->output + length - 5, ".html") != 0, err, STATUS_BAD_ARGUMENT,
            "--o %s: the report is a page; give a name that ends in .html", options->output);
    memcpy(path, options->output, length + 1);
    return STATUS_OK;
}

static enum status report(struct view *view, const struct options *options, struct err *err) {
    char path[PATH_SIZE], pdf[PATH_SIZE];
    unsigned changed;
    TRY(place(options, view, path, err));
    TRY(view_poll(view, clock_realtime(), &changed, err));
    const struct report_options what = {.path = path, .anonymous = options->anonymous};
    TRY(report_write(view, &what, err));
    printf("%s\n", path);
    if (!options->pdf) return STATUS_OK;
    size_t stem = strlen(path) - strlen(".html");
    snprintf(pdf, sizeof pdf, "%.*s.pdf", (int)stem, path);
    TRY(report_print_pdf(path, pdf, PDF_SECONDS, err));
    printf("%s\n", pdf);
    return STATUS_OK;
}

int command_report(const struct options *options) {
    struct view *view = NULL;
    struct err err = {0};
    enum status status = view_open(options->session, &view, &err);
    if (status == STATUS_OK) status = report(view, options, &err);
    view_close(&view);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
