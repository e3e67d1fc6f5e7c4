#include "tests/faults/nth_call.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum {
    STREAM_ERROR = 0x20 /* glibc's mark of a stream that has failed */,
    DESCRIPTORS_LOOKED_AT = 256,
    RANGES_MAX = 32
};

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static const char *const names[NTH_KINDS] = {"malloc", "open", "read", "write", "fsync"};
/* Calls of these do not count. libtiff crashes in TIFFReadDirectory without memory (4.5); FFTW and OpenBLAS end the
 * process. */
static const char *const exempt[] = {"libtiff", "libfftw3", "libopenblas"};
static struct { uintptr_t begin, end; } ranges[RANGES_MAX];
static int range_count;
static const int errors[NTH_KINDS] = {ENOMEM, EMFILE, EIO, ENOSPC, EIO};
static enum nth_kind counted = NTH_KINDS;
static bool all_later;
static long long failing, calls, blocks;

const char *nth_name(enum nth_kind kind) {
    return names[kind];
}

static int note_range(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    bool listed = false;
    for (size_t i = 0; i < sizeof exempt / sizeof *exempt; i++)
        listed = listed || strstr(info->dlpi_name, exempt[i]) != NULL;
    for (int i = 0; listed && i < info->dlpi_phnum && range_count < RANGES_MAX; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        ranges[range_count].begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        ranges[range_count].end = ranges[range_count].begin + info->dlpi_phdr[i].p_memsz;
        range_count++;
    }
    return 0;
}

void nth_begin(enum nth_kind kind, long long n, bool ever) {
    if (range_count == 0) dl_iterate_phdr(note_range, NULL);
    failing = n;
    all_later = ever;
    calls = 0;
    counted = kind;
}

long long nth_end(void) {
    counted = NTH_KINDS;
    return calls;
}

long long nth_blocks(void) {
    return blocks;
}

int nth_descriptors(void) {
    int open_ones = 0;
    for (int i = 0; i < DESCRIPTORS_LOOKED_AT; i++)
        open_ones += fcntl(i, F_GETFD) >= 0;
    return open_ones;
}

static bool is_exempt(const void *caller) {
    for (int i = 0; i < range_count; i++)
        if ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end) return true;
    return false;
}

static bool fails(enum nth_kind kind) {
    if (kind != counted) return false;
    calls++;
    bool now = failing > 0 && (calls == failing || (all_later && calls > failing));
    if (now) errno = errors[kind];
    return now;
}

static bool fails_on(enum nth_kind kind, int descriptor) {
    struct stat info;
    int saved = errno;
    bool is_file =
        kind == counted && descriptor > STDERR_FILENO && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
    errno = saved;
    return is_file && fails(kind);
}

/* The library's streams read and write past read and write, so a stream fails here, with its mark set. */
static bool stream_fails(enum nth_kind kind, FILE *stream) {
    bool now = kind == counted && stream != NULL && fails_on(kind, fileno(stream));
    if (now) stream->_flags |= STREAM_ERROR;
    return now;
}

/* ---- Memory ---- */

#define NO_MEMORY (counted == NTH_MALLOC && !is_exempt(__builtin_return_address(0)) && fails(NTH_MALLOC))

static void *count_block(void *memory) {
    blocks += memory != NULL;
    return memory;
}

void *malloc(size_t size) {
    return NO_MEMORY ? NULL : count_block(__libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
    return NO_MEMORY ? NULL : count_block(__libc_calloc(count, size));
}

void *realloc(void *old, size_t size) {
    if (NO_MEMORY) return NULL;
    void *memory = __libc_realloc(old, size);
    if (old == NULL) return count_block(memory);
    blocks -= memory == NULL && size == 0;
    return memory;
}

void *aligned_alloc(size_t alignment, size_t size) {
    return NO_MEMORY ? NULL : count_block(__libc_memalign(alignment, size));
}

int posix_memalign(void **ret_memory, size_t alignment, size_t size) {
    int saved = errno;
    void *memory = NO_MEMORY ? NULL : count_block(__libc_memalign(alignment, size));
    errno = saved;
    if (memory == NULL) return ENOMEM;
    *ret_memory = memory;
    return 0;
}

void free(void *memory) {
    blocks -= memory != NULL;
    __libc_free(memory);
}

/* ---- Files ---- */

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails(NTH_OPEN) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails(NTH_OPEN) ? -1 : REAL(open64)(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    return fails(NTH_OPEN) ? NULL : REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return fails(NTH_OPEN) ? NULL : REAL(fopen64)(path, mode);
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    return fails_on(NTH_READ, descriptor) ? -1 : REAL(read)(descriptor, bytes, count);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
    return fails_on(NTH_READ, descriptor) ? -1 : REAL(pread)(descriptor, bytes, count, offset);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
    return fails_on(NTH_READ, descriptor) ? -1 : REAL(pread64)(descriptor, bytes, count, offset);
}

size_t fread(void *bytes, size_t size, size_t count, FILE *stream) {
    return stream_fails(NTH_READ, stream) ? 0 : REAL(fread)(bytes, size, count, stream);
}

char *fgets(char *line, int size, FILE *stream) {
    return stream_fails(NTH_READ, stream) ? NULL : REAL(fgets)(line, size, stream);
}

ssize_t getline(char **line, size_t *size, FILE *stream) {
    return stream_fails(NTH_READ, stream) ? -1 : REAL(getline)(line, size, stream);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    return fails_on(NTH_WRITE, descriptor) ? -1 : REAL(write)(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return fails_on(NTH_WRITE, descriptor) ? -1 : REAL(pwrite)(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    return fails_on(NTH_WRITE, descriptor) ? -1 : REAL(pwrite64)(descriptor, bytes, count, offset);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
    return fails_on(NTH_WRITE, descriptor) ? -1 : REAL(pwritev)(descriptor, parts, count, offset);
}

int ftruncate(int descriptor, off_t length) {
    return fails_on(NTH_WRITE, descriptor) ? -1 : REAL(ftruncate)(descriptor, length);
}

int ftruncate64(int descriptor, off64_t length) {
    return fails_on(NTH_WRITE, descriptor) ? -1 : REAL(ftruncate64)(descriptor, length);
}

size_t fwrite(const void *bytes, size_t size, size_t count, FILE *stream) {
    return stream_fails(NTH_WRITE, stream) ? 0 : REAL(fwrite)(bytes, size, count, stream);
}

int fflush(FILE *stream) {
    return stream_fails(NTH_WRITE, stream) ? EOF : REAL(fflush)(stream);
}

int fsync(int descriptor) {
    return fails(NTH_FSYNC) ? -1 : REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
    return fails(NTH_FSYNC) ? -1 : REAL(fdatasync)(descriptor);
}
