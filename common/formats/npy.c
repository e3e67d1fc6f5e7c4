#include "common/formats/npy.h"

#include <stdint.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

static const struct {
    const char *name;
    size_t size;
} types[] = {{"<f4", 4}, {"<f8", 8}, {"<i4", 4}, {"<i8", 8}};

void npy_header(FILE *out, enum npy_type type, int dimensions, const size_t *shape) {
    enum { PREFIX = 10, ALIGNMENT = 64 };
    char text[256];
    int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[type].name);
    for (int i = 0; i < dimensions && i < NPY_DIMENSIONS_MAX; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%zu%s", shape[i],
                           dimensions == 1 || i + 1 < dimensions ? "," : "");
    length += snprintf(text + length, sizeof text - (size_t)length, "), }");
    int padded = (PREFIX + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - PREFIX;
    fwrite("\x93NUMPY\x01\x00", 1, 8, out);
    putc(padded & 0xff, out);
    putc(padded >> 8, out);
    fprintf(out, "%s%*s\n", text, padded - 1 - length, "");
}

enum status npy_write(const char *path, enum npy_type type, int dimensions, const size_t *shape, const void *values,
                      struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    size_t count = 1;
    for (int i = 0; i < dimensions; i++)
        count *= shape[i];
    FILE *out = file_output_stream(output);
    npy_header(out, type, dimensions, shape);
    if (count > 0) fwrite(values, types[type].size, count, out); /* file_commit reports an error */
    return file_commit(&output, err);
}

enum status npy_read(const char *path, enum npy_type type, int dimensions, const size_t *shape, void *ret_values,
                     struct err *err) {
    _cleanup_(mem_free) char *header = NULL, *bytes = NULL;
    size_t header_length = 0, length = 0, size = types[type].size;
    for (int i = 0; i < dimensions; i++)
        size *= shape[i];
    FILE *out = open_memstream(&header, &header_length);
    FAIL_IF(out == NULL, err, STATUS_NO_MEMORY, "no memory to read %s", path);
    npy_header(out, type, dimensions, shape);
    FAIL_IF(fclose(out) != 0, err, STATUS_NO_MEMORY, "no memory to read %s", path);
    TRY(file_read_whole(path, header_length + size, &bytes, &length, err));
    FAIL_IF(length < header_length || memcmp(bytes, header, header_length) != 0, err, STATUS_BAD_FORMAT,
            "%s: is not an array of the type and shape that are expected (%.*s)", path, (int)(header_length - 11),
            header + 10);
    FAIL_IF(length != header_length + size, err, STATUS_TRUNCATED,
            "%s: holds %zu bytes of the %zu that its header says", path, length - header_length, size);
    memcpy(ret_values, bytes + header_length, size);
    return STATUS_OK;
}
