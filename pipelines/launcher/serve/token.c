#include "pipelines/launcher/serve/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/memory.h"

enum { TOKEN_DIGITS = TOKEN_SIZE - 1, TOKEN_BYTES = TOKEN_DIGITS / 2 };

enum status token_make(char ret_token[TOKEN_SIZE], struct err *err) {
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[TOKEN_BYTES];
    FAIL_IF(getrandom(bytes, sizeof bytes, 0) != sizeof bytes, err, STATUS_IO, "the system gives no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++) {
        ret_token[2 * i] = digits[bytes[i] >> 4];
        ret_token[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_token[TOKEN_DIGITS] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return STATUS_OK;
}

static enum status read_token(const char *path, int descriptor, char ret_token[TOKEN_SIZE], struct err *err) {
    struct stat about;
    char text[TOKEN_SIZE + 1] = "";
    FAIL_IF(fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode), err, STATUS_BAD_STATE,
            "%s is no regular file: remove it, and a new token is made", path);
    FAIL_IF((about.st_mode & 077) != 0 || about.st_uid != geteuid(), err, STATUS_BAD_STATE,
            "%s may be read by others, or belongs to another user: remove it, and a new token is made", path);
    ssize_t length = read(descriptor, text, TOKEN_DIGITS + 1);
    FAIL_IF(length < 0, err, STATUS_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (length == TOKEN_DIGITS + 1 && text[TOKEN_DIGITS] == '\n') length--;
    FAIL_IF(length != TOKEN_DIGITS || strspn(text, "0123456789abcdef") != TOKEN_DIGITS, err, STATUS_BAD_FORMAT,
            "%s does not hold a token (64 hexadecimal digits): remove it, and a new one is made", path);
    memcpy(ret_token, text, TOKEN_DIGITS);
    ret_token[TOKEN_DIGITS] = '\0';
    return STATUS_OK;
}

/* Writes a token beside its place and renames it, so that nobody reads half of one. */
static enum status write_token(const char *path, const char *token, struct err *err) {
    char beside[PATH_SIZE], text[TOKEN_SIZE + 1];
    int size = snprintf(beside, sizeof beside, "%s.%d", path, (int)getpid());
    FAIL_IF(size < 0 || (size_t)size >= sizeof beside, err, STATUS_BAD_ARGUMENT, "%s: too long a path", path);
    unlink(beside);
    _cleanup_(file_close) int descriptor = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FAIL_IF(descriptor < 0, err, status_of_writing(errno), "%s: cannot be made: %s", beside, status_reason(errno));
    snprintf(text, sizeof text, "%s\n", token);
    bool well = write(descriptor, text, TOKEN_DIGITS + 1) == TOKEN_DIGITS + 1 && fsync(descriptor) == 0 &&
                rename(beside, path) == 0;
    int reason = errno;
    explicit_bzero(text, sizeof text);
    if (well) return STATUS_OK;
    unlink(beside);
    FAIL(err, status_of_writing(reason), "%s: cannot be written: %s", path, status_reason(reason));
}

enum status token_load(const char *path, bool anew, char ret_token[TOKEN_SIZE], struct err *err) {
    char token[TOKEN_SIZE];
    _cleanup_(file_close) int descriptor = anew ? -1 : open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0) return read_token(path, descriptor, ret_token, err);
    FAIL_IF(!anew && errno != ENOENT, err, STATUS_BAD_STATE,
            "%s: cannot be read: %s; remove it, and a new token is made", path, strerror(errno));
    TRY(token_make(token, err));
    TRY(write_token(path, token, err));
    memcpy(ret_token, token, sizeof token);
    return STATUS_OK;
}
