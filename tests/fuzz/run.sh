#!/usr/bin/env bash
# tests/fuzz/run.sh PROGRAM SECONDS RUNS CORPUS...: runs a libFuzzer program as a test: on all inputs of the corpus, then
# on RUNS mutations of them. The seed is that of ICESTREAM_SEED, else a new one, and is printed. With one seed the
# mutations are much the same each time, though not wholly: names of scratch files differ.
# SECONDS ends it on a slow machine. New inputs are forgotten; tests/fuzz/long.py keeps those that it finds.
set -euo pipefail
program=$1 seconds=$2 runs=$3
shift 3
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
fixed=(setarch -R) # addresses get into mutations
"${fixed[@]}" true 2>/dev/null || fixed=()
# By default libFuzzer exits with 77, which CTest would count as a skip.
"${fixed[@]}" "$program" -error_exitcode=1 -seed="${ICESTREAM_SEED:-$((RANDOM * 32768 + RANDOM + 1))}" -runs="$runs" \
  -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3072 -max_len=65536 -print_final_stats=1 -reload=0 \
  -artifact_prefix="$(dirname "$program")/" "$found" "$@"
