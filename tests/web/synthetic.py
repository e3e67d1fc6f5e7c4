"""Makes the products of a synthetic session: pictures, STAR files, class averages, a map. Nothing here has been measured."""
import io
import json
import os

import numpy
from PIL import Image

BOX, PIXEL = 64, 3.75


def write_mrc(path, data, pixel_size, stack=False):
    """Writes [z][y][x] float32 as MRC2014 of mode 2, or int8 as mode 0."""
    data = numpy.ascontiguousarray(data)
    nz, ny, nx = data.shape
    header = numpy.zeros(256, dtype="<i4")
    header[0:4] = nx, ny, nz, 0 if data.dtype == numpy.int8 else 2
    header[7:10] = nx, ny, 1 if stack else nz
    header[10:13] = (numpy.array([nx, ny, 1 if stack else nz], dtype="<f4") * numpy.float32(pixel_size)).view("<i4")
    header[13:16] = numpy.array([90, 90, 90], dtype="<f4").view("<i4")
    header[16:19] = 1, 2, 3
    values = data.astype("<f4")
    header[19:22] = numpy.array([values.min(), values.max(), values.mean()], dtype="<f4").view("<i4")
    header[22] = 0 if stack else 1
    header[27] = 20140
    header[52] = int.from_bytes(b"MAP ", "little")
    header[53] = 0x00004444
    header[54] = numpy.array([values.std()], dtype="<f4").view("<i4")[0]
    with open(path, "wb") as out:
        out.write(header.tobytes() + data.tobytes())


def star(path, blocks):
    """Writes blocks (name, {label: value}) or (name, [labels], [rows])."""
    lines = []
    for block in blocks:
        lines += ["", "# version 30001", "", "data_" + block[0], ""]
        if len(block) == 2:
            lines += ["_%s %s" % pair for pair in block[1].items()]
        else:
            lines += ["loop_"] + ["_%s #%d" % (label, i + 1) for i, label in enumerate(block[1])]
            lines += [" ".join(str(cell) for cell in row) for row in block[2]]
        lines.append("")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines))


def blobs(shape, centres, sigma):
    grid = numpy.indices(shape, dtype=numpy.float32)
    total = numpy.zeros(shape, numpy.float32)
    for centre in centres:
        distance = sum((grid[axis] - centre[axis]) ** 2 for axis in range(len(shape)))
        total += numpy.exp(-distance / (2 * sigma * sigma))
    return total


def to_bytes(image, low=-2.5, high=2.5):
    deviation = float(image.std()) or 1.0
    scaled = (image - image.mean()) / deviation
    return numpy.clip((scaled - low) / (high - low) * 255, 0, 255).astype(numpy.uint8)


def encoded(array, kind, **options):
    out = io.BytesIO()
    Image.fromarray(array).save(out, kind, **options)
    return out.getvalue()


