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

  const size = () => (ice.query('size') === '96' ? 96 : 192);
  const with_picks = () => ice.query('picks') === '1';
  /* Read once before elements change: a size that is asked for between two changes lays the page out each time. */
  let width = 0;
  const measure = () => { width = scroller.clientWidth; };
  const per_line = () => Math.max(1, Math.floor((width + GAP) / (size() + 2 + GAP)));
  /* The pictures are as wide as fills the line. */
  const edge = () => Math.floor((width - 2 + GAP) / per_line()) - 2 - GAP;
  const line_height = () => edge() + TEXT + GAP;

  function make_cell() {
    const cell = ice.el('div', { class: 'cell', role: 'gridcell', tabindex: '-1' });
    cell.img = ice.picture();
    cell.over = ice.el('canvas', { class: 'over' });
    cell.mark = ice.el('span', { class: 'corner' });
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
  function fill_cell(cell, place) {
    const { rows } = store;
    const i = chosen[place];
    const number = rows.n[i];
    cell.place = place;
    cell.tabIndex = place === Math.max(here, 0) ? 0 : -1;
    cell.setAttribute('aria-colindex', String((place % per_line()) + 1));
    const state = ice.states[rows.state[i]];
    const values = shown_columns.filter((c) => isFinite(c.values[i])).map((c) => ice.quantity(c.values[i] * c.factor, c.unit) + (c.unit ? '\u202f' + c.unit : ''));
    const label = '#' + number + ' ' + rows.name[i] + ', ' + state.word + (rows.mark[i] ? ', marked ' + rows.mark[i] : '') +
      values.map((v) => ', ' + v).join('') + (rows.reason[i] >= 0 ? ', ' + ice.reason_of(rows, i) : '');
    if (cell.label !== label) {
      cell.label = label;
      cell.setAttribute('aria-label', label);
      cell.title = rows.name[i] + (rows.reason[i] >= 0 ? '\n' + ice.reason_of(rows, i) : '');
      ice.fill(cell.mark, ice.state_mark(rows.state[i], true), rows.mark[i] ? ice.el('span', { class: 'hand', text: '✎' }) : null);
      cell.mark.className = 'corner ' + state.key.replace('_', '-');
      cell.classList.toggle('out', rows.state[i] >= ice.REJECTED);
      cell.first.textContent = '#' + number;
      cell.values.textContent = values.join(' · ') || state.word;
    }
    ice.show_picture(cell.img, number, 'thumb');
    cell.over.hidden = !with_picks();
    if (with_picks()) {
      ice.picks(number).then((picks) => {
        if (cell.place === place && store.rows.n[chosen[place]] === number) ice.draw_picks(cell.over, picks, { least: -Infinity });
      });
    }
  }

  function fill_line(line, index) {
    const across = per_line();
    const count = Math.min(across, chosen.length - index * across);
    line.setAttribute('aria-rowindex', String(index + 1));
    line.style.transform = 'translateY(' + index * line_height() + 'px)';
    while (line.children.length > count) line.lastChild.remove();
    while (line.children.length < count) line.append(make_cell());
    for (let k = 0; k < count; k++) fill_cell(line.children[k], index * across + k);
  }

  /* Gives elements to the lines in sight, and those of lines out of sight to new ones. */
  function show_lines() {
    measure();
    const top = scroller.scrollTop;
    const all = Math.ceil(chosen.length / per_line());
    const first = Math.max(0, Math.floor(top / line_height()) - 1);
    const last = Math.min(all - 1, Math.ceil((top + scroller.clientHeight) / line_height()));
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
      if (!line) {
        line = free.pop() || ice.el('div', { class: 'cells', role: 'row' });
        lines.set(index, line);
        if (!line.isConnected) sheet.append(line);
      }
      fill_line(line, index);
    }
    for (const line of free) line.remove();
  }

  let asked = false;
  function scrolled() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      if (scroller.isConnected) show_lines();
      if (scroller.scrollTop < 8 && seen_length !== store.rows.length) refresh();
    });
  }

  /* Chooses again and draws all in sight. */
  function refresh() {
    const all = store.columns();
    measure();
    shown_columns = ['defocus', 'res', 'picks'].map((key) => all.find((c) => c.key === key)).filter(Boolean);
    if (!shown_columns.length) shown_columns = all.slice(0, 3);
    if (size() < 100) shown_columns = shown_columns.filter((c) => c.key === 'res');
    const number = here >= 0 && here < chosen.length ? store.rows.n[chosen[here]] : null;
    const choice = ice.choose('-n');
    chosen = choice.list;
    seen_length = store.rows.length;
    here = number === null ? -1 : chosen.indexOf(store.rows.at.get(number));
    sheet.style.height = Math.ceil(chosen.length / per_line()) * line_height() + 'px';
    scroller.setAttribute('aria-rowcount', String(Math.ceil(chosen.length / per_line())));
    scroller.style.setProperty('--size', edge() + 'px');
    ice.text(about, choice.unknown.length ? 'No column is called ' + choice.unknown.join(', ') + '.'
      : (choice.filtered ? ice.count(chosen.length) + ' of ' : '') + ice.plural(store.rows.length, 'exposure'));
    news.hidden = true;
    show_tools(all);
    show_lines();
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
    buttons.small.setAttribute('aria-pressed', String(size() === 96));
    buttons.large.setAttribute('aria-pressed', String(size() === 192));
    buttons.picks.setAttribute('aria-pressed', String(with_picks()));
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
    const across = per_line();
    const page = Math.max(1, Math.floor(scroller.clientHeight / line_height())) * across;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, PageUp: -page, PageDown: page }[event.key];
    let to = here;
    if (step) to = here < 0 ? 0 : here + step;
    else if (event.key === 'Home') to = 0;
    else if (event.key === 'End') to = chosen.length - 1;
    else if (event.key === 'Enter') {
      open(here);
      event.preventDefault();
      return;
    } else return;
    event.preventDefault();
    go_to(Math.max(0, Math.min(chosen.length - 1, to)));
  }

  function go_to(place) {
    here = place;
    const top = Math.floor(place / per_line()) * line_height();
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + line_height() > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + line_height() - scroller.clientHeight;
    show_lines();
    for (const line of lines.values()) for (const cell of line.children) {
      cell.tabIndex = cell.place === place ? 0 : -1;
      if (cell.place === place) cell.focus({ preventScroll: true });
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
    show_lines();
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
      root.append(ice.heading('Exposures', about, news, field, sort, button('picks', 'picks', () => ice.query('picks', with_picks() ? null : '1')),
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
