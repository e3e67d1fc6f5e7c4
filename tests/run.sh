#!/usr/bin/env bash
# tests/run.sh: installs what is needed, builds every preset, runs every test; ends with CTest's summary of preset cpu.
#
#   cpu   everything but the label `long`
#   asan  everything but whole pipelines      (AddressSanitizer, UndefinedBehaviorSanitizer)
#   tsan  common and stages, less `heavy`     (ThreadSanitizer)
#   cuda  compiled where nvcc is; the tests of common and kernels run, those that need a GPU skip with a reason
#
# With CI=true a test may skip only for want of a GPU, of the right to mount something in a name space of its own
# (faults_disk_full; faults_disk_refused needs none), or of the real data beside the checkout (../shared/data) where that is
# not there at all: any other skip fails the run, and so does a build without fuzz targets.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=()

say() { printf '\n==== %s\n' "$*"; }
step() { # step NAME COMMAND...: runs it, remembers a failure, goes on
  local name=$1; shift
  "$@" || { failed+=("$name"); echo "FAILED: $name"; }
}
build() {
  cmake --preset "$1" >"build/$1.configure.log" 2>&1 || { cat "build/$1.configure.log"; return 1; }
  cmake --build --preset "$1" >"build/$1.build.log" 2>&1 || { tail -n 60 "build/$1.build.log"; return 1; }
}
check() { # check PRESET [CTEST ARGUMENT...]; with --quiet as an argument only the summary is shown, or all of a failure
  local preset=$1 log="$PWD/build/$1.ctest.log"; shift
  ctest --preset "$preset" "$@" --output-log "$log"
  local status=$?
  case " $* " in *' --quiet '*)
    if [ "$status" -eq 0 ]; then sed -n '/% tests passed/,$p' "$log"; else cat "$log"; fi ;;
  esac
  if [ "${CI:-}" = true ]; then
    # CTest lists what skipped as "  12 - name (Skipped)"; tests for a GPU are called gpu_*.
    local skipped
    skipped=$(sed -n 's/^[[:space:]]*[0-9]* - \([^ ]*\) (Skipped)$/\1/p' "$log" |
      grep -v -e '^gpu_' -e '^faults_disk_full$' || true)
    if [ -n "$skipped" ] && [ ! -d ../shared/data ] && ! grep -q '^faults_' <<<"$skipped"; then # which need none of it
      echo "skipped, since there is no real data in ../shared/data:" $skipped
    elif [ -n "$skipped" ]; then
      echo "skipped, though this is CI and no GPU is missed: $skipped"
      status=1
    fi
  fi
  return "$status"
}

mkdir -p build
say "packages"
scripts/packages.sh --tests >build/packages.log 2>&1 || { tail -n 30 build/packages.log; exit 1; }

say "build cpu"
build cpu || exit 1

say "asan: build and test"
if build asan; then step asan check asan -j 2 --quiet; else failed+=("asan build"); fi

say "tsan: build and test"
if build tsan; then step tsan check tsan -j 2 --quiet; else failed+=("tsan build"); fi

say "cuda: build and test"
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  PATH=$PATH:/usr/local/cuda/bin
  if build cuda; then step cuda check cuda -j 2 --quiet -L 'common|kernels'; else failed+=("cuda build"); fi
else
  echo "no nvcc here: the CUDA kernels are not compiled"
fi

if [ "${CI:-}" = true ] && ctest --preset cpu -N -L fuzz | grep -q '^Total Tests: 0$'; then
  failed+=("no fuzz targets: clang has no libFuzzer here")
fi

say "cpu: every test"
step cpu check cpu -j 2

if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
