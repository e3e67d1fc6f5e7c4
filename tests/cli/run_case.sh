#!/usr/bin/env bash
# run_case.sh CASE: runs CASE.sh in an empty folder. Compares its exit code, stdout and stderr with CASE.exit,
# CASE.stdout and CASE.stderr. Without CASE.exit the code must be 0; without one of the others, that output is not
# compared.
# The programs of the build and the scripts in fake/ are on PATH. Paths are compared as WORK (the
# folder), BIN and FAKE, the version as VERSION, the machine's cores as CORES.
# With ICESTREAM_ACCEPT=1 the expected files are rewritten.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case=$here/$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin=$(cd "${ICESTREAM_BIN:-$here/../../build/cpu/bin}" && pwd)
export PATH=$bin:$here/fake:$PATH LC_ALL=C.UTF-8 COLUMNS=80
unset CUDA_VISIBLE_DEVICES

# Of sessions and descriptions; `icestream --version` also names the commit.
version=$("$bin/icestream-watcher" --version | sed -e 's/.* //' -e 's/[.]/[.]/g')'([~+][0-9]+[.]g[0-9a-f]+)?'

mkdir "$work/in"
(cd "$work/in" && exec bash "$case.sh") >"$work/stdout" 2>"$work/stderr" </dev/null
code=$?
for stream in stdout stderr; do
  sed -E -i -e "s|$work/in|WORK|g" -e "s|$here/fake|FAKE|g" -e "s|$bin|BIN|g" -e "s#$version#VERSION#g" \
    -e "s/^(cores: .*) $(nproc) cores/\1 CORES cores/" "$work/$stream"
done

if [ "${ICESTREAM_ACCEPT:-}" = 1 ]; then
  echo "$code" >"$case.exit"
  for stream in stdout stderr; do
    if [ -s "$work/$stream" ]; then cp "$work/$stream" "$case.$stream"; else rm -f "$case.$stream"; fi
  done
  exit 0
fi
bad=0
wanted=0
[ -e "$case.exit" ] && wanted=$(cat "$case.exit")
if [ "$code" != "$wanted" ]; then
  echo "exit code $code, expected $wanted"
  bad=1
fi
for stream in stdout stderr; do
  if [ -e "$case.$stream" ]; then
    diff -u "$case.$stream" "$work/$stream" || bad=1
  fi
done
[ "$bad" = 0 ] || { echo "--- stdout"; cat "$work/stdout"; echo "--- stderr"; cat "$work/stderr"; }
exit "$bad"
