#!/usr/bin/env python3
"""Measures the live page and its server, on made sessions and in a real browser.

bench_serve.py [--exposures 10000] [--many 100000] [--seconds 60] [--parts paint,latency,frames,cpu,many]

paint: the time until the overview and the gallery of a session are drawn, cold; what is transferred; nodes and memory of the
page. latency: from the commit of an exposure's ledgers to its number in the page, one exposure a second. frames: the time
between frames while the gallery is scrolled to its end and back. cpu: processor time of the server with three readers, one
exposure a second. many: the same with many exposures, and the memory. Prints a line for each figure, with its bound."""
import argparse
import os
import statistics
import sys
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../web"))
import web  # noqa: E402

# Notes when the page has drawn what is waited for: asked at each frame from the first moment of the document on.
STOPWATCH = """
window.drawn = {};
window.wanted = {
  charts: () => { const all = [...document.querySelectorAll('figure.series')];
    return all.length >= 6 && all.every((it) => it.querySelector('.summary').textContent.includes('median')); },
  numbers: () => { const it = document.querySelector('#fact-seen .value'); return it && /[1-9]/.test(it.textContent); },
  gallery: () => document.querySelectorAll('[role=gridcell]').length >= 10,
};
(function look() {
  for (const [name, test] of Object.entries(window.wanted))
    if (!(name in window.drawn) && test()) window.drawn[name] = performance.now();
  requestAnimationFrame(look);
})();
"""
# Notes each text of the number of exposures, and when it came.
OBSERVE = """
const node = document.querySelector('#fact-seen'), seen = window.seen = [];
new MutationObserver(() => seen.push([Date.now() / 1000, Number(document.querySelector('#fact-seen .value').textContent
  .replace(/[^0-9]/g, ''))])).observe(node, { childList: true, characterData: true, subtree: true });
"""
FLING = """
const done = arguments[arguments.length - 1];
let best = document.scrollingElement;
for (const it of document.querySelectorAll('main *'))
  if (it.scrollHeight > it.clientHeight + 1000 && getComputedStyle(it).overflowY !== 'visible') best = it;
const frames = [], end = best.scrollHeight - best.clientHeight, begun = performance.now();
let last = begun;
(function step(now) {
  frames.push(now - last);
  last = now;
  const part = (performance.now() - begun) / arguments_of_seconds / 1000;
  if (part >= 1) { done([frames.slice(1), end]); return; }
  best.scrollTop = end * (part < 0.5 ? 2 * part : 2 - 2 * part);
  requestAnimationFrame(step);
})(begun);
"""


def say(what, value, bound):
    print("%-70s %-22s (wanted: %s)" % (what, value, bound), flush=True)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def metrics(page):
    page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    page.driver.execute_cdp_cmd("Performance.enable", {})
    return {it["name"]: it["value"] for it in page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}


def transferred(page):
    return page.get("performance.getEntries().filter((it) => it.transferSize).reduce((sum, it) => sum + it.transferSize, 0)")


def paint(exposures):
    """Draws overview and gallery, each in a new browser, so that nothing is cached."""
    site = web.Site(exposures=exposures, running=True)
    try:
        for view, wanted, bound in (("overview", ("numbers", "charts"), "< 1 s"), ("exposures", ("gallery",), "< 1 s")):
            page = web.Page()
            try:
                page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": STOPWATCH})
                page.driver.get(site.url + "#" + view)
                page.run("location.hash = arguments[0]", "#" + view)
                for name in wanted:
                    page.wait("window.drawn[%r]" % name, name)
                first = page.wait("performance.getEntriesByName('first-contentful-paint')[0].startTime", "the first paint")
                say("%d exposures, %s: first paint" % (exposures, view), "%.0f ms" % first, "< 1 s")
                for name in wanted:
                    say("%d exposures, %s: %s drawn" % (exposures, view, name), "%.0f ms" % page.get("window.drawn[%r]" % name),
                        bound)
                time.sleep(3)
                say("%d exposures, %s: transferred" % (exposures, view), "%.2f MB" % (transferred(page) / 1e6), "< 2 MB")
                found = metrics(page)
                say("%d exposures, %s: nodes, heap" % (exposures, view),
                    "%d, %.1f MB" % (page.get("document.querySelectorAll('*').length"), found["JSHeapUsedSize"] / 1e6),
                    "< 3,000, < 60 MB")
            finally:
                page.close()
    finally:
        site.close()


