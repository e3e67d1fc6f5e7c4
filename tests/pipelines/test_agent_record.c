/* Tests what the agent of a host makes of the words of a launcher. */
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "pipelines/launcher/host/agent_private.h"
#include "pipelines/launcher/host/host_message.h"
#include "tests/common/scratch.h"

static void tell(struct agent *agent, enum host_kind kind, json_t *content) {
    struct err err = {0};
    char *text = NULL;
    size_t length;
    assert_ok(host_message_encode(kind, content, &text, &length, &err));
    agent_take(agent, text, length);
    free(text);
}

/* The record of one run says nothing about the next, whose changes have small numbers again: its processes would pass
 * over them. */
static void a_new_launcher_begins_without_moved_edges(void **state) {
    (void)state;
    const struct agent_options options = {.name = "here"};
    struct agent agent = {.options = &options, .signals = -1};
    char record[PATH_SIZE];
    struct err err = {0};
    scratch_path("host", agent.folder);
    assert_ok(file_make_folders(agent.folder, 0700, &err));
    assert_ok(agent_endpoints_path(&agent, record, &err));
    tell(&agent, HOST_WELCOME, json_pack("{s:s}", "member", "first"));
    tell(&agent, HOST_ORDER,
         json_pack("{s:s, s:i, s:s, s:s}", "member", "first", "number", 1, "what", "endpoints", "record", "{}"));
    assert_int_equal(agent.heard, 1);
    assert_true(file_exists(record));
    tell(&agent, HOST_WELCOME, json_pack("{s:s}", "member", "second"));
    assert_string_equal(agent.member, "second");
    assert_false(file_exists(record));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_new_launcher_begins_without_moved_edges)};
    return scratch_run("agent", tests, sizeof tests / sizeof *tests);
}
