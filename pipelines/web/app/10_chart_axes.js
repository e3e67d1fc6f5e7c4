/* Axes of charts: ranges, ticks, their texts, and colours from the style sheet. */
(function (ice) {
  'use strict';

  const colours = new Map();
  /* The value of a CSS variable such as "--done"; kept until the theme changes. */
  ice.colour = function (name) {
    if (!name.startsWith('--')) return name;
    if (!colours.has(name)) {
      colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim() || 'gray');
    }
    return colours.get(name);
  };
  ice.forget_colours = () => colours.clear();

  /* Maps [low, high] to pixels [a, b]. log: both must be above 0. */
  ice.scale = function (low, high, a, b, log) {
    const f = log ? Math.log10 : (v) => v;
    const start = f(low);
    const factor = (b - a) / (f(high) - start || 1);
    const to = (v) => a + (f(v) - start) * factor;
    to.back = (p) => (log ? Math.pow(10, start + (p - a) / factor) : start + (p - a) / factor);
    to.low = low;
    to.high = high;
    return to;
  };

  const STEPS = [1, 2, 2.5, 5, 10];
  /* At most `wanted` round values within [low, high]. */
  ice.ticks = function (low, high, wanted, whole) {
    const span = high - low;
    if (!(span > 0) || !isFinite(span)) return [low];
    const power = Math.pow(10, Math.floor(Math.log10(span / wanted)));
    let step = power * STEPS.find((s) => span / (s * power) <= wanted);
    if (whole) step = Math.max(1, Math.round(step));
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(k * step);
    ticks.step = step;
    return ticks;
  };

  ice.log_ticks = function (low, high) {
    const ticks = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
      for (const m of [1, 2, 5]) {
        const v = m * Math.pow(10, p);
        if (v >= low * 0.999 && v <= high * 1.001) ticks.push(v);
      }
    }
    if (ticks.length > 8) return ticks.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6);
    return ticks;
  };

  ice.tick_text = function (value, step) {
    if (Math.abs(value) < (step || 0) * 1e-6) return '0';
    if (Math.abs(value) >= 1e6) return ice.number(value, 2);
    const decimals = step ? Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9))) : 0;
    const extra = step && Math.abs(step * Math.pow(10, decimals) - Math.round(step * Math.pow(10, decimals))) > 1e-6 ? 1 : 0;
    const text = value.toFixed(decimals + extra).replace('-', '−');
    return decimals + extra ? text : text.replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
  };

  const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  /* Ticks at round local times. */
  ice.time_ticks = function (low, high, wanted) {
    const step = SPANS.find((s) => (high - low) / s <= wanted) || 2592000;
    const offset = -new Date(low * 1000).getTimezoneOffset() * 60;
    const ticks = [];
    for (let k = Math.ceil((low + offset) / step); k * step - offset <= high; k++) ticks.push(k * step - offset);
    ticks.step = step;
    return ticks;
  };
  ice.time_text = function (time, step) {
    const date = new Date(time * 1000);
    const two = (n) => String(n).padStart(2, '0');
    if (step >= 86400) return two(date.getMonth() + 1) + '-' + two(date.getDate());
    const text = two(date.getHours()) + ':' + two(date.getMinutes());
    return step < 60 ? text + ':' + two(date.getSeconds()) : text;
  };

  /* A range that shows nearly all values: outliers beyond the far 0.4 % are drawn at the edge, so that one bad exposure
   * does not press all others into a line. extra: values that must be inside. */
  ice.robust_range = function (values, extra, options) {
    const sorted = ice.sorted(values);
    if (!sorted.length && !extra.length) return options.log ? [0.1, 10] : [0, 1];
    let low = sorted.length ? ice.quantile(sorted, 0.002) : Infinity;
    let high = sorted.length ? ice.quantile(sorted, 0.998) : -Infinity;
    for (const v of extra) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    if (options.zero) low = Math.min(0, low);
    if (options.log) return [Math.max(low, 1e-12) / 1.1, Math.max(high, 1e-12) * 1.1];
    if (low === high) {
      const pad = Math.abs(low) * 0.1 || 1;
      return [options.zero && low >= 0 ? 0 : low - pad, high + pad];
    }
    const pad = 0.06 * (high - low);
    return [options.zero && low >= 0 ? 0 : low - pad, high + pad];
  };
})(window.ice);
