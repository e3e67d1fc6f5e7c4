"""The page by keyboard alone, in dark and light, for those who see little or want less motion."""
FOCUS = "document.activeElement"


def test_all_of_it_by_keyboard_alone(page):
    page.visit(page.site, "overview")
    page.wait("document.querySelectorAll('figure.series').length === 6", "charts")
    page.keys("2")
    page.wait("ice.route.view === 'exposures' && document.querySelectorAll('.cell').length > 5", "the gallery after"
                                                                                                 " the key 2")
    page.keys("ARROW_DOWN")
    page.wait(FOCUS + ".matches('.cell')", "a cell with the focus")
    first = page.get(FOCUS + ".querySelector('.first').textContent")
    page.keys("ARROW_RIGHT")
    page.wait(FOCUS + ".matches('.cell') && " + FOCUS + ".querySelector('.first').textContent !== arguments[0]",
              "the next cell", first)
    page.keys("END")
    page.wait(FOCUS + ".matches('.cell') && " + FOCUS + ".querySelector('.first').textContent === '#1'", "the last cell")
    page.keys("ENTER")
    page.wait("ice.route.view === 'exposure' && ice.route.argument === '1'", "the exposure after Enter")
    page.wait("document.querySelector('#picks-count').textContent.match(/^\\d+ picks/)", "its picks")
    page.keys("k")
    page.wait("ice.route.argument === '2'", "the previous one, in the order of the gallery")
    page.keys("ESCAPE")
    page.wait("ice.route.view === 'exposures'", "the gallery after Escape")
    page.keys("/")
    page.wait(FOCUS + ".matches('.filter')", "the filter after /")
    page.keys(*"failed")
    page.wait("ice.query('f') === 'failed'", "the filter")
    page.keys("ESCAPE", "3")
    page.wait("ice.route.view === 'ledger' && document.querySelectorAll('.entry').length > 10", "the ledger after the key 3")
    page.keys("ARROW_DOWN", "ARROW_DOWN", "PAGE_DOWN")
    page.wait(FOCUS + ".matches('.lines .entry')", "a line with the focus")
    page.keys("ENTER")
    page.wait("ice.route.view === 'exposure'", "the exposure of the line")
    page.keys("?")
    page.wait("document.querySelector('dialog[open]')", "the help")
    page.keys("ESCAPE")
    page.wait("!document.querySelector('dialog[open]')", "no help")


def test_charts_by_keyboard(page):
    page.open("overview")
    page.wait("document.querySelector('figure.series .handle')", "charts")
    page.run("document.querySelector('figure.series .plot').focus()")
    page.keys("HOME")
    page.wait("!document.querySelector('figure.series .tip').hidden", "the values of a point")
    first = page.text("figure.series .tip")
    assert first.startswith("#1 ") and "µm" in first, first
    page.keys("ARROW_RIGHT")
    page.wait("document.querySelector('figure.series .tip').textContent.startsWith('#2 ')", "the next point")
    page.keys("ENTER")
    page.wait("ice.route.view === 'exposure' && ice.route.argument === '2'", "the exposure of the point")


def test_tab_reaches_every_tab_and_tool(page):
    page.visit(page.site, "exposures")
    page.wait("document.querySelectorAll('.cell').length > 5", "cells")
    page.run("document.activeElement.blur()")
    wanted = ["#tabs a[aria-current]", ".filter", "select", ".cell"]
    for _ in range(60):
        page.keys("TAB")
        if page.get("document.activeElement === document.body"):
            continue  # past the last one: the next Tab begins at the top
        ring = page.get("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", "no ring around " + page.get("document.activeElement.outerHTML")[:120]
        wanted = [selector for selector in wanted if not page.get("document.activeElement.matches(arguments[0])", selector)]
        if not wanted:
            return
    raise AssertionError("Tab does not reach " + ", ".join(wanted))


def back(page):
    return page.get("getComputedStyle(document.documentElement).backgroundColor")


def test_dark_and_light_follow_the_system_until_somebody_chooses(page):
    page.visit(page.site, "overview")
    try:
        page.media(prefers_color_scheme="light")
        light = back(page)
        page.media(prefers_color_scheme="dark")
        dark = back(page)
        assert light != dark
        page.click("#theme")
        page.wait("document.documentElement.dataset.theme === 'light'", "the light theme by hand")
        assert back(page) == light
        page.driver.refresh()
        page.wait("document.documentElement.dataset.theme === 'light'", "the choice after a reload")
        page.click("#theme")
        page.wait("document.documentElement.dataset.theme === 'dark'", "the dark theme by hand")
        page.click("#theme")
        page.wait("!document.documentElement.dataset.theme", "the theme of the system")
    finally:
        page.media()


def test_nothing_moves_for_those_who_want_less_motion(page):
    page.visit(page.site, "overview")
    try:
        page.media(prefers_reduced_motion="reduce")
        moving = page.get("[...document.querySelectorAll('*')].filter((n) => { const s = getComputedStyle(n);"
                          " return s.animationName !== 'none' || !/^0s(, 0s)*$/.test(s.transitionDuration) }).length")
        assert moving == 0, "%d elements move" % moving
    finally:
        page.media()


def test_states_have_shapes_and_words(page):
    page.open("ledger")
    page.wait("document.querySelectorAll('.lines .state').length > 10", "states")
    seen = set(page.texts(".lines .state") + page.texts(".reasons .state"))
    assert {"●done", "✕rejected", "▲failed"} <= seen, seen
