/* control_tool SESSION BODY: does what a body of POST /api/control says, without a server, and prints the answer, or
 * {"ok": false, "code": N, "message": TEXT}. */
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "pipelines/launcher/control.h"
#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/view/view.h"

static enum status ask(const char *folder, const char *text, json_t **ret_answer, struct err *err) {
    struct serve serve = {.folder_fd = -1, .now = clock_realtime()};
    unsigned changed = 0;
    json_t *body = json_loads(text, 0, NULL);
    snprintf(serve.folder, sizeof serve.folder, "%s", folder);
    enum status status = view_open(folder, &serve.view, err);
    if (status == STATUS_OK) status = view_poll(serve.view, serve.now, &changed, err);
    if (status == STATUS_OK) status = control_do(&serve, "uid 1000", body, ret_answer, err);
    json_decref(body);
    view_close(&serve.view);
    return status;
}

int main(int argc, char **argv) {
    struct err err = {0};
    json_t *answer = NULL;
    if (argc != 3) {
        fputs("usage: control_tool SESSION BODY\n", stderr);
        return 2;
    }
    enum status status = ask(argv[1], argv[2], &answer, &err);
    if (status != STATUS_OK)
        answer = json_pack("{s:b, s:i, s:s}", "ok", 0, "code", http_code(status), "message", err.message);
    json_dumpf(answer, stdout, 0);
    putchar('\n');
    json_decref(answer);
    return 0;
}
