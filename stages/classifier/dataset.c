#include "stages/classifier/dataset_private.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image.h"
#include "common/formats/particle_table.h"
#include "common/memory.h"
#include "common/names.h"

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
    ways_destroy(&b->ways);
    free(b->particles);
    free(b->source);
    free(b->id);
    free(b);
    *batch = NULL;
}

enum status dataset_batch_name(struct dataset_batch *batch, const char *source, const char *id, struct err *err) {
    free(batch->source);
    free(batch->id);
    batch->source = strdup(source);
    batch->id = strdup(id);
    FAIL_IF(batch->source == NULL || batch->id == NULL, err, STATUS_NO_MEMORY, "no memory for the name of an item");
    return STATUS_OK;
}

static enum status add_stack(struct dataset_batch *batch, const char *path, const struct particle_stack_header *header,
                             struct err *err) {
    struct dataset_stack *stacks = realloc(batch->stacks, ((size_t)batch->stack_count + 1) * sizeof *stacks);
    FAIL_IF(stacks == NULL, err, STATUS_NO_MEMORY, "no memory for the names of stacks");
    batch->stacks = stacks;
    stacks[batch->stack_count] =
        (struct dataset_stack){.path = strdup(path), .box = header->box, .slices = header->images};
    FAIL_IF(stacks[batch->stack_count].path == NULL, err, STATUS_NO_MEMORY, "no memory for the names of stacks");
    batch->stack_count++;
    return STATUS_OK;
}

struct reading {
    struct dataset_batch *batch;
    struct particle_table *table;
    const char *star_path;
    dataset_resolve *resolve;
    void *context;
    struct optics_detector **detectors; /* of each optics group; NULL: it names no MTF */
    struct names stacks;                /* finds the stacks of the batch by their paths */
};

/* Finds the stack in the batch, or adds it. The header of a new stack is read once. */
static enum status find_stack(struct reading *r, const char *name, int *ret_stack, struct err *err) {
    struct dataset_batch *batch = r->batch;
    char path[PATH_MAX];
    TRY(r->resolve(r->context, r->star_path, name, path, err));
    size_t step = 0;
    uint32_t hash = names_hash(path);
    int known;
    while ((known = names_next(&r->stacks, hash, &step)) >= 0)
        if (strcmp(batch->stacks[known].path, path) == 0) {
            *ret_stack = known;
            return STATUS_OK;
        }
    struct particle_stack_header header;
    TRY(particle_stack_read(path, &header, err));
    TRY(particle_check_box(header.box, path, err));
    particle_table_note_stack(r->table, &header);
    TRY(add_stack(batch, path, &header, err));
    TRY(names_put(&r->stacks, hash, batch->stack_count - 1, err));
    *ret_stack = batch->stack_count - 1;
    return STATUS_OK;
}

static enum status read_values(struct reading *r, size_t row, struct dataset_particle *p, struct err *err) {
    struct particle_row values;
    TRY(particle_table_row(r->table, row, &values, err));
    p->optics = values.group;
    p->image_box = r->batch->stacks[p->stack].box;
    p->pixel_size = values.optics.pixel_size;
    p->has_ctf = p->uses_ctf = values.has_ctf;
    const struct way way = {.box = p->image_box,
                            .pixel_size = values.optics.pixel_size,
                            .voltage = values.optics.voltage,
                            .spherical_aberration = values.optics.spherical_aberration,
                            .amplitude_contrast = values.optics.amplitude_contrast,
                            .detector = values.group >= 0 ? r->detectors[values.group] : NULL,
                            .aberrations = *values.aberrations,
                            .particles = 1};
    TRY(ways_find(&r->batch->ways, &way, &p->way, err));
    p->ctf = (struct ctf){
        .defocus_u = values.defocus_u,
        .defocus_v = values.defocus_v,
        .defocus_angle = values.defocus_angle,
        .voltage = values.optics.voltage,
        .spherical_aberration = values.optics.spherical_aberration,
        .amplitude_contrast = values.optics.amplitude_contrast,
        .phase_shift = values.phase_shift,
        .b_factor = values.b_factor,
        .scale = values.scale,
    };
    return ctf_is_plausible(&p->ctf) ? STATUS_OK : particle_table_bad_ctf(r->table, row, &values, err);
}

