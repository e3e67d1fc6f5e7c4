# A wrong value is exit code 2 wherever it is found out: by --check, on files, when a stage starts, and by `run`.
mkdir in
python3 - <<'END'
import struct
header = bytearray(1024)
struct.pack_into("<10i", header, 0, 64, 64, 1, 2, 0, 0, 0, 64, 64, 1)
struct.pack_into("<3f", header, 40, 96.0, 96.0, 1.5)
header[208:216] = b"MAP " + bytes([0x44, 0x44, 0, 0])
open("in/a.mrc", "wb").write(bytes(header) + bytes(64 * 64 * 4))
END
printf '{"params": {"box": 63, "downscale_to": 70}, "session_params": {"pixel_size": 1.5}, "name": "cut"}\n' >instance.json
icestream-extractor --check instance.json
echo "exit $?"
printf '{"params": {"box": 64, "boxes": 3, "background_radius": "wide"}}\n' >instance.json
icestream-extractor --check instance.json
echo "exit $?"
printf '{"params": {"box": 64}}\n' >instance.json
icestream-extractor --check instance.json
echo "exit $?"
printf '{"params": {"reference": "gone.mrc", "diameter": 100, "symmetry": "D2"}}\n' >instance.json
icestream-refiner --check instance.json
echo "exit $?"
echo nonsense >instance.json
icestream-extractor --check instance.json
echo "exit $?"
icestream-extractor --describe | grep '"check"'
echo "on files" >&2
icestream-extractor --i in --o out --box 63 --downscale-to 70
echo "exit $?" >&2
icestream-refiner --i in --o out --diameter 100 --reference in/a.mrc --symmetry C0
echo "exit $?" >&2
icestream-lowpass-picker --i in/none.mrc --o out --diameter 50
echo "exit $?" >&2
# In a pipeline a stage that refuses its values at its start ends the run.
printf '#!/bin/sh\nexit 2\n' >stage.sh
chmod +x stage.sh
printf 'programs: [%s]\nstages: {mine: {program: %s}}\n' "$PWD/stage.sh" "$PWD/stage.sh" >graph.yaml
icestream run graph.yaml --session session >/dev/null 2>message
echo "run $?" >&2
grep -v '^mine ' message >&2
