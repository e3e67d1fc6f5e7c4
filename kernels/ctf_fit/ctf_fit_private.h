/* Shared by the files of the CTF fit. */
#ifndef ICESTREAM_KERNELS_CTF_FIT_CTF_FIT_PRIVATE_H
#define ICESTREAM_KERNELS_CTF_FIT_CTF_FIT_PRIVATE_H

#include "kernels/ctf_fit/ctf_fit.h"

/* Rings fade towards high frequencies u: before anything is known, a pixel counts exp(−CTF_DECAY u²). Å². */
#define CTF_DECAY 60.0

/* Sums over the spectrum are made in so many parts, whatever the number of threads: the result is always the same. */
enum { CTF_PARTS = 16 };
enum { CTF_SECTORS = 36, CTF_STEP = 50, CTF_SIMPLEX = 4 }; /* sectors in 180°; Å between two defoci of the tables */

/* Pixels of the half plane, one value each. */
struct ctf_pixels {
    size_t count, capacity;
    float *radius;         /* px */
    float *slope;          /* 2γ per Å of defocus */
    float *cosine, *sine;  /* of twice the angle of the pixel */
    float *offset;         /* 2γ without defocus and phase shift */
    float *value, *weight; /* the spectrum, and how much the pixel counts */
};

struct ctf_fit {
    int box, threads;
    float *flat, *average; /* [box][box/2+1] the spectrum less 1, and its local average */
    double *columns;       /* running sums of the local average */
    struct ctf_pixels pixels;
    float *rings;        /* [CTF_SECTORS][rings] averages, then the same number of weights */
    float *table, *norm; /* [CTF_SECTORS][defoci] */
    float *trial;        /* sums over sectors while a search goes on */
    size_t table_room;
    float *scratch; /* [CTF_PARTS][2][box] values for each ring */
    double *sums;   /* [CTF_PARTS][3][box] sums of rings */
    struct ctf_fit_profile profile;
};

/* A defocus as three numbers without a jump at any angle: mean, and (U − V)/2 along 2 · angle. */
struct ctf_point {
    double mean, along, across, phase; /* Å; phase: ° */
};

/* flatten.c: fills fit->flat from the power. low_radius, px: where the fit begins. */
void ctf_flatten(struct ctf_fit *fit, const float *power, double low_radius);
/* search.c: lists the pixels between two radii (px), and finds the best point on the coarse tables. */
enum status ctf_list_pixels(struct ctf_fit *fit, const struct ctf_fit_options *options, double low, double high,
                            struct err *err);
enum status ctf_search(struct ctf_fit *fit, const struct ctf_fit_options *options, double low, double high,
                       struct ctf_point *ret_best, struct err *err);
/* refine.c: returns the correlation of a point on the listed pixels, and climbs to the best point nearby. freedom: the
 * first 1 (mean), 3 (and astigmatism) or 4 (and phase) numbers change. */
double ctf_score(const struct ctf_fit *fit, const struct ctf_point *point);
void ctf_climb(const struct ctf_fit *fit, int freedom, double astigmatism_max, struct ctf_point *point);
/* profile.c: makes the equiphase average and returns the resolution, Å; 0: none. */
double ctf_make_profile(struct ctf_fit *fit, const float *power, const struct ctf_fit_options *options,
                        const struct ctf_point *point);

/* Returns the squared frequency at which the mean defocus has the phase that `defocus` has at u2; u2 itself where the
 * spherical aberration has turned the phase round. turn: Cs λ², Å: the phase is πλ (D u² − turn/2 u⁴). */
double ctf_equal_phase(double mean, double defocus, double u2, double turn);
/* Returns 2γ of a frequency in the profile of the mean defocus. */
double ctf_twice_phase(const struct ctf_fit_options *options, double mean, double phase, double frequency);

#endif
