"""Gallery, one exposure, ledger and grid squares."""
import page_overview as overview


def test_the_gallery_shows_the_newest_first(page):
    page.open("exposures")
    page.wait("document.querySelectorAll('.cell').length > 5", "cells")
    newest = page.get("ice.store.rows.n[ice.store.rows.length - 1]")
    assert page.text(".cell .first") == "#%d" % newest
    page.wait("[...document.querySelectorAll('.cell img')].filter((i) => i.naturalWidth > 0).length > 3", "thumbnails")
    assert page.get("Math.max(...[...document.querySelectorAll('.cell img')].map((i) => Math.max(i.naturalWidth,"
                    " i.naturalHeight)))") <= 192


def test_the_gallery_filters_and_sorts(page):
    page.open("exposures")
    page.wait("document.querySelectorAll('.cell').length > 5", "cells")
    page.write(".view-exposures .filter", "rejected")
    page.wait("ice.query('f') === 'rejected'", "the filter in the address")
    rejected = page.get("ice.store.rows.state.subarray(0, ice.store.rows.length).filter((s) => s === 2).length")
    page.wait("document.querySelectorAll('.cell').length === %d" % rejected, "the rejected exposures")
    page.write(".view-exposures .filter", "res<4")
    page.wait("[...document.querySelectorAll('.cell')].length && [...document.querySelectorAll('.cell')].every((c) =>"
              " ice.store.rows.columns.res[ice.store.rows.at.get(Number(c.querySelector('.first').textContent.slice(1)))] < 4)",
              "res<4")
    page.write(".view-exposures .filter", "nosuch<4")
    page.wait("document.querySelector('#gallery-count').textContent.includes('nosuch')", "the name of the column that"
                                                                                         " is not there")
    page.write(".view-exposures .filter", "")
    page.wait("!ice.query('f')", "no filter")
    page.write(".view-exposures select", "-res")
    values = page.wait("ice.query('sort') === '-res' && [...document.querySelectorAll('.cells')].sort((a, b) =>"
                       " a.ariaRowIndex - b.ariaRowIndex)"
                       ".flatMap((l) => [...l.children]).map((c) => ice.store.rows.columns.res[ice.store.rows.at.get("
                       "Number(c.querySelector('.first').textContent.slice(1)))]).filter((v) => v === v)", "the order")
    assert values == sorted(values, reverse=True) and len(values) > 5, values


def test_the_gallery_draws_picks_over_pictures(page):
    page.open("exposures?f=done&picks=1")
    page.wait("[...document.querySelectorAll('.cell canvas')].some((c) => { const d = c.width && c.getContext('2d')"
              ".getImageData(0, 0, c.width, c.height).data; return d && d.some((v) => v > 0) })", "circles")


def test_an_exposure_shows_all_that_is_known(page):
    page.open("exposure/2")
    page.wait("document.querySelector('.micrograph').naturalWidth > 100", "the micrograph")
    picks = page.wait("document.querySelector('#picks-count').textContent.match(/^(\\d+) picks/)", "picks")
    drawn = "(() => { const c = document.querySelector('.large canvas'); const d = " \
        "c.getContext('2d').getImageData(0, 0, c.width, c.height).data;" \
        " let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i]) n++; return n })()"
    before = page.wait(drawn, "circles")
    assert int(picks[1]) >= 30
    page.run("const s = document.querySelectorAll('.tools input[type=range]')[0]; s.value = s.min;"
             " s.dispatchEvent(new Event('input'))")
    page.wait(drawn + " < %d" % before, "smaller circles")
    page.keys("p")
    page.wait("document.querySelector('.large canvas').hidden", "no picks after the key p")
    page.keys("p")
    page.wait("document.querySelector('.spectrum').naturalWidth > 20", "the spectrum")
    page.wait("[...ice.charts].find((c) => c.options.name === 'ctf').options.series.length >= 2", "the fit")
    page.wait("[...ice.charts].find((c) => c.options.name === 'motion').options.series.length >= 2", "the motion")
    stages = page.wait("[...document.querySelectorAll('.stages tbody tr')].map((r) => r.firstChild.textContent)", "stages")
    assert {"watcher", "motion-corrector", "ctf-estimator", "lowpass-picker"} <= set(stages), stages
    facts = page.texts(".columns dt")
    assert "Defocus" in facts and "CTF resolution" in facts, facts


SPECTRUM = """
const k = Array.from({length: 400}, (v, i) => i / 1600), fit = k.map((s) => Math.sin(900 * s * s) ** 2);
const data = k.map((s, i) => (i < 15 ? 5 : 0.3 - 0.5 * s + 0.05 * Math.exp(-8 * s) * fit[i]));
const off = (y) => Math.max(...fit.map((v, i) => (i < 30 || i >= 320 ? 0 : Math.abs(y[i] - v))));
return [off(ice.scaled_spectrum({ k, fit, data, resolution: 5 })), off(data)];
"""


def test_rings_that_grow_faint_come_to_lie_on_the_fit(page):
    page.open("exposure/2")
    scaled, before = page.run(SPECTRUM)
    assert scaled < 0.3 < 0.7 < before, (scaled, before)
    assert page.get("ice.scaled_spectrum({k: [1, 2], data: [3, 4], fit: [1, 1]}).join()") == "3,4"
    page.wait("[...ice.charts].find((c) => c.options.name === 'ctf').options.summary.includes('scaled to the fit')", "its name")


