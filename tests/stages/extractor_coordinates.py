#!/usr/bin/python3
"""The extractor takes coordinates of other pickers: each format gives the same particles, and a graph needs no picker.
Names of micrographs stay as the user gave them, also behind links."""

import json
import os
import subprocess
import sys
import tempfile

try:
    import mrcfile
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BIN = os.environ["ICESTREAM_BIN"]
BOX, NX, NY = 20, 200, 160
SEED = int(os.environ.get("ICESTREAM_SEED", "5"))
print("seed", SEED)
random = np.random.default_rng(SEED)
# The name of the first is the beginning of the second's.
NAMES = ["mic_1", "mic_1_2"]
TRUTH = {
    name: np.round(random.uniform([20, 20], [NX - 20, NY - 20], (4 + k, 2)), 1) for k, name in enumerate(NAMES)
}
SCORES = {name: np.round(random.uniform(0.2, 0.9, len(TRUTH[name])), 3) for name in NAMES}
UID = {"mic_1": "001234567890123456789", "mic_1_2": "009876543210987654321"}


def check(condition, *message):
    if not condition:
        print("FAILED:", *message)
        sys.exit(1)


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def star(columns, rows, block="", pairs=""):
    lines = [pairs, f"data_{block}", "", "loop_"]
    lines += [f"_{column} #{i + 1}" for i, column in enumerate(columns)]
    return "\n".join(lines + ["  ".join(str(cell) for cell in row) for row in rows]) + "\n\n"


def table(path, block):
    """Returns the rows of a looped table as dictionaries."""
    columns, found, inside = [], [], False
    for line in open(path):
        words = line.split()
        if line.startswith("data_"):
            inside = line.strip() == "data_" + block
        elif inside and words and words[0].startswith("_"):
            columns.append(words[0][1:])
        elif inside and words and words[0] != "loop_" and words[0][0] != "#":
            found.append(dict(zip(columns, words)))
    return found


