/* Tests structures: the contents of the three formats, the selection of atoms, refused files and their messages. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/structure_private.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

static enum status open_text(const char *text, size_t length, const struct structure_model *topology,
                             struct structure_reader **reader, struct err *err) {
    FILE *stream = length > 0 ? fmemopen((void *)(uintptr_t)text, length, "r") : fopen("/dev/null", "r");
    assert_non_null(stream);
    return structure_open_stream(stream, "some.file", topology, reader, err);
}

/* Reads all structures of a text into models[most] and returns their number. */
static enum status read_all(const char *text, size_t length, const struct structure_model *topology,
                            struct structure_model *models, int most, int *ret_count, struct err *err) {
    _cleanup_(structure_close) struct structure_reader *reader = NULL;
    TRY(open_text(text, length, topology, &reader, err));
    for (int i = 0;; i++) {
        struct structure_model extra = {0};
        bool found;
        enum status status = structure_next(reader, i < most ? &models[i] : &extra, &found, err);
        structure_model_clear(&extra);
        TRY(status);
        *ret_count = i;
        if (!found) return STATUS_OK;
    }
}

static int must_read(const char *text, struct structure_model *models, int most) {
    struct err err = {0};
    int count = 0;
    assert_ok(read_all(text, strlen(text), NULL, models, most, &count, &err));
    return count;
}

static void clear_all(struct structure_model *models, int count) {
    for (int i = 0; i < count; i++)
        structure_model_clear(&models[i]);
}

static void must_fail(const char *text, enum status status, const char *words) {
    struct structure_model model = {0};
    struct err err = {0};
    int count;
    assert_int_equal(read_all(text, strlen(text), NULL, &model, 1, &count, &err), status);
    if (strstr(err.message, words) == NULL) fail_msg("'%s' is not in: %s", words, err.message);
    structure_model_clear(&model);
}

/* Lists the selected atoms as "name:altloc". */
static void selected(const struct structure_model *model, enum structure_what what, const char *chain,
                     const char *residues, char *text, size_t size) {
    struct structure_selection selection;
    struct err err = {0};
    size_t count, *indices = calloc(model->count, sizeof *indices);
    assert_ok(structure_selection_parse(what, chain, residues, &selection, &err));
    text[0] = '\0';
    enum status status = structure_select(model, &selection, "some.file", indices, &count, &err);
    if (status != STATUS_OK) snprintf(text, size, "%s", err.message);
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        const struct structure_atom *atom = &model->atoms[indices[i]];
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s%d%s%c", i > 0 ? " " : "", atom->id.name, atom->id.number,
                 atom->id.insertion, atom->altloc);
    }
    free(indices);
}

#define assert_selected(model, what, chain, residues, expected)                                                        \
    do {                                                                                                               \
        char text_[2048];                                                                                              \
        selected(model, what, chain, residues, text_, sizeof text_);                                                   \
        assert_string_equal(text_, expected);                                                                          \
    } while (0)

static const char PDB[] = "HEADER    ANYTHING\n"
                          "MODEL        3\n"
                          "ATOM      1  N   GLY A  -1      11.104   6.134  -6.504  1.00  0.00           N  \n"
                          "ATOM      2  CA  GLY A  -1      11.639   6.071  -5.147  1.00  0.00           C  \n"
                          "ATOM      3  CA ASER A  52A      1.000   2.000   3.000  0.40  7.50           C  \n"
                          "ATOM      4  CA BSER A  52A      4.000   5.000   6.000  0.60  8.50           C  \n"
                          "ATOM      5  CB ASER A  52A      1.500   2.500   3.500  0.40  0.00           C  \n"
                          "ATOM      6  HA ASER A  52A      1.500   2.500   3.500  0.40  0.00           H  \n"
                          "TER       7      SER A  52A\n"
                          "HETATM    8  CA  MSE B  53       7.000   8.000   9.000  1.00  0.00           C  \n"
                          "HETATM    9 SE   MSE B  53       7.000   8.000   9.500  1.00  0.00          SE  \n"
                          "HETATM   10 CA    CA B 900       7.000   8.000   9.500  1.00  0.00          CA  \n"
                          "HETATM   11  O   HOH B 901       7.000   8.000   9.500\n"
                          "ENDMDL\n"
                          "MODEL        7\n"
                          "ATOM      1 HG11 VAL    10      -1.000   -.500  +6.5                            \n"
                          "ATOM      2 2HG1 VAL    10      -1.000   -.500  +6.5                            \n"
                          "ENDMDL\n"
                          "END\n";

