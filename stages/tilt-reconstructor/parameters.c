#include "stages/tilt-reconstructor/parameters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

#define P(member) offsetof(struct settings_params, member)
const struct param settings_table[SETTINGS_PARAM_COUNT] = {
    {"tilts", PARAM_PATH, P(tilts), "", NULL,
     .help =
         "Tilt angles: .tlt or .rawtlt (an angle a line, in the order of the stack) or .mdoc; default: the file beside "
         "each stack"},
    {"transforms", PARAM_STRING, P(transforms), "", NULL,
     .help = "IMOD's .xf, a line for each image of the stack; `beside`: the one beside each stack; default: images are "
             "aligned, or align says how"},
    {"images", PARAM_PATH, P(images), "", NULL,
     .help = "Folder with the single images that an .mdoc names; default: the folder of the .mdoc"},
    {"thickness", PARAM_INT, P(thickness), "px", NULL, 1, 65536, .required = true,
     .help = "Of the tomogram along z, in px of the images before bin"},
    {"bin", PARAM_INT, P(bin), "", "1", 1, 64,
     .help = "Images are averaged over so many px either way; the tomogram has "
             "voxels of that size"},
    {"exclude", PARAM_STRING, P(exclude), "", NULL,
     .help = "Views to leave out, as 3,7-9: numbered from 1 as in IMOD, the first image of the stack (of single files: "
             "ZValue + 1)"},
    {"align", PARAM_CHOICE, P(align), "", "none", .choices = "none|coarse",
     .help = "Coarse: shifts by cross-correlation of neighbours, stretched by their cosines"},
    {"tilt_axis", PARAM_FLOAT, P(tilt_axis), "°", NULL, -360, 360,
     .help =
         "Angle from the images' y axis to the tilt axis, anticlockwise, by which images without transforms are turned "
         "upright; default: the .mdoc's where align is coarse, else 0"},
    {"normalise", PARAM_CHOICE, P(normalise), "", "mass", .choices = PROJECTIONS_NORMALISE_CHOICES,
     .help =
         "Mass: images are multiplied to one mean, which is taken off where it is more than their contrast (but with "
         "non_negative), or have their own taken off, where means are near 0; mean: 0; variance: mean 0, variance 1. "
         "Contrast is never inverted"},
    {"method", PARAM_CHOICE, P(method), "", "sirt", .choices = "sirt|wbp",
     .help = "Iterative, or weighted back-projection"},
    {"basis", PARAM_CHOICE, P(basis), "", "blob", .choices = "blob|linear|voxel",
     .help = "SIRT: what the tomogram is a sum of"},
    {"matrix", PARAM_CHOICE, P(matrix), "", "auto", .choices = "auto|on-the-fly|ellr|blob-ellr",
     .help = "SIRT: how weights are kept; all give the same tomogram"},
    {"start", PARAM_CHOICE, P(start), "", "back-projection", .choices = "back-projection|plain|zero",
     .help = "SIRT: what the first iteration begins with"},
    {"iterations", PARAM_INT, P(iterations), "", "25", 0, TOMOGRAPHY_MOST_ITERATIONS, .help = "SIRT: at most"},
    {"relaxation", PARAM_FLOAT, P(relaxation), "", "1", 1e-6, 1.999999, .help = "SIRT: step, above 0 and below 2"},
    {"stop", PARAM_FLOAT, P(stop), "", "0", 0, TOMOGRAPHY_MOST_LIMIT,
     .help = "SIRT: end when the residual falls by less than this part of itself; 0: never before the last iteration"},
    {"non_negative", PARAM_BOOL, P(non_negative), "", "false",
     .help = "SIRT: density below 0 is set to 0 in each iteration"},
    {"mask", PARAM_PATH, P(mask), "", NULL,
     .help = "SIRT only: MRC of the tomogram's size; density is 0 where it is below 0.5"},
    {"roll_off", PARAM_CHOICE, P(roll_off), "", "cosine", .choices = "ramp|cosine|hamming",
     .help = "WBP: what the ramp is multiplied by"},
    {"cutoff", PARAM_FLOAT, P(cutoff), "", "1", 0.01, 1,
     .help = "WBP: of the Nyquist frequency; nothing is kept beyond"},
    {"precision", PARAM_CHOICE, P(precision), "", "float32", .choices = "float32|float16",
     .help = "Of the tomogram's file (MRC mode 2 or 12)"},
    {"preview", PARAM_BOOL, P(preview), "", "true",
     .help = "A WBP of what is there after each new tilt, while a series is collected"},
    {"preview_size", PARAM_INT, P(preview_size), "px", "256", 16, 4096, .help = "Longest side of a preview, at most"},
    {"tilts_per_series", PARAM_INT, P(tilts_per_series), "", "0", 0, TILTS_MAX,
     .help = "With so many a series is complete; 0: not known, `quiet` decides"},
    {"quiet", PARAM_FLOAT, P(quiet), "s", "300", 0.1, 864000,
     .help = "A series to which no tilt has come for so long is complete (one that comes later has its tomogram made "
             "anew)"},
    {"memory", PARAM_INT, P(memory), "MiB", "0", 0, 1 << 24,
     .help = "Of each CUDA device, for slabs of the tomogram (0: what is free); on the CPU a limit (0: what the "
             "machine has)"},
    {"devices", PARAM_INT, P(devices), "", "0", 0, 64,
     .help = "CUDA devices that share a tomogram; 0: all that gpu names, on files one"},
};
#undef P

