"""Classes, map and its curves in a real browser. Each test takes the page of web.py, open on a session with all
stages."""
import healpix
import web

# A ball of radius 20 voxels in a volume of 64: what the worker makes of it is known.
BALL = """
const done = arguments[arguments.length - 1], n = 64, volume = new Uint8Array(n * n * n);
for (let k = 0, at = 0; k < n; k++) for (let j = 0; j < n; j++) for (let i = 0; i < n; i++, at++)
  volume[at] = Math.max(0, Math.min(255, 100 + 8 * (20 - Math.hypot(i - 31, j - 32, k - 33))));
const worker = new Worker('worker.js');
worker.onerror = (event) => done({ error: event.message });
worker.onmessage = (event) => {
  const { vertices, indices, milliseconds } = event.data, edges = new Map();
  const at = (v) => [0, 1, 2].map((c) => (vertices[7 * v + c] + 1) * 31.5);
  let nearest = 99, farthest = 0, inward = 0, tilted = 0;
  for (let v = 0; v < vertices.length / 7; v++) {
    const [x, y, z] = at(v).map((p, c) => p - 31 - c), r = Math.hypot(x, y, z);
    nearest = Math.min(nearest, r);
    farthest = Math.max(farthest, r);
    if (vertices[7 * v + 3] * x + vertices[7 * v + 4] * y + vertices[7 * v + 5] * z < 0.95 * r) tilted++;
  }
  for (let t = 0; t < indices.length; t += 3) {
    const [a, b, c] = [0, 1, 2].map((q) => at(indices[t + q]));
    const [u, w, out] = [b.map((p, q) => p - a[q]), c.map((p, q) => p - a[q]), a.map((p, q) => p - 31 - q)];
    if ((u[1] * w[2] - u[2] * w[1]) * out[0] + (u[2] * w[0] - u[0] * w[2]) * out[1] +
        (u[0] * w[1] - u[1] * w[0]) * out[2] < 0) inward++;
    for (let q = 0; q < 3; q++) edges.set(indices[t + q] + ' ' + indices[t + (q + 1) % 3], 1);
  }
  const open = [...edges.keys()].filter((key) => !edges.has(key.split(' ').reverse().join(' '))).length;
  worker.terminate();
  done({ nearest, farthest, inward, tilted, open, milliseconds,
    euler: vertices.length / 7 - edges.size / 2 + indices.length / 3 });
};
worker.postMessage({ id: 1, n, volume, level: 100 });
"""


def test_surface_nets(page):
    """A ball becomes one closed surface at its radius, whose normals and triangles face outward."""
    page.open("overview")
    made = page.driver.execute_async_script(BALL)
    assert "error" not in made, made
    assert 19.8 < made["nearest"] and made["farthest"] < 20.2, made
    assert made["inward"] == 0 and made["tilted"] == 0, made
    assert made["open"] == 0 and made["euler"] == 2, made


def test_healpix(page):
    """The page finds each pixel at its centre, in both orders."""
    page.open("overview")
    for nside in (1, 2, 8):
        for nested, centres in ((False, healpix.ring_centres(nside)), (True, healpix.nested_centres(nside))):
            wrong = page.get("arguments[0].filter(([z, phi], i) =>"
                             " ice.healpix.pixel(arguments[1], arguments[2], z, phi) !== i).length",
                             [list(centre) for centre in centres], nside, nested)
            assert wrong == 0, f"nside {nside}, nested {nested}: {wrong} pixels differ"


def test_b_factor(page):
    """The slope of 1/d² over ln N gives back the B-factor that made it; iterations of one size count once."""
    page.open("overview")
    maps = [{"particles": n, "resolution": (0.002 + 2 / 150.0 * 0.6931471805599453 * step) ** -0.5}
            for step, n in enumerate((1000, 2000, 4000, 8000))]
    found = page.get("ice.guinier(arguments[0])", [dict(maps[0], resolution=40.0)] + maps)
    assert abs(found["b"] - 150) < 0.01, found
    assert page.get("ice.guinier(arguments[0])", maps[:2]) is None


SUMMARY = "document.getElementById('classes-summary').textContent"
TILES = "[...document.querySelectorAll('.class-tile')]"


