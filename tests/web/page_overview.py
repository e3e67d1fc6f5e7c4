"""The overview: head bar, flow, series with thresholds, throughput."""
import json
import subprocess

import web
from server import wait_for


def status(page):
    out = subprocess.run([web.ICESTREAM, "status", "--session", page.site.folder, "--json"], capture_output=True, text=True,
                         check=True)
    return json.loads(out.stdout)


def number(text):
    return int("".join(c for c in text if c.isdigit()) or 0)


def test_the_head_bar_counts_what_status_counts(page):
    page.open("overview")
    stages = status(page)["stages"]
    page.wait("document.querySelector('#fact-seen .value').textContent !== '–'", "numbers in the head bar")
    assert number(page.text("#fact-seen .value")) == stages["watcher"]["seen"]
    for state in ("rejected", "failed"):
        assert number(page.text("#fact-%s .value" % state)) == sum(stage[state] for stage in stages.values()), state
    assert "running" in page.text("#session-state")


def test_flow_has_a_box_for_each_stage(page):
    page.open("overview")
    stages = status(page)["stages"]
    page.wait("document.querySelectorAll('.stage').length === %d" % len(stages), "a box for each stage")
    page.wait("document.querySelector('#stage-watcher .counts').textContent.includes('6')", "counts")
    assert page.texts(".stage h3") == list(stages)
    hidden = page.get("[...document.querySelectorAll('.stage')]"
                      ".filter((s) => s.querySelectorAll('.line')[1].hidden).map((s) => s.id)")
    assert hidden == ["stage-classifier", "stage-refiner"], "latency of stages that gather: %s" % hidden
    for name, stage in stages.items():
        shown = {state: page.get("(() => { const it = document.querySelector('#stage-' + arguments[0] + '"
                                 " .count[title=\"' + arguments[1]"
                                 " + '\"]'); return it.hidden ? '0' : it.lastChild.textContent })()", name, word)
                 for state, word in (("done", "done"), ("in_flight", "in flight"), ("rejected", "rejected"), ("failed", "failed"))}
        for state, text in shown.items():
            assert number(text) == stage[state], (name, state, text, stage[state])


BOXES = """
const { status } = ice.store, wrong = [];
for (const [name, stage] of Object.entries(status.stages)) {
  const box = document.getElementById('stage-' + name), text = (part) => box.querySelector(part).textContent;
  const line = (label) => [...box.querySelectorAll('.line')].find((it) => it.textContent.startsWith(label)).lastChild.textContent;
  const rate = ice.is_number(stage.rate) ? ice.number(stage.rate * 60, 2) + ' / min' : ice.NONE;
  if (line('rate') !== rate) wrong.push([name, line('rate'), rate]);
  const half = stage.latency && stage.latency.p50;
  if (ice.is_number(half) && !line('latency').startsWith(ice.span(half))) wrong.push([name, line('latency'), half]);
  const slowest = stage.instances.map((it) => it.parts && it.parts.slowest).find(Boolean) || ice.NONE;
  if (line('slowest part') !== slowest) wrong.push([name, line('slowest part'), slowest]);
  if (stage.queue && !text('.queue').startsWith(stage.queue + ' waiting')) wrong.push([name, text('.queue'), stage.queue]);
}
return wrong;
"""


def test_each_box_says_how_fast_it_is_and_what_waits(page):
    page.open("overview")
    page.wait("document.querySelector('#stage-extractor .line')", "the boxes")
    known = page.get("Object.values(ice.store.status.stages)")
    assert sum(stage["queue"] or 0 for stage in known) > 0, "nothing waits in this session"
    timed = [stage for stage in known if stage["latency"] and stage["latency"]["p50"]]
    assert len(timed) >= 4, "no stage tells how long it takes"
    wrong = []

    def right():  # a status may come between what is kept and what is drawn
        wrong[:] = page.run(BOXES)
        return not wrong
    wait_for(right, wrong)


CHART = "[...ice.charts].find((c) => c.options.title === '%s' && c.node.isConnected)"


def test_series_draw_six_charts_with_a_line_in_words(page):
    page.open("overview")
    page.wait("document.querySelectorAll('figure.series').length === 6", "six charts")
    titles = page.texts("figure.series .title")
    assert titles == ["Defocus", "Astigmatism", "CTF resolution", "Total motion", "Ice ring density", "Picks"], titles
    page.wait("[...document.querySelectorAll('figure.series .summary')].every((s) =>"
              " s.textContent.includes('median'))", "summaries")
    for place in range(6):
        colours = page.get("(() => { const c = document.querySelectorAll('figure.series canvas')[arguments[0]];"
                           " const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width,"
                           " c.height).data.buffer);"
                           " return new Set(d).size })()", place)
        assert colours > 5, "chart %d is blank" % place
    rules = page.get(CHART % "CTF resolution" + ".options.rules.filter((r) => !r.move).map((r) => [r.value, r.text])")
    assert rules and rules[0][0] == 10 and "rejects > 10" in rules[0][1], rules


def test_a_median_runs_where_there_are_values(page):
    page.open("overview")
    assert page.get("[...ice.running_median([1, 2, 3, 4], 25)].every(isNaN)"), "a median of four"
    assert page.get("[...ice.running_median([5, 1, NaN, 3, 2, 4, 9], 25)]")[0] == 3.5
    there = page.get("[...ice.running_median([5, 1, 3, 2, 4, 9, 8], 5)].map((v) => v === v)")
    assert there == [False] * 2 + [True] * 3 + [False] * 2


