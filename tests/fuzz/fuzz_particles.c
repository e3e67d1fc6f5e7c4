/* Fuzzes files of particles as the refiner and the classifier read them. Two files come one after the other, so that
 * the second meets what the first has left. The first byte selects the stage and whether the second file replaces the
 * first. The second byte sets where the first file ends. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/classifier/dataset.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/twins.h"

enum { SLICES = 5, BOX = 16 };

static char folder[64];

static void put_stack(const char *name, int box) {
    char path[PATH_SIZE];
    struct image image = {0};
    FUZZ_CHECK(image_resize(&image, box, box, SLICES, NULL) == STATUS_OK);
    image.pixel_size = 2;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FUZZ_CHECK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, NULL) == STATUS_OK);
    image_destroy(&image);
}

/* FOLDER holds stacks of two boxes, and the input. */
static void put(const char *name, const uint8_t *bytes, size_t length, char path[PATH_SIZE]) {
    if (folder[0] == '\0') {
        fuzz_scratch("particles", folder);
        FUZZ_CHECK(file_make_folders(folder, 0700, NULL) == STATUS_OK);
        put_stack("a.mrcs", BOX);
        put_stack("b.mrcs", BOX);
        put_stack("large.mrcs", 2 * BOX);
        put_stack("odd.mrcs", BOX + 1);
    }
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

static void check_set(const struct particle_set *set) {
    size_t present = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        FUZZ_CHECK(particle_find(set, p->name) == p && (p->half == 0 || p->half == 1) && p->slice >= 0);
        FUZZ_CHECK(p->stack >= 0 && p->stack < set->stack_count);
        if (p->source < 0) continue;
        present++;
        FUZZ_CHECK(p->optics >= 0 && p->optics < set->optics_count && ctf_is_plausible(&p->ctf));
        FUZZ_CHECK(set->sources[p->source].file != NULL);
    }
    FUZZ_CHECK(present == set->present);
    FUZZ_CHECK(present == 0 || (set->box >= BOX && set->box % 2 == 0 && set->pixel_size > 0));
}

/* The twin of a particle is one that stays. The second of two images with the same number counts as its copy. */
static void check_twins(struct particle_set *set) {
    size_t left_out = 0;
    struct err err = {0};
    for (size_t i = 0; i < set->count; i++) {
        set->particles[i].digest = (struct digest_value){.low = (uint64_t)set->particles[i].slice + 1};
        set->particles[i].doubled = set->particles[i].slice > 1;
    }
    FUZZ_CHECK(twins_settle(set, &err) == STATUS_OK);
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        FUZZ_CHECK(p->twin >= 0 && (size_t)p->twin <= set->count && p->repeated >= 0);
        if (p->twin == 0) continue;
        left_out++;
        FUZZ_CHECK(p->source >= 0 && particle_counts(&set->particles[p->twin - 1]));
    }
    FUZZ_CHECK(left_out == set->left_out && (left_out < set->present || set->present == 0));
    check_set(set);
}

/* A set that the refiner writes must be the same when it is read again. */
static void check_export(struct particle_set *set) {
    char path[PATH_SIZE];
    struct star_file *file = NULL;
    struct particle_set again;
    struct err err = {0};
    size_t joined = 0;
    for (size_t i = 0; i < set->count; i++)
        set->particles[i].aligned = true;
    snprintf(path, sizeof path, "%s/export.star", folder);
    FUZZ_CHECK(star_create(&file, NULL) == STATUS_OK);
    FUZZ_CHECK(particle_set_export(set, file, &err) == STATUS_OK && star_write(file, path, &err) == STATUS_OK);
    star_destroy(&file);
    FUZZ_CHECK(star_read(path, &file, &err) == STATUS_OK);
    particle_set_init(&again, 1, 0, NAN);
    again.root = strdup(folder);
    if (particle_set_merge(&again, &file, path, false, &joined, &err) != STATUS_OK)
        fprintf(stderr, "%s\n", err.message);
    FUZZ_CHECK(err.status == STATUS_OK && joined == particle_set_counted(set));
    particle_set_destroy(&again);
}

static bool take_file(struct particle_set *set, const char *path, bool replace) {
    struct star_file *file = NULL;
    struct err err = {0};
    if (star_read(path, &file, &err) != STATUS_OK) return false;
    bool whole = particle_set_try(set, &file, path, &err) == STATUS_OK;
    FUZZ_CHECK(file != NULL && (whole || err.message[0] != '\0'));
    /* Like keep_arrival of the stage: a file that it accepts can be merged. */
    if (!whole) {
        FUZZ_CHECK(err.message[0] != '\0');
        star_destroy(&file);
        return false;
    }
    enum status status = particle_set_merge(set, &file, path, replace, NULL, &err);
    if (status != STATUS_OK) fprintf(stderr, "%s\n", err.message);
    FUZZ_CHECK(status == STATUS_OK && file == NULL);
    check_set(set);
    return true;
}

static void refine(const char *first, const char *second, bool replace) {
    struct particle_set set;
    particle_set_init(&set, 1, 1 << 20, 2);
    set.root = strdup(folder);
    set.twin_distance = 20;
    FUZZ_CHECK(set.root != NULL);
    bool any = take_file(&set, first, false);
    any = take_file(&set, second, replace) || any;
    if (any) check_twins(&set);
    if (any && set.present > 0) check_export(&set);
    particle_set_destroy(&set);
}

static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *err) {
    (void)context, (void)star_path;
    return path_join(folder, name, absolute, PATH_SIZE, err);
}

static void submit(struct dataset *dataset, const char *path) {
    struct dataset_batch *batch = NULL;
    struct err err = {0};
    if (dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err) == STATUS_OK)
        (void)dataset_submit(dataset, &batch, &err);
    FUZZ_CHECK(batch == NULL || err.message[0] != '\0');
    dataset_batch_destroy(&batch);
}

static void classify(const char *first, const char *second) {
    static float scratch[4 * BOX * BOX];
    struct dataset *dataset = NULL;
    FUZZ_CHECK(dataset_create(0, &dataset, NULL) == STATUS_OK);
    submit(dataset, first);
    submit(dataset, second);
    FUZZ_CHECK(dataset_merge(dataset, NULL, NULL) == STATUS_OK);
    for (size_t i = 0; i < dataset_count(dataset); i++) {
        const struct dataset_particle *p = dataset_at(dataset, i);
        const float *image;
        size_t row;
        FUZZ_CHECK(ctf_is_plausible(&p->ctf) && fabs(p->pixel_size / dataset_pixel_size(dataset) - 1) < 0.003);
        FUZZ_CHECK(dataset_image(dataset, i, scratch, &image, NULL) == STATUS_OK && !p->unusable);
        const struct star_table *table = dataset_row(dataset, i, &row);
        FUZZ_CHECK(strchr(star_get(table, row, star_column_find(table, "rlnImageName")), '@') != NULL);
        table = dataset_optics(dataset, i, &row);
        FUZZ_CHECK(table == NULL || row < star_row_count(table));
    }
    dataset_destroy(&dataset);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char first[PATH_SIZE], second[PATH_SIZE];
    if (length < 2) return 0;
    size_t cut = (length - 2) * bytes[1] / 255;
    put("first.star", bytes + 2, cut, first);
    put("second.star", bytes + 2 + cut, length - 2 - cut, second);
    if (bytes[0] % 4 < 2)
        refine(first, second, bytes[0] % 4 == 1);
    else
        classify(first, second);
    return 0;
}
