#include "common/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/files.h"
#include "common/memory.h"

/* Bytes: costs few system calls. On the stack, since a stage in its stride must not need more memory. */
enum { BLOCK = 1 << 16 };

static enum status read_all(XXH3_state_t *state, char *block, int descriptor, const char *path, int64_t *ret_size,
                            struct err *err) {
    int64_t at = 0;
    for (;;) {
        ssize_t got = pread(descriptor, block, BLOCK, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        FAIL_IF(got < 0, err, status_of_reading(errno), "%s: cannot be read at byte %lld: %s", path, (long long)at,
                strerror(errno));
        if (got == 0) break;
        XXH3_128bits_update(state, block, (size_t)got);
        at += got;
    }
    *ret_size = at;
    return STATUS_OK;
}

struct digest_value digest_memory(const void *bytes, size_t size) {
    const XXH128_hash_t hash = XXH3_128bits(bytes, size);
    return (struct digest_value){.high = hash.high64, .low = hash.low64};
}

void digest_print(struct digest_value value, char ret_digest[DIGEST_SIZE]) {
    snprintf(ret_digest, DIGEST_SIZE, "%016llx%016llx", (unsigned long long)value.high, (unsigned long long)value.low);
}

bool digest_scan(const char *text, struct digest_value *ret_value) {
    uint64_t halves[2] = {0, 0};
    size_t length = strlen(text);
    if (length != DIGEST_SIZE - 1 || strspn(text, "0123456789abcdef") != length) return false;
    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
        halves[i / 16] = halves[i / 16] << 4 | digit;
    }
    *ret_value = (struct digest_value){.high = halves[0], .low = halves[1]};
    return true;
}

enum status digest_descriptor(int descriptor, const char *path, char ret_digest[DIGEST_SIZE], int64_t *ret_size,
                              struct err *err) {
    _Alignas(64) char block[BLOCK];
    int64_t size = 0;
    XXH3_state_t *state = XXH3_createState();
    FAIL_IF(state == NULL, err, STATUS_NO_MEMORY, "no memory for the digest of a file");
    XXH3_128bits_reset(state);
    enum status status = read_all(state, block, descriptor, path, &size, err);
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    TRY(status);
    digest_print((struct digest_value){.high = hash.high64, .low = hash.low64}, ret_digest);
    if (ret_size != NULL) *ret_size = size;
    return STATUS_OK;
}

enum status digest_file(const char *path, char ret_digest[DIGEST_SIZE], int64_t *ret_size, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    TRY(file_open_read(path, &descriptor, NULL, err));
    return digest_descriptor(descriptor, path, ret_digest, ret_size, err);
}
