/* Hands on a chart: crosshair, click on a point, drag to zoom, double click for all, handles of rules, keys. */
(function (ice) {
  'use strict';

  const NEAR = 18; // px within which a click takes a point

  ice.chart_hands = function (chart) {
    chart.cross = ice.el('div', { class: 'cross', hidden: true });
    chart.band = ice.el('div', { class: 'band', hidden: true });
    chart.tip = ice.el('div', { class: 'tip', hidden: true });
    chart.handles = ice.el('div', { class: 'handles' });
    chart.plot.append(chart.band, chart.cross, chart.tip, chart.handles);
    if (chart.options.pick || chart.options.zoom) {
      chart.plot.tabIndex = 0;
      chart.plot.setAttribute('role', 'group');
      chart.plot.setAttribute('aria-label', (chart.options.title || 'chart') +
        ': left and right arrows go from point to point, Enter opens one, 0 shows all');
    }
    pointer(chart);
    keys(chart);
    chart.place_handles = () => place_handles(chart);
  };

  function local(chart, event) {
    const box = chart.plot.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /* The point nearest to (x, y) in px: [series, index, distance]. */
  function nearest(chart, x, y) {
    let best = null;
    let least = Infinity;
    for (const s of chart.options.series) {
      if (s.aside) continue;
      const count = s.x.length;
      const flat = s.kind === 'points' ? 1 : 0.15;
      for (let i = 0; i < count; i++) {
        const v = s.y[i] * (s.factor || 1);
        if (v !== v) continue;
        const dx = chart.x(s.x[i]) - x;
        if (dx > 60 || dx < -60) continue;
        const dy = (chart.y(v) - y) * flat;
        const far = dx * dx + dy * dy;
        if (far < least) {
          least = far;
          best = [s, i];
        }
      }
    }
    return best && [...best, Math.sqrt(least)];
  }

  function show_tip(chart, s, i) {
    const { options } = chart;
    const v = s.y[i] * (s.factor || 1);
    const x = chart.x(s.x[i]);
    const text = options.tip ? options.tip(s, i)
      : (options.x.time ? ice.clock(s.x[i], true) : (options.x.label || '') + ' ' + ice.number(s.x[i], 4)) + '\n' +
        (s.name ? s.name + ' ' : '') + ice.quantity(v, options.y.unit) + (options.y.unit ? ' ' + options.y.unit : '');
    chart.tip.textContent = text;
    chart.tip.hidden = chart.cross.hidden = false;
    chart.cross.style.transform = 'translateX(' + Math.round(x) + 'px)';
    chart.cross.style.top = chart.box.top + 'px';
    chart.cross.style.height = chart.box.bottom - chart.box.top + 'px';
    const wide = chart.tip.offsetWidth;
    const left = x + 12 + wide > chart.plot.clientWidth ? x - wide - 10 : x + 10;
    const top = Math.max(2, Math.min(chart.y(v) - 18, chart.plot.clientHeight - chart.tip.offsetHeight - 4));
    chart.tip.style.transform = 'translate(' + Math.round(Math.max(0, left)) + 'px,' + Math.round(top) + 'px)';
    chart.here = [s, i];
  }

  function hide_tip(chart) {
    chart.tip.hidden = chart.cross.hidden = true;
    chart.here = null;
  }

  function pointer(chart) {
    let from = null;
    let pending = null;
    const { plot, band } = chart;
    plot.addEventListener('pointermove', (event) => {
      if (!chart.box || event.target.closest('.handle')) return;
      const [x, y] = local(chart, event);
      if (from !== null) {
        const left = Math.max(chart.box.left, Math.min(from, x));
        const right = Math.min(chart.box.right, Math.max(from, x));
        band.hidden = right - left < 4;
        band.style.transform = 'translateX(' + left + 'px)';
        band.style.width = right - left + 'px';
        band.style.top = chart.box.top + 'px';
        band.style.height = chart.box.bottom - chart.box.top + 'px';
        return;
      }
      if (!pending) requestAnimationFrame(() => {
        const [px, py] = pending;
        pending = null;
        const hit = nearest(chart, px, py);
        if (hit) show_tip(chart, hit[0], hit[1]);
        else hide_tip(chart);
      });
      pending = [x, y];
    });
    plot.addEventListener('pointerleave', () => hide_tip(chart));
    plot.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || event.target.closest('.handle') || !chart.box) return;
      from = local(chart, event)[0];
      if (chart.options.zoom) plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener('pointerup', (event) => {
      if (from === null) return;
      const [x, y] = local(chart, event);
      const moved = Math.abs(x - from);
      const start = from;
      from = null;
      band.hidden = true;
      if (moved > 6) {
        if (chart.options.zoom) {
          const ends = [chart.x.back(Math.max(chart.box.left, Math.min(start, x))),
            chart.x.back(Math.min(chart.box.right, Math.max(start, x)))];
          chart.options.zoom(ends[0], ends[1]);
        }
        return;
      }
      const hit = nearest(chart, x, y);
      if (hit && hit[2] <= NEAR && chart.options.pick) chart.options.pick(hit[0], hit[1]);
    });
    plot.addEventListener('pointercancel', () => {
      from = null;
      band.hidden = true;
    });
    plot.addEventListener('dblclick', () => chart.options.zoom && chart.options.zoom(null));
  }

  function keys(chart) {
    chart.plot.addEventListener('keydown', (event) => {
      if (event.target !== chart.plot || !chart.box) return;
      const s = chart.options.series.find((it) => !it.aside);
      if (!s) return;
      const count = s.x.length;
      const at = chart.here && chart.here[0] === s ? chart.here[1] : null;
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -25, PageDown: 25 }[event.key];
      let next = null;
      if (move) next = at === null ? count - 1 : Math.min(count - 1, Math.max(0, at + move));
      else if (event.key === 'Home') next = 0;
      else if (event.key === 'End') next = count - 1;
      else if (event.key === 'Enter' && at !== null && chart.options.pick) chart.options.pick(s, at);
      else if (event.key === '0' && chart.options.zoom) chart.options.zoom(null);
      else if (event.key === 'Escape' && at !== null) hide_tip(chart);
      else return;
      event.preventDefault();
      event.stopPropagation();
      if (next === null || !count) return;
      const way = move < 0 || event.key === 'End' ? -1 : 1;
      while (next > 0 && next < count - 1 && !(s.y[next] === s.y[next])) next += way;
      show_tip(chart, s, next);
    });
    chart.plot.addEventListener('blur', () => hide_tip(chart));
  }

  /* A handle for each rule that can be moved: a slider for hand and keys, at the right edge of the chart. */
  function place_handles(chart) {
    const movable = chart.options.rules.filter((rule) => rule.move);
    while (chart.handles.children.length > movable.length) chart.handles.lastChild.remove();
    movable.forEach((rule, k) => {
      let handle = chart.handles.children[k];
      if (!handle) {
        handle = make_handle(chart, k);
        chart.handles.append(handle);
      }
      const y = Math.max(chart.box.top, Math.min(chart.box.bottom, chart.y(rule.value)));
      handle.style.transform = 'translateY(' + Math.round(isFinite(y) ? y : chart.box.top) + 'px)';
      handle.setAttribute('aria-label', rule.label || 'threshold');
      handle.setAttribute('aria-valuenow', isFinite(rule.value) ? Number(rule.value.toPrecision(4)) : 0);
      handle.setAttribute('aria-valuemin', Number(chart.y.low.toPrecision(4)));
      handle.setAttribute('aria-valuemax', Number(chart.y.high.toPrecision(4)));
      handle.setAttribute('aria-valuetext', rule.said || ice.quantity(rule.value, chart.options.y.unit));
      handle.classList.toggle('resting', !!rule.resting);
    });
  }

  function make_handle(chart, k) {
    const handle = ice.el('div', { class: 'handle', role: 'slider', tabindex: '0', 'aria-orientation': 'vertical' });
    const rule = () => chart.options.rules.filter((it) => it.move)[k];
    let held = false;
    const value_at = (event) => {
      const y = Math.max(chart.box.top, Math.min(chart.box.bottom, local(chart, event)[1]));
      return chart.y.back(y);
    };
    handle.addEventListener('pointerdown', (event) => {
      held = true;
      handle.setPointerCapture(event.pointerId);
      event.stopPropagation();
      event.preventDefault();
      handle.focus({ preventScroll: true });
    });
    handle.addEventListener('pointermove', (event) => held && rule().move(value_at(event), false));
    handle.addEventListener('pointerup', (event) => {
      if (held) rule().move(value_at(event), true);
      held = false;
    });
    handle.addEventListener('dblclick', (event) => {
      event.stopPropagation();
      rule().move(null, true);
    });
    handle.addEventListener('keydown', (event) => {
      const span = chart.y.high - chart.y.low;
      const step = { ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1 }[event.key];
      if (step) rule().move(Math.max(chart.y.low, Math.min(chart.y.high, rule().value + step * span)), true);
      else if (event.key === 'Delete' || event.key === 'Backspace') rule().move(null, true);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    return handle;
  }
})(window.ice);
