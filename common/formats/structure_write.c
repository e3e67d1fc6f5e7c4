#include <math.h>
#include <string.h>

#include "common/formats/structure_private.h"

/* Writes a number in decimal if it fits, else in hybrid-36: a letter and digits of base 36, capitals first. */
static void hybrid36(long value, int width, char out[8]) {
    long decimal = width == 5 ? 100000 : 10000, block = width == 5 ? 26L * 36 * 36 * 36 * 36 : 26L * 36 * 36 * 36;
    long least = width == 5 ? -9999 : -999;
    if (value >= least && value < decimal) {
        snprintf(out, 8, "%*ld", width, value);
        return;
    }
    memset(out, '*', (size_t)width);
    out[width] = '\0';
    if (value < 0 || value >= decimal + 2 * block) return;
    bool lower = value >= decimal + block;
    long rest = value - decimal - (lower ? block : 0) + 10 * (block / 26);
    for (int i = width - 1; i >= 0; i--, rest /= 36) {
        int digit = (int)(rest % 36);
        out[i] = (char)(digit < 10 ? '0' + digit : (lower ? 'a' : 'A') + digit - 10);
    }
}

/* Writes the name of an atom. A name of up to three characters begins in the second column if its element has one
 * letter. */
static void place_name(const struct structure_atom *atom, char out[8]) {
    bool shift = strlen(atom->id.name) < 4 && strlen(atom->element) < 2;
    snprintf(out, 8, shift ? " %-3.3s" : "%-4.4s", atom->id.name);
}

static double fit(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

enum status structure_pdb_write(FILE *out, const struct structure_model *model, int number, struct err *err) {
    /* The value rounded to three decimals must keep its point in place. */
    static const float least = -999.9994F, most = 9999.999F;
    for (size_t i = 0; i < 3 * model->count; i++)
        FAIL_IF(!isnan(model->xyz[i]) && !(model->xyz[i] >= least && model->xyz[i] < most), err, STATUS_BAD_ARGUMENT,
                "a coordinate of %g Å does not fit the columns of a PDB file (-999.999 to 9999.999)",
                (double)model->xyz[i]);
    if (number > 0) fprintf(out, "MODEL     %4d\n", number);
    for (size_t i = 0; i < model->count; i++) {
        const struct structure_atom *atom = &model->atoms[i];
        char serial[8], residue[8], name[8];
        const float *xyz = &model->xyz[3 * i];
        if (isnan(xyz[0]) || isnan(xyz[1]) || isnan(xyz[2])) continue;
        hybrid36((long)i + 1, 5, serial);
        hybrid36(atom->id.number, 4, residue);
        place_name(atom, name);
        fprintf(out, "%-6s%s %s%c%-4.4s%-1.1s%s%-1.1s   %8.3f%8.3f%8.3f%6.2f%6.2f          %2.2s\n",
                atom->hetero ? "HETATM" : "ATOM", serial, name, atom->altloc != '\0' ? atom->altloc : ' ',
                atom->id.residue, atom->id.chain, residue, atom->id.insertion, (double)xyz[0], (double)xyz[1],
                (double)xyz[2], fit((double)atom->occupancy, -99.99, 999.99),
                fit((double)atom->b_factor, -99.99, 999.99), atom->element);
    }
    fputs(number > 0 ? "ENDMDL\n" : "TER\n", out);
    return STATUS_OK;
}

void structure_pdb_end(FILE *out) {
    fputs("END\n", out);
}

static void put_integer(FILE *out, uint32_t value) {
    const unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
                                    (unsigned char)(value >> 24)};
    fwrite(bytes, 1, sizeof bytes, out);
}

enum status structure_dcd_begin(FILE *out, size_t frames, size_t atoms, struct err *err) {
    static const char title[80] = "icestream superposer";
    uint32_t header[20] = {
        [0] = (uint32_t)frames, [1] = 1, [2] = 1, [3] = (uint32_t)frames, [9] = 0x3f800000, [19] = 24};
    FAIL_IF(frames > INT32_MAX || atoms > INT32_MAX / 4, err, STATUS_BAD_ARGUMENT,
            "%zu frames of %zu atoms have no place in a DCD file", frames, atoms);
    put_integer(out, 84);
    fwrite("CORD", 1, 4, out);
    for (int i = 0; i < 20; i++)
        put_integer(out, header[i]);
    put_integer(out, 84);
    put_integer(out, 84);
    put_integer(out, 1);
    fwrite(title, 1, sizeof title, out);
    put_integer(out, 84);
    put_integer(out, 4);
    put_integer(out, (uint32_t)atoms);
    put_integer(out, 4);
    return STATUS_OK;
}

void structure_dcd_frame(FILE *out, const float *xyz, size_t atoms, float *scratch) {
    for (int axis = 0; axis < 3; axis++) {
        for (size_t i = 0; i < atoms; i++)
            scratch[i] = xyz[3 * i + (size_t)axis];
        put_integer(out, (uint32_t)(4 * atoms));
        fwrite(scratch, sizeof *scratch, atoms, out);
        put_integer(out, (uint32_t)(4 * atoms));
    }
}
