"""The weight of the page on a session of 10,000 exposures: what is transferred, elements, memory; and that it asks nobody but
its own server. Times are measured by tests/benchmarks/bench_serve.py."""

SITE = {"exposures": 10000, "running": True, "pictures": 60, "interval": 2.0}
VIEWS = ("overview", "exposures?sort=n", "exposure/20", "ledger", "classes", "map", "system", "alarms", "controls")
LONG = ("exposures?sort=n", "ledger")
NODES, HEAP, TRANSFERRED = 3000, 60e6, 2e6
# Scrolls the longest list to its end and back, a frame for each step.
FLING = """
const done = arguments[arguments.length - 1];
let best = document.scrollingElement;
for (const it of document.querySelectorAll('main *'))
  if (it.scrollHeight > best.scrollHeight && getComputedStyle(it).overflowY !== 'visible') best = it;
const end = best.scrollHeight - best.clientHeight, steps = 8;
let step = 0;
(function next() {
  if (step > 2 * steps) return done(end);
  best.scrollTop = end * (step < steps ? step : 2 * steps - step) / steps;
  step += 1;
  requestAnimationFrame(next);
})();
"""


def nodes(page):
    return page.get("document.querySelectorAll('*').length")


def heap(page):
    page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    page.driver.execute_cdp_cmd("Performance.enable", {})
    found = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(it["value"] for it in found if it["name"] == "JSHeapUsedSize")


def requests(page):
    """Returns address and bytes of all that the page has asked for since it was opened, itself included."""
    return page.get("performance.getEntries().filter((it) => it.entryType === 'resource' || it.entryType === 'navigation')"
                    ".map((it) => [it.name, it.transferSize])")


def all_rows(page):
    page.wait("ice.store.rows.length === 10000", "the table")


def test_little_is_transferred(page):
    for view, drawn in (("overview", "document.querySelectorAll('figure.series').length >= 6"),
                        ("exposures?sort=n", "document.querySelectorAll('.cell img').length >= 10")):
        page.driver.get("about:blank")
        page.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        page.visit(page.site, view)
        all_rows(page)
        page.wait(drawn, view)
        page.wait("[...document.querySelectorAll('img')].every((it) => it.complete)", "the pictures")
        size = sum(it[1] for it in requests(page))
        print("%s: %.2f MB transferred" % (view, size / 1e6))
        assert 50e3 < size < TRANSFERRED, "%s: %d bytes" % (view, size)


def test_few_elements_and_little_memory(page):
    for view in VIEWS:
        page.open(view)
        page.drawn(view)
        all_rows(page)
        if view in LONG:
            length = page.driver.execute_async_script(FLING)
            assert length > 100000, "%s: %d px are not all exposures" % (view, length)
        count = nodes(page)
        print("%s: %d elements" % (view, count))
        assert count < NODES, "%s: %d elements" % (view, count)
    size = heap(page)
    print("memory after all views: %.1f MB" % (size / 1e6))
    assert size < HEAP, "%d bytes" % size


def test_nobody_else_is_asked(page):
    page.driver.get("about:blank")
    page.visit(page.site, "overview")
    for view in VIEWS:
        page.open(view)
        page.drawn(view)
    asked = requests(page)
    assert len(asked) > 10, asked
    origin = page.get("location.origin") + "/"
    others = [name for name, _ in asked if not name.startswith((origin, "blob:" + origin))]
    assert not others, others