void settings_destroy(struct settings **settings) {
    if (settings == NULL || *settings == NULL) return;
    mdoc_clear(&(*settings)->mdoc);
    free((*settings)->mdoc_id);
    free((*settings)->devices);
    free(*settings);
    *settings = NULL;
}

/* Of a CUDA device its neighbours as well, as many as are wanted and visible. */
static enum status choose_devices(struct stage *stage, struct settings *settings, struct err *err) {
    const struct settings_params *p = stage_params(stage);
    const struct device *first = stage_device(stage);
    int visible = 1, wanted = p->devices;
    if (first->kind == DEVICE_CUDA) {
        TRY(device_count(&visible, err));
        visible -= first->index;
    }
    FAIL_IF(wanted > visible, err, STATUS_BAD_ARGUMENT, "devices: %d are wanted, but there %s %d", wanted,
            visible == 1 ? "is" : "are", visible);
    if (wanted == 0) wanted = stage_in_pipeline(stage) ? visible : 1;
    TRY(mem_new((size_t)wanted, sizeof *settings->devices, "devices", &settings->devices, err));
    for (int i = 0; i < wanted; i++)
        settings->devices[i] = (struct device){first->kind, first->index + i};
    settings->job.tomography.devices = settings->devices;
    settings->job.tomography.device_count = wanted;
    return STATUS_OK;
}

static enum status take_exclude(const struct settings_params *p, struct settings *settings, struct err *err) {
    if (p->exclude == NULL || p->exclude[0] == '\0') return STATUS_OK;
    TRY(tilts_parse_list("exclude", p->exclude, settings->excluded, &settings->job.exclude_greatest, err));
    settings->job.exclude = settings->excluded;
    return STATUS_OK;
}

/* Its other sides are known with the first images. */
static enum status take_mask(struct job_settings *job, struct err *err) {
    struct mrc_header header;
    if (job->mask == NULL) return STATUS_OK;
    FAIL_IF(job->tomography.method == TOMOGRAPHY_WBP, err, STATUS_BAD_ARGUMENT,
            "mask %s: weighted back-projection takes none: leave it out, or set method to sirt", job->mask);
    enum status status = mrc_read_header(job->mask, &header, err);
    if (status != STATUS_OK) return err_context(err, status, "mask");
    FAIL_IF(header.nz != job_depth(job), err, STATUS_BAD_ARGUMENT,
            "mask %s has %d × %d × %d voxels: along z it must have %d, as tomograms have with thickness %d and bin %d",
            job->mask, header.nx, header.ny, header.nz, job_depth(job), job->thickness, job->bin);
    job->mask_nx = header.nx;
    job->mask_ny = header.ny;
    return STATUS_OK;
}

