/* Measures the ledgers of an edge, sender and receiver: how many items a second go through all their transactions
 * (originate, claim, finish, acknowledge) in batches, each by a client of its own, and how long one item takes through all four at
 * 100 items/s.
 *
 *   bench_ledger FOLDER|postgresql://HOST/DB [ITEMS] [ITEMS A TRANSACTION]
 *
 * beside tests/common/private_postgresql.sh: bench_ledger "$ICESTREAM_TEST_POSTGRESQL_TCP". */
#include <pthread.h>
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
    if (ledger_is_address(where)) {
        must(ledger_server_take(where, session, "/folder", "", &err), &err);
        must(ledger_address_print(where, session, stage, path, sizeof path, &err), &err);
    } else
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

/* The four transactions of an edge, each by a client of its own as in a session, one batch behind the other. */
enum step { ORIGINATE, CLAIM, FINISH, ACKNOWLEDGE, STEPS };

struct batch {
    struct item *items[BATCH_MAX];
    struct ledger_send sends[BATCH_MAX];
    int first, count; /* seq of the first one: first + 1 */
};

static void fill(struct batch *batch, int first, int count) {
    batch->first = first;
    batch->count = count;
    for (int i = 0; i < count; i++) {
        batch->items[i] = make_item(first + i);
        batch->sends[i] = (struct ledger_send){edge, batch->items[i]};
    }
}

static void empty(struct batch *batch) {
    for (int i = 0; i < batch->count; i++)
        item_destroy(&batch->items[i]);
}

static void originate(struct ledger *ledger, const struct batch *batch) {
    struct ledger_origin origins[BATCH_MAX];
    bool is_new[BATCH_MAX];
    struct err err = {0};
    for (int i = 0; i < batch->count; i++)
        origins[i] = (struct ledger_origin){batch->items[i], LEDGER_DONE, NULL, &batch->sends[i], 1};
    must(ledger_originate_items(ledger, origins, (size_t)batch->count, is_new, &err), &err);
}

static void claim(struct ledger *ledger, const struct batch *batch) {
    struct ledger_arrival arrivals[BATCH_MAX];
    struct err err = {0};
    for (int i = 0; i < batch->count; i++)
        arrivals[i] = (struct ledger_arrival){.item = batch->items[i]};
    must(ledger_claim_items(ledger, arrivals, (size_t)batch->count, 0, "token", &err), &err);
}

static void finish(struct ledger *ledger, const struct batch *batch) {
    struct ledger_finish finishes[BATCH_MAX];
    bool late[BATCH_MAX];
    struct err err = {0};
    for (int i = 0; i < batch->count; i++)
        finishes[i] = (struct ledger_finish){.key = item_key(batch->items[i]),
                                             .state = LEDGER_DONE,
                                             .item = batch->items[i],
                                             .run_token = "token",
                                             .sends = &batch->sends[i],
                                             .send_count = 1};
    must(ledger_finish_items(ledger, finishes, (size_t)batch->count, late, &err), &err);
    if (late[0]) must(STATUS_IO, &(struct err){.message = "an item was late"});
}

static void acknowledge(struct ledger *ledger, const struct batch *batch) {
    struct ledger_verdict verdicts[BATCH_MAX];
    int64_t struck = 0;
    struct err err = {0};
    for (int i = 0; i < batch->count; i++)
        verdicts[i] = (struct ledger_verdict){batch->first + i + 1, "done"};
    must(ledger_acknowledge_all(ledger, edge, verdicts, (size_t)batch->count, &struck, &err), &err);
    if (struck != batch->count) must(STATUS_IO, &(struct err){.message = "an item was lost"});
}

static void do_step(enum step step, struct ledger *ledger, const struct batch *batch) {
    static void (*const steps[STEPS])(struct ledger *, const struct batch *) = {originate, claim, finish, acknowledge};
    steps[step](ledger, batch);
}

