"""System, alarms and controls in a real browser. Each test takes the page of web.py. Controls are caught before they
leave the page, but for those that go through the server to the history of the session."""
import json
import subprocess

import synthetic
import web

CATCH = "window.caught = []; window.real_post = window.real_post || ice.post; ice.post = async (body) => {" \
    " window.caught.push(body); return { v: 1, ok: true, changed: 1, message: 'done' }; };" \
    " ice.store.session.may = ['retry', 'redo', 'drain', 'stop', 'silence', 'mark', 'rules', 'classes'];"


# Two alarms that fire and one that has cleared, in place of those of the server.
GIVEN = """
window.given = { v: 1, now: Date.now() / 1000, notify: null, rules: [
  { alarm: 'gpu', severity: 'warning', threshold: 87, unit: '°C', for: 300, summary: 'too hot' }], alarms: [
  { alarm: 'gpu', subject: 'GPU 3', severity: 'warning', state: 'firing', text: 'GPU 3 has 88 °C.', since: 1e9 },
  { alarm: 'does_not_add_up', subject: '', severity: 'critical', state: 'firing', text: '<b>lost</b>', since: 1e9 },
  { alarm: 'ice', subject: '', severity: 'info', state: 'cleared', text: 'ice', since: 1e9, ended: 1e9 + 60 }] };
window.asked = window.loads = 0;
const real = ice.api, load = ice.store.load_alarms;
ice.api = (path, more) => path === 'api/alarms' ? (window.asked++, Promise.resolve(window.given)) : real(path, more);
ice.store.load_alarms = () => { window.loads++; return load(); };
ice.store.load_alarms();
"""


def enable(page):
    """Lets all controls work as on a session that runs, without a server behind them."""
    page.run("location.reload(); window.ice = null")
    page.wait("window.ice && ice.store.session && ice.store.status && ice.store.rows.length > 0 &&"
              " ice.open_sections().some((it) => it.drawn)", "the page")
    page.run(CATCH)


def caught(page):
    return page.get("window.caught")


def test_system(page):
    """Every process has a row; the log is read, filtered by level and text."""
    page.open("system")
    page.wait("document.querySelectorAll('.instances tbody tr').length > 0", "processes")
    names = page.get("[...document.querySelectorAll('.instances tbody th')].map((it) => it.textContent)")
    stages = page.get("Object.values(ice.store.status.stages).flatMap((it) => it.instances.map((one) => one.name))")
    assert names == stages and len(names) >= 5, (names, stages)
    assert page.get("document.querySelectorAll('#system-disks .meter').length") >= 1
    assert "free of" in page.text("#system-disks")
    page.wait("document.querySelectorAll('.log li').length >= 1 &&"
              " document.querySelector('.log').textContent.includes('run 1')", "the launcher's log")
    page.write("[aria-label='Process whose log is shown']", "lowpass-picker.0")
    page.wait("document.querySelectorAll('.log .level-warn').length > 0", "warnings of the picker")
    assert "log=" in page.get("location.hash")
    page.write("[aria-label='Least level']", "WARN")
    assert page.get("document.querySelectorAll('.log .level-info').length") == 0
    page.run("const it = document.querySelector('[aria-label=\"Text to find in the log\"]'); it.value = 'no such text';"
             " it.dispatchEvent(new Event('input'))")
    assert page.text(".log") == "No lines."


# Status as of a machine with two GPUs, one of them hot, and of disks that fill; it stays while the test looks.
MACHINE = """
const given = Object.assign({}, ice.store.status, { state: 'running',
  gpus: [{ index: 0, name: 'Aye', util: 0.8, memory_used: 6e9, memory_total: 24e9, temperature: 71, power: 190.5 },
    { index: 1, name: 'Bee', util: 0.1, memory_used: 1e9, memory_total: 24e9, temperature: 90, power: 300 }],
  disk: [{ place: 'session', path: '/s', free: 360e9, total: 1e12, rate: 1e7 },
    { place: 'watch', path: '/w', free: 5e10, total: 1e12, rate: 0 }] });
Object.defineProperty(ice.store, 'status', { get: () => given, set() {} });
ice.store.tell('status');
"""


