#include "common/formats/particle_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/memory.h"

/* Values that all particles of an optics group share. */
enum shared { PIXEL_SIZE, VOLTAGE, SPHERICAL_ABERRATION, AMPLITUDE_CONTRAST, PREMULTIPLIED, SHARED };
static const char *const SHARED_NAMES[SHARED] = {
    "rlnImagePixelSize",
    "rlnVoltage",
    "rlnSphericalAberration",
    "rlnAmplitudeContrast",
    "rlnCtfDataAreCtfPremultiplied",
};

struct group {
    long number;
    double values[SHARED]; /* NaN: the optics table has no such column */
    struct optics_aberrations aberrations;
};

/* Columns of the rows; -1: absent. */
struct columns {
    int image, group;
    int defocus_u, defocus_v, defocus_angle, phase_shift, b_factor, scale;
    int detector, magnification;
    int shared[SHARED]; /* -1 also where the optics table has the column */
};

struct particle_table {
    const char *path;
    const struct star_table *rows, *optics; /* optics: NULL without groups */
    struct columns columns;
    struct group *groups;
    int group_count, last_group;
    bool shared;                                  /* the groups are those of another reader */
    int group_name;                               /* column of the optics table */
    double session_pixel_size, header_pixel_size; /* Å; NaN: unknown */
    bool ignore_aberrations;
    bool rows_have_aberrations;            /* in columns of theirs, and the groups have none */
    struct optics_aberrations aberrations; /* of the last row, if rows have them; else none */
};

struct star_table *particle_table_find(struct star_file *file) {
    struct star_table *table = star_table_find(file, "particles");
    for (size_t i = 0; table == NULL && i < star_table_count(file); i++)
        if (star_column_find(star_table_at(file, i), "rlnImageName") >= 0) table = star_table_at(file, i);
    return table;
}

static enum status find_columns(struct particle_table *t, struct err *err) {
    struct columns *c = &t->columns;
    const struct {
        const char *name;
        int *column;
    } wanted[] = {
        {"rlnOpticsGroup", &c->group},           {"rlnDefocusU", &c->defocus_u},
        {"rlnDefocusV", &c->defocus_v},          {"rlnDefocusAngle", &c->defocus_angle},
        {"rlnPhaseShift", &c->phase_shift},      {"rlnCtfBfactor", &c->b_factor},
        {"rlnCtfScalefactor", &c->scale},        {"rlnDetectorPixelSize", &c->detector},
        {"rlnMagnification", &c->magnification},
    };
    TRY(star_column_need(t->rows, "rlnImageName", &c->image, err));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        *wanted[i].column = star_column_find(t->rows, wanted[i].name);
    for (int i = 0; i < SHARED; i++) {
        bool in_group = t->optics != NULL && star_column_find(t->optics, SHARED_NAMES[i]) >= 0;
        c->shared[i] = in_group ? -1 : star_column_find(t->rows, SHARED_NAMES[i]);
    }
    return STATUS_OK;
}

/* NaN stands for an unknown value here, so that a table must not hold it. */
static enum status read_shared(const struct particle_table *t, const struct star_table *table, size_t row, int column,
                               double *ret_value, struct err *err) {
    TRY(star_get_number(table, row, column, ret_value, err));
    FAIL_IF(isnan(*ret_value), err, STATUS_BAD_FORMAT, "%s: table data_%s, row %zu: %s is NaN; a number is expected",
            t->path, star_table_name(table), row + 1, star_column_name(table, (size_t)column));
    return STATUS_OK;
}

static enum status read_groups(struct particle_table *t, struct err *err) {
    int number, columns[SHARED];
    size_t count = star_row_count(t->optics);
    TRY(star_column_need(t->optics, "rlnOpticsGroup", &number, err));
    t->group_name = star_column_find(t->optics, "rlnOpticsGroupName");
    for (int i = 0; i < SHARED; i++)
        columns[i] = star_column_find(t->optics, SHARED_NAMES[i]);
    TRY(mem_new(count, sizeof *t->groups, "optics groups", &t->groups, err));
    t->group_count = (int)count;
    for (size_t row = 0; row < count; row++) {
        struct group *g = &t->groups[row];
        TRY(star_get_integer(t->optics, row, number, &g->number, err));
        for (int i = 0; i < SHARED; i++) {
            g->values[i] = NAN;
            if (columns[i] >= 0) TRY(read_shared(t, t->optics, row, columns[i], &g->values[i], err));
        }
        g->aberrations = optics_aberrations_none();
        if (!t->ignore_aberrations) TRY(optics_aberrations_read(t->optics, row, t->path, &g->aberrations, err));
    }
    return STATUS_OK;
}

