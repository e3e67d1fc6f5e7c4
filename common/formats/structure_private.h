/* Shared by the readers of the three formats. */
#ifndef ICESTREAM_COMMON_FORMATS_STRUCTURE_PRIVATE_H
#define ICESTREAM_COMMON_FORMATS_STRUCTURE_PRIVATE_H

#include "common/formats/structure.h"

enum { CIF_COLUMNS_MAX = 256, CIF_TOKEN_MAX = 256, PDB_LINE_MAX = 256 };

struct cif_state {
    char token[CIF_TOKEN_MAX];
    bool quoted;     /* token is a value even if it looks like a keyword */
    bool have_token; /* token was read and not used */
    bool line_start; /* the next character is the first of a line */
    bool in_rows;    /* inside the loop of atoms */
    bool have_row;   /* `row` holds the first atom of the next model */
    int column_count;
    int field_of[CIF_COLUMNS_MAX]; /* the field in a column of the loop, −1: not used */
    int place[32];                 /* the column of a field in the loop, −1: none */
    int model;                     /* of the row */
    struct structure_atom row;
    float row_xyz[3];
    char row_text[32]; /* of a coordinate that is not a number */
    long row_line;
};

struct dcd_state {
    bool swapped;
    int marker; /* bytes of a record's length: 4 or 8 */
    int64_t atoms, frames, frame_bytes, first_bytes;
    bool has_cell, has_fourth;
    int64_t fixed;       /* atoms that only the first frame holds */
    int32_t *free_atoms; /* [atoms − fixed], from 0 */
    float *record;       /* [atoms] */
    float *first;        /* [atoms][3], with fixed atoms */
    const void *filled;  /* the caller's atoms, already copied from the topology */
    int64_t next;        /* frame, from 0 */
};

struct structure_reader {
    FILE *stream;
    char *name;
    enum structure_format format;
    const struct structure_model *topology;
    int64_t size; /* of the file, bytes */
    long line;
    int given; /* structures returned so far */
    char text[PDB_LINE_MAX];
    bool has_text; /* text holds a line that was read and not used */
    struct cif_state cif;
    struct dcd_state dcd;
};

/* Read the next structure of a PDB or mmCIF file into a model that was reset. */
enum status pdb_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found, struct err *err);
enum status cif_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found, struct err *err);
/* Reads the header of a DCD file; dcd_next reads the next frame; dcd_end frees the buffers. */
enum status dcd_begin(struct structure_reader *reader, struct err *err);
enum status dcd_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found, struct err *err);
void dcd_end(struct dcd_state *dcd);

/* Adds an atom, zeroed. */
enum status structure_model_add(struct structure_model *model, struct structure_atom **ret_atom, float **ret_xyz,
                                struct err *err);
/* Removes all atoms and faults; keeps the memory. */
void structure_model_reset(struct structure_model *model);
/* Records a fault of the atom that was added last. text: the faulty text of the file. */
void structure_model_fault(struct structure_model *model, long line, const char *text);

/* Returns the decimal number in a text of at most `width` characters, with blanks around it ("  12.345 "); else NaN. */
float structure_number(const char *text, size_t width);
/* Copies text[width] without blanks around it, cut to size − 1; the rest of `out` is 0. */
void structure_word(const char *text, size_t width, char *out, size_t size);

#endif
