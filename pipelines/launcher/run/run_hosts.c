/* The hosts of a run: which instance runs where, what it is told for that, and what follows when a host comes or is lost.
 * A run of one host has none of this. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory.h"
#include "pipelines/launcher/metrics/metrics_private.h"
#include "pipelines/launcher/plan_hosts.h"
#include "pipelines/launcher/run/run_hosts_private.h"

/* s: that a run waits for the hosts that the graph names before it starts without them; between a change and looks at
 * whether instances had better move; between hellos in the name of an instance that cannot start. */
static const double PATIENCE = 20, SETTLE = 2, HELLO = 1;
enum { OWN = 0, NOWHERE = -1 };

static enum status record_path(const struct run *run, char path[PATH_SIZE], struct err *err) {
    return session_file(&run->session, "hosts", "endpoints", ".json", path, err);
}

/* ---- Who runs where ---- */

static const char *host_name(const struct run *run, int host) {
    if (host == NOWHERE) return "";
    return host == OWN ? "launcher" : hosts_view(run->hosts->hosts, (size_t)host - 1).name;
}

/* Lists the hosts for the placement of an instance. */
static void list_places(const struct run *run, size_t child, struct placement_host *places) {
    const struct run_hosts *h = run->hosts;
    size_t count = hosts_count(h->hosts);
    places[OWN] = (struct placement_host){
        .name = "launcher", .there = true, .cores = run->plan->machine_cores, .gpus = h->own_gpus};
    for (size_t i = 0; i < count; i++) {
        struct host_view view = hosts_view(h->hosts, i);
        places[i + 1] =
            (struct placement_host){.name = view.name, .there = view.there, .cores = view.cores, .gpus = view.gpus};
    }
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        bool ended = run->supervisor != NULL && supervisor_state(run->supervisor, i) == CHILD_ENDED;
        if (i == child || ended || h->at[i] == NOWHERE) continue;
        struct placement_host *place = &places[h->at[i]];
        place->same += run->plan->instances[i].stage == run->plan->instances[child].stage;
        place->all += !plan_is_source(&run->graph->stages[run->plan->instances[i].stage]);
    }
}

static enum status new_places(const struct run *run, struct placement_host **ret_places, struct err *err) {
    return mem_new(hosts_count(run->hosts->hosts) + 1, sizeof **ret_places, "the hosts", (void **)ret_places, err);
}

static bool has_come(const struct run *run, const char *name) {
    for (size_t i = 0; i < hosts_count(run->hosts->hosts); i++)
        if (strcmp(hosts_view(run->hosts->hosts, i).name, name) == 0) return true;
    return false;
}

/* Returns whether the run had better wait for hosts that the graph names, lest all begin on the first one. */
static bool waits_for_hosts(const struct run *run, const struct placement_wish *wish) {
    const struct graph_value *named = plan_named_hosts(run->graph);
    bool chosen = wish->on != NULL && !placement_is_kind(wish->on);
    if (named == NULL || wish->bound || chosen || clock_monotonic() - run->hosts->begun_at > PATIENCE) return false;
    for (size_t i = 0; i < named->count; i++)
        if (!placement_is_own(named->texts[i]) && !has_come(run, named->texts[i])) return true;
    return false;
}

/* ---- What an instance is told ---- */

/* Takes the GPU of a host that fewest instances have. */
static int choose_gpu(const struct run *run, size_t child, int host, int gpus) {
    int best = 0, fewest = -1;
    for (int gpu = 0; gpu < gpus; gpu++) {
        int users = 0;
        for (size_t i = 0; i < run->plan->instance_count; i++)
            users += i != child && run->hosts->at[i] == host && run->hosts->gpu[i] == gpu;
        if (fewest < 0 || users < fewest) {
            fewest = users;
            best = gpu;
        }
    }
    return best;
}

/* Fits threads and GPU of an instance to its host. What the graph says counts everywhere. */
static void fit_instance(struct run *run, size_t child, int host) {
    struct run_hosts *h = run->hosts;
    struct plan_instance *instance = &run->plan->instances[child];
    const struct plan_instance *planned = &h->planned[child];
    const struct graph_stage *stage = &run->graph->stages[instance->stage];
    instance->threads = planned->threads;
    instance->flush_threads = planned->flush_threads;
    instance->gpu_count = planned->gpu_count;
    instance->device = planned->device;
    h->gpu[child] = -1;
    if (planned->gpu_count > 0) instance->gpus[0] = h->planned_gpu[child];
    if (host == OWN) return;
    struct host_view view = hosts_view(h->hosts, (size_t)host - 1);
    if (stage->threads == 0 && run->plan->cores > 0 && view.cores > 0) {
        long threads = (long)planned->threads * view.cores / run->plan->cores;
        instance->threads = threads > 0 ? (int)threads : 1;
        instance->flush_threads = view.cores;
    }
    if (!stage->gpu_auto) return;
    instance->gpu_count = view.gpus > 0;
    if (view.gpus > 0) h->gpu[child] = instance->gpus[0] = choose_gpu(run, child, host, view.gpus);
    instance->device = stage->device ? stage->device : view.gpus > 0 ? "auto" : "cpu";
}

