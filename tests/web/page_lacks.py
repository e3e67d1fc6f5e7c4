"""Sessions that lack something: stages, columns, pictures, exposures. The rest is drawn."""
import make_session
import web


@web.shows(exposures=30, without=["motion-corrector", "classifier", "refiner"])
def test_what_a_graph_lacks_is_not_drawn(page):
    page.open("overview")
    page.wait("document.querySelectorAll('figure.series').length >= 4", "charts")
    assert "Total motion" not in page.texts("figure.series .title")
    tabs = page.texts("#tabs a")
    assert "Classes" not in tabs and "Map" not in tabs and {"Overview", "Exposures", "Ledger"} <= set(tabs), tabs
    page.wait("document.querySelector('#fact-map').hidden", "no map in the head bar")
    assert page.texts(".stage h3") == ["watcher", "ctf-estimator", "lowpass-picker", "extractor"]
    page.open("classes")
    page.wait("document.querySelector('#tabs a[aria-current]').textContent === 'Overview'", "the overview instead of"
                                                                                            " a tab that is not there")


@web.shows(exposures=30, without=["motion-corrector", "classifier", "refiner"], pictures=4)
def test_a_missing_picture_has_a_placeholder(page):
    page.open("exposures?sort=n")
    page.wait("document.querySelectorAll('.no-picture').length >= 2", "placeholders")
    page.wait("[...document.querySelectorAll('.cell img')].filter((i) => i.naturalWidth > 0).length >= 2",
              "the pictures that are there")
    page.open("exposure/20")
    page.wait("document.querySelector('.large.no-picture') && document.querySelector('.stages tbody tr')", "all but the picture")


@web.shows(exposures=30, display=False)
def test_nothing_is_asked_for_that_no_item_names(page):
    """Sessions of before have no thumbnails: placeholders, and not one request that is answered with "not found"."""
    page.open("exposures?sort=n&picks=1")
    page.wait("document.querySelectorAll('.no-picture').length >= 10", "placeholders")
    page.wait("[...document.querySelectorAll('.cell canvas')].some((c) => c.width > 100)", "picks all the same")
    page.open("exposure/2")
    page.wait("document.querySelector('.micrograph').naturalWidth > 100", "the micrograph, which is there")
    page.wait("document.querySelector('.spectrum-frame.no-picture') && document.querySelector('.stages tbody tr')",
              "all but the spectrum")
    asked = page.get("performance.getEntriesByType('resource').map((it) => it.name).filter((name) =>"
                     " /thumb|spectrum|api.(ctf|motion)/.test(name))")
    assert asked == [], asked
    page.open("exposure/12345")
    page.wait("document.querySelector('.exposure-name').textContent.includes('no exposure 12345')", "no such exposure")


@web.shows(exposures=30, display=False)
def test_numbers_that_say_the_same_are_shown_once(page):
    page.open("exposure/2")
    page.wait("document.querySelectorAll('.columns dt').length > 5", "the numbers")
    names = page.texts(".columns dt")
    assert len(names) == len(set(names)) and not [name for name in names if "icestream" in name or "rln" in name], names
    assert "Total motion" in names and "Picks" in names and "Total motion in pixels" not in names, names
    page.open("overview?all=1")
    page.wait("document.querySelectorAll('figure.series').length > 6", "all columns")
    titles = page.texts("figure.series .title")
    assert len(titles) == len(set(titles)) and not [title for title in titles if "icestream" in title], titles


@web.shows(exposures=30, display=False)
def test_reasons_are_short_and_alike_ones_are_one(page):
    """The column shows the reason and not the path before it; two damaged movies are one line of the reasons."""
    page.open("ledger")
    reasons = ["/data/of the/micro scope/EPU_%d/mov_%d.tiff: strip %d of 10 cannot be read" % (k, k, 7 * k) for k in (1, 2)]
    for k, reason in enumerate(reasons):
        page.site.session.set_state("watcher", k + 1, make_session.FAILED, reason)
    page.wait("ice.store.rows.reasons.some((r) => r.includes('strip 14'))", "the reasons")
    page.wait("[...document.querySelectorAll('.reasons li')].some((it) => it.textContent.endsWith('strip … of 10 cannot be read')"
              " && it.querySelector('.amount').textContent === '2')", "one line for both")
    page.write("#section-ledger .filter", "reason:strip")
    page.wait("document.querySelectorAll('.lines .entry').length === 2", "both lines")
    assert set(page.get("[...document.querySelectorAll('.lines .c-reason')].map((it) => it.title)")) == set(reasons)
    assert page.get("ice.short_reason('/a/b/mov_1.tiff: 3 e-/Å of a/b/gain.mrc, 1/Å')") == "mov_1.tiff: 3 e-/Å of gain.mrc, 1/Å"
    assert page.get("ice.short_reason('/a/b/mov_1.tiff: no frames', 'b/mov_1')") == "no frames"
    seen = "document.querySelector('.head .c-%s').offsetWidth > 0"
    assert page.get(seen % "square") and page.get(seen % "hole")
    page.run("const { rows, tell } = ice.store; rows.square.fill(-1); rows.hole.fill('');"
             " tell('rows', { full: true, changed: [] })")
    page.wait("!(%s) && !(%s)" % (seen % "square", seen % "hole"), "no column of squares and holes where there is none")
    assert page.get("(() => { const line = document.querySelector('.lines .entry'); return line.lastChild.offsetTop < 15 })()")


@web.shows(exposures=0, in_flight=0, iterations=0)
def test_an_empty_session_says_so(page):
    page.open("overview")
    page.wait("document.querySelectorAll('.stage').length === 7", "the flow")
    page.wait("document.querySelector('#section-series').textContent.includes('first measured exposure')", "what will come")
    for view in ("exposures", "ledger", "exposure/1"):
        page.open(view)
    page.wait("document.querySelector('.exposure-name').textContent.includes('no exposure 1')", "an exposure that is"
                                                                                                " not there")
    page.site.session.add(2)
    page.wait("ice.store.rows.length === 2", "the first exposures")
    page.open("overview")
    page.wait("document.querySelectorAll('figure.series').length === 6", "the first charts")


@web.shows(exposures=24, running=False, in_flight=0)
def test_a_session_that_has_ended_looks_the_same(page):
    page.open("overview")
    page.wait("document.querySelector('#session-state').textContent.match(/finished|stopped/)", "the state")
    page.wait("document.querySelectorAll('figure.series').length === 6", "charts")
    mean = page.get("(() => { const r = ice.store.rows, t = r.t.subarray(0, r.length);"
                    " return Math.round(3600 * (r.length - 1) / (Math.max(...t) - Math.min(...t))) })()")
    page.wait("document.querySelector('#fact-rate .value').textContent.replace(/\\D/g, '') === '%d'" % mean,
              "the mean of the session")
    page.open("exposure/3")
    page.wait("document.querySelector('.micrograph').naturalWidth > 100", "the micrograph")
