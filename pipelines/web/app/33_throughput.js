/* Throughput: exposures over time, how long each stage needs, and what waits. */
(function (ice) {
  'use strict';

  const { store } = ice;
  const KEEP = 720; // samples of the backlog
  const backlog = { t: [], waiting: [], oldest: [] };
  let found = null;
  let latency = null;
  let waiting = null;
  let drawn = 0;

  const STEPS = [60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

  /* Exposures per bin, stacked: done at the bottom, then in flight, rejected, failed. */
  function draw_found() {
    const { rows } = store;
    const t = rows.t.subarray(0, rows.length).filter((v) => v > 0);
    let low = Infinity;
    let high = -Infinity;
    for (const v of t) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    if (!(low <= high)) return found.set({ series: [] });
    const step = (high - low) <= 7200 ? STEPS.find((s) => (high - low) / s <= 60) : STEPS.find((s) => s >= 600 && (high - low) / s <= 90) || 86400;
    const start = Math.floor(low / step) * step;
    const bins = Math.floor((high - start) / step) + 1;
    const x = Float64Array.from({ length: bins }, (nothing, b) => start + (b + 0.5) * step);
    const counts = ice.states.map(() => new Float64Array(bins));
    for (let i = 0; i < rows.length; i++) if (rows.t[i] > 0) counts[rows.state[i]][Math.floor((rows.t[i] - start) / step)]++;
    const series = [];
    let base = new Float64Array(bins);
    for (const s of [ice.DONE, ice.IN_FLIGHT, ice.REJECTED, ice.FAILED]) {
      const top = base.map((v, b) => v + counts[s][b]);
      series.push({ name: ice.states[s].word, kind: 'bars', x, y: top, base, wide: step, colour: ice.states[s].colour });
      base = top;
    }
    const last = bins > 1 ? base[bins - 2] : base[0];
    found.set({
      series, title: 'Exposures per ' + ice.span(step),
      summary: 'the last full ' + ice.span(step) + ': ' + ice.count(last) + ', most ' + ice.count(Math.max(...base)) + ', ' + ice.count(rows.length) + ' in all',
      table: () => ({ head: ['from (UTC)', ...[1, 0, 2, 3].map((s) => ice.states[s].word)],
        rows: Array.from(x, (v, b) => [new Date((v - step / 2) * 1000).toISOString(), ...[1, 0, 2, 3].map((s) => counts[s][b])]) }),
      tip: (s, i) => ice.clock(x[i] - step / 2) + '\n' + [1, 0, 2, 3].filter((k) => counts[k][i]).map((k) => counts[k][i] + ' ' + ice.states[k].word).join('\n'),
    });
  }

  /* Medians and 95 % of each stage, and from found to picked and classified where the server knows. */
  function draw_latency() {
    const names = [];
    const middle = [];
    const most = [];
    const take = (name, l) => {
      if (!l || !ice.is_number(l.p50)) return;
      names.push(name);
      middle.push(Math.max(l.p50, 0.01));
      most.push(Math.max(l.p95, l.p50, 0.01));
    };
    for (const stage of store.session.stages) if (!store.gathers(stage)) take(stage.name, (store.status.stages[stage.name] || {}).latency);
    for (const [to, l] of Object.entries(store.status.pipeline_latency || {})) take('found to ' + to, l);
    const x = names.map((nothing, k) => k);
    latency.node.hidden = !names.length;
    latency.set({
      x: { min: -0.5, max: Math.max(names.length - 0.5, 0.5), names: names.map((name) => name.replace('found to ', '→ ')) },
      series: [{ name: 'median', kind: 'bars', x, y: middle, base: middle.map(() => 0.01), wide: 0.5, colour: '--done' },
        { name: '95 %', kind: 'bars', x, y: most, base: middle, wide: 0.18, colour: '--in-flight' }],
      tip: (s, i) => names[i] + '\nmedian ' + ice.span(middle[i]) + '\n95 % ' + ice.span(most[i]),
      summary: names.map((name, k) => name + ' ' + ice.span(middle[k])).join(', '),
      table: () => ({ head: ['stage', 'median (s)', '95 % (s)'], rows: names.map((name, k) => [name, middle[k], most[k]]) }),
    });
  }

  function sample_backlog() {
    const stages = Object.values((store.status && store.status.stages) || {});
    const queue = (s) => (ice.is_number(s.queue) ? s.queue : Object.values(s.inputs || {}).reduce((sum, one) => sum + ((one && one.waiting) || 0), 0));
    const now = Date.now() / 1000;
    if (backlog.t.length && now - backlog.t[backlog.t.length - 1] < 5) return;
    backlog.t.push(now);
    backlog.waiting.push(stages.reduce((sum, s) => sum + queue(s), 0));
    backlog.oldest.push(stages.reduce((most, s) => Math.max(most, s.oldest || 0), 0));
    if (backlog.t.length > KEEP) for (const list of Object.values(backlog)) list.shift();
  }

  function draw_backlog() {
    const at = backlog.t.length - 1;
    waiting.set({
      series: [{ name: 'waiting', kind: 'area', x: backlog.t.slice(), y: backlog.waiting.slice(), colour: '--done' }],
      summary: at < 0 ? '' : ice.count(backlog.waiting[at]) + ' wait between stages; the oldest for ' + ice.span(backlog.oldest[at]) + '. Since this page is open.',
    });
  }

  function draw_all() {
    drawn = Date.now();
    draw_found();
    if (store.status && store.status.stages) {
      draw_latency();
      draw_backlog();
    }
  }

  store.subscribe('status', sample_backlog);

  ice.section({
    id: 'throughput', title: 'Throughput', view: 'overview', order: 12,
    draw(root) {
      found = ice.chart({ title: 'Exposures', name: 'throughput', height: 150, x: { time: true }, y: { zero: true, whole: true, label: 'exposures' } });
      latency = ice.chart({ title: 'Time that an item needs', unit: 's', name: 'latency', height: 180, y: { log: true, unit: 's', label: 'time' } });
      waiting = ice.chart({ title: 'Backlog', name: 'backlog', height: 150, x: { time: true }, y: { zero: true, whole: true, label: 'waiting' } });
      root.append(ice.heading('Throughput'), ice.el('div', { class: 'charts' }, found.node, latency.node, waiting.node));
    },
    update(kind) {
      if (kind === 'shown' || ((kind === 'rows' || kind === 'status') && Date.now() - drawn > 2000)) draw_all();
    },
  });
})(window.ice);
