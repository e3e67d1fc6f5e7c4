/* Remembers the heights of the peaks that noise alone gives a search with templates. They depend on the CTF, since it
 * makes templates more detailed, but little on its exact defocus. So each factor of two in defocus is searched once. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_NOISE_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_TEMPLATE_NOISE_H

#include "common/status.h"
#include "kernels/search/search.h"
#include "stages/lowpass-picker/geometry.h"

enum { TEMPLATE_NOISE_KINDS = 64 };
/* Starts as {0}. */
struct template_noise {
    int count;
    struct {
        struct ctf ctf; /* {0}: none */
        struct noise_peaks peaks;
    } kinds[TEMPLATE_NOISE_KINDS];
};

/* Finds the heights for a CTF like this one; NULL: none. search: of micrographs of noise, with the templates. The same
 * CTF has the same heights whatever was before, as long as all kinds are remembered (defocus of one sign: 6 times 7 phase
 * shifts); of others the heights are not known, {0}. */
enum status template_noise_find(struct template_noise *noise, struct search *search,
                                const struct pick_geometry *geometry, const struct ctf *ctf,
                                struct noise_peaks *ret_peaks, struct err *err);

#endif
