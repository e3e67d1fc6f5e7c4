/* Makes seeds for the fuzz targets. make-fuzz-seeds FOLDER writes FOLDER/mrc, FOLDER/image, FOLDER/movie and
 * FOLDER/structure: small valid files of many kinds. */
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <tiffio.h>

#include "common/files.h"
#include "common/formats/eer_file.h"
#include "common/formats/mrc.h"
#include "common/formats/picture.h"
#include "common/formats/structure.h"

enum { NX = 7, NY = 5 };

static enum status seed_mrc(const char *folder, struct image *image, struct err *err) {
    static const enum mrc_mode modes[] = {MRC_INT8, MRC_INT16, MRC_FLOAT32, MRC_UINT16, MRC_FLOAT16};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (int kind = MRC_IMAGE; kind <= MRC_VOLUME; kind++) {
            char name[64], path[PATH_SIZE];
            snprintf(name, sizeof name, "mode%d_kind%d.mrc", (int)modes[m], kind);
            TRY(path_join(folder, name, path, sizeof path, err));
            TRY(image_resize(image, NX, NY, kind == MRC_IMAGE ? 1 : 2, err));
            for (size_t i = 0; i < image_count(image); i++)
                image->data[i] = (float)i - 10;
            TRY(mrc_write(path, image, (enum mrc_kind)kind, modes[m], err));
        }
    return STATUS_OK;
}

static enum status seed_tiff(const char *folder, struct err *err) {
    static const struct {
        const char *mode;
        uint16_t bits, format, samples, compression, photometric, planar;
        uint32_t tile;
    } kinds[] = {
        {"w", 8, SAMPLEFORMAT_UINT, 1, COMPRESSION_NONE, PHOTOMETRIC_MINISBLACK, PLANARCONFIG_CONTIG, 0},
        {"w", 16, SAMPLEFORMAT_INT, 1, COMPRESSION_LZW, PHOTOMETRIC_MINISWHITE, PLANARCONFIG_CONTIG, 0},
        {"w8", 32, SAMPLEFORMAT_IEEEFP, 1, COMPRESSION_ADOBE_DEFLATE, PHOTOMETRIC_MINISBLACK, PLANARCONFIG_CONTIG, 16},
        {"wb", 16, SAMPLEFORMAT_UINT, 3, COMPRESSION_NONE, PHOTOMETRIC_RGB, PLANARCONFIG_SEPARATE, 0},
        {"w8b", 64, SAMPLEFORMAT_IEEEFP, 1, COMPRESSION_NONE, PHOTOMETRIC_MINISBLACK, PLANARCONFIG_CONTIG, 0},
        {"w", 8, SAMPLEFORMAT_UINT, 3, COMPRESSION_PACKBITS, PHOTOMETRIC_RGB, PLANARCONFIG_CONTIG, 16},
        {"w", 1, SAMPLEFORMAT_UINT, 1, COMPRESSION_CCITTFAX4, PHOTOMETRIC_MINISWHITE, PLANARCONFIG_CONTIG, 0},
        {"w", 12, SAMPLEFORMAT_UINT, 1, COMPRESSION_NONE, PHOTOMETRIC_MINISBLACK, PLANARCONFIG_CONTIG, 0},
    };
    static unsigned char pixels[16 * 16 * 8];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 5);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char name[64], path[PATH_SIZE];
        snprintf(name, sizeof name, "kind%zu.tif", k);
        TRY(path_join(folder, name, path, sizeof path, err));
        TIFF *tiff = TIFFOpen(path, kinds[k].mode);
        FAIL_IF(tiff == NULL, err, STATUS_IO, "%s: cannot be written", path);
        for (int page = 0; page < 2; page++) {
            TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, NX);
            TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, NY);
            TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, kinds[k].bits);
            TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, kinds[k].format);
            TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, kinds[k].samples);
            TIFFSetField(tiff, TIFFTAG_COMPRESSION, kinds[k].compression);
            TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, kinds[k].photometric);
            TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, kinds[k].planar);
            uint16_t planes = kinds[k].planar == PLANARCONFIG_SEPARATE ? kinds[k].samples : 1;
            if (kinds[k].tile != 0) {
                TIFFSetField(tiff, TIFFTAG_TILEWIDTH, kinds[k].tile);
                TIFFSetField(tiff, TIFFTAG_TILELENGTH, kinds[k].tile);
                TIFFWriteEncodedTile(tiff, 0, pixels, TIFFTileSize(tiff));
            } else {
                TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, NY);
                for (uint16_t plane = 0; plane < planes; plane++)
                    TIFFWriteEncodedStrip(tiff, plane, pixels, TIFFStripSize(tiff));
            }
            TIFFWriteDirectory(tiff);
        }
        TIFFClose(tiff);
    }
    return STATUS_OK;
}

