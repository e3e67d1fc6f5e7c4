/* Gathers the optics of a microscope from several sources, of which the first that knows a value decides: the session,
 * then the item or the table, then the defaults. */
#ifndef ICESTREAM_COMMON_FORMATS_OPTICS_H
#define ICESTREAM_COMMON_FORMATS_OPTICS_H

/* NaN: unknown. */
struct optics {
    double pixel_size;           /* Å */
    double voltage;              /* kV */
    double spherical_aberration; /* mm */
    double amplitude_contrast;   /* fraction */
};

/* Four unknown values. */
struct optics optics_unknown(void);
/* Copies values that `optics` does not know yet from `source`. */
void optics_fill(struct optics *optics, const struct optics *source);
/* Fills what is still unknown with 300 kV, 2.7 mm and 0.1. The pixel size has no default. */
void optics_fill_defaults(struct optics *optics);

#endif
