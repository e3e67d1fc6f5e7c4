/* Directions on the sphere: HEALPix (Gorski et al. 2005, ApJ 622, 759) and the projection of Mollweide. */
(function (ice) {
  'use strict';

  /* Interleaves the lower 16 bits of x (even places) and y (odd places). */
  function spread(x) {
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333;
    return (x | x << 1) & 0x55555555;
  }

  /* Returns the pixel that holds the direction z = cos(theta), phi; nside is a power of two in the nested order. */
  function pixel(nside, nested, z, phi) {
    const height = Math.abs(z);
    const turn = ((phi / (Math.PI / 2)) % 4 + 4) % 4; // 0 to 4
    const equator = height <= 2 / 3;
    if (nested) {
      let face;
      let x;
      let y;
      if (equator) {
        const up = Math.floor(nside * (0.5 + turn) - nside * z * 0.75);
        const down = Math.floor(nside * (0.5 + turn) + nside * z * 0.75);
        const a = Math.floor(up / nside);
        const b = Math.floor(down / nside);
        face = a === b ? a % 4 + 4 : a < b ? a % 4 : b % 4 + 8;
        x = down % nside;
        y = nside - up % nside - 1;
      } else {
        const quarter = Math.min(3, Math.floor(turn));
        const part = turn - quarter;
        const reach = nside * Math.sqrt(3 * (1 - height));
        const a = Math.min(Math.floor(part * reach), nside - 1);
        const b = Math.min(Math.floor((1 - part) * reach), nside - 1);
        face = z >= 0 ? quarter : quarter + 8;
        x = z >= 0 ? nside - b - 1 : a;
        y = z >= 0 ? nside - a - 1 : b;
      }
      return face * nside * nside + spread(x) + 2 * spread(y);
    }
    if (equator) {
      const up = Math.floor(nside * (0.5 + turn) - nside * z * 0.75);
      const down = Math.floor(nside * (0.5 + turn) + nside * z * 0.75);
      const ring = nside + 1 + up - down;
      const along = Math.floor((up + down - nside + (ring & 1 ? 0 : 1) + 1) / 2);
      return 2 * nside * (nside - 1) + (ring - 1) * 4 * nside + (along % (4 * nside) + 4 * nside) % (4 * nside);
    }
    const part = turn - Math.floor(turn);
    const reach = nside * Math.sqrt(3 * (1 - height));
    const a = Math.floor(part * reach);
    const b = Math.floor((1 - part) * reach);
    const ring = a + b + 1;
    const along = Math.min(Math.floor(turn * ring), 4 * ring - 1);
    return z > 0 ? 2 * ring * (ring - 1) + along : 12 * nside * nside - 2 * ring * (ring + 1) + along;
  }

  ice.healpix = { pixel };

  /* Cividis (Nunez et al. 2018), ten knots, as sRGB. */
  const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120],
    [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];

  /* Returns [r, g, b] from 0 to 255 of a value from 0 to 1. */
  ice.cividis = (value) => {
    const at = Math.min(Math.max(value, 0), 1) * (CIVIDIS.length - 1);
    const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
    return CIVIDIS[low].map((part, i) => Math.round(part + (CIVIDIS[low + 1][i] - part) * (at - low)));
  };

  /* Draws counts over the sphere into a canvas of twice its height, clear outside the ellipse. The middle is x. */
  ice.mollweide = (canvas, counts, nside, nested) => {
    const width = canvas.width;
    const height = canvas.height;
    const picture = new ImageData(width, height);
    let most = 0;
    for (const count of counts) {
      most = Math.max(most, count);
    }
    for (let row = 0; row < height; row++) {
      const y = 1 - 2 * (row + 0.5) / height;
      const theta = Math.asin(y);
      const z = (2 * theta + Math.sin(2 * theta)) / Math.PI;
      const reach = Math.cos(theta);
      for (let column = 0; column < width; column++) {
        const x = 2 * (column + 0.5) / width - 1;
        if (Math.abs(x) > reach) {
          continue;
        }
        const count = counts[pixel(nside, nested, z, Math.PI * x / reach)];
        const edge = Math.min(1, (reach - Math.abs(x)) * width / 2);
        const colour = ice.cividis(most > 0 ? Math.sqrt(count / most) : 0);
        picture.data.set([...colour, 255 * edge], 4 * (row * width + column));
      }
    }
    canvas.getContext('2d').putImageData(picture, 0, 0);
  };
})(window.ice);
