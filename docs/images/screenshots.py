#!/usr/bin/env python3
"""docs/images/screenshots.py WORK: takes the pictures of the page that README and handbook show, from what
examples/quickstart.sh --work WORK has left, into this folder. The ledger is that of a second session over the same movies, two
of them cut off, with a stricter rule. Needs what the tests of the page need (scripts/packages.sh --tests), and python3-numpy."""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/web"))
import web  # noqa: E402

WIDTH = 1400
LEDGER = """session: {pixel_size: 2.5, voltage: 300, spherical_aberration: 2.7, amplitude_contrast: 0.1}
stages:
  watcher:          {directory: %s, frames: 8, stall: 3}
  motion-corrector: {from: watcher, dose_per_frame: 7.5}
  ctf-estimator:    {from: motion-corrector}
  lowpass-picker:   {from: ctf-estimator, diameter: 150, reject_if: [rlnCtfMaxResolution > 7, icestreamMotionTotal > 11.5]}
"""


def read_png(data):
    """Returns the pixels of a PNG with 8 bits a channel as rows × columns × 3."""
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IHDR":
            nx, ny, _, colour = struct.unpack(">IIBB", data[at + 8 : at + 18])
        elif kind == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    channels = {2: 3, 6: 4}[colour]
    lines = numpy.frombuffer(zlib.decompress(packed), "u1").reshape(ny, 1 + nx * channels)
    pixels = numpy.zeros((ny, nx, channels), "u1")
    above = numpy.zeros((nx, channels), "i4")
    for y in range(ny):
        way, line = lines[y, 0], lines[y, 1:].reshape(nx, channels).astype("i4")
        if way == 1:
            line = numpy.cumsum(line, axis=0) % 256
        elif way == 2:
            line = (line + above) % 256
        elif way in (3, 4):
            line = line.copy()
            left = upper_left = numpy.zeros(channels, "i4")
            for x in range(nx):
                if way == 3:
                    guess = (left + above[x]) // 2
                else:
                    p = left + above[x] - upper_left
                    a, b, c = abs(p - left), abs(p - above[x]), abs(p - upper_left)
                    guess = numpy.where((a <= b) & (a <= c), left, numpy.where(b <= c, above[x], upper_left))
                upper_left = above[x]
                left = line[x] = (line[x] + guess) % 256
        pixels[y] = above = line
    return pixels[..., :3]


def write_png(path, pixels, greys):
    """Writes a picture of at most 256 colours: greys are rounded to so many, other colours to the nearest that is
    kept."""
    step = 255 / (greys - 1)
    flat = pixels.reshape(-1, 3).astype("i4")
    grey = (numpy.ptp(flat, axis=1) == 0) & (flat[:, 0] < 225)
    flat[grey] = numpy.round(numpy.round(flat[grey] / step) * step)
    packed = flat[:, 0] << 16 | flat[:, 1] << 8 | flat[:, 2]
    colours, places, counts = numpy.unique(packed, return_inverse=True, return_counts=True)
    own = numpy.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
    palette = own[numpy.argsort(-counts)[:160]]
    off = ((own[:, None] - palette[None]) ** 2).sum(axis=2).min(axis=1)
    while len(palette) < 256 and off.max() > 0:  # rare colours far from all others
        palette = numpy.append(palette, own[[off.argmax()]], axis=0)
        off = numpy.minimum(off, ((own - palette[-1]) ** 2).sum(axis=1))
    nearest = numpy.array([((palette - colour) ** 2).sum(axis=1).argmin() for colour in own], "u1")
    ny, nx = pixels.shape[:2]
    rows = numpy.zeros((ny, nx + 1), "u1")
    rows[:, 1:] = nearest[places.reshape(-1)].reshape(ny, nx)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", nx, ny, 8, 3, 0, 0, 0))
                   + chunk(b"PLTE", palette.astype("u1").tobytes()) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
                   + chunk(b"IEND", b""))
    print("%s: %d kB" % (os.path.basename(path), os.path.getsize(path) // 1000))


def take(page, site, name, view, drawn, height, greys=32):
    page.driver.set_window_size(WIDTH, height)
    page.visit(site, view)
    page.wait(drawn, view)
    page.wait("[...document.querySelectorAll('img')].every((it) => it.complete)", "the pictures")
    page.run("document.activeElement.blur(); document.documentElement.style.scrollbarGutter = 'auto'")
    page.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 2000)")  # charts and surface are drawn
    size = page.get("[innerWidth, innerHeight]")
    page.driver.set_window_size(2 * WIDTH - size[0], 2 * height - size[1])  # the browser's own edges
    page.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 1500)")
    pixels = read_png(page.driver.get_screenshot_as_png())
    write_png(os.path.join(HERE, name + ".png"), pixels, greys)


def second(work, folder):
    """Runs the session of the ledger's picture; returns its folder."""
    movies = os.path.join(folder, "movies")
    shutil.copytree(os.path.join(work, "microscope/movies"), movies)
    for number in (5, 11):
        path = "%s/mov_%05d.tif" % (movies, number)
        os.truncate(path, os.path.getsize(path) // 3)
    graph, session = os.path.join(folder, "graph.yaml"), os.path.join(folder, "grid3")
    with open(graph, "w", encoding="utf-8") as file:
        file.write(LEDGER % movies)
    subprocess.run([web.ICESTREAM, "run", graph, "--session", session, "--until-idle", "3"], stdout=subprocess.DEVNULL)
    return session


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    web.need()
    with tempfile.TemporaryDirectory(prefix="icestream-") as folder:
        shown = os.path.join(folder, "quickstart")
        shutil.copytree(os.path.join(sys.argv[1], "session"), shown, symlinks=True)
        first, page = web.Site(folder=shown), web.Page()
        other = None
        try:
            take(page, first, "page-overview", "overview", "document.querySelectorAll('figure.series').length >= 5", 980)
            take(page, first, "page-exposure", "exposure/12", "document.querySelector('.micrograph').naturalWidth > 100", 900, 14)
            take(page, first, "page-classes", "classes", "document.querySelector('.class-tile')", 620)
            take(page, first, "page-map", "map", "document.querySelector('.surface').dataset.triangles > 100", 1000)
            other = web.Site(folder=second(sys.argv[1], folder))
            take(page, other, "page-ledger", "ledger?sort=-state", "document.querySelector('.reasons li')", 620)
        finally:
            page.close()
            for site in (first, other):
                if site:
                    site.close()


if __name__ == "__main__":
    main()