static enum status take_mdoc(const struct settings_params *p, struct settings *settings, struct err *err) {
    char id[PATH_SIZE];
    if (p->tilts == NULL || !mdoc_is_name(p->tilts)) return STATUS_OK;
    TRY(mdoc_read(p->tilts, &settings->mdoc, err));
    mdoc_series_name(path_name(p->tilts), id, sizeof id);
    settings->mdoc_id = strdup(id);
    FAIL_IF(settings->mdoc_id == NULL, err, STATUS_NO_MEMORY, "no memory for the name of a series");
    return STATUS_OK;
}

static void take_tomography(struct stage *stage, const struct settings_params *p, struct tomography_options *t) {
    *t = tomography_defaults();
    t->method = (enum tomography_method)p->method;
    t->basis = (enum tomography_basis)p->basis;
    t->matrix = (enum tomography_matrix)p->matrix;
    t->start = (enum tomography_start)p->start;
    t->iterations = p->iterations;
    t->relaxation = p->relaxation;
    t->limit = p->stop;
    t->non_negative = p->non_negative;
    t->roll_off = (enum tomography_roll_off)p->roll_off;
    t->cutoff = p->cutoff;
    t->threads = stage_threads(stage) > 0 ? stage_threads(stage) : 1;
    t->memory = (size_t)p->memory << 20;
}

static enum status check(const struct settings_params *p, struct err *err) {
    bool beside = p->transforms != NULL && strcmp(p->transforms, "beside") == 0;
    FAIL_IF(p->transforms != NULL && !beside && !file_exists(p->transforms), err, STATUS_NOT_FOUND,
            "transforms: there is no file %s", p->transforms);
    FAIL_IF(p->transforms != NULL && p->align != 0, err, STATUS_BAD_ARGUMENT,
            "transforms %s says how images lie: align must be none", p->transforms);
    FAIL_IF(p->thickness < p->bin, err, STATUS_BAD_ARGUMENT,
            "a thickness of %d px leaves nothing after bin %d: it is counted in px of the images before binning",
            p->thickness, p->bin);
    return STATUS_OK;
}

enum status settings_create(struct stage *stage, struct settings **ret_settings, struct err *err) {
    const struct settings_params *p = stage_params(stage);
    _cleanup_(settings_destroy) struct settings *settings = calloc(1, sizeof *settings);
    FAIL_IF(settings == NULL, err, STATUS_NO_MEMORY, "no memory for settings");
    TRY(check(p, err));
    settings->job = (struct job_settings){.coarse = p->align != 0,
                                          .tilt_axis = p->tilt_axis,
                                          .bin = p->bin,
                                          .thickness = p->thickness,
                                          .normalise = (enum projections_normalise)p->normalise,
                                          .mask = p->mask,
                                          .mode = p->precision == 0 ? MRC_FLOAT32 : MRC_FLOAT16};
    take_tomography(stage, p, &settings->job.tomography);
    TRY(choose_devices(stage, settings, err));
    TRY(take_exclude(p, settings, err));
    TRY(take_mask(&settings->job, err));
    TRY(take_mdoc(p, settings, err));
    *ret_settings = settings;
    settings = NULL;
    return STATUS_OK;
}

struct job_settings settings_preview(const struct settings *settings, int shrink) {
    struct job_settings preview = settings->job;
    preview.bin = 1;
    preview.thickness = (settings->job.thickness + shrink - 1) / shrink;
    preview.mask = NULL;
    preview.mode = MRC_FLOAT32;
    preview.tomography.method = TOMOGRAPHY_WBP;
    preview.tomography.device_count = 1;
    return preview;
}
