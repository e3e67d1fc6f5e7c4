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

# How an include begins, with any blanks and either quote.
inc='#[[:space:]]*include[[:space:]]*[<"]'
product=(common kernels stages pipelines examples)

# Includes name files from the top of the tree, so that the rules below see all of them. The template for a stage is also
# built outside the tree, so it names its own files alone.
forbid 'includes do not use ../' "$inc"'[^>"]*\.\./' "${product[@]}"
allowed='include[[:space:]]*"(common|kernels|stages|pipelines|examples)/|^examples/stage-c/.*"(brightness|parameters)\.h"' \
  forbid 'quoted includes begin with a folder at the top' '#[[:space:]]*include[[:space:]]*"' "${product[@]}"

# Folders: stages include kernels, kernels include common, never the other way.
forbid 'common knows nothing of kernels, stages or pipelines' "$inc(kernels|stages|pipelines|examples|tests)/" common
forbid 'kernels know nothing of stages or pipelines' "$inc(stages|pipelines|examples|tests)/" kernels
forbid 'stages know nothing of pipelines' "$inc(pipelines|examples|tests)/" stages
for stage in stages/*/; do
  others=$(find stages -mindepth 1 -maxdepth 1 -type d ! -path "${stage%/}" | paste -sd'|')
  forbid "a stage includes another one" "$inc($others)/" "$stage"
done
forbid 'pipelines starts stages as programs and links none' "$inc(kernels|stages|examples|tests)/" pipelines

# X_private.h is for the files of one room: a stage, a kernel, the ground or a room of common, the launcher.
found=$(grep -rnoE --include='*.[ch]' --include='*.cu' --include='*.cuh' "$inc"'[^>"]*_private\.(h|cuh)' "${product[@]}" |
  awk -F: '
    function room(path, parts, count) {
      count = split(path, parts, "/")
      return count > 2 ? parts[1] "/" parts[2] : parts[1]
    }
    { included = $3; sub(/.*[<"]/, "", included) }
    room($1) != room(included)')
[ -z "$found" ] || fail "a private header is included from another room:"$'\n'"$found"

# Rooms of common: the ground lies flat. Formats and edges include only the ground. The harness includes all of them.
forbid 'the ground of common includes none of its rooms' "${inc}common/(formats|edges|harness)/" common/*.[ch] common/*.cu
forbid 'formats include the ground only' "${inc}common/(edges|harness)/" common/formats
forbid 'edges include the ground only' "${inc}common/(formats|harness)/" common/edges
forbid 'kernels include the ground of common only' "${inc}common/(formats|edges|harness)/" kernels
# Stages outside this tree are built against these headers. They include each other and jansson, and no other library.
public=(common/harness/stage.h common/edges/item.h common/harness/params.h common/status.h common/log.h common/device.h
  common/files.h common/memory.h common/formats/image.h common/formats/image_formats.h)
names=$(printf '|%s' "${public[@]}")
allowed="#include \"(${names#|})\"|#include <(jansson|stdbool|stddef|stdint|stdio|stdlib|stdarg|sys/stat|sys/types)\.h>" \
  forbid 'public headers include only each other and jansson' '#[[:space:]]*include' "${public[@]}"

# Whatever shows a session reads it through the view, so that another kind of ledger needs no change there.
forbid 'ledgers are read in pipelines/launcher/view alone' 'sqlite3_|"SELECT |ledger_(open|watch)[a-z_]*\(' \
  pipelines/launcher/{serve,api,report,metrics,alarms} pipelines/launcher/status*.[ch]
# Only one place may use each of these libraries.
allowed='^common/edges/transport' forbid 'ZeroMQ is common/edges/transport only' "${inc}zmq" common kernels stages pipelines
allowed='^pipelines/launcher/serve/http_[a-z_]*\.[ch]:' \
  forbid 'libmicrohttpd is pipelines/launcher/serve/http_*.c only' "${inc}microhttpd" common kernels stages pipelines
allowed='^(kernels/|common/device)' \
  forbid 'CUDA is kernels/ and common/device only' "$inc(cuda|cublas|cufft)" common kernels stages pipelines
forbid 'libraries do not end the program' '(^|[^_[:alnum:]])(exit|abort|_exit|quick_exit)[[:space:]]*\(' kernels
allowed='^common/harness/' \
  forbid 'libraries do not end the program' '(^|[^_[:alnum:]])(exit|abort|_exit|quick_exit)[[:space:]]*\(' common
forbid 'libraries do not print' '(^|[^_[:alnum:]])(printf|vprintf|puts|putchar|perror)[[:space:]]*\(' common kernels
allowed='^common/harness/' \
  forbid 'libraries write to files and logs, not to the standard streams' '(^|[^_[:alnum:]])(stdout|stderr)([^_[:alnum:]]|$)' \
  common kernels
# The one file of each kernel that chooses between CPU and CUDA makes a table of functions. All others ask the table, or
# the device.
choosers='^kernels/([a-z_]+)/\1\.c:|^kernels/(reconstruct/accumulator|fourier/workspace|postprocess/solvent)\.c:'
allowed="$choosers|^common/device\.c:|^pipelines/launcher/machine\.c:" \
  forbid 'ICESTREAM_HAVE_CUDA stands only where a table of functions is chosen' 'ICESTREAM_HAVE_CUDA' "${product[@]}"
found=$(grep -rcE --include='*.c' 'ICESTREAM_HAVE_CUDA' "${product[@]}" | grep -vE ':[01]$')
[ -z "$found" ] || fail "ICESTREAM_HAVE_CUDA stands once in a file:"$'\n'"$found"

# Every stage has the same files. Other files have names that say what they do.
for stage in stages/*/; do
  name=$(basename "$stage" | tr - _)
  for file in CMakeLists.txt main.c parameters.c parameters.h stage.c "$name.c" "$name.h"; do
    [ -f "$stage$file" ] || fail "$stage has no $file: every stage has CMakeLists.txt, main.c, parameters.[ch], stage.c and NAME.[ch]"
  done
  lines=$(wc -l <"${stage}main.c")
  [ "$lines" -le 6 ] || fail "${stage}main.c has $lines lines: it calls stage_main with the descriptor of stage.c, and nothing else"
