#include "examples/simulate/truth.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"

static enum status add_columns(struct star_table *table, const char *const *names, int count, struct err *err) {
    for (int i = 0; i < count; i++)
        TRY(star_column_add(table, names[i], "0", NULL, err));
    return STATUS_OK;
}

static enum status add_numbers(struct star_table *table, int first_column, const double *values, int count, size_t row,
                               struct err *err) {
    for (int i = 0; i < count; i++)
        TRY(star_set_number(table, row, first_column + i, values[i], err));
    return STATUS_OK;
}

static enum status micrograph_name(const struct truth *truth, const struct layout *layout, char name[64],
                                   struct err *err) {
    int length = snprintf(name, 64, "%s/%s%s", truth->names, layout->name, truth->ending);
    FAIL_IF(length >= 64, err, STATUS_BAD_ARGUMENT, "the name of micrograph %s is too long", layout->name);
    return STATUS_OK;
}

static enum status add_optics(const struct truth *truth, bool particles, struct star_file *file, struct err *err) {
    const struct scene *s = truth->scene;
    struct star_table *table;
    const struct star_cell cells[] = {
        {.column = "rlnOpticsGroup", .value = 1, .integer = true},
        {.column = "rlnOpticsGroupName", .text = "opticsGroup1"},
        {.column = "rlnMicrographOriginalPixelSize", .value = s->pixel_size},
        {.column = particles ? "rlnImagePixelSize" : "rlnMicrographPixelSize", .value = s->pixel_size},
        {.column = "rlnVoltage", .value = s->voltage},
        {.column = "rlnSphericalAberration", .value = s->spherical_aberration},
        {.column = "rlnAmplitudeContrast", .value = s->amplitude_contrast},
        {.column = "rlnImageSize", .value = truth->box, .integer = true, .unless = !particles},
        {.column = "rlnImageDimensionality", .value = 2, .integer = true, .unless = !particles},
    };
    TRY(star_table_add(file, "optics", true, &table, err));
    return star_cells_row(table, cells, sizeof cells / sizeof *cells, err);
}

static enum status save(struct star_file *file, const char *folder, const char *name, struct err *err) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FAIL_IF(length >= (int)sizeof path, err, STATUS_BAD_ARGUMENT, "%s: the path is too long", folder);
    return star_write(file, path, err);
}

static enum status write_particles(const struct truth *truth, struct err *err) {
    static const char *const names[] = {"rlnMicrographName", "rlnOpticsGroup", "rlnCoordinateX", "rlnCoordinateY",
                                        "rlnAngleRot",       "rlnAngleTilt",   "rlnAnglePsi",    "rlnOriginXAngst",
                                        "rlnOriginYAngst",   "rlnDefocusU",    "rlnDefocusV",    "rlnDefocusAngle"};
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    TRY(star_create(&file, err));
    TRY(add_optics(truth, true, file, err));
    TRY(star_table_add(file, "particles", true, &table, err));
    TRY(add_columns(table, names, 12, err));
    for (int m = 0; m < truth->scene->micrographs; m++) {
        const struct layout *layout = &truth->layouts[m];
        char name[64];
        TRY(micrograph_name(truth, layout, name, err));
        for (int i = 0; i < layout->particle_count; i++) {
            const struct particle *p = &layout->particles[i];
            double values[] = {
                p->x, p->y, p->rot, p->tilt, p->psi, 0, 0, layout->defocus_u, layout->defocus_v, layout->defocus_angle};
            size_t row;
            TRY(star_row_add(table, &row, err));
            TRY(star_set(table, row, 0, name, err));
            TRY(star_set_integer(table, row, 1, 1, err));
            TRY(add_numbers(table, 2, values, 10, row, err));
        }
    }
    return save(file, truth->folder, "particles.star", err);
}

static enum status write_centres(const struct truth *truth, const struct layout *layout, struct err *err) {
    static const char *const names[] = {"rlnCoordinateX", "rlnCoordinateY", "rlnAngleRot", "rlnAngleTilt",
                                        "rlnAnglePsi"};
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "", true, &table, err));
    TRY(add_columns(table, names, 5, err));
    for (int i = 0; i < layout->particle_count; i++) {
        const struct particle *p = &layout->particles[i];
        double values[] = {p->x, p->y, p->rot, p->tilt, p->psi};
        size_t row;
        TRY(star_row_add(table, &row, err));
        TRY(add_numbers(table, 0, values, 5, row, err));
    }
    char name[64];
    snprintf(name, sizeof name, "%s.star", layout->name);
    return save(file, truth->folder, name, err);
}