def test_gpus_and_the_hours_that_are_left(page):
    page.open("system")
    enable(page)
    page.run(MACHINE)
    page.wait("document.querySelectorAll('#system-gpus .gpu').length === 2", "two GPUs")
    first, second = page.texts("#system-gpus .gpu")
    assert "GPU 0 · Aye" in first and "80 %" in first and "71 °C" in first and "▲" not in first, first
    assert "▲ 90 °C" in second, second
    values = page.get("[...document.querySelectorAll('#system-gpus [role=meter]')].map((it) => it.ariaValueNow).join()")
    assert values == "80,25,10,4", values
    filling, full = page.texts("#system-disks .meter")
    assert "10 h" in filling and "left at" in filling and "▲" in filling, filling  # 360 GB at 10 MB/s: less than 12 h
    assert "left" not in full and "▲" in full, full  # 5 % are free
    page.shown = None


def test_alarms(page):
    """Firing alarms stand first with their texts; a silence is sent with its end; cleared ones are told apart."""
    page.open("alarms")
    page.wait("document.getElementById('alarms-firing')", "the section")
    enable(page)
    page.run(GIVEN)
    page.wait("document.getElementById('alarms-firing').textContent.includes('does not add up')", "two alarms")
    page.wait("document.getElementById('alarm-badge').textContent === '▲ 2 alarms'", "the badge in the head bar")
    page.wait("[...document.querySelectorAll('[aria-live=polite]')].some((it) => it.textContent.includes('GPU 3 has 88 °C'))",
              "an alarm that is spoken")
    texts = page.get("[...document.querySelectorAll('#alarms-firing .alarm')].map((it) => it.textContent)")
    assert texts[0].startswith("▲does not add up") and "<b>lost</b>" in texts[0], texts
    assert "GPU 3 has 88 °C." in texts[1] and "warning" in texts[1], texts
    assert page.get("document.querySelectorAll('#alarms-cleared .alarm').length") == 1
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    try:
        page.wait("innerWidth === 390 && document.scrollingElement.scrollWidth <= 390", "an alarm within a narrow window", limit=30)
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.write("[data-alarm=gpu] select", "14400")
    page.wait("document.querySelector('[data-alarm=gpu]').textContent.includes(\" gpu 'GPU 3' --for 14400\")", "the command line")
    page.click("[data-alarm=gpu] button")
    page.wait("window.caught.length === 1", "the silence is sent")
    body = caught(page)[0]
    now = page.get("Date.now() / 1000")
    assert body["do"] == "silence" and body["alarm"] == "gpu" and body["subject"] == "GPU 3", body
    assert abs(body["until"] - now - 14400) < 120, body
    page.run("window.given.alarms = []; window.given.complaint = 'web/alarms.jsonl: no space'; ice.store.load_alarms()")
    page.wait("document.getElementById('alarms-firing').textContent.includes('Nothing fires')", "calm")
    page.wait("document.getElementById('alarm-badge').textContent === 'no alarms'", "no badge")
    assert "cannot be kept: web/alarms.jsonl: no space." in page.text("#section-alarms"), page.text("#section-alarms")
    asked, loads = page.get("[window.asked, window.loads]")
    assert asked == loads, "%d fetches for %d loads: the badge and the section share one" % (asked, loads)


def test_retry_and_stop(page):
    """Retry names the number; stop asks once, and Escape leaves all as it was."""
    page.open("controls")
    enable(page)
    page.wait("document.querySelector('[data-may=retry][data-stage=ctf-estimator]')", "a failed exposure")
    page.click("[data-may=retry][data-stage=ctf-estimator]")
    page.wait("window.caught.length === 1", "the retry is sent")
    assert caught(page)[0] == {"do": "retry", "stage": "ctf-estimator"}
    page.wait("document.querySelector('.answer.good')", "the answer is shown")
    page.run("ice.store.status.state = 'running'; ice.store.session.state = 'running'; ice.store.tell('status')")
    page.wait("document.querySelector('[data-may=stop]').disabled === false", "stop")
    page.click("[data-may=stop]")
    page.wait("document.querySelector('dialog.ask[open]')", "the question")
    assert page.get("document.activeElement.textContent") == "Cancel"
    page.keys("ESCAPE")
    page.wait("!document.querySelector('dialog.ask')", "the question is gone")
    assert len(caught(page)) == 1
    page.click("[data-may=stop]")
    page.wait("document.querySelector('dialog.ask[open]')", "the question")
    page.click("dialog.ask .danger")
    page.wait("window.caught.length === 2", "the stop is sent")
    assert caught(page)[1] == {"do": "stop"}
    page.click("[data-may=drain]")
    page.wait("window.caught.length === 3", "the drain is sent")
    assert caught(page)[2] == {"do": "drain"}


