/* Tests parameters, reject_if rules and devices: right and wrong values of each kind, from text, from JSON and from a
 * description. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device.h"
#include "common/harness/params.h"
#include "common/harness/rules.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

struct picker {
    bool invert;
    int seed, classes;
    double threshold, lowpass;
    char *symmetry, *reference;
    int method;
    struct param_floats log_diameter, centre;
};

#define OFFSET(member) offsetof(struct picker, member)
static const struct param table[] = {
    {"invert", PARAM_BOOL, OFFSET(invert), "", "true", 0, 0, NULL, 0, false, "dark particles"},
    {"classes", PARAM_INT, OFFSET(classes), "", "50", 1, 1000, NULL, 0, false, "number of classes"},
    {"threshold", PARAM_FLOAT, OFFSET(threshold), "", "auto", 0, 10, NULL, 0, false, "threshold", NULL, PARAM_LIVE},
    {"lowpass", PARAM_FLOAT, OFFSET(lowpass), "Å", "20", 1, INFINITY, NULL, 0, false, "low-pass"},
    {"symmetry", PARAM_STRING, OFFSET(symmetry), "", "C1", 0, 0, NULL, 0, false, "point group"},
    {"reference", PARAM_PATH, OFFSET(reference), "", NULL, 0, 0, NULL, 0, true, "a map to begin with"},
    {"method", PARAM_CHOICE, OFFSET(method), "", "on-the-fly", 0, 0, "auto|on-the-fly|ellr", 0, false, "how"},
    {"log_diameter", PARAM_FLOATS, OFFSET(log_diameter), "Å", NULL, 0, 0, NULL, 2, false, "smallest and largest", NULL,
     PARAM_RESTART},
    {"seed", PARAM_INT, OFFSET(seed), "", "1", 0, 1 << 24, NULL, 0, false, "of chance"},
    {"centre", PARAM_FLOATS, OFFSET(centre), "px", "1,2", -5, 5, NULL, 0, false, "centre"},
};
enum { COUNT = sizeof table / sizeof *table };

static void defaults_are_filled(void **state) {
    (void)state;
    struct picker p = {0};
    struct err err = {0};
    assert_ok(params_defaults(table, COUNT, &p, &err));
    assert_true(p.invert && p.classes == 50 && isnan(p.threshold) && p.lowpass == 20 && p.method == 1);
    assert_string_equal(p.symmetry, "C1");
    assert_null(p.reference);
    assert_int_equal(p.log_diameter.count, 0);
    assert_true(p.centre.count == 2 && p.centre.values[1] == 2);
    params_clear(table, COUNT, &p);
    assert_null(p.symmetry);
}

static void values_of_each_kind(void **state) {
    (void)state;
    struct picker p = {0};
    struct err err = {0};
    assert_ok(params_defaults(table, COUNT, &p, &err));
    static const char *const pairs[][2] = {{"invert", "no"},          {"classes", "7"},   {"threshold", "0.25"},
                                           {"symmetry", "D2"},        {"method", "ellr"}, {"log-diameter", "100, 150"},
                                           {"centre", "[ 1 , -2.5]"}, {"symmetry", "D3"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_ok(params_set(table, COUNT, &p, pairs[i][0], pairs[i][1], "test", &err));
    assert_true(!p.invert && p.classes == 7 && p.threshold == 0.25 && p.method == 2);
    assert_string_equal(p.symmetry, "D3");
    assert_true(p.log_diameter.count == 2 && p.log_diameter.values[1] == 150);
    assert_true(p.centre.count == 2 && p.centre.values[1] == -2.5);
    assert_ok(params_set(table, COUNT, &p, "threshold", "auto", "test", &err));
    assert_true(isnan(p.threshold));
    params_clear(table, COUNT, &p);
}

struct wrong {
    const char *key, *text, *message;
};
static const struct wrong wrongs[] = {
    {"classses", "1", "line 7: there is no parameter 'classses': did you mean 'classes'?"},
    {"zzz", "1", "line 7: there is no parameter 'zzz' (--help lists them)"},
    {"classes", "0", "line 7: classes is 0; it must be 1 to 1000"},
    {"seed", "-1", "line 7: seed is -1; it must be 0 to 16777216"},
    {"classes", "3.5", "line 7: classes is '3.5'; it must be a whole number"},
    {"classes", "99999999999", "line 7: classes is '99999999999', which is too large"},
    {"classes", "auto", "line 7: classes is 'auto'; it must be a whole number"},
    {"classes", "", "line 7: classes is ''; it must be a whole number"},
    {"threshold", "high", "line 7: threshold is 'high'; it must be a number, or auto"},
    {"threshold", "nan", "line 7: threshold is 'nan'; it must be a number, or auto"},
    {"lowpass", "0.5", "line 7: lowpass is 0.5; it must be 1 or more, in Å"},
    {"lowpass", "20A", "line 7: lowpass is '20A'; it must be a number in Å"},
    {"invert", "maybe", "line 7: invert is 'maybe'; it must be true or false"},
    {"method", "on-the-fyl",
     "line 7: method is 'on-the-fyl'; it must be auto, on-the-fly or ellr: did you mean on-the-fly?"},
    {"method", "sirt", "line 7: method is 'sirt'; it must be auto, on-the-fly or ellr"},
    {"log_diameter", "100", "line 7: log_diameter holds 1 number ('100'); it must hold 2"},
    {"log_diameter", "[1,2", "line 7: log_diameter is '[1,2'; it must be a list of numbers, such as 1,2"},
    {"centre", "1,6", "line 7: centre is 6; it must be -5 to 5 px"},
    {"centre", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0", "line 7: centre holds more than 16 numbers"},
};

static void wrong_values_are_refused_alike(void **state) {
    (void)state;
    struct picker p = {0};
    struct err err = {0};
    assert_ok(params_defaults(table, COUNT, &p, &err));
    json_t *described = params_describe(table, COUNT);
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *wrong = &wrongs[i];
        assert_int_equal(params_set(table, COUNT, &p, wrong->key, wrong->text, "line 7", &err), STATUS_BAD_ARGUMENT);
        assert_string_equal(err.message, wrong->message);
        /* The launcher knows only the output of --describe, and must give the same messages. */
        assert_int_equal(params_check_json(described, wrong->key, wrong->text, "line 7", &err), STATUS_BAD_ARGUMENT);
        assert_string_equal(err.message, wrong->message);
    }
    assert_ok(params_check_json(described, "log-diameter", "1,2", "", &err));
    assert_ok(params_check_json(described, "threshold", "auto", "", &err));
    assert_int_equal(params_changes_of(described, "threshold"), PARAM_LIVE);
    assert_int_equal(params_changes_of(described, "log-diameter"), PARAM_RESTART);
    assert_int_equal(params_changes_of(described, "classes"), PARAM_NEVER);
    assert_int_equal(params_changes_of(described, "nothing"), PARAM_NEVER);
    assert_int_equal(params_check_json(described, "reference", "/nowhere/x.mrc", "line 7", &err), STATUS_NOT_FOUND);
    json_decref(described);
    assert_int_equal(p.classes, 50);
    params_clear(table, COUNT, &p);
}