/* Rows of one stack follow each other: a name is looked up when it changes. */
static enum status read_rows(struct reading *r, struct err *err) {
    struct dataset_batch *batch = r->batch;
    const char *last = "";
    int stack = -1;
    for (size_t row = 0; row < batch->count; row++) {
        struct particle_image image;
        TRY(particle_table_image(r->table, row, &image, err));
        if (strcmp(last, image.stack) != 0) TRY(find_stack(r, image.stack, &stack, err));
        last = image.stack;
        const struct dataset_stack *s = &batch->stacks[stack];
        TRY(particle_table_check_image(r->table, row, &image, s->path, s->slices, err));
        batch->particles[row] = (struct dataset_particle){
            .row = (int)row, .stack = stack, .slice = (int)image.number - 1, .class_index = -1, .norm = 1};
        TRY(read_values(r, row, &batch->particles[row], err));
    }
    return STATUS_OK;
}

/* A file that cannot be found, or read, is no error of the table. */
static enum status find_detectors(struct reading *r, struct err *err) {
    int count = particle_table_group_count(r->table);
    TRY(mem_new((size_t)count + 1, sizeof *r->detectors, "detectors", &r->detectors, err));
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        double pixel_size = NAN;
        const char *name = particle_table_group_mtf(r->table, i, &pixel_size);
        if (name == NULL) continue;
        bool found = r->resolve(r->context, r->star_path, name, path, NULL) == STATUS_OK;
        TRY(optics_detector_create(name, found ? path : NULL, pixel_size, &r->detectors[i], err));
    }
    return STATUS_OK;
}

static void free_detectors(struct reading *r) {
    for (int i = 0; r->detectors != NULL && i < particle_table_group_count(r->table); i++)
        optics_detector_destroy(&r->detectors[i]);
    mem_free(&r->detectors);
}

enum status dataset_batch_read(const char *star_path, dataset_resolve *resolve, void *context, double fallback,
                               bool ignore_optics, struct dataset_batch **ret_batch, struct err *err) {
    _cleanup_(particle_table_close) struct particle_table *table = NULL;
    _cleanup_(dataset_batch_destroy) struct dataset_batch *batch = calloc(1, sizeof *batch);
    FAIL_IF(batch == NULL, err, STATUS_NO_MEMORY, "no memory for a table of particles");
    TRY(star_read(star_path, &batch->file, err));
    TRY(particle_table_open(batch->file, star_path, fallback, ignore_optics, &table, err));
    batch->table = particle_table_rows(table);
    batch->optics = star_table_find(batch->file, "optics");
    batch->count = star_row_count(batch->table);
    batch->particles = calloc(batch->count + 1, sizeof *batch->particles);
    FAIL_IF(batch->particles == NULL, err, STATUS_NO_MEMORY, "no memory for %zu particles", batch->count);
    struct reading reading = {
        .batch = batch, .table = table, .star_path = star_path, .resolve = resolve, .context = context};
    enum status status = find_detectors(&reading, err);
    if (status == STATUS_OK) status = read_rows(&reading, err);
    free_detectors(&reading);
    names_destroy(&reading.stacks);
    TRY(status);
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
    enum status status = stack_reader_create(NULL, &dataset->reader, err);
    if (status != STATUS_OK) {
        dataset_destroy(&dataset);
        return status;
    }
    dataset->memory_limit = memory_limit;
    *ret_dataset = dataset;
    return STATUS_OK;
}

