/* The plan of a run: which processes there will be, with which threads and GPUs, and which sockets join them. Made from
 * a checked graph; printed by `check`, carried out by `run`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PLAN_H
#define ICESTREAM_PIPELINES_LAUNCHER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/status.h"
#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/graph/graph_check.h"

/* Long enough for "tcp://127.0.0.1:65535", and for what a Unix socket takes (107 bytes and a 0) after "ipc://". */
enum { PLAN_ENDPOINT_SIZE = 128, PLAN_IPC_MAX = 107 };

/* From one instance to one stage. Bound by the instance; every replica of the stage connects. */
struct plan_edge {
    char *name;            /* "watcher.0>lowpass-picker" */
    size_t instance, from; /* upstream: index of the instance and of its stage in the graph */
    size_t to;             /* downstream: index of the stage */
    int window;            /* unacknowledged items at a time */
    char data[PLAN_ENDPOINT_SIZE], ack[PLAN_ENDPOINT_SIZE]; /* empty until plan_endpoints */
};

struct plan_instance {
    char *name; /* "lowpass-picker.0" */
    size_t stage;
    int replica, threads, flush_threads;
    int *gpus; /* what CUDA_VISIBLE_DEVICES will hold; borrowed from gpu_list */
    size_t gpu_count;
    const char *device; /* auto, cpu, cuda:N */
};

struct plan {
    const struct graph *graph; /* borrowed */
    struct plan_instance *instances;
    size_t instance_count;
    struct plan_edge *edges;
    size_t edge_count;
    int *gpu_list;
};

enum status plan_create(const struct graph *graph, const struct machine *machine, struct plan *ret_plan,
                        struct err *err);
void plan_clear(struct plan *plan);
/* Names the sockets: ipc in `folder` (which is to be of mode 0700), or free tcp ports of this host. */
enum status plan_endpoints(struct plan *plan, const char *folder, struct err *err);
void plan_print(const struct plan *plan, FILE *out);
/* Whether a stage takes nothing from others. */
bool plan_is_source(const struct graph_stage *stage);

#endif