enum status particle_table_open(struct star_file *file, const char *path, double session_pixel_size,
                                bool ignore_aberrations, struct particle_table **ret_table, struct err *err) {
    _cleanup_(particle_table_close) struct particle_table *t = NULL;
    TRY(mem_new(1, sizeof *t, "a table of particles", &t, err));
    *t = (struct particle_table){
        .path = path,
        .rows = particle_table_find(file),
        .optics = star_table_find(file, "optics"),
        .session_pixel_size = session_pixel_size,
        .header_pixel_size = NAN,
        .ignore_aberrations = ignore_aberrations,
        .aberrations = optics_aberrations_none(),
    };
    FAIL_IF(t->rows == NULL, err, STATUS_BAD_FORMAT, "%s: no table of particles (column rlnImageName) in it", path);
    if (t->optics != NULL && star_row_count(t->optics) == 0) t->optics = NULL;
    TRY(find_columns(t, err));
    if (t->optics != NULL) TRY(read_groups(t, err));
    t->rows_have_aberrations = !ignore_aberrations && optics_aberrations_stated(t->rows) &&
                               (t->optics == NULL || !optics_aberrations_stated(t->optics));
    *ret_table = t;
    t = NULL;
    return STATUS_OK;
}

enum status particle_table_share(const struct particle_table *t, struct particle_table **ret_table, struct err *err) {
    struct particle_table *copy = NULL;
    TRY(mem_new_unset(1, sizeof *copy, "a table of particles", &copy, err));
    *copy = *t;
    copy->shared = true;
    *ret_table = copy;
    return STATUS_OK;
}

void particle_table_close(struct particle_table **table) {
    if (*table == NULL) return;
    if (!(*table)->shared) mem_free(&(*table)->groups);
    mem_free(table);
}

const struct star_table *particle_table_rows(const struct particle_table *table) {
    return table->rows;
}

int particle_table_group_count(const struct particle_table *table) {
    return table->group_count;
}

bool particle_table_rows_have_optics(const struct particle_table *t) {
    for (int i = 0; i < PREMULTIPLIED; i++)
        if (t->columns.shared[i] >= 0) return true;
    return t->rows_have_aberrations;
}

bool particle_table_groups_have_optics(const struct particle_table *t) {
    const bool detector = t->columns.detector >= 0 && t->columns.magnification >= 0;
    if (t->group_count == 0 || particle_table_rows_have_optics(t)) return false;
    for (int i = 0; i < t->group_count; i++)
        if (detector && isnan(t->groups[i].values[PIXEL_SIZE])) return false;
    return true;
}

static struct optics optics_of(const double values[SHARED]) {
    return (struct optics){
        .pixel_size = values[PIXEL_SIZE],
        .voltage = values[VOLTAGE],
        .spherical_aberration = values[SPHERICAL_ABERRATION],
        .amplitude_contrast = values[AMPLITUDE_CONTRAST],
    };
}

struct optics particle_table_group_optics(const struct particle_table *t, int group) {
    const struct optics own = optics_of(t->groups[group].values);
    return optics_of_particle(&own, NAN, t->session_pixel_size, t->header_pixel_size);
}

const struct optics_aberrations *particle_table_group_aberrations(const struct particle_table *t, int group) {
    return &t->groups[group].aberrations;
}

const char *particle_table_group_mtf(const struct particle_table *t, int group, double *ret_pixel_size) {
    int name = star_column_find(t->optics, "rlnMtfFileName");
    int pixel = star_column_find(t->optics, "rlnMicrographOriginalPixelSize");
    const char *text = name >= 0 && !t->ignore_aberrations ? star_get(t->optics, (size_t)group, name) : "";
    *ret_pixel_size = NAN;
    if (pixel >= 0) (void)star_get_number(t->optics, (size_t)group, pixel, ret_pixel_size, NULL);
    return *text == '\0' || strcmp(text, "None") == 0 ? NULL : text;
}

const char *particle_table_group_name(const struct particle_table *t, int group, char own[32]) {
    if (t->group_name >= 0) return star_get(t->optics, (size_t)group, t->group_name);
    snprintf(own, 32, "opticsGroup%ld", t->groups[group].number);
    return own;
}