STRIP = """
const chart = [...ice.charts].filter((c) => c.node.matches('.series') && c.node.isConnected)[arguments[0]], k = chart.canvas;
const ratio = k.width / chart.plot.clientWidth, context = k.getContext('2d'), from = Math.ceil((chart.box.right + 5) * ratio);
const probe = document.createElement('canvas').getContext('2d');
probe.fillStyle = ice.colour('--bar');
probe.fillRect(0, 0, 1, 1);
const bar = probe.getImageData(0, 0, 1, 1).data, data = context.getImageData(from, 0, k.width - from, k.height).data;
let count = 0;
for (let i = 0; i < data.length; i += 4) if ([0, 1, 2, 3].every((c) => Math.abs(data[i + c] - bar[c]) < 3)) count++;
return count;
"""


def test_each_chart_has_a_histogram_at_its_edge(page):
    page.open("overview")
    page.wait("[...ice.charts].filter((c) => c.node.matches('.series') && c.box && c.canvas.width).length >= 6", "six charts")
    for place in range(6):
        assert page.run(STRIP, place) > 100, "chart %d has no histogram" % place


def test_each_chart_has_its_numbers_as_a_table(page):
    page.open("overview")
    page.click("figure.series .small")
    page.wait("document.querySelectorAll('figure.series .twin:not([hidden]) tbody tr').length >= 50", "rows of the table")
    assert page.texts("figure.series .twin:not([hidden]) th")[:2] == ["number", "exposure"]
    page.click("figure.series .small")


def test_a_point_opens_its_exposure(page):
    page.open("overview")
    page.wait(CHART % "Defocus" + ".box", "the chart")
    place = page.get("(() => { const c = " + CHART % "Defocus" + "; const s = c.options.series[0]; const box ="
                     " (c.plot.scrollIntoView({block: 'center'}), c.plot.getBoundingClientRect()); const i = 20;"
                     " return [s.x[i], c.x(s.x[i]) / box.width, c.y(s.y[i] * s.factor) / box.height] })()")
    page.drag("figure.series .plot", place[1], place[2], place[1], place[2])
    page.wait("ice.route.view === 'exposure' && Number(ice.route.argument) === %d" % place[0], "the exposure of the point")


def test_a_drag_zooms_all_charts_and_a_double_click_shows_all(page):
    page.open("overview")
    page.wait(CHART % "Defocus" + ".box", "the chart")
    page.drag("figure.series .plot", 0.3, 0.5, 0.6, 0.5)
    page.wait("ice.query('z')", "the zoom in the address")
    ranges = page.wait("(() => { const all = [...ice.charts].filter((c) => c.node.matches('.series') && c.node.isConnected)"
                       ".map((c) => [c.x.low, c.x.high].join()); return new Set(all).size === 1 && all })()",
                       "one range in all charts")
    assert len(ranges) == 6
    low, high = (float(v) for v in ranges[0].split(","))
    assert 0 < low < high < 61, ranges[0]
    page.run("document.querySelector('figure.series .plot').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
    page.wait("!ice.query('z')", "all again")


# [kept, all] by the threshold of now, counted from the rows; false until the page shows the same.
KEPT = """(() => {
const { rows } = ice.store, limit = ice.threshold('res', '>');
let all = 0, kept = 0;
for (let i = 0; i < rows.length; i++) if (rows.state[i] < 2) { all++; if (!(rows.columns.res[i] > limit)) kept++; }
const want = 'would keep ' + ice.count(kept) + ' of ' + ice.count(all);
return document.querySelector('#would-keep').textContent === want && [kept, all];
})()"""


def kept(page):
    return page.wait(KEPT, "the count of what would be kept")


def test_a_threshold_counts_what_it_would_keep(page):
    page.open("overview?t=")
    page.wait("document.querySelectorAll('figure.series .handle').length >= 6", "handles")
    page.run("document.querySelector('[aria-label=\"CTF resolution: leave out above\"]').focus()")
    page.run("ice.set_threshold('res', '>', 4)")
    count, of = kept(page)
    assert page.get("ice.threshold('res', '>')") == 4 and 0 < count < of, (count, of)
    page.keys("ARROW_UP", "ARROW_UP", "PAGE_UP")
    page.wait("ice.threshold('res', '>') > 4", "a handle that obeys keys")
    assert kept(page)[0] >= count
    assert "res%3E" in page.get("location.hash"), page.get("location.hash")
    # By hand: from where the handle is to the lower third of the chart.
    before = page.get("ice.threshold('res', '>')")
    page.drag("[aria-label='CTF resolution: leave out above']", 0.5, 0.5, 0.5, 3)
    page.wait("ice.threshold('res', '>') < %r" % before, "a handle that obeys the hand")
    assert kept(page)[0] < of
    page.go("overview")
    page.wait("!ice.thresholds().length && document.querySelector('.kept').hidden &&"
              " !document.querySelector('#would-keep')", "no threshold")


def test_throughput_sums_to_all_exposures(page):
    page.open("overview")
    total = page.wait("(() => { const c = [...ice.charts].find((c) => c.options.name === 'throughput'); return c &&"
                      " c.options.series.length === 4"
                      " && c.options.series[3].y.reduce((a, b) => a + b, 0) })()", "bars")
    assert total == page.get("ice.store.rows.length")
    page.wait("[...ice.charts].find((c) => c.options.name === 'latency').options.x.names.length >= 5",
              "a latency for each stage")
