#include "stages/classifier/dataset.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/memory.h"

struct dataset {
    pthread_mutex_t lock; /* pending, and the shape that batches must have */
    struct dataset_batch **pending;
    size_t pending_count, pending_capacity, pending_particles;
    int box;
    double pixel_size;

    struct dataset_batch **batches;
    size_t batch_count, batch_capacity;
    struct dataset_particle *particles;
    size_t count, capacity;
    size_t memory_limit, memory_used;
    double strongest;          /* mean square of an image's values that is still believed; 0: not known yet */
    struct mrc_reader *reader; /* the stack that was read last */
    int reader_batch, reader_stack;
};

static enum status grow(void **array, size_t *capacity, size_t wanted, size_t size, struct err *err) {
    if (wanted <= *capacity) return STATUS_OK;
    size_t next = *capacity < 64 ? 64 : *capacity;
    while (next < wanted)
        next *= 2;
    void *moved = realloc(*array, next * size);
    FAIL_IF(moved == NULL, err, STATUS_NO_MEMORY, "no memory for %zu particles", next);
    *array = moved;
    *capacity = next;
    return STATUS_OK;
}

void dataset_batch_destroy(struct dataset_batch **batch) {
    if (batch == NULL || *batch == NULL) return;
    struct dataset_batch *b = *batch;
    star_destroy(&b->file);
    for (int i = 0; i < b->stack_count; i++)
        free(b->stacks[i].path);
    free(b->stacks);
    free(b->particles);
    free(b);
    *batch = NULL;
}

/* NaN where there is such a column and no number in it. */
static double number_or(const struct star_table *table, size_t row, const char *name, double fallback) {
    int column = table != NULL ? star_column_find(table, name) : -1;
    double value;
    if (column < 0) return fallback;
    return star_get_number(table, row, column, &value, NULL) == STATUS_OK ? value : NAN;
}

/* The row of the optics table with that row's group number; -1: there is no such table. */
static enum status find_optics(const struct dataset_batch *batch, const char *star_path, size_t row, int *ret_row,
                               struct err *err) {
    *ret_row = -1;
    if (batch->optics == NULL || star_row_count(batch->optics) == 0) return STATUS_OK;
    int column = star_column_find(batch->table, "rlnOpticsGroup");
    *ret_row = 0;
    if (column < 0) return STATUS_OK;
    double group = number_or(batch->table, row, "rlnOpticsGroup", 1);
    for (size_t i = 0; i < star_row_count(batch->optics); i++)
        if (number_or(batch->optics, i, "rlnOpticsGroup", 1) == group) {
            *ret_row = (int)i;
            return STATUS_OK;
        }
    FAIL(err, STATUS_BAD_FORMAT, "%s: row %zu is of optics group %.40s, which its optics table does not have",
         star_path, row + 1, star_get(batch->table, row, column));
}

/* From the optics table, else (older files) from the row itself. */
static double shared_value(const struct dataset_batch *batch, size_t row, int optics, const char *name,
                           double fallback) {
    if (optics >= 0 && star_column_find(batch->optics, name) >= 0)
        return number_or(batch->optics, (size_t)optics, name, fallback);
    return number_or(batch->table, row, name, fallback);
}

static enum status read_ctf(const struct dataset_batch *batch, const char *star_path, size_t row,
                            struct dataset_particle *p, struct err *err) {
    double u = number_or(batch->table, row, "rlnDefocusU", 0);
    p->has_ctf = u != 0;
    p->ctf = (struct ctf){
        .defocus_u = u,
        .defocus_v = number_or(batch->table, row, "rlnDefocusV", u),
        .defocus_angle = number_or(batch->table, row, "rlnDefocusAngle", 0),
        .voltage = shared_value(batch, row, p->optics, "rlnVoltage", 300),
        .spherical_aberration = shared_value(batch, row, p->optics, "rlnSphericalAberration", 2.7),
        .amplitude_contrast = shared_value(batch, row, p->optics, "rlnAmplitudeContrast", 0.1),
        .phase_shift = number_or(batch->table, row, "rlnPhaseShift", 0),
        .b_factor = number_or(batch->table, row, "rlnCtfBfactor", 0),
        .scale = number_or(batch->table, row, "rlnCtfScalefactor", 1),
    };
    if (p->ctf.scale == 0) p->ctf.scale = 1;
    FAIL_IF(!ctf_is_plausible(&p->ctf), err, STATUS_BAD_FORMAT,
            "%s, row %zu: its CTF (defocus %g and %g Å, %g kV, %g mm, amplitude contrast %g, B-factor %g Å²) is none "
            "that a microscope can have: correct the table",
            star_path, row + 1, u, p->ctf.defocus_v, p->ctf.voltage, p->ctf.spherical_aberration,
            p->ctf.amplitude_contrast, p->ctf.b_factor);
    return STATUS_OK;
}

