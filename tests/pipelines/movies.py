#!/usr/bin/env python3
"""Movies in, micrographs with a CTF out. A live session with two motion-correctors and two ctf-estimators takes movies, the
notes that EPU writes beside them, a gain reference and a broken movie. A replay of its folder gives the same values, and
filters on motion, defocus, astigmatism, fit and ice leave out the movies that exceed them, each with its reason."""

import os
import shutil
import subprocess

import numpy as np
from session import Work, check, finish, program, read_map, run, star, status, write

SEED, SIDE, FRAMES, PIXEL, DOSE = 11, 1024, 6, 1.6, 96
SHIFTS = [(0.10, 0.10), (0.15, 0.10), (0.101, 0.099), (0.149, 0.102), (0.10, 0.10)]
GROUPS = [0, 1, 0, 1, 0]
FILTERS = ("icestreamMotionTotal", "rlnDefocusU", "rlnCtfAstigmatism", "rlnCtfMaxResolution", "rlnCtfIceRingDensity")
EPU = """<MicroscopeImage xmlns="http://schemas.datacontract.org/2004/07/Fei.SharedObjects"><CustomData>
<a:KeyValueOfstringanyType xmlns:a="x"><a:Key>Dose</a:Key><a:Value>{dose}</a:Value></a:KeyValueOfstringanyType></CustomData>
<microscopeData><gun><AccelerationVoltage>300000</AccelerationVoltage></gun><optics><BeamShift xmlns:a="x"><a:_x>{x}</a:_x>
<a:_y>{y}</a:_y></BeamShift></optics></microscopeData><SpatialScale><pixelSize><x><numericValue>{pixel}</numericValue></x>
</pixelSize></SpatialScale></MicroscopeImage>
"""
STAGES = """session: {{pixel_size: {pixel}}}
stages:
  watcher:          {{directory: {folder}, frames: {frames}, settle: 0.5, stall: 1, poll: 0.2}}
  motion-corrector: {{from: watcher, gain: {gain}, patches: [2, 2], replicas: {replicas}}}
  ctf-estimator:    {{from: motion-corrector, replicas: {replicas}}}
"""


