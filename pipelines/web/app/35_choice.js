/* Chooses and orders the exposures of a view: the filter and sorting that gallery and ledger share. */
(function (ice) {
  'use strict';

  const { store } = ice;

  /* Indices of rows that pass the filter of the address (f), sorted by its column (sort, with "-" before it: falling).
   * Exposures without a value come last. Also returns the names in the filter that are no column. */
  ice.choose = function (standard) {
    const { rows } = store;
    const columns = new Map();
    const column = (key) => {
      if (!columns.has(key)) columns.set(key, store.column(key));
      return columns.get(key);
    };
    const filter = ice.make_filter(ice.query('f'), column);
    const list = new Int32Array(rows.length);
    let count = 0;
    for (let i = 0; i < rows.length; i++) if (filter.empty || filter(rows, i)) list[count++] = i;
    const chosen = list.subarray(0, count);
    const order = ice.query('sort') || standard;
    sort(chosen, rows, order.replace(/^-/, ''), order.startsWith('-'), column);
    return { list: chosen, unknown: filter.unknown, filtered: !filter.empty };
  };

  function sort(list, rows, key, falling, column) {
    if (key === 'n') {
      if (falling) list.reverse();
      return;
    }
    const texts = { name: rows.name, hole: rows.hole }[key];
    if (texts) list.sort((a, b) => texts[a].localeCompare(texts[b]));
    else if (key === 'square' || key === 'reason') {
      const of = key === 'square' ? ice.square_of : ice.reason_of;
      list.sort((a, b) => of(rows, a).localeCompare(of(rows, b)));
    } else {
      const it = column(key);
      const values = it ? it.values : rows[key];
      if (!values || !ArrayBuffer.isView(values)) return;
      const far = falling ? -Infinity : Infinity;
      const value = (i) => (values[i] === values[i] ? values[i] : far);
      list.sort((a, b) => value(a) - value(b) || a - b);
    }
    if (falling) list.reverse();
  }

  /* A field for the filter. changed() is called when it has a new one. */
  ice.filter_field = function (changed) {
    const field = ice.el('input', { type: 'search', class: 'filter', placeholder: 'filter: res<4 rejected square:1234 text',
      'aria-label': 'Filter, such as res<4, rejected, square:1234 or a part of a name', spellcheck: 'false' });
    let wait = null;
    field.addEventListener('input', () => {
      clearTimeout(wait);
      wait = setTimeout(() => {
        ice.query('f', field.value.trim());
        changed();
      }, 120);
    });
    field.show = () => {
      if (document.activeElement !== field) field.value = ice.query('f');
    };
    return field;
  };

  /* Moves in a list by a key. step: places that an arrow or page key goes; here: the present place, -1 for none. */
  ice.move_by_key = function (event, step, here, count, go_to, open) {
    let to = here;
    if (step) to = here < 0 ? 0 : here + step;
    else if (event.key === 'Home') to = 0;
    else if (event.key === 'End') to = count - 1;
    else if (event.key !== 'Enter') return;
    event.preventDefault();
    if (event.key === 'Enter') open(here);
    else go_to(Math.max(0, Math.min(count - 1, to)));
  };

  /* The order of the exposures in the view that was open last, for previous and next. */
  ice.order = { numbers: null };
  ice.remember_order = function (list) {
    ice.order = { numbers: Array.from(list, (i) => store.rows.n[i]) };
  };
})(window.ice);
