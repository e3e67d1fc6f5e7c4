#!/usr/bin/env bash
# What the folders may know of each other, and other rules that a compiler does not check.
set -u
shopt -s nullglob
cd "${ICESTREAM_SOURCE:-$(dirname "${BASH_SOURCE[0]}")/../..}" || exit 1
bad=0
# forbid WHY PATTERN PATH...: no line of the C and CUDA sources below PATH may match.
forbid() {
  local why=$1 pattern=$2 found
  shift 2
  found=$(grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' -- "$pattern" "$@" | grep -vE "${allowed:-^$}")
  if [ -n "$found" ]; then
    printf '%s:\n%s\n\n' "$why" "$found"
    bad=1
  fi
}
forbid 'common knows nothing of kernels, stages or pipelines' '#include "(kernels|stages|pipelines|tests)/' common
forbid 'kernels know nothing of stages or pipelines' '#include "(stages|pipelines|tests)/' kernels
forbid 'stages know nothing of pipelines or of each other' '#include "(pipelines|tests)/' stages
for stage in stages/*/; do
  others=$(ls -d stages/*/ | grep -v "^$stage$" | sed 's,/$,,' | paste -sd'|')
  forbid "a stage includes another one" "#include \"($others)/" "$stage"
done
forbid 'pipelines starts stages as programs and links none' '#include "(kernels|stages)/' pipelines
allowed='^common/transport' forbid 'ZeroMQ is common/transport only' '#include <zmq' common kernels stages pipelines
allowed='^(kernels/|common/device)' forbid 'CUDA is kernels/ and common/device only' '#include [<"](cuda|cublas|cufft)' common kernels stages pipelines
forbid 'libraries do not end the program' '(^|[^_[:alnum:]])(exit|abort|_exit|quick_exit)[[:space:]]*\(' kernels
allowed='^common/stage' forbid 'libraries do not end the program' '(^|[^_[:alnum:]])(exit|abort|_exit|quick_exit)[[:space:]]*\(' common
forbid 'libraries do not print' '(^|[^_[:alnum:]])(printf|puts|perror)[[:space:]]*\(' common kernels
for file in stages/*/main.c; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 90 ] || { echo "$file has $lines lines: a stage's main.c is a descriptor (80 or so)"; bad=1; }
done
while read -r file; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 700 ] || { echo "$file has $lines lines: is it still one idea? (700)"; bad=1; }
done < <(find common kernels stages pipelines examples tests -name '*.[ch]' -o -name '*.cu')
exit $bad
