/* Structures of molecules: atoms with coordinates, from PDB, mmCIF and DCD files, and PDB and DCD files of them.
 *
 * Coordinates are in Å, xyz[atom * 3 + axis], float32. A file holds one structure after the other (MODEL … ENDMDL of a
 * PDB file, pdbx_PDB_model_num of mmCIF, a frame of a DCD file); the reader hands them out in that order and keeps
 * none. What format a file has is told by its content. Serial numbers of atoms are not read, so it does not matter how
 * a file of more than 99,999 atoms writes them; residue numbers above 9999 may be hybrid-36 or hexadecimal.
 *
 * A coordinate that is no number (NaN, `********`) does not stop the reader, since nobody may have asked for that atom:
 * it is NaN in xyz, and structure_take says so of an atom that was selected. */
#ifndef ICESTREAM_COMMON_FORMATS_STRUCTURE_H
#define ICESTREAM_COMMON_FORMATS_STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

enum structure_format { STRUCTURE_PDB, STRUCTURE_CIF, STRUCTURE_DCD };

/* What makes an atom the same in two structures. Unused bytes are 0, so that memcmp compares. Of an mmCIF file the
 * author's names, as PDB files have them, where it gives both. Hydrogens that an older PDB file calls
 * 1HD1 are HD11. */
struct structure_identity {
    char name[8], residue[8];
    char chain[12];    /* the segment where the chain is blank */
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

struct structure_fault { /* an atom whose coordinates are no numbers */
    size_t atom;
    long line;
    char text[32];
};

/* Starts as {0}; memory is kept from one structure to the next. */
struct structure_model {
    size_t count, capacity;
    struct structure_atom *atoms;
    float *xyz;                                      /* [count][3] */
    int number;                                      /* as the file has it; a frame's from 1 */
    struct structure_fault faults[STRUCTURE_FAULTS]; /* the first ones */
    int fault_count;
};
void structure_model_clear(struct structure_model *model);

struct structure_reader;
/* topology: what atoms a DCD file is of, which does not say so itself; it must outlive the reader. Others do not need
 * it (NULL) and do not look at it. */
enum status structure_open(const char *path, const struct structure_model *topology,
                           struct structure_reader **ret_reader, struct err *err);
/* The same of an open stream that can seek, which the reader then owns, also when this fails. */
enum status structure_open_stream(FILE *stream, const char *name, const struct structure_model *topology,
                                  struct structure_reader **ret_reader, struct err *err);
/* The next structure into *model, whose memory is used again; *ret_found is false at the end. A file without a single
 * atom is STATUS_BAD_FORMAT; one that ends in the middle of a row, a loop or a frame STATUS_TRUNCATED. */
enum status structure_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found,
                           struct err *err);
enum structure_format structure_reader_format(const struct structure_reader *reader);
/* How many structures there are, where the file says so (DCD); else 0. */
int64_t structure_reader_count(const struct structure_reader *reader);
void structure_close(struct structure_reader **reader);

/* The first structure of a file. */
enum status structure_read_first(const char *path, struct structure_model *model, struct err *err);

/* Whether a name ends as those of such files do: .pdb .ent .cif .mmcif .dcd. */
bool structure_is_name(const char *name);
/* A quick look at a file that may still be growing. ret_ends: its last line says that nothing follows.
 * STATUS_TRUNCATED: more must come; STATUS_BAD_FORMAT: it cannot become a structure. */
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
/* Which atoms that is: their places in ascending order into indices[model->count]. Of a residue's alternate locations
 * the one with the highest occupancy stays, the first of equals. No atom at all is an error that says what there is.
 * `name` is for messages. */
enum status structure_select(const struct structure_model *model, const struct structure_selection *selection,
                             const char *name, size_t *indices, size_t *ret_count, struct err *err);
/* The coordinates of those atoms into xyz[count][3]; one that is not a number, or lies farther than STRUCTURE_FAR from
 * the origin, is an error that names atom and line. */
#define STRUCTURE_FAR 1e6f
enum status structure_take(const struct structure_model *model, const size_t *indices, size_t count, const char *name,
                           float *xyz, struct err *err);
/* An error that names the first difference between the selected atoms of two structures. */
enum status structure_same(const struct structure_identity *expected, size_t expected_count, const char *expected_name,
                           const struct structure_identity *found, size_t count, const char *name, struct err *err);
/* "CB of SER 12A in chain A" */
const char *structure_describe(const struct structure_identity *id, char text[64]);
/* Standard atomic mass (u); 0 for an element that is not known. */
float structure_mass(const char *element);

/* One structure as rows of a PDB file: with MODEL and ENDMDL around it when model > 0. After the last,
 * structure_pdb_end. STATUS_BAD_ARGUMENT where a coordinate does not fit its eight columns; an atom without coordinates
 * (NaN) is left out. Names that are longer than their columns are cut; numbers of atoms above 99,999 are hybrid-36. */
enum status structure_pdb_write(FILE *out, const struct structure_model *model, int number, struct err *err);
void structure_pdb_end(FILE *out);

/* A DCD file (CHARMM's, little-endian, no unit cells) of `frames` structures of `atoms` atoms. */
enum status structure_dcd_begin(FILE *out, size_t frames, size_t atoms, struct err *err);
/* scratch[atoms] is the caller's. */
void structure_dcd_frame(FILE *out, const float *xyz, size_t atoms, float *scratch);

#endif