class Micrographs:
    """A few micrographs with all that is made of them; every exposure shows one of these."""

    SIZE, PICKS = 512, 40

    def __init__(self, folder, count, random):
        self.count, self.folder = count, folder
        os.makedirs(folder, exist_ok=True)
        self.coordinates = []
        for k in range(count):
            centres = random.uniform(24, self.SIZE - 24, (self.PICKS, 2))
            scores = random.uniform(0.5, 3.0, self.PICKS)
            self.coordinates.append(centres)
            image = random.normal(0, 1, (self.SIZE, self.SIZE)).astype(numpy.float32)
            image -= 1.5 * blobs((self.SIZE, self.SIZE), centres, 5.0)
            write_mrc(self.path(k, ".mrc"), image[None], 2.5)
            small = to_bytes(image).reshape(128, 4, 128, 4).mean((1, 3)).astype(numpy.uint8)
            self.put(k, "_thumb.jpg", encoded(small, "JPEG", quality=75))
            power = numpy.log1p(numpy.abs(numpy.fft.fftshift(numpy.fft.fft2(image[:256, :256]))))
            self.put(k, "_spectrum.png", encoded(to_bytes(power), "PNG"))
            self.put(k, "_ctf.json", json.dumps(self.ctf(k, random)).encode())
            self.put(k, "_motion.json", json.dumps(self.motion(random)).encode())
            star(self.path(k, "_autopick.star"),
                 [("", ["rlnCoordinateX", "rlnCoordinateY", "rlnClassNumber", "rlnAutopickFigureOfMerit", "rlnAnglePsi"],
                   [("%.3f" % x, "%.3f" % y, 1, "%.4f" % s, "0.0") for (y, x), s in zip(centres, scores)])])

    def path(self, k, suffix):
        return os.path.join(self.folder, "%02d%s" % (k, suffix))

    def put(self, k, suffix, data):
        with open(self.path(k, suffix), "wb") as out:
            out.write(data)

    @staticmethod
    def ctf(k, random):
        frequency = (numpy.arange(200) + 0.5) / 1000
        phase = numpy.pi * 0.0197 * (9000 + 500 * k) * frequency ** 2
        fit = numpy.sin(phase) ** 2 * numpy.exp(-40 * frequency ** 2)
        background = 1 / (1 + 20 * frequency)
        data = fit + random.normal(0, 0.05, fit.size)
        score = numpy.clip(1.2 - frequency * 8, 0, 1)
        return {"v": 1, "k": frequency.round(5).tolist(), "data": data.round(4).tolist(),
                "background": background.round(4).tolist(), "fit": fit.round(4).tolist(), "score": score.round(3).tolist()}

    @staticmethod
    def motion(random):
        steps = random.normal(0.3, 0.4, (8, 2)).cumsum(0)
        length = numpy.sqrt((numpy.diff(steps, axis=0) ** 2).sum(1))
        return {"v": 1, "frames": 8, "x": steps[:, 0].round(3).tolist(), "y": steps[:, 1].round(3).tolist(),
                "early": float(length[:3].sum().round(3)), "late": float(length[3:].sum().round(3)),
                "total": float(length.sum().round(3))}

    def link(self, k, suffix, path):
        """Puts a file of micrograph k at a path. Thousands of exposures share the bytes."""
        try:
            os.link(self.path(k % self.count, suffix), path)
        except OSError:
            with open(self.path(k % self.count, suffix), "rb") as source, open(path, "wb") as out:
                out.write(source.read())


def class_files(folder, iteration, classes, particles, random):
    """Writes classes and model of one snapshot of the classifier. Returns the number of kept particles and classes."""
    stem = "run_it%03d_" % iteration
    share = random.dirichlet(numpy.full(classes, 3.0))
    members = numpy.floor(share * particles).astype(int)
    kept = [k % 4 != 3 for k in range(classes)]
    images = []
    for k in range(classes):
        angle = 2 * numpy.pi * k / classes
        far = 12 + iteration % 4
        centres = [(32 + far * numpy.sin(angle), 32 + far * numpy.cos(angle)), (32, 32),
                   (32 - far * numpy.sin(angle + 1), 32 - far * numpy.cos(angle + 1))]
        image = blobs((BOX, BOX), centres, 4.0)
        images.append(image + random.normal(0, 0.03 if kept[k] else 0.6, image.shape))
    write_mrc(os.path.join(folder, stem + "classes.mrcs"), numpy.array(images, dtype=numpy.float32), PIXEL, stack=True)
    labels = ["rlnReferenceImage", "rlnClassDistribution", "rlnAccuracyRotations", "rlnAccuracyTranslationsAngst",
              "rlnEstimatedResolution", "rlnOverallFourierCompleteness", "icestreamQuality", "icestreamEvidence",
              "icestreamMembers", "icestreamKept"]
    rows = [("%06d@classifier/%sclasses.mrcs" % (k + 1, stem), "%.6f" % share[k], 999, 999, "%.4f" % (14 + k % 5), 0.7,
             "%.4f" % (0.9 if kept[k] else 0.1), 50, members[k], int(kept[k])) for k in range(classes)]
    star(os.path.join(folder, stem + "model.star"),
         [("model_general", {"rlnReferenceDimensionality": 2, "rlnOriginalImageSize": BOX, "rlnPixelSize": PIXEL,
                             "rlnNrClasses": classes, "icestreamParticles": particles, "icestreamFinal": 0}),
          ("model_classes", labels, rows)])
    return int(members[numpy.array(kept)].sum()), sum(kept)


