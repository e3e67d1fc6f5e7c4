#!/usr/bin/env python3
"""Compares the simple features of a drop (IMAGE_simple.npy) with NumPy and scikit-image where their definitions agree,
and with known values of drawn shapes. Compares the texture (IMAGE_features.npy) with the kernel's at the same place."""

import shutil
import subprocess
import sys
import tempfile

from crystal_drops import BIN, SKIP, check, end, scorer, simulate
import numpy as np
from PIL import Image

try:
    from scipy import ndimage, stats
    from skimage import filters, measure
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIP)

SEED, SIZE, CENTRE, DIAMETER = 31, 320, (163, 157), 200
GRADIENT, LINES, STRIPS, TOPOLOGY = 30, 120, 150, 180
X, Y = np.meshgrid(np.arange(SIZE), np.arange(SIZE))
CIRCLE = (X - CENTRE[0]) ** 2 + (Y - CENTRE[1]) ** 2 <= (DIAMETER / 2) ** 2


def features(work, image, name):
    path = f"{work}/{name}.png"
    Image.fromarray(image).save(path)
    scorer("--i", path, "--o", f"{work}/out", "--keep-features", "--centre", "%d,%d" % CENTRE, "--stride", 200)
    found = np.load(f"{work}/out/{name}_simple.npy")
    texture = np.load(f"{work}/out/{name}_features.npy")
    check(found.shape == (225,) and found.dtype == np.float32, "IMAGE_simple.npy holds 225 numbers")
    check(
        texture.shape == (3, 25, 13, 3) and texture.dtype == np.float32, "IMAGE_features.npy has the shape 3, 25, 13, 3"
    )
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
    """Returns the pixels that the stage evaluates: the circle with 16 px around it."""
    r = DIAMETER // 2 + 16
    return (
        image[CENTRE[1] - r : CENTRE[1] + r + 1, CENTRE[0] - r : CENTRE[0] + r + 1],
        CIRCLE[CENTRE[1] - r : CENTRE[1] + r + 1, CENTRE[0] - r : CENTRE[0] + r + 1],
    )


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
        out = found[GRADIENT + 18 * i :]
        s = smooth(g, sigma)
        m = filters.sobel(s)[inside]
        close(
            out[:6],
            [m.mean(), m.std(), stats.skew(m), rank(m, 50), rank(m, 90), rank(m, 99)],
            f"sigma {sigma}: gradient magnitudes are scikit-image's",
            2e-3,
        )
        lap = filters.laplace(s)[inside]
        close(
            out[[11, 12, 14, 15, 16]],
            [np.abs(lap).mean(), lap.std(), stats.kurtosis(lap), rank(lap, 1), rank(lap, 99)],
            f"sigma {sigma}: Laplacian is scikit-image's",
            2e-3,
        )
        gy, gx = (filters.sobel_h(s), filters.sobel_v(s))
        jxx, jxy, jyy = (smooth(a, 3) for a in (gx * gx, gx * gy, gy * gy))
        c = (np.sqrt((jxx - jyy) ** 2 + 4 * jxy**2) / (jxx + jyy))[inside]
        close(out[[7, 8]], [c.mean(), c.std()], f"sigma {sigma}: coherence of the structure tensor", 2e-3)


