/* Times the reading of micrographs from the page cache, for each mode of MRC, beside a memcpy of the same bytes, and by
 * several threads at once, each of its own file.
 *
 *   bench_read [SIDE [REPEATS [THREADS]]]
 *
 * Threads read into memory for all pixels, or (as the picker does beside a device) part by part into a few MiB, which
 * stay in the processor's cache; ms are of each file. image_read reads into memory that is kept, like a lane's. GB/s count the float32 pixels of the result. The floor is
 * memcpy of the bytes in the file (float32: 4 bytes a pixel), the best of REPEATS. TMPDIR sets where the files lie. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

static const struct {
    enum mrc_mode mode;
    const char *name;
    size_t bytes;
} modes[] = {{MRC_FLOAT32, "2 float32", 4},
             {MRC_INT16, "1 int16", 2},
             {MRC_UINT16, "6 uint16", 2},
             {MRC_FLOAT16, "12 float16", 2},
             {MRC_INT8, "0 int8", 1}};

static double least(double a, double b) {
    return a < b ? a : b;
}

static enum status measure(const char *path, struct image *image, struct image *other, int repeats, size_t bytes,
                           double *ret_read, double *ret_pread, double *ret_copy, struct err *err) {
    double read_s = 1e9, pread_s = 1e9, copy_s = 1e9;
    size_t length = bytes * image_count(image);
    _cleanup_(file_close) int descriptor = -1;
    TRY(file_open_read(path, &descriptor, NULL, err));
    for (int i = 0; i < repeats; i++) {
        double begin = clock_monotonic();
        TRY(image_read(path, image, err));
        double middle = clock_monotonic();
        TRY(file_read_at(descriptor, path, 1024, other->data, length, err));
        double end = clock_monotonic();
        memcpy(other->data, image->data, length);
        copy_s = least(copy_s, clock_monotonic() - end);
        read_s = least(read_s, middle - begin);
        pread_s = least(pread_s, end - middle);
    }
    *ret_read = read_s;
    *ret_pread = pread_s;
    *ret_copy = copy_s;
    return STATUS_OK;
}

enum { THREADS_MOST = 16, PARTS = 8, PART_BYTES = 1 << 20 };

/* A thread that reads its file again and again. */
struct reader {
    char path[PATH_SIZE];
    char *memory;
    size_t length;
    int repeats;
    bool in_parts;
    enum status status;
    struct err err;
};

static enum status read_once(struct reader *r, int descriptor, struct err *err) {
    if (!r->in_parts) return file_read_at(descriptor, r->path, 1024, r->memory, r->length, err);
    for (size_t at = 0; at < r->length; at += PART_BYTES) {
        size_t part = r->length - at < PART_BYTES ? r->length - at : PART_BYTES;
        char *to = r->memory + at / PART_BYTES % PARTS * PART_BYTES;
        TRY(file_read_at(descriptor, r->path, 1024 + (int64_t)at, to, part, err));
    }
    return STATUS_OK;
}

static enum status read_often(struct reader *r, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    TRY(file_open_read(r->path, &descriptor, NULL, err));
    for (int i = 0; i < r->repeats; i++)
        TRY(read_once(r, descriptor, err));
    return STATUS_OK;
}

static void *reads(void *context) {
    struct reader *r = context;
    r->status = read_often(r, &r->err);
    return NULL;
}

/* Returns the seconds of each file. */
static enum status read_at_once(struct reader *readers, int threads, size_t length, int repeats, bool in_parts,
                                double *ret_seconds, struct err *err) {
    pthread_t thread[THREADS_MOST];
    int started = 0;
    double begin = clock_monotonic();
    for (int i = 0; i < threads && started == i; i++) {
        readers[i].length = length;
        readers[i].repeats = repeats;
        readers[i].in_parts = in_parts;
        if (pthread_create(&thread[i], NULL, reads, &readers[i]) == 0) started++;
    }
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    FAIL_IF(started < threads, err, STATUS_NO_MEMORY, "no thread");
    *ret_seconds = (clock_monotonic() - begin) / (threads * repeats);
    for (int i = 0; i < threads; i++)
        FAIL_IF(readers[i].status != STATUS_OK, err, readers[i].status, "%s", readers[i].err.message);
    return STATUS_OK;
}

