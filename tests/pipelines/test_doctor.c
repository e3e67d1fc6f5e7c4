/* Tests `icestream doctor` on machines that nobody has: folders with proc/, sys/ and etc/ of their own, and measures
 * that are made up. */
#include "pipelines/launcher/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

#include "tests/common/scratch.h"

static const char *root(void) {
    static char path[PATH_SIZE];
    scratch_path("root", path);
    return path;
}

/* Writes a small file below the root. */
static void put(const char *name, const char *text) {
    char path[PATH_SIZE];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/%s", root(), name);
    assert_ok(file_make_parents(path, 0777, &err));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void begin(struct doctor *doctor, const char *system) {
    assert_int_equal(scratch_shell("rm -rf '%s'", root()), 0);
    put("etc/os-release", system);
    put("usr/bin/apt-get", "");
    doctor_begin(doctor, root());
}

static const struct doctor_finding *find(const struct doctor *doctor, const char *name) {
    for (size_t i = 0; i < doctor->count; i++)
        if (strcmp(doctor->findings[i].name, name) == 0) return &doctor->findings[i];
    fail_msg("no finding of the name %s", name);
    return NULL;
}

static void expect(const struct doctor *doctor, const char *name, enum doctor_level level, const char *message,
                   const char *remedy) {
    const struct doctor_finding *finding = find(doctor, name);
    if (finding->level != level || strstr(finding->message, message) == NULL ||
        (remedy != NULL ? strstr(finding->remedy, remedy) == NULL : finding->remedy[0] != '\0'))
        fail_msg("%s: level %d, '%s', '%s'", name, (int)finding->level, finding->message, finding->remedy);
}

static void gpus_are_found_with_their_driver(void **state) {
    (void)state;
    struct doctor doctor;
    struct doctor_gpus gpus;
    begin(&doctor, "NAME=Debian\nID=debian\n");
    doctor_read_gpus(root(), &gpus);
    doctor_judge_gpus(&doctor, &gpus);
    expect(&doctor, "gpu", DOCTOR_OK, "computes on the CPU", NULL);
    expect(&doctor, "driver", DOCTOR_OK, "no driver is needed", NULL);

    /* A card with its sound device, and a network card of somebody else. */
    begin(&doctor, "NAME=Debian\nID=debian\n");
    put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    put("sys/bus/pci/devices/0000:01:00.0/class", "0x030000\n");
    put("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
    put("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
    put("sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086\n");
    put("sys/bus/pci/devices/0000:02:00.0/class", "0x020000\n");
    put("sys/module/nouveau/version", "");
    doctor_read_gpus(root(), &gpus);
    assert_int_equal(gpus.cards, 1);
    doctor_judge_gpus(&doctor, &gpus);
    expect(&doctor, "gpu", DOCTOR_WARNING, "1 NVIDIA GPU is there, without a driver", NULL);
    expect(&doctor, "driver", DOCTOR_WARNING, "nouveau", "apt-get install nvidia-driver");

    begin(&doctor, "ID=ubuntu\n");
    doctor_judge_gpus(&doctor, &gpus);
    expect(&doctor, "driver", DOCTOR_WARNING, "not loaded", "ubuntu-drivers install");

    put("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n");
    doctor_read_gpus(root(), &gpus);
    assert_string_equal(gpus.driver, "535.54.03");
    begin(&doctor, "ID=debian\n");
    doctor_judge_gpus(&doctor, &gpus);
    expect(&doctor, "gpu", DOCTOR_WARNING, "built without CUDA", "cmake --preset cuda");
    expect(&doctor, "driver", DOCTOR_OK, "535.54.03", NULL);

    gpus.built = true;
    gpus.visible = "";
    begin(&doctor, "ID=debian\n");
    doctor_judge_gpus(&doctor, &gpus);
    expect(&doctor, "gpu", DOCTOR_WARNING, "hides all GPUs", "unset CUDA_VISIBLE_DEVICES");

    gpus.visible = NULL;
    snprintf(gpus.reason, sizeof gpus.reason, "driver version is insufficient");
    begin(&doctor, "ID=debian\n");
    doctor_judge_gpus(&doctor, &gpus);
    expect(&doctor, "gpu", DOCTOR_WARNING, "CUDA finds no GPU: driver version is insufficient", "nvidia-smi");

    gpus.usable = 2;
    gpus.memory = 80e9;
    begin(&doctor, "ID=debian\n");
    doctor_judge_gpus(&doctor, &gpus);
    expect(&doctor, "gpu", DOCTOR_OK, "2 GPUs; 80.0 GB", NULL);
}

static void libraries_that_are_missing_are_named_with_their_package(void **state) {
    (void)state;
    static const char trace[] = "\tlinux-vdso.so.1 (0x00007ffd)\n"
                                "\tlibtiff.so.6 => not found\n"
                                "\tlibfftw3f_omp.so.3 => not found\n"
                                "\tlibfftw3f.so.3 => not found\n"
                                "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n";
    struct doctor doctor;
    struct doctor_missing missing = {.count = 0};
    begin(&doctor, "ID=debian\n");
    doctor_judge_libraries(&doctor, &missing, 11, "/opt/icestream/bin");
    expect(&doctor, "libraries", DOCTOR_OK, "11 programs", NULL);

    begin(&doctor, "ID=debian\n");
    doctor_judge_libraries(&doctor, &missing, 0, "/opt/icestream/bin");
    expect(&doctor, "libraries", DOCTOR_ERROR, "/opt/icestream/bin", NULL);

    doctor_take_trace(&missing, "icestream-watcher", trace);
    doctor_take_trace(&missing, "icestream-refiner", trace);
    assert_int_equal(missing.count, 3);
    assert_int_equal(missing.rows[0].programs, 2);
    begin(&doctor, "ID=debian\n");
    doctor_judge_libraries(&doctor, &missing, 11, "/opt/icestream/bin");
    expect(&doctor, "libraries", DOCTOR_ERROR, "libtiff.so.6, libfftw3f_omp.so.3, libfftw3f.so.3 are not found",
           "sudo apt-get install libtiff6 libfftw3-single3");
    assert_null(strstr(find(&doctor, "libraries")->remedy, "single3 libfftw3"));

    /* Built on a newer system: no package helps. */
    missing.count = 0;
    doctor_take_trace(&missing, "icestream-watcher",
                      "icestream-watcher: /lib/libc.so.6: version `GLIBC_2.38' not found (required by x)\n");
    begin(&doctor, "ID=debian\n");
    doctor_judge_libraries(&doctor, &missing, 11, "/opt/icestream/bin");
    expect(&doctor, "libraries", DOCTOR_ERROR, "GLIBC_2.38 is not found", NULL);
}

static void disks_are_judged(void **state) {
    (void)state;
    struct doctor doctor;
    const struct doctor_disk good = {
        .type = 0xef53, .free = 1e12, .rate = 500e6, .latency = 1e-3, .takes_sockets = true, .folder = "/data"};
    begin(&doctor, "ID=debian\n");
    doctor_judge_disk(&doctor, &good);
    assert_int_equal(doctor.count, 2);
    expect(&doctor, "disk", DOCTOR_OK, "/data (ext4) takes 500 MB/s", NULL);
    expect(&doctor, "space", DOCTOR_OK, "1000.0 GB", NULL);

    struct doctor_disk bad = good;
    bad.rate = 30e6;
    bad.free = 0.5e9;
    bad.type = 0x6969;
    begin(&doctor, "ID=debian\n");
    doctor_judge_disk(&doctor, &bad);
    expect(&doctor, "disk", DOCTOR_WARNING, "30 MB/s", NULL);
    expect(&doctor, "space", DOCTOR_ERROR, "make room", "df");
    expect(&doctor, "network-disk", DOCTOR_WARNING, "NFS", NULL);

    bad = good;
    bad.latency = 0.2;
    bad.free = 20e9;
    bad.type = 0x01021994;
    begin(&doctor, "ID=debian\n");
    doctor_judge_disk(&doctor, &bad);
    expect(&doctor, "disk", DOCTOR_WARNING, "200.0 ms", NULL);
    expect(&doctor, "space", DOCTOR_WARNING, "20.0 GB", "df");
    expect(&doctor, "memory-disk", DOCTOR_WARNING, "reboot", NULL);
}

static void limits_are_read_and_judged(void **state) {
    (void)state;
    struct doctor doctor;
    struct doctor_limits limits;
    begin(&doctor, "ID=debian\n");
    put("proc/sys/fs/inotify/max_user_watches", "1024\n");
    put("proc/sys/fs/inotify/max_user_instances", "128\n");
    doctor_read_limits(root(), &limits);
    assert_int_equal(limits.watches, 1024);
    assert_int_equal(limits.instances, 128);
    limits.has_inotify = true;
    limits.files = 256;
    doctor_judge_limits(&doctor, &limits);
    expect(&doctor, "inotify", DOCTOR_WARNING, "1024 folders", "fs.inotify.max_user_watches=524288");
    expect(&doctor, "open-files", DOCTOR_WARNING, "256", "ulimit -n 65536");

    limits = (struct doctor_limits){.watches = 65536, .instances = 128, .has_inotify = false, .files = 65536};
    begin(&doctor, "ID=debian\n");
    doctor_judge_limits(&doctor, &limits);
    expect(&doctor, "inotify", DOCTOR_WARNING, "no instance", "sysctl --system");
    expect(&doctor, "open-files", DOCTOR_OK, "65536", NULL);

    limits.has_inotify = true;
    begin(&doctor, "ID=debian\n");
    doctor_judge_limits(&doctor, &limits);
    expect(&doctor, "inotify", DOCTOR_OK, "65536 folders", NULL);
}

static void clocks_are_judged(void **state) {
    (void)state;
    struct doctor doctor;
    struct doctor_clock clock = {.now = 1.9e9, .known = true, .synchronised = true};
    begin(&doctor, "ID=debian\n");
    doctor_judge_clock(&doctor, &clock);
    expect(&doctor, "clock", DOCTOR_OK, "synchronised", NULL);
    clock.synchronised = false;
    begin(&doctor, "ID=debian\n");
    doctor_judge_clock(&doctor, &clock);
    expect(&doctor, "clock", DOCTOR_WARNING, "nothing keeps", "set-ntp true");
    clock.skew = -30;
    begin(&doctor, "ID=debian\n");
    doctor_judge_clock(&doctor, &clock);
    expect(&doctor, "clock", DOCTOR_WARNING, "30.0 s behind", "set-ntp true");
    clock.now = 1000;
    begin(&doctor, "ID=debian\n");
    doctor_judge_clock(&doctor, &clock);
    expect(&doctor, "clock", DOCTOR_WARNING, "before 2025", "set-ntp true");
}

static void more_findings_than_there_is_room_for_are_dropped(void **state) {
    (void)state;
    struct doctor doctor;
    begin(&doctor, "ID=debian\n");
    for (int i = 0; i < 2 * DOCTOR_FINDINGS; i++)
        doctor_add(&doctor, DOCTOR_ERROR, "x", NULL, "%d", i);
    assert_int_equal(doctor.count, DOCTOR_FINDINGS);
    assert_int_equal(doctor_count(&doctor, DOCTOR_ERROR), DOCTOR_FINDINGS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_found_with_their_driver),
        cmocka_unit_test(libraries_that_are_missing_are_named_with_their_package),
        cmocka_unit_test(disks_are_judged),
        cmocka_unit_test(limits_are_read_and_judged),
        cmocka_unit_test(clocks_are_judged),
        cmocka_unit_test(more_findings_than_there_is_room_for_are_dropped),
    };
    return scratch_run("doctor", tests, sizeof tests / sizeof *tests);
}
