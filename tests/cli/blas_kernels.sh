# OpenBLAS takes kernels that fit the processor, also where it is older than the processor; a choice of the user stands.
old='Core2|Penryn|Dunnington|Nehalem|Prescott|Atom|Sandybridge|Opteron'
taken() { OPENBLAS_VERBOSE=2 "$@" icestream-refiner --version 2>&1 | sed -n 's/^Core: //p'; }
last=$(taken env -u OPENBLAS_CORETYPE | tail -n 1)
if grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo && [[ $last =~ ^($old) ]]; then
  echo "$last was taken, though the processor has AVX2"
fi
# Another BLAS names no kernels; there is no choice to look at.
if [ -n "$last" ]; then taken env OPENBLAS_CORETYPE=Prescott; else echo Prescott; fi
