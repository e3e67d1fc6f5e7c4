/* Reads DCD files. A file is a sequence of Fortran records (length, bytes, length again): a header of 84 bytes ("CORD"
 * and twenty integers: frames at 0, fixed atoms at 8, has a cell at 10, a fourth coordinate at 11, CHARMM's version at
 * 19), titles, the number of atoms, the list of free atoms when some are fixed, then for each frame the cell, and x, y,
 * z of all atoms as float32. The byte order is the writer's; some compilers write lengths of 8 bytes. All frames have
 * the same length, except the first when atoms are fixed. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/structure_private.h"
#include "common/memory.h"

enum { HEADER_BYTES = 84, TITLES_MAX = 1 << 20 };
static const int64_t ATOMS_MAX = 1 << 28;

static uint32_t swap32(uint32_t value) {
    return value >> 24 | (value >> 8 & 0xff00) | (value << 8 & 0xff0000) | value << 24;
}

static int32_t integer_at(const struct dcd_state *dcd, const unsigned char *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return (int32_t)(dcd->swapped ? swap32(value) : value);
}

static enum status read_bytes(struct structure_reader *reader, void *bytes, size_t length, const char *what,
                              struct err *err) {
    FAIL_IF(fread(bytes, 1, length, reader->stream) != length, err, STATUS_TRUNCATED,
            "%s: the file ends inside its %s: it is cut short", reader->name, what);
    return STATUS_OK;
}

/* Reads the length of a record that begins or ends here. */
static enum status read_marker(struct structure_reader *reader, const char *what, int64_t *ret_length,
                               struct err *err) {
    const struct dcd_state *dcd = &reader->dcd;
    unsigned char bytes[8] = {0};
    TRY(read_bytes(reader, bytes, (size_t)dcd->marker, what, err));
    int64_t low = (uint32_t)integer_at(dcd, bytes + (dcd->swapped && dcd->marker == 8 ? 4 : 0));
    int64_t high = dcd->marker == 8 ? (uint32_t)integer_at(dcd, bytes + (dcd->swapped ? 0 : 4)) : 0;
    FAIL_IF(high != 0, err, STATUS_BAD_FORMAT, "%s: its %s has an impossible length", reader->name, what);
    *ret_length = low;
    return STATUS_OK;
}

static enum status expect_marker(struct structure_reader *reader, int64_t length, const char *what, struct err *err) {
    int64_t found = 0;
    TRY(read_marker(reader, what, &found, err));
    FAIL_IF(found != length, err, STATUS_BAD_FORMAT,
            "%s: its %s is marked as %lld bytes long, where %lld were expected", reader->name, what, (long long)found,
            (long long)length);
    return STATUS_OK;
}

static enum status read_record(struct structure_reader *reader, void *bytes, int64_t length, const char *what,
                               struct err *err) {
    TRY(expect_marker(reader, length, what, err));
    TRY(read_bytes(reader, bytes, (size_t)length, what, err));
    return expect_marker(reader, length, what, err);
}

/* Finds byte order and width of lengths: the first length is always 84. */
static enum status tell_order(struct structure_reader *reader, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    unsigned char head[12];
    TRY(read_bytes(reader, head, sizeof head, "header", err));
    FAIL_IF(fseeko(reader->stream, 0, SEEK_SET) != 0, err, STATUS_IO, "%s: cannot be read: %s", reader->name,
            strerror(errno));
    bool wide = memcmp(head + 4, "CORD", 4) != 0 && memcmp(head + 4, "VELD", 4) != 0;
    dcd->marker = wide ? 8 : 4;
    FAIL_IF(memcmp(head + dcd->marker, "VELD", 4) == 0, err, STATUS_UNSUPPORTED,
            "%s: holds velocities: a DCD file of coordinates was expected", reader->name);
    int64_t length = 0;
    for (int swapped = 0; swapped < 2 && length != HEADER_BYTES; swapped++) {
        dcd->swapped = swapped;
        length = (uint32_t)integer_at(dcd, head + (wide && swapped ? 4 : 0));
    }
    FAIL_IF(length != HEADER_BYTES, err, STATUS_BAD_FORMAT,
            "%s: its first record is of %lld bytes in one byte order and not of %d in either: it is not a readable DCD "
            "file",
            reader->name, (long long)length, HEADER_BYTES);
    return STATUS_OK;
}

