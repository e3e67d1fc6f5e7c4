/* Measures the lower bounds of an edge in a folder:
 * - SQLite's own rate of the transactions that an item costs (both ledgers, one core),
 * - ZeroMQ's bare rate of an item one way and two answers back (two processes),
 * - the time in which the disk makes 4 KiB of a file durable.
 *
 *   bench_edge FOLDER [ITEMS] [ITEMS A TRANSACTION]
 *
 * edge_load.py runs this program and prints its results beside those of the stages. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/edges/transport.h"
#include "common/files.h"

enum { SYNCS = 100, PAGE = 4096, BACKLOG = 1000 };

static const char item[] =
    "{\"v\":1,\"id\":\"grid1/mic_0012345\",\"kind\":\"micrograph\",\"time\":1763737000.123,\"micrograph\":{\"path\":"
    "\"grid1/Micrographs/mic_0012345.mrc\",\"nx\":4096,\"ny\":4096},\"optics\":{\"group\":\"opticsGroup1\","
    "\"pixel_size\":1.62,\"voltage\":300},\"columns\":{\"rlnDefocusU\":24690.6,\"number\":12345}}";

static int die(const char *what, const char *why) {
    fprintf(stderr, "bench_edge: %s: %s\n", what, why);
    exit(1);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) die(sql, sqlite3_errmsg(db));
    return statement;
}

static void execute(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) die(sql, sqlite3_errmsg(db));
}

static void step(sqlite3 *db, sqlite3_stmt *statement) {
    if (sqlite3_step(statement) != SQLITE_DONE) die("a step", sqlite3_errmsg(db));
    sqlite3_reset(statement);
}

static sqlite3 *open_ledger(const char *folder, const char *name) {
    char path[PATH_SIZE];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (sqlite3_open(path, &db) != SQLITE_OK) die(path, sqlite3_errmsg(db));
    execute(db, "PRAGMA journal_mode = WAL; PRAGMA cache_size = -256;"
                "CREATE TABLE items (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, state INTEGER,"
                " reason TEXT, item TEXT NOT NULL, time_seen REAL, time_changed REAL);"
                "CREATE INDEX items_state ON items (state);"
                "CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, edge TEXT, id TEXT, item TEXT,"
                " time_sent REAL, acknowledged REAL, verdict TEXT);"
                "CREATE INDEX outbox_waiting ON outbox (edge, seq) WHERE acknowledged IS NULL;"
                "CREATE INDEX outbox_id ON outbox (id);");
    return db;
}

/* Runs one transaction of a statement for each of `count` items. durable: waits for the disk. */
static void transact(sqlite3 *db, sqlite3_stmt *const *statements, int from, int count, int durable) {
    execute(db,
            durable ? "PRAGMA synchronous = FULL; BEGIN IMMEDIATE" : "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE");
    for (int i = from; i < from + count; i++)
        for (int k = 0; statements[k] != NULL; k++) {
            char id[32];
            snprintf(id, sizeof id, "grid1/mic_%07d", i);
            sqlite3_bind_text(statements[k], 1, id, -1, SQLITE_STATIC);
            sqlite3_bind_int(statements[k], 2, i + 1);
            sqlite3_bind_text(statements[k], 3, item, -1, SQLITE_STATIC);
            step(db, statements[k]);
        }
    execute(db, "COMMIT");
}

