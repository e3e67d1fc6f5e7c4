/* Grid squares: how each square and its holes do, by the names that EPU and SerialEM give. */
(function (ice) {
  'use strict';

  const { store } = ice;
  const FRESH = 10000; // ms between two fetches
  let cards = null;
  let legend = null;
  let choose = null;
  let order = null;
  let answer = null;
  let fetched = 0;
  let waiting = null;

  /* The value that colours squares and holes: a column by its key, or the share of exposures that are rejected or failed. */
  const by = () => ice.query('by') || (store.column('res') ? 'res' : 'lost');
  const LOST = { key: 'lost', label: 'Lost', unit: '%', factor: 1, good: 'low' };
  const about = () => (by() === 'lost' ? LOST : store.column(by()) || LOST);

  function value_of(square, column) {
    if (column.key === 'lost') return square.count ? (100 * ((square.rejected || 0) + (square.failed || 0))) / square.count : NaN;
    const medians = square.medians || {};
    const raw = medians[column.key] !== undefined ? medians[column.key] : medians[column.column];
    return ice.is_number(raw) ? raw * column.factor : NaN;
  }

  /* The mean over the exposures of a hole. */
  function hole_value(hole, column) {
    const { rows } = store;
    const places = hole.n.map((n) => rows.at.get(n)).filter((i) => i !== undefined);
    if (column.key === 'lost') return places.length ? (100 * places.filter((i) => rows.state[i] >= ice.REJECTED).length) / places.length : NaN;
    const values = places.map((i) => column.values[i] * column.factor).filter(isFinite);
    return values.length ? values.reduce((a, b) => a + b, 0) / values.length : NaN;
  }

  /* Five steps between the 5 and 95 % quantiles of all holes; step 5 is the best. */
  function make_scale(column) {
    const values = ice.sorted(answer.squares.flatMap((s) => s.holes && s.holes.length ? s.holes.map((h) => hole_value(h, column)) : [value_of(s, column)]));
    const low = ice.quantile(values, 0.05);
    const high = ice.quantile(values, 0.95);
    const step = (v) => {
      if (!isFinite(v)) return null;
      const at = high > low ? Math.max(0, Math.min(4, Math.floor(((v - low) / (high - low)) * 5))) : 4;
      return column.good === 'low' && high > low ? 4 - at : at;
    };
    step.ends = [0, 1, 2, 3, 4, 5].map((k) => low + (k * (high - low)) / 5);
    return step;
  }

  function show_legend(column, step) {
    if (!isFinite(step.ends[0])) {
      ice.fill(legend, ice.el('span', { class: 'quiet', text: 'no values yet' }));
      return;
    }
    const order_of = column.good === 'low' ? [4, 3, 2, 1, 0] : [0, 1, 2, 3, 4];
    ice.fill(legend, ice.el('span', { class: 'quiet', text: column.label + (column.unit ? ' (' + column.unit + ')' : '') }),
      order_of.map((k, place) => ice.el('span', { class: 'step' }, ice.el('i', { class: 'swatch s' + (k + 1) }),
        ice.quantity(step.ends[place], column.unit) + ' to ' + ice.quantity(step.ends[place + 1], column.unit))),
      column.good ? ice.el('span', { class: 'quiet', text: 'bright is good' }) : null);
  }

  /* Holes where they lie, if positions are known; else in the order of their names. */
  function hole_map(square, column, step) {
    const holes = square.holes || [];
    if (!holes.length) return null;
    const placed = holes.filter((h) => ice.is_number(h.x) && ice.is_number(h.y));
    /* Many holes have one place if the beam is shifted to them and the stage stays. */
    const places = new Set(placed.map((h) => h.x.toFixed(1) + ' ' + h.y.toFixed(1)));
    const known = placed.length > 1 && places.size >= holes.length / 2;
    const across = Math.ceil(Math.sqrt(holes.length * 1.6));
    const spots = known ? placed.map((h) => [h, h.x, -h.y]) : holes.map((h, k) => [h, k % across, Math.floor(k / across)]);
    const xs = spots.map((s) => s[1]);
    const ys = spots.map((s) => s[2]);
    const [x0, y0] = [Math.min(...xs), Math.min(...ys)];
    const wide = Math.max(...xs) - x0;
    const tall = Math.max(...ys) - y0;
    const pitch = known ? spacing(spots) || Math.max(wide, tall) / 10 || 1 : 1;
    const draw = spots.map(([hole, x, y]) => {
      const value = hole_value(hole, column);
      const at = step(value);
      const said = 'hole ' + hole.name + ', ' + ice.plural(hole.n.length, 'exposure') + ', ' + column.label + ' ' + ice.quantity(value, column.unit) + ' ' + column.unit;
      return ice.svg('a', { href: hole.n.length === 1 ? '#exposure/' + hole.n[0] : '#exposures?f=' + encodeURIComponent('square:' + square.name + ' hole:' + hole.name), tabindex: '-1' },
        ice.svg('circle', { cx: (x - x0) / pitch, cy: (y - y0) / pitch, r: 0.38, class: at === null ? 'none' : 's' + (at + 1) }, ice.svg('title', {}, said)));
    });
    return ice.svg('svg', { class: 'holes', role: 'group', 'aria-label': ice.plural(holes.length, 'hole') + (known ? ' at their positions' : ', positions not known'),
      viewBox: [-0.6, -0.6, wide / pitch + 1.2, tall / pitch + 1.2].join(' ') }, draw);
  }

  /* The distance between neighbours: the median of the nearest, over at most 60 holes. */
  function spacing(spots) {
    const some = spots.slice(0, 60);
    const nearest = some.map(([, x, y], k) => Math.min(...spots.map(([, u, v], m) => (m === k ? Infinity : Math.hypot(x - u, y - v))).filter((d) => d > 0)));
    return ice.median(nearest.filter(isFinite));
  }

  function card(square, column, step) {
    const value = value_of(square, column);
    const at = step(value);
    const medians = ['res', 'defocus', 'picks', 'ice'].map((key) => [store.column(key), square.medians && square.medians[key]])
      .filter(([c, v]) => c && ice.is_number(v)).map(([c, v]) => ice.el('div', { class: 'line' }, ice.el('span', { class: 'label', text: c.label }),
        ice.el('span', { class: 'value', text: ice.quantity(v * c.factor, c.unit) + (c.unit ? ' ' + c.unit : '') })));
    const counts = { done: square.done, in_flight: square.count - square.done - (square.rejected || 0) - (square.failed || 0), rejected: square.rejected, failed: square.failed };
    return ice.el('li', { class: 'square' + (ice.route.argument === square.name ? ' here' : ''), id: 'square-' + square.name },
      ice.el('h3', {}, ice.el('i', { class: 'swatch ' + (at === null ? 'none' : 's' + (at + 1)) }),
        ice.el('a', { href: '#exposures?f=' + encodeURIComponent('square:' + square.name), text: square.name || 'no square' }),
        ice.el('span', { class: 'quiet', text: ice.plural(square.count, 'exposure') })),
      ice.el('div', { class: 'counts' }, [1, 0, 2, 3].map((s) => ice.states[s]).filter((s) => counts[s.key] > 0).map((s) => ice.el('span', { class: 'count', title: s.word },
        ice.state_mark(s.key, true), ice.el('span', { text: ice.count(counts[s.key]) })))),
      ice.el('div', { class: 'square-body' }, hole_map(square, column, step), ice.el('div', { class: 'medians' }, medians)));
  }

  function sorted(column) {
    const list = answer.squares.slice();
    const how = ice.query('order');
    if (how === 'name') return list.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
    if (how === 'best') {
      const sign = column.good === 'high' ? -1 : 1;
      const value = (s) => (isFinite(value_of(s, column)) ? value_of(s, column) : Infinity);
      return list.sort((a, b) => sign * (value(a) - value(b)));
    }
    return list;
  }

  function show() {
    if (!answer) return;
    const column = about();
    const options = [['lost', 'lost']].concat(store.columns().map((c) => [c.key, c.label]));
    if (choose.dataset.key !== options.join()) { // a list in which somebody chooses stays as it is
      choose.dataset.key = options.join();
      ice.fill(choose, options.map(([value, text]) => ice.el('option', { value, text })));
    }
    choose.value = column.key;
    order.value = ice.query('order') || 'found';
    const step = make_scale(column);
    show_legend(column, step);
    const named = answer.squares.filter((s) => s.name);
    if (!named.length) ice.fill(cards, ice.el('li', { class: 'quiet', text: 'The names of these exposures tell no grid squares. EPU and SerialEM names do.' }));
    else ice.fill(cards, sorted(column).map((square) => card(square, column, step)));
    if (ice.route.view === 'grid' && ice.route.argument) {
      const here = document.getElementById('square-' + ice.route.argument);
      if (here) here.scrollIntoView({ block: 'nearest' });
    }
  }

  function load(force) {
    const wait = force ? 0 : FRESH - (Date.now() - fetched);
    if (wait > 0) {
      if (!waiting) waiting = setTimeout(() => load(true), wait);
      return;
    }
    clearTimeout(waiting);
    waiting = null;
    fetched = Date.now();
    ice.api('api/grid').then((it) => {
      answer = it;
      show();
    }).catch((error) => answer || ice.fill(cards, ice.el('li', { class: 'quiet', text: error.message })));
  }

  const select = (label, key, options) => ice.el('select', { 'aria-label': label, on: { change: (event) => {
    ice.query(key, event.target.value);
    show();
  } } }, options.map(([value, text]) => ice.el('option', { value, text })));

  ice.section({
    id: 'grid', title: 'Grid', view: 'grid', order: 40,
    when: () => store.rows.squares.some((name) => name),
    draw(root) {
      choose = select('Colour by', 'by', []);
      order = select('Order', 'order', [['found', 'in the order of finding'], ['name', 'by name'], ['best', 'best first']]);
      legend = ice.el('div', { class: 'legend' });
      cards = ice.el('ul', { class: 'squares' });
      root.append(ice.heading('Grid squares', ice.el('label', {}, 'colour by', choose), order), legend, cards);
    },
    update(kind) {
      if (kind === 'shown') load(true);
      else if (kind === 'rows') load(false);
      else if (kind === 'route') show();
      else if (kind === 'hidden') {
        clearTimeout(waiting);
        waiting = null;
      }
    },
  });

})(window.ice);
