/* Makes the tomogram of a series. The harness runs the steps beside those of other series: reconstruction_read
 * (images), reconstruction_make, products_write. */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RECONSTRUCTION_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RECONSTRUCTION_H

#include <jansson.h>
#include <stdbool.h>

#include "common/device.h"
#include "common/formats/mrc.h"
#include "kernels/tomography/tomography.h"
#include "stages/tilt-reconstructor/projections.h"
#include "stages/tilt-reconstructor/series.h"

/* Ways to align images: as they are, or by cross-correlation. In the order of the parameter's choices. */
enum reconstruction_align { RECONSTRUCTION_ALIGN_NONE, RECONSTRUCTION_ALIGN_COARSE };

/* Settings for all series of a session. */
struct reconstruction_settings {
    enum reconstruction_align align;
    double tilt_axis;   /* °; NaN: that of the .mdoc if aligned, else 0 (upright) */
    int bin, thickness; /* px of the images in the files */
    enum projections_normalise normalise;
    bool *exclude; /* [TILTS_MAX + 1] by view number; NULL: none */
    int exclude_greatest;
    char *mask;           /* MRC of the tomogram's size, or NULL */
    int mask_nx, mask_ny; /* from its header; nz was compared with the thickness */
    enum mrc_mode mode;
    struct tomography_options tomography; /* without geometry and mask */
};

struct reconstruction {
    struct series series;
    struct projections projections;
    double *angles, *shifts; /* [tilts] of the projections: °, px */
    unsigned char *mask;
    int nz;
    struct device device; /* copies between it and the volume are fast */
    float *volume;        /* [nz][ny][nx] */
    size_t volume_capacity;
    double seconds; /* the time of reconstruction_make */
    int iterations, slabs;
    enum tomography_matrix matrix;
    double *residuals;   /* [iterations] */
    char alignment[200]; /* a report of the alignment; "": none was asked for */
    double tilt_axis;    /* ° by which images were turned upright; 0: not turned */
};

/* Frees the memory. */
void reconstruction_clear(struct reconstruction *reconstruction);

/* Checks that the mask has the size of the tomogram of a series. Reads no pixels. */
enum status reconstruction_check_mask(const struct reconstruction_settings *settings, const struct series *series,
                                      struct err *err);

/* Takes over a series, settles it, aligns it if the settings say so, and reads its images. `series` is empty afterwards,
 * also after a failure. whole: as in series_settle. */
enum status reconstruction_read(const struct reconstruction_settings *settings, struct series *series, bool whole,
                                struct reconstruction *reconstruction, struct err *err);
/* A plan that the caller keeps from one series to the next; reconstruction_make makes it anew if geometries differ. */
struct reconstruction_plan {
    struct tomography *plan;
    struct tomography_options options; /* those of the plan; its pointers are not used */
    double *angles;
    double shift;
    bool masked;
};
void reconstruction_plan_clear(struct reconstruction_plan *plan);
/* Computes the volume of a series that was read. */
enum status reconstruction_make(const struct reconstruction_settings *settings, struct reconstruction_plan *plan,
                                struct reconstruction *reconstruction, struct err *err);

/* Returns the size of a tomogram along z, px. */
int reconstruction_depth(const struct reconstruction_settings *settings);

/* Returns a hash of all that a tomogram depends on: its tilts and the settings. Equal fingerprints mean equal
 * tomograms. */
uint64_t reconstruction_fingerprint(const struct reconstruction_settings *settings, const struct series *series);

#endif