enum status dataset_read_ahead(struct dataset *d, int threads, size_t bytes, struct shards *cache, struct err *err) {
    struct stack_reader *reader = NULL;
    TRY(stack_reader_create(cache, &reader, err));
    stack_reader_destroy(&d->reader);
    d->reader = reader;
    const struct ahead_owner owner = {.look = dataset_look, .make = dataset_make, .context = d};
    return ahead_create(threads, bytes, cache, &owner, &d->ahead, err);
}

void dataset_cut(struct dataset *d, double finest) {
    d->finest = finest;
}

void dataset_kept_by(struct dataset *d, dataset_keeps *keeps, const void *context) {
    d->keeps = keeps;
    d->keeper = context;
}

void dataset_expect(struct dataset *d, const size_t *which, size_t count, const size_t *next, size_t next_count) {
    if (d->ahead == NULL || d->in_memory == d->count) return;
    dataset_foresee(d, which, count, next, next_count);
    ahead_expect(d->ahead, which, count, next, next_count);
}

void dataset_reads(struct dataset *d, struct stack_reads *ret_ahead, struct stack_reads *ret_asked) {
    *ret_ahead = d->ahead != NULL ? ahead_reads(d->ahead) : (struct stack_reads){0};
    *ret_asked = stack_reader_reads(d->reader);
}

void dataset_destroy(struct dataset **dataset) {
    if (dataset == NULL || *dataset == NULL) return;
    struct dataset *d = *dataset;
    ahead_destroy(&d->ahead);
    for (size_t i = 0; i < d->pending_count; i++)
        dataset_batch_destroy(&d->pending[i]);
    for (size_t i = 0; i < d->batch_count; i++)
        dataset_batch_destroy(&d->batches[i]);
    if (d->pool == NULL) /* else the pool has them */
        for (size_t i = 0; i < d->count; i++)
            free(d->particles[i].image);
    image_pool_destroy(&d->pool);
    image_check_destroy(&d->check);
    stack_reader_destroy(&d->reader);
    ways_destroy(&d->ways);
    regrid_destroy(&d->cut);
    free(d->whole);
    free(d->given);
    pthread_mutex_destroy(&d->lock);
    free(d->pending);
    free(d->batches);
    free(d->particles);
    free(d);
    *dataset = NULL;
}

