/* For every n, the n-th call that asks for memory, opens, reads, writes or syncs a file fails, once or for ever, while a
 * file is read or written. Each time the reader or writer must return an error with a message, or the right result;
 * give back all memory and descriptors; leave no half-written file; and work again afterwards.
 * libpng, libjpeg, libyaml and jansson take part; libtiff's own requests for memory do not (nth_call.c). */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <tiffio.h>

#include "common/edges/message.h"
#include "common/formats/csv.h"
#include "common/formats/image_formats.h"
#include "common/formats/mdoc.h"
#include "common/formats/mrc.h"
#include "common/formats/npy.h"
#include "common/formats/picture.h"
#include "common/formats/star.h"
#include "common/formats/structure.h"
#include "common/formats/tilts.h"
#include "common/memory.h"
#include "pipelines/launcher/graph/graph_check.h"
#include "pipelines/launcher/graph/graph_print.h"
#include "tests/common/scratch.h"
#include "tests/faults/nth_call.h"

enum { NX = 24, NY = 20 };

static uint64_t digest_bytes(uint64_t digest, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return digest;
}

static uint64_t digest_text(uint64_t digest, const char *text) {
    return digest_bytes(digest, text != NULL ? text : "", text != NULL ? strlen(text) + 1 : 0);
}

static uint64_t digest_file(const char *path) {
    unsigned char bytes[65536];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return digest_bytes(0, bytes, length);
}

static void put_text(const char *name, const char *text, char path[PATH_SIZE]) {
    scratch_path(name, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A file that is read or written. in: its file. out: the file that it writes, or empty. */
struct subject {
    const char *name;
    enum status (*run)(const char *in, const char *out, uint64_t *digest, struct err *err);
    char in[PATH_SIZE], out[PATH_SIZE];
};

/* ---- Tables ---- */

static const char star_text[] =
    "# a comment\ndata_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnVoltage #2\n1 300\n2 200\n\n"
    "data_micrographs\n\nloop_\n_rlnMicrographName #1\n_rlnOpticsGroup #2\n_rlnDefocusU #3\n"
    "m/a.mrc 1 10000.5\n'm/with blank.mrc' 2 12000\n;text\nblock\n;\n1 nan\n\n"
    "data_general\n_rlnOne 1\n_rlnTwo \"two words\"\n";

static enum status run_star(const char *in, const char *out, uint64_t *digest, struct err *err) {
    struct star_file *file = NULL;
    uint64_t sum = 0;
    TRY(star_read(in, &file, err));
    for (size_t i = 0; i < star_table_count(file); i++) {
        const struct star_table *table = star_table_at(file, i);
        sum = digest_text(sum, star_table_name(table));
        for (size_t r = 0; r < star_row_count(table); r++)
            for (size_t c = 0; c < star_column_count(table); c++)
                sum = digest_text(sum, star_get(table, r, (int)c));
    }
    struct star_table *table = star_table_at(file, 1);
    size_t row = 0;
    int column = 0;
    enum status status = star_column_add(table, "rlnAdded", "7", &column, err);
    if (status == STATUS_OK) status = star_row_add(table, &row, err);
    if (status == STATUS_OK) status = star_set(table, row, 0, "m/longer than any cell before it.mrc", err);
    if (status == STATUS_OK) status = star_write(file, out, err);
    star_destroy(&file);
    *digest = sum;
    return status;
}

static enum status run_csv(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)out;
    struct csv csv = {0};
    TRY(csv_read(in, &csv, err));
    for (size_t r = 0; r < csv.count; r++)
        for (int c = 0; c < csv.rows[r].count; c++)
            *digest = digest_text(*digest, csv.rows[r].cells[c]);
    csv_clear(&csv);
    return STATUS_OK;
}

static const char mdoc_text[] =
    "PixelSpacing = 3.42\nImageFile = TS_01.mrc\n\n[T = Tilt axis angle = 85.2]\n\n"
    "[ZValue = 0]\nTiltAngle = -3.0\nExposureDose = 3.1\nSubFramePath = D:\\f\\TS_01_0.tif\n"
    "DateTime = 12-Nov-22  10:11:12\n\n[ZValue = 1]\nTiltAngle = 0.0\n"
    "SubFramePath = D:\\f\\TS_01_1.tif\n\n[ZValue = 2]\nTiltAngle = 3.0\n";

static enum status run_mdoc(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)out;
    struct mdoc mdoc = {0};
    TRY(mdoc_read(in, &mdoc, err));
    *digest = digest_text(0, mdoc.image_file);
    for (int i = 0; i < mdoc.count; i++) {
        *digest = digest_bytes(*digest, &mdoc.tilts[i].angle, sizeof mdoc.tilts[i].angle);
        *digest = digest_text(*digest, mdoc.tilts[i].file);
    }
    mdoc_clear(&mdoc);
    return STATUS_OK;
}