static void pdb_says_what_it_says(void **state) {
    (void)state;
    struct structure_model models[2] = {{0}};
    assert_int_equal(must_read(PDB, models, 2), 2);
    assert_int_equal(models[0].count, 10);
    assert_int_equal(models[0].number, 3);
    assert_int_equal(models[1].number, 7);
    const struct structure_atom *atom = &models[0].atoms[3];
    assert_string_equal(atom->id.name, "CA");
    assert_string_equal(atom->id.residue, "SER");
    assert_string_equal(atom->id.chain, "A");
    assert_int_equal(atom->id.number, 52);
    assert_string_equal(atom->id.insertion, "A");
    assert_true(atom->altloc == 'B' && atom->occupancy == 0.6F && atom->b_factor == 8.5F && !atom->hetero);
    assert_true(models[0].xyz[3] == 11.639F && models[0].xyz[5] == -5.147F);
    assert_int_equal(models[0].atoms[0].id.number, -1);
    assert_string_equal(models[0].atoms[7].element, "SE");
    assert_true(models[0].atoms[7].hetero);
    assert_string_equal(models[0].atoms[9].element, "O");
    assert_string_equal(models[1].atoms[0].element, "H");
    assert_string_equal(models[1].atoms[1].id.name, "HG12");
    assert_true(models[1].xyz[0] == -1 && models[1].xyz[1] == -0.5F && models[1].xyz[2] == 6.5F);
    assert_true(models[1].atoms[0].occupancy == 1);
    clear_all(models, 2);
}

static void atoms_are_selected(void **state) {
    (void)state;
    struct structure_model models[2] = {{0}};
    must_read(PDB, models, 2);
    const struct structure_model *m = &models[0];
    /* Location B has the higher occupancy, and CB has only A. A calcium ion is not an alpha carbon. */
    assert_selected(m, STRUCTURE_CA, NULL, NULL, "CA-1  CA52AB CA53 ");
    assert_selected(m, STRUCTURE_BACKBONE, "A", NULL, "N-1  CA-1  CA52AB");
    assert_selected(m, STRUCTURE_HEAVY, NULL, NULL, "N-1  CA-1  CA52AB CB52AA CA53  SE53  CA900 ");
    assert_selected(m, STRUCTURE_ALL, "B", NULL, "CA53  SE53  CA900  O901 ");
    assert_selected(m, STRUCTURE_ALL, "B,A", "-1-52", "N-1  CA-1  CA52AB CB52AA HA52AA");
    assert_selected(m, STRUCTURE_CA, NULL, "-5--1,53", "CA-1  CA53 ");
    assert_selected(m, STRUCTURE_CA, NULL, "52A", "CA52AB");
    assert_selected(m, STRUCTURE_CA, NULL, "52B-60", "CA53 ");
    char text[2048];
    selected(m, STRUCTURE_CA, "C", NULL, text, sizeof text);
    assert_non_null(
        strstr(text, "some.file: none of its 10 atoms is selected by select: ca, chain: it has the chains 'A', 'B' "
                     "and residues -1 to 901"));
    clear_all(models, 2);
}

/* An atom may be missing in the chosen location. One place may hold two kinds of residue. */
static void locations_are_chosen(void **state) {
    (void)state;
    static const char text[] = "ATOM      1  CA ALEU A   1       1.000   2.000   3.000  0.50  7.50           C  \n"
                               "ATOM      2  CA BLEU A   1       1.000   2.000   3.000  0.30  7.50           C  \n"
                               "ATOM      3  CA CLEU A   1       1.000   2.000   3.000  0.20  7.50           C  \n"
                               "ATOM      4  CG BLEU A   1       1.000   2.000   3.000  0.30  7.50           C  \n"
                               "ATOM      5  CG CLEU A   1       1.000   2.000   3.000  0.60  7.50           C  \n"
                               "ATOM      6  CA ASER A   2       1.000   2.000   3.000  0.40  7.50           C  \n"
                               "ATOM      7  OG ASER A   2       1.000   2.000   3.000  0.40  7.50           O  \n"
                               "ATOM      8  CA BTHR A   2       1.000   2.000   3.000  0.60  7.50           C  \n"
                               "ATOM      9  OG1BTHR A   2       1.000   2.000   3.000  0.60  7.50           O  \n"
                               "ATOM     10  CA AGLY A   3       1.000   2.000   3.000  0.50  7.50           C  \n"
                               "ATOM     11  CA BGLY A   3       1.000   2.000   3.000  0.50  7.50           C  \n";
    struct structure_model model = {0};
    assert_int_equal(must_read(text, &model, 1), 1);
    assert_selected(&model, STRUCTURE_ALL, NULL, NULL, "CA1A CG1C CA2B OG12B CA3A");
    structure_model_clear(&model);
}