static void json_fills_the_struct(void **state) {
    (void)state;
    struct picker p = {0};
    struct err err = {0};
    assert_ok(params_defaults(table, COUNT, &p, &err));
    json_t *object = json_loads("{\"invert\": false, \"classes\": 9, \"lowpass\": 1.62, \"symmetry\": [3, 4],"
                                " \"log_diameter\": [1.5, 2], \"threshold\": null}",
                                0, NULL);
    assert_ok(params_set_json(table, COUNT, &p, object, "graph", &err));
    json_decref(object);
    assert_true(!p.invert && p.classes == 9 && p.lowpass == 1.62 && p.log_diameter.values[0] == 1.5);
    assert_string_equal(p.symmetry, "3,4");
    static const char *const bad[] = {"{\"invert\": {}}", "{\"centre\": [[1]]}", "{\"nothing\": null}", "[]"};
    for (size_t i = 0; i < 4; i++) {
        object = json_loads(bad[i], 0, NULL);
        assert_int_not_equal(params_set_json(table, COUNT, &p, object, "graph", &err), STATUS_OK);
        json_decref(object);
    }
    params_clear(table, COUNT, &p);
}

static void what_is_required_must_be_there(void **state) {
    (void)state;
    struct picker p = {0};
    struct err err = {0};
    assert_ok(params_defaults(table, COUNT, &p, &err));
    assert_int_equal(params_check(table, COUNT, &p, "line 7", &err), STATUS_BAD_ARGUMENT);
    assert_string_equal(err.message, "line 7: reference is not set, and it must be: a map to begin with");
    assert_ok(params_set(table, COUNT, &p, "reference", "/nowhere/ref.mrc", "line 7", &err));
    assert_int_equal(params_check(table, COUNT, &p, "line 7", &err), STATUS_NOT_FOUND);
    assert_string_equal(err.message, "line 7: reference is '/nowhere/ref.mrc', which is not there");
    assert_ok(params_set(table, COUNT, &p, "reference", "/", "line 7", &err));
    assert_ok(params_check(table, COUNT, &p, "line 7", &err));
    params_clear(table, COUNT, &p);
}

