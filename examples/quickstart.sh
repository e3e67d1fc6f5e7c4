#!/usr/bin/env bash
# examples/quickstart.sh [--work DIR] [--bin DIR]
#
# From nothing to a 3D map, live, on a bare Debian 12 or Ubuntu 24.04: installs the packages, builds, fills a folder
# with simulated movies, runs the pipeline on it meanwhile, and prints the results. The camera's gain, the motion in the
# movies and their CTF are unknown to it. It has no templates and no reference: a pixel size and a diameter alone.
#   --work DIR  folder of the session (default: quickstart-session here; must not exist)
#   --bin DIR   folder of programs that are built already: nothing is installed or built (an installed copy of this
#               script takes the programs that it was installed with)
set -euo pipefail
here=$PWD
absolute() { case $1 in /*) echo "$1" ;; *) echo "$here/$1" ;; esac; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/quickstart-session bin=
[ -e CMakePresets.json ] || { work=$here/quickstart-session bin=$(cd ../../bin && pwd); } # installed
while [ $# -gt 0 ]; do
  case $1 in
    --work) work=$(absolute "$2"); shift 2 ;;
    --bin) bin=$(absolute "$2"); shift 2 ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ ! -e "$work" ] || { echo "quickstart: $work exists: remove it, or choose another folder with --work"; exit 2; }

if [ -z "$bin" ]; then
  scripts/packages.sh
  cmake --preset cpu >/dev/null
  cmake --build --preset cpu --target programs
  bin=$PWD/build/cpu/bin
fi
mkdir -p "$work"
work=$(cd "$work" && pwd)

# The same camera took movies of bare ice before: they give its gain reference.
camera=(--movies --uneven --size 1024 --pixel_size 2.5 --frames 8 --format tiff --seed 7 --box 96 --map_box 56)
"$bin/icestream-simulate" --o "$work/before" "${camera[@]}" --micrographs 20 --dose 200 --particles 0 --contamination 0 \
  --carbon 0 --interval 0 >"$work/simulate.log" 2>&1
"$bin/icestream-motion-corrector" --i "$work/before/movies" --o "$work/gain" --estimate_gain

# Makes 16 movies of 8 × 1024 × 1024 px with 55 particles each, one every 2 s, renamed into place when whole.
"$bin/icestream-simulate" --o "$work/microscope" "${camera[@]}" --micrographs 16 --dose 60 --particles 55 --interval 2 \
  >>"$work/simulate.log" 2>&1 &
simulator=$!
trap 'kill $simulator 2>/dev/null || true' EXIT
# The simulator writes the truth before the first movie; nothing but icestream-score reads it.
until [ -e "$work/microscope/truth/ready" ]; do
  kill -0 $simulator 2>/dev/null || { cat "$work/simulate.log"; exit 1; }
  sleep 0.1
done

cat >"$work/graph.yaml" <<EOF
session: {pixel_size: 2.5, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}
stages:
  watcher:          {directory: $work/microscope/movies, frames: 8}
  motion-corrector: {from: watcher, gain: $work/gain/gain.mrc, dose_per_frame: 7.5}
  ctf-estimator:    {from: motion-corrector}
  lowpass-picker:   {from: ctf-estimator, diameter: 150, reject_if: rlnCtfMaxResolution > 10}
  extractor:        {from: lowpass-picker, box: 96, downscale_to: 56}
  classifier:       {from: extractor, classes: 16, diameter: 170, snapshot_interval: 5}
  refiner:          {from: classifier, diameter: 170, threads: 2}
EOF
"$bin/icestream" check "$work/graph.yaml"
# Lets the run finish what has started as soon as the last movie has been taken in: a slow machine may take long between two.
# It ends by itself when the run has ended, so that nothing looks at the session any more when this script is through.
(
  until [ -e "$work/run.ended" ] || "$bin/icestream" status --session "$work/session" | grep '^watcher  *16 '; do sleep 1; done
  [ -e "$work/run.ended" ] || kill -INT "$(cat "$work/run.pid")"
) >/dev/null 2>&1 &
ender=$!
trap 'touch "$work/run.ended"; kill $simulator 2>/dev/null || true' EXIT
# The first line that it prints is the address of a page on which the session can be watched.
( # keeps its process number for the lines above
  echo "$BASHPID" >"$work/run.pid"
  exec "$bin/icestream" run "$work/graph.yaml" --session "$work/session" --until-idle 300 --serve --listen 127.0.0.1:0
)
touch "$work/run.ended"
wait $ender || true
wait $simulator
"$bin/icestream-score" --session "$work/session" --truth "$work/microscope/truth"

# How to call icestream from now on.
bin=$(cd "$bin" && pwd)
echo
if [ "$(command -v icestream)" = "$bin/icestream" ]; then
  echo "From now on:"
else
  echo "From now on, to call icestream by its name (put this line into ~/.bashrc to keep it):"
  echo "  export PATH=$bin:\$PATH"
fi
echo "  icestream doctor                                # what this machine lacks, if anything"
echo "  icestream check GRAPH                           # a graph of yours; $work/graph.yaml is one"
echo "  icestream run GRAPH --session DIR --serve       # docs/handbook/single-particles.md says more"
echo "  icestream serve --session $work/session         # the page of this session"
# On a terminal the page stays open for its reader; a script that called this one goes on.
if [ -t 0 ] && [ -t 1 ] && [ "${CI:-}" != true ]; then
  echo
  echo "The page stays until Ctrl-C:"
  exec "$bin/icestream" serve --session "$work/session" --listen 127.0.0.1:0
fi
