#include "stages/ctf-estimator/input.h"

#include <limits.h>
#include <math.h>

#include "common/formats/image_formats.h"
#include "common/harness/item_optics.h"
#include "common/memory.h"

/* A micrograph whose item has this column has a CTF. */
static const char DEFOCUS[] = "columns.rlnDefocusU";
static const float VALUE_MOST = 1e12F; /* the power of larger ones would overflow */
/* The side of a spectrum, px. */
enum { SIDE_LEAST = 64, SIDE_MOST = 8192 };

bool ctf_input_is_known(struct stage *stage, const struct item *item) {
    const struct ctf_estimator_options *o = stage_params(stage);
    return !o->again && item_has(item, DEFOCUS);
}

void ctf_input_clear(struct ctf_input *input) {
    device_copy_destroy(&input->uploaded);
    image_destroy(&input->micrograph);
    image_destroy(&input->spectrum);
    *input = (struct ctf_input){0};
}

/* Returns the path of the spectrum, NULL where the item has none. */
static const char *spectrum_of(const struct item *item) {
    return item_string(item, "spectrum.path");
}

static bool wants_micrograph(struct stage *stage, const struct item *item) {
    const struct ctf_estimator_options *o = stage_params(stage);
    return o->local || spectrum_of(item) == NULL;
}

static enum status check_one(const char *path, int count, struct err *err) {
    FAIL_IF(count != 1, err, STATUS_BAD_FORMAT,
            "%s holds %d images; expected one micrograph (is it a movie that has not been corrected?)", path, count);
    return STATUS_OK;
}

static enum status check_square(const char *path, int nx, int ny, int nz, struct err *err) {
    FAIL_IF(nx != ny || nz != 1 || nx % 2 != 0 || nx < SIDE_LEAST || nx > SIDE_MOST, err, STATUS_BAD_FORMAT,
            "%s: the spectrum of a movie has %d × %d × %d px: one square image with an even side of %d to %d px is "
            "expected",
            path, nx, ny, nz, SIDE_LEAST, SIDE_MOST);
    return STATUS_OK;
}

static enum status probe(struct stage *stage, const char *path, struct image_info *ret_info, struct err *err) {
    char absolute[PATH_MAX];
    TRY(stage_resolve(stage, path, absolute, err));
    return image_probe(absolute, ret_info, err);
}

enum status ctf_input_need(struct stage *stage, const struct item *item, struct stage_need *ret_need, struct err *err) {
    const struct ctf_estimator_options *o = stage_params(stage);
    struct ctf_estimator_task task = {.options = o, .threads = stage_threads(stage)};
    struct image_info micrograph = {0}, spectrum = {0};
    const char *path = NULL;
    if (spectrum_of(item) != NULL) {
        TRY(probe(stage, spectrum_of(item), &spectrum, err));
        TRY(check_square(spectrum_of(item), spectrum.nx, spectrum.ny, spectrum.nz, err));
        task.side = spectrum.nx;
    }
    if (wants_micrograph(stage, item)) {
        TRY(item_need_string(item, "micrograph.path", &path, err));
        TRY(probe(stage, path, &micrograph, err));
        TRY(check_one(path, micrograph.nz, err));
        double pixel_size = item_optics(item, stage_session(stage)).pixel_size;
        if (!(pixel_size > 0)) pixel_size = (double)micrograph.pixel_size;
        task.nx = micrograph.nx;
        task.ny = micrograph.ny;
        task.box = ctf_estimator_tile(o, task.nx, task.ny, pixel_size > 0 ? pixel_size : 1);
    }
    int fitted = task.side > 0 ? task.side : task.box;
    ret_need->lane = mem_sum(mem_sum(micrograph.bytes, spectrum.bytes),
                             image_bytes(fitted / 2 + 1, fitted, 1)); /* and a copy of the spectrum */
    ret_need->shared = ctf_estimator_bytes(&task);
    return STATUS_OK;
}