static double sqlite_rate(const char *folder, int items, int at_once) {
    sqlite3 *sender = open_ledger(folder, "floor-sender.sqlite"),
            *receiver = open_ledger(folder, "floor-receiver.sqlite");
    static const char insert[] = "INSERT INTO items (id, state, item, time_seen) VALUES (?1, 0, ?3, 1.5)";
    sqlite3_stmt *send[] = {
        prepare(sender, insert),
        prepare(sender, "INSERT INTO outbox (edge, id, item, time_sent) VALUES ('source.0>sink', ?1, ?3, 1.5)"), NULL};
    sqlite3_stmt *strike[] = {
        prepare(sender,
                "UPDATE outbox SET acknowledged = 2.5, verdict = 'done' WHERE edge = 'source.0>sink' AND seq = ?2"
                " AND acknowledged IS NULL"),
        NULL};
    sqlite3_stmt *claim[] = {prepare(receiver, insert), NULL};
    sqlite3_stmt *finish[] = {
        prepare(receiver, "UPDATE items SET state = 1, item = ?3, time_changed = 2.5 WHERE id = ?1 AND state = 0"),
        NULL};
    double begin = clock_monotonic();
    for (int from = 0; from < items; from += at_once) {
        int count = items - from < at_once ? items - from : at_once;
        transact(sender, send, from, count, 1);
        transact(receiver, claim, from, count, 0);
        transact(receiver, finish, from, count, 1);
        transact(sender, strike, from, count, 0);
    }
    double rate = items / (clock_monotonic() - begin);
    sqlite3_stmt *all[] = {send[0], send[1], strike[0], claim[0], finish[0]};
    for (int i = 0; i < 5; i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(sender);
    sqlite3_close(receiver);
    return rate;
}

static struct transport_socket *open_socket(struct transport *transport, enum transport_role role,
                                            const char *endpoint) {
    struct transport_socket *socket = NULL;
    struct err err = {0};
    if (transport_open(transport, role, endpoint, BACKLOG, &socket, &err) != STATUS_OK) die(endpoint, err.message);
    return socket;
}

static void wait_for(struct transport_socket *socket, bool sending) {
    struct err err = {0};
    struct transport_wait wait = {.socket = socket, .for_sending = sending};
    if (transport_poll(&wait, 1, 10000, &err) != STATUS_OK) die("waiting", err.message);
}

static void send_one(struct transport_socket *socket, const char *text, size_t length) {
    struct err err = {0};
    bool sent = false;
    while (!sent) {
        if (transport_send(socket, text, length, &sent, &err) != STATUS_OK) die("sending", err.message);
        if (!sent) wait_for(socket, true);
    }
}

static bool receive_one(struct transport_socket *socket) {
    struct err err = {0};
    const void *bytes = NULL;
    size_t length;
    if (transport_receive(socket, &bytes, &length, &err) != STATUS_OK) die("receiving", err.message);
    return bytes != NULL;
}

static void echo(const char *data, const char *ack, int items) {
    struct transport *transport = NULL;
    if (transport_create(NULL, NULL, &transport, NULL) != STATUS_OK) die("transport", "cannot be created");
    struct transport_socket *in = open_socket(transport, TRANSPORT_DATA_IN, data);
    struct transport_socket *out = open_socket(transport, TRANSPORT_ACK_OUT, ack);
    for (int got = 0; got < items;) {
        if (!receive_one(in)) {
            wait_for(in, false);
            continue;
        }
        got++;
        for (int i = 0; i < 2; i++)
            send_one(out, item, 160);
    }
    transport_destroy(&transport);
}

static double zmq_rate(const char *folder, int items) {
    char data[PATH_SIZE], ack[PATH_SIZE];
    snprintf(data, sizeof data, "ipc://%s/d", folder);
    snprintf(ack, sizeof ack, "ipc://%s/a", folder);
    pid_t child = fork();
    if (child == 0) {
        echo(data, ack, items);
        _exit(0);
    }
    struct transport *transport = NULL;
    if (transport_create(NULL, NULL, &transport, NULL) != STATUS_OK) die("transport", "cannot be created");
    struct transport_socket *out = open_socket(transport, TRANSPORT_DATA_OUT, data);
    struct transport_socket *in = open_socket(transport, TRANSPORT_ACK_IN, ack);
    wait_for(out, true);
    double begin = clock_monotonic();
    for (int sent = 0, answered = 0; answered < 2 * items;) {
        for (; sent < items && 2 * sent - answered < BACKLOG; sent++)
            send_one(out, item, sizeof item - 1);
        if (receive_one(in))
            answered++;
        else
            wait_for(in, false);
    }
    double rate = items / (clock_monotonic() - begin);
    transport_destroy(&transport);
    waitpid(child, NULL, 0);
    return rate;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times syncs of overwritten pages, like those of SQLite's log. */
static void sync_times(const char *folder, double *median, double *late) {
    char path[PATH_SIZE], page[PAGE];
    double times[SYNCS];
    snprintf(path, sizeof path, "%s/floor-sync", folder);
    memset(page, 'x', sizeof page);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SYNCS; i++) {
            double begin = clock_monotonic();
            if (pwrite(file, page, sizeof page, (off_t)i * PAGE) != PAGE || (round > 0 && fdatasync(file) != 0))
                die(path, "cannot be written");
            times[i] = 1000 * (clock_monotonic() - begin);
            if (round == 0 && i == SYNCS - 1 && fsync(file) != 0) die(path, "cannot be written");
        }
    close(file);
    qsort(times, SYNCS, sizeof *times, ascending);
    *median = times[SYNCS / 2];
    *late = times[SYNCS - 2];
}

int main(int argc, char **argv) {
    int items = argc > 2 ? atoi(argv[2]) : 20000, at_once = argc > 3 ? atoi(argv[3]) : 100;
    if (argc < 2 || items < 1 || at_once < 1) die("usage", "bench_edge FOLDER [ITEMS] [ITEMS A TRANSACTION]");
    char work[PATH_SIZE], sockets[] = "/tmp/icXXXXXX", command[PATH_SIZE + 64];
    snprintf(work, sizeof work, "%s/icestream-floor-XXXXXX", argv[1]);
    if (mkdtemp(work) == NULL || mkdtemp(sockets) == NULL) die(argv[1], "no folder can be made in it");
    double median, late;
    sync_times(work, &median, &late);
    double sqlite = sqlite_rate(work, items, at_once), zmq = zmq_rate(sockets, items);
    printf("{\"sqlite\": %.0f, \"at_once\": %d, \"zmq\": %.0f, \"fsync_ms\": %.3f, \"fsync_99_ms\": %.3f}\n", sqlite,
           at_once, zmq, median, late);
    static const char *const files[] = {"floor-sync",
                                        "floor-sender.sqlite",
                                        "floor-sender.sqlite-wal",
                                        "floor-sender.sqlite-shm",
                                        "floor-receiver.sqlite",
                                        "floor-receiver.sqlite-wal",
                                        "floor-receiver.sqlite-shm"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(command, sizeof command, "%s/%s", work, files[i]);
        unlink(command);
    }
    rmdir(work);
    rmdir(sockets);
    return 0;
}
