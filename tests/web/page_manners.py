"""The manners of the page: its state in the address, narrow windows, forced colours, a server that is killed, every control
by keyboard, many points."""
import signal

# Views with what their controls leave in the address.
VIEWS = ["overview?x=time&all=1&t=res>4", "exposures?f=done&sort=-res&size=96&picks=1", "exposure/3", "ledger?f=rejected&sort=name",
         "grid?by=lost&order=name", "classes?it=2", "map", "system?log=watcher.0", "alarms", "controls"]
SHOWN = {"overview": "[...document.querySelectorAll('button[aria-pressed=true]')].map((b) => b.textContent).join() +"
                     " document.querySelectorAll('figure.series').length + document.querySelector('#would-keep').textContent",
         "exposures": "document.querySelector('.filter').value + document.querySelector('#section-gallery select').value +"
                      " document.querySelector('#gallery-count').textContent + document.querySelectorAll('.cell').length",
         "exposure": "document.querySelector('.exposure-name').textContent",
         "ledger": "document.querySelector('.filter').value + document.querySelector('#ledger-count').textContent +"
                   " document.querySelector('.lines .entry').textContent",
         "grid": "[...document.querySelectorAll('#section-grid select')].map((s) => s.value).join() +"
                 " document.querySelector('.square').textContent",
         "classes": "document.getElementById('classes-summary').textContent",
         "system": "[...document.querySelectorAll('#section-system select')].map((s) => s.value).join()"}


def test_a_reload_shows_the_same(page):
    page.open("overview")
    for view in VIEWS:
        shown = SHOWN.get(view.split("?")[0].split("/")[0])
        if not shown:
            continue
        page.go(view)
        page.drawn(view)
        before = page.wait(shown, "what " + view + " shows")
        address = page.get("location.hash")
        page.run("window.old = true; location.reload()")
        page.wait("!window.old && ice.store.session && ice.store.heard", "the page again")
        page.drawn(view)
        assert page.get("location.hash") == address, (view, page.get("location.hash"))
        page.wait(shown + " === arguments[0]", "the same in " + view, before)
    page.shown = None


WIDE = "[...document.querySelectorAll('main *')].filter((it) => it.getBoundingClientRect().right > 391).slice(0, 6)" \
    ".map((it) => it.tagName + '.' + it.className + '#' + it.id)"


def test_a_narrow_window_needs_no_sideways_scrolling(page):
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": False})
    try:
        page.visit(page.site, "overview")
        for view in VIEWS:
            page.go(view)
            page.drawn(view)
            page.wait("document.scrollingElement.scrollWidth <= 390", view + " within 390 px; too wide: " + str(page.get(WIDE)),
                      limit=20)
            page.run("const it = [...document.querySelectorAll('#tabs a')].pop(); it.scrollIntoView()")
        page.go("exposures")
        page.wait("document.querySelectorAll('.cell').length >= 2 && document.querySelector('.cell img').naturalWidth", "pictures")
        page.click(".cell")
        page.wait("ice.route.view === 'exposure' && document.querySelector('.micrograph').naturalWidth > 100", "the exposure")
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.shown = None


def test_forced_colours_leave_shapes_words_and_rings(page):
    page.open("overview")
    try:
        page.media(forced_colors="active")
        page.wait("matchMedia('(forced-colors: active)').matches", "forced colours")
        for view in ("overview", "ledger"):
            page.go(view)
            page.drawn(view)
        assert {"●done", "✕rejected", "▲failed"} <= set(page.texts(".lines .state") + page.texts(".reasons .state"))
        page.go("overview")
        page.wait("[...ice.charts].some((c) => { const k = c.canvas; if (!k.isConnected || !k.width) return false;"
                  " return new Set(new Uint32Array(k.getContext('2d').getImageData(0, 0, k.width, k.height).data.buffer)).size"
                  " > 3 })", "a chart in the colours of the system")
        page.keys("TAB", "TAB", "TAB")
        assert page.get("getComputedStyle(document.activeElement).outlineStyle") != "none"
    finally:
        page.media()


FOCUSABLE = "'main a[href], main button:not([disabled]), main input:not([disabled]), main select, main textarea, main summary," \
    " main [tabindex=\"0\"]'"
LEFT = """
const left = [...document.querySelectorAll(%s)].filter((it) => it.tabIndex >= 0 && it.checkVisibility({visibilityProperty: true})
  && !(it.matches('input[type=radio]') && !it.checked) && !window.reached.has(it.dataset.keyed));
return left.map((it) => it.outerHTML.slice(0, 120));
""" % FOCUSABLE