enum status particle_image_parse(const char *name, const char *path, size_t row, struct particle_image *ret_image,
                                 struct err *err) {
    char *end;
    long number = strtol(name, &end, 10);
    FAIL_IF(end == name || end[0] != '@' || end[1] == '\0' || number < 1, err, STATUS_BAD_FORMAT,
            "%s, row %zu: rlnImageName is \"%s\"; \"NNNNNN@stack.mrcs\" with a number from 1 was expected", path,
            row + 1, name);
    *ret_image = (struct particle_image){.number = number, .stack = end + 1};
    return STATUS_OK;
}

enum status particle_table_image(const struct particle_table *t, size_t row, struct particle_image *ret_image,
                                 struct err *err) {
    return particle_image_parse(star_get(t->rows, row, t->columns.image), t->path, row, ret_image, err);
}

static bool is_in(const char *folder, const char *name, char path[PATH_SIZE], struct stat *ret_file) {
    return path_join(folder, name, path, PATH_SIZE, NULL) == STATUS_OK && stat(path, ret_file) == 0;
}

bool particle_stack_look(const char *root, const char *star_path, const char *name, char path[PATH_SIZE],
                         struct stat *ret_file) {
    char folder[PATH_SIZE];
    bool beside =
        path_folder(star_path, folder, sizeof folder, NULL) == STATUS_OK && is_in(folder, name, path, ret_file);
    return beside || (root != NULL && is_in(root, name, path, ret_file));
}

bool particle_stack_find(const char *root, const char *star_path, const char *name, char path[PATH_SIZE]) {
    struct stat file;
    return particle_stack_look(root, star_path, name, path, &file);
}

enum status particle_stack_read(const char *path, struct particle_stack_header *ret_header, struct err *err) {
    struct mrc_header header;
    TRY(mrc_read_header(path, &header, err));
    FAIL_IF(header.nx != header.ny, err, STATUS_BAD_FORMAT, "%s: particle images must be square, these are %d × %d px",
            path, header.nx, header.ny);
    *ret_header =
        (struct particle_stack_header){.box = header.nx, .images = header.nz, .pixel_size = header.pixel_size};
    return STATUS_OK;
}

void particle_table_note_stack(struct particle_table *t, const struct particle_stack_header *header) {
    if (isnan(t->header_pixel_size)) t->header_pixel_size = header->pixel_size;
}

enum status particle_table_check_image(const struct particle_table *t, size_t row, const struct particle_image *image,
                                       const char *path, int images, struct err *err) {
    FAIL_IF(image->number > images, err, STATUS_BAD_FORMAT, "%s, row %zu: image %ld was asked for, but %s has %d",
            t->path, row + 1, image->number, path, images);
    return STATUS_OK;
}

/* Rows of a group often follow each other: the search begins with the group that was found last. */
static enum status find_group(struct particle_table *t, size_t row, int *ret_group, struct err *err) {
    *ret_group = t->group_count > 0 ? 0 : -1;
    if (t->group_count == 0 || t->columns.group < 0) return STATUS_OK;
    long number;
    TRY(star_get_integer(t->rows, row, t->columns.group, &number, err));
    for (int i = 0; i < t->group_count; i++) {
        int group = (t->last_group + i) % t->group_count;
        if (t->groups[group].number != number) continue;
        *ret_group = t->last_group = group;
        return STATUS_OK;
    }
    FAIL(err, STATUS_BAD_FORMAT, "%s: row %zu is of optics group %ld, which its optics table does not have", t->path,
         row + 1, number);
}

/* Reads a number; NaN stands for a missing one, as in joined tables. */
static enum status number_or(const struct particle_table *t, size_t row, int column, double fallback, double *ret_value,
                             struct err *err) {
    *ret_value = fallback;
    if (column < 0) return STATUS_OK;
    TRY(star_get_number(t->rows, row, column, ret_value, err));
    FAIL_IF(isinf(*ret_value), err, STATUS_BAD_FORMAT,
            "%s: table data_%s, row %zu: %s is \"%.100s\"; a number is expected", t->path, star_table_name(t->rows),
            row + 1, star_column_name(t->rows, (size_t)column), star_get(t->rows, row, column));
    return STATUS_OK;
}

static enum status detector_pixel_size(const struct particle_table *t, size_t row, double *ret_pixel_size,
                                       struct err *err) {
    double detector, magnification;
    TRY(number_or(t, row, t->columns.detector, NAN, &detector, err));
    TRY(number_or(t, row, t->columns.magnification, NAN, &magnification, err));
    *ret_pixel_size = optics_pixel_size_of_detector(detector, magnification);
    return STATUS_OK;
}

