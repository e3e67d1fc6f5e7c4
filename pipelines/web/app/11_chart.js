/* Charts on one canvas each: points, lines, bars, rules, and a histogram at the right edge. */
(function (ice) {
  'use strict';

  const MANY = 1000; // points above which they are dots of a picture, not shapes
  const SIDE = 58; // width of the histogram, px

  /* Makes a chart of these options, of which set() replaces any:
   * title, unit, height (px), name (of its table as a file);
   * x, y: {label, unit, time, log, zero, whole, min, max, text(value), names: words of x = 0, 1, …, written slanted};
   * series: [{name, kind: 'points' | 'line' | 'bars' | 'area', x, y (arrays of one length, in drawn units), colour: '--name',
   *           state: states of the points (shape and colour), base: lower ends of bars, wide: width of bars in x units,
   *           dash, width, factor: of y}];
   * rules: [{value, text, dash, move(value, ended): makes a handle of it, label, side: 'above' | 'below' (what it shades)}];
   * histogram: true; marker: x of a line that says "here";
   * pick(series, index): a point was chosen; zoom(low, high): a range of x was chosen, null: all; range: [low, high] of x;
   * summary: text or function; table: function → {head, rows}; empty: text while there are no values. */
  ice.chart = function (options) {
    const chart = { options: Object.assign({ x: {}, y: {}, series: [], rules: [], height: 180 }, options), dirty: false };
    chart.canvas = ice.el('canvas', { role: 'img', 'aria-label': options.title || 'chart' });
    chart.plot = ice.el('div', { class: 'plot' }, chart.canvas);
    chart.plot.style.height = chart.options.height + 'px';
    chart.node = ice.chart_panel(chart);
    chart.set = (more) => {
      Object.assign(chart.options, more);
      chart.redraw();
    };
    chart.redraw = () => {
      if (chart.dirty) return;
      chart.dirty = true;
      requestAnimationFrame(() => {
        chart.dirty = false;
        if (chart.plot.clientWidth) draw(chart);
      });
    };
    ice.chart_hands(chart);
    new ResizeObserver(chart.redraw).observe(chart.plot);
    ice.charts.add(chart);
    chart.redraw();
    return chart;
  };
  ice.charts = new Set();
  ice.redraw_charts = () => ice.charts.forEach((chart) => chart.redraw());

  const value_of = (s, i) => s.y[i] * (s.factor || 1);

  function x_range(chart) {
    const { x, series, range } = chart.options;
    if (range) return range;
    let low = Infinity;
    let high = -Infinity;
    for (const s of series) {
      const half = s.kind === 'bars' ? (s.wide || 1) / 2 : 0;
      const count = s.x.length;
      for (let i = 0; i < count; i++) {
        const v = s.x[i];
        if (v - half < low) low = v - half;
        if (v + half > high) high = v + half;
      }
    }
    if (x.min !== undefined) low = x.min;
    if (x.max !== undefined) high = x.max;
    if (!(low <= high)) return [0, 1];
    if (x.log) return [Math.max(low, 1e-9) / 1.05, high * 1.05];
    if (low === high) return [low - 1, high + 1];
    const pad = x.min !== undefined || x.max !== undefined ? 0 : 0.015 * (high - low);
    return [low - pad, high + pad];
  }

  function y_range(chart, low_x, high_x) {
    const { y, series, rules } = chart.options;
    const seen = [];
    for (const s of series) {
      if (s.aside) continue;
      const count = s.x.length;
      for (let i = 0; i < count; i++) {
        if (s.x[i] < low_x || s.x[i] > high_x) continue;
        const v = value_of(s, i);
        if (v === v) seen.push(v);
        if (s.base) seen.push(s.base[i]);
      }
    }
    const extra = rules.filter((r) => r.shown !== false).map((r) => r.value).filter(isFinite);
    const whole = series.some((s) => s.kind === 'line' || s.kind === 'bars' || s.kind === 'area');
    const points = series.some((s) => s.kind === 'points');
    let [low, high] = whole && !points
      ? ice.robust_range(extremes(seen), extra, y) : ice.robust_range(seen, extra, y);
    if (y.min !== undefined) low = y.min;
    if (y.max !== undefined) high = y.max;
    chart.seen = seen.length;
    return [low, high];
  }

  function extremes(values) {
    let low = Infinity;
    let high = -Infinity;
    for (const v of values) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return low <= high ? [low, high] : [];
  }

  function draw(chart) {
    const { canvas, plot, options } = chart;
    const width = plot.clientWidth;
    const height = plot.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    /* Drawn by the processor: without a graphics card, 10,000 points hold up the browser for seconds otherwise. */
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = '11px ' + getComputedStyle(plot).fontFamily;

    const [x0, x1] = x_range(chart);
    const [y0, y1] = y_range(chart, x0, x1);
    const ticks = options.y.log ? ice.log_ticks(y0, y1) : ice.ticks(y0, y1, Math.max(2, Math.floor(height / 42)), options.y.whole);
    const text = (v) => (options.y.text ? options.y.text(v) : ice.tick_text(v, options.y.log ? v : ticks.step));
    const label_width = Math.max(...ticks.map((v) => context.measureText(text(v)).width), 12);
    const box = { left: Math.ceil(label_width) + 10, top: 8, right: width - (options.histogram ? SIDE + 6 : 8),
      bottom: height - (options.x.hidden ? 8 : options.x.names ? 58 : 22) };
    chart.box = box;
    chart.x = ice.scale(x0, x1, box.left, box.right, options.x.log);
    chart.y = ice.scale(y0, y1, box.bottom, box.top, options.y.log);

    if (chart.seen) draw_grid(chart, context, ticks, text);
    if (!chart.seen) {
      context.fillStyle = ice.colour('--quiet');
      context.textAlign = 'center';
      context.fillText(options.empty || 'no values yet', (box.left + box.right) / 2, (box.top + box.bottom) / 2);
    } else {
      context.save();
      context.beginPath();
      context.rect(box.left - 3, box.top - 3, box.right - box.left + 6, box.bottom - box.top + 6);
      context.clip();
      shade_rules(chart, context);
      for (const s of options.series) {
        if (s.kind === 'line' || s.kind === 'area') draw_line(chart, context, s);
        else if (s.kind === 'bars') draw_bars(chart, context, s);
        else draw_points(chart, context, s);
      }
      draw_marker(chart, context);
      context.restore();
      if (options.histogram) draw_histogram(chart, context);
    }
    draw_rules(chart, context);
    chart.told();
  }

  function draw_grid(chart, context, ticks, text) {
    const { box, options } = chart;
    context.lineWidth = 1;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    context.strokeStyle = ice.colour('--grid');
    context.fillStyle = ice.colour('--axis');
    context.beginPath();
    for (const v of ticks) {
      const y = Math.round(chart.y(v)) + 0.5;
      context.moveTo(box.left, y);
      context.lineTo(box.right, y);
      context.fillText(text(v), box.left - 6, y);
    }
    context.stroke();
    if (options.x.hidden) return;
    const { low, high } = chart.x;
    const wanted = Math.max(2, Math.floor((box.right - box.left) / 72));
    let marks;
    let name;
    if (options.x.time) {
      marks = ice.time_ticks(low, high, wanted);
      name = (v) => ice.time_text(v, marks.step);
    } else if (options.x.log) {
      marks = ice.log_ticks(low, high);
      name = (v) => ice.tick_text(v, v);
    } else {
      marks = ice.ticks(low, high, wanted, options.x.whole);
      name = (v) => ice.tick_text(v, marks.step);
    }
    if (options.x.names) marks = options.x.names.map((word, k) => k);
    if (options.x.text) name = options.x.text;
    context.textAlign = 'center';
    context.strokeStyle = ice.colour('--axis-line');
    context.beginPath();
    context.moveTo(box.left, box.bottom + 0.5);
    context.lineTo(box.right, box.bottom + 0.5);
    for (const v of marks) {
      const x = Math.round(chart.x(v)) + 0.5;
      context.moveTo(x, box.bottom);
      context.lineTo(x, box.bottom + 4);
      if (options.x.names) {
        slanted(context, options.x.names[v], x + 4, box.bottom + 10);
        continue;
      }
      const label = name(v);
      const half = context.measureText(label).width / 2;
      context.fillText(label, Math.min(Math.max(x, box.left + half - 6), box.right - half + 6), box.bottom + 13);
    }
    context.stroke();
  }

  function slanted(context, word, x, y) {
    context.save();
    context.translate(x, y);
    context.rotate(-0.5);
    context.textAlign = 'right';
    context.fillText(word.length > 17 ? word.slice(0, 16) + '…' : word, 0, 0);
    context.restore();
  }

  const clamp = (v, low, high) => (v < low ? low : v > high ? high : v);

  function draw_points(chart, context, s) {
    const count = s.x.length;
    const groups = [[], [], [], []];
    for (let i = 0; i < count; i++) {
      const v = value_of(s, i);
      if (v !== v || s.x[i] < chart.x.low || s.x[i] > chart.x.high) continue;
      groups[s.state ? s.state[i] : ice.DONE].push(i);
    }
    const crowd = groups[ice.DONE].length;
    const size = s.size || (crowd > 4000 ? 2 : crowd > 1000 ? 2.5 : crowd > 300 ? 3 : 4);
    const at = (i) => [chart.x(s.x[i]), clamp(chart.y(value_of(s, i)), chart.box.top - 1, chart.box.bottom + 1)];
    context.fillStyle = ice.colour(s.colour || '--done');
    context.globalAlpha = crowd > 1000 ? 0.65 : 0.85;
    if (crowd > MANY) draw_dots(chart, context, s, groups[ice.DONE], size);
    else {
      context.beginPath();
      for (const i of groups[ice.DONE]) {
        const [x, y] = at(i);
        context.moveTo(x + size / 2, y);
        context.arc(x, y, size / 2, 0, 7);
      }
      context.fill();
    }
    context.globalAlpha = 1;
    const reach = Math.max(2.5, size * 0.75);
    shapes(context, groups[ice.IN_FLIGHT], at, '--in-flight', 1.2, (x, y) => {
      context.moveTo(x + reach, y);
      context.arc(x, y, reach, 0, 7);
    });
    shapes(context, groups[ice.REJECTED], at, '--rejected', 1.4, (x, y) => {
      context.moveTo(x - reach, y - reach);
      context.lineTo(x + reach, y + reach);
      context.moveTo(x - reach, y + reach);
      context.lineTo(x + reach, y - reach);
    });
    shapes(context, groups[ice.FAILED], at, '--failed', 1.4, (x, y) => {
      context.moveTo(x, y - reach - 1);
      context.lineTo(x + reach, y + reach);
      context.lineTo(x - reach, y + reach);
      context.closePath();
    });
  }

  function shapes(context, list, at, colour, width, path) {
    if (!list.length) return;
    context.strokeStyle = ice.colour(colour);
    context.lineWidth = width;
    context.beginPath();
    for (const i of list) path(...at(i));
    context.stroke();
  }

  /* Many points: counted pixel by pixel, and drawn as one picture, darker where more lie. A shape for each would take
   * ten times as long. */
  let dots = null;
  function draw_dots(chart, context, s, list, size) {
    const { box } = chart;
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.ceil((box.right - box.left + 6) * ratio);
    const tall = Math.ceil((box.bottom - box.top + 6) * ratio);
    if (wide < 1 || tall < 1) return;
    const side = Math.max(1, Math.round(size * ratio));
    const shift = 3 * ratio - side / 2;
    const counts = new Uint8Array(wide * tall);
    for (const i of list) {
      const x = Math.round((chart.x(s.x[i]) - box.left) * ratio + shift);
      const y = Math.round((clamp(chart.y(value_of(s, i)), box.top - 1, box.bottom + 1) - box.top) * ratio + shift);
      for (let v = Math.max(0, y); v < y + side && v < tall; v++) {
        for (let u = Math.max(0, x); u < x + side && u < wide; u++) if (counts[v * wide + u] < 255) counts[v * wide + u]++;
      }
    }
    const parts = /^#(..)(..)(..)$/.exec(context.fillStyle) || [0, '80', '80', '80'];
    const colour = parseInt(parts[3] + parts[2] + parts[1], 16); // in the order of the bytes of a picture
    const shades = new Uint32Array(256);
    for (let n = 1; n < 256; n++) shades[n] = (Math.round(255 * (1 - Math.pow(1 - context.globalAlpha, n))) << 24) | colour;
    dots = dots || ice.el('canvas');
    dots.width = wide;
    dots.height = tall;
    const other = dots.getContext('2d', { willReadFrequently: true });
    const picture = other.createImageData(wide, tall);
    const pixels = new Uint32Array(picture.data.buffer);
    for (let at = 0; at < counts.length; at++) if (counts[at]) pixels[at] = shades[counts[at]];
    other.putImageData(picture, 0, 0);
    context.globalAlpha = 1;
    context.drawImage(dots, box.left - 3, box.top - 3, wide / ratio, tall / ratio);
  }

  function draw_line(chart, context, s) {
    const count = s.x.length;
    const step = Math.max(1, Math.floor(count / (4 * (chart.box.right - chart.box.left) || 1)));
    context.strokeStyle = ice.colour(s.colour || '--ink');
    context.lineWidth = s.width || 1.5;
    context.lineJoin = 'round';
    context.setLineDash(s.dash || []);
    context.beginPath();
    let open = false;
    let first = 0;
    let last = 0;
    for (let i = 0; i < count; i += step) {
      const v = value_of(s, i);
      if (v !== v || s.x[i] < chart.x.low - 1e-9 || s.x[i] > chart.x.high + 1e-9) {
        open = open && v !== v && s.bridge;
        continue;
      }
      const x = chart.x(s.x[i]);
      const y = chart.y(v);
      if (open) context.lineTo(x, y);
      else {
        context.moveTo(x, y);
        first = x;
      }
      last = x;
      open = true;
    }
    context.stroke();
    context.setLineDash([]);
    if (s.kind === 'area') {
      context.lineTo(last, chart.box.bottom);
      context.lineTo(first, chart.box.bottom);
      context.globalAlpha = 0.14;
      context.fillStyle = ice.colour(s.colour || '--ink');
      context.fill();
      context.globalAlpha = 1;
    }
  }

  function draw_bars(chart, context, s) {
    context.fillStyle = ice.colour(s.colour || '--done');
    const count = s.x.length;
    const wide = s.wide || 1;
    for (let i = 0; i < count; i++) {
      const v = value_of(s, i);
      const base = s.base ? s.base[i] : 0;
      if (v !== v || v === base) continue;
      const left = Math.max(chart.x(s.x[i] - wide / 2), chart.box.left);
      const right = Math.min(chart.x(s.x[i] + wide / 2), chart.box.right);
      const gap = right - left > 6 ? 1 : 0;
      const top = chart.y(v);
      if (right > left) context.fillRect(left + gap, top, Math.max(1, right - left - 2 * gap), Math.max(1, chart.y(base) - top));
    }
  }

  function draw_histogram(chart, context) {
    const { box, options } = chart;
    const s = options.series.find((it) => it.kind === 'points');
    if (!s) return;
    const values = [];
    const count = s.x.length;
    for (let i = 0; i < count; i++) {
      if (s.x[i] < chart.x.low || s.x[i] > chart.x.high) continue;
      if (s.state && s.state[i] === ice.FAILED) continue;
      values.push(value_of(s, i));
    }
    const bins = Math.max(8, Math.floor((box.bottom - box.top) / 5));
    const counts = ice.histogram(values, chart.y.low, chart.y.high, bins);
    const most = Math.max(...counts, 1);
    const tall = (box.bottom - box.top) / bins;
    context.fillStyle = ice.colour('--bar');
    for (let b = 0; b < bins; b++) {
      const wide = (counts[b] / most) * (SIDE - 8);
      if (counts[b]) context.fillRect(box.right + 6, box.bottom - (b + 1) * tall + 0.5, Math.max(1, wide), tall - 1);
    }
  }

  function shade_rules(chart, context) {
    const { box } = chart;
    context.fillStyle = ice.colour('--shade');
    for (const rule of chart.options.rules) {
      if (!rule.side || rule.shown === false || !isFinite(rule.value)) continue;
      const y = clamp(chart.y(rule.value), box.top, box.bottom);
      if (rule.side === 'above') context.fillRect(box.left, box.top, box.right - box.left, y - box.top);
      else context.fillRect(box.left, y, box.right - box.left, box.bottom - y);
    }
  }

  function draw_rules(chart, context) {
    const { box, options } = chart;
    const right = options.histogram ? box.right + SIDE : box.right;
    for (const rule of options.rules) {
      if (rule.shown === false || !isFinite(rule.value)) continue;
      const y = Math.round(chart.y(rule.value)) + 0.5;
      if (y < box.top - 1 || y > box.bottom + 1) continue;
      context.strokeStyle = ice.colour(rule.colour || '--rule');
      context.lineWidth = 1;
      context.setLineDash(rule.dash || []);
      context.beginPath();
      context.moveTo(box.left, y);
      context.lineTo(right, y);
      context.stroke();
      context.setLineDash([]);
      if (!rule.text) continue;
      context.fillStyle = ice.colour(rule.colour || '--rule');
      context.textAlign = 'left';
      context.fillText(rule.text, box.left + 4, y < box.top + 14 ? y + 8 : y - 7);
    }
  }

  function draw_marker(chart, context) {
    const { marker } = chart.options;
    if (!ice.is_number(marker)) return;
    context.strokeStyle = ice.colour('--ink');
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(Math.round(chart.x(marker)) + 0.5, chart.box.top);
    context.lineTo(Math.round(chart.x(marker)) + 0.5, chart.box.bottom);
    context.stroke();
  }
})(window.ice);
