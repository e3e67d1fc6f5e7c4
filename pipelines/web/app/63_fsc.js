/* Curves of the refinement: FSC, resolution against particles, iterations, and directions on the sphere. */
(function (ice) {
  'use strict';

  const ROUND = [100, 60, 40, 30, 20, 15, 12, 10, 8, 7, 6, 5, 4.5, 4, 3.5, 3, 2.8, 2.5, 2.2, 2, 1.8, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1];

  /* Ticks at round resolutions, far enough apart to be read. f(d): where d lies on the axis; room: least distance. */
  function resolution_ticks(low, high, f, room) {
    const ticks = [];
    for (const d of ROUND) {
      const at = f(d);
      if (at < low || at > high) continue;
      if (!ticks.length || Math.abs(at - ticks[ticks.length - 1].at) >= room * (high - low)) ticks.push({ at, text: String(d) });
    }
    return ticks;
  }

  /* none: as of ice.unresolved; the halves agree to what one reference has made of both, and no number is shown. */
  ice.fsc_figure = function (fsc, none) {
    const k = fsc.k || [];
    const high = k.length ? k[k.length - 1] : 1;
    const curve = (name, y) => (y && y.length ? { name, x: k, y } : null);
    const at = fsc.at || {};
    const inside = fsc.at_corrected || {};
    const cut = (where, value, of) => (ice.is_number(where[value]) ? of + ' ' + ice.quantity(where[value], 'Å') + ' Å at ' + value : null);
    return ice.plot({ title: 'FSC', unit: 'Fourier shell correlation',
      note: none ? (none.word === 'noise' ? 'Noise: no resolution.' : 'No resolution: ' + none.text + '.') : [cut(inside, '0.143', 'corrected'), cut(at, '0.143', 'unmasked'), cut(at, '0.5', 'unmasked')].filter(Boolean).join(', '),
      x: { label: 'resolution (Å)', low: 0, high, ticks: resolution_ticks(0, high, (d) => 1 / d, 0.07),
        read: (v) => (v > 0 ? ice.number(1 / v, 3) + ' Å' : '∞') },
      y: { label: 'FSC', low: -0.1, high: 1.02, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((v) => ({ at: v, text: v.toFixed(1) })), show: (v) => v.toFixed(3) },
      rules: [{ y: 0.143, text: '0.143' }, { y: 0.5, text: '0.5' }],
      series: [curve('corrected', fsc.corrected), curve('unmasked', fsc.unmasked), curve('masked', fsc.masked),
        curve('phases randomised', fsc.randomised)].filter(Boolean) });
  };

  /* The last iteration of each count of particles: those before it had not converged. */
  function converged(maps) {
    const last = new Map();
    for (const line of maps) if (line.particles > 0 && line.resolution > 0) last.set(line.particles, line);
    return [...last.values()].sort((a, b) => a.particles - b.particles);
  }

  /* Fits 1/d² = a + s ln N (Rosenthal and Henderson 2003) over iterations of at least two sizes, and returns
   * {slope, intercept, b: the B-factor 2/s in Å²}, or null. */
  ice.guinier = function (maps) {
    const points = converged(maps).map((line) => [Math.log(line.particles), 1 / (line.resolution * line.resolution)]);
    if (points.length < 3) return null;
    const mx = points.reduce((sum, p) => sum + p[0], 0) / points.length;
    const my = points.reduce((sum, p) => sum + p[1], 0) / points.length;
    const xx = points.reduce((sum, p) => sum + (p[0] - mx) * (p[0] - mx), 0);
    const xy = points.reduce((sum, p) => sum + (p[0] - mx) * (p[1] - my), 0);
    if (xx < 0.05 || xy <= 0) return null;
    return { slope: xy / xx, intercept: my - xy / xx * mx, b: 2 * xx / xy };
  };

  ice.guinier_figure = function (maps, fit) {
    const use = converged(maps);
    if (use.length < 2) return null;
    const x = use.map((line) => Math.log(line.particles));
    const y = use.map((line) => 1 / (line.resolution * line.resolution));
    const low = Math.min(...x) - 0.1;
    const high = Math.max(...x) + 0.1;
    const top = Math.max(...y) * 1.12;
    const bottom = Math.min(...y) * 0.85;
    const counts = [];
    for (let p = 1; p <= 9; p++) for (const m of [1, 2, 3, 5, 7]) counts.push(m * 10 ** p);
    const x_ticks = [];
    for (const n of counts) {
      const at = Math.log(n);
      if (at >= low && at <= high && (!x_ticks.length || at - x_ticks[x_ticks.length - 1].at > 0.1 * (high - low))) x_ticks.push({ at, text: ice.count(n) });
    }
    return ice.plot({ title: 'Resolution over particles',
      note: fit ? 'B-factor ' + ice.count(fit.b) + ' Å² (2 / slope of 1/d² over ln N). Twice the particles would give ' +
        ice.quantity(1 / Math.sqrt(fit.intercept + fit.slope * (x[x.length - 1] + Math.LN2)), 'Å') + ' Å.' : 'No slope yet.',
      x: { label: 'particles', low, high, ticks: x_ticks, read: (v) => ice.plural(Math.round(Math.exp(v)), 'particle') },
      y: { label: 'resolution (Å), as 1/d²', low: bottom, high: top, ticks: resolution_ticks(bottom, top, (d) => 1 / (d * d), 0.09),
        show: (v) => ice.quantity(1 / Math.sqrt(v), 'Å') + ' Å' },
      series: [{ name: 'iterations', x, y, points: true, line: false },
        fit && { name: 'fit', x: [low, high], y: [low, high].map((v) => fit.intercept + fit.slope * v) }].filter(Boolean) });
  };

  ice.iterations_figure = function (maps) {
    if (maps.length < 2) return null;
    const x = maps.map((line) => line.iteration);
    return ice.plot({ title: 'Resolution over iterations', note: 'Particles at the last: ' + ice.count(maps[maps.length - 1].particles) + '.',
      x: { label: 'iteration', whole: true }, y: { label: 'Å', show: (v) => String(Number(v.toFixed(1))) },
      series: [{ name: 'resolution', x, y: maps.map((line) => line.resolution), points: true }] });
  };

  ice.directions_figure = function (figure, directions) {
    const canvas = ice.el('canvas', { class: 'sphere-canvas', width: 720, height: 360, role: 'img', 'aria-label': 'Viewing directions' });
    const { nside, counts } = directions;
    const most = counts.reduce((high, v) => Math.max(high, v), 0);
    const total = counts.reduce((sum, v) => sum + v, 0);
    const mean = total / counts.length;
    const text = 'Viewing directions: the densest has ' + ice.number(mean > 0 ? most / mean : 0, 2) + ' times the mean' +
      (ice.is_number(directions.efficiency) ? '; efficiency ' + directions.efficiency.toFixed(2) : '') + '.';
    canvas.setAttribute('aria-label', text);
    ice.mollweide(canvas, counts, nside, directions.order === 'nested');
    const bar = ice.el('canvas', { class: 'colour-bar', width: 128, height: 1, 'aria-hidden': 'true' });
    const picture = new ImageData(128, 1);
    for (let i = 0; i < 128; i++) picture.data.set([...ice.cividis(Math.sqrt(i / 127)), 255], 4 * i);
    bar.getContext('2d').putImageData(picture, 0, 0);
    ice.fill(figure,
      ice.el('figcaption', {}, ice.el('span', { class: 'title', text: 'Viewing directions' }), ' ',
        ice.el('span', { class: 'unit', text: 'Mollweide' })),
      canvas,
      ice.el('p', { class: 'bar-line quiet' }, '0 ', bar, ' ' + ice.number(mean > 0 ? most / mean : 0, 2) + ' × mean'),
      ice.el('p', { class: 'summary', text: text + (ice.is_number(directions.efficiency) && directions.efficiency < 0.65
        ? ' Below 0.65 a tilted stage (30°) helps more than further data.' : '') }));
  };
})(window.ice);