enum status particle_check_pixel_size(double pixel_size, const char *path, struct err *err) {
    FAIL_IF(
        !(pixel_size > 0) || !isfinite(pixel_size), err, STATUS_BAD_FORMAT,
        "%s: the pixel size is not known: rlnImagePixelSize in the optics table, or session.pixel_size, was expected",
        path);
    return STATUS_OK;
}

/* Aberrations of the group, unless the rows have columns of theirs. */
static enum status read_aberrations(struct particle_table *t, size_t row, struct particle_row *r, struct err *err) {
    r->aberrations = r->group >= 0 ? &t->groups[r->group].aberrations : &t->aberrations;
    if (!t->rows_have_aberrations) return STATUS_OK;
    r->aberrations = &t->aberrations;
    return optics_aberrations_read(t->rows, row, t->path, &t->aberrations, err);
}

static enum status read_optics(struct particle_table *t, size_t row, struct particle_row *r, struct err *err) {
    double values[SHARED];
    TRY(find_group(t, row, &r->group, err));
    for (int i = 0; i < SHARED; i++) {
        values[i] = r->group >= 0 ? t->groups[r->group].values[i] : NAN;
        if (t->columns.shared[i] >= 0) TRY(read_shared(t, t->rows, row, t->columns.shared[i], &values[i], err));
    }
    FAIL_IF(!isnan(values[PREMULTIPLIED]) && values[PREMULTIPLIED] != 0, err, STATUS_UNSUPPORTED,
            "%s: particles that are multiplied by their CTF already cannot be compared: extract them without", t->path);
    const struct optics own = optics_of(values);
    double detector = NAN;
    if (isnan(own.pixel_size)) TRY(detector_pixel_size(t, row, &detector, err));
    r->optics = optics_of_particle(&own, detector, t->session_pixel_size, t->header_pixel_size);
    TRY(particle_check_pixel_size(r->optics.pixel_size, t->path, err));
    return read_aberrations(t, row, r, err);
}

enum status particle_table_row(struct particle_table *t, size_t row, struct particle_row *r, struct err *err) {
    const struct columns *c = &t->columns;
    TRY(read_optics(t, row, r, err));
    TRY(number_or(t, row, c->defocus_u, 0, &r->defocus_u, err));
    TRY(number_or(t, row, c->defocus_v, r->defocus_u, &r->defocus_v, err));
    TRY(number_or(t, row, c->defocus_angle, 0, &r->defocus_angle, err));
    TRY(number_or(t, row, c->phase_shift, 0, &r->phase_shift, err));
    TRY(number_or(t, row, c->b_factor, 0, &r->b_factor, err));
    TRY(number_or(t, row, c->scale, 1, &r->scale, err));
    /* Tables that were joined hold NaN in columns that only some of them had, or 0, as older versions wrote it. */
    if (r->scale == 0) r->scale = 1;
    bool known = !isnan(r->defocus_u) && !isnan(r->defocus_v) && !isnan(r->defocus_angle) && !isnan(r->phase_shift) &&
                 !isnan(r->b_factor) && !isnan(r->scale);
    r->has_ctf = known && r->defocus_u != 0;
    if (!known) r->defocus_u = r->defocus_v = r->defocus_angle = r->phase_shift = r->b_factor = 0;
    if (!known) r->scale = 1;
    return STATUS_OK;
}

enum status particle_table_bad_ctf(const struct particle_table *t, size_t row, const struct particle_row *r,
                                   struct err *err) {
    FAIL(err, STATUS_BAD_FORMAT,
         "%s, row %zu: its CTF (defocus %g and %g Å, %g kV, %g mm, amplitude contrast %g, B-factor %g Å²) is "
         "impossible for a microscope: correct the table",
         t->path, row + 1, r->defocus_u, r->defocus_v, r->optics.voltage, r->optics.spherical_aberration,
         r->optics.amplitude_contrast, r->b_factor);
}

enum status particle_check_box(int box, const char *path, struct err *err) {
    FAIL_IF(box % 2 != 0 || box < PARTICLE_BOX_LEAST || box > PARTICLE_BOX_MOST, err, STATUS_UNSUPPORTED,
            "%s: particles of %d px cannot be compared: the box must be even, at least %d px and at most %d px", path,
            box, PARTICLE_BOX_LEAST, PARTICLE_BOX_MOST);
    return STATUS_OK;
}
