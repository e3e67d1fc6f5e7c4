#!/usr/bin/env python3
"""Tilts arrive one by one, in the order of a dose-symmetric scheme. A preview grows with them. In the end the tomogram
equals that of all files at once, bit for bit, also when the stage or the whole session is killed in the middle. A late
tilt, a tilt without an .mdoc and a broken tilt are treated as the handbook says. When no tomogram of a series can be
made, its tilts fail with the reason; they are done if it can be made later."""

import json
import os
import shutil
import signal
import subprocess

from session import (
    SOURCE,
    Work,
    check,
    finish,
    launch,
    pids_of,
    program,
    put,
    read_map,
    run,
    status,
    stop,
    wait_until,
    write,
)
import mrcfile
import numpy as np

SEED, SIDE, DEPTH = 3, 64, 24
GRAPH = os.path.join(SOURCE, "pipelines", "tomography.yaml")
SETTINGS = {
    "watcher.settle": 0.3,
    "watcher.poll": 0.2,
    "watcher.mdoc_wait": 600,
    "tilt-reconstructor.thickness": DEPTH,
    "tilt-reconstructor.bin": 1,
    "tilt-reconstructor.iterations": 6,
    "tilt-reconstructor.preview_size": 32,
}
STAGE = "tilt-reconstructor"


def arguments(session, folder, until_idle=2, **more):
    sets = [f"--set={key}={value}" for key, value in {**SETTINGS, "watcher.directory": folder, **more}.items()]
    return ["run", GRAPH, "--session", session, *sets, "--until-idle", str(until_idle)]


def simulate_series(folder, name, seed, files="single"):
    subprocess.run(
        [
            program("icestream-simulate-tilts"),
            "--o",
            folder,
            "--name",
            name,
            "--size",
            str(SIDE),
            "--thickness",
            str(DEPTH),
            "--files",
            files,
            "--order",
            "dose-symmetric",
            "--step",
            "10",
            "--shift",
            "3",
            "--snr",
            "8",
            "--seed",
            str(seed),
        ],
        check=True,
    )
    return sorted(f for f in os.listdir(f"{folder}/tilts") if f.startswith(f"{name}_") and f.endswith(".mrc"))


def alone(work, name, folder, tilts):
    """Returns the products of all files at once."""
    subprocess.run(
        [
            program("icestream-tilt-reconstructor"),
            "--i",
            folder,
            "--tilts",
            f"{folder}/{name}.mdoc",
            "--o",
            tilts,
            "--thickness",
            str(DEPTH),
            "--iterations",
            "6",
            "--align",
            "coarse",
        ],
        check=True,
        capture_output=True,
    )
    return open(f"{tilts}/{name}.mrc", "rb").read()


def log_of(session):
    path = f"{session}/log/{STAGE}.0.log"
    return open(path).read() if os.path.exists(path) else ""


def made(session):
    return [line.split(" INFO tomogram ")[1] for line in log_of(session).splitlines() if " INFO tomogram " in line]


def previews(session, name):
    lines = [line for line in log_of(session).splitlines() if f" INFO preview {name}: " in line]
    return [int(line.split(": ")[-1].split()[0]) for line in lines]


def arrive(folder, source, names, mdoc, upto=None):
    for name in names[:upto]:
        put(f"{source}/tilts/{name}", folder)
    shutil.copy(f"{source}/tilts/{mdoc}.mdoc", f"{folder}/.{mdoc}")
    os.rename(f"{folder}/.{mdoc}", f"{folder}/{mdoc}.mdoc")


def tomogram(session, name):
    path = f"{session}/{STAGE}/{name}.mrc"
    return open(path, "rb").read() if os.path.exists(path) else b""