/* From the optics table or the row; before RELION 3.1 the detector's pixel, in µm, over the magnification. */
static double pixel_size_of(const struct dataset_batch *batch, size_t row, int optics, double fallback) {
    double detector = number_or(batch->table, row, "rlnDetectorPixelSize", 0);
    double magnification = number_or(batch->table, row, "rlnMagnification", 0);
    if (detector > 0 && magnification > 0) fallback = 1e4 * detector / magnification;
    return shared_value(batch, row, optics, "rlnImagePixelSize", fallback);
}

static bool same_pixel_size(double a, double b) {
    return fabs(a / b - 1) <= 0.01;
}

/* Index of the stack of that name in the batch; opened once to see that it is there and what size it has. */
static enum status find_stack(struct dataset_batch *batch, const char *star_path, const char *name,
                              dataset_resolve *resolve, void *context, int *ret_stack, struct err *err) {
    char path[PATH_MAX];
    TRY(resolve(context, star_path, name, path, err));
    for (int i = batch->stack_count - 1; i >= 0; i--)
        if (strcmp(batch->stacks[i].path, path) == 0) {
            *ret_stack = i;
            return STATUS_OK;
        }
    struct mrc_header header;
    TRY(mrc_read_header(path, &header, err));
    FAIL_IF(header.nx != header.ny, err, STATUS_BAD_FORMAT, "%s: particle images must be square, these are %d × %d px",
            path, header.nx, header.ny);
    FAIL_IF(header.nx % 2 != 0 || header.nx < DATASET_BOX_MIN || header.nx > DATASET_BOX_MAX, err, STATUS_UNSUPPORTED,
            "%s: particles of %d px cannot be classified: the box must be even, and between %d and %d px", path,
            header.nx, DATASET_BOX_MIN, DATASET_BOX_MAX);
    FAIL_IF(batch->box != 0 && header.nx != batch->box, err, STATUS_BAD_FORMAT,
            "%s: images of %d px among others of %d px; extract all with one box", path, header.nx, batch->box);
    batch->box = header.nx;
    if (batch->pixel_size <= 0) batch->pixel_size = header.pixel_size;
    struct dataset_stack *stacks = realloc(batch->stacks, ((size_t)batch->stack_count + 1) * sizeof *stacks);
    FAIL_IF(stacks == NULL, err, STATUS_NO_MEMORY, "no memory for the names of stacks");
    batch->stacks = stacks;
    stacks[batch->stack_count] = (struct dataset_stack){.path = strdup(path), .slices = header.nz};
    FAIL_IF(stacks[batch->stack_count].path == NULL, err, STATUS_NO_MEMORY, "no memory for the names of stacks");
    *ret_stack = batch->stack_count++;
    return STATUS_OK;
}

