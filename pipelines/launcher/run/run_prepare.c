/* Prepares a run: keys, instance files, arguments and environment of each process. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/edges/transport_keys.h"
#include "common/memory.h"
#include "pipelines/launcher/run/environment.h"
#include "pipelines/launcher/run/instance.h"
#include "pipelines/launcher/run/run_private.h"

/* s without a new file before the stream of a replay ends. The launcher ends it earlier when all is done; where a stage
 * makes items again, that takes its time. */
static const double REPLAY_IDLE = 2, AGAIN_IDLE = 3600;

static enum status fill_environment(const struct plan_instance *instance, struct child_texts *texts, struct err *err) {
    char gpus[512] = "";
    for (size_t g = 0; g < instance->gpu_count; g++)
        environment_add_gpu(gpus, sizeof gpus, instance->gpus[g]);
    int count = 0;
    bool well = asprintf(&texts->env[count++], "OMP_NUM_THREADS=%d", instance->threads) >= 0 &&
                (texts->env[count++] = strdup("OMP_WAIT_POLICY=passive")) != NULL &&
                (texts->env[count++] = strdup("OPENBLAS_NUM_THREADS=1")) != NULL;
    /* A stage that chooses its device itself sees all GPUs. */
    if (well && (instance->gpu_count > 0 || strcmp(instance->device, "cpu") == 0))
        well = asprintf(&texts->env[count], "CUDA_VISIBLE_DEVICES=%s", gpus) >= 0;
    FAIL_IF(!well, err, STATUS_NO_MEMORY, "no memory for the environment of %s", instance->name);
    return STATUS_OK;
}

enum status run_environment(struct run *run, size_t child, struct err *err) {
    struct child_texts *texts = &run->texts[child];
    for (size_t k = 0; k < RUN_ENV_MAX; k++)
        mem_free(&texts->env[k]);
    return fill_environment(&run->plan->instances[child], texts, err);
}

static enum status prepare_child(struct run *run, size_t index, struct err *err) {
    const struct plan_instance *instance = &run->plan->instances[index];
    const struct graph_stage *stage = &run->graph->stages[instance->stage];
    struct child_texts *texts = &run->texts[index];
    TRY(session_file(&run->session, "log", instance->name, ".instance.json", texts->orders, err));
    TRY(session_file(&run->session, "log", instance->name, ".log", texts->log, err));
    TRY(session_file(&run->session, "log", instance->name, ".heartbeat.json", texts->heartbeat, err));
    TRY(session_file(&run->session, "log", instance->name, ".current", texts->current, err));
    snprintf(texts->program, sizeof texts->program, "%s", stage->program);
    texts->argv[0] = texts->program;
    texts->argv[1] = strdup("--instance");
    texts->argv[2] = texts->orders;
    FAIL_IF(texts->argv[1] == NULL, err, STATUS_NO_MEMORY, "no memory for the arguments of %s", instance->name);
    TRY(fill_environment(instance, texts, err));
    unlink(texts->current);
    TRY(instance_write(&run->session, run->plan, index, &run->orders, err));
    run->children[index] = (struct supervisor_child){.name = instance->name,
                                                     .argv = texts->argv,
                                                     .env = texts->env,
                                                     .log = texts->log,
                                                     .heartbeat = texts->heartbeat,
                                                     .heartbeat_expected = stage->describe != NULL,
                                                     .source = plan_is_source(stage),
                                                     .listeners = run->listeners};
    return STATUS_OK;
}

/* Releases claims that the processes of an earlier launcher held when they died with it. */
static enum status release_claims(struct run *run, struct err *err) {
    for (size_t i = 0; i < run->plan->instance_count; i++) {
        const struct plan_instance *instance = &run->plan->instances[i];
        struct ledger *ledger = NULL;
        TRY(session_ledger(&run->session, run->graph->stages[instance->stage].section.name, false, &ledger, err));
        if (ledger == NULL) continue;
        enum status status = ledger_release_instance(ledger, instance->replica, err);
        ledger_close(&ledger);
        TRY(status);
        const struct graph_stage *stage = &run->graph->stages[instance->stage];
        if (stage->cumulative) TRY(session_void_lease(&run->session, stage->section.name, err));
    }
    return STATUS_OK;
}

enum status run_prepare(struct run *run, struct err *err) {
    size_t count = run->plan->instance_count;
    run->orders = (struct instance_orders){.until_idle = run->options->until_idle,
                                           .log_size = (int64_t)(run->options->log_size * (1 << 20))};
    if (run->replay != NULL && run->orders.until_idle < 0)
        run->orders.until_idle = run->replay->longest_gap + (run_again_expected(run) ? AGAIN_IDLE : REPLAY_IDLE);
    if (run->replay != NULL) run->orders.recorded = run->replay->source;
    if (run->graph->tcp) {
        TRY(transport_make_keys(run->public_key, run->secret_key, err));
        run->orders.curve_public = run->public_key;
        run->orders.curve_secret = run->secret_key;
    }
    TRY(hung_create(run->plan, run->orders.curve_public, run->orders.curve_secret, &run->hung, err));
    run->children = calloc(count, sizeof *run->children);
    run->texts = calloc(count, sizeof *run->texts);
    run->released = calloc(count, sizeof *run->released);
    run->bindings = calloc(count, sizeof *run->bindings);
    run->judged = calloc(count, sizeof *run->judged);
    run->deaths = calloc(run->graph->stage_count, sizeof *run->deaths);
    FAIL_IF(run->children == NULL || run->texts == NULL || run->released == NULL || run->bindings == NULL ||
                run->judged == NULL || run->deaths == NULL,
            err, STATUS_NO_MEMORY, "no memory for the processes");
    memory_kills_open(&run->memory, NULL);
    TRY(run_endpoints_make(run, err));
    TRY(run_hosts_prepare(run, err));
    if (run->graph->spread) run_share(run);
    TRY(release_claims(run, err));
    for (size_t i = 0; i < count; i++)
        TRY(prepare_child(run, i, err));
    return STATUS_OK;
}
