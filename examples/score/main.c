/* icestream-score --session DIR --truth DIR: prints the results of a run on a simulated session as a table.
 *
 * The table has: micrographs and their fate, from the ledgers; picks against the truth (one to one, nearest first);
 * particles in kept classes; resolution of the map between its halves and against the phantom, which is moved onto the
 * map where it lies elsewhere or has the other hand; where everything lies. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/formats/star.h"
#include "common/harness/manual.h"
#include "common/harness/params.h"
#include "common/memory.h"
#include "examples/score/score.h"

struct options {
    char *session, *truth;
    double tolerance;
};

#define AT(member) offsetof(struct options, member)
static const struct param PARAMS[] = {
    {.name = "session",
     .type = PARAM_PATH,
     .offset = AT(session),
     .required = true,
     .help = "Session folder of the run."},
    {.name = "truth",
     .type = PARAM_PATH,
     .offset = AT(truth),
     .required = true,
     .help = "Folder truth/ that icestream-simulate wrote."},
    {.name = "tolerance",
     .type = PARAM_FLOAT,
     .offset = AT(tolerance),
     .unit = "px",
     .default_text = "10",
     .minimum = 0.1,
     .maximum = 1000,
     .help = "Largest distance of a right pick from a true centre."},
};
#undef AT
enum { PARAM_COUNT = sizeof PARAMS / sizeof PARAMS[0] };

static void print_ledgers(const char *session) {
    static const char *const STAGES[] = {"watcher",   "motion-corrector", "ctf-estimator", "lowpass-picker",
                                         "extractor", "classifier",       "refiner"};
    printf("%-16s %8s %8s %8s %8s %9s\n", "stage", "seen", "done", "rejected", "failed", "in flight");
    for (size_t i = 0; i < sizeof STAGES / sizeof STAGES[0]; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/ledger/%s.sqlite", session, STAGES[i]);
        struct err err = {0};
        struct ledger *ledger = NULL;
        struct ledger_counts counts;
        if (ledger_open(path, NULL, true, &ledger, &err) == STATUS_OK &&
            ledger_counts(ledger, &counts, &err) == STATUS_OK)
            printf("%-16s %8lld %8lld %8lld %8lld %9lld\n", STAGES[i], (long long)counts.seen, (long long)counts.done,
                   (long long)counts.rejected, (long long)counts.failed, (long long)counts.in_flight);
        ledger_close(&ledger);
    }
}

static enum status print_scores(const struct options *o, struct err *err) {
    struct score_picks picks = {0};
    TRY(score_picks(o->session, o->truth, o->tolerance, &picks, err));
    printf("\npicks            %ld, of %ld true ones %ld found: recall %.3f, precision %.3f\n", picks.picked,
           picks.truth, picks.hits, score_ratio(picks.hits, picks.truth), score_ratio(picks.hits, picks.picked));
    struct score_classes classes = {0};
    TRY(score_classes(o->session, o->truth, o->tolerance, &classes, err));
    printf("classes          %d of %d kept: %.1f %% of the true particles, %.1f %% of the false ones\n", classes.kept,
           classes.classes, 100 * score_ratio(classes.true_kept, classes.true_all),
           100 * score_ratio(classes.false_kept, classes.false_all));
    struct score_map map = {0};
    TRY(score_map(o->session, o->truth, &map, err));
    printf("map              %.1f Å between its halves (FSC 0.143), %.1f Å against the phantom (FSC 0.5)",
           map.gold_standard, map.against_phantom);
    if (map.aligned)
        printf("\n                 aligned by %.0f° and %.1f px, hand: %s", map.angle, map.shift,
               map.inverted ? "inverted" : "same");
    printf("\n");
    return STATUS_OK;
}

static int usage(const char *message) {
    if (message != NULL) fprintf(stderr, "icestream-score: %s\n", message);
    FILE *out = message == NULL ? stdout : stderr;
    fprintf(out, "Usage: icestream-score --session DIR --truth DIR [--tolerance PX]\n");
    params_help(PARAMS, PARAM_COUNT, out);
    return message == NULL ? 0 : 2;
}

int main(int argc, char **argv) {
    struct options o = {0};
    struct err err = {0};
    bool asked;
    if (manual_print_plain("icestream-score", "compares a run on a simulated session with the truth", PARAMS,
                           PARAM_COUNT, argc, argv, &asked, &err) != STATUS_OK)
        return usage(err.message);
    if (asked) return 0;
    if (params_defaults(PARAMS, PARAM_COUNT, &o, &err) != STATUS_OK) return usage(err.message);
    int code = 0;
    for (int i = 1; i < argc && code == 0; i += 2) {
        if (strcmp(argv[i], "--help") == 0) return usage(NULL);
        if (strncmp(argv[i], "--", 2) != 0 || i + 1 >= argc)
            code = usage("an option is --name value");
        else if (params_set(PARAMS, PARAM_COUNT, &o, argv[i] + 2, argv[i + 1], "command line", &err) != STATUS_OK)
            code = usage(err.message);
    }
    if (code == 0 && params_check(PARAMS, PARAM_COUNT, &o, "command line", &err) != STATUS_OK)
        code = usage(err.message);
    if (code == 0) {
        printf("\n");
        print_ledgers(o.session);
        if (print_scores(&o, &err) != STATUS_OK) {
            fprintf(stderr, "icestream-score: %s\n", err.message);
            code = 1;
        }
        printf("\npictures         %s/lowpass-picker/*.png, %s/classifier/*_classes.png\n", o.session, o.session);
        printf("map              %s/refiner/run_class001.mrc, sharpened: postprocess.mrc\n", o.session);
    }
    params_clear(PARAMS, PARAM_COUNT, &o);
    return code;
}
