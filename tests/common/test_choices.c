/* Marks of exposures and choices of classes, as the history of a session tells them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/harness/choices.h"
#include "tests/common/scratch.h"

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct err err = {0};                                                                                          \
        if ((call) != STATUS_OK) fail_msg("%s:%d: %s", err.file, err.line, err.message);                               \
    } while (0)

static char session[PATH_SIZE];

static void write_text(const char *name, const char *text) {
    char path[PATH_SIZE];
    OK(path_join(session, name, path, sizeof path, &err));
    OK(file_write_whole(path, text, strlen(text), &err));
}

/* Adds a change with these members. */
static void change(int number, const char *members) {
    char name[64], text[2048];
    snprintf(name, sizeof name, "changes/%04d.json", number);
    snprintf(text, sizeof text, "{\"v\": 1, \"number\": %d, \"time\": 5.5, \"user\": \"ada\", \"changes\": []%s%s}",
             number, *members != '\0' ? ", " : "", members);
    write_text(name, text);
}

static void members(int number, const char *rows) {
    char name[64], text[2048];
    snprintf(name, sizeof name, "changes/%04d.star", number);
    snprintf(
        text, sizeof text,
        "data_particles\n\nloop_\n_rlnImageName #1\n_rlnClassNumber #2\n_rlnCoordinateX #3\n_rlnCoordinateY #4\n%s\n",
        rows);
    write_text(name, text);
}

/* Each test has a session of its own. */
static void begin_session(const char *name) {
    char folder[PATH_SIZE];
    scratch_path(name, session);
    OK(path_join(session, "changes", folder, sizeof folder, &err));
    OK(file_make_folders(folder, 0777, &err));
}

static struct choices *begin(const char *stage) {
    struct choices *c = NULL;
    OK(choices_create(session, stage, &c, &err));
    return c;
}

static bool poll(struct choices *c) {
    bool changed = false;
    OK(choices_poll(c, &changed, &err));
    return changed;
}

static enum choice item(const struct choices *c, const char *source, const char *id) {
    return choices_of_item(c, (struct ledger_key){source, id});
}

static void the_last_mark_counts(void **state) {
    (void)state;
    begin_session(__func__);
    struct choices *c = begin(NULL);
    assert_false(poll(c));
    assert_int_equal(choices_number(c), 0);
    change(1, "");
    assert_false(poll(c));
    change(2, "\"marks\": [{\"source\": \"a\", \"id\": \"m1\", \"mark\": \"reject\", \"why\": \"ice\"},"
              "{\"source\": \"b\", \"id\": \"m1\", \"mark\": \"keep\"}]");
    assert_true(poll(c));
    assert_int_equal(choices_number(c), 2);
    assert_int_equal(item(c, "a", "m1"), CHOICE_REJECT);
    assert_int_equal(item(c, "b", "m1"), CHOICE_KEEP);
    assert_int_equal(item(c, "a", "m2"), CHOICE_NONE);
    const json_t *mark = choices_mark(c, (struct ledger_key){"a", "m1"});
    assert_string_equal(json_string_value(json_object_get(mark, "why")), "ice");
    assert_string_equal(json_string_value(json_object_get(mark, "user")), "ada");
    assert_int_equal(json_integer_value(json_object_get(mark, "number")), 2);
    assert_int_equal(choices_count(c, CHOICE_REJECT), 1);
    change(3, "\"marks\": [{\"source\": \"a\", \"id\": \"m1\", \"mark\": \"keep\"}]");
    change(4, "\"marks\": [{\"source\": \"b\", \"id\": \"m1\", \"mark\": null}]");
    assert_true(poll(c));
    assert_false(poll(c));
    assert_int_equal(item(c, "a", "m1"), CHOICE_KEEP);
    assert_int_equal(item(c, "b", "m1"), CHOICE_NONE);
    assert_int_equal(choices_number(c), 4);
    /* A ledger of an earlier version does not know the source. */
    assert_int_equal(item(c, "", "m1"), CHOICE_KEEP);
    choices_destroy(&c);
    assert_null(c);
}

#define CHOICE(iteration, classes, choice)                                                                             \
    "\"choices\": [{\"stage\": \"classifier\", \"iteration\": " #iteration ", \"classes\": [" classes                  \
    "], \"choice\": " choice "}]"

static enum choice particle(const struct choices *c, const char *image) {
    return choices_of_particle(c, image, "", "");
}

