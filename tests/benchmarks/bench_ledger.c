/* Measures the ledgers of an edge, sender and receiver: how many items a second go through all their transactions
 * (originate, claim, finish, acknowledge) in batches, by one client, and how long one item takes at 100 items/s.
 *
 *   bench_ledger FOLDER|postgresql://HOST/DB [ITEMS] [ITEMS A TRANSACTION]
 *
 * beside tests/common/private_postgresql.sh: bench_ledger "$ICESTREAM_TEST_POSTGRESQL_TCP". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/edges/ledger.h"
#include "common/edges/ledger_address.h"
#include "common/files.h"

enum { BATCH_MAX = 64, SINGLE = 1000 };

static const char edge[] = "watcher.0>picker";

static void must(enum status status, const struct err *err) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "bench_ledger: %s\n", err->message);
    exit(1);
}

static struct ledger *open_ledger(const char *where, const char *stage) {
    char path[PATH_SIZE], session[32];
    struct ledger *ledger = NULL;
    struct err err = {0};
    snprintf(session, sizeof session, "bench%d", (int)getpid());
    if (ledger_is_address(where))
        must(ledger_address_print(where, session, stage, path, sizeof path, &err), &err);
    else
        snprintf(path, sizeof path, "%s/%s-%d.sqlite", where, stage, (int)getpid());
    must(ledger_open(path, stage, false, &ledger, &err), &err);
    return ledger;
}

static struct item *make_item(int number) {
    char text[512];
    struct item *item = NULL;
    struct err err = {0};
    snprintf(
        text, sizeof text,
        "{\"v\":1,\"id\":\"grid1/mic_%07d\",\"source\":\"watcher\",\"kind\":\"micrograph\",\"time\":1763737000.123,"
        "\"micrograph\":{\"path\":\"grid1/Micrographs/mic_%07d.mrc\",\"nx\":4096,\"ny\":4096},\"optics\":{"
        "\"group\":\"opticsGroup1\",\"pixel_size\":1.62,\"voltage\":300},\"columns\":{\"rlnDefocusU\":24690.6}}",
        number, number);
    must(item_parse(text, strlen(text), &item, &err), &err);
    return item;
}

/* Sends items through all transactions of an edge. seq: of the first one. */
static void cycle(struct ledger *from, struct ledger *to, int first, int count) {
    struct item *items[BATCH_MAX];
    struct ledger_send sends[BATCH_MAX];
    struct ledger_origin origins[BATCH_MAX];
    struct ledger_arrival arrivals[BATCH_MAX];
    struct ledger_finish finishes[BATCH_MAX];
    struct ledger_verdict verdicts[BATCH_MAX];
    bool flags[BATCH_MAX];
    int64_t struck = 0;
    struct err err = {0};
    for (int i = 0; i < count; i++) {
        items[i] = make_item(first + i);
        sends[i] = (struct ledger_send){edge, items[i]};
        origins[i] = (struct ledger_origin){items[i], LEDGER_DONE, NULL, &sends[i], 1};
        arrivals[i] = (struct ledger_arrival){.item = items[i]};
        finishes[i] = (struct ledger_finish){.key = item_key(items[i]),
                                             .state = LEDGER_DONE,
                                             .item = items[i],
                                             .run_token = "token",
                                             .sends = &sends[i],
                                             .send_count = 1};
        verdicts[i] = (struct ledger_verdict){first + i + 1, "done"};
    }
    must(ledger_originate_items(from, origins, (size_t)count, flags, &err), &err);
    must(ledger_claim_items(to, arrivals, (size_t)count, 0, "token", &err), &err);
    must(ledger_finish_items(to, finishes, (size_t)count, flags, &err), &err);
    must(ledger_acknowledge_all(from, edge, verdicts, (size_t)count, &struck, &err), &err);
    if (struck != count || flags[0]) must(STATUS_IO, &(struct err){.message = "an item was lost"});
    for (int i = 0; i < count; i++)
        item_destroy(&items[i]);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static double times[SINGLE];
    if (argc < 2) return 2;
    int count = argc > 2 ? atoi(argv[2]) : 20000, batch = argc > 3 ? atoi(argv[3]) : BATCH_MAX;
    if (batch < 1 || batch > BATCH_MAX || count < batch) return 2;
    struct ledger *from = open_ledger(argv[1], "watcher"), *to = open_ledger(argv[1], "picker");
    double begin = clock_monotonic();
    int done = 0;
    for (; done + batch <= count; done += batch)
        cycle(from, to, done, batch);
    printf("%.0f items/s, %d a transaction\n", done / (clock_monotonic() - begin), batch);
    begin = clock_monotonic();
    for (int i = 0; i < SINGLE; i++) {
        double due = begin + 0.01 * i;
        if (clock_monotonic() < due) clock_pause(due - clock_monotonic());
        cycle(from, to, done + i, 1);
        times[i] = clock_monotonic() - due;
    }
    qsort(times, SINGLE, sizeof *times, by_size);
    printf("at 100 items/s: median %.1f ms, 99 %% below %.1f ms\n", 1e3 * times[SINGLE / 2],
           1e3 * times[SINGLE * 99 / 100]);
    ledger_close(&from);
    ledger_close(&to);
    return 0;
}
