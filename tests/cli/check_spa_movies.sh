# The graphs for movies need only the values that every session must set. Without one of them they are refused.
mkdir data
# A map of 16 voxels along each side: check reads its header.
python3 - <<'END'
import struct
header = bytearray(1024)
struct.pack_into("<10i", header, 0, 16, 16, 16, 2, 0, 0, 0, 16, 16, 16)
struct.pack_into("<3f", header, 40, 24.0, 24.0, 24.0)
header[208:216] = b"MAP " + bytes([0x44, 0x44, 0, 0])
open("reference.mrc", "wb").write(bytes(header) + bytes(4 * 16**3))
END
pipelines=$(dirname "${BASH_SOURCE[0]}")/../../pipelines
for graph in spa-movies tomography-movies; do sed '/gpu:/d' "$pipelines/$graph.yaml" >$graph.yaml; done
check() { echo "--- $*" >&2; icestream check "$@" >/dev/null; }
spa=(spa-movies.yaml --set watcher.directory=data --set lowpass-picker.diameter=150)
check "${spa[@]}" --set session.pixel_size=0.83 || exit
check "${spa[@]}" --set session.pixel_size=0.83 --set motion-corrector.dose_per_frame=1.2 --set motion-corrector.replicas=2 \
  --set ctf-estimator.replicas=2 --set refiner.reference=reference.mrc || exit
# A derived box counts the pixels of the micrograph, not those of the movie.
check "${spa[@]}" --set session.pixel_size=0.415 --set motion-corrector.bin=2 || exit
check tomography-movies.yaml --set watcher.directory=data --set tilt-reconstructor.thickness=1200 || exit
check "${spa[@]}"
check "${spa[@]}" --set session.pixel_size=0.83 --set watcher.movies=false