def test_the_score_slider_shows_fewer_picks(page):
    page.open("exposure/2")
    page.wait("document.querySelector('#picks-count').textContent.match(/^\\d+ picks/)", "picks")
    page.wait("!document.querySelectorAll('.exposure .tools label')[1].hidden", "scores")
    page.run("const s = document.querySelectorAll('.exposure .tools input')[1]; s.value = (Number(s.min) +"
             " Number(s.max)) / 2;"
             " s.dispatchEvent(new Event('input'))")
    match = page.wait("document.querySelector('#picks-count').textContent.match(/^(\\d+) of (\\d+) picks/)", "a part of the picks")
    assert 0 < int(match[1]) < int(match[2])


def test_an_exposure_that_failed_says_why(page):
    page.open("overview")
    number = page.get("(() => { const r = ice.store.rows; for (let i = 0; i < r.length; i++) if (r.state[i] === 3)"
                      " return r.n[i] })()")
    page.open("exposure/%d" % number)
    page.wait("document.querySelector('.note.critical') &&"
              " document.querySelector('.note.critical').textContent.includes('no rings to fit')", "the reason")
    page.wait("document.querySelector('.stages').textContent.includes('no rings to fit')", "the reason at its stage")
    page.wait("document.querySelector('.view-exposure .log').textContent.includes('no rings to fit')", "the line of the log")


def test_next_and_previous_keep_the_order_of_the_gallery(page):
    page.open("exposures?sort=-res&f=done")
    page.wait("document.querySelectorAll('.cell').length > 5", "cells")
    order = page.texts(".cell .first")[:3]
    page.click(".cell")
    page.wait("ice.route.view === 'exposure'", "the exposure")
    page.keys("j")
    page.wait("'#' + ice.route.argument === %r" % order[1], "the next one in the order of the gallery")
    page.keys("j", "k")
    page.wait("'#' + ice.route.argument === %r" % order[1], "and back")
    page.keys("ESCAPE")
    page.wait("ice.route.view === 'exposures'", "the gallery")


def test_names_are_text(page):
    page.open("ledger?f=script")
    page.wait("document.querySelectorAll('.lines .entry').length === 1", "the exposure with markup in its name")
    name = page.text(".lines .entry .c-name")
    assert name in ("a<script>alert(1)</script>", "script>"), name
    assert page.count("main script") == 0
    for part in ("quoted", "日本", "nnnnnnnnnn"):
        page.open("ledger?f=" + part)
        page.wait("document.querySelectorAll('.lines .entry').length === 1", "the exposure called " + part)
        page.click(".lines .entry")
        page.wait("ice.route.view === 'exposure' &&"
                  " document.querySelector('.exposure-name').textContent.includes(arguments[0])", "its name", part)
        page.wait("document.querySelector('.micrograph').dataset.state === 'there' &&"
                  " document.querySelector('.micrograph').naturalWidth > 100", "its micrograph")


def test_the_ledger_has_a_reason_for_every_lost_exposure(page):
    page.open("ledger")
    page.wait("document.querySelectorAll('.lines .entry').length > 10", "lines")
    lost = page.get("(() => { const r = ice.store.rows; let n = 0; for (let i = 0; i < r.length; i++) if (r.state[i] >= 2)"
                    " { n++; if (!ice.reason_of(r, i)) return -1 } return n })()")
    assert lost > 0, "an exposure is lost without a reason"
    assert sum(overview.number(text) for text in page.texts(".reasons .amount")) == lost
    assert len(page.texts(".reasons li")) == 2, page.texts(".reasons li")
    page.click(".reasons a")
    shown = page.wait("ice.query('f') && document.querySelectorAll('.lines .entry').length", "the exposures of a reason")
    assert shown == overview.number(page.texts(".reasons .amount")[0])
    assert len(set(page.texts(".lines .entry .c-reason"))) == 1


def test_the_ledger_sorts_and_saves(page):
    page.open("ledger")
    page.wait("document.querySelectorAll('.lines .entry').length > 10", "lines")
    page.click(".entry.head .c-n button")
    page.wait("document.querySelector('.lines .entry[aria-rowindex=\"2\"] .c-n').textContent === '1'", "the first exposure first")
    assert page.get("document.querySelector('.head .c-n').getAttribute('aria-sort')") == "ascending"
    page.run("window.saved = null; ice.download = (name, type, text) => { window.saved = [name, text] }")
    page.run("[...document.querySelectorAll('.view-ledger button')].find((b) => b.textContent.includes('CSV')).click()")
    name, text = page.wait("window.saved", "the CSV file")
    lines = text.split("\r\n")
    assert name.endswith(".csv") and lines[0].startswith("number,exposure,square,hole,state,stage,reason")
    assert len(lines) == page.get("ice.store.rows.length") + 2 and '"it\'s ""quoted"" & more"' in text
    page.visit(page.site, "ledger")


def test_the_grid_has_its_squares_and_holes(page):
    page.open("grid")
    page.wait("document.querySelectorAll('.square').length >= 2", "squares")
    assert page.count(".square .holes circle") > 20
    link = page.get("[...document.querySelectorAll('.square h3 a')].map((a) => a.textContent)")
    assert "1001" in link, link
    counted = page.get("(() => { const r = ice.store.rows; let n = 0; for (let i = 0; i < r.length; i++) if"
                       " (ice.square_of(r, i) === '1001') n++; return n })()")
    assert str(counted) + " exposures" in page.text("#square-1001 h3")
    page.write(".view-grid select", "lost")
    page.wait("document.querySelector('.legend').textContent.includes('Lost')", "another colour")
    page.click("#square-1001 h3 a")
    page.wait("ice.route.view === 'exposures' && ice.query('f') === 'square:1001'", "the exposures of the square")
    page.wait("document.querySelector('#gallery-count').textContent.startsWith('%d of')" % counted, "its exposures alone")
