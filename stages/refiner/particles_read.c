/* Reads STAR files into sets of their own: optics groups, stacks and rows. */
#include "stages/refiner/particles_private.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"
#include "common/together.h"
#include "stages/refiner/detectors.h"
#include "stages/refiner/given_poses.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/row_images.h"

struct reading {
    struct particle_set *set; /* empty at first; the file is its only source */
    const char *path;
    struct stack_headers *headers; /* of the set that the particles may join */
    struct particle_table *table;
    struct particle_places places;
    int subset, junk;           /* columns rlnRandomSubset, icestreamJunk; −1: absent */
    int *optics_map;            /* optics group of the table → index into set->optics; −1: not added yet */
    struct given_columns poses; /* if tables must give poses */
    struct row_images images;
    bool alike; /* rows of an optics group have the optics of the group, all of which are in the set */
};

static bool same_values(const struct particle_optics *o, const struct optics *values) {
    return optics_same_pixel_size(o->pixel_size, values->pixel_size) && o->voltage == values->voltage &&
           o->spherical_aberration == values->spherical_aberration &&
           o->amplitude_contrast == values->amplitude_contrast;
}

int particle_optics_find(const struct particle_set *set, const char *name, const struct optics *values,
                         const struct optics_aberrations *aberrations, const char *mtf, double mtf_pixel) {
    int found = 0;
    while (found < set->optics_count &&
           !(strcmp(set->optics[found].name, name) == 0 && same_values(&set->optics[found], values) &&
             optics_aberrations_same(&set->optics[found].aberrations, aberrations) &&
             optics_detector_is(set->optics[found].detector, mtf, mtf_pixel)))
        found++;
    return found;
}

/* Notes that row `group` of this file's optics table describes the optics. */
static void describe_optics(const struct reading *r, int group, int index) {
    r->set->optics[index].source = 0;
    r->set->optics[index].row = (size_t)group;
}

/* Finds the optics of that name and values in the set, or adds them. group: row of the file's optics table; −1: none.
 */
static enum status add_optics(struct reading *r, int group, const char *name, const struct optics *values,
                              const struct optics_aberrations *aberrations, int *ret_index, struct err *err) {
    struct particle_set *set = r->set;
    double detector_pixel = NAN;
    const char *mtf = group >= 0 ? particle_table_group_mtf(r->table, group, &detector_pixel) : NULL;
    int found = particle_optics_find(set, name, values, aberrations, mtf, detector_pixel);
    if (found == set->optics_count) {
        char *copy = NULL;
        struct aberration *even = NULL;
        struct optics_detector *detector = NULL;
        TRY(particle_text(name, &copy, err));
        enum status status = grids_even(aberrations, &even, err);
        if (status == STATUS_OK && mtf != NULL)
            status = detectors_find(set->root, r->path, mtf, detector_pixel, &detector, err);
        if (status == STATUS_OK)
            status = particle_list_append(&set->optics, &set->optics_count, sizeof *set->optics, err);
        if (status != STATUS_OK) {
            free(copy);
            free(even);
            optics_detector_destroy(&detector);
            return status;
        }
        set->optics[found] = (struct particle_optics){
            .name = copy,
            .source = -1,
            .pixel_size = values->pixel_size,
            .voltage = values->voltage,
            .spherical_aberration = values->spherical_aberration,
            .amplitude_contrast = values->amplitude_contrast,
            .aberrations = *aberrations,
            .even = even,
            .detector = detector,
        };
        if (group >= 0) describe_optics(r, group, found);
    }
    *ret_index = found;
    return STATUS_OK;
}

static enum status add_group(struct reading *r, int group, const struct optics *values,
                             const struct optics_aberrations *aberrations, struct err *err) {
    char own[32];
    const char *name = particle_table_group_name(r->table, group, own);
    return add_optics(r, group, name, values, aberrations, &r->optics_map[group], err);
}

