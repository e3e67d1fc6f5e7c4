/* /pic/STAGE/N/FILE: pictures of one exposure. */
#include <stdlib.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/formats/picture_encode.h"
#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"
#include "pipelines/launcher/api/shrink.h"

enum { SIDE = 1024, QUALITY = 80 };
static const int64_t MICROGRAPH_MAX = (int64_t)1 << 30; /* bytes of a file that is read for one picture */

/* Sends a picture that a stage has written. */
static enum status answer_file(struct serve *serve, const char *path, const char *ending, const char *type,
                               const struct http_request *request, struct http_answer *answer, struct err *err) {
    struct api_file file;
    size_t length = path != NULL ? strlen(path) : 0, size = strlen(ending);
    FAIL_IF(length < size || strcmp(path + length - size, ending) != 0, err, STATUS_NOT_FOUND,
            "exposure %s has no such picture (yet)", request->words[1]);
    TRY(api_open(serve, path, &file, err));
    http_answer_file(answer, type, file.descriptor, file.size);
    return STATUS_OK;
}

/* Makes a picture of a micrograph, at most SIDE px wide and high. */
static enum status draw(struct serve *serve, const char *path, struct http_answer *answer, struct err *err) {
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    _cleanup_(image_destroy) struct image image = {0};
    TRY(api_open(serve, path, &file, err));
    FAIL_IF(file.size > MICROGRAPH_MAX, err, STATUS_UNSUPPORTED,
            "the micrograph has %lld bytes: too many for a picture", (long long)file.size);
    TRY(image_read_micrograph(file.path, &image, err));
    const int longest = image.nx > image.ny ? image.nx : image.ny;
    const int factor = (longest + SIDE - 1) / SIDE;
    const int nx = image.nx / factor, ny = image.ny / factor;
    FAIL_IF(nx < 1 || ny < 1, err, STATUS_UNSUPPORTED, "a micrograph of %d × %d px has no picture", image.nx, image.ny);
    shrink_bin(image.data, image.nx, image.ny, factor, image.data);
    _cleanup_(mem_free) uint8_t *grey = malloc((size_t)nx * (size_t)ny);
    FAIL_IF(grey == NULL, err, STATUS_NO_MEMORY, "no memory for a picture");
    shrink_grey(image.data, (size_t)nx * (size_t)ny, 3, grey);
    unsigned char *bytes;
    size_t length;
    TRY(picture_encode_jpeg(nx, ny, grey, QUALITY, &bytes, &length, err));
    http_answer_bytes(answer, "image/jpeg", bytes, length);
    return STATUS_OK;
}

static enum status answer_picture(struct serve *serve, const json_t *item, const struct http_request *request,
                                  struct http_answer *answer, struct err *err) {
    const char *name = request->words[2];
    if (strcmp(name, "thumb.jpg") == 0)
        return answer_file(serve, api_text_at(item, "display", "thumb"), ".jpg", "image/jpeg", request, answer, err);
    if (strcmp(name, "spectrum.png") == 0)
        return answer_file(serve, api_text_at(item, "display", "spectrum"), ".png", "image/png", request, answer, err);
    FAIL_IF(strcmp(name, "micrograph.jpg") != 0, err, STATUS_NOT_FOUND,
            "there is no picture '%.40s': thumb.jpg, micrograph.jpg or spectrum.png", name);
    return draw(serve, api_text_at(item, "micrograph", "path"), answer, err);
}

enum status api_picture(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                        struct err *err) {
    size_t row;
    json_t *known = NULL;
    FAIL_IF(view_stage_find(serve->view, request->words[0]) < 0, err, STATUS_NOT_FOUND, "there is no stage '%.80s'",
            request->words[0]);
    TRY(api_find_item(serve, request, 1, &row, &known, err));
    enum status status = answer_picture(serve, json_object_get(known, "item"), request, answer, err);
    json_decref(known);
    const bool there = status == STATUS_OK;
    status = api_or_nothing(status, request, answer, err);
    /* The page asks for thumbnails with ?h= of the exposure's time and revision; without it a picture may be another one tomorrow. */
    if (there) answer->cache = http_query(request, "h") != NULL ? HTTP_IMMUTABLE : HTTP_NO_STORE;
    return status;
}
