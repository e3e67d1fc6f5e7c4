/* Surfaces of maps, away from the thread of the page: { id, level, n, volume: Uint8Array(n*n*n) } in, { id, vertices,
 * indices, milliseconds } out. A message without a volume is about the one before. */
'use strict';

/* Radius in voxels of the neighbourhood that shades a vertex. */
const NEAR = 4;

/* Box filter of `radius` along x, y and z of an n^3 volume of floats, in place of a Gaussian. */
function box_filter(volume, n, radius) {
  const line = new Float32Array(n);
  const scale = 1 / (2 * radius + 1);
  for (const stride of [1, n, n * n]) {
    const other = stride === 1 ? [n, n * n] : stride === n ? [1, n * n] : [1, n];
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < n; b++) {
        const start = a * other[0] + b * other[1];
        for (let i = 0; i < n; i++) {
          line[i] = volume[start + i * stride];
        }
        let sum = 0;
        for (let i = -radius; i < n; i++) {
          sum += i + radius < n ? line[i + radius] : 0;
          sum -= i - radius > 0 ? line[i - radius - 1] : 0;
          if (i >= 0) {
            volume[start + i * stride] = sum * scale;
          }
        }
      }
    }
  }
}

/* Returns the trilinear value of an n^3 volume at a point inside it. */
function sample(volume, n, x, y, z) {
  const last = n - 1.001;
  x = Math.min(Math.max(x, 0), last);
  y = Math.min(Math.max(y, 0), last);
  z = Math.min(Math.max(z, 0), last);
  const i = x | 0;
  const j = y | 0;
  const k = z | 0;
  const fx = x - i;
  const fy = y - j;
  const at = (k * n + j) * n + i;
  const plane = at + n * n;
  const low = (volume[at] * (1 - fx) + volume[at + 1] * fx) * (1 - fy) +
    (volume[at + n] * (1 - fx) + volume[at + n + 1] * fx) * fy;
  const high = (volume[plane] * (1 - fx) + volume[plane + 1] * fx) * (1 - fy) +
    (volume[plane + n] * (1 - fx) + volume[plane + n + 1] * fx) * fy;
  return low + (high - low) * (z - k);
}

/* An array that grows by doubling. */
class Growing {
  constructor(Type, size) {
    this.data = new Type(size);
    this.count = 0;
  }

  reserve(more) {
    if (this.count + more > this.data.length) {
      const larger = new this.data.constructor(Math.max(2 * this.data.length, this.count + more));
      larger.set(this.data.subarray(0, this.count));
      this.data = larger;
    }
  }
}

/* The surface nets of Gibson (MERL TR99-24): one vertex in every cell that the surface crosses, at the mean of its
 * crossings on the cell's edges, and two triangles for every voxel edge that it crosses. Returns { points, indices }:
 * points in voxels; the front of a triangle faces lower values. */
