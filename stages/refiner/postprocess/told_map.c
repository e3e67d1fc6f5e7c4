#include "stages/refiner/postprocess/told_map.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Adds to a text what still fits. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format, ...) {
    size_t used = 0;
    while (used + 1 < size && text[used] != 0)
        used++;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

bool told_map_doubts(const struct postprocess_result *r, const char *mask, char *text, size_t size) {
    *text = 0;
    if (r->doubts == 0) return false;
    add(text, size, "the mask %s is doubted:", mask != NULL ? mask : "made from the map");
    if (r->doubts & POSTPROCESS_HARD)
        add(text, size, " its edge is %.1f px wide, and 2 or more are expected;", r->mask_edge);
    if (r->doubts & POSTPROCESS_TIGHT)
        add(text, size, " random phases agree in it to %.2f at %.2f Å, and 0.1 at most is expected;", r->chance,
            r->claimed);
    if (r->doubts & POSTPROCESS_BEYOND)
        add(text, size, " %.2f Å inside it is far beyond the unmasked maps;", r->claimed);
    add(text, size, " the resolution is that of the unmasked maps, %.2f Å", r->resolution);
    if (r->claimed < r->resolution) add(text, size, " (inside the mask it would be %.2f Å)", r->claimed);
    if (mask != NULL)
        add(text, size, "; give a mask that is larger and fades out over 5 px or more, or none");
    else
        add(text, size, "; make it larger (extend), and let it fade out over 5 px or more (soft)");
    return true;
}

void told_map_resolution(const struct postprocess_result *r, char *text, size_t size) {
    *text = 0;
    if (r->resolution >= 999)
        add(text, size, "no resolution, the halves agree nowhere");
    else
        add(text, size, "%.2f Å %s", r->resolution, r->unmasked_curve ? "without a mask" : "inside a mask");
}

void told_map_sharpening(const struct postprocess_result *r, const struct postprocess_options *o, char *text,
                         size_t size) {
    *text = 0;
    if (!isnan(o->adhoc_bfactor))
        add(text, size, "B-factor %.0f Å², as given", r->bfactor);
    else if (!isnan(r->guinier_slope))
        add(text, size, "B-factor %.0f Å², fitted from %.3g to %.3g Å", r->bfactor, o->bfactor_low, r->resolution);
    else if (r->resolution >= o->bfactor_low)
        add(text, size, "filtered and not sharpened, since a B-factor is fitted beyond %.3g Å only", o->bfactor_low);
    else
        add(text, size, "filtered and not sharpened, since %.3g to %.3g Å are too few shells for a B-factor",
            o->bfactor_low, r->resolution);
}
