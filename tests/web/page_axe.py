#!/usr/bin/env python3
"""page_axe.py light|dark: no serious finding of axe in any section. axe.min.js comes from scripts/axe.sh and is no part of
the tree; where it is missing this test skips."""
import os
import sys

import page_others
import web

AXE = os.environ.get("ICESTREAM_AXE", "")
# Views in other states, then each view, and what stands there when they are drawn.
READY = {"overview?all=1&x=time&t=res>4": "#would-keep", "exposure/23": ".note.critical",
         **{"exposure/2" if view == "exposure" else view: ready for view, ready in web.DRAWN.items()}}
# Sections of stages that the session lacks; the page is told of them.
OTHERS = {
    "tomograms": ("tilt-reconstructor", "#tomogram-slice", {"api/tomograms": {"v": 1, "tomograms": [
        {"n": 1, "name": "TS_01", "nx": 512, "ny": 512, "nz": 100, "pixel": 10.0, "h": "1"}]}}),
    "drops": ("crystal-scorer", ".drop", {"api/drops": {
        "v": 1, "stage": "crystal-scorer", "outcomes": ["clear", "crystals"], "n": [1, 2], "name": ["A01", "A02"],
        "outcome": [0, 1], "score": [0.01, 0.7]}}),
    "ensemble": ("superposer", "#section-ensemble td", {"api/ensemble": {
        "v": 1, "count": 2, "names": ["a.pdb", "b.pdb"], "cutoff": 4.0,
        "clusters": [{"number": 1, "size": 2, "centre": 0, "members": [0, 1]}]}})}
RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations),
  (e) => done([{id: String(e), impact: 'critical', nodes: []}]));
"""


def findings(page, view, ready):
    page.go(view)
    page.wait("document.querySelector(arguments[0])", "the view " + view, ready)
    return ["%s: %s (%s): %s" % (view, it["id"], it["impact"], "; ".join(
        node["html"][:110] + " " + str([c["message"] for c in node["any"][:1]]) for node in it["nodes"][:3]))
        for it in page.driver.execute_async_script(RUN) if it["impact"] in ("serious", "critical")]


def test_axe_finds_nothing_serious(page):
    with open(AXE, encoding="utf-8") as file:
        source = file.read()
    page.open("overview")
    found = []
    try:
        page.media(prefers_color_scheme=sys.argv[1], prefers_reduced_motion="reduce")  # no colour between two
        page.run(source)
        for view, ready in READY.items():
            found += findings(page, view, ready)
        page.keys("?")
        found += findings(page, "controls", "dialog[open]")
        page.keys("ESCAPE")
        for view, (program, ready, answers) in OTHERS.items():
            page_others.tell(page, program, answers)
            found += findings(page, view, ready)
    finally:
        page.media()
        page.complaints()  # the session has no pictures of these stages
    assert not found, "%s:\n" % sys.argv[1] + "\n".join(found)


if __name__ == "__main__":
    if not os.path.isfile(AXE):
        web.skip("axe.min.js is not there: scripts/axe.sh build/axe gets it from PyPI")
    web.main(sys.modules[__name__])