def extract(out, pattern, *more, inputs="mics", expected=0):
    command = [f"{BIN}/icestream-extractor", "--i", inputs, "--o", out, "--box", str(BOX), "--coordinates", pattern]
    command += ["--pixel_size", "2", "--normalise", "false", "--invert", "false", "--threads", "1", *more]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    check(ran.returncode == expected, pattern, ran.returncode, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


def coordinates(path):
    found = {name: [] for name in NAMES}
    for row in table(path, "particles"):
        name = os.path.splitext(os.path.basename(row["rlnMicrographName"]))[0]
        found[name].append([float(row["rlnCoordinateX"]), float(row["rlnCoordinateY"])])
    return found


def check_truth(what, path, scale=1.0):
    found = coordinates(path)
    for name in NAMES:
        same = len(found[name]) == len(TRUTH[name]) and np.allclose(found[name], scale * TRUTH[name], atol=0.051)
        check(same, what, name, found[name], TRUTH[name].tolist())


def rows_of(name, prefix=()):
    return [(*prefix, x, y, score) for (x, y), score in zip(TRUTH[name], SCORES[name])]


def everything():
    """Writes the coordinates in all formats. Returns the patterns."""
    xy, fom = ["rlnCoordinateX", "rlnCoordinateY"], "rlnAutopickFigureOfMerit"
    listed, particles, old, foreign, joint = [], [], [], [], ["image_name\tx_coord\ty_coord\tscore"]
    for name in NAMES:
        write(f"relion/{name}_manualpick.star", star([*xy, fom], rows_of(name)))
        write(f"table/picks/{name}_picked.star", star(xy, TRUTH[name]))
        listed.append((f"Import/{name}.mrc", f"picks/{name}_picked.star"))
        boxes = [(x - 15, y - 10, 30, 20) for x, y in TRUTH[name]]
        write(f"eman/{name}.box", "".join("\t".join(f"{v:.1f}" for v in box) + "\n" for box in boxes))
        cryolo = ["CoordinateX", "CoordinateY", "CoordinateZ", "Width", "Height", "Depth", "EstWidth", "EstHeight"]
        cells = [(x, y, "<NA>", w, h, 1, w, h, s, "<NA>", "<NA>") for (x, y, w, h), s in zip(boxes, SCORES[name])]
        version = "data_global\n\n_cbox_format_version 1.0\n"
        write(f"cryolo/{name}.cbox", star([*cryolo, "Confidence", "NumBoxes", "Angle"], cells, "cryolo", version))
        lines = [f"{x} {y} {w} {h} {s} {w} {h}\n" for (x, y, w, h), s in zip(boxes, SCORES[name])]
        write(f"cryolo_old/{name}.cbox", "".join(lines))
        own = [f"{name}\t{x}\t{y}\t{s}" for x, y, s in rows_of(name)]
        joint += own
        write(f"topaz/{name}_topaz.txt", "\n".join(["image_name\tx_coord\ty_coord\tscore", *own]) + "\n")
        particles += [(f"00001@Extract/{name}.mrcs", f"Import/{name}.mrc", x, y, 1) for x, y in TRUTH[name]]
        old += [(f"Import/{name}.mrc", x, y) for x, y in TRUTH[name]]
        foreign += [
            (f"J3/motion/{UID[name]}_{name}_patch_aligned_doseweighted.mrc", x, y) for x, y in TRUTH[name]
        ]
    write("table/autopick.star", star(["rlnMicrographName", "rlnMicrographCoordinates"], listed, "coordinate_files"))
    write("topaz_joint/all.txt", "\n".join(joint) + "\n")
    optics = star(["rlnOpticsGroupName", "rlnOpticsGroup", "rlnImagePixelSize"], [("opticsGroup1", 1, 4.0)], "optics")
    columns = ["rlnImageName", "rlnMicrographName", *xy, "rlnOpticsGroup"]
    write("relion31/particles.star", optics + star(columns, particles, "particles"))
    write("relion30/particles.star", star(["rlnMicrographName", *xy], old))
    write("csparc/particles.star", optics + star(["rlnMicrographName", *xy], foreign, "particles"))
    return ["relion/*_manualpick.star", "relion/*.star", "table/autopick.star", "eman/*.box", "cryolo/*.cbox"] + [
        "cryolo_old/*.cbox", "topaz/*.txt", "topaz_joint/*.txt", "relion31/*.star", "relion30/*.star", "csparc/*.star"
    ]


def formats(images):
    for n, pattern in enumerate(everything()):
        extract(f"out{n}", pattern)
        check_truth(pattern, f"out{n}/particles.star")
    rows = table("out0/particles.star", "particles")
    for row in rows:
        index, stack = row["rlnImageName"].split("@")
        image = mrcfile.read(stack if os.path.exists(stack) else f"out0/{os.path.basename(stack)}")
        image = image.reshape(-1, BOX, BOX)[int(index) - 1]
        name = os.path.splitext(os.path.basename(row["rlnMicrographName"]))[0]
        x, y = int(float(row["rlnCoordinateX"])), int(float(row["rlnCoordinateY"]))
        cut = images[name][y - BOX // 2 : y + BOX // 2, x - BOX // 2 : x + BOX // 2]
        check(np.array_equal(image, cut), "the image lies elsewhere:", row)
    # Scores are figures of merit, so that minimum_pick_fom chooses.
    for pattern in ["cryolo/*.cbox", "topaz_joint/*.txt"]:
        extract("chosen", pattern, "--minimum_pick_fom", "0.5")
        wanted = sum(int((SCORES[name] > 0.5).sum()) for name in NAMES)
        check(len(table("chosen/particles.star", "particles")) == wanted, pattern, "minimum_pick_fom")


def scaled():
    for name in NAMES:
        write(f"binned/{name}.star", star(["rlnCoordinateX", "rlnCoordinateY"], TRUTH[name] / 4))
    extract("scaled", "binned/*.star", "--coordinates_scale", "4")
    check_truth("coordinates_scale", "scaled/particles.star")


def refused():
    for name in NAMES[1:]:
        write(f"missing/{name}.box", "1 2 3 4\n")
    text = extract("missing_out", "missing/*.box", expected=3)
    check("mic_1.mrc" in text and "no file of coordinates" in text, text)
    write("twice/mic_1_manualpick.star", star(["rlnCoordinateX", "rlnCoordinateY"], TRUTH["mic_1"]))
    write("twice/mic_1_autopick.star", star(["rlnCoordinateX", "rlnCoordinateY"], TRUTH["mic_1"]))
    text = extract("twice_out", "twice/*.star", expected=3)
    check("two files of coordinates" in text, text)
    write("broken/mic_1.box", "50 50 20 20\n50 fifty 20 20\n")
    text = extract("broken_out", "broken/*.box", inputs="mics/mic_1.mrc", expected=3)
    check("line 2" in text and "fifty" in text, text)
    # An empty file is a micrograph without particles.
    write("empty/mic_1.box", "")
    extract("empty_out", "empty/*.box", inputs="mics/mic_1.mrc")


def absent():
    """A table of all micrographs may lack one of them; that is said."""
    rows = [("mic_1.mrc", x, y) for x, y in TRUTH["mic_1"]]
    write("lacks/all.star", star(["rlnMicrographName", "rlnCoordinateX", "rlnCoordinateY"], rows))
    text = extract("lacks_out", "lacks/all.star")
    check("no-coordinates" in text and "mic_1_2" in text, text)
    check(len(coordinates("lacks_out/particles.star")["mic_1"]) == len(rows), "rows of the other")


def links():
    """The folder of micrographs is a link into an archive."""
    os.makedirs("project")
    os.symlink("../mics", "project/Micrographs")
    os.chdir("project")
    extract("out", "../eman/*.box", inputs="Micrographs")
    for row in table("out/particles.star", "particles"):
        check(row["rlnMicrographName"].startswith("Micrographs/"), row)
    optics = star(["rlnOpticsGroupName", "rlnOpticsGroup", "rlnMicrographPixelSize"], [("a", 1, 2.0)], "optics")
    rows = [(f"Micrographs/{name}.mrc", 1) for name in NAMES]
    write("micrographs.star", optics + star(["rlnMicrographName", "rlnOpticsGroup"], rows, "micrographs"))
    extract("table", "../eman/*.box", inputs="micrographs.star")
    check_truth("a table of micrographs", "table/particles.star")
    for row in table("table/particles.star", "particles"):
        check(row["rlnMicrographName"].startswith("Micrographs/"), row)
    os.chdir("..")


def pipeline():
    """A graph without a picker. The pattern counts from the graph's folder. The watched folder is a link."""
    os.symlink("mics", "grid")
    write(
        "graph/graph.yaml",
        "session: {pixel_size: 2, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}\n"
        "stages:\n  watcher: {directory: ../grid}\n"
        f"  extractor: {{from: watcher, box: {BOX}, coordinates: '../eman/*.box'}}\n",
    )
    command = [f"{BIN}/icestream", "run", "graph/graph.yaml", "--session", "session", "--until-idle", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    check(ran.returncode == 0, ran.stdout, ran.stderr)
    check_truth("a pipeline", "session/extractor/particles.star")
    for row in table("session/extractor/particles.star", "particles"):
        check(os.path.basename(os.path.dirname(row["rlnMicrographName"])) == "grid", row)
    told = subprocess.run([f"{BIN}/icestream-extractor", "--describe"], capture_output=True, text=True, timeout=60)
    given = {p["name"]: (p["type"], p.get("gives")) for p in json.loads(told.stdout)["params"]}
    check(given["coordinates"] == ("glob", "picks"), given)
    # Without the parameter the graph is refused as before.
    text = open("graph/graph.yaml").read()
    write("graph/without.yaml", text.replace(", coordinates: '../eman/*.box'", ""))
    ran = subprocess.run([f"{BIN}/icestream", "check", "graph/without.yaml"], capture_output=True, text=True, timeout=60)
    check(ran.returncode == 2 and "needs items with picks" in ran.stdout + ran.stderr, ran.stdout, ran.stderr)


def poses():
    """Coordinates with poses and half sets, as of a run_data.star: the extractor passes them on, and a refiner keeps them."""
    columns = ["rlnMicrographName", "rlnCoordinateX", "rlnCoordinateY", "rlnAngleRot", "rlnAngleTilt", "rlnAnglePsi"]
    columns += ["rlnOriginXAngst", "rlnOriginYAngst", "rlnRandomSubset"]
    given, rows = {}, []
    for number in range(30):
        at = np.round(random.uniform([20, 20], [NX - 20, NY - 20]), 1)
        pose = np.round([*random.uniform([-180, 10, -180], [180, 170, 180]), *random.uniform(-3, 3, 2)], 2)
        given[tuple(at)] = [*pose, 1 + number % 2]
        rows.append((f"{NAMES[number % 2]}.mrc", *at, *pose, 1 + number % 2))
    write("poses/particles.star", star(columns, rows, "particles"))
    c = np.arange(BOX) - BOX // 2
    blob = np.exp(-(c[:, None, None] ** 2 + c[:, None] ** 2 + c**2) / 8) + np.exp(
        -(c[:, None, None] ** 2 + (c[:, None] - 3) ** 2 + (c - 2) ** 2) / 4
    )
    with mrcfile.new("graph/blob.mrc") as file:
        file.set_data(blob.astype(np.float32))
        file.voxel_size = 2.0
    text = open("graph/graph.yaml").read().replace("../eman/*.box", "../poses/particles.star")
    refiner = "{from: extractor, reference: blob.mrc, diameter: 20, initial_lowpass: 15, twins: keep, skip_align: true}"
    write("graph/poses.yaml", text + f"  refiner: {refiner}\n")
    ran = subprocess.run([f"{BIN}/icestream", "check", "graph/poses.yaml"], capture_output=True, text=True, timeout=60)
    check(ran.returncode == 0, ran.stdout, ran.stderr)
    command = [f"{BIN}/icestream", "run", "graph/poses.yaml", "--session", "with_poses", "--until-idle", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    check(ran.returncode == 0, ran.stdout, ran.stderr)
    found = table("with_poses/refiner/run_data.star", "particles")
    check(len(found) == 30, len(found))
    for row in found:
        cells = [float(row[name]) for name in columns[1:]]
        expected = given[(round(cells[0], 1), round(cells[1], 1))]
        check(np.allclose(cells[2:], expected, atol=1e-3), cells, expected)


with tempfile.TemporaryDirectory(prefix="icestream-coordinates-") as work:
    os.chdir(work)
    os.makedirs("mics")
    pictures = {}
    for mic in NAMES:
        pictures[mic] = random.standard_normal((NY, NX)).astype(np.float32)
        with mrcfile.new(f"mics/{mic}.mrc") as file:
            file.set_data(pictures[mic])
            file.voxel_size = 2.0
    formats(pictures)
    scaled()
    refused()
    absent()
    links()
    pipeline()
    poses()
    os.chdir("/")
print("all formats give the same particles")
