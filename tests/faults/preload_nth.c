/* Makes the n-th call of one kind fail, for sweeps over every n. Environment:
 *   NTH_CALL   malloc, read, write, fsync, open, thread, socket or fork: the kind
 *   NTH        n; counted from 1, from the start of main, over all threads. 0 or none: nothing fails
 *   NTH_COUNT  a file to which each process adds one line at its end: its name, and how many calls it made
 *   NTH_EVER   fails every call from the n-th on, not the n-th alone
 *   NTH_ONCE   a file: the failure happens only if it can be created, so in one process of many. With NTH_EVER: every
 *              call of that process
 *   NTH_PROGRAM part of a program's name: other programs run undisturbed
 *   NTH_ARGUMENT a word of the command line: programs that were started without it run undisturbed
 *   NTH_ERRNO  number of the error, instead of ENOMEM, EIO, ENOSPC, EIO, EMFILE, EAGAIN, EMFILE, EAGAIN
 * Reads and writes count for plain files alone, and not for the standard streams: an error of a pipe or an event
 * descriptor has another meaning. Calls of the libraries in `skipped` do not count: they end the process when they get
 * no memory, and programs cannot prevent that. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALLER __builtin_return_address(0)

enum kind { KIND_MALLOC, KIND_READ, KIND_WRITE, KIND_FSYNC, KIND_OPEN, KIND_THREAD, KIND_SOCKET, KIND_FORK, KIND_NONE };
enum { RANGES_MAX = 64, STREAM_ERROR = 0x20 /* glibc's mark of a stream that has failed */ };

static const char *const kind_names[] = {"malloc", "read", "write", "fsync", "open", "thread", "socket", "fork"};
static const int kind_errors[] = {ENOMEM, EIO, ENOSPC, EIO, EMFILE, EAGAIN, EMFILE, EAGAIN};
static const char *const skipped[] = {"libzmq",      "libstdc++", "libgomp",     "libfftw3", "libopenblas",
                                      "libgfortran", "liblapack", "preload_nth", "ld-linux", "libsodium"};

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static struct { uintptr_t begin, end; } ranges[RANGES_MAX];
static int range_count;
static enum kind kind = KIND_NONE;
static long long nth;
static bool ever;
static int error;
static atomic_llong calls;
static atomic_bool hit, counting;
static int (*real_main)(int, char **, char **);

static bool is_skipped(const void *caller) {
    for (int i = 0; i < range_count; i++)
        if ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end) return true;
    return false;
}

static bool first_of_all(void) {
    const char *mark = getenv("NTH_ONCE");
    if (mark == NULL) return true;
    int descriptor = REAL(open)(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor >= 0) close(descriptor);
    return descriptor >= 0;
}

/* Counts one call; returns whether it fails, with the error in errno. */
static bool fails(enum kind which, const void *caller) {
    if (which != kind || !atomic_load(&counting) || is_skipped(caller)) return false;
    long long number = atomic_fetch_add(&calls, 1) + 1;
    bool now = number == nth && first_of_all();
    if (now) atomic_store(&hit, true);
    bool later = ever && nth > 0 && number > nth && atomic_load(&hit);
    if (now || later) errno = error;
    return now || later;
}

static bool is_file(int descriptor) {
    struct stat info;
    return descriptor > STDERR_FILENO && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
}

static bool fails_on(enum kind which, int descriptor, const void *caller) {
    int saved = errno;
    bool counts = which == kind && atomic_load(&counting) && is_file(descriptor);
    errno = saved;
    return counts && fails(which, caller);
}

static int note_range(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    bool listed = false;
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
        listed = listed || strstr(info->dlpi_name, skipped[i]) != NULL;
    for (int i = 0; listed && i < info->dlpi_phnum && range_count < RANGES_MAX; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        ranges[range_count].begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        ranges[range_count].end = ranges[range_count].begin + info->dlpi_phdr[i].p_memsz;
        range_count++;
    }
    return 0;
}

static bool has_argument(int argc, char **argv) {
    const char *word = getenv("NTH_ARGUMENT");
    for (int i = 1; word != NULL && i < argc; i++)
        if (strcmp(argv[i], word) == 0) return true;
    return word == NULL;
}

static void configure(int argc, char **argv) {
    const char *call = getenv("NTH_CALL"), *program = getenv("NTH_PROGRAM"), *number = getenv("NTH_ERRNO");
    if (call == NULL || !has_argument(argc, argv) ||
        (program != NULL && strstr(program_invocation_short_name, program) == NULL))
        return;
    for (int i = 0; i < KIND_NONE; i++)
        if (strcmp(call, kind_names[i]) == 0) kind = (enum kind)i;
    if (kind == KIND_NONE) return;
    nth = getenv("NTH") != NULL ? atoll(getenv("NTH")) : 0;
    ever = getenv("NTH_EVER") != NULL;
    error = number != NULL ? atoi(number) : kind_errors[kind];
    dl_iterate_phdr(note_range, NULL);
    atomic_store(&counting, true);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("NTH_COUNT");
    bool counted = atomic_exchange(&counting, false);
    char line[128];
    int length =
        snprintf(line, sizeof line, "%.64s %lld\n", program_invocation_short_name, (long long)atomic_load(&calls));
    int descriptor = path != NULL && counted ? REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (descriptor < 0) return;
    (void)!REAL(write)(descriptor, line, (size_t)length);
    close(descriptor);
}