static void help_names_all(void **state) {
    (void)state;
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    params_help(table, COUNT, stream);
    fclose(stream);
    assert_non_null(strstr(text, "  --classes NUMBER            number of classes (1 to 1000; default: 50)\n"));
    assert_non_null(strstr(text, "  --lowpass Å                 low-pass (1 or more; default: 20)\n"));
    assert_non_null(strstr(text, "  --seed NUMBER               of chance (0 to 16777216; default: 1)\n"));
    assert_non_null(strstr(text, "  --reference PATH            a map to begin with (required)\n"));
    assert_non_null(strstr(text, "(auto|on-the-fly|ellr; default: on-the-fly)\n"));
    free(text);
}

static void long_help_is_wrapped(void **state) {
    (void)state;
    static const struct param wide[] = {
        {.name = "anything",
         .type = PARAM_FLOAT,
         .unit = "Å",
         .minimum = -INFINITY,
         .maximum = INFINITY,
         .help = "A first sentence that is long enough for two lines of help, and then some more words. A second one.\n"
                 "A third one, after a newline."},
    };
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    params_help(wide, 1, stream);
    fclose(stream);
    assert_string_equal(
        text, "  --anything Å                A first sentence that is long enough for two lines of help, and then\n"
              "                              some more words. A second one. A third one, after a newline.\n");
    free(text);
}

static void rules_decide(void **state) {
    (void)state;
    struct rules rules;
    struct err err = {0};
    struct item *item = NULL;
    uint32_t judged = 0;
    assert_ok(item_create("m", "micrograph", &item, &err));
    assert_ok(item_set_number(item, "columns.rlnCtfFigureOfMerit", 0.035, &err));
    assert_ok(item_set_number(item, "picks.count", 12, &err));
    assert_ok(rules_parse("rlnCtfFigureOfMerit < 0.03, picks.count>=13,absent == 1", &rules, &err));
    assert_int_equal(rules.count, 3);
    assert_ok(rules_apply(&rules, item, &judged, &err));
    assert_int_equal(judged, 3);
    assert_ok(rules_parse("rlnCtfFigureOfMerit < 0.1", &rules, &err));
    judged = 0;
    assert_int_equal(rules_apply(&rules, item, &judged, &err), STATUS_REJECTED);
    assert_string_equal(err.message, "rlnCtfFigureOfMerit 0.035 < 0.1 (reject_if)");
    assert_ok(rules_parse("picks.count != 11", &rules, &err));
    judged = 0;
    assert_int_equal(rules_apply(&rules, item, &judged, &err), STATUS_REJECTED);
    static const char *const bad[] = {"x", "x <", "< 3", "x = 3", "x < 3 4", "x < y", "x < nan", ",", "x <> 3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rules_parse(bad[i], &rules, &err), STATUS_BAD_ARGUMENT);
    item_destroy(&item);
}

static void devices(void **state) {
    (void)state;
    struct device device = {DEVICE_CUDA, 9};
    struct err err = {0};
    int count = -1;
    assert_ok(device_count(&count, &err));
    assert_ok(device_parse("cpu", &device, &err));
    assert_int_equal(device.kind, DEVICE_CPU);
    assert_ok(device_parse("auto", &device, &err));
    assert_int_equal(device.kind, count > 0 ? DEVICE_CUDA : DEVICE_CPU);
    assert_int_equal(device_parse("cuda:999", &device, &err), STATUS_UNSUPPORTED);
    static const char *const bad[] = {"gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(device_parse(bad[i], &device, &err), STATUS_BAD_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_filled),
        cmocka_unit_test(values_of_each_kind),
        cmocka_unit_test(wrong_values_are_refused_alike),
        cmocka_unit_test(json_fills_the_struct),
        cmocka_unit_test(what_is_required_must_be_there),
        cmocka_unit_test(help_names_all),
        cmocka_unit_test(long_help_is_wrapped),
        cmocka_unit_test(rules_decide),
        cmocka_unit_test(devices),
    };
    return scratch_run("params", tests, sizeof tests / sizeof *tests);
}