static enum status submit_locked(struct dataset *d, struct dataset_batch **batch, struct err *err) {
    struct dataset_batch *b = *batch;
    TRY(grow((void **)&d->pending, &d->pending_capacity, d->pending_count + 1, sizeof *d->pending, err));
    if (d->submitted_box == 0) ways_most(&b->ways, &d->submitted_box, &d->submitted_pixel_size);
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

static bool has_grid(const struct dataset_batch *b, int box, double pixel_size) {
    for (int i = 0; i < b->ways.count; i++)
        if (b->ways.list[i]->box == box && optics_same_pixel_size(b->ways.list[i]->pixel_size, pixel_size)) return true;
    return false;
}

void dataset_keep_grid(struct dataset *d, int box, double pixel_size) {
    pthread_mutex_lock(&d->lock);
    bool known = false;
    for (size_t i = 0; i < d->pending_count && !known; i++)
        known = has_grid(d->pending[i], box, pixel_size);
    if (known && d->box == 0) {
        d->submitted_box = box;
        d->submitted_pixel_size = pixel_size;
    }
    pthread_mutex_unlock(&d->lock);
}

/* Takes the ways of a batch over for its particles, which lie from `first` on. */
static enum status merge_ways(struct dataset *d, const struct dataset_batch *b, size_t first, struct err *err) {
    _cleanup_(mem_free) int *to = NULL;
    TRY(mem_new((size_t)b->ways.count, sizeof *to, "the optics of particles", &to, err));
    for (int i = 0; i < b->ways.count; i++) {
        enum status status = ways_find(&d->ways, b->ways.list[i], &to[i], err);
        if (status == STATUS_OK) continue;
        while (i-- > 0) /* the batch comes again */
            d->ways.list[to[i]]->particles -= b->ways.list[i]->particles;
        return status;
    }
    for (size_t i = first; i < first + b->count; i++) {
        struct dataset_particle *p = &d->particles[i];
        p->way = to[p->way];
        p->pixel_size = d->pixel_size;
        p->uses_ctf = way_complete_ctf(d->ways.list[p->way], d->box, p->pixel_size, p->has_ctf, &p->ctf);
    }
    return STATUS_OK;
}

/* Adds one batch, for which there is room. */
static enum status merge_batch(struct dataset *d, struct dataset_batch *b, struct err *err) {
    memcpy(d->particles + d->count, b->particles, b->count * sizeof *b->particles);
    for (size_t p = 0; p < b->count; p++)
        d->particles[d->count + p].batch = (int)d->batch_count;
    TRY(merge_ways(d, b, d->count, err));
    d->count += b->count;
    mem_free(&b->particles);
    d->batches[d->batch_count++] = b;
    return STATUS_OK;
}

static void choose_grid(struct dataset *d) {
    d->whole_box = d->submitted_box;
    d->whole_pixel_size = d->submitted_pixel_size;
    d->box = cut_box(d->whole_box, d->whole_pixel_size, d->finest);
    d->pixel_size = d->whole_pixel_size;
    if (d->box != d->whole_box) d->pixel_size *= 1.0 * d->whole_box / d->box;
}

static enum status merge_locked(struct dataset *d, struct err *err) {
    enum status status = STATUS_OK;
    size_t merged = 0;
    TRY(grow((void **)&d->batches, &d->batch_capacity, d->batch_count + d->pending_count, sizeof *d->batches, err));
    TRY(grow((void **)&d->particles, &d->capacity, d->count + d->pending_particles, sizeof *d->particles, err));
    choose_grid(d);
    while (merged < d->pending_count) {
        size_t count = d->pending[merged]->count;
        status = merge_batch(d, d->pending[merged], err);
        if (status != STATUS_OK) break;
        d->pending_particles -= count;
        merged++;
    }
    /* A batch has one owner, also after an error. */
    d->pending_count -= merged;
    if (d->pending_count > 0) memmove(d->pending, d->pending + merged, d->pending_count * sizeof *d->pending);
    return status;
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

int dataset_whole_box(const struct dataset *dataset) {
    return dataset->whole_box;
}

double dataset_whole_pixel_size(const struct dataset *dataset) {
    return dataset->whole_pixel_size;
}

struct dataset_particle *dataset_at(struct dataset *dataset, size_t index) {
    return &dataset->particles[index];
}

size_t dataset_corrected(const struct dataset *d, const struct optics_aberrations **ret_aberrations) {
    size_t count = 0;
    for (int i = 0; i < d->ways.count; i++) {
        const struct way *way = d->ways.list[i];
        if (optics_aberrations_are_none(&way->aberrations)) continue;
        count += way->particles;
        *ret_aberrations = &way->aberrations;
    }
    return count;
}

const char *dataset_missing_mtf(const struct dataset *d) {
    return ways_missing_mtf(&d->ways);
}

const struct way *dataset_way(const struct dataset *d, size_t index) {
    return d->ways.list[d->particles[index].way];
}

const char *dataset_background(const struct dataset *d) {
    const char *reason = d->check != NULL ? image_check_reason(d->check) : "";
    return reason[0] != 0 ? reason : d->refused;
}

bool dataset_normalises(const struct dataset *d) {
    return d->normalised;
}

void dataset_go_on(struct dataset *d, bool normalised) {
    d->goes_on = true;
    d->normalised = normalised;
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

void dataset_item(const struct dataset *dataset, size_t index, const char **ret_source, const char **ret_id) {
    const struct dataset_batch *batch = dataset->batches[dataset->particles[index].batch];
    *ret_source = batch->source != NULL ? batch->source : "";
    *ret_id = batch->id != NULL ? batch->id : "";
}
