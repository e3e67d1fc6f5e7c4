/* Declares what run_hosts.c keeps of the hosts of a run. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_HOSTS_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_RUN_HOSTS_PRIVATE_H

#include "pipelines/launcher/host/hosts.h"
#include "pipelines/launcher/machine.h"
#include "pipelines/launcher/run/run_private.h"

/* The arrays have one element for each instance of the plan. */
struct run_hosts {
    struct hosts *hosts;
    int *at;                       /* where it runs: 0: with the launcher; N: on host N − 1; −1: nowhere */
    int *gpu;                      /* that it has on another host; −1: none */
    struct plan_instance *planned; /* what the plan has for it on the launcher's host */
    int *planned_gpu;              /* and its first GPU there */
    bool *lost;                    /* its host is lost, and it has not started elsewhere yet */
    int *ghost;                    /* the lost host on which a former process of it may still run; 0: none */
    bool *moved;                   /* its edges listen elsewhere, and its receivers were not told yet */
    bool *moving;                  /* it was stopped to start on another host */
    int own_gpus;
    double begun_at, balance_at, hello_at;
    bool changed;   /* a host has come or gone */
    bool unwritten; /* what users see has changed */
    bool untold;    /* the receivers could not be told, which was reported */
};

#endif
