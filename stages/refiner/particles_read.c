/* From a STAR file into the set: its optics groups, its stacks, its rows. */
#include "stages/refiner/particles_private.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

/* Columns of one file's particle table; −1 where absent. */
struct columns {
    int image, optics, defocus_u, defocus_v, defocus_angle, phase_shift, b_factor, scale, subset;
    int voltage, spherical_aberration, amplitude_contrast, magnification, detector;
};

struct reading {
    struct particle_set *set;
    const char *path;
    const struct star_table *table;
    struct columns columns;
    int source;
    int *optics_map; /* row of the file's optics table → index into set->optics */
    long *optics_numbers;
    size_t optics_rows;
    size_t joined;
};

static enum status number_or(const struct star_table *table, size_t row, int column, double fallback, double *ret,
                             struct err *err) {
    if (column < 0) {
        *ret = fallback;
        return STATUS_OK;
    }
    return star_get_number(table, row, column, ret, err);
}

enum status particle_same_pixel_size(double *common, double pixel_size, const char *path, struct err *err) {
    FAIL_IF(!(pixel_size > 0) || !isfinite(pixel_size), err, STATUS_BAD_FORMAT,
            "%s gives no pixel size for its particles: rlnImagePixelSize in the optics table, or session.pixel_size",
            path);
    FAIL_IF(*common != 0 && fabs(pixel_size / *common - 1) > 1e-3, err, STATUS_UNSUPPORTED,
            "%s has particles of %g Å/px, those before had %g Å/px: extract them all at one pixel size", path,
            pixel_size, *common);
    if (*common == 0) *common = pixel_size;
    return STATUS_OK;
}

enum status particle_same_box(int *common, int box, const char *path, struct err *err) {
    FAIL_IF(box % 2 != 0 || box < 16, err, STATUS_UNSUPPORTED,
            "%s: particles of %d px cannot be refined: the box must be even and at least 16 px", path, box);
    FAIL_IF(*common != 0 && box != *common, err, STATUS_UNSUPPORTED,
            "%s has images of %d × %d px, %d × %d px were expected: extract all particles with one box", path, box, box,
            *common, *common);
    *common = box;
    return STATUS_OK;
}

static enum status add_optics(struct reading *r, const struct star_table *table, size_t row, const char *name,
                              const struct particle_optics *values, int *ret_index, struct err *err) {
    struct particle_set *set = r->set;
    for (int i = 0; i < set->optics_count; i++) {
        const struct particle_optics *o = &set->optics[i];
        if (strcmp(o->name, name) == 0 && o->voltage == values->voltage &&
            o->spherical_aberration == values->spherical_aberration &&
            o->amplitude_contrast == values->amplitude_contrast) {
            if (table != NULL) { /* the newest file describes it: older ones may be let go */
                set->optics[i].source = r->source;
                set->optics[i].row = row;
            }
            *ret_index = i;
            return STATUS_OK;
        }
    }
    TRY(particle_list_append(&set->optics, &set->optics_count, sizeof *set->optics, err));
    struct particle_optics *o = &set->optics[set->optics_count - 1];
    *o = *values;
    o->name = NULL;
    enum status status = particle_text(name, &o->name, err);
    if (status != STATUS_OK) {
        set->optics_count--;
        return status;
    }
    o->source = table != NULL ? r->source : -1;
    o->row = row;
    *ret_index = set->optics_count - 1;
    return STATUS_OK;
}

