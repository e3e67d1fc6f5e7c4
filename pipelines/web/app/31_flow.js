/* Flow: a box for each stage, with what waits before it, what it has done and how fast it is. */
(function (ice) {
  'use strict';

  const { store } = ice;
  let list = null;
  let boxes = new Map();
  let summary = null;

  const from_of = (stage) => [].concat(stage.from || []).map((f) => (typeof f === 'string' ? f.split('.')[0] : f.stage));

  function make_box(stage) {
    const it = {};
    const line = (key, label, title) => ice.el('div', { class: 'line', title: title || null }, ice.el('span', { class: 'label', text: label }), it[key] = ice.el('span', { class: 'value' }));
    const count = (state) => ice.el('span', { class: 'count', title: state.word }, ice.state_mark(state.key, true), it[state.key] = ice.el('span'));
    it.queue = ice.el('span', { class: 'queue' });
    it.bar = ice.el('div', { class: 'bar', 'aria-hidden': 'true' }, ice.states.map((s) => (it['bar_' + s.key] = ice.el('i', { class: s.key.replace('_', '-') }))));
    it.node = ice.el('li', { class: 'stage', id: 'stage-' + stage.name },
      ice.el('div', { class: 'input' }, it.queue),
      ice.el('div', { class: 'box' },
        ice.el('h3', {}, stage.name, stage.replicas > 1 ? ice.el('span', { class: 'tag', text: '× ' + stage.replicas }) : null,
          stage.gpu ? ice.el('span', { class: 'tag', text: 'GPU' }) : null),
        ice.el('div', { class: 'counts' }, [1, 0, 2, 3].map((s) => count(ice.states[s]))), it.bar,
        line('rate', 'rate'), line('latency', 'latency', 'Median, and what 95 % of the items stay below'), line('slowest', 'slowest part'),
        it.note = ice.el('p', { class: 'said' })));
    return it;
  }

  /* Median and 95 % of what a stage needs for an item. */
  function latency_text(status) {
    const l = status.latency;
    if (l && ice.is_number(l.p50)) {
      const [half, most] = [ice.span(l.p50), ice.span(l.p95)];
      return half === most ? half : half + ' to ' + most;
    }
    const beat = (status.instances || []).find((b) => ice.is_number(b.latency) && b.latency > 0);
    return beat ? ice.span(beat.latency) : ice.NONE;
  }

  function rate_text(rate) {
    if (!ice.is_number(rate)) return ice.NONE;
    return ice.number(rate * 60, 2) + ' / min';
  }

  function trouble_of(status) {
    const beats = status.instances || [];
    const trouble = beats.map((b) => b.trouble).find(Boolean);
    if (trouble) return trouble;
    const silent = beats.find((b) => ice.is_number(b.silent) && b.silent > 60);
    return silent && ice.is_running() ? silent.name + ' has been silent for ' + ice.span(silent.silent) : '';
  }

  function show_box(it, stage, status) {
    for (const s of ice.states) {
      const value = status[s.key];
      ice.text(it[s.key], ice.count(value));
      it[s.key].parentNode.hidden = s.key !== 'done' && !value;
      it['bar_' + s.key].style.flexGrow = String(value || 0);
    }
    const inputs = Object.entries(status.inputs || {}).filter(([, one]) => one);
    const waiting = ice.is_number(status.queue) ? status.queue : inputs.reduce((sum, [, one]) => sum + (one.waiting || 0), 0);
    const before = store.session.stages[store.session.stages.indexOf(stage) - 1];
    const sources = from_of(stage);
    const elsewhere = sources.length && !(sources.length === 1 && before && before.name === sources[0]) ? ' from ' + sources.join(', ') : '';
    ice.text(it.queue, !sources.length ? '' : (waiting ? ice.count(waiting) + ' waiting' +
      (ice.is_number(status.oldest) && status.oldest >= 1 ? ', ' + ice.span(status.oldest) : '') : 'none waiting') + elsewhere);
    it.queue.parentNode.classList.toggle('first', !sources.length);
    it.queue.classList.toggle('busy', waiting > 0);
    ice.text(it.rate, rate_text(status.rate));
    ice.text(it.latency, latency_text(status));
    it.latency.parentNode.hidden = store.gathers(stage);
    const parts = (status.instances || []).map((b) => b.parts && b.parts.slowest).find(Boolean);
    ice.text(it.slowest, parts || ice.NONE);
    const trouble = trouble_of(status);
    ice.text(it.note, trouble || status.note || '');
    it.note.title = trouble || status.note || '';
    it.node.classList.toggle('trouble', !!trouble);
    return { name: stage.name, waiting };
  }

  function update() {
    const { session, status } = store;
    if (!session || !list) return;
    if (boxes.size !== session.stages.length || session.stages.some((s) => !boxes.has(s.name))) {
      boxes = new Map(session.stages.map((s) => [s.name, make_box(s)]));
      ice.fill(list, [...boxes.values()].map((b) => b.node));
    }
    if (!status || !status.stages) return;
    const all = session.stages.map((s) => show_box(boxes.get(s.name), s, status.stages[s.name] || {}));
    const most = all.reduce((a, b) => (b.waiting > a.waiting ? b : a), { waiting: 0 });
    let text = most.waiting ? 'Most wait before ' + most.name + ': ' + ice.count(most.waiting) + '.' : 'Nothing waits between stages.';
    if (status.adds_up === false) text = 'The ledgers do not add up: ' + (status.miscount || 'see icestream status') + '.';
    ice.text(summary, text);
    summary.className = status.adds_up === false ? 'note critical' : 'quiet';
  }

  ice.section({
    id: 'flow', title: 'Flow', view: 'overview', order: 10,
    draw(root) {
      summary = ice.el('p', { class: 'quiet' });
      list = ice.el('ol', { class: 'flow' });
      boxes = new Map();
      root.append(ice.heading('Flow', summary), list);
    },
    update(kind) {
      if (kind === 'session' || kind === 'status' || kind === 'shown') update();
    },
  });
})(window.ice);
