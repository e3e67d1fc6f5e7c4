#!/usr/bin/env python3
"""tests/docs/outside.py BUILD: installs to a folder, builds the example of a stage in C from there, once with CMake and once
with pkg-config, and runs it in a graph of the installation, together with the example in Python where pyzmq is there."""

import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

GRAPH = """\
session: {pixel_size: 2.0}
programs: [CMAKE, PKGCONFIG, PYTHON]
stages:
  watcher: {directory: IN}
  first:   {from: watcher, program: CMAKE, darkest: 1}
  second:  {from: first, program: PKGCONFIG}
"""
IN_PYTHON = "  third:   {from: second, program: PYTHON}\n"
STAGE = """#!/usr/bin/python3
import sys
sys.path.append("PREFIX/share/icestream/python")
from icestream import Stage

class Third(Stage):
    def process(self, item):
        item["columns"]["third"] = item["columns"]["brightnessMean"]
        return item

Third.main()
"""


def run(*words, **options):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def write_micrograph(path, level):
    """Writes 8 x 8 pixels of one value as MRC, mode 2, 2 Å a pixel."""
    header = struct.pack("<10i6f3i3f", 8, 8, 1, 2, 0, 0, 0, 8, 8, 1, 16, 16, 2, 90, 90, 90, 1, 2, 3, level, level, level)
    header = header.ljust(208, b"\0") + b"MAP \x44\x44\0\0"
    with open(path, "wb") as file:
        file.write(header.ljust(1024, b"\0") + struct.pack("<64f", *[level] * 64))


def main(build, work):
    prefix = f"{work}/prefix"
    run("cmake", "--install", build, "--prefix", prefix)
    example = shutil.copytree(f"{prefix}/share/icestream/examples/stage-c", f"{work}/mine")
    run("cmake", "-S", example, "-B", f"{work}/built", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_C_FLAGS=-Wall -Werror")
    run("cmake", "--build", f"{work}/built")
    [pc] = glob.glob(f"{prefix}/lib/**/icestream.pc", recursive=True)
    environment = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(pc)}
    flags = run("pkg-config", "--cflags", "--libs", "icestream", env=environment).split()
    run("cc", "-O1", *sorted(glob.glob(f"{example}/*.c")), "-o", f"{work}/by-pkg-config", *flags)
    # Nothing of the tree may be needed.
    assert not any(word.startswith(f"-I{os.path.realpath(build)}") for word in flags), flags
    programs = {"CMAKE": f"{work}/built/icestream-brightness", "PKGCONFIG": f"{work}/by-pkg-config", "PYTHON": f"{work}/third.py"}
    with open(programs["PYTHON"], "w") as file:
        file.write(STAGE.replace("PREFIX", prefix))
    os.chmod(programs["PYTHON"], 0o755)
    in_python = subprocess.run(["/usr/bin/python3", "-c", "import zmq"], capture_output=True).returncode == 0
    text = (GRAPH + IN_PYTHON * in_python).replace("IN}", f"{work}/in}}")
    for name, program in programs.items():
        text = text.replace(name, program)
    with open(f"{work}/graph.yaml", "w") as file:
        file.write(text)
    os.mkdir(f"{work}/in")
    write_micrograph(f"{work}/in/bright.mrc", 100)
    write_micrograph(f"{work}/in/dark.mrc", 0)
    icestream, session = f"{prefix}/bin/icestream", f"{work}/session"
    run(icestream, "run", f"{work}/graph.yaml", "--session", session, "--until-idle", "0.5")
    stages = json.loads(run(icestream, "status", "--session", session, "--json"))["stages"]
    found = {name: (counts["done"], counts["rejected"], counts["failed"]) for name, counts in stages.items()}
    expected = {"watcher": (2, 0, 0), "first": (1, 1, 0), "second": (1, 0, 0), **({"third": (1, 0, 0)} if in_python else {})}
    assert found == expected, f"done, rejected and failed: {found}, expected {expected}"
    for name in ("first", "second"):
        with open(f"{session}/{name}/bright_brightness.txt") as file:
            assert file.read() == "mean 100 deviation 0\n", name
    print(found)


folder = tempfile.mkdtemp(prefix="icestream-outside-")
try:
    main(sys.argv[1], folder)
finally:
    shutil.rmtree(folder, ignore_errors=True)
