#!/usr/bin/env python3
"""page_run.py: the controls of the page, in a browser, on a session that runs: retry, mark, a rule for what comes, drain and
stop. What the page does and what the command line does stand in one history, which both show."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import web
from server import wait_for
from web import BIN, ICESTREAM

RELAY = os.path.join(BIN, "../tests/relay")
SCRATCH = tempfile.mkdtemp(prefix="icestream-page-run-")
SESSION = os.path.join(SCRATCH, "session")
GOOD = "document.querySelector('#section-controls .answer.good')"


def write_graph():
    """A source, a stage that is slow, so that the session runs for long, and one that fails the fourth item."""
    for name in ("source", "relay"):
        path = os.path.join(SCRATCH, name + ".sh")
        with open(path, "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\nexec '{RELAY}' {name} \"$@\"\n")
        os.chmod(path, 0o755)
    graph = os.path.join(SCRATCH, "graph.yaml")
    with open(graph, "w", encoding="utf-8") as file:
        file.write(f"programs: [{SCRATCH}/source.sh, {SCRATCH}/relay.sh]\nstages:\n"
                   f"  source: {{program: {SCRATCH}/source.sh, count: 50000}}\n"
                   f"  slow: {{program: {SCRATCH}/relay.sh, from: source, work: 0.05}}\n"
                   f"  one: {{program: {SCRATCH}/relay.sh, from: slow, fail_at: 3}}\n")
    return graph


def start():
    return subprocess.Popen([ICESTREAM, "run", write_graph(), "--session", SESSION], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def planned(run):
    """Tells whether the run has written its plan; fails where it has ended."""
    assert run.poll() is None, run.communicate()[0]
    return os.path.exists(os.path.join(SESSION, "log", "plan.json"))


def command(*words):
    return subprocess.run([ICESTREAM, words[0], "--session", SESSION, *words[1:]], capture_output=True, text=True,
                          check=True).stdout


def status():
    return json.loads(command("status", "--json"))


def items(page):
    return page.driver.execute_async_script("const done = arguments[0]; ice.api('api/items').then(done);")


def history(page, by):
    """Returns the last change, which both the command line and the page must show."""
    last = status()["changes"][-1]
    assert last["by"] == by, last
    page.wait("ice.store.status.changes.length === arguments[0]", "the history", len(status()["changes"]))
    return last


def controls(page):
    """Opens the controls anew: no answer of before is there."""
    page.run("location.reload(); window.ice = null")
    page.wait("window.ice && ice.store.session && ice.store.status && document.querySelector('[data-may=drain]')", "controls")


def retry(page):
    page.wait("document.querySelector('[data-may=retry][data-stage=one]')", "the item that failed")
    page.click("[data-may=retry][data-stage=one]")
    page.wait(GOOD, "the answer")
    assert history(page, "retry")["peer"], status()["changes"]
    failed = next(number for number, name in zip(*[items(page)[key] for key in ("n", "name")]) if name.endswith("0003"))
    page.wait(f"ice.store.rows.attempts[ice.store.rows.at.get({failed})] > 1", "it went through again")


def mark(page):
    """Marks by the page; the command line takes it back, and the page shows that."""
    controls(page)
    page.write("#mark-numbers", "2")
    page.write("#mark-why", "crack")
    page.click("#mark-send")
    page.wait(GOOD, "the answer")
    entry = history(page, "mark")["marks"][0]
    assert (entry["mark"], entry["why"]) == ("reject", "crack"), entry
    page.wait("document.querySelector('#section-controls .scroll').textContent.includes('rejected by hand')", "the change")
    command("mark", "--clear", entry["id"])
    page.wait("document.querySelector('#section-controls .scroll').textContent.includes('no longer marked')", "the change")
    assert "peer" not in history(page, "mark")


def rule(page):
    """A rule of the page rejects what comes, one of the command line replaces it, and the page shows both."""
    controls(page)
    page.write("#rule-stage", "one")
    page.write("#rule-value", "number > -1")
    page.click("#rule-send")
    page.wait(GOOD, "the answer")
    number = history(page, "set")["number"]
    page.wait("ice.store.status.stages.one.rejected > 0", "the rule rejects what comes")
    assert any("number" in reason and "(reject_if)" in reason for reason in items(page)["reasons"]), items(page)["reasons"]
    assert number == status()["changes"][-1]["number"]
    command("set", "one.reject_if=number > 100000")
    page.wait("document.querySelector('#section-controls .scroll').textContent.includes('number > 100000')", "the change")
    page.write("#rule-stage", "one")
    page.wait("document.querySelector('#section-controls').textContent.includes('Now: number > 100000')", "the rule")


def drain(page, run):
    controls(page)
    page.wait("!document.querySelector('[data-may=drain]').disabled", "a run")
    page.click("[data-may=drain]")
    output, _ = run.communicate(timeout=web.LIMIT)
    assert "draining" in output, output
    assert history(page, "drain")["peer"]
    page.wait("['finished', 'stopped'].includes(ice.store.status.state)", "the end of the run")
    page.wait("document.querySelector('#section-controls').textContent.includes('icestream run goes on')", "words")


def stop(page, run):
    page.wait("ice.store.status.state === 'running'", "the second run")
    page.wait("!document.querySelector('[data-may=stop]').disabled", "stop")
    page.click("[data-may=stop]")
    page.wait("document.querySelector('dialog.ask[open]')", "the question")
    assert run.poll() is None
    page.click("dialog.ask .danger")
    run.communicate(timeout=web.LIMIT)
    assert history(page, "stop")["peer"]
    page.wait("ice.store.status.state === 'stopped'", "the page to say so")


def main():
    web.need()
    runs, page, site = [start()], None, None
    try:
        wait_for(lambda: planned(runs[0]), "the run wrote no plan.json")
        site = web.Site(folder=SESSION)
        page = web.Page()
        page.visit(site, "controls")
        page.wait("ice.store.status.state === 'running'", "a run")
        for deed in (retry, mark, rule):
            deed(page)
        drain(page, runs[0])
        runs.append(start())
        stop(page, runs[1])
        complaints = page.complaints()
        assert not complaints, complaints
        print("ok")
    except BaseException:
        if page:
            page.shot(os.path.join(os.path.dirname(BIN), "tests", "page_run.png"))
        raise
    finally:
        for run in runs:
            if run.poll() is None:
                run.terminate()
                run.communicate()
        if page:
            page.close()
        if site:
            site.close()
        shutil.rmtree(SCRATCH, ignore_errors=True)


main()
sys.exit(0)
