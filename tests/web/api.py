#!/usr/bin/env python3
"""api.py: every endpoint of `icestream serve`, against sessions of make_session.py and what is known of them."""
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy
from PIL import Image

import make_others
import make_session
from serve_client import BIN, Server, wait_for

SCRATCH = tempfile.mkdtemp(prefix="icestream-api-")
COUNT = 60


def of_status(folder):
    out = subprocess.run([os.path.join(BIN, "icestream"), "status", "--session", folder, "--json"], capture_output=True,
                         text=True, check=True)
    return json.loads(out.stdout)


def column(items, key, row):
    return items["columns"][key][row]


def check_session(server, session):
    about = server.ask("/api/session")
    assert about["v"] == 1 and about["state"] == "finished" and about["run"] == 1
    assert about["session"] == os.path.basename(session.folder) and about["folder"] == session.folder
    assert [stage["name"] for stage in about["stages"]] == make_session.STAGES
    assert about["stages"][2]["from"] == ["motion-corrector"] and about["stages"][5]["cumulative"] is True
    assert abs(about["started"] - session.begin) < 1
    assert about["graph"]["stages"]["extractor"]["box"] == 96
    assert about["rules"] == [{"stage": "lowpass-picker", "text": "rlnCtfMaxResolution > 10",
                               "column": "rlnCtfMaxResolution", "op": ">", "value": 10.0}], about["rules"]
    columns = {it["key"]: it for it in about["columns"]}
    assert columns["res"]["column"] == "rlnCtfMaxResolution" and columns["res"]["good"] == "low"
    assert columns["defocus"]["unit"] == "µm" and columns["defocus"]["factor"] == 1e-4
    assert columns["motion"]["unit"] == "Å" and columns["motion"]["column"] == "icestreamMotionTotal", columns["motion"]
    assert "retry" in about["may"] and "stop" not in about["may"], about["may"]
    return about


def check_status(server, session):
    status, known = server.ask("/api/status"), of_status(session.folder)
    assert status["adds_up"] is True and status["running"] is False and status["state"] == "finished"
    for name, stage in known["stages"].items():
        for key in ("seen", "done", "rejected", "failed", "in_flight", "inputs", "note"):
            assert status["stages"][name][key] == stage[key], (name, key)
        assert status["stages"][name]["instances"][0]["name"] == name + ".0"
    picker = status["stages"]["lowpass-picker"]
    assert abs(picker["latency"]["p50"] - 1.5) < 0.01 and picker["latency"]["n"] == picker["done"]
    assert abs(status["pipeline_latency"]["picked"]["p50"] - 4) < 0.01, status["pipeline_latency"]
    assert picker["instances"][0]["restarts"] == 0
    assert picker["rate"] == 0 and picker["queue"] == 0
    assert status["stages"]["refiner"]["newest"]["iteration"] == 6
    assert status["exposures"] == COUNT and abs(status["last_exposure"] - session.end) < 60
    disk = status["disk"][0]
    assert disk["path"] == session.folder and 0 < disk["free"] <= disk["total"]
    assert status["gpus"] == [] and status["host"]["cores"] >= 1


