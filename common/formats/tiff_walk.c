#include <stdbool.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/tiff_private.h"

/* A movie has one directory a frame, at most some thousands. */
enum { MOST_DIRECTORIES = 100000, ENTRIES_AT_ONCE = 64 };

struct walk {
    const char *path;
    int descriptor;
    int64_t size;
    bool big_endian, big_tiff;
    uint64_t entries;           /* read so far: limits the work on overlapping directories */
    bool has_width, has_length; /* the current directory */
};

static uint64_t number(const struct walk *w, const unsigned char *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 8 | bytes[w->big_endian ? i : count - 1 - i];
    return value;
}

static int type_bytes(unsigned type) {
    static const unsigned char bytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < sizeof bytes ? bytes[type] : 0;
}

static enum status outside(const struct walk *w, const char *what, uint64_t offset, struct err *err) {
    FAIL(err, STATUS_TRUNCATED, "%s: ends at byte %lld; %s at byte %llu", w->path, (long long)w->size, what,
         (unsigned long long)offset);
}

/* Notes whether width and length are given. Checks that a value too large for its entry lies inside the file. */
static enum status check_entry(struct walk *w, const unsigned char *entry, struct err *err) {
    int word = w->big_tiff ? 8 : 4;
    uint64_t count = number(w, entry + 4, word), offset = number(w, entry + 4 + word, word);
    uint64_t bytes = 0;
    unsigned tag = (unsigned)number(w, entry, 2), type = (unsigned)number(w, entry + 2, 2);
    bool side = count == 1 && (type == 3 || type == 4) && number(w, entry + 4 + word, type == 3 ? 2 : 4) > 0;
    w->has_width = w->has_width || (tag == 256 && side);
    w->has_length = w->has_length || (tag == 257 && side);
    bool huge = __builtin_mul_overflow(count, (uint64_t)type_bytes(type), &bytes);
    if (!huge && bytes <= (uint64_t)word) return STATUS_OK;
    if (huge || offset > (uint64_t)w->size || bytes > (uint64_t)w->size - offset)
        return outside(w, "a tag's value should lie", offset, err);
    return STATUS_OK;
}

static enum status check_entries(struct walk *w, int64_t at, uint64_t count, struct err *err) {
    unsigned char entries[ENTRIES_AT_ONCE * 20];
    int64_t entry_bytes = w->big_tiff ? 20 : 12;
    w->entries += count;
    FAIL_IF(w->entries > MOST_DIRECTORIES * (uint64_t)ENTRIES_AT_ONCE, err, STATUS_BAD_FORMAT,
            "%s: more tags than a TIFF has", w->path);
    while (count > 0) {
        int64_t part = count < ENTRIES_AT_ONCE ? (int64_t)count : ENTRIES_AT_ONCE;
        TRY(file_read_at(w->descriptor, w->path, at, entries, (size_t)(part * entry_bytes), err));
        for (int64_t i = 0; i < part; i++)
            TRY(check_entry(w, entries + i * entry_bytes, err));
        at += part * entry_bytes;
        count -= (uint64_t)part;
    }
    return STATUS_OK;
}

/* ret_next: offset of the next directory, or 0. */
static enum status check_directory(struct walk *w, uint64_t offset, uint64_t *ret_next, struct err *err) {
    unsigned char bytes[8];
    int count_bytes = w->big_tiff ? 8 : 2, next_bytes = w->big_tiff ? 8 : 4, entry_bytes = w->big_tiff ? 20 : 12;
    uint64_t left = (uint64_t)w->size;
    if (offset > left || left - offset < (uint64_t)count_bytes)
        return outside(w, "a directory should lie", offset, err);
    TRY(file_read_at(w->descriptor, w->path, (int64_t)offset, bytes, (size_t)count_bytes, err));
    uint64_t count = number(w, bytes, count_bytes);
    left -= offset + (uint64_t)count_bytes;
    FAIL_IF(count == 0, err, STATUS_BAD_FORMAT, "%s: the directory at byte %llu is empty", w->path,
            (unsigned long long)offset);
    if (count > left / (uint64_t)entry_bytes || left - count * (uint64_t)entry_bytes < (uint64_t)next_bytes)
        return outside(w, "it cuts the directory", offset, err);
    w->has_width = w->has_length = false;
    TRY(check_entries(w, (int64_t)offset + count_bytes, count, err));
    FAIL_IF(!w->has_width || !w->has_length, err, STATUS_BAD_FORMAT,
            "%s: the directory at byte %llu gives no %s (tag %d), or one of 0", w->path, (unsigned long long)offset,
            w->has_width ? "length" : "width", w->has_width ? 257 : 256);
    int64_t end = (int64_t)offset + count_bytes + (int64_t)count * entry_bytes;
    TRY(file_read_at(w->descriptor, w->path, end, bytes, (size_t)next_bytes, err));
    *ret_next = number(w, bytes, next_bytes);
    return STATUS_OK;
}

enum status tiff_walk(const char *path, int descriptor, int64_t size, struct err *err) {
    struct walk w = {.path = path, .descriptor = descriptor, .size = size};
    unsigned char head[16];
    FAIL_IF(size < 8, err, STATUS_TRUNCATED, "%s: ends at byte %lld, inside the TIFF header", path, (long long)size);
    TRY(file_read_at(descriptor, path, 0, head, 8, err));
    w.big_endian = head[0] == 'M';
    uint64_t version = number(&w, head + 2, 2);
    FAIL_IF((memcmp(head, "II", 2) != 0 && memcmp(head, "MM", 2) != 0) || (version != 42 && version != 43), err,
            STATUS_BAD_FORMAT, "%s: not a TIFF file: it begins with bytes %02x %02x %02x %02x", path, head[0], head[1],
            head[2], head[3]);
    w.big_tiff = version == 43;
    FAIL_IF(w.big_tiff && size < 16, err, STATUS_TRUNCATED, "%s: ends at byte %lld, inside the BigTIFF header", path,
            (long long)size);
    if (w.big_tiff) TRY(file_read_at(descriptor, path, 0, head, 16, err));
    uint64_t next = w.big_tiff ? number(&w, head + 8, 8) : number(&w, head + 4, 4);
    FAIL_IF(next == 0, err, STATUS_TRUNCATED, "%s: its first directory is not written yet (bytes 4 to 7 are 0)", path);
    uint64_t known = 0; /* the last directory whose number is a power of two: every ring comes back to it */
    for (int count = 1; next != 0; count++) {
        FAIL_IF(count > MOST_DIRECTORIES, err, STATUS_BAD_FORMAT, "%s: more than %d directories: it is not a TIFF file",
                path, MOST_DIRECTORIES);
        if ((count & (count - 1)) == 0) known = next;
        TRY(check_directory(&w, next, &next, err));
        FAIL_IF(next == known, err, STATUS_BAD_FORMAT,
                "%s: its directories form a ring: directory %d is followed by the one at byte %llu again", path, count,
                (unsigned long long)known);
    }
    return STATUS_OK;
}