def test_classes(page):
    """Every class with members has its picture out of the one sheet, its numbers, and a frame where it is kept."""
    page.open("classes")
    page.wait("document.querySelectorAll('.class-tile').length > 0", "classes are drawn")
    sheet = page.driver.execute_async_script("const done = arguments[arguments.length - 1]; ice.api('api/classes').then(done);")
    members = [item for item in sheet["classes"] if item["members"] or item["kept"]]
    tiles = page.get(TILES + ".map((it) => [Number(it.dataset.class), it.className, it.getAttribute('aria-label')])")
    assert len(tiles) == len(members), tiles
    by_number = {item["number"]: item for item in members}
    for number, style, label in tiles:
        item = by_number[number]
        assert ("kept" in style.split()) == bool(item["kept"]), (style, item)
        assert label.startswith(f"Class {number}, ") and label.endswith("kept" if item["kept"] else "dropped"), label
    sizes = [by_number[number]["members"] for number, _, _ in tiles]
    assert sizes == sorted(sizes, reverse=True), sizes
    # The sheet is one picture that loads, and its windows differ.
    assert page.driver.execute_async_script("""const done = arguments[arguments.length - 1], image = new Image();
        image.onload = () => done(image.naturalWidth); image.onerror = () => done(0);
        image.src = getComputedStyle(document.querySelector('.class-picture')).backgroundImage.slice(5, -2);""") \
        == sheet["cell"] * sheet["across"]
    windows = page.get("[...document.querySelectorAll('.class-picture')].map((it) => it.style.backgroundPosition)")
    assert len(set(windows)) == len(windows), windows


def test_classes_over_time(page):
    """The slider shows an earlier snapshot, which is in the address; the newest one needs no address."""
    page.open("classes")
    page.wait("document.querySelector('[aria-label=\"Snapshot\"]').max > 0", "several snapshots")
    newest = page.text("#classes-summary")
    page.click("[aria-label='Snapshot before']")
    page.wait(SUMMARY + " !== arguments[0]", "an earlier snapshot", newest)
    assert "it=" in page.get("location.hash")
    page.run("location.reload(); window.ice = null")
    page.wait("window.ice && document.querySelector('.class-tile') && " + SUMMARY + " !== arguments[0]",
              "the same after a reload", newest)
    page.click("[aria-label='Next snapshot']")
    page.wait(SUMMARY + " === arguments[0]", "the newest", newest)
    assert "it=" not in page.get("location.hash")
    assert page.get("document.querySelectorAll('#section-classes .curve').length") >= 3


TRIANGLES = "Number((document.querySelector('.surface') || { dataset: {} }).dataset.triangles)"


def test_map(page):
    """The surface is drawn, follows the level, turns by keys; slices cross where they are clicked."""
    page.open("map")
    page.wait(TRIANGLES + " > 100", "a surface")
    page.run("window.grey = () => { const canvas = document.getElementById('map-surface'); ice.map_times();"
             " const copy = document.createElement('canvas'); copy.width = copy.height = 64;"
             " const context = copy.getContext('2d'); ice.map_times(); context.drawImage(canvas, 0, 0, 64, 64);"
             " return [...context.getImageData(0, 0, 64, 64).data]; }")
    before = page.get("grey()")
    assert len({tuple(before[i:i + 3]) for i in range(0, len(before), 4)}) > 50, "the canvas is blank"
    page.run("document.getElementById('map-surface').focus()")
    page.keys("ARROW_LEFT", "ARROW_LEFT", "ARROW_UP")
    assert page.get("grey()") != before, "the surface does not turn"
    triangles = page.get(TRIANGLES)
    page.run("const it = document.querySelector('[aria-label^=\"Level of\"]'); it.value = Number(it.value) + 1.5;"
             " it.dispatchEvent(new Event('input'))")
    page.wait(TRIANGLES + " !== arguments[0]", "another level", triangles)
    times = page.get("ice.map_times()")
    print(f"mesh {times['mesh']:.0f} ms, frame {times['frame']:.0f} ms")
    pictures = page.get("[...document.querySelectorAll('.slice-canvas')].map((it) => it.toDataURL())")
    assert len(set(pictures)) == 3
    page.run("document.querySelector('.slice-canvas').focus()")
    page.keys("ARROW_UP", "ARROW_UP", "ARROW_UP")
    assert page.get("document.querySelector('.slice-canvas').toDataURL()") != pictures[0]
    # A closed tab holds no context of the graphics card; it is made again when the tab is opened.
    page.open("classes")
    page.wait("!document.getElementById('map-surface')", "another tab")
    page.open("map")
    page.wait("document.querySelectorAll('#map-surface').length === 1", "the surface again")