/* Files of all threads, as long as those of float32, and memory that was written before. */
static enum status prepare(struct reader *readers, int threads, const char *path, const struct image *image,
                           struct err *err) {
    for (int i = 0; i < threads; i++) {
        snprintf(readers[i].path, PATH_SIZE, "%.*s-%d.mrc", (int)PATH_SIZE - 32, path, i);
        TRY(mrc_write(readers[i].path, image, MRC_IMAGE, MRC_FLOAT32, err));
        TRY(mem_new(image_count(image) * 4 + PARTS * PART_BYTES, 1, "pixels", &readers[i].memory, err));
    }
    return STATUS_OK;
}

static enum status several(const char *path, const struct image *image, int threads, int repeats, struct err *err) {
    static struct reader readers[THREADS_MOST];
    enum status status = prepare(readers, threads, path, image, err);
    for (size_t bytes = 4; bytes > 0 && status == STATUS_OK; bytes /= 2) {
        double whole = 0, parts = 0;
        size_t length = bytes * image_count(image);
        status = read_at_once(readers, threads, length, repeats, false, &whole, err);
        if (status == STATUS_OK) status = read_at_once(readers, threads, length, repeats, true, &parts, err);
        printf("%d threads at once, %zu bytes a pixel: pread alone %.2f ms each, in parts %.2f ms each\n", threads,
               bytes, 1e3 * whole, 1e3 * parts);
    }
    for (int i = 0; i < threads; i++) {
        if (readers[i].path[0] != '\0') unlink(readers[i].path);
        mem_free(&readers[i].memory);
    }
    return status;
}

static enum status run(const char *path, int side, int repeats, int threads, struct err *err) {
    struct image image = {0}, other = {0}, fresh = {0};
    TRY(image_resize(&other, side, side, 1, err));
    double begin = clock_monotonic();
    TRY(image_resize(&image, side, side, 1, err));
    printf("new memory for %d² pixels, zeroed: %.2f ms\n", side, 1e3 * (clock_monotonic() - begin));
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = (float)(i % 101);
    TRY(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, err));
    begin = clock_monotonic();
    TRY(image_read(path, &fresh, err));
    printf("the first read of a lane, into new memory: %.2f ms\n", 1e3 * (clock_monotonic() - begin));
    image_destroy(&fresh);
    printf("%-10s %10s %10s %10s %8s %8s %10s\n", "mode", "read ms", "pread ms", "memcpy ms", "/pread", "/memcpy",
           "GB/s out");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        double read_s, pread_s, copy_s;
        TRY(mrc_write(path, &image, MRC_IMAGE, modes[i].mode, err));
        TRY(measure(path, &image, &other, repeats, modes[i].bytes, &read_s, &pread_s, &copy_s, err));
        printf("%-10s %10.2f %10.2f %10.2f %8.2f %8.2f %10.2f\n", modes[i].name, 1e3 * read_s, 1e3 * pread_s,
               1e3 * copy_s, read_s / pread_s, read_s / copy_s, 4e-9 * (double)image_count(&image) / read_s);
    }
    enum status status = threads > 0 ? several(path, &image, threads, repeats, err) : STATUS_OK;
    image_destroy(&image);
    image_destroy(&other);
    return status;
}

int main(int argc, char **argv) {
    const char *base = getenv("TMPDIR");
    char path[PATH_SIZE];
    struct err err = {0};
    int side = argc > 1 ? atoi(argv[1]) : 4096, repeats = argc > 2 ? atoi(argv[2]) : 15;
    int threads = argc > 3 ? atoi(argv[3]) : 0;
    if (threads > THREADS_MOST) threads = THREADS_MOST;
    snprintf(path, sizeof path, "%s/icestream-bench-%d.mrc", base != NULL ? base : "/tmp", (int)getpid());
    enum status status = run(path, side, repeats, threads, &err);
    if (status != STATUS_OK) fprintf(stderr, "bench_read: %s\n", err.message);
    unlink(path);
    return status != STATUS_OK;
}
