/* Finds out what this machine offers: cores and GPUs. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_MACHINE_H
#define ICESTREAM_PIPELINES_LAUNCHER_MACHINE_H

#include <stdbool.h>

/* The machine for which a graph is checked and planned. It is a parameter, so that tests can ask for any machine. */
struct machine {
    int cores; /* cores that this process may use */
    int gpus;  /* GPUs that this process may use */
    bool cuda; /* this build can use a GPU */
};
void machine_inspect(struct machine *ret_machine);

#endif
