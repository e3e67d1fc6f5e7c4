/* Sizes of kernel launches, for .cu files. */
#ifndef ICESTREAM_KERNELS_FOURIER_LAUNCH_CUH
#define ICESTREAM_KERNELS_FOURIER_LAUNCH_CUH

#include <stddef.h>

/* Returns the number of blocks of `each` threads (or of `each` items) that cover `count` items. */
static inline unsigned blocks_for(size_t count, unsigned each) {
    return (unsigned)((count + each - 1) / each);
}

#endif
