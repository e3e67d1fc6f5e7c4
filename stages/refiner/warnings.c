#include "stages/refiner/warnings.h"

#include <math.h>
#include <stdio.h>

#include "kernels/ctf/ctf.h"

static void warn_of_defocus(struct stage *stage, struct warned *warned, const struct refiner_doubts *doubts,
                            size_t particles) {
    char text[CTF_DOUBT_SIZE];
    bool low = ctf_doubt_text(CTF_DEFOCUS_LOW, doubts->low_defocus, particles, text, sizeof text);
    if (low && !warned->of_low_defocus) stage_log(stage, LOG_WARN, "refine-defocus", "%s", text);
    bool negative = ctf_doubt_text(CTF_DEFOCUS_NEGATIVE, doubts->negative_defocus, particles, text, sizeof text);
    if (negative && !warned->of_negative_defocus) stage_log(stage, LOG_WARN, "refine-defocus", "%s", text);
    warned->of_low_defocus |= low;
    warned->of_negative_defocus |= negative;
}

/* Noise fits a reference and its inverse alike, to 15 % with 96 images; particles whose signal is a 25th of their noise
 * fit the reference half as well again. */
static const double INVERTED = 0.85, ALIKE = 1.15;

static void warn_of_contrast(struct stage *stage, struct warned *warned, double contrast) {
    if (contrast > 0 && contrast < INVERTED && !warned->of_contrast)
        stage_log(stage, LOG_WARN, "refine-contrast",
                  "the particles fit the reference %.1f times better with inverted contrast: protein must be white in "
                  "both; invert the particles (`invert` of the extractor), the reference, or the sign of the defocus",
                  1 / contrast);
    else if (contrast > 0 && contrast < ALIKE && !warned->of_contrast)
        stage_log(stage, LOG_WARN, "refine-contrast",
                  "the particles fit the reference hardly better (%.2f times) than the same with inverted contrast, as "
                  "noise does: check sign and unit of the defocus, the pixel size of the reference, and whether the "
                  "images show this particle",
                  contrast);
    warned->of_contrast = contrast > 0;
}

/* Says once which particles are resampled, and whose optics are corrected. */
static void tell_of_optics(struct stage *stage, const struct refiner *refiner, struct warned *warned,
                           const struct refiner_doubts *doubts) {
    const struct refiner_grid grid = refiner_grid(refiner);
    char name[256];
    if (doubts->resampled > 0 && !warned->told_of_grids)
        stage_log(stage, LOG_WARN, "refine-resampled",
                  "%zu of %zu particles have another box or pixel size (such as %d px of %.4g Å), and are resampled to "
                  "the %d px of %.4g Å of the refinement",
                  doubts->resampled, refiner_particles(refiner), doubts->resampled_box, doubts->resampled_pixel_size,
                  grid.box, grid.pixel_size);
    if (doubts->corrected > 0 && !warned->told_of_optics)
        stage_log(stage, LOG_INFO, "refine-optics", "the optics of %zu of %zu particles are corrected: %s",
                  doubts->corrected, refiner_particles(refiner),
                  optics_aberrations_name(doubts->aberrations, name, sizeof name));
    if (doubts->missing_mtf != NULL && !warned->told_of_mtf)
        stage_log(
            stage, LOG_WARN, "refine-mtf",
            "the MTF %s (rlnMtfFileName) is not beside its table, nor in the session or the working directory, is "
            "no table with rlnResolutionInversePixel and rlnMtfValue, or rlnMicrographOriginalPixelSize is "
            "missing: the map is not corrected for it",
            doubts->missing_mtf);
    warned->told_of_mtf = doubts->missing_mtf != NULL;
    warned->told_of_grids = doubts->resampled > 0;
    warned->told_of_optics = doubts->corrected > 0;
}

/* Diameters that are right leave 0.03 and less outside. */
static const double CUT_SHARE = 0.1;

static void warn_of_cut(struct stage *stage, const char *what, const struct refiner_cut *cut) {
    const struct refiner_options *p = stage_params(stage);
    if (cut->share > CUT_SHARE)
        stage_log(
            stage, LOG_WARN, "refine-diameter",
            "%.0f %% of the %s's density (squared, to 30 Å) lies outside the diameter of %g Å, which cuts it: set "
            "`diameter` to about %.0f Å, or give a reference of the particle alone",
            100 * cut->share, what, p->diameter, cut->diameter);
}

