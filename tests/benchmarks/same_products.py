#!/usr/bin/env python3
"""Compares what two builds of icestream write, byte by byte.

Runs every stage of each build on the same small files, with fixed seeds and threads, and compares the sha256 sums of
all products. Prints for each group how many products are equal, and names the products that differ.

  same_products.py BUILD_A BUILD_B              compares two builds; build A makes the inputs
  same_products.py BUILD --save SUMS.json       stores the sums of a baseline, to compare with them later
  same_products.py BUILD --against SUMS.json    compares a build with stored sums, on the same inputs

BUILD is a build folder that contains bin/. Sums are good on one kind of processor only: kernels choose their
instructions at run time. Exit: 0 all products are equal, 1 some differ, 2 usage, or the inputs cannot be used."""

import argparse
import concurrent.futures
import glob
import hashlib
import json
import math
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import same_products_cases as cases

TIMEOUT = 900  # s, for one program
TAIL = 600  # characters of standard error that are shown where a program fails

# Values that depend on the clock or on the working folder are removed before a file is summed, and nothing else:
# - history.jsonl: the time of day and durations. Keys stay, and so do all other numbers.
DURATIONS = re.compile(rb'("(?:time|seconds|device|between|waited)": ?)[-+.0-9e]+')
STEPS = re.compile(rb'"steps": ?\{[^}]*\}')
# - SERIES.json of the tilt-reconstructor: how long the tomogram took.
SECONDS = re.compile(rb'("seconds": ?)[-+.0-9e]+')
# - log/ and ledger/ of a session: process ids, socket names, times, SQLite's own order of pages.
SESSION_STATE = ("log", "ledger")
# - Standard output and standard error: durations, and prose for users. Only the ids of log lines are compared, as a
# set, because the lanes of a stage write their lines in any order.
LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\dT\S+ \S+ (DEBUG|INFO|WARN|ERROR) (\S+) ", re.M)
# - --describe: prose for users. Names, types, defaults, limits and choices are compared.
PROSE = ("help", "summary", "unit")


def fail(text):
    print(f"same_products: {text}", file=sys.stderr)
    sys.exit(2)


# ---- products and their sums


def normalised(path, name, place):
    """Returns the bytes of a product without clock and place."""
    with open(path, "rb") as file:
        data = file.read()
    if b"\0" not in data:
        data = data.replace(os.fsencode(place), b"PLACE")
    if name.endswith("history.jsonl"):
        data = STEPS.sub(lambda m: re.sub(rb"(: ?)[-+.0-9e]+", rb"\g<1>0", m[0]), DURATIONS.sub(rb"\g<1>0", data))
    elif name.endswith(".json"):
        data = SECONDS.sub(rb"\g<1>0", data)
    return data


def digest(data):
    return hashlib.sha256(data).hexdigest()


def sums_of_folder(folder, place):
    """Returns {path below the folder: sha256} of every file there."""
    found = {}
    for root, folders, files in os.walk(folder):
        if root == folder:
            folders[:] = [f for f in folders if f not in SESSION_STATE]
        for name in files:
            path = os.path.join(root, name)
            relative = os.path.relpath(path, folder)
            found[relative] = digest(normalised(path, relative, place))
    return found


def plain_sums(folder):
    """Returns {path: sha256} of the inputs, as they are."""
    found = {}
    for root, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = digest(file.read())
    return found


# ---- running