static void wrong_selections_are_told(void **state) {
    (void)state;
    struct structure_selection selection;
    static const char *const wrong[] = {"x", "10-", "20-10", "5;6", "1-2-3", "--", "10 20a-"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err err = {0};
        assert_int_equal(structure_selection_parse(STRUCTURE_CA, NULL, wrong[i], &selection, &err),
                         STATUS_BAD_ARGUMENT);
        assert_non_null(strstr(err.message, "residues: '"));
    }
    struct err err = {0};
    assert_int_equal(structure_selection_parse(STRUCTURE_CA, "A,averyveryverylongchain", NULL, &selection, &err),
                     STATUS_BAD_ARGUMENT);
}

/* Serial and residue numbers may be too large for their columns. */
static void numbers_outgrow_columns(void **state) {
    (void)state;
    static const char text[] = "ATOM  A0000  CA  GLY A9999      11.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM  *****  CA  GLY AA000      12.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM  100000 CA  GLY AA001      13.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM  100000  CA  GLY AA002      14.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM  186a0  CA  GLY A270f      15.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM  1234567  CA  GLY Aa000      16.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM      1  CA  GLY A12345     17.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM1234567  CA  GLY A  17      18.104   6.134  -6.504  1.00  0.00           C  \n"
                               "HETATM123456 CA  GLY A  18      19.104   6.134  -6.504  1.00  0.00           C  \n";
    static const int numbers[] = {9999, 10000, 10001, 10002, 9999, 10000 + 26 * 36 * 36 * 36, 12345, 17, 18};
    struct structure_model model = {0};
    assert_int_equal(must_read(text, &model, 1), 1);
    assert_int_equal(model.count, 9);
    for (int i = 0; i < 9; i++) {
        assert_string_equal(model.atoms[i].id.name, "CA");
        assert_string_equal(model.atoms[i].id.residue, "GLY");
        assert_string_equal(model.atoms[i].id.insertion, "");
        assert_int_equal(model.atoms[i].id.number, numbers[i]);
        assert_true(model.xyz[3 * i] == 11.104F + (float)i || fabsf(model.xyz[3 * i] - 11.104F - (float)i) < 1e-5F);
    }
    structure_model_clear(&model);
}

/* Writes and reads more atoms than five digits can count. */
static void large_structures_come_back(void **state) {
    (void)state;
    enum { ATOMS = 100020 };
    struct structure_model model = {0}, again = {0};
    struct err err = {0};
    for (int i = 0; i < ATOMS; i++) {
        struct structure_atom *atom;
        float *xyz;
        assert_ok(structure_model_add(&model, &atom, &xyz, &err));
        *atom = (struct structure_atom){.id = {.name = "CA", .residue = "ALA", .chain = "A", .number = i - 5},
                                        .element = "C",
                                        .altloc = ' ',
                                        .occupancy = 1};
        for (int axis = 0; axis < 3; axis++)
            xyz[axis] = (float)(i % 1000) / 8 - (float)axis;
    }
    char path[PATH_SIZE];
    scratch_path("large.pdb", path);
    FILE *out = fopen(path, "w");
    assert_ok(structure_pdb_write(out, &model, 0, &err));
    structure_pdb_end(out);
    fclose(out);
    assert_ok(structure_read_first(path, &again, &err));
    assert_int_equal(again.count, ATOMS);
    for (int i = 0; i < ATOMS; i++) {
        if (memcmp(&model.atoms[i].id, &again.atoms[i].id, sizeof again.atoms[i].id) != 0)
            fail_msg("atom %d: residue %d came back as %d", i, model.atoms[i].id.number, again.atoms[i].id.number);
        assert_memory_equal(&model.xyz[3 * i], &again.xyz[3 * i], 3 * sizeof(float));
    }
    char line[128] = "", last[128] = "";
    FILE *in = fopen(path, "r");
    while (fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "ATOM", 4) == 0) snprintf(last, sizeof last, "%s", line);
    fclose(in);
    assert_memory_equal(last, "ATOM  A000K  CA  ALA A", 22);
    model.xyz[7] = 10000;
    out = fopen("/dev/null", "w");
    assert_int_equal(structure_pdb_write(out, &model, 0, &err), STATUS_BAD_ARGUMENT);
    fclose(out);
    structure_model_clear(&model);
    structure_model_clear(&again);
}

