#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/formats/mrc.h"

/* Fuzzes MRC files. A file that can be read can be written, and is the same when it is read again. */
static void check_round_trip(const struct image *image, const struct mrc_header *header) {
    static struct image again;
    char path[64];
    struct err err = {0};
    if (header->mode == MRC_UINT4) return; /* is read, never written */
    fuzz_scratch("mrc", path);
    enum mrc_kind kind = header->space_group == 0 ? MRC_STACK : MRC_VOLUME;
    FUZZ_CHECK(mrc_write(path, image, kind, header->mode, &err) == STATUS_OK);
    FUZZ_CHECK(mrc_read(path, &again, &err) == STATUS_OK);
    unlink(path);
    FUZZ_CHECK(image_count(&again) == image_count(image));
    for (size_t i = 0; i < image_count(image); i++) {
        float a = image->data[i], b = again.data[i];
        bool infinite = a - a != 0; /* float16 clamps infinities; NaN may become another NaN */
        FUZZ_CHECK(infinite || a == b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static struct image image;
    char path[64];
    int descriptor = fuzz_file(bytes, length, path);
    struct mrc_header header = {0};
    struct err err = {0};
    enum status status = mrc_read_header(path, &header, &err);
    if (status == STATUS_OK) {
        FUZZ_CHECK(mrc_read(path, &image, &err) == STATUS_OK);
        FUZZ_CHECK(image.nx == header.nx && image.ny == header.ny && image.nz == header.nz);
        check_round_trip(&image, &header);
    } else {
        FUZZ_CHECK(strstr(err.message, path) != NULL);
    }
    close(descriptor);
    return 0;
}