/* All groups join the set in the order of their table, those without particles too: RELION numbers them so. */
static enum status add_groups(struct reading *r, struct err *err) {
    int count = particle_table_group_count(r->table);
    if (count == 0) return STATUS_OK;
    TRY(mem_new((size_t)count, sizeof *r->optics_map, "optics groups", &r->optics_map, err));
    for (int i = 0; i < count; i++)
        r->optics_map[i] = -1;
    for (int i = 0; i < count && !particle_table_rows_have_optics(r->table); i++) {
        const struct optics optics = particle_table_group_optics(r->table, i);
        if (particle_check_pixel_size(optics.pixel_size, r->path, NULL) == STATUS_OK)
            TRY(add_group(r, i, &optics, particle_table_group_aberrations(r->table, i), err));
    }
    return STATUS_OK;
}

/* Returns whether the optics that the group of the row had before are those of this row. Aberrations differ only where
 * rows have columns of theirs. */
static bool group_has(const struct reading *r, const struct particle_row *values, const struct particle_optics *o) {
    bool of_group = values->aberrations == particle_table_group_aberrations(r->table, values->group);
    return same_values(o, &values->optics) &&
           (of_group || optics_aberrations_same(&o->aberrations, values->aberrations));
}

static enum status optics_of_row(struct reading *r, const struct particle_row *values, int *ret_index,
                                 struct err *err) {
    if (values->group < 0)
        return add_optics(r, -1, "opticsGroup1", &values->optics, values->aberrations, ret_index, err);
    int *known = &r->optics_map[values->group];
    if (*known < 0 || !group_has(r, values, &r->set->optics[*known]))
        TRY(add_group(r, values->group, &values->optics, values->aberrations, err));
    describe_optics(r, values->group, *known);
    *ret_index = *known;
    return STATUS_OK;
}

const char *particle_name_below(const char *root, const char *path) {
    size_t length = root != NULL ? strlen(root) : 0;
    bool below = length > 0 && strncmp(path, root, length) == 0 && path[length] == '/';
    return below ? path + length + 1 : path;
}

int particle_stack_at(const struct particle_set *set, const char *path) {
    size_t step = 0;
    int index;
    uint32_t hash = names_hash(path);
    while ((index = names_next(&set->stack_paths, hash, &step)) >= 0)
        if (strcmp(set->stacks[index].path, path) == 0) return index;
    return -1;
}

/* Reads rows with what a reader of rows keeps from one to the next: one for each thread. */
struct row_reader {
    struct reading *reading;
    struct particle_table *table;
    struct particle_places places;
};

static enum status set_values(struct row_reader *reader, size_t row, struct particle *p, struct err *err) {
    struct reading *r = reader->reading;
    struct particle_row values;
    TRY(particle_table_row(reader->table, row, &values, err));
    if (r->alike)
        p->optics = r->optics_map[values.group];
    else
        TRY(optics_of_row(r, &values, &p->optics, err));
    const struct particle_optics *o = &r->set->optics[p->optics];
    p->has_ctf = values.has_ctf;
    p->place = particle_places_row(&reader->places, row, values.group, values.optics.pixel_size);
    p->ctf = (struct ctf){
        .defocus_u = values.defocus_u,
        .defocus_v = values.defocus_v,
        .defocus_angle = values.defocus_angle,
        .voltage = o->voltage,
        .spherical_aberration = o->spherical_aberration,
        .amplitude_contrast = o->amplitude_contrast,
        .phase_shift = values.phase_shift,
        .b_factor = values.b_factor,
        .scale = values.scale,
        .even = o->even,
    };
    return ctf_is_plausible(&p->ctf) ? STATUS_OK : particle_table_bad_ctf(r->table, row, &values, err);
}

