#!/usr/bin/env python3
"""Real micrographs, from folder to map: ten micrographs of apoferritin are copied one by one into a watched folder."""

import os

from session import (
    Work,
    check,
    feed,
    finish,
    fsc,
    history,
    launch,
    match,
    need_data,
    points,
    read_map,
    resolution,
    run,
    star,
    status,
    stop,
    write,
)
import numpy as np

TOLERANCE, BORDER, SHAPE = 15, 62, (1240, 1200)
INTERVAL = float(os.environ.get("ICESTREAM_INTERVAL", "2"))

data = need_data("apoferritin")
names = sorted(n for n in os.listdir(f"{data}/micrographs") if n.endswith(".mrc"))

GRAPH = f"""\
session: {{pixel_size: 1.5, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.07}}
stages:
  watcher:        {{directory: INCOMING, pattern: "*.mrc", ctf: {data}/micrographs_ctf.star, reject_if: rlnCtfFigureOfMerit < 0.1}}
  lowpass-picker: {{from: watcher, templates: {data}/templates.mrcs, lowpass: 20, diameter: 130}}
  extractor:      {{from: lowpass-picker, box: 128, downscale_to: 64}}
  classifier:     {{from: extractor, classes: 12, diameter: 150}}
  refiner:        {{from: classifier, reference: {data}/reference.mrc, symmetry: O, initial_lowpass: 30, diameter: 150}}
"""


def score_picks(session):
    hits = found = wanted = 0
    for name in names:
        stem = name[:-4]
        truth_file = f"{data}/centres/{stem}.star"
        if not os.path.exists(truth_file):
            continue
        picks, truth = points(f"{session}/lowpass-picker/{stem}_autopick.star"), points(truth_file)
        # Nobody marked centres near the border, so picks there are neither right nor wrong.
        low, high = BORDER, np.array(SHAPE) - BORDER
        picks = picks[np.all((picks >= low) & (picks < high), axis=1)]
        hits, found, wanted = hits + len(match(picks, truth, TOLERANCE)), found + len(picks), wanted + len(truth)
    return hits / max(wanted, 1), hits / max(found, 1)


with Work("apoferritin") as work:
    session, incoming = work("session"), work("incoming")
    os.makedirs(incoming)
    graph = write(work("graph.yaml"), GRAPH.replace("INCOMING", incoming))
    run("check", graph)
    live = launch("run", graph, "--session", session, "--until-idle", "8")
    feeder = feed([f"{data}/micrographs/{n}" for n in names], incoming, INTERVAL)
    try:
        code = live.wait(timeout=1500)
    finally:
        stop(live)
    check(code == 0, f"run ended with exit code {code}")

    state = status(session)
    watcher = state["stages"]["watcher"]
    check(watcher["seen"] == 10 and watcher["rejected"] == 1, f"watcher: {watcher}")
    drifted = [i for i in state["items"] if i["id"] == "May08_06_09_02" and i["state"] == "rejected"]
    check(
        len(drifted) == 1 and "rlnCtfFigureOfMerit" in drifted[0]["reason"],
        f"the drifted one, with its reason: {drifted}",
    )
    for stage in ("lowpass-picker", "extractor", "classifier"):
        check(state["stages"][stage]["done"] == 9, f"{stage}: {state['stages'][stage]}")

    recall, precision = score_picks(session)
    check(recall >= 0.90 and precision >= 0.90, f"picks: recall {recall:.3f} precision {precision:.3f}")

    half1, px = read_map(f"{session}/refiner/run_half1_class001_unfil.mrc")
    half2, _ = read_map(f"{session}/refiner/run_half2_class001_unfil.mrc")
    box = half1.shape[0]
    curve = fsc(half1, half2)
    print("FSC:", " ".join(f"{box * px / i:.1f}:{curve[i]:.2f}" for i in range(1, len(curve))))
    check(
        resolution(curve, box, px, 0.5) <= 12,
        f"half maps above 0.5 to {resolution(curve, box, px, 0.5):.2f} Å, needed 12",
    )
    reported = float(star(f"{session}/refiner/run_model.star")["model_general"][0]["rlnCurrentResolution"])
    measured = resolution(curve, box, px, 0.143)
    # The standard error of the FSC takes a shell or so off.
    shells = box * px / measured - box * px / reported
    check(
        -0.05 < shells < 2.05,
        f"reported {reported:.2f} Å, the curve first falls below 0.143 at {measured:.2f} Å: {shells:.0f} shells finer",
    )
    for name in ("run_class001.mrc", "run_data.star", "postprocess.mrc", "postprocess.star"):
        check(os.path.exists(f"{session}/refiner/{name}"), f"refiner/{name}")
    montages = [e for e in os.listdir(f"{session}/classifier") if e.endswith("_classes.png")]
    check(bool(montages), f"class averages as pictures: {montages}")
    for stage in ("classifier", "refiner"):
        for event in history(session, stage):
            late = event["time"] - feeder.arrived[-1]
            print(
                f"{stage}: {event.get('event')} iteration {event.get('iteration')} particles {event.get('particles')} "
                f"resolution {event.get('resolution', '')} at {late:+.0f} s from the last micrograph"
            )
    finish()
