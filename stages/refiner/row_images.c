#include "stages/refiner/row_images.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/memory.h"
#include "common/together.h"
#include "stages/refiner/particles_private.h"
#include "stages/refiner/stack_headers.h"

/* Stacks to check, in the order of their rows. */
struct checking {
    const char *path;
    stack_check *check;
    const void *context;
    const char **names;
    size_t count, capacity;
};

static enum status add_name(struct checking *c, const char *name, struct err *err) {
    TRY(mem_more(c->count, sizeof *c->names, "the stacks of a table", &c->names, &c->capacity, err));
    c->names[c->count++] = name;
    return STATUS_OK;
}

/* Lists the stacks of a table up to the first row that does not name an image. */
static enum status list_names(struct checking *c, const struct star_table *table, struct err *err) {
    const int column = star_column_find(table, "rlnImageName");
    const char *last = "";
    for (size_t row = 0; column >= 0 && row < star_row_count(table); row++) {
        struct particle_image image;
        TRY(particle_image_parse(star_get(table, row, column), c->path, row, &image, err));
        if (strcmp(image.stack, last) != 0) TRY(add_name(c, image.stack, err));
        last = image.stack;
    }
    return STATUS_OK;
}

static enum status check_listed(void *context, size_t index, struct err *err) {
    const struct checking *c = context;
    return c->check(c->context, c->path, c->names[index], err);
}

enum status row_images_check(struct star_file *file, const char *path, stack_check *check, const void *context,
                             struct err *err) {
    struct checking c = {.path = path, .check = check, .context = context};
    struct err why = {0}, earlier = {0};
    enum status listed = STATUS_OK;
    for (size_t t = 0; t < star_table_count(file) && listed == STATUS_OK; t++)
        listed = list_names(&c, star_table_at(file, t), &why);
    const enum status checked = work_together(c.count, TOGETHER_FILE, check_listed, &c, &earlier);
    free(c.names);
    const bool early = checked != STATUS_OK;
    if ((early || listed != STATUS_OK) && err != NULL) *err = early ? earlier : why;
    return early ? checked : listed;
}

/* A stack as rows name it. */
struct named {
    const char *name; /* of the table */
    size_t row;       /* the first one that names it */
    long most;        /* the largest number of an image that a row names */
    char *path;       /* NULL: not found, or its images cannot be used */
    struct stat file;
    struct particle_stack_header header;
    int stack; /* of the set */
};

struct finding {
    struct particle_set *set;
    const struct particle_table *table;
    const char *path;
    struct stack_headers *headers;
    struct row_images *images;
    struct named *named;
    size_t count, capacity, last; /* last: that of the row before */
    size_t usable;                /* stacks that rows name before the first one that cannot be used */
    struct names names;
    unsigned char *met; /* a bit for each image of all stacks that a row has named */
    size_t *first;      /* [stacks]: the bit of a stack's first image */
};

/* Notes that a row names no image: rows end before it. */
static void end_before(struct row_images *images, size_t row, enum status status, const struct err *why) {
    images->count = row;
    images->failed = status;
    images->why = *why;
}

/* Finds the stack that rows have named so before; -1: there is none. Rows of one stack follow each other. */
static int find_named(const struct finding *f, const char *name, uint32_t *ret_hash) {
    size_t step = 0;
    int index;
    if (f->last < f->count && strcmp(f->named[f->last].name, name) == 0) return (int)f->last;
    *ret_hash = names_hash(name);
    while ((index = names_next(&f->names, *ret_hash, &step)) >= 0)
        if (strcmp(f->named[index].name, name) == 0) return index;
    return -1;
}

static enum status add_named(struct finding *f, const char *name, uint32_t hash, size_t row, struct err *err) {
    TRY(mem_more(f->count, sizeof *f->named, "the stacks of a table", &f->named, &f->capacity, err));
    f->named[f->count] = (struct named){.name = name, .row = row, .stack = -1};
    return names_put(&f->names, hash, (int)f->count++, err);
}

/* Lists the stacks that the rows name. `stack` of a row is then its index in that list. */
static enum status list_named(struct finding *f, size_t rows, struct err *err) {
    const struct star_table *table = particle_table_rows(f->table);
    const int column = star_column_find(table, "rlnImageName");
    for (size_t row = 0; row < rows; row++) {
        struct particle_image image;
        struct err why = {0};
        uint32_t hash = 0;
        const enum status status = particle_table_image(f->table, row, &image, &why);
        if (status != STATUS_OK) {
            end_before(f->images, row, status, &why);
            return STATUS_OK;
        }
        int index = find_named(f, image.stack, &hash);
        if (index < 0) {
            TRY(add_named(f, image.stack, hash, row, err));
            index = (int)f->count - 1;
        }
        f->last = (size_t)index;
        if (image.number > f->named[index].most) f->named[index].most = image.number;
        f->images->list[row] = (struct row_image){.number = image.number, .stack = index};
        f->set->digest += selection_digest(star_get(table, row, column));
    }
    f->images->count = rows;
    return STATUS_OK;
}

static enum status resolve(const struct finding *f, const char *name, char path[PATH_SIZE], struct stat *ret_file,
                           struct err *err) {
    if (particle_stack_look(f->set->root, f->path, name, path, ret_file)) return STATUS_OK;
    FAIL_IF(stat(name, ret_file) != 0, err, STATUS_NOT_FOUND,
            "%s names the stack %s, which is neither beside the file, nor in the session, nor in the working directory",
            f->path, name);
    return path_join("", name, path, PATH_SIZE, err);
}