/* Optics group, pixel size and CTF. fallback: Å/px where the table does not say; NaN: what the stack's header says. */
static enum status read_optics(struct dataset_batch *batch, const char *star_path, size_t row, double fallback,
                               struct dataset_particle *p, struct err *err) {
    TRY(find_optics(batch, star_path, row, &p->optics, err));
    p->pixel_size = pixel_size_of(batch, row, p->optics, isnan(fallback) ? batch->pixel_size : fallback);
    FAIL_IF(
        !(p->pixel_size > 0) || !isfinite(p->pixel_size), err, STATUS_BAD_FORMAT,
        "%s: the pixel size is not known: rlnImagePixelSize in the optics table, or session.pixel_size, was expected",
        star_path);
    if (row == 0) batch->pixel_size = p->pixel_size;
    FAIL_IF(!same_pixel_size(p->pixel_size, batch->pixel_size), err, STATUS_BAD_FORMAT,
            "%s, row %zu: particles of %.4g Å/px among others of %.4g Å/px: one classification needs one pixel size",
            star_path, row + 1, p->pixel_size, batch->pixel_size);
    FAIL_IF(shared_value(batch, row, p->optics, "rlnCtfDataAreCtfPremultiplied", 0) != 0, err, STATUS_UNSUPPORTED,
            "%s: particles that are multiplied by their CTF already cannot be classified: extract them without",
            star_path);
    return read_ctf(batch, star_path, row, p, err);
}

static enum status read_rows(struct dataset_batch *batch, const char *star_path, dataset_resolve *resolve,
                             void *context, double fallback, struct err *err) {
    int image, stack = -1;
    char last[PATH_MAX] = "";
    TRY(star_column_need(batch->table, "rlnImageName", &image, err));
    for (size_t row = 0; row < batch->count; row++) {
        struct dataset_particle *p = &batch->particles[row];
        const char *name = star_get(batch->table, row, image), *at = strchr(name, '@');
        char *end;
        long slice = strtol(name, &end, 10);
        FAIL_IF(at == NULL || end != at || at[1] == '\0' || slice < 1, err, STATUS_BAD_FORMAT,
                "%s, row %zu: rlnImageName is \"%s\"; \"NNNNNN@stack.mrcs\" with a number from 1 was expected",
                star_path, row + 1, name);
        if (strcmp(last, at + 1) != 0) {
            snprintf(last, sizeof last, "%s", at + 1);
            TRY(find_stack(batch, star_path, last, resolve, context, &stack, err));
        }
        FAIL_IF(slice > batch->stacks[stack].slices, err, STATUS_BAD_FORMAT,
                "%s, row %zu: image %ld was asked for, but %s holds %d", star_path, row + 1, slice,
                batch->stacks[stack].path, batch->stacks[stack].slices);
        *p = (struct dataset_particle){
            .row = (int)row, .stack = stack, .slice = (int)slice - 1, .class_index = -1, .norm = 1};
        TRY(read_optics(batch, star_path, row, fallback, p, err));
    }
    return STATUS_OK;
}

enum status dataset_batch_read(const char *star_path, dataset_resolve *resolve, void *context, double fallback,
                               struct dataset_batch **ret_batch, struct err *err) {
    _cleanup_(dataset_batch_destroy) struct dataset_batch *batch = calloc(1, sizeof *batch);
    FAIL_IF(batch == NULL, err, STATUS_NO_MEMORY, "no memory for a table of particles");
    TRY(star_read(star_path, &batch->file, err));
    batch->optics = star_table_find(batch->file, "optics");
    batch->table = star_table_find(batch->file, "particles");
    for (size_t i = 0; batch->table == NULL && i < star_table_count(batch->file); i++)
        if (star_column_find(star_table_at(batch->file, i), "rlnImageName") >= 0)
            batch->table = star_table_at(batch->file, i);
    FAIL_IF(batch->table == NULL, err, STATUS_BAD_FORMAT, "%s: no table of particles (column rlnImageName) in it",
            star_path);
    batch->count = star_row_count(batch->table);
    batch->particles = calloc(batch->count + 1, sizeof *batch->particles);
    FAIL_IF(batch->particles == NULL, err, STATUS_NO_MEMORY, "no memory for %zu particles", batch->count);
    TRY(read_rows(batch, star_path, resolve, context, fallback, err));
    *ret_batch = batch;
    batch = NULL;
    return STATUS_OK;
}

