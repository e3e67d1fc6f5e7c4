/* The Kaiser-Bessel blob: radius a = 2 px, m = 2, α = 3.6 (Lewitt 1990; Matej & Lewitt 1996; paper 002, eq. 2). */
#ifndef ICESTREAM_KERNELS_TOMOGRAPHY_BLOB_H
#define ICESTREAM_KERNELS_TOMOGRAPHY_BLOB_H

#ifdef __cplusplus
extern "C" {
#endif

#define BLOB_RADIUS 2.0
#define BLOB_ALPHA 3.6

/* Returns b(r), 1 at r = 0, 0 from r = 2 on. */
double blob_value(double r);
/* Returns the line integral of b at distance s from the centre, in px: (a / I_m(α)) √(2π/α) t^(m+1/2) I_(m+1/2)(α t), t
 * = √(1 − s²/a²); I_(5/2) in closed form. */
double blob_footprint(double s);

#ifdef __cplusplus
}
#endif
#endif