static enum status run_angles(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)out;
    _cleanup_(mem_free) double *angles = NULL;
    int count = 0;
    TRY(tilts_read_angles(in, &angles, &count, err));
    *digest = digest_bytes(0, angles, (size_t)count * sizeof *angles);
    return STATUS_OK;
}

/* ---- Images ---- */

static uint64_t digest_image(const struct image *image) {
    return digest_bytes((uint64_t)(image->nx + 1000 * image->ny), image->data, image_count(image) * sizeof(float));
}

static enum status run_image(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)out;
    struct image image = {0};
    struct image_info info = {0};
    TRY(image_probe(in, &info, err));
    enum status status = image_read(in, &image, err);
    if (status == STATUS_OK) *digest = digest_image(&image);
    image_destroy(&image);
    return status;
}

static enum status run_mrc_copy(const char *in, const char *out, uint64_t *digest, struct err *err) {
    struct image image = {0};
    enum status status = mrc_read(in, &image, err);
    if (status == STATUS_OK) status = mrc_write(out, &image, MRC_IMAGE, MRC_FLOAT32, err);
    if (status == STATUS_OK) *digest = digest_image(&image);
    image_destroy(&image);
    return status;
}

static enum status run_npy(const char *in, const char *out, uint64_t *digest, struct err *err) {
    const size_t shape[] = {NY, NX};
    float values[NY * NX];
    TRY(npy_read(in, NPY_FLOAT32, 2, shape, values, err));
    *digest = digest_bytes(0, values, sizeof values);
    return npy_write(out, NPY_FLOAT32, 2, shape, values, err);
}

static enum status run_png_write(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)in;
    uint8_t pixels[NX * NY];
    for (int i = 0; i < NX * NY; i++)
        pixels[i] = (uint8_t)(i * 31);
    *digest = 1;
    return picture_write_grey(out, NX, NY, pixels, err);
}

static void fill(float *values) {
    for (int i = 0; i < NX * NY; i++)
        values[i] = (float)((i * 37) % 101);
}

static void make_images(void) {
    char path[PATH_SIZE];
    struct err err = {0};
    struct image image = {0};
    uint8_t pixels[NX * NY];
    const size_t shape[] = {NY, NX};
    assert_ok(image_resize(&image, NX, NY, 1, &err));
    fill(image.data);
    for (int i = 0; i < NX * NY; i++)
        pixels[i] = (uint8_t)image.data[i];
    scratch_path("in.mrc", path);
    assert_ok(mrc_write(path, &image, MRC_IMAGE, MRC_INT16, &err));
    scratch_path("in.npy", path);
    assert_ok(npy_write(path, NPY_FLOAT32, 2, shape, image.data, &err));
    scratch_path("in.png", path);
    assert_ok(picture_write_grey(path, NX, NY, pixels, &err));
    image_destroy(&image);
    scratch_path("in.tif", path);
    TIFF *tiff = TIFFOpen(path, "w");
    assert_non_null(tiff);
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, NX);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, NY);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_LZW);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, NY / 2);
    for (int y = 0; y < NY; y++)
        assert_int_equal(TIFFWriteScanline(tiff, pixels + y * NX, (uint32_t)y, 0), 1);
    TIFFClose(tiff);
    scratch_path("in.jpg", path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct jpeg = {.err = jpeg_std_error(&errors)};
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = NX;
    jpeg.image_height = NY;
    jpeg.input_components = 1;
    jpeg.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < NY) {
        JSAMPROW row = pixels + jpeg.next_scanline * NX;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}

/* ---- Structures ---- */

static enum status run_structure(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)out;
    struct structure_model model = {0};
    enum status status = structure_read_first(in, &model, err);
    if (status == STATUS_OK) *digest = digest_bytes(model.count, model.xyz, 3 * model.count * sizeof *model.xyz);
    structure_model_clear(&model);
    return status;
}