def curve(resolution):
    """Returns frequencies (1/Å) of the shells and a curve that is 0.143 at the resolution."""
    shells = numpy.arange(BOX // 2 + 1) / (BOX * PIXEL)
    return shells, 1 / (1 + numpy.exp((shells * resolution - 1) * 12 + numpy.log(1 / 0.143 - 1)))


def map_files(folder, iteration, resolution, random):
    """Writes the map, the model with its curve and its directions, and the post-processing of an iteration."""
    centres = [(32, 32, 32), (32, 44, 32), (32, 32, 46), (44, 30, 30), (22, 26, 38)]
    volume = blobs((BOX, BOX, BOX), centres, 4.0) + random.normal(0, 0.02, (BOX, BOX, BOX)).astype(numpy.float32)
    stem = "run_it%03d_" % iteration
    for name in (stem + "class001.mrc", stem + "half1_class001.mrc", stem + "half2_class001.mrc", "run_class001.mrc",
                 "run_half1_class001_unfil.mrc", "run_half2_class001_unfil.mrc", "postprocess.mrc"):
        write_mrc(os.path.join(folder, name), volume.astype(numpy.float32), PIXEL)
    shells, fsc = curve(resolution)
    angstroms = [999.0] + [1 / k for k in shells[1:]]
    indices = range(len(shells))
    # HEALPix of order 2, RING: more particles are seen from the poles.
    z = directions(4)
    density = (0.2 + z ** 2) / (0.2 + z ** 2).sum()
    model = [("model_general", {"rlnReferenceDimensionality": 3, "rlnOriginalImageSize": BOX, "rlnPixelSize": PIXEL,
                                "rlnCurrentResolution": "%.4f" % resolution, "rlnNrClasses": 1}),
             ("model_classes", ["rlnReferenceImage", "rlnClassDistribution", "rlnEstimatedResolution"],
              [("refiner/run_class001.mrc", 1, "%.4f" % resolution)]),
             ("model_class_1", ["rlnSpectralIndex", "rlnResolution", "rlnAngstromResolution", "rlnSsnrMap",
                                "rlnGoldStandardFsc"],
              [(i, "%.6f" % shells[i], "%.4f" % angstroms[i], 1, "%.6f" % fsc[i]) for i in indices]),
             ("model_pdf_orient_class_1", ["rlnOrientationDistribution"], [("%.9f" % p,) for p in density])]
    for stem in ("run", "run_it%03d" % iteration):
        star(os.path.join(folder, stem + "_model.star"), model)
    tilts = numpy.degrees(numpy.arccos(random.uniform(-1, 1, 600) ** 3))
    star(os.path.join(folder, "run_data.star"),
         [("optics", ["rlnOpticsGroup", "rlnImagePixelSize"], [(1, PIXEL)]),
          ("particles", ["rlnImageName", "rlnAngleRot", "rlnAngleTilt", "rlnAnglePsi"],
           [("%06d@extractor/x.mrcs" % i, "%.3f" % random.uniform(-180, 180), "%.3f" % tilt, "0.0")
            for i, tilt in enumerate(tilts)])])
    link = os.path.join(folder, "run_it%03d_data.star" % iteration)
    with open(os.path.join(folder, "run_data.star"), "rb") as source, open(link, "wb") as out:
        out.write(source.read())
    _, masked = curve(resolution * 0.85)
    star(os.path.join(folder, "postprocess.star"),
         [("general", {"rlnFinalResolution": "%.4f" % (resolution * 0.85), "rlnBfactorUsedForSharpening": -120.0}),
          ("fsc", ["rlnSpectralIndex", "rlnResolution", "rlnAngstromResolution",
                   "rlnFourierShellCorrelationCorrected", "rlnFourierShellCorrelationUnmaskedMaps",
                   "rlnFourierShellCorrelationMaskedMaps",
                   "rlnCorrectedFourierShellCorrelationPhaseRandomizedMaskedMaps"],
           [(i, "%.6f" % shells[i], "%.4f" % angstroms[i], "%.6f" % (masked[i] * 0.98), "%.6f" % fsc[i],
             "%.6f" % masked[i], "%.6f" % max(0.0, 1 - 20 * shells[i])) for i in indices])])
    link = os.path.join(folder, "latest_map.mrc")
    if os.path.islink(link):
        os.remove(link)
    os.symlink("run_class001.mrc", link)


def directions(nside):
    """Returns z of the centres of all HEALPix pixels, ring by ring (Gorski et al. 2005, equations 4 to 8)."""
    rings = [(4 * i, 1 - i * i / (3 * nside * nside)) for i in range(1, nside)]
    belt = [(4 * nside, 4 / 3 - 2 * i / (3 * nside)) for i in range(nside, 3 * nside + 1)]
    ordered = rings + belt + [(count, -z) for count, z in reversed(rings)]
    return numpy.array([z for count, z in ordered for _ in range(count)])