static int counted_main(int argc, char **argv, char **environment) {
    configure(argc, argv);
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end) {
    int (*next)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

/* ---- Memory ---- */

void *malloc(size_t size) {
    return fails(KIND_MALLOC, CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return fails(KIND_MALLOC, CALLER) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return fails(KIND_MALLOC, CALLER) ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails(KIND_MALLOC, CALLER) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    int saved = errno;
    void *memory = fails(KIND_MALLOC, CALLER) ? NULL : __libc_memalign(alignment, size);
    errno = saved;
    if (memory == NULL) return ENOMEM;
    *ret_memory = memory;
    return 0;
}

/* ---- Reads ---- */

ssize_t read(int descriptor, void *bytes, size_t count) {
    return fails_on(KIND_READ, descriptor, CALLER) ? -1 : REAL(read)(descriptor, bytes, count);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
    return fails_on(KIND_READ, descriptor, CALLER) ? -1 : REAL(pread)(descriptor, bytes, count, offset);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
    return fails_on(KIND_READ, descriptor, CALLER) ? -1 : REAL(pread64)(descriptor, bytes, count, offset);
}

/* The library's streams read and write past this one, so a stream fails here, with its mark set. */
static bool stream_fails(enum kind which, FILE *stream, const void *caller) {
    bool now = stream != NULL && fails_on(which, fileno(stream), caller);
    if (now) stream->_flags |= STREAM_ERROR;
    return now;
}

size_t fread(void *bytes, size_t size, size_t count, FILE *stream) {
    return stream_fails(KIND_READ, stream, CALLER) ? 0 : REAL(fread)(bytes, size, count, stream);
}

char *fgets(char *line, int size, FILE *stream) {
    return stream_fails(KIND_READ, stream, CALLER) ? NULL : REAL(fgets)(line, size, stream);
}

ssize_t getline(char **line, size_t *size, FILE *stream) {
    return stream_fails(KIND_READ, stream, CALLER) ? -1 : REAL(getline)(line, size, stream);
}

/* ---- Writes ---- */

ssize_t write(int descriptor, const void *bytes, size_t count) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? -1 : REAL(write)(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? -1 : REAL(pwrite)(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? -1 : REAL(pwrite64)(descriptor, bytes, count, offset);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? -1 : REAL(pwritev)(descriptor, parts, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? -1 : REAL(pwritev64)(descriptor, parts, count, offset);
}

int ftruncate(int descriptor, off_t length) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? -1 : REAL(ftruncate)(descriptor, length);
}

int ftruncate64(int descriptor, off64_t length) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? -1 : REAL(ftruncate64)(descriptor, length);
}

int posix_fallocate(int descriptor, off_t offset, off_t length) {
    return fails_on(KIND_WRITE, descriptor, CALLER) ? errno : REAL(posix_fallocate)(descriptor, offset, length);
}

size_t fwrite(const void *bytes, size_t size, size_t count, FILE *stream) {
    return stream_fails(KIND_WRITE, stream, CALLER) ? 0 : REAL(fwrite)(bytes, size, count, stream);
}

int fflush(FILE *stream) {
    return stream_fails(KIND_WRITE, stream, CALLER) ? EOF : REAL(fflush)(stream);
}

/* ---- Syncs ---- */

int fsync(int descriptor) {
    return fails(KIND_FSYNC, CALLER) ? -1 : REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
    return fails(KIND_FSYNC, CALLER) ? -1 : REAL(fdatasync)(descriptor);
}

/* ---- Descriptors, threads, processes ---- */

static mode_t mode_of(int flags, va_list args) {
    return (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails(KIND_OPEN, CALLER) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails(KIND_OPEN, CALLER) ? -1 : REAL(open64)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails(KIND_OPEN, CALLER) ? -1 : REAL(openat)(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    return fails(KIND_OPEN, CALLER) ? NULL : REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return fails(KIND_OPEN, CALLER) ? NULL : REAL(fopen64)(path, mode);
}

DIR *opendir(const char *path) {
    return fails(KIND_OPEN, CALLER) ? NULL : REAL(opendir)(path);
}

int mkstemp(char *path) {
    return fails(KIND_OPEN, CALLER) ? -1 : REAL(mkstemp)(path);
}

int mkostemp(char *path, int flags) {
    return fails(KIND_OPEN, CALLER) ? -1 : REAL(mkostemp)(path, flags);
}

int socket(int domain, int type, int protocol) {
    return fails(KIND_SOCKET, NULL) ? -1 : REAL(socket)(domain, type, protocol);
}

pid_t fork(void) {
    return fails(KIND_FORK, CALLER) ? -1 : REAL(fork)();
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*work)(void *),
                   void *restrict argument) {
    int saved = errno;
    bool refused = fails(KIND_THREAD, CALLER);
    errno = saved;
    return refused ? error : REAL(pthread_create)(thread, attributes, work, argument);
}
