#include "pipelines/launcher/plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "pipelines/launcher/cores.h"
#include "pipelines/launcher/plan_hosts.h"

bool plan_is_source(const struct graph_stage *stage) {
    return stage->from_count == 0;
}

void plan_clear(struct plan *plan) {
    for (size_t i = 0; i < plan->instance_count; i++)
        free(plan->instances[i].name);
    for (size_t i = 0; i < plan->edge_count; i++)
        free(plan->edges[i].name);
    free(plan->instances);
    free(plan->edges);
    free(plan->gpu_list);
    *plan = (struct plan){0};
}

/* Divides the cores among the instances that compute: all except sources, which only look for new files. */
static int default_threads(const struct graph *graph, int cores) {
    int computing = 0;
    for (size_t i = 0; i < graph->stage_count; i++)
        if (!plan_is_source(&graph->stages[i])) computing += graph->stages[i].replicas;
    int threads = computing > 0 ? cores / computing : cores;
    return threads > 0 ? threads : 1;
}

/* `auto` takes the next GPU in turn. A list is divided among the replicas; a single replica gets the whole list. */
static void give_gpus(const struct graph_stage *stage, const struct machine *machine, int *next_gpu, int *place,
                      struct plan_instance *instance) {
    instance->gpus = place;
    if (stage->gpu_auto && machine->cuda && machine->gpus > 0) {
        place[0] = (*next_gpu)++ % machine->gpus;
        instance->gpu_count = 1;
    } else if (stage->gpu_count > 0 && stage->replicas > 1) {
        place[0] = stage->gpus[(size_t)instance->replica % stage->gpu_count];
        instance->gpu_count = 1;
    } else {
        for (size_t g = 0; g < stage->gpu_count; g++)
            place[g] = stage->gpus[g];
        instance->gpu_count = stage->gpu_count;
    }
    instance->device = stage->device ? stage->device : instance->gpu_count > 0 ? "auto" : "cpu";
}

static enum status add_instances(struct plan *plan, const struct machine *machine, struct err *err) {
    const struct graph *graph = plan->graph;
    int threads = default_threads(graph, plan->cores), next_gpu = 0;
    int *place = plan->gpu_list;
    for (size_t i = 0; i < graph->stage_count; i++) {
        const struct graph_stage *stage = &graph->stages[i];
        for (int replica = 0; replica < stage->replicas; replica++) {
            struct plan_instance *instance = &plan->instances[plan->instance_count];
            *instance = (struct plan_instance){.stage = i, .replica = replica};
            instance->threads = stage->threads > 0 ? stage->threads : threads;
            instance->flush_threads = stage->threads > 0 ? stage->threads : plan->cores;
            FAIL_IF(asprintf(&instance->name, "%s.%d", stage->section.name, replica) < 0, err, STATUS_NO_MEMORY,
                    "no memory for the plan");
            plan->instance_count++;
            if (stage->gpus != NULL || stage->gpu_auto)
                give_gpus(stage, machine, &next_gpu, place, instance);
            else
                instance->device = stage->device ? stage->device : "cpu";
            place += instance->gpu_count;
        }
    }
    return STATUS_OK;
}

bool plan_uses_gpu(const struct plan *plan, const struct plan_instance *instance, int gpu) {
    const json_t *cuda = json_object_get(plan->graph->stages[instance->stage].describe, "cuda");
    size_t index = 0;
    if (json_is_false(cuda) || strcmp(instance->device, "cpu") == 0) return false;
    bool one = sscanf(instance->device, "cuda:%4zu", &index) == 1;
    /* A stage that chooses its device itself sees all GPUs, and takes the first. */
    if (instance->gpu_count == 0) return (size_t)gpu == index;
    for (size_t g = 0; g < instance->gpu_count; g++)
        if (instance->gpus[g] == gpu && (!one || g == index)) return true;
    return false;
}

static enum status add_edge(struct plan *plan, size_t instance, size_t to, struct err *err) {
    const struct graph_stage *down = &plan->graph->stages[to];
    struct plan_edge *edges = realloc(plan->edges, (plan->edge_count + 1) * sizeof *edges);
    FAIL_IF(edges == NULL, err, STATUS_NO_MEMORY, "no memory for the plan");
    plan->edges = edges;
    struct plan_edge *edge = &edges[plan->edge_count];
    /* Twice as many items as all lanes hold, so that no lane waits. */
    int window = 2 * down->lanes * down->replicas;
    *edge = (struct plan_edge){
        .instance = instance, .from = plan->instances[instance].stage, .to = to, .window = window < 8 ? 8 : window};
    FAIL_IF(asprintf(&edge->name, "%s>%s", plan->instances[instance].name, down->section.name) < 0, err,
            STATUS_NO_MEMORY, "no memory for the plan");
    plan->edge_count++;
    return STATUS_OK;
}

