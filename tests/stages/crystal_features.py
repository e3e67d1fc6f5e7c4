#!/usr/bin/env python3
"""The simpler features of a drop (IMAGE_simple.npy) against NumPy and scikit-image, where their definitions agree, and
against what is known of drawn shapes."""
import shutil
import sys
import tempfile

from crystal_drops import SKIP, check, end, scorer, simulate
import numpy as np
from PIL import Image

try:
    from scipy import ndimage, stats
    from skimage import filters, measure
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIP)

SEED, SIZE, CENTRE, DIAMETER = 31, 320, (163, 157), 200
GRADIENT, LINES, TOPOLOGY = 30, 120, 180
X, Y = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
CIRCLE = (X - CENTRE[0]) ** 2 + (Y - CENTRE[1]) ** 2 <= (DIAMETER / 2) ** 2


def features(work, image, name):
    path = f"{work}/{name}.png"
    Image.fromarray(image).save(path)
    scorer("--i", path, "--o", f"{work}/out", "--keep-features", "--centre", "%d,%d" % CENTRE, "--stride", 200)
    found = np.load(f"{work}/out/{name}_simple.npy")
    texture = np.load(f"{work}/out/{name}_features.npy")
    check(found.shape == (225,) and found.dtype == np.float32, "IMAGE_simple.npy holds 225 numbers")
    check(texture.shape == (3, 25, 13, 3) and texture.dtype == np.float32,
          "IMAGE_features.npy has the shape 3, 25, 13, 3")
    check(np.isfinite(found).all() and np.isfinite(texture).all(), "all of them finite")
    return found


def close(found, expected, text, tolerance=2e-4):
    found, expected = np.atleast_1d(found).astype(float), np.atleast_1d(expected).astype(float)
    scale = np.maximum(np.abs(expected), 1e-3)
    worst = np.max(np.abs(found - expected) / scale)
    check(worst < tolerance, f"{text}: {worst:.1e}" + (f": {found}, not {expected}" if worst >= tolerance else ""))


def rank(values, percent):
    return np.sort(values)[int(percent / 100 * (len(values) - 1))]


def smooth(g, sigma):
    return ndimage.gaussian_filter(g, sigma, mode="nearest", truncate=4.0) if sigma > 0 else g


def patch_of(image):
    """What the stage sees: the circle with 16 px around it."""
    r = DIAMETER // 2 + 16
    return image[CENTRE[1] - r:CENTRE[1] + r + 1,
                 CENTRE[0] - r:CENTRE[0] + r + 1], CIRCLE[CENTRE[1] - r:CENTRE[1] + r + 1,
                                                          CENTRE[0] - r:CENTRE[0] + r + 1]


def of_statistics(found, image):
    v = image[CIRCLE].astype(float)
    expected = [v.mean(), v.std(), stats.skew(v), stats.kurtosis(v), v.min(), v.max()]
    expected += [rank(v, p) for p in (1, 5, 25, 50, 75, 95, 99)]
    fine = np.histogram(v, 64, (v.min(), v.max()))[0] / len(v)
    expected += [stats.entropy(fine), *np.histogram(v, 16, (v.min(), v.max()))[0] / len(v)]
    close(found[:GRADIENT], expected, "image statistics are NumPy's and SciPy's")


def of_changes(found, image):
    patch, inside = patch_of(image.astype(float))
    g = (patch - patch[inside].mean()) / patch[inside].std()
    for i, sigma in enumerate((0, 1, 2, 4)):
        out = found[GRADIENT + 18 * i:]
        s = smooth(g, sigma)
        m = filters.sobel(s)[inside]
        close(out[:6], [m.mean(), m.std(), stats.skew(m), rank(m, 50), rank(m, 90), rank(m, 99)],
              f"sigma {sigma}: gradient magnitudes are scikit-image's", 2e-3)
        lap = filters.laplace(s)[inside]
        close(out[[11, 12, 14, 15, 16]], [np.abs(lap).mean(), lap.std(), stats.kurtosis(lap), rank(lap, 1),
                                          rank(lap, 99)],
              f"sigma {sigma}: Laplacian is scikit-image's", 2e-3)
        gy, gx = (filters.sobel_h(s), filters.sobel_v(s))
        jxx, jxy, jyy = (smooth(a, 3) for a in (gx * gx, gx * gy, gy * gy))
        c = (np.sqrt((jxx - jyy) ** 2 + 4 * jxy ** 2) / (jxx + jyy))[inside]
        close(out[[7, 8]], [c.mean(), c.std()], f"sigma {sigma}: coherence of the structure tensor", 2e-3)


