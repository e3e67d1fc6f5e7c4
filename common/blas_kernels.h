/* Kernels of OpenBLAS that fit the processor. */
#ifndef ICESTREAM_COMMON_BLAS_KERNELS_H
#define ICESTREAM_COMMON_BLAS_KERNELS_H

/* Starts the program anew with OPENBLAS_CORETYPE set, if OpenBLAS has taken kernels without AVX2 on a processor that has it:
 * a version that is older than the processor takes those of the oldest x86-64, and products take twice as long. OpenBLAS
 * chooses once, as it is loaded, so nothing but a new start helps. Returns where there is nothing to mend, or no new start
 * to be had. A value that the user has set stays. Call it before threads, files or sockets exist.
 *   argv  arguments of main, ended by NULL */
void blas_kernels_choose(char **argv);

/* Returns the value of OPENBLAS_CORETYPE that suits this processor better than what OpenBLAS has taken; NULL: none does.
 *   taken  name of a set of kernels, as openblas_get_corename tells it */
const char *blas_kernels_better(const char *taken);

#endif
