#include "stages/lowpass-picker/template_noise.h"

#include <math.h>
#include <string.h>

#include "stages/lowpass-picker/noise_search.h"

/* Defocus in Å beyond which noise gives the same heights, and the step of phase shifts in degrees. */
static const double DEFOCUS_LEAST = 1000, DEFOCUS_MOST = 60000, PHASE_STEP = 30;

/* Returns the CTF that stands for all that are like it: without astigmatism, in the middle of its factor of two. */
static struct ctf kind_of(const struct ctf *ctf) {
    struct ctf kind;
    memset(&kind, 0, sizeof kind);
    if (ctf == NULL) return kind;
    double defocus = fmin(fmax(fabs(0.5 * (ctf->defocus_u + ctf->defocus_v)), DEFOCUS_LEAST), DEFOCUS_MOST);
    defocus = DEFOCUS_LEAST * exp2(floor(log2(defocus / DEFOCUS_LEAST)) + 0.5);
    kind.defocus_u = kind.defocus_v = copysign(defocus, ctf->defocus_u + ctf->defocus_v);
    kind.voltage = ctf->voltage;
    kind.spherical_aberration = ctf->spherical_aberration;
    kind.amplitude_contrast = ctf->amplitude_contrast;
    kind.phase_shift = PHASE_STEP * round(ctf->phase_shift / PHASE_STEP);
    kind.scale = 1;
    return kind;
}

static bool alike(const struct ctf *a, const struct ctf *b) {
    return a->defocus_u == b->defocus_u && a->voltage == b->voltage &&
           a->spherical_aberration == b->spherical_aberration && a->amplitude_contrast == b->amplitude_contrast &&
           a->phase_shift == b->phase_shift;
}

enum status template_noise_find(struct template_noise *noise, struct search *search,
                                const struct pick_geometry *geometry, const struct ctf *ctf,
                                struct noise_peaks *ret_peaks, struct err *err) {
    struct ctf kind = kind_of(ctf);
    struct noise_peaks peaks = {0};
    for (int i = 0; i < noise->count; i++)
        if (alike(&noise->kinds[i].ctf, &kind)) {
            *ret_peaks = noise->kinds[i].peaks;
            return STATUS_OK;
        }
    if (noise->count < TEMPLATE_NOISE_KINDS) {
        TRY(noise_search(search, NULL, geometry, ctf ? &kind : NULL, &peaks, err));
        noise->kinds[noise->count].ctf = kind;
        noise->kinds[noise->count++].peaks = peaks;
    }
    *ret_peaks = peaks;
    return STATUS_OK;
}