static enum status write_ctf(const struct truth *truth, struct err *err) {
    static const char *const names[] = {"rlnMicrographName", "rlnOpticsGroup",  "rlnDefocusU",
                                        "rlnDefocusV",       "rlnDefocusAngle", "rlnCtfFigureOfMerit"};
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    TRY(star_create(&file, err));
    TRY(add_optics(truth, false, file, err));
    TRY(star_table_add(file, "micrographs", true, &table, err));
    TRY(add_columns(table, names, 6, err));
    for (int m = 0; m < truth->scene->micrographs; m++) {
        const struct layout *layout = &truth->layouts[m];
        char name[64];
        size_t row;
        TRY(micrograph_name(truth, layout, name, err));
        TRY(star_row_add(table, &row, err));
        TRY(star_set(table, row, 0, name, err));
        TRY(star_set_integer(table, row, 1, 1, err));
        /* A CTF fit to a smeared micrograph finds no rings. */
        bool drifted = hypot(layout->drift_x, layout->drift_y) > 0;
        double values[] = {layout->defocus_u, layout->defocus_v, layout->defocus_angle, drifted ? 0.03 : 0.2};
        TRY(add_numbers(table, 2, values, 4, row, err));
    }
    return save(file, truth->folder, "micrographs_ctf.star", err);
}

static enum status write_contamination(const struct truth *truth, struct err *err) {
    static const char *const names[] = {"rlnMicrographName", "rlnCoordinateX", "rlnCoordinateY", "rlnParticleDiameter"};
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "contamination", true, &table, err));
    TRY(add_columns(table, names, 4, err));
    for (int m = 0; m < truth->scene->micrographs; m++) {
        const struct layout *layout = &truth->layouts[m];
        char name[64];
        TRY(micrograph_name(truth, layout, name, err));
        for (int i = 0; i < layout->contaminant_count; i++) {
            const struct contaminant *c = &layout->contaminants[i];
            double values[] = {c->x, c->y, 2 * c->radius * truth->scene->pixel_size};
            size_t row;
            TRY(star_row_add(table, &row, err));
            TRY(star_set(table, row, 0, name, err));
            TRY(add_numbers(table, 1, values, 3, row, err));
        }
    }
    return save(file, truth->folder, "contamination.star", err);
}

void truth_view(int index, int count, double ret_rows[3][3]) {
    double z = 1 - (2.0 * index + 1) / count, golden = 180 * (3 - sqrt(5));
    phantom_rotation(fmod(index * golden, 360), acos(z) * 180 / M_PI, 0, ret_rows);
}

/* Converts counts to units of the noise that an image of this pixel size keeps: cutting frequencies removes white
 * noise. */
static double grey_scale(const struct truth *truth, double pixel_size) {
    double kept = truth->scene->pixel_size / pixel_size;
    return truth->scene->signal / (truth->noise_sigma * fmin(kept, 1));
}

static enum status write_maps(const struct truth *truth, struct err *err) {
    _cleanup_(image_destroy) struct image map = {0};
    char path[PATH_MAX];
    TRY(phantom_map(truth->phantom, truth->map_box, truth->map_pixel_size, grey_scale(truth, truth->map_pixel_size),
                    &map, err));
    snprintf(path, sizeof path, "%s/phantom.mrc", truth->folder);
    TRY(mrc_write(path, &map, MRC_VOLUME, MRC_FLOAT32, err));
    TRY(phantom_lowpass(&map, truth->lowpass, err));
    snprintf(path, sizeof path, "%s/reference.mrc", truth->folder);
    return mrc_write(path, &map, MRC_VOLUME, MRC_FLOAT32, err);
}

static enum status write_templates(const struct truth *truth, struct err *err) {
    _cleanup_(image_destroy) struct image stack = {0};
    int box = truth->box;
    double pixel_size = truth->scene->pixel_size;
    TRY(image_resize(&stack, box, box, truth->templates, err));
    stack.pixel_size = (float)pixel_size;
    memset(stack.data, 0, image_count(&stack) * sizeof *stack.data);
    for (int i = 0; i < truth->templates; i++) {
        double rows[3][3];
        truth_view(i, truth->templates, rows);
        struct image slice = {box, box, 1, stack.pixel_size, stack.data + (size_t)i * (size_t)box * (size_t)box, 0};
        phantom_project(truth->phantom, rows, pixel_size, box / 2, box / 2, grey_scale(truth, pixel_size), &slice);
    }
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/templates.mrcs", truth->folder);
    return mrc_write(path, &stack, MRC_STACK, MRC_FLOAT32, err);
}

enum status truth_write(const struct truth *truth, struct err *err) {
    TRY(write_particles(truth, err));
    for (int m = 0; m < truth->scene->micrographs; m++)
        TRY(write_centres(truth, &truth->layouts[m], err));
    TRY(write_ctf(truth, err));
    TRY(write_contamination(truth, err));
    TRY(write_maps(truth, err));
    TRY(write_templates(truth, err));
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/ready", truth->folder);
    return file_write_whole(path, "", 0, err);
}
