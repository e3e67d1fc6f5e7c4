/* Alarms: what fires and what to do, silences with their end, what has cleared, and all rules with their limits. */
(function (ice) {
  'use strict';

  const MARKS = { critical: '▲', warning: '△', info: 'ℹ' };
  const SPANS = [[1800, '30 min'], [3600, '1 h'], [14400, '4 h'], [43200, '12 h'], [86400, '1 day']];
  let parts;

  const name_of = (alarm) => (alarm.alarm || alarm.name || '').replace(/_/g, ' ').replace(/^gpu/, 'GPU').replace(/^ctf/, 'CTF');
  const title_of = (alarm) => name_of(alarm) + (alarm.subject ? ' · ' + alarm.subject : '');

  function draw(root) {
    parts = {
      firing: ice.el('div', { class: 'alarms', id: 'alarms-firing' }),
      answer: ice.answer_line(),
      silenced: ice.el('div', { class: 'alarms', id: 'alarms-silenced' }),
      cleared: ice.el('div', { class: 'alarms', id: 'alarms-cleared' }),
      rules: ice.el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Rules of alarms' }),
      notify: ice.el('p', { class: 'quiet' }),
    };
    root.append(ice.heading('Alarms'), parts.firing, parts.answer, parts.silenced, parts.cleared, parts.notify,
      ice.el('details', { class: 'rules' }, ice.el('summary', { text: 'Rules and limits' }), parts.rules));
  }

  function times(alarm) {
    const now = Date.now() / 1000;
    if (alarm.state === 'cleared') {
      const ended = alarm.ended || alarm.cleared;
      return ice.clock(alarm.since) + (ended ? ' to ' + ice.clock(ended) + ', ' + ice.span(ended - alarm.since) : '');
    }
    return ice.is_number(alarm.since) ? 'for ' + ice.span(now - alarm.since) + ', since ' + ice.clock(alarm.since) : '';
  }

  function silence_tools(alarm) {
    if (alarm.state === 'cleared') return null;
    const words = [alarm.alarm || alarm.name].concat(alarm.subject ? [alarm.subject] : []);
    if (alarm.state === 'silenced') {
      return ice.el('div', { class: 'buttons' }, ice.el('span', { class: 'quiet', text: 'silent until ' + ice.clock(alarm.until) }),
        ice.control_button('silence', { text: 'Wake' }, () => silence(alarm, 0)),
        ice.command_line(ice.command('silence', words.concat('--clear'))));
    }
    const span = ice.el('select', { 'aria-label': 'Time of silence' }, SPANS.map(([value, text]) => ice.el('option', { value, text })));
    span.value = '3600';
    const place = ice.el('div', {});
    const say = () => ice.fill(place, ice.command_line(ice.command('silence', words.concat('--for', span.value))));
    span.addEventListener('change', say);
    say();
    return ice.el('div', { class: 'buttons' }, span,
      ice.control_button('silence', { text: 'Silence' }, () => silence(alarm, Date.now() / 1000 + Number(span.value))), place);
  }

  async function silence(alarm, until) {
    const body = { do: 'silence', alarm: alarm.alarm || alarm.name, until: Math.round(until) };
    if (alarm.subject) body.subject = alarm.subject;
    const result = await ice.control(body, parts.answer);
    if (result && result.ok) ice.store.load_alarms();
  }

  function card(alarm) {
    const severity = alarm.severity || 'warning';
    return ice.el('article', { class: 'alarm ' + alarm.state + ' ' + severity, 'data-alarm': alarm.alarm || alarm.name },
      ice.el('span', { class: 'alarm-mark', 'aria-hidden': 'true', text: alarm.state === 'cleared' ? '✓' : MARKS[severity] || '△' }),
      ice.el('div', { class: 'alarm-body' },
        ice.el('h3', {}, title_of(alarm), ice.el('span', { class: 'severity', text: alarm.state === 'cleared' ? 'cleared' : severity })),
        ice.el('p', { text: alarm.text || alarm.message || '' }),
        ice.el('p', { class: 'quiet', text: times(alarm) })),
      silence_tools(alarm));
  }

  function group(node, title, list, none) {
    ice.fill(node, (list.length > 0 || none) && ice.el('h3', { class: 'group', text: title + (list.length ? ' (' + list.length + ')' : '') }),
      list.length ? list.map(card) : none && ice.el('p', { class: 'calm', text: none }));
  }

  const WEIGHT = { critical: 0, warning: 1, info: 2 };
  function paint() {
    const answer = ice.store.alarm_answer;
    if (!answer) return; // nobody knows yet
    const of = (state) => answer.alarms.filter((alarm) => alarm.state === state);
    const firing = of('firing').sort((a, b) => (WEIGHT[a.severity] || 0) - (WEIGHT[b.severity] || 0) || b.since - a.since);
    group(parts.firing, 'Firing', firing, '✓ Nothing fires.');
    group(parts.silenced, 'Silenced', of('silenced'));
    group(parts.cleared, 'Cleared', of('cleared').sort((a, b) => (b.ended || b.since) - (a.ended || a.since)).slice(0, 20));
    const notify = answer.notify;
    parts.notify.textContent = (answer.complaint ? 'What happens cannot be kept: ' + answer.complaint + '. ' : '') + (notify === undefined ? '' : notify
      ? 'Alarms are sent through ' + notify.program + (ice.is_number(notify.sent) ? ': ' + ice.count(notify.sent) + ' sent, ' + ice.count(notify.failed || 0) + ' failed' : '') +
        (notify.message ? ' (' + notify.message + ')' : '')
      : 'Alarms are sent to nobody. A program that the graph names sends them: session: {notify: /path}.');
    const limit = (rule) => (ice.is_number(rule.threshold) ? ice.number(rule.threshold, 3) + (rule.unit ? ' ' + rule.unit : '') : rule.threshold || '');
    ice.fill(parts.rules, ice.table(['alarm', 'what it says', 'limit', 'for', 'severity'], (answer.rules || []).map((rule) =>
      [name_of(rule), rule.summary || rule.condition || '', limit(rule), ice.is_number(rule.for) ? ice.span(rule.for) : '',
        rule.off ? 'off' : rule.severity || ''])));
  }

  function update(kind) {
    if (kind === 'shown') ice.store.load_alarms();
    if (kind === 'shown' || kind === 'alarm') paint();
  }

  ice.section({ id: 'alarms', title: 'Alarms', order: 90, draw, update });
})(window.ice);