static void bad_coordinates_are_told(void **state) {
    (void)state;
    static const char text[] = "ATOM      1  CA  GLY A   1      11.104   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM      2  CB  GLY A   1    ********   6.134  -6.504  1.00  0.00           C  \n"
                               "ATOM      3  N   GLY A   1         nan     nan     nan  1.00  0.00           N  \n"
                               "END\n";
    struct structure_model model = {0};
    struct err err = {0};
    float xyz[9];
    size_t indices[3] = {0, 1, 2};
    assert_int_equal(must_read(text, &model, 1), 1);
    assert_ok(structure_take(&model, indices, 1, "a.pdb", xyz, &err));
    assert_int_equal(structure_take(&model, indices, 2, "a.pdb", xyz, &err), STATUS_BAD_FORMAT);
    assert_non_null(
        strstr(err.message, "a.pdb: line 2: the coordinates of CB of GLY 1 in chain A are not numbers ('********"));
    assert_non_null(strstr(err.message, "too large for their columns"));
    assert_int_equal(structure_take(&model, indices + 2, 1, "a.pdb", xyz, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "line 3"));
    model.xyz[0] = 2e6F;
    assert_int_equal(structure_take(&model, indices, 1, "a.pdb", xyz, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "2e+06"));
    structure_model_clear(&model);
}

static void broken_pdb_is_told(void **state) {
    (void)state;
    must_fail("", STATUS_TRUNCATED, "some.file: the file is empty");
    must_fail("HEADER    NOTHING\nEND\n", STATUS_BAD_FORMAT, "there is no atom in it");
    must_fail("ATOM      1  CA  GLY A   1      11.1\nEND\n", STATUS_BAD_FORMAT,
              "line 1: this row of an atom has 36 characters");
    must_fail("ATOM      1  CA  GLY A   1      11.1", STATUS_TRUNCATED, "cut short");
    must_fail("\x1f\x8b\x08 compressed", STATUS_UNSUPPORTED, "gunzip");
    struct structure_model model = {0};
    struct err err = {0};
    int count;
    assert_int_equal(read_all("\x7f"
                              "ELF\0\0\0\0\0\0\0\0\0",
                              12, NULL, &model, 1, &count, &err),
                     STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "neither text nor a DCD file"));
}

/* Frames may be separated by END, models may have no end, and chains may be named by their segment only. */
static void frames_without_models(void **state) {
    (void)state;
    static const char text[] = "ATOM      1  CA  GLY     1      11.104   6.134  -6.504  1.00  0.00      SEGA C  \r\n"
                               "END   \r\n"
                               "ATOM      1  CA  GLY     1      12.104   6.134  -6.504  1.00  0.00      SEGA C  \r\n"
                               "END\r\n"
                               "MODEL 9\n"
                               "ATOM      1  CA  GLY     1      13.104   6.134  -6.504  1.00  0.00      SEGA C  \n"
                               "MODEL 10\n"
                               "ATOM      1  CA  GLY     1      14.104   6.134  -6.504  1.00  0.00      SEGA C";
    struct structure_model models[4] = {{0}};
    assert_int_equal(must_read(text, models, 4), 4);
    for (int i = 0; i < 4; i++) {
        assert_true(fabsf(models[i].xyz[0] - 11.104F - (float)i) < 1e-5F);
        assert_string_equal(models[i].atoms[0].id.chain, "SEGA");
        assert_int_equal(models[i].number, i < 2 ? i + 1 : i + 7);
    }
    clear_all(models, 4);
}

static const char CIF[] =
    "# a comment\n"
    "data_TEST\n"
    "_entry.id 'a b'\n"
    "_struct.title\n"
    ";some text with loop_ and _atom_site.id in it\n"
    "and an ' apostrophe\n"
    ";\n"
    "loop_\n_other.a\n_other.b\n1 'it's one value' \"data_no\" 2\n"
    "loop_\n"
    "_ATOM_SITE.Cartn_z\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.group_PDB\n_atom_site.type_symbol\n"
    "_atom_site.label_atom_id\n_atom_site.auth_seq_id\n_atom_site.label_seq_id\n_atom_site.auth_comp_id\n"
    "_atom_site.label_asym_id\n_atom_site.auth_asym_id\n_atom_site.pdbx_PDB_ins_code\n_atom_site.label_alt_id\n"
    "_atom_site.occupancy\n_atom_site.pdbx_PDB_model_num # and a comment\n_atom_site.unknown\n"
    "3.5 1.25(3) -2.5e0 ATOM C CA 52 7 SER A AAA A . 1.0 1 ?\n"
    "3.5 1.25 -2.5 HETATM O \"O5'\" 900 . DG B AAA ? B 0.5 1\n'x y'\n"
    ";3\n;\n1.25 -2.5 ATOM Se SE 5 8 MSE A AAA . . 1 2 ?\n"
    "#\n"
    "_next.thing 1\n"
    "data_SECOND\n"
    "_atom_site.label_atom_id CA\n_atom_site.auth_atom_id CX\n_atom_site.Cartn_x 1\n_atom_site.Cartn_y 2\n"
    "_atom_site.Cartn_z 3\n";

