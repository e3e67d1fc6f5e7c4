/* Fuzzes one-line texts from command lines, graphs and STAR files: parameters of every type, reject_if, keep,
 * symmetries, globs, faults of a replay. The first byte selects one. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "common/harness/params.h"
#include "common/harness/rules.h"
#include "common/pattern.h"
#include "kernels/symmetry/symmetry.h"
#include "pipelines/launcher/replay.h"
#include "stages/classifier/quality.h"

struct values {
    bool yes;
    int whole, choice;
    double number;
    char *word, *path;
    struct param_floats list;
};

#define AT(member) offsetof(struct values, member)
static const struct param table[] = {
    {"yes", PARAM_BOOL, AT(yes), "", "false"},
    {"whole", PARAM_INT, AT(whole), "px", NULL, -5, 100000},
    {"number", PARAM_FLOAT, AT(number), "Å", NULL, 0.5, 1e6},
    {"word", PARAM_STRING, AT(word), "", NULL},
    {"path", PARAM_PATH, AT(path), "", NULL},
    {"choice", PARAM_CHOICE, AT(choice), "", "one", .choices = "one|two|three"},
    {"list", PARAM_FLOATS, AT(list), "Å", NULL, -1000, 1000},
};
enum { COUNT = sizeof table / sizeof *table };

static void try_param(const char *key, const char *text) {
    struct values values = {0};
    struct err err = {0};
    FUZZ_CHECK(params_defaults(table, COUNT, &values, NULL) == STATUS_OK);
    enum status status = params_set(table, COUNT, &values, key, text, "fuzz", &err);
    FUZZ_CHECK(status == STATUS_OK || strncmp(err.message, "fuzz", 4) == 0);
    FUZZ_CHECK(values.whole == INT32_MIN || (values.whole >= -5 && values.whole <= 100000));
    FUZZ_CHECK(isnan(values.number) || (values.number >= 0.5 && values.number <= 1e6));
    FUZZ_CHECK(values.choice >= 0 && values.choice < 3 && values.list.count <= PARAM_FLOATS_MAX);
    /* The launcher knows the table only as JSON and must agree. It also checks paths at once, so these may differ. */
    json_t *described = params_describe(table, COUNT);
    const struct param *param = params_find(table, COUNT, key);
    enum status there = params_check_json(described, key, text, "fuzz", NULL);
    FUZZ_CHECK((param != NULL && param->type == PARAM_PATH) || (there == STATUS_OK) == (status == STATUS_OK));
    (void)params_check(table, COUNT, &values, "fuzz", NULL);
    json_decref(described);
    params_clear(table, COUNT, &values);
}

static void try_rules(const char *text) {
    struct rules rules;
    struct err err = {0};
    if (rules_parse(text, &rules, &err) != STATUS_OK) {
        FUZZ_CHECK(err.message[0] != '\0');
        return;
    }
    FUZZ_CHECK(rules.count >= 0 && rules.count <= RULES_MAX);
    struct item *item = NULL;
    uint32_t judged = 0;
    FUZZ_CHECK(item_create("fuzz", "micrograph", &item, NULL) == STATUS_OK);
    FUZZ_CHECK(item_set_number(item, "columns.rlnDefocusU", 12000, NULL) == STATUS_OK);
    (void)rules_apply(&rules, item, &judged, &err);
    item_destroy(&item);
}

static void try_symmetry(const char *text) {
    struct symmetry symmetry = {0};
    struct err err = {0};
    enum status status = symmetry_create(text, &symmetry, &err);
    FUZZ_CHECK(status == STATUS_OK ? symmetry.count >= 1 : err.message[0] != '\0');
    symmetry_destroy(&symmetry);
}

static void try_pattern(const char *text) {
    struct pattern pattern = {0};
    if (pattern_create(text, &pattern, NULL) == STATUS_OK) {
        (void)pattern_match(&pattern, "grid/mic_001.mrc");
        FUZZ_CHECK(!pattern_match(&pattern, ".hidden"));
    }
    pattern_destroy(&pattern);
}

/* Any folder will do: use this program's. */
static void try_fault(const char *text) {
    struct replay replay = {0};
    const char *faults[] = {text, "corrupt:1"};
    struct err err = {0};
    enum status status = replay_create("/proc/self/attr", 10, faults, 2, &replay, &err);
    FUZZ_CHECK(status == STATUS_OK || err.message[0] != '\0');
    replay_clear(&replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    if (length == 0 || length > 5000) return 0;
    char *text = malloc(length);
    FUZZ_CHECK(text != NULL);
    memcpy(text, bytes + 1, length - 1);
    text[length - 1] = '\0';
    struct quality_rule rule = {0};
    int what = bytes[0] % 16;
    if (what < COUNT)
        try_param(table[what].name, text);
    else if (what == 7)
        try_param(text, "1");
    else if (what == 8)
        try_rules(text);
    else if (what == 9)
        try_symmetry(text);
    else if (what == 10)
        FUZZ_CHECK(quality_rule_parse(text, &rule, NULL) != STATUS_OK || rule.count <= QUALITY_TERMS);
    else if (what == 11)
        try_pattern(text);
    else if (what == 12)
        try_fault(text);
    free(text);
    return 0;
}
