#!/usr/bin/env python3
"""Runs the crystal scorer on files: training from labels, predictions, tables, time series, texture beside the simple
features, and the same results in other ways."""

import json
import os
import re
import shutil
import sys
import tempfile

from crystal_drops import CRYSTALS, DATA, OUTCOMES, check, end, need_forest, rows, said, scorer, simulate, write
import numpy as np

SEED, TREES = 12, 100


def probabilities(row):
    return np.array([float(row[name]) for name in OUTCOMES])


def train(work):
    """Trains on simple features, 10 images of each outcome. The model is the same for any number of threads and any
    order of labels."""
    simulate(f"{work}/drops", count=10, seed=SEED)
    scorer(
        "--train",
        f"{work}/drops/labels.csv",
        "--o",
        f"{work}/model",
        "--features",
        "simple",
        "--threads",
        2,
        "--trees",
        TREES,
    )
    labels = open(f"{work}/drops/labels.csv", encoding="utf-8").read().splitlines()
    write(
        f"{work}/drops/turned.csv",
        "\n".join(['"%s","%s",x' % tuple(line.split(",")) for line in reversed(labels[1:])]) + "\n",
    )
    scorer(
        "--train",
        f"{work}/drops/turned.csv",
        "--o",
        f"{work}/again",
        "--features",
        "simple",
        "--threads",
        1,
        "--trees",
        TREES,
    )
    same = open(f"{work}/model/crystals.model", "rb").read() == open(f"{work}/again/crystals.model", "rb").read()
    check(same, "the same labels give the same model, to the last byte")
    header = json.loads(open(f"{work}/model/crystals.model", "rb").read().split(b"\n", 2)[1])
    version = header["forest"]["xgboost"]
    check(
        re.fullmatch(r"\d+\.\d+\.\d+", version) is not None, f"the model says which XGBoost wrote its forest: {version}"
    )
    validation = rows(f"{work}/model/validation.csv")
    check(
        [r["outcome"] for r in validation] == OUTCOMES and all(r["examples"] == "10" for r in validation),
        "validation.csv: 11 outcomes, 10 examples each",
    )
    confusion = rows(f"{work}/model/confusion.csv")
    counts = np.array([[int(r[name]) for name in OUTCOMES] for r in confusion])
    check((counts.sum(axis=1) == 10).all(), "confusion.csv: each image is counted once")
    check(
        all(abs(float(r["recall"]) - counts[i, i] / 10) < 1e-4 for i, r in enumerate(validation)),
        "recall is the diagonal's",
    )
    held_out = rows(f"{work}/model/cross_validation.csv")
    right = sum(r["label"] == r["outcome"] for r in held_out)
    check(len(held_out) == 110 and right == np.trace(counts), "cross_validation.csv is what was counted")
    check(all(abs(probabilities(r).sum() - 1) < 1e-4 for r in held_out), "probabilities add up to 1")
    check(right > 110 * 0.5, f"{right} of 110 are recognised while they are held out (by chance 10)")
    text = open(f"{work}/model/validation.txt", encoding="utf-8").read()
    said(text, "macro recall", "any crystal recognised as any crystal", "precip & crystal")


