/* The map: surface, slices, FSC, directions, resolution against particles and over iterations. */
(function (ice) {
  'use strict';

  const FLOOR = 60; // grey of the mean in a volume as it is sent
  const STEP = 12; // greys of one sigma
  const PRESETS = [['steel', [0.56, 0.68, 0.82], [0.56, 0.68, 0.82]], ['radius', [0.13, 0.27, 0.55], [0.98, 0.83, 0.33]],
    ['ivory', [0.90, 0.85, 0.74], [0.90, 0.85, 0.74]], ['grey', [0.72, 0.72, 0.72], [0.72, 0.72, 0.72]]];
  let parts;
  let worker = null;
  let view = null; // of ice.surface
  let volume = null; // {n, data, pixel, iteration, sigma}
  let asked = 0;
  let building = false;
  let again = false;
  let shown = false;
  let mesh_time = null;

  const stage = () => (ice.store.stages_of(['refiner'])[0] || { name: 'refiner' }).name;
  const level = () => Number(parts.level.value);
  /* True once the refinement has put out a map; nothing is fetched before. */
  const has_map = () => {
    const it = ((ice.store.status || {}).stages || {})[stage()];
    return !it || it.newest !== null;
  };

  function draw(root) {
    parts = {
      numbers: ice.el('div', { class: 'numbers' }),
      canvas: null,
      stage: ice.el('div', { class: 'surface' }),
      level: ice.el('input', { type: 'range', min: 0.5, max: 12, step: 0.1, value: 4, 'aria-label': 'Level of the surface in sigma',
        on: { input: () => {
          say_level();
          build();
        } } }),
      level_text: ice.el('output', { class: 'number' }),
      colour: ice.el('select', { 'aria-label': 'Colour of the surface', on: { change: paint_surface } },
        PRESETS.map(([name]) => ice.el('option', { value: name, text: name }))),
      note: ice.el('p', { class: 'quiet', role: 'status' }),
      slices: ice.map_slices(),
      curves: ice.el('div', { class: 'charts two' }),
      sphere: ice.el('figure', { class: 'chart sphere' }),
    };
    root.append(ice.heading('Map'), parts.numbers,
      ice.el('p', { class: 'quiet caveat', text: 'Resolutions are those of an automatic refinement that runs while data arrive: ' +
        'read them as a guide to the session, not as the result. Points of the curve over particles are iterations of one growing set.' }),
      ice.el('div', { class: 'map-views' },
        ice.el('div', {}, parts.stage,
          ice.el('div', { class: 'tools' },
            ice.el('label', {}, 'Level ', parts.level), parts.level_text,
            ice.el('label', {}, 'Colour ', parts.colour),
            ice.el('span', { class: 'grow' }),
            ice.el('button', { type: 'button', text: 'Reset view', on: { click: () => view && view.home() } }),
            ice.el('button', { type: 'button', text: 'Save PNG', on: { click: save } })),
          parts.note),
        ice.el('div', {}, parts.slices.node)),
      parts.curves);
    say_level();
  }

  function say_level() {
    parts.level_text.textContent = level().toFixed(1) + ' σ';
    parts.level.setAttribute('aria-valuetext', level().toFixed(1) + ' sigma');
  }

  /* A fresh canvas: a browser gives a canvas one context for its life. */
  function open_surface() {
    if (view) return;
    const canvas = ice.el('canvas', { class: 'surface-canvas', tabindex: '0', role: 'img', id: 'map-surface',
      'aria-label': 'Surface of the map. Arrow keys turn it, plus and minus magnify, 0 resets.' });
    ice.fill(parts.stage, canvas);
    view = ice.surface(canvas, () => no_surface('The browser took the 3D view away; slices remain.'));
    if (!view) {
      no_surface('This browser has no WebGL: the slices show the map.');
      return;
    }
    parts.canvas = canvas;
    paint_surface();
    if (!worker) {
      worker = new Worker('worker.js');
      worker.onmessage = take_mesh;
      worker.onerror = () => no_surface('The surface could not be made; slices remain.');
    }
  }

  function close_surface() {
    if (view) view.release();
    view = null;
    ice.fill(parts.stage);
    if (worker) worker.terminate();
    worker = null;
    building = false;
  }

  function no_surface(text) {
    view = null;
    ice.fill(parts.stage, ice.el('p', { class: 'placeholder', text }));
    parts.level.disabled = true;
  }

  function paint_surface() {
    if (!view) return;
    const [, near, far] = PRESETS.find(([name]) => name === parts.colour.value) || PRESETS[0];
    const probe = getComputedStyle(parts.stage).backgroundColor.match(/[\d.]+/g);
    view.colours({ near, far, ground: probe && probe.length >= 3 ? probe.slice(0, 3).map((part) => part / 255) : [0.06, 0.07, 0.09] });
  }

  function build() {
    if (!view || !volume) return;
    if (building) {
      again = true;
      return;
    }
    building = true;
    const message = { id: ++asked, level: FLOOR + STEP * level() + 0.5 };
    if (!volume.sent) {
      message.volume = volume.data;
      message.n = volume.n;
      volume.sent = true;
    }
    worker.postMessage(message);
  }

  function take_mesh(event) {
    building = false;
    if (!view) return;
    mesh_time = event.data.milliseconds;
    const triangles = event.data.indices.length / 3;
    view.show(event.data, !volume.seen);
    volume.seen = volume.seen || triangles > 0;
    parts.note.textContent = triangles ? ice.count(triangles) + ' triangles · drag to turn, wheel to magnify'
      : 'No density above this level: lower it.';
    parts.stage.dataset.triangles = triangles;
    parts.stage.dataset.milliseconds = Math.round(mesh_time);
    if (again) {
      again = false;
      build();
    }
  }

  async function save() {
    if (!view) return;
    const blob = await view.picture();
    const url = URL.createObjectURL(blob);
    const link = ice.el('a', { href: url, download: 'map_it' + (volume ? volume.iteration : '') + '.png' });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  async function load_volume() {
    let answer = { ok: false };
    try {
      if (has_map()) answer = await fetch('api/map/latest?n=128', { cache: 'no-store' });
    } catch (error) {
      // no connection: said by the head bar
    }
    if (!shown) return;
    if (!answer.ok) {
      parts.note.textContent = 'No map yet: the first comes when the refinement has enough particles.';
      return;
    }
    const about = JSON.parse(answer.headers.get('X-Map') || '{}');
    const data = new Uint8Array(await answer.arrayBuffer());
    if (!shown) return; // the tab was closed meanwhile
    const n = about.n || Math.round(Math.cbrt(data.length));
    if (n * n * n !== data.length) {
      parts.note.textContent = 'The map that came is cut short.';
      return;
    }
    const first = volume === null;
    volume = { n, data, pixel: about.pixel, iteration: about.iteration, sent: false, seen: !first };
    if (first && ice.is_number(about.level)) parts.level.value = Math.min(12, Math.max(0.5, about.level));
    say_level();
    parts.slices.show(volume);
    open_surface();
    build();
  }

  async function quiet(path) {
    try {
      return await ice.api(path);
    } catch (error) {
      return null;
    }
  }

  async function load_numbers() {
    if (!has_map()) return;
    const [fsc, directions, answer] = await Promise.all([quiet('api/fsc'), quiet('api/directions'),
      quiet('api/history/' + encodeURIComponent(stage()))]);
    if (!shown) return;
    const lines = answer ? Array.isArray(answer) ? answer : answer.lines || answer.history || [] : [];
    const maps = lines.filter((line) => ice.is_number(line.resolution) && ice.is_number(line.iteration));
    const newest = lines[lines.length - 1];
    const none = ice.unresolved(newest);
    const last = none ? newest : maps[maps.length - 1];
    const fit = none ? null : ice.guinier(maps);
    ice.fill(parts.numbers, [
      none && tile(none.word, none.text),
      last && !none && tile(ice.quantity(last.resolution, 'Å') + ' Å', 'unmasked FSC at 0.143, iteration ' + last.iteration),
      !none && fsc && fsc.at_corrected && ice.is_number(fsc.at_corrected['0.143']) &&
        tile(ice.quantity(fsc.at_corrected['0.143'], 'Å') + ' Å', 'inside the mask, corrected FSC at 0.143'),
      last && tile(ice.count(last.particles), 'particles'),
      fit && tile(ice.count(fit.b) + ' Å²', 'B-factor from resolution over particles'),
      directions && ice.is_number(directions.efficiency) &&
        tile(directions.efficiency.toFixed(2), 'efficiency of directions' + (directions.efficiency < 0.65 ? ': consider a tilt of 30°' : '')),
    ]);
    ice.fill(parts.curves, fsc && ice.fsc_figure(fsc, none), !none && ice.guinier_figure(maps, fit), !none && ice.iterations_figure(maps),
      directions && parts.sphere);
    if (directions) ice.directions_figure(parts.sphere, directions);
  }

  const tile = (value, text) => ice.el('div', { class: 'number-tile' }, ice.el('strong', { text: value }), ice.el('span', { class: 'quiet', text }));

  function update(kind, detail) {
    if (kind === 'shown') {
      shown = true;
      if (volume) {
        volume.sent = volume.seen = false;
        open_surface();
        build();
      }
      load_volume();
      load_numbers();
    } else if (kind === 'hidden') {
      shown = false;
      close_surface();
    } else if (kind === 'theme') {
      paint_surface();
      parts.slices.repaint();
    } else if (kind === 'product' && [].concat(detail || []).some((one) => !one || !one.stage || one.stage === stage())) {
      load_volume();
      load_numbers();
    }
  }

  /* For measurements: the time of the last mesh and of one frame, ms. */
  ice.map_times = () => ({ mesh: mesh_time, frame: view ? view.frame() : null });

  ice.section({ id: 'map', title: 'Map', order: 70, stages: ['refiner'], draw, update });
})(window.ice);