def latency(exposures, seconds):
    site, page = web.Site(exposures=exposures, running=True), web.Page()
    try:
        page.visit(site, "overview")
        page.wait("/[1-9]/.test(document.querySelector('#fact-seen .value').textContent)", "numbers")
        page.run(OBSERVE)
        committed = []
        for _ in range(seconds):
            time.sleep(1)
            site.session.add(1)
            committed.append((time.time(), site.session.count))
        page.wait("window.seen.some((it) => it[1] >= arguments[0])", "the last exposure", site.session.count)
        seen = page.get("window.seen")
        late = [min(when for when, number in seen if number >= count) - at for at, count in committed]
        say("%d exposures: commit to number, median, most of %d" % (exposures, seconds),
            "%.2f s, %.2f s" % (statistics.median(late), max(late)), "< 0.5 s, < 1 s")
    finally:
        page.close()
        site.close()


def frames(exposures, seconds):
    """Scrolls the gallery in a browser that draws with the processor alone, and in one whose graphics are emulated, as tests
    of WebGL need it."""
    given = web.FLAGS
    plain = [flag for flag in given if "swiftshader" not in flag] + ["--disable-gpu"]
    site = web.Site(exposures=exposures, running=True)
    try:
        for way, flags, bound in (("no graphics", plain, "p95 < 50 ms"), ("emulated graphics", given, "no bound")):
            web.FLAGS = flags
            page = web.Page()
            try:
                fling(site, page, "%d exposures, %s" % (exposures, way), seconds, bound)
            finally:
                page.close()
    finally:
        web.FLAGS = given
        site.close()


def fling(site, page, what, seconds, bound):
    page.visit(site, "exposures")
    page.wait("document.querySelectorAll('[role=gridcell]').length >= 10", "the gallery")
    script = FLING.replace("arguments_of_seconds", str(seconds))
    times, length = page.driver.execute_async_script(script)
    say("%s: gallery of %d px to its end and back in %d s, frame median, p95" % (what, length, seconds),
        "%.1f ms, %.1f ms" % (statistics.median(times), percentile(times, 0.95)), bound)
    found = metrics(page)
    say("%s: nodes, heap after it" % what,
        "%d, %.1f MB" % (page.get("document.querySelectorAll('*').length"), found["JSHeapUsedSize"] / 1e6),
        "< 3,000, < 60 MB")


class Reader(threading.Thread):
    """Listens to the events as a page does, and takes the table first. Without `follow` it only asks."""

    def __init__(self, site, follow=True):
        super().__init__(daemon=True)
        address = urllib.parse.urlsplit(site.url)
        self.base = "%s://%s" % (address.scheme, address.netloc)
        self.token = urllib.parse.parse_qs(address.query)["token"][0]
        self.events, self.stream = 0, None
        for path in ("/api/session", "/api/status", "/api/items"):
            self.ask(path).read()
        if follow:
            self.stream = self.ask("/api/events")
            self.start()

    def ask(self, path):
        headers = {"Authorization": "Bearer " + self.token, "Accept-Encoding": "gzip"}
        return urllib.request.urlopen(urllib.request.Request(self.base + path, headers=headers), timeout=120)

    def run(self):
        try:
            for line in self.stream:
                self.events += line.startswith(b"event:")
        except (OSError, ValueError, AttributeError):
            pass  # the server has ended


def ticks(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    with open("/proc/%d/statm" % pid, encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def cpu(exposures, seconds, bound):
    begun = time.time()
    site = web.Site(exposures=exposures, running=True, pictures=0)
    try:
        print("made %d exposures in %.0f s" % (exposures, time.time() - begun), flush=True)
        pid = site.server.pid
        readers = [Reader(site) for _ in range(3)]
        time.sleep(5)
        before, since, events = ticks(pid), time.monotonic(), sum(it.events for it in readers)
        for _ in range(seconds):
            time.sleep(1)
            site.session.add(1)
            site.session.heartbeats()
        used, wall = ticks(pid) - before, time.monotonic() - since
        heard = sum(it.events for it in readers) - events
        assert heard >= 3 * seconds / 2, "the readers heard %d events" % heard
        say("%d exposures, 3 readers, 1 exposure/s, %.0f s: processor" % (exposures, wall),
            "%.2f %% of a core" % (100 * used / wall), bound)
        say("%d exposures: memory of the server" % exposures, "%.0f MB" % (resident(pid) / 1e6), "< 150 MB")
    finally:
        site.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exposures", type=int, default=10000)
    parser.add_argument("--many", type=int, default=100000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--parts", default="paint,latency,frames,cpu,many")
    given = parser.parse_args()
    parts = given.parts.split(",")
    web.need()
    if "paint" in parts:
        paint(given.exposures)
    if "latency" in parts:
        latency(given.exposures, given.seconds)
    if "frames" in parts:
        frames(given.exposures, 10)
    if "cpu" in parts:
        cpu(given.exposures, given.seconds, "< 1 %")
    if "many" in parts:
        cpu(given.many, given.seconds, "< 3 %")


if __name__ == "__main__":
    main()
