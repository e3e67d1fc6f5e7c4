#!/usr/bin/env bash
# tests/run.sh [--ci | --all]: installs packages, builds and tests. Ends with CTest's summary of preset cpu.
#
#   tests/run.sh         before a commit, in minutes:
#     cpu   all tests without the labels `slow` and `long`; no fuzz targets are built
#     asan  the tests of common and kernels             (AddressSanitizer, UndefinedBehaviorSanitizer)
#     tsan  the tests of common                         (ThreadSanitizer)
#     cuda  compiles the kernels, if nvcc is installed
#   tests/run.sh --ci    before a change lands: all tests that guard a promise of the docs
#     cpu   also `slow`: whole pipelines, faults, RELION on the same data
#     asan  everything but whole pipelines, what is `slow`, what a browser does with the page, what repeats runs to count
#           chances, and pickings of whole real micrographs
#     tsan  also the stages, without `heavy`, and what has the label `threads`: kernels that have threads of their own
#     cuda  compiles all programs, the tests of kernels and the benchmarks of GPUs, and runs what looks for a device: tests
#           that need one skip with a reason. What computes on a CPU has run already
#   tests/run.sh --all   as --ci, and then the tests with the label `long`
#
# Four tests run at a time, even on two cores: most wait for processes, time-outs and disks more than they compute. A test
# that keeps several cores busy counts as several (PROCESSORS).
#
# Tests with random input take the seed of ICESTREAM_SEED, here a fixed one. Another run finds other cases:
# ICESTREAM_SEED=$RANDOM tests/run.sh; ctest alone takes a new seed each time.
#
# With CI=true a test may skip for six reasons only:
#   - there is no GPU;
#   - mounting in a mount namespace is not allowed (faults_disk_full; faults_disk_refused needs no mount);
#   - axe.min.js could not be had from PyPI (web_axe_light, web_axe_dark);
#   - no server of PostgreSQL could be started (*_postgresql, ledger_tls, session_lease, faults_leases_*);
#   - namespaces cannot be made, or no server of PostgreSQL could be started (hosts_*);
#   - the folder of real data beside the checkout (../shared/data) does not exist.
# Any other skip fails the run, and so does a build without fuzz targets.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export ICESTREAM_SEED=${ICESTREAM_SEED:-20261121}
failed=()
mode=${1:-}
case "$mode" in
  '' | --ci | --all) ;;
  *)
    echo "tests/run.sh: '$mode' is no option: leave it out, or give --ci or --all" >&2
    exit 2
    ;;
esac

say() { printf '\n==== %s (%d s)\n' "$*" "$SECONDS"; }
step() { # step NAME COMMAND...: runs the command, remembers a failure, continues
  local name=$1
  shift
  "$@" || { failed+=("$name"); echo "FAILED: $name"; }
}
build() { # build PRESET [TARGET...]
  local preset=$1
  shift
  cmake --preset "$preset" "${configure[@]}" >"build/$preset.configure.log" 2>&1 || { cat "build/$preset.configure.log"; return 1; }
  cmake --build --preset "$preset" ${1:+--target "$@"} >"build/$preset.build.log" 2>&1 ||
    { tail -n 60 "build/$preset.build.log"; return 1; }
}
check() { # check BUILD [CTEST ARGUMENT...]: --quiet prints only the summary, or everything after a failure
  local name=$1 log="$PWD/build/$1.ctest.log"
  shift
  ctest --test-dir "build/$name" --output-on-failure -j 4 "$@" --output-log "$log"
  local status=$?
  case " $* " in *' --quiet '*)
    if [ "$status" -eq 0 ]; then sed -n '/% tests passed/,$p' "$log"; else cat "$log"; fi ;;
  esac
  if [ "${CI:-}" = true ]; then
    # CTest lists skipped tests as " 12 - name (Skipped)". Tests that need a GPU are called gpu_*.
    local skipped
    skipped=$(sed -n 's/^[[:space:]]*[0-9]* - \([^ ]*\) (Skipped)$/\1/p' "$log" |
      grep -v -e '^gpu_' -e '^faults_disk_full$' -e '^web_axe_' -e '_postgresql$' -e '^ledger_tls$' -e '^session_lease$' \
        -e '^faults_leases_' -e '^hosts_' || true)
    [ -s build/axe/axe.min.js ] || echo "web_axe_* may skip: PyPI did not give axe.min.js"
    if [ -n "$skipped" ] && [ ! -d ../shared/data ] && ! grep -q '^faults_' <<<"$skipped"; then # fault tests need no real data
      echo "skipped, since there is no real data in ../shared/data: ${skipped//$'\n'/ }"
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
configure=()
[ -n "$mode" ] || configure=(-DICESTREAM_FUZZ=OFF)
build cpu || exit 1
configure=()

# What each mode builds and runs.
asan_targets=(tests_common tests_kernels tests_stages tests_cli tests_faults) asan_tests=(-LE 'long|slow|pipeline|fuzz' -E '^(check_|docs_|web_axe|web_page|picker_(thresholds|contamination|apoferritin)|test_refiner_(signal|noise|auto_mask|directions|initial|own_maps))')
tsan_targets=(tests_common tests_stages tests_threads) tsan_tests=(-L 'common|stages|threads' -LE 'long|pipeline|heavy')
cuda_targets=(programs tests_kernels test_device bench_expectation_cuda bench_texture_cuda bench_tomography_cuda)
cuda_tests=(-R '^(gpu_|test_device)' -L 'common|kernels') cpu_tests=(-LE long)
if [ -z "$mode" ]; then
  asan_targets=(tests_common tests_kernels) asan_tests=(-L 'common|kernels' -LE 'long|slow|pipeline' -E '^check_')
  tsan_targets=(tests_common) tsan_tests=(-L common -LE 'long|slow|pipeline|heavy' -E '^check_')
  cuda_targets=(icestream-kernels) cpu_tests=(-LE 'long|slow')
fi

say "asan: build and test"
if build asan "${asan_targets[@]}"; then step asan check asan "${asan_tests[@]}" --quiet; else failed+=("asan build"); fi

say "tsan: build and test"
if build tsan "${tsan_targets[@]}"; then step tsan check tsan "${tsan_tests[@]}" --quiet; else failed+=("tsan build"); fi

say "cuda: build and test"
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  PATH=$PATH:/usr/local/cuda/bin
  if ! build cuda "${cuda_targets[@]}"; then
    failed+=("cuda build")
  elif [ -n "$mode" ]; then
    step cuda check cuda "${cuda_tests[@]}" --quiet
  fi
else
  echo "no nvcc here: the CUDA kernels are not compiled"
fi

if [ "${CI:-}" = true ] && [ -n "$mode" ] && ctest --test-dir build/cpu -N -L fuzz | grep -q '^Total Tests: 0$'; then
  failed+=("no fuzz targets: clang has no libFuzzer here")
fi

if [ "$mode" = --all ]; then
  say "cpu: what is long"
  step long check cpu -L long
fi

say "cpu: tests"
scripts/axe.sh build/axe || echo "axe.min.js is not here: the page is not checked with it"
step cpu check cpu "${cpu_tests[@]}"
say "done"

if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
