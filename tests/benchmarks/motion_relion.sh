#!/bin/bash
# tests/benchmarks/motion_relion.sh BIN [MOVIES [SIZE [FRAMES [THREADS [FOLDER]]]]]
#
# Corrects the same simulated movies with icestream-motion-corrector and with RELION's own program (relion_run_motioncorr
# --use_own), with the same threads, gain reference, dose, B-factor and 5 × 5 patches, both with weighted and unweighted
# sums. Prints the seconds of both and their errors against the truth (score_movies.py); then fits the CTF to the spectra
# of both, and prints its errors (score_ctf.py). BIN: the folder of the programs. Movies: LZW-TIFF, 1 e⁻/px a frame, drift of 10 Å, doming of 3 Å. FOLDER is kept; without it a temporary folder
# is used and removed. Each program runs twice: the second time counts, since the movies are then in the page cache.
set -euo pipefail
bin=$(realpath "$1") movies=${2:-2} size=${3:-4096} frames=${4:-40} threads=${5:-2}
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
if ! command -v relion_run_motioncorr > /dev/null; then
    echo "skipped: there is no relion_run_motioncorr"
    exit 77
fi
if [ $# -ge 6 ]; then
    mkdir -p "$6"
    folder=$(realpath "$6")
else
    folder=$(mktemp -d "${TMPDIR:-/tmp}/icestream-motion-XXXXXX")
    trap 'rm -rf "$folder"' EXIT
fi
cd "$folder"
if [ ! -e sim/movies.star ]; then
    "$bin/icestream-simulate" --movies --o sim --micrographs "$movies" --size "$size" --frames "$frames" --format tiff \
        --dose "$frames" --pixel_size 1 --drift 10 --doming 3 --interval 0 --seed 20 > simulate.log 2>&1
fi
cd sim # RELION's paths are relative to its project

# Runs the arguments twice, with the results in $1; prints the seconds of the second run, by the clock and of all cores.
seconds() {
    local out=$1
    shift
    for _ in 1 2; do
        rm -rf "$out"
        /usr/bin/time -o "$out.time" -f '%e s, %U s of user and %S s of system time' "$@" > "$out.log" 2>&1 ||
            { tail -20 "$out.log" >&2; exit 1; }
    done
    cat "$out.time"
}

echo "$movies movies, $frames frames of $size², $threads threads"
for program in ours relion; do
    if [ $program = ours ]; then
        echo "icestream: $(seconds "$folder/ours" "$bin/icestream-motion-corrector" --i movies.star --o ../ours \
            --gain gain.mrc --patches 5,5 --dose_per_frame 1 --bfactor 150 --threads "$threads")"
    else
        echo "RELION: $(seconds "$folder/relion" relion_run_motioncorr --use_own --i movies.star --o ../relion/ \
            --gainref gain.mrc --patch_x 5 --patch_y 5 --dose_weighting --save_noDW --dose_per_frame 1 --bfactor 150 \
            --grouping_for_ps 4 --j "$threads")"
    fi
    /usr/bin/python3 "$here/score_movies.py" --truth . --i "../$program"
    "$bin/icestream-ctf-estimator" --i "../$program/corrected_micrographs.star" --o "../ctf-$program" --threads "$threads" \
        > "$folder/ctf-$program.log" 2>&1
    /usr/bin/python3 "$here/score_ctf.py" truth/micrographs_ctf.star "../ctf-$program/micrographs_ctf.star"
done
