/* What there is to run on. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_MACHINE_H
#define ICESTREAM_PIPELINES_LAUNCHER_MACHINE_H

#include <stdbool.h>

/* What a graph is checked and planned for; a parameter there, so that tests can ask for any machine. */
struct machine {
    int cores; /* that this process may use */
    int gpus;  /* that this process may use */
    bool cuda; /* whether this build can use a GPU */
};
void machine_inspect(struct machine *ret_machine);

#endif
