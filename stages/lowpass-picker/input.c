#include "stages/lowpass-picker/input.h"

#include "common/device.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/lowpass-picker/lowpass_picker.h"
#include "stages/lowpass-picker/pixels.h"

void picker_input_destroy(struct picker_input *input) {
    device_copy_destroy(&input->uploaded);
    intake_destroy(&input->intake);
    image_destroy(&input->image);
    *input = (struct picker_input){0};
}

/* Returns whether the pixels of a file can be taken in as they lie there, and then of which kind they are. Those in
 * another byte order, and those of 4 bits, are converted as they are read. */
static bool is_plain(const struct mrc_header *h, enum intake_kind *ret_kind) {
    if (h->swapped) return false;
    switch (h->mode) {
    case MRC_FLOAT32:
        *ret_kind = INTAKE_FLOAT32;
        return true;
    case MRC_FLOAT16:
        *ret_kind = INTAKE_FLOAT16;
        return true;
    case MRC_INT8:
        *ret_kind = h->unsigned_bytes ? INTAKE_UINT8 : INTAKE_INT8;
        return true;
    case MRC_INT16:
        *ret_kind = INTAKE_INT16;
        return true;
    case MRC_UINT16:
        *ret_kind = INTAKE_UINT16;
        return true;
    default:
        return false;
    }
}

/* Takes in the pixels that lie at `stored` on the stage's device. */
static enum status take_in(struct stage *stage, const char *path, const void *stored, enum intake_kind kind,
                           struct picker_input *input, struct err *err) {
    struct intake_input in = {.stored = stored, .kind = kind, .nx = input->nx, .ny = input->ny, .limit = PIXELS_ABSURD};
    struct intake_result result = {0};
    if (input->intake == NULL) TRY(intake_create(stage_device(stage), &input->intake, err));
    TRY(intake_run(input->intake, &in, &result, err));
    TRY(pixels_check(path, &result, err));
    input->data = result.data;
    if (stage_device(stage)->kind == DEVICE_CUDA)
        input->search = (struct search_input){.device = result.pixels};
    else
        input->search = (struct search_input){.host = result.pixels};
    return STATUS_OK;
}

static enum status deliver(void *context, size_t offset, void *bytes, size_t length, struct err *err) {
    return mrc_read_stored(context, offset, bytes, length, err);
}

/* Brings the pixels of a file to the device without a copy on the host. */
static enum status stream(struct stage *stage, const char *path, struct mrc_reader *reader, enum intake_kind kind,
                          struct picker_input *input, struct err *err) {
    size_t bytes = (size_t)input->nx * (size_t)input->ny * intake_pixel_bytes(kind);
    /* An earlier micrograph's pixels are not this one's. */
    input->image.nx = input->image.ny = input->image.nz = 0;
    TRY(device_upload_parts(stage_device(stage), bytes, deliver, reader, &input->uploaded, err));
    return take_in(stage, path, device_copy_data(input->uploaded), kind, input, err);
}

enum status picker_input_again(struct stage *stage, struct picker_input *input, struct err *err) {
    const struct image *image = &input->image;
    return device_upload(stage_device(stage), image->data, image_count(image), &input->uploaded, err);
}

/* A micrograph larger than any before takes new memory; the device must let go of the old memory first. */
static enum status read_whole(struct stage *stage, const char *path, const char *absolute, struct picker_input *input,
                              struct err *err) {
    struct image *image = &input->image;
    if ((size_t)input->nx * (size_t)input->ny > image->capacity) device_copy_forget(input->uploaded);
    TRY(image_read_micrograph(absolute, image, err));
    input->nx = image->nx;
    input->ny = image->ny;
    TRY(lowpass_picker_check_size(path, image->nx, image->ny, image->nz, err));
    TRY(picker_input_again(stage, input, err));
    const void *stored = input->uploaded ? device_copy_data(input->uploaded) : image->data;
    return take_in(stage, path, stored, INTAKE_FLOAT32, input, err);
}

/* Opens a file whose pixels can go to the device as they lie there. *ret_reader stays NULL: they are read into `image`. */
static enum status open_stored(struct stage *stage, const char *absolute, const struct image_info *info, bool host,
                               struct mrc_reader **ret_reader, enum intake_kind *ret_kind, struct err *err) {
    _cleanup_(mrc_close) struct mrc_reader *reader = NULL;
    if (host || stage_device(stage)->kind == DEVICE_CPU || info->format != IMAGE_MRC) return STATUS_OK;
    TRY(mrc_open(absolute, &reader, err));
    const struct mrc_header *h = mrc_reader_header(reader);
    if (!is_plain(h, ret_kind) || h->nx != info->nx || h->ny != info->ny || h->nz != info->nz) return STATUS_OK;
    *ret_reader = reader;
    reader = NULL;
    return STATUS_OK;
}

enum status picker_input_streams(struct stage *stage, const char *absolute, const struct image_info *info, bool host,
                                 bool *ret_streams, struct err *err) {
    _cleanup_(mrc_close) struct mrc_reader *reader = NULL;
    enum intake_kind kind = INTAKE_FLOAT32;
    TRY(open_stored(stage, absolute, info, host, &reader, &kind, err));
    *ret_streams = reader != NULL;
    return STATUS_OK;
}

enum status picker_input_read(struct stage *stage, const char *path, bool host, struct picker_input *input,
                              struct err *err) {
    _cleanup_(mrc_close) struct mrc_reader *reader = NULL;
    struct image_info info;
    enum intake_kind kind = INTAKE_FLOAT32;
    char absolute[PATH_SIZE];
    TRY(stage_resolve(stage, path, absolute, err));
    TRY(image_probe(absolute, &info, err));
    TRY(lowpass_picker_check_size(path, info.nx, info.ny, info.nz, err));
    input->nx = info.nx;
    input->ny = info.ny;
    input->pixel_size = (double)info.pixel_size;
    TRY(open_stored(stage, absolute, &info, host, &reader, &kind, err));
    if (reader == NULL) return read_whole(stage, path, absolute, input, err);
    return stream(stage, path, reader, kind, input, err);
}
