#!/usr/bin/env python3
"""Photographs of drops arrive one by one. The tables grow with them, and in the end equal those of all files at once.
This also holds with two scorers, and when a scorer or the whole session is killed in the middle. A file without a drop
is set aside."""

import csv
import os
import shutil
import signal
import subprocess
import sys

from session import (
    SKIP,
    SOURCE,
    Work,
    check,
    finish,
    launch,
    pids_of,
    program,
    put,
    run,
    status,
    stop,
    wait_until,
    write,
)

GRAPH = os.path.join(SOURCE, "pipelines", "crystals.yaml")
SEED, EACH, STRIDE = 3, 2, 50
COUNTS = ("seen", "done", "rejected", "failed", "in_flight")


def rows(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def outcome(folder):
    """Returns the scores of each image by its name, and the ranked names."""
    scores = {
        os.path.basename(r["image"]): [v for k, v in r.items() if k != "image"] for r in rows(f"{folder}/scores.csv")
    }
    crystals = [(r["rank"], os.path.basename(r["image"]), r["crystal"]) for r in rows(f"{folder}/crystals.csv")]
    return scores, crystals


def arguments(session, folder, model, **more):
    settings = {
        "watcher.directory": folder,
        "watcher.settle": 0.3,
        "watcher.poll": 0.2,
        "crystal-scorer.model": model,
        **more,
    }
    return [
        "run",
        GRAPH,
        "--session",
        session,
        *[f"--set={key}={value}" for key, value in settings.items()],
        "--until-idle",
        "6",
    ]


def counts(session):
    stages = status(session)["stages"]
    return {s: {k: stages[s][k] for k in COUNTS} for s in ("watcher", "crystal-scorer")}


def scored(session):
    folder = f"{session}/crystal-scorer"
    return len([f for f in os.listdir(folder) if f.endswith("_score.csv")]) if os.path.isdir(folder) else 0


def disturb(work, images, model, name, victims, expect_code, **more):
    """Feeds half of the images, kills something, then feeds the rest."""
    session, folder = work(name), work(f"incoming-{name}")
    os.makedirs(folder)
    live = launch(*arguments(session, folder, model, **more))
    try:
        for image in images[: len(images) // 2]:
            put(image, folder)
        wait_until(lambda: scored(session) >= 2, 60, "some scored", live)
        for pid in victims(session, live):
            os.kill(pid, signal.SIGKILL)
        for image in images[len(images) // 2 :]:
            put(image, folder)
        code = live.wait(timeout=120)
    finally:
        stop(live)
    if code != expect_code:
        wait_until(
            lambda: not any(pids_of(s, session) for s in ("watcher", "crystal-scorer")),
            30,
            "nothing outlives the launcher",
        )
        run(*arguments(session, folder, model, **more), timeout=120, expect=expect_code)
    return session


with Work("crystals") as work:
    print(f"seed {SEED}")
    drops, model = work("drops"), work("model")
    subprocess.run(
        [program("icestream-simulate-drops"), "--o", drops, "--count", str(EACH), "--seed", str(SEED)], check=True
    )
    made = subprocess.run(
        [
            program("icestream-crystal-scorer"),
            "--train",
            f"{drops}/labels.csv",
            "--o",
            model,
            "--trees",
            "20",
            "--folds",
            "2",
            "--stride",
            str(STRIDE),
            "--series",
            "{drop}_{time}",
        ],
        capture_output=True,
        text=True,
    )
    if "no random forest" in made.stderr:
        print("skipped: this build has no XGBoost")
        sys.exit(SKIP)
    check(made.returncode == 0, "a model" + (made.stderr[-500:] if made.returncode else ""))
    model = f"{model}/crystals.model"
    images = sorted(f"{drops}/{f}" for f in os.listdir(drops) if f.endswith(".png"))
    subprocess.run(
        [program("icestream-crystal-scorer"), "--i", drops, "--model", model, "--o", work("all")],
        check=True,
        capture_output=True,
    )
    expected = outcome(work("all"))
    check(len(expected[0]) == len(images), f"{len(images)} images on files")

    for name, victims in (
        ("calm", lambda session, live: []),
        ("killed", lambda session, live: pids_of("crystal-scorer", session)),
        ("gone", lambda session, live: [live.pid]),
    ):
        session = disturb(work, images, model, name, victims, 0)
        check(outcome(f"{session}/crystal-scorer") == expected, f"{name}: scores and ranks are those of files")
        found = counts(session)["crystal-scorer"]
        check(
            found["done"] == len(images) and found["failed"] == 0 and found["in_flight"] == 0,
            f"{name}: every image is done once: {found}",
        )
        thumbs = [name_ for name_ in os.listdir(f"{session}/crystal-scorer") if name_.endswith("_thumb.jpg")]
        check(len(thumbs) == len(images), f"{name}: a page finds a thumbnail of each drop: {thumbs[:3]}…")

    # The graph has several globs. The replay must find files of each, and not wait for a file that matches none.
    write(f"{work('incoming-calm')}/notes.txt", "of no interest")
    run(
        "replay",
        work("calm"),
        GRAPH,
        "--session",
        work("replayed"),
        "--speed",
        "max",
        f"--set=crystal-scorer.model={model}",
        timeout=120,
    )
    check(outcome(f"{work('replayed')}/crystal-scorer") == expected, "replayed: scores and ranks are those of files")
    check(counts(work("replayed")) == counts(work("calm")), f"replayed: {counts(work('replayed'))}")

    # A model was trained again under the same name. Rows of two models must not stand in one table.
    shutil.copy(model, work("first.model"))
    subprocess.run(
        [
            program("icestream-crystal-scorer"),
            "--train",
            f"{drops}/labels.csv",
            "--o",
            work("model"),
            "--trees",
            "10",
            "--folds",
            "2",
            "--features",
            "simple",
        ],
        check=True,
        capture_output=True,
    )
    said = run(*arguments(work("calm"), work("incoming-calm"), model), timeout=120, expect=2)
    check(
        "is not the model that has scored images here" in said.stderr, f"another model is refused: {said.stderr[-600:]}"
    )
    shutil.copy(work("first.model"), model)

    empty = write(work("flat.pgm"), "P2 300 300 255\n" + "9 " * 90000)
    with_none = images + [work("none.png")]
    from PIL import Image

    Image.open(empty).save(work("none.png"))
    session = disturb(
        work,
        with_none,
        model,
        "replicas",
        lambda session, live: pids_of("crystal-scorer", session)[:1],
        3,
        **{
            "crystal-scorer.replicas": 2,
            "crystal-scorer.series": "{drop}_{time}",
            "crystal-scorer.keep_features": "true",
        },
    )
    check(
        outcome(f"{session}/crystal-scorer")[0] == expected[0], "two scorers, one killed: the scores are those of files"
    )
    state = status(session)
    reasons = {i["id"]: i["reason"] for i in state["items"] if i["state"] == "failed"}
    check(list(reasons) == ["none"] and "no drop found" in reasons["none"], f"without a drop: {reasons}")
    check(len(rows(f"{session}/crystal-scorer/series.csv")) == len(images), "series.csv")
    check(os.path.exists(f"{session}/crystal-scorer/skin_0001_features.npy"), "features are kept")
    finish()
