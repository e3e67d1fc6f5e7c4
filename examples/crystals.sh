#!/usr/bin/env bash
# examples/crystals.sh [--work DIR] [--bin DIR]
#
# Crystallisation drops, from labels to a ranked list: paints drops of known outcome, trains a model on them, lets a
# folder fill with others and scores them as they come, judging the photographs of a drop together; says how many were
# right.
#   --work DIR  where all of it goes (default: crystals-session here; must not exist)
#   --bin DIR   programs that are built already: builds nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/crystals-session bin=
while [ $# -gt 0 ]; do
  case $1 in
    --work) work=$2; shift 2 ;;
    --bin) bin=$2; shift 2 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ ! -e "$work" ] || { echo "crystals: $work is there already: remove it, or choose another with --work"; exit 2; }
if [ -z "$bin" ]; then
  scripts/packages.sh
  cmake --preset cpu >/dev/null
  cmake --build --preset cpu --target programs
  bin=$PWD/build/cpu/bin
fi
mkdir -p "$work/plate"
work=$(cd "$work" && pwd)

# 60 drops, each photographed 6 times, and what a person would say of them. `simple` leaves texture out, to be quick.
"$bin/icestream-simulate-drops" --o "$work/labelled" --count 60 --series 6 --seed 1
"$bin/icestream-crystal-scorer" --train "$work/labelled/labels.csv" --o "$work/model" --features simple --trees 200 \
  --series '{drop}_t{time}' 2>"$work/train.log" || { cat "$work/train.log"; exit 1; }
cat "$work/model/validation.txt"

# 20 drops that the model has not seen, copied into the watched folder while the session runs.
"$bin/icestream-simulate-drops" --o "$work/camera" --count 20 --series 6 --seed 2
for photograph in "$work"/camera/*.png; do
  cp "$photograph" "$work/plate/.part" && mv "$work/plate/.part" "$work/plate/${photograph##*/}"
  sleep 0.05
done &
"$bin/icestream" run pipelines/crystals.yaml --session "$work/session" --until-idle 5 \
  --set watcher.directory="$work/plate" --set crystal-scorer.model="$work/model/crystals.model" \
  --set 'crystal-scorer.series={drop}_t{time}'

right() { # right TABLE COLUMN: of how many images the outcome is that of the labels
  awk -F, -v column="$2" 'NR == FNR { label[$1] = $2; next }
    FNR > 1 { n = split($1, part, "/"); total++; right += $column == label[part[n]] }
    END { print right " of " total }' "$work/camera/labels.csv" "$1"
}
echo "recognised: $(right "$work/session/crystal-scorer/scores.csv" 2) one by one," \
  "$(right "$work/session/crystal-scorer/series.csv" 4) as time series"
echo "likely crystals, the likeliest first: $work/session/crystal-scorer/crystals.csv"
head -n 4 "$work/session/crystal-scorer/crystals.csv"