static enum status read_optics(struct reading *r, struct star_file *file, struct err *err) {
    const struct star_table *t = star_table_find(file, "optics");
    if (t == NULL) return STATUS_OK;
    r->optics_rows = star_row_count(t);
    TRY(mem_new(r->optics_rows, sizeof *r->optics_map, "optics groups", &r->optics_map, err));
    TRY(mem_new(r->optics_rows, sizeof *r->optics_numbers, "optics groups", &r->optics_numbers, err));
    int number, name = star_column_find(t, "rlnOpticsGroupName"), pixel = star_column_find(t, "rlnImagePixelSize");
    int premultiplied = star_column_find(t, "rlnCtfDataAreCtfPremultiplied");
    TRY(star_column_need(t, "rlnOpticsGroup", &number, err));
    for (size_t row = 0; row < r->optics_rows; row++) {
        struct particle_optics o = {0};
        double done = 0;
        TRY(star_get_integer(t, row, number, &r->optics_numbers[row], err));
        TRY(number_or(t, row, pixel, r->set->fallback_pixel_size, &o.pixel_size, err));
        TRY(particle_same_pixel_size(&r->set->pixel_size, o.pixel_size, r->path, err));
        TRY(number_or(t, row, star_column_find(t, "rlnVoltage"), 300, &o.voltage, err));
        TRY(number_or(t, row, star_column_find(t, "rlnSphericalAberration"), 2.7, &o.spherical_aberration, err));
        TRY(number_or(t, row, star_column_find(t, "rlnAmplitudeContrast"), 0.1, &o.amplitude_contrast, err));
        TRY(number_or(t, row, premultiplied, 0, &done, err));
        FAIL_IF(done != 0, err, STATUS_UNSUPPORTED,
                "%s: particles that are multiplied by their CTF already cannot be refined: extract them without",
                r->path);
        char fallback[32];
        snprintf(fallback, sizeof fallback, "opticsGroup%ld", r->optics_numbers[row]);
        TRY(add_optics(r, t, row, name >= 0 ? star_get(t, row, name) : fallback, &o, &r->optics_map[row], err));
    }
    return STATUS_OK;
}

/* Files without optics groups (RELION 3.0 and before) have the values in each row. */
static enum status optics_of_row(struct reading *r, size_t row, int *ret_index, struct err *err) {
    const struct columns *c = &r->columns;
    if (r->optics_rows > 0) {
        long number = r->optics_numbers[0];
        if (c->optics >= 0) TRY(star_get_integer(r->table, row, c->optics, &number, err));
        for (size_t i = 0; i < r->optics_rows; i++)
            if (r->optics_numbers[i] == number) {
                *ret_index = r->optics_map[i];
                return STATUS_OK;
            }
        FAIL(err, STATUS_BAD_FORMAT, "%s: row %zu is of optics group %ld, which its optics table does not have",
             r->path, row + 1, number);
    }
    struct particle_optics o = {.pixel_size = r->set->fallback_pixel_size};
    double magnification, detector;
    TRY(number_or(r->table, row, c->voltage, 300, &o.voltage, err));
    TRY(number_or(r->table, row, c->spherical_aberration, 2.7, &o.spherical_aberration, err));
    TRY(number_or(r->table, row, c->amplitude_contrast, 0.1, &o.amplitude_contrast, err));
    TRY(number_or(r->table, row, c->magnification, NAN, &magnification, err));
    TRY(number_or(r->table, row, c->detector, NAN, &detector, err));
    if (magnification > 0 && detector > 0) o.pixel_size = 1e4 * detector / magnification;
    TRY(particle_same_pixel_size(&r->set->pixel_size, o.pixel_size, r->path, err));
    return add_optics(r, NULL, 0, "opticsGroup1", &o, ret_index, err);
}

/* Relative stacks are looked for below the root, beside the file, and in the working directory. */
static enum status resolve_stack(struct reading *r, const char *name, char *out, struct err *err) {
    char folder[PATH_SIZE];
    if (r->set->root != NULL) {
        TRY(path_join(r->set->root, name, out, PATH_SIZE, err));
        if (file_exists(out)) return STATUS_OK;
    }
    TRY(path_folder(r->path, folder, sizeof folder, err));
    TRY(path_join(folder, name, out, PATH_SIZE, err));
    if (file_exists(out)) return STATUS_OK;
    FAIL_IF(!file_exists(name), err, STATUS_NOT_FOUND,
            "%s names the stack %s, which is neither in the session, nor beside the file, nor in the working directory",
            r->path, name);
    return path_join("", name, out, PATH_SIZE, err);
}

/* Below the root: relative to it, so that the session can be moved and is RELION's project folder. */
static const char *name_below(const char *root, const char *path) {
    size_t length = root != NULL ? strlen(root) : 0;
    bool below = length > 0 && strncmp(path, root, length) == 0 && path[length] == '/';
    return below ? path + length + 1 : path;
}

static enum status add_stack(struct reading *r, const char *path, const char *given, struct err *err) {
    struct particle_set *set = r->set;
    struct mrc_header header;
    TRY(mrc_read_header(path, &header, err));
    FAIL_IF(header.nx != header.ny, err, STATUS_UNSUPPORTED,
            "%s has images of %d × %d px: particle images must be square", path, header.nx, header.ny);
    TRY(particle_same_box(&set->box, header.nx, path, err));
    TRY(particle_list_append(&set->stacks, &set->stack_count, sizeof *set->stacks, err));
    struct particle_stack *stack = &set->stacks[set->stack_count - 1];
    stack->source = r->source;
    TRY(particle_text(path, &stack->path, err));
    TRY(particle_text(given, &stack->given, err));
    return particle_text(name_below(set->root, path), &stack->name, err);
}