static const char pdb_text[] = "ATOM      1  N   GLY A   1       1.000   2.000   3.000\n"
                               "ATOM      2  CA  GLY A   1       2.000   2.000   3.000\n"
                               "ATOM      3  C   GLY A   1       3.000   2.000   3.000\nEND\n";
static const char cif_text[] = "data_x\nloop_\n_atom_site.group_PDB\n_atom_site.id\n_atom_site.label_atom_id\n"
                               "_atom_site.label_comp_id\n_atom_site.label_asym_id\n_atom_site.label_seq_id\n"
                               "_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n"
                               "ATOM 1 N GLY A 1 1.0 2.0 3.0\nATOM 2 CA GLY A 1 2.0 2.0 3.0\n"
                               "ATOM 3 C GLY A 1 3.0 2.0 3.0\n#\n";

/* ---- Graphs and messages ---- */

static const char graph_text[] = "session: {pixel_size: 1.5}\nstages:\n  watcher: {directory: /data/grid}\n"
                                 "  lowpass-picker: {from: watcher, diameter: 130}\n"
                                 "  extractor: {from: [lowpass-picker], replicas: 2, box: 256}\n";

static enum status run_graph(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)out;
    struct problems problems;
    struct graph *graph = NULL;
    char *text = NULL;
    problems_init(&problems, in);
    enum status status = graph_read(in, &problems, &graph, err);
    if (status == STATUS_OK) status = graph_check_edges(graph, &problems, err);
    if (status == STATUS_OK) status = graph_print(graph, &text, err);
    /* Problems that could not be written down are a failure too. */
    if (status == STATUS_OK && (problems.no_memory || problems.errors > 0))
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "%s",
                         problems.no_memory || problems.count == 0 ? "no memory for the problems of a graph"
                                                                   : problems.list[0].text);
    if (status == STATUS_OK) *digest = digest_text(0, text);
    free(text);
    graph_destroy(&graph);
    problems_clear(&problems);
    return status;
}

static const char item_text[] =
    "{\"v\":1,\"id\":\"m1\",\"kind\":\"micrograph\",\"source\":\"watcher\",\"micrograph\":{\"path\":\"m/a.mrc\"},"
    "\"optics\":{\"pixel_size\":1.5,\"voltage\":300},\"other\":[1,2,{\"x\":null}]}";

static enum status exchange(const struct message *message, uint64_t *digest, struct err *err) {
    struct message again = {0};
    char *text = NULL;
    size_t length = 0;
    TRY(message_encode(message, NULL, &text, &length, err));
    enum status status = message_decode(text, length, &again, err);
    if (status == STATUS_OK) *digest = digest_bytes(0, text, length);
    free(text);
    message_clear(&again);
    return status;
}

static enum status run_item(const char *in, const char *out, uint64_t *digest, struct err *err) {
    (void)in;
    (void)out;
    struct message message = {.kind = MESSAGE_ITEM, .edge = "watcher.0>picker", .seq = 3, .attempt = 1};
    struct item *item = NULL;
    TRY(item_parse(item_text, sizeof item_text - 1, &item, err));
    enum status status = item_set_string(item, "picks.path", "picker/a.star", err);
    if (status == STATUS_OK) status = item_set_number(item, "optics.voltage", 200, err);
    if (status == STATUS_OK) status = item_clone(item, &message.item, err);
    if (status == STATUS_OK) status = exchange(&message, digest, err);
    message_clear(&message);
    item_destroy(&item);
    return status;
}

/* ---- The sweep ---- */