static enum status seed_jpeg(const char *folder, int channels, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, channels == 1 ? "grey.jpg" : "rgb.jpg", path, sizeof path, err));
    struct file_output *output = NULL;
    TRY(file_create(path, &output, err));
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    unsigned char row[NX * 3] = {0, 50, 100, 150, 200, 250};
    jpeg.err = jpeg_std_error(&error);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file_output_stream(output));
    jpeg.image_width = NX;
    jpeg.image_height = NY;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (channels == 3) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW rows[1] = {row};
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return file_commit(&output, err);
}

static enum status seed_pictures(const char *folder, struct err *err) {
    static uint8_t pixels[NX * NY * 3];
    char path[PATH_SIZE];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 11);
    TRY(path_join(folder, "grey.png", path, sizeof path, err));
    TRY(picture_write_grey(path, NX, NY, pixels, err));
    TRY(path_join(folder, "rgb.png", path, sizeof path, err));
    TRY(picture_write_rgb(path, NX, NY, pixels, err));
    TRY(seed_jpeg(folder, 1, err));
    return seed_jpeg(folder, 3, err);
}

static enum status seed_trajectory(const char *folder, struct err *err) {
    enum { FRAMES = 2, ATOMS = 3 };
    struct file_output *output = NULL;
    char path[PATH_SIZE];
    float xyz[3 * ATOMS], scratch[ATOMS];
    TRY(path_join(folder, "frames.dcd", path, sizeof path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    enum status status = structure_dcd_begin(out, FRAMES, ATOMS, err);
    for (int frame = 0; frame < FRAMES; frame++) {
        for (int i = 0; i < 3 * ATOMS; i++)
            xyz[i] = (float)(frame + i);
        structure_dcd_frame(out, xyz, ATOMS, scratch);
    }
    if (status == STATUS_OK) return file_commit(&output, err);
    file_discard(&output);
    return status;
}

/* Writes EER movies of two frames with three electrons each, in the widths of all compressions. */
static enum status seed_eer(const char *folder, struct err *err) {
    static const struct eer_format formats[] = {
        {.skip_bits = 8, .column_bits = 2, .row_bits = 2},
        {.skip_bits = 7, .column_bits = 2, .row_bits = 2},
        {.skip_bits = 5, .column_bits = 1, .row_bits = 3},
    };
    static const struct eer_electron electrons[] = {{3, 0}, {21, 9}, {4 * NX - 1, 4 * NY - 1}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct eer_writer *writer = NULL;
        char name[64], path[PATH_SIZE];
        snprintf(name, sizeof name, "widths%zu.eer", i);
        TRY(path_join(folder, name, path, sizeof path, err));
        TRY(eer_writer_create(path, &formats[i], NX, NY, "<metadata/>", &writer, err));
        enum status status = STATUS_OK;
        for (int frame = 0; frame < 2 && status == STATUS_OK; frame++)
            status = eer_writer_append(writer, electrons + frame, 2, err);
        if (status != STATUS_OK) {
            eer_writer_discard(&writer);
            return status;
        }
        TRY(eer_writer_finish(&writer, err));
    }
    return STATUS_OK;
}

static enum status seed_all(const char *folder, struct image *image, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, "mrc", path, sizeof path, err));
    TRY(file_make_folders(path, 0777, err));
    TRY(seed_mrc(path, image, err));
    TRY(path_join(folder, "image", path, sizeof path, err));
    TRY(file_make_folders(path, 0777, err));
    TRY(seed_mrc(path, image, err));
    TRY(seed_tiff(path, err));
    TRY(seed_pictures(path, err));
    TRY(path_join(folder, "movie", path, sizeof path, err));
    TRY(file_make_folders(path, 0777, err));
    TRY(seed_mrc(path, image, err));
    TRY(seed_tiff(path, err));
    TRY(seed_eer(path, err));
    TRY(path_join(folder, "structure", path, sizeof path, err));
    TRY(file_make_folders(path, 0777, err));
    return seed_trajectory(path, err);
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct image image = {.pixel_size = 1.5f};
    enum status status = argc == 2 ? seed_all(argv[1], &image, &err)
                                   : err_set(&err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__, "one folder is expected");
    image_destroy(&image);
    if (status != STATUS_OK) fprintf(stderr, "make-fuzz-seeds: %s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
