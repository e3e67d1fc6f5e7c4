#include "tests/stages/watched.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void place(const char *name, char path[PATH_SIZE]) {
    struct err err = {0};
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0700, &err));
}

static void write_bytes(const char *name, const void *bytes, size_t length) {
    char path[PATH_SIZE];
    place(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

void watched_put_sized(const char *name, int nx, int ny, float pixel_size, long bytes) {
    size_t length = 1024 + (size_t)nx * (size_t)ny;
    unsigned char *content = calloc(length, 1);
    assert_non_null(content);
    const int sides[] = {nx, ny, 1, 0}, intervals[] = {nx, ny, 1}, axes[] = {1, 2, 3};
    const float cell[] = {(float)nx * pixel_size, (float)ny * pixel_size, pixel_size};
    memcpy(content, sides, sizeof sides);
    memcpy(content + 28, intervals, sizeof intervals);
    memcpy(content + 40, cell, sizeof cell);
    memcpy(content + 64, axes, sizeof axes);
    memcpy(content + 208, "MAP \x44\x44", 6);
    for (size_t i = 1024; i < length; i++)
        content[i] = (unsigned char)(1 + i % 100);
    write_bytes(name, content, bytes == WATCHED_WHOLE ? length : (size_t)bytes);
    free(content);
}

void watched_put(const char *name, int nx, int ny, long bytes) {
    watched_put_sized(name, nx, ny, 1.5f, bytes);
}

void watched_put_text(const char *name, const char *text) {
    write_bytes(name, text, strlen(text));
}

void watched_date(const char *name, long seconds) {
    char path[PATH_SIZE];
    place(name, path);
    struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

void watched_remove(const char *name) {
    char path[PATH_SIZE];
    place(name, path);
    assert_int_equal(unlink(path), 0);
}

void watched_rename(const char *from, const char *to) {
    char a[PATH_SIZE], b[PATH_SIZE];
    place(from, a);
    place(to, b);
    assert_int_equal(rename(a, b), 0);
}

void watched_link(const char *target, const char *name) {
    char path[PATH_SIZE];
    place(name, path);
    assert_int_equal(symlink(target, path), 0);
}

void watched_folder(const char *name) {
    char path[PATH_SIZE];
    struct err err = {0};
    scratch_path(name, path);
    assert_ok(file_make_folders(path, 0700, &err));
}

void watched_picture(const char *name) {
    static const unsigned char png[] = {
        0x89, 'P',  'N',  'G',  0x0d, 0x0a, 0x1a, 0x0a, 0,    0,    0,    0x0d, 'I',  'H',  'D',  'R',  0,
        0,    0,    1,    0,    0,    0,    1,    8,    0,    0,    0,    0,    0x3a, 0x7e, 0x9b, 0x55, 0,
        0,    0,    0x0a, 'I',  'D',  'A',  'T',  0x78, 0x9c, 0x63, 0x60, 0,    0,    0,    2,    0,    1,
        0x48, 0xaf, 0xa4, 0x71, 0,    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};
    write_bytes(name, png, sizeof png);
}
