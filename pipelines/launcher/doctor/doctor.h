/* Looks for what a machine lacks to run icestream (`icestream doctor`). Each part of the machine has a function that
 * measures it and one that judges what was measured, so that tests can judge machines that nobody has. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_DOCTOR_DOCTOR_H
#define ICESTREAM_PIPELINES_LAUNCHER_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A warning costs speed or comfort; without what an error names, icestream does not run. */
enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_ERROR };

struct doctor_finding {
    const char *name; /* stable word, such as "gpu" */
    enum doctor_level level;
    char message[512], remedy[512]; /* remedy: a command for a shell, or empty */
};

enum { DOCTOR_FINDINGS = 64 };
struct doctor {
    struct doctor_finding findings[DOCTOR_FINDINGS];
    size_t count;
    bool ubuntu, apt; /* drivers and packages are installed by other commands there */
};

/* Begins a list of findings for the system below `root`: "" for this machine. */
void doctor_begin(struct doctor *doctor, const char *root);
/* Adds a finding. Findings beyond DOCTOR_FINDINGS are dropped. remedy: NULL for none. */
void doctor_add(struct doctor *doctor, enum doctor_level level, const char *name, const char *remedy,
                const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Returns how many findings have this level. */
size_t doctor_count(const struct doctor *doctor, enum doctor_level level);

/* GPUs and their driver (doctor_gpu.c). */
struct doctor_gpus {
    int cards;           /* NVIDIA display controllers on the PCI bus */
    bool nouveau;        /* the free driver, which has no CUDA, holds them */
    char driver[64];     /* version of NVIDIA's driver in the kernel; empty: not loaded */
    bool built;          /* this build has CUDA */
    int usable;          /* devices that CUDA finds; 0 without `built` */
    double memory;       /* bytes that are free on the first of them */
    const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: not set */
    char reason[256];    /* why CUDA finds none; may be empty */
};
/* Reads what the kernel below `root` says; does not fill built, usable, memory, visible and reason. */
void doctor_read_gpus(const char *root, struct doctor_gpus *ret_gpus);
void doctor_judge_gpus(struct doctor *doctor, const struct doctor_gpus *gpus);
void doctor_gpu(struct doctor *doctor);

/* Shared libraries that the programs in `folder` need (doctor_libraries.c). */
struct doctor_missing {
    struct {
        char library[96], program[96]; /* program: the first one that needs it */
        size_t programs;
    } rows[32];
    size_t count;
    char unstarted[96]; /* a program that could not be started at all; empty: none */
};
/* Takes in what the system's loader says of a program with LD_TRACE_LOADED_OBJECTS. */
void doctor_take_trace(struct doctor_missing *missing, const char *program, const char *text);
/* programs: how many programs were looked at. */
void doctor_judge_libraries(struct doctor *doctor, const struct doctor_missing *missing, size_t programs,
                            const char *folder);
void doctor_libraries(struct doctor *doctor, const char *folder);

/* The disk below a folder (doctor_disk.c). */
struct doctor_disk {
    uint64_t type;      /* f_type of statfs(2) */
    double free;        /* bytes */
    double rate;        /* bytes written per second, until they are on the disk */
    double latency;     /* s that one small write takes until it is on the disk */
    double skew;        /* s that the file system's clock is before this machine's */
    bool takes_sockets; /* of Unix, as stages use between them */
    char folder[256];
};
void doctor_judge_disk(struct doctor *doctor, const struct doctor_disk *disk);
/* Measures and judges. Returns false, with an error among the findings, if nothing can be written there. */
bool doctor_disk(struct doctor *doctor, const char *folder, struct doctor_disk *ret_disk);

/* Limits of the system: inotify, and open files (doctor_limits.c). */
struct doctor_limits {
    long watches, instances; /* of inotify for a user; -1: not known */
    bool has_inotify;        /* a new instance could be opened */
    uint64_t files;          /* descriptors that a process may open */
};
void doctor_read_limits(const char *root, struct doctor_limits *ret_limits);
void doctor_judge_limits(struct doctor *doctor, const struct doctor_limits *limits);

/* The clock, and sockets (doctor_clock.c, doctor_port.c). */
struct doctor_clock {
    double now;               /* s since 1970 */
    bool known, synchronised; /* known: the kernel says whether it is synchronised */
    double skew;              /* as in doctor_disk */
};
void doctor_judge_clock(struct doctor *doctor, const struct doctor_clock *clock);
void doctor_clock(struct doctor *doctor, double skew);
void doctor_port(struct doctor *doctor, bool folder_takes_sockets);

#endif
