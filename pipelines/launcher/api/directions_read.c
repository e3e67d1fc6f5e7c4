/* Reads directions of view from a table of particles, without building the table. */
#include "pipelines/launcher/api/directions_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"

/* A table of this size is read whole; of a larger one as many pieces, evenly spread, as make PIECES · PIECE bytes. */
enum { HEAD = 256 << 10, PIECES = 64, PIECE = 512 << 10 };

struct angles {
    int rot, tilt; /* columns */
    int64_t begin; /* of the first row, bytes */
};

/* Reads the head of a STAR file up to the first row of its particles. */
static bool find_columns(const char *head, size_t length, struct angles *ret_angles) {
    struct angles angles = {-1, -1, 0};
    bool particles = false;
    int column = 0;
    for (const char *line = head, *stop; (stop = memchr(line, '\n', length - (size_t)(line - head))) != NULL;
         line = stop + 1) {
        size_t size = (size_t)(stop - line);
        while (size > 0 && (*line == ' ' || *line == '\t'))
            line++, size--;
        if (size >= 5 && memcmp(line, "data_", 5) == 0) {
            particles = size >= 14 && memcmp(line + 5, "particles", 9) == 0;
            column = 0;
        } else if (particles && size > 1 && line[0] == '_') {
            size_t name = strcspn(line, " \t\r\n");
            if (name == 12 && memcmp(line, "_rlnAngleRot", 12) == 0) angles.rot = column;
            if (name == 13 && memcmp(line, "_rlnAngleTilt", 13) == 0) angles.tilt = column;
            column++;
        } else if (particles && column > 0 && size > 0 && line[0] != '#' && line[0] != '\r') {
            angles.begin = line - head;
            *ret_angles = angles;
            return angles.rot >= 0 && angles.tilt >= 0;
        }
    }
    return false;
}

static void add_line(const struct angles *angles, const char *line, const char *stop,
                     struct directions_spread *spread) {
    double rot = NAN, tilt = NAN;
    char *end;
    for (int column = 0; line < stop; column++) {
        while (line < stop && (*line == ' ' || *line == '\t'))
            line++;
        if (line == stop) break;
        if (column == angles->rot) rot = strtod(line, &end);
        if (column == angles->tilt) tilt = strtod(line, &end);
        while (line < stop && *line != ' ' && *line != '\t')
            line++;
    }
    if (!isfinite(rot) || !isfinite(tilt)) return;
    directions_add(spread->nside, rot, tilt, spread->matrices, spread->operations, spread->counts);
    spread->particles++;
}

/* Adds the whole lines of a piece. bytes end with a 0. */
static void add_piece(const struct angles *angles, const char *bytes, size_t length, bool begins_whole,
                      struct directions_spread *spread) {
    const char *line = bytes, *end = bytes + length, *stop;
    if (!begins_whole) {
        const char *first = memchr(line, '\n', length);
        line = first != NULL ? first + 1 : end;
    }
    for (; line < end && (stop = memchr(line, '\n', (size_t)(end - line))) != NULL; line = stop + 1)
        add_line(angles, line, stop, spread);
}

enum status directions_read(int descriptor, int64_t size, struct directions_spread *spread, struct err *err) {
    struct angles angles;
    const int64_t limit = size < DIRECTIONS_WHOLE ? size : DIRECTIONS_WHOLE;
    const size_t room = (size_t)(limit > HEAD ? limit : HEAD);
    _cleanup_(mem_free) char *bytes = NULL;
    TRY(mem_new_unset(room + 1, 1, "the particles' directions", &bytes, err));
    ssize_t got = pread(descriptor, bytes, room, 0);
    bytes[got > 0 ? got : 0] = '\0';
    FAIL_IF(got <= 0 || !find_columns(bytes, (size_t)got, &angles), err, STATUS_NOT_FOUND,
            "the table has no rlnAngleRot and rlnAngleTilt of particles");
    if (got == size) {
        add_piece(&angles, bytes + angles.begin, (size_t)(got - angles.begin), true, spread);
        return STATUS_OK;
    }
    for (int i = 0; i < PIECES; i++) {
        int64_t from = angles.begin + (size - angles.begin) / PIECES * i;
        got = pread(descriptor, bytes, room < PIECE ? room : PIECE, from);
        bytes[got > 0 ? got : 0] = '\0';
        if (got > 0) add_piece(&angles, bytes, (size_t)got, i == 0, spread);
    }
    return STATUS_OK;
}