/* Does what "%06d@%s" does. */
void particle_name_write(int number, const char *stack, char name[PATH_SIZE + 16]) {
    char digits[16];
    int count = 0;
    for (int rest = number; rest > 0 || count < 6; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    while (count > 0)
        *name++ = digits[--count];
    *name++ = '@';
    memcpy(name, stack, strlen(stack) + 1);
}

static enum status read_half(const struct reading *r, size_t row, struct particle *p, struct err *err) {
    long subset = 0;
    if (r->subset >= 0) TRY(star_get_integer(particle_table_rows(r->table), row, r->subset, &subset, err));
    p->half = -1; /* whoever takes the particle knows it by its name */
    if (subset == 1 || subset == 2) p->half = (int)subset - 1;
    p->own_half = p->half;
    return STATUS_OK;
}

static bool read_junk(const struct reading *r, size_t row) {
    double junk = 0;
    return r->junk >= 0 && star_get_number(particle_table_rows(r->table), row, r->junk, &junk, NULL) == STATUS_OK &&
           junk != 0;
}

static enum status read_row(struct row_reader *reader, size_t row, const struct row_image *image, struct err *err) {
    struct reading *r = reader->reading;
    char name[PATH_SIZE + 16];
    struct particle *p = &r->set->particles[image->particle];
    particle_name_write((int)image->number, r->set->stacks[image->stack].name, name);
    *p = (struct particle){.stack = image->stack,
                           .slice = (int)image->number - 1,
                           .row = row,
                           .norm = 1,
                           .reliability = 1,
                           .residual = -1,
                           .junk = read_junk(r, row),
                           .pose = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    TRY(particle_text(name, &p->name, err));
    TRY(read_half(r, row, p, err));
    return set_values(reader, row, p, err);
}

enum { PIECE_ROWS = 4096 };

static enum status read_piece(void *context, size_t index, struct err *err) {
    struct reading *r = context;
    _cleanup_(particle_table_close) struct particle_table *table = NULL;
    TRY(particle_table_share(r->table, &table, err));
    struct row_reader reader = {.reading = r, .table = table, .places = r->places};
    const size_t first = index * PIECE_ROWS, left = r->images.count - first;
    for (size_t row = first; row < first + (left < PIECE_ROWS ? left : PIECE_ROWS); row++)
        if (r->images.list[row].particle >= 0) TRY(read_row(&reader, row, &r->images.list[row], err));
    return STATUS_OK;
}

/* Reads the particles of the rows. Rows that have optics of their own are read one after the other, because they may
 * add optics groups. Names that are missing are NULL, so that a set that was not read whole can be destroyed. */
static enum status read_particles(struct reading *r, struct err *err) {
    struct particle_set *set = r->set;
    const size_t count = r->images.particles, pieces = (r->images.count + PIECE_ROWS - 1) / PIECE_ROWS;
    FAIL_IF((set->particles = calloc(count + 1, sizeof *set->particles)) == NULL, err, STATUS_NO_MEMORY,
            "no memory for %zu particles", count);
    set->count = set->capacity = count;
    TRY(work_together(pieces, r->alike ? TOGETHER_FILE : 1, read_piece, r, err));
    for (size_t i = 0; i < count; i++) {
        const struct particle *p = &set->particles[i];
        if (set->optics[p->optics].box == 0) set->optics[p->optics].box = set->stacks[p->stack].box;
    }
    if (r->images.failed != STATUS_OK && err != NULL) *err = r->images.why;
    return r->images.failed;
}

/* Counts the rows that name the image of an earlier row. */
static enum status count_repeated(struct reading *r, struct err *err) {
    struct particle_set *set = r->set;
    char name[PATH_SIZE + 16];
    if (set->count == r->images.count) return STATUS_OK;
    TRY(names_reserve(&set->particle_names, set->count, err));
    for (size_t i = 0; i < set->count; i++)
        TRY(names_put(&set->particle_names, names_hash(set->particles[i].name), (int)i, err));
    for (size_t row = 0; row < r->images.count; row++) {
        const struct row_image *image = &r->images.list[row];
        if (image->particle >= 0) continue;
        particle_name_write((int)image->number, set->stacks[image->stack].name, name);
        particle_find(set, name)->repeated++;
    }
    return STATUS_OK;
}

/* Finds the pixel size, which the header of the first stack may have to tell. */
static enum status read_first(struct reading *r, struct err *err) {
    struct particle_row values;
    const struct particle_stack *s = &r->set->stacks[r->images.list[0].stack];
    const struct particle_stack_header header = {.images = s->images, .pixel_size = s->pixel_size};
    particle_table_note_stack(r->table, &header);
    TRY(particle_table_row(r->table, 0, &values, err));
    TRY(add_groups(r, err));
    r->alike =
        particle_table_groups_have_optics(r->table) && r->set->optics_count == particle_table_group_count(r->table);
    return STATUS_OK;
}

/* Reads poses only to check them: the set that the particles join has a grid of its own. */
static enum status check_poses(struct reading *r, struct err *err) {
    const struct star_table *rows = particle_table_rows(r->table);
    _cleanup_(mem_free) int *all = NULL;
    if (!r->set->poses_given) return STATUS_OK;
    TRY(mem_new_unset(r->set->count, sizeof *all, "particles", &all, err));
    for (size_t i = 0; i < r->set->count; i++)
        all[i] = (int)i;
    return given_poses_take(r->set, all, r->set->count, rows, &r->poses, r->path, err);
}

static enum status read_rows(struct reading *r, struct err *err) {
    struct particle_set *set = r->set;
    struct star_file *file = set->sources[0].file;
    TRY(particle_table_open(file, r->path, set->fallback_pixel_size, set->ignore_optics, &r->table, err));
    const struct star_table *rows = particle_table_rows(r->table);
    size_t count = star_row_count(rows);
    r->subset = star_column_find(rows, "rlnRandomSubset");
    r->junk = star_column_find(rows, "icestreamJunk");
    particle_places_open(rows, star_table_find(file, "optics"), &r->places);
    if (count == 0) return STATUS_OK;
    if (set->poses_given) TRY(given_poses_find(rows, r->path, &r->poses, err));
    TRY(row_images_find(set, r->table, r->path, r->headers, &r->images, err));
    if (r->images.count > 0) TRY(read_first(r, err));
    TRY(read_particles(r, err));
    TRY(count_repeated(r, err));
    TRY(grids_settle(set, NULL, 0, err));
    return check_poses(r, err);
}

static enum status read_file(struct particle_set *set, struct stack_headers *headers, struct err *err) {
    struct reading r = {.set = set, .headers = headers, .path = set->sources[0].path};
    enum status status = read_rows(&r, err);
    free(r.optics_map);
    row_images_clear(&r.images);
    particle_table_close(&r.table);
    return status;
}

/* Creates an empty set with the settings of another one, and with a source whose file is still missing. */
static enum status create_like(const struct particle_set *like, const char *path, struct particle_set **ret_set,
                               struct err *err) {
    _cleanup_(particle_set_free) struct particle_set *set = NULL;
    TRY(mem_new(1, sizeof *set, "particles", &set, err));
    particle_set_init(set, like->seed, 0, like->fallback_pixel_size);
    set->ignore_optics = like->ignore_optics;
    set->poses_given = like->poses_given;
    if (like->root != NULL) TRY(particle_text(like->root, &set->root, err));
    TRY(particle_list_append(&set->sources, &set->source_count, sizeof *set->sources, err));
    TRY(particle_text(path, &set->sources[0].path, err));
    *ret_set = set;
    set = NULL;
    return STATUS_OK;
}

enum status particle_set_read(const struct particle_set *set, struct star_file **file, const char *path,
                              struct particle_set **ret_read, struct err *err) {
    struct particle_set *read = NULL;
    enum status status = create_like(set, path, &read, err);
    if (status != STATUS_OK) {
        star_destroy(file);
        return status;
    }
    read->sources[0].file = *file;
    *file = NULL;
    status = read_file(read, set->headers, err);
    if (status == STATUS_OK)
        *ret_read = read;
    else
        particle_set_free(&read);
    return status;
}

enum status particle_set_try(const struct particle_set *set, struct star_file **file, const char *path,
                             struct err *err) {
    struct particle_set *read = NULL;
    TRY(create_like(set, path, &read, err));
    read->sources[0].file = *file;
    enum status status = read_file(read, set->headers, err);
    read->sources[0].file = NULL;
    particle_set_free(&read);
    return status;
}
