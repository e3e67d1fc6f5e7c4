"""No serious finding of axe in any tab, light and dark. axe.min.js comes from scripts/axe.sh and is no part of the tree."""
import os

AXE = os.environ.get("ICESTREAM_AXE", "")
READY = {"overview": "figure.series .handle", "exposures": ".cell", "exposure/2": ".stages tbody tr",
         "ledger": ".lines .entry", "grid": ".square", "classes": ".class-tile", "map": "#map-surface, .placeholder",
         "system": ".instances tbody tr", "alarms": "#alarms-firing", "controls": "#mark-numbers"}


def check(page, scheme):
    if not os.path.isfile(AXE):
        print("axe.min.js is not there: scripts/axe.sh FOLDER gets it from PyPI; the page is not checked with it")
        return
    with open(AXE, encoding="utf-8") as file:
        source = file.read()
    page.visit(page.site, "overview")
    found = []
    try:
        page.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")  # no colour between two
        page.run(source)
        for view, ready in READY.items():
            page.go(view)
            page.wait("document.querySelector(arguments[0])", "the view " + view, ready)
            results = page.driver.execute_async_script(
                "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations),"
                " (e) => done([{id: String(e), impact: 'critical', nodes: []}]))")
            found += ["%s: %s (%s): %s" % (view, it["id"], it["impact"], "; ".join(
                node["html"][:110] + " " + str([c["message"] for c in node["any"][:1]]) for node in it["nodes"][:3]))
                for it in results if it["impact"] in ("serious", "critical")]
    finally:
        page.media()
    assert not found, "%s:\n" % scheme + "\n".join(found)


def test_axe_finds_nothing_serious_in_light(page):
    check(page, "light")


def test_axe_finds_nothing_serious_in_dark(page):
    check(page, "dark")
