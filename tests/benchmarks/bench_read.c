/* Times the reading of micrographs from the page cache, for each mode of MRC, beside a memcpy of the same bytes.
 *
 *   bench_read [SIDE [REPEATS]]
 *
 * image_read reads into memory that is kept, like a lane's. GB/s count the float32 pixels of the result. The floor is
 * memcpy of the bytes in the file (float32: 4 bytes a pixel), the best of REPEATS. TMPDIR sets where the files lie. */
#include <fcntl.h>
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

static enum status run(const char *path, int side, int repeats, struct err *err) {
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
    image_destroy(&image);
    image_destroy(&other);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    const char *base = getenv("TMPDIR");
    char path[PATH_SIZE];
    struct err err = {0};
    int side = argc > 1 ? atoi(argv[1]) : 4096, repeats = argc > 2 ? atoi(argv[2]) : 15;
    snprintf(path, sizeof path, "%s/icestream-bench-%d.mrc", base != NULL ? base : "/tmp", (int)getpid());
    enum status status = run(path, side, repeats, &err);
    if (status != STATUS_OK) fprintf(stderr, "bench_read: %s\n", err.message);
    unlink(path);
    return status != STATUS_OK;
}
