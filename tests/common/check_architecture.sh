#!/usr/bin/env bash
# Checks which folders may include which, and other rules that a compiler does not check.
set -u
shopt -s nullglob
cd "${ICESTREAM_SOURCE:-$(dirname "${BASH_SOURCE[0]}")/../..}" || exit 1
bad=0
fail() {
  printf '%s\n\n' "$*"
  bad=1
}
# forbid WHY PATTERN PATH...: fails when a line of the C and CUDA sources below PATH matches. Lines that match $allowed
# are ignored.
forbid() {
  local why=$1 pattern=$2 found
  shift 2
  found=$(grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' -- "$pattern" "$@" | grep -vE "${allowed:-^$}")
  [ -z "$found" ] || fail "$why:"$'\n'"$found"
}

# Folders: stages include kernels, kernels include common, never the other way.
forbid 'common knows nothing of kernels, stages or pipelines' '#include "(kernels|stages|pipelines|tests)/' common
forbid 'kernels know nothing of stages or pipelines' '#include "(stages|pipelines|tests)/' kernels
forbid 'stages know nothing of pipelines' '#include "(pipelines|tests)/' stages
for stage in stages/*/; do
  others=$(find stages -mindepth 1 -maxdepth 1 -type d ! -path "${stage%/}" | paste -sd'|')
  forbid "a stage includes another one" "#include \"($others)/" "$stage"
done
forbid 'pipelines starts stages as programs and links none' '#include "(kernels|stages)/' pipelines

# Rooms of common: the ground lies flat. Formats and edges include only the ground. The harness includes all of them.
forbid 'the ground of common includes none of its rooms' '#include "common/(formats|edges|harness)/' common/*.[ch] common/*.cu
forbid 'formats include the ground only' '#include "common/(edges|harness)/' common/formats
forbid 'edges include the ground only' '#include "common/(formats|harness)/' common/edges
forbid 'kernels include the ground of common only' '#include "common/(formats|edges|harness)/' kernels
# Stages outside this tree are built against these headers. They include each other and jansson, and no other library.
public=(common/harness/stage.h common/edges/item.h common/harness/params.h common/status.h common/log.h common/device.h)
names=$(printf '|%s' "${public[@]}")
allowed="#include \"(${names#|})\"|#include <(jansson|stdbool|stddef|stdint|stdio|stdarg)\.h>" \
  forbid 'public headers include only each other and jansson' '#include' "${public[@]}"

# Only one place may use each of these libraries.
allowed='^common/edges/transport' forbid 'ZeroMQ is common/edges/transport only' '#include <zmq' common kernels stages pipelines
allowed='^(kernels/|common/device)' \
  forbid 'CUDA is kernels/ and common/device only' '#include [<"](cuda|cublas|cufft)' common kernels stages pipelines
forbid 'libraries do not end the program' '(^|[^_[:alnum:]])(exit|abort|_exit|quick_exit)[[:space:]]*\(' kernels
allowed='^common/harness/' \
  forbid 'libraries do not end the program' '(^|[^_[:alnum:]])(exit|abort|_exit|quick_exit)[[:space:]]*\(' common
forbid 'libraries do not print' '(^|[^_[:alnum:]])(printf|puts|perror)[[:space:]]*\(' common kernels

# Every stage has the same files. Other files have names that say what they do.
for stage in stages/*/; do
  name=$(basename "$stage" | tr - _)
  for file in CMakeLists.txt main.c parameters.c parameters.h stage.c "$name.c" "$name.h"; do
    [ -f "$stage$file" ] || fail "$stage has no $file: every stage has CMakeLists.txt, main.c, parameters.[ch], stage.c and NAME.[ch]"
  done
  lines=$(wc -l <"${stage}main.c")
  [ "$lines" -le 12 ] || fail "${stage}main.c has $lines lines: it calls stage_main with the descriptor of stage.c, and nothing else"
done

# A file name shows where the code runs: X_cuda.* runs on CUDA devices, and X.cuh is a header for .cu files. X_cuda.c and
# X_cuda.cu must not be two halves of one name.
while read -r file; do
  fail "$file: a file name says X_cuda (code for CUDA) or X.cuh (a header for .cu files), not _device"
done < <(find kernels -name '*_device*')
while read -r file; do
  [ ! -e "${file%u}" ] || fail "${file%u} beside $file: two files of one name"
done < <(find common kernels -name '*.cu')

while read -r file; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 700 ] || fail "$file has $lines lines: is it still one idea? (700)"
done < <(find common kernels stages pipelines examples tests -name '*.[ch]' -o -name '*.cu')
exit $bad
