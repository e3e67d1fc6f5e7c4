#include "common/formats/mtf.h"

#include "common/formats/star.h"
#include "common/memory.h"

static enum status fill(struct star_file *file, const char *path, struct mtf *mtf, struct err *err) {
    struct star_table *t = NULL;
    for (size_t i = 0; i < star_table_count(file) && t == NULL; i++)
        if (star_column_find(star_table_at(file, i), "rlnMtfValue") >= 0) t = star_table_at(file, i);
    FAIL_IF(
        t == NULL, err, STATUS_BAD_FORMAT,
        "%s has no column rlnMtfValue: a detector's MTF is expected, with rlnResolutionInversePixel and rlnMtfValue",
        path);
    size_t rows = star_row_count(t);
    FAIL_IF(rows < 2 || rows > 1000000, err, STATUS_BAD_FORMAT, "%s has %zu rows: an MTF has two or more", path, rows);
    TRY(mem_new(rows, sizeof *mtf->frequencies, "the MTF", &mtf->frequencies, err));
    TRY(mem_new(rows, sizeof *mtf->values, "the MTF", &mtf->values, err));
    mtf->count = (int)rows;
    for (size_t i = 0; i < rows; i++) {
        TRY(star_need_number(t, i, "rlnResolutionInversePixel", 0, 1e3, &mtf->frequencies[i], err));
        TRY(star_need_number(t, i, "rlnMtfValue", -1e9, 1e9, &mtf->values[i], err));
        FAIL_IF(!(mtf->values[i] > 0), err, STATUS_BAD_FORMAT,
                "%s: rlnMtfValue is %g in row %zu: values above 0 are expected, since maps are divided by them", path,
                mtf->values[i], i + 1);
        FAIL_IF(i > 0 && !(mtf->frequencies[i] > mtf->frequencies[i - 1]), err, STATUS_BAD_FORMAT,
                "%s: rlnResolutionInversePixel does not rise in row %zu: sort the rows", path, i + 1);
    }
    return STATUS_OK;
}

enum status mtf_read(const char *path, struct mtf *ret_mtf, struct err *err) {
    struct star_file *file = NULL;
    struct mtf mtf = {0};
    TRY(star_read(path, &file, err));
    enum status status = fill(file, path, &mtf, err);
    star_destroy(&file);
    if (status != STATUS_OK)
        mtf_clear(&mtf);
    else
        *ret_mtf = mtf;
    return status;
}

void mtf_clear(struct mtf *mtf) {
    mem_free(&mtf->frequencies);
    mem_free(&mtf->values);
    mtf->count = 0;
}

double mtf_at(const struct mtf *m, double frequency) {
    int low = 0, high = m->count - 1;
    if (frequency <= m->frequencies[low]) return m->values[low];
    if (frequency >= m->frequencies[high]) return m->values[high];
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (m->frequencies[middle] <= frequency)
            low = middle;
        else
            high = middle;
    }
    double part = (frequency - m->frequencies[low]) / (m->frequencies[high] - m->frequencies[low]);
    return m->values[low] + part * (m->values[high] - m->values[low]);
}

void mtf_fill(const struct mtf *m, double detector, int box, double pixel_size, float *ret_curve) {
    for (int shell = 0; shell <= box / 2; shell++)
        ret_curve[shell] = (float)mtf_at(m, shell * detector / (box * pixel_size));
}