function surface_nets(volume, n, level) {
  const points = new Growing(Float32Array, 65536);
  const indices = new Growing(Uint32Array, 131072);
  const nn = n * n;
  const vertex = [new Int32Array(nn), new Int32Array(nn)]; // of the cells of this layer and of the one before
  const corner = [0, 1, n, n + 1, nn, nn + 1, nn + n, nn + n + 1];
  const value = new Float32Array(8);

  function quad(a, b, c, d, turned) {
    indices.reserve(6);
    const to = indices.data;
    let at = indices.count;
    to[at++] = a;
    to[at++] = turned ? c : b;
    to[at++] = turned ? b : c;
    to[at++] = a;
    to[at++] = turned ? d : c;
    to[at++] = turned ? c : d;
    indices.count = at;
  }

  for (let k = 0; k < n - 1; k++) {
    const here = vertex[k & 1];
    const below = vertex[1 - (k & 1)];
    for (let j = 0; j < n - 1; j++) {
      for (let i = 0; i < n - 1; i++) {
        const at = k * nn + j * n + i;
        let inside = 0;
        for (let c = 0; c < 8; c++) {
          value[c] = volume[at + corner[c]] - level;
          inside |= value[c] > 0 ? 1 << c : 0;
        }
        if (inside === 0 || inside === 255) {
          continue;
        }
        let x = 0;
        let y = 0;
        let z = 0;
        let crossings = 0;
        for (let axis = 0; axis < 3; axis++) {
          const step = 1 << axis;
          for (let c = 0; c < 8; c++) {
            if (c & step || !((inside >> c ^ inside >> (c | step)) & 1)) {
              continue;
            }
            const part = value[c] / (value[c] - value[c | step]);
            x += axis === 0 ? part : c & 1;
            y += axis === 1 ? part : c >> 1 & 1;
            z += axis === 2 ? part : c >> 2;
            crossings++;
          }
        }
        points.reserve(3);
        here[j * n + i] = points.count / 3;
        points.data[points.count++] = i + x / crossings;
        points.data[points.count++] = j + y / crossings;
        points.data[points.count++] = k + z / crossings;
        const first = inside & 1;
        const v = here[j * n + i];
        if (j > 0 && k > 0 && first !== (inside >> 1 & 1)) {
          quad(v, here[(j - 1) * n + i], below[(j - 1) * n + i], below[j * n + i], first === 0);
        }
        if (i > 0 && k > 0 && first !== (inside >> 2 & 1)) {
          quad(v, below[j * n + i], below[j * n + i - 1], here[j * n + i - 1], first === 0);
        }
        if (i > 0 && j > 0 && first !== (inside >> 4 & 1)) {
          quad(v, here[j * n + i - 1], here[(j - 1) * n + i - 1], here[(j - 1) * n + i], first === 0);
        }
      }
    }
  }
  return { points: points.data.subarray(0, points.count), indices: indices.data.slice(0, indices.count) };
}

/* Returns seven floats a vertex: position (the box from -1 to 1), normal, and the light that reaches it (0 to 1). */
function dress(volume, n, level, points) {
  const smooth = Float32Array.from(volume);
  box_filter(smooth, n, 1);
  const filled = new Float32Array(volume.length);
  for (let i = 0; i < volume.length; i++) {
    filled[i] = volume[i] > level ? 1 : 0;
  }
  box_filter(filled, n, NEAR);
  box_filter(filled, n, NEAR >> 1);
  const count = points.length / 3;
  const vertices = new Float32Array(7 * count);
  const half = (n - 1) / 2;
  for (let v = 0; v < count; v++) {
    const x = points[3 * v];
    const y = points[3 * v + 1];
    const z = points[3 * v + 2];
    let a = sample(smooth, n, x - 1, y, z) - sample(smooth, n, x + 1, y, z);
    let b = sample(smooth, n, x, y - 1, z) - sample(smooth, n, x, y + 1, z);
    let c = sample(smooth, n, x, y, z - 1) - sample(smooth, n, x, y, z + 1);
    const length = Math.hypot(a, b, c) || 1;
    a /= length;
    b /= length;
    c /= length;
    const around = sample(filled, n, x + 2.5 * a, y + 2.5 * b, z + 2.5 * c);
    vertices.set([x / half - 1, y / half - 1, z / half - 1, a, b, c,
      1 - 0.95 * Math.min(Math.max((around - 0.08) / 0.62, 0), 1)], 7 * v);
  }
  return vertices;
}

function mesh(volume, n, level) {
  const net = surface_nets(volume, n, level);
  return { vertices: dress(volume, n, level, net.points), indices: net.indices };
}

let kept = { volume: null, n: 0 }; // the map of the last message that brought one

if (typeof self !== 'undefined' && typeof self.postMessage === 'function') {
  self.onmessage = (event) => {
    const asked = event.data;
    if (asked.volume) {
      kept = { volume: asked.volume, n: asked.n };
    }
    const began = performance.now();
    const made = mesh(kept.volume, kept.n, asked.level);
    self.postMessage({id: asked.id, vertices: made.vertices, indices: made.indices,
      milliseconds: performance.now() - began}, [made.vertices.buffer, made.indices.buffer]);
  };
}
