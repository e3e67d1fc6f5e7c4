/* The table of exposures, column by column in typed arrays, and the statistics that the page shows of it. */
(function (ice) {
  'use strict';

  const KINDS = { n: Float64Array, state: Uint8Array, stage: Int16Array, t: Float64Array, reason: Int32Array,
    square: Int32Array, attempts: Uint16Array, shows: Uint8Array, revision: Int32Array };

  /* Rows in the order of their numbers. Row i: n[i] (its number), state[i], stage[i] (index into session.stages),
   * t[i] (Unix time), reason[i] and square[i] (index into reasons, squares; -1: none), attempts[i] (0: not known), shows[i] (pictures and data that it has: ice.SHOWS), name[i],
   * hole[i], mark[i] (null, "keep" or "reject"), columns[key][i] (NaN: none). */
  ice.make_rows = function () {
    const rows = { length: 0, room: 0, name: [], hole: [], mark: [], reasons: [], squares: [], columns: {}, at: new Map(),
      reason_at: new Map(), square_at: new Map() };
    for (const key of Object.keys(KINDS)) rows[key] = new KINDS[key](0);
    return rows;
  };

  function wider(array, Kind, room) {
    const more = new Kind(room);
    more.set(array);
    return more;
  }

  function make_room(rows, wanted) {
    if (wanted <= rows.room) return;
    const room = Math.max(wanted, 2 * rows.room, 256);
    for (const key of Object.keys(KINDS)) rows[key] = wider(rows[key], KINDS[key], room);
    for (const key of Object.keys(rows.columns)) {
      const before = rows.columns[key];
      rows.columns[key] = new Float64Array(room).fill(NaN);
      rows.columns[key].set(before);
    }
    rows.room = room;
  }

  function word_index(list, at, word) {
    let index = at.get(word);
    if (index === undefined) {
      index = list.length;
      list.push(word);
      at.set(word, index);
    }
    return index;
  }

  /* Index into `own` for each word of a list that an answer brings. */
  const translate = (words, own, at) => (words || []).map((word) => word_index(own, at, word));

  /* Takes an answer of /api/items, whole or a delta. Returns the indices of rows that are new or differ. */
  ice.apply_rows = function (rows, answer) {
    if (answer.full) Object.assign(rows, ice.make_rows());
    const count = answer.n.length;
    make_room(rows, rows.length + count);
    const reasons = translate(answer.reasons, rows.reasons, rows.reason_at);
    const squares = translate(answer.squares, rows.squares, rows.square_at);
    const keys = Object.keys(answer.columns || {});
    for (const key of keys) if (!rows.columns[key]) rows.columns[key] = new Float64Array(rows.room).fill(NaN);
    const changed = [];
    let sorted = true;
    for (let k = 0; k < count; k++) {
      const number = answer.n[k];
      let i = rows.at.get(number);
      if (i === undefined) {
        i = rows.length++;
        rows.at.set(number, i);
        if (i && rows.n[i - 1] > number) sorted = false;
      }
      rows.n[i] = number;
      rows.state[i] = answer.state[k];
      rows.stage[i] = answer.stage[k];
      rows.t[i] = answer.t[k];
      rows.name[i] = answer.name[k];
      rows.attempts[i] = (answer.attempts && answer.attempts[k]) || 0;
      rows.shows[i] = (answer.shows && answer.shows[k]) || 0;
      rows.revision[i] = (answer.revision && answer.revision[k]) || 0;
      rows.hole[i] = (answer.hole && answer.hole[k]) || '';
      rows.mark[i] = (answer.mark && answer.mark[k]) || null;
      rows.reason[i] = indexed(reasons, answer.reason && answer.reason[k]);
      rows.square[i] = indexed(squares, answer.square && answer.square[k]);
      for (const key of keys) {
        const value = answer.columns[key][k];
        rows.columns[key][i] = value === null || value === undefined ? NaN : value;
      }
      changed.push(i);
    }
    if (answer.gone && answer.gone.length) sorted = forget(rows, answer.gone) && sorted;
    if (!sorted) sort_rows(rows);
    return changed;
  };

  function indexed(list, index) {
    return index === null || index === undefined || index < 0 || index >= list.length ? -1 : list[index];
  }

  function reorder(rows, order) {
    const count = order.length;
    for (const key of Object.keys(KINDS)) rows[key] = permute(rows[key], order);
    for (const key of Object.keys(rows.columns)) rows.columns[key] = permute(rows.columns[key], order);
    rows.name = order.map((i) => rows.name[i]);
    rows.hole = order.map((i) => rows.hole[i]);
    rows.mark = order.map((i) => rows.mark[i]);
    rows.length = count;
    rows.at.clear();
    for (let i = 0; i < count; i++) rows.at.set(rows.n[i], i);
  }

  function permute(array, order) {
    const result = new array.constructor(array.length);
    for (let i = 0; i < order.length; i++) result[i] = array[order[i]];
    return result;
  }

  const every = (count) => Array.from({ length: count }, (nothing, i) => i);

  function sort_rows(rows) {
    reorder(rows, every(rows.length).sort((a, b) => rows.n[a] - rows.n[b]));
  }

  function forget(rows, gone) {
    const set = new Set(gone);
    reorder(rows, every(rows.length).filter((i) => !set.has(rows.n[i])));
    return true;
  }

  ice.reason_of = (rows, i) => (rows.reason[i] >= 0 ? rows.reasons[rows.reason[i]] : '');
  /* A reason in which each path is the name of its file alone, without the file of the exposure `name` in front: a column
   * shows the reason then, and not the path. */
  ice.short_reason = function (text, name) {
    const short = without_paths(text);
    const stem = String(name || '').split('/').pop();
    const end = stem && short.startsWith(stem) ? short.indexOf(': ', stem.length) : -1;
    return end >= 0 && !short.slice(stem.length, end).includes(' ') && short.slice(end + 2) || short;
  };
  const without_paths = (text) => text.replace(/^\/[^:'"]*\/(?=[^/:]+:)/, '')
    .replace(/(^|[\s'"(])\/(?:[^\s/'"]+\/)+(?=[^\s/'"])/g, '$1')
    .replace(/(^|[\s'"(])(?:[^\s/'"]+\/)+(?=[^\s/'"]*\.[A-Za-z])/g, '$1');
  ice.square_of = (rows, i) => (rows.square[i] >= 0 ? rows.squares[rows.square[i]] : '');

  /* Finite values in rising order. */
  ice.sorted = function (values) {
    const list = new Float64Array(values.length);
    let count = 0;
    for (let i = 0; i < values.length; i++) if (values[i] - values[i] === 0) list[count++] = values[i];
    return list.subarray(0, count).sort();
  };
  /* Quantile q of values in rising order, with linear interpolation; NaN of none. */
  ice.quantile = function (sorted, q) {
    if (!sorted.length) return NaN;
    const at = q * (sorted.length - 1);
    const low = Math.floor(at);
    const high = Math.min(low + 1, sorted.length - 1);
    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
  };
  ice.median = (values) => ice.quantile(ice.sorted(values), 0.5);

  /* Counts of values in `bins` equal bins of [low, high]. */
  ice.histogram = function (values, low, high, bins) {
    const counts = new Float64Array(bins);
    const scale = bins / (high - low || 1);
    for (let i = 0; i < values.length; i++) {
      const v = values[i];
      if (!(v >= low && v <= high)) continue;
      counts[Math.min(bins - 1, Math.floor((v - low) * scale))]++;
    }
    return counts;
  };

  const FEW = 5; // values below which a median says nothing
  /* Median of the `width` values around each, over finite ones alone; at the ends, of those that are there. NaN where
   * they are fewer than FEW. Keeps the window sorted, so that each step costs two searches. */
  ice.running_median = function (values, width) {
    const result = new Float64Array(values.length).fill(NaN);
    const finite = [];
    for (let i = 0; i < values.length; i++) if (isFinite(values[i])) finite.push(i);
    const half = Math.floor(width / 2);
    const window = [];
    const place = (v) => {
      let low = 0;
      let high = window.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (window[middle] < v) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    for (let k = 0; k < Math.min(half, finite.length); k++) window.splice(place(values[finite[k]]), 0, values[finite[k]]);
    for (let k = 0; k < finite.length; k++) {
      if (k + half < finite.length) window.splice(place(values[finite[k + half]]), 0, values[finite[k + half]]);
      if (k - half - 1 >= 0) window.splice(place(values[finite[k - half - 1]]), 1);
      if (window.length < FEW) continue;
      const middle = (window.length - 1) / 2;
      result[finite[k]] = (window[Math.floor(middle)] + window[Math.ceil(middle)]) / 2;
    }
    return result;
  };

  /* Compares as a rule of the graph does. NaN keeps to no rule. */
  ice.compare = function (value, op, limit) {
    switch (op) {
      case '>': return value > limit;
      case '>=': return value >= limit;
      case '<': return value < limit;
      case '<=': return value <= limit;
      case '=':
      case '==': return value === limit;
      case '!=': return value !== limit;
      default: return false;
    }
  };

  /* Reads a filter such as "res<4 square:1234 rejected foil": comparisons of columns (in the unit that is shown), states,
   * and text that name, square or reason must contain. column(key) returns {values, factor} or null.
   * Returns a function (rows, i) → true or false, with `.unknown`: columns that are not there. */
  ice.make_filter = function (text, column) {
    const tests = [];
    const unknown = [];
    for (const word of (text || '').trim().split(/\s+/).filter(Boolean)) {
      const match = /^([A-Za-z_][\w.]*)(<=|>=|!=|<|>|==?|:)(.+)$/.exec(word);
      const state = ice.states.findIndex((s) => s.key === word.toLowerCase() || s.word.replace(' ', '') === word.toLowerCase());
      if (state >= 0) tests.push((rows, i) => rows.state[i] === state);
      else if (match && match[2] === ':') tests.push(in_field(match[1], match[3].toLowerCase()));
      else if (match && isFinite(Number(match[3]))) {
        const limit = Number(match[3]);
        const op = match[2];
        if (match[1] === 'n') tests.push((rows, i) => ice.compare(rows.n[i], op, limit));
        else if (!column(match[1])) unknown.push(match[1]);
        else tests.push((rows, i) => {
          const it = column(match[1]);
          return ice.compare(it.values[i] * it.factor, op, limit);
        });
      } else {
        const part = word.toLowerCase();
        tests.push((rows, i) => rows.name[i].toLowerCase().includes(part) ||
          ice.reason_of(rows, i).toLowerCase().includes(part) || ice.square_of(rows, i).toLowerCase().includes(part));
      }
    }
    const filter = (rows, i) => tests.every((test) => test(rows, i));
    filter.unknown = unknown;
    filter.empty = tests.length === 0;
    return filter;
  };

  function in_field(field, part) {
    if (field === 'square') return (rows, i) => ice.square_of(rows, i).toLowerCase().includes(part);
    if (field === 'hole') return (rows, i) => rows.hole[i].toLowerCase().includes(part);
    if (field === 'reason') return (rows, i) => ice.reason_of(rows, i).toLowerCase().includes(part);
    if (field === 'mark') return (rows, i) => (rows.mark[i] || '') === part;
    if (field === 'stage') {
      return (rows, i) => (ice.store.stage_name(rows.stage[i]) || '').toLowerCase().includes(part);
    }
    return (rows, i) => rows.name[i].toLowerCase().includes(part);
  }
})(window.ice);