def of_topology(found, image):
    """Of the third mask, Otsu's; thresholds of two implementations differ by a bin."""
    patch, inside = patch_of(image.astype(float))
    g = (patch - patch[inside].mean()) / patch[inside].std()
    d = smooth(g, 1) - smooth(g, 10)
    median = np.median(d[inside])
    deviation = 1.4826 * np.median(np.abs(d[inside] - median))
    for k, mask in enumerate((d < median - 3 * deviation, d > median + 3 * deviation)):
        mask = mask & inside
        labels = measure.label(mask, connectivity=2)
        areas = np.array([r.area for r in measure.regionprops(labels)], float)
        kept = areas[areas >= 4]
        out = found[TOPOLOGY + 15 * k:]
        holes = measure.label(~mask, connectivity=1).max() - 1
        name = ("dark", "bright")[k]
        close(out[0], mask.sum() / inside.sum(), f"{name}: share of the area", 0.02)
        check(abs(out[1] - len(kept)) <= max(1, 0.03 * len(kept)),
              f"{name}: {out[1]:.0f} components, scikit-image {len(kept)}")
        check(abs(out[2] - holes) <= max(1, 0.05 * holes), f"{name}: {out[2]:.0f} holes, scikit-image {holes}")
        regions = [r for r in measure.regionprops(labels) if r.area >= 4]
        if regions:
            weights = np.array([r.area for r in regions], float)
            close(out[7], (weights * [r.eccentricity for r in regions]).sum() / weights.sum(), f"{name}: eccentricity",
                  0.03)
            close(out[9], np.mean([r.extent for r in regions]), f"{name}: extent", 0.03)


def shapes(work):
    """A rectangle has straight edges that meet at right angles, and discs have none; rings have holes."""
    flat = np.full((SIZE, SIZE), 120, np.uint8)
    rectangle, discs, rings = flat.copy(), flat.copy(), flat.copy()
    rectangle[120:200, 140:190] = 60
    # 35° turned, so that nothing follows the pixels.
    angle = np.deg2rad(35)
    u = (X - CENTRE[0]) * np.cos(angle) + (Y - CENTRE[1]) * np.sin(angle)
    v = -(X - CENTRE[0]) * np.sin(angle) + (Y - CENTRE[1]) * np.cos(angle)
    turned = np.where((np.abs(u) < 50) & (np.abs(v) < 26), 60, 120).astype(np.uint8)
    for x, y in ((120, 120), (200, 120), (160, 200)):
        discs[(X - x) ** 2 + (Y - y) ** 2 < 15 ** 2] = 60
        d = np.hypot(X - x, Y - y)
        rings[(d < 15) & (d > 9)] = 60
    drawn = {"rectangle": rectangle, "turned": turned, "discs": discs, "rings": rings}
    a, t, b, c = (features(work, image, name) for name, image in drawn.items())
    check(abs(a[LINES + 15] - 0.8) < 0.1,
          f"rectangle: the longest line over the radius is {a[LINES + 15]:.2f}, 0.80 is drawn")
    check(abs(t[LINES + 15] - 1.0) < 0.1, f"turned one: {t[LINES + 15]:.2f}, 1.00 is drawn")
    check(a[LINES + 13] == 4 and t[LINES + 13] == 4,
          f"four lines of 26 px in either: {a[LINES + 13]:.0f}, {t[LINES + 13]:.0f}")
    check(b[LINES + 13] == 0, "no line of 26 px in discs")
    check(a[LINES + 19] > 0.8 > b[LINES + 19] + 0.3,
          f"edges in straight lines: {a[LINES + 19]:.2f}, of discs {b[LINES + 19]:.2f}")
    check(a[LINES + 24] > 0 and b[LINES + 24] == 0, "lines that meet at an angle: those of the rectangle alone")
    check(b[TOPOLOGY + 1] == 3 and b[TOPOLOGY + 2] == 0, "discs: three components without holes")
    check(c[TOPOLOGY + 1] == 3 and c[TOPOLOGY + 2] == 3 and c[TOPOLOGY + 3] == 0,
          "rings: three components, three holes, Euler number 0")
    check(b[TOPOLOGY + 8] > 0.85, f"discs are round: {b[TOPOLOGY + 8]:.2f}")
    none = features(work, flat, "flat")
    check((none[1] == 0) and (none[GRADIENT:] == 0).sum() > 150, "a flat picture has no changes, lines or components")


work = tempfile.mkdtemp(prefix="icestream-crystal-features-")
print(f"seed {SEED}, in {work}")
simulate(f"{work}/drops", count=1, seed=SEED)
for kind in ("precipitate", "crystal", "phase", "skin"):
    image = np.asarray(Image.open(f"{work}/drops/{kind}_0001.png"))
    found = features(work, image, kind)
    of_statistics(found, image)
    of_changes(found, image)
    of_topology(found, image)
    scorer("--i", f"{work}/drops/{kind}_0001.png", "--o", f"{work}/again", "--keep-features", "--centre",
           "%d,%d" % CENTRE, "--stride", 200)
    bright = features(work, np.clip(image.astype(float) / 2 + 20, 0, 255).astype(np.uint16) * 200, kind + "_16bit")
    same = features(work, (np.clip(image.astype(float) / 2 + 20, 0, 255).astype(np.uint16)).astype(np.uint8),
                    kind + "_8bit")
    close(bright[GRADIENT:], same[GRADIENT:], "16 bits and another contrast change nothing but the statistics", 2e-2)
shapes(work)
if "--keep" not in sys.argv:
    shutil.rmtree(work)
end()