void warnings_of_particles(struct stage *stage, const struct refiner *refiner, struct warned *warned) {
    const struct refiner_doubts doubts = refiner_doubts(refiner);
    size_t particles = refiner_particles(refiner);
    if (doubts.spoiled > warned->spoiled)
        stage_log(
            stage, LOG_WARN, "refine-images",
            "%zu of %zu images are ignored: constant, NaN or infinite pixels, or more than 100 times stronger than the "
            "median image",
            doubts.spoiled, particles);
    if (doubts.twins > warned->twins)
        stage_log(stage, LOG_WARN, "refine-twins",
                  "%zu of %zu particles are there twice (one place of a micrograph within a tenth of the diameter, or "
                  "equal pixels) and are left out, the later one: such as %s, a twin of %s; the table data_twins of "
                  "run_data.star names all; set `twins` to keep if they are meant",
                  doubts.twins, particles + doubts.twins, doubts.twin, doubts.twin_of);
    if (doubts.without_ctf > 0 && !warned->of_ctf)
        stage_log(stage, LOG_WARN, "refine-ctf",
                  "%zu of %zu particles have no CTF (rlnDefocusU): they are compared as if the microscope had none",
                  doubts.without_ctf, particles);
    tell_of_optics(stage, refiner, warned, &doubts);
    const struct refiner_grid grid = refiner_grid(refiner);
    double diameter = ((const struct refiner_options *)stage_params(stage))->diameter,
           side = grid.box * grid.pixel_size;
    if (diameter > side && !warned->of_mask)
        stage_log(stage, LOG_WARN, "refine-mask",
                  "diameter is %g Å, and the particles' box of %d px has %.0f Å: the mask is cut to the box; set a "
                  "smaller diameter, or extract with a larger box",
                  diameter, grid.box, side);
    warned->of_mask = true;
    if (doubts.background[0] != 0 && !warned->of_background)
        stage_log(stage, LOG_WARN, "refine-background", "%s", doubts.background);
    warned->of_background = doubts.background[0] != 0;
    warn_of_defocus(stage, warned, &doubts, particles);
    warn_of_contrast(stage, warned, doubts.contrast);
    if (doubts.cut.share > 0 && !warned->of_cut) warn_of_cut(stage, "reference", &doubts.cut);
    warned->of_cut = doubts.cut.share > 0;
    warned->spoiled = doubts.spoiled;
    warned->twins = doubts.twins;
    warned->of_ctf = doubts.without_ctf > 0;
}

/* Sets that have the symmetry differ by 0.15 and 0.07 at most (RESULTS.md): small sets of 32 px, 100 to 400 particles.
 * Maps of searched poses also differ in mates if the reference lies askew to the axes of the map. Then hardly a pose lies
 * near a mate of the refinement's, which has found the axes, and the maps agree no better than those of chosen mates. */
static const double CHOSEN_APART = 0.3, SEARCHED_APART = 0.15, LEAST_NEAR = 0.1, BETTER = 0.1;

static bool lacks_symmetry(const struct refiner_symmetry *s) {
    const bool counts = s->near > LEAST_NEAR || s->searched.best > s->chosen.best + BETTER;
    return s->chosen.best - s->chosen.mean > CHOSEN_APART ||
           (s->has_searched && counts && s->searched.best - s->searched.mean > SEARCHED_APART);
}

static void describe_symmetry(const struct refiner_symmetry *s, const char *group, char *text, size_t size) {
    int used = snprintf(text, size,
                        "maps in C1 of %zu particles of each half agree to %.2f in the best mate of %s and to %.2f on "
                        "average where particles choose among the mates of their poses",
                        s->particles, tanh(s->chosen.best), group, tanh(s->chosen.mean));
    if (s->has_searched && used > 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used,
                         ", to %.2f and %.2f where they search all poses (%.0f %% near mates)", tanh(s->searched.best),
                         tanh(s->searched.mean), 100 * s->near);
    if (used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, " (mean FSC up to %.0f Å)", s->resolution);
}

static void warn_of_symmetry(struct stage *stage, struct refiner *refiner) {
    const struct refiner_options *p = stage_params(stage);
    struct refiner_symmetry s;
    struct err own = {0};
    char text[320];
    stage_doing(stage, "comparing the map with itself in C1");
    if (refiner_check_symmetry(refiner, &s, &own) != STATUS_OK) {
        stage_log(stage, LOG_WARN, "refine-symmetry", "%s was not compared with C1: %s", p->symmetry, own.message);
        return;
    }
    if (!s.looked) return;
    describe_symmetry(&s, p->symmetry, text, sizeof text);
    if (lacks_symmetry(&s))
        stage_log(
            stage, LOG_WARN, "refine-symmetry",
            "the map does not have the symmetry %s that it was refined in: %s: refine in C1, or in a smaller group",
            p->symmetry, text);
    else
        stage_log(stage, LOG_INFO, "refine-symmetry", "%s", text);
}

void warnings_of_map(struct stage *stage, struct refiner *refiner) {
    struct refiner_cut cut;
    struct err own = {0};
    if (refiner_check_diameter(refiner, &cut, &own) != STATUS_OK)
        stage_log(stage, LOG_WARN, "refine-diameter", "the map was not compared with the diameter: %s", own.message);
    else
        warn_of_cut(stage, "map", &cut);
    warn_of_symmetry(stage, refiner);
}
