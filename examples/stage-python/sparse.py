#!/usr/bin/python3
"""Rejects micrographs with few particles: a whole stage in thirty lines. stranger.py beside it does without a module."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../python"))
from icestream import Reject, Stage  # noqa: E402


class Sparse(Stage):
    """Rejects micrographs with few particles, and writes how many there are for each square micrometre"""

    takes = gives = "micrograph picks"
    parameters = {"least": {"default": 10, "minimum": 0, "help": "Micrographs with fewer particles are rejected."}}

    def process(self, item):
        count, micrograph = item["picks"]["count"], item["micrograph"]
        if count < self.params.least:
            raise Reject(f"{count} particles: {self.params.least} are the fewest")
        pixel = item["optics"]["pixel_size"] / 1e4  # µm; a micrograph without it fails: KeyError: 'optics'
        density = count / (micrograph["nx"] * micrograph["ny"] * pixel**2)
        item["columns"]["particlesPerSquareMicrometre"] = density
        path = self.product(item, "_density.txt")
        with open(path, "w") as file:
            file.write(f"{count} particles, {density:.1f} per square micrometre\n")
        item["density"] = {"text": path}
        return item


Sparse.main()
