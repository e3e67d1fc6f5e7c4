/* From a series to its tomogram, in three steps that the harness runs beside those of other series: read (images),
 * make, write (reconstruction_products). */
#ifndef ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RECONSTRUCTION_H
#define ICESTREAM_STAGES_TILT_RECONSTRUCTOR_RECONSTRUCTION_H

#include <jansson.h>
#include <stdbool.h>

#include "common/device.h"
#include "common/formats/mrc.h"
#include "kernels/tomography/tomography.h"
#include "stages/tilt-reconstructor/projections.h"
#include "stages/tilt-reconstructor/series.h"

/* What the user set. */
struct reconstruction_settings {
    bool coarse;        /* align by cross-correlation */
    double tilt_axis;   /* °; NaN: what the .mdoc says, where images are aligned here; else upright */
    int bin, thickness; /* px of the images as they are in the files */
    enum projections_normalise normalise;
    bool *exclude; /* TILTS_MAX + 1; NULL: none */
    int exclude_greatest;
    const char *mask;     /* MRC of the tomogram's size, or NULL */
    int mask_nx, mask_ny; /* as its header says; its nz fits the thickness */
    enum mrc_mode mode;
    struct tomography_options tomography; /* but for geometry and mask */
};

struct reconstruction {
    struct series series;
    struct projections projections;
    double *angles, *shifts; /* [tilts], of the projections */
    unsigned char *mask;
    int nz;
    struct device device; /* whose memory the volume is fast for */
    float *volume;        /* [nz][ny][nx] */
    size_t volume_capacity;
    double seconds; /* that making it took */
    int iterations, slabs;
    enum tomography_matrix matrix;
    double *residuals;   /* [iterations] */
    char alignment[200]; /* what aligning found; "": nothing was aligned */
    double tilt_axis;    /* by which images were turned, °; 0: none */
};

void reconstruction_clear(struct reconstruction *reconstruction);

/* Whether the mask is as large as the tomogram of a series will be, without a look at pixels. */
enum status reconstruction_check_mask(const struct reconstruction_settings *settings, const struct series *series,
                                      struct err *err);

/* Takes over a series: settles it, aligns it where that was asked for, reads its images. `series` is empty after
 * success; also after a failure, but the messages are in err. whole: as series_settle. */
enum status reconstruction_read(const struct reconstruction_settings *settings, struct series *series, bool whole,
                                struct reconstruction *reconstruction, struct err *err);
/* plan: kept by the caller from one series to the next, made anew where their geometries differ. */
struct reconstruction_plan {
    struct tomography *plan;
    struct tomography_options options; /* its own, without pointers */
    double *angles;
    double shift;
    bool masked;
};
void reconstruction_plan_clear(struct reconstruction_plan *plan);
enum status reconstruction_make(const struct reconstruction_settings *settings, struct reconstruction_plan *plan,
                                struct reconstruction *reconstruction, struct err *err);

/* px of a tomogram along z. */
int reconstruction_depth(const struct reconstruction_settings *settings);

/* What the tomogram depends on: the tilts that go into it, and what was set. Two that are the same give the same
 * tomogram. */
uint64_t reconstruction_fingerprint(const struct reconstruction_settings *settings, const struct series *series);

#endif