static void a_choice_binds_until_it_is_taken_back(void **state) {
    (void)state;
    begin_session(__func__);
    struct choices *c = begin("classifier"), *other = begin("other"), *late;
    members(1, "1@a.mrcs 1 10 10\n2@a.mrcs 2 20 20\n3@a.mrcs 3 30 30");
    change(1, CHOICE(8, "1, 3", "\"keep\"") ", \"members\": \"changes/0001.star\"");
    assert_true(poll(c));
    assert_int_equal(particle(c, "1@a.mrcs"), CHOICE_KEEP);
    assert_int_equal(particle(c, "2@a.mrcs"), CHOICE_NONE);
    assert_int_equal(particle(c, "3@a.mrcs"), CHOICE_KEEP);
    assert_int_equal(particle(c, "4@a.mrcs"), CHOICE_NONE);
    /* Another snapshot's choice comes later, and counts; taken back, the earlier one counts again. */
    members(2, "1@a.mrcs 5 10 10\n4@a.mrcs 5 40 40");
    change(2, CHOICE(9, "5", "\"reject\"") ", \"members\": \"changes/0002.star\"");
    assert_true(poll(c));
    assert_int_equal(particle(c, "1@a.mrcs"), CHOICE_REJECT);
    assert_int_equal(particle(c, "4@a.mrcs"), CHOICE_REJECT);
    change(3, CHOICE(9, "5", "null"));
    assert_true(poll(c));
    assert_int_equal(particle(c, "1@a.mrcs"), CHOICE_KEEP);
    assert_int_equal(particle(c, "4@a.mrcs"), CHOICE_NONE);
    change(4, CHOICE(8, "3", "null"));
    assert_true(poll(c));
    assert_int_equal(particle(c, "3@a.mrcs"), CHOICE_NONE);
    assert_int_equal(particle(c, "1@a.mrcs"), CHOICE_KEEP);
    change(5, CHOICE(8, "", "null"));
    assert_true(poll(c));
    assert_int_equal(particle(c, "1@a.mrcs"), CHOICE_NONE);
    assert_false(poll(other));
    /* A reader of all changes at once knows the same. */
    late = begin("classifier");
    assert_true(poll(late));
    assert_int_equal(choices_number(late), 5);
    assert_int_equal(particle(late, "1@a.mrcs"), CHOICE_NONE);
    choices_destroy(&late);
    choices_destroy(&other);
    choices_destroy(&c);
}

static void a_particle_that_was_made_again_is_another(void **state) {
    (void)state;
    begin_session(__func__);
    struct choices *c = begin("classifier");
    members(1, "1@a.mrcs 1 10.5 10");
    change(1, CHOICE(8, "1", "\"reject\"") ", \"members\": \"changes/0001.star\"");
    assert_true(poll(c));
    assert_int_equal(choices_of_particle(c, "1@a.mrcs", "10.5", "10"), CHOICE_REJECT);
    assert_int_equal(choices_of_particle(c, "1@a.mrcs", "10.5", "11"), CHOICE_NONE);
    choices_destroy(&c);
}

static void another_graph_begins_anew(void **state) {
    (void)state;
    begin_session(__func__);
    struct choices *c = begin("classifier");
    members(1, "1@a.mrcs 1 10 10");
    change(1,
           CHOICE(8, "1", "\"reject\"") ", \"members\": \"changes/0001.star\", \"marks\": [{\"source\": \"a\", \"id\": "
                                        "\"m1\", \"mark\": \"reject\"}]");
    assert_true(poll(c));
    assert_int_equal(item(c, "a", "m1"), CHOICE_REJECT);
    change(2, "\"whole\": true");
    assert_true(poll(c));
    assert_int_equal(item(c, "a", "m1"), CHOICE_NONE);
    assert_int_equal(particle(c, "1@a.mrcs"), CHOICE_NONE);
    choices_destroy(&c);
}

/* Changes before a broken file still count, and the file is read once it is whole. */
static void a_broken_file_is_named(void **state) {
    (void)state;
    static const char *const broken[] = {
        "{",
        "[]",
        "{\"number\": 3}",
        "{\"number\": 2, \"marks\": [{\"id\": \"m1\", \"mark\": \"maybe\"}]}",
        "{\"number\": 2, \"marks\": [{\"id\": 5, \"mark\": null}]}",
        "{\"number\": 2, \"choices\": [{\"stage\": \"classifier\", \"classes\": 1, \"choice\": null}]}",
        "{\"number\": 2, \"choices\": [{\"stage\": \"classifier\", \"classes\": [1], \"choice\": \"keep\"}], "
        "\"members\": "
        "\"changes/none.star\"}"};
    begin_session(__func__);
    struct choices *c = begin("classifier");
    change(1, "\"marks\": [{\"source\": \"a\", \"id\": \"m1\", \"mark\": \"reject\"}]");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct err err = {0};
        write_text("changes/0002.json", broken[i]);
        assert_int_not_equal(choices_poll(c, NULL, &err), STATUS_OK);
        assert_non_null(strstr(err.message, i < 6 ? "0002.json" : "none.star"));
        assert_int_equal(item(c, "a", "m1"), CHOICE_REJECT);
        assert_int_equal(choices_number(c), 1);
    }
    change(2, "\"marks\": [{\"source\": \"a\", \"id\": \"m1\", \"mark\": null}]");
    assert_true(poll(c));
    assert_int_equal(item(c, "a", "m1"), CHOICE_NONE);
    choices_destroy(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_mark_counts),
        cmocka_unit_test(a_choice_binds_until_it_is_taken_back),
        cmocka_unit_test(a_particle_that_was_made_again_is_another),
        cmocka_unit_test(another_graph_begins_anew),
        cmocka_unit_test(a_broken_file_is_named),
    };
    return scratch_run("test_choices", tests, sizeof tests / sizeof *tests);
}
