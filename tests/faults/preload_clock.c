/* Changes the wall clock while programs run; the monotonic clock is unaffected. ICESTREAM_FAULT_CLOCK names a file of
 * 64-bit numbers. The first is the number of changes. For each change follow its time (ns since 1970, true time) and
 * the clock's error since then (ns). Times of files are shifted too, as if that clock had written them. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SETTINGS_MAX = 16 };
static const int64_t SECOND = 1000000000;

struct control {
    _Atomic int64_t count;
    struct {
        int64_t since, shift;
    } settings[SETTINGS_MAX];
};

static const struct control *control;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_control(void) {
    const char *path = getenv("ICESTREAM_FAULT_CLOCK");
    int descriptor = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return;
    void *memory = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory != MAP_FAILED) control = memory;
}

/* Returns the clock's error at a true time. */
static int64_t shift_at(int64_t time) {
    pthread_once(&once, open_control);
    int64_t count = control != NULL ? atomic_load(&control->count) : 0, shift = 0;
    for (int64_t i = 0; i < count && i < SETTINGS_MAX; i++)
        if (time >= control->settings[i].since) shift = control->settings[i].shift;
    return shift;
}

static void move(struct timespec *time) {
    int64_t value = time->tv_sec * SECOND + time->tv_nsec;
    value += shift_at(value);
    time->tv_sec = value / SECOND;
    time->tv_nsec = value % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time) {
    int result = (int)syscall(SYS_clock_gettime, clock, ret_time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) move(ret_time);
    return result;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    *ret_time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret_time) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (ret_time != NULL) *ret_time = now.tv_sec;
    return now.tv_sec;
}

static int moved(int result, struct stat *information) {
    if (result == 0) move(&information->st_mtim);
    return result;
}

int stat(const char *restrict path, struct stat *restrict ret_information) {
    int (*next)(const char *, struct stat *) = (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
    return moved(next(path, ret_information), ret_information);
}

int fstat(int descriptor, struct stat *ret_information) {
    int (*next)(int, struct stat *) = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
    return moved(next(descriptor, ret_information), ret_information);
}
