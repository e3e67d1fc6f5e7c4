#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/formats/image_formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char path[64], name[80];
    int descriptor = fuzz_file(bytes, length, path);
    struct image_info info = {0};
    /* A new image for each input, so that the sanitizer guards its end. */
    struct image image = {0};
    struct err err = {0};
    enum status probed = image_probe(path, &info, &err);
    FUZZ_CHECK(probed == STATUS_OK || strstr(err.message, path) != NULL);
    enum status read = image_read(path, &image, &err);
    FUZZ_CHECK(read == STATUS_OK || strstr(err.message, path) != NULL);
    /* An image that fails the probe must also fail to read. The reverse may happen, because pixels may be rubbish. */
    FUZZ_CHECK(read != STATUS_OK || probed == STATUS_OK);
    if (read == STATUS_OK) {
        FUZZ_CHECK(image.nx == info.nx && image.ny == info.ny && image.nz == info.nz);
        float sum = 0;
        for (size_t i = 0; i < image_count(&image); i++)
            sum += image.data[i];
        FUZZ_CHECK(sum == sum || sum != sum);
        snprintf(name, sizeof name, "%06d@%s", info.nz, path);
        FUZZ_CHECK(info.nz > 999999 || image_read_slice(name, &image, &err) == STATUS_OK);
    }
    image_destroy(&image);
    close(descriptor);
    return 0;
}