static void cif_says_what_it_says(void **state) {
    (void)state;
    struct structure_model models[3] = {{0}};
    assert_int_equal(must_read(CIF, models, 3), 3);
    assert_int_equal(models[0].count, 2);
    const struct structure_atom *atom = models[0].atoms;
    assert_string_equal(atom[0].id.name, "CA");
    assert_string_equal(atom[0].id.residue, "SER");
    assert_string_equal(atom[0].id.chain, "AAA");
    assert_int_equal(atom[0].id.number, 52);
    assert_string_equal(atom[0].id.insertion, "A");
    assert_true(atom[0].altloc == ' ' && atom[1].altloc == 'B' && atom[1].hetero && !atom[0].hetero);
    assert_string_equal(atom[1].id.name, "O5'");
    assert_true(models[0].xyz[0] == 1.25F && models[0].xyz[1] == -2.5F && models[0].xyz[2] == 3.5F);
    assert_int_equal(models[1].number, 2);
    assert_string_equal(models[1].atoms[0].element, "SE");
    assert_true(models[1].xyz[2] == 3);
    assert_string_equal(models[2].atoms[0].id.name, "CX");
    clear_all(models, 3);
}

static void broken_cif_is_told(void **state) {
    (void)state;
    must_fail("data_x\n_cell.length 1\n", STATUS_BAD_FORMAT, "there is no atom in it");
    must_fail("data_x\nloop_\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n1 2\n", STATUS_BAD_FORMAT,
              "have no _atom_site.Cartn_z");
    static const char head[] = "data_x\nloop_\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n"
                               "_atom_site.label_atom_id\n";
    char text[512];
    snprintf(text, sizeof text, "%s1 2 3 CA\n4 5", head);
    must_fail(text, STATUS_TRUNCATED, "line 8: the last row of atoms has 2 of 4 values: the file is cut short");
    snprintf(text, sizeof text, "%s1 2 3 CA\n4 5\n_x.y 1\n", head);
    must_fail(text, STATUS_BAD_FORMAT, "has 2 of 4 values");
    snprintf(text, sizeof text, "%s1 2 3 'CA\n", head);
    must_fail(text, STATUS_BAD_FORMAT, "line 7: a quoted value has no end");
    snprintf(text, sizeof text, "%s1 2 3 \n;CA\n", head);
    must_fail(text, STATUS_TRUNCATED, "inside a text field");
    snprintf(text, sizeof text, "%s1 2 3 ANAMETHATISTOOLONG\n", head);
    must_fail(text, STATUS_BAD_FORMAT, "'ANAMETHATISTOOLONG' has more than 7 characters");
    /* A selected atom has a NaN coordinate. */
    snprintf(text, sizeof text, "%s1 NaN 3 CA\n", head);
    struct structure_model model = {0};
    struct err err = {0};
    float xyz[3];
    assert_int_equal(must_read(text, &model, 1), 1);
    assert_int_equal(structure_take(&model, &(size_t){0}, 1, "b.cif", xyz, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "b.cif: line 7"));
    assert_non_null(strstr(err.message, "('NaN')"));
    structure_model_clear(&model);
}

/* Builds a trajectory in memory piece by piece, in either byte order, with lengths of 4 or 8 bytes. */
struct trajectory {
    unsigned char bytes[8192];
    size_t length;
    bool big, wide;
};

static void put_number(struct trajectory *t, uint64_t value, int width) {
    for (int i = 0; i < width; i++)
        t->bytes[t->length++] = (unsigned char)(value >> 8 * (t->big ? width - 1 - i : i));
}

static void put_float(struct trajectory *t, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(t, bits, 4);
}

static void mark(struct trajectory *t, uint64_t length) {
    put_number(t, length, t->wide ? 8 : 4);
}

