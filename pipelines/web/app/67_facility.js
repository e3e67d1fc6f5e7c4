/* The page of `icestream serve --sessions`: all sessions of a folder, those that need somebody first. */
(function (ice) {
  'use strict';

  const EVERY = 5000;
  const MARKS = { running: '▶', draining: '◔', stopped: '■', finished: '✓' };
  let parts = null;
  let find = '';
  let list = [];

  function draw(main, head) {
    parts = {
      folder: ice.el('span', { class: 'quiet' }),
      note: ice.el('span', { class: 'quiet', role: 'status' }),
      find: ice.el('input', { type: 'search', placeholder: 'find a session', 'aria-label': 'Find a session', on: { input: () => {
        find = parts.find.value.toLowerCase();
        paint();
      } } }),
      rows: ice.el('tbody', {}),
    };
    ice.fill(head, ice.el('div', { class: 'who' }, ice.el('h1', { text: 'Sessions' }), parts.folder), parts.note);
    const titles = ['session', 'state', 'alarms', 'exposures', 'done', 'rejected', 'failed', 'changed'];
    ice.fill(main, ice.el('section', { class: 'panel', 'aria-label': 'Sessions' },
      ice.el('div', { class: 'tools' }, parts.find),
      ice.el('div', { class: 'scroll' }, ice.el('table', { class: 'sessions' },
        ice.el('thead', {}, ice.el('tr', {}, titles.map((text, k) => ice.el('th', { scope: 'col', class: k > 2 ? 'number' : null, text })))),
        parts.rows))));
  }

  /* Exposures are what the first stage found; done are those that no stage has lost or still holds. */
  function counts_of(session) {
    const stages = session.stages || [];
    const first = stages[0] || {};
    const sum = (key) => stages.reduce((total, it) => total + (it[key] || 0), 0);
    const seen = (first.done || 0) + (first.in_flight || 0) + (first.rejected || 0) + (first.failed || 0);
    const [rejected, failed] = [sum('rejected'), sum('failed')];
    return { seen, rejected, failed, done: Math.max(0, seen - rejected - failed - sum('in_flight')) };
  }

  const alarms_of = (session) => (Array.isArray(session.alarms) ? session.alarms : []);
  function urgency(session) {
    const alarms = alarms_of(session);
    if (alarms.some((alarm) => alarm.severity === 'critical')) return 0;
    if (alarms.length) return 1;
    return session.state === 'running' || session.state === 'draining' ? 2 : 3;
  }

  function alarm_cell(session) {
    const alarms = alarms_of(session);
    if (!alarms.length) return ice.el('td', { class: 'quiet', text: 'none' });
    const worst = alarms.some((alarm) => alarm.severity === 'critical') ? 'critical' : 'warning';
    const names = alarms.map((alarm) => (alarm.alarm || alarm.name || '').replace(/_/g, ' '));
    return ice.el('td', {}, ice.el('span', { class: 'badge ' + worst, title: alarms.map((alarm) => alarm.text || '').join('\n'),
      text: '▲ ' + names.slice(0, 2).join(', ') + (names.length > 2 ? ' and ' + (names.length - 2) + ' more' : '') }));
  }

  function paint() {
    const shown = list.filter((it) => !find || it.name.toLowerCase().includes(find))
      .sort((a, b) => urgency(a) - urgency(b) || (b.changed || 0) - (a.changed || 0) || (a.name < b.name ? -1 : 1));
    const number = (value, mark) => ice.el('td', { class: 'number', text: (value && mark ? mark + ' ' : '') + ice.count(value) });
    ice.fill(parts.rows, shown.map((session) => {
      const counts = counts_of(session);
      return ice.el('tr', { 'data-session': session.name },
        ice.el('th', { scope: 'row' }, ice.el('a', { href: 's/' + encodeURIComponent(session.name) + '/', text: session.name })),
        ice.el('td', {}, ice.el('span', { class: 'pill ' + (session.state || ''), title: session.message || null, text: (MARKS[session.state] || '') + ' ' + (session.state || 'unreadable') }),
          session.adds_up === false ? ice.el('span', { class: 'hot', text: ' ▲ counts do not add up' }) : ''),
        alarm_cell(session), number(counts.seen), number(counts.done), number(counts.rejected, '✕'), number(counts.failed, '▲'),
        ice.el('td', { class: 'number', text: ice.clock(session.changed) }));
    }), shown.length ? null : ice.el('tr', {}, ice.el('td', { colspan: 8, class: 'quiet', text: list.length ? 'No session has this in its name.' : 'This folder has no session yet.' })));
    const running = list.filter((it) => urgency(it) <= 2 && (it.state === 'running' || it.state === 'draining')).length;
    const text = ice.plural(list.length, 'session') + ', ' + running + ' running, ' + list.filter((it) => alarms_of(it).length).length + ' with alarms';
    ice.text(parts.note, text);
  }

  async function load() {
    if (document.hidden) return;
    try {
      const answer = await ice.api('api/sessions');
      list = answer.sessions || [];
      paint();
    } catch (error) {
      ice.text(parts.note, 'no connection');
    }
  }

  /* A session of many has a way back to the list. */
  ice.store.subscribe('session', () => {
    const who = document.querySelector('#head .who');
    if (/\/s\/[^/]+\/$/.test(location.pathname) && who && !document.getElementById('all-sessions')) {
      who.prepend(ice.el('a', { id: 'all-sessions', href: '../../', text: '‹ sessions' }));
    }
  });

  /* Shows the list instead of a session. Resolves with false where the server has one session. */
  ice.show_facility = async function () {
    let answer;
    try {
      answer = await ice.api('api/sessions');
    } catch (error) {
      return false;
    }
    list = answer.sessions || [];
    document.title = 'Sessions · icestream';
    document.getElementById('tabs').hidden = true;
    draw(document.getElementById('main'), document.getElementById('head'));
    parts.folder.textContent = answer.folder || '';
    paint();
    setInterval(load, EVERY);
    document.addEventListener('visibilitychange', load);
    return true;
  };
})(window.ice);
