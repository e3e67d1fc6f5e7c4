/* Series: what each exposure measures, over its number or its time, with rules and thresholds. */
(function (ice) {
  'use strict';

  const { store } = ice;
  const WINDOW = 25;
  /* The charts that come first, by key; other columns follow on request. */
  const FIRST = [/^defocus$/i, /^astig/i, /^(ctf)?res(olution)?$/i,
    /^motion(px)?$/i, /^ice$/i, /^picks(\.count)?$/i];
  const MANY = 20000; // rows above which new ones are drawn every few seconds only

  let charts = new Map();
  let holder = null;
  let kept = null;
  let last_draw = 0;
  let later = null;

  const by_time = () => ice.query('x') === 'time';
  function zoomed() {
    const match = /^(-?[\d.]+)~(-?[\d.]+)$/.exec(ice.query('z'));
    return match ? [Number(match[1]), Number(match[2])] : null;
  }

  function wanted_columns() {
    const all = store.columns();
    const first = FIRST.map((pattern) => all.find((c) => pattern.test(c.key))).filter(Boolean);
    if (ice.query('all') !== '1') return first.length ? first : all.slice(0, 6);
    return first.concat(all.filter((c) => !first.some((f) => f.key === c.key)));
  }

  function rules_of(column) {
    const names = store.names_of(column);
    const rules = (store.session.rules || []).filter((rule) => names.includes(rule.column) && ice.is_number(rule.value)).map((rule) => ({
      value: rule.value * column.factor, text: rule.stage + ' rejects ' + rule.op + ' ' + ice.quantity(rule.value * column.factor, column.unit),
      side: rule.op.startsWith('>') ? 'above' : 'below',
    }));
    if (column.good !== 'high') rules.push(threshold(column, '>'));
    if (column.good !== 'low') rules.push(threshold(column, '<'));
    return rules;
  }

  /* A handle: at rest at the end of the axis, where it leaves nothing out. */
  function threshold(column, op) {
    const value = ice.threshold(column.key, op);
    const set = ice.is_number(value);
    const resting = op === '>' ? Infinity : -Infinity;
    return {
      value: set ? value : resting, shown: set, resting: !set, dash: [4, 3], colour: '--rule', side: op === '>' ? 'above' : 'below',
      label: column.label + ': leave out ' + (op === '>' ? 'above' : 'below'),
      said: set ? ice.quantity(value, column.unit) + ' ' + column.unit : 'off',
      text: set ? op + ' ' + ice.quantity(value, column.unit) : '',
      move: (to) => ice.set_threshold(column.key, op, to),
    };
  }

  function make(column) {
    const chart = ice.chart({
      title: column.label, unit: column.unit, name: column.key, height: 190, histogram: true, x: {}, y: { unit: column.unit, label: column.label },
      empty: 'no exposure has this yet',
      pick: (s, i) => ice.go('exposure/' + store.rows.n[i]),
      zoom: (low, high) => {
        ice.query('z', low === null ? null : Number(low.toPrecision(12)) + '~' + Number(high.toPrecision(12)));
        draw_all();
      },
      tip: (s, i) => '#' + store.rows.n[i] + '  ' + ice.clock(store.rows.t[i]) + '\n' + ice.quantity(s.y[i] * (s.factor || 1), column.unit) +
        ' ' + column.unit + '  ' + ice.states[store.rows.state[i]].word,
      table: () => table(column.key),
    });
    chart.node.classList.add('series');
    return chart;
  }

  function table(key) {
    const column = store.column(key);
    const { rows } = store;
    const lines = [];
    for (let i = rows.length - 1; i >= 0; i--) {
      const value = column.values[i] * column.factor;
      if (isFinite(value)) lines.push([rows.n[i], rows.name[i], new Date(rows.t[i] * 1000).toISOString(), value, ice.states[rows.state[i]].word]);
    }
    return { head: ['number', 'exposure', 'time (UTC)', column.label + (column.unit ? ' (' + column.unit + ')' : ''), 'state'], rows: lines };
  }

  function draw(column) {
    const { rows } = store;
    let chart = charts.get(column.key);
    if (!chart) charts.set(column.key, chart = make(column));
    const count = rows.length;
    const x = (by_time() ? rows.t : rows.n).subarray(0, count);
    const y = column.values.subarray(0, count);
    const good = y.slice();
    for (let i = 0; i < count; i++) if (rows.state[i] >= ice.REJECTED) good[i] = NaN;
    const median = ice.running_median(good, WINDOW);
    chart.set({
      title: column.label, unit: column.unit, y: { unit: column.unit, label: column.label, whole: /picks/.test(column.key) },
      x: { label: by_time() ? '' : '#', time: by_time(), whole: !by_time() },
      range: zoomed(),
      series: [{ name: column.label, kind: 'points', x, y, factor: column.factor, state: rows.state },
        { name: 'median of ' + WINDOW, kind: 'line', x, y: median, factor: column.factor, colour: '--median', width: 1.5, bridge: true, aside: true }],
      rules: rules_of(column),
      summary: () => summary(column, x, good, chart),
    });
    return chart.node;
  }

  function summary(column, x, values, chart) {
    const inside = [];
    for (let i = 0; i < values.length; i++) {
      if (isFinite(values[i]) && x[i] >= chart.x.low && x[i] <= chart.x.high) inside.push(values[i] * column.factor);
    }
    const last = inside.length ? 'last ' + ice.quantity(inside[inside.length - 1], column.unit) + ', ' : '';
    return last + ice.say_values(inside, column.unit);
  }

  function draw_all() {
    last_draw = Date.now();
    const columns = wanted_columns();
    const nodes = columns.map(draw);
    if (nodes.length !== holder.children.length || nodes.some((node, k) => node !== holder.children[k])) ice.fill(holder, nodes);
    if (!nodes.length) ice.fill(holder, ice.el('p', { class: 'quiet', text: 'Charts appear with the first measured exposure.' }));
    show_kept();
    show_buttons();
  }

  function rows_came() {
    const wait = store.rows.length > MANY ? 5000 - (Date.now() - last_draw) : 0;
    clearTimeout(later);
    if (wait > 0) later = setTimeout(draw_all, wait);
    else draw_all();
  }

  function show_kept() {
    const list = ice.thresholds();
    kept.hidden = !list.length;
    if (!list.length) {
      ice.fill(kept);
      return;
    }
    const { kept: count, of } = ice.count_kept();
    ice.fill(kept, ice.el('span', { id: 'would-keep', text: 'would keep ' + ice.count(count) + ' of ' + ice.count(of) }),
      ice.el('a', { class: 'button', href: '#exposures?f=' + encodeURIComponent(ice.threshold_filter()), text: 'show them' }),
      ice.el('button', { type: 'button', class: 'small', text: 'copy as a rule', title: 'reject_if: ' + ice.threshold_rule(),
        on: { click: () => ice.copy(ice.threshold_rule()).then(() => ice.speak('copied')) } }),
      ice.el('button', { type: 'button', class: 'small', text: 'clear', on: { click: ice.clear_thresholds } }));
  }

  const buttons = {};
  function show_buttons() {
    buttons.number.setAttribute('aria-pressed', String(!by_time()));
    buttons.time.setAttribute('aria-pressed', String(by_time()));
    buttons.all.setAttribute('aria-pressed', String(ice.query('all') === '1'));
    buttons.whole.hidden = !zoomed();
  }

  function button(key, text, act) {
    return buttons[key] = ice.el('button', { type: 'button', text, on: { click: () => {
      act();
      draw_all();
    } } });
  }

  ice.section({
    id: 'series', title: 'Series', view: 'overview', order: 11,
    draw(root) {
      charts = new Map();
      kept = ice.el('div', { class: 'kept note', role: 'status' });
      holder = ice.el('div', { class: 'charts' });
      root.append(ice.heading('Exposures', kept,
        button('whole', 'show all', () => ice.query('z', null)),
        button('all', 'all columns', () => ice.query('all', ice.query('all') === '1' ? null : '1')),
        ice.el('div', { class: 'segment', role: 'group', 'aria-label': 'Over' },
          button('number', 'number', () => { ice.query('x', null); ice.query('z', null); }),
          button('time', 'time', () => { ice.query('x', 'time'); ice.query('z', null); }))), holder);
    },
    update(kind) {
      if (kind === 'rows') rows_came();
      else if (['shown', 'session', 'thresholds', 'route'].includes(kind)) draw_all();
    },
  });
})(window.ice);
