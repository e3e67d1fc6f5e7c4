/* What picker.c, picker_template.c and picker_log.c share. */
#ifndef ICESTREAM_PICKER_PRIVATE_H
#define ICESTREAM_PICKER_PRIVATE_H

#include "common/fft.h"
#include "kernels/correlate/correlate.h"
#include "kernels/local_stats/local_stats.h"
#include "kernels/template_spectra/template_spectra.h"
#include "stages/lowpass-picker/picker.h"

struct picker {
    struct picker_settings settings;
    int nx, ny;
    int size, work;     /* square, maps */
    int border;         /* px of the micrograph in which no centre lies */
    double scale;       /* work / size */
    double diameter;    /* px of the micrograph */
    double min_distance; /* px of the micrograph */
    int template_count, rotations;
    bool scores; /* maps hold scores, not figures of merit */

    float *square, *half; /* size², its transform */
    float *image, *image2; /* work transforms of I and I² */
    float *merit;         /* [template][work²] */
    uint16_t *rotation;   /* [template][work²] */
    uint8_t *bad;         /* work² */
    float *sorted;        /* work²: scratch of order statistics */
    struct fft_plan *forward;
    struct peak_list peaks;

    float *mu, *sigma, *best;
    float *ctf, *product, *rotated; /* work half planes: real, complex, complex */
    int circle;                     /* pixels in the particle's circle */
    struct template_spectra *spectra;
    struct local_stats *stats;
    struct correlate *correlate;
    struct merit_window *window;
    struct merit_terms *terms;      /* without CTF, [template] */
    struct merit_terms *terms_here; /* with the micrograph's */
    float noise;                    /* standard deviation of the scores of noise */
};

enum status picker_template_create(struct picker *picker, const struct picker_templates *templates, struct err *err);
/* Between the micrograph's transform and that of its square. */
void picker_template_noise(struct picker *picker);
enum status picker_template_run(struct picker *picker, const struct ctf *ctf, struct err *err);
/* With an automatic threshold, and for blobs, the map holds scores instead of figures of merit: amplitude × √power, the correlation in
 * the background's standard deviations, which has no grey scale. The scale of the templates that their picks ask for (1
 * where they are about right), and a score's figure of merit on it. */
double picker_template_scale(const struct picker *picker, const struct peak_list *peaks);
float picker_template_merit(const struct picker *picker, int template, double scale, float score);
/* Blobs are picked as templates of round shapes are. */
enum status picker_log_create(struct picker *picker, struct err *err);
/* Buffers and plan that depend on size and work. */
enum status picker_allocate(struct picker *picker, struct err *err);

/* The part of the maps that holds centres. */
struct peak_search picker_search(const struct picker *picker, float threshold);

/* Merits of the peaks of all templates that stay after suppression, falling, good and bad alike; at most work². */
enum status picker_scores(struct picker *picker, const float *merit, const uint16_t *rotation, int count,
                          float threshold, struct peak_list *list, float *ret_scores, size_t *ret_count,
                          struct err *err);

/* Median and standard deviation (from the median of absolute deviations) of the pixels inside the search that are not
 * marked bad. */
void picker_robust(struct picker *picker, const float *map, float *ret_median, float *ret_deviation);

#endif