enum { FRAMES = 3, ATOMS = 5, FIXED = 2 };

static float coordinate(int frame, int atom, int axis) {
    bool fixed = atom == 1 || atom == 3;
    return (float)(100 * axis + 10 * atom) + (fixed ? 0 : (float)frame) + 0.25F;
}

static struct trajectory make_trajectory(bool big, bool wide, bool cell, bool fixed, int said) {
    struct trajectory t = {.big = big, .wide = wide};
    static const int moving[] = {0, 2, 4};
    mark(&t, 84);
    memcpy(t.bytes + t.length, "CORD", 4);
    t.length += 4;
    for (int i = 0; i < 20; i++)
        put_number(&t, i == 0 ? (unsigned)said : i == 8 ? (fixed ? FIXED : 0) : i == 10 ? cell : i == 19 ? 24 : 0, 4);
    mark(&t, 84);
    mark(&t, 84);
    put_number(&t, 1, 4);
    t.length += 80;
    mark(&t, 84);
    mark(&t, 4);
    put_number(&t, ATOMS, 4);
    mark(&t, 4);
    if (fixed) {
        mark(&t, 12);
        for (int i = 0; i < 3; i++)
            put_number(&t, (unsigned)moving[i] + 1, 4);
        mark(&t, 12);
    }
    for (int frame = 0; frame < FRAMES; frame++) {
        if (cell) {
            mark(&t, 48);
            t.length += 48;
            mark(&t, 48);
        }
        int count = fixed && frame > 0 ? ATOMS - FIXED : ATOMS;
        for (int axis = 0; axis < 3; axis++) {
            mark(&t, 4 * (unsigned)count);
            for (int i = 0; i < count; i++)
                put_float(&t, coordinate(frame, count < ATOMS ? moving[i] : i, axis));
            mark(&t, 4 * (unsigned)count);
        }
    }
    return t;
}

static void make_topology(struct structure_model *model, int atoms) {
    struct err err = {0};
    for (int i = 0; i < atoms; i++) {
        struct structure_atom *atom;
        float *xyz;
        assert_ok(structure_model_add(model, &atom, &xyz, &err));
        *atom =
            (struct structure_atom){.id = {.name = "CA", .residue = "ALA", .number = i}, .element = "C", .altloc = ' '};
    }
}

static void trajectories_are_read(void **state) {
    (void)state;
    struct structure_model topology = {0};
    make_topology(&topology, ATOMS);
    for (int kind = 0; kind < 16; kind++) {
        struct trajectory t = make_trajectory(kind & 1, kind & 2, kind & 4, kind & 8, FRAMES);
        struct structure_model models[FRAMES] = {{0}};
        struct err err = {0};
        int count = 0;
        assert_ok(read_all((char *)t.bytes, t.length, &topology, models, FRAMES, &count, &err));
        assert_int_equal(count, FRAMES);
        for (int frame = 0; frame < FRAMES; frame++)
            for (int atom = 0; atom < ATOMS; atom++)
                for (int axis = 0; axis < 3; axis++)
                    if (models[frame].xyz[3 * atom + axis] != coordinate(frame, atom, axis))
                        fail_msg("kind %d frame %d atom %d axis %d: %g", kind, frame, atom, axis,
                                 (double)models[frame].xyz[3 * atom + axis]);
        clear_all(models, FRAMES);
    }
    structure_model_clear(&topology);
}

static enum status try_trajectory(const struct trajectory *t, size_t length, int atoms, struct err *err) {
    struct structure_model topology = {0}, model = {0};
    int count;
    make_topology(&topology, atoms);
    enum status status = read_all((const char *)t->bytes, length, atoms > 0 ? &topology : NULL, &model, 1, &count, err);
    structure_model_clear(&topology);
    structure_model_clear(&model);
    return status;
}

