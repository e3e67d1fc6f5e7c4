#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "common/formats/gain.h"
#include "common/formats/image_formats.h"

enum { NX = 7, NY = 5, MOST_PIXELS = 1 << 20 };

static void read_gain(const char *path, size_t length) {
    struct err err = {0};
    struct image_info info = {0};
    float *gain = NULL;
    const struct gain_options options = {.turn = {.rotate = (int)(length % 4), .flip = (enum turn_flip)(length % 3)},
                                         .divide = length % 2 == 1,
                                         .eer = length % 5 == 0};
    if (image_probe(path, &info, &err) != STATUS_OK || (size_t)info.nx * (size_t)info.ny > MOST_PIXELS) return;
    int nx, ny;
    turn_shape(options.turn, info.nx, info.ny, &nx, &ny);
    enum status status = gain_read(path, &options, nx, ny, &gain, &err);
    FUZZ_CHECK(status == STATUS_OK || strstr(err.message, path) != NULL);
    for (size_t i = 0; status == STATUS_OK && i < (size_t)nx * (size_t)ny; i++)
        FUZZ_CHECK(gain[i] >= 0);
    free(gain);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char path[64];
    int descriptor = fuzz_file(bytes, length, path);
    struct err err = {0};
    uint8_t *map = NULL;
    enum status status = gain_read_defects(path, NX, NY, &map, &err);
    FUZZ_CHECK(status == STATUS_OK || strstr(err.message, path) != NULL);
    for (int i = 0; status == STATUS_OK && i < NX * NY; i++)
        FUZZ_CHECK(map[i] <= 1);
    free(map);
    read_gain(path, length);
    close(descriptor);
    return 0;
}
