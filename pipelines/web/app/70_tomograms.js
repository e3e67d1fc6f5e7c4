/* Tomograms: one slice at a time, with a slider through the thickness. */
(function (ice) {
  'use strict';

  let parts;
  let list = [];
  let at = null; // the tomogram that is shown
  let waiting = 0;

  function draw(root) {
    parts = {
      choose: ice.el('select', { 'aria-label': 'Tomogram', on: { change: () => {
        ice.query('n', parts.choose.value);
        ice.query('z', '');
        open();
      } } }),
      slider: ice.el('input', { type: 'range', min: 0, max: 0, value: 0, 'aria-label': 'Slice', class: 'wide', on: { input: show } }),
      text: ice.el('output', { class: 'number' }),
      picture: ice.el('img', { class: 'tomogram', alt: '', decoding: 'async', id: 'tomogram-slice' }),
      note: ice.el('p', { class: 'quiet', role: 'status' }),
    };
    parts.picture.addEventListener('error', () => { parts.note.textContent = 'This slice cannot be read.'; });
    parts.picture.addEventListener('load', () => { parts.note.textContent = at.nx + ' × ' + at.ny + ' × ' + at.nz + ' voxels' +
      (at.pixel ? ', ' + ice.number(at.pixel, 3) + ' Å' : ''); });
    parts.picture.addEventListener('wheel', (event) => {
      event.preventDefault();
      step(event.deltaY > 0 ? 1 : -1);
    }, { passive: false });
    root.append(ice.heading('Tomograms', parts.choose), ice.el('div', { class: 'tools' }, ice.el('label', { class: 'grow' }, 'Slice ', parts.slider), parts.text),
      parts.picture, parts.note);
  }

  function step(by) {
    parts.slider.value = Number(parts.slider.value) + by;
    show();
  }

  /* The newest slice asked for is loaded after the one on its way, so that dragging never queues up. */
  function show() {
    if (!at) return;
    const z = Number(parts.slider.value);
    parts.text.textContent = z + 1 + ' of ' + at.nz;
    ice.query('z', String(z));
    parts.picture.alt = 'Slice ' + (z + 1) + ' of ' + at.nz + ' of ' + at.name;
    const ask = ++waiting;
    requestAnimationFrame(() => {
      if (ask === waiting) parts.picture.src = 'pic/tomogram/' + at.n + '/' + z + '.jpg' + (at.h ? '?h=' + encodeURIComponent(at.h) : '');
    });
  }

  function open() {
    const n = Number(ice.query('n'));
    at = list.find((it) => it.n === n) || list[list.length - 1] || null;
    if (!at) {
      parts.note.textContent = 'No tomogram yet.';
      parts.picture.hidden = true;
      return;
    }
    parts.picture.hidden = false;
    parts.choose.value = at.n;
    parts.slider.max = Math.max(0, at.nz - 1);
    const z = parseInt(ice.query('z'), 10);
    parts.slider.value = ice.is_number(z) ? z : at.nz >> 1;
    show();
  }

  async function load() {
    try {
      list = (await ice.api('api/tomograms')).tomograms || [];
    } catch (error) {
      parts.note.textContent = error.message;
      return;
    }
    ice.fill(parts.choose, list.map((it) => ice.el('option', { value: it.n, text: it.name })));
    if (!at || !list.some((it) => it.n === at.n)) open();
    else parts.choose.value = at.n;
  }

  function update(kind) {
    if (kind === 'shown' || kind === 'rows' || kind === 'product') load();
    else if (kind === 'route') open();
  }

  ice.section({ id: 'tomograms', title: 'Tomograms', order: 62, stages: ['tilt-reconstructor'], draw, update });
})(window.ice);
