/* Ensembles: RMSDs of all pairs as a matrix in the order of the clusters, and the clusters. */
(function (ice) {
  'use strict';

  let parts;
  let about = null;
  let matrix = null; // {n, count, max, data}

  function draw(root) {
    parts = {
      canvas: ice.el('canvas', { class: 'matrix', width: 1, height: 1, role: 'img', tabindex: '0', id: 'rmsd-matrix', 'aria-label': 'RMSD of all pairs' }),
      read: ice.el('p', { class: 'summary', role: 'status' }),
      bar: ice.el('p', { class: 'bar-line quiet' }),
      line: ice.el('p', { class: 'class-line-top' }),
      clusters: ice.el('div', { class: 'scroll' }),
    };
    parts.canvas.addEventListener('pointermove', read);
    parts.canvas.addEventListener('pointerleave', () => { parts.read.textContent = ''; });
    root.append(ice.heading('Ensemble'), parts.line, ice.el('div', { class: 'ensemble' },
      ice.el('figure', { class: 'chart' }, ice.el('figcaption', {}, ice.el('span', { class: 'title', text: 'RMSD of all pairs' }), ' ',
        ice.el('span', { class: 'unit', text: 'Å, in the order of the clusters' })), parts.canvas, parts.bar, parts.read),
      ice.el('div', {}, ice.el('h3', { text: 'Clusters' }), parts.clusters)));
  }

  function read(event) {
    if (!matrix || !matrix.n) return;
    const box = parts.canvas.getBoundingClientRect();
    const place = (part) => Math.min(matrix.n - 1, Math.max(0, Math.floor(part * matrix.n)));
    const i = place((event.clientX - box.left) / box.width);
    const j = place((event.clientY - box.top) / box.height);
    const value = matrix.data[j * matrix.n + i] / 255 * matrix.max;
    const order = matrix.order || (about && about.order) || [];
    const name = (at) => (about && about.names ? about.names[order[Math.floor(at * order.length / matrix.n)]] : null) || 'place ' + (at + 1);
    parts.read.textContent = name(i) + ' and ' + name(j) + ': ' + value.toFixed(1) + ' Å';
  }

  function paint() {
    const { n, data, max } = matrix;
    parts.canvas.width = parts.canvas.height = Math.max(1, n);
    const picture = new ImageData(Math.max(1, n), Math.max(1, n));
    const colours = Array.from({ length: 256 }, (nothing, v) => ice.cividis(1 - v / 255));
    for (let i = 0; i < n * n; i++) {
      const colour = colours[data[i]];
      picture.data[4 * i] = colour[0];
      picture.data[4 * i + 1] = colour[1];
      picture.data[4 * i + 2] = colour[2];
      picture.data[4 * i + 3] = 255;
    }
    parts.canvas.getContext('2d').putImageData(picture, 0, 0);
    parts.canvas.setAttribute('aria-label', 'RMSD of all pairs of ' + ice.plural(matrix.count || n, 'structure') + ', 0 to ' + max.toFixed(1) + ' Å; yellow is alike.');
    const bar = ice.el('canvas', { class: 'colour-bar', width: 128, height: 1, 'aria-hidden': 'true' });
    const strip = new ImageData(128, 1);
    for (let i = 0; i < 128; i++) strip.data.set([...ice.cividis(1 - i / 127), 255], 4 * i);
    bar.getContext('2d').putImageData(strip, 0, 0);
    ice.fill(parts.bar, '0 ', bar, ' ' + max.toFixed(1) + ' Å');
  }

  function show_clusters() {
    const clusters = about.clusters || [];
    const total = clusters.reduce((sum, it) => sum + it.size, 0) || 1;
    parts.line.textContent = ice.plural(about.count, 'structure') + ' in ' + ice.plural(clusters.length, 'cluster') +
      (ice.is_number(about.cutoff) ? ', ' + ice.number(about.cutoff, 3) + ' Å apart at most' : '');
    const name = (index) => (about.names && about.names[index]) || ice.NONE;
    ice.fill(parts.clusters, ice.table(['cluster', 'structures', 'share', 'centre'], clusters.slice(0, 100).map((it) => [String(it.number), ice.count(it.size),
      ice.el('span', { class: 'share cluster-share' }, ice.el('span', { style: { width: 100 * it.size / total + '%' } })), name(it.centre)])));
  }

  async function load() {
    try {
      about = await ice.api('api/ensemble');
    } catch (error) {
      parts.line.textContent = error.status === 404 ? 'No clusters yet.' : error.message;
      return;
    }
    show_clusters();
    const answer = await fetch('api/ensemble/matrix?n=512', { cache: 'no-store' }).catch(() => null);
    if (!answer || !answer.ok) {
      parts.read.textContent = 'The matrix is not there: it did not fit into memory, or nothing has been compared yet.';
      return;
    }
    const head = JSON.parse(answer.headers.get('X-Matrix') || '{}');
    const data = new Uint8Array(await answer.arrayBuffer());
    matrix = Object.assign({ n: Math.round(Math.sqrt(data.length)), max: 1 }, head, { data });
    paint();
  }

  function update(kind) {
    if (kind === 'shown' || kind === 'product') load();
  }

  ice.section({ id: 'ensemble', title: 'Ensemble', order: 64, stages: ['superposer'], draw, update });
})(window.ice);