class Build:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.bin = os.path.join(self.folder, "bin")
        if not os.path.isfile(os.path.join(self.bin, "icestream")):
            fail(f"{folder}: no bin/icestream there: give a build folder, as build/cpu")

    def run(self, program, words, place):
        """Runs one program in the folder `place`; returns exit code, standard output and standard error."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "OPENBLAS_", "ICESTREAM_"))}
        done = subprocess.run(
            [os.path.join(self.bin, program), *words],
            cwd=place,
            env=environment,
            text=True,
            capture_output=True,
            timeout=TIMEOUT,
            errors="replace",
        )
        return done.returncode, done.stdout, done.stderr

    def must(self, program, words, place):
        """Runs a program that makes inputs."""
        code, out, err = self.run(program, shlex.split(words), place)
        if code != 0:
            fail(f"cannot make the inputs: {program} {words}: exit {code}\n{(err + out)[-TAIL:]}")


def run_case(build, case, place):
    """Runs one case. Returns {product: sha256} and remarks for the user."""
    out = f"{case.group}.{case.name}"
    for source, target in case.copies:
        shutil.copytree(os.path.join(place, source), os.path.join(place, target.replace("OUT", out)))
    found, told = {}, []
    for number, command in enumerate(case.commands):
        program, *words = shlex.split(command.replace("OUT", out))
        if program == "copy":
            os.makedirs(os.path.join(place, words[1]), exist_ok=True)
            for path in glob.glob(words[0], root_dir=place):
                shutil.copy2(os.path.join(place, path), os.path.join(place, words[1]))
            continue
        try:
            code, stdout, stderr = build.run(program, words, place)
        except subprocess.TimeoutExpired:
            code, stdout, stderr = "none: it ran too long", "", ""
        step = f" {number + 1}" if len(case.commands) > 1 else ""
        found[f"exit code{step}"] = digest(str(code).encode())
        if case.log_ids:
            ids = sorted({" ".join(match) for match in LOG_LINE.findall(stderr)})
            found[f"log ids{step}"] = digest("\n".join(ids).encode())
            with open(os.path.join(place, f"{out}.log_ids{step}".replace(" ", "")), "w") as file:
                file.write("\n".join(ids) + "\n")
        if case.numbers:  # a table for users: its numbers in their order
            found["numbers"] = digest(" ".join(re.findall(r"\d+(?:\.\d+)?", stdout)).encode())
        if code not in case.expect:
            lines = [line for line in stderr.splitlines() if re.search(r" (WARN|ERROR) |error:", line)]
            told.append(f"{out}: {program} ended with {code}, expected {case.expect[0]}\n" + "\n".join(lines)[-TAIL:])
    found.update(sums_of_folder(os.path.join(place, out), place))
    return found, told


def describe(build, place):
    """Returns the sums of all parameters of all stages, without prose."""
    found, told = {}, []
    for stage in cases.STAGES:
        code, text, err = build.run(f"icestream-{stage}", ["--describe"], place)
        if code != 0:
            told.append(f"icestream-{stage} --describe ended with {code}: {err[-TAIL:]}")
            continue
        described = json.loads(text)
        for kind in ("params", "common_params", "session_params"):
            for parameter in described.pop(kind, []):
                kept = {k: v for k, v in parameter.items() if k not in PROSE}
                found[f"{stage}: {parameter['name']}"] = digest(json.dumps(kept, sort_keys=True).encode())
        kept = {k: v for k, v in described.items() if k not in PROSE}
        found[f"{stage}: the stage"] = digest(json.dumps(kept, sort_keys=True).encode())
    return found, told


def run_all(build, inputs, place, only, jobs):
    """Runs all cases in a fresh folder `place`; returns {group: {product: sha256}}."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(inputs, os.path.join(place, "inputs"))  # also keeps the times of change, which order a watcher
    chosen, sums, problems = [], {}, []
    for case in cases.all_cases():
        if case.group not in only:
            continue
        missing = [path for path in case.needs if not os.path.exists(os.path.join(place, path))]
        if missing:
            print(f"skipped: {case.group}/{case.name}: the inputs have no {missing[0]} (real data)")
            continue
        for source, target in case.files:
            with open(os.path.join(place, target), "w") as file:
                file.write(source)
        chosen.append(case)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [(case, pool.submit(run_case, build, case, place)) for case in chosen]
        for case, future in waiting:
            found, told = future.result()
            problems += told
            sums.setdefault(case.group, {}).update({f"{case.name}/{name}": s for name, s in found.items()})
    if "describe" in only:
        sums["describe"], told = describe(build, place)
        problems += told
    for text in problems:
        print(f"note: {text}")
    return sums


# ---- inputs: made once, by one build


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(data, bytes) else "w") as file:
        file.write(data)


def read_mrc(path):
    """Returns (columns, rows, sections, pixels) of a float32 MRC file."""
    with open(path, "rb") as file:
        data = file.read()
    nx, ny, nz, mode = struct.unpack_from("<4i", data)
    extended = struct.unpack_from("<i", data, 92)[0]
    assert mode == 2, f"{path}: mode {mode}"
    return nx, ny, nz, struct.unpack_from(f"<{nx * ny * nz}f", data, 1024 + extended)


def write_mrc(path, nx, ny, nz, pixels, pixel_size):
    header = bytearray(1024)
    struct.pack_into("<10i", header, 0, nx, ny, nz, 2, 0, 0, 0, nx, ny, nz)
    struct.pack_into("<6f", header, 40, nx * pixel_size, ny * pixel_size, nz * pixel_size, 90, 90, 90)
    struct.pack_into("<3i3f", header, 64, 1, 2, 3, min(pixels), max(pixels), sum(pixels) / len(pixels))
    header[208:216] = b"MAP \x44\x44\0\0"
    write(path, bytes(header) + struct.pack(f"<{len(pixels)}f", *pixels))