static enum status read_header(struct structure_reader *reader, int64_t *ret_said, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    unsigned char header[HEADER_BYTES], atoms[4];
    TRY(read_record(reader, header, HEADER_BYTES, "header", err));
    const unsigned char *icntrl = header + 4;
    *ret_said = integer_at(dcd, icntrl);
    dcd->fixed = integer_at(dcd, icntrl + 4 * 8);
    bool charmm = integer_at(dcd, icntrl + 4 * 19) != 0;
    dcd->has_cell = charmm && integer_at(dcd, icntrl + 4 * 10) != 0;
    dcd->has_fourth = charmm && integer_at(dcd, icntrl + 4 * 11) != 0;
    int64_t titles;
    TRY(read_marker(reader, "titles", &titles, err));
    FAIL_IF(titles > TITLES_MAX, err, STATUS_BAD_FORMAT, "%s: its titles would be %lld bytes long", reader->name,
            (long long)titles);
    FAIL_IF(titles > reader->size - ftello(reader->stream), err, STATUS_TRUNCATED,
            "%s: the file ends inside its titles: it is cut short", reader->name);
    FAIL_IF(fseeko(reader->stream, titles, SEEK_CUR) != 0, err, STATUS_IO, "%s: cannot be read: %s", reader->name,
            strerror(errno));
    TRY(expect_marker(reader, titles, "titles", err));
    TRY(read_record(reader, atoms, sizeof atoms, "number of atoms", err));
    dcd->atoms = integer_at(dcd, atoms);
    FAIL_IF(dcd->atoms < 1 || dcd->atoms > ATOMS_MAX, err, STATUS_BAD_FORMAT, "%s: its header gives %lld atoms",
            reader->name, (long long)dcd->atoms);
    FAIL_IF(dcd->fixed < 0 || dcd->fixed >= dcd->atoms, err, STATUS_BAD_FORMAT,
            "%s: its header gives %lld of its %lld atoms as fixed", reader->name, (long long)dcd->fixed,
            (long long)dcd->atoms);
    return STATUS_OK;
}

/* Checks the number of frames. A file that ends inside a frame may still grow or was cut short; it is refused either
 * way, because nobody would notice the missing frames. A header with fewer frames than the file was not updated. */
static enum status count_frames(struct structure_reader *reader, int64_t said, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    int64_t marks = 2 * dcd->marker, cell = dcd->has_cell ? 48 + marks : 0, axes = 3 + dcd->has_fourth;
    dcd->first_bytes = cell + axes * (4 * dcd->atoms + marks);
    dcd->frame_bytes = cell + axes * (4 * (dcd->atoms - dcd->fixed) + marks);
    int64_t left = reader->size - ftello(reader->stream);
    int64_t after = left - dcd->first_bytes;
    dcd->frames = after >= 0 ? 1 + after / dcd->frame_bytes : 0;
    int64_t rest = after >= 0 ? after % dcd->frame_bytes : left;
    FAIL_IF(rest != 0 || dcd->frames < said, err, STATUS_TRUNCATED,
            "%s: is cut short: it holds %lld whole frames of %lld atoms%s, where its header says %lld", reader->name,
            (long long)dcd->frames, (long long)dcd->atoms, rest != 0 ? " and a part of one" : "", (long long)said);
    return STATUS_OK;
}

static enum status read_free(struct structure_reader *reader, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    int64_t count = dcd->atoms - dcd->fixed;
    FAIL_IF(4 * count > reader->size, err, STATUS_TRUNCATED,
            "%s: the file ends inside its list of free atoms: it is cut short", reader->name);
    TRY(mem_new((size_t)count, sizeof *dcd->free_atoms, "free atoms of a trajectory", &dcd->free_atoms, err));
    TRY(read_record(reader, dcd->free_atoms, 4 * count, "list of free atoms", err));
    for (int64_t i = 0; i < count; i++) {
        int32_t index = integer_at(dcd, (const unsigned char *)&dcd->free_atoms[i]) - 1;
        FAIL_IF(index < 0 || index >= dcd->atoms, err, STATUS_BAD_FORMAT,
                "%s: its list of free atoms names atom %lld of %lld", reader->name, (long long)index + 1,
                (long long)dcd->atoms);
        dcd->free_atoms[i] = index;
    }
    return STATUS_OK;
}