static void broken_trajectories_are_told(void **state) {
    (void)state;
    struct err err = {0};
    struct trajectory t = make_trajectory(true, false, true, false, FRAMES);
    /* Cut the file at each place. */
    for (size_t length = 16; length < t.length; length += 7) {
        assert_int_equal(try_trajectory(&t, length, ATOMS, &err), STATUS_TRUNCATED);
        assert_non_null(strstr(err.message, "cut short"));
    }
    assert_int_equal(try_trajectory(&t, t.length - 4, ATOMS, &err), STATUS_TRUNCATED);
    assert_non_null(
        strstr(err.message, "it holds 2 whole frames of 5 atoms and a part of one, where its header says 3"));
    assert_int_equal(try_trajectory(&t, t.length, ATOMS + 1, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "has 5 atoms, and the topology has 6"));
    assert_int_equal(try_trajectory(&t, t.length, 0, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "topology"));
    t = make_trajectory(false, false, false, false, FRAMES + 1);
    assert_int_equal(try_trajectory(&t, t.length, ATOMS, &err), STATUS_TRUNCATED);
    t = make_trajectory(false, false, false, false, 0); /* a header that was never updated */
    assert_ok(try_trajectory(&t, t.length, ATOMS, &err));
    t.bytes[0] = 85;
    assert_int_equal(try_trajectory(&t, t.length, ATOMS, &err), STATUS_BAD_FORMAT);
    t = make_trajectory(false, false, false, true, FRAMES);
    memcpy(t.bytes + 4, "VELD", 4);
    assert_int_equal(try_trajectory(&t, t.length, ATOMS, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "velocities"));
    t = make_trajectory(false, false, false, false, FRAMES);
    t.bytes[t.length - 4] ^= 1; /* the last marker */
    struct structure_model topology = {0}, models[FRAMES] = {{0}};
    int count;
    make_topology(&topology, ATOMS);
    assert_int_equal(read_all((char *)t.bytes, t.length, &topology, models, FRAMES, &count, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "frame 3 is marked as 21 bytes long, where 20 were expected"));
    clear_all(models, FRAMES);
    structure_model_clear(&topology);
}

static void trajectories_are_written(void **state) {
    (void)state;
    struct structure_model topology = {0}, model = {0};
    struct structure_reader *reader = NULL;
    struct err err = {0};
    char path[PATH_SIZE];
    float xyz[3 * ATOMS], scratch[ATOMS];
    make_topology(&topology, ATOMS);
    scratch_path("written.dcd", path);
    FILE *out = fopen(path, "w");
    assert_ok(structure_dcd_begin(out, FRAMES, ATOMS, &err));
    for (int frame = 0; frame < FRAMES; frame++) {
        for (int i = 0; i < 3 * ATOMS; i++)
            xyz[i] = coordinate(frame, i / 3, i % 3);
        structure_dcd_frame(out, xyz, ATOMS, scratch);
    }
    fclose(out);
    assert_ok(structure_open(path, &topology, &reader, &err));
    for (int frame = 0;; frame++) {
        bool found;
        assert_ok(structure_next(reader, &model, &found, &err));
        if (!found) {
            assert_int_equal(frame, FRAMES);
            break;
        }
        for (int i = 0; i < 3 * ATOMS; i++)
            assert_true(model.xyz[i] == coordinate(frame, i / 3, i % 3));
    }
    structure_close(&reader);
    structure_model_clear(&topology);
    structure_model_clear(&model);
}

static void differences_are_named(void **state) {
    (void)state;
    struct structure_identity a[3] = {{.name = "N", .residue = "ALA", .chain = "A", .number = 1},
                                      {.name = "CA", .residue = "ALA", .chain = "A", .number = 1},
                                      {.name = "CB", .residue = "ALA", .chain = "", .number = 1, .insertion = "B"}};
    struct structure_identity b[3];
    struct err err = {0};
    memcpy(b, a, sizeof b);
    assert_ok(structure_same(a, 3, "a.pdb", b, 3, "b.pdb", &err));
    b[1].number = 2;
    assert_int_equal(structure_same(a, 3, "a.pdb", b, 3, "b.pdb", &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message,
                           "b.pdb: its selected atom 2 is CA of ALA 2 in chain A, and in a.pdb it is CA of ALA 1 in "
                           "chain A"));
    assert_int_equal(structure_same(a, 3, "a.pdb", a, 2, "b.pdb", &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message,
                           "b.pdb: 2 atoms are selected in it, and 3 in a.pdb, the next of them CB of ALA 1B in "
                           "chain ''"));
    assert_int_equal(structure_same(a, 2, "a.pdb", a, 3, "b.pdb", &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "its next is CB of ALA 1B"));
}