def write_tiff(path, nx, ny, pixels):
    """Writes a float32 TIFF file, top line first."""
    data = b"".join(struct.pack(f"<{nx}f", *pixels[y * nx : (y + 1) * nx]) for y in reversed(range(ny)))
    tags = [
        (256, 4, nx),
        (257, 4, ny),
        (258, 3, 32),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8),
        (277, 3, 1),
        (278, 4, ny),
        (279, 4, len(data)),
        (339, 3, 3),
    ]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", t, kind, 1, v) for t, kind, v in tags)
    write(path, b"II*\0" + struct.pack("<I", 8 + len(data)) + data + directory + struct.pack("<I", 0))


def write_png(path, nx, ny, pixels):
    """Writes a grey PNG file of 16 bits."""
    low, high = min(pixels), max(pixels)
    values = [round(65535 * (p - low) / (high - low)) for p in pixels]
    rows = b"".join(b"\0" + struct.pack(f">{nx}H", *values[y * nx : (y + 1) * nx]) for y in range(ny))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    write(
        path,
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", nx, ny, 16, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b""),
    )


def replace_in(path, old, new):
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace(old, new))


def index_of(pairs):
    """Returns the text of a STAR file that lists micrographs and their picks."""
    return (
        "\ndata_coordinate_files\n\nloop_\n_rlnMicrographName #1\n_rlnMicrographCoordinates #2\n"
        + "".join(f"{micrograph} {picks}\n" for micrograph, picks in pairs)
        + "\n"
    )


