# The graph for single particles needs only the values that every session must set. Without one of them it is refused.
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
spa=$(dirname "${BASH_SOURCE[0]}")/../../pipelines/spa.yaml
sed '/gpu:/d' "$spa" >spa.yaml
check() { echo "--- $*" >&2; icestream check spa.yaml "$@" >/dev/null; }
check --set session.pixel_size=1.62 --set watcher.directory=data --set lowpass-picker.diameter=250 || exit
check --set session.pixel_size=1.62 --set watcher.directory=data --set lowpass-picker.diameter=250 \
  --set refiner.reference=reference.mrc || exit
check --set session.pixel_size=1.5 --set watcher.directory=data --set refiner.diameter=132 \
  --set refiner.reference=reference.mrc || exit
check --set session.pixel_size=1.5 --set watcher.directory=data
