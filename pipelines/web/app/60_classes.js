/* Class averages over time: the sheet of a snapshot as one picture, kept ones in frames, and the choice by hand. */
(function (ice) {
  'use strict';

  const ORDERS = [['members', 'largest first'], ['resolution', 'finest first'], ['number', 'by number']];
  const NONE_YET = 'No classes yet. The first snapshot comes when enough particles have arrived.';
  let root;
  let parts;
  let history = [];
  let sheet = null;
  let chosen = null; // a set of class numbers while the user chooses, else null
  let wanted = 0;

  const stage = () => (ice.store.stages_of(['classifier'])[0] || { name: 'classifier' }).name;
  const iterations = () => (sheet && sheet.iterations && sheet.iterations.length ? sheet.iterations
    : history.map((line) => line.iteration));

  /* Choices by hand in the snapshot that is shown: class → "keep" or "reject". */
  function by_hand() {
    const found = new Map();
    for (const change of (ice.store.status || {}).changes || []) {
      for (const it of change.choices || []) {
        if (it.iteration === sheet.iteration && it.stage === stage()) for (const number of it.classes) found.set(number, it.choice);
      }
    }
    return found;
  }

  let hands = new Map();
  const hand_of = (item) => hands.get(item.number) || null;
  const stands = (item) => (hand_of(item) ? hand_of(item) === 'keep' : !!item.kept);
  const is_kept = (item) => (chosen ? chosen.has(item.number) : stands(item));

  function sum(items, what) {
    return items.reduce((total, item) => total + (ice.is_number(item[what]) ? item[what] : 0), 0);
  }

  function draw(where) {
    root = where;
    parts = {
      line: ice.el('p', { class: 'class-line-top', id: 'classes-summary' }),
      slider: ice.el('input', { type: 'range', min: 0, max: 0, step: 1, value: 0, 'aria-label': 'Snapshot',
        on: { input: () => show_snapshot(Number(parts.slider.value)) } }),
      at: ice.el('output', { class: 'number' }),
      order: ice.el('select', { 'aria-label': 'Order of the classes', on: { change: () => {
        ice.query('order', parts.order.value === 'members' ? '' : parts.order.value);
        paint();
      } } }, ORDERS.map(([value, text]) => ice.el('option', { value, text }))),
      size: ice.el('input', { type: 'range', min: 72, max: 240, step: 4, value: 128, 'aria-label': 'Size of the pictures',
        on: { input: () => parts.sheet.style.setProperty('--cell', parts.size.value + 'px') } }),
      choose: ice.control_button('classes', { text: 'Choose by hand' }, begin),
      sheet: ice.el('div', { class: 'class-sheet', role: 'group', 'aria-label': 'Class averages' }),
      bar: ice.el('div', { class: 'choice', hidden: true }),
      answer: ice.answer_line(),
      charts: ice.el('div', { class: 'charts two' }),
    };
    parts.order.value = ice.query('order') || 'members';
    root.append(ice.heading('2D classes', parts.choose),
      ice.el('div', { class: 'tools' },
        ice.el('span', { class: 'stepper' },
          ice.el('button', { type: 'button', text: '‹', 'aria-label': 'Snapshot before', on: { click: () => step(-1) } }),
          parts.slider,
          ice.el('button', { type: 'button', text: '›', 'aria-label': 'Next snapshot', on: { click: () => step(1) } }),
          parts.at),
        ice.el('label', {}, 'Order ', parts.order),
        ice.el('label', {}, 'Size ', parts.size)),
      parts.line, parts.answer, parts.bar, parts.sheet, parts.charts);
  }

  function step(by) {
    const last = Number(parts.slider.max);
    const at = Math.min(Math.max(Number(parts.slider.value) + by, 0), last);
    parts.slider.value = at;
    show_snapshot(at);
  }

  function show_snapshot(at) {
    const list = iterations();
    const newest = at >= list.length - 1;
    ice.query('it', newest ? '' : String(list[at]));
    load();
  }

  async function load() {
    const ask = ++wanted;
    const it = ice.query('it');
    let answer;
    const known = ((ice.store.status || {}).stages || {})[stage()];
    if (known && known.newest === null) {
      parts.line.textContent = NONE_YET;
      return;
    }
    try {
      answer = await ice.api('api/classes' + (it ? '?it=' + encodeURIComponent(it) : ''));
    } catch (error) {
      if (ask !== wanted) return;
      sheet = null;
      ice.fill(parts.sheet);
      parts.line.textContent = error.status === 404
        ? NONE_YET : error.message;
      return;
    }
    if (ask !== wanted) return;
    sheet = answer;
    paint();
  }

  async function load_history() {
    try {
      const lines = await ice.api('api/history/' + encodeURIComponent(stage()));
      history = (Array.isArray(lines) ? lines : lines.lines || lines.history || []).filter((line) => line.iteration);
    } catch (error) {
      history = [];
    }
    draw_charts();
  }

  function paint() {
    if (!sheet) return;
    hands = by_hand();
    const list = iterations();
    const at = Math.max(0, list.indexOf(sheet.iteration));
    parts.slider.max = Math.max(0, list.length - 1);
    parts.slider.value = at;
    parts.slider.disabled = list.length < 2;
    parts.at.textContent = list.length > 1 ? at + 1 + ' of ' + list.length : '';
    const classes = (sheet.classes || []).filter((item) => item.members > 0 || item.kept);
    const order = parts.order.value;
    classes.sort((a, b) => (order === 'resolution' ? (a.resolution || 1e9) - (b.resolution || 1e9) || b.members - a.members
      : order === 'number' ? a.number - b.number : b.members - a.members));
    const kept = classes.filter(stands);
    const members = sum(classes, 'members');
    ice.fill(parts.line, ice.el('strong', { text: 'Snapshot ' + sheet.iteration }),
      (sheet.time ? ' · ' + ice.clock(sheet.time) : '') + ' · ' + ice.plural(members, 'particle') + ' in ' +
      ice.plural(classes.length, 'class', 'classes') + ' · ' + ice.plural(sum(kept, 'members'), 'particle') + ' kept (' +
      percent(sum(kept, 'members'), members) + ') in ' + ice.count(kept.length) +
      (sheet.classes.length > classes.length ? ' · ' + ice.count(sheet.classes.length - classes.length) + ' empty' : ''));
    const url = 'pic/classes/' + sheet.iteration + '.png' + (sheet.time ? '?h=' + sheet.time : '');
    ice.fill(parts.sheet, classes.map((item) => tile(item, url, Math.max(...classes.map((one) => one.members)))));
    if (chosen) bar();
  }

  /* Estimates of 900 Å and more say that there is none. */
  const angstroms = (item) => (item.resolution > 0 && item.resolution < 900 ? ice.quantity(item.resolution, 'Å') + ' Å' : 'no Å');
  const percent = (part, whole) => (whole > 0 ? Math.round(100 * part / whole) : 0) + ' %';

  /* One class. Its picture is a window on the sheet. */
  function tile(item, url, largest) {
    const across = sheet.across || 1;
    const down = Math.ceil((sheet.count || sheet.classes.length) / across);
    const index = item.index !== undefined ? item.index : item.number - 1;
    const kept = is_kept(item);
    const hand = !chosen && hand_of(item) !== null;
    const place = (at, count) => (count > 1 ? 100 * at / (count - 1) : 0) + '%';
    const text = 'Class ' + item.number + ', ' + ice.plural(item.members, 'particle') + ', ' +
      angstroms(item) + ', ' + (kept ? 'kept' : 'dropped') + (hand ? ' by hand' : '');
    const picture = ice.el('span', { class: 'class-picture', style: {
      'background-image': 'url(' + url + ')',
      'background-size': 100 * across + '% ' + 100 * down + '%',
      'background-position': place(index % across, across) + ' ' + place(Math.floor(index / across), down),
    } });
    const attributes = chosen ? { type: 'button', role: 'checkbox', 'aria-checked': String(kept), on: { click: () => toggle(item) } }
      : { role: 'img' };
    return ice.el(chosen ? 'button' : 'div', Object.assign(attributes, { class: 'class-tile ' + (kept ? 'kept' : 'dropped'),
      'aria-label': text, 'data-class': item.number }),
    picture,
    ice.el('span', { class: 'class-line' },
      ice.el('span', { class: 'tag', text: (kept ? '✓ kept' : '✕ dropped') + (hand ? ' by hand' : '') }),
      ice.el('span', { class: 'quiet', text: '#' + item.number })),
    ice.el('span', { class: 'class-line' },
      ice.el('span', { text: ice.count(item.members) }),
      ice.el('span', { class: 'quiet', text: angstroms(item) })),
    ice.el('span', { class: 'share' }, ice.el('span', { style: { width: 100 * item.members / (largest || 1) + '%' } })));
  }

  function begin() {
    if (!sheet) return;
    chosen = new Set(sheet.classes.filter(stands).map((item) => item.number));
    parts.choose.hidden = true;
    parts.bar.hidden = false;
    parts.answer.textContent = '';
    paint();
  }

  function end() {
    chosen = null;
    parts.choose.hidden = false;
    parts.bar.hidden = true;
    paint();
  }

  function toggle(item) {
    if (chosen.has(item.number)) chosen.delete(item.number);
    else chosen.add(item.number);
    const focus = item.number;
    paint();
    const again = parts.sheet.querySelector('[data-class="' + focus + '"]');
    if (again) again.focus();
  }

  const as_list = (set) => [...set].sort((a, b) => a - b).join(',');

  function bar() {
    const kept = sheet.classes.filter((item) => chosen.has(item.number));
    const dropped = sheet.classes.filter((item) => !chosen.has(item.number) && item.members > 0);
    const all = sum(sheet.classes, 'members');
    const words = (set, choice) => ice.command('mark', ['--iteration', sheet.iteration, '--classes', as_list(set), choice]);
    const commands = [chosen.size && words(chosen, '--keep'), dropped.length && words(dropped.map((item) => item.number), '--reject')].filter(Boolean);
    const undo = ice.command('mark', ['--iteration', sheet.iteration, '--clear']);
    ice.fill(parts.bar,
      ice.el('p', {}, ice.el('strong', { text: ice.plural(kept.length, 'class', 'classes') + ' kept, ' +
        ice.plural(sum(kept, 'members'), 'particle') + ' (' + percent(sum(kept, 'members'), all) + ')' }),
      ' · ' + ice.plural(sum(dropped, 'members'), 'particle') + ' dropped. The choice binds these particles until it is ' +
        'undone; particles that come later follow the rule of the stage.'),
      commands.map(ice.command_line),
      ice.el('div', { class: 'buttons' },
        ice.el('button', { type: 'button', class: 'main', text: 'Keep this choice', disabled: chosen.size === 0,
          on: { click: () => send([...chosen].sort((a, b) => a - b), sum(dropped, 'members'), all, commands[commands.length - 1]) } }),
        ice.el('button', { type: 'button', text: 'Undo the choice', on: { click: () => send(null, 0, all, undo) } }),
        ice.el('button', { type: 'button', text: 'Cancel', on: { click: end } })));
  }

  async function send(keep, lost, all, command) {
    const question = keep && lost > 0.1 * all ? { title: 'Drop ' + ice.plural(lost, 'particle') + '?',
      text: ice.plural(lost, 'particle') + ' of ' + ice.count(all) + ' (' + percent(lost, all) +
        ') no longer go on to the next stage, until the choice is undone.',
      action: 'Drop ' + ice.count(lost), command } : null;
    const answer = await ice.control({ do: 'classes', iteration: sheet.iteration, keep }, parts.answer, question);
    if (answer && answer.ok) {
      end();
      load();
    }
  }

  function draw_charts() {
    if (history.length < 2) {
      ice.fill(parts.charts);
      return;
    }
    const x = history.map((line) => line.iteration);
    const known = history.some((line) => ice.is_number(line.kept_resolution)); // else written by an earlier version
    ice.fill(parts.charts,
      ice.plot({ title: 'Particles', x: { label: 'snapshot' }, y: { label: 'particles', from_zero: true },
        series: [{ name: 'in classes', x, y: history.map((line) => line.particles) },
          { name: 'kept', x, y: history.map((line) => line.kept) }] }),
      ice.plot({ title: 'Resolution of the best ' + (known ? 'kept class' : 'class'), x: { label: 'snapshot' },
        y: { label: 'Å' }, series: [{ name: 'resolution', x, y: history.map((line) => (known ? line.kept_resolution : line.resolution)) }] }));
  }

  function update(kind, detail) {
    if (kind === 'shown' || kind === 'route') {
      if (parts.order.value !== (ice.query('order') || 'members')) parts.order.value = ice.query('order') || 'members';
      load();
      load_history();
    } else if (kind === 'status' && sheet && !chosen) {
      if (JSON.stringify([...by_hand()]) !== JSON.stringify([...hands])) paint();
    } else if (kind === 'product' && of_stage(detail)) {
      load_history();
      if (!ice.query('it') && !chosen) load();
    }
  }

  const of_stage = (detail) => [].concat(detail || []).some((one) => !one || !one.stage || one.stage === stage());

  ice.section({ id: 'classes', title: 'Classes', order: 60, stages: ['classifier'], draw, update });
})(window.ice);
