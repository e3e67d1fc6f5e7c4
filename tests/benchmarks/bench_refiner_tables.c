/* Times how tables of particles reach the refiner: bench_refiner_tables FOLDER [ROWS [SMALL]].
 *
 * A table has ROWS rows (1,000,000) of sixteen columns, with 100 images in each stack; the stacks are headers with a
 * hole behind. The table is parsed, its stacks are found, it is read and joins the others, as in the stage for a
 * selection. Then come the same table again, one without every 20th row, and the first again, each in place of the one
 * before. The last two come once more, as files of what has changed, and so does a file with the rows of each 20th stack
 * after a table without them. At last SMALL rows (as many as ROWS) come in one table for each stack, as from the extractor. The digest is
 * that of the particles in their order: two builds that print the same digest have read the same, and so have a table and
 * the changes that lead to it. What a refiner then does to find twins by place is told apart. The floor is to read the
 * bytes of the table. Times are those of the clock, and in brackets those of the processor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/selection_changes.h"
#include "common/formats/star.h"
#include "common/text.h"
#include "stages/refiner/particles.h"
#include "stages/refiner/row_images.h"
#include "stages/refiner/stack_headers.h"
#include "stages/refiner/twins.h"

enum { EACH = 100, BOX = 64 };

static struct err err;

static void must(enum status status) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "bench_refiner_tables: %s\n", err.message);
    exit(1);
}

static void must_io(bool good, const char *path) {
    if (good) return;
    perror(path);
    exit(1);
}

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static void name_stack(size_t stack, char name[96]) {
    snprintf(name, 96, "extractor/micrograph_%05zu_particles.mrcs", stack);
}

/* The header is that of a stack of one image; the number of images is set in it. */
static void make_stacks(const char *folder, size_t count) {
    char path[PATH_SIZE], name[96], header[1024];
    struct image image = {0};
    must(path_join(folder, "extractor", path, sizeof path, &err));
    must(file_make_folders(path, 0755, &err));
    must(image_resize(&image, BOX, BOX, 1, &err));
    image.pixel_size = 2;
    must(path_join(folder, "one.mrcs", path, sizeof path, &err));
    must(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
    FILE *f = fopen(path, "rb");
    must_io(f != NULL && fread(header, 1, sizeof header, f) == sizeof header && fclose(f) == 0, path);
    memcpy(header + 8, &(int){EACH}, sizeof(int));
    for (size_t i = 0; i < count; i++) {
        name_stack(i, name);
        must(path_join(folder, name, path, sizeof path, &err));
        f = fopen(path, "wb");
        must_io(f != NULL && fwrite(header, 1, sizeof header, f) == sizeof header, path);
        must_io(fflush(f) == 0 && ftruncate(fileno(f), 1024 + 4l * BOX * BOX * EACH) == 0 && fclose(f) == 0, path);
    }
}

static const char HEAD[] =
    "# version 30001\n\ndata_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnOpticsGroupName #2\n_rlnImagePixelSize #3\n"
    "_rlnVoltage #4\n_rlnSphericalAberration #5\n_rlnAmplitudeContrast #6\n1 opticsGroup1 2.000000 300.000000 2.700000 "
    "0.100000\n\n# version 30001\n\ndata_particles\n\nloop_\n_rlnImageName #1\n_rlnMicrographName #2\n_rlnCoordinateX "
    "#3\n_rlnCoordinateY #4\n_rlnOpticsGroup #5\n_rlnDefocusU #6\n_rlnDefocusV #7\n_rlnDefocusAngle #8\n"
    "_rlnPhaseShift #9\n_rlnCtfMaxResolution #10\n_rlnCtfFigureOfMerit #11\n_rlnAutopickFigureOfMerit #12\n"
    "_rlnClassNumber #13\n_rlnAnglePsi #14\n_rlnOriginXAngst #15\n_rlnOriginYAngst #16\n";

static void put_row(FILE *f, size_t i) {
    char stack[96];
    double defocus = 10000 + 10000 * uniform();
    name_stack(i / EACH, stack);
    const double x = 4096 * uniform(), y = 4096 * uniform();
    char row[512];
    int length = snprintf(
        row, sizeof row,
        "%06zu@%s micrographs/micrograph_%05zu.mrc %.6f %.6f 1 %.6f %.6f %.6f 0.000000 %.6f %.6f %.6f %d %.6f %.6f "
        "%.6f\n",
        i % EACH + 1, stack, i / EACH, x, y, defocus, defocus - 300 * uniform(), 180 * uniform(), 3 + uniform(),
        uniform(), uniform(), 1 + rand() % 50, 360 * uniform() - 180, 6 * uniform() - 3, 6 * uniform() - 3);
    if (f != NULL) must_io(fwrite(row, 1, (size_t)length, f) == (size_t)length, "row");
}

/* Returns whether a row is left out. without: each such row; 0: none. of: 1, or EACH for the rows of each such stack. */
static bool is_without(size_t row, size_t without, size_t of) {
    return without > 0 && row / of % without == without - 1;
}

/* A row has the same cells in all tables. */
static void make_table(const char *path, size_t first, size_t count, size_t without, size_t of) {
    FILE *f = fopen(path, "w");
    must_io(f != NULL && fputs(HEAD, f) >= 0, path);
    srand(1 + (unsigned)first);
    for (size_t i = first; i < first + count; i++)
        put_row(is_without(i, without, of) ? NULL : f, i);
    must_io(fclose(f) == 0, path);
}

static uint64_t digest_set(const struct particle_set *set) {
    uint64_t h = TEXT_FNV_BEGIN;
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        const int numbers[] = {p->slice, p->source >= 0, p->optics, p->half, p->repeated};
        const double values[] = {p->ctf.defocus_u,   p->ctf.defocus_v, p->ctf.defocus_angle, p->ctf.phase_shift,
                                 p->ctf.scale,       p->ctf.limit,     p->place.x,           p->place.y,
                                 (double)p->has_ctf, p->ctf.voltage};
        h = text_fnv(h, p->name, strlen(p->name));
        h = text_fnv(h, set->stacks[p->stack].path, strlen(set->stacks[p->stack].path));
        h = text_fnv(h, numbers, sizeof numbers);
        h = text_fnv(h, values, sizeof values);
    }
    return h;
}