static bool same_text(const char *a, const char *b) {
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* Rows of one stack follow each other, and looking for a file costs more than comparing a name. */
static enum status stack_index(struct reading *r, const char *given, int *ret_index, struct err *err) {
    struct particle_set *set = r->set;
    char path[PATH_SIZE];
    if (set->last_stack < set->stack_count && set->stacks[set->last_stack].source == r->source &&
        same_text(set->stacks[set->last_stack].given, given)) {
        *ret_index = set->last_stack;
        return STATUS_OK;
    }
    TRY(resolve_stack(r, given, path, err));
    int found = set->stack_count - 1;
    while (found >= 0 && !same_text(set->stacks[found].path, path))
        found--;
    if (found < 0) {
        TRY(add_stack(r, path, given, err));
        found = set->stack_count - 1;
    }
    struct particle_stack *stack = &set->stacks[found];
    if (!same_text(stack->given, given)) {
        mem_free(&stack->given);
        TRY(particle_text(given, &stack->given, err));
    }
    stack->source = r->source;
    set->last_stack = *ret_index = found;
    return STATUS_OK;
}

static enum status locate(struct reading *r, const char *image, int *ret_stack, int *ret_slice, struct err *err) {
    char *end;
    long slice = strtol(image, &end, 10);
    FAIL_IF(end == image || *end != '@' || slice < 1 || slice > INT_MAX, err, STATUS_BAD_FORMAT,
            "%s: rlnImageName is '%s', NNNNNN@stack was expected", r->path, image);
    *ret_slice = (int)slice - 1;
    return stack_index(r, end + 1, ret_stack, err);
}

static enum status set_values(struct reading *r, size_t row, struct particle *p, struct err *err) {
    const struct columns *c = &r->columns;
    TRY(optics_of_row(r, row, &p->optics, err));
    const struct particle_optics *o = &r->set->optics[p->optics];
    p->ctf = (struct ctf){.voltage = o->voltage,
                          .spherical_aberration = o->spherical_aberration,
                          .amplitude_contrast = o->amplitude_contrast};
    p->has_ctf = c->defocus_u >= 0;
    TRY(number_or(r->table, row, c->defocus_u, 0, &p->ctf.defocus_u, err));
    TRY(number_or(r->table, row, c->defocus_v, p->ctf.defocus_u, &p->ctf.defocus_v, err));
    TRY(number_or(r->table, row, c->defocus_angle, 0, &p->ctf.defocus_angle, err));
    TRY(number_or(r->table, row, c->phase_shift, 0, &p->ctf.phase_shift, err));
    TRY(number_or(r->table, row, c->b_factor, 0, &p->ctf.b_factor, err));
    TRY(number_or(r->table, row, c->scale, 1, &p->ctf.scale, err));
    FAIL_IF(!ctf_is_plausible(&p->ctf), err, STATUS_BAD_FORMAT,
            "%s, row %zu: its CTF (defocus %g and %g Å, %g kV, %g mm, amplitude contrast %g, B-factor %g Å²) is none "
            "that a microscope can have: correct the table",
            r->path, row + 1, p->ctf.defocus_u, p->ctf.defocus_v, p->ctf.voltage, p->ctf.spherical_aberration,
            p->ctf.amplitude_contrast, p->ctf.b_factor);
    return STATUS_OK;
}

static enum status merge_row(struct reading *r, size_t row, struct err *err) {
    struct particle_set *set = r->set;
    char name[PATH_SIZE + 16];
    int stack = 0, slice = 0;
    TRY(locate(r, star_get(r->table, row, r->columns.image), &stack, &slice, err));
    snprintf(name, sizeof name, "%06d@%s", slice + 1, set->stacks[stack].name);
    struct particle *known = particle_find(set, name);
    if (known == NULL) {
        const struct particle p = {.stack = stack,
                                   .slice = slice,
                                   .source = -1,
                                   .norm = 1,
                                   .reliability = 1,
                                   .residual = -1,
                                   .pose = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                   .half = (int)(particle_hash(name, set->seed) & 1)};
        long subset = 0;
        if (r->columns.subset >= 0) TRY(star_get_integer(r->table, row, r->columns.subset, &subset, err));
        TRY(particle_set_add(set, name, &p, &known, err));
        if (subset == 1 || subset == 2) known->half = (int)subset - 1;
    }
    TRY(set_values(r, row, known, err));
    if (known->source < 0) set->present++;
    known->source = r->source;
    known->row = row;
    return STATUS_OK;
}

static enum status find_columns(struct reading *r, struct err *err) {
    const struct star_table *t = r->table;
    struct columns *c = &r->columns;
    TRY(star_column_need(t, "rlnImageName", &c->image, err));
    const struct {
        const char *name;
        int *column;
    } wanted[] = {{"rlnOpticsGroup", &c->optics},
                  {"rlnDefocusU", &c->defocus_u},
                  {"rlnDefocusV", &c->defocus_v},
                  {"rlnDefocusAngle", &c->defocus_angle},
                  {"rlnPhaseShift", &c->phase_shift},
                  {"rlnCtfBfactor", &c->b_factor},
                  {"rlnCtfScalefactor", &c->scale},
                  {"rlnRandomSubset", &c->subset},
                  {"rlnVoltage", &c->voltage},
                  {"rlnSphericalAberration", &c->spherical_aberration},
                  {"rlnAmplitudeContrast", &c->amplitude_contrast},
                  {"rlnMagnification", &c->magnification},
                  {"rlnDetectorPixelSize", &c->detector}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        *wanted[i].column = star_column_find(t, wanted[i].name);
    return STATUS_OK;
}

static enum status merge_rows(struct reading *r, struct star_file *file, bool replace, struct err *err) {
    struct particle_set *set = r->set;
    r->table = star_table_find(file, "particles");
    if (r->table == NULL) r->table = star_table_find(file, "images");
    if (r->table == NULL) r->table = star_table_find(file, "");
    FAIL_IF(r->table == NULL, err, STATUS_BAD_FORMAT, "%s has no table of particles (data_particles)", r->path);
    TRY(find_columns(r, err));
    TRY(read_optics(r, file, err));
    if (replace)
        for (size_t i = 0; i < set->count; i++) {
            set->particles[i].source = -1;
            set->present = 0;
        }
    for (size_t row = 0; row < star_row_count(r->table); row++)
        TRY(merge_row(r, row, err));
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].source < 0 && set->particles[i].image != NULL) {
            mem_free(&set->particles[i].image);
            set->cached_bytes -= (size_t)set->box * (size_t)set->box * sizeof(float);
        }
    if (replace) particle_set_release_sources(set);
    return STATUS_OK;
}