def of_curvature(found, image):
    """Compares the eigenvalues of the Hessian, and the contrast at each scale."""
    patch, inside = patch_of(image.astype(float))
    g = (patch - patch[inside].mean()) / patch[inside].std()
    for i, sigma in enumerate((2, 4)):
        s = smooth(g, sigma)
        hessian = np.zeros((*s.shape, 2, 2))
        hessian[:, 1:-1, 0, 0] = np.diff(s, 2, axis=1)
        hessian[1:-1, :, 1, 1] = np.diff(s, 2, axis=0)
        hessian[..., 0, 1] = hessian[..., 1, 0] = np.gradient(np.gradient(s, axis=0), axis=1)
        values = np.linalg.eigvalsh(hessian[inside])
        values = np.take_along_axis(values, np.argsort(-np.abs(values), axis=1), axis=1)
        a, b = values[:, 0], values[:, 1]
        expected = [np.abs(a).mean(), np.abs(b).mean(), np.abs(b).sum() / np.abs(a).sum(), stats.skew(a)]
        close(
            found[GRADIENT + 72 + 4 * i :][:4], expected, f"sigma {sigma}: eigenvalues of the Hessian are NumPy's", 2e-3
        )
    for i, sigma in enumerate((1, 2, 4, 8, 16)):
        s = smooth(g, sigma)[inside]
        close(found[GRADIENT + 80 + 2 * i :][:2], [s.std(), stats.skew(s)], f"sigma {sigma}: deviation and skew", 2e-3)


def of_lines(found, image):
    """Compares the votes of edges for lines with the definition. Rounding may put a few pixels into the next cell."""
    patch, inside = patch_of(image.astype(float))
    s = smooth((patch - patch[inside].mean()) / patch[inside].std(), 1)
    gy, gx = filters.sobel_h(s), filters.sobel_v(s)
    m = np.hypot(gx, gy)
    edge = inside & (m >= max(rank(m[inside], 90), rank(m[inside], 99) / 3))
    radius, middle = DIAMETER // 2, patch.shape[0] // 2
    v, u = np.nonzero(edge)
    votes = np.zeros((36, 2 * radius + 3))
    nearest = np.rint(np.arctan2(gy, gx)[edge] / np.pi * 36).astype(int)
    for k in (-1, 0, 1):
        angle = (nearest + k) % 36
        distance = np.rint((u - middle) * np.cos(np.pi * angle / 36) + (v - middle) * np.sin(np.pi * angle / 36))
        np.add.at(votes, (angle, distance.astype(int) + radius + 1), 1)
    of_angle, top = votes.sum(axis=1), np.sort(votes.ravel())[::-1]
    expected = [top[0] / radius, top[:10].mean() / radius, votes.std() / votes.mean(), stats.kurtosis(votes.ravel())]
    close(found[LINES:][:4], expected, "votes for lines", 0.01)
    shares = [votes[votes >= least].sum() / votes.sum() for least in (8, 16, 32, 64)]
    check(
        np.abs(found[LINES + 4 :][:4] - shares).max() < 0.005,
        f"shares of votes in full cells: {found[LINES + 4:][:4]}, NumPy {np.array(shares)}",
    )
    close(
        found[LINES + 8 :][:2],
        [of_angle.std() / of_angle.mean(), of_angle.max() / of_angle.sum()],
        "votes of the angles",
        0.01,
    )