/* Returns whether the header is known without opening the file. An observer wants to see each file; and a stack may
 * have grown without other times. */
static bool is_known(const struct finding *f, struct named *named) {
    return file_observed_by() == NULL && stack_headers_find(f->headers, &named->file, &named->header) &&
           named->most <= named->header.images;
}

static enum status open_named(void *context, size_t index, struct err *err) {
    const struct finding *f = context;
    struct named *named = &f->named[index];
    char path[PATH_SIZE];
    const time_t now = time(NULL);
    TRY(resolve(f, named->name, path, &named->file, err));
    if (!is_known(f, named)) {
        TRY(particle_stack_read(path, &named->header, err));
        stack_headers_keep(f->headers, &named->file, now, &named->header);
    }
    TRY(particle_check_box(named->header.box, path, err));
    return particle_text(path, &named->path, err);
}

/* Opens the stacks. Rows end before the first one that names a stack which cannot be used. */
static void open_all(struct finding *f) {
    struct err why = {0};
    const enum status status = work_together(f->count, TOGETHER_FILE, open_named, f, &why);
    while (f->usable < f->count && f->named[f->usable].path != NULL)
        f->usable++;
    if (status != STATUS_OK) end_before(f->images, f->named[f->usable].row, status, &why);
}

static enum status add_stack(struct particle_set *set, struct named *named, struct err *err) {
    named->stack = particle_stack_at(set, named->path);
    if (named->stack >= 0) return STATUS_OK;
    named->stack = set->stack_count++;
    struct particle_stack *stack = &set->stacks[named->stack];
    *stack = (struct particle_stack){.path = named->path,
                                     .box = named->header.box,
                                     .images = named->header.images,
                                     .pixel_size = named->header.pixel_size,
                                     .file = named->file};
    named->path = NULL;
    TRY(particle_text(particle_name_below(set->root, stack->path), &stack->name, err));
    return names_put(&set->stack_paths, names_hash(stack->path), named->stack, err);
}

/* Adds the stacks to the set; one may have several names. */
static enum status add_stacks(struct finding *f, struct err *err) {
    struct particle_set *set = f->set;
    FAIL_IF((set->stacks = calloc(f->usable + 1, sizeof *set->stacks)) == NULL, err, STATUS_NO_MEMORY,
            "no memory for the stacks of a table");
    TRY(names_reserve(&set->stack_paths, f->usable, err));
    for (size_t i = 0; i < f->usable; i++)
        TRY(add_stack(set, &f->named[i], err));
    return STATUS_OK;
}

static enum status create_met(struct finding *f, struct err *err) {
    size_t images = 0;
    TRY(mem_new_unset((size_t)f->set->stack_count + 1, sizeof *f->first, "the stacks of a table", &f->first, err));
    for (int i = 0; i < f->set->stack_count; i++) {
        f->first[i] = images;
        images += (size_t)f->set->stacks[i].images;
    }
    FAIL_IF((f->met = calloc(images / 8 + 1, 1)) == NULL, err, STATUS_NO_MEMORY, "no memory for the images of stacks");
    return STATUS_OK;
}

/* Notes that a row names an image, and returns whether an earlier row has done so. */
static bool meet(const struct finding *f, const struct row_image *image) {
    const size_t at = f->first[image->stack] + (size_t)image->number - 1;
    const unsigned bit = 1u << at % 8;
    const bool again = (f->met[at / 8] & bit) != 0;
    f->met[at / 8] = (unsigned char)(f->met[at / 8] | bit);
    return again;
}

/* Numbers the particles, up to the first row whose stack does not have its image. */
static void number_particles(struct finding *f) {
    struct row_images *images = f->images;
    for (size_t row = 0; row < images->count; row++) {
        struct row_image *image = &images->list[row];
        const struct named *named = &f->named[image->stack];
        const struct particle_image of_row = {image->number, named->name};
        struct err why = {0};
        /* A stack with two names may have grown between its two openings: the set knows it as it was at the first. */
        const int there = f->set->stacks[named->stack].images;
        const enum status status = particle_table_check_image(f->table, row, &of_row, named->name, there, &why);
        if (status != STATUS_OK) {
            end_before(images, row, status, &why);
            return;
        }
        image->stack = named->stack;
        image->particle = meet(f, image) ? -1 : (int)images->particles++;
    }
}

static enum status find(struct finding *f, struct err *err) {
    const size_t rows = star_row_count(particle_table_rows(f->table));
    FAIL_IF(rows > INT_MAX / 4, err, STATUS_UNSUPPORTED, "%zu particles are more than %d", rows, INT_MAX / 4);
    TRY(mem_new_unset(rows + 1, sizeof *f->images->list, "the rows of a table", &f->images->list, err));
    TRY(list_named(f, rows, err));
    open_all(f);
    TRY(add_stacks(f, err));
    TRY(create_met(f, err));
    number_particles(f);
    return STATUS_OK;
}

enum status row_images_find(struct particle_set *set, const struct particle_table *table, const char *path,
                            struct stack_headers *headers, struct row_images *ret_images, struct err *err) {
    struct row_images images = {0};
    struct finding f = {.set = set, .table = table, .path = path, .headers = headers, .images = &images};
    const enum status status = find(&f, err);
    for (size_t i = 0; i < f.count; i++)
        free(f.named[i].path);
    free(f.named);
    free(f.met);
    free(f.first);
    names_destroy(&f.names);
    if (status == STATUS_OK)
        *ret_images = images;
    else
        row_images_clear(&images);
    return status;
}

void row_images_clear(struct row_images *images) {
    mem_free(&images->list);
}