def score(work):
    simulate(f"{work}/new", count=3, seed=SEED + 1)
    scorer("--i", f"{work}/new", "--model", f"{work}/model/crystals.model", "--o", f"{work}/scores")
    scores = rows(f"{work}/scores/scores.csv")
    check(
        list(scores[0]) == ["image", "outcome", *OUTCOMES], "scores.csv: image, outcome and a column for each outcome"
    )
    check(len(scores) == 33, "33 images are scored")
    check(all(OUTCOMES[probabilities(r).argmax()] == r["outcome"] for r in scores), "the outcome is the likeliest")
    truth = {r["path"]: r["label"] for r in rows(f"{work}/new/labels.csv")}
    right = sum(truth[os.path.basename(r["image"])] == r["outcome"] for r in scores)
    check(right > 33 * 0.5, f"{right} of 33 new ones are recognised")
    crystals = rows(f"{work}/scores/crystals.csv")
    of = {r["image"]: sum(float(r[name]) for name in CRYSTALS) for r in scores}
    check([int(r["rank"]) for r in crystals] == list(range(1, len(crystals) + 1)), "crystals.csv: ranks from 1")
    ranked = [float(r["crystal"]) for r in crystals]
    check(ranked == sorted(ranked, reverse=True) and min(ranked) >= 0.2, "the likeliest first, down to 0.2")
    check(
        all(abs(of[r["image"]] - float(r["crystal"])) < 1e-5 for r in crystals),
        "their probability is that of any crystal",
    )
    check(len(crystals) == sum(p >= 0.2 for p in of.values()), "none is left out")
    scorer(
        "--i",
        f"{work}/new/labels.csv",
        "--model",
        f"{work}/model/crystals.model",
        "--o",
        f"{work}/scores2",
        "--likely",
        0.5,
        "--threads",
        1,
        "--lanes",
        1,
    )
    by_image = {os.path.basename(r["image"]): r for r in rows(f"{work}/scores2/scores.csv")}
    check(
        all(
            by_image[os.path.basename(r["image"])]["outcome"] == r["outcome"]
            and (probabilities(by_image[os.path.basename(r["image"])]) == probabilities(r)).all()
            for r in scores
        ),
        "a list of images, one lane and one thread give the same numbers",
    )
    check(all(float(r["crystal"]) >= 0.5 for r in rows(f"{work}/scores2/crystals.csv")), "likely: 0.5")


def series(work):
    """Scores drops over time: neighbours in time improve the result."""
    simulate(f"{work}/series", count=36, series=6, seed=SEED)
    labelled = rows(f"{work}/series/labels.csv")
    often = [r for r in labelled if sum(other["label"] == r["label"] for other in labelled) > 1]
    write(f"{work}/series/often.csv", "".join(f"{r['path']},{r['label']}\n" for r in often))
    scorer(
        "--train",
        f"{work}/series/often.csv",
        "--o",
        f"{work}/series_model",
        "--features",
        "simple",
        "--series",
        "{drop}_t{time}",
        "--folds",
        3,
        "--trees",
        TREES,
    )
    simulate(f"{work}/later", count=12, series=6, seed=SEED + 1)
    text = scorer(
        "--i",
        f"{work}/later",
        "--model",
        f"{work}/model/crystals.model",
        "--o",
        f"{work}/refused",
        "--series",
        "{drop}_t{time}",
        expect=2,
    )
    said(text, "was trained without time series", "train it with --series")
    scorer(
        "--i",
        f"{work}/later",
        "--model",
        f"{work}/series_model/crystals.model",
        "--o",
        f"{work}/smoothed",
        "--series",
        "{drop}_t{time}",
    )
    truth = {r["path"]: r["label"] for r in rows(f"{work}/later/labels.csv")}
    scores, smoothed = rows(f"{work}/smoothed/scores.csv"), rows(f"{work}/smoothed/series.csv")
    check(list(smoothed[0])[:4] == ["image", "drop", "time", "outcome"], "series.csv: image, drop, time, outcome")
    order = [(r["drop"], int(r["time"])) for r in smoothed]
    check(order == sorted(order) and len(order) == 72, "in the order of drops and times")
    check(all(abs(probabilities(r).sum() - 1) < 1e-4 for r in smoothed), "probabilities add up to 1")
    alone = sum(truth[os.path.basename(r["image"])] == r["outcome"] for r in scores)
    together = sum(truth[os.path.basename(r["image"])] == r["outcome"] for r in smoothed)
    check(together > alone, f"of 72 images {alone} are recognised alone, and {together} in their series")