struct work {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct batch *batches;
    int count, done[STEPS + 1]; /* batches that each step may take: done[0] grows as they come */
    double *ended;              /* when the last step was through with each */
};

struct worker {
    struct work *work;
    struct ledger *ledger;
    enum step step;
};

static void *work_through(void *context) {
    const struct worker *worker = context;
    struct work *work = worker->work;
    for (int i = 0; i < work->count; i++) {
        pthread_mutex_lock(&work->lock);
        while (work->done[worker->step] <= i)
            pthread_cond_wait(&work->changed, &work->lock);
        pthread_mutex_unlock(&work->lock);
        do_step(worker->step, worker->ledger, &work->batches[i]);
        if (worker->step == ACKNOWLEDGE) work->ended[i] = clock_monotonic();
        pthread_mutex_lock(&work->lock);
        work->done[worker->step + 1] = i + 1;
        pthread_cond_broadcast(&work->changed);
        pthread_mutex_unlock(&work->lock);
    }
    return NULL;
}

/* Lets batches come one by one, `pace` s apart; 0: all at once. */
static void come(struct work *work, double pace) {
    double begin = clock_monotonic();
    for (int i = 0; i < work->count; i++) {
        double due = begin + pace * i;
        if (pace > 0 && clock_monotonic() < due) clock_pause(due - clock_monotonic());
        pthread_mutex_lock(&work->lock);
        work->done[0] = i + 1;
        pthread_cond_broadcast(&work->changed);
        pthread_mutex_unlock(&work->lock);
    }
}

/* Sends `count` batches of `size` items through all steps, and notes how long each took since it was due. Returns items a
 * second. */
static double flow(struct ledger *const ledgers[STEPS], int first, int count, int size, double pace, double *times) {
    struct work work = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .count = count};
    struct worker workers[STEPS];
    pthread_t threads[STEPS];
    work.batches = calloc((size_t)count, sizeof *work.batches);
    work.ended = times;
    for (int i = 0; i < count; i++)
        fill(&work.batches[i], first + i * size, size);
    double begin = clock_monotonic();
    for (int i = 0; i < STEPS; i++) {
        workers[i] = (struct worker){&work, ledgers[i], (enum step)i};
        if (pthread_create(&threads[i], NULL, work_through, &workers[i]) != 0) exit(1);
    }
    come(&work, pace);
    for (int i = 0; i < STEPS; i++)
        pthread_join(threads[i], NULL);
    double seconds = clock_monotonic() - begin;
    for (int i = 0; i < count; i++) {
        times[i] -= begin + pace * i;
        empty(&work.batches[i]);
    }
    free(work.batches);
    return count * size / seconds;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int count = argc > 2 ? atoi(argv[2]) : 20000, batch = argc > 3 ? atoi(argv[3]) : BATCH_MAX;
    if (batch < 1 || batch > BATCH_MAX || count < batch) return 2;
    struct ledger *ledgers[STEPS];
    for (int i = 0; i < STEPS; i++)
        ledgers[i] = open_ledger(argv[1], i == CLAIM || i == FINISH ? "picker" : "watcher");
    int batches = count / batch;
    double *times = calloc((size_t)(batches > SINGLE ? batches : SINGLE), sizeof *times);
    if (times == NULL) return 1;
    flow(ledgers, 0, 1, 1, 0, times); /* statements are prepared */
    flow(ledgers, 1, SINGLE, 1, 0.01, times);
    qsort(times, SINGLE, sizeof *times, by_size);
    printf("at 100 items/s: median %.1f ms, 99 %% below %.1f ms\n", 1e3 * times[SINGLE / 2],
           1e3 * times[SINGLE * 99 / 100]);
    printf("%.0f items/s, %d a transaction\n", flow(ledgers, 1 + SINGLE, batches, batch, 0, times), batch);
    free(times);
    for (int i = 0; i < STEPS; i++)
        ledger_close(&ledgers[i]);
    return 0;
}
