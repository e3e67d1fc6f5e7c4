# The masks and the detector's MTF of the final map are looked at before a session begins: by a stage, and in a graph.
mkdir data
python3 - <<'PYTHON'
import array, math, struct
def write(name, value):
    header = bytearray(1024)
    struct.pack_into("<10i", header, 0, 32, 32, 32, 2, 0, 0, 0, 32, 32, 32)
    struct.pack_into("<3f", header, 40, 48.0, 48.0, 48.0)
    header[208:216] = b"MAP " + bytes([0x44, 0x44, 0, 0])
    r = [math.dist((x, y, z), (16, 16, 16)) for z in range(32) for y in range(32) for x in range(32)]
    open(name, "wb").write(bytes(header) + array.array("f", map(value, r)).tobytes())
write("hard.mrc", lambda r: r < 9)
write("soft.mrc", lambda r: 0.5 + 0.5 * math.cos(math.pi * min(max((r - 7) / 6, 0), 1)))
PYTHON
printf 'data_\n\nloop_\n_rlnResolutionInversePixel\n_rlnMtfValue\n0 1\n0.25 0.6\n0.5 0.3\n' >mtf.star
sed 's/0.25 0.6/0.25 -0.6/' mtf.star >bad.star
check() {
  printf '{"params": {"reference": "soft.mrc", "diameter": 30, %s}, "session_params": {%s}}\n' "$1" "$2" >instance.json
  icestream-refiner --check instance.json
  echo "exit $?"
}
check '"mask": "soft.mrc", "mtf": "mtf.star", "bfactor": -80' ''
check '"mask": "hard.mrc"' '"mtf": "bad.star"'
check '"bfactor": "sharp"' '"mtf": "gone.star"'
spa=$(dirname "${BASH_SOURCE[0]}")/../../pipelines/spa.yaml
sed '/gpu:/d' "$spa" >spa.yaml
graph() {
  echo "--- $*" >&2
  icestream check spa.yaml --set session.pixel_size=1.5 --set watcher.directory=data --set refiner.diameter=30 \
    --set refiner.reference=soft.mrc "$@" >/dev/null
}
graph --set session.mtf=mtf.star --set refiner.mask=soft.mrc || exit
graph --set session.mtf=gone.star
# A path in a graph counts from the graph's folder.
mkdir other
sed 's/^session:/session:\n  mtf: k3.star/' spa.yaml >other/spa.yaml
cp mtf.star other/k3.star
icestream check other/spa.yaml --set session.pixel_size=1.5 --set watcher.directory=data --set refiner.diameter=30 \
  --set refiner.reference=soft.mrc >/dev/null || exit
graph --set session.mtf=bad.star --set refiner.mask=hard.mrc
