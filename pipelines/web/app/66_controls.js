/* Everything that the page may change: retry, drain, stop, marks, parameters and rules for what comes. Each shows the command line that
 * does the same. */
(function (ice) {
  'use strict';

  let parts;
  const { store } = ice;
  const stages = () => Object.entries((store.status && store.status.stages) || {});
  const total = (key) => stages().reduce((sum, [, it]) => sum + (it[key] || 0), 0);

  function card(title, text, ...children) {
    return ice.el('section', { class: 'card', 'aria-label': title }, ice.el('h3', { text: title }), text && ice.el('p', { class: 'quiet', text }), children);
  }

  function draw(root) {
    const line = ice.answer_line;
    parts = { run: ice.el('div', {}), run_answer: line(), retry: ice.el('div', {}), retry_answer: line(), mark_answer: line(), rule_answer: line(),
      changes: ice.el('div', { class: 'scroll' }), command: ice.el('div', {}), rule_command: ice.el('div', {}) };
    root.append(ice.heading('Controls'),
      !store.may('retry') && !store.may('stop') ? ice.el('p', { class: 'note', text: 'This page may look and not change. The commands work in a terminal.' }) : '',
      ice.el('div', { class: 'cards' },
        card('Run', null, parts.run, parts.run_answer),
        card('Failed exposures', 'Sends them through again, once what was wrong is repaired.', parts.retry, parts.retry_answer),
        draw_marks(), draw_rules()),
      ice.el('h3', { class: 'group', text: 'Changes of this session' }), parts.changes);
  }

  /* Run */

  let run_shown = '';
  function show_run() {
    const state = (store.status && store.status.state) || (store.session && store.session.state) || '';
    const flying = total('in_flight');
    const now = [state, store.may('drain'), store.may('stop')].join(); // what may be done is told after the state
    if (run_shown === now) return;
    run_shown = now;
    const running = ice.is_running();
    const words = state === 'draining' ? 'Draining: what has started is finished, nothing new is taken in.'
      : running ? 'Running.' : 'No run: ' + (state || 'stopped') + '. icestream run goes on with this session.';
    const drain = ice.control_button('drain', { text: 'Drain', disabled: !store.may('drain') || state !== 'running' }, () =>
      ice.control({ do: 'drain' }, parts.run_answer));
    const stop = ice.control_button('stop', { text: 'Stop now', class: 'danger', disabled: !store.may('stop') || !running }, () =>
      ice.control({ do: 'stop' }, parts.run_answer, { title: 'Stop the run now?', action: 'Stop now', command: kill('TERM'),
        text: (total('in_flight') ? ice.plural(total('in_flight'), 'item') + ' in flight ' + (total('in_flight') === 1 ? 'is' : 'are') + ' interrupted. '
          : 'Nothing is in flight. ') + 'A later run does again what was interrupted; nothing that is done is lost.' }));
    ice.fill(parts.run, ice.el('p', { text: words }),
      ice.el('div', { class: 'buttons' }, drain, stop),
      running && ice.el('p', { class: 'quiet', text: 'Drain finishes what has started (' + ice.count(flying) + ' in flight) and ends the run. Ctrl-C in its terminal does the same; a second one stops at once.' }),
      running && process() ? ice.command_line(kill('INT')) : '');
  }

  /* The launcher's number; a signal to it is what a terminal sends. */
  const process = () => (store.status && store.status.pid) || (store.session && store.session.pid) || null;
  const kill = (signal) => (process() ? 'kill -' + signal + ' ' + process() : null);

  /* Retry */

  let retry_shown = '';
  function show_retry() {
    const failed = stages().filter(([, it]) => it.failed > 0);
    const now = failed.map(([name, it]) => name + it.failed).join();
    if (now === retry_shown && parts.retry.firstChild) return;
    retry_shown = now;
    ice.fill(parts.retry, failed.length ? failed.map(([name, it]) => ice.el('div', { class: 'retry-line' },
      ice.state_mark('failed', true), ice.el('span', { text: name + ': ' + ice.count(it.failed) }), ice.el('span', { class: 'gap' }),
      ice.el('a', { href: '#ledger?f=' + encodeURIComponent('failed stage:' + name), text: 'why' }),
      ice.control_button('retry', { text: 'Retry ' + ice.count(it.failed), 'data-stage': name }, () =>
        ice.control({ do: 'retry', stage: name }, parts.retry_answer)))) : ice.el('p', { class: 'calm', text: '✓ None has failed.' }),
    failed.length ? ice.command_line(ice.command('retry')) : '');
  }

  /* Marks */

  /* Numbers from text such as "3, 7-12 40". */
  function numbers_of(text) {
    const list = [];
    for (const part of text.split(/[\s,;]+/).filter(Boolean)) {
      const match = /^(\d+)(?:[-–](\d+))?$/.exec(part);
      if (!match) return { wrong: part, list: [] };
      const last = Number(match[2] || match[1]);
      for (let n = Number(match[1]); n <= last && list.length < 100000; n++) list.push(n);
    }
    return { list: [...new Set(list)].filter((n) => store.rows.at.has(n)), asked: list.length };
  }

  const names_of = (list) => list.map((n) => store.rows.name[store.rows.at.get(n)]);

  function draw_marks() {
    const what = ice.el('input', { type: 'text', id: 'mark-numbers', placeholder: '12, 40-48', autocomplete: 'off', on: { input: say } });
    const why = ice.el('input', { type: 'text', id: 'mark-why', placeholder: 'crystalline ice', maxlength: 200, on: { input: say } });
    const said = ice.el('p', { class: 'quiet' });
    const choice = ice.el('select', { id: 'mark-choice', on: { change: say } },
      [['reject', 'reject'], ['keep', 'keep'], ['', 'no mark']].map(([value, text]) => ice.el('option', { value, text })));
    function say() {
      const { list, wrong, asked } = numbers_of(what.value);
      said.textContent = wrong ? '“' + wrong + '” is no number of an exposure; expected 12 or 40-48.'
        : asked ? ice.plural(list.length, 'exposure') + (asked > list.length ? ' of these ' + asked + ' are there' : '') : '';
      const words = [choice.value ? '--' + choice.value : '--clear', ...(list.length && list.length < 6 ? names_of(list) : ['ITEM…'])];
      if (why.value && choice.value) words.push('--why', why.value);
      ice.fill(parts.command, list.length ? ice.command_line(ice.command('mark', words)) : '');
    }
    async function send() {
      const { list, wrong } = numbers_of(what.value);
      if (wrong || !list.length) {
        say();
        what.focus();
        return;
      }
      const answer = await ice.mark(list, choice.value || null, why.value, parts.mark_answer);
      if (answer && answer.ok) {
        what.value = '';
        say();
      }
    }
    return card('Mark exposures', 'A mark stands beside the verdict of the stages. The next selection and the export follow it. It brings back nothing that a rule has rejected: for that, set another rule, and redo the exposure.',
      ice.el('label', { class: 'row' }, 'Exposures ', what), said,
      ice.el('label', { class: 'row' }, 'Mark as ', choice), ice.el('label', { class: 'row' }, 'Reason ', why),
      parts.command,
      ice.el('div', { class: 'buttons' }, ice.control_button('mark', { text: 'Mark', class: 'main', id: 'mark-send' }, send)), parts.mark_answer);
  }

  /* Marks exposures by their numbers; asks first where it rejects more than a tenth of all. mark: "reject", "keep" or
   * null (takes it back). */
  ice.mark = function (numbers, mark, why, line) {
    const body = { do: 'mark', n: numbers, mark };
    if (why && mark) body.why = why;
    const many = mark === 'reject' && numbers.length > 1 && numbers.length > 0.1 * store.rows.length;
    return ice.control(body, line || ice.answer_line(), many ? { title: 'Reject ' + ice.plural(numbers.length, 'exposure') + '?',
      text: ice.count(numbers.length) + ' of ' + ice.plural(store.rows.length, 'exposure') + ' will be left out of the next selection, until the mark is taken back.',
      action: 'Reject ' + ice.count(numbers.length) } : null);
  };

  /* Parameters and rules for what comes */

  function draw_rules() {
    const stage = ice.el('select', { id: 'rule-stage', on: { change: show_now } });
    const key = ice.el('input', { type: 'text', id: 'rule-key', value: 'reject_if', autocomplete: 'off', on: { input: say } });
    const value = ice.el('input', { type: 'text', id: 'rule-value', placeholder: 'rlnCtfMaxResolution > 6', autocomplete: 'off', on: { input: say } });
    const now = ice.el('p', { class: 'quiet' });
    for (const it of (store.session && store.session.stages) || []) stage.append(ice.el('option', { value: it.name, text: it.name }));
    const rules = () => ((store.session && store.session.rules) || []);
    if (rules().length) stage.value = rules()[0].stage;
    function show_now() {
      const texts = rules().filter((rule) => rule.stage === stage.value).map((rule) => rule.text);
      now.textContent = texts.length ? 'Now: ' + texts.join('; ') : 'This stage has no rule.';
      say();
    }
    function say() {
      ice.fill(parts.rule_command, value.value ? ice.command_line(ice.command('set', [stage.value + '.' + key.value + '=' + value.value])) : '');
    }
    async function send() {
      if (!value.value.trim()) {
        value.focus();
        return;
      }
      const body = key.value === 'reject_if' ? { do: 'rules', stage: stage.value, text: value.value.trim() }
        : { do: 'set', stage: stage.value, key: key.value.trim(), value: value.value.trim() };
      const answer = await ice.control(body, parts.rule_answer);
      if (answer && answer.ok) {
        value.value = '';
        say();
        store.resync(true).catch(() => {});
      }
    }
    parts.show_now = show_now;
    show_now();
    return card('Parameters and rules', 'For exposures that come from now on. What has been judged keeps its verdict; each item notes the change it was judged by.',
      ice.el('label', { class: 'row' }, 'Stage ', stage), ice.el('label', { class: 'row' }, 'Parameter ', key), now,
      ice.el('label', { class: 'row' }, 'Value ', value), parts.rule_command,
      ice.el('div', { class: 'buttons' }, ice.control_button('rules', { text: 'Set for what comes', class: 'main', id: 'rule-send' }, send)), parts.rule_answer);
  }

  /* The one history of changes, newest first. */
  let changes_shown = '';
  function show_changes() {
    const list = (store.status && store.status.changes) || [];
    const now = JSON.stringify(list);
    if (now === changes_shown) return;
    changes_shown = now;
    ice.fill(parts.changes, list.length ? ice.table(['number', 'time', 'by', 'what'], list.slice().reverse().map((change) =>
      [String(change.number || ''), ice.clock(change.time), change.peer ? 'page, ' + change.peer : (change.user || '') + ' with ' + (change.by || ''),
        ice.el('ul', { class: 'plain' }, words_of(change).map((text) => ice.el('li', { text })))]))
      : ice.el('p', { class: 'quiet', text: 'None: everything runs as the graph says.' }));
  }

  const DONE = { keep: 'kept by hand', reject: 'rejected by hand' };
  const value_text = (value) => (value === null || value === undefined ? 'not set' : typeof value === 'object' ? JSON.stringify(value) : String(value));

  /* One line for each value, group of marks, or choice of classes of a change. */
  function words_of(change) {
    const lines = (change.changes || []).map((it) => it.stage + '.' + it.key + ': ' + value_text(it.old) + ' → ' + value_text(it.new));
    const marks = change.marks || [];
    for (const mark of new Set(marks.map((it) => it.mark))) {
      const names = marks.filter((it) => it.mark === mark);
      lines.push((DONE[mark] || 'no longer marked') + ': ' + names.slice(0, 3).map((it) => it.id).join(', ') +
        (names.length > 3 ? ' and ' + (names.length - 3) + ' more' : '') + (names[0].why ? ' (' + names[0].why + ')' : ''));
    }
    for (const it of change.choices || []) {
      lines.push((DONE[it.choice] || 'no longer chosen') + ': classes ' + (it.classes || []).join(', ') + ' of snapshot ' + it.iteration +
        (it.particles ? ', ' + ice.plural(it.particles, 'particle') : ''));
    }
    if (change.note) lines.push(typeof change.note === 'string' ? change.note : JSON.stringify(change.note));
    if (change.whole) lines.push('another graph');
    return lines;
  }

  function update(kind) {
    if (kind === 'shown' || kind === 'status' || kind === 'session') {
      show_run();
      show_retry();
      show_changes();
      if (kind === 'session') parts.show_now();
    }
  }

  ice.section({ id: 'controls', title: 'Controls', order: 95, draw, update });
})(window.ice);
