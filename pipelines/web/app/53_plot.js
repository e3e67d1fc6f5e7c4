/* Curves of few points as SVG: FSC, resolution, particles over iterations. Charts of all exposures are 11_chart.js. */
(function (ice) {
  'use strict';

  const W = 560;
  const H = 270;
  const EDGE = { left: 54, right: 16, top: 14, bottom: 42 };
  const DASH = ['', '6 4', '2 3', '9 3 2 3', '1 4'];

  function range_of(values, axis) {
    let low = axis.low;
    let high = axis.high;
    const finite = values.filter(ice.is_number);
    if (low === undefined) low = finite.length ? Math.min(...finite) : 0;
    if (high === undefined) high = finite.length ? Math.max(...finite) : 1;
    if (axis.from_zero) low = Math.min(0, low);
    if (low === high) {
      low -= Math.abs(low) * 0.1 || 0.5;
      high += Math.abs(high) * 0.1 || 0.5;
    } else if (axis.low === undefined || axis.high === undefined) {
      const spare = 0.05 * (high - low);
      if (axis.low === undefined && !axis.from_zero) low -= spare;
      if (axis.high === undefined) high += spare;
    }
    return [low, high];
  }

  const plain = (value) => (Math.abs(value) >= 1000 && Number.isInteger(value) ? ice.count(value) : String(Number(value.toPrecision(4))).replace('-', '−'));

  /* Makes a figure. spec: {title, note, x: {label, ticks: [{at, text}], low, high, from_zero, show(value)}, y: the same,
   * series: [{name, x: [], y: [], points: true|false, line: true|false}], rules: [{y or x, text}]}.
   * The numbers are in a table too, and the last ones in the name that a screen reader says. */
  ice.plot = function (spec) {
    const series = spec.series.filter((one) => one.y && one.y.some(ice.is_number));
    const all_x = series.flatMap((one) => Array.from(one.x));
    const all_y = series.flatMap((one) => Array.from(one.y)).concat((spec.rules || []).map((rule) => rule.y));
    const [x0, x1] = range_of(all_x, spec.x);
    const [y0, y1] = range_of(all_y, spec.y);
    const to_x = (v) => EDGE.left + (v - x0) / (x1 - x0) * (W - EDGE.left - EDGE.right);
    const to_y = (v) => H - EDGE.bottom - (v - y0) / (y1 - y0) * (H - EDGE.top - EDGE.bottom);
    const show_x = spec.x.show || plain;
    const show_y = spec.y.show || plain;
    const svg = ice.svg('svg', { viewBox: '0 0 ' + W + ' ' + H, class: 'curves', role: 'img', 'aria-label': summary(spec, series, show_y) });
    const x_ticks = spec.x.ticks || ice.ticks(x0, x1, 7, spec.x.whole).map((at) => ({ at, text: show_x(at) }));
    const y_ticks = spec.y.ticks || ice.ticks(y0, y1, 6, spec.y.whole).map((at) => ({ at, text: show_y(at) }));
    for (const tick of y_ticks) {
      if (tick.at < y0 - 1e-9 || tick.at > y1 + 1e-9) continue;
      svg.append(ice.svg('line', { class: 'grid', x1: EDGE.left, x2: W - EDGE.right, y1: to_y(tick.at), y2: to_y(tick.at) }),
        ice.svg('text', { class: 'tick', x: EDGE.left - 8, y: to_y(tick.at) + 4, 'text-anchor': 'end', text: tick.text }));
    }
    for (const tick of x_ticks) {
      if (tick.at < x0 - 1e-9 || tick.at > x1 + 1e-9) continue;
      svg.append(ice.svg('line', { class: 'grid', x1: to_x(tick.at), x2: to_x(tick.at), y1: H - EDGE.bottom, y2: H - EDGE.bottom + 5 }),
        ice.svg('text', { class: 'tick', x: to_x(tick.at), y: H - EDGE.bottom + 18, 'text-anchor': 'middle', text: tick.text }));
    }
    svg.append(ice.svg('line', { class: 'axis', x1: EDGE.left, x2: W - EDGE.right, y1: H - EDGE.bottom, y2: H - EDGE.bottom }),
      ice.svg('text', { class: 'label', x: (EDGE.left + W - EDGE.right) / 2, y: H - 6, 'text-anchor': 'middle', text: spec.x.label || '' }),
      ice.svg('text', { class: 'label', transform: 'translate(13 ' + (H - EDGE.bottom + EDGE.top) / 2 + ') rotate(-90)',
        'text-anchor': 'middle', text: spec.y.label || '' }));
    for (const rule of spec.rules || []) {
      const across = rule.y !== undefined;
      svg.append(ice.svg('line', across ? { class: 'rule', x1: EDGE.left, x2: W - EDGE.right, y1: to_y(rule.y), y2: to_y(rule.y) }
        : { class: 'rule', x1: to_x(rule.x), x2: to_x(rule.x), y1: EDGE.top, y2: H - EDGE.bottom }),
      ice.svg('text', across ? { class: 'rule-text', x: W - EDGE.right - 2, y: to_y(rule.y) - 5, 'text-anchor': 'end', text: rule.text }
        : { class: 'rule-text', x: to_x(rule.x) + 5, y: EDGE.top + 10, text: rule.text }));
    }
    series.forEach((one, k) => svg.append(...curve(one, k, to_x, to_y)));
    const readout = ice.el('span', { class: 'readout' });
    hover(svg, series, { to_x, to_y, show_x, show_y, x0, x1 }, readout, spec);
    const twin = ice.el('div', { class: 'twin', hidden: true, tabindex: '0', role: 'region', 'aria-label': 'Data of ' + spec.title });
    const button = ice.el('button', { type: 'button', class: 'small', 'aria-expanded': 'false',
      'aria-label': 'Data of ' + spec.title + ' as a table', text: 'data', on: { click: () => {
        twin.hidden = !twin.hidden;
        button.setAttribute('aria-expanded', String(!twin.hidden));
        if (!twin.hidden) ice.fill(twin, table(spec, series, show_x, show_y));
      } } });
    return ice.el('figure', { class: 'chart', 'data-plot': spec.title },
      ice.el('figcaption', {}, ice.el('span', { class: 'title', text: spec.title }), ' ',
        ice.el('span', { class: 'unit', text: spec.unit || '' }), ice.el('span', { class: 'gap' }), legend(series), button),
      svg, ice.el('p', { class: 'summary' }, readout, spec.note && ice.el('span', { text: spec.note })), twin);
  };

  function curve(one, k, to_x, to_y) {
    const parts = [];
    let path = '';
    let down = false;
    for (let i = 0; i < one.x.length; i++) {
      if (!ice.is_number(one.y[i]) || !ice.is_number(one.x[i])) {
        down = false;
        continue;
      }
      path += (down ? 'L' : 'M') + to_x(one.x[i]).toFixed(1) + ' ' + to_y(one.y[i]).toFixed(1);
      down = true;
      if (one.points || one.x.length === 1) {
        parts.push(ice.svg('circle', { class: 'dot series-' + k % 5, cx: to_x(one.x[i]).toFixed(1), cy: to_y(one.y[i]).toFixed(1), r: 3.2 }));
      }
    }
    if (one.line !== false) parts.unshift(ice.svg('path', { class: 'curve series-' + k % 5, d: path, 'stroke-dasharray': DASH[k % 5] || null }));
    return parts;
  }

  /* One word for each curve, with its stroke: colour is never alone. */
  function legend(series) {
    if (series.length < 2) return null;
    return ice.el('span', { class: 'legend' }, series.map((one, k) => ice.el('span', {},
      ice.svg('svg', { width: 26, height: 8, 'aria-hidden': 'true' },
        ice.svg('path', { class: 'curve series-' + k % 5, d: 'M1 4H25', 'stroke-dasharray': DASH[k % 5] || null })), ' ' + one.name)));
  }

  function summary(spec, series, show) {
    const said = series.map((one) => {
      const finite = Array.from(one.y).filter(ice.is_number);
      return one.name + ': ' + ice.plural(finite.length, 'point') + ', last ' + show(finite[finite.length - 1]);
    });
    return spec.title + '. ' + (said.join('; ') || 'no points yet') + '.';
  }

  function hover(svg, series, scale, readout, spec) {
    const line = ice.svg('line', { class: 'cross', y1: EDGE.top, y2: H - EDGE.bottom, visibility: 'hidden' });
    svg.append(line);
    const rest = () => {
      line.setAttribute('visibility', 'hidden');
      readout.textContent = '';
    };
    svg.addEventListener('pointermove', (event) => {
      const box = svg.getBoundingClientRect();
      const x = scale.x0 + ((event.clientX - box.left) / box.width * W - EDGE.left) / (W - EDGE.left - EDGE.right) * (scale.x1 - scale.x0);
      let best = null;
      for (const one of series) for (const v of one.x) if (ice.is_number(v) && (best === null || Math.abs(v - x) < Math.abs(best - x))) best = v;
      if (best === null) return;
      line.setAttribute('x1', scale.to_x(best));
      line.setAttribute('x2', scale.to_x(best));
      line.setAttribute('visibility', 'visible');
      readout.textContent = (spec.x.read ? spec.x.read(best) : scale.show_x(best) + ' ' + (spec.x.label || '')) + '  ·  ' +
        series.map((one) => {
          const i = Array.from(one.x).indexOf(best);
          return i >= 0 && ice.is_number(one.y[i]) ? one.name + ' ' + scale.show_y(one.y[i]) : null;
        }).filter(Boolean).join('  ·  ');
    });
    svg.addEventListener('pointerleave', rest);
  }

  function table(spec, series, show_x, show_y) {
    const xs = [...new Set(series.flatMap((one) => Array.from(one.x)))].sort((a, b) => a - b);
    const head = [spec.x.label || 'x', ...series.map((one) => one.name)];
    const rows = xs.map((x) => [spec.x.read ? spec.x.read(x) : show_x(x), ...series.map((one) => {
      const i = Array.from(one.x).indexOf(x);
      return i >= 0 && ice.is_number(one.y[i]) ? show_y(one.y[i]) : ice.NONE;
    })]);
    return [ice.el('p', {}, ice.el('button', { type: 'button', class: 'small', text: 'save as CSV', on: { click: () =>
      ice.download(spec.title.toLowerCase().replace(/\W+/g, '_') + '.csv', 'text/csv', ice.csv([head, ...rows])) } })),
    ice.table(head, rows)];
  }
})(window.ice);
