/* Measures how fast the disk of a folder takes what is written to it. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "pipelines/launcher/doctor/doctor.h"

enum { CHUNK = 4 << 20, CHUNKS = 32, COMMITS = 16, COMMIT_BYTES = 4096 };
static const double WRITE_MAX = 3;       /* s */
static const double FREE_LEAST = 1e9;    /* bytes; below this the watcher takes in nothing (watcher.min_free) */
static const double FREE_FEW = 50e9;     /* bytes */
static const double RATE_FEW = 100e6;    /* bytes/s; a fast camera writes more */
static const double LATENCY_MUCH = 0.05; /* s */

static const struct {
    uint64_t type;
    const char *name;
    bool network;
} systems[] = {
    {0x6969, "NFS", true},          {0xff534d42, "SMB", true},    {0xfe534d42, "SMB", true},
    {0x517b, "SMB", true},          {0x0bd00bd0, "Lustre", true}, {0x47504653, "GPFS", true},
    {0x19830326, "BeeGFS", true},   {0x00c36400, "Ceph", true},   {0x65735546, "FUSE", true},
    {0x01021994, "tmpfs", false},   {0x858458f6, "ramfs", false}, {0xef53, "ext4", false},
    {0x58465342, "XFS", false},     {0x9123683e, "Btrfs", false}, {0x2fc12fc1, "ZFS", false},
    {0x794c7630, "overlay", false},
};
static const uint64_t TMPFS = 0x01021994, RAMFS = 0x858458f6;

void doctor_judge_disk(struct doctor *doctor, const struct doctor_disk *disk) {
    const char *name = "a file system", *folder = disk->folder;
    bool network = false;
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        if (systems[i].type == disk->type) {
            name = systems[i].name;
            network = systems[i].network;
        }
    bool slow = disk->rate < RATE_FEW || disk->latency > LATENCY_MUCH;
    doctor_add(doctor, slow ? DOCTOR_WARNING : DOCTOR_OK, "disk", NULL,
               "%s (%s) takes %.0f MB/s, and a small write in %.1f ms%s", folder, name, disk->rate / 1e6,
               disk->latency * 1e3,
               disk->rate < RATE_FEW ? "; a camera may write more than 100 MB/s: put the session on a faster disk"
               : disk->latency > LATENCY_MUCH ? "; each item waits for several: put the session on a local disk"
                                              : "");
    doctor_add(doctor,
               disk->free < FREE_LEAST ? DOCTOR_ERROR
               : disk->free < FREE_FEW ? DOCTOR_WARNING
                                       : DOCTOR_OK,
               "space", disk->free < FREE_FEW ? "df -h ." : NULL, "%.1f GB are free in %s%s", disk->free / 1e9, folder,
               disk->free < FREE_LEAST ? "; below 1 GB (watcher.min_free) nothing is taken in: make room"
               : disk->free < FREE_FEW ? "; a session from movies takes some hundred GB: make room, or use another disk"
                                       : "");
    if (network)
        doctor_add(doctor, DOCTOR_WARNING, "network-disk", NULL,
                   "%s lies on %s: use a local disk for the session, since the locks of ledgers are not to be trusted "
                   "there; a watched folder there is swept every watcher.poll seconds, without notices of new files",
                   folder, name);
    if (disk->type == TMPFS || disk->type == RAMFS)
        doctor_add(doctor, DOCTOR_WARNING, "memory-disk", NULL,
                   "%s lies in memory (%s): a session there is gone after a reboot", folder, name);
}

/* Writes for WRITE_MAX seconds at most, and no more than a tenth of the bytes that are free. Returns bytes per second;
 * a negative number if the disk refuses. */
static double measure_rate(int descriptor, double room) {
    char *chunk = malloc(CHUNK);
    if (chunk == NULL) return -1;
    uint32_t value = 1;
    for (size_t i = 0; i < CHUNK; i++) { /* nothing that a file system can compress */
        value = value * 1664525u + 1013904223u;
        chunk[i] = (char)(value >> 24);
    }
    const double begin = clock_monotonic();
    double written = 0;
    bool well = true;
    for (int i = 0; well && i < CHUNKS && (i == 0 || (clock_monotonic() - begin < WRITE_MAX && written < room / 10));
         i++) {
        ssize_t got = write(descriptor, chunk, CHUNK);
        well = got > 0;
        if (well) written += (double)got;
    }
    well = well && fdatasync(descriptor) == 0;
    free(chunk);
    return well ? written / fmax(clock_monotonic() - begin, 1e-6) : -1;
}

/* Returns the seconds that one small write takes until it is on the disk; a negative number if the disk refuses. */
static double measure_latency(int descriptor) {
    static const char bytes[COMMIT_BYTES];
    const double begin = clock_monotonic();
    for (int i = 0; i < COMMITS; i++)
        if (pwrite(descriptor, bytes, sizeof bytes, i * (off_t)sizeof bytes) != (ssize_t)sizeof bytes ||
            fsync(descriptor) != 0)
            return -1;
    return (clock_monotonic() - begin) / COMMITS;
}

static bool takes_sockets(const char *folder) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/.icestream-doctor-%d", folder, (int)getpid());
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool takes = descriptor >= 0 && length < (int)sizeof address.sun_path &&
                 bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0;
    if (descriptor >= 0) close(descriptor);
    if (takes) unlink(address.sun_path);
    return takes;
}

bool doctor_disk(struct doctor *doctor, const char *folder, struct doctor_disk *ret_disk) {
    struct doctor_disk disk = {.takes_sockets = false};
    struct statfs system;
    struct stat info;
    struct timespec now;
    char path[PATH_SIZE];
    snprintf(disk.folder, sizeof disk.folder, "%s", folder);
    if (!file_is_folder(folder) || statfs(folder, &system) != 0) {
        doctor_add(doctor, DOCTOR_ERROR, "disk", NULL, "%s is no folder that can be read: %s", folder, strerror(errno));
        return false;
    }
    disk.type = (uint64_t)(unsigned long)system.f_type;
    disk.free = (double)system.f_bavail * (double)system.f_bsize;
    int length = snprintf(path, sizeof path, "%s/.icestream-doctor-XXXXXX", folder);
    int descriptor = length < (int)sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
    if (descriptor < 0) {
        doctor_add(doctor, DOCTOR_ERROR, "disk", NULL,
                   "nothing can be written to %s (%s): change its owner or mode, or name another folder", folder,
                   strerror(errno));
        return false;
    }
    unlink(path); /* gone even if this program is killed */
    disk.rate = measure_rate(descriptor, disk.free);
    disk.latency = measure_latency(descriptor);
    int reason = errno;
    /* The write above has just set the file's time by the clock of the file system. */
    if (clock_gettime(CLOCK_REALTIME, &now) == 0 && fstat(descriptor, &info) == 0)
        disk.skew = (double)(info.st_mtim.tv_sec - now.tv_sec) + (double)(info.st_mtim.tv_nsec - now.tv_nsec) * 1e-9;
    close(descriptor);
    disk.takes_sockets = takes_sockets(folder);
    if (disk.rate < 0 || disk.latency < 0) {
        doctor_add(doctor, DOCTOR_ERROR, "disk", NULL, "%s does not take what is written to it: %s", folder,
                   strerror(reason));
        return false;
    }
    doctor_judge_disk(doctor, &disk);
    *ret_disk = disk;
    return true;
}