def simulate(folder, **settings):
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    subprocess.run([program("icestream-simulate"), "--o", folder, "--movies", "--uneven", *words], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def graph(path, folder, gain, replicas, more):
    return write(path, STAGES.format(pixel=PIXEL, folder=folder, frames=FRAMES, gain=gain, replicas=replicas) + more)


def fits(session):
    rows = star(f"{session}/ctf-estimator/micrographs_ctf.star")["micrographs"]
    return {os.path.basename(row["rlnMicrographName"]).removesuffix(".mrc"): row for row in rows}


def put_movies(source, folder):
    """Puts movies under EPU's names, with EPU's notes, beside a gain reference, a sum and a movie that was cut off."""
    names = sorted(os.listdir(f"{source}/movies"))
    os.makedirs(folder)
    for name, (x, y) in zip(names, SHIFTS):
        stem = name.removesuffix(".tif")
        write(f"{folder}/{stem}.xml", EPU.format(dose=DOSE * 1e20, x=x, y=y, pixel=PIXEL * 1e-10))
        shutil.copy(f"{source}/movies/{name}", f"{folder}/{stem}_Fractions.tif")
    shutil.copy(f"{source}/gain.mrc", f"{folder}/session_gain.mrc")
    shutil.copy(f"{source}/truth/{stem}_sum.mrc", f"{folder}/{stem}.mrc")
    whole = open(f"{source}/movies/{names[0]}", "rb").read()
    with open(f"{folder}/broken_Fractions.tif", "wb") as file:
        file.write(whole[: len(whole) * 2 // 3])
    return [name.removesuffix(".tif") for name in names]


def live(work, names, folder):
    session = work("live")
    pick = "  lowpass-picker:   {from: ctf-estimator, diameter: 130, write_png: false}\n"
    pick += "  extractor:        {from: lowpass-picker, box: 96, downscale_to: 48}\n"
    run("run", graph(work("live.yaml"), folder, work("sim", "gain.mrc"), 2, pick), "--session", session,
        "--until-idle", "2", expect=3, timeout=300)  # fmt: skip
    stages = status(session)["stages"]
    check(all(stages[s]["done"] == len(names) for s in stages), f"all {len(names)} movies are done in {list(stages)}")
    failed = [i for i in status(session)["items"] if i["state"] == "failed"]
    check([i["id"] for i in failed] == ["broken_Fractions"] and "broken_Fractions.tif" in failed[0]["reason"],
          f"the movie that was cut off failed: {[i['reason'] for i in failed]}")  # fmt: skip
    taken = star(f"{session}/watcher/movies.star")["movies"]
    check(len(taken) == len(names), f"the gain reference and the sum are no movies: {len(taken)}")
    tables = star(f"{session}/ctf-estimator/micrographs_ctf.star")
    found = fits(session)
    groups = {row["rlnOpticsGroup"]: row["rlnOpticsGroupName"] for row in tables["optics"]}
    mine = [groups[found[f"{name}_Fractions"]["rlnOpticsGroup"]] for name in names]
    check(sorted(groups.values()) == ["beamShift001", "beamShift002"]
          and [mine.index(g) for g in mine] == [GROUPS.index(g) for g in GROUPS],
          f"beam shifts make optics groups: {mine}")  # fmt: skip
    truth = star(work("sim", "truth", "micrographs_ctf.star"))["micrographs"]
    for name, row in zip(names, truth):
        fit = found[f"{name}_Fractions"]
        off = (float(fit["rlnDefocusU"]) + float(fit["rlnDefocusV"]) - float(row["rlnDefocusU"]) - float(row["rlnDefocusV"])) / 2
        good = float(fit["rlnCtfMaxResolution"]) < 12
        motion, reach = fit["icestreamMotionTotal"], fit["rlnCtfMaxResolution"]
        print(f"      {name}: motion {motion} Å, defocus off by {off:.0f} Å, fit to {reach} Å")
        check(not good or abs(off) < 300, f"{name}: defocus within 300 Å of the truth")
    reach = [float(f["rlnCtfMaxResolution"]) for f in found.values()]
    check(max(reach) < 12, f"all fits reach 12 Å: {reach}")
    for ending in ("_Fractions.mrc", "_Fractions_noDW.mrc", "_Fractions_PS.mrc"):
        check(os.path.exists(f"{session}/motion-corrector/{names[0]}{ending}"), f"MIC{ending} is there")
    return session, found


def filtered(work, names, session, found):
    """Replays the folder. Each filter has a limit that some movies exceed, in the widest gap between their values."""
    limits, more = {}, ""
    for column in FILTERS:
        values = sorted(float(row[column]) for row in found.values())
        gaps = [high - low for low, high in zip(values, values[1:])]
        widest = gaps.index(max(gaps[1:]))
        limits[column] = (values[widest] + values[widest + 1]) / 2
        more += f"  by-{column}: {{program: brightness, from: ctf-estimator, reject_if: {column} > {limits[column]!r}}}\n"
    again = work("again")
    run("replay", session, graph(work("filters.yaml"), work("in"), work("sim", "gain.mrc"), 1, more), "--session", again,
        "--speed", "max", expect=3, timeout=300)  # fmt: skip
    items = [i for i in status(again)["items"] if i["state"] == "rejected"]
    for column, limit in limits.items():
        worse = sorted(name for name in found if float(found[name][column]) > limit)
        mine = [i for i in items if i["stage"] == f"by-{column}"]
        check(sorted(i["id"] for i in mine) == worse and len(worse) > 0, f"{column} > {limit:g}: {worse} are left out")
        reasons = [i["reason"] for i in mine]
        check(all(column in r and "reject_if" in r for r in reasons), f"with reasons: {reasons}")
        stage = status(again)["stages"][f"by-{column}"]
        check(stage["rejected"] == len(worse) and stage["done"] == len(names) - len(worse), f"by-{column}: the others go on")
    # FFTW chooses its plans by time, so the last digits differ between runs.
    off = [abs(float(row[c]) - float(found[n][c])) for n, row in fits(again).items() for c in ("rlnDefocusU", "rlnDefocusV")
           if float(row["rlnCtfMaxResolution"]) < 12]  # fmt: skip
    check(fits(again).keys() == found.keys() and max(off) < 10, f"the replay finds the same defocus, within {max(off):.1f} Å")
    for name in names:
        one, two = (read_map(f"{s}/motion-corrector/{name}_Fractions.mrc")[0] for s in (session, again))
        check(np.abs(one - two).max() < 1e-3 * one.std(), f"{name}: the same image")


def detector_frames(work):
    """The notes give the dose of a whole EER movie, which the motion-corrector shares among groups of detector frames."""
    simulate(work("eer"), micrographs=1, size=256, pixel_size=2, frames=12, dose=24, particles=5, interval=0, seed=SEED,
             format="eer", box=64)  # fmt: skip
    folder, session = work("eer", "movies"), work("eer-session")
    [name] = [name for name in os.listdir(folder) if name.endswith(".eer")]
    stem = name.removesuffix(".eer")
    write(f"{folder}/{stem}.xml", EPU.format(dose=24e20, x=0, y=0, pixel=2e-10))
    text = "session: {pixel_size: 2}\nstages:\n"
    text += f"  watcher: {{directory: {folder}, settle: 0.5, poll: 0.2}}\n"
    text += "  motion-corrector: {from: watcher, eer_grouping: GROUP, patches: [1, 1]}\n"
    for group in (4, 12):
        run("run", write(work("eer.yaml"), text.replace("GROUP", str(group))), "--session", f"{session}{group}",
            "--until-idle", "1", timeout=120)  # fmt: skip
        rows = [line.split() for line in open(f"{session}{group}/motion-corrector/{stem}.star")]
        general = {row[0]: float(row[1]) for row in rows if row[:1] in (["_rlnMicrographDoseRate"], ["_rlnImageSizeZ"])}
        dose, frames = general["_rlnMicrographDoseRate"], general["_rlnImageSizeZ"]
        check(abs(dose * frames - 24) < 0.01, f"{frames:.0f} groups of {group} frames, {dose} e⁻/Å² each")


with Work("movies") as work:
    print(f"seed {SEED}")
    simulate(work("sim"), micrographs=len(SHIFTS), size=SIDE, pixel_size=PIXEL, frames=FRAMES, dose=DOSE, seed=SEED,
             particles=50, interval=0, format="tiff", drifted=1, box=96, carbon=0, contamination=1, ice_noise=2)  # fmt: skip
    names = put_movies(work("sim"), work("in"))
    session, found = live(work, names, work("in"))
    filtered(work, names, session, found)
    detector_frames(work)
    finish()