enum status dataset_create(size_t memory_limit, struct dataset **ret_dataset, struct err *err) {
    struct dataset *dataset = calloc(1, sizeof *dataset);
    FAIL_IF(dataset == NULL, err, STATUS_NO_MEMORY, "no memory for particles");
    if (pthread_mutex_init(&dataset->lock, NULL) != 0) {
        free(dataset);
        FAIL(err, STATUS_NO_MEMORY, "no memory for a lock");
    }
    dataset->memory_limit = memory_limit;
    *ret_dataset = dataset;
    return STATUS_OK;
}

void dataset_destroy(struct dataset **dataset) {
    if (dataset == NULL || *dataset == NULL) return;
    struct dataset *d = *dataset;
    for (size_t i = 0; i < d->pending_count; i++)
        dataset_batch_destroy(&d->pending[i]);
    for (size_t i = 0; i < d->batch_count; i++)
        dataset_batch_destroy(&d->batches[i]);
    for (size_t i = 0; i < d->count; i++)
        free(d->particles[i].image);
    mrc_close(&d->reader);
    pthread_mutex_destroy(&d->lock);
    free(d->pending);
    free(d->batches);
    free(d->particles);
    free(d);
    *dataset = NULL;
}

static enum status submit_locked(struct dataset *d, struct dataset_batch **batch, struct err *err) {
    struct dataset_batch *b = *batch;
    FAIL_IF(d->box != 0 && b->box != d->box, err, STATUS_BAD_FORMAT,
            "particles of %d px came after particles of %d px: one classification needs one box", b->box, d->box);
    FAIL_IF(d->box != 0 && !same_pixel_size(b->pixel_size, d->pixel_size), err, STATUS_BAD_FORMAT,
            "particles of %.4g Å/px came after particles of %.4g Å/px: one classification needs one pixel size",
            b->pixel_size, d->pixel_size);
    TRY(grow((void **)&d->pending, &d->pending_capacity, d->pending_count + 1, sizeof *d->pending, err));
    if (d->box == 0) {
        d->box = b->box;
        d->pixel_size = b->pixel_size;
    }
    d->pending[d->pending_count++] = b;
    d->pending_particles += b->count;
    *batch = NULL;
    return STATUS_OK;
}

enum status dataset_submit(struct dataset *dataset, struct dataset_batch **batch, struct err *err) {
    if ((*batch)->count == 0) {
        dataset_batch_destroy(batch);
        return STATUS_OK;
    }
    pthread_mutex_lock(&dataset->lock);
    enum status status = submit_locked(dataset, batch, err);
    pthread_mutex_unlock(&dataset->lock);
    return status;
}

size_t dataset_waiting(struct dataset *dataset) {
    pthread_mutex_lock(&dataset->lock);
    size_t waiting = dataset->pending_particles;
    pthread_mutex_unlock(&dataset->lock);
    return waiting;
}

static enum status merge_locked(struct dataset *d, struct err *err) {
    TRY(grow((void **)&d->batches, &d->batch_capacity, d->batch_count + d->pending_count, sizeof *d->batches, err));
    TRY(grow((void **)&d->particles, &d->capacity, d->count + d->pending_particles, sizeof *d->particles, err));
    for (size_t i = 0; i < d->pending_count; i++) {
        struct dataset_batch *b = d->pending[i];
        memcpy(d->particles + d->count, b->particles, b->count * sizeof *b->particles);
        for (size_t p = 0; p < b->count; p++)
            d->particles[d->count + p].batch = (int)d->batch_count;
        d->count += b->count;
        free(b->particles);
        b->particles = NULL;
        d->batches[d->batch_count++] = b;
    }
    d->pending_count = d->pending_particles = 0;
    return STATUS_OK;
}

enum status dataset_merge(struct dataset *dataset, size_t *ret_added, struct err *err) {
    pthread_mutex_lock(&dataset->lock);
    size_t before = dataset->count;
    enum status status = merge_locked(dataset, err);
    pthread_mutex_unlock(&dataset->lock);
    if (status == STATUS_OK && ret_added != NULL) *ret_added = dataset->count - before;
    return status;
}

size_t dataset_count(const struct dataset *dataset) {
    return dataset->count;
}

int dataset_box(const struct dataset *dataset) {
    return dataset->box;
}

double dataset_pixel_size(const struct dataset *dataset) {
    return dataset->pixel_size;
}