done

# A file name shows where the code runs: X_cuda.* runs on CUDA devices, and X.cuh is a header for .cu files. X_cuda.c and
# X_cuda.cu must not be two halves of one name.
while read -r file; do
  fail "$file: a file name says X_cuda (code for CUDA) or X.cuh (a header for .cu files), not _device"
done < <(find kernels -name '*_device*')
while read -r file; do
  [ ! -e "${file%u}" ] || fail "${file%u} beside $file: two files of one name"
done < <(find common kernels stages pipelines examples -name '*.cu')
while read -r file; do
  fail "$file: CUDA sources are in kernels/ and common/"
done < <(find stages pipelines examples -name '*.cu' -o -name '*.cuh')

# Rows of a parameter table: {.name = "size", and then one member a line.
mapfile -t tables < <(grep -rlE --include='*.[ch]' 'struct param [A-Za-z_]+\[' "${product[@]}")
while read -r row; do
  fail "$row: a row of a parameter table begins with {.name = \"NAME\", and has one member a line"
done < <(awk '
  /struct param [A-Za-z_]+\[.*= *\{/ { inside = 1 }
  /^ *\};/ { inside = 0 }
  inside && (/PARAM_/ && !/^ +\.(type|changes) = PARAM_[A-Z]+,$/ || /\.name/ && !/^ +\{\.name = "[a-z0-9_]+",$/) {
    print FILENAME ":" FNR ": " $0
  }' "${tables[@]}")

while read -r file; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 700 ] || fail "$file has $lines lines: is it still one idea? (700)"
done < <(find common kernels stages pipelines examples tests -name '*.[ch]' -o -name '*.cu')
exit $bad