enum status dcd_begin(struct structure_reader *reader, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    int64_t said;
    TRY(tell_order(reader, err));
    TRY(read_header(reader, &said, err));
    if (dcd->fixed > 0) TRY(read_free(reader, err));
    return count_frames(reader, said, err);
}

void dcd_end(struct dcd_state *dcd) {
    mem_free(&dcd->free_atoms);
    mem_free(&dcd->record);
    mem_free(&dcd->first);
}

static enum status take_topology(struct structure_reader *reader, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    const struct structure_model *topology = reader->topology;
    FAIL_IF(topology == NULL, err, STATUS_BAD_FORMAT,
            "%s: a DCD file does not say what its atoms are: give a PDB or mmCIF file of them as topology",
            reader->name);
    FAIL_IF((int64_t)topology->count != dcd->atoms, err, STATUS_BAD_FORMAT,
            "%s: has %lld atoms, and the topology has %zu: give the one that it was made with", reader->name,
            (long long)dcd->atoms, topology->count);
    TRY(mem_new_unset((size_t)dcd->atoms, sizeof *dcd->record, "a frame", &dcd->record, err));
    if (dcd->fixed > 0) TRY(mem_new_unset(3 * (size_t)dcd->atoms, sizeof *dcd->first, "a frame", &dcd->first, err));
    return STATUS_OK;
}

static void put_axis(const struct dcd_state *dcd, int axis, int64_t count, float *xyz) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &dcd->record[i], sizeof bits);
        if (dcd->swapped) bits = swap32(bits);
        int64_t atom = count < dcd->atoms ? dcd->free_atoms[i] : i;
        memcpy(&xyz[3 * atom + axis], &bits, sizeof bits);
    }
}

static enum status read_frame(struct structure_reader *reader, float *xyz, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    int64_t count = dcd->next == 0 ? dcd->atoms : dcd->atoms - dcd->fixed;
    unsigned char cell[48];
    char what[64];
    snprintf(what, sizeof what, "frame %lld", (long long)dcd->next + 1);
    if (dcd->has_cell) TRY(read_record(reader, cell, sizeof cell, what, err));
    if (dcd->next > 0 && dcd->fixed > 0) memcpy(xyz, dcd->first, 3 * (size_t)dcd->atoms * sizeof *xyz);
    for (int axis = 0; axis < 3 + dcd->has_fourth; axis++) {
        TRY(read_record(reader, dcd->record, 4 * count, what, err));
        if (axis < 3) put_axis(dcd, axis, count, xyz);
    }
    if (dcd->next == 0 && dcd->fixed > 0) memcpy(dcd->first, xyz, 3 * (size_t)dcd->atoms * sizeof *xyz);
    return STATUS_OK;
}

enum status dcd_next(struct structure_reader *reader, struct structure_model *model, bool *ret_found, struct err *err) {
    struct dcd_state *dcd = &reader->dcd;
    if (dcd->record == NULL) TRY(take_topology(reader, err));
    *ret_found = dcd->next < dcd->frames;
    if (!*ret_found) return STATUS_OK;
    const struct structure_model *topology = reader->topology;
    struct structure_atom *atom;
    float *xyz;
    while (model->capacity < topology->count || model->atoms == NULL)
        TRY(structure_model_add(model, &atom, &xyz, err));
    model->count = topology->count;
    /* Atoms are copied once if the caller passes the same model each time, as callers do. */
    if (dcd->filled != model->atoms) memcpy(model->atoms, topology->atoms, topology->count * sizeof *model->atoms);
    dcd->filled = model->atoms;
    TRY(read_frame(reader, model->xyz, err));
    dcd->next++;
    model->number = (int)dcd->next;
    return STATUS_OK;
}