def test_tab_reaches_everything_that_can_be_used(page):
    """In every section: each link, button and field gets the focus by the key Tab, with a ring around it."""
    page.visit(page.site, "overview")
    for view in VIEWS:
        page.go(view.split("?")[0])
        page.drawn(view)
        page.run("window.reached = new Set(); let k = 0; for (const it of document.querySelectorAll(" + FOCUSABLE + "))"
                 " it.dataset.keyed = k++; document.activeElement.blur(); document.getElementById('main').focus()")
        total = page.get("document.querySelectorAll(" + FOCUSABLE + ").length")
        # Twice around the page and its head: a row that is drawn anew under the focus sends Tab to where it was, or to the top.
        for _ in range(total // 2 + 10):
            page.run("window.rings = window.rings || []; if (!window.listens) { window.listens = true;"
                     " document.addEventListener('focusin', (e) => { window.reached.add(e.target.dataset.keyed);"
                     " if (e.target.id !== 'main' && getComputedStyle(e.target).outlineStyle === 'none')"
                     " window.rings.push(e.target.outerHTML.slice(0, 120)) }) }")
            page.keys(*["TAB"] * 6)
            if not page.run(LEFT):
                break
        left = page.run(LEFT)
        assert not left, "%s: Tab does not reach %d of %d: %s" % (view, len(left), total, "; ".join(left[:5]))
        rings = page.get("window.rings.splice(0)")
        assert not rings, "%s: no ring around %s" % (view, rings[:3])
    page.shown = None


def test_each_section_is_worked_by_keys(page):
    """One control of each section that the other tests work by hand, by keys alone."""
    page.visit(page.site, "overview")
    # The tab of squares comes with the first exposures.
    page.wait("[...document.querySelectorAll('#tabs a')].some((it) => it.textContent === 'Grid')", "all tabs")
    names = [name.lower() for name in page.texts("#tabs a")]

    def to(name, selector):
        page.keys("ESCAPE", str(names.index(name) + 1))  # Escape leaves a field
        page.drawn(name)  # a key before that finds nothing to change
        page.wait("document.querySelector(arguments[0])", name, selector)
        for _ in range(120):
            if page.get("document.activeElement.matches(arguments[0])", selector):
                return
            page.keys("TAB")
        raise AssertionError("Tab does not come to " + selector)

    page.wait("document.querySelector('figure.series .handle')", "charts")
    to("overview", "figure.series .handle")
    page.keys("ARROW_DOWN", "ARROW_DOWN")
    page.wait("ice.thresholds().length === 1", "a threshold by the arrow keys")
    to("grid", "#section-grid select")
    page.wait("document.querySelector('.square') && document.activeElement.options.length > 2", "what may be chosen")
    before = page.get("document.activeElement.value")
    page.keys("ARROW_DOWN")
    page.wait("document.activeElement.value !== arguments[0] && location.hash.includes('=')", "another value", before)
    to("classes", "[aria-label='Snapshot']")
    page.wait("document.activeElement.max > 0", "snapshots to choose from")
    page.keys("ARROW_LEFT")
    page.wait("location.hash.includes('it=')", "an earlier snapshot")
    to("map", "#map-surface, .slice-canvas")
    page.keys("ARROW_LEFT", "ARROW_UP")
    to("system", "#section-system select")
    page.wait("document.activeElement.options.length > 1", "logs to choose from")
    page.keys("ARROW_DOWN")
    page.wait("location.hash.includes('log=')", "another log")
    to("controls", "#mark-numbers")
    page.keys(*"1 3")
    assert page.get("document.activeElement.value") == "1 3"
    page.shown = None


def test_many_points_are_dots_where_they_belong(page):
    page.open("overview")
    shades = page.driver.execute_async_script("""
        const done = arguments[0], n = 4000, x = Float64Array.from({length: n}, (v, i) => i), y = x.map((v) => v % 2 ? 1 : 3);
        const chart = ice.chart({title: 'dots', series: [{kind: 'points', x, y}]});
        document.querySelector('main').prepend(chart.node);
        (function look() {
          if (!chart.box || !chart.canvas.width) return requestAnimationFrame(look);
          const ratio = chart.canvas.width / chart.plot.clientWidth, context = chart.canvas.getContext('2d');
          const at = (v) => [...context.getImageData(Math.round(chart.x(2001) * ratio), Math.round(chart.y(v) * ratio), 1, 1).data];
          const colour = [1, 3, 2.1].map(at);
          chart.node.remove();
          ice.charts.delete(chart);
          done(colour);
        })()""")
    assert shades[0][3] > 100 and shades[1][3] > 100 and shades[0][:3] == shades[1][:3], shades
    assert shades[2][3] == 0, shades


def test_a_killed_server_is_noticed_at_once(page):
    """Killed, and started again at the same address: said within seconds, then live again, the view as before."""
    page.open("exposures?f=done&sort=-res")
    page.wait("ice.store.connection === 'live'", "the stream of events")
    page.run("window.noticed = 0; const id = setInterval(() => { if (ice.store.connection === 'lost') { window.noticed ="
             " Date.now(); clearInterval(id) } }, 20)")
    begun = page.get("Date.now()")
    page.site.stop(signal.SIGKILL)
    late = (page.wait("window.noticed", "no connection") - begun) / 1000
    print("a dead server was noticed after %.1f s" % late)
    cells = page.count(".cell")
    page.site.start()
    page.wait("ice.store.connection === 'live'", "the connection again")
    assert page.get("location.hash") == "#exposures?f=done&sort=-res" and page.count(".cell") == cells
    page.driver.get_log("browser")  # the browser notes every attempt that found no server