static bool takes_descriptors(const struct run *run, size_t child) {
    const struct graph_stage *stage = &run->graph->stages[run->plan->instances[child].stage];
    return json_is_true(json_object_get(stage->describe, "descriptors"));
}

/* Opens the sockets of an instance that comes to this host. */
static enum status open_own(struct run *run, size_t child, struct err *err) {
    for (size_t i = 0; i < run->plan->edge_count; i++) {
        struct plan_edge *edge = &run->plan->edges[i];
        const struct listener *listener = NULL;
        if (edge->instance != child) continue;
        TRY(listeners_open(run->listeners, edge->name, takes_descriptors(run, child), &listener, err));
        run->hosts->moved[child] |= strcmp(edge->data, listener->data) != 0 || strcmp(edge->ack, listener->ack) != 0;
        snprintf(edge->data, sizeof edge->data, "%s", listener->data);
        snprintf(edge->ack, sizeof edge->ack, "%s", listener->ack);
    }
    return STATUS_OK;
}

/* Lives of later runs are greater. */
static int64_t next_life(const struct run *run) {
    enum { LIVES_OF_RUN = 1 << 24 };
    return (int64_t)run->session.run * LIVES_OF_RUN + ++run->hosts->lives;
}

static enum status settle(struct run *run, size_t child, int host, const struct process_place **ret_place,
                          struct err *err) {
    struct run_hosts *h = run->hosts;
    const struct plan_instance *instance = &run->plan->instances[child];
    if (host == OWN)
        TRY(open_own(run, child, err));
    else
        listeners_close(run->listeners, instance->name);
    fit_instance(run, child, host);
    run->plan->instances[child].life = next_life(run);
    TRY(instance_write(&run->session, run->plan, child, &run->orders, err));
    TRY(run_environment(run, child, err));
    if (host != OWN) {
        hosts_prepare(h->hosts, child, instance->gpus, instance->gpu_count, takes_descriptors(run, child));
        *ret_place = hosts_place(h->hosts, (size_t)host - 1);
    }
    h->at[child] = host;
    h->lost[child] = h->moving[child] = false;
    h->unwritten = true;
    return STATUS_OK;
}

enum status run_where(void *context, size_t child, const struct process_place **ret_place, struct err *err) {
    struct run *run = context;
    struct run_hosts *h = run->hosts;
    *ret_place = NULL;
    if (h == NULL) return STATUS_OK;
    struct placement_wish wish = plan_wish(run->plan, &run->plan->instances[child]);
    if (waits_for_hosts(run, &wish)) return STATUS_UNAVAILABLE;
    _cleanup_(mem_free) struct placement_host *places = NULL;
    TRY(new_places(run, &places, err));
    list_places(run, child, places);
    int host = placement_choose(&wish, places, hosts_count(h->hosts) + 1);
    if (host == NOWHERE && clock_monotonic() - h->begun_at < PATIENCE) return STATUS_UNAVAILABLE;
    FAIL_IF(host == NOWHERE, err, STATUS_UNAVAILABLE, "%s waits for a host (on: %s)", run->plan->instances[child].name,
            wish.on != NULL ? wish.on : "any");
    enum status status = settle(run, child, host, ret_place, err);
    /* Whatever keeps it from starting may pass. */
    return status == STATUS_OK || status == STATUS_NO_MEMORY ? status : STATUS_UNAVAILABLE;
}

/* ---- Hosts that come and go ---- */

enum status run_lost(void *context, size_t child, struct err *err) {
    struct run *run = context;
    if (run->hosts->at[child] > OWN) run->hosts->ghost[child] = run->hosts->at[child];
    run->hosts->at[child] = NOWHERE;
    run->hosts->lost[child] = true;
    run->hosts->unwritten = true;
    return hung_let_go(run->hung, &run->session, child, err);
}

/* An instance whose host is lost, and which cannot start elsewhere, may still be sent items: they go to others. */
static void let_go_again(struct run *run) {
    struct run_hosts *h = run->hosts;
    if (clock_monotonic() < h->hello_at) return;
    h->hello_at = clock_monotonic() + HELLO;
    /* A server that is away keeps this waiting once, not once for each instance. */
    enum status status = STATUS_OK;
    for (size_t i = 0; status != STATUS_UNAVAILABLE && i < run->plan->instance_count; i++)
        if (h->lost[i]) status = hung_let_go(run->hung, &run->session, i, NULL);
}