static void numbers_are_read_as_strtod_does(void **state) {
    (void)state;
    unsigned seed = 20261121;
    printf("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < 20000; i++) {
        char text[32];
        double value = (rand() / (double)RAND_MAX - 0.5) * pow(10, rand() % 5);
        snprintf(text, sizeof text, "%*.*f", rand() % 9, rand() % 7, value);
        float expected = (float)strtod(text, NULL), found = structure_number(text, strlen(text));
        if (memcmp(&expected, &found, sizeof found) != 0) fail_msg("'%s' became %.9g", text, (double)found);
    }
    static const char *const none[] = {"", "  ", "nan", "inf", "1x", "0x10", "1 2", "-", ".", "1e", "*****", "1(2"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!isnan(structure_number(none[i], strlen(none[i])))) fail_msg("'%s' is no number", none[i]);
    assert_true(structure_number("12345678901234567890", 20) == 12345678901234567890.0F);
    assert_true(structure_number("1.5e2", 5) == 150);
}

static void put_text(const char *name, const char *text, char path[PATH_SIZE]) {
    struct err err = {0};
    scratch_path(name, path);
    assert_ok(file_write_whole(path, text, strlen(text), &err));
}

static void the_end_of_a_file_is_told(void **state) {
    (void)state;
    static const char row[] = "ATOM      1  CA  GLY A   1      11.104   6.134  -6.504  1.00  0.00           C\n";
    static const struct {
        const char *before, *after;
        bool ends;
    } cases[] = {{"", "END\n", true},           {"", "", false},        {"MODEL 1\n", "ENDMDL\nEND\n", true},
                 {"", "END\nEND\n", false},     {"", "END", false},     {"", "ENDMDL\n", false},
                 {"", "TER\nEND   \n\n", true}, {"data_x\n", "", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512], path[PATH_SIZE];
        enum structure_format format;
        struct err err = {0};
        bool ends = !cases[i].ends;
        snprintf(text, sizeof text, "%s%s%s", cases[i].before, row, cases[i].after);
        put_text("probed.pdb", text, path);
        assert_ok(structure_probe(path, &format, &ends, &err));
        if (ends != cases[i].ends) fail_msg("case %zu", i);
    }
    char path[PATH_SIZE];
    enum structure_format format;
    struct err err = {0};
    bool ends;
    put_text("growing.pdb", "HEADER\nATOM      1  CA  GLY A   1      11.104   6.1", path);
    assert_int_equal(structure_probe(path, &format, &ends, &err), STATUS_TRUNCATED);
    put_text("growing.pdb", "", path);
    assert_int_equal(structure_probe(path, &format, &ends, &err), STATUS_TRUNCATED);
    put_text("data.cif", "data_x\n", path);
    assert_ok(structure_probe(path, &format, &ends, &err));
    assert_true(format == STRUCTURE_CIF && !ends);
    assert_true(structure_is_name("a/b.PDB") && structure_is_name("x.mmcif") && !structure_is_name("b.mrc"));
}

static void real_models_are_read(void **state) {
    (void)state;
    char path[PATH_SIZE];
    if (!scratch_data("rmsd/1l2y.pdb", path)) {
        printf("there is no %s\n", path);
        skip();
    }
    struct structure_reader *reader = NULL;
    struct structure_model model = {0};
    struct structure_selection selection = {.what = STRUCTURE_CA};
    struct err err = {0};
    size_t indices[304], count;
    bool found = true;
    int models = 0;
    assert_ok(structure_open(path, NULL, &reader, &err));
    for (; found; models += found) {
        assert_ok(structure_next(reader, &model, &found, &err));
        if (!found) break;
        assert_int_equal(model.count, 304);
        assert_int_equal(model.number, models + 1);
        assert_ok(structure_select(&model, &selection, path, indices, &count, &err));
        assert_int_equal(count, 20);
    }
    assert_int_equal(models, 38);
    structure_close(&reader);
    structure_model_clear(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pdb_says_what_it_says),        cmocka_unit_test(atoms_are_selected),
        cmocka_unit_test(locations_are_chosen),         cmocka_unit_test(wrong_selections_are_told),
        cmocka_unit_test(numbers_outgrow_columns),      cmocka_unit_test(large_structures_come_back),
        cmocka_unit_test(bad_coordinates_are_told),     cmocka_unit_test(broken_pdb_is_told),
        cmocka_unit_test(frames_without_models),        cmocka_unit_test(cif_says_what_it_says),
        cmocka_unit_test(broken_cif_is_told),           cmocka_unit_test(trajectories_are_read),
        cmocka_unit_test(broken_trajectories_are_told), cmocka_unit_test(trajectories_are_written),
        cmocka_unit_test(differences_are_named),        cmocka_unit_test(numbers_are_read_as_strtod_does),
        cmocka_unit_test(the_end_of_a_file_is_told),    cmocka_unit_test(real_models_are_read),
    };
    return scratch_run("structure", tests, sizeof tests / sizeof *tests);
}