def check_items(server, session):
    items = server.ask("/api/items")
    assert items["full"] is True and items["gone"] == [] and len(items["n"]) == COUNT == len(set(items["n"]))
    for i in range(COUNT):
        assert items["name"][i] == session.name(i)
        state, reason = make_session.DONE, None
        for stage in ("ctf-estimator", "lowpass-picker"):
            if state == make_session.DONE:
                state, reason = session.outcome(i, stage)
                where = stage
        assert items["state"][i] == state, (i, items["state"][i])
        told = items["reasons"][items["reason"][i]] if items["reason"][i] >= 0 else None
        assert told == reason, (i, told)
        if reason:
            assert make_session.STAGES[items["stage"][i]] == where
        square = items["squares"][items["square"][i]] if items["square"][i] >= 0 else None
        assert square == (None if i in make_session.SPECIAL else str(1000 + i // 25)), (i, square)
        assert abs(items["t"][i] - (session.begin + 6 * i)) < 1e-2
    with_u = [i for i in range(COUNT) if column(items, "defocusu", i) is not None]
    assert len(with_u) == COUNT - 2
    for i in with_u:
        assert abs(column(items, "defocus", i) - (column(items, "defocusu", i) + column(items, "defocusv", i)) / 2) < 1e-2
    assert items["shows"][0] == 63 and items["shows"][22] == 1 + 8 + 32, items["shows"]
    assert set(items["revision"]) == {0}, items["revision"]
    assert column(items, "res", 16) == 12.5 and column(items, "picks", 16) is None and column(items, "picks", 0) == 30
    nothing = server.ask("/api/items?since=%d" % items["rev"])
    assert nothing["full"] is False and nothing["n"] == [] and nothing["rev"] == items["rev"]
    assert server.ask("/api/items?since=%d&epoch=12345" % items["rev"])["full"] is True
    assert server.ask("/api/items?since=999999")["full"] is True
    server.refused("/api/items?since=x", 400)
    zipped = server.get("/api/items", zipped=True)
    assert zipped.headers["Content-Encoding"] == "gzip" and zipped.sent < len(zipped.body) / 2
    assert zipped.headers["Cache-Control"] == "no-store"
    return items


def check_item(server, session, items):
    for i in (0, 3, 5, 7, 9, 16, 22):
        one = server.ask("/api/item/%d" % items["n"][i])
        assert one["id"] == session.name(i) == one["item"]["id"] and one["state"] == items["state"][i]
        names = [stage["stage"] for stage in one["stages"]]
        assert names == make_session.STAGES[:len(names)], names
        last = one["stages"][-1]
        assert last["attempts"] == 1 and last["seconds"] >= 0 and "products" in last
        if i == 16:
            assert names[-1] == "lowpass-picker" and last["reason"] == "rlnCtfMaxResolution 12.5 > 10 (reject_if)"
            assert any("WARN" in line and "reject_if" in line for line in one["log"]), one["log"]
        elif i != 22:
            assert any("%d picks" % (30 + i % 20) in line for line in one["log"]), one["log"]
    for path in ("/api/item/0", "/api/item/x", "/api/item/-1", "/api/item/1e3", "/api/item/99999999999999999999"):
        server.refused(path, 404)


def check_data(server, session, items):
    n = items["n"][0]
    picks = server.ask("/api/picks/%d" % n)
    assert (picks["nx"], picks["ny"], picks["diameter"]) == (512, 512, 60)
    assert len(picks["x"]) == len(picks["y"]) == len(picks["score"]) == 40
    truth = session.micrographs.coordinates[0]
    assert max(abs(truth[:, 1] - picks["x"]).max(), abs(truth[:, 0] - picks["y"]).max()) < 1e-3
    ctf = server.ask("/api/ctf/%d" % n)
    assert len(ctf["k"]) == len(ctf["data"]) == len(ctf["fit"]) == len(ctf["background"]) == len(ctf["score"]) == 200
    motion = server.ask("/api/motion/%d" % n)
    assert motion["frames"] == 8 and len(motion["x"]) == 8 and motion["v"] == 1
    for path in ("picks", "ctf"):
        server.refused("/api/%s/%d" % (path, items["n"][22]), 404)


def picture(server, path, size):
    answer = server.get(path)
    assert answer.code == 200, (path, answer.code, answer.body)
    image = Image.open(io.BytesIO(answer.body))
    image.load()
    assert image.size == size and image.mode == "L", (path, image.size)
    return answer, numpy.array(image, dtype=float)


def check_pictures(server, session, items):
    for i in (0, 3, 5, 7, 9):
        n = items["n"][i]
        answer, thumb = picture(server, "/pic/motion-corrector/%d/thumb.jpg" % n, (128, 128))
        assert answer.headers["Content-Type"] == "image/jpeg"
        picture(server, "/pic/ctf-estimator/%d/spectrum.png" % n, (256, 256))
    answer, large = picture(server, "/pic/motion-corrector/%d/micrograph.jpg" % items["n"][0], (512, 512))
    answer, thumb = picture(server, "/pic/watcher/%d/thumb.jpg?h=17" % items["n"][0], (128, 128))
    assert "immutable" in answer.headers["Cache-Control"]
    # The same picture, the same way up: particles are dark where the picks are.
    small = large.reshape(128, 4, 128, 4).mean((1, 3))
    assert numpy.corrcoef(small.ravel(), thumb.ravel())[0, 1] > 0.8
    assert numpy.corrcoef(small[::-1].ravel(), thumb.ravel())[0, 1] < 0.2
    picks = session.micrographs.coordinates[0].astype(int)
    assert large[picks[:, 0], picks[:, 1]].mean() < large.mean() - 10
    last = items["n"][0]
    for path in ("nowhere/%d/thumb.jpg" % last, "watcher/%d/thumb.png" % last, "watcher/0/thumb.jpg",
                 "watcher/%d/..%%2f..%%2fgraph.yaml" % last, "watcher/%d/spectrum.png" % items["n"][22]):
        answer = server.get("/pic/" + path)
        assert answer.code == 404, (path, answer.code)
    # A quiet request gets nothing instead of an error, but a thing that can never be there is an error all the same.
    for path in ("pic/watcher/%d/spectrum.png", "api/ctf/%d", "api/picks/%d"):
        answer = server.get("/" + path % items["n"][22] + "?quiet=1")
        assert answer.code == 204 and answer.body == b"", (path, answer.code)
    assert server.get("/pic/watcher/0/thumb.jpg?quiet=1").code == 404


def check_grid(server, items):
    squares = server.ask("/api/grid")["squares"]
    assert [square["name"] for square in squares] == ["1000", "1001", "1002"]
    for square in squares:
        rows = [i for i in range(COUNT) if items["square"][i] >= 0 and items["squares"][items["square"][i]] == square["name"]]
        assert square["count"] == len(rows)
        assert square["done"] == sum(items["state"][i] == 1 for i in rows)
        assert square["rejected"] == sum(items["state"][i] == 2 for i in rows)
        assert square["failed"] == sum(items["state"][i] == 3 for i in rows)
        values = [column(items, "res", i) for i in rows if column(items, "res", i) is not None]
        assert abs(square["medians"]["res"] - numpy.median(values)) < 1e-4
        assert sorted(n for hole in square["holes"] for n in hole["n"]) == [items["n"][i] for i in rows]
        check_places(square, items)


def check_places(square, items):
    """A hole lies where its exposures were taken, a square in their middle; without the stage's place nowhere."""
    if square["name"] == "1002":
        assert square["x"] is None and square["y"] is None and {hole["x"] for hole in square["holes"]} == {None}
        return
    places = {}
    for hole in square["holes"]:
        at = items["n"].index(hole["n"][0]) // 2 % 13
        places[hole["name"]] = (hole["x"], hole["y"], len(hole["n"]))
        expected = (90 * (int(square["name"]) - 1000) + 2.5 * (at % 4), -2.5 * (at // 4))
        assert (hole["x"], hole["y"]) == expected, (hole, expected)
    many = sum(place[2] for place in places.values())
    for axis, key in enumerate("xy"):
        assert abs(square[key] - sum(place[axis] * place[2] for place in places.values()) / many) < 1e-3
    assert "movie.stage_x" not in items["columns"]


def check_classes(server, session):
    history = server.ask("/api/history/classifier")
    assert [line["iteration"] for line in history] == [1, 2, 3, 4, 5, 6]
    server.refused("/api/history/nowhere", 404)
    classes = server.ask("/api/classes")
    assert classes["iteration"] == 6 and classes["iterations"] == [1, 2, 3, 4, 5, 6] and classes["count"] == 16
    assert [it["number"] for it in classes["classes"]] == list(range(1, 17))
    assert [it["kept"] for it in classes["classes"]] == [k % 4 != 3 for k in range(16)]
    assert sum(it["members"] for it in classes["classes"] if it["kept"]) == classes["kept"] == history[5]["kept"]
    assert abs(sum(it["share"] for it in classes["classes"]) - 1) < 1e-4
    assert server.ask("/api/classes?it=2")["iteration"] == 2
    server.refused("/api/classes?it=77", 404)
    cell, across = classes["cell"], classes["across"]
    assert (cell, across) == (64, 4)
    _, sheet = picture(server, "/pic/classes/006.png", (256, 256))
    with open(os.path.join(session.folder, "classifier/run_it006_classes.mrcs"), "rb") as file:
        stack = numpy.frombuffer(file.read()[1024:], dtype="<f4").reshape(16, 64, 64)
    for k in range(16):
        shown = sheet[k // 4 * 64:k // 4 * 64 + 64, k % 4 * 64:k % 4 * 64 + 64]
        assert numpy.corrcoef(shown.ravel(), stack[k].ravel())[0, 1] > 0.95, k
    for path in ("/pic/classes/099.png", "/pic/classes/x.png", "/pic/classes/006.jpg"):
        server.refused(path, 404)


def check_map(server, session):
    fsc = server.ask("/api/fsc")
    assert fsc["iteration"] == 6 and len(fsc["k"]) == 33 == len(fsc["unmasked"]) == len(fsc["corrected"])
    resolution = 9 + 16 / 6
    assert abs(1 / fsc["at"]["0.143"] - 1 / resolution) < 1 / 240 and fsc["at"]["0.5"] > fsc["at"]["0.143"]
    assert fsc["at_corrected"]["0.143"] <= fsc["at"]["0.143"]
    around = server.ask("/api/directions")
    assert len(around["counts"]) == 12 * around["nside"] ** 2 and abs(sum(around["counts"]) - 600) < 1e-6
    assert 0.3 < around["efficiency"] < 0.99 and around["symmetry"] == "C1"
    with open(os.path.join(session.folder, "refiner/run_class001.mrc"), "rb") as file:
        volume = numpy.frombuffer(file.read()[1024:], dtype="<f4").reshape(64, 64, 64).astype(float)
    for name in ("latest", "it006", "half1", "half2", "postprocess", "class001"):
        answer = server.get("/api/map/%s?n=128" % name)
        about = json.loads(answer.headers["X-Map"])
        assert about["n"] == 64 and abs(about["pixel"] - 3.75) < 1e-4 and about["level"] == 4, about
        expected = numpy.clip(60 + 12 * (volume - volume.mean()) / volume.std(), 0, 255)
        shown = numpy.frombuffer(answer.body, dtype=numpy.uint8).reshape(64, 64, 64)
        assert abs(shown - expected).max() < 0.51, name
    answer = server.get("/api/map/latest?n=32")
    about = json.loads(answer.headers["X-Map"])
    assert about["n"] == 32 and abs(about["pixel"] - 7.5) < 1e-4 and about["iteration"] == 6
    # The same map with its low frequencies alone; the highest of an even size has no phase and is left out.
    low = numpy.fft.fftshift(numpy.fft.fftn(volume))[16:48, 16:48, 16:48]
    low[0], low[:, 0], low[:, :, 0] = 0, 0, 0
    low = numpy.fft.ifftn(numpy.fft.ifftshift(low)).real / 8
    small = numpy.frombuffer(answer.body, dtype=numpy.uint8).reshape(32, 32, 32)
    assert abs(small - numpy.clip(60 + 12 * (low - low.mean()) / low.std(), 0, 255)).max() < 0.6
    server.refused("/api/map/mask", 404)
    server.refused("/api/map/../../graph.yaml", 404)
    server.refused("/api/map/it099", 404)
    server.refused("/api/map/latest?n=4000", 400)


def check_log(server, session):
    log = server.ask("/api/log")
    assert log["instance"] == "icestream" and len(log["lines"]) == 2
    log = server.ask("/api/log?instance=lowpass-picker.0")
    assert len(log["lines"]) == 1 + 55 + 3 and "refiner.0" in log["instances"]
    session.log("lowpass-picker.0", time.time(), "INFO late <b>bold</b> \t\x01 tail")
    more = server.ask("/api/log?instance=lowpass-picker.0&after=%d" % log["next"])
    assert len(more["lines"]) == 1 and "<b>bold</b>" in more["lines"][0] and more["goes_on"] is True
    with open(session.path("log", "refiner.0.log"), "ab") as out:
        out.write(b"broken \xff\xfe bytes\n" + b"x" * 200000 + b"\nlast\nnot whole")
    tail = server.ask("/api/log?instance=refiner.0")
    assert tail["lines"] == ["last"], tail["lines"][:2]
    for name in ("nobody.0", "..%2f..%2fgraph.yaml", "../web/token"):
        server.refused("/api/log?instance=" + name, 404)


def check_ended():
    """A session that has ended: each endpoint says what is known of it."""
    session = make_session.Session(os.path.join(SCRATCH, "ended"), COUNT)
    server = Server(session.folder)
    try:
        check_session(server, session)
        check_status(server, session)
        items = check_items(server, session)
        check_item(server, session, items)
        check_data(server, session, items)
        check_pictures(server, session, items)
        check_grid(server, items)
        check_classes(server, session)
        check_map(server, session)
        check_log(server, session)
    finally:
        server.close()
        session.close()


def check_live():
    """A session that grows: deltas have the changed rows alone, rates and queues follow, GPUs are those of the library."""
    session = make_session.Session(os.path.join(SCRATCH, "runs"), 30, running=True, in_flight=4, iterations=2,
                                   without=["motion-corrector"])
    gpus = os.path.join(SCRATCH, "gpus")
    with open(gpus, "w", encoding="ascii") as out:
        out.write("RTX-A5000 80 6000000000 24000000000 71 190500\nlost\n")
    library = os.path.join(BIN, "../tests/fake_nvml.so")
    server = Server(session.folder, environment={"ICESTREAM_NVML": library, "FAKE_NVML": gpus})
    try:
        about, items = server.ask("/api/session"), server.ask("/api/items")
        assert about["state"] == "running" and "drain" in about["may"] and len(about["stages"]) == 6
        assert items["state"].count(0) == 4
        status = server.ask("/api/status")
        assert status["running"] is True and sum(stage["in_flight"] for stage in status["stages"].values()) == 4
        assert status["stages"]["ctf-estimator"]["rate"] > 0 and status["exposures_per_hour"] > 0
        assert [gpu["lost"] for gpu in status["gpus"]] == [False, True]
        assert status["gpus"][0]["temperature"] == 71 and status["gpus"][0]["util"] == 0.8
        session.log("extractor.0", time.time(), "INFO start run 1, process 77, 3 lanes, 1 threads")
        session.write_whole("log/extractor.0.heartbeat.json", {"time": time.time(), "pid": 77})
        wait_for(lambda: restarts(server) == 1, "a restart")
        # The first stage that reads a micrograph is here the ctf-estimator; the micrograph lies where the watcher looks.
        picture(server, "/pic/ctf-estimator/%d/thumb.jpg" % items["n"][0], (128, 128))
        picture(server, "/pic/ctf-estimator/%d/micrograph.jpg" % items["n"][0], (512, 512))
        server.refused("/api/motion/%d" % items["n"][0], 404)

        session.add(3)
        delta = wait_for(lambda: changed(server, items["rev"], 3), "three more rows")
        assert delta["full"] is False and len(delta["n"]) == 3 and not set(delta["n"]) & set(items["n"])
        assert delta["name"] == [session.name(i) for i in (30, 31, 32)]
        session.set_state("extractor", 4, make_session.FAILED, "the disk said <no>")
        delta = wait_for(lambda: changed(server, delta["rev"], 1), "a changed row")
        assert delta["n"] == [items["n"][4]] and delta["state"] == [3] and delta["reasons"] == ["the disk said <no>"]
        assert make_session.STAGES[1 + delta["stage"][0]] == "extractor" and delta["attempts"] == [2]

        session.iterate()
        wait_for(lambda: server.ask("/api/classes")["iteration"] == 3, "a third snapshot")
        wait_for(lambda: json.loads(server.get("/api/map/latest?n=16").headers["X-Map"])["iteration"] == 3, "a third map")
        session.release()
        wait_for(lambda: server.ask("/api/status")["state"] == "stopped", "the launcher's end")
        assert "stop" not in server.ask("/api/session")["may"]
    finally:
        server.close()
        session.close()


def restarts(server):
    return server.ask("/api/status")["stages"]["extractor"]["instances"][0]["restarts"]


def changed(server, revision, count):
    delta = server.ask("/api/items?since=%d" % revision)
    return delta if len(delta["n"]) >= count else None


def check_hostile():
    """Items that name files elsewhere, broken files, and a session without anything: refusals, never a file or a crash."""
    session = make_session.Session(os.path.join(SCRATCH, "hostile"), 8, special=False, iterations=1)
    secret = os.path.join(SCRATCH, "secret.jpg")
    with open(secret, "wb") as out:
        out.write(b"secret")
    os.symlink(secret, session.path("watcher", "x_thumb.jpg"))
    os.symlink(SCRATCH, session.path("watcher", "folder"))
    os.mkfifo(session.path("watcher", "pipe_thumb.jpg"))
    paths = [secret, "../secret.jpg", "watcher/x_thumb.jpg", "watcher/folder/secret.jpg", "watcher/pipe_thumb.jpg",
             "web/token", "/proc/self/environ.jpg", session.data + "/movies/../../secret.jpg"]
    stage = session.ledgers["classifier"]
    for i, path in enumerate(paths):
        item = json.loads(stage.execute("SELECT item FROM items WHERE id = ?", (session.name(i),)).fetchone()[0])
        item["display"] = {"thumb": path, "spectrum": path, "ctf": path, "motion": path}
        item["micrograph"]["path"] = item["picks"]["star"] = path
        stage.execute("UPDATE items SET item = ? WHERE id = ?", (json.dumps(item), session.name(i)))
    with open(session.path("refiner", "run_it001_model.star"), "w", encoding="ascii") as out:
        out.write("nonsense\n")
    with open(session.path("refiner", "run_it001_class001.mrc"), "r+b") as out:
        out.truncate(2000)
    with open(session.path("classifier", "run_it001_classes.mrcs"), "wb") as out:
        out.write(b"no stack")
    with open(session.path("classifier", "history.jsonl"), "a", encoding="ascii") as out:
        out.write("{\"event\": \"clas")
    server = Server(session.folder)
    try:
        for n in server.ask("/api/items")["n"]:
            for path in ("/pic/watcher/%d/thumb.jpg", "/pic/watcher/%d/spectrum.png", "/pic/watcher/%d/micrograph.jpg",
                         "/api/picks/%d", "/api/ctf/%d", "/api/motion/%d"):
                answer = server.get(path % n)
                assert answer.code in (404, 500, 501) and b"secret" not in answer.body.replace(b"secret.jpg", b""), (
                    path, n, answer.code, answer.body)
        for path in ("/api/fsc", "/api/map/latest", "/api/classes", "/pic/classes/001.png"):
            assert server.get(path).code >= 400, path
        assert len(server.ask("/api/history/classifier")) == 1
        assert server.ask("/api/directions")["particles"] == 600
        assert server.get("/healthz").code == 200
    finally:
        server.close()
        session.close()


def check_empty():
    session = make_session.Session(os.path.join(SCRATCH, "empty"), 0, iterations=0)
    server = Server(session.folder)
    try:
        assert server.ask("/api/items")["n"] == [] and server.ask("/api/grid")["squares"] == []
        assert server.ask("/api/status")["last_exposure"] is None and server.ask("/api/history/refiner") == []
        for path in ("/api/classes", "/api/fsc", "/api/directions", "/api/map/latest", "/api/item/1"):
            server.refused(path, 404)
    finally:
        server.close()
        session.close()


def check_noise():
    session = make_session.Session(os.path.join(SCRATCH, "noise"), 12, iterations=3, noise_from=3)
    server = Server(session.folder)
    try:
        refiner = server.ask("/api/status")["stages"]["refiner"]
        newest = refiner["newest"]
        assert newest["iteration"] == 3 and newest["noise"] is True and newest["resolution"] is None, newest
        assert refiner["instances"] and not any(it.get("resolution") for it in refiner["instances"]), refiner
        lines = server.ask("/api/history/refiner")
        assert [line["noise"] for line in lines] == [False, False, True] and lines[0]["resolution"] > 20, lines
    finally:
        server.close()
        session.close()


def check_unresolved():
    session = make_session.Session(os.path.join(SCRATCH, "unresolved"), 12, iterations=4, unresolved="start")
    server = Server(session.folder)
    try:
        newest = server.ask("/api/status")["stages"]["refiner"]["newest"]
        assert newest["iteration"] == 4 and newest["unresolved"] == "start" and newest["resolution"] is None, newest
    finally:
        server.close()
        session.close()


def check_tomograms(folder):
    session = make_others.Tomograms(folder)
    server = Server(session.folder)
    try:
        found = {it["name"]: it for it in server.ask("/api/tomograms")["tomograms"]}
        assert sorted(found) == ["TS_1", "TS_2"] and found["TS_2"]["preview"] and not found["TS_1"]["preview"]
        one = found["TS_1"]
        assert (one["nx"], one["ny"], one["nz"], one["pixel"]) == (48, 40, 12, 8.0)
        for z in (0, 3, 11):
            _, shown = picture(server, "/pic/tomogram/%d/%d.jpg?h=%s" % (one["n"], z, one["h"]), (48, 40))
            truth = session.volume[z, ::-1].clip(-4, 4)
            assert numpy.corrcoef(shown.ravel(), truth.ravel())[0, 1] > 0.8, z
        for path in ("%d/12.jpg" % one["n"], "%d/x.jpg" % one["n"], "%d/0.png" % one["n"], "12/0.jpg"):
            server.refused("/pic/tomogram/" + path, 404)
        server.refused("/api/classes", 404)
        # With its ledger in PostgreSQL the stage writes into the folder of its lease.
        place, lease = os.path.join(session.folder, "tilt-reconstructor"), "leases/tilt-reconstructor.1/tilt-reconstructor"
        os.makedirs(os.path.join(session.folder, os.path.dirname(lease)))
        os.rename(place, os.path.join(session.folder, lease))
        os.symlink(lease, place)
        assert {it["name"]: it for it in server.ask("/api/tomograms")["tomograms"]} == found
        picture(server, "/pic/tomogram/%d/3.jpg?h=%s" % (one["n"], one["h"]), (48, 40))
    finally:
        server.close()
        session.close()


def check_drops(folder):
    session = make_others.Drops(folder)
    server = Server(session.folder)
    try:
        drops = server.ask("/api/drops")
        assert drops["stage"] == "crystal-scorer" and drops["outcomes"] == make_others.OUTCOMES
        assert drops["outcome"] == [i % 4 for i in range(29)] + [-1] and drops["score"] == session.scores
        assert drops["name"][0] == "plate7/A00, drop \"1\"" and drops["n"] == server.ask("/api/items")["n"]
    finally:
        server.close()
        session.close()


def check_ensemble(folder):
    session = make_others.Ensemble(folder)
    server = Server(session.folder)
    try:
        about = server.ask("/api/ensemble")
        assert about["count"] == 60 and about["cutoff"] == 2.5 and about["names"][1] == "model, 001"
        assert about["clusters"] == [{"number": k + 1, "size": 20, "centre": 3 + k} for k in range(3)]
        assert about["order"] == sorted(range(60), key=lambda i: (i % 3, i))
        for side, places in ((512, about["order"]), (20, about["order"][::3])):
            answer = server.get("/api/ensemble/matrix?n=%d" % side)
            head = json.loads(answer.headers["X-Matrix"])
            truth = session.matrix[numpy.ix_(places, places)]
            assert head["n"] == len(places) and head["count"] == 60 and abs(head["max"] - truth.max()) < 1e-4
            shown = numpy.frombuffer(answer.body, dtype=numpy.uint8).reshape(truth.shape) * (head["max"] / 255)
            assert abs(shown - truth).max() < head["max"] / 255
        with open(session.path("superposer", "rmsd.npy"), "ab") as out:
            out.write(b"more")
        server.refused("/api/ensemble/matrix", 503)
    finally:
        server.close()
        session.close()


def check_others():
    """Sessions without particles: tomograms, drops and ensembles."""
    check_tomograms(os.path.join(SCRATCH, "tomograms"))
    check_drops(os.path.join(SCRATCH, "drops"))
    check_ensemble(os.path.join(SCRATCH, "ensemble"))


def check_marks():
    """Marks by hand stand beside the verdict of the stages, and come with a fresh table."""
    session = make_session.Session(os.path.join(SCRATCH, "marks"), 8, special=False, iterations=2)
    server = Server(session.folder)

    def mark(*words):
        subprocess.run([os.path.join(BIN, "icestream"), "mark", "--session", session.folder, *words], check=True,
                       stdout=subprocess.DEVNULL)

    try:
        items = server.ask("/api/items")
        assert items["mark"] == [None] * 8
        mark("--reject", session.name(2), "--why", "a <b>crack</b>")
        mark("--keep", session.name(5))
        marked = wait_for(lambda: fresh(server, items, "keep"), "the marks in the table")
        assert marked["full"] is True and marked["mark"][2] == "reject" and marked["mark"][5] == "keep"
        assert marked["state"] == items["state"]
        one = server.ask("/api/item/%d" % items["n"][2])
        assert one["mark"] == "reject" and one["marked"]["why"] == "a <b>crack</b>", one["marked"]
        assert server.ask("/api/item/%d" % items["n"][3])["mark"] is None
        assert [it["hand"] for it in server.ask("/api/classes")["classes"]] == [None] * 16
        with open(session.path("changes", "0003.json"), "w", encoding="ascii") as out:
            json.dump({"v": 1, "number": 3, "time": 1795300000.0, "by": "mark", "changes": [], "choices": [
                {"stage": "classifier", "iteration": 2, "classes": [1, 3], "choice": "reject"},
                {"stage": "classifier", "iteration": 1, "classes": [2], "choice": "keep"},
                {"stage": "classifier", "iteration": 2, "classes": [3], "choice": None}]}, out)
        hands = [it["hand"] for it in server.ask("/api/classes")["classes"]]
        assert hands == ["reject"] + [None] * 15, hands
    finally:
        server.close()
        session.close()


def fresh(server, before, wanted):
    items = server.ask("/api/items?since=%d&epoch=%d" % (before["rev"], before["epoch"]))
    return items if wanted in items["mark"] else None


def check_events():
    """Events tell of rows, counts and products; who comes back with the last number that he saw misses nothing."""
    session = make_session.Session(os.path.join(SCRATCH, "events"), 12, running=True, special=False, iterations=1)
    server = Server(session.folder)
    try:
        events = server.events()
        items = server.ask("/api/items")
        session.add(2)
        found = set()
        while len(found) < 2:
            rows = events.next("rows")
            assert rows["full"] is False and rows["epoch"] == items["epoch"] and rows["rev"] > items["rev"]
            found.update(set(rows["name"]) & {session.name(12), session.name(13)})
        while events.next("status")["stages"]["watcher"]["done"] != 14:
            pass
        session.iterate()
        products = [events.next("product"), events.next("product")]
        assert sorted((it["stage"], it["kind"], it["iteration"]) for it in products) == [
            ("classifier", "classes", 2), ("refiner", "map", 2)], products
        session.set_state("extractor", 3, make_session.REJECTED, "by a <rule>")
        rows = events.next("rows")
        assert rows["n"] == [items["n"][3]] and rows["reasons"] == ["by a <rule>"], rows
        last = events.last
        events.close()
        session.add(1)
        wait_for(lambda: len(server.ask("/api/items")["n"]) == 15, "one more row")
        again = server.events(last)
        names = []
        while session.name(14) not in names:
            names += again.next("rows")["name"]
        assert set(names) == {session.name(14)} and "resync" not in again.seen, (names, again.seen)
        again.close()
        # The server says so of ids that it does not know: one of another server, one that is no id, one that is too old.
        number = int(last.split("-")[1])
        ids = ["123456789abc-%d" % number, "nonsense", last.split("-")[0] + "-999999"]
        for place, gone in enumerate(ids):
            lost = server.events(gone)
            assert lost.next("resync")["v"] == 1
            session.set_state("extractor", 4 + place, make_session.REJECTED, gone)
            assert gone in lost.next("rows")["reasons"]
            lost.close()
        # Another epoch while he was away: all rows have to be fetched anew.
        epoch = server.ask("/api/items")["epoch"]
        words = ["mark", "--session", session.folder, "--reject", session.name(2)]
        subprocess.run([os.path.join(BIN, "icestream"), *words], check=True, stdout=subprocess.DEVNULL)
        wait_for(lambda: server.ask("/api/items")["epoch"] != epoch, "another epoch")
        again = server.events(last)
        assert again.next("resync")["epoch"] == server.ask("/api/items")["epoch"]
        again.close()
    finally:
        server.close()
        session.close()


CASES = {"ended": check_ended, "live": check_live, "hostile": check_hostile, "empty": check_empty, "noise": check_noise,
         "unresolved": check_unresolved,
         "others": check_others, "marks": check_marks, "events": check_events}


def main():
    for name in sys.argv[1:] or CASES:
        CASES[name]()
    print("ok")


try:
    main()
finally:
    shutil.rmtree(SCRATCH)
