/* Ledger: every exposure with its state, and the reason for it. Only the lines in sight have elements. */
(function (ice) {
  'use strict';

  const { store } = ice;
  const LINE = 30;
  const HEAD = [['n', '#'], ['name', 'exposure'], ['square', 'square'], ['hole', 'hole'], ['state', 'state'], ['stage', 'stage'], ['reason', 'reason'],
    ['attempts', 'attempts'], ['t', 'found']];

  let field = null;
  let about = null;
  let groups = null;
  let scroller = null;
  let sheet = null;
  let heads = null;
  let chosen = new Int32Array(0);
  let lines = new Map();
  let here = -1;
  let left_at = 0;

  const cells_of = (i) => {
    const { rows } = store;
    return [String(rows.n[i]), rows.name[i].split('/').pop(), ice.square_of(rows, i), rows.hole[i], ice.states[rows.state[i]].word, store.stage_name(rows.stage[i]),
      ice.short_reason(ice.reason_of(rows, i), rows.name[i]), rows.attempts[i] ? String(rows.attempts[i]) : '', ice.clock(rows.t[i], true)];
  };

  function make_line() {
    const line = ice.el('div', { class: 'entry', role: 'row', tabindex: '-1' });
    line.cells = HEAD.map(([key]) => ice.el('span', { class: 'c-' + key, role: 'gridcell' }));
    line.append(...line.cells);
    line.addEventListener('click', () => {
      if (!String(getSelection())) open(line.place);
    });
    return line;
  }

  function fill_line(line, place) {
    const i = chosen[place];
    const texts = cells_of(i);
    line.place = place;
    line.tabIndex = place === Math.max(here, 0) ? 0 : -1;
    line.style.transform = 'translateY(' + place * LINE + 'px)';
    line.setAttribute('aria-rowindex', String(place + 2));
    line.cells.forEach((cell, k) => {
      if (HEAD[k][0] === 'state') {
        if (cell.dataset.state !== texts[k]) ice.fill(cell, ice.state_mark(store.rows.state[i]));
        cell.dataset.state = texts[k];
      } else {
        ice.text(cell, texts[k]);
        if (HEAD[k][0] === 'name') cell.title = store.rows.name[i];
        if (HEAD[k][0] === 'reason') cell.title = ice.reason_of(store.rows, i);
      }
    });
  }

  function open(place) {
    if (place < 0 || place >= chosen.length) return;
    ice.remember_order(chosen);
    ice.go('exposure/' + store.rows.n[chosen[place]]);
  }

  function show_lines() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / LINE) - 1);
    const last = Math.min(chosen.length - 1, Math.ceil((scroller.scrollTop + scroller.clientHeight) / LINE));
    const free = [];
    for (const [place, line] of lines) {
      if (place >= first && place <= last) continue;
      if (line.contains(document.activeElement)) scroller.focus({ preventScroll: true });
      free.push(line);
      lines.delete(place);
    }
    for (let place = first; place <= last; place++) {
      let line = lines.get(place);
      if (!line) {
        line = free.pop() || make_line();
        lines.set(place, line);
        if (!line.isConnected) sheet.append(line);
      }
      fill_line(line, place);
    }
    for (const line of free) line.remove();
  }

  /* Alike reasons differ in these: names of files, and numbers. */
  const VARIES = /[^\s'"(]+\.[A-Za-z]\w*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  function without(reason, name) {
    const text = ice.short_reason(reason, name);
    return name ? text.split(name.split('/').pop()).join('…') : text;
  }

  /* A group's reason, with "…" where its exposures differ: "10.2 > 10" and "11.4 > 10" are "… > 10". */
  function words_of(group) {
    let k = 0;
    return group.text.replace(VARIES, () => group.values[k++]);
  }

  function count_groups() {
    const { rows } = store;
    const all = new Map();
    for (let i = 0; i < rows.length; i++) {
      if (rows.state[i] < ice.REJECTED) continue;
      const text = without(ice.reason_of(rows, i) || 'no reason was given', rows.name[i]);
      const values = text.match(VARIES) || [];
      const key = rows.state[i] + '\n' + rows.stage[i] + '\n' + text.replace(VARIES, '…');
      const group = all.get(key) || { state: rows.state[i], stage: store.stage_name(rows.stage[i]), text, values, count: 0, example: ice.reason_of(rows, i) };
      group.count++;
      group.values = group.values.map((value, k) => (value === values[k] ? value : '…'));
      all.set(key, group);
    }
    return [...all.values()].map((group) => Object.assign(group, { reason: words_of(group) })).sort((a, b) => b.count - a.count);
  }

  /* The filter that shows a group: its state, stage and the longest part of its reason. */
  function group_filter(group) {
    const part = group.reason.split('…').flatMap((text) => text.split(/\s+/)).sort((a, b) => b.length - a.length)[0] || '';
    return ice.states[group.state].key + ' stage:' + group.stage + (part && group.example ? ' reason:' + part : '');
  }

  function show_groups() {
    const all = count_groups();
    const shown = all.slice(0, 12);
    const rest = all.slice(12).reduce((sum, g) => sum + g.count, 0);
    ice.fill(groups, !all.length ? ice.el('p', { class: 'quiet', text: 'Nothing was rejected and nothing has failed.' })
      : ice.el('ul', {}, shown.map((group) => ice.el('li', {}, ice.el('a', { href: '#ledger?f=' + encodeURIComponent(group_filter(group)) },
        ice.el('span', { class: 'amount', text: ice.count(group.count) }), ice.state_mark(group.state), ice.el('span', { class: 'quiet', text: group.stage }),
        ice.el('span', { class: 'why', text: group.reason, title: group.example })))),
      rest ? ice.el('li', { class: 'quiet', text: ice.count(rest) + ' more with ' + (all.length - 12) + ' other reasons' }) : null));
  }

  function refresh() {
    const number = here >= 0 && here < chosen.length ? store.rows.n[chosen[here]] : null;
    const choice = ice.choose('-n');
    chosen = choice.list;
    here = number === null ? -1 : chosen.indexOf(store.rows.at.get(number));
    sheet.style.height = chosen.length * LINE + 'px';
    scroller.parentNode.setAttribute('aria-rowcount', String(chosen.length + 1));
    field.show();
    const counts = ice.states.map(() => 0);
    for (const i of chosen) counts[store.rows.state[i]]++;
    ice.text(about, choice.unknown.length ? 'No column is called ' + choice.unknown.join(', ') + '.'
      : ice.count(chosen.length) + (choice.filtered ? ' of ' + ice.count(store.rows.length) : '') + ': ' +
        [1, 0, 2, 3].map((s) => ice.count(counts[s]) + ' ' + ice.states[s].word).join(', '));
    const order = ice.query('sort') || '-n';
    for (const [k, [key]] of HEAD.entries()) {
      const sorted = order.replace('-', '') === key;
      heads[k].setAttribute('aria-sort', !sorted ? 'none' : order.startsWith('-') ? 'descending' : 'ascending');
    }
    show_groups();
    show_places();
    show_lines();
  }

  /* Columns of squares and holes stand where an exposure has one. */
  function show_places() {
    const { rows } = store;
    const node = scroller.parentNode;
    node.classList.toggle('no-square', !rows.square.subarray(0, rows.length).some((square) => square >= 0));
    node.classList.toggle('no-hole', !rows.hole.some(Boolean));
  }

  function sort_by(key) {
    const order = ice.query('sort') || '-n';
    ice.query('sort', order === key ? '-' + key : key);
    scroller.scrollTop = 0;
    refresh();
  }

  function move(event) {
    if (event.target.closest('[role=columnheader]')) return;
    const page = Math.max(1, Math.floor(scroller.clientHeight / LINE) - 1);
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page }[event.key];
    ice.move_by_key(event, step, here, chosen.length, go_to, open);
  }

  function go_to(place) {
    here = place;
    if (place * LINE < scroller.scrollTop) scroller.scrollTop = place * LINE;
    else if ((place + 1) * LINE > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (place + 1) * LINE - scroller.clientHeight;
    show_lines();
    for (const line of lines.values()) line.tabIndex = line.place === place ? 0 : -1;
    if (lines.has(place)) lines.get(place).focus({ preventScroll: true });
  }

  /* All columns of the lines that are chosen, values in the units that are shown. */
  function as_table() {
    const { rows } = store;
    const columns = store.columns();
    const head = ['number', 'exposure', 'square', 'hole', 'state', 'stage', 'reason', 'attempts', 'found (UTC)', 'mark',
      ...columns.map((c) => c.label + (c.unit ? ' (' + c.unit + ')' : ''))];
    const lines_of = Array.from(chosen, (i) => [rows.n[i], rows.name[i], ice.square_of(rows, i), rows.hole[i], ice.states[rows.state[i]].key,
      store.stage_name(rows.stage[i]), ice.reason_of(rows, i), rows.attempts[i] || '', new Date(rows.t[i] * 1000).toISOString(), rows.mark[i] || '',
      ...columns.map((c) => Number((c.values[i] * c.factor).toPrecision(7)))]);
    return [head, ...lines_of];
  }

  const tabbed = (list) => list.map((line) => line.map((v) => (typeof v === 'number' && !isFinite(v) ? '' : String(v).replace(/[\t\r\n]+/g, ' '))).join('\t')).join('\n') + '\n';

  const session_name = () => String(store.session.session || 'session').replace(/\/+$/, '').split('/').pop();

  ice.section({
    id: 'ledger', title: 'Ledger', view: 'ledger', order: 30,
    draw(root) {
      lines = new Map();
      field = ice.filter_field(() => {
        scroller.scrollTop = 0;
        refresh();
      });
      about = ice.el('span', { class: 'quiet', id: 'ledger-count', role: 'status' });
      groups = ice.el('div', { class: 'reasons', 'aria-label': 'Reasons' });
      heads = HEAD.map(([key, text]) => ice.el('span', { class: 'c-' + key, role: 'columnheader' },
        ice.el('button', { type: 'button', class: 'small', text, on: { click: () => sort_by(key) } })));
      sheet = ice.el('div', { class: 'lines', role: 'presentation' });
      scroller = ice.el('div', { class: 'scroller entries', role: 'rowgroup', tabindex: '-1', on: { scroll: () => requestAnimationFrame(show_lines) } }, sheet);
      root.append(ice.heading('Ledger', about, field,
        ice.el('button', { type: 'button', text: 'copy', on: { click: () => ice.copy(tabbed(as_table())).then(() => ice.speak('copied')) } }),
        ice.el('button', { type: 'button', text: 'save as CSV', on: { click: () => ice.download(session_name() + '_exposures.csv', 'text/csv', ice.csv(as_table())) } })),
      groups,
      ice.el('div', { class: 'grid-of-lines', role: 'grid', 'aria-label': 'Exposures', on: { keydown: move } },
        ice.el('div', { role: 'rowgroup' }, ice.el('div', { class: 'entry head', role: 'row' }, heads)), scroller));
    },
    update(kind) {
      if (kind === 'hidden') left_at = scroller.scrollTop;
      else if (['shown', 'rows', 'route', 'session', 'size'].includes(kind)) refresh();
      if (kind === 'shown') {
        scroller.scrollTop = left_at;
        show_lines();
      }
    },
    keys: {
      '/': () => field.focus(),
      ArrowDown: () => here < 0 && chosen.length && go_to(0),
    },
  });
})(window.ice);
