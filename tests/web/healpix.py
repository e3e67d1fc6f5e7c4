"""Centres of HEALPix pixels in both orders (Gorski et al. 2005, ApJ 622, 759), written apart from the code of the page:
the page finds the pixel of a direction, this the direction of a pixel."""
import math

# The ring and the longitude of the southernmost corner of each of the twelve base pixels.
RING = [2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]
LONGITUDE = [1, 3, 5, 7, 0, 2, 4, 6, 1, 3, 5, 7]


def on_ring(nside, ring, place):
    """Returns (z, phi) of the `place`-th pixel, from 0, of a ring, from 1 at the north pole."""
    mirrored = ring > 2 * nside
    row = 4 * nside - ring if mirrored else ring
    if row < nside:
        z, phi = 1 - row * row / (3.0 * nside * nside), (place + 0.5) * math.pi / (2 * row)
    else:
        shift = 0.5 if (row - nside) % 2 == 0 else 0.0
        z, phi = 4 / 3.0 - 2 * row / (3.0 * nside), (place + shift) * math.pi / (2 * nside)
    return (-z if mirrored else z), phi


def ring_centres(nside):
    centres = []
    for ring in range(1, 4 * nside):
        length = 4 * min(ring, nside, 4 * nside - ring)
        centres += [on_ring(nside, ring, place) for place in range(length)]
    return centres


def nested_centres(nside):
    centres = []
    for pixel in range(12 * nside * nside):
        face, rest, x, y = pixel // (nside * nside), pixel % (nside * nside), 0, 0
        for bit in range(16):
            x |= (rest >> 2 * bit & 1) << bit
            y |= (rest >> 2 * bit + 1 & 1) << bit
        ring = RING[face] * nside - x - y - 1
        row = min(ring, nside, 4 * nside - ring)
        z = on_ring(nside, ring, 0)[0]
        centres.append((z, (LONGITUDE[face] * row + x - y) * math.pi / (4 * row)))
    return centres
