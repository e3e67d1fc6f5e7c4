/* One exposure: its picture with picks, spectrum and fit, motion, what each stage made of it and why, its log lines. */
(function (ice) {
  'use strict';

  const { store } = ice;
  const it = {};
  let number = NaN;
  let picks = null;
  let asked = 0;
  let with_picks = true;

  const row = () => (store.rows.at.has(number) ? store.rows.at.get(number) : -1);

  function draw(root) {
    it.title = ice.el('h2', { class: 'exposure-name' });
    it.state = ice.el('span');
    it.reason = ice.el('p', { class: 'note warning', hidden: true });
    it.before = ice.el('a', { class: 'button', text: '← previous', 'aria-keyshortcuts': 'k' });
    it.after = ice.el('a', { class: 'button', text: 'next →', 'aria-keyshortcuts': 'j' });
    it.back = ice.el('a', { class: 'button', href: '#exposures', text: 'all exposures' });
    it.mark = ice.el('span', { class: 'marks' });
    it.img = ice.picture({ class: 'micrograph' });
    it.over = ice.el('canvas', { class: 'over' });
    it.frame = ice.el('div', { class: 'frame large' }, it.img, it.over);
    it.img.addEventListener('load', show_picks);
    it.toggle = ice.el('button', { type: 'button', 'aria-pressed': 'true', text: 'picks', 'aria-keyshortcuts': 'p', on: { click: toggle_picks } });
    it.size = slider('circle', 10, 400, 1);
    it.score = slider('score at least', 0, 1, 0.01);
    it.count = ice.el('span', { class: 'quiet', id: 'picks-count', role: 'status' });
    it.facts = ice.el('dl', { class: 'columns' });
    it.stages = ice.el('div', { class: 'stages' });
    it.answer = ice.answer_line();
    it.log = ice.el('pre', { class: 'log', tabindex: '0', 'aria-label': 'Lines of the log about this exposure' });
    it.spectrum = ice.picture({ class: 'spectrum' });
    it.spectrum_box = ice.el('div', { class: 'frame spectrum-frame' }, it.spectrum);
    it.ctf = ice.chart({ title: 'CTF fit', name: 'ctf', height: 220, x: { label: '1/Å', text: resolution_text }, y: {}, empty: 'no CTF yet' });
    it.motion = ice.chart({ title: 'Motion', unit: 'Å', name: 'motion', height: 220, x: { label: 'x (Å)' }, y: { label: 'y', unit: 'Å' }, empty: 'no motion yet' });
    root.append(
      ice.el('div', { class: 'heading' }, it.title, it.state, ice.el('div', { class: 'beside' }, it.mark, it.before, it.after, it.back)),
      it.reason,
      ice.el('div', { class: 'exposure' },
        ice.el('div', {}, it.frame, ice.el('div', { class: 'tools' }, it.toggle, it.size.node, it.score.node, it.count)),
        ice.el('div', { class: 'side' }, it.facts, ice.el('div', { class: 'pair' }, it.spectrum_box, it.ctf.node), it.motion.node)),
      ice.el('h3', { text: 'What each stage made of it' }), it.stages, it.answer, ice.el('h3', { text: 'Log' }), it.log);
    new ResizeObserver(show_picks).observe(it.frame);
  }

  const resolution_text = (v) => (v > 0 ? ice.number(1 / v, 2) + ' Å' : '∞');

  function slider(text, min, max, step) {
    const input = ice.el('input', { type: 'range', min, max, step, on: { input: show_picks } });
    const value = ice.el('output', { class: 'value' });
    return { input, value, node: ice.el('label', {}, text, input, value) };
  }

  function toggle_picks() {
    with_picks = !with_picks;
    it.toggle.setAttribute('aria-pressed', String(with_picks));
    show_picks();
  }

  /* Sliders get the ranges of these picks; they change the display alone. */
  function set_sliders() {
    const scores = picks ? ice.sorted((picks.score || []).filter((s) => ice.is_number(s))) : [];
    it.score.node.hidden = scores.length < 2 || scores[0] === scores[scores.length - 1];
    if (!it.score.node.hidden) {
      const step = (scores[scores.length - 1] - scores[0]) / 200;
      Object.assign(it.score.input, { min: scores[0], max: scores[scores.length - 1], step });
      it.score.input.value = scores[0];
    }
    const diameter = picks && (picks.diameter || picks.nx / 40);
    it.size.node.hidden = !picks;
    if (picks) {
      Object.assign(it.size.input, { min: Math.round(diameter / 4), max: Math.round(diameter * 2), step: 1 });
      it.size.input.value = Math.round(diameter);
    }
  }

  function show_picks() {
    const there = picks && picks.x && it.img.dataset.state === 'there';
    it.over.hidden = !with_picks;
    it.toggle.hidden = !picks;
    ice.text(it.size.value, it.size.input.value + ' px');
    ice.text(it.score.value, ice.number(Number(it.score.input.value), 3));
    if (!picks) {
      ice.text(it.count, 'no picks');
      ice.draw_picks(it.over, null, {});
      return;
    }
    const least = it.score.node.hidden ? -Infinity : Number(it.score.input.value) - 1e-9;
    const kept = picks.x.filter((x, k) => !(picks.score && picks.score[k] < least)).length;
    ice.text(it.count, kept === picks.x.length ? ice.plural(kept, 'pick') : ice.count(kept) + ' of ' + ice.plural(picks.x.length, 'pick'));
    if (with_picks && there) ice.draw_picks(it.over, picks, { diameter: Number(it.size.input.value), least });
  }

  function show_row() {
    const i = row();
    const { rows } = store;
    if (i < 0) {
      ice.text(it.title, ice.is_number(number) ? 'There is no exposure ' + number + ' (yet)' : 'No exposure is chosen');
      return;
    }
    ice.text(it.title, '#' + number + '  ' + rows.name[i]);
    it.title.title = rows.name[i];
    ice.fill(it.state, ice.state_mark(rows.state[i]), ' ', ice.el('span', { class: 'quiet', text: 'at ' + store.stage_name(rows.stage[i]) +
      ', ' + ice.clock(rows.t[i], true) }));
    const reason = ice.reason_of(rows, i);
    it.reason.hidden = !reason;
    it.reason.className = 'note ' + (rows.state[i] === ice.FAILED ? 'critical' : 'warning');
    ice.text(it.reason, reason);
    const place = rows.square[i] >= 0 ? [['Grid square', ice.el('a', { href: '#grid/' + encodeURIComponent(ice.square_of(rows, i)), text: ice.square_of(rows, i) })]] : [];
    if (rows.hole[i]) place.push(['Hole', rows.hole[i]]);
    ice.fill(it.facts, store.columns().map((c) => [c.label, ice.quantity(c.values[i] * c.factor, c.unit) + (c.unit && isFinite(c.values[i]) ? ' ' + c.unit : '')])
      .concat(place).map(([name, value]) => ice.el('div', {}, ice.el('dt', { text: name }), ice.el('dd', {}, value))));
    show_neighbours();
    show_marks(rows.mark[i]);
  }

  /* Neighbours in the view that was open before; else by number. */
  function neighbours() {
    const list = ice.order.numbers;
    const at = list ? list.indexOf(number) : -1;
    if (at >= 0) return [list[at - 1], list[at + 1]];
    const i = row();
    return i < 0 ? [] : [i > 0 ? store.rows.n[i - 1] : undefined, i + 1 < store.rows.length ? store.rows.n[i + 1] : undefined];
  }

  function show_neighbours() {
    const [before, after] = neighbours();
    for (const [link, to] of [[it.before, before], [it.after, after]]) {
      link.classList.toggle('off', to === undefined);
      if (to === undefined) link.removeAttribute('href');
      else link.href = '#exposure/' + to;
    }
  }

  function step(which) {
    const to = neighbours()[which];
    if (to !== undefined) ice.go('exposure/' + to);
  }

  /* Marks by hand stand beside the verdict of the stages, never over it. */
  function show_marks(mark) {
    if (!store.may('mark')) {
      ice.fill(it.mark, mark ? ice.el('span', { class: 'note', text: '✎ marked ' + mark + ' by hand' }) : null);
      return;
    }
    const button = (value, text) => ice.el('button', { type: 'button', 'aria-pressed': String(mark === value), text, on: { click: () => set_mark(mark === value ? null : value) } });
    ice.fill(it.mark, button('reject', '✕ reject by hand'), ' ', button('keep', '● keep by hand'),
      mark === 'keep' && row() >= 0 && store.rows.state[row()] === 2 && ice.el('p', { class: 'quiet', text: 'A mark brings nothing back that a rule has rejected: set another rule, and redo the exposure.' }));
  }

  async function set_mark(mark) {
    const n = number;
    const answer = await ice.post({ do: 'mark', n: [n], mark, why: '' });
    ice.speak(answer.message || (answer.ok ? 'done' : 'refused'));
    if (!answer.ok) {
      it.reason.hidden = false;
      it.reason.className = 'note critical';
      ice.text(it.reason, answer.message);
    } else if (store.rows.at.has(n)) {
      store.rows.mark[store.rows.at.get(n)] = mark;
      if (n === number) show_row();
    }
  }

  const STATE_OF = (state) => (typeof state === 'number' ? ice.states[state].key : state);

  /* A button that makes the exposure again from a stage on, with the values that hold now. */
  function again(stage, id) {
    const about = store.session.stages.find((one) => one.name === stage);
    if (!id || !about || about.cumulative || ![].concat(about.from || []).length) return '';
    return ice.control_button('redo', { text: 'redo', class: 'small', 'data-stage': stage, 'aria-label': 'Make it again from ' + stage + ' on',
      title: ice.command('redo', ['--stage', stage, id]) }, () => ice.control({ do: 'redo', stage, items: [id] }, it.answer));
  }

  function show_stages(answer) {
    const rows = (answer.stages || []).map((s) => [s.stage, ice.state_mark(STATE_OF(s.state)), s.reason || '', s.attempts > 1 ? s.attempts + ' attempts' : '',
      ice.is_number(s.seconds) ? ice.span(s.seconds) : '', ice.clock(s.changed, true),
      (s.products || []).map((p) => (typeof p === 'string' ? p : p.path || '')).join('\n'), again(s.stage, answer.id)]);
    ice.fill(it.stages, ice.table(['stage', 'state', 'reason', 'attempts', 'took', 'at', 'products', 'again'], rows));
    const lines = answer.log || [];
    it.log.textContent = lines.length ? lines.join('\n') : 'The logs say nothing about it.';
  }

  /* The spectrum as it is compared with the fit. Its rings grow fainter and lie on a slope: around each place, up to the
   * resolution of the fit, data = a + b fit, and (data − a) / b is shown. */
  ice.scaled_spectrum = function (ctf) {
    const { k, data, fit } = ctf;
    const half = Math.ceil(k.length / 12);
    const first = Math.ceil(k.length / 20); // before it all is far above the rest
    let [a, b] = [NaN, NaN];
    const line = k.map((at, i) => {
      if (i < first || !(at * (ctf.resolution || 0) <= 1)) return [a, b];
      let [count, f, d, ff, fd] = [0, 0, 0, 0, 0];
      for (let j = Math.max(first, i - half); j <= Math.min(k.length - 1, i + half); j++) {
        if (!ice.is_number(data[j]) || !ice.is_number(fit[j])) continue;
        count++;
        f += fit[j];
        d += data[j];
        ff += fit[j] * fit[j];
        fd += fit[j] * data[j];
      }
      const slope = (count * fd - f * d) / (count * ff - f * f);
      if (slope > 0 && isFinite(slope)) [a, b] = [(d - slope * f) / count, slope];
      return [a, b];
    });
    const begin = line.find((one) => one[1] > 0);
    if (!begin) return data;
    return data.map((v, i) => (ice.is_number(v) ? (v - (line[i][1] > 0 ? line[i] : begin)[0]) / (line[i][1] > 0 ? line[i] : begin)[1] : null));
  };

  function show_ctf(ctf) {
    if (!ctf || !ctf.k) {
      it.ctf.set({ series: [], summary: '' });
      return;
    }
    const there = Array.isArray(ctf.data) && Array.isArray(ctf.fit) && ctf.fit.length === ctf.k.length;
    if (there) ctf = Object.assign({}, ctf, { data: ice.scaled_spectrum(ctf), background: null });
    const series = [['data', '--bar', 1.5], ['background', '--axis-line', 1], ['fit', '--failed', 1.2], ['score', '--good', 1.2]]
      .filter(([key]) => Array.isArray(ctf[key]) && ctf[key].length)
      .map(([key, colour, width]) => ({ name: key, kind: 'line', x: ctf.k, y: ctf[key].map((v) => (v === null ? NaN : v)), colour, width }));
    it.ctf.set({ series, y: there ? { min: -0.3, max: 1.4 } : bounds(ctf), summary: 'Spectrum (light' + (there ? ', scaled to the fit' : '') + '), fit (red), ' + (ctf.score ? 'agreement (green), ' : '') + 'over resolution' });
  }

  /* Without a fit the range comes from what lies beyond 30 Å: what lies before is far above all. */
  function bounds(ctf) {
    const sorted = ice.sorted((ctf.data || []).filter((v, i) => ctf.k[i] >= 1 / 30 && ice.is_number(v)));
    return sorted.length ? { min: Math.min(0, ice.quantile(sorted, 0.005)), max: ice.quantile(sorted, 0.98) } : {};
  }

  function show_motion(motion) {
    if (!motion || !motion.x || !motion.x.length) {
      it.motion.set({ series: [], summary: '' });
      return;
    }
    const span = Math.max(range_of(motion.x), range_of(motion.y), 1) * 0.6;
    const middle = (list) => (Math.max(...list) + Math.min(...list)) / 2;
    const wide = (it.motion.plot.clientWidth || 360) / 220;
    const [mx, my] = [middle(motion.x), middle(motion.y)];
    it.motion.set({
      x: { label: 'x', min: mx - span * wide, max: mx + span * wide }, y: { label: 'y', unit: 'Å', min: my - span, max: my + span },
      series: [{ name: 'track', kind: 'line', x: motion.x, y: motion.y, colour: '--done' }, { name: 'frames', kind: 'points', x: motion.x, y: motion.y, size: 4 },
        { name: 'first', kind: 'points', x: motion.x.slice(0, 1), y: motion.y.slice(0, 1), size: 8, colour: '--rejected' }],
      tip: (s, i) => 'frame ' + (i + 1) + '\n' + ice.number(s.x[i], 3) + ', ' + ice.number(s.y[i], 3) + ' Å',
      summary: 'total ' + ice.quantity(motion.total, 'Å') + ' Å, early ' + ice.quantity(motion.early, 'Å') + ' Å, late ' + ice.quantity(motion.late, 'Å') +
        ' Å, ' + motion.x.length + ' frames; the first is the large point',
    });
  }

  const range_of = (list) => Math.max(...list) - Math.min(...list);

  /* Fetches all of the exposure; what comes late for another one is dropped. */
  async function load(keep) {
    const mine = ++asked;
    const n = number;
    const fresh = (act) => (value) => { if (mine === asked && n === number) act(value); };
    if (!ice.is_number(n)) return;
    if (row() < 0) {
      ice.fill(it.stages, ice.el('p', { class: 'quiet', text: 'No stage has it.' }));
      it.log.textContent = '';
      for (const show of [show_ctf, show_motion]) show(null);
      return;
    }
    ice.api('api/item/' + n).then(fresh(show_stages)).catch((error) => fresh(() => ice.fill(it.stages, ice.el('p', { class: 'quiet', text: error.message })))());
    ice.data_of(n, 'ctf').then(fresh(show_ctf));
    ice.data_of(n, 'motion').then(fresh(show_motion));
    ice.picks(n).then(fresh((value) => {
      picks = value;
      if (!keep) set_sliders();
      show_picks();
    }));
  }

  function show_pictures() {
    ice.show_picture(it.img, number, 'micrograph');
    ice.show_picture(it.spectrum, number, 'spectrum');
    it.img.alt = 'Micrograph of exposure ' + number;
    it.spectrum.alt = 'Spectrum of exposure ' + number;
  }

  function open() {
    const wanted = Number(ice.route.argument || NaN);
    if (wanted !== number) {
      number = wanted;
      picks = null;
      it.answer.textContent = '';
      show_picks();
      show_row();
      show_pictures();
      load(false);
    } else show_row();
  }

  ice.section({
    id: 'exposure', title: 'Exposure', view: 'exposure', order: 21, tab: false, parent: 'exposures',
    draw,
    update(kind, detail) {
      if (kind === 'shown' || kind === 'route') open();
      else if (kind === 'rows') {
        const i = row();
        if (!detail.some((d) => d.full || d.changed.includes(i))) return;
        show_row();
        show_pictures();
        load(picks !== null);
      } else if (kind === 'theme' || kind === 'size') show_picks();
    },
    keys: {
      j: () => step(1),
      k: () => step(0),
      ArrowRight: () => step(1),
      ArrowLeft: () => step(0),
      p: toggle_picks,
      x: () => store.may('mark') && row() >= 0 && set_mark(store.rows.mark[row()] === 'reject' ? null : 'reject'),
      Escape: () => ice.go('exposures'),
    },
  });
})(window.ice);