def of_strips(found, image):
    """Compares the largest mean along strips in 24 directions with the definition. Strips of 41 px are cut at both ends
    where they would leave the patch above or below."""
    patch, inside = patch_of(image.astype(float))
    g = (patch - patch[inside].mean()) / patch[inside].std()
    d = np.where(inside, smooth(g, 0.7) - smooth(g, 8), 0)
    wide = np.pad(d, 20)
    side = d.shape[0]
    for i, half in enumerate((5, 10, 20)):
        best = np.zeros_like(d)
        for angle in np.pi * np.arange(24) / 24:
            places = [
                (int(np.rint(t * np.cos(angle))), int(np.rint(t * np.sin(angle)))) for t in range(-half, half + 1)
            ]
            mean = sum(wide[20 + y : 20 + y + side, 20 + x : 20 + x + side] for x, y in places) / len(places)
            best = np.maximum(best, np.abs(mean))
        values = best[inside]
        top = np.sort(values)[-(len(values) // 1000 + 1) :].mean()
        middle, high = rank(values, 50), rank(values, 99)
        expected = [
            values.mean(),
            values.std(),
            stats.skew(values),
            middle,
            rank(values, 90),
            high,
            top,
            high / middle,
            top / middle,
            (values > 3 * middle).mean(),
        ]
        close(found[STRIPS + 10 * i :][:10], expected, f"strips of {2 * half + 1} px", 5e-3)


def of_topology(found, image):
    """Compares the topology of the three masks. scikit-image names Otsu's threshold by the middle of its bin, which is
    half a bin less."""
    patch, inside = patch_of(image.astype(float))
    g = (patch - patch[inside].mean()) / patch[inside].std()
    m = filters.sobel(smooth(g, 2))
    d = smooth(g, 1) - smooth(g, 10)
    median = np.median(d[inside])
    deviation = 1.4826 * np.median(np.abs(d[inside] - median))
    otsu = filters.threshold_otsu(m[inside], nbins=256) + np.ptp(m[inside]) / 512
    masks = (d < median - 3 * deviation, d > median + 3 * deviation, m > otsu)
    for k, mask in enumerate(masks):
        mask = mask & inside
        labels = measure.label(mask, connectivity=2)
        areas = np.array([r.area for r in measure.regionprops(labels)], float)
        kept = areas[areas >= 4]
        out = found[TOPOLOGY + 15 * k :]
        holes = measure.label(~mask, connectivity=1).max() - 1
        name = ("dark", "bright", "changing (Otsu)")[k]
        close(out[0], mask.sum() / inside.sum(), f"{name}: share of the area", 0.02)
        check(
            abs(out[1] - len(kept)) <= max(1, 0.03 * len(kept)),
            f"{name}: {out[1]:.0f} components, scikit-image {len(kept)}",
        )
        check(abs(out[2] - holes) <= max(1, 0.05 * holes), f"{name}: {out[2]:.0f} holes, scikit-image {holes}")
        regions = [r for r in measure.regionprops(labels) if r.area >= 4]
        if regions:
            weights = np.array([r.area for r in regions], float)
            close(
                out[7],
                (weights * [r.eccentricity for r in regions]).sum() / weights.sum(),
                f"{name}: eccentricity",
                0.03,
            )
            close(out[9], np.mean([r.extent for r in regions]), f"{name}: extent", 0.03)


def shapes(work):
    """A rectangle has straight edges that meet at right angles. Discs have none. Rings have holes."""
    flat = np.full((SIZE, SIZE), 120, np.uint8)
    # An edge through the circle, 30 px from its centre, is a chord of 191 px in any direction.
    for degrees in (20, 110, 155):
        angle = np.deg2rad(degrees)
        far = (X - CENTRE[0]) * np.cos(angle) + (Y - CENTRE[1]) * np.sin(angle) > 30
        edge = features(work, np.where(far, 60, 120).astype(np.uint8), f"edge_{degrees}")
        check(
            abs(edge[LINES] - 1.908) < 0.1,
            f"an edge at {degrees}°: the line with most votes has {edge[LINES]:.2f} of the radius, 1.91 is drawn",
        )
    rectangle, discs, rings = flat.copy(), flat.copy(), flat.copy()
    rectangle[120:200, 140:190] = 60
    # Turned by 35°, so that no edge follows the pixels.
    angle = np.deg2rad(35)
    u = (X - CENTRE[0]) * np.cos(angle) + (Y - CENTRE[1]) * np.sin(angle)
    v = -(X - CENTRE[0]) * np.sin(angle) + (Y - CENTRE[1]) * np.cos(angle)
    turned = np.where((np.abs(u) < 50) & (np.abs(v) < 26), 60, 120).astype(np.uint8)
    for x, y in ((120, 120), (200, 120), (160, 200)):
        discs[(X - x) ** 2 + (Y - y) ** 2 < 15**2] = 60
        d = np.hypot(X - x, Y - y)
        rings[(d < 15) & (d > 9)] = 60
    drawn = {"rectangle": rectangle, "turned": turned, "discs": discs, "rings": rings}
    a, t, b, c = (features(work, image, name) for name, image in drawn.items())
    check(
        abs(a[LINES + 15] - 0.8) < 0.1,
        f"rectangle: the longest line over the radius is {a[LINES + 15]:.2f}, 0.80 is drawn",
    )
    check(abs(t[LINES + 15] - 1.0) < 0.1, f"turned one: {t[LINES + 15]:.2f}, 1.00 is drawn")
    check(
        a[LINES + 13] == 4 and t[LINES + 13] == 4,
        f"four lines of 26 px in either: {a[LINES + 13]:.0f}, {t[LINES + 13]:.0f}",
    )
    check(b[LINES + 13] == 0, "no line of 26 px in discs")
    check(
        a[LINES + 19] > 0.8 > b[LINES + 19] + 0.3,
        f"edges in straight lines: {a[LINES + 19]:.2f}, of discs {b[LINES + 19]:.2f}",
    )
    check(a[LINES + 24] > 0 and b[LINES + 24] == 0, "lines that meet at an angle: those of the rectangle alone")
    check(b[TOPOLOGY + 1] == 3 and b[TOPOLOGY + 2] == 0, "discs: three components without holes")
    check(
        c[TOPOLOGY + 1] == 3 and c[TOPOLOGY + 2] == 3 and c[TOPOLOGY + 3] == 0,
        "rings: three components, three holes, Euler number 0",
    )
    check(b[TOPOLOGY + 8] > 0.85, f"discs are round: {b[TOPOLOGY + 8]:.2f}")
    none = features(work, flat, "flat")
    check((none[1] == 0) and (none[GRADIENT:] == 0).sum() > 150, "a flat picture has no changes, lines or components")


def texture(work, image, name):
    """The stage and the kernel give the same texture around the same pixel, to the last bit."""
    path, (ny, nx) = f"{work}/{name}.png", image.shape
    Image.fromarray(image).save(path)
    scorer("--i", path, "--o", f"{work}/texture", "--keep-features", "--centre", "%d,%d" % CENTRE, "--stride", 20)
    image.tofile(f"{work}/{name}.raw")
    words = (f"{work}/{name}.raw", nx, ny, *CENTRE, DIAMETER, 25, 31, 20)
    text = subprocess.run(
        [f"{BIN}/../tests/texture_tool", "image", *map(str, words)], check=True, capture_output=True, text=True
    ).stdout
    expected = np.array([line.split()[3:] for line in text.splitlines()], np.float64).astype(np.float32)
    found = np.load(f"{work}/texture/{name}_features.npy").reshape(-1, 3)
    check(
        found.shape == (975, 3) and (found == expected).all(),
        f"{name}: {(found != expected).sum()} of 2,925 numbers of texture are not the kernel's",
    )


work = tempfile.mkdtemp(prefix="icestream-crystal-features-")
print(f"seed {SEED}, in {work}")
simulate(f"{work}/drops", count=1, seed=SEED)
for kind in ("precipitate", "crystal", "phase", "skin"):
    image = np.asarray(Image.open(f"{work}/drops/{kind}_0001.png"))
    found = features(work, image, kind)
    of_statistics(found, image)
    of_changes(found, image)
    of_curvature(found, image)
    of_lines(found, image)
    of_strips(found, image)
    of_topology(found, image)
    bright = features(work, np.clip(image.astype(float) / 2 + 20, 0, 255).astype(np.uint16) * 200, kind + "_16bit")
    same = features(
        work, (np.clip(image.astype(float) / 2 + 20, 0, 255).astype(np.uint16)).astype(np.uint8), kind + "_8bit"
    )
    close(bright[GRADIENT:], same[GRADIENT:], "16 bits and another contrast change nothing but the statistics", 2e-2)
texture(work, np.ascontiguousarray(np.asarray(Image.open(f"{work}/drops/crystal_0001.png"))[:300]), "wide")
shapes(work)
if "--keep" not in sys.argv:
    shutil.rmtree(work)
end()