def texture(work):
    """Computes all features at a wide stride. Checks the shape of the arrays, and that the model names its features."""
    picked = [
        f"{kind}_{i:04d}.png,{label}"
        for kind, label in (("clear", "clear"), ("skin", "skin"), ("crystal", "crystal"))
        for i in range(1, 4)
    ]
    write(f"{work}/drops/few.csv", "path,label\n" + "\n".join(picked) + "\n")
    scorer(
        "--train",
        f"{work}/drops/few.csv",
        "--o",
        f"{work}/texture",
        "--stride",
        40,
        "--folds",
        3,
        "--trees",
        TREES,
        "--keep-features",
    )
    check(
        np.load(f"{work}/texture/skin_0001_features.npy").shape == (3, 25, 13, 3),
        "features are kept while a model is made",
    )
    again = ("--train", f"{work}/drops/few.csv", "--features-from", f"{work}/texture", "--folds", 3, "--trees", TREES)
    scorer(*again, "--o", f"{work}/reused", "--stride", 40)
    same = open(f"{work}/texture/crystals.model", "rb").read() == open(f"{work}/reused/crystals.model", "rb").read()
    check(same, "features that were kept give the same model")
    said(
        scorer(*again, "--o", f"{work}/no", "--stride", 8, expect=2),
        "features.json: the features that are kept there are of stride 40, and those of stride 8 are needed",
    )
    said(
        scorer(*again, "--o", f"{work}/no", "--stride", 40, "--centre", "160,150", expect=2),
        "features.json: the features that are kept there are of centre found, and those of centre 160,150 are needed",
    )
    os.truncate(f"{work}/texture/skin_0001_features.npy", 500)
    said(
        scorer(*again, "--o", f"{work}/no", "--stride", 40, expect=3),
        "skin_0001_features.npy: holds",
        "of the 11700 that its header says",
    )
    few = f"{work}/drops/clear_0005.png"
    scorer("--i", few, "--model", f"{work}/texture/crystals.model", "--o", f"{work}/one", "--keep-features")
    row = rows(f"{work}/one/scores.csv")[0]
    check(row["outcome"] == "clear" and float(row["junk"]) == 0, "three outcomes: the others have the probability 0")
    said(
        scorer("--i", few, "--model", f"{work}/texture/crystals.model", "--o", f"{work}/no", "--stride", 8, expect=2),
        "stride: 8 was asked for, and the model is of stride 40",
    )
    said(
        scorer(
            "--i",
            few,
            "--model",
            f"{work}/texture/crystals.model",
            "--o",
            f"{work}/no",
            "--features",
            "simple",
            expect=2,
        ),
        "features: simple was asked for, and the model is of all: leave features out",
    )
    scorer("--i", few, "--o", f"{work}/circle", "--keep-features", "--diameter", 36, "--centre", "150,140")
    small = np.load(f"{work}/circle/clear_0005_features.npy")
    check(small.shape == (3, 25, 13, 3) and np.isfinite(small).all(), "a circle of 36 px at a place that is given")
    said(
        scorer(
            "--i",
            few,
            "--o",
            f"{work}/no",
            "--keep-features",
            "--features-from",
            f"{work}/circle",
            "--diameter",
            36,
            "--centre",
            "140,150",
            expect=2,
        ),
        "of centre 150,140, and those of centre 140,150 are needed",
    )


def real(work):
    """Scores four photographs of MARCO. The test checks only that scoring works: the model has seen painted drops
    alone."""
    folder = f"{DATA}/marco"
    if not os.path.isdir(folder):
        print("skipped: ../shared/data/marco is not there")
        return
    # Three photographs show the well; 6488 was taken from inside the drop.
    text = scorer("--i", folder, "--model", f"{work}/model/crystals.model", "--o", f"{work}/marco")
    said(text, "6488.jpeg: shows no edge of a drop: its middle is evaluated")
    blind = set(re.findall(r"(\w+\.jpeg): shows no edge", text))  # the list of warnings at the end names it again
    check(blind == {"6488.jpeg"}, "three wells are found")
    scores = rows(f"{work}/marco/scores.csv")
    check(len(scores) == 4, "all four are scored")
    text = scorer(
        "--i",
        f"{folder}/6488.jpeg",
        "--model",
        f"{work}/model/crystals.model",
        "--o",
        f"{work}/marco2",
        "--centre",
        "640,480",
    )
    check("shows no edge" not in text, "a centre that is given needs no edge")
    same = [r for r in scores if "6488" in r["image"]]
    check(rows(f"{work}/marco2/scores.csv") == same, "its middle is 640,480")


need_forest()
work = tempfile.mkdtemp(prefix="icestream-crystals-")
print(f"seed {SEED}, in {work}")
train(work)
score(work)
series(work)
texture(work)
real(work)
if "--keep" not in sys.argv:
    shutil.rmtree(work)
end()
