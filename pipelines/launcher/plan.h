/* The plan of a run: its processes, with their threads and GPUs, and the sockets between them. It is made from a
 * checked graph; `check` prints it and `run` carries it out. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_PLAN_H
#define ICESTREAM_PIPELINES_LAUNCHER_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/status.h"
#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/graph/graph_check.h"

/* Room for "tcp://127.0.0.1:65535", or for "ipc://" and the path of a Unix socket (107 bytes and a 0). */
enum { PLAN_ENDPOINT_SIZE = 128, PLAN_IPC_MAX = 107 };

/* An edge from one instance to one stage. The instance binds it; every replica of the stage connects. */
struct plan_edge {
    char *name;            /* "watcher.0>lowpass-picker" */
    size_t instance, from; /* upstream: index of the instance, and of its stage in the graph */
    size_t to;             /* downstream: index of the stage */
    int window;            /* items that may be unacknowledged at a time */
    char data[PLAN_ENDPOINT_SIZE], ack[PLAN_ENDPOINT_SIZE]; /* empty until the run has them */
};

struct plan_instance {
    char *name; /* "lowpass-picker.0" */
    size_t stage;
    int replica, threads, flush_threads;
    int one_by_one; /* so many items at first are taken one by one; 0: as many as fit. Set after deaths */
    int deaths;     /* of its stage, in a row, with no item in work. Set after deaths */
    int64_t life;   /* grows with each start, in a session of several hosts; 0: not counted */
    int change;     /* number of the last change of its stage's parameters; 0: none */
    int *gpus;      /* the future content of CUDA_VISIBLE_DEVICES; points into gpu_list */
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
    int cores;         /* that the session takes: session.threads, or all of the machine */
    int machine_cores; /* that this process may use */
};

/* Makes the plan of a checked graph on this machine. */
enum status plan_create(const struct graph *graph, const struct machine *machine, struct plan *ret_plan,
                        struct err *err);
/* Frees what the plan holds. */
void plan_clear(struct plan *plan);
/* Names the sockets of a plan without tcp, in `folder` (whose mode must be 0700). With tcp, run_endpoints_make opens
 * them. */
enum status plan_endpoints(struct plan *plan, const char *folder, struct err *err);
/* Returns the address of this host on which tcp sockets listen. */
const char *plan_host(const struct graph *graph);
/* Prints the plan for the user. */
void plan_print(const struct plan *plan, FILE *out);
/* Returns whether an instance may compute on a GPU, as the plan and its device say. gpu: index among those that the
 * machine offers. */
bool plan_uses_gpu(const struct plan *plan, const struct plan_instance *instance, int gpu);
/* Returns whether a stage has no input from other stages. */
bool plan_is_source(const struct graph_stage *stage);

#endif