def test_map_without_webgl(page):
    """Without WebGL the slices show the map, and the page says why."""
    page.open("classes")
    page.run("window.real = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext ="
             " function (kind, ...rest) { return kind === 'webgl2' ? null : window.real.call(this, kind, ...rest); }")
    page.open("map")
    page.wait("document.querySelector('.surface').textContent.includes('no WebGL')", "words")
    page.wait("document.querySelector('.slice-canvas').width > 8", "slices")
    page.shown = None  # the next test loads the page, with WebGL


def test_curves(page):
    """FSC and resolution stand as curves and as tables with the numbers of the endpoints."""
    page.open("map")
    page.wait("document.querySelectorAll('#section-map .curves').length >= 3", "curves")
    fsc = page.driver.execute_async_script("const done = arguments[arguments.length - 1]; ice.api('api/fsc').then(done);")
    figure = "document.querySelector('[data-plot=FSC]')"
    page.run(f"{figure}.querySelector('button').click()")
    rows = page.get(f"[...{figure}.querySelectorAll('tbody tr')]"
                    ".map((row) => [...row.children].map((it) => it.textContent))")
    assert len(rows) == len(fsc["k"]), (len(rows), len(fsc["k"]))
    head = page.get(f"[...{figure}.querySelectorAll('th')].map((it) => it.textContent)")
    column = head.index("unmasked")
    for row, value in zip(rows, fsc["unmasked"]):
        assert abs(float(row[column].replace("\u2212", "-")) - value) < 0.0006, (row, value)
    assert page.run("const canvas = document.querySelector('.sphere-canvas'); if (!canvas) return 0;"
                    " const data = canvas.getContext('2d').getImageData(0, 180, 720, 1).data, seen = new Set();"
                    " for (let i = 0; i < data.length; i += 4) seen.add(data[i] * 65536 + data[i + 1] * 256 + data[i + 2]);"
                    " return seen.size") > 3
    assert page.get("[...document.querySelectorAll('#section-map svg.curves')]"
                    ".every((it) => it.getAttribute('aria-label').length > 20)")


@web.shows(exposures=30, noise_from=6)
def test_noise_has_no_resolution(page):
    """A map of noise is called noise, in the frame of every view and on its own; nothing there is a resolution, also of
    iterations before it was known."""
    page.open("map")
    page.wait("document.querySelectorAll('#section-map .curves').length >= 1", "curves")
    tiles = page.texts(".number-tile")
    assert tiles[0].startswith("noise") and "no resolution" in tiles[0], tiles
    assert not any("\u00c5" in tile for tile in tiles), tiles
    page.wait("document.querySelector('#fact-map .value').textContent.startsWith('noise')", "noise in the frame")
    assert "\u00c5" not in page.text("#fact-map")
    notes = page.texts("#section-map figure .summary, #section-map figure .note, #section-map figcaption")
    assert notes and not any("\u00c5 at" in note for note in notes), notes
    assert any("no resolution" in note for note in page.texts("#section-map figure")), notes
    page.open("overview")
    page.wait("document.querySelector('#fact-map .value').textContent.startsWith('noise')", "noise in the frame")


@web.shows(exposures=30, unresolved="shared")
def test_what_halves_share_is_no_resolution(page):
    """Halves that agree no further than they share have no resolution: the page says so, and shows no number in its place."""
    page.open("map")
    page.wait("document.querySelectorAll('#section-map .curves').length >= 1", "curves")
    tiles = page.texts(".number-tile")
    assert tiles[0].startswith("no resolution") and "no further than they share" in tiles[0], tiles
    assert not any("\u00c5" in tile for tile in tiles), tiles
    page.wait("document.querySelector('#fact-map .value').textContent.startsWith('no resolution')", "no number in the frame")
    assert "\u00c5" not in page.text("#fact-map")
    notes = page.texts("#section-map figure .summary, #section-map figure .note, #section-map figcaption")
    assert notes and not any("\u00c5 at" in note for note in notes), notes


def test_the_frame_has_the_resolution(page):
    """That of the newest map, and when it was made."""
    page.open("map")
    newest = page.get("ice.store.status.stages.refiner.newest")
    assert newest["noise"] is False and newest["iteration"] == 6, newest
    page.wait("document.querySelector('#fact-map .value').textContent.endsWith(' ago')", "how old the map is")
    assert page.text("#fact-map .value").startswith("%.1f \u00c5" % newest["resolution"]), page.text("#fact-map .value")