static enum status release_earlier(const struct run *run, const struct plan_instance *instance, struct err *err) {
    struct ledger *ledger = NULL;
    TRY(session_ledger(&run->session, run->graph->stages[instance->stage].section.name, false, &ledger, err));
    if (ledger == NULL) return STATUS_OK;
    enum status status = ledger_release_earlier(ledger, instance->replica, instance->life, err);
    ledger_close(&ledger);
    return status;
}

/* A host that was lost, and comes back, has killed what it still had. What these processes had taken since is free. */
static void lay_ghosts(struct run *run) {
    struct run_hosts *h = run->hosts;
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        if (h->ghost[i] == 0 || !hosts_view(h->hosts, (size_t)h->ghost[i] - 1).there) continue;
        /* Without this, senders find the right receiver after a while. */
        (void)!release_earlier(run, &run->plan->instances[i], NULL);
        h->ghost[i] = 0;
    }
}

static enum status pass_record(struct run *run, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    TRY(file_read_whole(run->orders.endpoints, 1 << 20, &text, &length, err));
    hosts_pass_endpoints(run->hosts->hosts, text);
    return STATUS_OK;
}

/* Tells the receivers of instances that have moved where they are now. What fails is done again. */
static void tell_moved(struct run *run, struct supervisor *supervisor) {
    struct run_hosts *h = run->hosts;
    struct err err = {0};
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        if (!h->moved[i]) continue;
        enum status status = run_endpoints_moved(run, supervisor, i, &err);
        if (status == STATUS_OK) status = pass_record(run, &err);
        h->moved[i] = status != STATUS_OK;
        if (status != STATUS_OK && !h->untold) progress_say(&run->progress, err.message);
        h->untold = status != STATUS_OK;
    }
}

/* Lets instances of a stage move one after the other, so that the others go on. */
static bool stage_moves(const struct run *run, size_t child) {
    for (size_t i = 0; i < run->plan->instance_count; i++)
        if (run->hosts->moving[i] && run->plan->instances[i].stage == run->plan->instances[child].stage) return true;
    return false;
}

static void balance(struct run *run, struct supervisor *supervisor) {
    struct run_hosts *h = run->hosts;
    _cleanup_(mem_free) struct placement_host *places = NULL;
    if (clock_monotonic() < h->balance_at || supervisor_draining(supervisor)) return;
    h->balance_at = clock_monotonic() + SETTLE;
    if (new_places(run, &places, NULL) != STATUS_OK) return;
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        if (supervisor_pid(supervisor, i) == 0 || h->at[i] == NOWHERE || stage_moves(run, i)) continue;
        struct placement_wish wish = plan_wish(run->plan, &run->plan->instances[i]);
        memset(places, 0, (hosts_count(h->hosts) + 1) * sizeof *places);
        list_places(run, i, places);
        h->moving[i] = placement_should_move(&wish, places, hosts_count(h->hosts) + 1, h->at[i]);
        if (h->moving[i]) supervisor_renew(supervisor, i);
    }
}

/* ---- What users see ---- */

static enum status write_view(const struct run *run, struct err *err) {
    char path[PATH_SIZE];
    const struct run_hosts *h = run->hosts;
    json_t *list = json_array(), *instances = json_object();
    for (size_t i = 0; i < hosts_count(h->hosts); i++) {
        struct host_view view = hosts_view(h->hosts, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:b}", "name", view.name, "address", view.address,
                                              "cores", view.cores, "gpus", view.gpus, "there", (int)view.there));
    }
    for (size_t i = 0; i < run->plan->instance_count; i++)
        json_object_set_new(instances, run->plan->instances[i].name, json_string(host_name(run, h->at[i])));
    json_t *root =
        json_pack("{s:i, s:i, s:o, s:o}", "v", 1, "run", run->session.run, "hosts", list, "instances", instances);
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the hosts");
    enum status status = session_file(&run->session, "hosts", "hosts", ".json", path, err);
    if (status == STATUS_OK) status = file_write_whole(path, text, strlen(text), err);
    free(text);
    return status;
}

/* ---- The run ---- */

static void say(void *context, const char *id, const char *text) {
    struct run *run = context;
    if (id != NULL) {
        run_warn(run, id, text);
        return;
    }
    log_write(run->log, LOG_INFO, "host", "%s", text);
    progress_say(&run->progress, text);
}

static void changed(void *context) {
    ((struct run *)context)->hosts->changed = true;
}

static void listens(void *context, size_t child, const char *edge_name, const char *data, const char *ack) {
    struct run *run = context;
    for (size_t i = 0; i < run->plan->edge_count; i++) {
        struct plan_edge *edge = &run->plan->edges[i];
        if (edge->instance != child || strcmp(edge->name, edge_name) != 0) continue;
        if (strcmp(edge->data, data) == 0 && strcmp(edge->ack, ack) == 0) continue;
        snprintf(edge->data, sizeof edge->data, "%s", data);
        snprintf(edge->ack, sizeof edge->ack, "%s", ack);
        run->hosts->moved[child] = true;
    }
}