static double rss(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1e6;
}

static enum status find_stack(const void *root, const char *star, const char *name, struct err *ret_err) {
    char path[PATH_SIZE];
    FAIL_IF(!particle_stack_find(root, star, name, path), ret_err, STATUS_NOT_FOUND, "%s is not there", name);
    return STATUS_OK;
}

/* As the stage does before a table is read: finds each stack. */
static void check_stacks(const char *root, const char *star, struct star_file *file) {
    must(row_images_check(file, star, find_stack, root, &err));
}

/* Other programs may share the machine: the time of the processor counts beside that of the clock. */
struct moment {
    double clock, processor;
};

static struct moment now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (struct moment){clock_monotonic(), (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
}

static void print_time(const char *what, const struct moment *from, const struct moment *to) {
    printf("%s %.3f s (%.3f)", what, to->clock - from->clock, to->processor - from->processor);
}

static void take(struct particle_set *set, const char *what, const char *path, bool replace) {
    static const char *const STEPS[] = {" parsed", ", stacks found", ", read", ", joined"};
    struct star_file *file = NULL;
    struct particle_set *read = NULL;
    struct moment at[5] = {now()};
    must(star_read(path, &file, &err));
    at[1] = now();
    check_stacks(set->root, path, file);
    at[2] = now();
    must(particle_set_read(set, &file, path, &read, &err));
    at[3] = now();
    must(particle_set_join(set, &read, replace, NULL, &err));
    at[4] = now();
    printf("%s:", what);
    for (int i = 0; i < 4; i++)
        print_time(STEPS[i], &at[i], &at[i + 1]);
    print_time("; all", &at[0], &at[4]);
    printf("; %zu present; peak %.2f GB; digest %016llx\n", set->present, rss(), (unsigned long long)digest_set(set));
    (void)fflush(stdout);
}

/* Times what the stage does after a selection has joined. */
static void settle(struct particle_set *set) {
    struct moment from = now();
    must(twins_settle(set, &err));
    struct moment to = now();
    print_time("  twins by place", &from, &to);
    printf("; %zu\n", set->left_out);
}

/* Makes the changes between the whole table and the one without some rows. back: those rows come back. */
static void make_changes(const char *path, const char *table, size_t rows, size_t without, size_t of, bool back) {
    struct selection_changes head = {.since = "it001"};
    struct star_file *whole = NULL, *file = NULL;
    size_t *changed = calloc(rows, sizeof *changed), count = 0;
    const char **removed = calloc(rows, sizeof *removed);
    must(changed != NULL && removed != NULL ? STATUS_OK : STATUS_NO_MEMORY);
    must(star_read(table, &whole, &err));
    const struct star_table *t = star_table_find(whole, "particles");
    const int image = star_column_find(t, "rlnImageName");
    for (size_t row = 0; row < rows; row++) {
        const uint64_t digest = selection_digest(star_get(t, row, image));
        const bool moves = is_without(row, without, of), then = !moves || !back, after = !moves || back;
        head.since_count += then, head.since_digest += then ? digest : 0;
        head.count += after, head.digest += after ? digest : 0;
        if (moves) changed[count] = row, removed[count++] = star_get(t, row, image);
    }
    must(selection_changes_make(&head, whole, changed, back ? count : 0, removed, back ? 0 : count, &file, &err));
    must(star_write(file, path, &err));
    star_destroy(&file);
    star_destroy(&whole);
    free(changed);
    free(removed);
}

static void take_changes(struct particle_set *set, const char *what, const char *path) {
    static const char *const STEPS[] = {" digested, parsed", ", stacks found", ", read", ", applied"};
    struct star_file *file = NULL;
    struct particle_set *read = NULL;
    const char *misfit = NULL;
    char digest[DIGEST_SIZE], *text = NULL;
    size_t length = 0;
    struct moment at[5] = {now()};
    must(file_read_whole(path, (size_t)1 << 32, &text, &length, &err));
    digest_print(digest_memory(text, length), digest);
    must(star_parse_taken(path, &text, length, &file, &err));
    at[1] = now();
    check_stacks(set->root, path, file);
    at[2] = now();
    must(particle_set_read_changes(set, &file, path, &read, &err));
    at[3] = now();
    must(particle_set_change(set, &read, &misfit, &err));
    at[4] = now();
    printf("%s (%.1f MB):", what, (double)length / 1e6);
    for (int i = 0; i < 4; i++)
        print_time(STEPS[i], &at[i], &at[i + 1]);
    print_time("; all", &at[0], &at[4]);
    printf("; %zu present; digest %016llx%s%s\n", set->present, (unsigned long long)digest_set(set),
           misfit != NULL ? "; NOT APPLIED: " : "", misfit != NULL ? misfit : "");
    (void)fflush(stdout);
}

static void begin(struct particle_set *set, const char *folder) {
    particle_set_init(set, 1, 0, NAN);
    must(stack_headers_create(&set->headers, &err));
    set->root = strdup(folder);
    set->twin_distance = 10;
}

static void whole_tables(const char *folder, size_t rows) {
    struct particle_set set;
    char whole[PATH_SIZE], most[PATH_SIZE], changes[PATH_SIZE], *text = NULL;
    size_t bytes = 0;
    must(path_join(folder, "whole.star", whole, sizeof whole, &err));
    must(path_join(folder, "most.star", most, sizeof most, &err));
    make_table(whole, 0, rows, 0, 1);
    make_table(most, 0, rows, 20, 1);
    must(path_join(folder, "changes.star", changes, sizeof changes, &err));
    double begin_read = clock_monotonic();
    must(file_read_whole(whole, (size_t)8 << 30, &text, &bytes, &err));
    printf("%zu rows, %.1f MB, %zu stacks; floor, bytes alone: %.3f s\n", rows, (double)bytes / 1e6,
           (rows + EACH - 1) / EACH, clock_monotonic() - begin_read);
    free(text);
    begin(&set, folder);
    take(&set, "first", whole, true);
    take(&set, "the same", whole, true);
    take(&set, "every 20th left", most, true);
    take(&set, "they came back", whole, true);
    settle(&set);
    make_changes(changes, whole, rows, 20, 1, false);
    take_changes(&set, "changes: every 20th left", changes);
    make_changes(changes, whole, rows, 20, 1, true);
    take_changes(&set, "changes: they came back", changes);
    settle(&set);
    make_table(most, 0, rows, 20, EACH);
    take(&set, "every 20th stack left", most, true);
    make_changes(changes, whole, rows, 20, EACH, true);
    take_changes(&set, "changes: they came back", changes);
    particle_set_destroy(&set);
}

static void small_tables(const char *folder, size_t rows) {
    struct particle_set set;
    char path[PATH_SIZE];
    struct moment zero = {0}, reading = {0}, joining = {0};
    must(path_join(folder, "small.star", path, sizeof path, &err));
    begin(&set, folder);
    for (size_t first = 0; first < rows; first += EACH) {
        struct star_file *file = NULL;
        struct particle_set *read = NULL;
        make_table(path, first, rows - first < EACH ? rows - first : EACH, 0, 1);
        must(star_read(path, &file, &err));
        struct moment at[3] = {now()};
        must(particle_set_read(&set, &file, path, &read, &err));
        at[1] = now();
        must(particle_set_join(&set, &read, false, NULL, &err));
        at[2] = now();
        reading.clock += at[1].clock - at[0].clock, reading.processor += at[1].processor - at[0].processor;
        joining.clock += at[2].clock - at[1].clock, joining.processor += at[2].processor - at[1].processor;
    }
    printf("%zu rows in tables of %d:", rows, EACH);
    print_time(" read", &zero, &reading);
    print_time(", joined", &zero, &joining);
    printf("; %zu present; digest %016llx\n", set.present, (unsigned long long)digest_set(&set));
    particle_set_destroy(&set);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "bench_refiner_tables FOLDER [ROWS [SMALL]]\n");
        return 2;
    }
    size_t rows = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    size_t small = argc > 3 ? strtoull(argv[3], NULL, 10) : rows;
    make_stacks(argv[1], ((rows > small ? rows : small) + EACH - 1) / EACH);
    if (rows > 0) whole_tables(argv[1], rows);
    if (small > 0) small_tables(argv[1], small);
    return 0;
}