def test_redo(page):
    """An exposure is made again from a stage on; not from one that finds exposures, nor from one that gathers them."""
    page.open("exposure/2")
    enable(page)
    page.wait("document.querySelector('.stages [data-may=redo]')", "redo")
    stages = page.get("[...document.querySelectorAll('.stages [data-may=redo]')].map((it) => it.dataset.stage)")
    assert stages == ["motion-corrector", "ctf-estimator", "lowpass-picker", "extractor"], stages
    name = page.get("ice.store.rows.name[ice.store.rows.at.get(2)]")
    # At one stroke: the table is drawn anew while the page takes in what has come.
    page.run("document.querySelector('.stages [data-stage=lowpass-picker]').click()")
    page.wait("window.caught.length === 1", "the redo is sent")
    assert caught(page)[0] == {"do": "redo", "stage": "lowpass-picker", "items": [name]}, caught(page)
    page.wait("document.querySelector('.view-exposure .answer.good')", "the answer is shown")
    title = page.get("document.querySelector('.stages [data-stage=lowpass-picker]').title")
    assert title.startswith("icestream redo --session ") and " --stage lowpass-picker " in title, title


def test_marks(page):
    """Numbers and ranges become a mark; many at once ask with their number; the command line is shown."""
    page.open("controls")
    enable(page)
    page.write("#mark-numbers", "1, 3-4")
    page.write("#mark-why", "ice")
    page.wait("document.querySelector('#section-controls .command code') &&"
              " document.querySelector('#section-controls').textContent.includes('3 exposures')", "the count")
    words = page.get("[...document.querySelectorAll('.command code')].map((it) => it.textContent).join('\\n')")
    assert "icestream mark --session " in words and "--reject" in words and "--why ice" in words, words
    page.click("#mark-send")
    page.wait("window.caught.length === 1", "the mark is sent")
    assert caught(page)[0] == {"do": "mark", "n": [1, 3, 4], "mark": "reject", "why": "ice"}
    page.write("#mark-numbers", "1-100000")
    page.click("#mark-send")
    page.wait("document.querySelector('dialog.ask[open]')", "the question")
    count = page.get("ice.store.rows.length")
    assert str(count) in page.text("dialog.ask h2"), page.text("dialog.ask h2")
    page.keys("ESCAPE")
    page.wait("!document.querySelector('dialog.ask')", "the question is gone")
    assert len(caught(page)) == 1
    page.write("#mark-numbers", "1 x")
    page.click("#mark-send")
    assert "is no number" in page.text("#section-controls")
    assert len(caught(page)) == 1


def test_rules(page):
    """A rule goes to its stage, another parameter as a value; the command line says the same."""
    page.open("controls")
    enable(page)
    assert "Now: rlnCtfMaxResolution > 10" in page.text("#section-controls")
    page.write("#rule-value", "rlnCtfMaxResolution > 6")
    words = page.get("[...document.querySelectorAll('.command code')].map((it) => it.textContent).join('\\n')")
    assert "'lowpass-picker.reject_if=rlnCtfMaxResolution > 6'" in words, words
    page.click("#rule-send")
    page.wait("window.caught.length === 1", "the rule is sent")
    assert caught(page)[0] == {"do": "rules", "stage": "lowpass-picker", "text": "rlnCtfMaxResolution > 6"}


