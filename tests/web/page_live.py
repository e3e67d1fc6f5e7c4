"""The page shows what comes while it is open, and outlives the end of the server and of the run."""
import signal

import make_session
from server import wait_for

SITE = {"exposures": 40, "running": True, "seed": 2}


def rows(page):
    return page.get("ice.store.rows.length")


def test_new_exposures_come_by_themselves(page):
    page.open("exposures")
    page.wait("ice.store.connection === 'live'", "the stream of events")
    before = rows(page)
    page.site.session.add(3)
    page.wait("ice.store.rows.length === %d" % (before + 3), "three more exposures")
    page.wait("document.querySelector('.cell .first').textContent === '#%d'" % (before + 3), "the newest at the top")
    page.wait("document.querySelector('#fact-seen .value').textContent === '%d'" % (before + 3), "the number in the"
                                                                                                 " head bar")


def test_new_exposures_wait_while_somebody_looks_further_down(page):
    page.open("exposures")
    page.wait("ice.store.connection === 'live' && document.querySelectorAll('.cell').length > 5", "cells")
    page.run("document.querySelector('.scroller').scrollTop = 400")
    page.wait("document.querySelector('.scroller').scrollTop === 400", "the place")
    above = page.text(".cells[aria-rowindex='3'] .first")
    page.site.session.add(2)
    page.wait("!document.querySelector('#gallery-new').hidden && document.querySelector('#gallery-new').textContent"
              " === '2 new'", "the news")
    assert page.text(".cells[aria-rowindex='3'] .first") == above, "pictures moved under the eye"
    page.click("#gallery-new")
    page.wait("document.querySelector('.scroller').scrollTop === 0 && document.querySelector('.cell"
              " .first').textContent === '#%d'" % rows(page), "the newest")


def test_an_exposure_that_changes_is_drawn_anew(page):
    page.open("exposures")
    page.wait("ice.store.rows.length > 0", "exposures")
    number, stage = page.get("(() => { const r = ice.store.rows; for (let i = 0; i < r.length; i++)"
                             " if (r.state[i] === 0) return [r.n[i], ice.store.stage_name(r.stage[i])] })()")
    page.open("exposure/%d" % number)
    page.wait("document.querySelector('.stages tbody tr')", "the stages")
    page.site.session.set_state(stage, number - 1, make_session.FAILED, "a new reason <b>in bold</b>")
    page.wait("document.querySelector('.note.critical').textContent === 'a new reason <b>in bold</b>'",
              "the new reason, as text")


def test_a_page_outlives_its_server(page):
    page.open("ledger?f=done&sort=n")
    page.wait("ice.store.connection === 'live' && document.querySelectorAll('.lines .entry').length > 10", "lines")
    before = rows(page)
    page.site.stop(signal.SIGKILL)
    page.wait("document.querySelector('#connection').textContent === 'no connection'", "the page says that nobody answers")
    page.site.session.add(2)
    page.site.start()
    page.wait("ice.store.connection === 'live'", "the connection is back")
    page.wait("ice.store.rows.length === %d" % (before + 2), "what came meanwhile")
    assert page.get("new Set(ice.store.rows.n.subarray(0, ice.store.rows.length)).size") == before + 2, "double rows"
    assert page.get("location.hash") == "#ledger?f=done&sort=n"
    page.driver.get_log("browser")  # the browser notes every attempt that found no server


def clients(page):
    """The streams of events that the server knows of, in its metrics."""
    text = page.driver.execute_async_script("const done = arguments[0]; fetch('metrics').then((it) => it.text()).then(done)")
    return next(int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("icestream_event_clients"))


def test_a_hidden_page_gives_its_stream_back(page):
    """A browser has six connections to a server in all its tabs: one that nobody sees holds none, and catches up later."""
    page.visit(page.site, "overview")
    page.wait("ice.store.connection === 'live'", "the stream of events")
    before = rows(page)
    hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});" \
        " document.dispatchEvent(new Event('visibilitychange'))"
    page.run(hide % "true")
    page.site.session.add(1)  # who is gone is noticed when something is sent to him
    wait_for(lambda: clients(page) == 0, "no stream is open")
    assert rows(page) == before
    page.run(hide % "false")
    page.wait("ice.store.rows.length === %d" % (before + 1), "what came meanwhile")
    page.wait("ice.store.connection === 'live'", "the stream of events again")


def test_where_events_do_not_come_through_the_page_asks(page):
    """As behind a proxy that lets no stream through: the page asks every two seconds, and says so."""
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*api/events*"]})
    try:
        page.visit(page.site, "overview")
        page.wait("document.querySelector('#connection').textContent === 'asking every 2 s'", "the page says that it asks")
        before = rows(page)
        page.site.session.add(2)
        page.wait("ice.store.rows.length === %d" % (before + 2), "what came")
        assert page.get("ice.store.connection") == "polling"
    finally:
        page.driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    page.wait("ice.store.connection === 'live'", "events, as soon as they come through")
    page.shown = None
    page.complaints()  # the browser notes every attempt that was blocked


def test_the_end_of_a_run_is_shown(page):
    page.open("overview")
    page.wait("document.querySelector('#session-state').textContent.includes('running')", "a running session")
    page.site.session.release()
    page.wait("document.querySelector('#session-state').textContent.match(/stopped|finished/)", "the end of the run")
    page.open("exposures")
    page.wait("document.querySelectorAll('.cell').length > 5", "the session is still there")
