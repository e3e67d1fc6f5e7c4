/* Judges what the microscope delivers, and says it in the words of the person who sits there. */
#include <math.h>
#include <stdio.h>

#include "pipelines/launcher/alarms/conditions.h"

static const double DEFOCUS_LEAST = 0.1;                    /* µm */
static const double SPREAD_MOST = 1.15, MAXIMUM_MOST = 4.5; /* of what the gain reference leaves */

static double threshold(const struct conditions *c, enum alarm_kind kind) {
    return c->settings->rules[kind].threshold;
}

/* Returns a quantity if enough exposures have it, else one of NaN. */
static struct alarm_quality quality(const struct conditions *c, enum alarm_quantity which) {
    const struct alarm_quality *q = &c->samples[c->at].quality[which];
    if (q->seen >= c->settings->quality_least && q->seen > 0) return *q;
    return (struct alarm_quality){.recent = NAN, .session = NAN, .outside = NAN};
}

static void find_focus(const struct conditions *c) {
    const struct alarm_quality q = quality(c, QUANTITY_DEFOCUS), a = quality(c, QUANTITY_ASTIGMATISM);
    const double most = threshold(c, ALARM_DEFOCUS);
    if (q.recent < DEFOCUS_LEAST || q.recent > most)
        condition_found(c, ALARM_DEFOCUS, "", q.recent,
                        "the last images lie at %.2f µm defocus (median), outside %.1f to %.1f µm: check the autofocus "
                        "and the eucentric height",
                        q.recent, DEFOCUS_LEAST, most);
    const size_t count = q.seen < ALARM_RECENT ? q.seen : ALARM_RECENT;
    if (100 * q.outside > threshold(c, ALARM_DEFOCUS_TARGET))
        condition_found(
            c, ALARM_DEFOCUS_TARGET, "", 100 * q.outside,
            "%.0f of the last %zu images miss the defocus target of %g to %g µm (median %.2f µm): check the "
            "autofocus, the eucentric height and the defocus list",
            round(q.outside * (double)count), count, c->settings->defocus_least, c->settings->defocus_most, q.recent);
    if (a.recent > threshold(c, ALARM_ASTIGMATISM))
        condition_found(c, ALARM_ASTIGMATISM, "", a.recent,
                        "the last images have %.0f nm astigmatism (median): correct the objective stigmator",
                        a.recent / 10);
}

/* Compares the last exposures with the whole session, so that no number depends on the specimen. */
static void find_change(const struct conditions *c) {
    const struct alarm_quality ctf = quality(c, QUANTITY_RESOLUTION), motion = quality(c, QUANTITY_MOTION);
    const struct alarm_quality ice = quality(c, QUANTITY_ICE), picks = quality(c, QUANTITY_PICKS);
    if (ctf.session > 0 && ctf.recent > threshold(c, ALARM_CTF_RESOLUTION) * ctf.session)
        condition_found(c, ALARM_CTF_RESOLUTION, "", ctf.recent,
                        "the CTF of the last images fits to %.1f Å only (median; %.1f Å in this session): thick ice, "
                        "drift, or focus and coma are off",
                        ctf.recent, ctf.session);
    if (motion.session > 0 && motion.recent > threshold(c, ALARM_MOTION) * motion.session)
        condition_found(c, ALARM_MOTION, "", motion.recent,
                        "the last images moved by %.1f Å (median; %.1f Å in this session): the stage drifts, or the "
                        "grid is loose or charges; wait longer after moving the stage",
                        motion.recent, motion.session);
    if (ice.session > 0 && ice.recent > threshold(c, ALARM_ICE) * ice.session)
        condition_found(c, ALARM_ICE, "", ice.recent,
                        "the ice ring at 3.7 Å is %.1f times as strong as in this session: crystalline or thick ice; "
                        "choose other squares, and look at the column's contamination",
                        ice.recent / ice.session);
    if (picks.session > 0 && 100 * picks.recent < threshold(c, ALARM_PICKS) * picks.session)
        condition_found(c, ALARM_PICKS, "", picks.recent,
                        "the last images hold %.0f particles (median; %.0f in this session): empty holes, broken or "
                        "missing ice, the beam misses the hole, or the valve is closed",
                        picks.recent, picks.session);
}

static void find_gain(const struct conditions *c) {
    const struct alarm_quality sd = quality(c, QUANTITY_GAIN), spread = quality(c, QUANTITY_GAIN_SPREAD);
    const struct alarm_quality maximum = quality(c, QUANTITY_GAIN_MAXIMUM);
    const char *remedy = "take a new gain reference, or check that it is the one of this camera mode, not flipped";
    if (sd.recent > threshold(c, ALARM_GAIN))
        condition_found(c, ALARM_GAIN, "", sd.recent,
                        "the gain reference does not fit: the corrected images keep a fixed pattern of %.3f (standard "
                        "deviation, above %.3f); %s",
                        sd.recent, threshold(c, ALARM_GAIN), remedy);
    else if (spread.recent > SPREAD_MOST)
        condition_found(c, ALARM_GAIN, "", spread.recent,
                        "the gain reference does not fit: the fixed pattern spreads by %.2f between percentiles 2.5 "
                        "and 97.5 (above %.2f); %s",
                        spread.recent, SPREAD_MOST, remedy);
    else if (maximum.recent > MAXIMUM_MOST)
        condition_found(c, ALARM_GAIN, "", maximum.recent,
                        "the gain reference leaves bright pixels: the maximum is %.1f times percentile 97.5 (above "
                        "%.1f); %s",
                        maximum.recent, MAXIMUM_MOST, remedy);
}

static void find_map(const struct conditions *c) {
    const struct alarm_sample *now = &c->samples[c->at];
    if (now->beam_tilt > threshold(c, ALARM_BEAM_TILT))
        condition_found(c, ALARM_BEAM_TILT, "", now->beam_tilt,
                        "refinement finds %.2f mrad beam tilt: align coma-free, and calibrate the image shift",
                        now->beam_tilt);
    if (now->particles > ALARM_PARTICLES && now->efficiency < threshold(c, ALARM_ORIENTATION))
        condition_found(c, ALARM_ORIENTATION, "", now->efficiency,
                        "the particles prefer few orientations (efficiency %.2f): tilt the stage by 30° for a part of "
                        "the session",
                        now->efficiency);
    if (!(now->particles > ALARM_PARTICLES)) return;
    const double gain = 100 * (now->resolution_at_half - now->resolution) / now->resolution_at_half;
    if (gain < threshold(c, ALARM_SATURATED))
        condition_found(c, ALARM_SATURATED, "", gain,
                        "the map has %.2f Å from %.0f particles, and half as many gave %.2f Å: more of the same hardly "
                        "helps",
                        now->resolution, now->particles, now->resolution_at_half);
}

void conditions_find_quality(const struct conditions *c) {
    find_focus(c);
    find_change(c);
    find_gain(c);
    find_map(c);
}