struct dataset_particle *dataset_at(struct dataset *dataset, size_t index) {
    return &dataset->particles[index];
}

static double mean_square(const float *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sum / (double)count;
}

/* What says nothing is all zeros. */
static void check_values(const struct dataset *d, struct dataset_particle *p, float *image) {
    size_t pixels = (size_t)d->box * (size_t)d->box;
    bool fits = image_values_fit(image, pixels);
    p->unusable = p->unusable || !fits || (d->strongest > 0 && mean_square(image, pixels) > d->strongest);
    if (p->unusable) memset(image, 0, pixels * sizeof *image);
}

enum status dataset_image(struct dataset *d, size_t index, float *scratch, const float **ret_image, struct err *err) {
    struct dataset_particle *p = &d->particles[index];
    if (p->image != NULL) {
        *ret_image = p->image;
        return STATUS_OK;
    }
    if (d->reader == NULL || d->reader_batch != p->batch || d->reader_stack != p->stack) {
        mrc_close(&d->reader);
        TRY(mrc_open(d->batches[p->batch]->stacks[p->stack].path, &d->reader, err));
        d->reader_batch = p->batch;
        d->reader_stack = p->stack;
    }
    const struct mrc_header *header = mrc_reader_header(d->reader);
    FAIL_IF(header->nx != d->box || header->ny != d->box, err, STATUS_BAD_FORMAT,
            "%s has images of %d × %d px; they were of %d px when they joined: another file has taken its place",
            d->batches[p->batch]->stacks[p->stack].path, header->nx, header->ny, d->box);
    size_t pixels = (size_t)d->box * (size_t)d->box;
    float *image = NULL;
    if (d->memory_used + pixels * sizeof *image <= d->memory_limit) image = mem_aligned(pixels, sizeof *image);
    float *to = image != NULL ? image : scratch;
    enum status status = mrc_read_slices(d->reader, p->slice, 1, to, err);
    if (status != STATUS_OK) {
        free(image);
        return status;
    }
    check_values(d, p, to);
    if (image != NULL) d->memory_used += pixels * sizeof *image;
    p->image = image;
    *ret_image = to;
    return STATUS_OK;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum status dataset_judge(struct dataset *d, const size_t *which, size_t count, struct err *err) {
    static const double STRONGEST = 1e4; /* of mean squares */
    size_t pixels = (size_t)d->box * (size_t)d->box, usable = 0;
    _cleanup_(mem_free) double *squares = NULL;
    _cleanup_(mem_free) float *scratch = NULL;
    TRY(mem_new(count, sizeof *squares, "particles", &squares, err));
    TRY(mem_new(pixels, sizeof *scratch, "a particle", &scratch, err));
    for (size_t i = 0; i < count; i++) {
        const float *image = NULL;
        TRY(dataset_image(d, which[i], scratch, &image, err));
        if (!d->particles[which[i]].unusable) squares[usable++] = mean_square(image, pixels);
    }
    qsort(squares, usable, sizeof *squares, by_size);
    d->strongest = usable > 0 ? STRONGEST * squares[usable / 2] : 0;
    for (size_t i = 0; i < d->count; i++)
        if (d->particles[i].image != NULL) check_values(d, &d->particles[i], d->particles[i].image);
    return STATUS_OK;
}

const struct star_table *dataset_row(const struct dataset *dataset, size_t index, size_t *ret_row) {
    const struct dataset_particle *p = &dataset->particles[index];
    *ret_row = (size_t)p->row;
    return dataset->batches[p->batch]->table;
}

const struct star_table *dataset_optics(const struct dataset *dataset, size_t index, size_t *ret_row) {
    const struct dataset_particle *p = &dataset->particles[index];
    *ret_row = p->optics < 0 ? 0 : (size_t)p->optics;
    return p->optics < 0 ? NULL : dataset->batches[p->batch]->optics;
}

const char *dataset_stack(const struct dataset *dataset, size_t index) {
    const struct dataset_particle *p = &dataset->particles[index];
    return dataset->batches[p->batch]->stacks[p->stack].path;
}
