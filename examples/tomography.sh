#!/usr/bin/env bash
# examples/tomography.sh [--work DIR] [--bin DIR] [--interval SECONDS]
#
# A tilt series, live: simulated tilts arrive one by one in a dose-symmetric order. icestream makes a preview after
# each, and at the end the tomogram. Needs the programs (examples/quickstart.sh builds them).
#   --work DIR          folder for everything (default: tomography-session here; must not exist)
#   --bin DIR           folder of the programs (default: build/cpu/bin)
#   --interval SECONDS  time from one tilt to the next (default: 1)
set -euo pipefail
here=$PWD
absolute() { case $1 in /*) echo "$1" ;; *) echo "$here/$1" ;; esac; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/tomography-session bin=$PWD/build/cpu/bin interval=1
[ -e CMakePresets.json ] || { work=$here/tomography-session bin=$(cd ../../bin && pwd); } # installed
while [ $# -gt 0 ]; do
  case $1 in
    --work) work=$(absolute "$2"); shift 2 ;;
    --bin) bin=$(absolute "$2"); shift 2 ;;
    --interval) interval=$2; shift 2 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ ! -e "$work" ] || { echo "tomography: $work exists: remove it, or choose another folder with --work"; exit 2; }
mkdir -p "$work/microscope/tilts"
work=$(cd "$work" && pwd)

"$bin/icestream-simulate-tilts" --o "$work/microscope" --name TS_01 --size 160 --thickness 48 --files single \
  --order dose-symmetric --step 5 --shift 4 --snr 1 --interval "$interval" &
simulator=$!
trap 'kill $simulator 2>/dev/null || true' EXIT

"$bin/icestream" run pipelines/tomography.yaml --session "$work/session" --until-idle 3 \
  --set watcher.directory="$work/microscope/tilts" --set watcher.settle=1 --set watcher.poll=0.5 \
  --set tilt-reconstructor.thickness=48 --set tilt-reconstructor.bin=1 --set tilt-reconstructor.tilts_per_series=25
wait $simulator
echo "the tomogram, its slices and its record:"
ls "$work/session/tilt-reconstructor/"TS_01.*  "$work/session/tilt-reconstructor/"TS_01_slices.png
echo "the phantom: $work/microscope/truth/TS_01.mrc"
