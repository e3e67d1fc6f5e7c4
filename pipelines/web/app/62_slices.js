/* Three slices through a volume of grey values, crossed at one point. */
(function (ice) {
  'use strict';

  const AXES = [['z', 'x', 'y'], ['y', 'x', 'z'], ['x', 'y', 'z']]; // across, right, up

  ice.map_slices = function () {
    let volume = null;
    const at = { x: 0, y: 0, z: 0 };
    const range = { low: 40, high: 200 };
    const planes = AXES.map(([across, right, up]) => {
      const canvas = ice.el('canvas', { class: 'slice-canvas', tabindex: '0', role: 'img', 'aria-label': 'Slice across ' + across });
      const slider = ice.el('input', { type: 'range', min: 0, max: 0, step: 1, value: 0, 'aria-label': 'Slice along ' + across,
        on: { input: () => {
          at[across] = Number(slider.value);
          paint();
        } } });
      const text = ice.el('span', { class: 'quiet number' });
      const plane = { across, right, up, canvas, slider, text };
      canvas.addEventListener('pointerdown', (event) => {
        canvas.setPointerCapture(event.pointerId);
        point(plane, event);
      });
      canvas.addEventListener('pointermove', (event) => {
        if (canvas.hasPointerCapture(event.pointerId)) point(plane, event);
      });
      canvas.addEventListener('keydown', (event) => {
        const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 5, PageDown: -5 }[event.key];
        if (!step || !volume) return;
        event.preventDefault();
        event.stopPropagation();
        at[across] = Math.min(Math.max(at[across] + step, 0), volume.n - 1);
        paint();
      });
      plane.node = ice.el('figure', { class: 'slice' }, canvas, ice.el('figcaption', {}, ice.el('span', { text: across + ' ' }), slider, text));
      return plane;
    });
    const contrast = ice.el('input', { type: 'range', min: 0.3, max: 3, step: 0.05, value: 1, 'aria-label': 'Contrast of the slices',
      on: { input: paint } });
    const said = ice.el('p', { class: 'number' });
    const node = ice.el('div', { class: 'slices' }, planes.map((plane) => plane.node),
      ice.el('div', { class: 'slice-tools' }, ice.el('label', {}, 'Contrast ', contrast), said,
        ice.el('p', { class: 'quiet', text: 'Click a slice to move the other two there.' })));

    function point(plane, event) {
      if (!volume) return;
      const box = plane.canvas.getBoundingClientRect();
      const place = (part) => Math.min(Math.max(Math.round(part * (volume.n - 1)), 0), volume.n - 1);
      at[plane.right] = place((event.clientX - box.left) / box.width);
      at[plane.up] = place(1 - (event.clientY - box.top) / box.height);
      paint();
    }

    /* Greys from the 0.5th to the 99.8th percentile of the slices through the middle. */
    function find_range() {
      const { n, data } = volume;
      const counts = new Float64Array(256);
      const h = n >> 1;
      for (let i = 0; i < n * n; i++) counts[data[h * n * n + i]]++;
      let sum = 0;
      range.low = 0;
      range.high = 255;
      for (let v = 0; v < 256; v++) {
        if (sum < 0.005 * n * n) range.low = v;
        sum += counts[v];
        if (sum < 0.998 * n * n) range.high = v + 1;
      }
      if (range.high <= range.low) range.high = range.low + 1;
    }

    function paint() {
      if (!volume) return;
      const { n, data } = volume;
      const stride = { x: 1, y: n, z: n * n };
      const middle = (range.low + range.high) / 2;
      const scale = 255 * Number(contrast.value) / (range.high - range.low);
      const grey = new Uint8ClampedArray(256);
      for (let v = 0; v < 256; v++) grey[v] = 127.5 + (v - middle) * scale;
      for (const plane of planes) {
        const { canvas, across, right, up } = plane;
        if (canvas.width !== n) canvas.width = canvas.height = n;
        const picture = new ImageData(n, n);
        for (let row = 0; row < n; row++) {
          let from = at[across] * stride[across] + (n - 1 - row) * stride[up];
          for (let i = 0; i < n; i++, from += stride[right]) {
            const v = grey[data[from]];
            const to = 4 * (row * n + i);
            picture.data[to] = picture.data[to + 1] = picture.data[to + 2] = v;
            picture.data[to + 3] = 255;
          }
        }
        cross(picture, n, at[right], n - 1 - at[up]);
        canvas.getContext('2d').putImageData(picture, 0, 0);
        plane.slider.max = n - 1;
        plane.slider.value = at[across];
        plane.text.textContent = at[across] + 1 + ' of ' + n;
        canvas.setAttribute('aria-label', 'Slice ' + (at[across] + 1) + ' of ' + n + ' across ' + across + '. Arrow keys step.');
      }
      say();
    }

    /* The point where the three slices cross, from the middle of the map. */
    function say() {
      const place = (axis) => (at[axis] - (volume.n >> 1)) * (volume.pixel || 1);
      said.textContent = ['x', 'y', 'z'].map((axis) => axis + ' ' + ice.number(place(axis), 3)).join('   ') +
        (volume.pixel ? ' Å' : ' px') + ' from the middle';
    }

    /* Marks the crossing at the edges of the picture alone, so that nothing lies on the density. */
    function cross(picture, n, x, y) {
      const length = Math.max(2, Math.round(n / 16));
      const mark = (column, row) => picture.data.set([86, 180, 233, 255], 4 * (row * n + column));
      for (let i = 0; i < length; i++) {
        mark(x, i);
        mark(x, n - 1 - i);
        mark(i, y);
        mark(n - 1 - i, y);
      }
    }

    return { node, repaint: paint, show: (shown) => {
      const first = !volume || volume.n !== shown.n;
      volume = shown;
      if (first) at.x = at.y = at.z = shown.n >> 1;
      find_range();
      paint();
    } };
  };
})(window.ice);
