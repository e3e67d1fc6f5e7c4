/* Reads limits of the system that sessions have met: inotify's, and that on open files. */
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/files.h"
#include "pipelines/launcher/doctor/doctor.h"

/* A watcher holds one instance, and a watch for each folder below the one that it watches. */
enum { WATCHES_FEW = 8192, INSTANCES_FEW = 32, FILES_FEW = 1024 };

static long read_number(const char *root, const char *name) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/proc/sys/fs/inotify/%s", root, name);
    FILE *file = fopen(path, "re");
    long number = -1;
    if (file == NULL || fscanf(file, "%ld", &number) != 1) number = -1;
    if (file != NULL) fclose(file);
    return number;
}

void doctor_read_limits(const char *root, struct doctor_limits *ret_limits) {
    struct doctor_limits limits = {.watches = read_number(root, "max_user_watches"),
                                   .instances = read_number(root, "max_user_instances")};
    int descriptor = inotify_init1(IN_CLOEXEC);
    limits.has_inotify = descriptor >= 0;
    if (descriptor >= 0) close(descriptor);
    struct rlimit files;
    limits.files = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (uint64_t)files.rlim_cur : UINT64_MAX;
    *ret_limits = limits;
}

void doctor_judge_limits(struct doctor *doctor, const struct doctor_limits *limits) {
    static const char raise[] = "printf 'fs.inotify.max_user_watches=524288\\nfs.inotify.max_user_instances=512\\n' | "
                                "sudo tee /etc/sysctl.d/60-icestream.conf && sudo sysctl --system";
    if (!limits->has_inotify)
        doctor_add(doctor, DOCTOR_WARNING, "inotify", raise,
                   "no instance of inotify can be had (%ld are allowed to a user): new files are only found every "
                   "watcher.poll seconds",
                   limits->instances);
    else if (limits->watches >= 0 && limits->watches < WATCHES_FEW)
        doctor_add(doctor, DOCTOR_WARNING, "inotify", raise,
                   "%ld folders may be watched by a user (max_user_watches): folders beyond are swept every "
                   "watcher.poll seconds",
                   limits->watches);
    else if (limits->instances >= 0 && limits->instances < INSTANCES_FEW)
        doctor_add(doctor, DOCTOR_WARNING, "inotify", raise,
                   "%ld instances of inotify are allowed to a user (max_user_instances), which desktops use up",
                   limits->instances);
    else
        doctor_add(doctor, DOCTOR_OK, "inotify", NULL, "%ld folders may be watched, by %ld programs of a user",
                   limits->watches, limits->instances);
    if (limits->files < FILES_FEW)
        doctor_add(doctor, DOCTOR_WARNING, "open-files", "ulimit -n 65536",
                   "a process may open %llu files; a graph of many stages and replicas needs more",
                   (unsigned long long)limits->files);
    else
        doctor_add(doctor, DOCTOR_OK, "open-files", NULL, "a process may open %llu files",
                   (unsigned long long)limits->files);
}