def test_choice_of_classes(page):
    """Classes are chosen by keyboard; the choice names its snapshot; dropping many asks with the number."""
    page.open("classes")
    enable(page)
    page.wait("document.querySelectorAll('.class-tile').length > 0", "classes")
    page.run("const it = document.querySelector('[data-may=classes]'); it.disabled = false; it.click()")
    page.wait("document.querySelectorAll('.class-tile[role=checkbox]').length > 2", "boxes to check")
    kept = page.get("[...document.querySelectorAll('.class-tile[aria-checked=true]')]"
                    ".map((it) => Number(it.dataset.class))")
    page.run("document.querySelector('.class-tile[aria-checked=true]').focus()")
    dropped = page.get("Number(document.activeElement.dataset.class)")
    page.keys(" ")
    page.wait("document.activeElement.getAttribute('aria-checked') === 'false'", "unchecked, still in focus")
    rest = sorted(number for number in kept if number != dropped)
    words = page.text(".choice")
    iteration = page.get("ice.route.query.get('it')") or page.driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; ice.api('api/classes').then((it) => done(it.iteration));")
    assert f"--iteration {iteration} --classes {','.join(map(str, rest))} --keep" in words, words
    page.click(".choice .main")
    page.wait("window.caught.length === 1 || document.querySelector('dialog.ask[open]')", "sent, or a question")
    if not caught(page):
        page.click("dialog.ask .danger")
        page.wait("window.caught.length === 1", "sent")
    assert caught(page)[0] == {"do": "classes", "iteration": int(iteration), "keep": rest}, caught(page)
    page.wait("document.querySelector('.choice').hidden", "the choice is over")


def history(page):
    """The changes of the session, as `icestream status` tells them."""
    out = subprocess.run([web.ICESTREAM, "status", "--session", page.site.folder, "--json"], capture_output=True,
                         text=True, check=True)
    return json.loads(out.stdout)["changes"]


def test_a_mark_through_the_server(page):
    """A mark of the page stands in the history of the session, and is taken back like one of the command line."""
    page.open("controls")
    page.run("location.reload(); window.ice = null")
    page.wait("window.ice && ice.store.rows.length > 0 && document.getElementById('mark-numbers')", "the page")
    before = len(history(page))
    page.write("#mark-numbers", "2")
    page.write("#mark-why", "a crack & <b>")
    page.click("#mark-send")
    page.wait("document.querySelector('#section-controls .answer.good')", "the answer")
    after = history(page)
    assert len(after) == before + 1, after
    assert "a crack & <b>" in json.dumps(after[-1]), after[-1]
    page.wait("document.querySelector('#section-controls .scroll').textContent.includes('a crack & <b>')", "the history")
    page.write("#mark-numbers", "2")
    page.write("#mark-choice", "")
    page.click("#mark-send")
    page.wait("ice.store.status.changes.length === arguments[0]", "taken back", before + 2)
    assert len(history(page)) == before + 2


def test_a_choice_of_classes_through_the_server(page):
    """A choice of the page binds the particles of its snapshot, and is undone."""
    page.open("classes")
    page.wait("document.querySelectorAll('.class-tile').length > 0", "classes")
    newest = page.driver.execute_async_script(
        "const done = arguments[0]; ice.api('api/classes').then((it) => done(it.iteration));")
    synthetic.star(page.site.session.path("classifier", "run_it%03d_data.star" % newest), [
        ("particles", ["rlnImageName", "rlnClassNumber", "rlnCoordinateX", "rlnCoordinateY"],
         [("%06d@extractor/x.mrcs" % (i + 1), 1 + i % 16, 10.0 * i, 20.0) for i in range(64)])])
    before = len(history(page))
    page.click("[data-may=classes]")
    page.wait("document.querySelector('.class-tile[role=checkbox]')", "boxes to check")
    page.click(".class-tile[aria-checked=true]")
    page.click(".choice .main")
    page.wait("document.querySelector('#section-classes .answer.good') || document.querySelector('dialog.ask[open]')",
              "the answer, or a question")
    if page.count("dialog.ask[open]"):
        page.click("dialog.ask .danger")
        page.wait("document.querySelector('#section-classes .answer.good')", "the answer")
    assert len(history(page)) == before + 1, history(page)
    page.wait("document.querySelectorAll('.class-tile.dropped').length > 0 &&"
              " [...document.querySelectorAll('.class-tile')].every((it) => it.textContent.includes('by hand'))",
              "classes chosen by hand")
    page.click("[data-may=classes]")
    page.wait("!document.querySelector('.choice').hidden", "the choice again")
    page.run("[...document.querySelectorAll('.choice button')].find((it) => it.textContent === 'Undo the choice').click()")
    page.wait("document.querySelector('.choice').hidden", "the choice is undone")
    assert len(history(page)) == before + 2, history(page)
