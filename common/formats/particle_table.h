/* Reads tables of particles: with optics groups, as RELION 3.1 and later write them, and with all values in one table,
 * as RELION 3.0 and earlier do. What one stage accepts, the next stage accepts too:
 *  - The particles are in the table "particles", else in the first table that has a column rlnImageName.
 *  - Pixel size and optics come from the optics group, else from columns of the row, else as optics.h says for
 *    particles. The header is that of the first stack.
 *  - Pixel sizes and boxes of rows may differ: the stage brings images to one grid (kernels/regrid).
 *  - Aberrations come from the optics group, else from columns of the row.
 *  - A defocus of 0, and "nan" in any column of the CTF, stand for an unknown CTF: tables that were joined hold "nan",
 *    or 0 of older versions, where one of them had no such column. "inf" and other texts are refused.
 *  - Boxes are even, and from 16 to 2048 px.
 *  - Particles that are multiplied by their CTF are refused, as are rows whose images a stack does not hold.
 * Column indices are looked up once. Reading a row allocates nothing. */
#ifndef ICESTREAM_COMMON_FORMATS_PARTICLE_TABLE_H
#define ICESTREAM_COMMON_FORMATS_PARTICLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/formats/optics.h"
#include "common/formats/optics_aberrations.h"
#include "common/formats/star.h"
#include "common/status.h"

enum { PARTICLE_BOX_LEAST = 16, PARTICLE_BOX_MOST = 2048 }; /* px */

struct particle_table;

/* Returns the table of particles, or NULL. */
struct star_table *particle_table_find(struct star_file *file);

/* Reads columns and optics groups. The file and the path (for messages) must outlive the table.
 * session_pixel_size: Å, NaN: not set. ignore_aberrations: rows have none, whatever the table states. */
enum status particle_table_open(struct star_file *file, const char *path, double session_pixel_size,
                                bool ignore_aberrations, struct particle_table **ret_table, struct err *err);
/* Makes another reader of the same rows, for another thread. Close it before the table. */
enum status particle_table_share(const struct particle_table *table, struct particle_table **ret_table,
                                 struct err *err);
void particle_table_close(struct particle_table **table);

/* Returns the table of the rows. */
const struct star_table *particle_table_rows(const struct particle_table *table);

/* Returns the number of rows of the optics table; 0: there are no optics groups. */
int particle_table_group_count(const struct particle_table *table);
/* Returns whether the rows hold optics (pixel size, voltage, …) in columns that the optics table lacks. */
bool particle_table_rows_have_optics(const struct particle_table *table);
/* Returns whether there are optics groups, and all rows of a group have the optics and aberrations of the group. */
bool particle_table_groups_have_optics(const struct particle_table *table);
/* Returns the optics of a group. All values are known, but the pixel size may be NaN. */
struct optics particle_table_group_optics(const struct particle_table *table, int group);
/* Returns the aberrations of a group, without those in columns of the rows. */
const struct optics_aberrations *particle_table_group_aberrations(const struct particle_table *table, int group);
/* Returns the file of a group's MTF (rlnMtfFileName), and the pixel size (Å) of its detector
 * (rlnMicrographOriginalPixelSize; NaN: not known). NULL: there is none, or aberrations are ignored. */
const char *particle_table_group_mtf(const struct particle_table *table, int group, double *ret_pixel_size);
/* Returns the name of a group: a text of the optics table, or "opticsGroupN", which is written into `own`. */
const char *particle_table_group_name(const struct particle_table *table, int group, char own[32]);

/* The image of a row. */
struct particle_image {
    long number;       /* from 1 */
    const char *stack; /* as the table names it; valid as long as the file */
};
/* Takes "NNNNNN@stack.mrcs" apart, the rlnImageName of a row (from 0). path: of the table, for the message. */
enum status particle_image_parse(const char *name, const char *path, size_t row, struct particle_image *ret_image,
                                 struct err *err);
/* Finds out which image of which stack a row names. */
enum status particle_table_image(const struct particle_table *table, size_t row, struct particle_image *ret_image,
                                 struct err *err);

/* Finds the stack that a table names: beside the table's file, else below the root (NULL: none), where RELION has it.
 * Returns false if it is in neither. */
bool particle_stack_find(const char *root, const char *star_path, const char *name, char path[PATH_SIZE]);
/* Does the same, and fills ret_file with the stat of the file. */
bool particle_stack_look(const char *root, const char *star_path, const char *name, char path[PATH_SIZE],
                         struct stat *ret_file);

/* The header of a stack of particles. */
struct particle_stack_header {
    int box, images;   /* px, 1 */
    double pixel_size; /* Å; 0: unknown */
};
/* Reads the header. Refuses images that are not square. */
enum status particle_stack_read(const char *path, struct particle_stack_header *ret_header, struct err *err);
/* Call for each stack of the table before the values of its rows are read. */
void particle_table_note_stack(struct particle_table *table, const struct particle_stack_header *header);
/* Fails if the stack has no such image. path: of the stack, for the message. */
enum status particle_table_check_image(const struct particle_table *table, size_t row,
                                       const struct particle_image *image, const char *path, int images,
                                       struct err *err);

/* The values of a row. */
struct particle_row {
    int group;                                    /* row of the optics table; -1: there are no optics groups */
    struct optics optics;                         /* all known */
    const struct optics_aberrations *aberrations; /* the table's; valid until the next row is read */
    bool has_ctf;
    double defocus_u, defocus_v;       /* Å */
    double defocus_angle, phase_shift; /* ° */
    double b_factor, scale;            /* Å², 1 */
};
/* Reads the values. Refuses a row whose pixel size is not known. */
enum status particle_table_row(struct particle_table *table, size_t row, struct particle_row *ret_row, struct err *err);
/* Fails with a message that the CTF of a row is impossible. */
enum status particle_table_bad_ctf(const struct particle_table *table, size_t row, const struct particle_row *values,
                                   struct err *err);

/* Fail if particles of this box (px) or pixel size (Å) cannot be compared. path: of the file that they come from, for
 * the message. */
enum status particle_check_box(int box, const char *path, struct err *err);
enum status particle_check_pixel_size(double pixel_size, const char *path, struct err *err);

#endif
