#!/usr/bin/env bash
# examples/crystals.sh [--work DIR] [--bin DIR]
#
# Crystallisation drops, from labels to a ranked list: paints drops of known outcome and trains a model on them. Then
# fills a folder with other drops, scores them as they come, judges the photographs of a drop together, and prints how
# many were right.
#   --work DIR  folder for everything (default: crystals-session here; must not exist)
#   --bin DIR   folder of programs that are built already: nothing is built
set -euo pipefail
here=$PWD
absolute() { case $1 in /*) echo "$1" ;; *) echo "$here/$1" ;; esac; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/crystals-session bin=
[ -e CMakePresets.json ] || { work=$here/crystals-session bin=$(cd ../../bin && pwd); } # installed
while [ $# -gt 0 ]; do
  case $1 in
    --work) work=$(absolute "$2"); shift 2 ;;
    --bin) bin=$(absolute "$2"); shift 2 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ ! -e "$work" ] || { echo "crystals: $work exists: remove it, or choose another folder with --work"; exit 2; }
if [ -z "$bin" ]; then
  scripts/packages.sh
  cmake --preset cpu >/dev/null
  cmake --build --preset cpu --target programs
  bin=$PWD/build/cpu/bin
fi
mkdir -p "$work/plate"
work=$(cd "$work" && pwd)

# Paints 60 drops, each photographed 6 times, with labels. `simple` leaves texture out, which is quicker.
"$bin/icestream-simulate-drops" --o "$work/labelled" --count 60 --series 6 --seed 1
"$bin/icestream-crystal-scorer" --train "$work/labelled/labels.csv" --o "$work/model" --features simple --trees 200 \
  --series '{drop}_t{time}' 2>"$work/train.log" || { cat "$work/train.log"; exit 1; }
cat "$work/model/validation.txt"

# Paints 20 drops that the model has not seen, and copies them into the watched folder while the session runs.
"$bin/icestream-simulate-drops" --o "$work/camera" --count 20 --series 6 --seed 2
for photograph in "$work"/camera/*.png; do
  cp "$photograph" "$work/plate/.part" && mv "$work/plate/.part" "$work/plate/${photograph##*/}"
  sleep 0.05
done &
"$bin/icestream" run pipelines/crystals.yaml --session "$work/session" --until-idle 5 \
  --set watcher.directory="$work/plate" --set crystal-scorer.model="$work/model/crystals.model" \
  --set 'crystal-scorer.series={drop}_t{time}'

right() { # right TABLE COLUMN: prints for how many images the outcome is the label
  awk -F, -v column="$2" 'NR == FNR { label[$1] = $2; next }
    FNR > 1 { n = split($1, part, "/"); total++; right += $column == label[part[n]] }
    END { print right " of " total }' "$work/camera/labels.csv" "$1"
}
echo "recognised: $(right "$work/session/crystal-scorer/scores.csv" 2) one by one," \
  "$(right "$work/session/crystal-scorer/series.csv" 4) as time series"
echo "likely crystals, the likeliest first: $work/session/crystal-scorer/crystals.csv"
head -n 4 "$work/session/crystal-scorer/crystals.csv"
