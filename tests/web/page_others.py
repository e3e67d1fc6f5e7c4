"""Tomograms, drops and ensembles in a real browser. The session of the tests has none of their stages: the page is told
of one, given its data, and hears no more of the session from the server. What the server answers is tested beside it."""

TELL = """
const [program, answers] = arguments;
window.given = answers;
window.real_api = window.real_api || ice.api;
ice.api = (path, more) => path in window.given ? Promise.resolve(window.given[path])
  : path === 'api/session' ? Promise.resolve(ice.store.session) : window.real_api(path, more);
if (!ice.store.session.stages.some((it) => it.program === program))
  ice.store.session.stages.push({ name: program, program, from: [], instances: [] });
ice.store.tell('session');
"""


def tell(page, program, answers):
    page.open("overview")
    page.run(TELL, program, answers)
    page.wait("ice.store.stages_of([arguments[0]]).length === 1", "the stage", program)


def test_tomograms(page):
    """One slice is shown, the middle one first; slider and address go with it."""
    tell(page, "tilt-reconstructor", {"api/tomograms": {"v": 1, "tomograms": [
        {"n": 1, "name": "TS_01", "nx": 512, "ny": 512, "nz": 100, "pixel": 10.0, "h": "1"},
        {"n": 2, "name": "TS_<02>", "nx": 512, "ny": 400, "nz": 60, "pixel": 10.0, "h": "1"}]}})
    page.open("tomograms")
    source = "document.getElementById('tomogram-slice').getAttribute('src')"
    page.wait(source + " === 'pic/tomogram/2/30.jpg?h=1'", "the middle of the newest")
    assert page.texts("#section-tomograms option") == ["TS_01", "TS_<02>"]
    page.write("#section-tomograms [aria-label=Slice]", "7")
    page.wait(source + " === 'pic/tomogram/2/7.jpg?h=1'", "slice 8")
    assert "8 of 60" in page.text("#section-tomograms output")
    assert "z=7" in page.get("location.hash")
    page.write("#section-tomograms select", "1")
    page.wait(source + " === 'pic/tomogram/1/50.jpg?h=1'", "the other tomogram")
    page.complaints()  # the session of this test has no such pictures


def test_drops(page):
    """Likely crystals come first, with outcome and probability; an outcome is chosen; each leads to its photograph."""
    tell(page, "crystal-scorer", {"api/drops": {
        "v": 1, "stage": "crystal-scorer", "outcomes": ["clear", "precipitate", "crystals"], "n": [1, 2, 3, 4],
        "name": ["A01", "A02", "<b>", "A04"], "outcome": [0, 2, 1, 2], "score": [0.01, 0.7, 0.2, 0.95]}})
    page.open("drops")
    page.wait("document.querySelectorAll('.drop').length === 4", "four drops")
    assert page.get("[...document.querySelectorAll('.drop')].map((it) => it.getAttribute('href'))") == [
        "#exposure/4", "#exposure/2", "#exposure/3", "#exposure/1"]
    assert "95 %" in page.texts(".drop")[0] and page.texts(".drop-name")[2] == "<b>"
    assert "4 photographs: 1 clear, 1 precipitate, 2 crystals" in page.text("#section-drops")
    page.write("#section-drops select", "crystals")
    page.wait("document.querySelectorAll('.drop').length === 2", "crystals alone")
    assert "outcome=crystals" in page.get("location.hash")
    page.wait("document.querySelector('#fact-seen .label').textContent === 'drops'", "what the head bar counts")


def test_ensemble(page):
    """The matrix has the colours of its values, and names the pair below the pointer; clusters are listed."""
    tell(page, "superposer", {"api/ensemble": {
        "v": 1, "count": 4, "names": ["a.pdb", "b.pdb", "c.pdb", "d.pdb"], "cutoff": 4.0,
        "clusters": [{"number": 1, "size": 3, "centre": 1, "members": [0, 1, 2]},
                     {"number": 2, "size": 1, "centre": 3, "members": [3]}]}})
    page.run("""window.real_fetch = window.real_fetch || window.fetch;
        window.fetch = (path, more) => String(path).startsWith('api/ensemble/matrix') ? Promise.resolve(new Response(
          new Uint8Array([0, 10, 20, 255, 10, 0, 15, 250, 20, 15, 0, 245, 255, 250, 245, 0]),
          { headers: { 'X-Matrix': '{"n":4,"count":4,"max":8.5,"order":[0,1,2,3]}' } })) : window.real_fetch(path, more);""")
    page.open("ensemble")
    page.wait("document.getElementById('rmsd-matrix').width === 4", "the matrix")
    colours = page.get("[...document.getElementById('rmsd-matrix').getContext('2d').getImageData(0, 0, 4, 1).data]")
    assert colours[:3] == [254, 232, 56] and colours[12:15] == [0, 34, 78], colours
    page.run("const it = document.getElementById('rmsd-matrix'), box = it.getBoundingClientRect();"
             " it.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + 0.9 * box.width,"
             " clientY: box.top + 0.1 * box.height }))")
    assert "d.pdb and a.pdb: 8.5 Å" in page.text("#section-ensemble")
    assert "4 structures in 2 clusters" in page.text("#section-ensemble")
    cells = page.texts("#section-ensemble td")
    assert cells[:2] == ["1", "3"] and cells[3] == "b.pdb", cells
    page.shown = None  # the next test loads the page, without these stages
