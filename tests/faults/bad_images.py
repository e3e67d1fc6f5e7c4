#!/usr/bin/env python3
"""Mixes broken images into good micrographs. Each broken image fails with its own reason. Odd but readable images are
done. Names that are not files become no items. The stream continues and the run ends with 3. The good micrographs end
as if there had been no others. Meanwhile files grow, vanish, and turn into pipes while the watcher looks at them; no
stage stops."""

import json
import os
import time
from pathlib import Path

import broken_images
from faults import (
    MICROGRAPHS,
    Run,
    STAGES,
    Work,
    arrive,
    calm,
    check,
    counts,
    difference,
    finish,
    graph,
    names,
    outcome,
    run,
    same_numbers,
    seeded,
    wait_until,
)

REAL = os.environ.get("ICESTREAM_DATA", "")
KEYS = "settle: 0.5, stall: 1, poll: 0.2"


def mix(folder, images, random):
    """Puts the broken images below folder/broken. They are as old as some good ones, so that the watcher takes them in
    between."""
    times = [os.stat(os.path.join(MICROGRAPHS, name)).st_mtime for name in names()]
    below = Path(folder, "broken")
    below.mkdir()
    for name, image in images.items():
        broken_images.make(below, name, image)
        if not image.special:
            os.utime(below / name, times=(random.choice(times),) * 2)


def real_ones(folder):
    """Links to the odd files from the test suites of other programs, if present, as {id: name}."""
    found = {}
    below = Path(folder, "real")
    below.mkdir()
    for source in sorted(Path(REAL).glob("*/*")):
        taken = source.parent.name in ("tiff", "mrcfile") and source.suffix.lower() in (".tif", ".tiff", ".map", ".mrc")
        if taken and source.stat().st_size < 1 << 22 and source.stem not in found:
            name = source.stem + {".map": ".mrc"}.get(source.suffix, source.suffix)
            (below / name).symlink_to(source.resolve())
            found[source.stem] = name
    return found


def append(path, content):
    with open(path, "ab") as file:
        file.write(content)


def shift(folder, live):
    """Changes files while the watcher looks at them."""
    whole = broken_images.mrc()
    below = os.path.join(folder, "broken")
    for name in ("grows", "vanishes", "becomes_pipe", "shrinks"):
        append(os.path.join(below, f".{name}"), whole[:3000])
        os.rename(os.path.join(below, f".{name}"), os.path.join(below, f"{name}.mrc"))
    for part in range(3000, len(whole), 7000):
        append(os.path.join(below, "grows.mrc"), whole[part : part + 7000])
        time.sleep(0.05)  # the pace of the writer; nothing waits for it
    os.unlink(os.path.join(below, "vanishes.mrc"))
    os.mkfifo(os.path.join(below, "pipe.coming"))
    os.rename(os.path.join(below, "pipe.coming"), os.path.join(below, "becomes_pipe.mrc"))
    os.truncate(os.path.join(below, "shrinks.mrc"), 0)
    wait_until(lambda: live.poll() is not None, 100, "the run ends")


def ends_below(session, folder):
    """Returns {name: [message of each stage]} for the items below a folder."""
    ends = {}
    for item in json.loads(run("status", "--session", session, "--json").stdout)["items"]:
        if item["id"].startswith(folder + "/"):
            ends.setdefault(item["id"][len(folder) + 1 :], []).append(item)
    return ends


def judge_real(session, real):
    """Every file must end, and every failed item must have a reason."""
    ends = ends_below(session, "real")
    check(set(ends) == set(real), f"each of {len(real)} real odd files is an item: {sorted(set(real) ^ set(ends))}")
    lost = [
        name
        for name, items in ends.items()
        if not (len(items) == len(STAGES) and items[-1]["state"] == "done")
        and not any(item["state"] == "failed" and item["reason"] for item in items)
    ]
    check(not lost, f"each is done by all stages, or fails with a reason: {lost}")


def judge(session, images):
    """Checks that every broken file ends as its table says."""
    ends = ends_below(session, "broken")
    for name, image in images.items():
        found = ends.pop(name.rsplit(".", 1)[0], [])
        states = [item["state"] for item in found]
        if image.ends == "unseen":
            check(not found, f"{name} is no item: {states}")
        elif image.ends == "done":
            check(states == ["done"] * len(STAGES), f"{name} is done: {[(i['state'], i['reason']) for i in found]}")
        else:
            reasons = [item["reason"] for item in found if item["state"] == "failed"]
            text = image.session or image.says
            check(len(reasons) == 1 and text in reasons[0], f"{name} fails with \"{text}\": {reasons}")
    check([i["state"] for i in ends.pop("grows", [])] == ["done"] * len(STAGES), "what grew is done")
    reasons = [item["reason"] for item in ends.pop("shrinks", []) if item["state"] == "failed"]
    check(len(reasons) == 1 and "empty" in reasons[0], f"what was emptied fails: {reasons}")
    for name in ("vanishes", "becomes_pipe"):
        check(all(item["state"] == "failed" for item in ends.pop(name, [])), f"{name} is no item, or failed before")
    check(not ends, f"no other item came of them: {list(ends)}")


def good_ones(result):
    """Returns an outcome without the broken images and without the counts, which include them."""
    kept = {
        key: {name: digest for name, digest in files.items() if not name.startswith(("broken/", "real/"))}
        for key, files in result.items()
        if key in ("picks", "cuts", "stacks")
    }
    kept["particles"] = [
        row for row in result["particles"] if not any("broken/" in value or "real/" in value for value in row)
    ]
    return kept


random = seeded()
images = broken_images.images()
with Work("bad_images") as work:
    session, folder = work("session"), work("in")
    arrive(names(), folder)
    mix(folder, images, random)
    real = real_ones(folder)
    with Run(graph(work.path, micrographs=folder, watcher=KEYS), session, "--until-idle", "2") as live:
        shift(folder, live)
        live.finish(3)
    judge(session, images)
    judge_real(session, real)
    undisturbed, disturbed = good_ones(calm()), good_ones(outcome(session, folder))
    for key, before in undisturbed.items():
        equal = disturbed[key] == before
        what = "" if equal else f": {difference(before, disturbed[key])}"
        check(equal, f"{key} of the good ones as undisturbed{what}")
    for stage, count in counts(session).items():
        check(
            count["seen"] == count["done"] + count["failed"] and count["in_flight"] == 0, f"{stage} reconciles: {count}"
        )
    print(f"{len(images)} broken and {len(real)} odd images among {len(names())} good ones")
    same_numbers(session)
    finish()