enum status particle_set_merge(struct particle_set *set, struct star_file **file, const char *path, bool replace,
                               size_t *ret_new, struct err *err) {
    struct reading r = {.set = set, .path = path};
    size_t before = replace ? 0 : set->present, known = set->count;
    enum status status = particle_list_append(&set->sources, &set->source_count, sizeof *set->sources, err);
    if (status != STATUS_OK) {
        star_destroy(file);
        return status;
    }
    r.source = set->source_count - 1;
    set->sources[r.source].file = *file;
    *file = NULL;
    status = particle_text(path, &set->sources[r.source].path, err);
    if (status == STATUS_OK) status = merge_rows(&r, set->sources[r.source].file, replace, err);
    free(r.optics_map);
    free(r.optics_numbers);
    if (status == STATUS_OK && ret_new != NULL) *ret_new = replace ? set->count - known : set->present - before;
    return status;
}

enum status particle_set_try(const struct particle_set *set, struct star_file **file, const char *path, int *ret_box,
                             double *ret_pixel_size, struct err *err) {
    struct particle_set scratch;
    particle_set_init(&scratch, set->seed, 0, set->fallback_pixel_size);
    enum status status = set->root != NULL ? particle_text(set->root, &scratch.root, err) : STATUS_OK;
    if (status == STATUS_OK) status = particle_set_merge(&scratch, file, path, false, NULL, err);
    if (scratch.source_count > 0) {
        *file = scratch.sources[0].file;
        scratch.sources[0].file = NULL;
    }
    if (status == STATUS_OK) {
        *ret_box = scratch.box;
        *ret_pixel_size = scratch.pixel_size;
    }
    particle_set_destroy(&scratch);
    return status;
}
