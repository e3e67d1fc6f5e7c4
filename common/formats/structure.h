/* Reads structures of molecules, atoms with coordinates, from PDB, mmCIF and DCD files; writes PDB and DCD files.
 *
 * Coordinates are in Å, xyz[atom * 3 + axis], float32. A file holds one structure after another (MODEL … ENDMDL in PDB,
 * pdbx_PDB_model_num in mmCIF, a frame in DCD). The reader returns them in this order and keeps none. The content of a
 * file shows its format. Serial numbers of atoms are not read, so it does not matter how a file of more than 99,999
 * atoms writes them. Residue numbers above 9999 may be hybrid-36 or hexadecimal.
 *
 * A coordinate that is not a number (NaN, `********`) does not stop the reader, because no caller may need this atom.
 * It is NaN in xyz, and structure_take reports it if the atom is selected. */
#ifndef ICESTREAM_COMMON_FORMATS_STRUCTURE_H
#define ICESTREAM_COMMON_FORMATS_STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

enum structure_format { STRUCTURE_PDB, STRUCTURE_CIF, STRUCTURE_DCD };

/* Identifies an atom in two structures. Unused bytes are 0, so memcmp compares. If an mmCIF file has both kinds of
 * names, these are the author's, as in PDB files. Hydrogens that older PDB files call 1HD1 are HD11. */
struct structure_identity {
    char name[8], residue[8];
    char chain[12];    /* the segment if the chain is blank */
    int32_t number;    /* of the residue */
    char insertion[4]; /* code, "" for none */
};

struct structure_atom {
    struct structure_identity id;
    char element[4]; /* in capitals: "C", "SE"; "" unknown */
    char altloc;     /* ' ': none */
    bool hetero;     /* HETATM */
    float occupancy, b_factor;
};

enum { STRUCTURE_FAULTS = 4 };

struct structure_fault { /* an atom whose coordinates are not numbers */
    size_t atom;
    long line;
    char text[32];
};

/* Starts as {0}; keeps its memory from one structure to the next. */
struct structure_model {
    size_t count, capacity;
    struct structure_atom *atoms;
    float *xyz;                                      /* [count][3] */
    int number;                                      /* of the model in the file, or of the frame, from 1 */
    struct structure_fault faults[STRUCTURE_FAULTS]; /* the first ones */
    int fault_count;
};
void structure_model_clear(struct structure_model *model);

struct structure_reader;
/* topology: the atoms of a DCD file, which does not name them; it must outlive the reader. Readers of other formats
 * ignore it (may be NULL). */
enum status structure_open(const char *path, const struct structure_model *topology,
                           struct structure_reader **ret_reader, struct err *err);
/* As structure_open, for an open stream that can seek. The reader owns the stream, also when this function fails. */
enum status structure_open_stream(FILE *stream, const char *name, const struct structure_model *topology,
                                  struct structure_reader **ret_reader, struct err *err);
/* Reads the next structure into *model, whose memory is used again; *ret_found is false at the end. STATUS_BAD_FORMAT:
 * a file without any atom; STATUS_TRUNCATED: a file that ends inside a row, a loop or a frame. */
enum status structure_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found,
                           struct err *err);
/* Returns the format of the file. */
enum structure_format structure_reader_format(const struct structure_reader *reader);
/* Returns how many structures the file has if it says so (DCD); else 0. */
int64_t structure_reader_count(const struct structure_reader *reader);
void structure_close(struct structure_reader **reader);

/* Reads the first structure of a file. */
enum status structure_read_first(const char *path, struct structure_model *model, struct err *err);

/* Returns whether a name ends in .pdb, .ent, .cif, .mmcif or .dcd. */
bool structure_is_name(const char *name);
/* Looks quickly at a file that may still be growing. *ret_ends: its last line says that nothing follows.
 * STATUS_TRUNCATED: more must come; STATUS_BAD_FORMAT: the file cannot become a structure. */
enum status structure_probe(const char *path, enum structure_format *ret_format, bool *ret_ends, struct err *err);

enum structure_what {
    STRUCTURE_CA,       /* alpha carbons of amino acids */
    STRUCTURE_BACKBONE, /* N, CA, C and O of amino acids */
    STRUCTURE_HEAVY,    /* all but hydrogen and water */
    STRUCTURE_ALL,
};
#define STRUCTURE_WHAT_CHOICES "ca|backbone|heavy|all"

enum { STRUCTURE_CHAINS_MAX = 64, STRUCTURE_RANGES_MAX = 64 };

struct structure_range {
    int32_t first, last;
    char first_insertion, last_insertion; /* 0: any of that number */
};

struct structure_selection {
    enum structure_what what;
    int chain_count; /* 0: all */
    char chains[STRUCTURE_CHAINS_MAX][12];
    int range_count; /* 0: all */
    struct structure_range ranges[STRUCTURE_RANGES_MAX];
};

/* chains: "A" or "A,B"; residues: "10-50", "-3-10,52A,60-70" (with insertion codes); NULL or "": all. */
enum status structure_selection_parse(enum structure_what what, const char *chains, const char *residues,
                                      struct structure_selection *ret_selection, struct err *err);
/* Writes the places of the selected atoms into indices[model->count], in ascending order. Among alternate locations of
 * a residue the one with the highest occupancy stays, the first of equals. If no atom is selected, the error says which
 * chains and residues exist. `name` is for messages. */
enum status structure_select(const struct structure_model *model, const struct structure_selection *selection,
                             const char *name, size_t *indices, size_t *ret_count, struct err *err);
/* Copies the coordinates of these atoms into xyz[count][3]. A coordinate that is not a number, or beyond STRUCTURE_FAR,
 * is an error that names atom and line. */
#define STRUCTURE_FAR 1e6f
enum status structure_take(const struct structure_model *model, const size_t *indices, size_t count, const char *name,
                           float *xyz, struct err *err);
/* Compares the selected atoms of two structures; the error names the first difference. */
enum status structure_same(const struct structure_identity *expected, size_t expected_count, const char *expected_name,
                           const struct structure_identity *found, size_t count, const char *name, struct err *err);
/* Writes "CB of SER 12A in chain A" into text and returns it. */
const char *structure_describe(const struct structure_identity *id, char text[64]);
/* Returns the standard atomic mass (u); 0 for an unknown element. */
float structure_mass(const char *element);

/* Writes one structure as rows of a PDB file, between MODEL and ENDMDL if number > 0. Call structure_pdb_end after the
 * last. STATUS_BAD_ARGUMENT: a coordinate does not fit its eight columns. Atoms without coordinates (NaN) are left out,
 * long names are cut to their columns, and numbers of atoms above 99,999 are hybrid-36. */
enum status structure_pdb_write(FILE *out, const struct structure_model *model, int number, struct err *err);
/* Writes the END row. */
void structure_pdb_end(FILE *out);

/* Begins a DCD file (of CHARMM, little-endian, without unit cells) of `frames` structures of `atoms` atoms. */
enum status structure_dcd_begin(FILE *out, size_t frames, size_t atoms, struct err *err);
/* Writes one frame. scratch[atoms]: memory of the caller. */
void structure_dcd_frame(FILE *out, const float *xyz, size_t atoms, float *scratch);

#endif
