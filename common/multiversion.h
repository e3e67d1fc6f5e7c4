/* Vector code for any x86-64: the compiler makes one version of the function for each level, and the loader picks one.
 * OpenMP moves the body of a parallel region into a function of its own, which has no versions: put the inner loop into
 * a MULTIVERSION function, and call that from the region. */
#ifndef ICESTREAM_COMMON_MULTIVERSION_H
#define ICESTREAM_COMMON_MULTIVERSION_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(ICESTREAM_NO_MULTIVERSION)
#define MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MULTIVERSION
#endif

#endif
