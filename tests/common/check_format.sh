#!/usr/bin/env bash
# Checks that clang-format, shellcheck and flake8 find nothing to change in the tree. To format the C and CUDA sources:
#   git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format-14 -i
set -u
cd "${ICESTREAM_SOURCE:-$(dirname "${BASH_SOURCE[0]}")/../..}" || exit 1
bad=0
missing=()
# files PATTERN...: lists the tracked files, or the files on disk in an unpacked archive.
files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z -- "$@" | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done
  else
    local wanted=()
    for pattern in "$@"; do wanted+=(-o -path "*/$pattern"); done
    find . -path ./build -prune -o \( "${wanted[@]:1}" \) -type f -print0
  fi
}
# check NAME COMMAND...: runs the command on the files that standard input lists.
check() {
  local name=$1
  shift
  if ! command -v "$1" >/dev/null; then
    missing+=("$name")
  elif ! xargs -0 -r -n 60 -P 2 "$@"; then
    echo "$name: see above"
    bad=1
  fi
}
# `check` must not stand at the end of a pipe: there it would set its variables in a subshell.
# Other versions of clang-format break lines in other places.
check clang-format-14 clang-format-14 --dry-run -Werror < <(files '*.c' '*.h' '*.cu' '*.cuh')
check shellcheck shellcheck -x -P SCRIPTDIR < <(files '*.sh' .ci/run 'tests/cli/fake/icestream-fake-*')
check flake8 flake8 < <(files '*.py')
[ $bad -eq 0 ] || exit 1
if [ ${#missing[@]} -gt 0 ]; then
  echo "not installed (scripts/packages.sh --tests): ${missing[*]}"
  exit 77
fi
