/* A program of the system, such as ssh or sbatch, that runs beside the launcher. Nothing here blocks but tool_end. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_RUN_TOOL_H
#define ICESTREAM_PIPELINES_LAUNCHER_RUN_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/status.h"

enum { TOOL_TEXT_SIZE = 512 };

struct tool {
    pid_t pid;                 /* 0: none runs */
    int output;                /* −1: what it prints goes to the log */
    char text[TOOL_TEXT_SIZE]; /* the beginning of what it has printed */
    size_t length;
};

/* Starts words[0], which is looked for on PATH; words end with NULL. It reads nothing and has a process group of its
 * own, so Ctrl-C at the terminal does not reach it. What it says as errors is appended to the file `log`; keeps: what it
 * prints is kept in `text` instead of the log. The tool gets SIGTERM when the calling thread ends. UNAVAILABLE: the
 * system cannot start one more process. */
enum status tool_start(struct tool *ret_tool, const char *const *words, const char *log, bool keeps, struct err *err);
/* Takes what a tool has printed. Returns whether it has ended; *ret_exit is then its exit code: 127 where it was not
 * found, −1 for a signal. */
bool tool_ended(struct tool *tool, int *ret_exit);
/* Waits so many seconds for the end of a tool, sends SIGTERM, and kills it a second later. Does nothing where none runs.
 * Returns as tool_ended, with the exit code or −1. */
int tool_end(struct tool *tool, double seconds);

#endif