void run_hosts_tend(struct run *run, struct supervisor *supervisor) {
    struct run_hosts *h = run->hosts;
    if (h == NULL) return;
    hosts_tend(h->hosts);
    if (!session_holds_lease(&run->session)) return; /* the rest writes into the session */
    tell_moved(run, supervisor);
    let_go_again(run);
    if (h->changed) {
        for (size_t i = 0; i < run->plan->instance_count; i++)
            if (h->at[i] == NOWHERE) supervisor_start_now(supervisor, i);
        lay_ghosts(run);
        h->balance_at = clock_monotonic() + SETTLE;
        h->changed = false;
        h->unwritten = true;
    }
    balance(run, supervisor);
    if (h->unwritten) h->unwritten = write_view(run, NULL) != STATUS_OK;
}

void run_hosts_listen(struct run *run) {
    if (run->hosts != NULL) hosts_tend(run->hosts->hosts);
}

void run_hosts_pass_orders(struct run *run, size_t child) {
    if (run->hosts != NULL) (void)!hosts_pass_orders(run->hosts->hosts, child, run->texts[child].orders, NULL);
}

enum status run_hosts_prepare(struct run *run, struct err *err) {
    if (!run->graph->spread) return STATUS_OK;
    TRY(record_path(run, run->endpoints, err));
    TRY(file_make_parents(run->endpoints, 0777, err));
    /* The record of an earlier run would lead nowhere. */
    TRY(file_remove(run->endpoints, err));
    run->orders.endpoints = run->endpoints;
    return STATUS_OK;
}

static enum status make(struct run *run, struct run_hosts *h, struct err *err) {
    size_t count = run->plan->instance_count;
    TRY(mem_new(count + 1, sizeof *h->at, "the hosts", &h->at, err));
    TRY(mem_new(count + 1, sizeof *h->gpu, "the hosts", &h->gpu, err));
    TRY(mem_new(count + 1, sizeof *h->planned_gpu, "the hosts", &h->planned_gpu, err));
    TRY(mem_new(count + 1, sizeof *h->planned, "the hosts", &h->planned, err));
    TRY(mem_new(count + 1, sizeof *h->lost, "the hosts", &h->lost, err));
    TRY(mem_new(count + 1, sizeof *h->ghost, "the hosts", &h->ghost, err));
    TRY(mem_new(count + 1, sizeof *h->moved, "the hosts", &h->moved, err));
    TRY(mem_new(count + 1, sizeof *h->moving, "the hosts", &h->moving, err));
    for (size_t i = 0; i < count; i++) {
        h->at[i] = NOWHERE;
        h->gpu[i] = -1;
        h->planned[i] = run->plan->instances[i];
        h->planned_gpu[i] = h->planned[i].gpu_count > 0 ? h->planned[i].gpus[0] : 0;
    }
    return STATUS_OK;
}

enum status run_hosts_begin(struct run *run, struct err *err) {
    struct machine machine;
    if (!run->graph->spread) return STATUS_OK;
    TRY(mem_new(1, sizeof *run->hosts, "the hosts", &run->hosts, err));
    struct run_hosts *h = run->hosts;
    TRY(make(run, h, err));
    machine_inspect(&machine);
    h->own_gpus = machine.cuda ? machine.gpus : 0;
    h->begun_at = clock_monotonic();
    h->balance_at = h->begun_at + PATIENCE;
    const struct hosts_settings settings = {.session = run->session.path,
                                            .session_id = run->session.id,
                                            .run = run->session.run,
                                            .revision = metrics_build(),
                                            .address = plan_host(run->graph),
                                            .port = run->graph->control_port,
                                            .public_key = run->public_key,
                                            .secret_key = run->secret_key,
                                            .children = run->plan->instance_count,
                                            .context = run,
                                            .say = say,
                                            .changed = changed,
                                            .listens = listens};
    return hosts_create(&settings, &h->hosts, err);
}

void run_hosts_end(struct run *run) {
    struct run_hosts *h = run->hosts;
    char path[PATH_SIZE];
    if (h == NULL) return;
    hosts_destroy(&h->hosts);
    if (session_check_lease(&run->session, NULL) == STATUS_OK &&
        session_file(&run->session, "hosts", "hosts", ".json", path, NULL) == STATUS_OK)
        unlink(path);
    mem_free(&h->at);
    mem_free(&h->gpu);
    mem_free(&h->planned_gpu);
    mem_free(&h->planned);
    mem_free(&h->lost);
    mem_free(&h->ghost);
    mem_free(&h->moved);
    mem_free(&h->moving);
    mem_free(&run->hosts);
}
