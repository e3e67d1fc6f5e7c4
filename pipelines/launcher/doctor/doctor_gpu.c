/* Looks for NVIDIA GPUs and for their driver, first as the kernel sees them and then as CUDA does. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device.h"
#include "common/files.h"
#include "pipelines/launcher/doctor/doctor.h"
#include "pipelines/launcher/machine.h"

/* Reads the first line of a small file. Returns false if there is none. */
static bool read_line(const char *root, const char *name, char *line, size_t size) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s%s", root, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    return got;
}

static int count_cards(const char *root) {
    char path[PATH_SIZE], name[512], vendor[32], class[32];
    int count = 0;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root);
    DIR *devices = opendir(path);
    for (struct dirent *entry = devices ? readdir(devices) : NULL; entry != NULL; entry = readdir(devices)) {
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "/sys/bus/pci/devices/%s/vendor", entry->d_name);
        if (!read_line(root, name, vendor, sizeof vendor) || strncmp(vendor, "0x10de", 6) != 0) continue;
        snprintf(name, sizeof name, "/sys/bus/pci/devices/%s/class", entry->d_name);
        /* 0x03…: display controllers. The sound of a card is a device of its own. */
        count += read_line(root, name, class, sizeof class) && strncmp(class, "0x03", 4) == 0;
    }
    if (devices != NULL) closedir(devices);
    return count;
}

/* Finds the version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue …": the first word of digits and
 * points. */
static void find_version(const char *line, char *version, size_t size) {
    for (const char *at = line; *at != '\0';) {
        size_t length = strcspn(at, " \t\n");
        if (length > 2 && strspn(at, "0123456789.") == length && memchr(at, '.', length) != NULL && length < size) {
            memcpy(version, at, length);
            version[length] = '\0';
            return;
        }
        at += length;
        at += strspn(at, " \t\n");
    }
    snprintf(version, size, "of an unknown version");
}

void doctor_read_gpus(const char *root, struct doctor_gpus *ret_gpus) {
    struct doctor_gpus gpus = {.cards = count_cards(root)};
    char line[256], path[PATH_SIZE];
    if (read_line(root, "/proc/driver/nvidia/version", line, sizeof line))
        find_version(line, gpus.driver, sizeof gpus.driver);
    snprintf(path, sizeof path, "%s/sys/module/nouveau", root);
    gpus.nouveau = file_exists(path);
    *ret_gpus = gpus;
}

static void judge_driver(struct doctor *doctor, const struct doctor_gpus *gpus) {
    if (gpus->driver[0] != '\0')
        doctor_add(doctor, DOCTOR_OK, "driver", NULL, "NVIDIA's driver %s is loaded", gpus->driver);
    else if (gpus->cards == 0)
        doctor_add(doctor, DOCTOR_OK, "driver", NULL, "no driver is needed without an NVIDIA GPU");
    else
        doctor_add(doctor, DOCTOR_WARNING, "driver",
                   doctor->ubuntu ? "sudo ubuntu-drivers install && sudo reboot"
                                  : "sudo apt-get install nvidia-driver && sudo reboot",
                   "NVIDIA's driver is not loaded%s, so the GPU cannot be used%s",
                   gpus->nouveau ? " (nouveau is, which has no CUDA)" : "",
                   doctor->ubuntu ? "" : "; on Debian it is in the section non-free of the package lists");
}

void doctor_judge_gpus(struct doctor *doctor, const struct doctor_gpus *gpus) {
    const bool driver = gpus->driver[0] != '\0';
    if (gpus->usable > 0)
        doctor_add(doctor, DOCTOR_OK, "gpu", NULL, "CUDA finds %d GPU%s; %.1f GB are free on the first", gpus->usable,
                   gpus->usable == 1 ? "" : "s", gpus->memory / 1e9);
    else if (gpus->cards == 0 && !driver)
        doctor_add(doctor, DOCTOR_OK, "gpu", NULL, "no NVIDIA GPU is there: icestream computes on the CPU");
    else if (!driver)
        doctor_add(doctor, DOCTOR_WARNING, "gpu", NULL, "%d NVIDIA GPU%s there, without a driver", gpus->cards,
                   gpus->cards == 1 ? " is" : "s are");
    else if (!gpus->built)
        doctor_add(doctor, DOCTOR_WARNING, "gpu",
                   doctor->apt ? "sudo apt-get install nvidia-cuda-toolkit && cmake --preset cuda && cmake --build "
                                 "--preset cuda"
                               : "cmake --preset cuda && cmake --build --preset cuda",
                   "an NVIDIA GPU is there, but this icestream is built without CUDA and computes on the CPU; build it "
                   "with CUDA in its source folder");
    else if (gpus->visible != NULL && (gpus->visible[0] == '\0' || gpus->visible[0] == '-'))
        doctor_add(doctor, DOCTOR_WARNING, "gpu", "unset CUDA_VISIBLE_DEVICES",
                   "CUDA_VISIBLE_DEVICES='%s' hides all GPUs", gpus->visible);
    else
        doctor_add(doctor, DOCTOR_WARNING, "gpu", "nvidia-smi",
                   "the driver is loaded, but CUDA finds no GPU%s%s; nvidia-smi says whether the driver works, and a "
                   "driver that is older than this build's CUDA must be renewed",
                   gpus->reason[0] ? ": " : "", gpus->reason);
    judge_driver(doctor, gpus);
}

void doctor_gpu(struct doctor *doctor) {
    struct doctor_gpus gpus;
    struct machine machine;
    struct err err = {0};
    size_t memory = 0;
    doctor_read_gpus("", &gpus);
    machine_inspect(&machine);
    gpus.built = machine.cuda;
    gpus.visible = getenv("CUDA_VISIBLE_DEVICES");
    if (gpus.built && device_count(&gpus.usable, &err) != STATUS_OK) gpus.usable = 0;
    const struct device first = {.kind = DEVICE_CUDA, .index = 0};
    if (gpus.usable > 0 && device_memory_free(&first, &memory, &err) == STATUS_OK) gpus.memory = (double)memory;
    snprintf(gpus.reason, sizeof gpus.reason, "%s", err.message);
    doctor_judge_gpus(doctor, &gpus);
}