static int files_beside(void) {
    char path[PATH_SIZE];
    scratch_path(".", path);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

struct outcome {
    enum status status;
    uint64_t digest;
    long long calls, blocks;
    int descriptors;
    struct err err;
};

static struct outcome attempt(const struct subject *subject, enum nth_kind kind, long long n, bool ever) {
    struct outcome outcome = {.descriptors = nth_descriptors()};
    long long before = nth_blocks();
    nth_begin(kind, n, ever);
    outcome.status = subject->run(subject->in, subject->out, &outcome.digest, &outcome.err);
    outcome.calls = nth_end();
    outcome.blocks = nth_blocks() - before;
    outcome.descriptors = nth_descriptors() - outcome.descriptors;
    return outcome;
}

static void check(const struct subject *subject, const struct outcome *calm, uint64_t written, enum nth_kind kind,
                  long long n, bool ever) {
    const char *when = ever ? " and all later ones" : "";
    int before = files_beside();
    if (subject->out[0] != '\0') unlink(subject->out);
    before -= subject->out[0] != '\0';
    struct outcome outcome = attempt(subject, kind, n, ever);
    if (outcome.status == STATUS_OK && outcome.digest != calm->digest)
        fail_msg("%s: %s %lld%s failed, and it returned OK with a wrong result", subject->name, nth_name(kind), n,
                 when);
    if (outcome.status != STATUS_OK && outcome.err.message[0] == '\0')
        fail_msg("%s: %s %lld%s failed, and there is no message", subject->name, nth_name(kind), n, when);
    if (outcome.descriptors != 0)
        fail_msg("%s: %s %lld%s failed, and a file stayed open", subject->name, nth_name(kind), n, when);
    /* A library may keep memory after its first failure: only memory that is lost again is a leak. */
    if (outcome.blocks > 0) outcome = attempt(subject, kind, n, ever);
    if (outcome.blocks > 0)
        fail_msg("%s: %s %lld%s failed, and %lld blocks of memory were not freed", subject->name, nth_name(kind), n,
                 when, outcome.blocks);
    bool there = subject->out[0] != '\0' && access(subject->out, F_OK) == 0;
    if (there && digest_file(subject->out) != written)
        fail_msg("%s: %s %lld%s failed, and a half-written file is left", subject->name, nth_name(kind), n, when);
    if (files_beside() != before + there)
        fail_msg("%s: %s %lld%s failed, and another file is left beside", subject->name, nth_name(kind), n, when);
    struct outcome again = attempt(subject, kind, 0, false);
    if (again.status != STATUS_OK || again.digest != calm->digest ||
        (subject->out[0] != '\0' && digest_file(subject->out) != written))
        fail_msg("%s: after %s %lld%s had failed, it does not work: %s", subject->name, nth_name(kind), n, when,
                 again.err.message);
}

static void sweep(struct subject *subject) {
    struct outcome calm = attempt(subject, NTH_READ, 0, false);
    if (calm.status != STATUS_OK) fail_msg("%s: %s", subject->name, calm.err.message);
    uint64_t written = subject->out[0] != '\0' ? digest_file(subject->out) : 0;
    for (int kind = 0; kind < NTH_KINDS; kind++) {
        calm = attempt(subject, (enum nth_kind)kind, 0, false);
        print_message("%s: %lld calls of %s\n", subject->name, calm.calls, nth_name((enum nth_kind)kind));
        for (long long n = 1; n <= calm.calls; n++)
            for (int ever = 0; ever < 2; ever++)
                check(subject, &calm, written, (enum nth_kind)kind, n, ever);
    }
}

/* Texts that are read; images are made. */
static void readers_and_writers(void **state) {
    (void)state;
    static struct subject subjects[] = {{.name = "star", .run = run_star, .out = "out.star"},
                                        {.name = "csv", .run = run_csv},
                                        {.name = "mdoc", .run = run_mdoc},
                                        {.name = "tlt", .run = run_angles},
                                        {.name = "mrc", .run = run_mrc_copy, .out = "out.mrc"},
                                        {.name = "npy", .run = run_npy, .out = "out.npy"},
                                        {.name = "tif", .run = run_image},
                                        {.name = "png", .run = run_image},
                                        {.name = "jpg", .run = run_image},
                                        {.name = "grey", .run = run_png_write, .out = "out.png"},
                                        {.name = "pdb", .run = run_structure},
                                        {.name = "cif", .run = run_structure},
                                        {.name = "yaml", .run = run_graph},
                                        {.name = "item", .run = run_item}};
    static const struct {
        const char *name, *text;
    } texts[] = {{"in.star", star_text}, {"in.csv", "name,x,y\n\"a, b\",1,2\nc,3,4\n"},
                 {"in.mdoc", mdoc_text}, {"in.tlt", "-3.0\n0.0\n3.0\n"},
                 {"in.pdb", pdb_text},   {"in.cif", cif_text},
                 {"in.yaml", graph_text}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char path[PATH_SIZE];
        put_text(texts[i].name, texts[i].text, path);
    }
    make_images();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        char name[64];
        snprintf(name, sizeof name, "in.%s", subjects[i].name);
        scratch_path(name, subjects[i].in);
        snprintf(name, sizeof name, "%s", subjects[i].out);
        if (name[0] != '\0') scratch_path(name, subjects[i].out);
        sweep(&subjects[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(readers_and_writers)};
    return scratch_run("sweep-parsers", tests, 1);
}