def grow(work, source, names, expected):
    """Feeds one tilt after the other, the .mdoc one section behind. A preview follows each."""
    folder, session = work("live"), work("session")
    os.makedirs(folder)
    sections = open(f"{source}/tilts/a.mdoc").read().split("[ZValue")
    live = launch(*arguments(session, folder, **{"tilt-reconstructor.tilts_per_series": len(names)}))
    seen, sizes = [], set()
    try:
        for i, name in enumerate(names):
            put(f"{source}/tilts/{name}", folder)
            write(f"{folder}/.a", "[ZValue".join(sections[: i + 2]))
            os.rename(f"{folder}/.a", f"{folder}/a.mdoc")
            if i == 0 or i + 1 == len(names):
                continue
            wait_until(lambda: previews(session, "a")[-1:] == [i + 1], 60, f"a preview of {i + 1} tilts", live)
            preview, _ = read_map(f"{session}/{STAGE}/a_preview.mrc")
            seen.append(preview)
            sizes.add(preview.shape)
        wait_until(lambda: made(session), 60, "the tomogram, while more may come", live)
        check(True, f"a preview after each of {len(seen)} tilts, and the tomogram with the last, while the run goes on")
        check(sizes == {(DEPTH // 2, SIDE // 2, SIDE // 2)}, f"previews of {sizes}")
        truth, _ = read_map(f"{source}/truth/a.mrc")
        small = truth.reshape(DEPTH // 2, 2, SIDE // 2, 2, SIDE // 2, 2).mean((1, 3, 5))
        spectrum = np.conj(np.fft.rfftn(small - small.mean()))
        like = [
            float(
                np.fft.irfftn(np.fft.rfftn(p - p.mean()) * spectrum, s=p.shape).max() / (p.std() * small.std() * p.size)
            )
            for p in seen
        ]
        check(
            like[-1] > 1.2 * like[0] and like[-1] > 0.5,
            f"previews come to look like the phantom: {like[0]:.2f} to {like[-1]:.2f}",
        )
        check(live.wait(timeout=60) == 0, "the run ended")
    finally:
        stop(live)
    check(tomogram(session, "a") == expected, "the tomogram of all files at once, bit for bit")
    check(
        len(made(session)) == 1 and made(session)[0].startswith(f"a: {len(names)} tilts"), f"made once: {made(session)}"
    )
    stages = status(session)["stages"]
    check(stages[STAGE]["done"] == len(names) and stages[STAGE]["failed"] == 0, "each tilt is done")
    record = json.load(open(f"{session}/{STAGE}/a.json"))
    angles = [t["angle"] for t in record["tilts"]]
    check(
        angles == sorted(angles) and record["tilts"][len(angles) // 2]["view"] == 1,
        "sorted by angle; the first view is in the middle",
    )
    run(*arguments(session, folder, **{"tilt-reconstructor.tilts_per_series": len(names)}), timeout=60)
    check(
        len(made(session)) == 1 and tomogram(session, "a") == expected, "a session that goes on does not make it again"
    )
    return folder, session


def taken_away(source, names, folder, session, expected):
    """Images may be moved to the archive once their tomogram is made. A session that continues must not need them."""
    for name in names:
        os.remove(f"{folder}/{name}")
    others = sorted(f for f in os.listdir(f"{source}/tilts") if f.startswith("b_") and f.endswith(".mrc"))
    arrive(folder, source, others, "b")
    run(*arguments(session, folder, **{"tilt-reconstructor.tilts_per_series": len(names)}), timeout=60)
    check(
        counts(session) == (len(names) + len(others), 0),
        f"what was made of images that are gone is done: {counts(session)}",
    )
    check(
        [m.split(":")[0] for m in made(session)] == ["a", "b"] and tomogram(session, "a") == expected,
        "and is not made again",
    )
    rows = [row.split()[0] for row in open(f"{session}/{STAGE}/tomograms.star") if STAGE in row]
    check(sorted(rows) == ["a", "b"], f"both are in the table: {rows}")


def deleted(work, source, names):
    """Deletes one tilt while the session is stopped, with more to come. The others must go on."""
    folder, session = work("deleted"), work("deleted-session")
    os.makedirs(folder)
    arrive(folder, source, names, "a", upto=6)
    run(*arguments(session, folder), timeout=60)
    os.remove(f"{folder}/{names[3]}")
    arrive(folder, source, names[6:], "a")
    run(*arguments(session, folder), timeout=60, expect=3)
    lost = names[3].removesuffix(".mrc")
    check(
        list(reasons_of(session)) == [lost]
        and f"{names[3]} is gone: the tomogram of a is made without it" in reasons_of(session)[lost],
        f"it has failed, alone: {reasons_of(session)}",
    )
    check(
        [m.split(",")[0] for m in made(session)] == ["a: 6 tilts", f"a: {len(names) - 1} tilts"],
        f"the tomogram is made anew: {made(session)}",
    )
    run(*arguments(session, folder), timeout=60, expect=3)
    check(len(made(session)) == 2 and list(reasons_of(session)) == [lost], "and stays")


def disturb(work, source, names, expected, name, victims):
    """Kills the stage when there is a preview. The rest must be as if nothing had happened."""
    folder, session = work(f"incoming-{name}"), work(name)
    os.makedirs(folder)
    live = launch(*arguments(session, folder))
    try:
        shutil.copy(f"{source}/tilts/a.mdoc", folder)
        for tilt in names[:6]:
            put(f"{source}/tilts/{tilt}", folder)
        wait_until(lambda: previews(session, "a"), 60, "a preview", live)
        for pid in victims(session, live):
            os.kill(pid, signal.SIGKILL)
        for tilt in names[6:]:
            put(f"{source}/tilts/{tilt}", folder)
        code = live.wait(timeout=120)
    finally:
        stop(live)
    if code != 0:
        wait_until(
            lambda: not any(pids_of(s, session) for s in ("watcher", STAGE)), 30, "nothing outlives the launcher"
        )
        run(*arguments(session, folder), timeout=120)
    check(tomogram(session, "a") == expected, f"{name}: the same tomogram, bit for bit")
    check(len(made(session)) == 1, f"{name}: made once")
    check(status(session)["stages"][STAGE]["done"] == len(names), f"{name}: every tilt is done once")


def odd_tilts(work, source, names):
    """Feeds two series at once. One tilt is in no .mdoc, one is broken, one has another size, and one comes after its
    series was made."""
    folder, session = work("odd"), work("odd-session")
    os.makedirs(folder)
    others = [f for f in os.listdir(f"{source}/tilts") if f.startswith("b_") and f.endswith(".mrc")]
    arrive(folder, source, names, "a", upto=-1)
    arrive(folder, source, sorted(others), "b", upto=-1)
    small = sorted(others)[-1]
    with mrcfile.new(work("small.mrc")) as file:
        file.set_data(np.ones((SIDE, SIDE // 2), np.float32))
    put(work("small.mrc"), folder, small)
    put(f"{source}/tilts/{names[0]}", folder, "stray.mrc")
    put(f"{source}/tilts/c.rawtlt", folder)
    put(f"{source}/tilts/c.st", folder)
    with open(f"{folder}/{names[3]}", "r+b") as file:
        file.seek(1024 + 4 * 100)
        file.write(np.float32(np.nan).tobytes())
    run(*arguments(session, folder), timeout=120, expect=3)
    check(
        sorted(m.split(":")[0] for m in made(session)) == ["a", "b", "c"], f"two series, and a stack: {made(session)}"
    )
    reasons = {i["id"]: i["reason"] for i in status(session)["items"] if i["state"] == "failed"}
    broken = names[3].removesuffix(".mrc")
    check(
        "no .mdoc in the watched folder names it" in reasons.get("stray", "")
        and "which is not a valid pixel value" in reasons.get(broken, ""),
        f"failed, with reasons: {reasons}",
    )
    check(
        f"{small} has {SIDE // 2} × {SIDE} px, the tilts of b before it {SIDE} × {SIDE} px"
        in reasons.get(small.removesuffix(".mrc"), ""),
        "so has one of another size",
    )
    check(
        f"a: {len(names) - 2} tilts" in " ".join(made(session))
        and f"b: {len(names) - 1} tilts" in " ".join(made(session)),
        "the others make the tomograms",
    )
    put(f"{source}/tilts/{names[-1]}", folder)
    run(*arguments(session, folder), timeout=120, expect=3)
    check(
        [m.split(",")[0] for m in made(session) if m.startswith("a")]
        == [f"a: {len(names) - 2} tilts", f"a: {len(names) - 1} tilts"],
        f"a late tilt opens its series again: {made(session)}",
    )
    rows = [line.split() for line in open(f"{session}/{STAGE}/tomograms.star") if STAGE in line]
    check(sorted(r[0] for r in rows) == ["a", "b", "c"], "a row for each tomogram")


def by_name(work, source, names):
    folder, session = work("named"), work("named-session")
    os.makedirs(folder)
    for name in names:
        put(f"{source}/tilts/{name}", folder)
    put(f"{source}/tilts/{names[0]}", folder, "atlas.mrc")
    run(
        *arguments(session, folder, **{"watcher.series": "{series}_{order}_{angle}.mrc", "session.pixel_size": 10}),
        timeout=120,
        expect=3,
    )
    check(
        len(made(session)) == 1 and f"a: {len(names)} tilts" in made(session)[0],
        f"grouped by their names: {made(session)}",
    )
    reasons = [i["reason"] for i in status(session)["items"] if i["state"] == "failed"]
    check(len(reasons) == 1 and "its name does not follow watcher.series" in reasons[0], f"{reasons}")


def reasons_of(session):
    return {i["id"]: i["reason"] for i in status(session)["items"] if i["state"] == "failed" and i["stage"] == STAGE}


def counts(session):
    stage = status(session)["stages"][STAGE]
    return stage["done"], stage["failed"]


def flatten(mdoc):
    """Changes an .mdoc so that all its tilts have one angle."""
    lines = open(mdoc).read().splitlines()
    write(mdoc, "\n".join("TiltAngle = 12" if line.startswith("TiltAngle") else line for line in lines) + "\n")


def failing(work, source, names, expected):
    """Feeds series that fail as a whole: one with all tilts at one angle, one with a single tilt so far, stacks. The
    good series must be made."""
    folder, session = work("failing"), work("failing-session")
    os.makedirs(folder)
    others = sorted(f for f in os.listdir(f"{source}/tilts") if f.startswith("b_") and f.endswith(".mrc"))
    arrive(folder, source, others, "b", upto=5)
    flatten(f"{folder}/b.mdoc")
    arrive(folder, source, names, "a", upto=1)
    angles = open(f"{source}/tilts/c.rawtlt").read().splitlines()
    stack = open(f"{source}/tilts/c.st", "rb").read()
    for name, lines in {"few": angles[:-1], "nan": angles[:-1] + ["nan"], "good": angles, "pixels": angles}.items():
        write(f"{folder}/{name}.rawtlt", "\n".join(lines) + "\n")
        with open(f"{folder}/.{name}", "wb") as file:
            file.write(stack if name != "pixels" else stack[:2000] + np.float32(np.nan).tobytes() + stack[2004:])
        os.rename(f"{folder}/.{name}", f"{folder}/{name}.st")
    result = run(*arguments(session, folder), timeout=120, expect=3)
    reasons = reasons_of(session)
    check(
        len(reasons) == 9 and counts(session) == (1, 9),
        f"five tilts, a lonely one and three stacks failed: {counts(session)}",
    )
    check(
        all(
            "no tomogram of b, 5 tilts: all 5 tilts are at 12.00°: angles that differ are needed"
            in reasons.get(name.removesuffix(".mrc"), "")
            for name in others[:5]
        ),
        f"each with its series' reason: {reasons}",
    )
    check(
        "no tomogram of a, 1 tilt: 1 tilt: two or more are needed" in reasons.get(names[0].removesuffix(".mrc"), ""),
        "one tilt is no series",
    )
    check(
        "few.rawtlt holds" in reasons.get("few", "")
        and "nan.rawtlt: line" in reasons.get("nan", "")
        and "which is not a valid pixel value" in reasons.get("pixels", ""),
        "stacks fail with their reasons",
    )
    check(
        "icestream retry" in result.stderr and "no tomogram of b, 5 tilts" in result.stdout,
        "the output of the run reports this",
    )
    check([row.split()[0] for row in open(f"{session}/{STAGE}/tomograms.star") if STAGE in row] == ["good"], "one row")
    for name in names[1:]:
        put(f"{source}/tilts/{name}", folder)
    os.makedirs(f"{session}/{STAGE}/a_preview.mrc/in_the_way")
    run(*arguments(session, folder), timeout=120, expect=3)
    check("no preview of a: " in log_of(session), "no preview can be written")
    check(
        tomogram(session, "a") == expected,
        "with the tilts that were still to come it is the tomogram of all at once, bit for bit",
    )
    check(
        counts(session) == (1 + len(names), 8) and names[0].removesuffix(".mrc") not in reasons_of(session),
        f"and the tilt that had failed is done: {counts(session)}",
    )
    check(
        len([1 for line in log_of(session).splitlines() if "no tomogram of b, 5 tilts" in line]) == 1,
        "the other is not tried again",
    )
    rows = [row.split()[0] for row in open(f"{session}/{STAGE}/tomograms.star") if STAGE in row]
    check(sorted(rows) == ["a", "good"], f"two rows: {rows}")


def again(work, source, names, expected):
    """A file is away when its series is to be made, and is back for the retry."""
    folder, session, away = work("again"), work("again-session"), work("away.mrc")
    os.makedirs(folder)
    arrive(folder, source, names, "a")
    live = launch(
        *arguments(
            session, folder, until_idle=4, **{"tilt-reconstructor.quiet": 600, "tilt-reconstructor.preview": "false"}
        ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: os.path.exists(f"{session}/log/{STAGE}.0.log") and counts(session)[0] == len(names),
            60,
            "all tilts",
            live,
        )
        os.rename(f"{folder}/{names[3]}", away)
        check(live.wait(timeout=60) == 3, "the run ended, and something failed")
    finally:
        stop(live)
    check(
        counts(session) == (0, len(names)) and names[3] in list(reasons_of(session).values())[0],
        f"all failed: {reasons_of(session)}",
    )
    os.rename(away, f"{folder}/{names[3]}")
    check(
        f"{STAGE}: {names[0].removesuffix('.mrc')} goes through again" in run("retry", "--session", session).stdout,
        "retry",
    )
    run(
        *arguments(session, folder, **{"tilt-reconstructor.quiet": 600, "tilt-reconstructor.preview": "false"}),
        timeout=120,
    )
    check(
        tomogram(session, "a") == expected and counts(session) == (len(names), 0),
        "the tomogram is there, and all are done",
    )


def example(work):
    result = subprocess.run(
        [
            os.path.join(SOURCE, "examples", "tomography.sh"),
            "--work",
            work("example"),
            "--bin",
            program(""),
            "--interval",
            "0.05",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    check(
        result.returncode == 0 and "TS_01_slices.png" in result.stdout,
        f"examples/tomography.sh: exit {result.returncode} "
        + ("" if result.returncode == 0 else result.stdout[-2000:] + result.stderr[-2000:]),
    )


with Work("tomography") as work:
    print(f"seed {SEED}")
    names = simulate_series(work("sim"), "a", SEED)
    expected = alone(work, "a", work("sim", "tilts"), work("alone"))
    simulate_series(work("sim"), "b", SEED + 1)
    simulate_series(work("sim"), "c", SEED + 2, files="stack")
    folder, session = grow(work, work("sim"), names, expected)
    taken_away(work("sim"), names, folder, session, expected)
    deleted(work, work("sim"), names)
    disturb(work, work("sim"), names, expected, "killed", lambda session, live: pids_of(STAGE, session))
    disturb(work, work("sim"), names, expected, "gone", lambda session, live: [live.pid])
    odd_tilts(work, work("sim"), names)
    by_name(work, work("sim"), names)
    failing(work, work("sim"), names, expected)
    again(work, work("sim"), names, expected)
    example(work)
    finish()
