/* /api/tomograms and /pic/tomogram/N/Z.jpg: the volumes that a tilt-reconstructor has put out, slice by slice. N is a
 * number of the file's path, so that it stays the same when others come. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/formats/mrc.h"
#include "common/formats/picture_encode.h"
#include "common/memory.h"
#include "common/text.h"
#include "pipelines/launcher/api/api_private.h"
#include "pipelines/launcher/api/shrink.h"

enum { TOMOGRAMS_MAX = 4096, DEPTH_MAX = 4, SIDE = 1024, QUALITY = 80 };

struct list {
    char **paths; /* below the session */
    size_t count;
};

static void list_clear(struct list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    mem_free(&list->paths);
    list->count = 0;
}

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text), size = strlen(ending);
    return length > size && strcmp(text + length - size, ending) == 0;
}

/* Adds the maps of a folder, and of those below it. The folder of a stage may be a link to that of its lease. */
static void add_folder(const struct serve *serve, const char *folder, int depth, struct list *list) {
    const int session = serve->folder_fd, flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int descriptor = depth == 0 ? serve_open_folder(serve, folder) : openat(session, folder, flags);
    DIR *entries = descriptor >= 0 ? fdopendir(descriptor) : NULL;
    if (entries == NULL && descriptor >= 0) close(descriptor);
    for (struct dirent *entry = entries != NULL ? readdir(entries) : NULL; entry != NULL; entry = readdir(entries)) {
        char path[PATH_SIZE];
        struct stat info;
        int used = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || used >= (int)sizeof path || list->count == TOMOGRAMS_MAX) continue;
        if (fstatat(session, path, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISDIR(info.st_mode) && depth < DEPTH_MAX) add_folder(serve, path, depth + 1, list);
        if (!S_ISREG(info.st_mode) || !ends_with(path, ".mrc")) continue;
        list->paths[list->count] = strdup(path);
        if (list->paths[list->count] != NULL) list->count++;
    }
    if (entries != NULL) closedir(entries);
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns whether a tomogram has taken the place of this preview. */
static bool is_replaced(const struct list *list, const char *path) {
    char whole[PATH_SIZE];
    const char *key = whole;
    if (!ends_with(path, "_preview.mrc")) return false;
    snprintf(whole, sizeof whole, "%.*s.mrc", (int)(strlen(path) - strlen("_preview.mrc")), path);
    return bsearch(&key, list->paths, list->count, sizeof *list->paths, by_path) != NULL;
}

static enum status find_all(struct serve *serve, const char *stage, struct list *list, struct err *err) {
    TRY(mem_new(TOMOGRAMS_MAX, sizeof *list->paths, "the list of tomograms", &list->paths, err));
    add_folder(serve, stage, 0, list);
    qsort(list->paths, list->count, sizeof *list->paths, by_path);
    return STATUS_OK;
}

static int64_t number_of(const char *path) {
    return (int64_t)(text_hash(path) & 0x7fffffff);
}

static json_t *tomogram_json(struct serve *serve, const char *stage, const char *path) {
    struct mrc_header header;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    if (api_open(serve, path, &file, NULL) != STATUS_OK || mrc_read_header(file.path, &header, NULL) != STATUS_OK)
        return NULL;
    const bool preview = ends_with(path, "_preview.mrc");
    const char *name = path + strlen(stage) + 1;
    const size_t length = strlen(name) - strlen(preview ? "_preview.mrc" : ".mrc");
    char hash[24];
    snprintf(hash, sizeof hash, "%llx", (unsigned long long)file.mtime_ns);
    _cleanup_(mem_free) char *clean = api_text_clean(name, length);
    return json_pack("{s:I, s:s, s:b, s:i, s:i, s:i, s:f, s:f, s:s}", "n", (json_int_t)number_of(path), "name",
                     clean != NULL ? clean : "?", "preview", preview, "nx", header.nx, "ny", header.ny, "nz", header.nz,
                     "pixel", (double)header.pixel_size, "time", (double)file.mtime_ns / 1e9, "h", hash);
}

enum status api_tomograms(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                          struct err *err) {
    const char *stage;
    _cleanup_(list_clear) struct list list = {0};
    TRY(api_stage_of_kind(serve, request, "tilt-reconstructor", &stage, err));
    TRY(find_all(serve, stage, &list, err));
    json_t *tomograms = json_array();
    for (size_t i = 0; i < list.count; i++) {
        json_t *one = is_replaced(&list, list.paths[i]) ? NULL : tomogram_json(serve, stage, list.paths[i]);
        if (one != NULL) json_array_append_new(tomograms, one);
    }
    return http_answer_json(answer, json_pack("{s:i, s:s, s:o}", "v", 1, "stage", stage, "tomograms", tomograms), err);
}

/* Draws a slice as the stage's own pictures show it: row 0 at the bottom. */
static enum status draw(struct mrc_reader *reader, int z, struct http_answer *answer, struct err *err) {
    const struct mrc_header *header = mrc_reader_header(reader);
    const int longest = header->nx > header->ny ? header->nx : header->ny, factor = (longest + SIDE - 1) / SIDE;
    const int nx = header->nx / factor, ny = header->ny / factor;
    _cleanup_(mem_free) float *slice = NULL;
    _cleanup_(mem_free) uint8_t *grey = NULL;
    _cleanup_(mem_free) uint8_t *turned = NULL;
    unsigned char *bytes;
    size_t length;
    FAIL_IF(nx < 1 || ny < 1, err, STATUS_UNSUPPORTED, "a slice of %d × %d px has no picture", header->nx, header->ny);
    TRY(mem_new((size_t)header->nx * (size_t)header->ny, sizeof *slice, "a slice", &slice, err));
    TRY(mem_new((size_t)nx * (size_t)ny, 1, "a picture", &grey, err));
    TRY(mem_new((size_t)nx * (size_t)ny, 1, "a picture", &turned, err));
    TRY(mrc_read_slices(reader, z, 1, slice, err));
    shrink_bin(slice, header->nx, header->ny, factor, slice);
    shrink_grey(slice, (size_t)nx * (size_t)ny, 3, grey);
    for (int y = 0; y < ny; y++)
        memcpy(turned + (size_t)y * (size_t)nx, grey + (size_t)(ny - 1 - y) * (size_t)nx, (size_t)nx);
    TRY(picture_encode_jpeg(nx, ny, turned, QUALITY, &bytes, &length, err));
    http_answer_bytes(answer, "image/jpeg", bytes, length);
    return STATUS_OK;
}

enum status api_slice(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                      struct err *err) {
    const char *stage, *path = NULL;
    char text[16];
    int64_t number, z;
    struct mrc_reader *reader = NULL;
    _cleanup_(list_clear) struct list list = {0};
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    size_t length = strlen(request->words[1]);
    FAIL_IF(length > 12 || !ends_with(request->words[1], ".jpg"), err, STATUS_NOT_FOUND,
            "there is no slice '%.40s': NNN.jpg, from 0", request->words[1]);
    snprintf(text, sizeof text, "%.*s", (int)length - 4, request->words[1]);
    TRY(http_number(request->words[0], 0, INT32_MAX, &number, err));
    TRY(http_number(text, 0, 1000000, &z, err));
    TRY(api_stage_of_kind(serve, request, "tilt-reconstructor", &stage, err));
    TRY(find_all(serve, stage, &list, err));
    for (size_t i = 0; i < list.count && path == NULL; i++)
        if (number_of(list.paths[i]) == number) path = list.paths[i];
    FAIL_IF(path == NULL, err, STATUS_NOT_FOUND, "there is no tomogram %lld", (long long)number);
    TRY(api_open(serve, path, &file, err));
    TRY(mrc_open(file.path, &reader, err));
    const int nz = mrc_reader_header(reader)->nz;
    enum status status = z < nz ? draw(reader, (int)z, answer, err)
                                : err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__, "the tomogram has %d slices", nz);
    mrc_close(&reader);
    if (status == STATUS_OK) answer->cache = http_query(request, "h") != NULL ? HTTP_IMMUTABLE : HTTP_NO_STORE;
    return status;
}
