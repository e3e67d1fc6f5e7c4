#!/usr/bin/env bash
# scripts/axe.sh FOLDER: puts axe.min.js into FOLDER. axe checks the accessibility of the live page in tests; it is no
# part of icestream. It lies in a wheel on PyPI. Does nothing when the file is there.
set -euo pipefail
folder=${1:?the folder that gets axe.min.js}
[ ! -s "$folder/axe.min.js" ] || exit 0
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
timeout 60 python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest "$wheel" axe-playwright-python==0.1.8
mkdir -p "$folder"
python3 - "$wheel" "$folder" <<'END'
import glob
import os
import sys
import zipfile

with zipfile.ZipFile(glob.glob(os.path.join(sys.argv[1], "*.whl"))[0]) as wheel:
    content = wheel.read("axe_playwright_python/axe.min.js")
path = os.path.join(sys.argv[2], "axe.min.js")
with open(path + ".part", "wb") as file:
    file.write(content)
os.rename(path + ".part", path)
END