def make_micrographs(build, place):
    """Simulates micrographs in four formats, with coordinates, templates, reference and mask."""
    inputs = os.path.join(place, "inputs")
    for folder, more in cases.SESSIONS.items():
        build.must("icestream-simulate", f"--o inputs/{folder} {more}", place)
        truth = os.path.join(inputs, folder, "truth")
        for name in os.listdir(truth):
            if name.endswith(".star"):
                replace_in(os.path.join(truth, name), " micrographs/", f" inputs/{folder}/micrographs/")
    for folder in ("session", "tiff"):
        names = sorted(os.listdir(f"{inputs}/{folder}/micrographs"))
        write(
            f"{inputs}/{folder}/picks.star",
            index_of(
                (f"inputs/{folder}/micrographs/{n}", f"inputs/{folder}/truth/{os.path.splitext(n)[0]}.star")
                for n in names
            ),
        )
    first = f"{inputs}/session/micrographs/mic_00001.mrc"
    nx, ny, _, pixels = read_mrc(first)
    write_png(f"{inputs}/png/mic_00001.png", nx, ny, pixels)
    write(f"{inputs}/png/picks.star", index_of([("inputs/png/mic_00001.png", "inputs/session/truth/mic_00001.star")]))
    os.makedirs(f"{inputs}/broken")
    shutil.copy2(first, f"{inputs}/broken/a.mrc")
    with open(first, "rb") as file:
        write(f"{inputs}/broken/b.mrc", file.read(nx * ny))
    n, size = 40, 6.4
    middle = [(x - n // 2, y - n // 2, z - n // 2) for z in range(n) for y in range(n) for x in range(n)]
    write_mrc(f"{inputs}/mask.mrc", n, n, n, [min(1.0, max(0.0, 15 - math.hypot(*p))) for p in middle], size)
    os.makedirs(f"{inputs}/references")
    for name, sign in (("a", 1), ("b", -1)):  # the second is the mirror image
        bx, by, bz, voxels = read_mrc(f"{inputs}/session/truth/reference.mrc")
        rows = [voxels[i * bx : (i + 1) * bx][::sign] for i in range(by * bz)]
        write_mrc(f"{inputs}/references/{name}.mrc", bx, by, bz, [v for row in rows for v in row], 256 / bx)
    write(
        f"{inputs}/references.star",
        "\ndata_\n\nloop_\n_rlnReferenceImage #1\n" "inputs/references/a.mrc\ninputs/references/b.mrc\n",
    )


def make_particles(build, place):
    """Cuts particles at their true places, and writes tables of them: all, few, in two optics groups, premultiplied."""
    inputs = os.path.join(place, "inputs")
    build.must(
        "icestream-extractor",
        "--i inputs/session/picks.star,inputs/session/truth/micrographs_ctf.star "
        "--o particles --box 64 --downscale_to 40 --threads 1",
        place,
    )
    shutil.move(os.path.join(place, "particles"), os.path.join(inputs, "particles"))
    table = os.path.join(inputs, "particles", "particles.star")
    replace_in(table, "@particles/", "@inputs/particles/")
    with open(table) as file:
        lines = file.read().splitlines()
    rows = [i for i, line in enumerate(lines) if "@" in line]
    columns = [line.split()[0] for line in lines[: rows[0]] if line.startswith("_")]
    optics = next(i for i, line in enumerate(lines) if line.split()[:1] == ["opticsGroup1"])
    first = [line.split()[0] for line in lines[:optics] if line.startswith("_")]
    group_of = columns[len(first) :].index("_rlnOpticsGroup")

    def with_cells(line, **changes):
        words = line.split()
        for name, value in changes.items():
            words[first.index("_" + name)] = value
        return " ".join(words)

    few = [line for i, line in enumerate(lines) if i not in rows[cases.FEW :]]
    write(f"{inputs}/few.star", "\n".join(few) + "\n")
    two = list(few)
    two[optics] += "\n" + with_cells(
        few[optics],
        rlnOpticsGroupName="opticsGroup2",
        rlnOpticsGroup="2",
        rlnVoltage="200.000000",
        rlnAmplitudeContrast="0.070000",
    )
    for i in rows[: cases.FEW : 2]:
        words = two[i].split()
        words[group_of] = "2"
        two[i] = " ".join(words)
    write(f"{inputs}/two_groups.star", "\n".join(two) + "\n")
    few[optics] = with_cells(few[optics], rlnCtfDataAreCtfPremultiplied="1")
    write(f"{inputs}/premultiplied.star", "\n".join(few) + "\n")


def make_earlier_runs(build, place):
    """Keeps files of earlier runs that stages read: maps of a search, features and models of drops, a stopped
    refinement, a whole session to score."""
    for program, words, made in cases.EARLIER:
        build.must(program, words, place)
        shutil.move(os.path.join(place, made), os.path.join(place, "inputs", "earlier", made))
    # A stopped run has the files of its iterations, and no others.
    stopped = os.path.join(place, "inputs", "earlier", "refiner.resumed")
    for name in os.listdir(stopped):
        if not name.startswith("run_it") and name != "history.jsonl":
            os.remove(os.path.join(stopped, name))
    write(os.path.join(place, "graph.yaml"), cases.SCORED_GRAPH)
    build.must("icestream", "run graph.yaml --session scored --until-idle 2", place)
    for name in SESSION_STATE:
        shutil.rmtree(os.path.join(place, "scored", name))
    shutil.move(os.path.join(place, "scored"), os.path.join(place, "inputs", "earlier", "scored"))


def make_tilts(build, place):
    """Simulates tilt series: stacks, single MRC files with an .mdoc, the same as TIFF, a mask."""
    inputs = os.path.join(place, "inputs")
    for folder, more in cases.TILTS.items():
        build.must("icestream-simulate-tilts", f"--o inputs/{folder} {more}", place)
    shutil.copy2(f"{inputs}/shifted/truth/ts.xf", f"{inputs}/shifted/tilts/ts.xf")
    singles = f"{inputs}/single/tilts"
    os.makedirs(f"{inputs}/single_tiff")
    for name in sorted(os.listdir(singles)):
        if name.endswith(".mrc"):
            nx, ny, _, pixels = read_mrc(f"{singles}/{name}")
            write_tiff(f"{inputs}/single_tiff/{name[:-4]}.tif", nx, ny, pixels)
        else:
            shutil.copy2(f"{singles}/{name}", f"{inputs}/single_tiff/{name}")
    n, depth = cases.TILT_SIDE, cases.TILT_DEPTH
    inside = [
        float(3 <= z < depth - 3 and 6 <= y < n - 6 and 6 <= x < n - 6)
        for z in range(depth)
        for y in range(n)
        for x in range(n)
    ]
    write_mrc(f"{inputs}/tilt_mask.mrc", n, n, depth, inside, 10)


def make_structures(place, count=24, residues=24):
    """Writes an ensemble of random coils as PDB models, single PDB files, mmCIF and DCD."""
    inputs, rng = os.path.join(place, "inputs"), random.Random(4)
    atoms = [(name, residue) for residue in range(residues) for name in ("N", "CA", "C", "O", "CB", "H")]
    coils, inner = [], [[rng.gauss(0, 1) for _ in range(3)] for _ in atoms]
    for _ in range(3):
        at, coil = [0.0] * 3, []
        for _ in range(residues):
            at = [v + rng.gauss(0, 2.2) for v in at]
            coil.append(at)
        coils.append(coil)
    models = []
    for model in range(count):
        angle, move = rng.uniform(0, 2 * math.pi), [rng.gauss(0, 20) for _ in range(3)]
        turn = [[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]]
        xyz = []
        for (_, residue), offset in zip(atoms, inner):
            p = [c + o + rng.gauss(0, 0.7) for c, o in zip(coils[model % 3][residue], offset)]
            xyz.append([round(sum(t * v for t, v in zip(row, p)) + m, 3) for row, m in zip(turn, move)])
        models.append(xyz)

    def pdb(xyz):
        return "".join(
            f"ATOM  {i + 1:5d}  {name:<3s} {'ALA' if residue % 3 else 'LEU'} {'A' if residue < 16 else 'B'}"
            f"{residue + 1:4d}    {x:8.3f}{y:8.3f}{z:8.3f}{0.5 + 0.5 * (i % 2):6.2f}{10 + i % 7:6.2f}"
            f"          {name[0]:>2s}\n"
            for i, ((name, residue), (x, y, z)) in enumerate(zip(atoms, xyz))
        )

    write(
        f"{inputs}/structures/models.pdb",
        "".join(f"MODEL     {n + 1:4d}\n{pdb(xyz)}ENDMDL\n" for n, xyz in enumerate(models)) + "END\n",
    )
    for number, xyz in enumerate(models):
        write(f"{inputs}/structures/single/m{number:02d}.pdb", pdb(xyz) + "END\n")
    columns = (
        "group_PDB",
        "id",
        "type_symbol",
        "label_atom_id",
        "auth_atom_id",
        "label_comp_id",
        "auth_comp_id",
        "label_asym_id",
        "auth_asym_id",
        "label_seq_id",
        "auth_seq_id",
        "pdbx_PDB_ins_code",
        "label_alt_id",
        "Cartn_x",
        "Cartn_y",
        "Cartn_z",
        "pdbx_PDB_model_num",
    )
    text = ["data_MADE\n#\nloop_\n", *(f"_atom_site.{c}\n" for c in columns)]
    for number, xyz in enumerate(models):
        text += [
            f"ATOM {i + 1} {name[0]} {name} {name} ALA ALA Z A {r + 3} {r + 1} ? . {x:.3f} {y:.3f} {z:.3f} "
            f"{number + 1}\n"
            for i, ((name, r), (x, y, z)) in enumerate(zip(atoms, xyz))
        ]
    write(f"{inputs}/structures/models.cif", "".join(text) + "#\n")

    def record(data):
        return struct.pack("<i", len(data)) + data + struct.pack("<i", len(data))

    head = [0] * 20
    head[0], head[19] = count, 24
    dcd = record(b"CORD" + struct.pack("<20i", *head)) + record(struct.pack("<i", 1) + b"made up".ljust(80))
    dcd += record(struct.pack("<i", len(atoms)))
    for xyz in models:
        dcd += b"".join(record(struct.pack(f"<{len(atoms)}f", *(p[axis] for p in xyz))) for axis in range(3))
    write(f"{inputs}/structures/models.dcd", dcd)


def copy_real_data(place):
    """Copies a few real files beside the simulated inputs, where there are any."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data")
    data = os.environ.get("ICESTREAM_DATA", beside)
    for source, target in cases.REAL:
        source, target = os.path.join(data, source), os.path.join(place, "inputs", "real", target)
        if os.path.isdir(source):
            shutil.copytree(source, target)
        elif os.path.isfile(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)
        else:
            print(f"skipped: no {source}: set ICESTREAM_DATA to a folder with real data")


def make_inputs(build, folder):
    """Makes all inputs in a folder beside `folder`, and moves them there when they are complete."""
    print(f"making the inputs with {build.folder}", flush=True)
    place = f"{folder}.part"
    shutil.rmtree(place, ignore_errors=True)
    inputs = os.path.join(place, "inputs")
    os.makedirs(inputs)
    copy_real_data(place)
    make_micrographs(build, place)
    make_particles(build, place)
    make_tilts(build, place)
    make_structures(place)
    for more in cases.DROPS:
        build.must("icestream-simulate-drops", more, place)
    table = os.path.join(inputs, "drop_series", "labels.csv")
    with open(table) as file:
        lines = file.read().splitlines()
    often = [line for line in lines[1:] if sum(line.split(",")[1] == n.split(",")[1] for n in lines) > 1]
    write(table, "\n".join([lines[0], *often]) + "\n")  # one example of an outcome is too few to learn from
    make_earlier_runs(build, place)
    for root, folders, files in os.walk(inputs):  # real data may be read-only
        for name in folders + files:
            os.chmod(os.path.join(root, name), 0o755 if name in folders else 0o644)
    # A watcher takes the oldest file first: times one second apart give one order.
    paths = sorted(os.path.join(root, name) for root, _, files in os.walk(inputs) for name in files)
    for number, path in enumerate(paths):
        os.utime(path, (cases.BEGAN + number, cases.BEGAN + number))
    shutil.move(inputs, folder)
    shutil.rmtree(place)


# ---- comparing


def compare(before, after, only):
    """Prints what is equal in each group. Returns how many products differ."""
    different = 0
    for group in cases.groups():
        if group not in only:
            continue
        a, b = before.get(group, {}), after.get(group, {})
        names = sorted(a.keys() | b.keys())
        bad = [n for n in names if a.get(n) != b.get(n)]
        different += len(bad)
        print(f"{group:20s} {len(names) - len(bad):4d} of {len(names):4d} products are equal")
        for name in bad:
            print(f"  {'missing' if name not in b else 'new' if name not in a else 'differs'}: {group}/{name}")
    return different


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="BUILD", help="one or two build folders, each with bin/")
    parser.add_argument(
        "--work",
        metavar="DIR",
        help="folder for the inputs and products, which stay there; by " "default a temporary folder, which is removed",
    )
    parser.add_argument(
        "--inputs",
        metavar="DIR",
        help="folder with the inputs; where it is not there, the first "
        "build makes it (default: DIR/inputs of --work)",
    )
    parser.add_argument(
        "--only",
        metavar="STAGE",
        action="append",
        choices=cases.groups(),
        help="run this group only; may be given again: " + ", ".join(cases.groups()),
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="programs that run at once (default: 2)")
    parser.add_argument("--save", metavar="SUMS.json", help="store the sums of the one build")
    parser.add_argument("--against", metavar="SUMS.json", help="compare the one build with stored sums")
    chosen = parser.parse_args()
    if len(chosen.builds) != (1 if chosen.save or chosen.against else 2):
        parser.error("give two builds, or one with --save or --against")
    return chosen


def main():
    chosen = arguments()
    builds, only = [Build(b) for b in chosen.builds], chosen.only or cases.groups()
    temporary = None if chosen.work else tempfile.mkdtemp(prefix="icestream-products-")
    work = os.path.realpath(chosen.work or temporary)
    os.makedirs(work, exist_ok=True)
    inputs = os.path.abspath(chosen.inputs or os.path.join(work, "inputs"))
    try:
        stored = None
        if chosen.against:
            with open(chosen.against) as file:
                stored = json.load(file)
        if not os.path.isdir(inputs):
            if stored:
                fail(f"{inputs} is not there: give --inputs, or --work, of the run that made {chosen.against}")
            make_inputs(builds[0], inputs)
        sums_of_inputs = plain_sums(inputs)
        if stored and stored["inputs"] != sums_of_inputs:
            fail(f"the inputs in {inputs} are not those of {chosen.against}")
        if stored and stored["processor"] != processor():
            print(f"note: {chosen.against} is of another processor: {stored['processor']}")
        place, results = os.path.join(work, "run"), []
        for build, name in zip(builds, "b" if stored else "ab"):
            # Both builds run in one place, so that paths inside products are equal. Their files are moved aside
            # afterwards.
            results.append(run_all(build, inputs, place, only, chosen.jobs))
            kept = os.path.join(work, f"products-{name}")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.rmtree(os.path.join(place, "inputs"))
            os.rename(place, kept)
        if chosen.save:
            if chosen.only and os.path.exists(chosen.save):
                fail(f"{chosen.save} is there already: without --only it is replaced")
            with open(chosen.save, "w") as file:
                json.dump({"processor": processor(), "inputs": sums_of_inputs, "products": results[0]}, file, indent=1)
            print(f"{sum(map(len, results[0].values()))} sums are stored in {chosen.save}")
            return 0
        before = stored["products"] if stored else results[0]
        different = compare(before, results[-1], only)
        print(f"{different} products differ" if different else "all products are equal")
        return 1 if different else 0
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
