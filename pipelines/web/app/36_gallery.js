/* Gallery: all exposures as thumbnails. Only the rows in sight have elements. */
(function (ice) {
  'use strict';

  const { store } = ice;
  const TEXT = 40; // px below a thumbnail
  const GAP = 8;

  let scroller = null;
  let sheet = null;
  let field = null;
  let sort = null;
  let about = null;
  let news = null;
  const buttons = {};
  let chosen = new Int32Array(0);
  let lines = new Map();
  let here = -1; // place in `chosen` of the cell that has the focus
  let seen_length = 0;

  const FAST = 0.5; // heights of the view in one frame: faster than that, nobody sees a picture or reads
  const REST = 120; // ms without scrolling after which all is shown all the same

  /* Measured when the window, the address or the session changes, not while it is scrolled: a size that is asked for
   * between two changes lays the page out each time. The pictures are as wide as fills the line. */
  const place = { size: 192, picks: false, width: 0, height: 0, across: 1, edge: 0, line: 1 };
  function measure() {
    place.size = ice.query('size') === '96' ? 96 : 192;
    place.picks = ice.query('picks') === '1';
    place.width = scroller.clientWidth;
    place.height = scroller.clientHeight;
    place.across = Math.max(1, Math.floor((place.width + GAP) / (place.size + 2 + GAP)));
    place.edge = Math.floor((place.width - 2 + GAP) / place.across) - 2 - GAP;
    place.line = place.edge + TEXT + GAP;
  }

  function make_cell() {
    const cell = ice.el('div', { class: 'cell', role: 'gridcell', tabindex: '-1' });
    cell.img = ice.picture();
    cell.over = ice.el('canvas', { class: 'over' });
    cell.mark = ice.el('span', { class: 'corner' });
    cell.state = -1;
    cell.first = ice.el('span', { class: 'first' });
    cell.values = ice.el('span', { class: 'values' });
    cell.append(ice.el('div', { class: 'frame' }, cell.img, cell.over, cell.mark), ice.el('div', { class: 'caption' }, cell.first, cell.values));
    cell.addEventListener('click', () => open(cell.place));
    return cell;
  }

  function open(place) {
    if (place < 0 || place >= chosen.length) return;
    ice.remember_order(chosen);
    ice.go('exposure/' + store.rows.n[chosen[place]]);
  }

  let shown_columns = [];
  const value_of = (c, i) => (c.key === 'picks' ? ice.plural(c.values[i], 'pick')
    : ice.quantity(c.values[i] * c.factor, c.unit) + (c.unit ? '\u202f' + c.unit : ''));

  function fill_cell(cell, at) {
    const { rows } = store;
    const i = chosen[at];
    const number = rows.n[i];
    cell.place = at;
    cell.tabIndex = at === Math.max(here, 0) ? 0 : -1;
    if (fast) {
      cell.label = '';
      cell.first.textContent = '#' + number;
      cell.classList.add('passing');
      ice.leave_picture(cell.img);
      return;
    }
    cell.classList.remove('passing');
    const state = ice.states[rows.state[i]];
    const reason = rows.reason[i] >= 0 ? ice.reason_of(rows, i) : '';
    let values = '';
    for (const c of shown_columns) if (isFinite(c.values[i])) values += (values && ' · ') + value_of(c, i);
    const label = '#' + number + ' ' + rows.name[i] + ', ' + state.word + (rows.mark[i] ? ', marked ' + rows.mark[i] : '') +
      (values && ', ' + values) + (reason && ', ' + reason);
    if (cell.label !== label) {
      cell.label = label;
      cell.setAttribute('aria-label', label);
      cell.title = rows.name[i] + (reason && '\n' + reason);
      if (cell.state !== rows.state[i] || cell.hand !== rows.mark[i]) {
        cell.state = rows.state[i];
        cell.hand = rows.mark[i];
        ice.fill(cell.mark, ice.state_mark(cell.state, true), cell.hand ? ice.el('span', { class: 'hand', text: '✎' }) : null);
        cell.mark.className = 'corner ' + state.key.replace('_', '-') + (cell.hand ? ' by-hand' : '');
        cell.classList.toggle('out', cell.state >= ice.REJECTED);
      }
      cell.first.textContent = '#' + number;
      cell.values.textContent = values || state.word;
    }
    ice.show_picture(cell.img, number, 'thumb');
    cell.over.hidden = !place.picks;
    if (place.picks) {
      ice.picks(number).then((picks) => {
        if (cell.place === at && store.rows.n[chosen[at]] === number) ice.draw_picks(cell.over, picks, { least: -Infinity });
      });
    }
  }

  function fill_line(line, index) {
    const count = Math.min(place.across, chosen.length - index * place.across);
    line.setAttribute('aria-rowindex', String(index + 1));
    line.style.transform = 'translateY(' + index * place.line + 'px)';
    while (line.children.length > count) line.lastChild.remove();
    while (line.children.length < count) {
      const cell = make_cell();
      cell.setAttribute('aria-colindex', String(line.children.length + 1));
      line.append(cell);
    }
    let cell = line.firstChild;
    for (let k = 0; k < count; k++, cell = cell.nextSibling) fill_cell(cell, index * place.across + k);
    line.fast = fast;
  }

  /* Gives elements to the lines in sight, and those of lines out of sight to new ones. Lines that stay are left as they
   * are, unless all are wanted. */
  let fast = false;
  function show_lines(all_of_them) {
    const top = scroller.scrollTop;
    const all = Math.ceil(chosen.length / place.across);
    const first = Math.max(0, Math.floor(top / place.line) - 1);
    const last = Math.min(all - 1, Math.ceil((top + place.height) / place.line));
    const free = [];
    for (const [index, line] of lines) {
      if (index < first || index > last) {
        if (line.contains(document.activeElement)) scroller.focus({ preventScroll: true });
        free.push(line);
        lines.delete(index);
      }
    }
    for (let index = first; index <= last; index++) {
      let line = lines.get(index);
      const stays = line && !all_of_them && (fast || !line.fast);
      if (stays) continue;
      if (!line) {
        line = free.pop() || ice.el('div', { class: 'cells', role: 'row' });
        lines.set(index, line);
        if (!line.isConnected) sheet.append(line);
      }
      fill_line(line, index);
    }
    for (const line of free) line.remove();
    return top;
  }

  let last_top = 0;
  let rest = null;
  function rested() {
    fast = false;
    if (scroller.isConnected) last_top = show_lines();
  }

  let asked = false;
  function scrolled() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      if (!scroller.isConnected) return;
      const top = scroller.scrollTop;
      fast = Math.abs(top - last_top) > FAST * place.height;
      last_top = top;
      clearTimeout(rest);
      if (fast) rest = setTimeout(rested, REST);
      if (top < 8 && seen_length !== store.rows.length) refresh();
      else show_lines();
    });
  }

  /* Chooses again and draws all in sight. */
  function refresh() {
    const all = store.columns();
    measure();
    fast = false;
    shown_columns = ['defocus', 'res', 'picks'].map((key) => all.find((c) => c.key === key)).filter(Boolean);
    if (!shown_columns.length) shown_columns = all.slice(0, 3);
    if (place.size < 100) shown_columns = shown_columns.filter((c) => c.key === 'res');
    const number = here >= 0 && here < chosen.length ? store.rows.n[chosen[here]] : null;
    const choice = ice.choose('-n');
    chosen = choice.list;
    seen_length = store.rows.length;
    here = number === null ? -1 : chosen.indexOf(store.rows.at.get(number));
    sheet.style.height = Math.ceil(chosen.length / place.across) * place.line + 'px';
    scroller.setAttribute('aria-rowcount', String(Math.ceil(chosen.length / place.across)));
    scroller.style.setProperty('--size', place.edge + 'px');
    ice.text(about, choice.unknown.length ? 'No column is called ' + choice.unknown.join(', ') + '.'
      : (choice.filtered ? ice.count(chosen.length) + ' of ' : '') + ice.plural(store.rows.length, 'exposure'));
    news.hidden = true;
    show_tools(all);
    last_top = show_lines(true);
  }

  function show_tools(all) {
    const wanted = [['-n', 'latest first'], ['n', 'oldest first']].concat(all.flatMap((c) => {
      const low = [c.key, c.label + ', lowest first'];
      const high = ['-' + c.key, c.label + ', highest first'];
      return c.good === 'high' ? [high, low] : [low, high];
    }), [['name', 'name']]);
    const key = wanted.map((w) => w[0]).join();
    if (sort.dataset.key !== key) {
      sort.dataset.key = key;
      ice.fill(sort, wanted.map(([value, text]) => ice.el('option', { value, text })));
    }
    sort.value = ice.query('sort') || '-n';
    field.show();
    buttons.small.setAttribute('aria-pressed', String(place.size === 96));
    buttons.large.setAttribute('aria-pressed', String(place.size === 192));
    buttons.picks.setAttribute('aria-pressed', String(place.picks));
  }

  /* New exposures enter only while the top is in sight, so that nothing moves under the eye. */
  function rows_came(details) {
    if (scroller.scrollTop < 8 || details.some((d) => d.full)) {
      refresh();
      return;
    }
    const changed = new Set(details.flatMap((d) => d.changed));
    for (const line of lines.values()) for (const cell of line.children) if (changed.has(chosen[cell.place])) fill_cell(cell, cell.place);
    const fresh = store.rows.length - seen_length;
    news.hidden = fresh <= 0;
    ice.text(news, ice.count(fresh) + ' new');
  }

  function move(event) {
    const { across } = place;
    const page = Math.max(1, Math.floor(place.height / place.line)) * across;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, PageUp: -page, PageDown: page }[event.key];
    ice.move_by_key(event, step, here, chosen.length, go_to, open);
  }

  function go_to(to) {
    here = to;
    const top = Math.floor(to / place.across) * place.line;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + place.line > scroller.scrollTop + place.height) scroller.scrollTop = top + place.line - place.height;
    fast = false;
    last_top = show_lines();
    for (const line of lines.values()) for (const cell of line.children) {
      cell.tabIndex = cell.place === to ? 0 : -1;
      if (cell.place === to) cell.focus({ preventScroll: true });
    }
  }

  function to_top() {
    scroller.scrollTop = 0;
    refresh();
  }

  /* A node that was taken out of the page has forgotten how far it was scrolled. */
  let left_at = 0;
  function come_back() {
    scroller.scrollTop = left_at;
    last_top = show_lines();
    if (here >= 0) go_to(here);
  }

  const button = (key, text, act) => (buttons[key] = ice.el('button', { type: 'button', text, on: { click: () => {
    act();
    to_top();
  } } }));

  ice.section({
    id: 'gallery', title: 'Exposures', view: 'exposures', order: 20,
    draw(root) {
      lines = new Map();
      field = ice.filter_field(to_top);
      sort = ice.el('select', { 'aria-label': 'Order', on: { change: () => {
        ice.query('sort', sort.value === '-n' ? null : sort.value);
        to_top();
      } } });
      about = ice.el('span', { class: 'quiet', id: 'gallery-count' });
      news = ice.el('button', { type: 'button', class: 'main', id: 'gallery-new', hidden: true, on: { click: to_top } });
      sheet = ice.el('div', { class: 'lines', role: 'presentation' });
      scroller = ice.el('div', { class: 'scroller', role: 'grid', tabindex: '0', 'aria-label': 'Exposures', on: { scroll: scrolled, keydown: move } }, sheet);
      root.append(ice.heading('Exposures', about, news, field, sort, button('picks', 'picks', () => ice.query('picks', place.picks ? null : '1')),
        ice.el('div', { class: 'segment', role: 'group', 'aria-label': 'Size of the pictures' },
          button('small', '96', () => ice.query('size', '96')), button('large', '192', () => ice.query('size', null)))), scroller);
    },
    update(kind, detail) {
      if (kind === 'rows') rows_came(detail);
      else if (kind === 'hidden') left_at = scroller.scrollTop;
      else if (['shown', 'route', 'session', 'size', 'theme'].includes(kind)) refresh();
      if (kind === 'shown') come_back();
    },
    keys: {
      '/': () => field.focus(),
      p: () => buttons.picks.click(),
      ArrowDown: () => here < 0 && chosen.length && go_to(0),
    },
  });
})(window.ice);