static enum status add_edges(struct plan *plan, struct err *err) {
    for (size_t to = 0; to < plan->graph->stage_count; to++) {
        const struct graph_stage *down = &plan->graph->stages[to];
        for (size_t k = 0; k < down->from_count; k++)
            for (size_t i = 0; i < plan->instance_count; i++)
                if (plan->instances[i].stage == down->from[k]) TRY(add_edge(plan, i, to, err));
    }
    return STATUS_OK;
}

enum status plan_create(const struct graph *graph, const struct machine *machine, struct plan *ret_plan,
                        struct err *err) {
    struct plan plan = {
        .graph = graph, .cores = graph->threads > 0 ? graph->threads : machine->cores, .machine_cores = machine->cores};
    size_t instances = 0, gpus = 0;
    for (size_t i = 0; i < graph->stage_count; i++) {
        instances += (size_t)graph->stages[i].replicas;
        gpus += (graph->stages[i].gpu_count + 1) * (size_t)graph->stages[i].replicas;
    }
    plan.instances = calloc(instances + 1, sizeof *plan.instances);
    plan.gpu_list = calloc(gpus + 1, sizeof *plan.gpu_list);
    enum status status = STATUS_OK;
    if (plan.instances == NULL || plan.gpu_list == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the plan");
    if (status == STATUS_OK) status = add_instances(&plan, machine, err);
    if (status == STATUS_OK) status = add_edges(&plan, err);
    if (status != STATUS_OK) {
        plan_clear(&plan);
        return status;
    }
    *ret_plan = plan;
    return STATUS_OK;
}

const char *plan_host(const struct graph *graph) {
    return graph->listen[0] != '\0' ? graph->listen : "127.0.0.1";
}

enum status plan_endpoints(struct plan *plan, const char *folder, struct err *err) {
    for (size_t i = 0; i < plan->edge_count; i++) {
        struct plan_edge *edge = &plan->edges[i];
        int length = snprintf(edge->data, sizeof edge->data, "ipc://%s/%zu.d", folder, i);
        snprintf(edge->ack, sizeof edge->ack, "ipc://%s/%zu.a", folder, i);
        FAIL_IF(length - 6 > PLAN_IPC_MAX, err, STATUS_BAD_ARGUMENT,
                "%s is too long a folder for sockets (%d bytes in all); set XDG_RUNTIME_DIR or TMPDIR to a shorter one",
                folder, PLAN_IPC_MAX);
    }
    return STATUS_OK;
}

/* Writes how much of a GPU an instance may take, or "" on the CPU. */
static void memory_text(const struct plan *plan, const struct plan_instance *instance, char *text, size_t size) {
    text[0] = '\0';
    if (strcmp(instance->device, "cpu") != 0) graph_memory_text(&plan->graph->stages[instance->stage], text, size);
}

void plan_print(const struct plan *plan, FILE *out) {
    char memory[32];
    bool any = false;
    for (size_t i = 0; i < plan->instance_count; i++) {
        memory_text(plan, &plan->instances[i], memory, sizeof memory);
        any |= memory[0] != '\0';
    }
    fprintf(out, "%-24s %-7s %-8s %s%s%s\n", "instance", "threads", "device", any ? "memory   " : "",
            plan->graph->spread ? "host              " : "", "program");
    for (size_t i = 0; i < plan->instance_count; i++) {
        const struct plan_instance *instance = &plan->instances[i];
        char device[64] = "";
        size_t used = 0;
        for (size_t g = 0; g < instance->gpu_count && used < sizeof device; g++)
            used += (size_t)snprintf(device + used, sizeof device - used, "%s%d", g ? "," : "gpu ", instance->gpus[g]);
        fprintf(out, "%-24s %-7d %-8s ", instance->name, instance->threads, used ? device : instance->device);
        memory_text(plan, instance, memory, sizeof memory);
        if (any) fprintf(out, "%-8s ", memory[0] ? memory : "-");
        if (plan->graph->spread) fprintf(out, "%-17s ", plan_host_of(plan, instance));
        fprintf(out, "%s\n", path_name(plan->graph->stages[instance->stage].program));
    }
    char shares[160];
    cores_describe(plan, shares, sizeof shares);
    fprintf(out, "\ncores: %s\n", shares);
    char unbound[64] = "ipc";
    if (plan->graph->tcp) snprintf(unbound, sizeof unbound, "tcp://%s:PORT (encrypted)", plan_host(plan->graph));
    if (plan->edge_count > 0) fprintf(out, "\n%-40s %-6s %s\n", "edge", "window", "endpoint");
    for (size_t i = 0; i < plan->edge_count; i++)
        fprintf(out, "%-40s %-6d %s\n", plan->edges[i].name, plan->edges[i].window,
                plan->edges[i].data[0] ? plan->edges[i].data : unbound);
}