/* Reads an image. An image larger than any before takes new memory; the device must let go of the old memory first. */
static enum status read_into(struct stage *stage, const char *path, struct device_copy *copy, struct image *image,
                             struct err *err) {
    char absolute[PATH_MAX];
    struct image_info info;
    TRY(stage_resolve(stage, path, absolute, err));
    if (copy != NULL) {
        TRY(image_probe(absolute, &info, err));
        if ((size_t)info.nx * (size_t)info.ny * (size_t)info.nz > image->capacity) device_copy_forget(copy);
    }
    return image_read_micrograph(absolute, image, err);
}

static enum status check_finite(const char *path, const struct image *image, struct err *err) {
    size_t count = image_count(image), i = 0, nx = (size_t)image->nx;
    while (i < count && fabsf(image->data[i]) <= VALUE_MOST)
        i++;
    FAIL_IF(i < count && isfinite(image->data[i]), err, STATUS_BAD_FORMAT,
            "%s: pixel (%zu, %zu) is %g: at most %g is expected of an image", path, i % nx, i / nx,
            (double)image->data[i], (double)VALUE_MOST);
    FAIL_IF(i < count, err, STATUS_BAD_FORMAT, "%s: pixel (%zu, %zu) is NaN or infinite: a spectrum needs all pixels",
            path, i % nx, i / nx);
    return STATUS_OK;
}

static enum status load_spectrum(struct stage *stage, const char *path, struct ctf_input *input, struct err *err) {
    const struct image *s = &input->spectrum;
    TRY(read_into(stage, path, NULL, &input->spectrum, err));
    TRY(check_square(path, s->nx, s->ny, s->nz, err));
    TRY(check_finite(path, s, err));
    FAIL_IF(!(s->pixel_size > 0) || s->pixel_size > 50, err, STATUS_BAD_FORMAT,
            "%s: the header of the spectrum of a movie states its pixel size; 0 to 50 Å is expected, not %g", path,
            (double)s->pixel_size);
    return STATUS_OK;
}

static enum status load_micrograph(struct stage *stage, const struct item *item, struct ctf_input *input,
                                   struct err *err) {
    const struct image *m = &input->micrograph;
    const char *path = NULL;
    TRY(item_need_string(item, "micrograph.path", &path, err));
    TRY(read_into(stage, path, input->uploaded, &input->micrograph, err));
    TRY(check_one(path, m->nz, err));
    TRY(check_finite(path, m, err));
    if (!(input->optics.pixel_size > 0)) input->optics.pixel_size = (double)m->pixel_size;
    FAIL_IF(!(input->optics.pixel_size > 0) || input->optics.pixel_size > 50, err, STATUS_BAD_ARGUMENT,
            "%s: a CTF needs a pixel size of at most 50 Å (it is %g): set session.pixel_size", path,
            input->optics.pixel_size);
    return device_upload(stage_device(stage), m->data, image_count(m), &input->uploaded, err);
}

enum status ctf_input_load(struct stage *stage, const struct item *item, struct ctf_input *input, struct err *err) {
    input->has_spectrum = spectrum_of(item) != NULL;
    input->has_micrograph = wants_micrograph(stage, item);
    input->optics = item_optics(item, stage_session(stage));
    if (input->has_spectrum) TRY(load_spectrum(stage, spectrum_of(item), input, err));
    return input->has_micrograph ? load_micrograph(stage, item, input, err) : STATUS_OK;
}

struct ctf_estimator_task ctf_input_task(struct stage *stage, const struct ctf_input *input) {
    struct ctf_estimator_task task = {
        .options = stage_params(stage), .threads = stage_threads(stage), .device = *stage_device(stage)};
    if (input->has_spectrum) task.side = input->spectrum.nx;
    if (input->has_micrograph) {
        task.nx = input->micrograph.nx;
        task.ny = input->micrograph.ny;
        task.box = ctf_estimator_tile(task.options, task.nx, task.ny, input->optics.pixel_size);
    }
    return task;
}

struct ctf_estimator_input ctf_input_given(const struct ctf_input *input) {
    return (struct ctf_estimator_input){
        .micrograph = input->has_micrograph ? input->micrograph.data : NULL,
        .on_device = input->has_micrograph ? device_copy_data(input->uploaded) : NULL,
        .pixel_size = input->optics.pixel_size,
        .spectrum = input->has_spectrum ? input->spectrum.data : NULL,
        .spectrum_pixel_size = (double)input->spectrum.pixel_size,
        .optics = &input->optics,
    };
}
